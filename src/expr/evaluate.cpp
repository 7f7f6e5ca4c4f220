#include "expr/evaluate.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/elementwise.h"
#include "ops/scalar.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft::expr {
namespace {

class StepRun {
 public:
  StepRun(const Device& device, const Graph& graph, const StepSources& sources)
      : device_(device), graph_(graph), sources_(sources) {}

  Tensor run(const Step& step) {
    switch (step.kind) {
      case Step::Kind::single: return single(step.result);
      case Step::Kind::program: return program(step);
      case Step::Kind::matmul: break;
    }
    return matmul(step);
  }

 private:
  Tensor operand(const Operation& op, std::size_t i) const { return sources_.tensor(op.operands[i]); }

  Tensor single(OpId id) {
    const Operation& op = graph_[id];
    switch (op.kind) {
      case OpKind::input: return sources_.input(op.name);
      case OpKind::constant: return Device(device_).upload_array(op.bytes, op.shape, op.dtype);
      case OpKind::scalar:
      case OpKind::full: return element_count(op.shape) == 1 ? number(op) : full(device_, op.shape, op.value, op.dtype);
      case OpKind::arange: return arange(device_, op.value, op.stop, op.step, op.dtype);
      case OpKind::transpose: return transpose(operand(op, 0), op.numbers);
      case OpKind::reshape: return reshape(operand(op, 0), sources_.shape(id));
      case OpKind::broadcast: return broadcast_to(operand(op, 0), sources_.shape(id));
      case OpKind::slice: return slice(operand(op, 0), axis(op), op.from, op.to, op.numbers[0]);
      case OpKind::select: return select(operand(op, 0), axis(op), op.numbers[0]);
      case OpKind::take: return weft::take(operand(op, 0), operand(op, 1), axis(op));
      case OpKind::concat: return concat(op);
      case OpKind::reduce: return reduce(op);
      case OpKind::softmax: return softmax(operand(op, 0), {axis(op)});
      case OpKind::log_softmax: return log_softmax(operand(op, 0), {axis(op)});
      case OpKind::layer_norm: return layer_norm(op);
      case OpKind::library: return library(op);
      case OpKind::matmul: return weft::matmul(operand(op, 0), operand(op, 1));
      case OpKind::unary:
      case OpKind::binary:
      case OpKind::where:
      case OpKind::cast: break;  // planned as programs
    }
    throw Error(ErrorCode::internal, "an elementwise operation outside a program", "report this, with the expression");
  }

  /// One element goes to the device as bytes: a kernel that writes it would be compiled first, which takes longer than
  /// all else that `weft eval 1+1` does.
  Tensor number(const Operation& op) const {
    const std::uint32_t bits = ops::param_bits(ops::stored_scalar("full", op.value, op.dtype), op.dtype);
    std::array<std::byte, 4> bytes{};
    if (op.dtype == DType::f16) {
      const float16 half(std::bit_cast<float>(bits));
      std::memcpy(bytes.data(), &half, sizeof half);
    } else if (op.dtype == DType::bool_) {
      bytes[0] = std::byte{bits != 0};
    } else {
      std::memcpy(bytes.data(), &bits, sizeof bits);
    }
    return Device(device_).upload_array(std::span(bytes).first(size_of(op.dtype)), op.shape, op.dtype);
  }

  static std::int64_t axis(const Operation& op) { return static_cast<std::int64_t>(op.axis); }

  Tensor concat(const Operation& op) const {
    std::vector<Tensor> parts;
    parts.reserve(op.operands.size());
    for (std::size_t i = 0; i < op.operands.size(); ++i) parts.push_back(operand(op, i));
    return weft::concat(parts, axis(op));
  }

  Tensor library(const Operation& op) const {
    std::vector<Tensor> operands;
    operands.reserve(op.operands.size());
    for (std::size_t i = 0; i < op.operands.size(); ++i) operands.push_back(operand(op, i));
    return (*op.run)(device_, operands);
  }

  Tensor reduce(const Operation& op) const {
    ReduceOptions options;
    options.keepdims = op.keepdims;
    const bool gives_index = op.reduce == ReduceOp::argmax || op.reduce == ReduceOp::argmin;
    // An index over several axes is one into the flattened array, which only «all axes» means.
    if (!gives_index || op.numbers.size() == 1) options.axes = op.numbers;
    return weft::reduce(op.reduce, operand(op, 0), options);
  }

  Tensor layer_norm(const Operation& op) const {
    LayerNormOptions options;
    options.axis = axis(op);
    options.eps = std::get<double>(op.value.value);
    if (op.has_weight) options.weight = operand(op, 1);
    if (op.has_bias) options.bias = operand(op, op.has_weight ? 2 : 1);
    return weft::layer_norm(operand(op, 0), options);
  }

  Tensor matmul(const Step& step) const {
    const MatmulFinish finish = finish_of(graph_, step);
    const Operation& product = graph_[finish.product];
    MatmulOptions options;
    if (finish.bias) options.bias = sources_.tensor(*finish.bias);
    options.activation = finish.activation;
    if (finish.residual) options.residual = sources_.tensor(*finish.residual);
    return weft::matmul(operand(product, 0), operand(product, 1), options);
  }

  Tensor program(const Step& step) const {
    ops::ElementProgram program;
    std::unordered_map<OpId, std::int32_t> nodes;
    for (OpId id : step.operands) nodes[id] = program.input(sources_.tensor(id));
    const auto node = [&](OpId id) {
      const auto it = nodes.find(id);
      if (it != nodes.end()) return it->second;
      return nodes[id] = program.scalar(graph_[id].value, graph_[id].dtype);
    };
    for (OpId id : step.members) {
      const Operation& op = graph_[id];
      std::int32_t made = -1;
      switch (op.kind) {
        case OpKind::unary: made = program.unary(op.unary, node(op.operands[0])); break;
        case OpKind::binary: made = program.binary(op.binary, node(op.operands[0]), node(op.operands[1])); break;
        case OpKind::where:
          made = program.where(node(op.operands[0]), node(op.operands[1]), node(op.operands[2]));
          break;
        default: made = program.cast(node(op.operands[0]), op.dtype); break;
      }
      nodes[id] = made;
    }
    return program.run(device_, sources_.shape(step.result), nodes.at(step.result));
  }

  const Device& device_;
  const Graph& graph_;
  const StepSources& sources_;
};

/// What is about the data or the expression, and so has a place in it.
bool is_about_data(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::out_of_range || code == ErrorCode::unsupported;
}

}  // namespace

Tensor run_step(const Device& device, const Graph& graph, const Step& step, const StepSources& sources) {
  Tensor made = StepRun(device, graph, sources).run(step);
  const Shape shape = sources.shape(step.result);
  const DType dtype = graph.dtype(step.result);
  if (made.shape() != shape || made.dtype() != dtype) {
    throw Error(ErrorCode::internal,
                fmt::format("an operation gave {} {}, and {} {} was foreseen", to_string(made.dtype()),
                            to_string(made.shape()), to_string(dtype), to_string(shape)),
                "report this, with the expression");
  }
  return made;
}

Tensor explained(const Graph& graph, const Step& step, const Explain& explain, const std::function<Tensor()>& run) {
  try {
    return run();
  } catch (const Error& error) {
    if (!is_about_data(error.code())) throw;
    explain(error, graph[step.result].span);
    throw;
  }
}

Tensor evaluate(const Device& device, const Graph& graph, const Plan& plan,
                const std::function<Tensor(const std::string&)>& input, const Explain& explain) {
  std::unordered_map<OpId, Tensor> tensors;
  const StepSources sources{[&](OpId id) { return tensors.at(id); }, input, [&](OpId id) { return graph.shape(id); }};
  for (const Step& step : plan.steps) {
    Tensor made = explained(graph, step, explain, [&] { return run_step(device, graph, step, sources); });
    tensors.insert_or_assign(step.result, std::move(made));
    for (OpId id : step.release) tensors.erase(id);
  }
  return std::move(tensors.at(plan.result));
}

}  // namespace weft::expr
