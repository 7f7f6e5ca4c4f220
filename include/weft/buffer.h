// weft/buffer.h - handles to device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace weft {

class Device;

namespace detail {
struct BufferState;
}

/// What a buffer may be used for; combine with `|`. The values are WebGPU's own bits.
enum class Usage : std::uint32_t {
  copy_src = 0x4,
  copy_dst = 0x8,
  uniform = 0x40,
  storage = 0x80,
  indirect = 0x100,
};
constexpr Usage operator|(Usage a, Usage b) noexcept {
  return static_cast<Usage>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
/// True when every bit of `wanted` is in `have`.
constexpr bool has(Usage have, Usage wanted) noexcept {
  return (static_cast<std::uint32_t>(have) & static_cast<std::uint32_t>(wanted)) == static_cast<std::uint32_t>(wanted);
}
std::string to_string(Usage usage);

/// Storage that kernels read and write and that transfers reach: what `Device::alloc` gives when not told otherwise.
inline constexpr Usage kDefaultUsage = Usage::storage | Usage::copy_src | Usage::copy_dst;

/// A buffer by name: keeps nothing alive. Equal when both numbers are; printing shows both.
struct BufferRef {
  std::uint64_t owner = 0;  ///< Device::id() of the device that owns it
  std::uint64_t id = 0;     ///< Buffer::id()
  bool operator==(const BufferRef&) const = default;
};
/// "buffer 7 of device 1".
std::string to_string(const BufferRef& ref);

/// A cheap-to-copy handle to device memory.
///
/// Ownership: copies share one state; when the last copy goes, the memory returns to its device's pool (or is released
/// when the device is gone). Threads: any thread may copy, read the accessors of, and drop handles; the contents are
/// ordered by the streams that use them. A moved-from or default-constructed handle is empty: `if (buffer)` is false
/// and every accessor but operator bool throws Error{invalid_argument}.
class Buffer {
 public:
  Buffer() = default;

  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// Process-wide, starts at 1, never reused; all copies share it, a recycled allocation gets a new one.
  std::uint64_t id() const;
  /// Id of the device that owns this buffer; see Device::id().
  std::uint64_t owner() const;
  /// Bytes that were asked for.
  std::size_t size() const;
  /// Bytes of device memory behind the handle: at least size(), a multiple of 4.
  std::size_t allocation_size() const;
  /// Names the device memory itself: survives return to the pool and reuse, differs between allocations, never reused.
  std::uint64_t allocation_id() const;
  Usage usage() const;

  /// Names this buffer and its owner in two numbers; Device::resident turns it into a handle again.
  BufferRef ref() const { return {owner(), id()}; }

  bool operator==(const Buffer& other) const noexcept { return state_ == other.state_; }

  /// "Buffer(id=7, size=1000, allocation_size=1024, usage=storage|copy_src)".
  std::string debug_string() const;

  /// For Weft's own layers.
  const std::shared_ptr<detail::BufferState>& state() const noexcept { return state_; }
  explicit Buffer(std::shared_ptr<detail::BufferState> state) noexcept : state_(std::move(state)) {}

 private:
  std::shared_ptr<detail::BufferState> state_;
};

}  // namespace weft

template <>
struct std::hash<weft::BufferRef> {
  std::size_t operator()(const weft::BufferRef& ref) const noexcept {
    return std::hash<std::uint64_t>()(ref.owner * 0x9e3779b97f4a7c15u ^ ref.id);
  }
};
