// Result shapes of weft/indexing.h: pure rules, no device. As ops/infer.h, whose errors they share: each names the op,
// the shapes and a fix.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "weft/dtype.h"
#include "weft/indexing.h"
#include "weft/shape.h"

namespace weft::ops {

/// Throws Error{invalid_argument} unless indices of this dtype can be used: i32 or u32.
void check_index_dtype(std::string_view op, DType indices);

Shape take_along_axis_shape(const Shape& x, const Shape& indices, std::int64_t axis);
/// What x and the indices are broadcast to for numpy's take_along_axis, where a length of 1 off the axis stands for all
/// of the other's. (To the op itself, as to ONNX's GatherElements, an index length of 1 is one that is less than x's.)
std::pair<Shape, Shape> take_along_axis_broadcast(const Shape& x, const Shape& indices, std::int64_t axis);
Shape gather_nd_shape(const Shape& x, const Shape& indices, std::int64_t batch_axes);
Shape embedding_shape(const Shape& table, const Shape& ids);

/// The result's shape, x's.
Shape scatter_along_axis_shape(const Shape& x, const Shape& indices, const Shape& updates, std::int64_t axis);
Shape scatter_nd_shape(const Shape& x, const Shape& indices, const Shape& updates);

/// Throws unless the lengths are none negative and sum up to the axis'.
void check_split(const Shape& x, std::span<const std::int64_t> lengths, std::int64_t axis);
Shape pad_shape(const Shape& x, std::span<const PadWidth> widths, PadMode mode);
Shape repeat_shape(const Shape& x, std::int64_t n, std::int64_t axis);
/// The shorter of the two is filled up with ones in front.
Shape tile_shape(const Shape& x, std::span<const std::int64_t> repeats);
/// Throws unless there are two axes; `op` is "triu" or "tril".
void check_triangle(std::string_view op, const Shape& x);
Shape one_hot_shape(const Shape& indices, std::int64_t depth, std::int64_t axis);
Shape topk_shape(const Shape& x, std::int64_t k, std::int64_t axis);

}  // namespace weft::ops
