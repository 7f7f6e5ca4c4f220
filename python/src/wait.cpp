// Waits that Ctrl-C ends: slices without the interpreter's lock, signals looked at in between.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "trace.h"
#include "weft_python.h"

namespace weft::python {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSlice{50};
/// Smaller reads wait for their own bytes only; a large one first waits for the work, then copies in one go, since a
/// readback of its own would need staging memory of its size.
constexpr std::size_t kLargeRead = std::size_t{8} << 20;

std::chrono::nanoseconds limit_of(const Device& device, Timeout timeout) {
  if (!timeout) return device.wait_timeout();
  if (!(*timeout >= 0)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("timeout is {} s", *timeout),
                "give seconds from 0 on, or None for the device's own");
  }
  constexpr double kLongest = 1e9;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(*timeout, kLongest) * 1e9));
}

/// Calls `attempt(slice)` until it no longer throws timed_out. Called with the interpreter's lock.
template <class F>
void in_slices(std::chrono::nanoseconds limit, F&& attempt) {
  const auto start = Clock::now();
  for (;;) {
    const auto left = std::max(limit - std::chrono::nanoseconds(Clock::now() - start), std::chrono::nanoseconds(0));
    try {
      const ReleaseGil released;
      attempt(std::min<std::chrono::nanoseconds>(left, kSlice));
      return;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::timed_out) throw;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (Clock::now() - start >= limit) {
      throw Error(ErrorCode::timed_out,
                  fmt::format("the work was not done after {} s", std::chrono::duration<double>(limit).count()),
                  "give a longer timeout, set WEFT_WAIT_TIMEOUT, or split the work");
    }
  }
}

}  // namespace

void read_interruptibly(const Tensor& tensor, std::span<std::byte> out, Timeout timeout) {
  refuse_in_trace("reading an array's elements");
  const auto limit = limit_of(tensor.device(), timeout);
  if (out.empty()) return;
  Tensor dense;
  Readback readback;
  {
    const ReleaseGil released;
    dense = contiguous(tensor);
    if (out.size() < kLargeRead) {
      Device device = dense.device();
      readback = device.read_async(dense.buffer(), static_cast<std::size_t>(dense.offset()) * size_of(dense.dtype()),
                                   out.size());
    }
  }
  if (out.size() < kLargeRead) {
    in_slices(limit, [&](std::chrono::nanoseconds slice) {
      readback.wait({.deadline = slice});
      const auto bytes = readback.view();
      std::memcpy(out.data(), bytes.data(), out.size());
    });
    const ReleaseGil released;
    readback = Readback();
    return;
  }
  synchronize_interruptibly(dense.device(), timeout);
  const ReleaseGil released;
  dense.read_into(out);
}

void synchronize_interruptibly(Device device, Timeout timeout) {
  refuse_in_trace("synchronize()");
  in_slices(limit_of(device, timeout),
            [&](std::chrono::nanoseconds slice) { device.synchronize({.deadline = slice}); });
}

}  // namespace weft::python
