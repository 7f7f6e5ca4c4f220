// What the convolutions share with their catalogue and tests.
#pragma once

#include <string>
#include <vector>

#include "ops/conv_plan.h"
#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/kernel.h"

namespace weft::ops {

/// Every spec that convolutions can come to with the plans of one kernel class.
std::vector<ConvSpec> conv_specs(bool cpu, const Limits& limits, bool f16);
/// What is compiled for a spec.
KernelOptions conv_options(const ConvSpec& spec);
/// Of the kernel that lays operands out anew.
std::string pack_key(DType in);
KernelOptions pack_options(DType in);

}  // namespace weft::ops
