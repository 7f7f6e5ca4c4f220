// Pools, batch_norm and group_norm against models in double, on random shapes; requirement C6, D10.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/infer_conv.h"
#include "ops/rows.h"
#include "unit/kernel_class_test.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "weft/nn.h"
#include "weft/ops.h"

namespace weft {
namespace {

using ops::ConvGeometry;
using ops::WindowAxis;
using testing::Strided;
using testing::test_device;
using Values = std::vector<double>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class Layers : public testing::KernelClassTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, Layers, testing::both_kernel_classes(), testing::kernel_class_name);

std::size_t place(const ConvGeometry& g, std::int64_t h_length, std::int64_t w_length, std::int64_t n, std::int64_t c,
                  std::int64_t h, std::int64_t w) {
  return static_cast<std::size_t>(g.layout == Layout::channels_first
                                      ? ((n * g.channels + c) * h_length + h) * w_length + w
                                      : ((n * h_length + h) * w_length + w) * g.channels + c);
}

Values pool_model(PoolOp op, const ConvGeometry& g, bool count_padded, const Values& x) {
  const auto& [ah, aw] = g.axes;
  Values out(static_cast<std::size_t>(element_count(g.out_shape())));
  for (std::int64_t n = 0; n < g.batch; ++n) {
    for (std::int64_t c = 0; c < g.channels; ++c) {
      for (std::int64_t oh = 0; oh < ah.out; ++oh) {
        for (std::int64_t ow = 0; ow < aw.out; ++ow) {
          double high = -kInf, sum = 0;
          std::int64_t inside = 0, padded = 0;
          for (std::int64_t r = 0; r < ah.window; ++r) {
            for (std::int64_t s = 0; s < aw.window; ++s) {
              const std::int64_t h = oh * ah.stride + r * ah.dilation - ah.pad_before;
              const std::int64_t w = ow * aw.stride + s * aw.dilation - aw.pad_before;
              padded += h < ah.in + ah.pad_after && w < aw.in + aw.pad_after;
              if (h < 0 || h >= ah.in || w < 0 || w >= aw.in) continue;
              const double v = x[place(g, ah.in, aw.in, n, c, h, w)];
              if (std::isnan(v) || v > high) high = v;
              if (std::isnan(high)) high = std::numeric_limits<double>::quiet_NaN();
              sum += v;
              ++inside;
            }
          }
          const auto divisor = static_cast<double>(std::max<std::int64_t>(count_padded ? padded : inside, 1));
          out[place(g, ah.out, aw.out, n, c, oh, ow)] = op == PoolOp::max ? high : sum / divisor;
        }
      }
    }
  }
  return out;
}

std::int64_t one_of(std::mt19937& random, std::initializer_list<std::int64_t> values) {
  return values.begin()[random() % values.size()];
}

void expect_near(const Tensor& got, const Shape& shape, const Values& expected, double tolerance) {
  ASSERT_EQ(got.shape(), shape);
  const Values values = testing::to_doubles(got);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i]) || std::isinf(expected[i])) {
      ASSERT_EQ(std::isnan(values[i]), std::isnan(expected[i])) << i;
      if (std::isinf(expected[i])) {
        ASSERT_EQ(values[i], expected[i]) << i;
      }
    } else {
      ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
    }
  }
}

TEST_P(Layers, PoolsMatchTheModelOnAnyShapeAndStrides) {
  int ran = 0;
  for (std::uint32_t seed = 0; seed < 900; ++seed) {
    std::mt19937 random(seed);
    const std::size_t spatial = random() % 4 == 0 ? 1 : 2;
    PoolOptions options;
    options.layout = random() % 2 == 0 ? Layout::channels_first : Layout::channels_last;
    options.ceil_mode = random() % 3 == 0;
    options.count_padded = random() % 2 == 0;
    const std::int64_t channels = one_of(random, {1, 2, 3, 4, 8});
    Shape shape{one_of(random, {1, 1, 2, 3})};
    if (options.layout == Layout::channels_first) shape.push_back(channels);
    std::vector<std::int64_t> size;
    for (std::size_t i = 0; i < spatial; ++i) {
      shape.push_back(one_of(random, {1, 2, 5, 9, 14}));
      size.push_back(one_of(random, {1, 2, 3, 5, 9}));
      options.window.stride.push_back(one_of(random, {1, 2, 3, 5}));
      options.window.pad_before.push_back(one_of(random, {0, 0, 1, 2}));
      options.window.pad_after.push_back(one_of(random, {0, 0, 1, 3}));
      options.window.dilation.push_back(one_of(random, {1, 1, 2, 3}));
    }
    if (options.layout == Layout::channels_last) shape.push_back(channels);
    ConvGeometry g;
    try {
      g = ops::pool_geometry(shape, size, options);
    } catch (const Error&) {
      continue;  // the window is larger than the padded input, or padding as wide as it
    }
    ++ran;
    SCOPED_TRACE("seed " + std::to_string(seed) + " x " + to_string(shape) + " size " +
                 to_string(Shape(std::span<const std::int64_t>(size))));
    const DType dtype = seed % 4 == 3 && test_device().features().f16 ? DType::f16 : DType::f32;
    const Strided x = testing::random_strided(test_device(), random, shape, dtype);
    for (const PoolOp op : {PoolOp::max, PoolOp::average}) {
      expect_near(pool(op, x.tensor, size, options), g.out_shape(), pool_model(op, g, options.count_padded, x.values),
                  op == PoolOp::max     ? 0
                  : dtype == DType::f16 ? 1e-3
                                        : 1e-6);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(ran, 150);
}

TEST_P(Layers, PoolsWithWindowsOfMoreThan65535Elements) {
  std::mt19937 random(9);
  const Shape shape{1, 2, 300, 310};
  const Strided x = testing::dense(test_device(), random, shape, DType::f32);
  PoolOptions options{.window = {.stride = {7, 9}, .pad_before = {1, 2}, .pad_after = {3, 3}}};
  const std::vector<std::int64_t> size{290, 303};
  for (const bool count_padded : {false, true}) {
    options.count_padded = count_padded;
    const ConvGeometry g = ops::pool_geometry(shape, size, options);
    for (const PoolOp op : {PoolOp::max, PoolOp::average}) {
      expect_near(pool(op, x.tensor, size, options), g.out_shape(), pool_model(op, g, count_padded, x.values), 1e-5);
    }
  }
  // The whole of it.
  const ConvGeometry g = ops::pool_geometry(shape, std::vector<std::int64_t>{300, 310}, {});
  for (const PoolOp op : {PoolOp::max, PoolOp::average}) {
    expect_near(pool(op, x.tensor, {300, 310}), g.out_shape(), pool_model(op, g, false, x.values), 1e-5);
  }
}

TEST_P(Layers, PoolsOfMoreThan65535Workgroups) {
  std::mt19937 random(1);
  const Shape shape{1, 1, 4300000};
  const Strided x = testing::dense(test_device(), random, shape, DType::f32);
  const ConvGeometry g = ops::pool_geometry(shape, std::vector<std::int64_t>{2}, {});
  expect_near(pool(PoolOp::max, x.tensor, {2}), g.out_shape(), pool_model(PoolOp::max, g, false, x.values), 0);
}

TEST_P(Layers, PoolsKeepNanAndLetPaddingNeverWin) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = test_device().upload<float>(std::vector<float>{kNan, 1, -3, -5, -inf, -inf, 7, inf}, {1, 1, 8});
  const PoolOptions options{.window = {.stride = {2}, .pad_before = {1}, .pad_after = {1}}};
  const std::vector<float> high = pool(PoolOp::max, x, {2}, options).to_host<float>();
  EXPECT_TRUE(std::isnan(high[0]));
  EXPECT_EQ(std::vector<float>(high.begin() + 1, high.end()), (std::vector<float>{1, -5, 7, inf}));
  // A NaN in front, and one behind.
  const Tensor y = test_device().upload<float>(std::vector<float>{1, kNan, 2}, {1, 1, 3});
  EXPECT_TRUE(std::isnan(pool(PoolOp::max, y, {3}, {.window = {.pad_after = {1}}}).to_host<float>()[0]));
  EXPECT_TRUE(std::isnan(pool(PoolOp::max, y, {2}).to_host<float>()[1]));
  EXPECT_TRUE(std::isnan(pool(PoolOp::average, y, {2}).to_host<float>()[0]));
}

TEST_P(Layers, BatchNormMatchesTheModel) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Shape shape = testing::random_shape(random, 5);
    if (shape.rank() == 0) shape.push_back(3);
    const std::size_t axis = random() % shape.rank();
    const std::int64_t channels = shape[axis];
    const DType dtype = seed % 4 == 3 && test_device().features().f16 ? DType::f16 : DType::f32;
    SCOPED_TRACE("seed " + std::to_string(seed) + " x " + to_string(shape) + " axis " + std::to_string(axis));
    const auto of_channels = [&] { return testing::random_strided(test_device(), random, {channels}, dtype); };
    const Strided x = testing::random_strided(test_device(), random, shape, dtype);
    const Strided mean = of_channels(), root = of_channels(), weight = of_channels(), bias = of_channels();
    const Tensor variance = root.tensor * root.tensor;
    const Values variances = testing::to_doubles(variance);
    BatchNormOptions options;
    options.axis = static_cast<std::int64_t>(axis) - (seed % 2 == 0 ? static_cast<std::int64_t>(shape.rank()) : 0);
    options.eps = 0.25;
    if (seed % 3 != 0) options.weight = weight.tensor;
    if (seed % 5 != 0) options.bias = bias.tensor;
    std::int64_t inner = 1;
    for (std::size_t i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
    Values expected = x.values;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t c = i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(channels);
      expected[i] =
          (x.values[i] - mean.values[c]) / std::sqrt(variances[c] + 0.25) * (options.weight ? weight.values[c] : 1) +
          (options.bias ? bias.values[c] : 0);
    }
    expect_near(batch_norm(x.tensor, mean.tensor, variance, options), shape, expected,
                dtype == DType::f16 ? 1e-3 : 1e-6);
    if (HasFailure()) return;
  }
}

TEST_P(Layers, GroupNormMatchesTheModel) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const std::int64_t groups = one_of(random, {1, 2, 3, 5});
    const std::int64_t channels = groups * one_of(random, {1, 2, 4, 7});
    Shape shape{one_of(random, {1, 2, 3}), channels};
    const std::size_t more = random() % 4;
    for (std::size_t i = 0; i < more; ++i) shape.push_back(one_of(random, {1, 2, 5, 8}));
    const DType dtype = seed % 4 == 3 && test_device().features().f16 ? DType::f16 : DType::f32;
    SCOPED_TRACE("seed " + std::to_string(seed) + " x " + to_string(shape) + " groups " + std::to_string(groups));
    const Strided x = testing::random_strided(test_device(), random, shape, dtype);
    const Strided weight = testing::random_strided(test_device(), random, {channels}, dtype);
    const Strided bias = testing::random_strided(test_device(), random, {channels}, dtype);
    GroupNormOptions options{.groups = groups, .eps = 0.125};
    if (seed % 3 != 0) options.weight = weight.tensor;
    if (seed % 5 != 0) options.bias = bias.tensor;
    const auto inner = static_cast<std::size_t>(element_count(shape) / shape[0] / channels);
    const std::size_t length = inner * static_cast<std::size_t>(channels / groups);
    Values expected = x.values;
    for (std::size_t start = 0; start < expected.size(); start += length) {
      double mean = 0, variance = 0;
      for (std::size_t i = start; i < start + length; ++i) mean += x.values[i] / static_cast<double>(length);
      for (std::size_t i = start; i < start + length; ++i) {
        variance += (x.values[i] - mean) * (x.values[i] - mean) / static_cast<double>(length);
      }
      for (std::size_t i = start; i < start + length; ++i) {
        const std::size_t c = i / inner % static_cast<std::size_t>(channels);
        expected[i] = (x.values[i] - mean) / std::sqrt(variance + 0.125) * (options.weight ? weight.values[c] : 1) +
                      (options.bias ? bias.values[c] : 0);
      }
    }
    expect_near(group_norm(x.tensor, options), shape, expected, dtype == DType::f16 ? 3e-3 : 1e-5);
    if (HasFailure()) return;
  }
}

TEST(LayerErrors, NameTheOpTheShapesAndAFix) {  // D10
  Device& device = test_device();
  const auto zeros = [&](const Shape& shape) { return device.zeros(shape, DType::f32); };
  const auto expect_error = [](auto call, std::initializer_list<std::string> parts) {
    try {
      call();
      ADD_FAILURE() << "no error; wanted one with " << *parts.begin();
    } catch (const Error& e) {
      for (const std::string& part : parts) {
        EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nlacks: " << part;
      }
      EXPECT_NE(std::string(e.what()).find("Fix: "), std::string::npos);
    }
  };
  const Tensor x = zeros({2, 6, 8, 9});
  expect_error([&] { pool(PoolOp::max, x, {9, 3}); }, {"pool: a window of (9, 3) spans 9", "(2, 6, 8, 9)", "has 8"});
  expect_error([&] { pool(PoolOp::max, x, {3}); }, {"size (3) has 1 numbers"});
  expect_error([&] { pool(PoolOp::max, x, {}); }, {"pool: no size"});
  expect_error([&] { pool(PoolOp::max, x, {0, 1}); }, {"size (0, 1) holds 0"});
  expect_error([&] { pool(PoolOp::max, x, {2, 2}, {.window = {.stride = {0, 1}}}); }, {"stride (0, 1) holds 0"});
  expect_error([&] { pool(PoolOp::max, x, {2, 2}, {.window = {.pad_before = {2, 0}}}); },
               {"padding of 2 and 0 with a window that spans 2"});
  expect_error([&] { pool(PoolOp::max, cast(x, DType::i32), {2, 2}); }, {"x is int32"});
  const Tensor six = zeros({6});
  expect_error([&] { batch_norm(x, zeros({5}), six); }, {"batch_norm: the mean has shape (5,)", "6 channels"});
  expect_error([&] { batch_norm(x, six, six, {.weight = zeros({6, 1})}); }, {"the weight has shape (6, 1)"});
  expect_error([&] { batch_norm(x, six, six, {.axis = 4}); }, {"batch_norm: axis 4 is out of range"});
  expect_error([&] { batch_norm(x, six, six, {.eps = -1}); }, {"eps is -1"});
  expect_error([&] { group_norm(x, {.groups = 4}); }, {"group_norm: 4 groups do not divide the 6 channels"});
  expect_error([&] { group_norm(x, {.groups = 0}); }, {"0 groups"});
  expect_error([&] { group_norm(six); }, {"group_norm: x (6,) has no channels"});
  expect_error([&] { group_norm(x, {.bias = zeros({2})}); }, {"the bias has shape (2,)"});
}

TEST(LayersEmpty, GiveEmptyResults) {
  Device& device = test_device();
  EXPECT_EQ(pool(PoolOp::max, device.zeros({0, 2, 4}, DType::f32), {2}).shape(), (Shape{0, 2, 3}));
  EXPECT_EQ(group_norm(device.zeros({0, 4, 2}, DType::f32), {.groups = 2}).shape(), (Shape{0, 4, 2}));
  const Tensor none = device.zeros({0}, DType::f32);
  EXPECT_EQ(batch_norm(device.zeros({3, 0}, DType::f32), none, none).shape(), (Shape{3, 0}));
}

}  // namespace
}  // namespace weft
