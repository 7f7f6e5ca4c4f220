#include "dispatch/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "weft/error.h"

namespace weft::dispatch {

WGPUBindGroup ParamsRing::bind(std::span<const std::byte> bytes) {
  const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(bytes.size(), kBytes + 1));
  if (size > kBytes) {
    throw Error(ErrorCode::invalid_argument, fmt::format("parameters of {} bytes are over {}", bytes.size(), kBytes),
                "pass large constant data in a buffer");
  }
  if (!buffer_) {
    buffer_ = gpu_.create_buffer(kBytes, webgpu::buffer_usage::kUniform | webgpu::buffer_usage::kCopyDst, false,
                                 "weft.params");
    host_.resize(kBytes);
  }
  const std::uint32_t step = std::max(gpu_.limits().min_uniform_offset_alignment, 256u);
  const std::uint32_t slot = (size + step - 1) / step * step;
  std::uint32_t offset = used_;
  if (last_size_ == size && std::memcmp(host_.data() + last_offset_, bytes.data(), size) == 0) {
    offset = last_offset_;
  } else {
    if (used_ + slot > kBytes) return nullptr;
    std::memcpy(host_.data() + offset, bytes.data(), size);
    used_ += slot;
    last_offset_ = offset;
    last_size_ = size;
  }
  webgpu::BindGroup& group = groups_[{offset, slot}];
  if (!group) {
    const webgpu::GroupEntry entry{0, buffer_.get(), offset, slot};
    group = gpu_.create_bind_group(layout_.get(), std::span(&entry, 1), "weft.params");
  }
  return group.get();
}

void ParamsRing::flush() {
  if (used_ > 0) gpu_.write_buffer(buffer_.get(), 0, std::span(host_).first(used_));
}

}  // namespace weft::dispatch
