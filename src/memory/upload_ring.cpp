#include "memory/upload_ring.h"

#include <algorithm>

#include "weft/error.h"

namespace weft::memory {

void UploadRing::upload(WGPUBuffer to, std::uint64_t offset, std::span<const std::byte> bytes,
                        webgpu::Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  while (!bytes.empty()) {
    std::optional<UploadStaging>& slot = slots_[next_];
    if (!slot) slot.emplace(gpu_, kPiece, counted_);
    try {
      const std::span<std::byte> mapped = slot->writable(deadline);
      const std::size_t n = std::min<std::size_t>(bytes.size(), mapped.size());
      threads_.copy(mapped.data(), bytes.data(), n);
      slot->send(to, offset, n);
      bytes = bytes.subspan(n);
      offset += n;
    } catch (const Error& e) {
      // Late is not lost: the next upload waits for it again. Else neither mapped nor on its way: a new one next time.
      if (e.code() != ErrorCode::timed_out) slot.reset();
      throw;
    }
    next_ = (next_ + 1) % kSlots;
  }
}

void UploadRing::trim() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (std::optional<UploadStaging>& slot : slots_) slot.reset();
}

}  // namespace weft::memory
