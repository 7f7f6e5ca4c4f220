#include "webgpu/implementation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "weft/error.h"

namespace weft::webgpu {

WGPUInstance instance() {
  static const WGPUInstance the_instance = [] {
    mark_children_forked();
    return create_instance();
  }();
  return the_instance;
}

namespace {

std::string backend_name(WGPUBackendType type) {
  switch (type) {
    case WGPUBackendType_Null: return "null";
    case WGPUBackendType_WebGPU: return "webgpu";
    case WGPUBackendType_D3D11: return "d3d11";
    case WGPUBackendType_D3D12: return "d3d12";
    case WGPUBackendType_Metal: return "metal";
    case WGPUBackendType_Vulkan: return "vulkan";
    case WGPUBackendType_OpenGL: return "opengl";
    case WGPUBackendType_OpenGLES: return "opengles";
    default: return "unknown";
  }
}

AdapterType adapter_type(WGPUAdapterType type) {
  switch (type) {
    case WGPUAdapterType_DiscreteGPU: return AdapterType::discrete;
    case WGPUAdapterType_IntegratedGPU: return AdapterType::integrated;
    case WGPUAdapterType_CPU: return AdapterType::cpu;
    default: return AdapterType::unknown;
  }
}

/// wgpu-native does not tell how large subgroups are. lavapipe's have the lanes of its vectors, whose width is in its
/// name: «llvmpipe (LLVM 15.0.6, 256 bits)». 0 for all others.
std::uint32_t subgroup_size_of(std::string_view adapter) {
  if (!adapter.starts_with("llvmpipe")) return 0;
  const std::size_t end = adapter.find(" bits)");
  if (end == std::string_view::npos) return 0;
  const std::size_t begin = adapter.rfind(' ', end - 1) + 1;
  std::uint32_t bits = 0;
  const auto [rest, failure] = std::from_chars(adapter.data() + begin, adapter.data() + end, bits);
  return failure == std::errc() && rest == adapter.data() + end ? bits / 32 : 0;
}

}  // namespace

Limits to_limits(const WGPULimits& l) {
  Limits out;
  // lavapipe reports 2^31 - 1: sizes of buffers and bindings must be multiples of 4.
  out.max_buffer_size = l.maxBufferSize & ~std::uint64_t{3};
  // Kernels index by u32, elements of one byte too: what lies past 2^32 bytes of a binding they could not name (D34).
  out.max_storage_binding_size = std::min<std::uint64_t>(l.maxStorageBufferBindingSize, UINT32_MAX) & ~std::uint64_t{3};
  out.max_uniform_binding_size = l.maxUniformBufferBindingSize & ~std::uint64_t{15};
  out.max_storage_buffers = std::min(l.maxStorageBuffersPerShaderStage, l.maxBindingsPerBindGroup);
  out.max_workgroup_size_x = l.maxComputeWorkgroupSizeX;
  out.max_workgroup_size_y = l.maxComputeWorkgroupSizeY;
  out.max_workgroup_size_z = l.maxComputeWorkgroupSizeZ;
  out.max_workgroup_invocations = l.maxComputeInvocationsPerWorkgroup;
  out.max_workgroup_storage = l.maxComputeWorkgroupStorageSize;
  out.max_workgroups_per_dimension = l.maxComputeWorkgroupsPerDimension;
  out.min_storage_offset_alignment = l.minStorageBufferOffsetAlignment;
  out.min_uniform_offset_alignment = l.minUniformBufferOffsetAlignment;
  out.max_immediate_size = l.maxImmediateSize;
  return out;
}

std::string device_identity(const AdapterInfo& adapter) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{:x}:{:x}", implementation_name(), implementation_version(),
                     library_identity(), adapter.backend, adapter.name, adapter.driver, adapter.vendor_id,
                     adapter.device_id);
}

AdapterInfo describe(WGPUAdapter adapter) {
  AdapterInfo out;
  WGPUAdapterInfo info = WGPU_ADAPTER_INFO_INIT;
  wgpuAdapterGetInfo(adapter, &info);
  out.name = text(info.device);
  out.vendor = text(info.vendor);
  out.driver = text(info.description);
  out.backend = backend_name(info.backendType);
  out.type = adapter_type(info.adapterType);
  out.vendor_id = info.vendorID;
  out.device_id = info.deviceID;
  out.features.subgroup_min_size = info.subgroupMinSize;
  out.features.subgroup_max_size = info.subgroupMaxSize;
  wgpuAdapterInfoFreeMembers(info);

  WGPULimits limits = WGPU_LIMITS_INIT;
  wgpuAdapterGetLimits(adapter, &limits);
  out.limits = to_limits(limits);

  out.features.f16 = wgpuAdapterHasFeature(adapter, WGPUFeatureName_ShaderF16) != 0;
  out.features.timestamps = wgpuAdapterHasFeature(adapter, WGPUFeatureName_TimestampQuery) != 0;
  out.features.subgroups = adapter_has_subgroups(adapter);
  if (out.features.subgroups && out.features.subgroup_max_size == 0) {
    out.features.subgroup_min_size = out.features.subgroup_max_size = subgroup_size_of(out.name);
  }
  if (out.features.subgroups) out.features.subgroup_matrices = adapter_subgroup_matrices(adapter);
  out.features.immediates = adapter_has_immediates(adapter) && out.limits.max_immediate_size > 0;
  return out;
}

std::vector<Candidate> enumerate_adapters() {
  if (forked()) {
    throw Error(ErrorCode::unsupported,
                "this process was forked from one that had used WebGPU, and has none of the driver's threads",
                "open the first device after the fork, or start the process anew (fork and exec)");
  }
  std::vector<Candidate> out;
  const WGPUInstance inst = instance();
  if (inst == nullptr) return out;
  for (Adapter& adapter : list_adapters(inst)) {
    AdapterInfo info = describe(adapter.get());
    const bool seen = std::any_of(out.begin(), out.end(), [&](const Candidate& c) {
      return c.info.name == info.name && c.info.backend == info.backend && c.info.vendor_id == info.vendor_id &&
             c.info.device_id == info.device_id && c.info.driver == info.driver;
    });
#ifdef WEFT_DAWN
    if (seen) continue;  // Dawn is asked several times and may give one adapter twice; twins can't be told apart
#else
    (void)seen;
#endif
    info.index = out.size();
    out.push_back({std::move(adapter), std::move(info)});
  }
  return out;
}

}  // namespace weft::webgpu
