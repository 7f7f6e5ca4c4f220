// How a product is run: in which dispatches, of which kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/matmul.h"
#include "ops/matmul_codegen.h"
#include "weft/kernel.h"

namespace weft::ops {

/// c = activation(alpha a @ b + beta c + bias) + residual, all with the same batch axes in front of their last two. a,
/// b, bias and residual may repeat elements (stride 0); c shows none twice, at any strides. bias and residual have c's
/// shape and dtype, or are empty. dtypes: f32, f16, i32 (c also f32 for f16 operands); with `int8`, u32 and i32.
struct Product {
  Tensor a, b, c, bias{}, residual{};
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;
  Int8 int8 = Int8::none;  ///< then a's inner axis and b's lie side by side
  bool a_signed = true, b_signed = true;

  std::size_t batch_rank() const { return c.rank() - 2; }
  std::int64_t m() const { return c.shape()[c.rank() - 2]; }
  std::int64_t n() const { return c.shape().back(); }
  std::int64_t k() const { return a.shape().back(); }
  std::int64_t batch() const;
};

/// Records it. `a` and `b` went through `readable`. c is not empty; an inner length of 0 is none of a and b.
void run_product(const Device& device, const Product& product, std::string_view op, const MatmulTuning& tuning);

/// The operand itself when kernels can take it as it lies, else a dense copy.
Tensor readable(const Tensor& x);

/// The same memory under other shapes.
Tensor swap_last_two(const Tensor& x);
Tensor with_axis(const Tensor& x, std::size_t at, std::int64_t length, std::int64_t stride);
/// x[start : start + count] on one axis counted from the end (0 is the last).
Tensor narrow(const Tensor& x, std::size_t from_end, std::int64_t start, std::int64_t count);
/// The matrices' batch axes stretched to `batch`.
Tensor stretch(const Tensor& x, const Shape& batch);
Tensor as_dtype(const Tensor& x, DType dtype);
/// The same bits under another dtype of the same size.
Tensor reinterpret(const Tensor& x, DType dtype);

KernelOptions matmul_options(const MatmulSpec& spec);
std::string matmul_pack_key(DType in);
KernelOptions matmul_pack_options(DType in);

}  // namespace weft::ops
