// Ops that show the same elements another way: no kernel runs, but for the copy that reshape needs when strides don't
// do.
#include <fmt/format.h>

#include "ops/infer.h"
#include "ops/view_of.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft {
namespace {

void check_handle(std::string_view op, const Tensor& x) {
  if (x) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: the tensor handle is empty", op),
              "pass a tensor that Device::upload or an op gave");
}

}  // namespace

Tensor transpose(const Tensor& x, std::span<const std::int64_t> axes) {
  check_handle("transpose", x);
  Shape shape;
  Strides strides;
  for (std::size_t axis : ops::transpose_axes(x.shape(), axes)) {
    shape.push_back(x.shape()[axis]);
    strides.push_back(x.strides()[axis]);
  }
  return ops::view_of(x, shape, strides, x.offset());
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  check_handle("reshape", x);
  const Shape wanted = ops::reshape_shape(x.shape(), shape);
  if (const auto strides = ops::reshape_strides(x.shape(), x.strides(), wanted)) {
    return ops::view_of(x, wanted, *strides, x.offset());
  }
  const Tensor dense = contiguous(x);
  return ops::view_of(dense, wanted, contiguous_strides(wanted), dense.offset());
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  check_handle("broadcast_to", x);
  const std::size_t rank = x.rank();
  const auto fail = [&](std::string why) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("broadcast_to: shape {} does not stretch to {}: {}", to_string(x.shape()), to_string(shape), why),
        "stretch axes of length 1, or put new axes in front");
  };
  if (shape.rank() < rank) fail("it has more axes");
  element_count(shape);  // refuses negative lengths
  const std::size_t added = shape.rank() - rank;
  Strides strides = shape;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i < added) {
      strides[i] = 0;
      continue;
    }
    const std::int64_t have = x.shape()[i - added];
    if (have != shape[i] && have != 1) fail(fmt::format("axis {} would go from {} to {}", i, have, shape[i]));
    strides[i] = have == shape[i] ? x.strides()[i - added] : 0;
  }
  return ops::view_of(x, shape, strides, x.offset());
}

Tensor expand_dims(const Tensor& x, std::int64_t axis) {
  check_handle("expand_dims", x);
  const auto rank = static_cast<std::int64_t>(x.rank()) + 1;
  if (axis < -rank || axis >= rank) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("expand_dims: axis {} is out of range for a result of {} dimension{}, made from shape {}",
                            axis, rank, rank == 1 ? "" : "s", to_string(x.shape())),
                fmt::format("use an axis from {} to {}", -rank, rank - 1));
  }
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.insert(at, 1);
  strides.insert(at, 1);
  return ops::view_of(x, shape, strides, x.offset());
}

Tensor slice(const Tensor& x, std::int64_t axis, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
             std::int64_t step) {
  check_handle("slice", x);
  const std::size_t at = ops::normalize_axis("slice", axis, x.shape());
  const ops::SliceRange range = ops::slice_range(x.shape()[at], start, stop, step);
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[at] = range.count;
  // With one element or none the step leads nowhere, and may be too large to multiply.
  if (range.count > 1) strides[at] *= range.step;
  const std::int64_t offset = range.count > 0 ? x.offset() + range.start * x.strides()[at] : x.offset();
  return ops::view_of(x, shape, strides, offset);
}

Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index) {
  check_handle("select", x);
  const std::size_t at = ops::normalize_axis("select", axis, x.shape());
  const std::int64_t length = x.shape()[at];
  if (index < -length || index >= length) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("select: index {} is out of range for axis {} of length {}, of a tensor of shape {}", index,
                            at, length, to_string(x.shape())),
                length == 0 ? std::string("select from an axis that has elements")
                            : fmt::format("use an index from {} to {}", -length, length - 1));
  }
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(at);
  strides.erase(at);
  return ops::view_of(x, shape, strides, x.offset() + (index < 0 ? index + length : index) * x.strides()[at]);
}

}  // namespace weft
