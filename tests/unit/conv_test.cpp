// Convolutions and their gradients against sums in double, on random shapes; requirement C6, and D10, D11 of the faults
// that others met. The random values are such that all sums are exact in f32, whatever their order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/catalog.h"
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
using testing::Strided;
using testing::test_device;
using Values = std::vector<double>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Conv : public testing::KernelClassTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, Conv, testing::both_kernel_classes(), testing::kernel_class_name);

/// Where element (n, c, h, w) of an image lies in row-major order.
std::size_t place(const ConvGeometry& g, std::int64_t channels, std::int64_t h_length, std::int64_t w_length,
                  std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return static_cast<std::size_t>(g.layout == Layout::channels_first
                                      ? ((n * channels + c) * h_length + h) * w_length + w
                                      : ((n * h_length + h) * w_length + w) * channels + c);
}

/// Calls `use(x, f, out)` with the places of every product that the convolution adds up.
template <class Use>
void each_product(const ConvGeometry& g, Use use) {
  const auto& [ah, aw] = g.axes;
  const std::int64_t cg = g.channels / g.groups, kg = g.out_channels / g.groups;
  for (std::int64_t n = 0; n < g.batch; ++n) {
    for (std::int64_t k = 0; k < g.out_channels; ++k) {
      for (std::int64_t oh = 0; oh < ah.out; ++oh) {
        for (std::int64_t ow = 0; ow < aw.out; ++ow) {
          for (std::int64_t c = 0; c < cg; ++c) {
            for (std::int64_t r = 0; r < ah.window; ++r) {
              for (std::int64_t s = 0; s < aw.window; ++s) {
                const std::int64_t h = oh * ah.stride + r * ah.dilation - ah.pad_before;
                const std::int64_t w = ow * aw.stride + s * aw.dilation - aw.pad_before;
                if (h < 0 || h >= ah.in || w < 0 || w >= aw.in) continue;
                use(place(g, g.channels, ah.in, aw.in, n, k / kg * cg + c, h, w),
                    static_cast<std::size_t>(((k * cg + c) * ah.window + r) * aw.window + s),
                    place(g, g.out_channels, ah.out, aw.out, n, k, oh, ow));
              }
            }
          }
        }
      }
    }
  }
}

Values forward_model(const ConvGeometry& g, const Values& x, const Values& f) {
  Values out(static_cast<std::size_t>(element_count(g.out_shape())));
  each_product(g, [&](std::size_t xi, std::size_t fi, std::size_t oi) { out[oi] += x[xi] * f[fi]; });
  return out;
}
Values data_model(const ConvGeometry& g, const Values& grad, const Values& f) {
  Values out(static_cast<std::size_t>(element_count(g.x_shape())));
  each_product(g, [&](std::size_t xi, std::size_t fi, std::size_t oi) { out[xi] += grad[oi] * f[fi]; });
  return out;
}
Values filter_model(const ConvGeometry& g, const Values& grad, const Values& x, std::int64_t size) {
  Values out(static_cast<std::size_t>(size));
  each_product(g, [&](std::size_t xi, std::size_t fi, std::size_t oi) { out[fi] += grad[oi] * x[xi]; });
  return out;
}

/// `bias` by channel of an image with so many.
void add_bias(Values& image, Layout layout, const Shape& shape, const Values& bias) {
  std::size_t inner = 1;
  if (layout == Layout::channels_first) {
    for (std::size_t i = 2; i < shape.rank(); ++i) inner *= static_cast<std::size_t>(shape[i]);
  }
  for (std::size_t i = 0; i < image.size(); ++i) image[i] += bias[i / inner % bias.size()];
}

void expect_equal(const Tensor& got, const Shape& shape, const Values& expected) {
  ASSERT_EQ(got.shape(), shape);
  const Values values = testing::to_doubles(got);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double e = testing::stored(expected[i], got.dtype());
    // f16: the sum is exact and rounds once.
    ASSERT_EQ(values[i], e) << "at " << i << " of " << to_string(shape);
  }
}

struct Case {
  Shape x, filter;
  ConvOptions options;
  ConvGeometry geometry;
};

std::int64_t one_of(std::mt19937& random, std::initializer_list<std::int64_t> values) {
  return values.begin()[random() % values.size()];
}

/// A random convolution with at least one output.
Case random_case(std::mt19937& random) {
  for (;;) {
    Case c;
    const std::size_t spatial = random() % 4 == 0 ? 1 : 2;
    const std::int64_t groups = one_of(random, {1, 1, 1, 2, 3, 5});
    const std::int64_t cg = one_of(random, {1, 1, 2, 3, 5, 8, 17});
    const std::int64_t kg = one_of(random, {1, 1, 2, 3, 4, 7, 9, 20, 40});
    c.options.groups = groups;
    c.options.layout = random() % 2 == 0 ? Layout::channels_first : Layout::channels_last;
    c.x = {one_of(random, {1, 1, 2, 3})};
    c.filter = {kg * groups, cg};
    if (c.options.layout == Layout::channels_first) c.x.push_back(cg * groups);
    for (std::size_t i = 0; i < spatial; ++i) {
      c.x.push_back(one_of(random, spatial == 1 ? std::initializer_list<std::int64_t>{1, 7, 31, 64, 130}
                                                : std::initializer_list<std::int64_t>{1, 2, 5, 9, 13}));
      c.filter.push_back(one_of(random, {1, 1, 2, 3, 3, 5, 7, 11}));
      const auto add = [&](std::vector<std::int64_t>& to, std::initializer_list<std::int64_t> values) {
        to.push_back(one_of(random, values));
      };
      add(c.options.window.stride, {1, 1, 1, 2, 3});
      add(c.options.window.pad_before, {0, 0, 1, 2, 5});
      add(c.options.window.pad_after, {0, 0, 1, 3});
      add(c.options.window.dilation, {1, 1, 1, 2, 3});
    }
    if (c.options.layout == Layout::channels_last) c.x.push_back(cg * groups);
    try {
      c.geometry = ops::conv_geometry("conv", c.x, c.filter, c.options.window, groups, c.options.layout);
    } catch (const Error&) {
      continue;  // the filter is larger than the padded input
    }
    const auto products = static_cast<double>(element_count(c.geometry.out_shape())) *
                          static_cast<double>(element_count(c.filter)) / static_cast<double>(kg * groups);
    if (products < 4e5) return c;
  }
}

std::string describe(const Case& c, std::uint32_t seed) {
  const auto list = [](const std::vector<std::int64_t>& v) { return to_string(Shape(std::span(v))); };
  const SlidingWindow& w = c.options.window;
  return "seed " + std::to_string(seed) + " x " + to_string(c.x) + " filter " + to_string(c.filter) + " groups " +
         std::to_string(c.options.groups) + (c.options.layout == Layout::channels_first ? " first" : " last") +
         " stride " + list(w.stride) + " before " + list(w.pad_before) + " after " + list(w.pad_after) + " dilation " +
         list(w.dilation);
}

/// f16 in one layout: each kernel takes its compiler a while.
DType dtype_of(const Case& c, std::uint32_t seed) {
  const bool half = seed % 3 == 0 && c.options.layout == Layout::channels_first && test_device().features().f16;
  return half ? DType::f16 : DType::f32;
}

TEST_P(Conv, ForwardMatchesTheModelOnAnyShapeAndStrides) {
  for (std::uint32_t seed = 0; seed < 160; ++seed) {
    std::mt19937 random(seed);
    Case c = random_case(random);
    SCOPED_TRACE(describe(c, seed));
    const DType dtype = dtype_of(c, seed);
    const Strided x = testing::random_strided(test_device(), random, c.x, dtype);
    const Strided f = testing::random_strided(test_device(), random, c.filter, dtype);
    Values expected = forward_model(c.geometry, x.values, f.values);
    const Shape shape = ops::conv_shape(c.x, c.filter, c.options);
    if (random() % 2 == 0) {
      const Strided bias = testing::random_strided(test_device(), random, {c.filter[0]}, dtype);
      c.options.bias = bias.tensor;
      add_bias(expected, c.options.layout, shape, bias.values);
    }
    expect_equal(conv(x.tensor, f.tensor, c.options), shape, expected);
    if (HasFailure()) return;
  }
}

TEST_P(Conv, GradientOfTheInputMatchesTheModel) {
  for (std::uint32_t seed = 1000; seed < 1100; ++seed) {
    std::mt19937 random(seed);
    const Case c = random_case(random);
    SCOPED_TRACE(describe(c, seed));
    const DType dtype = dtype_of(c, seed);
    const Strided g = testing::random_strided(test_device(), random, c.geometry.out_shape(), dtype);
    const Strided f = testing::random_strided(test_device(), random, c.filter, dtype);
    expect_equal(conv_backward_data(g.tensor, f.tensor, c.x, c.options), c.x,
                 data_model(c.geometry, g.values, f.values));
    if (HasFailure()) return;
  }
}

TEST_P(Conv, GradientOfTheFilterMatchesTheModel) {
  for (std::uint32_t seed = 2000; seed < 2100; ++seed) {
    std::mt19937 random(seed);
    const Case c = random_case(random);
    SCOPED_TRACE(describe(c, seed));
    const DType dtype = dtype_of(c, seed);
    const Strided g = testing::random_strided(test_device(), random, c.geometry.out_shape(), dtype);
    const Strided x = testing::random_strided(test_device(), random, c.x, dtype);
    expect_equal(conv_backward_filter(g.tensor, x.tensor, c.filter, c.options), c.filter,
                 filter_model(c.geometry, g.values, x.values, element_count(c.filter)));
    if (HasFailure()) return;
  }
}

TEST_P(Conv, TransposeMatchesTheModel) {
  for (std::uint32_t seed = 3000; seed < 3060; ++seed) {
    std::mt19937 random(seed);
    const Case c = random_case(random);
    ConvTransposeOptions options{.window = c.options.window, .groups = c.options.groups, .layout = c.options.layout};
    Shape filter = c.filter;  // of the convolution from the result to x: [channels, out channels / groups, ...]
    const ConvGeometry& g = c.geometry;
    for (std::size_t i = 2 - g.spatial; i < 2; ++i) {
      // What the convolution leaves unread behind its last window.
      const ops::WindowAxis& a = g.axes[i];
      options.output_padding.push_back((a.in + a.pad_before + a.pad_after - a.extent()) % a.stride);
    }
    SCOPED_TRACE(describe(c, seed));
    const DType dtype = dtype_of(c, seed);
    const Strided x = testing::random_strided(test_device(), random, g.out_shape(), dtype);
    const Strided f = testing::random_strided(test_device(), random, filter, dtype);
    const Strided bias = testing::random_strided(test_device(), random, {g.channels}, dtype);
    Values expected = data_model(g, x.values, f.values);
    ASSERT_EQ(ops::conv_transpose_shape(g.out_shape(), filter, options), c.x);
    if (seed % 2 == 0) {
      options.bias = bias.tensor;
      add_bias(expected, options.layout, c.x, bias.values);
    }
    expect_equal(conv_transpose(x.tensor, f.tensor, options), c.x, expected);
    if (HasFailure()) return;
  }
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST_P(Conv, GradientsAreTheAdjointsOfTheConvolution) {
  struct Large {
    Shape x, filter;
    SlidingWindow window;
    std::int64_t groups;
    Layout layout;
  };
  const std::vector<Large> cases{
      {{2, 24, 20, 17}, {40, 12, 5, 3}, {{2, 1}, {1, 2}, {2, 0}, {1, 2}}, 2, Layout::channels_first},
      {{2, 20, 17, 24}, {144, 24, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1, Layout::channels_last},
      {{3, 31, 29, 32}, {64, 1, 3, 3}, {{2, 2}, {0, 1}, {1, 0}, {1, 1}}, 32, Layout::channels_last},
      {{1, 130, 9, 9}, {65, 130, 1, 1}, {}, 1, Layout::channels_first},
      {{1, 3, 45, 45}, {33, 3, 11, 11}, {{4, 4}, {2, 2}, {2, 2}, {1, 1}}, 1, Layout::channels_first},
  };
  for (const Large& c : cases) {
    std::mt19937 random(7);
    ConvOptions options{.window = c.window, .groups = c.groups, .layout = c.layout};
    const Shape out = ops::conv_shape(c.x, c.filter, options);
    SCOPED_TRACE(to_string(c.x) + to_string(c.filter));
    const Strided x = testing::dense(test_device(), random, c.x, DType::f32);
    const Strided f = testing::dense(test_device(), random, c.filter, DType::f32);
    const Strided g = testing::dense(test_device(), random, out, DType::f32);
    const double forward = dot(testing::to_doubles(conv(x.tensor, f.tensor, options)), g.values);
    EXPECT_NE(forward, 0);
    EXPECT_EQ(forward, dot(testing::to_doubles(conv_backward_data(g.tensor, f.tensor, c.x, options)), x.values));
    EXPECT_EQ(forward, dot(testing::to_doubles(conv_backward_filter(g.tensor, x.tensor, c.filter, options)), f.values));
  }
}

TEST_P(Conv, StridesOfMoreThanTheWindowAndOfThousands) {
  std::mt19937 random(11);
  for (const std::int64_t stride : {5, 17, 300}) {
    const Shape x{1, 3, 40, 700}, filter{2, 3, 2, 4};
    ConvOptions options{.window = {.stride = {std::min<std::int64_t>(stride, 20), stride}, .pad_before = {0, 1}}};
    const ConvGeometry g = ops::conv_geometry("conv", x, filter, options.window, 1, Layout::channels_first);
    const Strided grad = testing::dense(test_device(), random, g.out_shape(), DType::f32);
    const Strided f = testing::dense(test_device(), random, filter, DType::f32);
    expect_equal(conv_backward_data(grad.tensor, f.tensor, x, options), x, data_model(g, grad.values, f.values));
  }
}

TEST_P(Conv, SumsOfMoreThan65535Products) {
  std::mt19937 random(5);
  for (const std::int64_t rows : {1, 9}) {  // channels
    const Shape x{1, 70001, 2}, filter{rows, 70001, 1};
    const Strided a = testing::dense(test_device(), random, x, DType::f32);
    const Strided f = testing::dense(test_device(), random, filter, DType::f32);
    const ConvGeometry g = ops::conv_geometry("conv", x, filter, {}, 1, Layout::channels_first);
    const Strided bias = testing::dense(test_device(), random, {rows}, DType::f32);
    Values expected = forward_model(g, a.values, f.values);
    add_bias(expected, Layout::channels_first, g.out_shape(), bias.values);
    for (double& v : expected) v = std::max(v, 0.0);
    expect_equal(conv(a.tensor, f.tensor, {.bias = bias.tensor, .activation = Activation::relu}), g.out_shape(),
                 expected);
  }
  {  // a long window, and pixels
    const Shape x{1, 2, 150000}, filter{3, 2, 70000};
    const Strided a = testing::dense(test_device(), random, x, DType::f32);
    const Strided f = testing::dense(test_device(), random, filter, DType::f32);
    ConvOptions options{.window = {.stride = {40000}}};
    const ConvGeometry g = ops::conv_geometry("conv", x, filter, options.window, 1, Layout::channels_first);
    const Tensor out = conv(a.tensor, f.tensor, options);
    expect_equal(out, g.out_shape(), forward_model(g, a.values, f.values));
    const Shape small{3, 2, 4};
    const ConvGeometry h = ops::conv_geometry("conv", x, small, {}, 1, Layout::channels_first);
    const Strided grad = testing::dense(test_device(), random, h.out_shape(), DType::f32);
    expect_equal(conv_backward_filter(grad.tensor, a.tensor, small), small,
                 filter_model(h, grad.values, a.values, element_count(small)));
  }
}

TEST_P(Conv, MoreThan65535Workgroups) {
  constexpr std::int64_t kGroups = 66000;
  std::mt19937 random(3);
  const Shape x{1, kGroups * 3, 1}, filter{kGroups * 8, 3, 1};
  const Strided a = testing::dense(test_device(), random, x, DType::f32);
  const Strided f = testing::dense(test_device(), random, filter, DType::f32);
  const ConvGeometry g = ops::conv_geometry("conv", x, filter, {}, kGroups, Layout::channels_first);
  expect_equal(conv(a.tensor, f.tensor, {.groups = kGroups}), g.out_shape(), forward_model(g, a.values, f.values));
}

TEST_P(Conv, ActivationsAreThoseOfTheUnaryOps) {
  std::mt19937 random(17);
  const Strided x = testing::dense(test_device(), random, {2, 5, 7, 6}, DType::f32);
  const Strided bias = testing::dense(test_device(), random, {11}, DType::f32);
  for (const std::int64_t groups : {1, 5}) {
    const Strided f = testing::dense(test_device(), random, {groups == 1 ? 11 : 10, 5 / groups, 3, 3}, DType::f32);
    ConvOptions options{.window = {.pad_before = {1, 1}}, .groups = groups};
    if (groups == 1) options.bias = bias.tensor;
    const Tensor plain = conv(x.tensor, f.tensor, options);
    for (const auto& [activation, op] :
         {std::pair{Activation::relu, UnaryOp::relu}, std::pair{Activation::gelu, UnaryOp::gelu},
          std::pair{Activation::gelu_tanh, UnaryOp::gelu_tanh}, std::pair{Activation::silu, UnaryOp::silu}}) {
      if (groups > 1 && activation != Activation::silu) continue;  // each is a kernel to compile
      options.activation = activation;
      EXPECT_EQ(conv(x.tensor, f.tensor, options).to_host<float>(), unary(op, plain).to_host<float>()) << to_string(op);
    }
  }
}

TEST_P(Conv, WindowsOfOneElementAreProducts) {
  for (const Layout layout : {Layout::channels_first, Layout::channels_last}) {
    std::mt19937 random(31);
    const Shape shape = layout == Layout::channels_first ? Shape{3, 10, 4, 7} : Shape{3, 4, 7, 10};
    const Strided x = testing::random_strided(test_device(), random, shape, DType::f32);
    const Strided f = testing::random_strided(test_device(), random, {6, 10, 1, 1}, DType::f32);
    const Strided bias = testing::random_strided(test_device(), random, {6}, DType::f32);
    ConvOptions options{.layout = layout, .bias = bias.tensor};
    const ConvGeometry g = ops::conv_geometry("conv", shape, {6, 10, 1, 1}, {}, 1, layout);
    Values expected = forward_model(g, x.values, f.values);
    add_bias(expected, layout, g.out_shape(), bias.values);
    const Tensor plain = conv(x.tensor, f.tensor, options);
    expect_equal(plain, g.out_shape(), expected);
    options.activation = Activation::gelu;
    EXPECT_EQ(conv(x.tensor, f.tensor, options).to_host<float>(), unary(UnaryOp::gelu, plain).to_host<float>());
  }
}

TEST_P(Conv, NanShowsWhereItIsReadAndNowhereElse) {
  std::vector<float> values(2 * 3 * 6 * 6, 1.0f);
  values[36 + 2 * 6 + 3] = kNan;  // item 0, channel 1, row 2, column 3
  const Tensor x = test_device().upload<float>(values, {2, 3, 6, 6});
  for (const std::int64_t rows : {1, 12}) {
    const Tensor f = full(test_device(), {rows, 3, 3, 3}, 1.0, DType::f32);
    const std::vector<float> out = conv(x, f, {.window = {.pad_before = {1, 1}, .pad_after = {1, 1}}}).to_host<float>();
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(out.size()); ++i) {
      const std::int64_t w = i % 6, h = i / 6 % 6, n = i / 36 / rows;
      const bool reads = n == 0 && std::abs(h - 2) <= 1 && std::abs(w - 3) <= 1;
      EXPECT_EQ(std::isnan(out[static_cast<std::size_t>(i)]), reads) << i;
    }
  }
}

TEST_P(Conv, HalvesAddUpInF32AndOverflowToInfinity) {
  if (!test_device().features().f16) GTEST_SKIP() << "the device lacks f16";
  // 4096 + 2048 times 1: f16 alone would stay at 4096, where ones no longer count.
  std::vector<float16> values(2049, float16(1.0f));
  values[0] = float16(4096.0f);
  const Tensor x = test_device().upload<float16>(values, {1, 2049, 1});
  for (const std::int64_t rows : {1, 16}) {
    const Tensor ones = full(test_device(), {rows, 2049, 1}, 1.0, DType::f16);
    EXPECT_EQ(testing::to_doubles(conv(x, ones))[0], 6144.0);
    const Tensor large = full(test_device(), {rows, 2049, 1}, 65504.0, DType::f16);
    EXPECT_EQ(testing::to_doubles(conv(x, large))[0], std::numeric_limits<double>::infinity());
  }
}

TEST_P(Conv, EmptyBatchesAndChannels) {
  Device& device = test_device();
  EXPECT_EQ(conv(device.zeros({0, 3, 5, 5}, DType::f32), device.zeros({4, 3, 3, 3}, DType::f32)).shape(),
            (Shape{0, 4, 3, 3}));
  const Tensor bias = device.upload<float>(std::vector<float>{1, -2}, {2});
  const Tensor out = conv(device.zeros({1, 0, 2}, DType::f32), device.zeros({2, 0, 2}, DType::f32),
                          {.bias = bias, .activation = Activation::relu});
  EXPECT_EQ(out.to_host<float>(), (std::vector<float>{1, 0}));
  // The gradient of a filter from no items is zero.
  const Tensor grad =
      conv_backward_filter(device.zeros({0, 2, 3}, DType::f32), device.zeros({0, 1, 4}, DType::f32), {2, 1, 2});
  EXPECT_EQ(grad.to_host<float>(), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(conv_transpose(device.zeros({0, 3, 5}, DType::f32), device.zeros({3, 2, 2}, DType::f32)).shape(),
            (Shape{0, 2, 6}));
}

TEST_P(Conv, WritesIntoMemoryOfTheCallers) {
  std::mt19937 random(23);
  const Strided x = testing::dense(test_device(), random, {1, 4, 6, 6}, DType::f32);
  const Strided f = testing::dense(test_device(), random, {8, 4, 3, 3}, DType::f32);
  const Tensor out = test_device().zeros({1, 8, 4, 4}, DType::f32);
  into(out, [&] { return conv(x.tensor, f.tensor); });
  EXPECT_EQ(out.to_host<float>(), conv(x.tensor, f.tensor).to_host<float>());
}

/// More than one binding shows on lavapipe (128 MiB): worked in slices of the batch.
TEST(ConvLimits, TensorsOverTheBindingLimit) {
  const Shape shape{3, 1, 3500, 3500};
  if (test_device().limits().max_storage_binding_size > 36750000 * 4) GTEST_SKIP() << "one binding holds it";
  const Tensor x =
      cast(reshape(binary(BinaryOp::remainder, arange(test_device(), 0, 36750000, 1), 1000), shape), DType::f32);
  const Tensor two = full(test_device(), {1, 1, 1, 1}, 2.0, DType::f32);
  const ConvOptions options{.window = {.stride = {5, 7}}};
  const Tensor out = conv(x, two, options);
  ASSERT_EQ(out.shape(), (Shape{3, 1, 700, 500}));
  const std::vector<float> values = out.to_host<float>();
  for (std::int64_t i = 0; i < out.size(); i += 37) {
    const std::int64_t at = ((i / 350000 * 3500) + i / 500 % 700 * 5) * 3500 + i % 500 * 7;
    ASSERT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(at % 1000 * 2)) << i;
  }
  // Its gradient by a gradient of ones is 2 where it read.
  const Tensor ones = full(test_device(), out.shape(), 1.0, DType::f32);
  const Tensor back = conv_backward_data(ones, two, shape, options);
  EXPECT_EQ(sum(back).to_host<float>()[0], 3.0f * 350000 * 2);
  const Tensor filter = conv_backward_filter(ones, slice(x, 0, 0, 3), {1, 1, 1, 1}, options);
  double expected = 0;
  for (float v : values) expected += v / 2;
  EXPECT_NEAR(filter.to_host<float>()[0], expected, expected * 1e-5);
  EXPECT_EQ(pool(PoolOp::max, x, {1, 1}, {.window = options.window}).to_host<float>()[400000], values[400000] / 2);
}

template <class Call>
void expect_error(Call call, std::initializer_list<std::string> parts) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted one with " << *parts.begin();
  } catch (const Error& e) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nlacks: " << part;
    }
    EXPECT_NE(std::string(e.what()).find("Fix: "), std::string::npos);
  }
}

TEST(ConvErrors, NameTheOpTheShapesAndAFix) {  // D10
  Device& device = test_device();
  const auto zeros = [&](const Shape& shape) { return device.zeros(shape, DType::f32); };
  const Tensor x = zeros({2, 6, 8, 9});
  const Tensor f = zeros({4, 6, 3, 3});
  expect_error([&] { conv(x, zeros({4, 5, 3, 3})); }, {"conv: x (2, 6, 8, 9) has 6 channels", "(4, 5, 3, 3) takes 5"});
  expect_error([&] { conv(x, zeros({4, 9, 3, 3})); }, {"has 6 channels", "layout"});
  expect_error([&] { conv(x, f, {.groups = 4}); }, {"4 groups do not divide the 6 channels of (2, 6, 8, 9)"});
  expect_error([&] { conv(x, zeros({4, 2, 3, 3}), {.groups = 3}); }, {"3 groups do not divide the 4 out channels"});
  expect_error([&] { conv(x, f, {.groups = 0}); }, {"groups is 0"});
  expect_error([&] { conv(x, zeros({4, 6, 9, 3})); }, {"spans 9 elements", "has 8 there"});
  expect_error([&] { conv(x, f, {.window = {.dilation = {1, 5}}}); }, {"spans 11 elements", "has 9 there"});
  expect_error([&] { conv(x, f, {.window = {.stride = {1, 0}}}); }, {"stride (1, 0) holds 0"});
  expect_error([&] { conv(x, f, {.window = {.pad_before = {-1, 0}}}); }, {"pad_before (-1, 0) holds -1"});
  expect_error([&] { conv(x, f, {.window = {.dilation = {0, 1}}}); }, {"dilation (0, 1) holds 0"});
  expect_error([&] { conv(x, f, {.window = {.stride = {1}}}); }, {"stride (1) has 1 numbers", "2 spatial axes"});
  expect_error([&] { conv(x, zeros({4, 6, 3})); }, {"filter (4, 6, 3) has 3 axes"});
  expect_error([&] { conv(zeros({2, 6}), f); }, {"x (2, 6) has 2 axes"});
  expect_error([&] { conv(x, zeros({4, 6, 0, 3})); }, {"a window of length 0"});
  expect_error([&] { conv(x, f, {.bias = zeros({5})}); }, {"a bias of shape (5,) for 4 out channels"});
  expect_error([&] { conv(x, cast(f, DType::i32)); }, {"float32, but the filter is int32"});
  expect_error([&] { conv(cast(x, DType::i32), f); }, {"is int32, not f32 or f16"});
  expect_error([&] { conv(x, f, {.window = {.pad_before = {2000000000, 0}, .pad_after = {2000000000, 0}}}); },
               {"a padded length of 4000000008", "2147483647"});
  expect_error([&] { conv(Tensor(), f); }, {"conv: an operand is an empty tensor handle"});
  expect_error([&] { conv_transpose(x, zeros({5, 4, 3, 3})); }, {"conv_transpose: x (2, 6, 8, 9) has 6 channels"});
  expect_error([&] { conv_transpose(x, zeros({6, 4, 3, 3}), {.window = {.pad_before = {9, 0}, .pad_after = {9, 0}}}); },
               {"makes 10 elements of an axis, and padding takes away 18"});
  expect_error([&] { conv_backward_data(zeros({2, 4, 6, 8}), f, {2, 6, 8, 9}); },
               {"conv_backward_data: the gradient has shape (2, 4, 6, 8)", "(2, 4, 6, 7)"});
  expect_error([&] { conv_backward_filter(zeros({2, 4, 6, 8}), x, {4, 6, 3, 3}); }, {"conv_backward_filter"});
  expect_error([&] { conv_backward_data(zeros({2, 4, 6, 7}), f, {2, 6, 8, 9}, {.activation = Activation::relu}); },
               {"a bias or an activation"});
}

/// D11: all that can be chosen compiles on this implementation.
TEST(ConvCatalogue, EveryKernelCompiles) {
  std::vector<KernelOptions> all;
  std::vector<std::string> keys;
  ops::conv_family().visit_kernels(test_device(), [&](std::string_view key, const KernelOptions& options) {
    keys.emplace_back(key);
    all.push_back(options);
  });
  std::vector<PendingKernel> pending = test_device().prepare(all);
  for (std::size_t i = 0; i < pending.size(); ++i) EXPECT_NO_THROW(pending[i].get()) << keys[i];
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
  EXPECT_GT(keys.size(), 100u);
}

}  // namespace
}  // namespace weft
