#include "expr/footprint.h"

#include <algorithm>
#include <bit>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::expr {
namespace {

/// Makes no memory of its own.
bool is_view(const Step& step, const Graph& graph) {
  if (step.kind != Step::Kind::single) return false;
  switch (graph[step.result].kind) {
    case OpKind::transpose:
    case OpKind::reshape:
    case OpKind::broadcast:
    case OpKind::slice:
    case OpKind::select: return true;
    default: return false;
  }
}

/// Memory that a step takes only while it runs, for one element of its first operand: copies in another dtype, of
/// ops that work in steps of their own.
std::uint64_t scratch_bytes(const Graph& graph, const Step& step, bool joins) {
  const Operation& op = graph[step.result];
  if (op.operands.empty()) return 0;
  const DType x = graph.dtype(op.operands[0]);
  if (joins && op.kind == OpKind::library) return 8;  // a variance's moved copy, and another in float32
  if (joins && op.kind != OpKind::library) return x == DType::f32 ? 0 : 4;
  return op.kind == OpKind::library ? size_of(x) : 0;
}

/// What is kept of a block for each element of a reduction's result.
std::uint64_t part_bytes(const Operation& op) {
  const bool two =
      op.joining || (op.kind == OpKind::reduce && (op.reduce == ReduceOp::argmax || op.reduce == ReduceOp::argmin));
  return two ? 8 : 4;
}

std::uint64_t elements(const Graph& graph, OpId id) {
  return static_cast<std::uint64_t>(element_count(graph.shape(id)));
}

/// When a tensor of each step can go: the position of the last step that reads it, or reads a view of it.
std::vector<std::size_t> last_uses(const Graph& graph, const Plan& plan, const std::vector<std::size_t>& when,
                                   std::size_t end) {
  std::vector<std::size_t> last(graph.size());
  last[plan.result] = end;
  for (std::size_t i = plan.steps.size(); i-- > 0;) {
    const Step& step = plan.steps[i];
    const std::size_t until = is_view(step, graph) ? std::max(when[i], last[step.result]) : when[i];
    for (OpId operand : step.operands) last[operand] = std::max(last[operand], until);
  }
  return last;
}

struct Running {
  std::uint64_t now = 0, most = 0;
  void add(std::uint64_t n) { most = std::max(most, now += n); }
};

}  // namespace

std::uint64_t bytes_of(const Graph& graph, OpId id) {
  return elements(graph, id) * size_of(graph.dtype(id));
}

WholeFootprint whole_footprint(const Graph& graph, const Plan& plan) {
  WholeFootprint out;
  out.largest = plan.result;
  std::vector<std::size_t> when(plan.steps.size());
  for (std::size_t i = 0; i < when.size(); ++i) when[i] = i + 1;
  const std::vector<std::size_t> last = last_uses(graph, plan, when, plan.steps.size() + 1);
  std::vector<std::vector<std::size_t>> ends(plan.steps.size() + 2);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (!is_view(plan.steps[i], graph)) ends[last[plan.steps[i].result]].push_back(i);
  }
  Running bytes;
  // All inputs are uploaded first.
  for (const Step& step : plan.steps) {
    if (graph[step.result].kind == OpKind::input) bytes.add(bytes_of(graph, step.result));
    if (bytes_of(graph, step.result) > bytes_of(graph, out.largest)) out.largest = step.result;
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const bool is_new = graph[step.result].kind != OpKind::input && !is_view(step, graph);
    const std::uint64_t scratch =
        step.operands.empty() ? 0 : elements(graph, step.operands[0]) * scratch_bytes(graph, step, false);
    if (is_new) bytes.add(bytes_of(graph, step.result) + scratch);
    if (is_new) bytes.now -= scratch;
    for (std::size_t j : ends[i + 1]) bytes.now -= bytes_of(graph, plan.steps[j].result);
  }
  out.bytes = bytes.most;
  return out;
}

BlockFootprint block_footprint(const Graph& graph, const Blocks& blocks) {
  BlockFootprint out;
  const Plan& plan = blocks.plan;
  const auto rows = static_cast<std::uint64_t>(blocks.rows);
  const std::size_t passes = blocks.passes.size();
  // Whole tensors, by the stage (pass, or what comes behind) that makes them and the last one that reads them.
  std::vector<std::size_t> stage(plan.steps.size(), passes);
  std::vector<std::size_t> read(plan.steps.size(), passes);
  for (std::size_t p = 0; p < passes; ++p) {
    for (std::size_t i : blocks.passes[p].before) stage[i] = read[i] = p;
    for (std::size_t i : blocks.passes[p].steps) {
      stage[i] = blocks.cuts[plan.steps[i].result].combined ? p + 1 : p;
      read[i] = p;
    }
  }
  const std::vector<std::size_t> last = last_uses(graph, plan, read, passes);
  std::uint64_t largest = 0;
  for (std::size_t p = 0; p <= passes; ++p) {
    std::uint64_t whole = 0, joined = 0;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const OpId id = plan.steps[i].result;
      const OpCut& place = blocks.cuts[id];
      if (place.axis || is_view(plan.steps[i], graph)) continue;
      const std::uint64_t bytes = bytes_of(graph, id);
      if (bytes > largest) out.largest_whole = id;
      largest = std::max(largest, bytes);
      if (stage[i] <= p && last[id] >= p) whole += bytes;
      if (place.combined && stage[i] == p + 1) joined += elements(graph, id) * part_bytes(graph[id]);
    }
    out.whole = std::max(out.whole, whole);
    out.joined = std::max(out.joined, joined);
  }
  for (const BlockPass& pass : blocks.passes) {
    std::vector<std::size_t> when(plan.steps.size(), 0);
    for (std::size_t at = 0; at < pass.steps.size(); ++at) when[pass.steps[at]] = at + 1;
    const std::vector<std::size_t> until = last_uses(graph, plan, when, pass.steps.size() + 1);
    std::vector<std::vector<OpId>> ends(pass.steps.size() + 2);
    for (std::size_t i : pass.steps) {
      const OpId id = plan.steps[i].result;
      if (blocks.cuts[id].axis && !is_view(plan.steps[i], graph)) ends[until[id]].push_back(id);
    }
    Running bytes;
    for (std::size_t at = 0; at < pass.steps.size(); ++at) {
      const Step& step = plan.steps[pass.steps[at]];
      const OpCut& place = blocks.cuts[step.result];
      // Slices of whole tensors may be copied.
      for (OpId operand : step.operands) {
        const auto axis = operand_axis(graph, blocks, step, operand);
        if (axis && !blocks.cuts[operand].axis) out.per_row = std::max(out.per_row, bytes_of(graph, operand) / rows);
      }
      std::uint64_t scratch = 0;
      if (!step.operands.empty() && step.kind == Step::Kind::single) {
        scratch = elements(graph, step.operands[0]) / rows * scratch_bytes(graph, step, place.combined);
      }
      const std::uint64_t own = place.axis && !is_view(step, graph) ? bytes_of(graph, step.result) / rows : 0;
      bytes.add(own + scratch);
      bytes.now -= scratch;
      if (place.axis) out.row = std::max(out.row, bytes_of(graph, step.result) / rows);
      for (OpId id : ends[at + 1]) bytes.now -= bytes_of(graph, id) / rows;
    }
    // A view is copied before it is read back.
    const Step& last_step = plan.steps[pass.steps.back()];
    if (blocks.cuts[last_step.result].axis && is_view(last_step, graph)) {
      bytes.add(bytes_of(graph, last_step.result) / rows);
    }
    out.per_row = std::max(out.per_row, bytes.most);
  }
  out.per_row = std::max<std::uint64_t>(out.per_row, 1);
  return out;
}

namespace {

/// What blocks of at most n rows take.
std::uint64_t bytes_of_blocks(const Blocks& blocks, const BlockFootprint& f, std::uint64_t n) {
  const auto count = (static_cast<std::uint64_t>(blocks.rows) + n - 1) / n;
  // Two more parts are there while two are joined.
  return f.whole + f.joined * (static_cast<std::uint64_t>(std::bit_width(count)) + 2) + f.per_row * n;
}

/// How many rows blocks have at most: what memory, bindings and the wished size allow. 0 when nothing fits.
std::uint64_t rows_of_blocks(const Blocks& blocks, const BlockFootprint& f, const BlockLimits& limits) {
  // A block of one row tells nothing of how rows lie beside each other, by which kernels are chosen; of three at most
  // evened out none has fewer than two.
  constexpr std::uint64_t kLeast = 3;
  const std::uint64_t row = std::max<std::uint64_t>(f.row, 1);
  std::uint64_t n = std::max(limits.block_bytes / row, kLeast);
  if (limits.binding > 0) n = std::min(n, std::max(limits.binding / row, kLeast));
  n = std::min(n, static_cast<std::uint64_t>(blocks.rows));
  while (n > 0) {
    const std::uint64_t bytes = bytes_of_blocks(blocks, f, n);
    if (bytes <= limits.memory) return n;
    n = std::min(n - 1, n - std::min(n, (bytes - limits.memory) / f.per_row));
  }
  return 0;
}

/// Seconds that reading or writing all of an array takes: bytes, and the pieces in which a block lies in the file.
double transfer_seconds(const Graph& graph, OpId id, std::size_t axis, bool fortran, std::int64_t count) {
  constexpr double kBytesPerSecond = 4e9;
  constexpr double kSecondsPerPiece = 4e-7;
  const Shape& shape = graph.shape(id);
  double outer = 1;
  for (std::size_t i = fortran ? axis + 1 : 0; i < (fortran ? shape.rank() : axis); ++i) {
    outer *= static_cast<double>(shape[i]);
  }
  return static_cast<double>(bytes_of(graph, id)) / kBytesPerSecond +
         outer * static_cast<double>(count) * kSecondsPerPiece;
}

class Chooser {
 public:
  Chooser(const Graph& graph, OpId result, const std::map<OpId, bool>& sources, const BlockLimits& limits)
      : graph_(graph), result_(result), sources_(sources), limits_(limits) {}

  BlockChoice run() {
    std::vector<OpId> by_size;
    by_size.reserve(sources_.size());
    for (const auto& [id, fortran] : sources_) by_size.push_back(id);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](OpId a, OpId b) { return bytes_of(graph_, a) > bytes_of(graph_, b); });
    for (OpId id : by_size) {
      for (std::size_t axis = 0; axis < graph_.shape(id).rank(); ++axis) {
        for (std::int64_t rows : row_counts(graph_.shape(id)[axis])) try_cut({{id, axis}}, rows);
      }
    }
    return std::move(best_);
  }

 private:
  static constexpr std::size_t kMostTries = 400;
  static constexpr std::size_t kMostWork = std::size_t{1} << 20;  ///< operations looked at, in all tries

  /// An axis may be cut into as many rows as it is long; and where it is reshaped, into rows of several elements.
  std::vector<std::int64_t> row_counts(std::int64_t length) const {
    if (length < 2) return {};
    std::set<std::int64_t, std::greater<>> counts{length};
    for (OpId id = 0; id <= result_; ++id) {
      if (graph_[id].kind != OpKind::reshape) continue;
      std::int64_t before = 1;
      for (std::int64_t n : graph_.shape(id)) {
        before *= n;
        for (std::int64_t rows : {n, before}) {
          if (rows > 1 && length % rows == 0) counts.insert(rows);
        }
      }
    }
    return {counts.begin(), counts.end()};
  }

  void try_cut(const std::map<OpId, std::size_t>& inputs, std::int64_t rows) {
    ++tries_;
    if (tries_ > kMostTries || (tries_ > 4 && tries_ * graph_.size() > kMostWork)) return;
    if (!tried_.emplace(inputs, rows).second) return;
    Obstacle obstacle;
    std::optional<Blocks> blocks = cut(graph_, result_, inputs, rows, obstacle);
    if (!blocks) {
      if (best_.least_bytes == 0 && !best_.blocks && obstacle.op >= best_.obstacle.op) {
        // The largest input's first axis is the one to speak of, unless another way came further.
        if (obstacle.op > best_.obstacle.op || best_.obstacle.why.empty()) best_.obstacle = std::move(obstacle);
      }
      return;
    }
    if (!blocks->passes.empty()) consider(std::move(*blocks));
    for (const auto& [id, fortran] : sources_) {
      if (inputs.contains(id)) continue;
      for (std::size_t axis : wanted_axes(id, rows)) {
        auto more = inputs;
        more[id] = axis;
        try_cut(more, rows);
      }
    }
  }

  std::vector<std::size_t> wanted_axes(OpId id, std::int64_t rows) const {
    std::vector<std::size_t> out;
    const Shape& shape = graph_.shape(id);
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      if (shape[i] >= 2 && shape[i] % rows == 0) out.push_back(i);
    }
    return out;
  }

  void consider(Blocks blocks) {
    const BlockFootprint f = block_footprint(graph_, blocks);
    const std::uint64_t least = bytes_of_blocks(blocks, f, 1);
    const std::uint64_t n = rows_of_blocks(blocks, f, limits_);
    if (n == 0) {
      if (!best_.blocks && (best_.least_bytes == 0 || least < best_.least_bytes)) {
        best_.least_bytes = least;
        best_.footprint = f;
      }
      return;
    }
    const std::int64_t count = (blocks.rows + static_cast<std::int64_t>(n) - 1) / static_cast<std::int64_t>(n);
    double seconds = static_cast<double>(f.whole) / 1e9;  // transferred while nothing else goes on
    for (const BlockPass& pass : blocks.passes) {
      for (OpId id : pass.inputs) {
        seconds += transfer_seconds(graph_, id, blocks.inputs.at(id), sources_.at(id), count);
      }
    }
    if (blocks.result().axis) {
      seconds += transfer_seconds(graph_, result_, *blocks.result().axis, false, count);
    }
    if (best_.blocks && seconds >= seconds_) return;
    seconds_ = seconds;
    const std::uint64_t bytes = bytes_of_blocks(blocks, f, n);
    best_ = {std::move(blocks), count, bytes, f, {}, least};
  }

  const Graph& graph_;
  const OpId result_;
  const std::map<OpId, bool>& sources_;
  const BlockLimits& limits_;
  std::set<std::pair<std::map<OpId, std::size_t>, std::int64_t>> tried_;
  std::size_t tries_ = 0;
  BlockChoice best_;
  double seconds_ = 0;
};

}  // namespace

BlockChoice choose_blocks(const Graph& graph, OpId result, const std::map<OpId, bool>& sources,
                          const BlockLimits& limits) {
  return Chooser(graph, result, sources, limits).run();
}

}  // namespace weft::expr
