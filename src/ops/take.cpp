#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ops/infer.h"
#include "ops/launch.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft {
namespace {

/// Is v an index into an axis of params.length, and which from the front? ~v is -v - 1, so nothing overflows.
constexpr std::string_view kSignedIndex = R"(
alias Index = i32;
fn is_inside(v: Index) -> bool { return select(u32(v), u32(~v), v < 0) < params.length; }
fn from_front(v: Index) -> u32 { return select(u32(v), params.length + bitcast<u32>(v), v < 0); }
)";
constexpr std::string_view kUnsignedIndex = R"(
alias Index = u32;
fn is_inside(v: Index) -> bool { return v < params.length; }
fn from_front(v: Index) -> u32 { return v; }
)";

std::string_view index_code(DType dtype) {
  return dtype == DType::i32 ? kSignedIndex : kUnsignedIndex;
}

KernelOptions check_options(DType index) {
  KernelOptions o;
  o.label = "weft.take.check";
  // `found` starts at 0; the first bad index has the largest complement.
  o.source = fmt::format(R"(struct Params {{ count: u32, offset: u32, length: u32 }}
@group(0) @binding(0) var<storage, read> indices: array<Index>;
@group(0) @binding(1) var<storage, read_write> found: array<atomic<u32>>;
{}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {{
  let i = linear_index(id);
  if (i >= params.count) {{ return; }}
  if (!is_inside(indices[params.offset + i])) {{ atomicMax(&found[0], ~i); }}
}}
)",
                         index_code(index));
  return o;
}

/// `unit`: the bytes that a thread moves as one; 1 is a bool, of which it makes four.
KernelOptions gather_options(std::int64_t unit, DType index) {
  KernelOptions o;
  o.label = "weft.take";
  const bool packed = unit == 1;
  const std::string_view element = unit == 2 ? "f16" : unit == 16 ? "vec4<u32>" : "u32";
  const std::string_view body = packed ? R"(  var word = 0u;
  for (var k = 0u; k < 4u; k++) {
    let i = t * 4u + k;
    if (i >= params.count) { break; }
    let s = place(params.first + i);
    word |= ((x[s / 4u] >> (8u * (s % 4u))) & 1u) << (8u * k);
  }
  out[t] = word;)"
                                       : "  out[t] = x[place(params.first + t)];";
  o.source = fmt::format(R"(struct Params {{
  count: u32, first: u32, indices_count: u32, inner: u32, length: u32,
  x_offset: u32, outer_stride: u32, axis_stride: u32, inner_stride: u32, indices_offset: u32,
}}
@group(0) @binding(0) var<storage, read> x: array<{0}>;
@group(0) @binding(1) var<storage, read> indices: array<Index>;
@group(0) @binding(2) var<storage, read_write> out: array<{0}>;
{1}
// Where element e of the result lies in x. Strides may be negative: sums wrap modulo 2^32 and end as an index.
fn place(e: u32) -> u32 {{
  let row = e / params.inner;
  let i = from_front(indices[params.indices_offset + row % params.indices_count]);
  return params.x_offset + row / params.indices_count * params.outer_stride + i * params.axis_stride +
         e % params.inner * params.inner_stride;
}}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {{
  let t = linear_index(id);
  if (t >= {2}) {{ return; }}
{3}
}}
)",
                         element, index_code(index), packed ? "(params.count + 3u) / 4u" : "params.count", body);
  return o;
}

std::uint32_t checked_u32(std::int64_t n, std::string_view what) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (n > kMost) {
    throw Error(ErrorCode::unsupported, fmt::format("take: {} {}, over the {} that a kernel can index", n, what, kMost),
                "take fewer at a time, or from a slice");
  }
  return static_cast<std::uint32_t>(n);
}

std::uint32_t wrapped(std::int64_t v) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v));
}

/// x as (outer, axis, inner), in units of so many bytes.
struct Source {
  Strides strides;
  std::int64_t offset, inner, unit;
};

/// Moves runs of `unit` bytes as one where x is dense behind the axis and everything divides.
void widen(Source& s, std::int64_t unit) {
  const std::int64_t factor = unit / s.unit;
  if (factor == 1 || s.strides[2] != 1) return;
  for (std::int64_t v : {s.offset, s.inner, s.strides[0], s.strides[1]}) {
    if (v % factor != 0) return;
  }
  s = {Strides{s.strides[0] / factor, s.strides[1] / factor, 1}, s.offset / factor, s.inner / factor, unit};
}

[[noreturn]] void refuse_index(const Tensor& dense, const Shape& shape, std::int64_t position, std::int64_t length,
                               const std::string& where) {
  std::uint32_t bits = 0;
  Device(dense.device())
      .read(dense.buffer(), static_cast<std::size_t>(dense.offset() + position) * 4,
            std::as_writable_bytes(std::span<std::uint32_t, 1>(&bits, 1)));
  const bool has_sign = dense.dtype() == DType::i32;
  Shape at = shape;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    at[i] = position % shape[i];
    position /= shape[i];
  }
  throw Error(
      ErrorCode::out_of_range,
      fmt::format("take: index {}{} is out of range for {} of length {}",
                  has_sign ? std::int64_t{static_cast<std::int32_t>(bits)} : std::int64_t{bits},
                  shape.rank() == 0 ? std::string() : fmt::format(" at position {}", to_string(at)), where, length),
      fmt::format("use indices from {} to {}", has_sign ? -length : 0, length - 1));
}

void check_indices(const Tensor& dense, const Shape& shape, std::int64_t length, const std::string& where) {
  struct Params {
    std::uint32_t count, offset, length;
  };
  Device device = dense.device();
  const ops::Window range = ops::window(dense, "take");
  const Params params{checked_u32(dense.size(), "indices"), range.offset, checked_u32(length, "places to take from")};
  const Kernel kernel =
      dispatch::library_kernel(ops::state_of(device), fmt::format("take.check {}", to_string(dense.dtype())),
                               [&] { return check_options(dense.dtype()); });
  const Buffer found = device.zeros_bytes(4);
  ops::launch(device, kernel, {range.range, BindingRange(found)}, params, kernel.grid(grid_for(params.count)));
  std::uint32_t complement = 0;
  device.read(found, 0, std::as_writable_bytes(std::span<std::uint32_t, 1>(&complement, 1)));
  if (complement != 0) refuse_index(dense, shape, ~complement, length, where);
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& indices, std::optional<std::int64_t> axis) {
  const std::array<const Tensor*, 2> operands{&x, &indices};
  Device device = ops::common_device("take", operands);
  if (!is_integer(indices.dtype())) {
    throw Error(ErrorCode::invalid_argument, fmt::format("take: the indices are {}", to_string(indices.dtype())),
                "cast them to int32");
  }
  const Shape shape = ops::take_shape(x.shape(), indices.shape(), axis);
  Tensor out = device.empty(shape, x.dtype());
  if (indices.size() == 0) return out;

  // x as (before the axis, the axis, behind it).
  std::int64_t outer = 1;
  std::int64_t length = x.size();
  std::int64_t inner = 1;
  std::string where = "the flattened array";
  if (axis) {
    const std::size_t at = ops::normalize_axis("take", *axis, x.shape());
    length = x.shape()[at];
    for (std::size_t i = 0; i < at; ++i) outer *= x.shape()[i];
    for (std::size_t i = at + 1; i < x.rank(); ++i) inner *= x.shape()[i];
    where = fmt::format("axis {}", at);
  }
  const Tensor dense = contiguous(indices);
  check_indices(dense, indices.shape(), length, where);
  if (out.size() == 0) return out;

  const Tensor from = reshape(x, Shape{outer, length, inner});
  const ops::Window x_range = ops::window(from, "take");
  const ops::Window indices_range = ops::window(dense, "take");
  checked_u32(out.size(), "elements of the result");
  Source source{from.strides(), x_range.offset, inner, static_cast<std::int64_t>(size_of(x.dtype()))};
  widen(source, 4);
  widen(source, 16);
  const std::int64_t unit = source.unit;
  struct Params {
    std::uint32_t count, first, indices_count, inner, length, x_offset, outer_stride, axis_stride, inner_stride,
        indices_offset;
  };
  Params params{0,
                0,
                static_cast<std::uint32_t>(dense.size()),
                static_cast<std::uint32_t>(source.inner),
                static_cast<std::uint32_t>(length),
                static_cast<std::uint32_t>(source.offset),
                wrapped(source.strides[0]),
                wrapped(source.strides[1]),
                wrapped(source.strides[2]),
                indices_range.offset};
  const Kernel kernel =
      dispatch::library_kernel(ops::state_of(device), fmt::format("take {} {}", unit, to_string(dense.dtype())),
                               [&] { return gather_options(unit, dense.dtype()); });
  // The result in slices that a binding can show, each from an offset that one can start at.
  const std::int64_t alignment = std::max<std::int64_t>(device.limits().min_storage_offset_alignment, 16);
  const auto limit = static_cast<std::int64_t>(device.limits().max_storage_binding_size);
  const std::int64_t most = limit / alignment * alignment / unit;
  const std::int64_t all = static_cast<std::int64_t>(out.nbytes()) / unit;
  for (std::int64_t first = 0; first < all; first += most) {
    const std::int64_t count = std::min(most, all - first);
    params.first = static_cast<std::uint32_t>(first);
    params.count = static_cast<std::uint32_t>(count);
    const BindingRange to(out.buffer(), static_cast<std::uint64_t>(first * unit),
                          static_cast<std::uint64_t>(count * unit));
    ops::launch(device, kernel, {x_range.range, indices_range.range, to}, params,
                kernel.grid(grid_for(static_cast<std::uint64_t>(unit == 1 ? (count + 3) / 4 : count))));
  }
  return out;
}

}  // namespace weft
