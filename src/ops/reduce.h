// Reductions: what reduce() and the moments (moments.cpp) share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/catalog.h"
#include "weft/dtype.h"
#include "weft/ops.h"
#include "weft/tensor.h"

namespace weft::ops {

/// Those of ReduceOp, in its order, then those that other functions are made of.
enum class Reduction : std::uint8_t {
  sum,
  mean,
  prod,
  max,
  min,
  any,
  all,
  argmax,
  argmin,
  variance,   ///< of `number` = count - ddof
  deviation,  ///< its root
  count,      ///< elements that are not 0
  abs_sum,
  abs_max,
  abs_min,
  norm_2,       ///< root of the sum of squares, whatever their scale
  norm_p,       ///< of `number` = p
  log_sum_exp,  ///< the maximum taken out
};
inline constexpr Reduction kLastReduction = Reduction::log_sum_exp;
constexpr Reduction reduction_of(ReduceOp op) noexcept {
  return static_cast<Reduction>(op);
}
/// As errors and kernels call it.
std::string_view to_string(Reduction r) noexcept;

/// Reduces `axes` (sorted, counted from the front) of `x` to a new tensor of `shape` and `dtype`. No elements give what
/// numpy gives; where that is an error, the caller has thrown it.
Tensor run_reduction(Reduction r, const Tensor& x, std::span<const std::size_t> axes, const Shape& shape, DType dtype,
                     float number);

/// The dtype of the result for reductions that give floats: f16 stays, else f32.
constexpr DType float_result(DType x) noexcept {
  return x == DType::f16 ? DType::f16 : DType::f32;
}

/// How workgroups share long rows.
struct GroupShape {
  std::uint32_t threads = 256;  ///< a power of two; no more than the device's limit are taken
  bool subgroups = true;        ///< join by subgroup operations, where kernels take them at all
  bool four_quads = true;       ///< four reads under way before the first is used
};
/// What was measured against each other. Reductions take the first one.
std::span<const GroupShape> group_shapes() noexcept;
/// For tests and measurements: another one of them, for the whole process from the next op on.
void force_group_shape(std::size_t index) noexcept;

void visit_reduce_kernels(const Device& device, const KernelVisitor& visit);

}  // namespace weft::ops
