// Elementwise ops against a host model in double precision, on every dtype (A/B ops, D3, D6, D11, D32, D33, D35).
#include "ops/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ops/element_math.h"
#include "ops/infer.h"
#include "test_device.h"
#include "unit/catalog_check.h"
#include "weft/error.h"
#include "weft/ops.h"
#include "weft/stream.h"
#include "weft/tensor.h"

namespace weft {
namespace {

using ops::ElementProgram;
using testing::test_device;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallestNormal = std::numeric_limits<float>::min();
constexpr DType kAll[] = {DType::bool_, DType::i32, DType::u32, DType::f16, DType::f32};

std::vector<DType> dtypes() {
  std::vector<DType> out;
  for (DType t : kAll) {
    if (t != DType::f16 || test_device().features().f16) out.push_back(t);
  }
  return out;
}

constexpr auto kUnaryOps = [] {
  std::array<UnaryOp, static_cast<std::size_t>(UnaryOp::isfinite) + 1> ops{};
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i] = static_cast<UnaryOp>(i);
  return ops;
}();
constexpr auto kBinaryOps = [] {
  std::array<BinaryOp, static_cast<std::size_t>(BinaryOp::fmod) + 1> ops{};
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i] = static_cast<BinaryOp>(i);
  return ops;
}();

// -- values
// -------------------------------------------------------------------------------------------------------------

/// What a dtype holds of a double; out of range wraps for integers.
double held(DType t, double v) {
  switch (t) {
    case DType::bool_: return v != 0 ? 1 : 0;
    case DType::i32: return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(v)));
    case DType::u32: return static_cast<std::uint32_t>(static_cast<std::int64_t>(v));
    case DType::f16: return static_cast<float>(float16(static_cast<float>(v)));
    case DType::f32: return static_cast<float>(v);
  }
  return 0;
}

template <class T>
Tensor upload_typed(const std::vector<double>& values, const Shape& shape) {
  std::vector<T> typed;
  for (double v : values) {
    if constexpr (std::is_same_v<T, float16>) {
      typed.push_back(float16(static_cast<float>(v)));
    } else {
      typed.push_back(static_cast<T>(v));
    }
  }
  return test_device().upload(std::span<const T>(typed), shape);
}

Tensor upload(DType t, const std::vector<double>& values, const Shape& shape) {
  switch (t) {
    case DType::bool_: {
      std::vector<std::byte> bytes;
      for (double v : values) bytes.push_back(std::byte{v != 0});
      return test_device().upload_array(bytes, shape, t);
    }
    case DType::i32: return upload_typed<std::int32_t>(values, shape);
    case DType::u32: return upload_typed<std::uint32_t>(values, shape);
    case DType::f16: return upload_typed<float16>(values, shape);
    case DType::f32: return upload_typed<float>(values, shape);
  }
  return {};
}
Tensor upload(DType t, const std::vector<double>& values) {
  return upload(t, values, {static_cast<std::int64_t>(values.size())});
}

template <class T>
std::vector<double> widened(const std::vector<T>& typed) {
  std::vector<double> out;
  for (const T& v : typed)
    out.push_back(static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, float16>, float, T>>(v)));
  return out;
}

std::vector<double> download(const Tensor& x) {
  switch (x.dtype()) {
    case DType::bool_: {
      std::vector<double> out;
      for (std::byte b : x.to_host_bytes()) out.push_back(static_cast<double>(b));  // 2 would show
      return out;
    }
    case DType::i32: return widened(x.to_host<std::int32_t>());
    case DType::u32: return widened(x.to_host<std::uint32_t>());
    case DType::f16: return widened(x.to_host<float16>());
    case DType::f32: return widened(x.to_host<float>());
  }
  return {};
}

/// Edges of a dtype, and random numbers.
std::vector<double> hard_values(DType t, std::size_t random, unsigned seed = 1) {
  std::mt19937 rng(seed);
  std::vector<double> v;
  switch (t) {
    case DType::bool_:
      v = {0, 1, 1, 0, 1};
      for (std::size_t i = 0; i < random; ++i) v.push_back(static_cast<double>(rng() & 1));
      return v;
    case DType::i32:
      v = {0,          1, -1, 2, -2, 3, -3, 7, -7, 31, 32, 33, -32, 100, 16777217, -16777217, 2147483647, -2147483648.0,
           -2147483647};
      for (std::size_t i = 0; i < random; ++i) {
        v.push_back(i % 2 ? static_cast<std::int32_t>(rng()) : static_cast<std::int32_t>(rng() % 2001) - 1000);
      }
      return v;
    case DType::u32:
      v = {0, 1, 2, 3, 7, 31, 32, 33, 16777217, 2147483647, 2147483648.0, 4294967295.0, 4294967294.0};
      for (std::size_t i = 0; i < random; ++i) v.push_back(static_cast<double>(i % 2 ? rng() : rng() % 1000));
      return v;
    default: break;
  }
  const std::vector<double> positive = {0,
                                        1,
                                        2,
                                        3,
                                        0.5,
                                        0.25,
                                        1.5,
                                        2.5,
                                        3.5,
                                        0.1,
                                        0.29,
                                        0.41,
                                        0.7071,
                                        1.4143,
                                        5,
                                        7,
                                        10,
                                        11.1,
                                        16,
                                        31,
                                        43.7,
                                        44.4,
                                        64,
                                        88.72,
                                        88.73,
                                        100,
                                        103.9,
                                        128,
                                        65504,
                                        65520,
                                        1e5,
                                        16777215,
                                        8388609,
                                        1e-3,
                                        1e-5,
                                        1e-8,
                                        6e-8,
                                        6.1e-5,
                                        1e10,
                                        2147483648.0,
                                        4294967296.0,
                                        1e20,
                                        1e30,
                                        3.4028234663852886e38,
                                        1.17549435e-38,
                                        1e-40,
                                        1.4e-45,
                                        3.14159274,
                                        1.57079637,
                                        0.785398185,
                                        kInf};
  for (double p : positive) {
    v.push_back(held(t, p));
    v.push_back(held(t, -p));
  }
  v.push_back(kNaN);
  std::uniform_real_distribution<double> near(-10, 10), exponent(-30, 30);
  for (std::size_t i = 0; i < random; ++i) {
    const double x = i % 3 != 0 ? near(rng) : std::exp2(exponent(rng)) * (rng() & 1 ? 1 : -1);
    v.push_back(held(t, x));
  }
  return v;
}

// -- the model
// -----------------------------------------------------------------------------------------------------------

double real_unary(UnaryOp op, double x) {
  switch (op) {
    case UnaryOp::negative: return -x;
    case UnaryOp::positive: return x;
    case UnaryOp::abs: return std::fabs(x);
    case UnaryOp::sign: return std::isnan(x) ? x : x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0;
    case UnaryOp::invert: break;
    case UnaryOp::logical_not: return x == 0;
    case UnaryOp::exp: return std::exp(x);
    case UnaryOp::expm1: return std::expm1(x);
    case UnaryOp::exp2: return std::exp2(x);
    case UnaryOp::log: return std::log(x);
    case UnaryOp::log1p: return std::log1p(x);
    case UnaryOp::log2: return std::log2(x);
    case UnaryOp::sqrt: return std::sqrt(x);
    case UnaryOp::rsqrt: return 1 / std::sqrt(x);
    case UnaryOp::square: return x * x;
    case UnaryOp::reciprocal: return 1 / x;
    case UnaryOp::sin: return std::sin(x);
    case UnaryOp::cos: return std::cos(x);
    case UnaryOp::tan: return std::tan(x);
    case UnaryOp::tanh: return std::tanh(x);
    case UnaryOp::sigmoid: return 1 / (1 + std::exp(-x));
    case UnaryOp::relu: return std::isnan(x) ? x : x > 0 ? x : 0;
    case UnaryOp::gelu: return x == -kInf ? 0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case UnaryOp::gelu_tanh: {
      if (x == -kInf) return 0;
      const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));
    }
    case UnaryOp::silu: return x == -kInf ? 0 : x / (1 + std::exp(-x));
    case UnaryOp::erf: return std::erf(x);
    case UnaryOp::floor: return std::floor(x);
    case UnaryOp::ceil: return std::ceil(x);
    case UnaryOp::round: return std::nearbyint(x);
    case UnaryOp::trunc: return std::trunc(x);
    case UnaryOp::isnan: return std::isnan(x);
    case UnaryOp::isinf: return std::isinf(x);
    case UnaryOp::isfinite: return std::isfinite(x);
  }
  return kNaN;
}

double whole_unary(UnaryOp op, double v) {
  const auto x = static_cast<std::int64_t>(v);
  switch (op) {
    case UnaryOp::negative: return static_cast<double>(-x);
    case UnaryOp::abs: return static_cast<double>(x < 0 ? -x : x);
    case UnaryOp::sign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case UnaryOp::invert: return static_cast<double>(~x);
    case UnaryOp::logical_not: return x == 0;
    case UnaryOp::relu: return x > 0 ? v : 0;
    case UnaryOp::square:
      return static_cast<double>(
          static_cast<std::int64_t>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(x) & 0xffffffffu));
    case UnaryOp::reciprocal: return x == 1 || x == -1 ? v : 0;
    case UnaryOp::isnan:
    case UnaryOp::isinf: return 0;
    case UnaryOp::isfinite: return 1;
    default: return v;
  }
}

/// numpy's npy_divmodf.
std::pair<float, float> divmod(float a, float b) {
  float mod = std::fmod(a, b);
  if (b == 0) return {a / b, mod};
  float div = (a - mod) / b;
  if (mod != 0) {
    if ((b < 0) != (mod < 0)) {
      mod += b;
      div -= 1;
    }
  } else {
    mod = std::copysign(0.0f, b);
  }
  float floored = std::copysign(0.0f, a / b);
  if (div != 0) {
    floored = std::floor(div);
    if (div - floored > 0.5f) floored += 1;
  }
  return {floored, mod};
}

double real_binary(BinaryOp op, double a, double b) {
  const auto f = [](double x) { return static_cast<float>(x); };
  switch (op) {
    case BinaryOp::add: return a + b;
    case BinaryOp::subtract: return a - b;
    case BinaryOp::multiply: return a * b;
    case BinaryOp::divide: return a / b;
    case BinaryOp::floor_divide: return divmod(f(a), f(b)).first;
    case BinaryOp::remainder: return divmod(f(a), f(b)).second;
    case BinaryOp::power: return std::pow(a, b);
    case BinaryOp::minimum: return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
    case BinaryOp::maximum: return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
    case BinaryOp::equal: return a == b;
    case BinaryOp::not_equal: return a != b;
    case BinaryOp::less: return a < b;
    case BinaryOp::less_equal: return a <= b;
    case BinaryOp::greater: return a > b;
    case BinaryOp::greater_equal: return a >= b;
    case BinaryOp::atan2: return std::atan2(a, b);
    case BinaryOp::fmod: return std::fmod(a, b);
    default: return kNaN;
  }
}

double whole_binary(BinaryOp op, double va, double vb, DType t) {
  const auto a = static_cast<std::int64_t>(va);
  const auto b = static_cast<std::int64_t>(vb);
  const auto low = [](std::uint64_t v) { return static_cast<double>(v & 0xffffffffu); };
  const auto ua = static_cast<std::uint64_t>(a);
  const auto ub = static_cast<std::uint64_t>(b);
  const std::int64_t q = b == 0 ? 0 : a / b;
  const std::int64_t r = b == 0 ? 0 : a % b;
  const bool down = r != 0 && (r < 0) != (b < 0);
  switch (op) {
    case BinaryOp::add: return low(ua + ub);
    case BinaryOp::subtract: return low(ua - ub);
    case BinaryOp::multiply: return low(ua * ub);
    case BinaryOp::floor_divide: return static_cast<double>(q - down);
    case BinaryOp::remainder: return static_cast<double>(down ? r + b : r);
    case BinaryOp::fmod: return static_cast<double>(r);
    case BinaryOp::power: {
      if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;
      std::uint64_t result = 1, base = ua;
      for (std::uint64_t left = ub; left != 0; left >>= 1, base *= base) {
        if (left & 1) result *= base;
      }
      return low(result);
    }
    case BinaryOp::minimum: return static_cast<double>(std::min(a, b));
    case BinaryOp::maximum: return static_cast<double>(std::max(a, b));
    case BinaryOp::bit_and: return low(ua & ub);
    case BinaryOp::bit_or: return low(ua | ub);
    case BinaryOp::bit_xor: return low(ua ^ ub);
    case BinaryOp::shift_left: return b < 0 || b > 31 ? 0 : low(ua << b);
    case BinaryOp::shift_right:
      return b < 0 || b > 31 ? (t == DType::i32 && a < 0 ? -1 : 0) : static_cast<double>(a >> b);
    default: return real_binary(op, va, vb);
  }
}

double cast_model(double v, DType from, DType to) {
  if (is_float(from) && is_integer(to)) {
    if (std::isnan(v)) return 0;
    return to == DType::i32 ? std::clamp(std::trunc(v), -2147483648.0, 2147483647.0)
                            : std::clamp(std::trunc(v), 0.0, 4294967295.0);
  }
  return held(to, v);
}

// -- tolerances
// ----------------------------------------------------------------------------------------------------------

struct Tolerance {
  double ulps = 0;  ///< of f32
  double absolute = 0;
};

Tolerance tolerance(UnaryOp op, double x) {
  switch (op) {
    case UnaryOp::exp:
    case UnaryOp::expm1:
    case UnaryOp::exp2:
    case UnaryOp::log:
    case UnaryOp::log1p:
    case UnaryOp::log2:
    case UnaryOp::rsqrt:
    case UnaryOp::tanh:
    case UnaryOp::sigmoid:
    case UnaryOp::silu:
    case UnaryOp::erf: return {4, 0};
    case UnaryOp::gelu_tanh: return {4 + (x < 0 ? 4 * std::fabs(1.6 * x + 0.0714 * x * x * x) : 0), 0};  // of e^2u
    case UnaryOp::gelu: return {5, 0};
    case UnaryOp::sqrt:
    case UnaryOp::reciprocal: return {2.5, 0};
    case UnaryOp::sin:
    case UnaryOp::cos: return {2, 1e-7};
    case UnaryOp::tan: return {6, 1e-7};
    default: return {0, 0};
  }
}

Tolerance tolerance(BinaryOp op) {
  switch (op) {
    case BinaryOp::divide: return {2.5, 0};
    case BinaryOp::floor_divide: return {0, 0};
    case BinaryOp::power: return {12, 0};  // 1e-6 and less
    case BinaryOp::atan2: return {4, 0};
    default: return {0, 0};
  }
}

/// Within the tolerance; a denormal (of the result or of `denormal_in`) may count as a zero.
bool agrees(double got, double expected, DType t, Tolerance tol) {
  if (std::isnan(expected)) return std::isnan(got);
  if (!is_float(t)) return got == expected;
  const double nearest = held(t, expected);
  if (got == nearest) return true;
  if (t == DType::f16) {
    // Rounded once from f32: at most the neighbour, where f32's own error crosses a tie.
    if (tol.ulps == 0 && tol.absolute == 0) return false;
    const double step = std::max(std::exp2(std::floor(std::log2(std::fabs(nearest))) - 10), std::exp2(-24.0));
    return std::fabs(got - nearest) <= step || (std::isinf(nearest) && std::fabs(got) >= 65504 && got * nearest > 0);
  }
  if (std::fabs(expected) < kSmallestNormal * 1.0000005) return std::fabs(got) <= kSmallestNormal;
  if (std::isinf(nearest)) return got == nearest;
  const double ulp = std::exp2(std::floor(std::log2(std::fabs(nearest))) - 23);
  return std::fabs(got - expected) <= tol.ulps * ulp + tol.absolute;
}

bool is_denormal(double v) {
  return v != 0 && std::fabs(v) < kSmallestNormal;
}

double model(UnaryOp op, double x, ops::OpTypes types) {
  return is_float(types.compute) ? real_unary(op, held(DType::f32, x)) : held(types.result, whole_unary(op, x));
}

double model(BinaryOp op, double a, double b, ops::OpTypes types) {
  if (is_float(types.compute)) return real_binary(op, held(DType::f32, a), held(DType::f32, b));
  return held(types.result, held(types.compute, whole_binary(op, a, b, types.compute)));
}

// -- every op
// --------------------------------------------------------------------------------------------------------------

TEST(Elementwise, UnaryOpsOnEveryDtypeAgreeWithTheModel) {
  for (DType t : dtypes()) {
    const std::vector<double> values = hard_values(t, 4000);
    const Tensor x = upload(t, values);
    for (UnaryOp op : kUnaryOps) {
      ops::OpTypes types{};
      try {
        types = ops::unary_types(op, t);
      } catch (const Error&) {
        EXPECT_THROW(unary(op, x), Error) << to_string(op) << " of " << to_string(t);
        continue;
      }
      const Tensor y = unary(op, x);
      ASSERT_EQ(y.dtype(), types.result) << to_string(op) << " of " << to_string(t);
      const std::vector<double> got = download(y);
      int shown = 0;
      for (std::size_t i = 0; i < values.size() && shown < 4; ++i) {
        double expected = model(op, values[i], types);
        if (op == UnaryOp::invert && t == DType::bool_) expected = values[i] == 0;
        bool right = agrees(got[i], expected, types.result, tolerance(op, values[i]));
        if (!right && is_denormal(values[i])) {  // flushed
          right =
              agrees(got[i], model(op, std::copysign(0.0, values[i]), types), types.result, tolerance(op, values[i]));
        }
        if (!right) {
          ++shown;
          ADD_FAILURE() << to_string(op) << " of " << to_string(t) << " " << values[i] << ": got " << got[i]
                        << ", expected " << expected;
        }
      }
    }
  }
}

TEST(Elementwise, BinaryOpsOnEveryDtypeAgreeWithTheModel) {
  for (DType t : dtypes()) {
    std::vector<double> a, b;
    const std::vector<double> edges = hard_values(t, 6);
    for (double x : edges) {
      for (double y : edges) {
        a.push_back(x);
        b.push_back(y);
      }
    }
    const std::vector<double> left = hard_values(t, 3000, 7), right = hard_values(t, 3000, 8);
    for (std::size_t i = left.size() - 3000; i < left.size(); ++i) {
      a.push_back(left[i]);
      b.push_back(right[i]);
    }
    const Tensor x = upload(t, a), y = upload(t, b);
    for (BinaryOp op : kBinaryOps) {
      ops::OpTypes types{};
      try {
        types = ops::binary_types(op, t);
      } catch (const Error&) {
        EXPECT_THROW(binary(op, x, y), Error) << to_string(op) << " of " << to_string(t);
        continue;
      }
      const Tensor z = binary(op, x, y);
      ASSERT_EQ(z.dtype(), types.result) << to_string(op) << " of " << to_string(t);
      const std::vector<double> got = download(z);
      int shown = 0;
      for (std::size_t i = 0; i < a.size() && shown < 4; ++i) {
        const double expected = model(op, a[i], b[i], types);
        bool right_one = agrees(got[i], expected, types.result, tolerance(op));
        if (!right_one && is_float(t)) {  // operands flushed, or an intermediate that is denormal
          const auto flushed = [](double v) { return is_denormal(v) ? std::copysign(0.0, v) : v; };
          right_one = (is_denormal(a[i]) || is_denormal(b[i])) &&
                      agrees(got[i], model(op, flushed(a[i]), flushed(b[i]), types), types.result, tolerance(op));
        }
        if (!right_one) {
          ++shown;
          ADD_FAILURE() << to_string(op) << " of " << to_string(t) << " " << a[i] << ", " << b[i] << ": got " << got[i]
                        << ", expected " << expected;
        }
      }
    }
  }
}

TEST(Elementwise, CastsBetweenAllDtypes) {
  for (DType from : dtypes()) {
    const std::vector<double> values = hard_values(from, 3000);
    const Tensor x = upload(from, values);
    for (DType to : dtypes()) {
      const std::vector<double> got = download(cast(x, to));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double expected = cast_model(values[i], from, to);
        ASSERT_TRUE(agrees(got[i], expected, to, {})) << to_string(from) << " to " << to_string(to) << " of "
                                                      << values[i] << ": got " << got[i] << ", expected " << expected;
      }
    }
  }
}

TEST(Elementwise, MixedDtypesMeetAsPromotionSays) {
  for (DType ta : dtypes()) {
    for (DType tb : dtypes()) {
      const std::vector<double> a{0, 1, 3, 2, 7}, b{1, 2, 0, 1, 5};
      const Tensor z = upload(ta, a) + upload(tb, b);
      const DType meets = ops::promote(ta, tb);
      ASSERT_EQ(z.dtype(), meets);
      const std::vector<double> got = download(z);
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(got[i], held(meets, held(ta, a[i]) + held(tb, b[i])));
    }
  }
}

TEST(Elementwise, WhereAndClampKeepNaN) {
  for (DType t : dtypes()) {
    const std::vector<double> a = hard_values(t, 100), b = hard_values(t, 100, 3);
    const Tensor x = upload(t, a), y = upload(t, b);
    for (DType tc : dtypes()) {
      std::vector<double> c = hard_values(tc, 300, 5);
      c.resize(a.size());
      const std::vector<double> got = download(where(upload(tc, c), x, y));
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double expected = c[i] != 0 ? a[i] : b[i];  // NaN counts as true
        EXPECT_TRUE(agrees(got[i], expected, t, {})) << got[i] << " for " << expected;
      }
    }
  }
  const std::vector<double> v{-kInf, -3, -0.0, 0, 2, 5, kInf, kNaN};
  const Tensor x = upload(DType::f32, v);
  const std::vector<double> clamped = download(clamp(x, -1, 2.5));
  const std::vector<double> wide = download(clamp(x, -kInf, kInf));
  const std::vector<double> none = download(clamp(x, kNaN, 1.0));
  for (std::size_t i = 0; i < v.size(); ++i) {
    EXPECT_TRUE(agrees(clamped[i], std::isnan(v[i]) ? kNaN : std::clamp(v[i], -1.0, 2.5), DType::f32, {})) << v[i];
    EXPECT_TRUE(agrees(wide[i], v[i], DType::f32, {})) << v[i];
    EXPECT_TRUE(std::isnan(none[i]));
  }
  EXPECT_EQ(clamp(upload(DType::i32, {1, 2, 3}), 1.5, 2).dtype(), DType::f32);
  EXPECT_EQ(download(clamp(upload(DType::i32, {1, 2, 3}), 2, 2)), (std::vector<double>{2, 2, 2}));
  // Limits that cross give the upper one, as numpy.clip and torch.clamp do.
  EXPECT_EQ(download(clamp(upload(DType::i32, {1, 2, 3}), 3, 1)), (std::vector<double>{1, 1, 1}));
}

TEST(Elementwise, ComparisonsOfIntegersAreExact) {
  const std::vector<double> a{-2147483648.0, -7, -1, 0, 1, 2147483647.0};
  const std::vector<double> b{0, 1, 7, 2147483647.0, 2147483648.0, 4294967295.0};
  const Tensor x = expand_dims(upload(DType::i32, a), 1), y = upload(DType::u32, b);
  const std::pair<BinaryOp, bool (*)(double, double)> kComparisons[] = {
      {BinaryOp::equal, [](double p, double q) { return p == q; }},
      {BinaryOp::not_equal, [](double p, double q) { return p != q; }},
      {BinaryOp::less, [](double p, double q) { return p < q; }},
      {BinaryOp::less_equal, [](double p, double q) { return p <= q; }},
      {BinaryOp::greater, [](double p, double q) { return p > q; }},
      {BinaryOp::greater_equal, [](double p, double q) { return p >= q; }}};
  for (const auto& [op, holds] : kComparisons) {
    const std::vector<double> mixed = download(binary(op, x, y)), turned = download(binary(op, y, x));
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = 0; j < b.size(); ++j) {
        EXPECT_EQ(mixed[i * b.size() + j], holds(a[i], b[j])) << to_string(op) << " " << a[i] << " " << b[j];
        EXPECT_EQ(turned[i * b.size() + j], holds(b[j], a[i])) << to_string(op) << " " << b[j] << " " << a[i];
      }
    }
    // Numbers that the dtype does not hold.
    for (const double n : {-2147483649.0, -1.0, 2147483648.0, 4294967296.0, 1e18, -1e18}) {
      const Scalar number(static_cast<std::int64_t>(n));
      const std::vector<double> right = download(binary(op, x, number)), left = download(binary(op, number, y));
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(right[i], holds(a[i], n)) << to_string(op) << " " << n;
      for (std::size_t j = 0; j < b.size(); ++j) EXPECT_EQ(left[j], holds(n, b[j])) << to_string(op) << " " << n;
    }
  }
  const std::vector<double> quotients = download(binary(BinaryOp::divide, x, y));
  EXPECT_NEAR(quotients[b.size() - 1], -0.5, 1e-6);  // -2^31 / (2^32 - 1)
}

// -- numbers that other systems get wrong
// ------------------------------------------------------------------------------------

TEST(Elementwise, F16RoundsToNearestEven) {
  if (!test_device().features().f16) GTEST_FAIL() << "the test device has no f16";
  std::vector<float> values;
  std::mt19937 rng(5);
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {  // every tie between neighbours, and a step to either side
    const float low = static_cast<float>(std::bit_cast<float16>(static_cast<std::uint16_t>(h)));
    const float high =
        h == 0x7bff ? 65536.0f : static_cast<float>(std::bit_cast<float16>(static_cast<std::uint16_t>(h + 1)));
    const float tie = (low + high) / 2;
    for (float v : {low, tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f)})
      values.push_back(rng() & 1 ? v : -v);
  }
  const Tensor x = test_device().upload(std::span<const float>(values), {static_cast<std::int64_t>(values.size())});
  const std::vector<float16> got = cast(x, DType::f16).to_host<float16>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(got[i].bits, float16(values[i]).bits) << values[i];
  }
  std::vector<float16> all;
  for (std::uint32_t h = 0; h < 0x10000; ++h) all.push_back(std::bit_cast<float16>(static_cast<std::uint16_t>(h)));
  const Tensor halves = test_device().upload(std::span<const float16>(all), {0x10000});
  const std::vector<float> wide = cast(halves, DType::f32).to_host<float>();
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float expected = static_cast<float>(all[h]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide[h]));
    } else {
      ASSERT_EQ(wide[h], expected) << h;
    }
  }
}

TEST(Elementwise, SignsOfZeroAndDenormals) {
  const std::vector<double> v{0.0, -0.0, 1e-40, -1e-40, 1.17549435e-38, -1.17549435e-38};
  const Tensor x = upload(DType::f32, v);
  const std::vector<float> negative = unary(UnaryOp::negative, x).to_host<float>();
  const std::vector<float> absolute = unary(UnaryOp::abs, x).to_host<float>();
  const std::vector<float> sign = unary(UnaryOp::sign, x).to_host<float>();
  for (std::size_t i = 0; i < v.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(negative[i]), std::bit_cast<std::uint32_t>(-static_cast<float>(v[i])));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(absolute[i]),
              std::bit_cast<std::uint32_t>(std::fabs(static_cast<float>(v[i]))));
    EXPECT_EQ(sign[i], v[i] > 0 ? 1.0f : v[i] < 0 ? -1.0f : 0.0f);
  }
  for (UnaryOp op :
       {UnaryOp::sin, UnaryOp::tan, UnaryOp::tanh, UnaryOp::erf, UnaryOp::expm1, UnaryOp::log1p, UnaryOp::sqrt,
        UnaryOp::floor, UnaryOp::ceil, UnaryOp::round, UnaryOp::trunc, UnaryOp::gelu, UnaryOp::silu}) {
    const std::vector<float> zero = unary(op, upload(DType::f32, {-0.0, 0.0})).to_host<float>();
    EXPECT_TRUE(zero[0] == 0 && std::signbit(zero[0])) << to_string(op);
    EXPECT_TRUE(zero[1] == 0 && !std::signbit(zero[1])) << to_string(op);
  }
  for (UnaryOp op : {UnaryOp::ceil, UnaryOp::round, UnaryOp::trunc}) {
    EXPECT_TRUE(std::signbit(unary(op, upload(DType::f32, {-0.25})).to_host<float>()[0])) << to_string(op);
  }
  // The sign of a zero remainder is the divisor's.
  const std::vector<float> r =
      binary(BinaryOp::remainder, upload(DType::f32, {6, 6, -6, 0}), upload(DType::f32, {3, -3, 3, -1}))
          .to_host<float>();
  EXPECT_EQ(std::vector<bool>({std::signbit(r[0]), std::signbit(r[1]), std::signbit(r[2]), std::signbit(r[3])}),
            std::vector<bool>({false, true, false, true}));
}

TEST(Elementwise, LargeArgumentsOfCircularFunctions) {
  std::vector<double> v{1e30, -1e30, 3.4028234663852886e38, 65535.9, 65536, 65537, 1e5, 1e6, 123456789, 1e22, 2.6433e7};
  std::mt19937 rng(3);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    if (std::isfinite(x)) v.push_back(x);
  }
  for (double& x : v) x = held(DType::f32, x);
  const Tensor x = upload(DType::f32, v);
  const std::vector<float> s = unary(UnaryOp::sin, x).to_host<float>();
  const std::vector<float> c = unary(UnaryOp::cos, x).to_host<float>();
  for (std::size_t i = 0; i < v.size(); ++i) {
    ASSERT_NEAR(s[i], std::sin(v[i]), 1.5e-7) << v[i];
    ASSERT_NEAR(c[i], std::cos(v[i]), 1.5e-7) << v[i];
  }
}

TEST(Elementwise, WholePowersAreExact) {
  std::vector<double> a, b;
  for (int base = -12; base <= 12; ++base) {
    for (int e = 0; e <= 16; ++e) {
      if (std::fabs(std::pow(base, e)) > 16777216) continue;
      a.push_back(base);
      b.push_back(e);
    }
  }
  const std::vector<double> got = download(binary(BinaryOp::power, upload(DType::f32, a), upload(DType::f32, b)));
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(got[i], std::pow(a[i], b[i])) << a[i] << " ** " << b[i];
  std::vector<double> c, d;
  for (int e = -64; e <= 64; ++e) {
    for (double base : {1.01, 1.7, 0.3, -1.2, 2.0, -0.9}) {
      c.push_back(held(DType::f32, base));
      d.push_back(e);
    }
  }
  const std::vector<double> more = download(binary(BinaryOp::power, upload(DType::f32, c), upload(DType::f32, d)));
  for (std::size_t i = 0; i < c.size(); ++i) {
    EXPECT_NEAR(more[i] / std::pow(c[i], d[i]), 1, 1e-6) << c[i] << " ** " << d[i];
  }
  const std::vector<double> squares = download(binary(BinaryOp::power, upload(DType::f32, {-3, 0, kInf, kNaN}), 2));
  EXPECT_EQ(std::vector<double>(squares.begin(), squares.begin() + 3), (std::vector<double>{9, 0, kInf}));
  EXPECT_TRUE(std::isnan(squares[3]));
}

// A fused chain gives what numpy's single steps give: nothing is cancelled or contracted on the way.
TEST(Elementwise, FusedSumsRoundAfterEachStep) {
  const std::vector<double> a = hard_values(DType::f32, 2000, 11);
  std::vector<double> b = hard_values(DType::f32, 2000, 12), c = hard_values(DType::f32, 2000, 13);
  std::rotate(b.begin(), b.begin() + 17, b.end());
  std::rotate(c.begin(), c.begin() + 31, c.end());
  ElementProgram p;
  const std::int32_t x = p.input(upload(DType::f32, a)), y = p.input(upload(DType::f32, b)),
                     z = p.input(upload(DType::f32, c));
  const std::int32_t sum = p.binary(BinaryOp::subtract, p.binary(BinaryOp::add, x, y), x);
  const std::int32_t fma = p.binary(BinaryOp::add, p.binary(BinaryOp::multiply, x, y), z);
  const Shape shape{static_cast<std::int64_t>(a.size())};
  const std::vector<double> sums = download(p.run(test_device(), shape, sum));
  const std::vector<double> products = download(p.run(test_device(), shape, fma));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float fa = static_cast<float>(a[i]), fb = static_cast<float>(b[i]), fc = static_cast<float>(c[i]);
    volatile float step = fa + fb;
    volatile float product = fa * fb;
    if (!is_denormal(fa) && !is_denormal(fb) && !is_denormal(step) && !is_denormal(step - fa)) {
      ASSERT_TRUE(agrees(sums[i], static_cast<float>(step - fa), DType::f32, {})) << fa << " " << fb << " " << sums[i];
    }
    if (!is_denormal(product) && !is_denormal(fc) && !is_denormal(product + fc)) {
      ASSERT_TRUE(agrees(products[i], static_cast<float>(product + fc), DType::f32, {}))
          << fa << " " << fb << " " << fc;
    }
  }
  const Tensor same = upload(DType::f32, {1, kInf, -kInf, kNaN});
  const std::vector<double> gone = download(same - same);
  EXPECT_EQ(gone[0], 0);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(std::isnan(gone[i]));
  const std::vector<double> ones = download(same / same);
  EXPECT_EQ(ones[0], 1);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(std::isnan(ones[i]));
}

// Drivers take x - x and x + -x for 0, and a product with a bool's number for a choice, whenever they see through what
// made the operands (microsoft/onnxruntime#29833 is a compare folded away so). numpy: infinity and NaN give NaN.
TEST(Elementwise, NothingIsFoldedOverInfinityAndNaN) {
  for (const DType t : {DType::f32, DType::f16}) {
    if (t == DType::f16 && !test_device().features().f16) continue;
    const Tensor given = upload(t, {2, kInf, -kInf, kNaN});
    const Shape shape{4};
    const auto run = [&](auto&& make) {
      ElementProgram p;
      const std::int32_t x = p.input(given);
      return download(p.run(test_device(), shape, make(p, x)));
    };
    const auto is_undefined = [&](std::string_view what, auto&& make, double first) {
      const std::vector<double> got = run(make);
      EXPECT_EQ(got[0], first) << what;
      for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(std::isnan(got[i])) << what << " " << to_string(t) << " " << i;
    };
    using P = ElementProgram;
    using I = std::int32_t;
    const auto op = [](BinaryOp code) { return [code](P& p, I a, I b) { return p.binary(code, a, b); }; };
    const auto minus = op(BinaryOp::subtract), plus = op(BinaryOp::add), times = op(BinaryOp::multiply),
               high = op(BinaryOp::maximum), low = op(BinaryOp::minimum);
    is_undefined("x - x", [&](P& p, I x) { return minus(p, x, x); }, 0);
    is_undefined("x - +x", [&](P& p, I x) { return minus(p, x, p.unary(UnaryOp::positive, x)); }, 0);
    is_undefined("x + -x", [&](P& p, I x) { return plus(p, x, p.unary(UnaryOp::negative, x)); }, 0);
    is_undefined("-x + x", [&](P& p, I x) { return plus(p, p.unary(UnaryOp::negative, x), x); }, 0);
    is_undefined(
        "x - -(-x)", [&](P& p, I x) { return minus(p, x, p.unary(UnaryOp::negative, p.unary(UnaryOp::negative, x))); },
        0);
    is_undefined("x x - x^2", [&](P& p, I x) { return minus(p, times(p, x, x), p.unary(UnaryOp::square, x)); }, 0);
    is_undefined("x - max(x, x)", [&](P& p, I x) { return minus(p, x, high(p, x, x)); }, 0);
    is_undefined("max(x, x) - min(x, x)", [&](P& p, I x) { return minus(p, high(p, x, x), low(p, x, x)); }, 0);
    is_undefined("x - (x or x)", [&](P& p, I x) { return minus(p, x, p.where(p.unary(UnaryOp::isnan, x), x, x)); }, 0);
    is_undefined(
        "(x + 1) - (1 + x)",
        [&](P& p, I x) {
          const I one = p.scalar(1.0, t);
          return minus(p, plus(p, x, one), plus(p, one, x));
        },
        0);
    is_undefined(
        "|x| - |x|", [&](P& p, I x) { return minus(p, p.unary(UnaryOp::abs, x), p.unary(UnaryOp::abs, x)); }, 0);
    const auto none = [](P& p, I x) {  // false throughout, which the compiler may see or not
      return p.binary(BinaryOp::less, x, x);
    };
    is_undefined("x (x < x)", [&](P& p, I x) { return times(p, x, p.cast(none(p, x), t)); }, 0);
    is_undefined("x int(x < x)", [&](P& p, I x) { return times(p, p.cast(p.cast(none(p, x), DType::i32), t), x); }, 0);
    is_undefined(
        "x isnan(0)",
        [&](P& p, I x) {
          const I number = p.cast(x, DType::i32);
          return times(p, x, p.cast(p.unary(UnaryOp::isnan, number), t));
        },
        0);
    const std::vector<double> masked = download(upload(DType::bool_, {0, 0, 0, 1}) * given);
    EXPECT_EQ(masked[0], 0);
    for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(std::isnan(masked[i])) << "False * " << to_string(t);
  }
}

// A device may read a denormal as 0 (tensorflow/tensorflow#127905: sign() of one was 0). What it divides, roots or
// rounds away from 0 is no denormal any more, and so is right everywhere.
TEST(Elementwise, DenormalsAreDividedRootedAndRounded) {
  const double tiny = held(DType::f32, 1e-40), least = 0x1p-149, normal = 0x1p-126;
  const std::vector<double> a{0, tiny, -tiny, tiny, normal, 1, 1e-30, least, -0.0, kInf};
  const std::vector<double> b{tiny, tiny, tiny, normal, tiny, 0x1.8p-127, least, 0x1p-20, -least, tiny};
  const std::vector<double> got = download(binary(BinaryOp::divide, upload(DType::f32, a), upload(DType::f32, b)));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double expected = static_cast<float>(held(DType::f32, a[i]) / b[i]);
    if (expected != 0 && std::isfinite(expected) && std::abs(expected) >= 0x1p-126) {
      EXPECT_NEAR(got[i] / expected, 1, 4e-7) << a[i] << " / " << b[i];
    } else if (std::abs(expected) < 0x1p-126) {
      EXPECT_NEAR(got[i], expected, 0x1p-126) << a[i] << " / " << b[i];
      EXPECT_EQ(std::signbit(got[i]), std::signbit(expected)) << a[i] << " / " << b[i];
    } else {
      EXPECT_EQ(got[i], expected) << a[i] << " / " << b[i];
    }
  }
  EXPECT_EQ(download(binary(BinaryOp::floor_divide, upload(DType::f32, {tiny, normal, -normal, least, 1}),
                            upload(DType::f32, {tiny, tiny, tiny, -tiny, tiny}))),
            (std::vector<double>{1, 117, -118, -1, held(DType::f32, 1 / tiny)}));
  const Tensor x = upload(DType::f32, {least, tiny, 0x1p-127, -tiny, -least});
  const std::vector<double> roots = download(unary(UnaryOp::sqrt, x));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(roots[i] / std::sqrt(download(x)[i]), 1, 4e-7) << i;
  EXPECT_TRUE(std::isnan(roots[3]) && std::isnan(roots[4]));
  EXPECT_NEAR(download(unary(UnaryOp::rsqrt, x))[2] * 0x1p-63 / std::sqrt(2.0), 1, 1e-6);
  EXPECT_NEAR(download(unary(UnaryOp::reciprocal, x))[2] * 0x1p-127, 1, 4e-7);
  EXPECT_EQ(download(unary(UnaryOp::floor, x)), (std::vector<double>{0, 0, 0, -1, -1}));
  const std::vector<double> up = download(unary(UnaryOp::ceil, x));
  EXPECT_EQ(up, (std::vector<double>{1, 1, 1, 0, 0}));
  EXPECT_TRUE(std::signbit(up[4]));
  EXPECT_EQ(download(unary(UnaryOp::trunc, x)), (std::vector<double>(5, 0)));
}

// -- scalars
// -----------------------------------------------------------------------------------------------------------------

// N33, D3: scalars travel as parameters; another value is no other kernel, and two in one batch do not mix.
TEST(Elementwise, ScalarsAreParameters) {
  const Tensor x = upload(DType::f32, {-3, 0, 3});
  EXPECT_EQ(download(binary(BinaryOp::minimum, x, kInf)), (std::vector<double>{-3, 0, 3}));
  const Tensor first = x + 1.5;
  const std::uint64_t compiled = test_device().stats().pipeline_misses;
  const Tensor inf = x + kInf, nan = x + kNaN, ten = x + 10, low = x - (-kInf);
  EXPECT_EQ(test_device().stats().pipeline_misses - compiled, 1u);  // of subtract
  EXPECT_EQ(download(ten), (std::vector<double>{7, 10, 13}));
  EXPECT_EQ(download(first), (std::vector<double>{-1.5, 1.5, 4.5}));
  EXPECT_EQ(download(inf), (std::vector<double>{kInf, kInf, kInf}));
  EXPECT_EQ(download(low), (std::vector<double>{kInf, kInf, kInf}));
  for (double v : download(nan)) EXPECT_TRUE(std::isnan(v));

  const Tensor i = upload(DType::i32, {7, -7, 0});
  EXPECT_EQ((i + 2).dtype(), DType::i32);
  EXPECT_EQ((i + 2.0).dtype(), DType::f32);
  EXPECT_EQ(download(binary(BinaryOp::floor_divide, i, 2)), (std::vector<double>{3, -4, 0}));
  EXPECT_EQ(download(binary(BinaryOp::floor_divide, 7, upload(DType::i32, {2, -2, 0}))),
            (std::vector<double>{3, -4, 0}));
  EXPECT_EQ(download(2 - i), (std::vector<double>{-5, 9, 2}));
  EXPECT_THROW(i + (std::int64_t{1} << 40), Error);
  EXPECT_EQ((upload(DType::bool_, {0, 1}) + 1).dtype(), DType::i32);
  EXPECT_EQ(download(upload(DType::bool_, {0, 1}) + true), (std::vector<double>{1, 1}));
}

// -- shapes and views
// ---------------------------------------------------------------------------------------------------------

std::vector<double> counted(DType t, std::int64_t n) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i)
    v.push_back(held(t, static_cast<double>(t == DType::bool_ ? i * 7 / 3 % 2 : i % 2000)));
  return v;
}

/// The elements of a view, read on the host from its whole buffer.
std::vector<double> on_host(const std::vector<double>& memory, const Shape& shape, const Strides& strides,
                            std::int64_t offset) {
  std::vector<double> out;
  const std::int64_t n = element_count(shape);
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t left = i, at = offset;
    for (std::size_t axis = shape.rank(); axis-- > 0;) {
      at += left % shape[axis] * strides[axis];
      left /= shape[axis];
    }
    out.push_back(memory[static_cast<std::size_t>(at)]);
  }
  return out;
}

struct View {
  Shape shape;
  Strides strides;
  std::int64_t offset;
};

const std::vector<View>& views() {
  static const std::vector<View> list = [] {
    std::vector<View> v;
    for (std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 256, 257}) {
      for (std::int64_t offset : {0, 1, 2, 3, 4, 64, 65}) v.push_back({{n}, {1}, offset});
      v.push_back({{n}, {2}, 1});
      v.push_back({{n}, {-1}, n + 2});
      v.push_back({{n}, {-3}, 3 * n});
      v.push_back({{n}, {0}, 5});
    }
    v.push_back({{}, {}, 3});
    v.push_back({{5, 7}, {7, 1}, 2});
    v.push_back({{5, 7}, {1, 5}, 0});
    v.push_back({{5, 8}, {8, 1}, 4});
    v.push_back({{5, 8}, {0, 1}, 4});  // a row for all
    v.push_back({{5, 8}, {0, 1}, 3});
    v.push_back({{5, 8}, {1, 0}, 3});  // a column for all
    v.push_back({{5, 8}, {16, 1}, 4});
    v.push_back({{5, 8}, {17, 1}, 4});
    v.push_back({{5, 8}, {-16, 1}, 64});
    v.push_back({{5, 8}, {16, -1}, 20});
    v.push_back({{5, 8}, {16, 2}, 1});
    v.push_back({{3, 4, 5}, {1, 3, 12}, 0});
    v.push_back({{3, 1, 5}, {5, 99, 1}, 1});
    v.push_back({{2, 3, 4}, {40, 0, 1}, 8});
    v.push_back({{2, 1, 3, 1, 2, 2, 1, 4}, {100, 0, 3, 7, 50, 11, 1, 2}, 6});
    v.push_back({{2, 2, 2, 2, 2, 2, 2, 2}, {1, 2, 4, 8, 16, 32, 64, 128}, 0});
    return v;
  }();
  return list;
}

TEST(Elementwise, ViewsAreReadAsTheyLie) {
  for (DType t : dtypes()) {
    const std::vector<double> memory = counted(t, 1024);
    const Tensor base = upload(t, memory);
    for (const View& view : views()) {
      const Tensor x(test_device(), base.buffer(), view.shape, view.strides, view.offset, t);
      const std::vector<double> expected = on_host(memory, view.shape, view.strides, view.offset);
      const Tensor copy = contiguous(x);
      ASSERT_TRUE(copy.is_contiguous());
      ASSERT_EQ(copy.shape(), view.shape);
      const std::string what = std::string(to_string(t)) + " " + to_string(view.shape) + " by " +
                               to_string(view.strides) + " from " + std::to_string(view.offset);
      ASSERT_EQ(download(copy), expected) << what;
      const std::vector<double> both = download(binary(BinaryOp::maximum, x, x));
      ASSERT_EQ(both, expected) << what;
    }
  }
}

TEST(Elementwise, OperandsBroadcast) {
  for (DType t : dtypes()) {
    for (auto [sa, sb] : std::vector<std::pair<Shape, Shape>>{{{5, 8}, {8}},
                                                              {{5, 7}, {7}},
                                                              {{5, 1}, {1, 8}},
                                                              {{5, 1}, {9}},
                                                              {{}, {6}},
                                                              {{3, 1, 4}, {2, 1}},
                                                              {{1}, {1, 1}},
                                                              {{4, 3, 5}, {4, 1, 1}}}) {
      const Shape shape = broadcast_shapes(sa, sb);
      const std::vector<double> a = counted(t, element_count(sa)), b = counted(t, element_count(sb));
      const auto spread = [&](const Shape& s) {
        Strides strides;
        const Strides own = contiguous_strides(s);
        for (std::size_t i = 0; i < shape.rank(); ++i) {
          const std::size_t lead = shape.rank() - s.rank();
          strides.push_back(i < lead || s[i - lead] == 1 ? 0 : own[i - lead]);
        }
        return strides;
      };
      const std::vector<double> wa = on_host(a, shape, spread(sa), 0), wb = on_host(b, shape, spread(sb), 0);
      const Tensor z = binary(BinaryOp::bit_or, cast(upload(t, a, sa), DType::i32), cast(upload(t, b, sb), DType::i32));
      const Tensor w = binary(BinaryOp::less, upload(t, a, sa), upload(t, b, sb));
      ASSERT_EQ(z.shape(), shape);
      const std::vector<double> got = download(z), less = download(w);
      for (std::size_t i = 0; i < wa.size(); ++i) {
        ASSERT_EQ(got[i], static_cast<double>(static_cast<int>(wa[i]) | static_cast<int>(wb[i])));
        ASSERT_EQ(less[i], wa[i] < wb[i]);
      }
    }
  }
  EXPECT_THROW(upload(DType::f32, {1, 2, 3}) + upload(DType::f32, {1, 2}), Error);
}

TEST(Elementwise, EmptyArraysGiveEmptyArrays) {
  for (DType t : dtypes()) {
    const Tensor x = test_device().zeros({3, 0, 2}, t);
    const std::uint64_t before = test_device().stats().dispatches;
    const Tensor y = unary(UnaryOp::exp, x);
    EXPECT_EQ(y.shape(), (Shape{3, 0, 2}));
    EXPECT_EQ((x + upload(t, {1, 0}, {2})).shape(), (Shape{3, 0, 2}));
    EXPECT_TRUE(download(y).empty());
    EXPECT_EQ(test_device().stats().dispatches, before);
  }
}

TEST(Elementwise, ContiguousCountsWhatItCopies) {
  const Tensor x = upload(DType::f32, counted(DType::f32, 12), {3, 4});
  const std::uint64_t before = test_device().stats().materialized;
  EXPECT_EQ(contiguous(x).buffer(), x.buffer());
  EXPECT_EQ(test_device().stats().materialized, before);
  const Tensor turned(test_device(), x.buffer(), {4, 3}, {1, 4}, 0, DType::f32);
  contiguous(turned);
  EXPECT_EQ(test_device().stats().materialized, before + 1);
}

// -- programs
// -----------------------------------------------------------------------------------------------------------------

TEST(Elementwise, AChainIsOneDispatch) {
  const std::vector<double> a = hard_values(DType::f32, 500), b = hard_values(DType::f32, 500, 2);
  ElementProgram p;
  const Tensor x = upload(DType::f32, a), y = upload(DType::f32, b);
  const std::int32_t product = p.binary(BinaryOp::multiply, p.input(x), p.input(y));
  const std::int32_t sum = p.binary(BinaryOp::add, product, p.scalar(0.5, DType::f32));
  const std::int32_t result = p.unary(UnaryOp::relu, sum);
  EXPECT_EQ(p.input(x), p.input(x));
  EXPECT_EQ(p.inputs().size(), 2u);
  EXPECT_EQ(p.operations(), 3u);
  const Stats before = test_device().stats();
  const Tensor z = p.run(test_device(), x.shape(), result);
  const Stats after = test_device().stats();
  EXPECT_EQ(after.dispatches - before.dispatches, 1u);
  EXPECT_EQ(after.fused_ops - before.fused_ops, 2u);
  const std::vector<double> got = download(z);
  for (std::size_t i = 0; i < a.size(); ++i) {
    volatile float step = static_cast<float>(a[i]) * static_cast<float>(b[i]);
    const double expected = real_unary(UnaryOp::relu, step + 0.5f);
    ASSERT_TRUE(agrees(got[i], expected, DType::f32, {})) << a[i] << " " << b[i] << " " << got[i];
  }
}

TEST(Elementwise, AProgramOfManyNodesAndSevenInputs) {
  constexpr std::size_t kCount = 333;
  ElementProgram p;
  std::vector<std::vector<double>> values;
  std::vector<std::int32_t> nodes;
  for (unsigned k = 0; k < ElementProgram::kMaxInputs; ++k) {
    std::mt19937 rng(k);
    std::uniform_real_distribution<float> near(-2, 2);
    values.emplace_back();
    for (std::size_t i = 0; i < kCount; ++i) values.back().push_back(near(rng));
    nodes.push_back(p.input(upload(DType::f32, values.back())));
  }
  std::vector<float> expected;
  for (std::size_t i = 0; i < kCount; ++i) {
    float v = static_cast<float>(values[0][i]);
    for (int round = 0; round < 20; ++round) {
      const auto other = static_cast<float>(values[static_cast<std::size_t>(round) % 7][i]);
      v = round % 3 == 0 ? v + other : round % 3 == 1 ? v * other : std::max(v, other);
    }
    expected.push_back(v);
  }
  std::int32_t v = nodes[0];
  for (std::size_t round = 0; round < 20; ++round) {
    const BinaryOp op = round % 3 == 0 ? BinaryOp::add : round % 3 == 1 ? BinaryOp::multiply : BinaryOp::maximum;
    v = p.binary(op, v, nodes[round % 7]);
  }
  const std::vector<float> got = p.run(test_device(), {kCount}, v).to_host<float>();
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(got[i], expected[i], 1e-5 * (1 + std::fabs(expected[i])));
  EXPECT_THROW(p.input(upload(DType::f32, {1})), Error);
}

TEST(Elementwise, IotaCountsInRowMajorOrder) {
  ElementProgram p;
  const std::int32_t index = p.iota();
  const std::vector<double> got = download(p.run(test_device(), {3, 5}, index));
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(got[i], static_cast<double>(i));
  const Tensor column = upload(DType::i32, {100, 200, 300}, {3, 1});
  const std::vector<double> sum =
      download(p.run(test_device(), {3, 5}, p.binary(BinaryOp::add, index, p.input(column))));
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(sum[i], static_cast<double>(i + 100 * (i / 5 + 1)));
}

// D6: exactly the elements of `out` change, whatever its offset and length; in place too.
TEST(Elementwise, RunIntoChangesNothingElse) {
  for (DType t : dtypes()) {
    const std::vector<double> guard(64, held(t, 9));
    for (std::int64_t offset : {0, 1, 2, 3, 4, 5, 31}) {
      for (std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 13}) {
        for (std::int64_t from : {0, 1, 3}) {
          const Tensor target = upload(t, guard);
          const Tensor out(test_device(), target.buffer(), {n}, {1}, offset, t);
          const std::vector<double> memory = counted(t, 64);
          const Tensor source = upload(t, memory);
          ElementProgram p;
          const std::int32_t x = p.input(Tensor(test_device(), source.buffer(), {n}, {1}, from, t));
          p.run_into(out, t == DType::bool_ ? p.unary(UnaryOp::invert, x) : p.binary(BinaryOp::maximum, x, x));
          std::vector<double> expected = guard;
          for (std::int64_t i = 0; i < n; ++i) {
            const double v = memory[static_cast<std::size_t>(from + i)];
            expected[static_cast<std::size_t>(offset + i)] = t == DType::bool_ ? v == 0 : v;
          }
          ASSERT_EQ(download(target), expected) << to_string(t) << " " << offset << " " << n << " " << from;
        }
        const std::vector<double> memory = counted(t, 64);
        const Tensor target = upload(t, memory);
        const Tensor out(test_device(), target.buffer(), {n}, {1}, offset, t);
        ElementProgram p;
        const std::int32_t x = p.input(out);
        const bool flips = t == DType::bool_;
        p.run_into(out, flips ? p.unary(UnaryOp::invert, x) : p.binary(BinaryOp::add, x, p.scalar(1, t)));
        std::vector<double> expected = memory;
        for (std::int64_t i = offset; i < offset + n; ++i) {
          double& v = expected[static_cast<std::size_t>(i)];
          v = flips ? v == 0 : v + 1;
        }
        ASSERT_EQ(download(target), expected) << to_string(t) << " in place " << offset << " " << n;
      }
    }
  }
}

TEST(Elementwise, OverlapWithTheOutputIsRefusedByName) {
  const Tensor x = upload(DType::f32, counted(DType::f32, 16));
  const Tensor low(test_device(), x.buffer(), {8}, {1}, 0, DType::f32);
  const Tensor high(test_device(), x.buffer(), {8}, {1}, 1, DType::f32);
  const std::uint64_t before = test_device().stats().dispatches;
  ElementProgram p;
  const std::int32_t a = p.input(high);
  try {
    p.run_into(low, a);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_NE(e.message().find("input 0"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("the output"), std::string::npos) << e.message();
  }
  EXPECT_EQ(test_device().stats().dispatches, before);
  EXPECT_EQ(download(x), counted(DType::f32, 16));
}

// D32, D33: past 65,535 groups and past the binding limit.
TEST(Elementwise, ArraysPastTheLimitsAreWorkedInPieces) {
  constexpr std::int64_t kRows = 5900, kColumns = 6001;  // 142 MB of f32, over lavapipe's 128 MiB
  ElementProgram p;
  const Tensor x = p.run(test_device(), {kRows, kColumns}, p.cast(p.iota(), DType::u32));
  const Tensor flat(test_device(), x.buffer(), {kRows * kColumns}, {1}, 0, DType::u32);
  const Tensor turned(test_device(), x.buffer(), {kColumns, kRows}, {1, kColumns}, 0, DType::u32);
  const auto check = [](const Tensor& t, std::int64_t at, std::uint32_t expected) {
    const Tensor one(test_device(), t.buffer(), {1}, {1}, at, DType::u32);
    EXPECT_EQ(one.to_host<std::uint32_t>()[0], expected) << at;
  };
  const Tensor copy = contiguous(turned);
  for (std::int64_t at : {std::int64_t{0}, std::int64_t{1}, kRows, kRows * 3000 + 2949, kRows * 3001 + 2950,
                          kRows * kColumns / 2, kRows * kColumns - 2, kRows * kColumns - 1}) {
    check(x, at, static_cast<std::uint32_t>(at));
    check(copy, at, static_cast<std::uint32_t>(at % kRows * kColumns + at / kRows));
  }
  // All of it: the difference to what it should be has no element but 0.
  const Tensor again = contiguous(Tensor(test_device(), copy.buffer(), {kRows, kColumns}, {1, kRows}, 0, DType::u32));
  const std::vector<std::uint32_t> host = again.to_host<std::uint32_t>();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < host.size(); ++i) wrong += host[i] != i;
  EXPECT_EQ(wrong, 0u);
}

TEST(ElementMath, EachFunctionListsWhatItCalls) {
  for (const ops::MathFunction& f : ops::math_functions()) {
    ops::MathSet set;
    set.need(f.name);
    EXPECT_NE(set.source().find(std::string(f.source.substr(1))), std::string::npos) << f.name;
    EXPECT_EQ(set.reads_params(), set.source().find("params.zero") != std::string::npos) << f.name;
  }
}

// D11: every kernel that an op can come to compiles.
TEST(Elementwise, EveryKernelCompiles) {
  testing::expect_kernels_compile(test_device(), ops::elementwise_family());
}

}  // namespace
}  // namespace weft
