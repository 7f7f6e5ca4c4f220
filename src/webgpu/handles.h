// WebGPU's objects as the other layers hold them: names and owners without the implementation's header, so that what
// includes this compiles to the same object whichever implementation the build has (and ccache finds it).
#pragma once

#include <cstdint>
#include <utility>

#include "webgpu/fork.h"

// As webgpu.h declares them; api.h, which has both, would not compile if these differed.
using WGPUAdapter = struct WGPUAdapterImpl*;
using WGPUBindGroup = struct WGPUBindGroupImpl*;
using WGPUBindGroupLayout = struct WGPUBindGroupLayoutImpl*;
using WGPUBuffer = struct WGPUBufferImpl*;
using WGPUCommandBuffer = struct WGPUCommandBufferImpl*;
using WGPUCommandEncoder = struct WGPUCommandEncoderImpl*;
using WGPUComputePassEncoder = struct WGPUComputePassEncoderImpl*;
using WGPUComputePipeline = struct WGPUComputePipelineImpl*;
using WGPUDevice = struct WGPUDeviceImpl*;
using WGPUInstance = struct WGPUInstanceImpl*;
using WGPUPipelineLayout = struct WGPUPipelineLayoutImpl*;
using WGPUQuerySet = struct WGPUQuerySetImpl*;
using WGPUQueue = struct WGPUQueueImpl*;
using WGPUShaderModule = struct WGPUShaderModuleImpl*;

namespace weft::webgpu {

// Gives one reference back.
void release(WGPUAdapter adapter) noexcept;
void release(WGPUBindGroup group) noexcept;
void release(WGPUBindGroupLayout layout) noexcept;
void release(WGPUBuffer buffer) noexcept;
void release(WGPUCommandBuffer commands) noexcept;
void release(WGPUCommandEncoder encoder) noexcept;
void release(WGPUComputePassEncoder pass) noexcept;
void release(WGPUComputePipeline pipeline) noexcept;
void release(WGPUPipelineLayout layout) noexcept;
void release(WGPUQuerySet set) noexcept;
void release(WGPUShaderModule module) noexcept;

/// Owns one reference to a WebGPU object. Move-only. In a forked child it lets go without a word to the driver, which
/// could wait there for threads or locks that nobody has.
template <class T>
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
    if (released != nullptr && !forked()) release(released);
  }

 private:
  T raw_ = nullptr;
};

using Adapter = Owned<WGPUAdapter>;
using BufferHandle = Owned<WGPUBuffer>;
using BindGroup = Owned<WGPUBindGroup>;
using BindGroupLayout = Owned<WGPUBindGroupLayout>;
using PipelineLayout = Owned<WGPUPipelineLayout>;
using Pipeline = Owned<WGPUComputePipeline>;
using ShaderModule = Owned<WGPUShaderModule>;
using CommandBuffer = Owned<WGPUCommandBuffer>;
using Encoder = Owned<WGPUCommandEncoder>;
using ComputePass = Owned<WGPUComputePassEncoder>;
using QuerySet = Owned<WGPUQuerySet>;

/// WebGPU's bits for what a buffer is used for, those that the runtime's own buffers have.
namespace buffer_usage {
inline constexpr std::uint32_t kMapRead = 0x1;
inline constexpr std::uint32_t kMapWrite = 0x2;
inline constexpr std::uint32_t kCopySrc = 0x4;
inline constexpr std::uint32_t kCopyDst = 0x8;
inline constexpr std::uint32_t kUniform = 0x40;
}  // namespace buffer_usage

}  // namespace weft::webgpu
