#include "expr/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace weft::expr {
namespace {

using Axis = std::optional<std::size_t>;

constexpr std::size_t kMostPasses = 64;

/// Thrown inside the analysis only.
struct Refusal : std::exception {
  explicit Refusal(std::string reason) : why(std::move(reason)) {}
  std::string why;
};
[[noreturn]] void refuse(std::string why) {
  throw Refusal(std::move(why));
}

std::int64_t product(const Shape& shape, std::size_t from, std::size_t to) {
  std::int64_t n = 1;
  for (std::size_t i = from; i < to; ++i) n *= shape[i];
  return n;
}

bool contains(const std::vector<std::int64_t>& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

/// The axis of an operand that meets `axis` of a result of `rank` axes when shapes are aligned at their ends, if it has
/// that axis's length.
Axis aligned(const Shape& operand, std::size_t rank, std::size_t axis, std::int64_t length) {
  const std::size_t missing = rank - std::min(rank, operand.rank());
  if (axis < missing || axis - missing >= operand.rank()) return std::nullopt;
  return operand[axis - missing] == length ? Axis(axis - missing) : std::nullopt;
}

class Analysis {
 public:
  Analysis(const Graph& graph, OpId result, const std::map<OpId, std::size_t>& inputs, std::int64_t rows)
      : graph_(graph), result_(result), inputs_(inputs), rows_(rows), cuts_(graph.size()), live_(graph.size()) {}

  /// False, with `obstacle`, when an operation can't follow.
  bool run(Obstacle& obstacle) {
    live_[result_] = true;
    for (OpId id = result_ + 1; id-- > 0;) {
      if (!live_[id]) continue;
      for (OpId operand : graph_[id].operands) live_[operand] = true;
    }
    for (OpId id = 0; id <= result_; ++id) {
      if (!live_[id]) continue;
      try {
        place(id);
      } catch (const Refusal& refusal) {
        obstacle = {id, refusal.why};
        return false;
      }
    }
    return true;
  }

  std::vector<OpCut>& cuts() { return cuts_; }

 private:
  const Axis& cut_of(const Operation& op, std::size_t i) const { return cuts_[op.operands[i]].axis; }
  std::size_t first_cut(const Operation& op) const {
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (cut_of(op, i)) return i;
    }
    return op.operands.size();
  }

  void place(OpId id) {
    const Operation& op = graph_[id];
    OpCut& p = cuts_[id];
    p.operands.assign(op.operands.size(), std::nullopt);
    if (op.kind == OpKind::input) {
      if (const auto it = inputs_.find(id); it != inputs_.end()) p.axis = it->second;
      return;
    }
    for (OpId operand : op.operands) p.after = std::max(p.after, cuts_[operand].after);
    const std::size_t first = first_cut(op);
    if (first == op.operands.size()) return;
    const std::size_t axis = cut_of(op, first).value();
    switch (op.kind) {
      case OpKind::unary:
      case OpKind::binary:
      case OpKind::where:
      case OpKind::cast:
      case OpKind::broadcast: elementwise(op, p, first); break;
      case OpKind::transpose: transpose(op, p, axis); break;
      case OpKind::reshape: reshape(op, p, axis); break;
      case OpKind::slice:
        if (op.axis == axis) refuse("the slice takes a part of the axis that would be cut into blocks");
        same(p, axis);
        break;
      case OpKind::select:
        if (op.axis == axis) refuse("the index picks from the axis that would be cut into blocks");
        same(p, axis);
        p.axis = axis - (op.axis < axis ? 1 : 0);
        break;
      case OpKind::take: take(op, p, first, axis); break;
      case OpKind::concat:
        if (op.axis == axis) refuse("it joins arrays along the axis that would be cut into blocks");
        together(op, p, axis, ~std::uint32_t{0});
        break;
      case OpKind::reduce: reduce(op, p, axis); break;
      case OpKind::softmax:
      case OpKind::log_softmax:
        if (op.axis == axis) refuse("it normalises along the axis that would be cut into blocks");
        same(p, axis);
        break;
      case OpKind::layer_norm:
        if (first != 0) refuse("its weight or bias would be cut into blocks");
        if (axis >= op.axis) refuse("it normalises along the axis that would be cut into blocks");
        only_first(op, p, axis);
        break;
      case OpKind::matmul: matmul(op, p); break;
      case OpKind::library: library(op, p, first, axis); break;
      case OpKind::input:
      case OpKind::scalar:
      case OpKind::constant:
      case OpKind::full:
      case OpKind::arange: break;  // they have no operands
    }
  }

  static void same(OpCut& p, std::size_t axis) {
    p.axis = axis;
    p.operands[0] = axis;
  }

  void only_first(const Operation& op, OpCut& p, std::size_t axis) {
    for (std::size_t i = 1; i < op.operands.size(); ++i) {
      if (cut_of(op, i)) refuse("more than its first argument would be cut into blocks");
    }
    same(p, axis);
  }

  /// Operands of one shape along `axis`, all of them in `mask` cut there.
  void together(const Operation& op, OpCut& p, std::size_t axis, std::uint32_t mask) {
    p.axis = axis;
    const std::int64_t length = graph_.shape(op.operands[first_cut(op)])[axis];
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const bool is_in = i < 32 && (mask >> i & 1) != 0;
      if (cut_of(op, i) && (!is_in || cut_of(op, i) != axis)) {
        refuse("its arguments would be cut along different axes");
      }
      if (!is_in) continue;
      const Shape& shape = graph_.shape(op.operands[i]);
      if (axis >= shape.rank() || shape[axis] != length) refuse("its arguments differ along the axis to be cut");
      p.operands[i] = axis;
    }
  }

  void elementwise(const Operation& op, OpCut& p, std::size_t first) {
    const std::size_t rank = op.shape.rank();
    const std::size_t axis = cut_of(op, first).value() + rank - graph_.shape(op.operands[first]).rank();
    const std::int64_t length = op.shape[axis];
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const Axis at = aligned(graph_.shape(op.operands[i]), rank, axis, length);
      if (cut_of(op, i) && cut_of(op, i) != at) refuse("its arguments would be cut along different axes");
      p.operands[i] = at;
    }
    p.axis = axis;
  }

  static void transpose(const Operation& op, OpCut& p, std::size_t axis) {
    p.operands[0] = axis;
    const auto it = std::find(op.numbers.begin(), op.numbers.end(), static_cast<std::int64_t>(axis));
    p.axis = static_cast<std::size_t>(it - op.numbers.begin());
  }

  /// Rows stay rows where as many elements stand before the axis, and each axis has whole runs of them.
  void reshape(const Operation& op, OpCut& p, std::size_t axis) {
    const Shape& from = graph_.shape(op.operands[0]);
    const std::int64_t before = product(from, 0, axis);
    const std::int64_t row = from[axis] / rows_ * product(from, axis + 1, from.rank());
    for (std::size_t i = 0; i < op.shape.rank(); ++i) {
      const std::int64_t after = product(op.shape, i + 1, op.shape.rank());
      if (product(op.shape, 0, i) != before || op.shape[i] % rows_ != 0 || op.shape[i] / rows_ * after != row) continue;
      same(p, axis);
      p.axis = i;
      return;
    }
    refuse(fmt::format("the shape {} does not keep rows of {} together", to_string(op.shape), to_string(from)));
  }

  void take(const Operation& op, OpCut& p, std::size_t first, std::size_t axis) {
    if (cut_of(op, 0) && cut_of(op, 1)) refuse("both the array and the indices would be cut into blocks");
    p.operands[first] = axis;
    if (first == 1) {
      p.axis = op.axis + axis;
      return;
    }
    if (op.axis == axis) refuse("it picks from the axis that would be cut into blocks");
    p.axis = axis < op.axis ? axis : axis + graph_.shape(op.operands[1]).rank() - 1;
  }

  /// A reduction over `numbers`.
  void reduce(const Operation& op, OpCut& p, std::size_t axis) {
    p.operands[0] = axis;
    if (!contains(op.numbers, axis)) {
      std::size_t gone = 0;
      for (std::size_t i = 0; i < axis && !op.keepdims; ++i) gone += contains(op.numbers, i) ? 1 : 0;
      p.axis = axis - gone;
      return;
    }
    const Shape& x = graph_.shape(op.operands[0]);
    if (op.kind == OpKind::reduce && (op.reduce == ReduceOp::argmax || op.reduce == ReduceOp::argmin)) {
      if (op.numbers.size() > 1 && product(x, 0, axis) != 1) {
        refuse("positions in the flattened array do not follow the axis that would be cut into blocks");
      }
      if (product(x, op.numbers.size() > 1 ? 0 : axis, op.numbers.size() > 1 ? x.rank() : axis + 1) > 0x7fffffff) {
        refuse("positions past 2147483647 do not fit int32");
      }
    }
    combine(p);
  }

  static void combine(OpCut& p) {
    p.combined = true;
    ++p.after;
  }

  void matmul(const Operation& op, OpCut& p) {
    const Shape shapes[] = {graph_.shape(op.operands[0]), graph_.shape(op.operands[1])};
    const std::size_t ranks[] = {shapes[0].rank(), shapes[1].rank()};
    // Where the summed axis of each is, its other axis if it has one, and how many axes of matrices stand in front.
    const std::size_t summed[] = {ranks[0] - 1, ranks[1] == 1 ? 0 : ranks[1] - 2};
    const Axis other[] = {ranks[0] > 1 ? Axis(ranks[0] - 2) : std::nullopt,
                          ranks[1] > 1 ? Axis(ranks[1] - 1) : std::nullopt};
    const std::size_t batch[] = {ranks[0] > 2 ? ranks[0] - 2 : 0, ranks[1] > 2 ? ranks[1] - 2 : 0};
    const std::size_t batches = std::max(batch[0], batch[1]);
    const std::size_t a = cut_of(op, 0) ? 0 : 1;
    const std::size_t b = 1 - a;
    const std::size_t axis = cut_of(op, a).value();
    p.operands[a] = axis;
    if (axis == summed[a]) {
      p.operands[b] = summed[b];
    } else if (other[a] == axis) {
      p.axis = a == 0 ? batches : op.shape.rank() - 1;
    } else {
      p.axis = batches - batch[a] + axis;
      const std::size_t missing = batches - batch[b];
      if (*p.axis >= missing && shapes[b][*p.axis - missing] == shapes[a][axis]) p.operands[b] = *p.axis - missing;
    }
    if (cut_of(op, b) && cut_of(op, b) != p.operands[b]) {
      refuse("both matrices would be cut into blocks, and each block of one needs all of the other");
    }
    if (axis == summed[a]) combine(p);
  }

  void library(const Operation& op, OpCut& p, std::size_t first, std::size_t axis) {
    if (op.joining) return reduce(op, p, axis);
    const bool free = axis < 32 && (op.slices.axes >> axis & 1) != 0 && (op.slices.operands >> first & 1) != 0;
    if (!free) refuse("it works across the axis that would be cut into blocks");
    together(op, p, axis, op.slices.operands);
    if (op.slices.inserted >= 0 && axis >= static_cast<std::size_t>(op.slices.inserted)) p.axis = axis + 1;
  }

  const Graph& graph_;
  const OpId result_;
  const std::map<OpId, std::size_t>& inputs_;
  const std::int64_t rows_;
  std::vector<OpCut> cuts_;
  std::vector<bool> live_;
};

/// Distributes the plan's steps over the passes.
void fill_passes(Blocks& blocks) {
  const Plan& plan = blocks.plan;
  std::size_t passes = blocks.result().axis ? blocks.result().after + 1 : 0;
  for (const Step& step : plan.steps) {
    const OpCut& p = blocks.cuts[step.result];
    if (p.combined) passes = std::max(passes, p.after);
  }
  blocks.passes.resize(passes);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const OpCut& p = blocks.cuts[plan.steps[i].result];
    if (!p.from_blocks()) (p.after < passes ? blocks.passes[p.after].before : blocks.after).push_back(i);
  }
  for (std::size_t pass = 0; pass < passes; ++pass) {
    std::vector<bool> needed(blocks.cuts.size());
    if (pass + 1 == passes && blocks.result().axis) needed[plan.result] = true;
    for (std::size_t i = plan.steps.size(); i-- > 0;) {
      const Step& step = plan.steps[i];
      const OpCut& p = blocks.cuts[step.result];
      const bool joins = p.combined && p.after == pass + 1;
      if (!joins && !(p.axis && needed[step.result])) continue;
      blocks.passes[pass].steps.push_back(i);
      if (blocks.inputs.contains(step.result)) blocks.passes[pass].inputs.push_back(step.result);
      for (OpId operand : step.operands) needed[operand] = true;
    }
    std::reverse(blocks.passes[pass].steps.begin(), blocks.passes[pass].steps.end());
    std::reverse(blocks.passes[pass].inputs.begin(), blocks.passes[pass].inputs.end());
  }
}

/// A whole tensor may be needed in one way by a product and in another by what its kernel adds: these run apart.
bool part_products_that_read_twice(const Graph& graph, const Blocks& blocks, std::vector<OpId>& apart) {
  bool found = false;
  for (const Step& step : blocks.plan.steps) {
    if (step.kind != Step::Kind::matmul || !blocks.cuts[step.result].axis) continue;
    const MatmulFinish finish = finish_of(graph, step);
    for (OpId operand : graph[finish.product].operands) {
      if (operand != finish.bias && operand != finish.residual) continue;
      apart.push_back(finish.product);
      found = true;
    }
  }
  return found;
}

}  // namespace

std::optional<Blocks> cut(const Graph& graph, OpId result, const std::map<OpId, std::size_t>& inputs, std::int64_t rows,
                          Obstacle& obstacle) {
  Analysis analysis(graph, result, inputs, rows);
  if (!analysis.run(obstacle)) return std::nullopt;
  Blocks blocks;
  blocks.rows = rows;
  blocks.inputs = inputs;
  blocks.cuts = std::move(analysis.cuts());
  std::size_t passes = 0;
  std::vector<OpId> combined;
  for (OpId id = 0; id <= result; ++id) {
    passes = std::max(passes, blocks.cuts[id].after + (blocks.cuts[id].axis ? 1 : 0));
    if (blocks.cuts[id].combined) combined.push_back(id);
    if (passes <= kMostPasses) continue;
    obstacle = {id, fmt::format("this would take more than {} passes over the inputs", kMostPasses)};
    return std::nullopt;
  }
  blocks.plan = make_plan(graph, result, combined);
  if (part_products_that_read_twice(graph, blocks, combined)) blocks.plan = make_plan(graph, result, combined);
  fill_passes(blocks);
  return blocks;
}

std::optional<std::size_t> operand_axis(const Graph& graph, const Blocks& blocks, const Step& step, OpId operand) {
  if (const OpCut& p = blocks.cuts[operand]; p.axis) return p.axis;
  const OpCut& made = blocks.cuts[step.result];
  if (!made.from_blocks()) return std::nullopt;
  // A product's operands, and those of a single operation, are the operation's own.
  const OpId first = step.kind == Step::Kind::matmul ? step.members.front() : step.result;
  if (step.kind != Step::Kind::program) {
    const Operation& op = graph[first];
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i] == operand) return blocks.cuts[first].operands[i];
    }
  }
  // All else is elementwise, and broadcasts to the result.
  const Shape& shape = graph.shape(step.result);
  const std::size_t axis = made.axis.value();
  return aligned(graph.shape(operand), shape.rank(), axis, shape[axis]);
}

Shape block_shape(const Graph& graph, const Blocks& blocks, OpId id, std::int64_t n) {
  Shape shape = graph.shape(id);
  if (const OpCut& p = blocks.cuts[id]; p.axis) shape[*p.axis] = shape[*p.axis] / blocks.rows * n;
  return shape;
}

}  // namespace weft::expr
