#include "expr/scalar.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>

#include "weft/error.h"

namespace weft::expr {
namespace {

using Binary = weft::BinaryOp;
using Unary = weft::UnaryOp;

bool is_bool(const Scalar& x) {
  return std::holds_alternative<bool>(x.value);
}

/// Of a bool or an integer.
std::int64_t to_integer(const Scalar& x) {
  if (const bool* b = std::get_if<bool>(&x.value)) return *b ? 1 : 0;
  return std::get<std::int64_t>(x.value);
}

[[noreturn]] void overflow(std::string_view what) {
  throw Error(ErrorCode::out_of_range, fmt::format("{} does not fit a 64-bit integer", what),
              "write one of the numbers with a decimal point");
}

std::int64_t negated(std::int64_t a, std::string_view what) {
  std::int64_t r = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, a, &r)) overflow(what);
  return r;
}

[[noreturn]] void division_by_zero() {
  throw Error(ErrorCode::invalid_argument, "division by zero", "divide by another number");
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}

double float_remainder(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

/// CPython's float_floor_div.
double float_floor_divide(double a, double b) {
  const double r = std::fmod(a, b);
  double quotient = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (std::int64_t factor = base; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, factor, &result)) overflow("the power");
    if (exponent == 1) break;
    if (__builtin_mul_overflow(factor, factor, &factor)) overflow("the power");
  }
  return result;
}

double float_power(double a, double b) {
  if (a == 0 && b < 0) division_by_zero();
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    throw Error(ErrorCode::invalid_argument, "a negative number to a fractional power is complex",
                "use abs() or a whole exponent");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    throw Error(ErrorCode::out_of_range, "the power does not fit float64", "use smaller numbers");
  }
  return result;
}

[[noreturn]] void needs_integers(std::string_view op) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{} takes integers only", op), "convert with int()");
}

Scalar fold_integers(Binary op, std::int64_t a, std::int64_t b, bool both_bool) {
  std::int64_t r = 0;
  const auto bits = [&](std::int64_t v) { return both_bool ? Scalar(v != 0) : Scalar(v); };
  switch (op) {
    case Binary::add:
      if (__builtin_add_overflow(a, b, &r)) overflow("the sum");
      return r;
    case Binary::subtract:
      if (__builtin_sub_overflow(a, b, &r)) overflow("the difference");
      return r;
    case Binary::multiply:
      if (__builtin_mul_overflow(a, b, &r)) overflow("the product");
      return r;
    case Binary::divide:
      if (b == 0) division_by_zero();
      return static_cast<double>(a) / static_cast<double>(b);
    case Binary::floor_divide:
      if (b == 0) division_by_zero();
      if (b == -1) return negated(a, "the quotient");
      return floor_divide(a, b);
    case Binary::remainder:
      if (b == 0) division_by_zero();
      return b == -1 ? std::int64_t{0} : a - floor_divide(a, b) * b;
    case Binary::fmod:
      if (b == 0) division_by_zero();
      return b == -1 ? std::int64_t{0} : a % b;
    case Binary::power:
      if (b < 0) return float_power(static_cast<double>(a), static_cast<double>(b));
      return integer_power(a, b);
    case Binary::minimum: return bits(std::min(a, b));
    case Binary::maximum: return bits(std::max(a, b));
    case Binary::equal: return a == b;
    case Binary::not_equal: return a != b;
    case Binary::less: return a < b;
    case Binary::less_equal: return a <= b;
    case Binary::greater: return a > b;
    case Binary::greater_equal: return a >= b;
    case Binary::bit_and: return bits(a & b);
    case Binary::bit_or: return bits(a | b);
    case Binary::bit_xor: return bits(a ^ b);
    case Binary::shift_left:
      if (b < 0) break;
      if (a == 0) return a;
      if (b > 62 || (a << b) >> b != a) overflow("the shifted number");
      return a << b;
    case Binary::shift_right:
      if (b < 0) break;
      return a >> std::min<std::int64_t>(b, 63);
    case Binary::atan2: return std::atan2(static_cast<double>(a), static_cast<double>(b));
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("a shift by {}", b), "shift by 0 or more");
}

Scalar fold_floats(Binary op, double a, double b) {
  switch (op) {
    case Binary::add: return a + b;
    case Binary::subtract: return a - b;
    case Binary::multiply: return a * b;
    case Binary::divide:
      if (b == 0) division_by_zero();
      return a / b;
    case Binary::floor_divide:
      if (b == 0) division_by_zero();
      return float_floor_divide(a, b);
    case Binary::remainder:
      if (b == 0) division_by_zero();
      return float_remainder(a, b);
    case Binary::fmod:
      if (b == 0) division_by_zero();
      return std::fmod(a, b);
    case Binary::power: return float_power(a, b);
    case Binary::minimum: return std::isnan(a) || a < b ? a : b;
    case Binary::maximum: return std::isnan(a) || a > b ? a : b;
    case Binary::equal: return a == b;
    case Binary::not_equal: return a != b;
    case Binary::less: return a < b;
    case Binary::less_equal: return a <= b;
    case Binary::greater: return a > b;
    case Binary::greater_equal: return a >= b;
    case Binary::atan2: return std::atan2(a, b);
    case Binary::bit_and:
    case Binary::bit_or:
    case Binary::bit_xor:
    case Binary::shift_left:
    case Binary::shift_right: break;
  }
  needs_integers(weft::to_string(op));
}

double gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}

double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double fold_float(Unary op, double x) {
  switch (op) {
    case Unary::negative: return -x;
    case Unary::positive: return x;
    case Unary::abs: return std::fabs(x);
    case Unary::sign: return std::isnan(x) ? x : (x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0);
    case Unary::exp: return std::exp(x);
    case Unary::expm1: return std::expm1(x);
    case Unary::exp2: return std::exp2(x);
    case Unary::log: return std::log(x);
    case Unary::log1p: return std::log1p(x);
    case Unary::log2: return std::log2(x);
    case Unary::sqrt: return std::sqrt(x);
    case Unary::rsqrt: return 1 / std::sqrt(x);
    case Unary::square: return x * x;
    case Unary::reciprocal: return 1 / x;
    case Unary::sin: return std::sin(x);
    case Unary::cos: return std::cos(x);
    case Unary::tan: return std::tan(x);
    case Unary::tanh: return std::tanh(x);
    case Unary::sigmoid: return 1 / (1 + std::exp(-x));
    case Unary::relu: return x < 0 ? 0.0 : x;
    case Unary::gelu: return gelu(x);
    case Unary::gelu_tanh: return gelu_tanh(x);
    case Unary::silu: return x / (1 + std::exp(-x));
    case Unary::erf: return std::erf(x);
    case Unary::floor: return std::floor(x);
    case Unary::ceil: return std::ceil(x);
    case Unary::round: return std::nearbyint(x);
    case Unary::trunc: return std::trunc(x);
    case Unary::invert:
    case Unary::logical_not:
    case Unary::isnan:
    case Unary::isinf:
    case Unary::isfinite: break;
  }
  needs_integers(weft::to_string(op));
}

}  // namespace

bool is_float(const Scalar& x) noexcept {
  return std::holds_alternative<double>(x.value);
}

double to_double(const Scalar& x) noexcept {
  return std::visit([](auto v) { return static_cast<double>(v); }, x.value);
}

Scalar fold(Binary op, const Scalar& a, const Scalar& b) {
  if (is_float(a) || is_float(b)) return fold_floats(op, to_double(a), to_double(b));
  return fold_integers(op, to_integer(a), to_integer(b), is_bool(a) && is_bool(b));
}

Scalar fold(Unary op, const Scalar& x) {
  const double d = to_double(x);
  switch (op) {
    case Unary::logical_not: return d == 0;
    case Unary::isnan: return std::isnan(d);
    case Unary::isinf: return std::isinf(d);
    case Unary::isfinite: return std::isfinite(d);
    default: break;
  }
  if (is_float(x)) return fold_float(op, d);
  const std::int64_t i = to_integer(x);
  switch (op) {
    case Unary::negative: return negated(i, "the negative");
    case Unary::abs: return i < 0 ? negated(i, "the absolute value") : i;
    case Unary::sign: return std::int64_t{(i > 0) - (i < 0)};
    case Unary::square: return fold_integers(Binary::multiply, i, i, false);
    case Unary::invert: return ~i;
    case Unary::relu: return std::max<std::int64_t>(i, 0);
    case Unary::positive:
    case Unary::floor:
    case Unary::ceil:
    case Unary::round:
    case Unary::trunc: return i;
    default: return fold_float(op, d);
  }
}

DType default_dtype(const Scalar& x) {
  if (is_bool(x)) return DType::bool_;
  if (is_float(x)) return DType::f32;
  if (!std::in_range<std::int32_t>(std::get<std::int64_t>(x.value))) {
    throw Error(ErrorCode::out_of_range, fmt::format("{} does not fit int32", std::get<std::int64_t>(x.value)),
                "write it with a decimal point to make it a float32");
  }
  return DType::i32;
}

std::string to_string(const Scalar& x) {
  if (is_bool(x)) return std::get<bool>(x.value) ? "True" : "False";
  if (!is_float(x)) return fmt::format("{}", std::get<std::int64_t>(x.value));
  const double d = std::get<double>(x.value);
  std::string text = fmt::format("{}", d);
  if (std::isfinite(d) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace weft::expr
