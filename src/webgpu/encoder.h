// Recording, as thin inline calls: what the hot path runs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "webgpu/api.h"

namespace weft::webgpu {

inline ComputePass begin_pass(const Encoder& encoder) noexcept {
  return ComputePass(wgpuCommandEncoderBeginComputePass(encoder.get(), nullptr));
}
inline void end_pass(ComputePass& pass) noexcept {
  wgpuComputePassEncoderEnd(pass.get());
  pass.reset();
}
inline void set_pipeline(const ComputePass& pass, WGPUComputePipeline pipeline) noexcept {
  wgpuComputePassEncoderSetPipeline(pass.get(), pipeline);
}
inline void set_bind_group(const ComputePass& pass, std::uint32_t index, WGPUBindGroup group) noexcept {
  wgpuComputePassEncoderSetBindGroup(pass.get(), index, group, 0, nullptr);
}
inline void set_immediates(const ComputePass& pass, std::span<const std::byte> bytes) noexcept {
  wgpuComputePassEncoderSetImmediates(pass.get(), 0, bytes.data(), bytes.size());
}
inline void dispatch(const ComputePass& pass, std::uint32_t x, std::uint32_t y, std::uint32_t z) noexcept {
  wgpuComputePassEncoderDispatchWorkgroups(pass.get(), x, y, z);
}
inline void dispatch_indirect(const ComputePass& pass, WGPUBuffer args, std::uint64_t offset) noexcept {
  wgpuComputePassEncoderDispatchWorkgroupsIndirect(pass.get(), args, offset);
}
inline void copy(const Encoder& encoder, WGPUBuffer from, std::uint64_t from_offset, WGPUBuffer to,
                 std::uint64_t to_offset, std::uint64_t size) noexcept {
  wgpuCommandEncoderCopyBufferToBuffer(encoder.get(), from, from_offset, to, to_offset, size);
}
inline void clear(const Encoder& encoder, WGPUBuffer buffer, std::uint64_t offset, std::uint64_t size) noexcept {
  wgpuCommandEncoderClearBuffer(encoder.get(), buffer, offset, size);
}

}  // namespace weft::webgpu
