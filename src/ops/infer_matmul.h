// Shapes and dtypes of matrix products: pure rules, no device. See infer.h, which has matmul_shape.
#pragma once

#include <optional>
#include <string_view>

#include "weft/dtype.h"
#include "weft/ops.h"
#include "weft/shape.h"

namespace weft::ops {

struct MatmulTypes {
  DType product;  ///< that both operands are cast to
  DType result;
  /// The kernel that multiplies can finish too; else the product is a tensor first: of bools, and of integers that meet
  /// a float afterwards.
  bool one_kernel;
};
/// Null where there is no bias, residual or wish.
MatmulTypes matmul_types(DType a, DType b, std::optional<DType> bias, Activation activation,
                         std::optional<DType> residual, std::optional<DType> wanted);
/// Throws unless c can take the product of a and b.
DType gemm_type(DType a, DType b, DType c);

/// Throws unless `addend`, named so in the message, broadcasts over the result.
void check_addend(std::string_view op, std::string_view name, const Shape& addend, const Shape& result);

/// Throws unless c = a @ b fits, a and b (after their transposes) broadcasting to c's batch axes.
void check_gemm_shapes(const Shape& a, const Shape& b, const Shape& c);

/// Of packed operands a [..., m, words] and b [..., n, words].
Shape int8_matmul_shape(const Shape& a, const Shape& b);

/// False when two elements of the view may share a place. Views that no slicing gives are refused though they might
/// not.
bool shows_each_once(const Shape& shape, const Strides& strides);

}  // namespace weft::ops
