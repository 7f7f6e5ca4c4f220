#include "ops/infer_moments.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/infer.h"
#include "weft/error.h"

namespace weft::ops {

Shape moment_shape(std::string_view op, const Shape& x, const std::optional<std::vector<std::int64_t>>& axes,
                   bool keepdims) {
  Shape out;
  const std::vector<std::size_t> reduced = normalize_axes(op, axes, x);
  for (std::size_t i = 0, next = 0; i < x.rank(); ++i) {
    if (next < reduced.size() && reduced[next] == i) {
      ++next;
      if (keepdims) out.push_back(1);
    } else {
      out.push_back(x[i]);
    }
  }
  return out;
}

void check_norm(double ord, const Shape& x, const std::optional<std::vector<std::int64_t>>& axes) {
  if (std::isnan(ord)) {
    throw Error(ErrorCode::invalid_argument, "norm: the order is NaN", "give a number, or an infinity");
  }
  if (!(std::isinf(ord) && ord < 0)) return;
  for (std::size_t axis : normalize_axes("norm", axes, x)) {
    if (x[axis] == 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("norm: no elements to take the smallest of: axis {} of shape {} has length 0", axis,
                              to_string(x)),
                  "reduce axes that have elements, or test for the empty array first");
    }
  }
}

}  // namespace weft::ops
