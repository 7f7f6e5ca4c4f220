// Back-pressure of reads.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "webgpu/gpu.h"

namespace weft::memory {

/// Bounds the staging memory of reads that the device has not answered yet. A read that has arrived counts no more,
/// though its owner may hold on to its bytes: nobody waits for what only another caller can end. Any thread.
class ReadsInFlight {
 public:
  ReadsInFlight(webgpu::Gpu& gpu, std::uint64_t bound) : gpu_(gpu), bound_(bound) {}

  /// Waits until `size` more bytes are within the bound; one read alone always is. False when the deadline passed
  /// first. Threads that wait together may each go over by their own read.
  bool wait_for_room(std::uint64_t size, webgpu::Clock::time_point deadline);
  /// Counts a read until `map` settles.
  void add(std::uint64_t size, std::shared_ptr<webgpu::Gpu::MapState> map);
  /// What is in flight now.
  std::uint64_t bytes();
  std::uint64_t bound() const noexcept { return bound_; }

 private:
  struct Read {
    std::uint64_t size;
    std::shared_ptr<webgpu::Gpu::MapState> map;
  };
  bool has_room(std::uint64_t size);
  void forget_settled() noexcept;  // lock held

  webgpu::Gpu& gpu_;
  const std::uint64_t bound_;
  std::mutex mutex_;
  std::deque<Read> reads_;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::memory
