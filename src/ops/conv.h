// What the convolutions share with their catalogue and tests.
#pragma once

#include <vector>

#include "ops/conv_plan.h"
#include "weft/device.h"
#include "weft/kernel.h"

namespace weft::ops {

/// What is compiled for a spec.
KernelOptions conv_options(const ConvSpec& spec);

}  // namespace weft::ops
