// What pools share with their catalogue.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/dtype.h"
#include "weft/kernel.h"
#include "weft/nn.h"

namespace weft::ops {

/// All that chooses the text of a pool's kernel.
struct PoolSpec {
  PoolOp op = PoolOp::max;
  DType in = DType::f32;
  DType out = DType::f32;  ///< f32 for parts of long windows
  bool channels_last = false;
  bool quads = false;  ///< four channels, which lie side by side, at a time
};
std::string pool_key(const PoolSpec& spec);
KernelOptions pool_options(const PoolSpec& spec);
std::vector<PoolSpec> pool_specs(bool f16);

}  // namespace weft::ops
