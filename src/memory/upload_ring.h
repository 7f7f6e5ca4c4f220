// Large uploads: staging buffers that live on and are mapped again after each use.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "memory/copy_threads.h"
#include "memory/upload_staging.h"
#include "webgpu/gpu.h"

namespace weft::memory {

/// Sends bytes in pieces through kSlots staging buffers: while the device copies one piece, the host fills the next
/// (webgpu-facts: 22 to 28 GB/s on an H200 where a queue write brings 4). Any thread; large uploads take turns.
class UploadRing {
 public:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::uint64_t kPiece = std::uint64_t{16} << 20;

  /// `counted` gets the bytes of staging memory held.
  UploadRing(webgpu::Gpu& gpu, CopyThreads& threads, std::atomic<std::uint64_t>& counted)
      : gpu_(gpu), threads_(threads), counted_(counted) {}

  /// Copies `bytes` (whole words) to `to` at `offset`. Returns when the last byte is out of `bytes`; the device may
  /// still be copying. Work submitted before happens before, work submitted after happens after. Throws
  /// Error{timed_out} when a staging buffer does not come back before `deadline`: then a prefix of the bytes may have
  /// been written.
  void upload(WGPUBuffer to, std::uint64_t offset, std::span<const std::byte> bytes,
              webgpu::Clock::time_point deadline);
  /// Releases the staging buffers, unless an upload is running.
  void trim();

 private:
  webgpu::Gpu& gpu_;
  CopyThreads& threads_;
  std::atomic<std::uint64_t>& counted_;
  std::mutex mutex_;
  std::array<std::optional<UploadStaging>, kSlots> slots_;
  std::size_t next_ = 0;
};

}  // namespace weft::memory
