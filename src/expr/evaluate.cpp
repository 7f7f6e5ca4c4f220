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

class Evaluation {
 public:
  Evaluation(const Device& device, const Graph& graph, const std::function<Tensor(const std::string&)>& input)
      : device_(device), graph_(graph), input_(input) {}

  void run(const Step& step) {
    Tensor made;
    switch (step.kind) {
      case Step::Kind::single: made = single(graph_[step.result]); break;
      case Step::Kind::program: made = program(step); break;
      case Step::Kind::matmul: made = matmul(step); break;
    }
    const Operation& op = graph_[step.result];
    if (made.shape() != op.shape || made.dtype() != op.dtype) {
      throw Error(ErrorCode::internal,
                  fmt::format("an operation gave {} {}, and {} {} was foreseen", to_string(made.dtype()),
                              to_string(made.shape()), to_string(op.dtype), to_string(op.shape)),
                  "report this, with the expression");
    }
    tensors_.insert_or_assign(step.result, std::move(made));
    for (OpId id : step.release) tensors_.erase(id);
  }

  Tensor take(OpId id) { return std::move(tensors_.at(id)); }

 private:
  const Tensor& operand(const Operation& op, std::size_t i) const { return tensors_.at(op.operands[i]); }

  Tensor single(const Operation& op) {
    switch (op.kind) {
      case OpKind::input: return input_(op.name);
      case OpKind::constant: return Device(device_).upload_array(op.bytes, op.shape, op.dtype);
      case OpKind::scalar:
      case OpKind::full: return element_count(op.shape) == 1 ? number(op) : full(device_, op.shape, op.value, op.dtype);
      case OpKind::arange: return arange(device_, op.value, op.stop, op.step, op.dtype);
      case OpKind::transpose: return transpose(operand(op, 0), op.numbers);
      case OpKind::reshape: return reshape(operand(op, 0), op.shape);
      case OpKind::broadcast: return broadcast_to(operand(op, 0), op.shape);
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
    for (std::size_t i = 0; i < op.operands.size(); ++i) parts.push_back(operand(op, i));
    return weft::concat(parts, axis(op));
  }

  Tensor library(const Operation& op) const {
    std::vector<Tensor> operands;
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
    if (finish.bias) options.bias = tensors_.at(*finish.bias);
    options.activation = finish.activation;
    if (finish.residual) options.residual = tensors_.at(*finish.residual);
    return weft::matmul(operand(product, 0), operand(product, 1), options);
  }

  Tensor program(const Step& step) const {
    ops::ElementProgram program;
    std::unordered_map<OpId, std::int32_t> nodes;
    for (OpId id : step.operands) nodes[id] = program.input(tensors_.at(id));
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
    return program.run(device_, graph_.shape(step.result), nodes.at(step.result));
  }

  const Device& device_;
  const Graph& graph_;
  const std::function<Tensor(const std::string&)>& input_;
  std::unordered_map<OpId, Tensor> tensors_;
};

/// What is about the data or the expression, and so has a place in it.
bool is_about_data(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::out_of_range || code == ErrorCode::unsupported;
}

}  // namespace

Tensor evaluate(const Device& device, const Graph& graph, const Plan& plan,
                const std::function<Tensor(const std::string&)>& input,
                const std::function<void(const Error&, Span)>& explain) {
  Evaluation evaluation(device, graph, input);
  for (const Step& step : plan.steps) {
    try {
      evaluation.run(step);
    } catch (const Error& error) {
      if (!is_about_data(error.code())) throw;
      explain(error, graph[step.result].span);
      throw;
    }
  }
  return evaluation.take(plan.result);
}

}  // namespace weft::expr
