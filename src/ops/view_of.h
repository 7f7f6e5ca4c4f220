// Tensors over one buffer.
#pragma once

#include <cstdint>

#include "weft/shape.h"
#include "weft/tensor.h"

namespace weft::ops {

/// Another view of the buffer of `x`.
inline Tensor view_of(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset) {
  return Tensor(x.device(), x.buffer(), shape, strides, offset, x.dtype());
}

/// Both show the same elements in the same places.
inline bool same_view(const Tensor& a, const Tensor& b) {
  return a.buffer() == b.buffer() && a.offset() == b.offset() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

}  // namespace weft::ops
