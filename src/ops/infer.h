// Result shapes and dtypes of ops: pure rules, no device. Shared by the ops and by expressions, which check everything
// before anything runs. All throw Error{invalid_argument} or Error{out_of_range} whose message names the op, the shapes
// and dtypes, and a fix.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weft/dtype.h"
#include "weft/ops.h"
#include "weft/shape.h"

namespace weft::ops {

/// The dtype that two tensors meet in; see the head of weft/ops.h.
DType promote(DType a, DType b) noexcept;
/// The dtype that a tensor and a weak scalar meet in. Throws when an integer scalar does not fit the dtype (300 with a
/// bool meets in i32; 2^40 with i32 is an error).
DType promote(DType a, const Scalar& b);

bool is_comparison(BinaryOp op) noexcept;
/// The comparison that says of (b, a) what this one says of (a, b).
BinaryOp swapped(BinaryOp comparison) noexcept;
struct Comparison {
  BinaryOp op;
  Scalar number;
};
/// Of x op number, with a tensor of dtype x that can't hold the number: one with the same answer that fits. x < 2^40
/// holds for every i32, as x <= 2^31 - 1 does; x < 2.5 as x <= 2 does, with no rounding of large integers to floats.
/// Nothing where the number fits.
std::optional<Comparison> comparison_beside(DType x, BinaryOp op, const Scalar& number);

/// `number` as `op` takes it beside a tensor of dtype x: divide and arctan2 compute in f32, for which a whole number
/// need not fit the tensor's integers.
Scalar number_for(BinaryOp op, DType x, const Scalar& number);

/// What a unary op computes in and what it gives.
struct OpTypes {
  DType compute;
  DType result;
};
OpTypes unary_types(UnaryOp op, DType x);
/// `operands` is the promoted dtype of both.
OpTypes binary_types(BinaryOp op, DType operands);
/// What the sum, maximum, index, ... of dtype x is, and what it accumulates in.
OpTypes reduce_types(ReduceOp op, DType x);

/// An axis counted from the front. Throws Error{out_of_range}: "softmax: axis 3 is out of range for a tensor of 3
/// dimensions (2, 3, 4). Fix: use an axis from -3 to 2."
std::size_t normalize_axis(std::string_view op, std::int64_t axis, const Shape& shape);
/// Sorted, counted from the front; refuses repeats. None means all.
std::vector<std::size_t> normalize_axes(std::string_view op, const std::optional<std::vector<std::int64_t>>& axes,
                                        const Shape& shape);

Shape reduce_shape(ReduceOp op, const Shape& x, const ReduceOptions& options);
/// Broadcast batch axes, 1-D operands as numpy.matmul.
Shape matmul_shape(const Shape& a, const Shape& b);
Shape concat_shape(std::span<const Shape> parts, std::int64_t axis);
/// That picking by `indices` from `x` gives no more axes than there may be.
void check_picked_rank(std::string_view op, std::size_t rank, const Shape& x, const Shape& indices);
Shape take_shape(const Shape& x, const Shape& indices, std::optional<std::int64_t> axis);
/// Replaces one -1. Throws when the element counts differ.
Shape reshape_shape(const Shape& x, const Shape& wanted);
/// Permutation, checked; empty means reversed.
std::vector<std::size_t> transpose_axes(const Shape& x, std::span<const std::int64_t> axes);
/// Shape and stride of one axis after x[start:stop:step], by Python's rules.
struct SliceRange {
  std::int64_t start = 0, count = 0, step = 1;
};
SliceRange slice_range(std::int64_t length, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                       std::int64_t step);
/// Strides (in elements) that show the same elements in the new shape, if there are such.
std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides, const Shape& wanted);

}  // namespace weft::ops
