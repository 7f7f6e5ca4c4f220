#include "ops/scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/checked.h"
#include "ops/infer_signal.h"
#include "ops/launch.h"
#include "ops/plan_as.h"
#include "ops/result.h"
#include "ops/rows.h"
#include "ops/wgsl.h"
#include "ops/wgsl_text.h"
#include "weft/error.h"

namespace weft {
namespace ops {
namespace {

constexpr std::uint64_t kShortRow = 32;     ///< on GPUs, rows up to this long get a thread each
constexpr std::uint64_t kThreadRun = 2048;  ///< the longest chunk, also of a thread: 64 blocks of 32
constexpr std::uint64_t kGpuThreads = 65536;
constexpr std::uint64_t kGpuRun = 64;       ///< the shortest chunk of a thread there
constexpr std::uint64_t kCpuThreads = 512;  ///< enough for the lanes of many cores
constexpr std::uint64_t kCpuRun = 256;
constexpr std::uint64_t kCpuBlock = 128;  ///< rows that all columns walk together, while they are in the cache

static_assert(std::uint64_t{kScanWideGroup} * kScanHeld <= kThreadRun);

constexpr std::uint32_t kExclusive = 1, kByColumn = 2, kOtherSign = 4;

struct Params {
  std::uint32_t offset, rows, length, kept_inner, kept_stride0, kept_stride1, stride;
  std::uint32_t out_offset, out_stride0, out_stride1, out_stride;
  std::uint32_t splits, chunk, flags, first_split, all_splits;
};
static_assert(sizeof(Params) == 64, "no more than Dawn's immediates take");

/// Bits of the accumulator of no elements. Of sums it is -0, which keeps the -0 of a single element.
std::uint32_t identity_bits(ScanOp op, DType accumulator) {
  const bool real = accumulator == DType::f32;
  const bool has_sign = accumulator == DType::i32;
  switch (op) {
    case ScanOp::sum: return real ? 0x80000000u : 0;
    case ScanOp::prod: return real ? 0x3f800000u : 1;
    case ScanOp::max: return real ? 0xff800000u : has_sign ? 0x80000000u : 0;
    case ScanOp::min: return real ? 0x7f800000u : has_sign ? 0x7fffffffu : 0xffffffffu;
  }
  return 0;
}

std::string combining_text(ScanOp op, DType accumulator) {
  switch (op) {
    case ScanOp::sum: return "fn combine(a: Acc, b: Acc) -> Acc { return a + b; }\n";
    case ScanOp::prod: return "fn combine(a: Acc, b: Acc) -> Acc { return a * b; }\n";
    case ScanOp::max:
    case ScanOp::min: break;
  }
  const char better = op == ScanOp::max ? '>' : '<';
  if (accumulator != DType::f32) {
    return fmt::format("fn combine(a: Acc, b: Acc) -> Acc {{ return select(a, b, b {} a); }}\n", better);
  }
  // WGSL's max and min may drop a NaN, and compilers may assume there is none: it is known by its bits.
  return fmt::format(R"(fn is_nan(v: f32) -> bool {{ return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u; }}
fn combine(a: Acc, b: Acc) -> Acc {{ return select(select(a, b, is_nan(b) || b {} a), a, is_nan(a)); }}
)",
                     better);
}

/// V and what is done with it. Only the bindings that the entry point names are bound.
std::string unit_text(const ScanKernel& k, DType accumulator) {
  const std::string_view acc = wgsl_name(accumulator);
  const std::string_view in = wgsl_name(k.x);
  const std::string_view out = wgsl_name(k.out);
  const bool is_bool = k.x == DType::bool_;
  std::string text = fmt::format("alias Acc = {};\n", acc);
  text += fmt::format("const IDENTITY = {}u;\nconst GROUP = {}u;\nconst UNIT = {}u;\n",
                      identity_bits(k.op, accumulator), k.group, k.quads ? 4 : 1);
  text += combining_text(k.op, accumulator);
  const auto array_of = [&](std::string_view scalar) {
    return k.quads ? fmt::format("array<vec4<{}>>", scalar) : fmt::format("array<{}>", scalar);
  };
  text += fmt::format(R"(@group(0) @binding(0) var<storage, read> x: {};
@group(0) @binding(1) var<storage, read_write> out: {};
@group(0) @binding(2) var<storage, read> prefix: array<Acc>;
@group(0) @binding(3) var<storage, read_write> sums: array<Acc>;
fn before_chunk(i: u32) -> Acc {{ return {}; }}
)",
                      is_bool ? "array<u32>" : array_of(in), array_of(out), k.prefixed ? "prefix[i]" : "identity()");
  if (!k.quads) {
    return text + fmt::format(R"(alias V = Acc;
fn load(i: u32) -> V {{ return V({}); }}
fn store(i: u32, v: V) {{ out[i] = {}(v); }}
fn running(v: V) -> V {{ return v; }}
fn joined(a: Acc, v: V) -> V {{ return combine(a, v); }}
fn moved(first: Acc, v: V) -> V {{ return first; }}
fn last(v: V) -> Acc {{ return v; }}
)",
                              is_bool ? "(x[i / 4u] >> (i % 4u * 8u)) & 0xffu" : "x[i]", out);
  }
  return text +
         fmt::format(R"(alias V = vec4<{}>;
fn load(i: u32) -> V {{ return V({}); }}
fn store(i: u32, v: V) {{ out[i / 4u] = vec4<{}>(v); }}
fn running(v: V) -> V {{
  let b = combine(v.x, v.y);
  let c = combine(b, v.z);
  return V(v.x, b, c, combine(c, v.w));
}}
fn joined(a: Acc, v: V) -> V {{ return V(combine(a, v.x), combine(a, v.y), combine(a, v.z), combine(a, v.w)); }}
fn moved(first: Acc, v: V) -> V {{ return V(first, v.x, v.y, v.z); }}
fn last(v: V) -> Acc {{ return v.w; }}
)",
                     acc,
                     is_bool ? "(vec4<u32>(x[i / 4u]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu)" : "x[i / 4u]",
                     out);
}

/// A thread's elements in registers: unrolled by name, as compilers put an array that a loop indexes into memory.
std::string holding_text(bool quads) {
  const std::uint32_t held = kScanHeld / (quads ? 4 : 1);
  std::string sum, load, store;
  for (std::uint32_t i = 0; i < held; ++i) {
    // Neighbours read neighbours; sums may be taken in any order.
    sum += fmt::format(R"(
  let r{0} = begin + ({0}u * GROUP + lane) * UNIT;
  if (r{0} < end) {{ a = combine(a, last(running(load(at + r{0} * params.stride)))); }})",
                       i);
    load += fmt::format(R"(
  let r{0} = begin + (lane * {1}u + {0}u) * UNIT;
  let a{0} = a;
  var h{0} = V(a);
  if (r{0} < end) {{
    h{0} = joined(a, running(load(at + r{0} * params.stride)));
    a = last(h{0});
  }})",
                        i, held);
    store += fmt::format(R"(
  if (r{0} < end) {{
    store(out_at + r{0} * params.out_stride, joined(carry, select(h{0}, moved(a{0}, h{0}), exclusive)));
  }})",
                         i);
  }
  return fmt::format(R"(
fn held_sum(lane: u32, at: u32, begin: u32, end: u32) -> Acc {{
  var a = identity();{}
  return a;
}}
fn held_scan(lane: u32, at: u32, out_at: u32, begin: u32, end: u32, chunk: u32) {{
  let exclusive = (params.flags & 1u) != 0u;
  var a = identity();{}
  let carry = combine(before_chunk(chunk), before_lane(lane, a));{}
}}
)",
                     sum, load, store);
}

/// How rows are shared out.
struct Plan {
  bool by_group = false;
  bool by_column = false;
  std::uint32_t group = kScanThreads;
  std::uint64_t chunk = 0;
};

Plan plan_scan(bool cpu, const AxisPair& kept, std::int64_t stride, std::uint64_t length) {
  Plan plan;
  const std::uint64_t rows = PlanAs::rows(kept.count());
  plan.by_column = kept.count() > 1 && std::abs(kept.stride[1]) < std::abs(stride);
  plan.chunk = length;
  if (cpu && plan.by_column && rows >= kScanThreads && length > kCpuRun) {
    plan.chunk = kCpuBlock;
  } else if (cpu) {
    if (length <= kCpuRun || (length <= kThreadRun && rows >= kCpuThreads)) return plan;
    plan.chunk = std::clamp<std::uint64_t>(ceil_div(length * rows, kCpuThreads), kCpuRun / 4, kThreadRun);
  } else if (!plan.by_column && length > kShortRow) {
    plan.by_group = true;
    plan.group = length <= std::uint64_t{kScanThreads} * kScanHeld ? kScanThreads : kScanWideGroup;
    plan.chunk = std::uint64_t{plan.group} * kScanHeld;
    return plan;
  } else {
    const std::uint64_t wanted =
        std::clamp<std::uint64_t>(kGpuThreads / rows, 1, std::max(length / kGpuRun, std::uint64_t{1}));
    plan.chunk = std::min(ceil_div(length, wanted), kThreadRun);
  }
  plan.chunk = ceil_div(plan.chunk, 4) * 4;
  return plan;
}

/// A part of the rows that two bindings show; a multiple of the chunk, but for the last.
struct Piece {
  Tensor x, out;
  std::uint64_t first_split = 0;
};

std::vector<Piece> pieces_of(const Tensor& x, const Tensor& out, std::size_t axis, std::uint64_t chunk) {
  const std::int64_t length = x.shape()[axis];
  const auto unit = static_cast<std::int64_t>(chunk);
  std::int64_t most = length;
  while (most > unit && (!fits_binding(part_of(x, axis, 0, most)) || !fits_binding(part_of(out, axis, 0, most)))) {
    most = (most / 2 + unit - 1) / unit * unit;
  }
  std::vector<Piece> pieces;
  for (std::int64_t at = 0; at < length; at += most) {
    const std::int64_t count = std::min(most, length - at);
    pieces.push_back(
        {part_of(x, axis, at, count), part_of(out, axis, at, count), static_cast<std::uint64_t>(at / unit)});
  }
  return pieces;
}

/// One scan: `out` has the elements of `x`, and both may be any views of one shape.
struct Scan {
  ScanOp op;
  DType accumulator;
  std::uint32_t flags = 0;
  std::size_t axis = 0;
};

void run_scan(const Scan& scan, const Tensor& x, const Tensor& out);

/// `most` elements a chunk.
void run_rows_of(const Scan& scan, const Tensor& x, const AxisPair& kept, const Tensor& out, std::uint64_t most) {
  const Device& device = x.device();
  const std::string_view name = scan_name(scan.op);
  const auto length = static_cast<std::uint64_t>(x.shape()[scan.axis]);
  const std::int64_t stride = x.strides()[scan.axis];
  const std::int64_t out_stride = out.strides()[scan.axis];
  Plan plan = plan_scan(cpu_kernels(device), kept, stride, length);
  plan.chunk = std::min(plan.chunk, std::max(most, std::uint64_t{1}));
  const std::vector<Piece> pieces = pieces_of(x, out, scan.axis, plan.chunk);
  std::vector<Window> from, to;
  for (const Piece& p : pieces) {
    from.push_back(window(p.x, name));
    to.push_back(window(p.out, name));
  }
  AxisPair kept_out = kept;
  kept_out.stride = kept.out_stride;
  const bool steps = (length == 1 || (stride == 1 && out_stride == 1)) && length % 4 == 0;
  const bool quads =
      steps && starts_on_quads(kept, from.front().offset, to.front().offset) && starts_on_quads(kept_out, 0, 0);
  const std::uint64_t splits = ceil_div(length, plan.chunk);

  ScanKernel kernel;
  kernel.op = scan.op;
  kernel.x = x.dtype();
  kernel.out = out.dtype();
  kernel.quads = quads;
  kernel.prefixed = splits > 1;
  kernel.group = plan.group;
  Params params{};
  params.rows = static_cast<std::uint32_t>(kept.count());
  params.kept_inner = static_cast<std::uint32_t>(kept.length[1]);
  params.kept_stride0 = word(kept.stride[0]);
  params.kept_stride1 = word(kept.stride[1]);
  params.stride = word(stride);
  params.out_stride0 = word(kept.out_stride[0]);
  params.out_stride1 = word(kept.out_stride[1]);
  params.out_stride = word(out_stride);
  params.chunk = static_cast<std::uint32_t>(plan.chunk);
  params.flags = scan.flags | (plan.by_column ? kByColumn : 0);
  params.all_splits = static_cast<std::uint32_t>(splits);
  const auto run = [&](std::string_view entry, std::size_t piece, const BindingRange* prefix,
                       const BindingRange* sums) {
    const Piece& p = pieces[piece];
    const auto here = static_cast<std::uint64_t>(p.x.shape()[scan.axis]);
    params.offset = from[piece].offset;
    params.out_offset = to[piece].offset;
    params.length = static_cast<std::uint32_t>(here);
    params.splits = static_cast<std::uint32_t>(ceil_div(here, plan.chunk));
    params.first_split = static_cast<std::uint32_t>(p.first_split);
    kernel.entry = entry;
    const Kernel compiled =
        dispatch::library_kernel(state_of(device), scan_key(kernel), [&] { return scan_options(kernel); });
    const std::array<const BindingRange*, 4> all{&from[piece].range, &to[piece].range, prefix, sums};
    std::vector<BindingRange> ranges;
    for (const BindingInfo& info : compiled.bindings()) ranges.push_back(*all[info.binding]);
    const std::uint64_t parts = kept.count() * params.splits;
    launch(device, compiled, ranges, std::as_bytes(std::span<const Params, 1>(&params, 1)),
           fold_groups(plan.by_group ? parts : ceil_div(parts, plan.group), name));
  };
  const std::string_view scan_entry = plan.by_group ? "scan_by_group" : "scan_by_thread";
  if (splits == 1) {
    run(scan_entry, 0, nullptr, nullptr);
    return;
  }
  Device owner = device;
  const Shape chunks{static_cast<std::int64_t>(kept.count()), static_cast<std::int64_t>(splits)};
  const Tensor sums = owner.empty(chunks, scan.accumulator);
  const Tensor prefix = owner.empty(chunks, scan.accumulator);
  const Window sums_window = window(sums, name);
  const Window prefix_window = window(prefix, name);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    run(plan.by_group ? "sums_by_group" : "sums_by_thread", i, nullptr, &sums_window.range);
  }
  run_scan({scan.op, scan.accumulator, kExclusive | (scan.flags & kOtherSign), 1}, sums, prefix);
  for (std::size_t i = 0; i < pieces.size(); ++i) run(scan_entry, i, &prefix_window.range, nullptr);
}

/// The longest chunk, up to kThreadRun, of which a binding shows all rows; 0 when there is none.
std::uint64_t longest_chunk(const Tensor& x, const Tensor& out, std::size_t axis) {
  auto chunk = std::min(x.shape()[axis], static_cast<std::int64_t>(kThreadRun));
  while (chunk > 0 && (!fits_binding(part_of(x, axis, 0, chunk)) || !fits_binding(part_of(out, axis, 0, chunk)))) {
    chunk /= 2;
  }
  return static_cast<std::uint64_t>(chunk);
}

void run_scan(const Scan& scan, const Tensor& x, const Tensor& out) {
  const std::array axes{scan.axis};
  const std::vector<std::size_t> kept_axes = other_axes(x.rank(), axes);
  std::uint64_t most = kThreadRun;
  if (!fits_binding(x) || !fits_binding(out)) {
    const auto reach = [&](std::size_t axis) {
      return (x.shape()[axis] - 1) * std::max(std::abs(x.strides()[axis]), std::abs(out.strides()[axis]));
    };
    const std::int64_t length = x.shape()[scan.axis];
    most = longest_chunk(x, out, scan.axis);
    // Rows are cut where that is what their length asks for, unless there are too many to note a sum for each chunk.
    const auto chunks =
        static_cast<std::uint64_t>(x.size() / length) * ceil_div(length, std::max(most, std::uint64_t{1}));
    const bool cut_rows = most > 0 && chunks * 4 <= x.device().limits().max_storage_binding_size;
    for (std::size_t axis : kept_axes) {
      if (x.shape()[axis] < 2) continue;
      if (cut_rows && reach(axis) < reach(scan.axis)) break;
      const std::int64_t cut = cut_at(x.shape()[axis]);
      const std::int64_t rest = x.shape()[axis] - cut;
      run_scan(scan, part_of(x, axis, 0, cut), part_of(out, axis, 0, cut));
      run_scan(scan, part_of(x, axis, cut, rest), part_of(out, axis, cut, rest));
      return;
    }
  }
  const auto kept = axis_pair(x, kept_axes, &out);
  if (!kept) {
    // Too many strides: a dense copy has two axes before the row and behind it at most.
    run_scan(scan, contiguous(x), out);
    return;
  }
  run_rows_of(scan, x, *kept, out, most);
}

}  // namespace

DType scan_accumulator(ScanOp op, DType x) {
  const DType compute = scan_types(op, x).compute;
  return compute == DType::f16 ? DType::f32 : compute == DType::bool_ ? DType::i32 : compute;
}

std::string scan_key(const ScanKernel& k) {
  return fmt::format("scan:{}:{}:{}:{}:{}:{}:{}", static_cast<int>(k.op), to_string(k.x), to_string(k.out), k.entry,
                     k.quads, k.prefixed, k.group);
}

KernelOptions scan_options(const ScanKernel& k) {
  KernelOptions options;
  options.source = unit_text(k, scan_accumulator(k.op, k.x)) + std::string(wgsl::scan) + holding_text(k.quads);
  options.entry_point = k.entry;
  options.label = fmt::format("{}.{}", scan_name(k.op), k.entry);
  return options;
}

}  // namespace ops

Tensor scan(ScanOp op, const Tensor& x, const ScanOptions& options) {
  const std::string_view name = ops::scan_name(op);
  const Device& device = ops::common_device(name, std::array{&x});
  const std::size_t axis = ops::normalize_axis(name, options.axis, x.shape());
  const DType dtype = ops::scan_types(op, x.dtype()).result;
  // Four bools share a word, so they take the way through u32.
  if (dtype == DType::bool_) return cast(scan(op, cast(x, DType::u32), options), dtype);
  Tensor out = ops::new_result(device, x.shape(), dtype);
  if (out.size() == 0) return out;
  ops::Scan run{op, ops::scan_accumulator(op, x.dtype()), 0, axis};
  if (options.exclusive) run.flags |= ops::kExclusive;
  // The sum of no elements, which an exclusive scan shows, is +0.
  if (options.exclusive && op == ScanOp::sum && run.accumulator == DType::f32) run.flags |= ops::kOtherSign;
  if (!options.reverse) {
    ops::run_scan(run, x, out);
    return out;
  }
  const auto at = static_cast<std::int64_t>(axis);
  ops::run_scan(run, slice(x, at, std::nullopt, std::nullopt, -1), slice(out, at, std::nullopt, std::nullopt, -1));
  return out;
}

}  // namespace weft
