#include "memory/staging_pool.h"

#include <algorithm>
#include <bit>

namespace weft::memory {

std::unique_ptr<Staging> StagingPool::acquire(std::uint64_t size) {
  collect_parked();
  const std::uint64_t wanted =
      std::min(std::bit_ceil(std::max<std::uint64_t>(size, 4096)), std::max(size, gpu_.limits().max_buffer_size));
  {
    const std::lock_guard lock(mutex_);
    const auto it = free_.find(wanted);
    if (it != free_.end() && !it->second.empty()) {
      std::unique_ptr<Staging> staging = std::move(it->second.back());
      it->second.pop_back();
      free_bytes_ -= wanted;
      ++stats_.hits;
      return staging;
    }
  }
  auto staging = std::make_unique<Staging>();
  staging->size = wanted;
  staging->buffer = gpu_.create_buffer(
      wanted, static_cast<std::uint32_t>(WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst), false, "weft.staging");
  const std::lock_guard lock(mutex_);
  ++stats_.allocations;
  stats_.bytes += wanted;
  return staging;
}

void StagingPool::release(std::unique_ptr<Staging> staging) noexcept {
  std::vector<std::unique_ptr<Staging>> victims;
  const std::lock_guard lock(mutex_);
  if (staging->size > cap_ || gpu_.lost()) {
    stats_.bytes -= staging->size;
    victims.push_back(std::move(staging));
    return;
  }
  // Over the cap: the largest classes go first, since each of them frees the most for one later allocation.
  for (auto it = free_.rbegin(); it != free_.rend() && free_bytes_ + staging->size > cap_; ++it) {
    while (!it->second.empty() && free_bytes_ + staging->size > cap_) {
      free_bytes_ -= it->first;
      stats_.bytes -= it->first;
      victims.push_back(std::move(it->second.front()));
      it->second.erase(it->second.begin());
    }
  }
  free_bytes_ += staging->size;
  auto& list = free_[staging->size];
  list.push_back(std::move(staging));
}

void StagingPool::park(std::unique_ptr<Staging> staging, std::shared_ptr<webgpu::Gpu::MapState> state) noexcept {
  const std::lock_guard lock(mutex_);
  parked_.push_back({std::move(staging), std::move(state)});
}

void StagingPool::drop(std::unique_ptr<Staging> staging) noexcept {
  const std::lock_guard lock(mutex_);
  stats_.bytes -= staging->size;
}

void StagingPool::collect_parked() noexcept {
  std::vector<Parked> settled;
  {
    const std::lock_guard lock(mutex_);
    if (parked_.empty()) return;
    const auto pending = [](const Parked& p) {
      return p.state->status.load(std::memory_order_acquire) == webgpu::Gpu::MapStatus::pending;
    };
    const auto first = std::stable_partition(parked_.begin(), parked_.end(), pending);
    settled.assign(std::make_move_iterator(first), std::make_move_iterator(parked_.end()));
    parked_.erase(first, parked_.end());
  }
  for (Parked& p : settled) {
    if (p.state->status.load(std::memory_order_acquire) == webgpu::Gpu::MapStatus::ready) {
      gpu_.unmap(p.staging->buffer.get());
      release(std::move(p.staging));
    } else {
      drop(std::move(p.staging));
    }
  }
}

void StagingPool::trim() noexcept {
  collect_parked();
  std::map<std::uint64_t, std::vector<std::unique_ptr<Staging>>> victims;
  const std::lock_guard lock(mutex_);
  victims.swap(free_);
  stats_.bytes -= free_bytes_;
  free_bytes_ = 0;
}

StagingStats StagingPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace weft::memory
