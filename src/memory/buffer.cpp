#include "weft/buffer.h"

#include <fmt/format.h>

#include "memory/memory.h"
#include "weft/error.h"

namespace weft {
namespace {
const detail::BufferState& state_of(const std::shared_ptr<detail::BufferState>& state) {
  if (!state) {
    throw Error(ErrorCode::invalid_argument, "the buffer handle is empty",
                "use a handle that Device::alloc gave and that was not moved from");
  }
  return *state;
}
}  // namespace

std::uint64_t Buffer::id() const {
  return state_of(state_).id;
}
std::uint64_t Buffer::owner() const {
  return state_of(state_).owner;
}
std::size_t Buffer::size() const {
  return static_cast<std::size_t>(state_of(state_).size);
}
std::size_t Buffer::allocation_size() const {
  return static_cast<std::size_t>(state_of(state_).allocation->size);
}
std::uint64_t Buffer::allocation_id() const {
  return state_of(state_).allocation->id;
}
Usage Buffer::usage() const {
  return static_cast<Usage>(state_of(state_).allocation->usage);
}

std::string Buffer::debug_string() const {
  if (!state_) return "Buffer(empty)";
  return fmt::format("Buffer(id={}, size={}, allocation_size={}, usage={})", id(), size(), allocation_size(),
                     to_string(usage()));
}

std::string to_string(const BufferRef& ref) {
  return fmt::format("buffer {} of device {}", ref.id, ref.owner);
}

std::string to_string(Usage usage) {
  struct Name {
    Usage bit;
    const char* name;
  };
  static constexpr Name kNames[] = {{Usage::storage, "storage"},
                                    {Usage::uniform, "uniform"},
                                    {Usage::indirect, "indirect"},
                                    {Usage::copy_src, "copy_src"},
                                    {Usage::copy_dst, "copy_dst"}};
  std::string out;
  for (const Name& n : kNames) {
    if (has(usage, n.bit)) out += (out.empty() ? "" : "|") + std::string(n.name);
  }
  return out.empty() ? "none" : out;
}

}  // namespace weft
