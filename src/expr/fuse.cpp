#include "expr/fuse.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "ops/elementwise.h"

namespace weft::expr {
namespace {

constexpr std::size_t kMaxMembers = 64;
/// Kernels take their numbers as parameters, of which there is little room beside the inputs' strides.
constexpr std::size_t kMaxNumbers = 8;
/// A dear function that broadcasts to more than this many times its elements is computed first.
constexpr std::int64_t kMaxRepeats = 4;

/// Costs far more than reading its value back from memory.
bool is_dear(const Operation& op) {
  if (op.kind == OpKind::binary) {
    return op.binary == weft::BinaryOp::power || op.binary == weft::BinaryOp::atan2;
  }
  if (op.kind != OpKind::unary) return false;
  switch (op.unary) {
    case weft::UnaryOp::exp:
    case weft::UnaryOp::expm1:
    case weft::UnaryOp::exp2:
    case weft::UnaryOp::log:
    case weft::UnaryOp::log1p:
    case weft::UnaryOp::log2:
    case weft::UnaryOp::sin:
    case weft::UnaryOp::cos:
    case weft::UnaryOp::tan:
    case weft::UnaryOp::tanh:
    case weft::UnaryOp::sigmoid:
    case weft::UnaryOp::gelu:
    case weft::UnaryOp::gelu_tanh:
    case weft::UnaryOp::silu:
    case weft::UnaryOp::erf: return true;
    default: return false;
  }
}

/// The activation that a product's kernel has for an operation.
std::optional<Activation> activation_of(const Operation& op) {
  if (op.kind != OpKind::unary) return std::nullopt;
  switch (op.unary) {
    case weft::UnaryOp::relu: return Activation::relu;
    case weft::UnaryOp::gelu: return Activation::gelu;
    case weft::UnaryOp::gelu_tanh: return Activation::gelu_tanh;
    case weft::UnaryOp::silu: return Activation::silu;
    default: return std::nullopt;
  }
}

class Planner {
 public:
  Planner(const Graph& graph, OpId result, std::span<const OpId> apart)
      : graph_(graph),
        result_(result),
        apart_(apart),
        live_(graph.size()),
        users_(graph.size()),
        group_(graph.size()) {}

  Plan run() {
    mark_live();
    for (OpId id = result_ + 1; id-- > 0;) {
      if (live_[id]) place(id);
    }
    return collect();
  }

 private:
  struct Group {
    Step::Kind kind = Step::Kind::single;
    std::set<OpId> members;
    std::set<OpId> inputs;
    std::set<OpId> numbers;
  };

  void mark_live() {
    live_[result_] = true;
    for (OpId id = result_ + 1; id-- > 0;) {
      if (!live_[id]) continue;
      for (OpId operand : graph_[id].operands) {
        live_[operand] = true;
        users_[operand].push_back(id);
      }
    }
  }

  /// Users come before what they use, so each user's group is known.
  void place(OpId id) {
    const Operation& op = graph_[id];
    if (op.kind == OpKind::scalar) return;
    if (joined_matmul(id)) return;
    if (is_elementwise(op.kind) && join(id)) return;
    if (op.kind == OpKind::full && id != result_ && read_by_programs_only(id)) return;
    groups_.push_back({});
    Group& group = groups_.back();
    group_[id] = groups_.size() - 1;
    group.members.insert(id);
    if (const auto chain = product_chain(id)) {
      group.kind = Step::Kind::matmul;
      for (OpId member : *chain) {
        group.members.insert(member);
        group_[member] = groups_.size() - 1;
      }
      for (OpId member : *chain) {
        for (OpId operand : graph_[member].operands) {
          if (!group.members.contains(operand)) group.inputs.insert(operand);
        }
      }
      return;
    }
    group.kind = is_elementwise(op.kind) ? Step::Kind::program : Step::Kind::single;
    add_operands(group, op);
  }

  static void add(std::set<OpId>& inputs, std::set<OpId>& numbers, const Graph& graph, const Operation& op) {
    for (OpId operand : op.operands) (is_number(graph[operand]) ? numbers : inputs).insert(operand);
  }

  void add_operands(Group& group, const Operation& op) {
    if (group.kind == Step::Kind::program) {
      add(group.inputs, group.numbers, graph_, op);
    } else {
      group.inputs.insert(op.operands.begin(), op.operands.end());
    }
  }

  bool joined_matmul(OpId id) const {
    return group_[id].has_value();  // by product_chain of its user
  }

  bool read_by_programs_only(OpId id) const {
    return std::all_of(users_[id].begin(), users_[id].end(),
                       [&](OpId user) { return group_[user] && groups_[*group_[user]].kind == Step::Kind::program; });
  }

  bool join(OpId id) {
    if (id == result_ || users_[id].empty()) return false;
    const std::optional<std::size_t> at = group_[users_[id].front()];
    if (!at || groups_[*at].kind != Step::Kind::program) return false;
    for (OpId user : users_[id]) {
      if (group_[user] != at) return false;
    }
    Group& group = groups_[*at];
    const Operation& op = graph_[id];
    const std::int64_t whole = element_count(graph_.shape(*group.members.rbegin()));
    const std::int64_t own = element_count(op.shape);
    if (is_dear(op) && whole / kMaxRepeats > own) return false;
    std::set<OpId> inputs = group.inputs;
    std::set<OpId> numbers = group.numbers;
    inputs.erase(id);
    add(inputs, numbers, graph_, op);
    if (inputs.size() > ops::ElementProgram::kMaxInputs || numbers.size() > kMaxNumbers ||
        group.members.size() >= kMaxMembers) {
      return false;
    }
    group.inputs = std::move(inputs);
    group.numbers = std::move(numbers);
    group.members.insert(id);
    group_[id] = at;
    return true;
  }

  /// The operations from a product to `id`, the last one, when its kernel can do them all and nobody else needs the
  /// values between.
  std::optional<std::vector<OpId>> product_chain(OpId id) const { return chain_to(id, Behind::nothing); }

  /// What stands behind a value of such a chain, and so limits what may stand before it.
  enum class Behind : std::uint8_t { nothing, residual, activation, bias };

  std::optional<std::vector<OpId>> chain_to(OpId id, Behind behind) const {
    const Operation& op = graph_[id];
    const auto after = [&](OpId value, Behind what) -> std::optional<std::vector<OpId>> {
      const Operation& before = graph_[value];
      if (users_[value].size() != 1 || before.shape != op.shape || before.dtype != op.dtype) return std::nullopt;
      if (std::find(apart_.begin(), apart_.end(), value) != apart_.end()) return std::nullopt;
      auto chain = before.kind == OpKind::matmul ? std::optional(std::vector{value}) : chain_to(value, what);
      if (chain) chain->push_back(id);
      return chain;
    };
    if (behind < Behind::activation && activation_of(op)) return after(op.operands[0], Behind::activation);
    if (behind == Behind::bias || op.kind != OpKind::binary || op.binary != weft::BinaryOp::add) return std::nullopt;
    for (std::size_t i : {0, 1}) {
      const Operation& addend = graph_[op.operands[1 - i]];
      if (addend.kind == OpKind::scalar || addend.dtype != op.dtype) continue;
      auto chain = after(op.operands[i], behind == Behind::nothing ? Behind::residual : Behind::bias);
      if (chain) return chain;
    }
    return std::nullopt;
  }

  Plan collect() {
    Plan plan;
    plan.result = result_;
    for (Group& group : groups_) {
      Step step;
      step.kind = group.kind;
      step.members.assign(group.members.begin(), group.members.end());
      step.result = step.members.back();
      step.operands.assign(group.inputs.begin(), group.inputs.end());
      const OpKind kind = graph_[step.result].kind;
      if (kind != OpKind::input) plan.operations += step.members.size();
      plan.steps.push_back(std::move(step));
    }
    std::sort(plan.steps.begin(), plan.steps.end(), [](const Step& a, const Step& b) { return a.result < b.result; });
    std::vector<bool> seen(graph_.size());
    seen[result_] = true;
    for (auto step = plan.steps.rbegin(); step != plan.steps.rend(); ++step) {
      for (OpId operand : step->operands) {
        if (!seen[operand]) step->release.push_back(operand);
        seen[operand] = true;
      }
    }
    return plan;
  }

  const Graph& graph_;
  const OpId result_;
  const std::span<const OpId> apart_;
  std::vector<bool> live_;
  std::vector<std::vector<OpId>> users_;
  std::vector<std::optional<std::size_t>> group_;  // by operation
  std::vector<Group> groups_;
};

}  // namespace

Plan make_plan(const Graph& graph, OpId result, std::span<const OpId> apart) {
  return Planner(graph, result, apart).run();
}

MatmulFinish finish_of(const Graph& graph, const Step& step) {
  MatmulFinish finish;
  finish.product = step.members.front();
  OpId value = finish.product;
  for (OpId id : std::span(step.members).subspan(1)) {
    const Operation& op = graph[id];
    if (const auto activation = activation_of(op)) {
      finish.activation = *activation;
    } else {
      const OpId addend = op.operands[0] == value ? op.operands[1] : op.operands[0];
      // The first addition to the bare product is the bias.
      (value == finish.product ? finish.bias : finish.residual) = addend;
    }
    value = id;
  }
  return finish;
}

}  // namespace weft::expr
