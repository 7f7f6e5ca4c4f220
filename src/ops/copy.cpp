#include "ops/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "ops/launch.h"
#include "weft/ops.h"

namespace weft::ops {
namespace {

/// One axis of both sides, in units of the kernel's element.
struct Axis {
  std::int64_t length, in, out;
};

/// What the kernel moves at a time.
enum class Unit : std::uint8_t { byte, half, word, vec4 };

constexpr std::int64_t bytes_of(Unit unit) {
  switch (unit) {
    case Unit::byte: return 1;
    case Unit::half: return 2;
    case Unit::word: return 4;
    case Unit::vec4: return 16;
  }
  return 0;
}

struct Plan {
  std::vector<Axis> axes;  ///< innermost first, at least one
  std::int64_t in = 0, out = 0;
  Unit unit = Unit::word;
  std::int64_t count = 1;
};

/// Joins axes that lie as one on both sides, and drops those of length 1.
std::vector<Axis> joined_axes(const Tensor& out, const Tensor& in) {
  std::vector<Axis> axes;
  for (std::size_t i = out.rank(); i-- > 0;) {
    const Axis axis{out.shape()[i], in.strides()[i], out.strides()[i]};
    if (axis.length == 1) continue;
    if (!axes.empty()) {
      Axis& inner = axes.back();
      if (axis.in == inner.length * inner.in && axis.out == inner.length * inner.out) {
        inner.length *= axis.length;
        continue;
      }
    }
    axes.push_back(axis);
  }
  if (axes.empty()) axes.push_back({1, 1, 1});
  return axes;
}

/// Moves `factor` elements as one where everything divides: dense runs of such a length, from such places.
bool widen(Plan& p, std::int64_t factor) {
  if (p.axes[0].in != 1 || p.axes[0].out != 1 || p.axes[0].length % factor != 0) return false;
  if (p.in % factor != 0 || p.out % factor != 0) return false;
  for (std::size_t i = 1; i < p.axes.size(); ++i) {
    if (p.axes[i].in % factor != 0 || p.axes[i].out % factor != 0) return false;
  }
  p.axes[0].length /= factor;
  for (std::size_t i = 1; i < p.axes.size(); ++i) {
    p.axes[i].in /= factor;
    p.axes[i].out /= factor;
  }
  p.in /= factor;
  p.out /= factor;
  return true;
}

Plan plan_copy(const Tensor& out, const Tensor& in, std::uint32_t out_offset, std::uint32_t in_offset) {
  Plan p;
  p.axes = joined_axes(out, in);
  p.in = in_offset;
  p.out = out_offset;
  p.unit = size_of(out.dtype()) == 1 ? Unit::byte : size_of(out.dtype()) == 2 ? Unit::half : Unit::word;
  if (p.unit != Unit::word && widen(p, 4 / bytes_of(p.unit))) p.unit = Unit::word;
  if (p.unit == Unit::word && widen(p, 4)) p.unit = Unit::vec4;
  for (const Axis& a : p.axes) p.count *= a.length;
  return p;
}

std::string copy_key(Unit unit, std::size_t rank) {
  return fmt::format("copy {} {}", static_cast<int>(unit), rank);
}

KernelOptions make_options(Unit unit, std::size_t rank) {
  std::string members;
  std::string walk;
  for (std::size_t i = 0; i < rank; ++i) {
    members += fmt::format(", n{0}: u32, s{0}: u32, d{0}: u32", i);
    // Strides may be negative: products and sums wrap modulo 2^32, and what they come to is an index again.
    walk += i + 1 < rank ? fmt::format(
                               "  {{ let r = e % params.n{0}; s += r * params.s{0}; d += r * params.d{0}; "
                               "e /= params.n{0}; }}\n",
                               i)
                         : fmt::format("  s += e * params.s{0};\n  d += e * params.d{0};\n", i);
  }
  std::string_view in_type = "u32";
  std::string_view out_type = "u32";
  std::string_view move = "out[d] = x[s];";
  switch (unit) {
    case Unit::byte:
      out_type = "atomic<u32>";
      move = "if (((x[s / 4u] >> (8u * (s % 4u))) & 1u) != 0u) { atomicOr(&out[d / 4u], 1u << (8u * (d % 4u))); }";
      break;
    case Unit::half: in_type = out_type = "f16"; break;
    case Unit::word: break;
    case Unit::vec4: in_type = out_type = "vec4<u32>"; break;
  }
  KernelOptions o;
  o.label = "weft.copy";
  o.source = fmt::format(R"(struct Params {{ count: u32, s: u32, d: u32{} }}
@group(0) @binding(0) var<storage, read> x: array<{}>;
@group(0) @binding(1) var<storage, read_write> out: array<{}>;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {{
  var e = linear_index(id);
  if (e >= params.count) {{ return; }}
  var s = params.s;
  var d = params.d;
{}  {}
}}
)",
                         members, in_type, out_type, walk, move);
  return o;
}

/// The axis along which a half of the view spans least.
std::size_t longest_axis(const Tensor& x) {
  std::size_t at = 0;
  std::int64_t longest = -1;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const std::int64_t reach = std::abs((x.shape()[i] - 1) * x.strides()[i]);
    if (x.shape()[i] > 1 && reach > longest) {
      longest = reach;
      at = i;
    }
  }
  return at;
}

}  // namespace

void copy_into(const Tensor& out, const Tensor& in, std::string_view op, std::uint64_t most_bytes) {
  if (out.size() == 0) return;
  constexpr std::int64_t kMostElements = std::int64_t{1} << 30;
  const std::uint64_t limit = std::min(most_bytes, out.device().limits().max_storage_binding_size);
  const bool out_over = window_bytes(out) > limit;
  if (out.size() > 1 && (out_over || window_bytes(in) > limit || out.size() > kMostElements)) {
    const std::size_t axis = longest_axis(out_over || window_bytes(in) <= limit ? out : in);
    const std::int64_t middle = out.shape()[axis] / 2;
    const auto at = static_cast<std::int64_t>(axis);
    copy_into(slice(out, at, std::nullopt, middle), slice(in, at, std::nullopt, middle), op, most_bytes);
    copy_into(slice(out, at, middle, std::nullopt), slice(in, at, middle, std::nullopt), op, most_bytes);
    return;
  }
  const Window to = window(out, op);
  const Window from = window(in, op);
  const Plan plan = plan_copy(out, in, to.offset, from.offset);
  std::array<std::uint32_t, 3 + 3 * kMaxRank> params{};
  std::size_t n = 0;
  const auto put = [&](std::int64_t v) { params[n++] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(v)); };
  put(plan.count);
  put(plan.in);
  put(plan.out);
  for (const Axis& a : plan.axes) {
    put(a.length);
    put(a.in);
    put(a.out);
  }
  const std::size_t rank = plan.axes.size();
  const Device& device = out.device();
  const Kernel kernel = dispatch::library_kernel(state_of(device), copy_key(plan.unit, rank),
                                                 [&] { return make_options(plan.unit, rank); });
  launch(device, kernel, std::array{from.range, to.range}, std::as_bytes(std::span(params).first(n)),
         kernel.grid(grid_for(static_cast<std::uint64_t>(plan.count))));
}

void visit_copy_kernels(const Device& device, const KernelVisitor& visit) {
  for (Unit unit : {Unit::byte, Unit::half, Unit::word, Unit::vec4}) {
    if (unit == Unit::half && !device.features().f16) continue;
    for (std::size_t rank = 1; rank <= kMaxRank; ++rank) visit(copy_key(unit, rank), make_options(unit, rank));
  }
}

}  // namespace weft::ops
