// What the normalisations ask of their operands: pure rules, no device. As in ops/infer.h, all throw
// Error{invalid_argument} that names the op, the shapes and a fix.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/shape.h"

namespace weft::ops {

/// Refuses what is negative, and NaN.
void check_eps(std::string_view op, double eps);
/// Refuses a value a channel that is not of shape (channels,); `what` is "the weight".
void check_channel_operand(std::string_view op, std::string_view what, const Shape& given, std::int64_t channels,
                           const Shape& x);
/// Refuses a weight or bias that does not broadcast to the axes that a row op goes over.
void check_row_operand(std::string_view op, std::string_view what, const Shape& given, const Shape& normalized);
/// Refuses groups that do not divide the channels of x, which are its second axis.
void check_groups(const Shape& x, std::int64_t groups);

}  // namespace weft::ops
