// A number on its way into an array of a given dtype.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/dtype.h"
#include "weft/ops.h"

namespace weft::ops {

/// The number as numpy.full stores it: a float is cut to an integer (NaN gives 0), an integer must fit the dtype, else
/// Error{invalid_argument} that names `op`.
Scalar stored_scalar(std::string_view op, const Scalar& s, DType dtype);
/// Its bits in a parameter that kernels read as u32, i32 or f32 (f16 too, rounded to what f16 has).
std::uint32_t param_bits(const Scalar& stored, DType dtype);

}  // namespace weft::ops
