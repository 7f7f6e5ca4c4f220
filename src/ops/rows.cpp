#include "ops/rows.h"
#include "ops/plan_as.h"
#include "ops/result.h"
#include "ops/wgsl_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <map>
#include <tuple>

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
  const std::uint64_t rows = PlanAs::rows(kept.count());
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
  // Powers of two, so that few kernels serve all lengths.
  plan.held = std::bit_ceil(static_cast<std::uint32_t>(ceil_div(units, plan.group)));
  return plan;
}

/// `join(a, b)` over values[0 .. count), pairwise: a short chain, and rounding errors of a short sum.
std::string folded_text(std::string_view join, const std::vector<std::string>& values) {
  if (values.size() == 1) return values.front();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return fmt::format("{}({}, {})", join, folded_text(join, {values.begin(), middle}),
                     folded_text(join, {middle, values.end()}));
}

/// Joins a value of each thread for all of a workgroup, in two steps of two barriers in all: kTops threads join what
/// stands kTops apart, then every thread joins theirs.
std::string group_join(std::string_view name, std::string_view join, std::uint32_t group) {
  constexpr std::uint32_t kTops = 16;
  std::vector<std::string> apart, tops;
  for (std::uint32_t i = 0; i < group; i += kTops) apart.push_back(fmt::format("tree[lane + {}u]", i));
  for (std::uint32_t i = 0; i < kTops; ++i) tops.push_back(fmt::format("tops[{}]", i));
  return fmt::format(R"(
fn {0}(lane: u32, a: f32) -> f32 {{
  tree[lane] = a;
  workgroupBarrier();
  if (lane < {1}u) {{
    tops[lane] = {2};
  }}
  workgroupBarrier();
  return {3};
}}
)",
                     name, kTops, folded_text(join, apart), folded_text(join, tops));
}

/// The kernels of a workgroup that reads its row or piece once and keeps it in registers: unrolled by name, as
/// compilers put an array that a loop indexes into memory.
std::string holding_kernels(const RowOp& op, std::uint32_t held, std::uint32_t group) {
  std::string load, second, store;
  for (std::uint32_t i = 0; i < held; ++i) {
    load += fmt::format(R"(
  let r{0} = begin + (lane + {0}u * GROUP) * UNIT;
  var h{0}: V;
  if (r{0} < end) {{
    h{0} = read_x(x_at + r{0} * params.stride);{1}
  }})",
                        i, op.one_statistic ? "" : fmt::format("\n    a = first_v(a, h{}, origin);", i));
    const std::string_view share =
        op.keeps ? "h{0} = kept(h{0}, m);\n    s += sum_v(h{0});" : "s += second_v(h{0}, m);";
    second += fmt::format("\n  if (r{0} < end) {{\n    {1}\n  }}", i, fmt::format(fmt::runtime(share), i));
    store +=
        fmt::format("\n  if (r{0} < end) {{ write_out(out_at + r{0} * params.out_stride, {1}(h{0}, m, s, r{0})); }}", i,
                    op.keeps ? "kept_result" : "result");
  }
  const std::string stats = fmt::format(
      R"({0}{1}
  var s = 0.0;{2}
  s = group_sum(lane, s);)",
      op.one_statistic ? "" : "\n  let origin = origin_of(read_x(x_at + begin * params.stride));\n  var a = none();",
      load,
      (op.one_statistic ? "\n  let m = 0.0;"
                        : "\n  let m = first_of(group_first(lane, a), f32(end - begin), origin);") +
          second);
  return fmt::format(R"(
var<workgroup> tree: array<f32, GROUP>;
var<workgroup> tops: array<f32, 16>;
fn sum_of(a: f32, b: f32) -> f32 {{ return a + b; }}
{0}{1}
@compute @workgroup_size(GROUP)
fn hold(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
  let row = min(group.x + group.y * 32768u, params.rows - 1u);
  let begin = 0u;
  let end = params.length;
  let x_at = x_place(row);
  let out_at = out_place(row);{2}{3}
}}

@compute @workgroup_size(GROUP)
fn hold_stats(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
  let t = min(group.x + group.y * 32768u, params.rows * params.splits - 1u);
  let begin = t % params.splits * params.chunk;
  let end = min(begin + params.chunk, params.length);
  let x_at = x_place(t / params.splits);{2}
  if (lane == 0u) {{
    pieces_out[t] = vec2<f32>(m, s);
  }}
}}
)",
                     op.one_statistic ? "" : group_join("group_first", "first_all", group),
                     group_join("group_sum", "sum_of", group), stats, store);
}

/// All that chooses a kernel's text, next to the op.
struct RowSpec {
  std::string_view entry;
  DType in = DType::f32, out = DType::f32;
  bool quads = false;
  std::uint32_t group = 64, held = 1;
  bool folded = false;
};

std::string row_key(const RowOp& op, const RowSpec& spec) {
  return fmt::format("rows:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}", op.name, spec.entry, to_string(spec.in), to_string(spec.out),
                     spec.quads, spec.group, spec.held, spec.folded, static_cast<bool>(op.weight),
                     static_cast<bool>(op.bias));
}

KernelOptions row_options(const RowOp& op, const RowSpec& spec) {
  const std::string_view v = spec.quads ? "vec4<f32>" : "f32";
  const auto array_of = [&](std::string_view scalar) {
    return spec.quads ? fmt::format("array<vec4<{}>>", scalar) : fmt::format("array<{}>", scalar);
  };
  const std::string_view in = wgsl_name(spec.in);
  const std::string_view out = wgsl_name(spec.out);
  std::string text;
  text += fmt::format("alias V = {};\nconst UNIT = {}u;\nconst GROUP = {}u;\nconst TWO_KEPT = {};\n", v,
                      spec.quads ? 4 : 1, spec.group, spec.folded);
  text += fmt::format("const ONE_STATISTIC = {};\n", op.one_statistic);
  text += fmt::format("@group(0) @binding(0) var<storage, read> x: {};\n", array_of(in));
  text += fmt::format("@group(0) @binding(1) var<storage, read_write> out: {};\n", array_of(out));
  if (op.weight) text += fmt::format("@group(0) @binding(2) var<storage, read> weight: {};\n", array_of("f32"));
  if (op.bias) text += fmt::format("@group(0) @binding(3) var<storage, read> bias: {};\n", array_of("f32"));
  text += "@group(0) @binding(4) var<storage, read> pieces: array<vec2<f32>>;\n";
  text += "@group(0) @binding(5) var<storage, read_write> pieces_out: array<vec2<f32>>;\n";
  text += fmt::format("fn read_x(i: u32) -> V {{ return V({}); }}\n", spec.in == DType::bool_
                                                                          ? "(x[i / 4u] >> (i % 4u * 8u)) & 0xffu"
                                                                      : spec.quads ? "x[i / 4u]"
                                                                                   : "x[i]");
  text += fmt::format("fn write_out(i: u32, v: V) {{ out[i / UNIT] = {}(v); }}\n",
                      spec.quads ? fmt::format("vec4<{}>", out) : std::string(out));
  if (spec.quads) {
    text += R"(fn origin_of(x: V) -> f32 { return x.x; }
fn first_v(a: f32, x: V, origin: f32) -> f32 { return first_all(a, first_4(x, origin)); }
fn second_v(x: V, m: f32) -> f32 { return (second(x.x, m) + second(x.y, m)) + (second(x.z, m) + second(x.w, m)); }
fn sum_v(x: V) -> f32 { return (x.x + x.y) + (x.z + x.w); }
)";
  } else {
    text += R"(fn origin_of(x: V) -> f32 { return x; }
fn first_v(a: f32, x: V, origin: f32) -> f32 { return first(a, x, origin); }
fn second_v(x: V, m: f32) -> f32 { return second(x, m); }
fn sum_v(x: V) -> f32 { return x; }
)";
  }
  if (op.one_statistic) {
    text += R"(fn none() -> f32 { return 0.0; }
fn first(a: f32, x: f32, origin: f32) -> f32 { return a; }
fn first_4(x: vec4<f32>, origin: f32) -> f32 { return 0.0; }
fn first_all(a: f32, b: f32) -> f32 { return a; }
fn first_of(a: f32, count: f32, origin: f32) -> f32 { return a; }
fn merge_first(a: f32, piece: f32, count: f32, origin: f32) -> f32 { return a; }
fn merge_second(s: f32, piece: vec2<f32>, count: f32, m: f32) -> f32 { return s + piece.y; }
)";
  }
  text += op.text;
  text += wgsl::rows;
  text += holding_kernels(op, spec.held, spec.group);
  KernelOptions options;
  options.source = std::move(text);
  options.entry_point = spec.entry;
  options.label = fmt::format("{}.{}", op.name, spec.entry);
  return options;
}

/// The kernels of a plan, in the order in which they run: one that does all, or statistics of pieces, then of rows,
/// then the results.
std::vector<std::string_view> entries_of(const RowPlan& plan) {
  if (plan.splits == 1) return {plan.hold ? "hold" : "by_thread"};
  return {plan.hold        ? "hold_stats"
          : plan.by_column ? "stats_by_column"
                           : "stats_by_row",
          "merge", plan.by_column ? "write_by_column" : "write_by_group"};
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
    const RowSpec spec{entry, x.dtype(), out.dtype(), plan.quads, plan.group, plan.held, kept.folded()};
    const Kernel kernel =
        dispatch::library_kernel(state_of(device), row_key(op, spec), [&] { return row_options(op, spec); });
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
  const Grid piece_grid = plan.hold ? fold_groups(threads, op.name) : thread_grid;
  const std::vector<std::string_view> entries = entries_of(plan);
  if (plan.splits == 1) {
    run(entries[0], {{0, &x_window}, {1, &out_window}, {2, w}, {3, b}}, piece_grid);
    return;
  }
  Device owner = device;
  const auto pairs = [&](std::uint64_t count) {
    Window made;
    made.range = BindingRange(owner.alloc(count * 8), 0, count * 8);
    return made;
  };
  const Window pieces = pairs(threads);
  const Window merged = pairs(kept.count());
  run(entries[0], {{0, &x_window}, {5, &pieces}}, piece_grid);
  run(entries[1], {{4, &pieces}, {5, &merged}}, fold_groups(ceil_div(kept.count(), plan.group), op.name));
  run(entries[2], {{0, &x_window}, {1, &out_window}, {2, w}, {3, b}, {4, &merged}},
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

Tensor row_operand(std::string_view op, std::string_view name, const Tensor& given, const Shape& normalized) {
  if (!given) return given;
  if (!is_float(given.dtype())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} is {}, not a float", op, name, to_string(given.dtype())), "cast it to float32");
  }
  bool fits = given.rank() <= normalized.rank();
  for (std::size_t i = 0; fits && i < given.rank(); ++i) {
    const std::int64_t length = given.shape()[given.rank() - 1 - i];
    fits = length == 1 || length == normalized[normalized.rank() - 1 - i];
  }
  if (!fits) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} of shape {} does not broadcast to the normalised axes {}", op, name,
                            to_string(given.shape()), to_string(normalized)),
                fmt::format("give it shape {}", to_string(normalized)));
  }
  return contiguous(cast(broadcast_to(given, normalized), DType::f32));
}

void visit_row_kernels(const Device& device, const RowOp& op, const KernelVisitor& visit) {
  // The plans of both classes over lengths around all their seams: by row, by column, of one or many rows.
  std::map<std::tuple<std::string_view, bool, std::uint32_t, std::uint32_t>, RowPlan> plans;
  const auto add = [&](bool cpu, std::uint64_t rows, std::uint64_t length, bool columns, bool quads) {
    AxisPair kept, row;
    kept.length[1] = rows;
    row.length[1] = length;
    kept.stride[1] = static_cast<std::int64_t>(columns ? 1 : length);
    row.stride[1] = static_cast<std::int64_t>(columns ? rows : 1);
    const RowPlan plan = plan_rows(cpu, kept, row, quads && !columns);
    for (std::string_view entry : entries_of(plan)) plans.try_emplace({entry, plan.quads, plan.group, plan.held}, plan);
  };
  for (std::uint64_t length = 1; length < 40000; length += length < 300 ? 1 : length / 32) {
    for (std::uint64_t rows : {std::uint64_t{1}, std::uint64_t{2}, kCpuRows, kGpuThreads}) {
      for (int choice = 0; choice < 8; ++choice) {
        add((choice & 1) != 0, rows, (choice & 2) != 0 ? length * 4 : length, (choice & 4) != 0, (choice & 2) != 0);
      }
    }
  }
  std::vector<DType> inputs{DType::f32, DType::i32, DType::u32, DType::bool_};
  if (device.features().f16) inputs.push_back(DType::f16);
  for (DType in : inputs) {
    for (const auto& [found, plan] : plans) {
      if (plan.quads && !is_float(in)) continue;
      for (bool folded : {false, true}) {
        const RowSpec spec{
            std::get<0>(found), in,    in == DType::f16 ? DType::f16 : DType::f32, plan.quads, plan.group,
            plan.held,          folded};
        visit(row_key(op, spec), row_options(op, spec));
      }
    }
  }
}

Tensor run_rows(const RowOp& op, const Tensor& x, std::span<const std::size_t> axes) {
  Device device = x.device();
  Tensor out = new_result(device, x.shape(), x.dtype() == DType::f16 ? DType::f16 : DType::f32);
  if (x.size() == 0) return out;
  const std::vector<std::size_t> kept_axes = other_axes(x.rank(), axes);
  run_parts(op, x, axes, kept_axes, out);
  return out;
}

}  // namespace weft::ops
