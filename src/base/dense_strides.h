// Strides of a dense array, whichever way it lies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "weft/shape.h"

namespace weft {

/// contiguous_strides, or with `fortran_order` those of an array whose first axis lies side by side.
inline Strides dense_strides(const Shape& shape, bool fortran_order) {
  if (!fortran_order) return contiguous_strides(shape);
  Strides strides = shape;
  std::int64_t step = 1;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

}  // namespace weft
