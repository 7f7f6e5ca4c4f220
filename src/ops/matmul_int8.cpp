#include <fmt/format.h>

#include <array>
#include <string_view>

#include "ops/infer_matmul.h"
#include "ops/launch.h"
#include "ops/matmul.h"
#include "ops/matmul_run.h"
#include "ops/result.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

constexpr std::string_view kOp = "matmul_int8";

/// The words of a row lie side by side.
Tensor in_rows(const Tensor& x) {
  bool fits = x.shape().back() == 1 || x.strides().back() == 1;
  for (std::size_t i = 0; i + 1 < x.rank(); ++i) fits = fits && x.strides()[i] >= 0;
  return fits ? x : contiguous(x);
}

}  // namespace

Tensor matmul_int8(const Tensor& a, const Tensor& b, const Int8MatmulOptions& options, const MatmulTuning& tuning) {
  const Device& device = common_device(kOp, std::array{&a, &b});
  for (const auto& [name, x] : {std::pair{"a", &a}, {"b", &b}}) {
    if (x->dtype() == DType::u32) continue;
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} is {}", kOp, name, to_string(x->dtype())),
                "give uint32 words of four packed values each");
  }
  const Shape shape = int8_matmul_shape(a.shape(), b.shape());
  if (a.shape().back() == 0) return Device(device).zeros(shape, DType::i32);
  const Tensor result = new_result(device, shape, DType::i32);
  if (result.size() == 0) return result;
  const Shape batch(std::span<const std::int64_t>(shape.begin(), shape.rank() - 2));
  Product p;
  p.a = stretch(in_rows(a), batch);
  p.b = swap_last_two(stretch(in_rows(b), batch));
  p.c = result;
  p.int8 = tuning.int8_dot.value_or(has_packed_dot(device)) ? Int8::dot : Int8::unpacked;
  p.a_signed = options.a_signed;
  p.b_signed = options.b_signed;
  run_product(device, p, kOp, tuning);
  return result;
}

}  // namespace weft::ops

namespace weft {

Tensor matmul_int8(const Tensor& a, const Tensor& b, const Int8MatmulOptions& options) {
  return ops::matmul_int8(a, b, options, {});
}

}  // namespace weft
