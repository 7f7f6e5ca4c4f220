// Host-visible memory that reads go through.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "webgpu/gpu.h"

namespace weft::memory {

/// One MAP_READ buffer.
struct Staging {
  webgpu::BufferHandle buffer;
  std::uint64_t size = 0;
};

struct StagingStats {
  std::uint64_t allocations = 0, hits = 0;
  std::uint64_t bytes = 0;  ///< in use, parked or kept
};

/// Power-of-two classes, most recently used first, bounded by bytes. A buffer whose map is still on its way when its
/// reader gave up is parked and comes back when the late callback has come (rule 2). Any thread.
class StagingPool {
 public:
  StagingPool(webgpu::Gpu& gpu, std::uint64_t cap_bytes) : gpu_(gpu), cap_(cap_bytes) {}

  std::unique_ptr<Staging> acquire(std::uint64_t size);
  /// `staging` must be unmapped.
  void release(std::unique_ptr<Staging> staging) noexcept;
  /// Takes a buffer whose map `state` has not settled, or has and was not looked at.
  void park(std::unique_ptr<Staging> staging, std::shared_ptr<webgpu::Gpu::MapState> state) noexcept;
  /// For a buffer that is of no more use: its map failed.
  void drop(std::unique_ptr<Staging> staging) noexcept;
  void trim() noexcept;
  StagingStats stats() const;

 private:
  struct Parked {
    std::unique_ptr<Staging> staging;
    std::shared_ptr<webgpu::Gpu::MapState> state;
  };
  /// Moves settled parked buffers out; no lock held while they are unmapped.
  void collect_parked() noexcept;

  webgpu::Gpu& gpu_;
  const std::uint64_t cap_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::vector<std::unique_ptr<Staging>>> free_;  // by class; back: released last
  std::uint64_t free_bytes_ = 0;
  std::vector<Parked> parked_;
  StagingStats stats_;
};

}  // namespace weft::memory
