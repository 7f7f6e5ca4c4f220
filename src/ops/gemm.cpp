// BLAS's gemm: into a tensor that is there.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

#include "ops/infer.h"
#include "ops/infer_matmul.h"
#include "ops/launch.h"
#include "ops/matmul.h"
#include "ops/matmul_run.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

constexpr std::string_view kOp = "gemm_into";

void check_factor(std::string_view name, double factor, DType dtype) {
  if (is_float(dtype) || (factor == std::trunc(factor) && std::abs(factor) < 2147483648.0)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} is {}, and the operands are {}", kOp, name, factor, to_string(dtype)),
              "use a whole number below 2^31, or cast the operands to float32");
}

void check_activation(Activation activation, DType dtype) {
  if (is_float(dtype) || activation == Activation::none || activation == Activation::relu) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: gelu and silu of {} are no integers", kOp, to_string(dtype)),
              "cast the operands to float32, or use matmul");
}

void check_aliases(const Tensor& c, std::string_view name, const Tensor& x) {
  if (!x || !(x.buffer() == c.buffer())) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: c and {} are of one buffer, {}", kOp, name, c.buffer().debug_string()),
              fmt::format("let c be of a buffer of its own, or give a copy as {}", name));
}

void check_addend_type(std::string_view name, const Tensor& x, DType c) {
  if (!x || promote(x.dtype(), c) == c) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: a {} of {} does not become c's {}", kOp, name, to_string(x.dtype()), to_string(c)),
              fmt::format("cast it to {}", to_string(c)));
}

}  // namespace

void gemm_into(const Tensor& c, const Tensor& a, const Tensor& b, const GemmOptions& options,
               const MatmulTuning& tuning) {
  std::array<const Tensor*, 5> operands{&c, &a, &b};
  std::size_t count = 3;
  for (const Tensor* x : {&options.bias, &options.residual}) {
    if (*x) operands[count++] = x;
  }
  const Device& device = common_device(kOp, std::span(operands).first(count));
  const DType product = gemm_type(a.dtype(), b.dtype(), c.dtype());
  check_factor("alpha", options.alpha, product);
  check_factor("beta", options.beta, product);
  check_activation(options.activation, product);
  const bool matrices = a.rank() >= 2 && b.rank() >= 2;  // else the check of shapes throws
  const Tensor op_a = matrices && options.transpose_a ? swap_last_two(a) : a;
  const Tensor op_b = matrices && options.transpose_b ? swap_last_two(b) : b;
  check_gemm_shapes(op_a.shape(), op_b.shape(), c.shape());
  for (const auto& [name, x] : {std::pair{"bias", &options.bias}, {"residual", &options.residual}}) {
    if (*x) check_addend(kOp, name, x->shape(), c.shape());
    check_addend_type(name, *x, c.dtype());
    check_aliases(c, name, *x);
  }
  check_aliases(c, "a", a);
  check_aliases(c, "b", b);
  if (!shows_each_once(c.shape(), c.strides())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: c of shape {} with strides {} may show an element twice", kOp, to_string(c.shape()),
                            to_string(c.strides())),
                "write into a view that is not broadcast, or into a new tensor");
  }
  if (c.size() == 0) return;

  const Shape batch(std::span<const std::int64_t>(c.shape().begin(), c.rank() - 2));
  // Wrapping sums and products of u32 are those of i32.
  const auto signless = [](const Tensor& x) { return x.dtype() == DType::u32 ? reinterpret(x, DType::i32) : x; };
  const auto matrix = [&](const Tensor& x) { return stretch(readable(signless(as_dtype(x, product))), batch); };
  const auto addend = [&](const Tensor& x) {
    return x ? broadcast_to(signless(as_dtype(x, c.dtype())), c.shape()) : x;
  };
  Product p;
  if (options.alpha == 0) {  // as in BLAS, a and b are not read
    p.a = stretch(narrow(op_a, 0, 0, 0), batch);
    p.b = stretch(narrow(op_b, 1, 0, 0), batch);
  } else {
    p.a = matrix(op_a);
    p.b = matrix(op_b);
  }
  p.c = signless(c);
  p.bias = addend(options.bias);
  p.residual = addend(options.residual);
  p.alpha = options.alpha;
  p.beta = options.beta;
  p.activation = c.dtype() == DType::u32 ? Activation::none : options.activation;  // relu of no sign
  run_product(device, p, kOp, tuning);
}

}  // namespace weft::ops

namespace weft {

void gemm_into(const Tensor& c, const Tensor& a, const Tensor& b, const GemmOptions& options) {
  ops::gemm_into(c, a, b, options, {});
}

}  // namespace weft
