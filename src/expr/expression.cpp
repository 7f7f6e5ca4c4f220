#include "weft/expr.h"

#include <fmt/format.h>

#include <utility>

#include "expr/diagnostic.h"
#include "expr/evaluate.h"
#include "expr/functions.h"
#include "expr/fuse.h"
#include "expr/names.h"
#include "expr/parse.h"
#include "expr/translate.h"
#include "weft/error.h"

namespace weft {

struct Expression::State {
  expr::Program program;
  std::vector<std::string> inputs;
};

namespace {

/// Operations ready to run.
struct Checked {
  expr::Graph graph;
  expr::Plan plan;
};

Checked check_program(const expr::Program& program, const Expression::Types& inputs, const Device* device) {
  Checked out;
  const expr::OpId result = expr::Translator(program, inputs, out.graph).run();
  out.plan = make_plan(out.graph, result);
  if (device == nullptr || device->features().f16) return out;
  for (const expr::Step& step : out.plan.steps) {
    for (expr::OpId id : step.members) {
      if (out.graph.dtype(id) != DType::f16) continue;
      throw make_error(ErrorCode::unsupported, program.source, out.graph[id].span, "the device lacks float16",
                       fmt::format("this is float16, and the device is '{}'", device->adapter().name),
                       "cast the arrays to float32 in their files, or open another device");
    }
  }
  return out;
}

}  // namespace

Expression Expression::parse(std::string text, std::string name) {
  auto state = std::make_shared<State>(State{expr::parse(expr::Source(std::move(text), std::move(name))), {}});
  for (const expr::FreeName& f : free_names(state->program)) {
    const bool of_language = f.only_called || expr::find_function(f.name) != nullptr ||
                             (expr::is_module(f.name) && f.is_prefix) || expr::is_constant(f.name);
    if (!of_language) state->inputs.push_back(f.name);
  }
  return Expression(std::move(state));
}

const std::string& Expression::text() const noexcept {
  return state_->program.source.text();
}

const std::vector<std::string>& Expression::inputs() const noexcept {
  return state_->inputs;
}

TensorType Expression::check(const Types& inputs, const Device* device) const {
  const Checked checked = check_program(state_->program, inputs, device);
  return {checked.graph.shape(checked.plan.result), checked.graph.dtype(checked.plan.result), {}};
}

Tensor Expression::evaluate(const Device& device, const Values& inputs, EvalStats* stats) const {
  Types types;
  for (const auto& [name, value] : inputs) {
    if (const Scalar* number = std::get_if<Scalar>(&value)) {
      types.emplace(name, *number);
      continue;
    }
    const Tensor& tensor = std::get<Tensor>(value);
    if (tensor.device().id() != device.id()) {
      throw Error(ErrorCode::foreign_buffer,
                  fmt::format("{}: '{}' is owned by device {}, and the expression runs on device {}",
                              state_->program.source.name(), name, tensor.device().id(), device.id()),
                  "upload it to the device that evaluates");
    }
    types.emplace(name, TensorType{tensor.shape(), tensor.dtype(), {}});
  }
  const Checked checked = check_program(state_->program, types, &device);
  const expr::Plan& plan = checked.plan;
  if (stats != nullptr) {
    *stats = {};
    stats->operations = plan.operations;
    for (const expr::Step& step : plan.steps) {
      if (checked.graph[step.result].kind != expr::OpKind::input) ++stats->steps;
    }
    stats->fused = stats->operations - stats->steps;
  }
  const auto input = [&](const std::string& name) { return std::get<Tensor>(inputs.at(name)); };
  const auto explain = [&](const Error& error, expr::Span span) {
    throw make_error(error.code(), state_->program.source, span, "can't run this", error.message(), error.fix());
  };
  return expr::evaluate(device, checked.graph, plan, input, explain);
}

}  // namespace weft
