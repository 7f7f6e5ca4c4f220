// The part of instance.h that speaks in WebGPU's own structs: for src/webgpu alone.
#pragma once

#include <vector>

#include "webgpu/api.h"
#include "webgpu/instance.h"
#include "weft/device.h"

namespace weft::webgpu {

/// The limits that Weft uses, sizes rounded down to what WebGPU accepts.
Limits to_limits(const WGPULimits& limits);

/// Features to ask for, beside the standard ones, for what `wanted` has.
void add_required_features(const Features& wanted, std::vector<WGPUFeatureName>& features);
/// Compiles a module. `trusted`: without bounds checks where the implementation can leave them out for one module.
WGPUShaderModule create_module(WGPUDevice device, const WGPUShaderModuleDescriptor& descriptor, bool trusted);
/// Requests the device with implementation-specific options chained in; calls back as WebGPU does. `unchecked`: all its
/// modules are compiled without bounds checks, where the implementation leaves them out for a whole device only.
void request_device(WGPUAdapter adapter, WGPUDeviceDescriptor& descriptor, WGPURequestDeviceCallbackInfo callback,
                    bool unchecked);

}  // namespace weft::webgpu
