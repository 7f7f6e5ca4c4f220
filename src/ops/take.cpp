// take and embedding: one index chooses along one axis.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>

#include "ops/gather.h"
#include "ops/infer.h"
#include "ops/infer_indexing.h"
#include "ops/launch.h"
#include "weft/indexing.h"

namespace weft {
namespace {

Tensor take_rows(std::string_view op, const Tensor& x, const Tensor& indices, std::optional<std::int64_t> axis,
                 const Shape& shape, IndexCheck check) {
  ops::RowGather gather;
  gather.indices = indices;
  gather.tuples = gather.rows_per_outer = indices.size();
  if (axis) {
    const std::size_t at = ops::normalize_axis(op, *axis, x.shape());
    gather.view = ops::row_view(op, x, at, 1);
    gather.axes.push_back({{x.shape()[at], fmt::format("axis {}", at)}, gather.view.x.strides()[at]});
  } else {
    gather.view.x = ops::joined_stride(x, 0, x.rank()) ? x : ops::dense_operand(op, x, "x");
    // Axes of no elements may join in no stride, and need none.
    const std::int64_t stride = ops::joined_stride(gather.view.x, 0, x.rank()).value_or(1);
    gather.axes.push_back({{x.size(), "the flattened array"}, stride});
  }
  return ops::gather_rows(op, shape, gather, check);
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& indices, std::optional<std::int64_t> axis) {
  return take(x, indices, axis, IndexCheck::checked);
}

Tensor take(const Tensor& x, const Tensor& indices, std::optional<std::int64_t> axis, IndexCheck check) {
  ops::common_device("take", std::array{&x, &indices});
  ops::check_index_dtype("take", indices.dtype());
  return take_rows("take", x, indices, axis, ops::take_shape(x.shape(), indices.shape(), axis), check);
}

Tensor embedding(const Tensor& table, const Tensor& ids, IndexCheck check) {
  ops::common_device("embedding", std::array{&table, &ids});
  ops::check_index_dtype("embedding", ids.dtype());
  return take_rows("embedding", table, ids, 0, ops::embedding_shape(table.shape(), ids.shape()), check);
}

}  // namespace weft
