// The implementation's own header and owning handles over it. Only src/webgpu calls wgpu functions; other layers hold
// these handles and call the inline methods of gpu.h and encoder.h.
#pragma once

#ifdef WEFT_DAWN
#include <webgpu/webgpu.h>
#else
#include <webgpu.h>
#include <wgpu.h>
#endif

#include <cstddef>
#include <string_view>
#include <utility>

#include "webgpu/fork.h"

namespace weft::webgpu {

/// Owns one reference to a WebGPU object. Move-only. In a forked child it lets go without a word to the driver, which
/// could wait there for threads or locks that nobody has.
template <class T, void (*Release)(T)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T raw) noexcept : raw_(raw) {}
  Owned(Owned&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      reset();
      raw_ = std::exchange(other.raw_, nullptr);
    }
    return *this;
  }
  ~Owned() { reset(); }

  T get() const noexcept { return raw_; }
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  void reset() noexcept {
    const T released = std::exchange(raw_, nullptr);
    if (released != nullptr && !forked()) Release(released);
  }

 private:
  T raw_ = nullptr;
};

using Adapter = Owned<WGPUAdapter, wgpuAdapterRelease>;
using BufferHandle = Owned<WGPUBuffer, wgpuBufferRelease>;
using BindGroup = Owned<WGPUBindGroup, wgpuBindGroupRelease>;
using BindGroupLayout = Owned<WGPUBindGroupLayout, wgpuBindGroupLayoutRelease>;
using PipelineLayout = Owned<WGPUPipelineLayout, wgpuPipelineLayoutRelease>;
using Pipeline = Owned<WGPUComputePipeline, wgpuComputePipelineRelease>;
using ShaderModule = Owned<WGPUShaderModule, wgpuShaderModuleRelease>;
using CommandBuffer = Owned<WGPUCommandBuffer, wgpuCommandBufferRelease>;
using Encoder = Owned<WGPUCommandEncoder, wgpuCommandEncoderRelease>;
using ComputePass = Owned<WGPUComputePassEncoder, wgpuComputePassEncoderRelease>;
using QuerySet = Owned<WGPUQuerySet, wgpuQuerySetRelease>;

inline WGPUStringView view(std::string_view text) noexcept {
  return {text.data(), text.size()};
}
inline std::string_view text(WGPUStringView v) noexcept {
  if (v.data == nullptr) return {};
  return v.length == WGPU_STRLEN ? std::string_view(v.data) : std::string_view(v.data, v.length);
}

}  // namespace weft::webgpu
