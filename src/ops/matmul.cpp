#include "ops/matmul.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "ops/infer.h"
#include "ops/infer_matmul.h"
#include "ops/launch.h"
#include "ops/matmul_run.h"
#include "ops/result.h"

namespace weft::ops {
namespace {

constexpr std::string_view kOp = "matmul";

/// `x` with an axis of length 1 put where a 1-D operand of the product has none.
Tensor with_matrix_axes(const Tensor& x, bool no_row, bool no_column) {
  Tensor out = x;
  if (no_column) out = with_axis(out, out.rank(), 1, 0);
  if (no_row) out = with_axis(out, out.rank() - 1, 1, 0);
  return out;
}

std::optional<DType> dtype_of_any(const Tensor& x) {
  return x ? std::optional(x.dtype()) : std::nullopt;
}

UnaryOp unary_of(Activation activation) {
  switch (activation) {
    case Activation::relu: return UnaryOp::relu;
    case Activation::gelu: return UnaryOp::gelu;
    case Activation::gelu_tanh: return UnaryOp::gelu_tanh;
    case Activation::silu: return UnaryOp::silu;
    default: return UnaryOp::positive;
  }
}

/// What no product's kernel does, by ops of their own.
Tensor finish_apart(const Tensor& product, const MatmulOptions& options, DType result) {
  Tensor x = options.bias ? binary(BinaryOp::add, product, options.bias) : product;
  if (options.activation != Activation::none) x = unary(unary_of(options.activation), x);
  if (options.residual) x = binary(BinaryOp::add, x, options.residual);
  return as_dtype(x, result);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options, const MatmulTuning& tuning) {
  std::array<const Tensor*, 4> operands{&a, &b};
  std::size_t count = 2;
  for (const Tensor* x : {&options.bias, &options.residual}) {
    if (*x) operands[count++] = x;
  }
  const Device& device = common_device(kOp, std::span(operands).first(count));
  const Shape shape = matmul_shape(a.shape(), b.shape());
  const MatmulTypes types = matmul_types(a.dtype(), b.dtype(), dtype_of_any(options.bias), options.activation,
                                         dtype_of_any(options.residual), options.dtype);
  if (options.bias) check_addend(kOp, "bias", options.bias.shape(), shape);
  if (options.residual) check_addend(kOp, "residual", options.residual.shape(), shape);
  if (types.product == DType::bool_) {
    const Tensor counts = matmul(cast(a, DType::i32), cast(b, DType::i32), {}, tuning);
    return finish_apart(cast(counts, DType::bool_), options, types.result);
  }
  if (!types.one_kernel) return finish_apart(matmul(a, b, {}, tuning), options, types.result);

  const Tensor result = new_result(device, shape, types.result);
  if (result.size() == 0) return result;
  const bool no_row = a.rank() == 1;
  const bool no_column = b.rank() == 1;
  const Shape all = with_matrix_axes(result, no_row, no_column).shape();
  const Shape batch(std::span<const std::int64_t>(all.begin(), all.rank() - 2));
  // Wrapping sums and products of u32 are those of i32.
  const auto signless = [](const Tensor& x) { return x.dtype() == DType::u32 ? reinterpret(x, DType::i32) : x; };
  const auto matrix = [&](const Tensor& x) { return stretch(readable(signless(as_dtype(x, types.product))), batch); };
  const auto addend = [&](const Tensor& x) {
    return x ? with_matrix_axes(broadcast_to(signless(as_dtype(x, types.result)), shape), no_row, no_column) : x;
  };
  Product p;
  p.a = matrix(no_row ? with_axis(a, 0, 1, 0) : a);
  p.b = matrix(no_column ? with_axis(b, 1, 1, 0) : b);
  p.c = with_matrix_axes(signless(result), no_row, no_column);
  p.bias = addend(options.bias);
  p.residual = addend(options.residual);
  p.activation = types.result == DType::u32 ? Activation::none : options.activation;
  run_product(device, p, kOp, tuning);
  const int fused = (p.bias ? 1 : 0) + (p.residual ? 1 : 0) + (options.activation != Activation::none ? 1 : 0);
  state_of(device).counters.fused_ops.fetch_add(static_cast<std::uint64_t>(fused), std::memory_order_relaxed);
  return result;
}

}  // namespace weft::ops

namespace weft {

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  return ops::matmul(a, b, options, {});
}

}  // namespace weft
