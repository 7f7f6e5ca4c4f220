// weft_bench_bare_start [--kernel]: what a WebGPU program costs before it does anything: an instance, an adapter, a
// device with the adapter's own limits, one empty submit, and their end. With --kernel it also compiles and runs the
// smallest kernel, and waits for it: the least that anything computed costs. Bare webgpu.h, nothing of ours;
// bench/startup.py runs it in turns with `weft eval`.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "webgpu/api.h"

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "bare_start: no %s\n", what);
  std::exit(1);
}

template <class T>
struct Answer {
  T value = nullptr;
  bool done = false;
};

void run_kernel(WGPUInstance instance, WGPUDevice device, WGPUQueue queue) {
  WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
  source.code = weft::webgpu::view(
      "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
      "@compute @workgroup_size(1) fn main() { x[0] = 2.0; }\n");
  WGPUShaderModuleDescriptor module_options = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
  module_options.nextInChain = &source.chain;
  WGPUShaderModule module = wgpuDeviceCreateShaderModule(device, &module_options);
  WGPUComputePipelineDescriptor pipeline_options = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
  pipeline_options.compute.module = module;
  WGPUComputePipeline pipeline = wgpuDeviceCreateComputePipeline(device, &pipeline_options);
  WGPUBufferDescriptor buffer_options = WGPU_BUFFER_DESCRIPTOR_INIT;
  buffer_options.size = 16;
  buffer_options.usage = WGPUBufferUsage_Storage;
  WGPUBuffer buffer = wgpuDeviceCreateBuffer(device, &buffer_options);
  WGPUBindGroupEntry entry = WGPU_BIND_GROUP_ENTRY_INIT;
  entry.buffer = buffer;
  entry.size = 16;
  WGPUBindGroupLayout layout = wgpuComputePipelineGetBindGroupLayout(pipeline, 0);
  WGPUBindGroupDescriptor group_options = WGPU_BIND_GROUP_DESCRIPTOR_INIT;
  group_options.layout = layout;
  group_options.entryCount = 1;
  group_options.entries = &entry;
  WGPUBindGroup group = wgpuDeviceCreateBindGroup(device, &group_options);

  WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device, nullptr);
  WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, nullptr);
  wgpuComputePassEncoderSetPipeline(pass, pipeline);
  wgpuComputePassEncoderSetBindGroup(pass, 0, group, 0, nullptr);
  wgpuComputePassEncoderDispatchWorkgroups(pass, 1, 1, 1);
  wgpuComputePassEncoderEnd(pass);
  WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, nullptr);
  wgpuQueueSubmit(queue, 1, &commands);
  bool done = false;
  WGPUQueueWorkDoneCallbackInfo on_done = WGPU_QUEUE_WORK_DONE_CALLBACK_INFO_INIT;
  on_done.mode = WGPUCallbackMode_AllowProcessEvents;
  on_done.userdata1 = &done;
  on_done.callback = [](WGPUQueueWorkDoneStatus, WGPUStringView, void* to, void*) { *static_cast<bool*>(to) = true; };
  wgpuQueueOnSubmittedWorkDone(queue, on_done);
  while (!done) {
#ifdef WEFT_DAWN
    wgpuInstanceProcessEvents(instance);
#else
    (void)instance;
    wgpuDevicePoll(device, 1, nullptr);
#endif
  }
  wgpuCommandBufferRelease(commands);
  wgpuComputePassEncoderRelease(pass);
  wgpuCommandEncoderRelease(encoder);
  wgpuBindGroupRelease(group);
  wgpuBindGroupLayoutRelease(layout);
  wgpuBufferRelease(buffer);
  wgpuComputePipelineRelease(pipeline);
  wgpuShaderModuleRelease(module);
}

}  // namespace

int main(int argc, char** argv) {
  const bool with_kernel = argc > 1 && std::strcmp(argv[1], "--kernel") == 0;
#ifdef WEFT_DAWN
  WGPUInstance instance = wgpuCreateInstance(nullptr);
#else
  wgpuSetLogLevel(WGPULogLevel_Off);
  WGPUInstanceExtras extras{};
  extras.chain.sType = static_cast<WGPUSType>(WGPUSType_InstanceExtras);
  extras.backends = WGPUInstanceBackend_Vulkan;
  WGPUInstanceDescriptor instance_options = WGPU_INSTANCE_DESCRIPTOR_INIT;
  instance_options.nextInChain = &extras.chain;
  WGPUInstance instance = wgpuCreateInstance(&instance_options);
#endif
  if (instance == nullptr) fail("instance");

  Answer<WGPUAdapter> adapter;
  WGPURequestAdapterOptions adapter_options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
  adapter_options.backendType = WGPUBackendType_Vulkan;
  WGPURequestAdapterCallbackInfo on_adapter = WGPU_REQUEST_ADAPTER_CALLBACK_INFO_INIT;
  on_adapter.mode = WGPUCallbackMode_AllowProcessEvents;
  on_adapter.userdata1 = &adapter;
  on_adapter.callback = [](WGPURequestAdapterStatus, WGPUAdapter got, WGPUStringView, void* to, void*) {
    *static_cast<Answer<WGPUAdapter>*>(to) = {got, true};
  };
  wgpuInstanceRequestAdapter(instance, &adapter_options, on_adapter);
  while (!adapter.done) wgpuInstanceProcessEvents(instance);
  if (adapter.value == nullptr) fail("adapter");

  WGPULimits limits = WGPU_LIMITS_INIT;
  wgpuAdapterGetLimits(adapter.value, &limits);
  limits.nextInChain = nullptr;
  WGPUDeviceDescriptor descriptor = WGPU_DEVICE_DESCRIPTOR_INIT;
  descriptor.requiredLimits = &limits;
  Answer<WGPUDevice> device;
  WGPURequestDeviceCallbackInfo on_device = WGPU_REQUEST_DEVICE_CALLBACK_INFO_INIT;
  on_device.mode = WGPUCallbackMode_AllowProcessEvents;
  on_device.userdata1 = &device;
  on_device.callback = [](WGPURequestDeviceStatus, WGPUDevice got, WGPUStringView, void* to, void*) {
    *static_cast<Answer<WGPUDevice>*>(to) = {got, true};
  };
  wgpuAdapterRequestDevice(adapter.value, &descriptor, on_device);
  while (!device.done) wgpuInstanceProcessEvents(instance);
  if (device.value == nullptr) fail("device");

  WGPUQueue queue = wgpuDeviceGetQueue(device.value);
  WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device.value, nullptr);
  WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, nullptr);
  wgpuQueueSubmit(queue, 1, &commands);
  wgpuCommandBufferRelease(commands);
  wgpuCommandEncoderRelease(encoder);
  if (with_kernel) run_kernel(instance, device.value, queue);
  wgpuQueueRelease(queue);
  wgpuDeviceRelease(device.value);
  wgpuAdapterRelease(adapter.value);
  wgpuInstanceRelease(instance);
}
