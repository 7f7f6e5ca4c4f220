// Where an op's result goes.
#pragma once

#include "weft/tensor.h"

namespace weft::ops {

/// The tensor that an op writes its result into, every element of it: the one that weft::into named on this thread when
/// that is a whole buffer of this shape and dtype, and was not given out before; else a new one. What a kernel spills
/// over the last element into the padding of a buffer does no harm in either.
Tensor new_result(const Device& device, const Shape& shape, DType dtype);

/// For elementwise programs, which can write at any offset without touching neighbours: the named tensor when it has
/// this shape and dtype and was not given out before; else an empty handle.
Tensor take_target(const Device& device, const Shape& shape, DType dtype);

}  // namespace weft::ops
