#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "ops/index_check.h"
#include "ops/indexing_kernels.h"
#include "ops/infer_indexing.h"
#include "ops/launch.h"
#include "ops/result.h"
#include "ops/scalar.h"
#include "ops/slices.h"
#include "weft/error.h"
#include "weft/indexing.h"

namespace weft {
namespace {

constexpr std::array kModes{PadMode::constant, PadMode::edge, PadMode::reflect, PadMode::wrap};

std::string_view name_of(PadMode mode) {
  switch (mode) {
    case PadMode::constant: return "constant";
    case PadMode::edge: return "edge";
    case PadMode::reflect: return "reflect";
    case PadMode::wrap: return "wrap";
  }
  return "?";
}

/// Where coordinate i of the result lies on an axis of x; not below its length where it doesn't. `shift` is the width
/// before the axis; for the periodic modes, what i is ahead of x by, less than a period.
std::string_view source_text(PadMode mode) {
  switch (mode) {
    case PadMode::constant: return "  return i - shift;\n";
    case PadMode::edge: return "  return select(min(i - shift, length - 1u), 0u, i < shift);\n";
    case PadMode::reflect:
      return "  let period = max(2u * length - 2u, 1u);\n  let p = (i + shift) % period;\n"
             "  return select(period - p, p, p < length);\n";
    case PadMode::wrap: return "  return (i + shift) % length;\n";
  }
  return "";
}

std::string pad_key(PadMode mode, std::int64_t unit, std::size_t rank) {
  return fmt::format("pad {} {} {}", name_of(mode), unit, rank);
}

/// Axis 0 of the kernel is the innermost. A thread makes four neighbours, whose outer coordinates it works out once.
KernelOptions pad_options(PadMode mode, std::int64_t unit, std::size_t rank) {
  KernelOptions o;
  o.label = "weft.pad";
  std::string members;
  std::string walk;
  for (std::size_t i = 0; i < rank; ++i) {
    members += fmt::format(", n{0}: u32, h{0}: u32, l{0}: u32, s{0}: u32", i);
    if (i == 0) continue;
    const bool last = i + 1 == rank;
    walk += fmt::format(
        "  {{\n    let c = source({1}, params.h{0}, params.l{0});\n"
        "    inside = inside && c < params.l{0};\n    place += c * params.s{0};\n{2}  }}\n",
        i, last ? "e" : fmt::format("e % params.n{}", i), last ? "" : fmt::format("    e /= params.n{};\n", i));
  }
  const bool packed = unit == 1;
  const std::string_view value = unit == 2 ? "f16(bitcast<f32>(params.value))" : "params.value";
  o.source = fmt::format(
      R"(struct Params {{ count: u32, first: u32, x_offset: u32, value: u32{0} }}
@group(0) @binding(0) var<storage, read> x: array<{1}>;
@group(0) @binding(1) var<storage, read_write> out: array<{1}>;
fn source(i: u32, shift: u32, length: u32) -> u32 {{
{2}}}
struct Run {{ place: u32, inside: bool }}
// Where the r-th run along the innermost axis lies in x.
fn run_at(r: u32) -> Run {{
  var e = r;
  var inside = true;
  var place = params.x_offset;
{3}  return Run(place, inside);
}}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {{
  let t = linear_index(id);
  if (t >= (params.count + 3u) / 4u) {{ return; }}
  let e = params.first + t * 4u;
  var r = e / params.n0;
  var i = e - r * params.n0;
  var run = run_at(r);
  {4}for (var k = 0u; k < min(4u, params.count - t * 4u); k++) {{
    if (i == params.n0) {{
      i = 0u;
      r++;
      run = run_at(r);
    }}
    let c = source(i, params.h0, params.l0);
    let s = run.place + c * params.s0;
    var value = {5};
    if (run.inside && c < params.l0) {{ value = {6}; }}
    {7}
    i++;
  }}
{8}}}
)",
      members, unit == 2 ? "f16" : "u32", source_text(mode), walk, packed ? "var word = 0u;\n  " : "", value,
      packed ? "(x[s / 4u] >> (8u * (s % 4u))) & 1u" : "x[s]",
      packed ? "word |= value << (8u * k);" : "out[t * 4u + k] = value;", packed ? "  out[t] = word;\n" : "");
  return o;
}

struct PadAxis {
  std::int64_t length, before, source, stride;  ///< of the result, in front, of x
  bool whole() const { return length == source; }
};

/// Joins axes that x has as one: those that nothing is added to, and in mode constant those in front of such.
std::vector<PadAxis> pad_axes(const Tensor& x, const Shape& shape, std::span<const std::int64_t> before, PadMode mode) {
  std::vector<PadAxis> axes;
  for (std::size_t i = x.rank(); i-- > 0;) {
    const PadAxis now{shape[i], before[i], x.shape()[i], x.strides()[i]};
    if (now.length == 1 && now.source == 1) continue;
    if (!axes.empty() && axes.back().whole() && (mode == PadMode::constant || now.whole()) &&
        now.stride == axes.back().source * axes.back().stride) {
      PadAxis& inner = axes.back();
      inner = {inner.length * now.length, inner.length * now.before, inner.length * now.source, inner.stride};
    } else {
      axes.push_back(now);
    }
  }
  if (axes.empty()) axes.push_back({1, 0, 1, 1});
  return axes;
}

std::uint32_t shift_of(const PadAxis& axis, PadMode mode) {
  std::int64_t period = 0;
  if (mode == PadMode::reflect) period = std::max<std::int64_t>(2 * axis.source - 2, 1);
  if (mode == PadMode::wrap) period = axis.source;
  if (period == 0) return static_cast<std::uint32_t>(axis.before);
  return static_cast<std::uint32_t>((period - axis.before % period) % period);
}

}  // namespace

Tensor pad(const Tensor& x, std::span<const PadWidth> widths, PadMode mode, Scalar value) {
  Device device = ops::common_device("pad", std::array{&x});
  const Shape shape = ops::pad_shape(x.shape(), widths, mode);
  const Scalar held = ops::stored_scalar("pad", value, x.dtype());
  Tensor cut = x;
  std::vector<std::int64_t> before;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    // What is cut off goes first. Where that is all of it, only the value is left.
    const std::int64_t length = x.shape()[i];
    const std::int64_t start = widths[i].before < 0 ? -std::max(widths[i].before, -length) : 0;
    const std::int64_t stop = widths[i].after < 0 ? std::max(length + widths[i].after, start) : length;
    cut = slice(cut, static_cast<std::int64_t>(i), start, stop);
    before.push_back(std::max<std::int64_t>(widths[i].before, 0));
  }
  if (cut.size() == 0 || element_count(shape) == 0) return full(device, shape, held, x.dtype());

  const ops::Window from = ops::window(cut, "pad");
  ops::checked_u32("pad", element_count(shape), "elements of the result");
  const std::vector<PadAxis> axes = pad_axes(cut, shape, before, mode);
  std::vector<std::uint32_t> params{0, 0, from.offset, ops::param_bits(held, x.dtype())};
  for (const PadAxis& axis : axes) {
    // The kernel adds a coordinate and a shift of less than two lengths.
    ops::checked_u32("pad", axis.length + 2 * axis.source, "places along an axis");
    params.push_back(static_cast<std::uint32_t>(axis.length));
    params.push_back(shift_of(axis, mode));
    params.push_back(static_cast<std::uint32_t>(axis.source));
    params.push_back(ops::wrapped(axis.stride));
  }
  Tensor out = ops::new_result(device, shape, x.dtype());
  const auto unit = static_cast<std::int64_t>(size_of(x.dtype()));
  const Kernel kernel = dispatch::library_kernel(ops::state_of(device), pad_key(mode, unit, axes.size()),
                                                 [&] { return pad_options(mode, unit, axes.size()); });
  ops::each_slice(out, unit, [&](std::uint32_t first, std::uint32_t count, const BindingRange& to) {
    params[0] = count;
    params[1] = first;
    ops::launch(device, kernel, std::array{from.range, to}, std::as_bytes(std::span(params)),
                kernel.grid(grid_for((std::uint64_t{count} + 3) / 4)));
  });
  return out;
}

void ops::visit_pad_kernels(const Device& device, const KernelVisitor& visit) {
  for (PadMode mode : kModes) {
    for (std::int64_t unit : {1, 2, 4}) {
      if (unit == 2 && !device.features().f16) continue;
      for (std::size_t rank = 1; rank <= kMaxRank; ++rank) {
        visit(pad_key(mode, unit, rank), pad_options(mode, unit, rank));
      }
    }
  }
}

}  // namespace weft
