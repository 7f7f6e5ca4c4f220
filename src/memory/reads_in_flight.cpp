#include "memory/reads_in_flight.h"

#include <utility>

namespace weft::memory {

void ReadsInFlight::forget_settled() noexcept {
  const auto settled = [](const Read& r) {
    return r.map->status.load(std::memory_order_acquire) != webgpu::Gpu::MapStatus::pending;
  };
  // The device answers in order.
  while (!reads_.empty() && settled(reads_.front())) {
    bytes_ -= reads_.front().size;
    reads_.pop_front();
  }
}

bool ReadsInFlight::has_room(std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  forget_settled();
  return reads_.empty() || (size <= bound_ && bytes_ <= bound_ - size);
}

bool ReadsInFlight::wait_for_room(std::uint64_t size, webgpu::Clock::time_point deadline) {
  if (has_room(size)) return true;
  return webgpu::wait_until([this] { gpu_.poll(); }, [&] { return gpu_.lost() || has_room(size); }, deadline);
}

void ReadsInFlight::add(std::uint64_t size, std::shared_ptr<webgpu::Gpu::MapState> map) {
  const std::lock_guard lock(mutex_);
  reads_.push_back({size, std::move(map)});
  bytes_ += size;
}

std::uint64_t ReadsInFlight::bytes() {
  const std::lock_guard lock(mutex_);
  forget_settled();
  return bytes_;
}

}  // namespace weft::memory
