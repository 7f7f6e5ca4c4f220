// Device memory kept for reuse.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "memory/allocation.h"
#include "webgpu/gpu.h"
#include "weft/memory_report.h"

namespace weft::memory {

/// The size that a request for `size` bytes is rounded up to: powers of two up to 4 KiB, from there four steps per
/// power of two (at most 25 % waste), from 64 MiB multiples of 1 MiB. Never above `limit` unless size itself is.
std::uint64_t size_class(std::uint64_t size, std::uint64_t limit);

struct PoolStats {
  std::uint64_t allocations = 0, hits = 0, releases = 0, evictions = 0;
  std::uint64_t live_bytes = 0, retained_bytes = 0, peak_bytes = 0;
};

/// Keeps released allocations up to a byte cap; gives the best fit of the same usage below twice the asked size; evicts
/// the least recently released first. Any thread. Reuse needs no wait for the GPU: queue operations take effect in
/// order, and work recorded but not submitted is submitted first by whoever touches the memory next (stream.cpp).
class BufferPool {
 public:
  /// `on_destroy` is told the id of each allocation whose memory goes, with no lock held.
  BufferPool(webgpu::Gpu& gpu, std::uint64_t cap_bytes, std::function<void(std::uint64_t)> on_destroy);
  /// Frees what is retained, and tells nobody.
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Out of memory: trims, retries once, then throws Error{out_of_memory} with bytes asked, live and retained.
  std::unique_ptr<Allocation> acquire(std::uint64_t size, std::uint32_t usage);
  /// A fresh allocation, mapped for writing; never from the pool (only new buffers can be mapped in WebGPU).
  std::unique_ptr<Allocation> acquire_mapped(std::uint64_t size, std::uint32_t usage);
  /// Asks the host for no memory, nor does trim().
  void release(std::unique_ptr<Allocation> allocation) noexcept;
  /// Releases all that is retained.
  void trim() noexcept;
  PoolStats stats() const;
  std::uint64_t cap() const noexcept { return cap_; }
  /// By size, those with anything in them.
  std::vector<MemoryClass> classes() const;

 private:
  struct Key {
    std::uint32_t usage;
    std::uint64_t size;
    bool operator<(const Key& o) const noexcept { return usage != o.usage ? usage < o.usage : size < o.size; }
  };
  using ByAge = AgeList<Allocation, &Allocation::among_all>;
  using ByClassAge = AgeList<Allocation, &Allocation::among_class>;
  /// Allocations of one usage and size; made when the first comes to life, gone with the last.
  struct Class {
    std::uint64_t live = 0, retained = 0;
    ByClassAge free;
  };

  std::unique_ptr<Allocation> create(std::uint64_t size, std::uint32_t usage, bool mapped);
  std::unique_ptr<Allocation> make(std::uint64_t size, std::uint32_t usage, bool mapped);
  void count_live(Class& c, std::uint64_t size) noexcept;                            // lock held
  std::unique_ptr<Allocation> take_retained(Class& c, Allocation* chosen) noexcept;  // lock held
  void evict_to(std::uint64_t cap, ByAge& victims) noexcept;                         // lock held
  void destroy(ByAge& victims) noexcept;

  webgpu::Gpu& gpu_;
  const std::uint64_t cap_;
  const std::function<void(std::uint64_t)> on_destroy_;
  mutable std::mutex mutex_;
  ByAge retained_;  // owned; also in its class's list
  std::map<Key, Class> classes_;
  PoolStats stats_;
};

}  // namespace weft::memory
