#include "memory/upload_ring.h"

#include <algorithm>

#include "webgpu/encoder.h"
#include "weft/error.h"

namespace weft::memory {

void UploadRing::clear(Slot& slot) noexcept {
  if (slot.buffer) bytes_.fetch_sub(kPiece, std::memory_order_relaxed);
  slot = {};
}

std::span<std::byte> UploadRing::writable(Slot& slot, webgpu::Clock::time_point deadline) {
  using Status = webgpu::Gpu::MapStatus;
  if (slot.map) {
    const auto settled = [&] {
      return slot.map->status.load(std::memory_order_acquire) != Status::pending || gpu_.lost();
    };
    const bool in_time = webgpu::wait_until([this] { gpu_.poll(); }, settled, deadline);
    gpu_.check_alive("upload");
    if (!in_time) {
      throw Error(ErrorCode::timed_out, "upload: the device did not give its staging memory back before the deadline",
                  "raise WEFT_WAIT_TIMEOUT, or split the work in front of the upload");
    }
    if (slot.map->status.load(std::memory_order_acquire) == Status::failed) clear(slot);
  }
  if (!slot.buffer) {
    slot.buffer = gpu_.create_buffer(
        kPiece, static_cast<std::uint32_t>(WGPUBufferUsage_MapWrite | WGPUBufferUsage_CopySrc), true, "weft.upload");
    bytes_.fetch_add(kPiece, std::memory_order_relaxed);
    slot.map = nullptr;
  }
  return gpu_.mapped_range(slot.buffer.get(), kPiece, true);
}

void UploadRing::upload(WGPUBuffer to, std::uint64_t offset, std::span<const std::byte> bytes,
                        webgpu::Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  while (!bytes.empty()) {
    Slot& slot = slots_[next_];
    const std::span<std::byte> mapped = writable(slot, deadline);
    next_ = (next_ + 1) % kSlots;
    const std::size_t n = std::min<std::size_t>(bytes.size(), mapped.size());
    threads_.copy(mapped.data(), bytes.data(), n);
    gpu_.unmap(slot.buffer.get());
    try {
      webgpu::Encoder encoder = gpu_.create_encoder("weft.upload");
      webgpu::copy(encoder, slot.buffer.get(), 0, to, offset, n);
      gpu_.submit(std::move(encoder), "weft.upload");
      slot.map = gpu_.map_async(slot.buffer.get(), true, kPiece);
    } catch (...) {
      clear(slot);  // neither mapped nor on its way: a new one next time
      throw;
    }
    bytes = bytes.subspan(n);
    offset += n;
  }
}

void UploadRing::trim() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (Slot& slot : slots_) clear(slot);
}

}  // namespace weft::memory
