// Host-visible memory that reads go through.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "memory/age_list.h"
#include "webgpu/gpu.h"

namespace weft::memory {

/// One MAP_READ buffer.
struct Staging {
  webgpu::BufferHandle buffer;
  std::uint64_t size = 0;

  // Of the pool, while it is there.
  std::shared_ptr<webgpu::Gpu::MapState> map;  ///< on its way, when it is parked
  AgeLinks<Staging> links;
};

struct StagingStats {
  std::uint64_t allocations = 0, hits = 0;
  std::uint64_t bytes = 0;  ///< in use, parked or kept
};

/// Power-of-two classes, most recently used first, bounded by bytes. A buffer whose map is still on its way when its
/// reader gave up is parked and comes back when the late callback has come (rule 2). Giving back asks the host for no
/// memory. Any thread.
class StagingPool {
 public:
  StagingPool(webgpu::Gpu& gpu, std::uint64_t cap_bytes) : gpu_(gpu), cap_(cap_bytes) {}
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  /// Out of memory: trims, retries once, then throws Error{out_of_memory}.
  std::unique_ptr<Staging> acquire(std::uint64_t size);
  /// `staging` must be unmapped.
  void release(std::unique_ptr<Staging> staging) noexcept;
  /// Takes a buffer whose map `state` has not settled, or has and was not looked at.
  void park(std::unique_ptr<Staging> staging, std::shared_ptr<webgpu::Gpu::MapState> state) noexcept;
  /// For a buffer that is of no more use: its map failed.
  void drop(std::unique_ptr<Staging> staging) noexcept;
  void trim() noexcept;
  StagingStats stats() const;
  std::uint64_t cap() const noexcept { return cap_; }

 private:
  using List = AgeList<Staging, &Staging::links>;

  std::unique_ptr<Staging> create(std::uint64_t size);
  /// Moves settled parked buffers out; no lock held while they are unmapped.
  void collect_parked() noexcept;
  static void destroy(List& list) noexcept;

  webgpu::Gpu& gpu_;
  const std::uint64_t cap_;
  mutable std::mutex mutex_;
  // Owned; all of a class have one size. By the size's power of two.
  std::array<List, 65> free_;
  List parked_;
  std::uint64_t free_bytes_ = 0;
  StagingStats stats_;
};

}  // namespace weft::memory
