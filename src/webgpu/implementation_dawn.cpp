// What is particular to Dawn.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "webgpu/blob_cache.h"
#include "webgpu/implementation.h"

namespace weft {

std::string_view implementation_name() noexcept {
  return "dawn";
}

std::string implementation_version() {
  return WEFT_DAWN_VERSION;  // Dawn's C API does not tell: cmake/WeftWebGPU.cmake asks the package, or says "unknown"
}

namespace webgpu {
namespace {

// f16 is hidden on NVIDIA unless asked for (webgpu-facts): it has passed our conformance tests there.
constexpr const char* kAdapterToggles[] = {"vulkan_enable_f16_on_nvidia"};

WGPUDawnTogglesDescriptor toggles(std::size_t enabled_count, const char* const* enabled, std::size_t disabled_count = 0,
                                  const char* const* disabled = nullptr) {
  WGPUDawnTogglesDescriptor d = WGPU_DAWN_TOGGLES_DESCRIPTOR_INIT;
  d.enabledToggleCount = enabled_count;
  d.enabledToggles = enabled;
  d.disabledToggleCount = disabled_count;
  d.disabledToggles = disabled;
  return d;
}

/// Dawn asks for the size first and for the bytes next, and may trust the first answer: what it was told waits here,
/// so that no other process can take the file away in between.
struct Announced {
  std::vector<std::byte> key;
  std::vector<std::byte> value;
};
thread_local Announced announced;

std::size_t load_blob(std::size_t key_size, const std::uint8_t* key_data, std::size_t value_size, std::uint8_t* value,
                      void* cache, void*) {
  const std::span key(reinterpret_cast<const std::byte*>(key_data), key_size);
  auto& [known_key, known] = announced;
  if (value == nullptr) {
    auto found = static_cast<BlobCache*>(cache)->load(key);
    known_key.assign(key.begin(), key.end());
    known = found ? std::move(*found) : std::vector<std::byte>();
    return known.size();
  }
  if (!std::equal(key.begin(), key.end(), known_key.begin(), known_key.end()) || known.size() > value_size) return 0;
  if (!known.empty()) std::memcpy(value, known.data(), known.size());
  const std::size_t size = known.size();
  announced = {};
  return size;
}

void store_blob(std::size_t key_size, const std::uint8_t* key, std::size_t value_size, const std::uint8_t* value,
                void* cache, void*) {
  static_cast<BlobCache*>(cache)->store({reinterpret_cast<const std::byte*>(key), key_size},
                                        {reinterpret_cast<const std::byte*>(value), value_size});
}

}  // namespace

// Its C API has no version, so its library's size and date tell one build from another.
std::string library_identity() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&wgpuCreateInstance), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code failure;
  const std::uintmax_t size = std::filesystem::file_size(info.dli_fname, failure);
  const auto time = std::filesystem::last_write_time(info.dli_fname, failure).time_since_epoch().count();
  return failure ? std::string() : fmt::format("{} bytes of {}", size, time);
}

WGPUInstance create_instance() {
  static constexpr const char* kInstanceToggles[] = {"allow_unsafe_apis"};  // subgroup matrix and f16 stand behind it
  WGPUDawnTogglesDescriptor t = toggles(1, kInstanceToggles);
  WGPUInstanceDescriptor descriptor = WGPU_INSTANCE_DESCRIPTOR_INIT;
  descriptor.nextInChain = &t.chain;
  return wgpuCreateInstance(&descriptor);
}

std::vector<Adapter> list_adapters(WGPUInstance inst) {
  // The C API has no enumeration: ask for each kind of adapter; the caller drops what comes twice.
  struct Ask {
    WGPUPowerPreference power;
    WGPUBool fallback;
    WGPUBackendType backend;
  };
  std::vector<Adapter> out;
  for (WGPUBackendType backend : {WGPUBackendType_Vulkan, WGPUBackendType_Metal, WGPUBackendType_D3D12}) {
    for (const Ask& ask :
         {Ask{WGPUPowerPreference_HighPerformance, 0, backend}, Ask{WGPUPowerPreference_LowPower, 0, backend},
          Ask{WGPUPowerPreference_Undefined, 1, backend}}) {
      WGPUDawnTogglesDescriptor t = toggles(1, kAdapterToggles);
      WGPURequestAdapterOptions options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
      options.nextInChain = &t.chain;
      options.powerPreference = ask.power;
      options.forceFallbackAdapter = ask.fallback;
      options.backendType = ask.backend;
      struct Answer {
        WGPUAdapter adapter = nullptr;
        bool done = false;
      } answer;
      WGPURequestAdapterCallbackInfo callback = WGPU_REQUEST_ADAPTER_CALLBACK_INFO_INIT;
      callback.mode = WGPUCallbackMode_AllowProcessEvents;
      callback.userdata1 = &answer;
      callback.callback = [](WGPURequestAdapterStatus, WGPUAdapter adapter, WGPUStringView, void* user, void*) {
        auto* a = static_cast<Answer*>(user);
        a->adapter = adapter;
        a->done = true;
      };
      wgpuInstanceRequestAdapter(inst, &options, callback);
      while (!answer.done) wgpuInstanceProcessEvents(inst);
      if (answer.adapter != nullptr) out.emplace_back(answer.adapter);
    }
  }
  return out;
}

bool adapter_has_immediates(WGPUAdapter) {
  return wgpuInstanceHasWGSLLanguageFeature(instance(), WGPUWGSLLanguageFeatureName_ImmediateAddressSpace) != 0;
}

bool adapter_has_subgroups(WGPUAdapter adapter) {
  return wgpuAdapterHasFeature(adapter, WGPUFeatureName_Subgroups) != 0;
}

std::vector<SubgroupMatrix> adapter_subgroup_matrices(WGPUAdapter adapter) {
  if (wgpuAdapterHasFeature(adapter, WGPUFeatureName_ChromiumExperimentalSubgroupMatrix) == 0) return {};
  WGPUAdapterPropertiesSubgroupMatrixConfigs configs = WGPU_ADAPTER_PROPERTIES_SUBGROUP_MATRIX_CONFIGS_INIT;
  WGPUAdapterInfo info = WGPU_ADAPTER_INFO_INIT;
  info.nextInChain = &configs.chain;
  wgpuAdapterGetInfo(adapter, &info);
  const auto type = [](WGPUSubgroupMatrixComponentType t) -> std::string_view {
    switch (t) {
      case WGPUSubgroupMatrixComponentType_F16: return "f16";
      case WGPUSubgroupMatrixComponentType_F32: return "f32";
      case WGPUSubgroupMatrixComponentType_I8: return "i8";
      case WGPUSubgroupMatrixComponentType_U8: return "u8";
      case WGPUSubgroupMatrixComponentType_I32: return "i32";
      case WGPUSubgroupMatrixComponentType_U32: return "u32";
      default: return "";
    }
  };
  std::vector<SubgroupMatrix> out;
  for (std::size_t i = 0; i < configs.configCount; ++i) {
    const WGPUSubgroupMatrixConfig& c = configs.configs[i];
    const std::string_view in = type(c.componentType), sums = type(c.resultComponentType);
    if (!in.empty() && !sums.empty()) out.push_back({in, sums, c.M, c.N, c.K});
  }
  wgpuAdapterInfoFreeMembers(info);
  wgpuAdapterPropertiesSubgroupMatrixConfigsFreeMembers(configs);
  return out;
}

void add_required_features(const Features& wanted, std::vector<WGPUFeatureName>& features) {
  // Without this Dawn's device may be used by one thread only.
  features.push_back(WGPUFeatureName_ImplicitDeviceSynchronization);
  if (wanted.subgroups) features.push_back(WGPUFeatureName_Subgroups);
  if (!wanted.subgroup_matrices.empty()) features.push_back(WGPUFeatureName_ChromiumExperimentalSubgroupMatrix);
}

std::string_view immediates_directive() noexcept {
  return "requires immediate_address_space;";
}
std::string_view subgroups_directive() noexcept {
  return "enable subgroups;";
}

// Dawn leaves bounds checks out per device only (request_device).
bool bounds_checks_by_device() noexcept {
  return true;
}
bool checks_indirect_grids() noexcept {
  return true;
}
WGPUShaderModule create_module(WGPUDevice device, const WGPUShaderModuleDescriptor& descriptor, bool) {
  return wgpuDeviceCreateShaderModule(device, &descriptor);
}

void request_device(WGPUAdapter adapter, WGPUDeviceDescriptor& descriptor, WGPURequestDeviceCallbackInfo callback,
                    bool unchecked) {
  static constexpr const char* kDisabled[] = {"timestamp_quantization"};  // profiles need the real clock
  std::vector<const char*> enabled(std::begin(kAdapterToggles), std::end(kAdapterToggles));
  if (unchecked) enabled.push_back("disable_robustness");
  WGPUDawnTogglesDescriptor t = toggles(enabled.size(), enabled.data(), 1, kDisabled);
  descriptor.nextInChain = &t.chain;
  WGPUDawnCacheDeviceDescriptor on_disk = WGPU_DAWN_CACHE_DEVICE_DESCRIPTOR_INIT;
  const std::string identity = device_identity(describe(adapter));
  if (BlobCache* cache = BlobCache::shared(identity)) {
    on_disk.isolationKey = view(identity);
    on_disk.dawnLoadCacheDataCallbackInfo.callback = &load_blob;
    on_disk.dawnLoadCacheDataCallbackInfo.userdata1 = cache;
    on_disk.dawnStoreCacheDataCallbackInfo.callback = &store_blob;
    on_disk.dawnStoreCacheDataCallbackInfo.userdata1 = cache;
    t.chain.next = &on_disk.chain;
  }
  wgpuAdapterRequestDevice(adapter, &descriptor, callback);
}

std::uint64_t staged_uploads_from(AdapterType type) noexcept {
  // A CPU adapter's idle buffers are written in place.
  return type == AdapterType::cpu ? std::numeric_limits<std::uint64_t>::max() : std::uint64_t{512} << 10;
}

double timestamp_period(WGPUQueue) {
  return 1.0;  // Dawn resolves ticks to nanoseconds itself
}

std::string_view loss_in(std::string_view) noexcept {
  return {};  // the callback tells
}

void ask_for_loss(WGPUDevice) {}

void lose(WGPUDevice device) {
  wgpuDeviceForceLoss(device, WGPUDeviceLostReason_Unknown, WGPUStringView{"lost by a test", WGPU_STRLEN});
}

void poll(WGPUInstance inst, WGPUDevice) {
  wgpuInstanceProcessEvents(inst);
}

}  // namespace webgpu
}  // namespace weft
