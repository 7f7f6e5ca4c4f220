#include "memory/queue_writes.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/error.h"

namespace weft::memory {

bool QueueWrites::has_room(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  while (!sent_.empty() && sent_.front().done->load(std::memory_order_acquire)) {  // the device answers in order
    on_the_way_ -= sent_.front().bytes;
    sent_.pop_front();
  }
  return sent_.empty() || (bytes <= kMost && on_the_way_ + unsent_ <= kMost - bytes);
}

void QueueWrites::wait_for_room(std::uint64_t bytes, webgpu::Clock::time_point deadline) {
  if (has_room(bytes)) return;
  const bool in_time =
      webgpu::wait_until([this] { gpu_.poll(); }, [&] { return gpu_.lost() || has_room(bytes); }, deadline);
  gpu_.check_alive("upload");
  if (in_time) return;
  throw Error(ErrorCode::timed_out,
              fmt::format("upload of {} bytes: the device did not take earlier ones before the deadline", bytes),
              "raise WEFT_WAIT_TIMEOUT, or split the work in front of the upload");
}

void QueueWrites::send_locked() {
  gpu_.submit_writes();
  sent_.push_back({unsent_, gpu_.signal_done()});
  on_the_way_ += unsent_;
  unsent_ = 0;
}

void QueueWrites::note_locked(std::uint64_t bytes) {
  unsent_ += std::max(bytes, kLeast);
  if (unsent_ >= kSend) send_locked();
}

void QueueWrites::write(WGPUBuffer to, std::uint64_t offset, std::span<const std::byte> bytes,
                        webgpu::Clock::time_point deadline) {
  wait_for_room(bytes.size(), deadline);
  const std::lock_guard lock(mutex_);
  gpu_.write_buffer(to, offset, bytes);
  note_locked(bytes.size());
}

void QueueWrites::note(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  note_locked(bytes);
}

void QueueWrites::send() {
  const std::lock_guard lock(mutex_);
  if (unsent_ > 0) send_locked();
}

}  // namespace weft::memory
