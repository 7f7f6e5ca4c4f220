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
  ++stats_.allocations;
  count_live(size);
  return allocation;
}

void BufferPool::count_live(std::uint64_t size) {
  ++classes_[size].live;
  stats_.live_bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes + stats_.retained_bytes);
}

std::unique_ptr<Allocation> BufferPool::acquire(std::uint64_t size, std::uint32_t usage) {
  const std::uint64_t wanted = size_class(size, gpu_.limits().max_buffer_size);
  {
    const std::lock_guard lock(mutex_);
    const auto it = by_size_.lower_bound(Key{usage, wanted});
    if (it != by_size_.end() && it->first.usage == usage && it->first.size < 2 * wanted) {
      const auto node = it->second;
      std::unique_ptr<Allocation> allocation = std::move(node->allocation);
      by_size_.erase(it);
      free_.erase(node);
      stats_.retained_bytes -= allocation->size;
      --classes_[allocation->size].retained;
      ++stats_.hits;
      count_live(allocation->size);
      return allocation;
    }
  }
  return create(wanted, usage, false);
}

std::unique_ptr<Allocation> BufferPool::acquire_mapped(std::uint64_t size, std::uint32_t usage) {
  return create(size_class(size, gpu_.limits().max_buffer_size), usage, true);
}

void BufferPool::release(std::unique_ptr<Allocation> allocation) noexcept {
  std::vector<std::unique_ptr<Allocation>> victims;
  {
    const std::lock_guard lock(mutex_);
    ++stats_.releases;
    stats_.live_bytes -= allocation->size;
    --classes_[allocation->size].live;
    if (allocation->size > cap_ || gpu_.lost()) {
      ++stats_.evictions;
      victims.push_back(std::move(allocation));
    } else {
      stats_.retained_bytes += allocation->size;
      ++classes_[allocation->size].retained;
      const Key key{allocation->usage, allocation->size};
      free_.push_front(Free{std::move(allocation), {}});
      free_.front().by_size = by_size_.emplace(key, free_.begin());
      victims = evict_to(cap_);
    }
  }
  destroy(std::move(victims));
}

std::vector<std::unique_ptr<Allocation>> BufferPool::evict_to(std::uint64_t cap) {
  std::vector<std::unique_ptr<Allocation>> victims;
  while (stats_.retained_bytes > cap) {
    Free& oldest = free_.back();
    stats_.retained_bytes -= oldest.allocation->size;
    --classes_[oldest.allocation->size].retained;
    ++stats_.evictions;
    by_size_.erase(oldest.by_size);
    victims.push_back(std::move(oldest.allocation));
    free_.pop_back();
  }
  return victims;
}

void BufferPool::destroy(std::vector<std::unique_ptr<Allocation>> victims) noexcept {
  for (std::unique_ptr<Allocation>& victim : victims) {
    const std::uint64_t id = victim->id;
    victim.reset();
    on_destroy_(id);
  }
}

void BufferPool::trim() noexcept {
  std::vector<std::unique_ptr<Allocation>> victims;
  {
    const std::lock_guard lock(mutex_);
    victims = evict_to(0);
  }
  destroy(std::move(victims));
}

std::vector<MemoryClass> BufferPool::classes() const {
  std::vector<MemoryClass> out;
  const std::lock_guard lock(mutex_);
  for (const auto& [size, c] : classes_) {
    if (c.live + c.retained > 0) out.push_back({size, c.live, c.retained});
  }
  return out;
}

PoolStats BufferPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace weft::memory
