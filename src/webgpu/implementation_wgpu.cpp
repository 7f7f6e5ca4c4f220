// What is particular to wgpu-native. Its wgpuInstanceWaitAny, wgpuGetInstanceFeatures, ...Async pipeline calls and all
// SetLabel calls abort the process, so nothing here or elsewhere uses them.
#include <fmt/format.h>

#include <cstdint>

#include "webgpu/implementation.h"

namespace weft {

std::string_view implementation_name() noexcept {
  return "wgpu-native";
}

std::string implementation_version() {
  const std::uint32_t v = wgpuGetVersion();
  return fmt::format("{}.{}.{}.{}", v >> 24, (v >> 16) & 0xff, (v >> 8) & 0xff, v & 0xff);
}

namespace webgpu {

std::string library_identity() {
  return {};  // the version says it
}

WGPUInstance create_instance() {
  wgpuSetLogLevel(WGPULogLevel_Off);  // its log goes to stderr; errors reach us by callbacks
  WGPUInstanceExtras extras{};
  extras.chain.sType = static_cast<WGPUSType>(WGPUSType_InstanceExtras);
  // GL adapters are left out: their compute support is partial, and probing them needs a display.
  extras.backends = WGPUInstanceBackend_Vulkan | WGPUInstanceBackend_Metal | WGPUInstanceBackend_DX12;
  WGPUInstanceDescriptor descriptor = WGPU_INSTANCE_DESCRIPTOR_INIT;
  descriptor.nextInChain = &extras.chain;
  return wgpuCreateInstance(&descriptor);
}

std::vector<Adapter> list_adapters(WGPUInstance inst) {
  const std::size_t count = wgpuInstanceEnumerateAdapters(inst, nullptr, nullptr);
  std::vector<WGPUAdapter> raw(count);
  wgpuInstanceEnumerateAdapters(inst, nullptr, raw.data());
  std::vector<Adapter> out;
  out.reserve(raw.size());
  for (WGPUAdapter adapter : raw) out.emplace_back(adapter);
  return out;
}

bool adapter_has_immediates(WGPUAdapter adapter) {
  return wgpuAdapterHasFeature(adapter, static_cast<WGPUFeatureName>(WGPUNativeFeature_Immediates)) != 0;
}

bool adapter_has_subgroups(WGPUAdapter adapter) {
  return wgpuAdapterHasFeature(adapter, static_cast<WGPUFeatureName>(WGPUNativeFeature_Subgroup)) != 0;
}

std::vector<SubgroupMatrix> adapter_subgroup_matrices(WGPUAdapter) {
  return {};  // wgpu-native 29 lists a feature of the kind and has no way to ask for it
}

void add_required_features(const Features& wanted, std::vector<WGPUFeatureName>& features) {
  if (wanted.immediates) features.push_back(static_cast<WGPUFeatureName>(WGPUNativeFeature_Immediates));
  if (wanted.subgroups) features.push_back(static_cast<WGPUFeatureName>(WGPUNativeFeature_Subgroup));
}

std::string_view immediates_directive() noexcept {
  return "";
}
std::string_view subgroups_directive() noexcept {
  return "";
}  // naga 29 does not know the directive yet

bool bounds_checks_by_device() noexcept {
  return false;
}
// With WGPUInstanceFlag_ValidationIndirectCall it does, and compiles a kernel for that whenever a device is opened: 2
// to 20 ms of 60.
bool checks_indirect_grids() noexcept {
  return false;
}

WGPUShaderModule create_module(WGPUDevice device, const WGPUShaderModuleDescriptor& descriptor, bool trusted) {
  return trusted ? wgpuDeviceCreateShaderModuleTrusted(device, &descriptor, WGPUShaderRuntimeChecks_None)
                 : wgpuDeviceCreateShaderModule(device, &descriptor);
}

void request_device(WGPUAdapter adapter, WGPUDeviceDescriptor& descriptor, WGPURequestDeviceCallbackInfo callback,
                    bool) {
  wgpuAdapterRequestDevice(adapter, &descriptor, callback);
}

std::uint64_t staged_uploads_from(AdapterType type) noexcept {
  // Each queue write takes memory of its own, for which the driver is asked anew once the allocator's blocks are full:
  // 4 ms then on an NVIDIA GPU.
  return type == AdapterType::cpu ? std::uint64_t{4} << 20 : std::uint64_t{128} << 10;
}

double timestamp_period(WGPUQueue queue) {
  return static_cast<double>(wgpuQueueGetTimestampPeriod(queue));
}

std::string_view loss_in(std::string_view error) noexcept {
  // Version 29 calls back late or never; until then most calls on a lost device are errors that end in these words.
  constexpr std::string_view kLost = "Parent device is lost";
  const std::size_t end = error.find_last_not_of(" \n.") + 1;
  return error.substr(0, end).ends_with(kLost) ? kLost : std::string_view{};
}

void ask_for_loss(WGPUDevice device) {
  WGPUBindGroupLayoutDescriptor nothing = WGPU_BIND_GROUP_LAYOUT_DESCRIPTOR_INIT;  // half a microsecond
  const BindGroupLayout probe(wgpuDeviceCreateBindGroupLayout(device, &nothing));
}

void lose(WGPUDevice device) {
  wgpuDeviceDestroy(device);  // the one way that it has
}

void poll(WGPUInstance inst, WGPUDevice device) {
  if (device != nullptr) {
    wgpuDevicePoll(device, 0, nullptr);
  } else {
    wgpuInstanceProcessEvents(inst);
  }
}

}  // namespace webgpu
}  // namespace weft
