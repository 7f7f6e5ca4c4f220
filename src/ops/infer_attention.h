// Shape rules of attention: pure, no device.
#pragma once

#include <cstdint>

#include "weft/dtype.h"
#include "weft/shape.h"

namespace weft::ops {

/// The lengths of one attention, all operands agreeing.
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, dim = 0, value_dim = 0;
  Shape result() const { return {batch, heads, queries, value_dim}; }
  Shape scores() const { return {batch, heads, queries, keys}; }
};

/// Throws Error{invalid_argument} that shows the three shapes, or dtypes.
AttentionShape attention_shape(const Shape& q, const Shape& k, const Shape& v);
void check_attention_types(DType q, DType k, DType v);
/// A mask broadcasts to the scores and is bool or a float; lengths are [batch] integers.
void check_attention_mask(const AttentionShape& of, const Shape& mask, DType dtype);
/// Refuses a scale that is not finite, and a softcap that is not or lies below 0.
void check_attention_numbers(double scale, double softcap);
void check_attention_lengths(const AttentionShape& of, const Shape& lengths, DType dtype);

}  // namespace weft::ops
