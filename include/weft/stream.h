// weft/stream.h - work recorded in program order and submitted in batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "weft/buffer.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft {

namespace detail {
struct StreamState;
}

/// Records dispatches, copies and clears in program order, into one compute pass where it can, and submits them past a
/// count or a byte limit, at a readback, or on demand. Copies share the stream. Calls are serialised by the stream
/// itself, so any thread may use it; the order between threads is the order of their calls.
///
/// Work that one stream recorded on a buffer and another now touches is submitted first by the runtime.
class Stream {
 public:
  Stream() = default;

  /// Copies `size` bytes between buffers of this device, or within one; offsets and size are multiples of 4.
  void copy(const Buffer& from, std::size_t from_offset, const Buffer& to, std::size_t to_offset,
            std::size_t size) const;
  /// Zeroes [offset, offset + size), both multiples of 4.
  void clear(const Buffer& buffer, std::size_t offset, std::size_t size) const;
  /// Sends what was recorded to the queue; does not wait. Nothing recorded: nothing done.
  void submit() const;
  /// Submits and waits until this stream's work is done. Throws Error{timed_out} past the deadline, and what completion
  /// callbacks threw since the last call (see on_complete).
  void synchronize(ReadOptions options = {}) const;
  /// Batches of this stream sent so far: the serial of the last one, 0 before the first. What is recorded now gets
  /// submitted() + 1.
  std::uint64_t submitted() const;
  /// The highest serial known to be done, all before it included. Does not block; polls the device. May lag behind the
  /// device; reaches submitted() when asked again after the work is done.
  std::uint64_t completed() const;
  /// Submits, and has `done` called once, when all that was recorded here before is done, with null; or with an
  /// Error{device_lost} when the device goes before. On a thread of the device's own, callbacks of one device one after
  /// another in the order of these calls, with no lock of Weft's held: it may use the device in any way, wait on it
  /// included, and drop its last handle. What it throws comes out of the device's next synchronize, as Error{internal}
  /// with the text.
  void on_complete(std::function<void(const Error*)> done) const;
  /// Dispatches recorded and not yet submitted.
  std::size_t pending() const;

  /// For Weft's own layers.
  const std::shared_ptr<detail::StreamState>& state() const noexcept { return state_; }
  explicit Stream(std::shared_ptr<detail::StreamState> state) noexcept : state_(std::move(state)) {}

 private:
  std::shared_ptr<detail::StreamState> state_;
};

/// While one lives, ops that this thread calls on the stream's device record into this stream instead of the default
/// one, and Device::stream() gives it. Scopes nest; the innermost of a device counts. It is for the thread that made
/// it, whichever thread ends it; scopes may end in any order.
class StreamScope {
 public:
  explicit StreamScope(Stream stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  const Stream& stream() const noexcept;

  /// For Weft's own layers: the stream of this thread's innermost scope of the device, or null.
  static const Stream* of(const detail::DeviceState& device) noexcept;

  struct Entry;  // of a thread's list; outlives a scope that ends on another thread

 private:
  Entry* entry_;
};

}  // namespace weft
