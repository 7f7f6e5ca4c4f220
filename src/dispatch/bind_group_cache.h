// Bind groups kept for reuse.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "webgpu/handles.h"

namespace weft::dispatch {

/// One bound range as the cache knows it: by allocation id, never by handle or address (rule 3). No initialisers, as
/// for Operand.
struct BoundRange {
  std::uint64_t allocation;
  std::uint64_t offset;
  std::uint64_t size;
  bool operator==(const BoundRange&) const = default;
};

struct BindGroupStats {
  std::uint64_t hits = 0, misses = 0, evictions = 0, entries = 0;
};

/// Exact LRU over (layout, ranges in order). A look-up allocates nothing; the factory runs with no lock held; entries
/// that name a destroyed allocation go at once, found by an index. An entry can't come back for a destroyed allocation:
/// who inserts holds handles of all its buffers, and memory is destroyed only after the last handle went. Any thread.
class BindGroupCache {
 public:
  /// A bind group and its serial, never given twice: what an open pass compares, since a freed handle's address comes
  /// back.
  struct Cached {
    webgpu::BindGroup handle;
    std::uint64_t serial = 0;
  };
  using Group = std::shared_ptr<const Cached>;

  /// At least one entry is kept.
  explicit BindGroupCache(std::size_t cap) : cap_(cap == 0 ? 1 : cap) {}

  template <class Factory>
  Group get_or_create(std::uint64_t layout, std::span<const BoundRange> ranges, Factory&& factory) {
    if (Group found = find(layout, ranges)) return found;
    auto made = std::make_shared<const Cached>(Cached{factory(), next_serial()});
    return insert(layout, ranges, std::move(made));
  }

  /// Drops all entries that name the allocation. Safe for one that none names.
  void forget_allocation(std::uint64_t allocation) noexcept;
  BindGroupStats stats() const;

 private:
  struct Entry {
    std::uint64_t layout;
    std::vector<BoundRange> ranges;
    Group group;
  };
  using Lru = std::list<Entry>;  // front: used last

  Group find(std::uint64_t layout, std::span<const BoundRange> ranges);
  Group insert(std::uint64_t layout, std::span<const BoundRange> ranges, Group made);
  static std::uint64_t next_serial() noexcept;
  static std::uint64_t hash(std::uint64_t layout, std::span<const BoundRange> ranges) noexcept;
  Lru::iterator* lookup(std::uint64_t key, std::uint64_t layout, std::span<const BoundRange> ranges);
  void remove(Lru::iterator entry, Lru& removed);  // lock held; moves the entry to `removed`

  const std::size_t cap_;
  mutable std::mutex mutex_;
  Lru lru_;
  std::unordered_multimap<std::uint64_t, Lru::iterator> by_key_;
  std::unordered_multimap<std::uint64_t, Lru::iterator> by_allocation_;
  BindGroupStats stats_;
};

}  // namespace weft::dispatch
