#include "ops/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>

#include "base/checked.h"
#include "weft/error.h"
#include "weft/ops.h"
#include "wgsl/rows.wgsl.h"

namespace weft::ops {
namespace {

std::atomic<KernelClass> forced{KernelClass::automatic};

/// Indices of one dispatch are u32, and twice that must not wrap.
constexpr std::uint64_t kMaxIndex = 0x7fffffff;

// Of the row ops' kernels.
constexpr std::uint32_t kMaxGroup = 256;       ///< threads of a workgroup that holds a row
constexpr std::uint32_t kMaxHeld = 8;          ///< units (elements, or quads of them) that a thread of it holds
constexpr std::uint64_t kThreadRow = 32;       ///< on GPUs, rows up to this long get a thread each
constexpr std::uint64_t kCpuRows = 64;         ///< on CPU adapters, from this many rows on each gets a thread
constexpr std::uint64_t kLongestWalk = 16384;  ///< turns of one loop over a piece
constexpr std::uint64_t kCpuPiece = 1024;      ///< the shortest piece of a row there
constexpr std::uint64_t kGpuThreads = 16384;   ///< that keep a GPU busy
constexpr std::uint64_t kGpuPiece = 64;        ///< the shortest piece of a column there

struct Params {
  std::uint32_t offset, rows, length, kept_inner, kept_stride0, kept_stride1, stride;
  std::uint32_t out_offset, out_stride0, out_stride1, out_stride;
  std::uint32_t splits, chunk;
  float eps;
  std::uint32_t weight_offset, bias_offset;
};
static_assert(sizeof(Params) == 64, "no more than Dawn's immediates take");

constexpr std::uint32_t word(std::int64_t v) {
  return static_cast<std::uint32_t>(v);
}

std::string_view wgsl_name(DType t) {
  switch (t) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::i32: return "i32";
    default: return "u32";
  }
}

/// One way to run a row op.
struct RowPlan {
  bool quads = false;      ///< four elements at a time, all of them f32 or f16
  bool by_column = false;  ///< neighbouring threads take neighbouring rows, which lie side by side
  bool hold = false;       ///< a workgroup a row (or piece) that keeps it in registers
  std::uint32_t group = 64;
  std::uint32_t held = 1;
  std::uint64_t splits = 1;
  std::uint64_t chunk = 0;
};

RowPlan plan_rows(bool cpu, const AxisPair& kept, const AxisPair& row, bool quads) {
  RowPlan plan;
  plan.quads = quads;
  const std::uint64_t rows = kept.count();
  const std::uint64_t length = row.count();
  plan.by_column = row.stride[1] != 1 && rows > 1 && std::abs(kept.stride[1]) <= std::abs(row.stride[1]);
  plan.chunk = length;
  const auto split = [&](std::uint64_t wanted, std::uint64_t shortest) {
    wanted = std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(length / shortest, 1));
    plan.chunk = (ceil_div(length, wanted) + 3) / 4 * 4;
    plan.splits = ceil_div(length, plan.chunk);
    if (plan.splits == 1) plan.chunk = length;
  };
  // A thread walks its piece up to three times, and Mesa 22's lavapipe ends all loops of an invocation, silently, after
  // 65,535 turns in all.
  const std::uint64_t walk = kLongestWalk * (quads ? 4 : 1);
  const auto bound_walk = [&] {
    if (plan.chunk > walk) split(ceil_div(length, walk), 4);
  };
  if (cpu) {
    if (rows < kCpuRows) split(ceil_div(2 * kCpuRows, rows), kCpuPiece);
    bound_walk();
    return plan;
  }
  if (length <= kThreadRow) return plan;
  if (plan.by_column) {
    if (rows < kGpuThreads) split(ceil_div(kGpuThreads, rows), kGpuPiece);
    bound_walk();
    return plan;
  }
  plan.hold = true;
  const std::uint64_t unit = quads ? 4 : 1;
  const std::uint64_t most = std::uint64_t{kMaxGroup} * kMaxHeld * unit;
  if (length > most) {
    plan.splits = ceil_div(length, most);
    plan.chunk = (ceil_div(length, plan.splits) + 3) / 4 * 4;
    plan.splits = ceil_div(length, plan.chunk);
  }
  const std::uint64_t units = ceil_div(plan.chunk, unit);
  plan.group = std::clamp<std::uint32_t>(std::bit_ceil(static_cast<std::uint32_t>(ceil_div(units, 4))), 32, kMaxGroup);
  plan.held = static_cast<std::uint32_t>(ceil_div(units, plan.group));
  return plan;
}

/// The kernel of a workgroup that reads its row or piece once and keeps it in registers: unrolled by name, as compilers
/// put an array that a loop indexes into memory.
std::string holding_kernels(std::uint32_t held) {
  std::string load, second, store;
  for (std::uint32_t i = 0; i < held; ++i) {
    load += fmt::format(R"(
  let r{0} = begin + (lane + {0}u * GROUP) * UNIT;
  var h{0}: V;
  if (r{0} < end) {{
    h{0} = read_x(x_at + r{0} * params.stride);
    a = first_v(a, h{0}, origin);
  }})",
                        i);
    second += fmt::format("\n  if (r{0} < end) {{ s += second_v(h{0}, m); }}", i);
    store += fmt::format(
        "\n  if (r{0} < end) {{ write_out(out_at + r{0} * params.out_stride, result(h{0}, m, s, r{0})); }}", i);
  }
  return fmt::format(R"(
@compute @workgroup_size(GROUP)
fn hold(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
  let row = min(group.x + group.y * 32768u, params.rows - 1u);
  let begin = 0u;
  let end = params.length;
  let x_at = x_place(row);
  let out_at = out_place(row);
  let origin = origin_of(read_x(x_at + begin * params.stride));
  var a = none();{0}
  let m = first_of(group_first(lane, a), f32(end - begin), origin);
  var s = 0.0;{1}
  s = group_sum(lane, s);{2}
}}

@compute @workgroup_size(GROUP)
fn hold_stats(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
  let t = min(group.x + group.y * 32768u, params.rows * params.splits - 1u);
  let begin = t % params.splits * params.chunk;
  let end = min(begin + params.chunk, params.length);
  let x_at = x_place(t / params.splits);
  let origin = origin_of(read_x(x_at + begin * params.stride));
  var a = none();{0}
  let m = first_of(group_first(lane, a), f32(end - begin), origin);
  var s = 0.0;{1}
  s = group_sum(lane, s);
  if (lane == 0u) {{
    pieces_out[t] = vec2<f32>(m, s);
  }}
}}
)",
                     load, second, store);
}

Kernel row_kernel(const Device& device, const RowOp& op, const RowPlan& plan, DType in, DType out, bool folded,
                  std::string_view entry) {
  const std::string key = fmt::format("rows:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}", op.name, entry, wgsl_name(in),
                                      in == DType::bool_, wgsl_name(out), plan.quads, plan.group, plan.held, folded,
                                      static_cast<bool>(op.weight), static_cast<bool>(op.bias));
  return dispatch::library_kernel(state_of(device), key, [&] {
    const std::string_view v = plan.quads ? "vec4<f32>" : "f32";
    const auto array_of = [&](std::string_view scalar) {
      return plan.quads ? fmt::format("array<vec4<{}>>", scalar) : fmt::format("array<{}>", scalar);
    };
    std::string text;
    text += fmt::format("alias V = {};\nconst UNIT = {}u;\nconst GROUP = {}u;\nconst TWO_KEPT = {};\n", v,
                        plan.quads ? 4 : 1, plan.group, folded);
    text += fmt::format("@group(0) @binding(0) var<storage, read> x: {};\n", array_of(wgsl_name(in)));
    text += fmt::format("@group(0) @binding(1) var<storage, read_write> out: {};\n", array_of(wgsl_name(out)));
    if (op.weight) text += fmt::format("@group(0) @binding(2) var<storage, read> weight: {};\n", array_of("f32"));
    if (op.bias) text += fmt::format("@group(0) @binding(3) var<storage, read> bias: {};\n", array_of("f32"));
    text += "@group(0) @binding(4) var<storage, read> pieces: array<vec2<f32>>;\n";
    text += "@group(0) @binding(5) var<storage, read_write> pieces_out: array<vec2<f32>>;\n";
    text += fmt::format("fn read_x(i: u32) -> V {{ return V({}); }}\n", in == DType::bool_
                                                                            ? "(x[i / 4u] >> (i % 4u * 8u)) & 0xffu"
                                                                        : plan.quads ? "x[i / 4u]"
                                                                                     : "x[i]");
    text += fmt::format("fn write_out(i: u32, v: V) {{ out[i / UNIT] = {}(v); }}\n",
                        plan.quads ? fmt::format("vec4<{}>", wgsl_name(out)) : std::string(wgsl_name(out)));
    if (plan.quads) {
      text += R"(fn origin_of(x: V) -> f32 { return x.x; }
fn first_v(a: f32, x: V, origin: f32) -> f32 {
  return first(first(first(first(a, x.x, origin), x.y, origin), x.z, origin), x.w, origin);
}
fn second_v(x: V, m: f32) -> f32 { return (second(x.x, m) + second(x.y, m)) + (second(x.z, m) + second(x.w, m)); }
)";
    } else {
      text += R"(fn origin_of(x: V) -> f32 { return x; }
fn first_v(a: f32, x: V, origin: f32) -> f32 { return first(a, x, origin); }
fn second_v(x: V, m: f32) -> f32 { return second(x, m); }
)";
    }
    text += op.text;
    text += wgsl::rows;
    text += holding_kernels(plan.held);
    KernelOptions options;
    options.source = std::move(text);
    options.entry_point = entry;
    options.label = fmt::format("{}.{}", op.name, entry);
    return options;
  });
}

void run_block(const RowOp& op, const Tensor& x, const AxisPair& kept, const AxisPair& row, const Tensor& out) {
  const Device& device = x.device();
  const Window x_window = window(x, op.name);
  const Window out_window = window(out, op.name);
  std::optional<Window> weight, bias;
  if (op.weight) weight = window(op.weight, op.name);
  if (op.bias) bias = window(op.bias, op.name);

  const auto aligned = [](const std::optional<Window>& w) { return !w || w->offset % 4 == 0; };
  AxisPair kept_out = kept;
  kept_out.stride = kept.out_stride;
  // In quads nothing may be left over, in the row or at the end of a binding.
  const bool quads = is_float(x.dtype()) && row.stride[1] == 1 && row.out_stride[1] == 1 && row.length[1] % 4 == 0 &&
                     starts_on_quads(kept, x_window.offset, out_window.offset) && starts_on_quads(kept_out, 0, 0) &&
                     aligned(weight) && aligned(bias);
  const RowPlan plan = plan_rows(cpu_kernels(device), kept, row, quads);

  Params params{};
  params.offset = x_window.offset;
  params.rows = static_cast<std::uint32_t>(kept.count());
  params.length = static_cast<std::uint32_t>(row.count());
  params.kept_inner = static_cast<std::uint32_t>(kept.length[1]);
  params.kept_stride0 = word(kept.stride[0]);
  params.kept_stride1 = word(kept.stride[1]);
  params.stride = word(row.stride[1]);
  params.out_offset = out_window.offset;
  params.out_stride0 = word(kept.out_stride[0]);
  params.out_stride1 = word(kept.out_stride[1]);
  params.out_stride = word(row.out_stride[1]);
  params.splits = static_cast<std::uint32_t>(plan.splits);
  params.chunk = static_cast<std::uint32_t>(plan.chunk);
  params.eps = op.eps;
  params.weight_offset = weight ? weight->offset : 0;
  params.bias_offset = bias ? bias->offset : 0;

  const auto run = [&](std::string_view entry, std::initializer_list<std::pair<std::uint32_t, const Window*>> operands,
                       Grid grid) {
    const Kernel kernel = row_kernel(device, op, plan, x.dtype(), out.dtype(), kept.folded(), entry);
    std::vector<BindingRange> ranges;
    for (const BindingInfo& info : kernel.bindings()) {
      const auto it =
          std::find_if(operands.begin(), operands.end(), [&](const auto& o) { return o.first == info.binding; });
      ranges.push_back(it->second->range);
    }
    launch(device, kernel, ranges, std::as_bytes(std::span<const Params, 1>(&params, 1)), grid);
  };
  const Window* w = weight ? &*weight : nullptr;
  const Window* b = bias ? &*bias : nullptr;
  const std::uint64_t threads = kept.count() * plan.splits;
  const Grid thread_grid = fold_groups(ceil_div(threads, plan.group), op.name);
  if (plan.splits == 1) {
    run(plan.hold ? "hold" : "by_thread", {{0, &x_window}, {1, &out_window}, {2, w}, {3, b}},
        plan.hold ? fold_groups(threads, op.name) : thread_grid);
    return;
  }
  // Statistics of pieces, of rows, then the results.
  Device owner = device;
  const auto pairs = [&](std::uint64_t count) {
    Window made;
    made.range = BindingRange(owner.alloc(count * 8), 0, count * 8);
    return made;
  };
  const Window pieces = pairs(threads);
  const Window merged = pairs(kept.count());
  run(plan.hold        ? "hold_stats"
      : plan.by_column ? "stats_by_column"
                       : "stats_by_row",
      {{0, &x_window}, {5, &pieces}}, plan.hold ? fold_groups(threads, op.name) : thread_grid);
  run("merge", {{4, &pieces}, {5, &merged}}, fold_groups(ceil_div(kept.count(), plan.group), op.name));
  run(plan.by_column ? "write_by_column" : "write_by_group",
      {{0, &x_window}, {1, &out_window}, {2, w}, {3, b}, {4, &merged}},
      plan.by_column ? thread_grid : fold_groups(threads, op.name));
}

/// Cuts kept axes until both tensors fit their bindings.
void run_parts(const RowOp& op, const Tensor& x, std::span<const std::size_t> axes,
               std::span<const std::size_t> kept_axes, const Tensor& out) {
  if (!fits_binding(x) || !fits_binding(out)) {
    for (std::size_t axis : kept_axes) {
      const std::int64_t length = x.shape()[axis];
      if (length < 2) continue;
      const std::int64_t cut = cut_at(length);
      run_parts(op, part_of(x, axis, 0, cut), axes, kept_axes, part_of(out, axis, 0, cut));
      run_parts(op, part_of(x, axis, cut, length - cut), axes, kept_axes, part_of(out, axis, cut, length - cut));
      return;
    }
  }
  const auto kept = axis_pair(x, kept_axes, &out);
  const auto row = axis_pair(x, axes, &out);
  if (!kept || !row || row->folded()) {
    // Too many strides: a dense copy has two axes before the row and behind it at most.
    run_parts(op, contiguous(x), axes, kept_axes, out);
    return;
  }
  run_block(op, x, *kept, *row, out);
}

}  // namespace

void force_kernel_class(KernelClass kernels) noexcept {
  forced.store(kernels, std::memory_order_relaxed);
}

bool cpu_kernels(const Device& device) {
  switch (forced.load(std::memory_order_relaxed)) {
    case KernelClass::gpu: return false;
    case KernelClass::cpu: return true;
    case KernelClass::automatic: break;
  }
  return is_cpu(device);
}

Grid fold_groups(std::uint64_t groups, std::string_view op) {
  if (groups > kMaxIndex) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: {} workgroups are over the limit of {}", op, groups, kMaxIndex),
                "work on slices of the tensor");
  }
  Grid grid;
  grid.x = static_cast<std::uint32_t>(std::min<std::uint64_t>(groups, kGroupsPerRow));
  grid.y = static_cast<std::uint32_t>(ceil_div(groups, kGroupsPerRow));
  return grid;
}

std::optional<AxisPair> axis_pair(const Tensor& x, std::span<const std::size_t> axes, const Tensor* out) {
  AxisPair pair;
  std::size_t used = 0;
  // From the innermost outwards; place 1 - used takes the next that does not merge.
  for (auto it = axes.rbegin(); it != axes.rend(); ++it) {
    const std::int64_t length = x.shape()[*it];
    if (length == 1) continue;
    const std::int64_t stride = x.strides()[*it];
    const std::int64_t out_stride = out != nullptr ? out->strides()[*it] : 0;
    if (used > 0) {
      const std::size_t at = 2 - used;
      const auto inner = static_cast<std::int64_t>(pair.length[at]);
      if (stride == pair.stride[at] * inner && out_stride == pair.out_stride[at] * inner) {
        pair.length[at] *= static_cast<std::uint64_t>(length);
        continue;
      }
    }
    if (used == 2) return std::nullopt;
    const std::size_t at = 1 - used;
    pair.length[at] = static_cast<std::uint64_t>(length);
    pair.stride[at] = stride;
    pair.out_stride[at] = out_stride;
    ++used;
  }
  return pair;
}

std::vector<std::size_t> other_axes(std::size_t rank, std::span<const std::size_t> axes) {
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < rank; ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) others.push_back(i);
  }
  return others;
}

Tensor part_of(const Tensor& x, std::size_t axis, std::int64_t start, std::int64_t count) {
  Shape shape = x.shape();
  shape[axis] = count;
  return Tensor(x.device(), x.buffer(), shape, x.strides(), x.offset() + start * x.strides()[axis], x.dtype());
}

std::int64_t cut_at(std::int64_t length) noexcept {
  const std::int64_t half = (length + 1) / 2;
  return length > 2048 ? half / 1024 * 1024 : half;
}

bool fits_binding(const Tensor& x) {
  return static_cast<std::uint64_t>(x.size()) <= kMaxIndex &&
         window_bytes(x) <= x.device().limits().max_storage_binding_size;
}

bool starts_on_quads(const AxisPair& kept, std::uint32_t offset, std::uint32_t out_offset) noexcept {
  return offset % 4 == 0 && out_offset % 4 == 0 && kept.stride[0] % 4 == 0 && kept.stride[1] % 4 == 0;
}

Tensor run_rows(const RowOp& op, const Tensor& x, std::span<const std::size_t> axes) {
  Device device = x.device();
  Tensor out = device.empty(x.shape(), x.dtype() == DType::f16 ? DType::f16 : DType::f32);
  if (x.size() == 0) return out;
  const std::vector<std::size_t> kept_axes = other_axes(x.rank(), axes);
  run_parts(op, x, axes, kept_axes, out);
  return out;
}

}  // namespace weft::ops
