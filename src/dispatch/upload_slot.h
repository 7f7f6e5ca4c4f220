// Uploads whose bytes are written where the device takes them from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "memory/upload_staging.h"
#include "weft/buffer.h"
#include "weft/device.h"

namespace weft::dispatch {

/// A piece of staging memory for uploads that come again and again: a file is read straight into it, and no thread
/// copies it once more. May be handed from thread to thread; one at a time.
class UploadSlot {
 public:
  explicit UploadSlot(const Device& device) noexcept : device_(device) {}

  /// `size` bytes to be written, and not to be read: that may be very slow. Waits until the device has taken what was
  /// sent before, up to the device's wait_timeout. Throws Error{out_of_memory}, {timed_out} or {device_lost}.
  std::span<std::byte> bytes(std::uint64_t size);
  /// A new buffer with what was written into the last bytes(). The device copies it after all work that was submitted
  /// before, and before what is recorded from now on. Throws as Device::alloc does.
  Buffer send();

 private:
  Device device_;  // first: the staging memory goes before it
  std::unique_ptr<memory::UploadStaging> staging_;
  std::uint64_t size_ = 0;
};

}  // namespace weft::dispatch
