#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/checked.h"
#include "ops/infer.h"
#include "ops/launch.h"
#include "ops/plan_as.h"
#include "ops/reduce.h"
#include "ops/reduce_codegen.h"
#include "ops/reduce_plan.h"
#include "ops/reduce_tuning.h"
#include "ops/result.h"
#include "ops/rows.h"
#include "ops/subgroups.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft {
namespace ops {
namespace {

constexpr std::uint32_t kFewThreads = 16;    ///< of a row that shares its workgroup with others
constexpr std::uint32_t kSharedGroup = 128;  ///< of the workgroup

constexpr std::array kGroupShapes{
    GroupShape{256, true, true},   GroupShape{256, false, true}, GroupShape{256, true, false},
    GroupShape{256, false, false}, GroupShape{512, true, true},  GroupShape{128, true, true},
    GroupShape{64, true, true},    GroupShape{32, true, true},   GroupShape{128, false, true},
};
std::atomic<std::size_t> taken_shape{0};

const GroupShape& group_shape() {
  return kGroupShapes[taken_shape.load(std::memory_order_relaxed)];
}

/// Something to reduce: a tensor's window, or accumulators.
struct Input {
  Window window;
  AxisPair kept;
  AxisPair reduced;
  std::uint32_t first_index = 0;
};

Window device_bytes(const Device& device, std::uint64_t bytes) {
  Device owner = device;
  Window made;
  made.range = BindingRange(owner.alloc(bytes), 0, bytes);
  return made;
}

/// The workgroup of by_group.
void shape_group(const Device& device, KernelClass kernels, bool shared, ReducePass& pass) {
  const GroupShape& shape = group_shape();
  if (shared) {
    pass.group = kSharedGroup;
    pass.row_threads = kFewThreads;
    pass.subgroups = 0;
  } else {
    pass.group = pass.row_threads = std::min(shape.threads, longest_workgroup(device));
    const bool joins = shape.subgroups && kernels == KernelClass::gpu_subgroups;
    pass.subgroups = joins ? most_subgroups(device, pass.group) : 0;
  }
  // Those in blocks read sixteen elements at once by themselves.
  pass.four_quads = shape.four_quads && pass.quads && !(pass.source == ReduceSource::tensor && in_blocks(pass.op));
}

/// Along a row neighbours in memory are reduced together; else they belong to neighbouring outputs.
Split split_of(const Device& device, const ReducePass& pass, bool cpu, const AxisPair& kept, const AxisPair& reduced) {
  const ReduceProblem problem{PlanAs::rows(kept.count()), reduced.count(),
                              kept.count() == 1 || std::abs(reduced.stride[1]) <= std::abs(kept.stride[1])};
  if (pass.source == ReduceSource::accumulators) return share_out(cpu, problem);
  return tuned_split(device, cpu, problem, pass.x);
}

/// Reduces the input to `sink`, in as many passes as it takes.
void run_passes(const Device& device, ReducePass pass, const Input& input, float number, const Window& out) {
  const KernelClass kernels = kernel_class(device);
  const std::uint64_t outputs = input.kept.count();
  const std::uint64_t length = input.reduced.count();
  const Split split = split_of(device, pass, kernels == KernelClass::cpu, input.kept, input.reduced);
  const bool bytes_out = pass.sink == ReduceSink::results && pass.result == DType::bool_;
  const bool whole = split.splits == 1 && !(bytes_out && split.by_group);
  const std::string_view name = to_string(pass.op);
  const std::uint64_t accumulator_size = accumulator_bytes(pass.op, pass.x);

  ReducePass now = pass;
  if (!whole) now.sink = ReduceSink::accumulators;
  now.two_reduced = input.reduced.folded();
  now.splits_fast = split.splits_fast;
  const bool plain = !(pass.source == ReduceSource::accumulators && accumulator_size > 4);
  now.quads = plain && input.reduced.stride[1] == 1 && length >= 4 && input.reduced.stride[0] % 4 == 0 &&
              (!now.two_reduced || input.reduced.length[1] % 4 == 0) &&
              starts_on_quads(input.kept, input.window.offset, 0);
  if (split.by_group) shape_group(device, kernels, split.shared, now);

  const std::uint64_t threads = outputs * split.splits;
  const Window target = whole ? out : device_bytes(device, threads * accumulator_size);
  ReduceParams params{};
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
  params.identity = identity_bits(pass.op, pass.x);
  params.out_offset = target.offset;
  params.number = number;

  const bool by_word = whole && bytes_out;
  const std::string_view entry = by_word ? "by_word" : split.by_group ? kByGroup : "by_thread";
  const Kernel kernel =
      dispatch::library_kernel(state_of(device), reduce_key(now, entry), [&] { return reduce_options(now, entry); });
  const std::array<BindingRange, 3> ranges{input.window.range, target.range, input.window.range};
  const Grid grid = fold_groups(split.by_group ? ceil_div(threads, now.group / now.row_threads)
                                               : ceil_div(by_word ? ceil_div(outputs, 4) : threads, kReduceThreads),
                                name);
  launch(device, kernel, std::span(ranges).first(kernel.bindings().size()),
         std::as_bytes(std::span<const ReduceParams, 1>(&params, 1)), grid);
  if (whole) return;

  Input next;
  next.window = target;
  next.kept.length[1] = outputs;
  next.reduced.length[1] = split.splits;
  next.kept.stride[1] = static_cast<std::int64_t>(split.splits);
  next.reduced.stride[1] = 1;
  pass.source = ReduceSource::accumulators;
  run_passes(device, pass, next, number, out);
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
Input input_of(Reduction op, const Piece& piece, std::span<const std::size_t> kept_axes,
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
void reduce_into(Reduction op, const Tensor& x, std::span<const std::size_t> kept_axes,
                 std::span<const std::size_t> axes, const Tensor& out, float number) {
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
        reduce_into(op, part_of(x, *kept_axis, start, n), kept_axes, axes, results, number);
      };
      run(0, cut);
      run(cut, length - cut);
      return;
    }
  }
  std::vector<Piece> pieces;
  cut_reduced({x, 0}, axes, pieces);
  const Window results = window(out, to_string(op));
  ReducePass pass{op, x.dtype(), out.dtype(), ReduceSource::tensor, ReduceSink::results};
  if (pieces.size() == 1) {
    run_passes(device, pass, input_of(op, pieces.front(), kept_axes, axes), number, results);
    return;
  }
  // Accumulators of all pieces, one row a piece, then those to results.
  const auto outputs = static_cast<std::uint64_t>(out.size());
  const std::uint64_t size = accumulator_bytes(op, x.dtype());
  Device owner = device;
  const std::uint64_t all = checked_mul(checked_mul(outputs, pieces.size(), to_string(op)), size, to_string(op));
  const Buffer accumulators = owner.alloc(all);
  const std::uint64_t alignment = device.limits().min_storage_offset_alignment;
  pass.sink = ReduceSink::accumulators;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t begin = outputs * size * i;
    Window row;
    const std::uint64_t aligned = begin / alignment * alignment;
    row.range = BindingRange(accumulators, aligned, begin + outputs * size - aligned);
    row.offset = static_cast<std::uint32_t>((begin - aligned) / size);
    run_passes(device, pass, input_of(op, pieces[i], kept_axes, axes), number, row);
  }
  Input rows;
  rows.window.range = BindingRange(accumulators, 0, all);
  rows.kept.length[1] = outputs;
  rows.kept.stride[1] = 1;
  rows.reduced.length[1] = pieces.size();
  rows.reduced.stride[1] = static_cast<std::int64_t>(outputs);
  pass.source = ReduceSource::accumulators;
  pass.sink = ReduceSink::results;
  run_passes(device, pass, rows, number, results);
}

/// What no elements give. Max, min and the indices have refused already.
Scalar of_nothing(Reduction op) {
  switch (op) {
    case Reduction::prod: return 1;
    case Reduction::mean:
    case Reduction::variance:
    case Reduction::deviation: return std::nan("");
    case Reduction::log_sum_exp: return -std::numeric_limits<double>::infinity();
    case Reduction::all: return true;
    case Reduction::any: return false;
    default: return 0;
  }
}

}  // namespace

std::string_view to_string(Reduction r) noexcept {
  switch (r) {
    case Reduction::variance: return "var";
    case Reduction::deviation: return "stddev";
    case Reduction::count: return "norm_0";
    case Reduction::abs_sum: return "norm_1";
    case Reduction::abs_max: return "norm_max";
    case Reduction::abs_min: return "norm_min";
    case Reduction::norm_2: return "norm_2";
    case Reduction::norm_p: return "norm_p";
    case Reduction::log_sum_exp: return "logsumexp";
    default: return weft::to_string(static_cast<ReduceOp>(r));
  }
}

std::span<const GroupShape> group_shapes() noexcept {
  return kGroupShapes;
}

void force_group_shape(std::size_t index) noexcept {
  taken_shape.store(std::min(index, kGroupShapes.size() - 1), std::memory_order_relaxed);
}

Tensor run_reduction(Reduction r, const Tensor& x, std::span<const std::size_t> axes, const Shape& shape, DType dtype,
                     float number) {
  const Device& device = x.device();
  if (x.size() == 0 && element_count(shape) > 0) return full(device, shape, of_nothing(r), dtype);
  Tensor out = new_result(device, shape, dtype);
  if (out.size() == 0) return out;
  reduce_into(r, x, other_axes(x.rank(), axes), axes, out, number);
  return out;
}

void visit_reduce_kernels(const Device& device, const KernelVisitor& visit) {
  std::vector<DType> inputs{DType::f32, DType::i32, DType::u32, DType::bool_};
  if (device.features().f16) inputs.push_back(DType::f16);
  std::set<std::string> seen;  // accumulators are the same for several inputs
  const auto for_groups = [&](ReducePass pass) {
    if (pass.sink == ReduceSink::results && pass.result == DType::bool_) return;
    for (const KernelClass kernels : kernel_classes(device)) {
      if (kernels == KernelClass::cpu) continue;
      for (const bool shared : {false, true}) {
        shape_group(device, kernels, shared, pass);
        const std::string key = reduce_key(pass, kByGroup);
        if (seen.insert(key).second) visit(key, reduce_options(pass, kByGroup));
      }
    }
  };
  const auto entries = [&](ReducePass pass) {
    const bool bytes_out = pass.sink == ReduceSink::results && pass.result == DType::bool_;
    for (const bool quads : {false, true}) {
      pass.quads = quads;
      // The next three are left out where run_passes can't come to them.
      if (quads && pass.source == ReduceSource::accumulators && accumulator_bytes(pass.op, pass.x) > 4) continue;
      for (const bool two_reduced : {false, true}) {
        pass.two_reduced = two_reduced;
        if (two_reduced && pass.source == ReduceSource::accumulators) continue;
        for_groups(pass);
        for (const std::string_view entry : {"by_thread", "by_word"}) {
          if ((entry == "by_word") != bytes_out) continue;
          for (const bool splits_fast : {true, false}) {
            pass.splits_fast = splits_fast;
            const std::string key = reduce_key(pass, entry);
            if (seen.insert(key).second) visit(key, reduce_options(pass, entry));
          }
        }
      }
    }
  };
  for (int i = 0; i <= static_cast<int>(kLastReduction); ++i) {
    const auto op = static_cast<Reduction>(i);
    for (const DType x : inputs) {
      const DType result =
          op <= Reduction::argmin ? reduce_types(static_cast<ReduceOp>(op), x).result : float_result(x);
      for (const ReduceSource source : {ReduceSource::tensor, ReduceSource::accumulators}) {
        for (const ReduceSink sink : {ReduceSink::results, ReduceSink::accumulators})
          entries(ReducePass{op, x, result, source, sink});
      }
    }
  }
}

}  // namespace ops

Tensor reduce(ReduceOp op, const Tensor& x, const ReduceOptions& options) {
  const std::string_view name = to_string(op);
  ops::common_device(name, std::array{&x});
  const std::vector<std::size_t> axes = ops::normalize_axes(name, options.axes, x.shape());
  const Shape shape = ops::reduce_shape(op, x.shape(), options);
  std::int64_t count = 1;
  for (std::size_t axis : axes) count *= x.shape()[axis];
  const ops::Reduction reduction = ops::reduction_of(op);
  if (ops::gives_index(reduction) && x.size() > 0 && count > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCode::out_of_range, fmt::format("{}: {} elements have indices that int32 can't hold", name, count),
                "work on slices of the tensor");
  }
  return ops::run_reduction(reduction, x, axes, shape, ops::reduce_types(op, x.dtype()).result,
                            static_cast<float>(count));
}

}  // namespace weft
