// The rules of shapes and dtypes; no device. numpy and Python are the reference.
#include "ops/infer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "unit/thrown.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

using testing::Thrown;
using testing::thrown;

constexpr std::array kDTypes{DType::bool_, DType::i32, DType::u32, DType::f16, DType::f32};

#define EXPECT_ERROR(call, wanted_code, wanted_text)             \
  do {                                                           \
    const Thrown got = thrown([&] { static_cast<void>(call); }); \
    ASSERT_TRUE(got.code.has_value()) << "nothing thrown";       \
    EXPECT_EQ(to_string(*got.code), to_string(wanted_code));     \
    EXPECT_EQ(got.text, wanted_text);                            \
  } while (false)

// -- dtypes ---------------------------------------------------------------------------------------------------------

TEST(Promote, TableIsComplete) {
  constexpr auto b = DType::bool_, i = DType::i32, u = DType::u32, h = DType::f16, f = DType::f32;
  // Rows and columns: bool, i32, u32, f16, f32.
  constexpr DType kTable[5][5] = {{b, i, u, h, f}, {i, i, i, f, f}, {u, i, u, f, f}, {h, f, f, h, f}, {f, f, f, f, f}};
  for (std::size_t r = 0; r < 5; ++r) {
    for (std::size_t c = 0; c < 5; ++c) {
      EXPECT_EQ(promote(kDTypes[r], kDTypes[c]), kTable[r][c]) << to_string(kDTypes[r]) << " " << to_string(kDTypes[c]);
      EXPECT_EQ(promote(kDTypes[r], kDTypes[c]), promote(kDTypes[c], kDTypes[r]));
    }
  }
}

TEST(Promote, ScalarsAreWeak) {
  for (DType t : kDTypes) EXPECT_EQ(promote(t, Scalar(true)), t);
  EXPECT_EQ(promote(DType::bool_, Scalar(300)), DType::i32);
  EXPECT_EQ(promote(DType::i32, Scalar(-5)), DType::i32);
  EXPECT_EQ(promote(DType::u32, Scalar(5)), DType::u32);
  EXPECT_EQ(promote(DType::f16, Scalar(70000)), DType::f16);
  EXPECT_EQ(promote(DType::f32, Scalar(std::int64_t{1} << 40)), DType::f32);
  EXPECT_EQ(promote(DType::bool_, Scalar(0.5)), DType::f32);
  EXPECT_EQ(promote(DType::i32, Scalar(0.5)), DType::f32);
  EXPECT_EQ(promote(DType::u32, Scalar(0.5F)), DType::f32);
  EXPECT_EQ(promote(DType::f16, Scalar(1e30)), DType::f16);
  EXPECT_EQ(promote(DType::f32, Scalar(1e300)), DType::f32);
}

TEST(Promote, IntegersThatDoNotFitAreRefused) {
  EXPECT_EQ(promote(DType::i32, Scalar(std::int64_t{2147483647})), DType::i32);
  EXPECT_EQ(promote(DType::i32, Scalar(std::int64_t{-2147483648})), DType::i32);
  EXPECT_EQ(promote(DType::u32, Scalar(4294967295U)), DType::u32);
  EXPECT_ERROR(promote(DType::i32, Scalar(std::int64_t{1} << 40)), ErrorCode::invalid_argument,
               "the number 1099511627776 does not fit int32, which it meets. Fix: use a number from -2147483648 to "
               "2147483647, or cast the array to float32.");
  EXPECT_ERROR(promote(DType::u32, Scalar(-1)), ErrorCode::invalid_argument,
               "the number -1 does not fit uint32, which it meets. Fix: use a number from 0 to 4294967295, or cast the "
               "array to float32.");
  EXPECT_TRUE(thrown([] { promote(DType::bool_, Scalar(std::int64_t{1} << 31)); }).code.has_value());
  EXPECT_TRUE(thrown([] { promote(DType::i32, Scalar(std::int64_t{1} << 31)); }).code.has_value());
  EXPECT_TRUE(thrown([] { promote(DType::i32, Scalar(-(std::int64_t{1} << 31) - 1)); }).code.has_value());
  EXPECT_TRUE(thrown([] { promote(DType::u32, Scalar(std::int64_t{1} << 32)); }).code.has_value());
}

// Result dtypes in the order bool, i32, u32, f16, f32; '-' where the op refuses. As numpy, with 64 bits made 32.
std::string unary_results(UnaryOp op) {
  std::string out;
  for (DType t : kDTypes) {
    try {
      out += "biuhf"[static_cast<std::size_t>(unary_types(op, t).result)];
    } catch (const Error&) {
      out += '-';
    }
  }
  return out;
}

TEST(Types, UnaryResults) {
  const std::map<std::string, std::vector<UnaryOp>> table{
      {"-iuhf", {UnaryOp::negative, UnaryOp::positive, UnaryOp::sign}},
      {"biu--", {UnaryOp::invert}},
      {"biuhf",
       {UnaryOp::abs, UnaryOp::square, UnaryOp::reciprocal, UnaryOp::floor, UnaryOp::ceil, UnaryOp::round,
        UnaryOp::trunc, UnaryOp::relu}},
      {"bbbbb", {UnaryOp::logical_not, UnaryOp::isnan, UnaryOp::isinf, UnaryOp::isfinite}},
      {"fffhf",
       {UnaryOp::exp, UnaryOp::expm1, UnaryOp::exp2, UnaryOp::log, UnaryOp::log1p, UnaryOp::log2, UnaryOp::sqrt,
        UnaryOp::rsqrt, UnaryOp::sin, UnaryOp::cos, UnaryOp::tan, UnaryOp::tanh, UnaryOp::sigmoid, UnaryOp::gelu,
        UnaryOp::gelu_tanh, UnaryOp::silu, UnaryOp::erf}},
  };
  std::size_t covered = 0;
  for (const auto& [results, ops] : table) {
    for (UnaryOp op : ops) EXPECT_EQ(unary_results(op), results) << to_string(op);
    covered += ops.size();
  }
  EXPECT_EQ(covered, static_cast<std::size_t>(UnaryOp::isfinite) + 1);
}

TEST(Types, BinaryResults) {
  const std::map<std::string, std::vector<BinaryOp>> table{
      {"biuhf", {BinaryOp::add, BinaryOp::multiply, BinaryOp::minimum, BinaryOp::maximum}},
      {"-iuhf", {BinaryOp::subtract}},
      {"fffhf", {BinaryOp::divide, BinaryOp::atan2}},
      {"iiuhf", {BinaryOp::floor_divide, BinaryOp::remainder, BinaryOp::power, BinaryOp::fmod}},
      {"bbbbb",
       {BinaryOp::equal, BinaryOp::not_equal, BinaryOp::less, BinaryOp::less_equal, BinaryOp::greater,
        BinaryOp::greater_equal}},
      {"biu--", {BinaryOp::bit_and, BinaryOp::bit_or, BinaryOp::bit_xor}},
      {"iiu--", {BinaryOp::shift_left, BinaryOp::shift_right}},
  };
  std::size_t covered = 0;
  for (const auto& [results, ops] : table) {
    for (BinaryOp op : ops) {
      std::string got;
      for (DType t : kDTypes) {
        try {
          got += "biuhf"[static_cast<std::size_t>(binary_types(op, t).result)];
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
          got += '-';
        }
      }
      EXPECT_EQ(got, results) << to_string(op);
    }
    covered += ops.size();
  }
  EXPECT_EQ(covered, static_cast<std::size_t>(BinaryOp::fmod) + 1);
}

TEST(Types, HalvesComputeInFloat) {
  EXPECT_EQ(unary_types(UnaryOp::exp, DType::f16).compute, DType::f32);
  EXPECT_EQ(binary_types(BinaryOp::add, DType::f16).compute, DType::f32);
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::prod, ReduceOp::max, ReduceOp::argmin}) {
    EXPECT_EQ(reduce_types(op, DType::f16).compute, DType::f32) << to_string(op);
  }
}

TEST(Types, ReduceResults) {
  const std::map<std::string, std::vector<ReduceOp>> table{
      {"iiuhf", {ReduceOp::sum, ReduceOp::prod}},      {"fffhf", {ReduceOp::mean}},
      {"biuhf", {ReduceOp::max, ReduceOp::min}},       {"bbbbb", {ReduceOp::any, ReduceOp::all}},
      {"iiiii", {ReduceOp::argmax, ReduceOp::argmin}},
  };
  for (const auto& [results, ops] : table) {
    for (ReduceOp op : ops) {
      std::string got;
      for (DType t : kDTypes) got += "biuhf"[static_cast<std::size_t>(reduce_types(op, t).result)];
      EXPECT_EQ(got, results) << to_string(op);
    }
  }
}

TEST(Types, RefusalNamesOpAndDtype) {
  EXPECT_ERROR(unary_types(UnaryOp::negative, DType::bool_), ErrorCode::invalid_argument,
               "negative is not defined for bool. Fix: use logical_not (~x), or cast it to int32 first.");
  EXPECT_ERROR(binary_types(BinaryOp::shift_left, DType::f32), ErrorCode::invalid_argument,
               "left_shift is not defined for float32. Fix: cast both to int32 first.");
}

TEST(Types, NumbersThatNoIntegerEqualsAreComparedExactly) {
  constexpr std::int64_t kLow = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t kHigh = std::numeric_limits<std::int32_t>::max();
  const auto holds = [](BinaryOp op, double x, double n) {
    switch (op) {
      case BinaryOp::equal: return x == n;
      case BinaryOp::not_equal: return x != n;
      case BinaryOp::less: return x < n;
      case BinaryOp::less_equal: return x <= n;
      case BinaryOp::greater: return x > n;
      default: return x >= n;
    }
  };
  for (const double n :
       {0.0, -0.0, 0.5, -0.5, 2.5, 16777217.0, -2147483648.0, -2147483648.5, 2147483646.5, 2147483647.0, 2147483647.5,
        4294967296.0, 1e300, -1e300, std::numeric_limits<double>::infinity()}) {
    for (const BinaryOp op : {BinaryOp::equal, BinaryOp::not_equal, BinaryOp::less, BinaryOp::less_equal,
                              BinaryOp::greater, BinaryOp::greater_equal}) {
      const auto fitting = comparison_beside(DType::i32, op, Scalar(n));
      ASSERT_TRUE(fitting) << n;
      const auto number = std::get<std::int64_t>(fitting->number.value);
      EXPECT_TRUE(number >= kLow && number <= kHigh) << number;
      for (const std::int64_t x : {kLow, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{2},
                                   std::int64_t{3}, std::int64_t{16777216}, std::int64_t{16777217}, kHigh - 1, kHigh}) {
        EXPECT_EQ(holds(fitting->op, static_cast<double>(x), static_cast<double>(number)),
                  holds(op, static_cast<double>(x), n))
            << x << ' ' << to_string(op) << ' ' << n;
      }
    }
  }
  EXPECT_FALSE(comparison_beside(DType::i32, BinaryOp::equal, Scalar(std::nan(""))));
  EXPECT_FALSE(comparison_beside(DType::f32, BinaryOp::equal, Scalar(0.5)));
}

TEST(Names, AreNumpysAndDistinct) {
  EXPECT_EQ(to_string(UnaryOp::negative), "negative");
  EXPECT_EQ(to_string(BinaryOp::floor_divide), "floor_divide");
  EXPECT_EQ(to_string(BinaryOp::atan2), "arctan2");
  EXPECT_EQ(to_string(ReduceOp::argmax), "argmax");
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(UnaryOp::isfinite); ++i) names.insert(to_string(static_cast<UnaryOp>(i)));
  for (int i = 0; i <= static_cast<int>(BinaryOp::fmod); ++i) names.insert(to_string(static_cast<BinaryOp>(i)));
  EXPECT_EQ(names.size(), std::size_t{33 + 22});
  EXPECT_FALSE(names.contains("?"));
}

// -- axes -----------------------------------------------------------------------------------------------------------

TEST(Axes, CountFromBothEnds) {
  const Shape shape{2, 3, 4};
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(normalize_axis("sum", i, shape), static_cast<std::size_t>(i));
    EXPECT_EQ(normalize_axis("sum", i - 3, shape), static_cast<std::size_t>(i));
  }
}

TEST(Axes, OutOfRangeShowsShapeAndRange) {
  EXPECT_ERROR(
      normalize_axis("softmax", 3, Shape{2, 3, 4}), ErrorCode::out_of_range,
      "softmax: axis 3 is out of range for a tensor of 3 dimensions (2, 3, 4). Fix: use an axis from -3 to 2.");
  EXPECT_ERROR(normalize_axis("sum", -2, Shape{5}), ErrorCode::out_of_range,
               "sum: axis -2 is out of range for a tensor of 1 dimension (5,). Fix: use an axis from -1 to 0.");
  EXPECT_ERROR(normalize_axis("sum", 0, Shape{}), ErrorCode::out_of_range,
               "sum: axis 0 is out of range for a tensor of 0 dimensions (). Fix: give it an axis first (reshape or "
               "expand_dims).");
  EXPECT_TRUE(thrown([] { normalize_axis("sum", INT64_MIN, Shape{5}); }).code.has_value());
}

TEST(Axes, SortedAndOnce) {
  using Axes = std::vector<std::int64_t>;
  const Shape shape{2, 3, 4};
  EXPECT_EQ(normalize_axes("sum", Axes{-1, 0}, shape), (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(normalize_axes("sum", std::nullopt, shape), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(normalize_axes("sum", Axes{}, shape), std::vector<std::size_t>{});
  EXPECT_ERROR(
      normalize_axes("sum", Axes{1, -2}, shape), ErrorCode::invalid_argument,
      "sum: axis 1 is given twice, in (1, -2) for a tensor of 3 dimensions (2, 3, 4). Fix: name each axis once.");
}

TEST(Axes, Transpose) {
  using Order = std::vector<std::size_t>;
  const Shape shape{2, 3, 4};
  EXPECT_EQ(transpose_axes(shape, {}), (Order{2, 1, 0}));
  EXPECT_EQ(transpose_axes(shape, std::array<std::int64_t, 3>{1, -1, 0}), (Order{1, 2, 0}));
  EXPECT_EQ(transpose_axes(Shape{}, {}), Order{});
  EXPECT_ERROR(
      transpose_axes(shape, std::array<std::int64_t, 3>{0, 1, -2}), ErrorCode::invalid_argument,
      "transpose: axis 1 is given twice, in (0, 1, -2) for a tensor of 3 dimensions (2, 3, 4). Fix: name every "
      "axis once.");
  EXPECT_ERROR(transpose_axes(shape, std::array<std::int64_t, 1>{0}), ErrorCode::invalid_argument,
               "transpose: axes (0,) given for a tensor of 3 dimensions (2, 3, 4). Fix: name every axis once.");
  EXPECT_EQ(*thrown([&] { transpose_axes(shape, std::array<std::int64_t, 3>{0, 1, 3}); }).code,
            ErrorCode::out_of_range);
}

// -- shapes ---------------------------------------------------------------------------------------------------------

TEST(Shapes, Broadcasting) {
  EXPECT_EQ(broadcast_shapes({2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));  // S12
  EXPECT_EQ(broadcast_shapes({1}, {0}), (Shape{0}));
  EXPECT_EQ(broadcast_shapes({}, {5, 1}), (Shape{5, 1}));
  EXPECT_EQ(broadcast_shapes({5, 1}, {1, 7}), (Shape{5, 7}));
  const Thrown got = thrown([] { broadcast_shapes({2, 3}, {4, 3}); });
  EXPECT_EQ(got.code, ErrorCode::invalid_argument);
  EXPECT_NE(got.text.find("(2, 3) and (4, 3)"), std::string::npos) << got.text;
}

TEST(Shapes, Reduce) {
  using Axes = std::vector<std::int64_t>;
  const Shape x{2, 3, 4};
  EXPECT_EQ(reduce_shape(ReduceOp::sum, x, {}), Shape{});
  EXPECT_EQ(reduce_shape(ReduceOp::sum, x, {.axes = {}, .keepdims = true}), (Shape{1, 1, 1}));
  EXPECT_EQ(reduce_shape(ReduceOp::sum, x, {.axes = Axes{1}}), (Shape{2, 4}));
  EXPECT_EQ(reduce_shape(ReduceOp::sum, x, {.axes = Axes{-1, 0}, .keepdims = true}), (Shape{1, 3, 1}));
  EXPECT_EQ(reduce_shape(ReduceOp::sum, x, {.axes = Axes{}}), x);
  EXPECT_EQ(reduce_shape(ReduceOp::argmax, x, {.axes = Axes{-1}}), (Shape{2, 3}));
  EXPECT_EQ(reduce_shape(ReduceOp::argmax, x, {.axes = {}, .keepdims = true}), (Shape{1, 1, 1}));
  EXPECT_EQ(reduce_shape(ReduceOp::sum, {0, 3}, {.axes = Axes{0}}), (Shape{3}));
  EXPECT_EQ(reduce_shape(ReduceOp::max, {0, 3}, {.axes = Axes{1}}), (Shape{0}));
  EXPECT_ERROR(
      reduce_shape(ReduceOp::max, {0, 3}, {.axes = Axes{0}}), ErrorCode::invalid_argument,
      "max: no elements to reduce: axis 0 of shape (0, 3) has length 0. Fix: reduce axes that have elements, or "
      "test for the empty array first.");
  for (ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::argmax, ReduceOp::argmin}) {
    EXPECT_EQ(thrown([&] { reduce_shape(op, {0}, {}); }).code, ErrorCode::invalid_argument) << to_string(op);
    EXPECT_EQ(thrown([&] { reduce_shape(op, {0, 0}, {.axes = Axes{0}}); }).code, ErrorCode::invalid_argument);
  }
  EXPECT_ERROR(reduce_shape(ReduceOp::argmin, x, {.axes = Axes{0, 1}}), ErrorCode::invalid_argument,
               "argmin: 2 axes given, (0, 1). Fix: give one axis, or none for the flattened array.");
}

TEST(Shapes, Matmul) {
  EXPECT_EQ(matmul_shape({2, 3}, {3, 4}), (Shape{2, 4}));
  EXPECT_EQ(matmul_shape({3}, {3}), Shape{});
  EXPECT_EQ(matmul_shape({3}, {3, 4}), (Shape{4}));
  EXPECT_EQ(matmul_shape({2, 3}, {3}), (Shape{2}));
  EXPECT_EQ(matmul_shape({5, 1, 2, 3}, {7, 3, 4}), (Shape{5, 7, 2, 4}));
  EXPECT_EQ(matmul_shape({3}, {7, 3, 4}), (Shape{7, 4}));
  EXPECT_EQ(matmul_shape({7, 2, 3}, {3}), (Shape{7, 2}));
  EXPECT_EQ(matmul_shape({2, 0}, {0, 4}), (Shape{2, 4}));
  EXPECT_ERROR(
      matmul_shape({2, 3}, {4, 5}), ErrorCode::invalid_argument,
      "matmul: shapes (2, 3) and (4, 5) don't fit: inner lengths 3 and 4 differ. Fix: make the last axis of the "
      "first as long as the last but one of the second (transpose one?).");
  EXPECT_ERROR(matmul_shape({2, 2, 3}, {5, 3, 4}), ErrorCode::invalid_argument,
               "matmul: batch axes (2,) and (5,) of shapes (2, 2, 3) and (5, 3, 4) don't broadcast. Fix: make their "
               "lengths equal, or one of them 1.");
  EXPECT_EQ(thrown([] { matmul_shape({}, {3}); }).code, ErrorCode::invalid_argument);
}

TEST(Shapes, Concat) {
  using Parts = std::vector<Shape>;
  EXPECT_EQ(concat_shape(Parts{{2, 3}, {4, 3}, {0, 3}}, 0), (Shape{6, 3}));
  EXPECT_EQ(concat_shape(Parts{{2, 3}, {2, 1}}, -1), (Shape{2, 4}));
  EXPECT_ERROR(concat_shape(Parts{}, 0), ErrorCode::invalid_argument,
               "concat: no arrays given. Fix: give at least one.");
  EXPECT_ERROR(
      concat_shape(Parts{{2, 3}, {2, 4}}, 0), ErrorCode::invalid_argument,
      "concat: shapes (2, 3) (array 0) and (2, 4) (array 1) differ on axis 1, and are joined on axis 0. Fix: make "
      "all lengths but that of the joined axis equal.");
  EXPECT_ERROR(
      concat_shape(Parts{{2, 3}, {3}}, 0), ErrorCode::invalid_argument,
      "concat: array 0 has 2 dimensions (2, 3), and array 1 has 1 dimension (3,). Fix: give all the same number "
      "of axes (expand_dims).");
  EXPECT_EQ(thrown([] { concat_shape(Parts{{}, {}}, 0); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([] { concat_shape(Parts{{2}, {2}}, 1); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([] { concat_shape(Parts{{INT64_MAX}, {1}}, 0); }).code, ErrorCode::out_of_range);
}

TEST(Shapes, Take) {
  EXPECT_EQ(take_shape({5, 6, 7}, {2, 3}, 1), (Shape{5, 2, 3, 7}));
  EXPECT_EQ(take_shape({5, 6, 7}, {}, -1), (Shape{5, 6}));
  EXPECT_EQ(take_shape({5, 6}, {2, 2}, std::nullopt), (Shape{2, 2}));
  EXPECT_EQ(take_shape({0, 6}, {0}, 0), (Shape{0, 6}));
  EXPECT_EQ(thrown([] { take_shape({0, 6}, {1}, 0); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([] { take_shape({0, 6}, {1}, std::nullopt); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([] { take_shape({5}, {1}, 1); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([] { take_shape({1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, 0); }).code, ErrorCode::invalid_argument);
}

TEST(Shapes, Reshape) {
  EXPECT_EQ(reshape_shape({2, 6}, {3, 4}), (Shape{3, 4}));
  EXPECT_EQ(reshape_shape({2, 6}, {-1}), (Shape{12}));
  EXPECT_EQ(reshape_shape({2, 6}, {3, -1, 2}), (Shape{3, 2, 2}));
  EXPECT_EQ(reshape_shape({}, {-1}), (Shape{1}));
  EXPECT_EQ(reshape_shape({1, 1}, {}), Shape{});
  EXPECT_EQ(reshape_shape({0, 3}, {-1, 3}), (Shape{0, 3}));
  EXPECT_EQ(reshape_shape({0, 3}, {5, 0}), (Shape{5, 0}));
  EXPECT_ERROR(reshape_shape({2, 6}, {5, 2}), ErrorCode::invalid_argument,
               "reshape: shape (2, 6) has 12 elements, which (5, 2) can't hold. Fix: use lengths whose product is 12.");
  EXPECT_ERROR(
      reshape_shape({2, 6}, {5, -1}), ErrorCode::invalid_argument,
      "reshape: shape (2, 6) has 12 elements, which (5, -1) can't hold. Fix: use lengths whose product divides "
      "12.");
  EXPECT_ERROR(reshape_shape({12}, {-1, -1}), ErrorCode::invalid_argument,
               "reshape: more than one -1 in (-1, -1). Fix: leave one length open at most.");
  EXPECT_EQ(thrown([] { reshape_shape({0, 3}, {0, -1}); }).code, ErrorCode::invalid_argument);  // as numpy
  EXPECT_EQ(thrown([] { reshape_shape({6}, {-2, 3}); }).code, ErrorCode::invalid_argument);
}

// -- slices ---------------------------------------------------------------------------------------------------------

using Bound = std::optional<std::int64_t>;

/// Python's rules, walked step by step.
std::vector<std::int64_t> walk(std::int64_t length, Bound start, Bound stop, std::int64_t step) {
  const auto place = [&](std::int64_t v) { return v < 0 ? v + length : v; };
  std::vector<std::int64_t> out;
  if (step > 0) {
    std::int64_t at = start ? place(*start) : 0;
    const std::int64_t end = stop ? place(*stop) : length;
    if (at < 0) at = 0;
    for (; at < end && at < length; at += step) out.push_back(at);
  } else {
    std::int64_t at = start ? place(*start) : length - 1;
    const std::int64_t end = stop ? place(*stop) : -1;
    if (at >= length) at = length - 1;
    for (; at > end && at >= 0; at += step) out.push_back(at);
  }
  return out;
}

TEST(Slices, EveryStartStopStepOfShortAxes) {
  std::vector<Bound> bounds{std::nullopt};
  for (std::int64_t v = -7; v <= 7; ++v) bounds.push_back(v);
  std::size_t cases = 0;
  for (std::int64_t length = 0; length <= 6; ++length) {
    for (Bound start : bounds) {
      for (Bound stop : bounds) {
        for (std::int64_t step = -7; step <= 7; ++step) {
          if (step == 0) continue;
          ++cases;
          const SliceRange range = slice_range(length, start, stop, step);
          const std::vector<std::int64_t> wanted = walk(length, start, stop, step);
          ASSERT_EQ(range.count, static_cast<std::int64_t>(wanted.size()))
              << length << " [" << start.value_or(99) << ":" << stop.value_or(99) << ":" << step << "]";
          ASSERT_EQ(range.step, step);
          if (!wanted.empty()) {
            ASSERT_EQ(range.start, wanted.front());
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, std::size_t{7 * 16 * 16 * 14});
}

// slice(start, stop, step).indices(length) of CPython 3.11, and the number of indices.
TEST(Slices, AsPythonPrintsThem) {
  struct Case {
    std::int64_t length;
    Bound start, stop;
    std::int64_t step, first, count;
  };
  constexpr auto kNone = std::nullopt;
  const Case cases[] = {
      {4, 0, 3, -1, 0, 0},     {6, 6, -1, 4, 6, 0},    {0, -3, -5, 2, 0, 0},   {6, -1, 4, 2, 5, 0},
      {0, -1, kNone, 1, 0, 0}, {3, 0, -3, 7, 0, 0},    {6, 4, -3, -1, 4, 1},   {1, 6, -4, -5, 0, 1},
      {0, kNone, -2, 1, 0, 0}, {1, -3, 1, -2, -1, 0},  {1, -2, -3, 1, 0, 0},   {3, 1, kNone, -2, 1, 1},
      {3, -3, -4, -1, 0, 1},   {2, 1, kNone, 3, 1, 1}, {5, 2, -6, -2, 2, 2},   {6, 1, 7, 5, 1, 1},
      {2, -3, 7, 1, 0, 2},     {0, 0, kNone, 5, 0, 0}, {2, 4, kNone, 2, 2, 0}, {2, 4, kNone, 1, 2, 0},
      {0, -3, -2, 1, 0, 0},    {6, 6, 3, 2, 6, 0},     {2, 0, 6, -2, 0, 0},    {6, 1, -7, -1, 1, 2},
      {0, -2, 2, -2, -1, 0},   {1, 2, 0, 5, 1, 0},     {4, -6, 1, -2, -1, 0},  {2, -3, -6, 4, 0, 0},
      {1, 1, 7, -1, 0, 0},     {0, 4, -7, -4, -1, 0},  {5, 3, 0, 2, 3, 0},     {1, -7, -7, 6, 0, 0},
      {3, 2, -2, 1, 2, 0},     {5, 5, -5, -5, 4, 1},   {3, 3, -4, 2, 3, 0},    {2, -4, 6, 3, 0, 1},
      {6, -3, 6, -2, 3, 0},    {3, 0, 1, 1, 0, 1},     {3, -4, -5, 1, 0, 0},   {5, 7, 2, -5, 4, 1},
      {0, 7, 0, -2, -1, 0},    {0, 3, -7, 6, 0, 0},    {2, 3, 0, 2, 2, 0},     {2, 1, 2, 4, 1, 1},
      {1, kNone, 7, -2, 0, 0}, {2, 0, 6, -3, 0, 0},    {6, 3, 3, -2, 3, 0},    {5, 5, 3, 7, 5, 0},
  };
  for (const Case& c : cases) {
    const SliceRange range = slice_range(c.length, c.start, c.stop, c.step);
    EXPECT_EQ(range.start, c.first) << c.length << " step " << c.step;
    EXPECT_EQ(range.count, c.count) << c.length << " step " << c.step;
  }
}

TEST(Slices, Extremes) {
  constexpr std::int64_t kMin = INT64_MIN, kMax = INT64_MAX;
  EXPECT_EQ(slice_range(5, kMin, kMax, 1).count, 5);
  EXPECT_EQ(slice_range(5, kMax, kMin, -1).count, 5);
  EXPECT_EQ(slice_range(5, std::nullopt, std::nullopt, kMin).count, 1);
  EXPECT_EQ(slice_range(5, std::nullopt, std::nullopt, kMax).count, 1);
  EXPECT_EQ(slice_range(kMax, std::nullopt, std::nullopt, -1).count, kMax);
  EXPECT_ERROR(slice_range(5, 0, 1, 0), ErrorCode::invalid_argument,
               "slice: the step is 0. Fix: use a step of 1 or more, or of -1 or less.");
}

// -- strides of a reshape -------------------------------------------------------------------------------------------

/// Where each element lies, in row-major order.
std::vector<std::int64_t> places(const Shape& shape, const Strides& strides) {
  std::vector<std::int64_t> out{0};
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    std::vector<std::int64_t> next;
    for (std::int64_t base : out) {
      for (std::int64_t i = 0; i < shape[axis]; ++i) next.push_back(base + i * strides[axis]);
    }
    out = std::move(next);
  }
  return out;
}

/// Strides for `wanted` that show exactly `at`, if there are: each must be the distance to the next element of its
/// axis.
std::optional<Strides> strides_by_search(const std::vector<std::int64_t>& at, const Shape& wanted) {
  const Strides dense = contiguous_strides(wanted);
  Strides out = wanted;
  for (std::size_t i = 0; i < wanted.rank(); ++i) {
    out[i] = wanted[i] > 1 ? at[static_cast<std::size_t>(dense[i])] - at[0] : 0;
  }
  if (places(wanted, out) == at) return out;
  return std::nullopt;
}

void shapes_of(std::int64_t count, const Shape& head, std::size_t rank, std::vector<Shape>& out) {
  if (rank == 0) {
    if (count == 1) out.push_back(head);
    return;
  }
  for (std::int64_t n = 1; n <= count; ++n) {
    if (count % n != 0) continue;
    Shape next = head;
    next.push_back(n);
    shapes_of(count / n, next, rank - 1, out);
  }
}

TEST(ReshapeStrides, AViewExactlyWhereThereIsOne) {
  std::size_t views = 0;
  std::size_t copies = 0;
  for (std::int64_t count : {1, 4, 6, 8, 12}) {
    std::vector<Shape> shapes;
    for (std::size_t rank = 0; rank <= 3; ++rank) shapes_of(count, Shape{}, rank, shapes);
    std::vector<Shape> targets = shapes;
    shapes_of(count, Shape{}, 4, targets);
    for (const Shape& shape : shapes) {
      // Dense strides in every order of axes, each axis as is, reversed, with gaps, and repeated.
      std::vector<std::size_t> order(shape.rank());
      std::iota(order.begin(), order.end(), std::size_t{0});
      do {
        for (int variant = 0; variant < 1 << (2 * shape.rank()); ++variant) {
          Strides strides = shape;
          std::int64_t step = 1;
          for (std::size_t k = order.size(); k-- > 0;) {
            const std::size_t axis = order[k];
            constexpr std::array<std::int64_t, 4> kFactors{1, -1, 2, 0};
            const std::int64_t factor = kFactors[static_cast<std::size_t>(variant >> (2 * axis)) & 3U];
            strides[axis] = step * factor;
            step *= shape[axis] * (factor == 2 ? 2 : 1);
          }
          const std::vector<std::int64_t> at = places(shape, strides);
          for (const Shape& wanted : targets) {
            const auto got = reshape_strides(shape, strides, wanted);
            const auto exists = strides_by_search(at, wanted);
            ASSERT_EQ(got.has_value(), exists.has_value())
                << to_string(shape) << " strides " << to_string(strides) << " to " << to_string(wanted);
            if (got) {
              ASSERT_EQ(places(wanted, *got), at) << to_string(shape) << " strides " << to_string(strides) << " to "
                                                  << to_string(wanted) << " gave " << to_string(*got);
            }
            ++(got ? views : copies);
          }
        }
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
  EXPECT_GT(views, 10000U);
  EXPECT_GT(copies, 10000U);
}

TEST(ReshapeStrides, EmptyAndUnequalCounts) {
  EXPECT_TRUE(reshape_strides({0, 3}, {99, 99}, {3, 0, 5}).has_value());
  EXPECT_FALSE(reshape_strides({6}, {1}, {4}).has_value());
}

}  // namespace
}  // namespace weft::ops
