// split, repeat, tile, triu, tril and one_hot: views, and elementwise programs over views.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "ops/elementwise.h"
#include "ops/index_check.h"
#include "ops/infer.h"
#include "ops/infer_indexing.h"
#include "ops/launch.h"
#include "ops/scalar.h"
#include "weft/error.h"
#include "weft/indexing.h"

namespace weft {
namespace {

/// A new dense tensor of what the view shows, in another shape of as many elements.
Tensor copied(const Tensor& view, const Shape& shape) {
  if (view.size() == 0) return Device(view.device()).empty(shape, view.dtype());
  ops::ElementProgram program;
  const Tensor dense = program.run(view.device(), view.shape(), program.input(view));
  return reshape(dense, shape);
}

/// x with axis `at` seen `n` times: a new axis of stride 0 in front of it, or behind it.
Tensor stretched(const Tensor& x, std::size_t at, std::int64_t n) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.insert(at, n);
  strides.insert(at, 0);
  return Tensor(x.device(), x.buffer(), shape, strides, x.offset(), x.dtype());
}

Tensor triangle(std::string_view op, const Tensor& x, std::int64_t k, BinaryOp keep) {
  Device device = ops::common_device(op, std::array{&x});
  ops::check_triangle(op, x.shape());
  if (x.size() == 0) return device.empty(x.shape(), x.dtype());
  const std::int64_t rows = x.shape()[x.rank() - 2];
  const std::int64_t columns = x.shape().back();
  if (std::max(rows, columns) > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: {} rows of {}, over the 2147483647 that a kernel can index", op, rows, columns),
                "work on slices");
  }
  ops::ElementProgram program;
  const auto index = [&](std::int64_t n, const Shape& shape) {
    return program.input(reshape(arange(device, 0, n, 1, DType::i32), shape));
  };
  const std::int32_t row = index(rows, {rows, 1});
  const std::int32_t column = index(columns, {columns});
  // Past these no element differs.
  const std::int32_t diagonal = program.scalar(std::clamp(k, -rows, columns), DType::i32);
  const std::int32_t kept = program.binary(keep, program.binary(BinaryOp::subtract, column, row), diagonal);
  const std::int32_t zero = program.scalar(ops::stored_scalar(op, 0, x.dtype()), x.dtype());
  return program.run(device, x.shape(), program.where(kept, program.input(x), zero));
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> lengths, std::int64_t axis) {
  ops::common_device("split", std::array{&x});
  ops::check_split(x.shape(), lengths, axis);
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (std::int64_t n : lengths) {
    parts.push_back(slice(x, axis, start, start + n));
    start += n;
  }
  return parts;
}

Tensor repeat(const Tensor& x, std::int64_t n, std::int64_t axis) {
  ops::common_device("repeat", std::array{&x});
  const Shape shape = ops::repeat_shape(x.shape(), n, axis);
  const std::size_t at = ops::normalize_axis("repeat", axis, x.shape());
  if (x.rank() < kMaxRank) return copied(stretched(x, at + 1, n), shape);
  // No axis left for the repeats: x as (up to the axis, behind it).
  std::int64_t inner = 1;
  for (std::size_t i = at + 1; i < x.rank(); ++i) inner *= x.shape()[i];
  return copied(stretched(reshape(x, {inner == 0 ? 0 : x.size() / inner, inner}), 1, n), shape);
}

Tensor tile(const Tensor& x, std::span<const std::int64_t> repeats) {
  ops::common_device("tile", std::array{&x});
  const Shape shape = ops::tile_shape(x.shape(), repeats);
  if (element_count(shape) == 0) return Device(x.device()).empty(shape, x.dtype());
  Tensor view = x;
  while (view.rank() < shape.rank()) view = expand_dims(view, 0);
  const std::size_t lead = shape.rank() - repeats.size();
  const auto repeated = static_cast<std::size_t>(std::ranges::count_if(repeats, [](auto n) { return n != 1; }));
  if (shape.rank() + repeated <= kMaxRank) {
    for (std::size_t i = repeats.size(); i-- > 0;) {
      if (repeats[i] != 1) view = stretched(view, lead + i, repeats[i]);
    }
    return copied(view, shape);
  }
  // Not enough axes for all repeats: one at a time, as (in front of the axis, from it on).
  Shape done = view.shape();
  for (std::size_t i = repeats.size(); i-- > 0;) {
    if (repeats[i] == 1) continue;
    std::int64_t outer = 1;
    for (std::size_t j = 0; j < lead + i; ++j) outer *= done[j];
    done[lead + i] *= repeats[i];
    view = copied(stretched(reshape(view, {outer, view.size() / outer}), 1, repeats[i]), done);
  }
  return view;
}

Tensor triu(const Tensor& x, std::int64_t k) {
  return triangle("triu", x, k, BinaryOp::greater_equal);
}

Tensor tril(const Tensor& x, std::int64_t k) {
  return triangle("tril", x, k, BinaryOp::less_equal);
}

Tensor one_hot(const Tensor& indices, std::int64_t depth, std::int64_t axis, Scalar on, Scalar off, DType dtype) {
  Device device = ops::common_device("one_hot", std::array{&indices});
  ops::check_index_dtype("one_hot", indices.dtype());
  const Shape shape = ops::one_hot_shape(indices.shape(), depth, axis);
  const Scalar held_on = ops::stored_scalar("one_hot", on, dtype);
  const Scalar held_off = ops::stored_scalar("one_hot", off, dtype);
  if (element_count(shape) == 0) return device.empty(shape, dtype);
  const auto rank = static_cast<std::int64_t>(shape.rank());
  const std::int64_t at = axis < 0 ? axis + rank : axis;
  Shape places(shape);
  for (std::int64_t i = 0; i < rank; ++i) places[static_cast<std::size_t>(i)] = i == at ? depth : 1;

  ops::ElementProgram program;
  const std::int32_t place = program.input(reshape(arange(device, 0, depth, 1, indices.dtype()), places));
  std::int32_t index = program.input(expand_dims(indices, at));
  if (indices.dtype() == DType::i32) {
    // One below -depth stays negative, which no place is.
    const std::int32_t from_end = program.binary(BinaryOp::add, index, program.scalar(depth, DType::i32));
    const std::int32_t negative = program.binary(BinaryOp::less, index, program.scalar(0, DType::i32));
    index = program.where(negative, from_end, index);
  }
  const std::int32_t hit = program.binary(BinaryOp::equal, index, place);
  const std::int32_t result = program.where(hit, program.scalar(held_on, dtype), program.scalar(held_off, dtype));
  return program.run(device, shape, result);
}

}  // namespace weft
