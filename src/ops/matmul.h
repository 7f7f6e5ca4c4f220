// The matrix product behind weft::matmul, with what tests and tuners turn.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/matmul_plan.h"
#include "weft/ops.h"

namespace weft::ops {

struct MatmulTuning {
  std::optional<DeviceClass> device;      ///< whose kernels; none: what the device is
  std::uint64_t most_bytes = UINT64_MAX;  ///< largest binding, where less than the device's limit
  std::uint32_t row_groups = 32768;       ///< workgroups on the grid's x axis before it folds into rows
};

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options, const MatmulTuning& tuning);

}  // namespace weft::ops
