// 16-bit formats as values of f32, for devices with and without f16 arithmetic.
#pragma once

#include "weft/backend.h"
#include "weft/tensor.h"

namespace weft::backend {

/// Each element rounded to the format, nearest even, ties as IEEE 754 has them; past its range, infinity. NaN stays.
Tensor rounded(const Tensor& x, Precision16 format);
/// `count` values of the format, packed two to a u32 word from the start of `words`, as f32.
Tensor unpacked(const Tensor& words, std::int64_t count, Precision16 format);

}  // namespace weft::backend
