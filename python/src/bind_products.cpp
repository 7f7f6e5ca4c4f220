// Products of matrices.
#include <fmt/format.h>

#include <cmath>

#include "ops/infer.h"
#include "weft_python.h"

namespace weft::python {

Activation to_activation(nb::handle name) {
  if (name.is_none()) return Activation::none;
  const auto text = nb::cast<std::string>(nb::str(name));
  if (text == "relu") return Activation::relu;
  if (text == "gelu") return Activation::gelu;
  if (text == "gelu_tanh") return Activation::gelu_tanh;
  if (text == "silu") return Activation::silu;
  throw Error(ErrorCode::invalid_argument, fmt::format("activation is '{}'", text),
              "use 'relu', 'gelu', 'gelu_tanh', 'silu' or None");
}

void bind_products(nb::module_& m) {
  m.def(
      "matmul",
      [](ArrayLike x1, ArrayLike x2, OptionalArray bias, nb::handle activation, OptionalArray residual,
         DTypeLike dtype) {
        const auto beside = device_beside({x1.given, x2.given, bias.given, residual.given});
        const Tensor a = to_tensor(x1, beside);
        const Tensor b = to_tensor(x2, beside);
        const MatmulOptions options{.bias = to_tensor(bias, beside),
                                    .activation = to_activation(activation),
                                    .residual = to_tensor(residual, beside),
                                    .dtype = to_optional_dtype(dtype)};
        return record([&] { return matmul(a, b, options); });
      },
      nb::arg("x1"), nb::arg("x2"), nb::kw_only(), nb::arg("bias") = nb::none(), nb::arg("activation") = nb::none(),
      nb::arg("residual") = nb::none(), nb::arg("dtype") = nb::none(),
      "activation(x1 @ x2 + bias) + residual, in one kernel; numpy.matmul with none of them.\n\n"
      "activation: None, 'relu', 'gelu', 'gelu_tanh' or 'silu'. dtype: float32 keeps the sums of float16 operands.");
  m.def(
      "gemm",
      [](ArrayLike x1, ArrayLike x2, OptionalArray x3, double alpha, double beta, bool transpose_a, bool transpose_b) {
        const auto beside = device_beside({x1.given, x2.given, x3.given});
        Tensor a = to_tensor(x1, beside);
        Tensor b = to_tensor(x2, beside);
        const Tensor c = to_tensor(x3, beside);
        if (a.rank() < 2 || b.rank() < 2) {
          throw Error(ErrorCode::invalid_argument,
                      fmt::format("gemm: arrays of shapes {} and {}", to_string(a.shape()), to_string(b.shape())),
                      "give at least 2 axes each");
        }
        return record([&] {
          const auto batch = [](const Tensor& t) { return Shape(std::span(t.shape().begin(), t.rank() - 2)); };
          Shape shape = broadcast_shapes(batch(a), batch(b));
          shape.push_back(a.shape()[a.rank() - (transpose_a ? 1 : 2)]);
          shape.push_back(b.shape()[b.rank() - (transpose_b ? 2 : 1)]);
          Device device = a.device();
          // Arrays of several dtypes meet in one, as beside an operator; products of float16 go into float32 as they
          // are.
          const DType operands = ops::promote(a.dtype(), b.dtype());
          const DType dtype = c && beta != 0 ? ops::promote(operands, c.dtype()) : operands;
          if (!(dtype == DType::f32 && a.dtype() == DType::f16 && b.dtype() == DType::f16)) {
            if (a.dtype() != dtype) a = cast(a, dtype);
            if (b.dtype() != dtype) b = cast(b, dtype);
          }
          Tensor out = device.empty(shape, dtype);
          GemmOptions options{.alpha = alpha, .beta = 0, .transpose_a = transpose_a, .transpose_b = transpose_b};
          if (c && beta != 0) {
            // A whole number leaves integers integers.
            const bool whole = beta == std::trunc(beta) && std::abs(beta) < 0x1p31;
            const Scalar factor = whole ? Scalar(static_cast<std::int64_t>(beta)) : Scalar(beta);
            options.residual = beta == 1 ? c : binary(BinaryOp::multiply, c, factor);
          }
          gemm_into(out, a, b, options);
          return out;
        });
      },
      nb::arg("a"), nb::arg("b"), nb::arg("c") = nb::none(), nb::kw_only(), nb::arg("alpha") = 1.0,
      nb::arg("beta") = 1.0, nb::arg("transpose_a") = false, nb::arg("transpose_b") = false,
      "alpha op(a) @ op(b) + beta c, over the last two axes; c broadcasts.");
  m.def(
      "matmul_int8",
      [](ArrayLike x1, ArrayLike x2, bool a_signed, bool b_signed) {
        const auto beside = device_beside({x1.given, x2.given});
        const Tensor a = to_tensor(x1, beside);
        const Tensor b = to_tensor(x2, beside);
        return record([&] { return matmul_int8(a, b, {.a_signed = a_signed, .b_signed = b_signed}); });
      },
      nb::arg("a"), nb::arg("b"), nb::kw_only(), nb::arg("a_signed") = true, nb::arg("b_signed") = true,
      "a @ b^T of 8-bit integers, four to a uint32 word along the last axis, with exact int32 sums.");
}

}  // namespace weft::python
