#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/checked.h"
#include "ops/infer.h"
#include "ops/launch.h"
#include "ops/rows.h"
#include "weft/error.h"
#include "weft/ops.h"
#include "wgsl/reduce.wgsl.h"

namespace weft {
namespace ops {
namespace {

constexpr std::uint32_t kThreads = 64;  ///< of a workgroup of by_thread and by_word
constexpr std::uint32_t kGroup = 256;   ///< of by_group
// GPUs: rows up to kShortRow get a thread each; work is split until about kGpuThreads threads have some.
constexpr std::uint64_t kShortRow = 32;
constexpr std::uint64_t kGpuThreads = 131072;
constexpr std::uint64_t kGpuGroups = 1024;
constexpr std::uint64_t kGpuGroupPiece = 8192;  ///< the shortest piece that a workgroup is given
constexpr std::uint64_t kGpuThreadPiece = 64;   ///< ... that a thread is given
// CPU adapters: enough threads for the lanes of many cores, each with a run worth starting.
constexpr std::uint64_t kCpuThreads = 1024;
constexpr std::uint64_t kCpuPiece = 1024;
constexpr std::uint64_t kCpuBlock = 128;       ///< rows that all columns walk together, while they are in the cache
constexpr std::uint64_t kCpuLanes = 8;         ///< of a vector: more would walk the same memory again and again
constexpr std::uint64_t kMaxSplits = 4096;     ///< so that a second pass is the last one
constexpr std::uint64_t kLongestWalk = 12288;  ///< elements that one thread walks

struct Params {
  std::uint32_t offset, outputs, reduced;
  std::uint32_t kept_inner, kept_stride0, kept_stride1;
  std::uint32_t reduced_inner, reduced_stride0, reduced_stride1;
  std::uint32_t splits, chunk, lanes, first_index, identity, out_offset;
  float count;
};
static_assert(sizeof(Params) == 64, "no more than Dawn's immediates take");

constexpr std::uint32_t word(std::int64_t v) {
  return static_cast<std::uint32_t>(v);
}

bool gives_index(ReduceOp op) {
  return op == ReduceOp::argmax || op == ReduceOp::argmin;
}

/// What an op accumulates in: f32, i32 or u32 (beside an index for argmax and argmin).
DType accumulator(ReduceOp op, DType x) {
  switch (op) {
    case ReduceOp::mean: return DType::f32;
    case ReduceOp::any:
    case ReduceOp::all: return DType::u32;
    case ReduceOp::sum:
    case ReduceOp::prod: return x == DType::bool_ ? DType::i32 : x == DType::f16 ? DType::f32 : x;
    default: return x == DType::bool_ ? DType::u32 : x == DType::f16 ? DType::f32 : x;
  }
}

/// Bits of the accumulator of no elements.
std::uint32_t identity_bits(ReduceOp op, DType accumulated) {
  const auto lowest = [&] {
    if (accumulated == DType::f32) return std::bit_cast<std::uint32_t>(-std::numeric_limits<float>::infinity());
    return accumulated == DType::i32 ? 0x80000000u : 0u;
  };
  const auto highest = [&] {
    if (accumulated == DType::f32) return std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());
    return accumulated == DType::i32 ? 0x7fffffffu : 0xffffffffu;
  };
  switch (op) {
    case ReduceOp::prod: return accumulated == DType::f32 ? std::bit_cast<std::uint32_t>(1.0f) : 1u;
    case ReduceOp::all: return 1;
    case ReduceOp::max:
    case ReduceOp::argmax: return lowest();
    case ReduceOp::min:
    case ReduceOp::argmin: return highest();
    default: return 0;
  }
}

/// What a pass reads: elements of a tensor, or accumulators that an earlier pass left.
enum class Source : std::uint8_t { tensor, accumulators };
/// What it writes: accumulators for the next pass, or results.
enum class Sink : std::uint8_t { accumulators, results };

std::string_view wgsl_name(DType t) {
  switch (t) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::i32: return "i32";
    default: return "u32";
  }
}

struct Pass {
  ReduceOp op;
  DType x;  ///< of the whole reduction's input
  DType result;
  Source source;
  Sink sink;
  bool quads = false;
  bool two_kept = false;
  bool two_reduced = false;
  bool splits_fast = true;
};

/// Bindings and how elements are read. Accumulators are read as what they are: the sum of sums is a sum.
std::string reading_text(const Pass& pass) {
  const DType accumulated = accumulator(pass.op, pass.x);
  if (pass.source == Source::accumulators && gives_index(pass.op)) {
    return fmt::format(R"(
@group(0) @binding(0) var<storage, read> x: array<vec2<u32>>;
fn element(i: u32) -> vec2<u32> {{ return x[i]; }}
struct Quad {{
  x: vec2<u32>,
  y: vec2<u32>,
  z: vec2<u32>,
  w: vec2<u32>,
}}
fn quad(i: u32) -> Quad {{ return Quad(); }}
fn lift(v: vec2<u32>, r: u32) -> Acc {{ return Acc(bitcast<{}>(v.x), v.y); }}
)",
                       wgsl_name(accumulated));
  }
  const DType in = pass.source == Source::accumulators ? accumulated : pass.x;
  const std::string_view stored = wgsl_name(in);
  const std::string_view raw = in == DType::f16 ? "f32" : stored;
  std::string text;
  if (in == DType::bool_) {
    text = R"(
@group(0) @binding(0) var<storage, read> x: array<u32>;
fn element(i: u32) -> u32 { return (x[i / 4u] >> (i % 4u * 8u)) & 0xffu; }
fn quad(i: u32) -> vec4<u32> { return (vec4<u32>(x[i]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu); }
)";
  } else {
    text = fmt::format(R"(
@group(0) @binding(0) var<storage, read> x: array<{0}>;
fn element(i: u32) -> {1} {{ return {1}(x[i]); }}
)",
                       stored, raw);
    // A second view of the same range: a row's last elements may not fill four.
    text += pass.quads ? fmt::format(R"(
@group(0) @binding(2) var<storage, read> x4: array<vec4<{0}>>;
fn quad(i: u32) -> vec4<{1}> {{ return vec4<{1}>(x4[i]); }}
)",
                                     stored, raw)
                       : fmt::format("fn quad(i: u32) -> vec4<{0}> {{ return vec4<{0}>(); }}\n", raw);
  }
  std::string lifted = fmt::format("{}(v)", wgsl_name(accumulated));
  if (pass.op == ReduceOp::any || pass.op == ReduceOp::all) {
    // By bits: a denormal is true, and so is NaN, but -0 is not.
    lifted = raw == "f32" ? "u32((bitcast<u32>(v) & 0x7fffffffu) != 0u)" : fmt::format("u32(v != {}(0))", raw);
  }
  text +=
      gives_index(pass.op)
          ? fmt::format("fn lift(v: {}, r: u32) -> Acc {{ return Acc({}, params.first_index + r); }}\n", raw, lifted)
          : fmt::format("fn lift(v: {}, r: u32) -> Acc {{ return {}; }}\n", raw, lifted);
  return text;
}

std::string combining_text(ReduceOp op, DType accumulated) {
  const std::string_view type = wgsl_name(accumulated);
  const bool real = accumulated == DType::f32;
  std::string text = gives_index(op) ? fmt::format(R"(
struct Acc {{
  value: {0},
  index: u32,
}}
fn identity() -> Acc {{ return Acc(bitcast<{0}>(params.identity), 0xffffffffu); }}
)",
                                                   type)
                                     : fmt::format(R"(
alias Acc = {0};
fn identity() -> Acc {{ return bitcast<{0}>(params.identity); }}
)",
                                                   type);
  // WGSL's max and min may drop a NaN, and compilers may assume there is none: it is known by its bits.
  if (real) text += "fn is_nan(v: f32) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u; }\n";
  const char better = op == ReduceOp::max || op == ReduceOp::argmax ? '>' : '<';
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      // WGSL lets a quotient be off by 2.5 ulp (17,000,000 / 17,000,000 is not 1 on an H200): one step by the
      // remainder.
      return text + R"(fn combine(a: Acc, b: Acc) -> Acc { return a + b; }
fn mean_of(sum: f32, count: f32) -> f32 {
  // The identity is 0, which the compiler can't know: it would take the step for the zero that it is on paper.
  let q = bitcast<f32>(bitcast<u32>(sum / count) ^ params.identity);
  let nearer = q + fma(-q, count, sum) / count;
  return select(q, nearer, (bitcast<u32>(nearer) & 0x7fffffffu) < 0x7f800000u);
}
)";
    case ReduceOp::prod: return text + "fn combine(a: Acc, b: Acc) -> Acc { return a * b; }\n";
    case ReduceOp::any: return text + "fn combine(a: Acc, b: Acc) -> Acc { return a | b; }\n";
    case ReduceOp::all: return text + "fn combine(a: Acc, b: Acc) -> Acc { return a & b; }\n";
    case ReduceOp::max:
    case ReduceOp::min:
      if (!real) {
        return text + fmt::format("fn combine(a: Acc, b: Acc) -> Acc {{ return select(a, b, b {} a); }}\n", better);
      }
      return text + fmt::format(R"(
fn combine(a: Acc, b: Acc) -> Acc {{
  return select(select(a, b, is_nan(b) || b {} a), a, is_nan(a));
}}
)",
                                better);
    case ReduceOp::argmax:
    case ReduceOp::argmin:
      // Any order of combining gives the first of equals: the lower index wins.
      if (!real) {
        return text + fmt::format(R"(
fn combine(a: Acc, b: Acc) -> Acc {{
  let take = b.value {} a.value || (b.value == a.value && b.index < a.index);
  return Acc(select(a.value, b.value, take), select(a.index, b.index, take));
}}
)",
                                  better);
      }
      return text + fmt::format(R"(
fn combine(a: Acc, b: Acc) -> Acc {{
  let a_nan = is_nan(a.value);
  let b_nan = is_nan(b.value);
  let first = b.index < a.index;
  let numbers = b.value {} a.value || (b.value == a.value && first);
  let take = select(select(numbers, false, a_nan), !a_nan || first, b_nan);
  return Acc(select(a.value, b.value, take), select(a.index, b.index, take));
}}
)",
                                better);
  }
  return text;
}

std::string writing_text(const Pass& pass) {
  const auto output = [](std::string_view type, std::string_view value) {
    return fmt::format(R"(
@group(0) @binding(1) var<storage, read_write> out: array<{0}>;
fn finish(acc: Acc) -> {0} {{ return {1}; }}
)",
                       type, value);
  };
  if (pass.sink == Sink::accumulators) {
    if (gives_index(pass.op)) return output("vec2<u32>", "vec2<u32>(bitcast<u32>(acc.value), acc.index)");
    return output("Acc", "acc");
  }
  if (gives_index(pass.op)) return output("i32", "i32(acc.index)");
  if (pass.result == DType::bool_) {
    return output("u32", "acc") + R"(
// A thread for four outputs of one byte each, which share a word.
@compute @workgroup_size(64)
fn by_word(@builtin(global_invocation_id) id: vec3<u32>) {
  let t = flat(id);
  let first = t * 4u;
  if (first >= params.outputs) {
    return;
  }
  var word = 0u;
  for (var i = 0u; i < 4u && first + i < params.outputs; i++) {
    word |= finish(accumulate(first + i, 0u, params.reduced, 0u, 1u)) << (i * 8u);
  }
  out[params.out_offset / 4u + t] = word;
}
)";
  }
  const std::string_view type = wgsl_name(pass.result);
  return output(type, pass.op == ReduceOp::mean ? fmt::format("{}(mean_of(acc, params.count))", type)
                                                : fmt::format("{}(acc)", type));
}

Kernel kernel_for(const Device& device, const Pass& pass, std::string_view entry) {
  const std::string key = fmt::format("reduce:{}:{}:{}:{}:{}:{}:{}:{}:{}", to_string(pass.op), to_string(pass.x), entry,
                                      static_cast<int>(pass.source), static_cast<int>(pass.sink), pass.quads,
                                      pass.two_kept, pass.two_reduced, pass.splits_fast);
  return dispatch::library_kernel(state_of(device), key, [&] {
    KernelOptions options;
    options.source = fmt::format(
                         "const QUADS = {};\nconst TWO_KEPT = {};\nconst TWO_REDUCED = {};\n"
                         "const SPLITS_FAST = {};\n",
                         pass.quads, pass.two_kept, pass.two_reduced, pass.splits_fast) +
                     combining_text(pass.op, accumulator(pass.op, pass.x)) + reading_text(pass) + writing_text(pass) +
                     std::string(wgsl::reduce);
    options.entry_point = entry;
    options.label = fmt::format("{}.{}", to_string(pass.op), entry);
    return options;
  });
}

/// Something to reduce: a tensor's window, or accumulators.
struct Input {
  Window window;
  AxisPair kept;
  AxisPair reduced;
  std::uint32_t first_index = 0;
};

/// How the reduced axis is shared out.
struct Split {
  bool by_group = false;
  bool splits_fast = true;   ///< neighbouring threads take neighbouring splits, not outputs
  std::uint64_t splits = 1;  ///< partial results of an output
  std::uint64_t chunk = 0;   ///< elements of a group's, or of `lanes` threads' share
  std::uint64_t lanes = 1;
};

Split share_out(bool cpu, const AxisPair& kept, const AxisPair& reduced) {
  const std::uint64_t outputs = kept.count();
  const std::uint64_t length = reduced.count();
  Split split;
  split.chunk = length;
  // Along a row neighbours in memory are reduced together; else they belong to neighbouring outputs.
  const bool rows = outputs == 1 || std::abs(reduced.stride[1]) <= std::abs(kept.stride[1]);
  split.splits_fast = rows;
  if (!cpu && rows && length > kShortRow) {
    split.by_group = true;
    const std::uint64_t most = std::max<std::uint64_t>(length / kGpuGroupPiece, 1);
    const std::uint64_t wanted = std::clamp<std::uint64_t>(ceil_div(kGpuGroups, outputs), 1, most);
    split.chunk = (ceil_div(length, wanted) + 3) / 4 * 4;
    split.splits = ceil_div(length, split.chunk);
    return split;
  }
  const std::uint64_t threads = cpu ? kCpuThreads : kGpuThreads;
  const std::uint64_t piece = cpu ? kCpuPiece : kGpuThreadPiece;
  std::uint64_t wanted = 0;
  if (cpu && !rows && outputs >= kThreads) {
    wanted = length / kCpuBlock;
  } else if (outputs * 4 <= threads && length >= 4 * piece) {
    wanted = std::min(ceil_div(threads, outputs), length / piece);
  }
  wanted = std::min(wanted, kMaxSplits);
  // Mesa 22's lavapipe ends all loops of an invocation, silently, after 65,535 turns in all; by_word walks four
  // outputs.
  if (length > kLongestWalk) wanted = std::max({wanted, ceil_div(length, kLongestWalk), std::uint64_t{2}});
  if (wanted < 2) return split;
  // Lanes take turns where that makes neighbouring threads read neighbouring elements.
  const std::uint64_t lanes = cpu ? kCpuLanes : kThreads;
  if (rows || outputs < kThreads) split.lanes = std::min<std::uint64_t>(std::bit_floor(wanted), lanes);
  const std::uint64_t shares = std::max<std::uint64_t>(wanted / split.lanes, 1);
  const std::uint64_t multiple = 4 * split.lanes;
  split.chunk = ceil_div(ceil_div(length, shares), multiple) * multiple;
  split.splits = ceil_div(length, split.chunk) * split.lanes;
  return split;
}

Window device_bytes(const Device& device, std::uint64_t bytes) {
  Device owner = device;
  Window made;
  made.range = BindingRange(owner.alloc(bytes), 0, bytes);
  return made;
}

/// Reduces the input to `sink`, in as many passes as it takes.
void run_passes(const Device& device, Pass pass, const Input& input, float count, const Window& out) {
  const bool cpu = cpu_kernels(device);
  const std::uint64_t outputs = input.kept.count();
  const std::uint64_t length = input.reduced.count();
  const Split split = share_out(cpu, input.kept, input.reduced);
  const bool bytes_out = pass.sink == Sink::results && pass.result == DType::bool_;
  const bool whole = split.splits == 1 && !(bytes_out && split.by_group);
  const std::string_view name = to_string(pass.op);
  const std::size_t accumulator_size = gives_index(pass.op) ? 8 : 4;

  Pass now = pass;
  if (!whole) now.sink = Sink::accumulators;
  now.two_kept = input.kept.folded();
  now.two_reduced = input.reduced.folded();
  now.splits_fast = split.splits_fast;
  const bool plain = !(pass.source == Source::accumulators && gives_index(pass.op));
  now.quads = plain && input.reduced.stride[1] == 1 && length >= 4 && input.reduced.stride[0] % 4 == 0 &&
              (!now.two_reduced || input.reduced.length[1] % 4 == 0) &&
              starts_on_quads(input.kept, input.window.offset, 0);

  const std::uint64_t threads = outputs * split.splits;
  const Window target = whole ? out : device_bytes(device, threads * accumulator_size);
  Params params{};
  params.offset = input.window.offset;
  params.outputs = static_cast<std::uint32_t>(outputs);
  params.reduced = static_cast<std::uint32_t>(length);
  params.kept_inner = static_cast<std::uint32_t>(input.kept.length[1]);
  params.kept_stride0 = word(input.kept.stride[0]);
  params.kept_stride1 = word(input.kept.stride[1]);
  params.reduced_inner = static_cast<std::uint32_t>(input.reduced.length[1]);
  params.reduced_stride0 = word(input.reduced.stride[0]);
  params.reduced_stride1 = word(input.reduced.stride[1]);
  params.splits = static_cast<std::uint32_t>(split.splits);
  params.chunk = static_cast<std::uint32_t>(split.chunk);
  params.lanes = static_cast<std::uint32_t>(split.lanes);
  params.first_index = input.first_index;
  params.identity = identity_bits(pass.op, accumulator(pass.op, pass.x));
  params.out_offset = target.offset;
  params.count = count;

  const bool by_word = whole && bytes_out;
  const std::string_view entry = by_word ? "by_word" : split.by_group ? "by_group" : "by_thread";
  const Kernel kernel = kernel_for(device, now, entry);
  const std::array<BindingRange, 3> ranges{input.window.range, target.range, input.window.range};
  const Grid grid =
      fold_groups(split.by_group ? threads : ceil_div(by_word ? ceil_div(outputs, 4) : threads, kThreads), name);
  launch(device, kernel, std::span(ranges).first(kernel.bindings().size()),
         std::as_bytes(std::span<const Params, 1>(&params, 1)), grid);
  if (whole) return;

  Input next;
  next.window = target;
  next.kept.length[1] = outputs;
  next.reduced.length[1] = split.splits;
  next.kept.stride[1] = static_cast<std::int64_t>(split.splits);
  next.reduced.stride[1] = 1;
  pass.source = Source::accumulators;
  run_passes(device, pass, next, count, out);
}

/// A part of the input that one binding shows, and the reduced index of its first element.
struct Piece {
  Tensor x;
  std::uint64_t first_index = 0;
};

/// The first axis of the list that has more than one element.
std::optional<std::size_t> outermost(const Tensor& x, std::span<const std::size_t> axes) {
  for (std::size_t axis : axes) {
    if (x.shape()[axis] > 1) return axis;
  }
  return std::nullopt;
}

void cut_reduced(const Piece& piece, std::span<const std::size_t> axes, std::vector<Piece>& pieces) {
  const std::optional<std::size_t> axis = outermost(piece.x, axes);
  if (fits_binding(piece.x) || !axis) {
    pieces.push_back(piece);
    return;
  }
  const std::int64_t length = piece.x.shape()[*axis];
  const std::int64_t cut = cut_at(length);
  std::uint64_t behind = 1;  // reduced elements for each step of that axis
  for (std::size_t a : axes) {
    if (a > *axis) behind *= static_cast<std::uint64_t>(piece.x.shape()[a]);
  }
  cut_reduced({part_of(piece.x, *axis, 0, cut), piece.first_index}, axes, pieces);
  cut_reduced(
      {part_of(piece.x, *axis, cut, length - cut), piece.first_index + static_cast<std::uint64_t>(cut) * behind}, axes,
      pieces);
}

/// The piece as an input: as it lies, or a dense copy with the kept axes in front when it has too many strides.
Input input_of(ReduceOp op, const Piece& piece, std::span<const std::size_t> kept_axes,
               std::span<const std::size_t> axes) {
  Input input;
  input.first_index = static_cast<std::uint32_t>(piece.first_index);
  const auto kept = axis_pair(piece.x, kept_axes);
  const auto reduced = axis_pair(piece.x, axes);
  if (kept && reduced) {
    input.window = window(piece.x, to_string(op));
    input.kept = *kept;
    input.reduced = *reduced;
    return input;
  }
  std::vector<std::int64_t> order;
  for (std::size_t axis : kept_axes) order.push_back(static_cast<std::int64_t>(axis));
  for (std::size_t axis : axes) order.push_back(static_cast<std::int64_t>(axis));
  const Tensor dense = contiguous(transpose(piece.x, order));
  input.window = window(dense, to_string(op));
  input.reduced.length[1] = 1;
  for (std::size_t axis : axes) input.reduced.length[1] *= static_cast<std::uint64_t>(piece.x.shape()[axis]);
  input.kept.length[1] = static_cast<std::uint64_t>(dense.size()) / input.reduced.length[1];
  input.kept.stride[1] = static_cast<std::int64_t>(input.reduced.length[1]);
  input.reduced.stride[1] = 1;
  return input;
}

/// Reduces into `out`: dense, of one element for each kept index.
void reduce_into(ReduceOp op, const Tensor& x, std::span<const std::size_t> kept_axes,
                 std::span<const std::size_t> axes, const Tensor& out, float count) {
  const Device& device = x.device();
  const std::optional<std::size_t> kept_axis = outermost(x, kept_axes);
  const std::optional<std::size_t> reduced_axis = outermost(x, axes);
  if (!fits_binding(x) || !fits_binding(out)) {
    // Along the axis that spans more memory; but four results of bool share a word, so a cut must fall between words.
    const auto reach = [&](std::optional<std::size_t> axis) {
      return axis ? (x.shape()[*axis] - 1) * std::abs(x.strides()[*axis]) : -1;
    };
    const std::int64_t length = kept_axis ? x.shape()[*kept_axis] : 1;
    const std::int64_t cut = cut_at(length);
    const std::int64_t behind = out.size() / length;
    const bool between_words = out.dtype() != DType::bool_ || cut * behind % 4 == 0;
    if (kept_axis && between_words &&
        (!reduced_axis || reach(kept_axis) >= reach(reduced_axis) || !fits_binding(out))) {
      const auto run = [&](std::int64_t start, std::int64_t n) {
        const Tensor results(device, out.buffer(), {n * behind}, {1}, out.offset() + start * behind, out.dtype());
        reduce_into(op, part_of(x, *kept_axis, start, n), kept_axes, axes, results, count);
      };
      run(0, cut);
      run(cut, length - cut);
      return;
    }
  }
  std::vector<Piece> pieces;
  cut_reduced({x, 0}, axes, pieces);
  const Window results = window(out, to_string(op));
  Pass pass{op, x.dtype(), out.dtype(), Source::tensor, Sink::results};
  if (pieces.size() == 1) {
    run_passes(device, pass, input_of(op, pieces.front(), kept_axes, axes), count, results);
    return;
  }
  // Accumulators of all pieces, one row a piece, then those to results.
  const auto outputs = static_cast<std::uint64_t>(out.size());
  const std::uint64_t size = gives_index(op) ? 8 : 4;
  Device owner = device;
  const std::uint64_t all = checked_mul(checked_mul(outputs, pieces.size(), to_string(op)), size, to_string(op));
  const Buffer accumulators = owner.alloc(all);
  const std::uint64_t alignment = device.limits().min_storage_offset_alignment;
  pass.sink = Sink::accumulators;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t begin = outputs * size * i;
    Window row;
    const std::uint64_t aligned = begin / alignment * alignment;
    row.range = BindingRange(accumulators, aligned, begin + outputs * size - aligned);
    row.offset = static_cast<std::uint32_t>((begin - aligned) / size);
    run_passes(device, pass, input_of(op, pieces[i], kept_axes, axes), count, row);
  }
  Input rows;
  rows.window.range = BindingRange(accumulators, 0, all);
  rows.kept.length[1] = outputs;
  rows.kept.stride[1] = 1;
  rows.reduced.length[1] = pieces.size();
  rows.reduced.stride[1] = static_cast<std::int64_t>(outputs);
  pass.source = Source::accumulators;
  pass.sink = Sink::results;
  run_passes(device, pass, rows, count, results);
}

/// What no elements give. Max, min and the indices have refused already.
Scalar of_nothing(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod: return 1;
    case ReduceOp::mean: return std::nan("");
    case ReduceOp::all: return true;
    case ReduceOp::any: return false;
    default: return 0;
  }
}

}  // namespace
}  // namespace ops

Tensor reduce(ReduceOp op, const Tensor& x, const ReduceOptions& options) {
  const std::string_view name = to_string(op);
  Device device = ops::common_device(name, std::array{&x});
  const std::vector<std::size_t> axes = ops::normalize_axes(name, options.axes, x.shape());
  const Shape shape = ops::reduce_shape(op, x.shape(), options);
  const DType dtype = ops::reduce_types(op, x.dtype()).result;
  std::int64_t count = 1;
  for (std::size_t axis : axes) count *= x.shape()[axis];
  if (x.size() == 0 && element_count(shape) > 0) return full(device, shape, ops::of_nothing(op), dtype);
  if (ops::gives_index(op) && count > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCode::out_of_range, fmt::format("{}: {} elements have indices that int32 can't hold", name, count),
                "work on slices of the tensor");
  }
  Tensor out = device.empty(shape, dtype);
  if (out.size() == 0) return out;
  ops::reduce_into(op, x, ops::other_axes(x.rank(), axes), axes, out, static_cast<float>(count));
  return out;
}

}  // namespace weft
