#include "webgpu/api.h"

namespace weft::webgpu {

void release(WGPUAdapter adapter) noexcept {
  wgpuAdapterRelease(adapter);
}
void release(WGPUBindGroup group) noexcept {
  wgpuBindGroupRelease(group);
}
void release(WGPUBindGroupLayout layout) noexcept {
  wgpuBindGroupLayoutRelease(layout);
}
void release(WGPUBuffer buffer) noexcept {
  wgpuBufferRelease(buffer);
}
void release(WGPUCommandBuffer commands) noexcept {
  wgpuCommandBufferRelease(commands);
}
void release(WGPUCommandEncoder encoder) noexcept {
  wgpuCommandEncoderRelease(encoder);
}
void release(WGPUComputePassEncoder pass) noexcept {
  wgpuComputePassEncoderRelease(pass);
}
void release(WGPUComputePipeline pipeline) noexcept {
  wgpuComputePipelineRelease(pipeline);
}
void release(WGPUPipelineLayout layout) noexcept {
  wgpuPipelineLayoutRelease(layout);
}
void release(WGPUQuerySet set) noexcept {
  wgpuQuerySetRelease(set);
}
void release(WGPUShaderModule module) noexcept {
  wgpuShaderModuleRelease(module);
}

static_assert(buffer_usage::kMapRead == WGPUBufferUsage_MapRead && buffer_usage::kMapWrite == WGPUBufferUsage_MapWrite);
static_assert(buffer_usage::kCopySrc == WGPUBufferUsage_CopySrc && buffer_usage::kCopyDst == WGPUBufferUsage_CopyDst);
static_assert(buffer_usage::kUniform == WGPUBufferUsage_Uniform);

}  // namespace weft::webgpu
