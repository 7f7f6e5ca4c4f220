// The kernels of random numbers, by what chooses their text.
#pragma once

#include <string>
#include <string_view>

#include "weft/dtype.h"
#include "weft/kernel.h"

namespace weft::ops {

/// One kernel of random.wgsl. `entry`: "bits", "uniform", "normal" or "integers". dtype: u32 of bits, f32 or f16 of
/// uniform and normal, i32 or u32 of integers (one kernel for both).
struct RandomKernel {
  std::string_view entry;
  DType dtype = DType::f32;
};
std::string random_key(const RandomKernel& kernel);
KernelOptions random_options(const RandomKernel& kernel);

}  // namespace weft::ops
