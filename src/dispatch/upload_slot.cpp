#include "dispatch/upload_slot.h"

#include "base/checked.h"
#include "dispatch/state.h"

namespace weft::dispatch {

std::span<std::byte> UploadSlot::bytes(std::uint64_t size) {
  detail::DeviceState& device = *device_.state();
  size_ = size;
  if (size == 0) return {};
  if (!staging_ || staging_->size() < size) {
    staging_.reset();
    staging_ = device.memory->make_upload_staging(size);
  }
  return staging_->writable(device.deadline({})).first(size);
}

Buffer UploadSlot::send() {
  detail::DeviceState& device = *device_.state();
  const HostSpan span(&device.host_spans, "upload", "upload", size_);
  Buffer buffer = device_.alloc(size_, kDefaultUsage | Usage::copy_dst);
  if (size_ == 0) return buffer;
  memory::Allocation& to = *buffer.state()->allocation;
  device.submit_users_of(to, nullptr);  // recorded work may name recycled memory
  staging_->send(to.buffer.get(), 0, checked_align(size_, 4, "upload: size"));
  device.counters.uploads.fetch_add(1, std::memory_order_relaxed);
  device.counters.bytes_uploaded.fetch_add(size_, std::memory_order_relaxed);
  return buffer;
}

}  // namespace weft::dispatch
