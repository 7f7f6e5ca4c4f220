// scatter_along_axis and scatter_nd. A first kernel turns indices into slots: the element, or the slice, of the result
// that each update goes to. It also checks the indices, and notes for each slot the last update that names it where
// several might. Then updates are written, a thread an element.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "base/checked.h"
#include "ops/elementwise.h"
#include "ops/index_check.h"
#include "ops/indexing_kernels.h"
#include "ops/infer.h"
#include "ops/infer_indexing.h"
#include "ops/launch.h"
#include "weft/error.h"
#include "weft/indexing.h"

namespace weft {
namespace {

// -- slots ------------------------------------------------------------------------------------------------------------

/// How an update's indices name its slot: a tuple of them, or one beside the update's own coordinates.
enum class Naming : std::uint8_t { tuple, along };

std::string slot_key(Naming naming, std::size_t rank, bool last) {
  return fmt::format("scatter.slots {} {} {}", naming == Naming::tuple ? "tuple" : "along", rank, last);
}

/// `rank`: of the tuples, or of the indices. `last`: whether the last update of each slot is wanted.
KernelOptions slot_options(Naming naming, std::size_t rank, bool last) {
  std::string members;
  std::string walk;
  const bool tuple = naming == Naming::tuple;
  if (!tuple) {
    members = ", length: u32, stride: u32";
    walk =
        "  let v = from_front(indices[params.offset + u], params.length);\n"
        "  if (v >= params.length) { bad = u; }\n  slot = v * params.stride;\n  var e = u;\n";
  }
  for (std::size_t j = 0; j < rank; ++j) {
    members += fmt::format(", n{0}: u32, s{0}: u32", j);
    if (tuple) {
      // The first bad index of a tuple counts: they are taken from the last on.
      const std::size_t back = rank - 1 - j;
      walk += fmt::format(
          "  {{\n    let i = u * {1}u + {0}u;\n    let v = from_front(indices[params.offset + i], params.n{0});\n"
          "    if (v >= params.n{0}) {{ bad = i; }}\n    slot += v * params.s{0};\n  }}\n",
          back, rank);
    } else {
      walk += j + 1 < rank ? fmt::format("  slot += e % params.n{0} * params.s{0};\n  e /= params.n{0};\n", j)
                           : fmt::format("  slot += e * params.s{};\n", j);
    }
  }
  KernelOptions o;
  o.label = "weft.scatter.slots";
  o.source =
      fmt::format(R"(struct Params {{ count: u32, offset: u32, sign: u32{0} }}
const GOOD = 0xffffffffu;
@group(0) @binding(0) var<storage, read> indices: array<u32>;
@group(0) @binding(1) var<storage, read_write> found: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> slots: array<u32>;
{1}{2}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {{
  let u = linear_index(id);
  if (u >= params.count) {{ return; }}
  var bad = GOOD;
  var slot = 0u;
{3}  // The first bad index has the largest complement; 0xffffffff is no slot.
  if (bad != GOOD) {{
    atomicMax(&found[0], ~bad);
    slots[u] = 0xffffffffu;
    return;
  }}
  slots[u] = slot;
{4}}}
)",
                  members, last ? "@group(0) @binding(3) var<storage, read_write> last: array<atomic<u32>>;\n" : "",
                  ops::kFromFront, walk, last ? "  atomicMax(&last[slot], u + 1u);\n" : "");
  return o;
}

// -- updates ----------------------------------------------------------------------------------------------------------

/// What a thread of the second kernel writes: bits of so many bytes for `set` (1 is a bool), else numbers of a dtype.
struct Update {
  ScatterOp op = ScatterOp::set;
  std::int64_t unit = 4;     ///< of set
  DType dtype = DType::f32;  ///< of the others; of f16, the result is f32
  bool last = false;         ///< of set: only the last update of a slot counts
};

std::string_view name_of(ScatterOp op) {
  switch (op) {
    case ScatterOp::set: return "set";
    case ScatterOp::add: return "add";
    case ScatterOp::multiply: return "multiply";
    case ScatterOp::maximum: return "maximum";
    case ScatterOp::minimum: return "minimum";
  }
  return "?";
}

std::string update_key(const Update& u) {
  if (u.op == ScatterOp::set) return fmt::format("scatter.set {} {}", u.unit, u.last);
  return fmt::format("scatter.{} {}", name_of(u.op), to_string(u.dtype));
}

/// Types of updates and result in memory, and the function that stores one at `d` from `s`.
struct UpdateText {
  std::string_view from, to;
  std::string store;
};

/// A loop that puts combined(what is there, v) in its place.
std::string exchange_text(std::string_view type, std::string_view combined) {
  return fmt::format(R"(
{1}
fn store(d: u32, s: u32) {{
  let v = {0}(updates[s]);
  var seen = atomicLoad(&out[d]);
  loop {{
    let wanted = bitcast<u32>(combined(bitcast<{0}>(seen), v));
    if (wanted == seen) {{ break; }}
    let got = atomicCompareExchangeWeak(&out[d], seen, wanted);
    if (got.exchanged) {{ break; }}
    seen = got.old_value;
  }}
}}
)",
                     type, combined);
}

UpdateText set_text(std::int64_t unit) {
  if (unit == 1) {
    // Each byte has one writer; its neighbours in the word may have others.
    return {"u32", "atomic<u32>", R"(
fn store(d: u32, s: u32) {
  let bit = 1u << (8u * (d % 4u));
  if (((updates[s / 4u] >> (8u * (s % 4u))) & 1u) != 0u) {
    atomicOr(&out[d / 4u], bit);
  } else {
    atomicAnd(&out[d / 4u], ~bit);
  }
}
)"};
  }
  const std::string_view type = unit == 2 ? "f16" : unit == 16 ? "vec4<u32>" : "u32";
  return {type, type, "fn store(d: u32, s: u32) { out[d] = updates[s]; }\n"};
}

UpdateText combine_text(ScatterOp op, DType dtype) {
  const bool larger = op == ScatterOp::maximum;
  if (dtype == DType::bool_) {
    // As arithmetic on bools has it: + and the maximum are «or», * and the minimum are «and».
    const bool either = op == ScatterOp::add || larger;
    return {
        "u32", "atomic<u32>",
        fmt::format(R"(
fn store(d: u32, s: u32) {{
  let v = ((updates[s / 4u] >> (8u * (s % 4u))) & 1u) != 0u;
  let bit = 1u << (8u * (d % 4u));
  {}
}}
)",
                    either ? "if (v) { atomicOr(&out[d / 4u], bit); }" : "if (!v) { atomicAnd(&out[d / 4u], ~bit); }")};
  }
  if (is_integer(dtype)) {
    if (op == ScatterOp::multiply) {
      return {"u32", "atomic<u32>", exchange_text("u32", "fn combined(a: u32, b: u32) -> u32 { return a * b; }")};
    }
    // Sums wrap alike; order needs the sign.
    const bool has_sign = dtype == DType::i32 && op != ScatterOp::add;
    return {has_sign ? "i32" : "u32", has_sign ? "atomic<i32>" : "atomic<u32>",
            fmt::format("fn store(d: u32, s: u32) {{ atomic{}(&out[d], updates[s]); }}\n", op == ScatterOp::add ? "Add"
                                                                                           : larger             ? "Max"
                                                                                                    : "Min")};
  }
  std::string combined;
  if (op == ScatterOp::add || op == ScatterOp::multiply) {
    combined = fmt::format("fn combined(a: f32, b: f32) -> f32 {{ return a {} b; }}", op == ScatterOp::add ? '+' : '*');
  } else {
    combined = fmt::format(R"(
fn is_nan(x: f32) -> bool {{ return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }}
// Integers in the order of the numbers; -0 and 0 are one.
fn order(x: f32) -> i32 {{
  let i = bitcast<i32>(x);
  return select(i, -(i & 0x7fffffff), i < 0);
}}
fn combined(a: f32, b: f32) -> f32 {{
  return select(a, b, !is_nan(a) && (is_nan(b) || order(b) {} order(a)));
}}
)",
                           larger ? '>' : '<');
  }
  return {dtype == DType::f16 ? "f16" : "f32", "atomic<u32>", exchange_text("f32", combined)};
}

KernelOptions update_options(const Update& u) {
  const UpdateText text = u.op == ScatterOp::set ? set_text(u.unit) : combine_text(u.op, u.dtype);
  KernelOptions o;
  o.label = fmt::format("weft.scatter.{}", name_of(u.op));
  o.source =
      fmt::format(R"(struct Params {{ count: u32, inner: u32, offset: u32, row_stride: u32, inner_stride: u32 }}
@group(0) @binding(0) var<storage, read> slots: array<u32>;
@group(0) @binding(1) var<storage, read> updates: array<{0}>;
@group(0) @binding(2) var<storage, read_write> out: array<{1}>;
{2}{3}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {{
  let e = linear_index(id);
  if (e >= params.count) {{ return; }}
  let u = e / params.inner;
  let i = e - u * params.inner;
  let slot = slots[u];
  if (slot == 0xffffffffu) {{ return; }}
{4}  store(slot * params.inner + i, params.offset + u * params.row_stride + i * params.inner_stride);
}}
)",
                  text.from, text.to, u.last ? "@group(0) @binding(3) var<storage, read> last: array<u32>;\n" : "",
                  text.store, u.last ? "  if (last[slot] != u + 1u) { return; }\n" : "");
  return o;
}

// -- running
// ------------------------------------------------------------------------------------------------------------

/// An axis that slots are counted along.
struct SlotAxis {
  std::int64_t length, stride;
};

struct Scatter {
  std::string_view op;
  Naming naming = Naming::tuple;
  std::vector<ops::IndexedAxis> checked;  ///< one for each index of a tuple
  std::vector<SlotAxis> axes;             ///< of the tuple, or of the indices, innermost first
  std::int64_t along_length = 0, along_stride = 0;
  std::int64_t updates = 0;  ///< that the indices name
  std::int64_t inner = 1;    ///< elements of an update
  bool distinct = false;     ///< no two updates can name one slot
};

/// Throws Error{out_of_range} where `count` elements of so many bytes are over what one binding shows.
void check_bytes(std::string_view op, std::string_view what, const Device& device, std::int64_t count,
                 std::uint64_t bytes_each) {
  const std::uint64_t limit = device.limits().max_storage_binding_size;
  if (static_cast<std::uint64_t>(count) <= limit / bytes_each) return;
  throw Error(ErrorCode::out_of_range,
              fmt::format("{}: {} of {} elements takes {} bytes, over the device's limit of {} for one binding", op,
                          what, count, static_cast<std::uint64_t>(count) * bytes_each, limit),
              "work on slices of it");
}

/// A new dense tensor with x's elements, as `dtype`.
Tensor copy_of(const Tensor& x, DType dtype) {
  ops::ElementProgram program;
  return program.run(x.device(), x.shape(), program.cast(program.input(x), dtype));
}

Tensor run(const Scatter& s, const Tensor& x, const Tensor& indices, const Tensor& updates,
           const ScatterOptions& options) {
  Device device = x.device();
  const bool set = options.op == ScatterOp::set;
  // f16 is summed in f32, and rounded once.
  const DType held = !set && x.dtype() == DType::f16 ? DType::f32 : x.dtype();
  const std::int64_t slots_in_x = s.inner == 0 ? 0 : x.size() / s.inner;
  const bool last = set && !s.distinct && s.updates > 1 && x.size() > 0;
  ops::checked_u32(s.op, updates.size() + 1, "updates");
  for (const ops::IndexedAxis& a : s.checked) ops::checked_u32(s.op, a.length, "places to choose from");
  check_bytes(s.op, "the result", device, x.size(), std::max<std::uint64_t>(size_of(held), 1));
  if (last) check_bytes(s.op, "the list of each element's last update", device, slots_in_x, 4);
  if (x.size() == 0 && (s.updates == 0 || options.check == IndexCheck::trusted)) {
    return device.empty(x.shape(), x.dtype());
  }
  if (s.updates == 0) return copy_of(x, x.dtype());

  const Tensor dense = ops::dense_indices(s.op, indices);
  const Tensor rows = updates.size() > 0 ? reshape(updates, {s.updates, s.inner}) : updates;
  const ops::Window from = updates.size() > 0 ? ops::window(rows, s.op) : ops::Window{};
  const ops::Window names = ops::window(dense, s.op);

  const Buffer found = device.zeros_bytes(4);
  const Buffer slots = device.alloc(static_cast<std::size_t>(s.updates) * 4);
  const Buffer latest = last ? device.zeros_bytes(static_cast<std::size_t>(slots_in_x) * 4) : Buffer();
  std::vector<std::uint32_t> params{static_cast<std::uint32_t>(s.updates), names.offset, ops::sign_of(dense.dtype())};
  if (s.naming == Naming::along) {
    params.push_back(static_cast<std::uint32_t>(s.along_length));
    params.push_back(ops::wrapped(s.along_stride));
  }
  for (const SlotAxis& a : s.axes) {
    params.push_back(static_cast<std::uint32_t>(a.length));
    params.push_back(ops::wrapped(a.stride));
  }
  const Kernel namer = dispatch::library_kernel(ops::state_of(device), slot_key(s.naming, s.axes.size(), last),
                                                [&] { return slot_options(s.naming, s.axes.size(), last); });
  std::vector<BindingRange> bound{names.range, BindingRange(found), BindingRange(slots)};
  if (last) bound.push_back(BindingRange(latest));
  ops::launch(device, namer, bound, std::as_bytes(std::span(params)),
              namer.grid(grid_for(static_cast<std::uint64_t>(s.updates))));
  if (options.check == IndexCheck::checked) ops::read_verdict(s.op, found, dense, indices.shape(), s.checked);

  if (x.size() == 0) return device.empty(x.shape(), x.dtype());
  const Tensor out = copy_of(x, held);
  Update update{options.op, static_cast<std::int64_t>(size_of(held)), x.dtype(), last};
  std::int64_t inner = s.inner;
  std::int64_t offset = from.offset;
  std::int64_t row_stride = s.updates == 1 ? 0 : rows.strides()[0];
  std::int64_t inner_stride = inner == 1 ? 1 : rows.strides()[1];
  for (std::int64_t wanted : {4, 16}) {
    // Whole slices are moved in larger units where everything divides.
    const std::int64_t factor = wanted / update.unit;
    const auto divides = [&](std::int64_t v) { return v % factor == 0; };
    if (!set || factor == 1 || inner_stride != 1 || !divides(inner) || !divides(offset) || !divides(row_stride))
      continue;
    inner /= factor;
    offset /= factor;
    row_stride /= factor;
    update.unit = wanted;
  }
  struct Params {
    std::uint32_t count, inner, offset, row_stride, inner_stride;
  };
  const Params writing{static_cast<std::uint32_t>(s.updates * inner), static_cast<std::uint32_t>(inner),
                       static_cast<std::uint32_t>(offset), ops::wrapped(row_stride), ops::wrapped(inner_stride)};
  const Kernel writer =
      dispatch::library_kernel(ops::state_of(device), update_key(update), [&] { return update_options(update); });
  bound = {BindingRange(slots), from.range, ops::window(out, s.op).range};
  if (last) bound.push_back(BindingRange(latest));
  ops::launch(device, writer, bound, std::as_bytes(std::span<const Params, 1>(&writing, 1)),
              writer.grid(grid_for(writing.count)));
  return held == x.dtype() ? out : cast(out, x.dtype());
}

void check_operands(std::string_view op, const Tensor& x, const Tensor& indices, const Tensor& updates) {
  ops::common_device(op, std::array{&x, &indices, &updates});
  ops::check_index_dtype(op, indices.dtype());
  if (updates.dtype() == x.dtype()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: the updates are {}, and x is {}", op, to_string(updates.dtype()), to_string(x.dtype())),
              "cast one of them");
}

}  // namespace

Tensor scatter_along_axis(const Tensor& x, const Tensor& indices, const Tensor& updates, std::int64_t axis,
                          const ScatterOptions& options) {
  Scatter s;
  s.op = "scatter_along_axis";
  check_operands(s.op, x, indices, updates);
  ops::scatter_along_axis_shape(x.shape(), indices.shape(), updates.shape(), axis);
  const std::size_t at = ops::normalize_axis(s.op, axis, x.shape());
  const Strides strides = contiguous_strides(x.shape());
  s.naming = Naming::along;
  s.checked.push_back({x.shape()[at], fmt::format("axis {}", at)});
  s.along_length = x.shape()[at];
  s.along_stride = strides[at];
  s.updates = indices.size();
  s.distinct = indices.shape()[at] == 1;
  // Axes of the indices that the result has as one are walked as one.
  for (std::size_t i = x.rank(); i-- > 0;) {
    if (indices.shape()[i] == 1) continue;
    const SlotAxis now{indices.shape()[i], i == at ? 0 : strides[i]};
    if (!s.axes.empty() && now.stride == s.axes.back().length * s.axes.back().stride) {
      s.axes.back().length *= now.length;
    } else {
      s.axes.push_back(now);
    }
  }
  if (s.axes.empty()) s.axes.push_back({1, 0});
  return run(s, x, indices, updates, options);
}

Tensor scatter_nd(const Tensor& x, const Tensor& indices, const Tensor& updates, const ScatterOptions& options) {
  Scatter s;
  s.op = "scatter_nd";
  check_operands(s.op, x, indices, updates);
  ops::scatter_nd_shape(x.shape(), indices.shape(), updates.shape());
  const auto tuple = static_cast<std::size_t>(indices.shape().back());
  for (std::size_t i = tuple; i < x.rank(); ++i) s.inner *= x.shape()[i];
  const Strides strides = contiguous_strides(Shape(std::span<const std::int64_t>(x.shape().begin(), tuple)));
  for (std::size_t i = 0; i < tuple; ++i) {
    s.checked.push_back({x.shape()[i], fmt::format("axis {}", i)});
    s.axes.push_back({x.shape()[i], strides[i]});
  }
  s.updates = indices.size() / static_cast<std::int64_t>(tuple);
  return run(s, x, indices, updates, options);
}

void ops::visit_scatter_kernels(const Device& device, const KernelVisitor& visit) {
  for (Naming naming : {Naming::tuple, Naming::along}) {
    for (std::size_t rank = 1; rank <= kMaxRank; ++rank) {
      for (bool last : {false, true}) visit(slot_key(naming, rank, last), slot_options(naming, rank, last));
    }
  }
  std::vector<Update> all;
  for (std::int64_t unit : {1, 2, 4, 16}) {
    for (bool last : {false, true}) all.push_back({ScatterOp::set, unit, DType::f32, last});
  }
  for (ScatterOp op : {ScatterOp::add, ScatterOp::multiply, ScatterOp::maximum, ScatterOp::minimum}) {
    for (DType t : {DType::bool_, DType::i32, DType::u32, DType::f16, DType::f32}) all.push_back({op, 4, t, false});
  }
  for (const Update& u : all) {
    const bool half = u.op == ScatterOp::set ? u.unit == 2 : u.dtype == DType::f16;
    if (half && !device.features().f16) continue;
    visit(update_key(u), update_options(u));
  }
}

}  // namespace weft
