// softmax, log_softmax, layer_norm and rms_norm against models in double: requirement B7, and cases N17, N18, N27, S03,
// S14, S15, S27 and LM06 of the faults that others met.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/rows.h"
#include "ops/rows_plan.h"
#include "ops/subgroups.h"
#include "unit/catalog_check.h"
#include "unit/kernel_class_test.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "weft/kernel.h"
#include "weft/nn.h"
#include "weft/ops.h"

namespace weft {
namespace {

using testing::Strided;
using testing::test_device;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class Rows : public testing::KernelClassTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, Rows, testing::all_kernel_classes(), testing::kernel_class_name);

/// Calls `row` with the positions of each row along axes [axis, end).
template <class Row>
void each_row(const Shape& shape, std::size_t axis, std::size_t end, Row row) {
  std::int64_t outer = 1, length = 1, inner = 1;
  for (std::size_t i = 0; i < shape.rank(); ++i) (i < axis ? outer : i < end ? length : inner) *= shape[i];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      std::vector<std::size_t> at;
      for (std::int64_t r = 0; r < length; ++r) at.push_back(static_cast<std::size_t>((o * length + r) * inner + i));
      row(at);
    }
  }
}

std::vector<double> softmax_model(const std::vector<double>& x, const Shape& shape, std::size_t axis, bool logarithm) {
  std::vector<double> out(x.size());
  each_row(shape, axis, axis + 1, [&](const std::vector<std::size_t>& at) {
    double high = -std::numeric_limits<double>::infinity();
    for (std::size_t i : at) high = std::isnan(x[i]) || x[i] > high ? x[i] : high;
    double sum = 0;
    for (std::size_t i : at) sum += std::exp(x[i] - high);
    for (std::size_t i : at) out[i] = logarithm ? x[i] - high - std::log(sum) : std::exp(x[i] - high) / sum;
  });
  return out;
}

std::vector<double> layer_norm_model(const std::vector<double>& x, const Shape& shape, std::size_t axis, double eps,
                                     const std::vector<double>& weight, const std::vector<double>& bias) {
  std::vector<double> out(x.size());
  each_row(shape, axis, shape.rank(), [&](const std::vector<std::size_t>& at) {
    double mean = 0, variance = 0;
    for (std::size_t i : at) mean += x[i] / static_cast<double>(at.size());
    for (std::size_t i : at) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(at.size());
    for (std::size_t r = 0; r < at.size(); ++r) {
      const double v = (x[at[r]] - mean) / std::sqrt(variance + eps);
      out[at[r]] = v * (weight.empty() ? 1 : weight[r]) + (bias.empty() ? 0 : bias[r]);
    }
  });
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double absolute,
                 double relative) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], absolute + relative * std::abs(expected[i])) << "at " << i;
  }
}

std::vector<DType> dtypes() {
  std::vector<DType> all{DType::f32, DType::f32, DType::i32, DType::bool_};
  if (test_device().features().f16) all.push_back(DType::f16);
  return all;
}

TEST_P(Rows, SoftmaxMatchesTheModelOnAnyShapeAxisDtypeAndStrides) {
  const std::vector<DType> kinds = dtypes();
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    Shape shape = testing::random_shape(random, 5);
    if (shape.rank() == 0) shape.push_back(5);
    const DType dtype = kinds[seed % kinds.size()];
    const Strided x = testing::random_strided(test_device(), random, shape, dtype);
    const auto axis = static_cast<std::int64_t>(random() % shape.rank());
    const bool logarithm = random() % 2 == 0;
    SCOPED_TRACE(std::string(to_string(dtype)) + " " + to_string(shape) + " strides " + to_string(x.tensor.strides()) +
                 " axis " + std::to_string(axis) + " seed " + std::to_string(seed));
    const std::int64_t given = random() % 2 == 0 ? axis : axis - static_cast<std::int64_t>(shape.rank());
    const Tensor out = logarithm ? log_softmax(x.tensor, {given}) : softmax(x.tensor, {given});
    ASSERT_EQ(out.shape(), shape);
    ASSERT_EQ(out.dtype(), dtype == DType::f16 ? DType::f16 : DType::f32);
    const double scale = dtype == DType::f16 ? 1e-3 : dtype == DType::i32 && logarithm ? 1e-5 : 2e-6;
    expect_near(testing::to_doubles(out), softmax_model(x.values, shape, static_cast<std::size_t>(axis), logarithm),
                scale, scale);
    if (HasFailure()) return;
  }
}

TEST_P(Rows, LayerNormMatchesTheModelOnAnyShapeAxisDtypeAndStrides) {
  const std::vector<DType> kinds = dtypes();
  for (std::uint32_t seed = 0; seed < 90; ++seed) {
    std::mt19937 random(seed);
    Shape shape = testing::random_shape(random, 4);
    if (shape.rank() == 0) shape.push_back(5);
    const DType dtype = kinds[seed % kinds.size()];
    const Strided x = testing::random_strided(test_device(), random, shape, dtype);
    const std::size_t axis = random() % shape.rank();
    const Shape normalized(std::span<const std::int64_t>(shape.begin() + axis, shape.rank() - axis));
    SCOPED_TRACE(std::string(to_string(dtype)) + " " + to_string(shape) + " strides " + to_string(x.tensor.strides()) +
                 " axis " + std::to_string(axis) + " seed " + std::to_string(seed));
    LayerNormOptions options;
    options.axis = static_cast<std::int64_t>(axis);
    options.eps = 0.25;
    std::vector<double> weight, bias;
    if (random() % 2 == 0) {
      const Strided w = testing::dense(test_device(), random, normalized, DType::f32);
      options.weight = w.tensor;
      weight = w.values;
    }
    if (random() % 2 == 0) {
      const Strided b = testing::dense(test_device(), random, normalized, DType::f32);
      options.bias = b.tensor;
      bias = b.values;
    }
    const Tensor out = layer_norm(x.tensor, options);
    ASSERT_EQ(out.shape(), shape);
    ASSERT_EQ(out.dtype(), dtype == DType::f16 ? DType::f16 : DType::f32);
    const double scale = dtype == DType::f16 ? 2e-3 : 2e-5;
    expect_near(testing::to_doubles(out), layer_norm_model(x.values, shape, axis, options.eps, weight, bias), scale,
                scale);
    if (HasFailure()) return;
  }
}

std::vector<double> rms_norm_model(const std::vector<double>& x, const Shape& shape, std::size_t axis, double eps,
                                   const std::vector<double>& weight) {
  std::vector<double> out(x.size());
  each_row(shape, axis, shape.rank(), [&](const std::vector<std::size_t>& at) {
    double square = 0;
    for (std::size_t i : at) square += x[i] * x[i] / static_cast<double>(at.size());
    for (std::size_t r = 0; r < at.size(); ++r) {
      out[at[r]] = x[at[r]] / std::sqrt(square + eps) * (weight.empty() ? 1 : weight[r]);
    }
  });
  return out;
}

TEST_P(Rows, RmsNormMatchesTheModelOnAnyShapeAxisDtypeAndStrides) {
  std::vector<DType> kinds{DType::f32};
  if (test_device().features().f16) kinds.push_back(DType::f16);
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    Shape shape = testing::random_shape(random, 4);
    if (shape.rank() == 0) shape.push_back(5);
    const DType dtype = kinds[seed % kinds.size()];
    const Strided x = testing::random_strided(test_device(), random, shape, dtype);
    const std::size_t axis = random() % shape.rank();
    const Shape normalized(std::span<const std::int64_t>(shape.begin() + axis, shape.rank() - axis));
    SCOPED_TRACE(std::string(to_string(dtype)) + " " + to_string(shape) + " strides " + to_string(x.tensor.strides()) +
                 " axis " + std::to_string(axis) + " seed " + std::to_string(seed));
    RmsNormOptions options;
    options.axis = static_cast<std::int64_t>(axis);
    options.eps = 0.25;
    std::vector<double> weight;
    if (random() % 2 == 0) {
      const Strided w = testing::dense(test_device(), random, normalized, DType::f32);
      options.weight = w.tensor;
      weight = w.values;
    }
    const Tensor out = rms_norm(x.tensor, options);
    ASSERT_EQ(out.shape(), shape);
    ASSERT_EQ(out.dtype(), dtype);
    const double scale = dtype == DType::f16 ? 2e-3 : 1e-5;
    expect_near(testing::to_doubles(out), rms_norm_model(x.values, shape, axis, options.eps, weight), scale, scale);
    if (HasFailure()) return;
  }
}

TEST_P(Rows, RmsNormOfLongRowsAndOfHalvesThatOverflowTheirSquares) {
  for (std::int64_t length : {1, 33, 1000, 2049, 100000}) {
    std::mt19937 random(static_cast<std::uint32_t>(length));
    const Strided x = testing::dense(test_device(), random, {3, length}, DType::f32);
    expect_near(testing::to_doubles(rms_norm(x.tensor)), rms_norm_model(x.values, {3, length}, 1, 1e-5, {}), 1e-5,
                1e-5);
  }
  if (!test_device().features().f16) return;
  const std::vector<float16> x(64, float16(65504.0f));
  for (float16 v : rms_norm(test_device().upload<float16>(x, {64})).to_host<float16>()) {
    ASSERT_EQ(static_cast<float>(v), 1.0f);
  }
}

TEST_P(Rows, RmsNormKeepsNanInItsRowAndRefusesWhatItCannotTake) {
  const std::vector<float> got = rms_norm(floats({1, kNan, 3, 4}, {2, 2})).to_host<float>();
  EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[1]));
  EXPECT_NEAR(got[3], 4 / std::sqrt(12.5), 1e-5);
  EXPECT_EQ(rms_norm(test_device().zeros({2, 0}, DType::f32)).shape(), (Shape{2, 0}));
  EXPECT_THROW(rms_norm(test_device().zeros({3}, DType::i32)), Error);
  RmsNormOptions options;
  options.eps = -1;
  EXPECT_THROW(rms_norm(floats({1, 2}, {2}), options), Error);
  options = {};
  options.weight = floats({1, 2, 3}, {3});
  try {
    rms_norm(floats({1, 2}, {2}), options);
    ADD_FAILURE() << "a weight of 3 for rows of 2 was taken";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("rms_norm: weight of shape (3,)"), std::string::npos) << e.what();
  }
}

TEST_P(Rows, RowsOfAnyLength) {  // S27
  std::uint32_t seed = 0;
  for (std::int64_t length : {1, 2, 3, 32, 33, 257, 1000, 1023, 2048, 2049, 5000, 8192, 8196, 100000}) {
    for (std::int64_t rows : {1, 3}) {
      std::mt19937 random(++seed);
      const Strided x = testing::dense(test_device(), random, {rows, length}, DType::f32);
      SCOPED_TRACE(to_string(x.tensor.shape()));
      expect_near(testing::to_doubles(softmax(x.tensor)), softmax_model(x.values, {rows, length}, 1, false), 1e-7,
                  1e-5);
      expect_near(testing::to_doubles(log_softmax(x.tensor)), softmax_model(x.values, {rows, length}, 1, true), 2e-6,
                  2e-6);
      expect_near(testing::to_doubles(layer_norm(x.tensor)),
                  layer_norm_model(x.values, {rows, length}, 1, 1e-5, {}, {}), 2e-5, 2e-5);
      const Strided columns = testing::dense(test_device(), random, {length, rows}, DType::f32);
      expect_near(testing::to_doubles(softmax(columns.tensor, {0})),
                  softmax_model(columns.values, {length, rows}, 0, false), 1e-7, 1e-5);
      if (HasFailure()) return;
    }
  }
}

// Of each length that a way of sharing rows begins or ends at, with and without four elements at a time.
TEST_P(Rows, RowsAtTheSeamsOfThePlan) {
  std::mt19937 random(7);
  for (const std::int64_t length : {33, 64, 65, 68, 128, 129, 252, 256, 257, 260, 508, 512, 513, 516, 1028, 2052}) {
    SCOPED_TRACE(length);
    const Strided x = testing::dense(test_device(), random, {19, length}, DType::f32);
    expect_near(testing::to_doubles(softmax(x.tensor)), softmax_model(x.values, {19, length}, 1, false), 2e-6, 2e-6);
    expect_near(testing::to_doubles(layer_norm(x.tensor)), layer_norm_model(x.values, {19, length}, 1, 1e-5, {}, {}),
                2e-5, 2e-5);
    if (HasFailure()) return;
  }
}

TEST_P(Rows, TheSameRowsGiveTheSameBits) {
  std::mt19937 random(8);
  for (const std::int64_t length : {300, 4096}) {
    const Tensor x = testing::dense(test_device(), random, {40, length}, DType::f32).tensor;
    EXPECT_EQ(layer_norm(x).to_host<float>(), layer_norm(x).to_host<float>());
    EXPECT_EQ(softmax(x).to_host<float>(), softmax(x).to_host<float>());
  }
}

TEST_P(Rows, EveryColumnTakesPart) {  // S27
  std::vector<float> x(10000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97);
  const std::vector<float> before = layer_norm(floats(x, {2, 5000})).to_host<float>();
  EXPECT_NEAR(before[0], -1.706778043882437, 1e-4);
  EXPECT_NEAR(before[5000], 0.1727674254932834, 1e-4);
  EXPECT_NEAR(before[9999], -1.431552456305676, 1e-4);
  x[4999] += 3000;
  const std::vector<float> after = layer_norm(floats(x, {2, 5000})).to_host<float>();
  for (std::size_t i = 0; i < 5000; ++i) ASSERT_NE(before[i], after[i]) << i;
  for (std::size_t i = 5000; i < 10000; ++i) ASSERT_EQ(before[i], after[i]) << i;
}

TEST_P(Rows, SoftmaxAtItsExtremes) {  // N17
  const Tensor x = floats({-10000, -10000, 10000, 10000, 1000, 0, -1000, 0, 88.8f, 88.8f}, {5, 2});
  const std::vector<double> expected{.5, .5, .5, .5, 1, 0, 0, 1, .5, .5};
  expect_near(testing::to_doubles(softmax(x)), expected, 1e-6, 0);
  const std::vector<float> logs = log_softmax(x).to_host<float>();
  EXPECT_NEAR(logs[0], std::log(0.5), 1e-6);
  EXPECT_EQ(logs[5], -1000.0f);
}

TEST_P(Rows, NanAndInfinityFillTheirRowOnly) {  // N18
  for (std::int64_t length : {3, 40, 300, 20000}) {
    for (const float bad : {kNan, -kNan, kInf}) {
      std::vector<float> x(static_cast<std::size_t>(4 * length), 1.0f);
      x[static_cast<std::size_t>(length - 1)] = bad;
      for (std::int64_t i = 2 * length; i < 3 * length; ++i) x[static_cast<std::size_t>(i)] = -kInf;
      x[static_cast<std::size_t>(3 * length)] = -kInf;
      for (const bool logarithm : {false, true}) {
        const Tensor t = floats(x, {4, length});
        const std::vector<float> got = (logarithm ? log_softmax(t) : softmax(t)).to_host<float>();
        const auto n = static_cast<double>(length);
        for (std::int64_t i = 0; i < length; ++i) {
          const auto at = static_cast<std::size_t>(i);
          const auto row = static_cast<std::size_t>(length);
          ASSERT_TRUE(std::isnan(got[at])) << length << " " << i;
          ASSERT_TRUE(std::isnan(got[2 * row + at])) << length << " " << i;
          ASSERT_NEAR(got[row + at], logarithm ? -std::log(n) : 1 / n, 1e-5) << length << " " << i;
          if (i > 0) {
            ASSERT_NEAR(got[3 * row + at], logarithm ? -std::log(n - 1) : 1 / (n - 1), 1e-5) << length << " " << i;
          }
        }
        EXPECT_EQ(got[static_cast<std::size_t>(3 * length)], logarithm ? -kInf : 0.0f) << length;
      }
    }
  }
}

TEST_P(Rows, LayerNormKeepsASmallSpreadOnALargeMean) {  // N27
  const Tensor x = floats({10000, 10001, 10002, 10003, -3e4f, -3e4f + 1, -3e4f + 2, -3e4f + 3}, {2, 4});
  const std::vector<double> row{-1.34163542, -0.447211807, 0.447211807, 1.34163542};
  std::vector<double> expected = row;
  expected.insert(expected.end(), row.begin(), row.end());
  expect_near(testing::to_doubles(layer_norm(x)), expected, 1e-3, 0);
  // The same where a row is worked in pieces.
  std::vector<float> many(400000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = 10000.0f + static_cast<float>(i % 4);
  const std::vector<float> got = layer_norm(floats(many, {4, 100000})).to_host<float>();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], row[i % 4], 1e-3) << i;
}

// Of whatever mean, as no mean is rounded that is not small: of the whole elements above the mean falls between two
// floats.
TEST_P(Rows, LayerNormIsExactOnAnyMean) {  // N27
  std::mt19937 random(5);
  for (const double mean : {0.0, 1e4, -1e5, 1e6, 1.6e7}) {
    for (const std::int64_t length : {3, 7, 64, 1000, 5000, 70000}) {
      std::normal_distribution<double> spread(mean, mean > 1e7 ? 100 : 1);
      std::vector<float> x(static_cast<std::size_t>(3 * length));
      for (float& v : x) v = static_cast<float>(spread(random));
      // What elements are counted from may be far from all others: the mean counts from there, in steps of 3e-5.
      x[static_cast<std::size_t>(2 * length)] += 300;
      SCOPED_TRACE(::testing::Message() << "mean " << mean << ", length " << length);
      expect_near(testing::to_doubles(layer_norm(floats(x, {3, length}))),
                  layer_norm_model({x.begin(), x.end()}, {3, length}, 1, 1e-5, {}, {}), 4e-5, 2e-5);
    }
  }
}

TEST_P(Rows, ManyShortRows) {  // S03
  const std::int64_t rows = 70001;
  std::vector<float> x(static_cast<std::size_t>(rows * 3));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11);
  const std::vector<double> wide(x.begin(), x.end());
  const Tensor t = floats(x, {rows, 3});
  expect_near(testing::to_doubles(softmax(t)), softmax_model(wide, {rows, 3}, 1, false), 2e-6, 0);
  expect_near(testing::to_doubles(layer_norm(t)), layer_norm_model(wide, {rows, 3}, 1, 1e-5, {}, {}), 2e-5, 0);
}

TEST_P(Rows, AxesAndViews) {  // S14, S15
  std::vector<float> x(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 5;
  const std::vector<double> wide(x.begin(), x.end());
  const Tensor t = floats(x, {2, 3, 4});
  expect_near(testing::to_doubles(softmax(t, {1})), softmax_model(wide, {2, 3, 4}, 1, false), 1e-6, 0);
  EXPECT_EQ(softmax(t, {-3}).to_host<float>(), softmax(t, {0}).to_host<float>());
  try {
    softmax(t, {3});
    ADD_FAILURE() << "axis 3 of 3 was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::out_of_range);
    EXPECT_NE(e.message().find("(2, 3, 4)"), std::string::npos) << e.what();
  }
  std::vector<float> counting(12);
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<float>(i + 1);
  const Tensor rows = floats(counting, {3, 4});
  const Tensor turned(rows.device(), rows.buffer(), {4, 3}, {1, 4}, 0, DType::f32);
  std::vector<double> expected;
  for (int i = 0; i < 4; ++i) expected.insert(expected.end(), {0.00032932, 0.017980287, 0.981690393});
  expect_near(testing::to_doubles(softmax(turned, {1})), expected, 1e-6, 0);
}

TEST_P(Rows, EmptyArraysAndBadOperands) {
  EXPECT_EQ(softmax(test_device().zeros({0, 3}, DType::f32)).shape(), (Shape{0, 3}));
  EXPECT_EQ(softmax(test_device().zeros({3, 0}, DType::f32)).shape(), (Shape{3, 0}));
  EXPECT_EQ(layer_norm(test_device().zeros({2, 0}, DType::f32)).shape(), (Shape{2, 0}));
  EXPECT_THROW(softmax(Tensor()), Error);
  EXPECT_THROW(softmax(floats({1}, {})), Error);
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  LayerNormOptions options;
  options.weight = floats({1, 2}, {2});
  EXPECT_THROW(layer_norm(x, options), Error);
  options.weight = floats({2}, {1});
  options.bias = floats({1, 1, 1}, {3});
  EXPECT_NEAR(layer_norm(x, options).to_host<float>()[1], 1.0f, 1e-6);
  options.eps = std::nan("");
  EXPECT_THROW(layer_norm(x, options), Error);
}

TEST_P(Rows, ArraysPastTheBindingLimitAreWorkedInSlices) {
  const std::uint64_t limit = test_device().limits().max_storage_binding_size;
  if (limit > (std::uint64_t{256} << 20)) {
    EXPECT_TRUE(ops::fits_binding(test_device().zeros({1024}, DType::f32)));
    return;
  }
  const auto rows = static_cast<std::int64_t>(limit / 4 / 1024 + 5);
  Tensor x = test_device().zeros({rows, 1024}, DType::f32);
  ASSERT_FALSE(ops::fits_binding(x));
  const std::vector<float> high{1000.0f};
  test_device().write(x.buffer(), static_cast<std::size_t>(rows * 1024 - 1) * 4,
                      std::as_bytes(std::span<const float>(high)));
  const Tensor out = softmax(x);
  std::vector<float> ends(1024);
  test_device().read(out.buffer(), static_cast<std::size_t>(rows - 1) * 4096,
                     std::as_writable_bytes(std::span<float>(ends)));
  EXPECT_EQ(ends[1023], 1.0f);
  EXPECT_EQ(ends[0], 0.0f);
  test_device().read(out.buffer(), 0, std::as_writable_bytes(std::span<float>(ends)));
  EXPECT_NEAR(ends[0], 1.0 / 1024, 1e-8);
  test_device().read(out.buffer(), static_cast<std::size_t>(rows - 2) * 4096,
                     std::as_writable_bytes(std::span<float>(ends)));
  EXPECT_NEAR(ends[1023], 1.0 / 1024, 1e-8);
}

/// Puts the table's shape and the device's class back.
struct HoldShapeGuard {
  ~HoldShapeGuard() {
    ops::force_hold_shape(0);
    ops::force_kernel_class(ops::KernelClass::automatic);
  }
};

// With subgroups, where the device has them: the shapes have both tiers.
TEST(RowsTiers, EveryWayToHoldARow) {
  ops::force_kernel_class(ops::KernelClass::gpu_subgroups);
  const HoldShapeGuard guard;
  std::mt19937 random(9);
  for (std::size_t i = 0; i < ops::hold_shapes().size(); ++i) {
    ops::force_hold_shape(i);
    for (const std::int64_t length : {4096, 3001}) {
      SCOPED_TRACE("shape " + std::to_string(i) + " length " + std::to_string(length));
      const Strided x = testing::dense(test_device(), random, {6, length}, DType::f32);
      expect_near(testing::to_doubles(softmax(x.tensor)), softmax_model(x.values, {6, length}, 1, false), 2e-6, 2e-6);
      if (HasFailure()) return;
      if (length % 4 != 0) continue;
      expect_near(testing::to_doubles(rms_norm(x.tensor)), rms_norm_model(x.values, {6, length}, 1, 1e-5, {}), 1e-5,
                  1e-5);
      if (HasFailure()) return;
    }
  }
}

// What the kernels' arrays of one value a subgroup rest on.
TEST(RowsTiers, AWorkgroupHasNoMoreSubgroupsThanThePlanSays) {
  Device& device = test_device();
  if (!device.features().subgroups) GTEST_SKIP() << "the device has no subgroups";
  for (const std::string threads : {"32", "64", "256"}) {
    const Kernel kernel = device.kernel({.source = R"(
      @group(0) @binding(0) var<storage, read_write> out: array<vec4<u32>>;
      @compute @workgroup_size()" + threads + R"()
      fn main(@builtin(local_invocation_index) lane: u32, @builtin(subgroup_id) id: u32, @builtin(subgroup_size) size: u32,
              @builtin(num_subgroups) count: u32, @builtin(subgroup_invocation_id) place: u32) {
        let first = subgroupMin(place);
        out[lane] = vec4<u32>(id, size, count, first);
      })",
                                         .label = "subgroups of " + threads});
    const auto n = static_cast<std::uint32_t>(std::stoul(threads));
    const Buffer out = device.alloc(std::uint64_t{n} * 16);
    kernel(device.stream(), {{"out", out}}, Grid{});
    std::vector<std::uint32_t> found(std::size_t{n} * 4);
    device.read(out, 0, std::as_writable_bytes(std::span(found)));
    for (std::size_t i = 0; i < found.size(); i += 4) {
      ASSERT_LT(found[i], found[i + 2]);
      ASSERT_LE(found[i + 2], ops::most_subgroups(device, n));
      ASSERT_GE(found[i + 1], std::max(device.features().subgroup_min_size, 4U));
      ASSERT_EQ(found[i + 3], 0u) << "nobody writes what the subgroup joined";
    }
    RecordProperty("subgroup_size", static_cast<int>(found[1]));
    std::printf("subgroups of %u\n", found[1]);
  }
}

TEST(RowsTiers, AModestDeviceWithoutSubgroupsTakesTheBaseTierAndShortWorkgroups) {
  DeviceOptions options;
  options.allow_subgroups = false;
  options.default_limits_only = true;
  Device plain = Device::open(options);
  ASSERT_FALSE(plain.features().subgroups);
  ops::force_kernel_class(ops::KernelClass::gpu_subgroups);
  EXPECT_EQ(ops::kernel_class(plain), ops::KernelClass::gpu);
  ASSERT_EQ(ops::longest_workgroup(plain), 256u);
  for (const std::int64_t length : {300, 12000}) {
    const std::vector<float> ones(static_cast<std::size_t>(2 * length), 1.0f);
    const std::vector<float> got = softmax(plain.upload<float>(ones, {2, length})).to_host<float>();
    for (const float v : got) ASSERT_NEAR(v, 1.0 / static_cast<double>(length), 1e-8);
  }
  ops::force_kernel_class(ops::KernelClass::automatic);
  EXPECT_EQ(ops::kernel_class(plain), ops::is_cpu(plain) ? ops::KernelClass::cpu : ops::KernelClass::gpu);
}

TEST(RowsCatalog, EveryKernelCompiles) {  // D11
  testing::expect_kernels_compile(test_device(), ops::rows_family(), 100);
}

}  // namespace
}  // namespace weft
