// var, stddev, norm and logsumexp against models in double: requirement B7 (numbers as numpy has them).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "ops/rows.h"
#include "unit/catalog_check.h"
#include "unit/kernel_class_test.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "weft/ops.h"

namespace weft {
namespace {

using testing::Strided;
using testing::test_device;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class Moments : public testing::KernelClassTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, Moments, testing::all_kernel_classes(), testing::kernel_class_name);

/// What is computed: the op, and ddof or the order.
struct What {
  char op;  // v, s, n, l
  double number;
};

double model(const What& what, const std::vector<double>& v) {
  if (what.op == 'l') {
    double high = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double x : v) high = std::isnan(x) || x > high ? x : high;
    if (!std::isfinite(high)) return high;
    for (double x : v) sum += std::exp(x - high);
    return high + std::log(sum);
  }
  if (what.op == 'n') {
    double sum = 0, high = 0, low = std::numeric_limits<double>::infinity();
    for (double x : v) {
      sum += what.number == 0 ? (x != 0 ? 1.0 : 0.0) : std::pow(std::abs(x), what.number);
      high = std::max(high, std::abs(x));
      low = std::min(low, std::abs(x));
    }
    if (std::isinf(what.number)) return what.number > 0 ? high : low;
    return what.number == 0 ? sum : std::pow(sum, 1 / what.number);
  }
  double mean = 0, squares = 0;
  for (double x : v) mean += x / static_cast<double>(v.size());
  for (double x : v) squares += (x - mean) * (x - mean);
  const double variance = squares / std::max(static_cast<double>(v.size()) - what.number, 0.0);
  return what.op == 'v' ? variance : std::sqrt(variance);
}

Tensor compute(const What& what, const Tensor& x, const ReduceOptions& options) {
  switch (what.op) {
    case 'v': return var(x, {options.axes, options.keepdims, what.number});
    case 's': return stddev(x, {options.axes, options.keepdims, what.number});
    case 'n': return norm(x, what.number, options);
    default: return logsumexp(x, options);
  }
}

void expect_model(const What& what, const Strided& x, const ReduceOptions& options) {
  const Shape& shape = x.tensor.shape();
  SCOPED_TRACE(std::string(1, what.op) + " " + std::to_string(what.number) + " of " +
               std::string(to_string(x.tensor.dtype())) + " " + to_string(shape) + " strides " +
               to_string(x.tensor.strides()));
  const std::vector<std::size_t> axes = ops::normalize_axes("test", options.axes, shape);
  std::vector<bool> reduced(shape.rank(), false);
  for (std::size_t a : axes) reduced[a] = true;
  std::int64_t outputs = 1;
  for (std::size_t i = 0; i < shape.rank(); ++i) outputs *= reduced[i] ? 1 : shape[i];
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(outputs));
  std::vector<std::int64_t> index(shape.rank(), 0);
  for (double value : x.values) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < shape.rank(); ++i) at = reduced[i] ? at : at * shape[i] + index[i];
    groups[static_cast<std::size_t>(at)].push_back(value);
    for (std::size_t i = shape.rank(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
  const Tensor out = compute(what, x.tensor, options);
  ASSERT_EQ(out.shape(), ops::reduce_shape(ReduceOp::sum, shape, options));
  ASSERT_EQ(out.dtype(), x.tensor.dtype() == DType::f16 ? DType::f16 : DType::f32);
  const std::vector<double> got = testing::to_doubles(out);
  ASSERT_EQ(got.size(), groups.size());
  const double tolerance = out.dtype() == DType::f16 ? 1e-3 : 2e-5;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected = model(what, groups[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got[i])) << "at " << i << ": " << got[i];
    } else if (std::isinf(expected)) {
      ASSERT_EQ(got[i], expected) << "at " << i;
    } else {
      ASSERT_NEAR(got[i], expected, tolerance * std::max(1.0, std::abs(expected))) << "at " << i;
    }
  }
}

constexpr What kAll[] = {{'v', 0}, {'s', 1},   {'n', 0},        {'n', 1},         {'n', 2},
                         {'n', 3}, {'n', 1.5}, {'n', HUGE_VAL}, {'n', -HUGE_VAL}, {'l', 0}};

TEST_P(Moments, MatchTheModelOnAnyShapeAxesDtypeAndStrides) {
  std::vector<DType> dtypes{DType::f32, DType::f32, DType::i32, DType::u32, DType::bool_};
  if (test_device().features().f16) dtypes.push_back(DType::f16);
  for (std::uint32_t seed = 0; seed < 160; ++seed) {
    std::mt19937 random(seed);
    const DType dtype = dtypes[seed % dtypes.size()];
    const Shape shape = testing::random_shape(random, 4);
    const Strided x = testing::random_strided(test_device(), random, shape, dtype);
    ReduceOptions options;
    options.keepdims = random() % 2 == 0;
    if (random() % 4 != 0) {
      options.axes.emplace();
      for (std::size_t i = 0; i < shape.rank(); ++i) {
        if (random() % 2 == 0) options.axes->push_back(static_cast<std::int64_t>(i));
      }
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_model(kAll[random() % std::size(kAll)], x, options);
    if (HasFailure()) return;
  }
}

TEST_P(Moments, LongRowsAndColumns) {
  std::uint32_t seed = 0;
  for (const std::int64_t length : {16, 17, 33, 63, 255, 257, 1025, 20000}) {
    for (const std::int64_t other : {std::int64_t{1}, std::int64_t{3}, std::int64_t{70}}) {
      for (const What& what : {What{'v', 1}, What{'n', 2}, What{'l', 0}}) {
        std::mt19937 random(++seed);
        expect_model(what, testing::dense(test_device(), random, {other, length}, DType::f32), {{{1}}, false});
        expect_model(what, testing::dense(test_device(), random, {length, other}, DType::f32), {{{0}}, false});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Moments, ASmallSpreadOnALargeMeanIsKept) {
  // Squares of 1e4 and more: their difference would leave nothing of a variance near 1.
  for (const float mean : {10000.0f, -1e6f}) {
    for (const std::int64_t length : {4, 1000, 300000}) {
      std::vector<float> x(static_cast<std::size_t>(length));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = mean + static_cast<float>(i % 4);
      EXPECT_NEAR(var(floats(x)).to_host<float>()[0], 1.25f, 1e-5f) << mean << " " << length;
      const Tensor columns = floats(x, {length / 2, 2});
      for (float v : var(columns, {{{0}}, false, 0}).to_host<float>()) EXPECT_NEAR(v, 1.0f, 1e-5f) << length;
    }
  }
}

// Integers that a float32 rounds to one (tensorflow/tfjs#7792 lost them in a quotient; numpy takes float64).
TEST_P(Moments, IntegersDifferByTheirLowBits) {
  for (const std::int64_t length : {4, 63, 1000, 300000}) {
    std::vector<std::int32_t> low(static_cast<std::size_t>(length)), wide(low.size());
    std::vector<std::uint32_t> high(low.size());
    for (std::size_t i = 0; i < low.size(); ++i) {
      low[i] = std::numeric_limits<std::int32_t>::min() + static_cast<std::int32_t>(i % 4);
      high[i] = 0xfffffff0u + static_cast<std::uint32_t>(i % 4);
      wide[i] = i % 2 == 0 ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int32_t>::max();
    }
    const double expected = model({'v', 0}, std::vector<double>(low.begin(), low.end()));
    const Shape row{length}, columns{length / 2, 2};
    EXPECT_NEAR(var(test_device().upload<std::int32_t>(low, row)).to_host<float>()[0], expected, 1e-4) << length;
    EXPECT_NEAR(var(test_device().upload<std::uint32_t>(high, row)).to_host<float>()[0], expected, 1e-4) << length;
    EXPECT_NEAR(stddev(test_device().upload<std::uint32_t>(high, row)).to_host<float>()[0], std::sqrt(expected), 1e-4);
    if (length % 4 == 0) {
      const Tensor x = test_device().upload<std::int32_t>(low, columns);
      for (float v : var(x, {{{0}}, false, 0}).to_host<float>()) EXPECT_NEAR(v, 1.0f, 1e-5f) << length;
      EXPECT_NEAR(var(test_device().upload<std::int32_t>(wide, row)).to_host<float>()[0] / std::pow(2147483647.5, 2), 1,
                  1e-5);
    }
  }
}

TEST_P(Moments, DegreesOfFreedomAsNumpyDivides) {
  const Tensor x = floats({1, 2, 4, 5, 5, 5}, {2, 3});
  EXPECT_NEAR(var(x, {{{1}}, false, 2}).to_host<float>()[0], 14.0f / 3, 1e-5);
  EXPECT_NEAR(var(x, {{{1}}, false, 0.5}).to_host<float>()[0], 14.0f / 3 / 2.5f, 1e-5);
  // None left: a division by 0.
  for (const double ddof : {3.0, 3.5, 5.0}) {
    const std::vector<float> v = var(x, {{{1}}, false, ddof}).to_host<float>();
    EXPECT_EQ(v[0], kInf);
    EXPECT_TRUE(std::isnan(v[1]));
    const std::vector<float> s = stddev(x, {{{1}}, false, ddof}).to_host<float>();
    EXPECT_EQ(s[0], kInf);
    EXPECT_TRUE(std::isnan(s[1]));
  }
  EXPECT_EQ(var(floats({7}, {})).to_host<float>()[0], 0.0f);
}

TEST_P(Moments, NanAndInfinitiesStayInTheirRow) {
  for (const std::int64_t length : {3, 40, 2000}) {
    for (const float bad : {kNan, -kNan, kInf, -kInf}) {
      std::vector<float> x(static_cast<std::size_t>(3 * length), 2.0f);
      x[static_cast<std::size_t>(2 * length - 1)] = bad;
      const Tensor t = floats(x, {3, length});
      const ReduceOptions rows{{{1}}, false};
      for (const What& what : kAll) {
        const std::vector<float> got = compute(what, t, rows).to_host<float>();
        std::vector<double> row(static_cast<std::size_t>(length), 2.0);
        EXPECT_NEAR(got[0], model(what, row), 1e-4 * model(what, row) + 1e-12) << what.op << what.number;
        EXPECT_NEAR(got[2], model(what, row), 1e-4 * model(what, row) + 1e-12) << what.op << what.number;
        row.back() = bad;
        const bool counts = what.op == 'n' && what.number == 0;  // NaN is not 0
        double expected = std::isnan(bad) && !counts ? std::nan("") : model(what, row);
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(got[1])) << what.op << what.number << " " << length << " " << bad << ": " << got[1];
        } else if (std::isinf(expected)) {
          EXPECT_EQ(got[1], expected) << what.op << what.number;
        } else {
          EXPECT_NEAR(got[1], expected, 1e-4 * std::abs(expected)) << what.op << what.number;
        }
      }
    }
  }
}

// One row, read in fours, and what is left of it: an infinity in either has no spread.
TEST_P(Moments, InfinitiesAtAnyPlaceOfARow) {
  for (const std::int64_t length : {2, 5, 7, 4099, 70001}) {
    for (const float bad : {kNan, kInf, -kInf}) {
      for (const std::int64_t at : {std::int64_t{0}, length / 2, length - 2, length - 1}) {
        std::vector<float> x(static_cast<std::size_t>(length), 2.0f);
        x[static_cast<std::size_t>(at)] = bad;
        EXPECT_TRUE(std::isnan(var(floats(x)).to_host<float>()[0])) << length << " " << at << " " << bad;
        EXPECT_TRUE(std::isnan(stddev(floats(x)).to_host<float>()[0])) << length << " " << at << " " << bad;
      }
    }
  }
}

TEST_P(Moments, NormsAtAnyScale) {
  // Squares that f32 can't hold, or holds as 0.
  for (const float scale : {1e30f, 3e38f, 1e-30f, 1e-19f, 1.0f, 1e-38f}) {
    // Devices may take denormals for 0 (an H200 does, and Mesa 26's lavapipe): this one is asked.
    if ((floats({scale}) * 1e30f).to_host<float>()[0] == 0) continue;
    for (const std::int64_t length : {1, 5, 5000}) {
      std::vector<float> x(static_cast<std::size_t>(length), 0.0f);
      x[0] = scale;
      const double expected = length < 5 ? scale : scale / 4.0 * std::sqrt(17.0);
      if (length >= 5) x[static_cast<std::size_t>(length - 2)] = x[0] / 4;
      if (expected > 3.4e38) continue;
      EXPECT_NEAR(norm(floats(x)).to_host<float>()[0] / scale, expected / scale, 1e-5) << scale << " " << length;
    }
  }
  EXPECT_EQ(norm(floats({0, 0, -0.0f})).to_host<float>()[0], 0.0f);
  EXPECT_EQ(norm(floats({1, kInf})).to_host<float>()[0], kInf);
  EXPECT_EQ(norm(floats({0, 2, 4}), -1).to_host<float>()[0], 0.0f);
  EXPECT_NEAR(norm(floats({2, 4}), -1).to_host<float>()[0], 4.0 / 3, 1e-5);
  EXPECT_EQ(norm(floats({0, 0}), 3).to_host<float>()[0], 0.0f);
  EXPECT_EQ(norm(floats({1, -kInf}), 3).to_host<float>()[0], kInf);
}

TEST_P(Moments, LogSumExpAtItsExtremes) {
  const std::vector<float> got =
      logsumexp(floats({1000, 1000, -1000, -1000, -kInf, -kInf, -kInf, 3, kInf, 0}, {5, 2}), {{{1}}, false})
          .to_host<float>();
  EXPECT_NEAR(got[0], 1000 + std::log(2.0), 1e-4);
  EXPECT_NEAR(got[1], -1000 + std::log(2.0), 1e-4);
  EXPECT_EQ(got[2], -kInf);
  EXPECT_EQ(got[3], 3.0f);
  EXPECT_EQ(got[4], kInf);
}

TEST_P(Moments, EmptyArraysAndBadArguments) {
  const Tensor none = test_device().zeros({0, 3}, DType::f32);
  const ReduceOptions first{{{0}}, false};
  for (float v : var(none, {{{0}}, false, 0}).to_host<float>()) EXPECT_TRUE(std::isnan(v));
  for (float v : stddev(none, {{{0}}, false, 0}).to_host<float>()) EXPECT_TRUE(std::isnan(v));
  EXPECT_EQ(norm(none, 2, first).to_host<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(norm(none, kInf, first).to_host<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(logsumexp(none, first).to_host<float>(), (std::vector<float>{-kInf, -kInf, -kInf}));
  EXPECT_EQ(var(none, {{{1}}, true, 0}).shape(), (Shape{0, 1}));
  try {
    norm(none, -HUGE_VAL, first);
    ADD_FAILURE() << "the smallest of nothing was given";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("(0, 3)"), std::string::npos) << e.what();
  }
  EXPECT_THROW(norm(none, std::nan("")), Error);
  EXPECT_THROW(var(none, {{{2}}, false, 0}), Error);
  EXPECT_THROW(logsumexp(Tensor()), Error);
}

TEST_P(Moments, HalvesAddUpInF32) {
  if (!test_device().features().f16) {
    EXPECT_THROW(test_device().zeros({1}, DType::f16), Error);
    return;
  }
  std::vector<float16> x(5000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = float16(i % 2 == 0 ? 200.0f : -200.0f);
  const Tensor t = test_device().upload<float16>(x, {5000});
  EXPECT_EQ(static_cast<float>(var(t).to_host<float16>()[0]), 40000.0f);
  EXPECT_EQ(static_cast<float>(stddev(t).to_host<float16>()[0]), 200.0f);
  EXPECT_NEAR(static_cast<float>(norm(t).to_host<float16>()[0]), 200 * std::sqrt(5000.0), 8);
  EXPECT_EQ(static_cast<float>(norm(t, 1).to_host<float16>()[0]), kInf);
}

TEST_P(Moments, ArraysPastTheBindingLimitAreWorkedInSlices) {
  const std::uint64_t limit = test_device().limits().max_storage_binding_size;
  if (limit > (std::uint64_t{256} << 20)) {
    EXPECT_TRUE(ops::fits_binding(test_device().zeros({1024}, DType::f32)));
    return;
  }
  const auto rows = static_cast<std::int64_t>(limit / 4 / 1024 + 5);
  Tensor x = test_device().zeros({rows, 1024}, DType::f32);
  ASSERT_FALSE(ops::fits_binding(x));
  const std::vector<float> five{5.0f};
  test_device().write(x.buffer(), static_cast<std::size_t>(rows * 1024 - 1) * 4,
                      std::as_bytes(std::span<const float>(five)));
  const double n = static_cast<double>(rows) * 1024;
  EXPECT_NEAR(var(x).to_host<float>()[0], 25 / n * (1 - 1 / n), 1e-12);
  EXPECT_EQ(norm(x).to_host<float>()[0], 5.0f);
  EXPECT_NEAR(logsumexp(x).to_host<float>()[0], std::log(n + std::exp(5.0)), 1e-4);
}

TEST(ReduceCatalog, EveryKernelCompiles) {  // D11
  testing::expect_kernels_compile(test_device(), ops::reduce_family(), 500);
}

}  // namespace
}  // namespace weft
