#include "memory/registry.h"

#include <array>
#include <mutex>
#include <unordered_map>

namespace weft::memory {
namespace {

struct Entry {
  std::uint64_t owner;
  std::weak_ptr<detail::BufferState> state;
};

/// Sharded by id so that threads that make buffers in a row rarely meet.
struct Shard {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Entry> entries;
};

Shard& shard_of(std::uint64_t id) {
  // Never destroyed: buffers in static storage may be dropped after main returns.
  static auto* shards = new std::array<Shard, 16>();
  return (*shards)[id % 16];
}

}  // namespace

void register_buffer(std::uint64_t id, std::uint64_t owner, const std::shared_ptr<detail::BufferState>& state) {
  Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  shard.entries.emplace(id, Entry{owner, state});
}

void unregister_buffer(std::uint64_t id) noexcept {
  Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  shard.entries.erase(id);
}

std::optional<Found> find_buffer(std::uint64_t id) {
  Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  const auto it = shard.entries.find(id);
  if (it == shard.entries.end()) return std::nullopt;
  return Found{it->second.owner, it->second.state.lock()};
}

}  // namespace weft::memory
