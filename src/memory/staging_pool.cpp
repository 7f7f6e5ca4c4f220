#include "memory/staging_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "weft/error.h"

namespace weft::memory {
namespace {

std::size_t class_of(std::uint64_t size) noexcept {
  return static_cast<std::size_t>(std::bit_width(size - 1));
}

bool pending(const Staging& s) noexcept {
  return s.map->status.load(std::memory_order_acquire) == webgpu::Gpu::MapStatus::pending;
}

}  // namespace

StagingPool::~StagingPool() {
  destroy(parked_);
  for (List& list : free_) destroy(list);
}

std::unique_ptr<Staging> StagingPool::create(std::uint64_t size) {
  auto staging = std::make_unique<Staging>();
  staging->size = size;
  staging->buffer =
      gpu_.create_buffer(size, webgpu::buffer_usage::kMapRead | webgpu::buffer_usage::kCopyDst, false, "weft.staging");
  return staging;
}

std::unique_ptr<Staging> StagingPool::acquire(std::uint64_t size) {
  collect_parked();
  // A power of two, or the limit, when that is no power of two and the next one is over it.
  const std::uint64_t wanted =
      std::min(std::bit_ceil(std::max<std::uint64_t>(size, 4096)), std::max(size, gpu_.limits().max_buffer_size));
  {
    const std::lock_guard lock(mutex_);
    List& list = free_[class_of(wanted)];
    if (!list.empty()) {
      std::unique_ptr<Staging> staging(list.newest());
      list.remove(staging.get());
      free_bytes_ -= wanted;
      ++stats_.hits;
      return staging;
    }
  }
  std::unique_ptr<Staging> staging;
  try {
    staging = create(wanted);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    trim();
    gpu_.poll();  // lets the implementation free what it still held
    staging = create(wanted);
  }
  const std::lock_guard lock(mutex_);
  ++stats_.allocations;
  stats_.bytes += wanted;
  return staging;
}

void StagingPool::release(std::unique_ptr<Staging> staging) noexcept {
  List victims;
  {
    const std::lock_guard lock(mutex_);
    // One large view must not push out the pieces that all large reads share.
    if (staging->size > cap_ / 4 || gpu_.lost()) {
      stats_.bytes -= staging->size;
      victims.push_newest(staging.release());
    } else {
      // Over the cap: the largest classes go first, since each of them frees the most for one later allocation.
      for (std::size_t i = free_.size(); i-- > 0 && free_bytes_ + staging->size > cap_;) {
        while (!free_[i].empty() && free_bytes_ + staging->size > cap_) {
          Staging* victim = free_[i].pop_oldest();
          free_bytes_ -= victim->size;
          stats_.bytes -= victim->size;
          victims.push_newest(victim);
        }
      }
      free_bytes_ += staging->size;
      List& list = free_[class_of(staging->size)];
      list.push_newest(staging.release());
    }
  }
  destroy(victims);
}

void StagingPool::park(std::unique_ptr<Staging> staging, std::shared_ptr<webgpu::Gpu::MapState> state) noexcept {
  staging->map = std::move(state);
  const std::lock_guard lock(mutex_);
  parked_.push_newest(staging.release());
}

void StagingPool::drop(std::unique_ptr<Staging> staging) noexcept {
  const std::lock_guard lock(mutex_);
  stats_.bytes -= staging->size;
}

void StagingPool::collect_parked() noexcept {
  List settled;
  {
    const std::lock_guard lock(mutex_);
    for (Staging* s = parked_.oldest(); s != nullptr;) {
      Staging* const next = s->links.newer;
      if (!pending(*s)) {
        parked_.remove(s);
        settled.push_newest(s);
      }
      s = next;
    }
  }
  while (!settled.empty()) {
    std::unique_ptr<Staging> s(settled.pop_oldest());
    const auto map = std::exchange(s->map, nullptr);
    if (map->status.load(std::memory_order_acquire) == webgpu::Gpu::MapStatus::ready) {
      gpu_.unmap(s->buffer.get());
      release(std::move(s));
    } else {
      drop(std::move(s));
    }
  }
}

void StagingPool::trim() noexcept {
  collect_parked();
  List victims;
  {
    const std::lock_guard lock(mutex_);
    for (List& list : free_) {
      while (Staging* s = list.pop_oldest()) victims.push_newest(s);
    }
    stats_.bytes -= free_bytes_;
    free_bytes_ = 0;
  }
  destroy(victims);
}

void StagingPool::destroy(List& list) noexcept {
  while (Staging* s = list.pop_oldest()) delete s;
}

StagingStats StagingPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace weft::memory
