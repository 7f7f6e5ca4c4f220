#include "ops/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "ops/infer_indexing.h"
#include "ops/launch.h"
#include "ops/result.h"
#include "ops/slices.h"
#include "weft/ops.h"

namespace weft {
namespace ops {
namespace {

/// The WGSL element of so many bytes; 1 is a bool, four of which share a u32.
std::string_view element_of(std::int64_t unit) {
  return unit == 2 ? "f16" : unit == 16 ? "vec4<u32>" : "u32";
}

// -- rows -----------------------------------------------------------------------------------------------------------

std::string row_key(std::int64_t unit, std::size_t tuple) {
  return fmt::format("gather {} {}", unit, tuple);
}

/// `unit`: the bytes that a thread moves as one; of bools it makes four.
KernelOptions row_options(std::int64_t unit, std::size_t tuple) {
  KernelOptions o;
  o.label = "weft.gather";
  const bool packed = unit == 1;
  std::string members;
  std::string walk;
  for (std::size_t j = 0; j < tuple; ++j) {
    members += fmt::format(", n{0}: u32, s{0}: u32", j);
    walk += fmt::format(
        "  {{\n    let i = from_front(indices[t + {0}u], params.n{0});\n"
        "    inside = inside && i < params.n{0};\n    place += i * params.s{0};\n  }}\n",
        j);
  }
  const std::string_view body = packed ? R"(  var word = 0u;
  for (var k = 0u; k < 4u; k++) {
    let i = t * 4u + k;
    if (i >= params.count) { break; }
    let s = source(params.first + i);
    if (s.inside) { word |= ((x[s.place / 4u] >> (8u * (s.place % 4u))) & 1u) << (8u * k); }
  }
  out[t] = word;)"
                                       : R"(  let s = source(params.first + t);
  var value = Element();
  if (s.inside) { value = x[s.place]; }
  out[t] = value;)";
  o.source = fmt::format(R"(struct Params {{
  count: u32, first: u32, tuples: u32, rows_per_outer: u32, inner: u32, x_offset: u32, outer_stride: u32,
  inner_stride: u32, indices_offset: u32, sign: u32{0}
}}
alias Element = {1};
@group(0) @binding(0) var<storage, read> x: array<{1}>;
@group(0) @binding(1) var<storage, read> indices: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<{1}>;
{2}
struct Source {{ place: u32, inside: bool }}
// Where element e of the result lies in x. Strides may be negative: sums wrap modulo 2^32 and end as an index.
fn source(e: u32) -> Source {{
  let row = e / params.inner;
  let t = params.indices_offset + row % params.tuples * {3}u;
  var inside = true;
  var place = params.x_offset + row / params.rows_per_outer * params.outer_stride +
              e % params.inner * params.inner_stride;
{4}  return Source(place, inside);
}}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {{
  let t = linear_index(id);
  if (t >= {5}) {{ return; }}
{6}
}}
)",
                         members, element_of(unit), kFromFront, tuple, walk,
                         packed ? "(params.count + 3u) / 4u" : "params.count", body);
  return o;
}

/// Moves runs of `unit` bytes as one where x is dense behind the axes and everything divides.
struct Units {
  std::int64_t offset, inner, unit;
  std::vector<std::int64_t> strides;  ///< of outer and of each indexed axis

  void widen(std::int64_t wanted) {
    const std::int64_t factor = wanted / unit;
    const auto divides = [&](std::int64_t v) { return v % factor == 0; };
    if (factor == 1 || !divides(offset) || !divides(inner) || !std::ranges::all_of(strides, divides)) return;
    offset /= factor;
    inner /= factor;
    for (std::int64_t& stride : strides) stride /= factor;
    unit = wanted;
  }
};

// -- elements along an axis -------------------------------------------------------------------------------------------

std::string along_key(std::int64_t unit, std::size_t rank) {
  return fmt::format("take_along_axis {} {}", unit, rank);
}

/// Axis 0 of the kernel is the innermost. A thread makes four neighbours, whose outer coordinates it works out once.
KernelOptions along_options(std::int64_t unit, std::size_t rank) {
  KernelOptions o;
  o.label = "weft.take_along_axis";
  std::string members;
  std::string walk;
  for (std::size_t i = 0; i < rank; ++i) {
    members += fmt::format(", n{0}: u32, s{0}: u32", i);
    if (i == 0) continue;
    walk += i + 1 < rank ? fmt::format("  place += e % params.n{0} * params.s{0};\n  e /= params.n{0};\n", i)
                         : fmt::format("  place += e * params.s{};\n", i);
  }
  const bool packed = unit == 1;
  o.source =
      fmt::format(R"(struct Params {{
  count: u32, first: u32, length: u32, axis_stride: u32, x_offset: u32, indices_offset: u32, sign: u32{0}
}}
alias Element = {1};
@group(0) @binding(0) var<storage, read> x: array<{1}>;
@group(0) @binding(1) var<storage, read> indices: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<{1}>;
{2}
// Where the r-th run along the innermost axis starts in x, the axis of the indices left out.
fn run_start(r: u32) -> u32 {{
  var e = r;
  var place = params.x_offset;
{3}  return place;
}}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {{
  let t = linear_index(id);
  if (t >= (params.count + 3u) / 4u) {{ return; }}
  let e = params.first + t * 4u;
  var r = e / params.n0;
  var c = e - r * params.n0;
  var start = run_start(r);
  {4}for (var k = 0u; k < min(4u, params.count - t * 4u); k++) {{
    if (c == params.n0) {{
      c = 0u;
      r++;
      start = run_start(r);
    }}
    let i = from_front(indices[params.indices_offset + e + k], params.length);
    let s = start + c * params.s0 + i * params.axis_stride;
    {5}
    c++;
  }}
{6}}}
)",
                  members, element_of(unit), kFromFront, walk, packed ? "var word = 0u;\n  " : "",
                  packed ? "if (i < params.length) { word |= ((x[s / 4u] >> (8u * (s % 4u))) & 1u) << (8u * k); }"
                         : "var value = Element();\n    if (i < params.length) { value = x[s]; }\n"
                           "    out[t * 4u + k] = value;",
                  packed ? "  out[t] = word;\n" : "");
  return o;
}

/// An axis of the indices as the kernel walks it, innermost first.
struct AlongAxis {
  std::int64_t length, stride;
};

/// Joins axes that x has as one, and drops those of length 1. The axis that is chosen on has stride 0.
std::vector<AlongAxis> along_axes(const Tensor& x, const Shape& indices, std::size_t axis) {
  std::vector<AlongAxis> axes;
  for (std::size_t i = indices.rank(); i-- > 0;) {
    if (indices[i] == 1) continue;
    const AlongAxis now{indices[i], i == axis ? 0 : x.strides()[i]};
    if (!axes.empty() && now.stride == axes.back().length * axes.back().stride) {
      axes.back().length *= now.length;
    } else {
      axes.push_back(now);
    }
  }
  if (axes.empty()) axes.push_back({1, 0});
  return axes;
}

std::vector<std::int64_t> element_sizes(const Device& device) {
  if (device.features().f16) return {1, 2, 4};
  return {1, 4};
}

}  // namespace

std::optional<std::int64_t> joined_stride(const Tensor& x, std::size_t first, std::size_t last) {
  std::int64_t length = 1;
  std::int64_t stride = 1;
  for (std::size_t i = last; i-- > first;) {
    if (x.shape()[i] == 1) continue;
    if (length == 1) stride = x.strides()[i];
    if (length != 1 && x.strides()[i] != length * stride) return std::nullopt;
    length *= x.shape()[i];
  }
  return stride;
}

RowView row_view(std::string_view op, const Tensor& x, std::size_t first_axis, std::size_t axes) {
  RowView view;
  view.x = x;
  const std::size_t behind = first_axis + axes;
  for (std::size_t i = 0; i < first_axis; ++i) view.outer *= x.shape()[i];
  for (std::size_t i = behind; i < x.rank(); ++i) view.inner *= x.shape()[i];
  if (x.size() == 0) return view;
  if (!joined_stride(x, 0, first_axis) || !joined_stride(x, behind, x.rank())) view.x = dense_operand(op, x, "x");
  if (view.outer > 1) view.outer_stride = joined_stride(view.x, 0, first_axis).value();
  view.inner_stride = joined_stride(view.x, behind, x.rank()).value();
  return view;
}

Tensor gather_rows(std::string_view op, const Shape& shape, const RowGather& gather, IndexCheck check) {
  Device device = gather.indices.device();
  const Tensor& x = gather.view.x;
  if (gather.indices.size() == 0) return device.empty(shape, x.dtype());
  checked_u32(op, element_count(shape), "elements of the result");
  std::vector<IndexedAxis> axes;
  for (const GatherAxis& a : gather.axes) {
    checked_u32(op, a.axis.length, "places to choose from");
    axes.push_back(a.axis);
  }
  const Window from = x.size() > 0 ? window(x, op) : Window{};
  const Tensor dense = dense_indices(op, gather.indices);
  if (check == IndexCheck::checked) check_indices(op, dense, gather.indices.shape(), axes);
  if (x.size() == 0) return device.zeros(shape, x.dtype());  // trusted indices, and nothing that they could mean
  Tensor out = ops::new_result(device, shape, x.dtype());
  if (out.size() == 0) return out;

  Units units{
      from.offset, gather.view.inner, static_cast<std::int64_t>(size_of(x.dtype())), {gather.view.outer_stride}};
  for (const GatherAxis& a : gather.axes) units.strides.push_back(a.axis.length == 1 ? 0 : a.stride);
  if (gather.view.inner_stride == 1) {
    units.widen(4);
    units.widen(16);
  }
  const Window indices = window(dense, op);
  std::vector<std::uint32_t> params{0,
                                    0,
                                    static_cast<std::uint32_t>(gather.tuples),
                                    static_cast<std::uint32_t>(gather.rows_per_outer),
                                    static_cast<std::uint32_t>(units.inner),
                                    static_cast<std::uint32_t>(units.offset),
                                    wrapped(units.strides[0]),
                                    wrapped(gather.view.inner_stride),
                                    indices.offset,
                                    sign_of(dense.dtype())};
  for (std::size_t j = 0; j < axes.size(); ++j) {
    params.push_back(static_cast<std::uint32_t>(axes[j].length));
    params.push_back(wrapped(units.strides[j + 1]));
  }
  const std::int64_t unit = units.unit;
  const Kernel kernel = dispatch::library_kernel(state_of(device), row_key(unit, axes.size()),
                                                 [&] { return row_options(unit, axes.size()); });
  each_slice(out, unit, [&](std::uint32_t first, std::uint32_t count, const BindingRange& to) {
    params[0] = count;
    params[1] = first;
    launch(device, kernel, std::array{from.range, indices.range, to}, std::as_bytes(std::span(params)),
           kernel.grid(grid_for(unit == 1 ? (std::uint64_t{count} + 3) / 4 : count)));
  });
  return out;
}

void visit_row_gather_kernels(const Device& device, std::size_t most_axes, const KernelVisitor& visit) {
  std::vector<std::int64_t> all = element_sizes(device);
  all.push_back(16);
  for (std::int64_t unit : all) {
    for (std::size_t tuple = 1; tuple <= most_axes; ++tuple) visit(row_key(unit, tuple), row_options(unit, tuple));
  }
}

void visit_take_along_axis_kernels(const Device& device, const KernelVisitor& visit) {
  for (std::int64_t unit : element_sizes(device)) {
    for (std::size_t rank = 1; rank <= kMaxRank; ++rank) visit(along_key(unit, rank), along_options(unit, rank));
  }
}

}  // namespace ops

Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis, IndexCheck check) {
  constexpr std::string_view kOp = "take_along_axis";
  Device device = ops::common_device(kOp, std::array{&x, &indices});
  ops::check_index_dtype(kOp, indices.dtype());
  const Shape shape = ops::take_along_axis_shape(x.shape(), indices.shape(), axis);
  const std::size_t at = ops::normalize_axis(kOp, axis, x.shape());
  const std::array checked{ops::IndexedAxis{x.shape()[at], fmt::format("axis {}", at)}};
  const std::uint32_t length = ops::checked_u32(kOp, x.shape()[at], "places to choose from");
  const ops::Window from = x.size() > 0 ? ops::window(x, kOp) : ops::Window{};
  const Tensor dense = ops::dense_indices(kOp, indices);
  if (check == IndexCheck::checked) ops::check_indices(kOp, dense, shape, checked);
  if (x.size() == 0) return device.zeros(shape, x.dtype());
  Tensor out = ops::new_result(device, shape, x.dtype());
  if (out.size() == 0) return out;

  const std::vector<ops::AlongAxis> axes = ops::along_axes(x, shape, at);
  const ops::Window indices_range = ops::window(dense, kOp);
  std::vector<std::uint32_t> params{
      0, 0, length, ops::wrapped(x.strides()[at]), from.offset, indices_range.offset, ops::sign_of(dense.dtype())};
  for (const ops::AlongAxis& a : axes) {
    params.push_back(static_cast<std::uint32_t>(a.length));
    params.push_back(ops::wrapped(a.stride));
  }
  const auto unit = static_cast<std::int64_t>(size_of(x.dtype()));
  const Kernel kernel = dispatch::library_kernel(ops::state_of(device), ops::along_key(unit, axes.size()),
                                                 [&] { return ops::along_options(unit, axes.size()); });
  ops::each_slice(out, unit, [&](std::uint32_t first, std::uint32_t count, const BindingRange& to) {
    params[0] = count;
    params[1] = first;
    ops::launch(device, kernel, std::array{from.range, indices_range.range, to}, std::as_bytes(std::span(params)),
                kernel.grid(grid_for((std::uint64_t{count} + 3) / 4)));
  });
  return out;
}

Tensor gather_nd(const Tensor& x, const Tensor& indices, std::int64_t batch_axes, IndexCheck check) {
  constexpr std::string_view kOp = "gather_nd";
  ops::common_device(kOp, std::array{&x, &indices});
  ops::check_index_dtype(kOp, indices.dtype());
  const Shape shape = ops::gather_nd_shape(x.shape(), indices.shape(), batch_axes);
  const auto batch = static_cast<std::size_t>(batch_axes);
  const auto tuple = static_cast<std::size_t>(indices.shape().back());
  ops::RowGather gather;
  gather.view = ops::row_view(kOp, x, batch, tuple);
  for (std::size_t i = batch; i < batch + tuple; ++i) {
    gather.axes.push_back({{x.shape()[i], fmt::format("axis {}", i)}, gather.view.x.strides()[i]});
  }
  gather.indices = indices;
  gather.tuples = indices.size() / static_cast<std::int64_t>(tuple);
  gather.rows_per_outer = gather.view.outer == 0 ? 1 : gather.tuples / gather.view.outer;
  return ops::gather_rows(kOp, shape, gather, check);
}

}  // namespace weft
