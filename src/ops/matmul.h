// Matrix products behind the public ops, with what tests and tuners turn.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/matmul_plan.h"
#include "weft/ops.h"

namespace weft::ops {

struct MatmulTuning {
  std::optional<DeviceClass> device{};    ///< whose kernels; none: those of cpu_kernels()
  std::uint64_t most_bytes = UINT64_MAX;  ///< largest binding, where less than the device's limit
  std::uint32_t row_groups = 32768;       ///< workgroups on the grid's x axis before it folds into rows
  /// This instead of what choose() says; a vector plan where the product is one by a vector, else choose() is asked.
  std::optional<MatmulPlan> plan{};
  bool matrix_units = true;        ///< may a plan use subgroup matrices?
  std::optional<bool> int8_dot{};  ///< whether 8-bit products take WGSL's builtins; none: where a probe compiles
};

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options, const MatmulTuning& tuning);
void gemm_into(const Tensor& c, const Tensor& a, const Tensor& b, const GemmOptions& options,
               const MatmulTuning& tuning);
/// Does the implementation compile WGSL's packed products? They are a language feature, which older ones lack. Asked
/// once a device.
bool has_packed_dot(const Device& device);
/// matrix_unit() of operands that kernels can use: none where the implementation's WGSL counts offsets in workgroup
/// memory otherwise than ours, in components and not in the array's items (older versions of Dawn did). Asked once a
/// device.
MatrixUnit usable_unit(const Device& device, DType dtype, bool a_signed = true, bool b_signed = true);
Tensor matmul_int8(const Tensor& a, const Tensor& b, const Int8MatmulOptions& options, const MatmulTuning& tuning);

}  // namespace weft::ops
