// Prints the adapter that a WebGPU implementation picks by default; exit status 1 when there is none. script/dawn
// builds it, with nothing of Weft, to check what it prepared.
#include <cstdio>

#include "webgpu/webgpu.h"

int main() {
  WGPUInstanceDescriptor descriptor = WGPU_INSTANCE_DESCRIPTOR_INIT;
  WGPUInstance instance = wgpuCreateInstance(&descriptor);
  if (instance == nullptr) {
    std::puts("no WebGPU instance");
    return 1;
  }

  struct Answer {
    bool done = false;
    WGPUAdapter adapter = nullptr;
  } answer;
  WGPURequestAdapterOptions options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
  WGPURequestAdapterCallbackInfo callback = WGPU_REQUEST_ADAPTER_CALLBACK_INFO_INIT;
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.userdata1 = &answer;
  callback.callback = [](WGPURequestAdapterStatus, WGPUAdapter adapter, WGPUStringView message, void* user, void*) {
    auto* to = static_cast<Answer*>(user);
    to->done = true;
    to->adapter = adapter;
    if (adapter == nullptr) std::printf("no adapter: %.*s\n", static_cast<int>(message.length), message.data);
  };
  wgpuInstanceRequestAdapter(instance, &options, callback);
  while (!answer.done) wgpuInstanceProcessEvents(instance);
  if (answer.adapter == nullptr) return 1;

  WGPUAdapterInfo info = WGPU_ADAPTER_INFO_INIT;
  wgpuAdapterGetInfo(answer.adapter, &info);
  std::printf("adapter: %.*s, %.*s\n", static_cast<int>(info.device.length), info.device.data,
              static_cast<int>(info.description.length), info.description.data);
  wgpuAdapterInfoFreeMembers(info);
  wgpuAdapterRelease(answer.adapter);
  wgpuInstanceRelease(instance);
}
