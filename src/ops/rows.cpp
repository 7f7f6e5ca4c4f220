#include "ops/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/checked.h"
#include "ops/infer_norm.h"
#include "ops/launch.h"
#include "ops/result.h"
#include "ops/rows_hold.h"
#include "ops/rows_plan.h"
#include "ops/rows_tuning.h"
#include "ops/wgsl.h"
#include "ops/wgsl_text.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft::ops {
namespace {

std::atomic<KernelClass> forced{KernelClass::automatic};

/// Indices of one dispatch are u32, and twice that must not wrap.
constexpr std::uint64_t kMaxIndex = 0x7fffffff;

struct Params {
  std::uint32_t offset, rows, length, kept_inner, kept_stride0, kept_stride1, stride;
  std::uint32_t out_offset, out_stride0, out_stride1, out_stride;
  std::uint32_t splits, chunk;
  float eps;
  std::uint32_t weight_offset, bias_offset;
};
static_assert(sizeof(Params) == 64, "no more than Dawn's immediates take");

/// All that chooses a kernel's text, next to the op.
struct RowSpec {
  std::string_view entry;
  DType in = DType::f32, out = DType::f32;
  RowPlan plan;
  bool folded = false;

  bool holds() const noexcept { return entry == "hold" || pieces(); }
  bool pieces() const noexcept { return entry == "hold_stats"; }
};

std::string row_key(const RowOp& op, const RowSpec& spec) {
  const RowPlan& p = spec.plan;
  std::string key = fmt::format("rows:{}:{}:{}:{}:{}:{}:{}:{}:{}", op.name, spec.entry, to_string(spec.in),
                                to_string(spec.out), p.quads, p.group, spec.folded && !spec.holds(),
                                static_cast<bool>(op.weight), static_cast<bool>(op.bias));
  if (spec.holds()) key += fmt::format(":{}:{}:{}:{}", p.threads, p.held, p.turns, p.subgroups);
  return key;
}

KernelOptions row_options(const RowOp& op, const RowSpec& spec) {
  const std::string_view v = spec.plan.quads ? "vec4<f32>" : "f32";
  const auto array_of = [&](std::string_view scalar) {
    return spec.plan.quads ? fmt::format("array<vec4<{}>>", scalar) : fmt::format("array<{}>", scalar);
  };
  const std::string_view in = wgsl_name(spec.in);
  const std::string_view out = wgsl_name(spec.out);
  std::string text;
  text += fmt::format("alias V = {};\nconst UNIT = {}u;\nconst GROUP = {}u;\n", v, spec.plan.quads ? 4 : 1,
                      spec.plan.group);
  // A workgroup that holds rows asks once a row: not worth another kernel.
  text += fmt::format("fn two_kept() -> bool {{ return {}; }}\n", spec.holds()  ? "params.kept_inner < params.rows"
                                                                  : spec.folded ? "true"
                                                                                : "false");
  text += fmt::format("const ONE_STATISTIC = {};\nconst FROM_FIRST = {};\n", op.one_statistic, op.from_first);
  text += fmt::format("@group(0) @binding(0) var<storage, read> x: {};\n", array_of(in));
  text += fmt::format("@group(0) @binding(1) var<storage, read_write> out: {};\n", array_of(out));
  if (op.weight) text += fmt::format("@group(0) @binding(2) var<storage, read> weight: {};\n", array_of("f32"));
  if (op.bias) text += fmt::format("@group(0) @binding(3) var<storage, read> bias: {};\n", array_of("f32"));
  text += "@group(0) @binding(4) var<storage, read> pieces: array<vec2<f32>>;\n";
  text += "@group(0) @binding(5) var<storage, read_write> pieces_out: array<vec2<f32>>;\n";
  text += fmt::format("fn read_x(i: u32) -> V {{ return V({}); }}\n", spec.in == DType::bool_
                                                                          ? "(x[i / 4u] >> (i % 4u * 8u)) & 0xffu"
                                                                      : spec.plan.quads ? "x[i / 4u]"
                                                                                        : "x[i]");
  text += fmt::format("fn write_out(i: u32, v: V) {{ out[i / UNIT] = {}(v); }}\n",
                      spec.plan.quads ? fmt::format("vec4<{}>", out) : std::string(out));
  if (spec.plan.quads) {
    text += R"(fn lead(x: V) -> f32 { return x.x; }
fn first_v(a: f32, x: V) -> f32 { return first_all(a, first_4(x)); }
fn second_v(x: V, m: f32) -> f32 { return (second(x.x, m) + second(x.y, m)) + (second(x.z, m) + second(x.w, m)); }
fn sum_v(x: V) -> f32 { return (x.x + x.y) + (x.z + x.w); }
)";
  } else {
    text += R"(fn lead(x: V) -> f32 { return x; }
fn first_v(a: f32, x: V) -> f32 { return first(a, x); }
fn second_v(x: V, m: f32) -> f32 { return second(x, m); }
fn sum_v(x: V) -> f32 { return x; }
)";
  }
  if (op.one_statistic) {
    text += R"(fn none() -> f32 { return 0.0; }
fn first(a: f32, x: f32) -> f32 { return a; }
fn first_4(x: vec4<f32>) -> f32 { return 0.0; }
fn first_all(a: f32, b: f32) -> f32 { return a; }
fn first_of(a: f32, count: f32) -> f32 { return a; }
fn merge_first(a: f32, piece: f32, count: f32) -> f32 { return a; }
fn merge_second(s: f32, piece: vec2<f32>, count: f32, m: f32) -> f32 { return s + piece.y; }
)";
  }
  text += op.text;
  text += wgsl::rows;
  if (spec.holds()) text += holding_text(op, spec.plan, spec.pieces());
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
  const RowPlan plan = tuned_row_plan(device, kept, row, quads, x.dtype());

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
    const RowSpec spec{entry, x.dtype(), out.dtype(), plan, kept.folded()};
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
  const Grid piece_grid = plan.hold ? fold_groups(ceil_div(threads, plan.rows_of_group()), op.name) : thread_grid;
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

KernelClass kernel_class(const Device& device) {
  KernelClass kernels = forced.load(std::memory_order_relaxed);
  if (kernels == KernelClass::automatic) kernels = is_cpu(device) ? KernelClass::cpu : KernelClass::gpu_subgroups;
  const bool lacking = kernels == KernelClass::gpu_subgroups && !device.features().subgroups;
  return lacking ? KernelClass::gpu : kernels;
}

bool cpu_kernels(const Device& device) {
  return kernel_class(device) == KernelClass::cpu;
}

std::vector<KernelClass> kernel_classes(const Device& device) {
  std::vector<KernelClass> all{KernelClass::gpu, KernelClass::cpu};
  if (device.features().subgroups) all.push_back(KernelClass::gpu_subgroups);
  return all;
}

std::uint32_t longest_workgroup(const Device& device) {
  const Limits& limits = device.limits();
  return std::bit_floor(std::min(limits.max_workgroup_invocations, limits.max_workgroup_size_x));
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
  check_row_operand(op, name, given.shape(), normalized);
  return contiguous(cast(broadcast_to(given, normalized), DType::f32));
}

void visit_row_kernels(const Device& device, const RowOp& op, const KernelVisitor& visit) {
  // The plans of all classes over lengths around all their seams: by row, by column, of one or many rows.
  struct Found {
    std::string_view entry;
    RowPlan plan;
    bool stored;  ///< only choices that are stored come to it
  };
  std::map<std::string, Found> found;
  const auto add = [&](KernelClass kernels, std::uint64_t rows, std::uint64_t length, bool columns, bool quads) {
    AxisPair kept, row;
    kept.length[1] = rows;
    row.length[1] = length;
    kept.stride[1] = static_cast<std::int64_t>(columns ? 1 : length);
    row.stride[1] = static_cast<std::int64_t>(columns ? rows : 1);
    const auto add_plan = [&](const RowPlan& plan, bool stored) {
      for (std::string_view entry : entries_of(plan)) {
        const RowSpec spec{entry, DType::f32, DType::f32, plan, false};
        Found& f = found.try_emplace(row_key(op, spec), Found{entry, plan, stored}).first->second;
        f.stored = f.stored && stored;
      }
    };
    const RowPlan own = plan_rows(device, kernels, kept, row, quads && !columns);
    add_plan(own, false);
    if (!own.hold || own.threads != own.group) return;
    for (const HoldShape& shape : tuned_hold_shapes()) {
      add_plan(plan_rows(device, kernels, kept, row, quads && !columns, {.hold = shape}), true);
    }
  };
  for (std::uint64_t length = 1; length < 40000; length += length < 300 ? 1 : length / 16) {
    for (std::uint64_t rows : {std::uint64_t{1}, std::uint64_t{2}, kCpuRows, kGpuRowThreads}) {
      for (KernelClass kernels : kernel_classes(device)) {
        for (bool columns : {false, true}) {
          add(kernels, rows, length, columns, false);
          add(kernels, rows, length * 4, columns, true);
        }
      }
    }
  }
  std::vector<DType> inputs{DType::f32, DType::i32, DType::u32, DType::bool_};
  if (device.features().f16) inputs.push_back(DType::f16);
  for (DType in : inputs) {
    for (const auto& [key, entry_plan] : found) {
      const auto& [entry, plan, stored] = entry_plan;
      if ((plan.quads || stored) && !is_float(in)) continue;
      for (bool folded : {false, true}) {
        if (folded && entry.starts_with("hold")) continue;
        const RowSpec spec{entry, in, in == DType::f16 ? DType::f16 : DType::f32, plan, folded};
        visit(row_key(op, spec), row_options(op, spec));
      }
    }
  }
}

Tensor run_rows(const RowOp& op, const Tensor& x, std::span<const std::size_t> axes) {
  const Device& device = x.device();
  Tensor out = new_result(device, x.shape(), x.dtype() == DType::f16 ? DType::f16 : DType::f32);
  if (x.size() == 0) return out;
  const std::vector<std::size_t> kept_axes = other_axes(x.rank(), axes);
  run_parts(op, x, axes, kept_axes, out);
  return out;
}

}  // namespace weft::ops
