// weft/indexing.h - picking, placing and ordering elements.
//
// Records into Device::stream(), as weft/ops.h. Indices are i32 or u32; of i32, negative ones count from the
// end. An index out of range is Error{out_of_range} that shows it and where it stands, thrown by the call itself: the
// device checks the indices and the call reads the verdict back before anything else is recorded (an IndexCheck of
// `trusted` leaves that wait out; then an index out of range gives 0, or writes nothing, and never touches memory
// outside the tensor). What waits can't be captured into a graph (weft/graph.h): give `trusted` there.
//
// All dtypes, moved as they are. Tensors that kernels read, or write by index, must fit one binding
// (Limits::max_storage_binding_size), else Error{out_of_range} that names the limit; results that are written in order
// may be larger.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "weft/ops.h"
#include "weft/tensor.h"

namespace weft {

enum class IndexCheck : std::uint8_t { checked, trusted };

// -- picking
// ----------------------------------------------------------------------------------------------------------

/// take of weft/ops.h, with the check to choose.
Tensor take(const Tensor& x, const Tensor& indices, std::optional<std::int64_t> axis, IndexCheck check);
/// numpy.take_along_axis, ONNX GatherElements: result[i][j] = x[indices[i][j]][j] for axis 0. Off the axis, indices'
/// lengths are at most x's.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis, IndexCheck check = {});
/// ONNX GatherND: the last axis of `indices` holds index tuples into the axes of x behind the first `batch_axes`, which
/// both share. Shape: indices.shape[:-1] + x.shape[batch_axes + indices.shape[-1]:].
Tensor gather_nd(const Tensor& x, const Tensor& indices, std::int64_t batch_axes = 0, IndexCheck check = {});
/// Rows of a table [rows, width]: [...ids] gives [...ids, width].
Tensor embedding(const Tensor& table, const Tensor& ids, IndexCheck check = {});

// -- placing
// ----------------------------------------------------------------------------------------------------------

/// How an update meets the element that is there. `set`: the last of several updates of one element wins, in row-major
/// order of the updates; the others take in all of them, floats in any order (f16 in f32, rounded once). maximum and
/// minimum keep NaN. Of bools, add and maximum are «or», multiply and minimum «and».
enum class ScatterOp : std::uint8_t { set, add, multiply, maximum, minimum };
struct ScatterOptions {
  ScatterOp op = ScatterOp::set;
  IndexCheck check = IndexCheck::checked;
};
/// A copy of x with `updates` at x[indices[i][j]][j] (axis 0): numpy.put_along_axis, ONNX ScatterElements. updates has
/// the shape of indices and x's dtype.
Tensor scatter_along_axis(const Tensor& x, const Tensor& indices, const Tensor& updates, std::int64_t axis,
                          const ScatterOptions& options = {});
/// ONNX ScatterND: a copy of x with slices updates[i, ...] at x[indices[i]]. updates' shape: indices.shape[:-1] +
/// x.shape[indices.shape[-1]:].
Tensor scatter_nd(const Tensor& x, const Tensor& indices, const Tensor& updates, const ScatterOptions& options = {});

// -- shaping
// ----------------------------------------------------------------------------------------------------------

/// Consecutive parts of an axis, of these lengths (their sum is the axis'). Views.
std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> lengths, std::int64_t axis = 0);

enum class PadMode : std::uint8_t { constant, edge, reflect, wrap };
/// Elements before and behind one axis; negative ones cut off, before anything is added.
struct PadWidth {
  std::int64_t before = 0, after = 0;
};
/// numpy.pad; one width for each axis. reflect leaves the edge element out, and like wrap goes on for any width.
Tensor pad(const Tensor& x, std::span<const PadWidth> widths, PadMode mode = PadMode::constant, Scalar value = 0);
/// Each element n times, along an axis: numpy.repeat.
Tensor repeat(const Tensor& x, std::int64_t n, std::int64_t axis);
/// The whole so many times along each axis: numpy.tile; the shorter of shape and repeats gets ones in front.
Tensor tile(const Tensor& x, std::span<const std::int64_t> repeats);
/// The last two axes with zeros below (above) the k-th diagonal.
Tensor triu(const Tensor& x, std::int64_t k = 0);
Tensor tril(const Tensor& x, std::int64_t k = 0);
/// A new axis of length `depth` at `axis` with `on` at the index and `off` elsewhere; an index outside -depth ..
/// depth - 1 gives `off` throughout (ONNX OneHot).
Tensor one_hot(const Tensor& indices, std::int64_t depth, std::int64_t axis = -1, Scalar on = 1, Scalar off = 0,
               DType dtype = DType::f32);

// -- ordering
// ---------------------------------------------------------------------------------------------------------

struct SortOptions {
  std::int64_t axis = -1;
  bool descending = false;
};
/// Stable in both directions; NaN last when ascending, first when descending (PyTorch); -0 and 0 are equal. Rows of any
/// length whose elements, at 4 bytes each, fit one binding.
Tensor sort(const Tensor& x, const SortOptions& options = {});
/// The i32 positions that sort() takes its elements from.
Tensor argsort(const Tensor& x, const SortOptions& options = {});

struct TopK {
  Tensor values;   ///< x's dtype, sorted from the first on
  Tensor indices;  ///< i32
};
struct TopKOptions {
  std::int64_t axis = -1;
  bool largest = true;  ///< NaN counts as the largest
};
/// The k largest (smallest) of each row; of equal ones the first. k is 0 to the axis' length.
TopK topk(const Tensor& x, std::int64_t k, const TopKOptions& options = {});

}  // namespace weft
