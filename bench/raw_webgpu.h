// Bare webgpu.h loops: what the same work costs with no runtime around it. They run on Weft's own device, so that both
// sides share the adapter, the queue and the driver's state. Beside src/webgpu and
// bare_start.cpp the only place that calls WebGPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <span>
#include <string_view>
#include <vector>

#include "dispatch/state.h"
#include "webgpu/api.h"
#include "weft/device.h"

namespace weft::bench {

class Raw {
 public:
  explicit Raw(const Device& device) : gpu_(device.state()->gpu) {}

  WGPUDevice device() const { return gpu_.raw_device(); }
  WGPUQueue queue() const { return gpu_.raw_queue(); }

  webgpu::BufferHandle buffer(std::uint64_t size, WGPUBufferUsage usage) const {
    WGPUBufferDescriptor d = WGPU_BUFFER_DESCRIPTOR_INIT;
    d.size = size;
    d.usage = usage;
    return webgpu::BufferHandle(wgpuDeviceCreateBuffer(device(), &d));
  }

  void submit(WGPUCommandEncoder encoder) const {
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, nullptr);
    wgpuQueueSubmit(queue(), 1, &commands);
    wgpuCommandBufferRelease(commands);
    wgpuCommandEncoderRelease(encoder);
  }

  /// Polls until `done`; spins, as the shortest loop would.
  template <class Done>
  void wait(Done&& done) const {
    while (!done()) gpu_.poll();
  }

  void wait_idle() const {
    bool done = false;
    WGPUQueueWorkDoneCallbackInfo c = WGPU_QUEUE_WORK_DONE_CALLBACK_INFO_INIT;
    c.mode = WGPUCallbackMode_AllowProcessEvents;
    c.userdata1 = &done;
    c.callback = [](WGPUQueueWorkDoneStatus, WGPUStringView, void* user, void*) { *static_cast<bool*>(user) = true; };
    wgpuQueueOnSubmittedWorkDone(queue(), c);
    wait([&] { return done; });
  }

  /// A copy into `staging` (MAP_READ), a map, a memcpy: the textbook readback with one pre-made staging buffer.
  void read(WGPUBuffer from, WGPUBuffer staging, std::span<std::byte> out) const {
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device(), nullptr);
    wgpuCommandEncoderCopyBufferToBuffer(encoder, from, 0, staging, 0, out.size());
    submit(encoder);
    bool done = false;
    WGPUBufferMapCallbackInfo c = WGPU_BUFFER_MAP_CALLBACK_INFO_INIT;
    c.mode = WGPUCallbackMode_AllowProcessEvents;
    c.userdata1 = &done;
    c.callback = [](WGPUMapAsyncStatus, WGPUStringView, void* user, void*) { *static_cast<bool*>(user) = true; };
    wgpuBufferMapAsync(staging, WGPUMapMode_Read, 0, out.size(), c);
    wait([&] { return done; });
    std::memcpy(out.data(), wgpuBufferGetConstMappedRange(staging, 0, out.size()), out.size());
    wgpuBufferUnmap(staging);
  }

  void write(WGPUBuffer to, std::span<const std::byte> bytes) const {
    wgpuQueueWriteBuffer(queue(), to, 0, bytes.data(), bytes.size());
  }

  /// Sends writes on their way: both implementations hold them until a submit, and call work done before that.
  void flush() const { wgpuQueueSubmit(queue(), 0, nullptr); }

 private:
  webgpu::Gpu& gpu_;
};

}  // namespace weft::bench
