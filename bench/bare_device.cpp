// Opens an adapter and a device by bare webgpu.h and ends: what a process pays before any runtime. script/bench times it
// beside `weft eval '1+1'`.
#include <cstdio>

#include "webgpu/api.h"

int main() {
  const WGPUInstance instance = wgpuCreateInstance(nullptr);
  struct Answer {
    WGPUAdapter adapter = nullptr;
    WGPUDevice device = nullptr;
    bool done = false;
  } answer;
  WGPURequestAdapterOptions options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
  options.powerPreference = WGPUPowerPreference_HighPerformance;
  options.backendType = WGPUBackendType_Vulkan;
  WGPURequestAdapterCallbackInfo on_adapter = WGPU_REQUEST_ADAPTER_CALLBACK_INFO_INIT;
  on_adapter.mode = WGPUCallbackMode_AllowProcessEvents;
  on_adapter.userdata1 = &answer;
  on_adapter.callback = [](WGPURequestAdapterStatus, WGPUAdapter adapter, WGPUStringView, void* user, void*) {
    auto* a = static_cast<Answer*>(user);
    a->adapter = adapter;
    a->done = true;
  };
  wgpuInstanceRequestAdapter(instance, &options, on_adapter);
  while (!answer.done) wgpuInstanceProcessEvents(instance);
  if (answer.adapter == nullptr) {
    std::fprintf(stderr, "there is no Vulkan adapter\n");
    return 1;
  }
  answer.done = false;
  WGPURequestDeviceCallbackInfo on_device = WGPU_REQUEST_DEVICE_CALLBACK_INFO_INIT;
  on_device.mode = WGPUCallbackMode_AllowProcessEvents;
  on_device.userdata1 = &answer;
  on_device.callback = [](WGPURequestDeviceStatus, WGPUDevice device, WGPUStringView, void* user, void*) {
    auto* a = static_cast<Answer*>(user);
    a->device = device;
    a->done = true;
  };
  wgpuAdapterRequestDevice(answer.adapter, nullptr, on_device);
  while (!answer.done) wgpuInstanceProcessEvents(instance);
  if (answer.device == nullptr) {
    std::fprintf(stderr, "the adapter gave no device\n");
    return 1;
  }
  wgpuDeviceRelease(answer.device);
  wgpuAdapterRelease(answer.adapter);
  wgpuInstanceRelease(instance);
}
