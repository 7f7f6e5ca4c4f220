#include "ops/infer_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "ops/infer.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

Shape batch_of(const Shape& s) {
  return Shape(std::span<const std::int64_t>(s.begin(), s.rank() - 2));
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (std::size_t i = 0; fits && i < from.rank(); ++i) {
    const std::int64_t have = from[from.rank() - 1 - i];
    fits = have == 1 || have == to[to.rank() - 1 - i];
  }
  return fits;
}

}  // namespace

MatmulTypes matmul_types(DType a, DType b, std::optional<DType> bias, Activation activation,
                         std::optional<DType> residual, std::optional<DType> wanted) {
  const DType product = promote(a, b);
  DType result = product;
  if (bias) result = promote(result, *bias);
  if (activation != Activation::none && activation != Activation::relu && !is_float(result)) result = DType::f32;
  if (residual) result = promote(result, *residual);
  if (wanted) {
    if (promote(product, *wanted) != *wanted) {
      refuse(fmt::format("matmul: a product of {} does not become {}", to_string(product), to_string(*wanted)),
             "cast the operands first, or the result");
    }
    result = *wanted;
  }
  return {product, result, product != DType::bool_ && (is_float(product) || product == result)};
}

DType gemm_type(DType a, DType b, DType c) {
  const DType product = promote(a, b);
  if (product == DType::bool_) refuse("gemm_into: the operands are bool", "cast them to int32, or use matmul");
  if (c != product && !(product == DType::f16 && c == DType::f32)) {
    refuse(fmt::format("gemm_into: c is {}, and the operands are {}", to_string(c), to_string(product)),
           "give all the same dtype (c may be float32 for float16 operands)");
  }
  return product;
}

void check_addend(std::string_view op, std::string_view name, const Shape& addend, const Shape& result) {
  if (broadcasts_to(addend, result)) return;
  refuse(fmt::format("{}: a {} of shape {} does not broadcast over the result's shape {}", op, name, to_string(addend),
                     to_string(result)),
         "give it the result's last lengths, or 1");
}

void check_gemm_shapes(const Shape& a, const Shape& b, const Shape& c) {
  for (const auto& [name, shape] : {std::pair{"a", &a}, {"b", &b}, {"c", &c}}) {
    if (shape->rank() < 2) {
      refuse(fmt::format("gemm_into: {} of shape {} has no rows and columns", name, to_string(*shape)),
             "give it two axes (expand_dims)");
    }
  }
  const std::int64_t m = a[a.rank() - 2];
  const std::int64_t n = b.back();
  if (a.back() != b[b.rank() - 2]) {
    refuse(fmt::format("gemm_into: op(a) of shape {} and op(b) of shape {} don't fit: inner lengths {} and {} differ",
                       to_string(a), to_string(b), a.back(), b[b.rank() - 2]),
           "make the last axis of op(a) as long as the last but one of op(b) (transpose one?)");
  }
  if (c[c.rank() - 2] != m || c.back() != n) {
    refuse(fmt::format("gemm_into: c of shape {} can't take products of {} x {}", to_string(c), m, n),
           fmt::format("give c the last axes ({}, {})", m, n));
  }
  for (const auto& [name, shape] : {std::pair{"a", &a}, {"b", &b}}) {
    if (!broadcasts_to(batch_of(*shape), batch_of(c))) {
      refuse(fmt::format("gemm_into: batch axes {} of {} don't broadcast to those of c, {}",
                         to_string(batch_of(*shape)), name, to_string(batch_of(c))),
             "make their lengths c's, or 1");
    }
  }
}

Shape int8_matmul_shape(const Shape& a, const Shape& b) {
  if (a.rank() < 2 || b.rank() < 2) {
    refuse(fmt::format("matmul_int8: shapes {} and {}: both need at least two axes", to_string(a), to_string(b)),
           "give a vector an axis of length 1 (expand_dims)");
  }
  if (a.back() != b.back()) {
    refuse(fmt::format("matmul_int8: shapes {} and {} don't fit: {} and {} words along the inner axis", to_string(a),
                       to_string(b), a.back(), b.back()),
           "pack both with the inner axis last, as long as the other's (pad with zeros)");
  }
  Shape out;
  try {
    out = broadcast_shapes(batch_of(a), batch_of(b));
  } catch (const Error&) {
    refuse(fmt::format("matmul_int8: batch axes {} and {} of shapes {} and {} don't broadcast", to_string(batch_of(a)),
                       to_string(batch_of(b)), to_string(a), to_string(b)),
           "make their lengths equal, or one of them 1");
  }
  out.push_back(a[a.rank() - 2]);
  out.push_back(b[b.rank() - 2]);
  return out;
}

bool shows_each_once(const Shape& shape, const Strides& strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // step, length
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] > 1) axes.emplace_back(std::abs(strides[i]), shape[i]);
  }
  std::sort(axes.begin(), axes.end());
  std::int64_t reach = 0;  // of the axes so far
  for (const auto& [step, length] : axes) {
    if (step <= reach) return false;
    reach += step * (length - 1);
  }
  return true;
}

}  // namespace weft::ops
