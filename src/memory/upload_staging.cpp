#include "memory/upload_staging.h"

#include "webgpu/encoder.h"
#include "weft/error.h"

namespace weft::memory {

UploadStaging::UploadStaging(webgpu::Gpu& gpu, std::uint64_t size, std::atomic<std::uint64_t>& counted)
    : gpu_(gpu), size_(size), counted_(counted) {
  create();
  counted_.fetch_add(size, std::memory_order_relaxed);
}

UploadStaging::~UploadStaging() {
  counted_.fetch_sub(size_, std::memory_order_relaxed);
}

void UploadStaging::create() {
  buffer_.reset();
  buffer_ =
      gpu_.create_buffer(size_, webgpu::buffer_usage::kMapWrite | webgpu::buffer_usage::kCopySrc, true, "weft.upload");
  map_ = nullptr;
}

std::span<std::byte> UploadStaging::writable(webgpu::Clock::time_point deadline) {
  using Status = webgpu::Gpu::MapStatus;
  if (map_) {
    const auto settled = [&] { return map_->status.load(std::memory_order_acquire) != Status::pending || gpu_.lost(); };
    const bool in_time = webgpu::wait_until([this] { gpu_.poll(); }, settled, deadline);
    gpu_.check_alive("upload");
    if (!in_time) {
      throw Error(ErrorCode::timed_out, "upload: the device did not give its staging memory back before the deadline",
                  "raise WEFT_WAIT_TIMEOUT, or split the work in front of the upload");
    }
    if (map_->status.load(std::memory_order_acquire) == Status::failed) create();
  }
  return gpu_.mapped_range(buffer_.get(), size_, true);
}

void UploadStaging::send(WGPUBuffer to, std::uint64_t offset, std::uint64_t n) {
  gpu_.unmap(buffer_.get());
  webgpu::Encoder encoder = gpu_.create_encoder("weft.upload");
  webgpu::copy(encoder, buffer_.get(), 0, to, offset, n);
  gpu_.submit(std::move(encoder), "weft.upload");
  map_ = gpu_.map_async(buffer_.get(), true, size_);
}

}  // namespace weft::memory
