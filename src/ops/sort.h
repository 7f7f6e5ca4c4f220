// Sorted rows, whole or their first k elements; what sort, argsort and topk share.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/tensor.h"

namespace weft::ops {

/// What is wanted of a sort along `axis`.
struct Sorting {
  std::string_view op;
  std::size_t axis = 0;
  std::int64_t keep = 0;  ///< the first so many elements of each row's order
  bool descending = false;
  bool values = false, indices = false;
};
struct Sorted {
  Tensor values;   ///< x's dtype; empty handle when not wanted
  Tensor indices;  ///< i32
};
/// Stable; NaN counts as the largest, -0 as 0. Results have x's shape but for `keep` along the axis. Checks all before
/// anything is recorded.
Sorted sort_rows(const Tensor& x, const Sorting& wanted);

}  // namespace weft::ops
