// The elementwise ops, each a program of one or two nodes.
#include <array>

#include "ops/elementwise.h"
#include "ops/launch.h"
#include "weft/ops.h"

namespace weft {
namespace {

using ops::ElementProgram;

/// Runs `program` in the shape that its inputs broadcast to.
Tensor run(const Device& device, const ElementProgram& program, std::int32_t result) {
  Shape shape;
  for (const Tensor& x : program.inputs()) shape = broadcast_shapes(shape, x.shape());
  return program.run(device, shape, result);
}

std::int32_t scalar_beside(ElementProgram& program, const Scalar& value, DType other) {
  return program.scalar(value, ops::promote(other, value));
}

}  // namespace

Tensor unary(UnaryOp op, const Tensor& x) {
  ElementProgram program;
  return run(x.device(), program, program.unary(op, program.input(x)));
}

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b) {
  const Device& device = ops::common_device(to_string(op), std::array{&a, &b});
  ElementProgram program;
  const std::int32_t left = program.input(a);
  return run(device, program, program.binary(op, left, program.input(b)));
}

Tensor binary(BinaryOp op, const Tensor& a, Scalar b) {
  ElementProgram program;
  const std::int32_t left = program.input(a);
  // The commonest power, which rounds once this way; other exponents are parameters of one kernel.
  const auto is_two = [&] {
    const auto* whole = std::get_if<std::int64_t>(&b.value);
    const auto* real = std::get_if<double>(&b.value);
    return (whole != nullptr && *whole == 2) || (real != nullptr && *real == 2.0);
  };
  if (op == BinaryOp::power && is_float(a.dtype()) && is_two()) {
    return run(a.device(), program, program.unary(UnaryOp::square, left));
  }
  if (ops::is_comparison(op)) {
    const auto fitting = ops::comparison_beside(a.dtype(), op, b);
    const auto [code, number] = fitting.value_or(ops::Comparison{op, b});
    return run(a.device(), program, program.binary(code, left, scalar_beside(program, number, a.dtype())));
  }
  return run(a.device(), program,
             program.binary(op, left, scalar_beside(program, ops::number_for(op, a.dtype(), b), a.dtype())));
}

Tensor binary(BinaryOp op, Scalar a, const Tensor& b) {
  if (ops::is_comparison(op)) return binary(ops::swapped(op), b, a);
  ElementProgram program;
  const std::int32_t right = program.input(b);
  return run(b.device(), program,
             program.binary(op, scalar_beside(program, ops::number_for(op, b.dtype(), a), b.dtype()), right));
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Device& device = ops::common_device("where", std::array{&condition, &a, &b});
  ElementProgram program;
  const std::int32_t c = program.input(condition);
  const std::int32_t yes = program.input(a);
  return run(device, program, program.where(c, yes, program.input(b)));
}

Tensor clamp(const Tensor& x, Scalar low, Scalar high) {
  const DType meets = ops::promote(ops::promote(x.dtype(), low), high);
  ElementProgram program;
  const std::int32_t value = program.cast(program.input(x), meets);
  const std::int32_t raised = program.binary(BinaryOp::maximum, value, program.scalar(low, meets));
  return run(x.device(), program, program.binary(BinaryOp::minimum, raised, program.scalar(high, meets)));
}

Tensor cast(const Tensor& x, DType dtype) {
  ElementProgram program;
  return run(x.device(), program, program.cast(program.input(x), dtype));
}

Tensor contiguous(const Tensor& x) {
  const Device& device = x.device();
  if (x.is_contiguous()) return x;
  ElementProgram program;
  Tensor out = run(device, program, program.input(x));
  ops::state_of(device).counters.materialized.fetch_add(1, std::memory_order_relaxed);
  return out;
}

}  // namespace weft
