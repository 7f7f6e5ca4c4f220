#include "ops/infer_indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/refuse.h"
#include "ops/infer.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

/// a + b and a * b of lengths, refused where they leave 64 bits.
std::int64_t sum_of(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  throw Error(ErrorCode::out_of_range, fmt::format("{}: {} + {} does not fit 64 bits", op, a, b),
              "use smaller lengths");
}
std::int64_t product_of(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  throw Error(ErrorCode::out_of_range, fmt::format("{}: {} * {} does not fit 64 bits", op, a, b),
              "use smaller lengths");
}

void check_along(std::string_view op, const Shape& x, const Shape& indices, std::size_t axis) {
  if (indices.rank() != x.rank()) {
    refuse(fmt::format("{}: indices of shape {} have {} axes, and x of shape {} has {}", op, to_string(indices),
                       indices.rank(), to_string(x), x.rank()),
           "give the indices as many axes as x (expand_dims)");
  }
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (i == axis || indices[i] <= x[i]) continue;
    refuse(fmt::format("{}: indices of shape {} are longer than x of shape {} on axis {}, and index axis {}", op,
                       to_string(indices), to_string(x), i, axis),
           fmt::format("use lengths up to x's on all axes but {}", axis));
  }
}

/// The tuple length of indices [..., k] into x behind `batch` axes.
std::size_t tuple_of(std::string_view op, const Shape& x, const Shape& indices, std::size_t batch) {
  if (indices.rank() == 0) {
    refuse(fmt::format("{}: the indices are a single number, without an axis of tuples", op),
           "give them a last axis: one index for each axis of x that they choose on");
  }
  const auto most = static_cast<std::int64_t>(x.rank() - batch);
  if (indices.back() < 1 || indices.back() > most) {
    refuse(fmt::format("{}: indices of shape {} are tuples of {} for x of shape {}{}", op, to_string(indices),
                       indices.back(), to_string(x),
                       batch > 0 ? fmt::format(" behind {} batch axes", batch) : std::string()),
           most < 1 ? std::string("give x an axis to choose on (reshape)")
                    : fmt::format("make the last axis of the indices 1 to {}", most));
  }
  return static_cast<std::size_t>(indices.back());
}

void check_updates(std::string_view op, const Shape& updates, const Shape& wanted, const Shape& x,
                   const Shape& indices) {
  if (updates == wanted) return;
  refuse(fmt::format("{}: updates of shape {}, and indices of shape {} into x of shape {} take {}", op,
                     to_string(updates), to_string(indices), to_string(x), to_string(wanted)),
         fmt::format("give updates of shape {} (broadcast_to)", to_string(wanted)));
}

}  // namespace

void check_index_dtype(std::string_view op, DType indices) {
  if (is_integer(indices)) return;
  throw DTypeError(fmt::format("{}: the indices are {}", op, to_string(indices)), "cast them to int32");
}

Shape take_along_axis_shape(const Shape& x, const Shape& indices, std::int64_t axis) {
  check_along("take_along_axis", x, indices, normalize_axis("take_along_axis", axis, x));
  return indices;
}

std::pair<Shape, Shape> take_along_axis_broadcast(const Shape& x, const Shape& indices, std::int64_t axis) {
  const std::size_t at = normalize_axis("take_along_axis", axis, x);
  std::pair<Shape, Shape> out{x, indices};
  if (x.rank() != indices.rank()) return out;  // take_along_axis_shape refuses them
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (i == at) continue;
    if (x[i] == 1) out.first[i] = indices[i];
    if (indices[i] == 1) out.second[i] = x[i];
  }
  return out;
}

Shape gather_nd_shape(const Shape& x, const Shape& indices, std::int64_t batch_axes) {
  const auto most = static_cast<std::int64_t>(std::min(x.rank(), indices.rank()));
  if (batch_axes < 0 || batch_axes >= std::max<std::int64_t>(most, 1)) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("gather_nd: {} batch axes for x of shape {} and indices of shape {}", batch_axes,
                            to_string(x), to_string(indices)),
                fmt::format("use 0 to {}", std::max<std::int64_t>(most - 1, 0)));
  }
  const auto batch = static_cast<std::size_t>(batch_axes);
  for (std::size_t i = 0; i < batch; ++i) {
    if (x[i] == indices[i]) continue;
    refuse(fmt::format("gather_nd: batch axis {} has length {} in x of shape {}, and {} in indices of shape {}", i,
                       x[i], to_string(x), indices[i], to_string(indices)),
           "make the batch axes of both equal");
  }
  const std::size_t tuple = tuple_of("gather_nd", x, indices, batch);
  check_picked_rank("gather_nd", indices.rank() - 1 + x.rank() - batch - tuple, x, indices);
  Shape out;
  for (std::size_t i = 0; i + 1 < indices.rank(); ++i) out.push_back(indices[i]);
  for (std::size_t i = batch + tuple; i < x.rank(); ++i) out.push_back(x[i]);
  return out;
}

Shape embedding_shape(const Shape& table, const Shape& ids) {
  if (table.rank() != 2) {
    refuse(fmt::format("embedding: a table of shape {} has {} axes", to_string(table), table.rank()),
           "give a table of 2 axes, [rows, width]");
  }
  check_picked_rank("embedding", ids.rank() + 1, table, ids);
  Shape out = ids;
  out.push_back(table[1]);
  return out;
}

Shape scatter_along_axis_shape(const Shape& x, const Shape& indices, const Shape& updates, std::int64_t axis) {
  check_along("scatter_along_axis", x, indices, normalize_axis("scatter_along_axis", axis, x));
  check_updates("scatter_along_axis", updates, indices, x, indices);
  return x;
}

Shape scatter_nd_shape(const Shape& x, const Shape& indices, const Shape& updates) {
  const std::size_t tuple = tuple_of("scatter_nd", x, indices, 0);
  check_picked_rank("scatter_nd", indices.rank() - 1 + x.rank() - tuple, x, indices);
  Shape wanted;
  for (std::size_t i = 0; i + 1 < indices.rank(); ++i) wanted.push_back(indices[i]);
  for (std::size_t i = tuple; i < x.rank(); ++i) wanted.push_back(x[i]);
  check_updates("scatter_nd", updates, wanted, x, indices);
  return x;
}

void check_split(const Shape& x, std::span<const std::int64_t> lengths, std::int64_t axis) {
  const std::size_t at = normalize_axis("split", axis, x);
  std::int64_t sum = 0;
  for (std::int64_t n : lengths) {
    if (n < 0) {
      refuse(fmt::format("split: a part of length {} (lengths {})", n, fmt::join(lengths, ", ")),
             "use lengths from 0 on");
    }
    sum = sum_of("split", sum, n);
  }
  if (sum == x[at]) return;
  refuse(fmt::format("split: lengths {} sum up to {}, and axis {} of shape {} has {}", fmt::join(lengths, ", "), sum,
                     at, to_string(x), x[at]),
         fmt::format("make the lengths sum up to {}", x[at]));
}

Shape pad_shape(const Shape& x, std::span<const PadWidth> widths, PadMode mode) {
  if (widths.size() != x.rank()) {
    refuse(fmt::format("pad: {} widths for a tensor of shape {}", widths.size(), to_string(x)),
           fmt::format("give one for each of its {} axes", x.rank()));
  }
  Shape out = x;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const PadWidth w = widths[i];
    out[i] = sum_of("pad", sum_of("pad", x[i], w.before), w.after);
    if (out[i] < 0) {
      refuse(fmt::format("pad: widths {} and {} cut more off axis {} of shape {} than its length of {}", w.before,
                         w.after, i, to_string(x), x[i]),
             "cut off less");
    }
  }
  if (mode == PadMode::constant || element_count(out) == 0) return out;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const auto cut = [&](std::int64_t width) { return width < 0 ? width : std::int64_t{0}; };
    const std::int64_t left = sum_of("pad", sum_of("pad", x[i], cut(widths[i].before)), cut(widths[i].after));
    if (left > 0) continue;
    refuse(fmt::format("pad: axis {} of shape {} with widths {} and {} has no element to repeat", i, to_string(x),
                       widths[i].before, widths[i].after),
           "use mode constant, or keep an element");
  }
  return out;
}

Shape repeat_shape(const Shape& x, std::int64_t n, std::int64_t axis) {
  const std::size_t at = normalize_axis("repeat", axis, x);
  if (n < 0) refuse(fmt::format("repeat: {} times", n), "use a count from 0 on");
  Shape out = x;
  out[at] = product_of("repeat", x[at], n);
  return out;
}

Shape tile_shape(const Shape& x, std::span<const std::int64_t> repeats) {
  const std::size_t rank = std::max(x.rank(), repeats.size());
  if (rank > kMaxRank) {
    refuse(fmt::format("tile: {} repeats, over the most of {} dimensions", repeats.size(), kMaxRank),
           "repeat along fewer axes");
  }
  Shape out;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t x_lead = rank - x.rank();
    const std::size_t lead = rank - repeats.size();
    const std::int64_t n = i < lead ? 1 : repeats[i - lead];
    if (n < 0) refuse(fmt::format("tile: {} times along axis {}", n, i), "use counts from 0 on");
    out.push_back(product_of("tile", i < x_lead ? 1 : x[i - x_lead], n));
  }
  return out;
}

void check_triangle(std::string_view op, const Shape& x) {
  if (x.rank() >= 2) return;
  refuse(fmt::format("{}: a tensor of shape {} has {} axes", op, to_string(x), x.rank()),
         "give it at least 2 (expand_dims)");
}

Shape one_hot_shape(const Shape& indices, std::int64_t depth, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(indices.rank()) + 1;
  if (axis < -rank || axis >= rank) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("one_hot: axis {} is out of range for a result of {} dimension{}, made from shape {}", axis,
                            rank, rank == 1 ? "" : "s", to_string(indices)),
                fmt::format("use an axis from {} to {}", -rank, rank - 1));
  }
  check_picked_rank("one_hot", static_cast<std::size_t>(rank), indices, indices);
  if (depth < 0 || depth > std::numeric_limits<std::int32_t>::max()) {
    refuse(fmt::format("one_hot: a depth of {}", depth), "use a depth from 0 to 2147483647");
  }
  Shape out = indices;
  out.insert(static_cast<std::size_t>(axis < 0 ? axis + rank : axis), depth);
  return out;
}

Shape topk_shape(const Shape& x, std::int64_t k, std::int64_t axis) {
  const std::size_t at = normalize_axis("topk", axis, x);
  if (k < 0 || k > x[at]) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("topk: {} of axis {} of length {}, of a tensor of shape {}", k, at, x[at], to_string(x)),
                fmt::format("use a k from 0 to {}", x[at]));
  }
  Shape out = x;
  out[at] = k;
  return out;
}

}  // namespace weft::ops
