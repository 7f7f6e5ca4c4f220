#include "memory/buffer_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "memory/ids.h"
#include "weft/error.h"

namespace weft::memory {

std::uint64_t size_class(std::uint64_t size, std::uint64_t limit) {
  constexpr std::uint64_t kSmallest = 64;
  constexpr std::uint64_t kPowersUpTo = std::uint64_t{4} << 10;
  constexpr std::uint64_t kQuartersUpTo = std::uint64_t{64} << 20;
  std::uint64_t rounded = 0;
  if (size <= kSmallest) {
    rounded = kSmallest;
  } else if (size <= kPowersUpTo) {
    rounded = std::bit_ceil(size);
  } else if (size <= kQuartersUpTo) {
    rounded = checked_align(size, std::bit_floor(size - 1) / 4, "allocation");
  } else {
    rounded = checked_align(size, std::uint64_t{1} << 20, "allocation");
  }
  return rounded <= limit ? rounded : checked_align(size, 4, "allocation");
}

BufferPool::BufferPool(webgpu::Gpu& gpu, std::uint64_t cap_bytes, std::function<void(std::uint64_t)> on_destroy)
    : gpu_(gpu), cap_(cap_bytes), on_destroy_(std::move(on_destroy)) {}

BufferPool::~BufferPool() {
  while (Allocation* a = retained_.pop_oldest()) delete a;
}

std::unique_ptr<Allocation> BufferPool::make(std::uint64_t size, std::uint32_t usage, bool mapped) {
  auto allocation = std::make_unique<Allocation>();
  allocation->buffer = gpu_.create_buffer(size, usage, mapped, "weft.buffer");
  allocation->id = mint_allocation_id();
  allocation->size = size;
  allocation->usage = usage;
  return allocation;
}

std::unique_ptr<Allocation> BufferPool::create(std::uint64_t size, std::uint32_t usage, bool mapped) {
  std::unique_ptr<Allocation> allocation;
  try {
    allocation = make(size, usage, mapped);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    trim();
    gpu_.poll();  // lets the implementation free what it still held
    try {
      allocation = make(size, usage, mapped);
    } catch (const Error& again) {
      if (again.code() != ErrorCode::out_of_memory) throw;
      const PoolStats s = stats();
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("{} bytes asked for with {} bytes live and {} retained, also after a trim: {}", size,
                              s.live_bytes, s.retained_bytes, again.message()),
                  "free buffers, or work in smaller pieces");
    }
  }
  const std::lock_guard lock(mutex_);
  count_live(classes_[Key{usage, size}], size);
  ++stats_.allocations;
  return allocation;
}

void BufferPool::count_live(Class& c, std::uint64_t size) noexcept {
  ++c.live;
  stats_.live_bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes + stats_.retained_bytes);
}

std::unique_ptr<Allocation> BufferPool::take_retained(Class& c, Allocation* chosen) noexcept {
  retained_.remove(chosen);
  c.free.remove(chosen);
  --c.retained;
  stats_.retained_bytes -= chosen->size;
  return std::unique_ptr<Allocation>(chosen);
}

std::unique_ptr<Allocation> BufferPool::acquire(std::uint64_t size, std::uint32_t usage) {
  const std::uint64_t wanted = size_class(size, gpu_.limits().max_buffer_size);
  {
    const std::lock_guard lock(mutex_);
    for (auto it = classes_.lower_bound(Key{usage, wanted});
         it != classes_.end() && it->first.usage == usage && it->first.size < 2 * wanted; ++it) {
      Class& c = it->second;
      if (c.free.empty()) continue;
      std::unique_ptr<Allocation> allocation = take_retained(c, c.free.newest());
      ++stats_.hits;
      count_live(c, allocation->size);
      return allocation;
    }
  }
  return create(wanted, usage, false);
}

std::unique_ptr<Allocation> BufferPool::acquire_mapped(std::uint64_t size, std::uint32_t usage) {
  return create(size_class(size, gpu_.limits().max_buffer_size), usage, true);
}

void BufferPool::release(std::unique_ptr<Allocation> allocation) noexcept {
  ByAge victims;
  {
    const std::lock_guard lock(mutex_);
    const auto at = classes_.find(Key{allocation->usage, allocation->size});
    Class& c = at->second;
    ++stats_.releases;
    stats_.live_bytes -= allocation->size;
    --c.live;
    if (allocation->size > cap_ || gpu_.lost()) {
      ++stats_.evictions;
      victims.push_newest(allocation.release());
      if (c.live + c.retained == 0) classes_.erase(at);
    } else {
      stats_.retained_bytes += allocation->size;
      ++c.retained;
      c.free.push_newest(allocation.get());
      retained_.push_newest(allocation.release());
      evict_to(cap_, victims);
    }
  }
  destroy(victims);
}

void BufferPool::evict_to(std::uint64_t cap, ByAge& victims) noexcept {
  while (stats_.retained_bytes > cap) {
    Allocation* oldest = retained_.oldest();
    const auto at = classes_.find(Key{oldest->usage, oldest->size});
    victims.push_newest(take_retained(at->second, oldest).release());
    ++stats_.evictions;
    if (at->second.live + at->second.retained == 0) classes_.erase(at);
  }
}

void BufferPool::destroy(ByAge& victims) noexcept {
  while (Allocation* victim = victims.pop_oldest()) {
    const std::uint64_t id = victim->id;
    delete victim;
    on_destroy_(id);
  }
}

void BufferPool::trim() noexcept {
  ByAge victims;
  {
    const std::lock_guard lock(mutex_);
    evict_to(0, victims);
  }
  destroy(victims);
}

std::vector<MemoryClass> BufferPool::classes() const {
  std::map<std::uint64_t, MemoryClass> by_size;  // whatever the usage
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, c] : classes_) {
      MemoryClass& sum = by_size[key.size];
      sum.live += c.live;
      sum.retained += c.retained;
    }
  }
  std::vector<MemoryClass> out;
  out.reserve(by_size.size());
  for (const auto& [size, c] : by_size) out.push_back({size, c.live, c.retained});
  return out;
}

PoolStats BufferPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace weft::memory
