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
#include "unit/strided.h"
#include "unit/test_device.h"
#include "weft/nn.h"
#include "weft/ops.h"

namespace weft {
namespace {

using ops::ConvGeometry;
using ops::KernelClass;
using testing::Strided;
using testing::test_device;
using Values = std::vector<double>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Conv : public ::testing::TestWithParam<KernelClass> {
 protected:
  void SetUp() override { ops::force_kernel_class(GetParam()); }
  void TearDown() override { ops::force_kernel_class(KernelClass::automatic); }
};

INSTANTIATE_TEST_SUITE_P(Kernels, Conv, ::testing::Values(KernelClass::gpu, KernelClass::cpu),
                         [](const auto& p) { return std::string(p.param == KernelClass::gpu ? "gpu" : "cpu"); });

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

DType dtype_of_seed(std::uint32_t seed) {
  return seed % 4 == 3 && test_device().features().f16 ? DType::f16 : DType::f32;
}

TEST_P(Conv, ForwardMatchesTheModelOnAnyShapeAndStrides) {
  for (std::uint32_t seed = 0; seed < 160; ++seed) {
    std::mt19937 random(seed);
    Case c = random_case(random);
    SCOPED_TRACE(describe(c, seed));
    const DType dtype = dtype_of_seed(seed);
    const Strided x = testing::random_strided(test_device(), random, c.x, dtype);
    const Strided f = testing::random_strided(test_device(), random, c.filter, dtype);
    Values expected = forward_model(c.geometry, x.values, f.values);
    const Shape shape = ops::conv_shape(c.x, c.filter, c.options);
    if (random() % 2 == 0) {
      const Strided bias = testing::random_strided(test_device(), random, {c.filter[0]}, dtype);
      c.options.bias = bias.tensor;
      add_bias(expected, c.options.layout, shape, bias.values);
    }
    if (random() % 3 == 0) {
      c.options.activation = Activation::relu;
      for (double& v : expected) v = std::max(v, 0.0);
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
    const DType dtype = dtype_of_seed(seed);
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
    const DType dtype = dtype_of_seed(seed);
    const Strided g = testing::random_strided(test_device(), random, c.geometry.out_shape(), dtype);
    const Strided x = testing::random_strided(test_device(), random, c.x, dtype);
    expect_equal(conv_backward_filter(g.tensor, x.tensor, c.filter, c.options), c.filter,
                 filter_model(c.geometry, g.values, x.values, element_count(c.filter)));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft
