// Host memory that the device copies out of.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "webgpu/gpu.h"

namespace weft::memory {

/// One MAP_WRITE buffer, which lives on: filled by the host while it is mapped, copied from by the device, mapped
/// again. One thread at a time.
class UploadStaging {
 public:
  /// `size` in whole words. Makes the buffer, mapped; `counted` gets its bytes while it lives, and outlives it. Throws
  /// Error{out_of_memory}.
  UploadStaging(webgpu::Gpu& gpu, std::uint64_t size, std::atomic<std::uint64_t>& counted);
  ~UploadStaging();
  UploadStaging(const UploadStaging&) = delete;
  UploadStaging& operator=(const UploadStaging&) = delete;

  std::uint64_t size() const noexcept { return size_; }
  /// The memory, to be written only: reading it back may be very slow. Waits until the device has copied what was sent
  /// before. Error{timed_out} past `deadline`, or {device_lost}; {out_of_memory} when it had to be made anew.
  std::span<std::byte> writable(webgpu::Clock::time_point deadline);
  /// Submits a copy of the first `n` bytes (whole words) to `to` at `offset`. When it throws, this object is of no
  /// more use.
  void send(WGPUBuffer to, std::uint64_t offset, std::uint64_t n);

 private:
  void create();

  webgpu::Gpu& gpu_;
  const std::uint64_t size_;
  std::atomic<std::uint64_t>& counted_;
  webgpu::BufferHandle buffer_;
  std::shared_ptr<webgpu::Gpu::MapState> map_;  ///< null: mapped since creation
};

}  // namespace weft::memory
