// Elements chosen by index: the kernels of take, embedding, gather_nd and take_along_axis.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/catalog.h"
#include "ops/index_check.h"
#include "weft/indexing.h"

namespace weft::ops {

/// x seen as (outer, the indexed axes, inner): the axes before the indexed ones as one, and those behind as one. A
/// dense copy of x where its strides allow no such view.
struct RowView {
  Tensor x;
  std::int64_t outer = 1, outer_stride = 0;
  std::int64_t inner = 1, inner_stride = 1;
};
RowView row_view(std::string_view op, const Tensor& x, std::size_t first_axis, std::size_t axes);

/// The stride of the axes first .. last - 1 of x as one axis, where they lie as one.
std::optional<std::int64_t> joined_stride(const Tensor& x, std::size_t first, std::size_t last);

/// An axis that indices choose on, as it lies in x.
struct GatherAxis {
  IndexedAxis axis;
  std::int64_t stride = 0;
};
/// Rows of a view by tuples of indices. Row r of the result comes from outer r / rows_per_outer and tuple r % tuples.
struct RowGather {
  RowView view;
  std::vector<GatherAxis> axes;
  Tensor indices;  ///< any layout and shape, tuples * axes.size() of them
  std::int64_t tuples = 1;
  std::int64_t rows_per_outer = 1;
};
/// The result, of `shape`, after the check of the indices that `check` asks for.
Tensor gather_rows(std::string_view op, const Shape& shape, const RowGather& gather, IndexCheck check);

void visit_row_gather_kernels(const Device& device, std::size_t most_axes, const KernelVisitor& visit);
void visit_take_along_axis_kernels(const Device& device, const KernelVisitor& visit);

}  // namespace weft::ops
