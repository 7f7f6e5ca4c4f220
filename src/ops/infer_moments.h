// Shape rules of var, stddev, norm and logsumexp: pure, no device. All give f16 for f16, else f32 (float_result).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "weft/shape.h"

namespace weft::ops {

/// The shape without the axes, or with 1 in their place. Throws as normalize_axes.
Shape moment_shape(std::string_view op, const Shape& x, const std::optional<std::vector<std::int64_t>>& axes,
                   bool keepdims);
/// Throws Error{invalid_argument} for an order that is NaN, and for -infinity of no elements.
void check_norm(double ord, const Shape& x, const std::optional<std::vector<std::int64_t>>& axes);

}  // namespace weft::ops
