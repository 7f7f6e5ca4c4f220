// Philox on the device bit by bit against one in C++ (known answers of the paper's own test file), and what is made of
// it: ranges, moments, chi-squared, independence, with fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <vector>

#include "unit/catalog_check.h"
#include "unit/core_helpers.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "weft/ops.h"
#include "weft/random.h"

namespace weft {
namespace {

using testing::error_of;
using testing::expect_error;
using testing::test_device;
using Block = std::array<std::uint32_t, 4>;

Block philox(Block c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd2511f53u} * c[0];
    const std::uint64_t b = std::uint64_t{0xcd9e8d57u} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k[0] += 0x9e3779b9u;
    k[1] += 0xbb67ae85u;
  }
  return c;
}

/// Number i of a draw.
std::uint32_t number(const Random& g, std::uint64_t i, std::uint32_t attempt = 0) {
  const std::uint64_t block = g.offset + i / 4;
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), attempt, 0},
                {static_cast<std::uint32_t>(g.seed), static_cast<std::uint32_t>(g.seed >> 32)})[i % 4];
}

constexpr std::array<Random, 4> kStarts{Random{0, 0}, Random{42, 7}, Random{0xfedcba9876543210u, 0xfffffffeu},
                                        Random{0xffffffffffffffffu, 0xfffffffffffffff0u}};

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  constexpr std::uint32_t kOnes = 0xffffffffu;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
            (Block{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
  Random g;
  const std::vector<std::uint32_t> got = random_bits(test_device(), {4}, g).to_host<std::uint32_t>();
  EXPECT_EQ(got, (std::vector<std::uint32_t>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
}

TEST(Philox, BitsOfTheDeviceAreThoseOfTheHost) {
  for (const Random& start : kStarts) {
    Random g = start;
    const std::vector<std::uint32_t> got = random_bits(test_device(), {37, 27}, g).to_host<std::uint32_t>();
    for (std::uint64_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], number(start, i)) << i;
    EXPECT_EQ(g.offset, start.offset + 250);  // 999 numbers
  }
}

TEST(Philox, PastTheGridLimit) {
  constexpr std::int64_t kCount = 70'000LL * 128 * 4 + 3;
  Random g{3, 5};
  const std::vector<std::uint32_t> got = random_bits(test_device(), {kCount}, g).to_host<std::uint32_t>();
  for (std::size_t i = 0; i < got.size(); i += 997) ASSERT_EQ(got[i], number({3, 5}, i)) << i;
  ASSERT_EQ(got.back(), number({3, 5}, kCount - 1));
}

TEST(Philox, PastABinding) {
  Device& device = test_device();
  if (device.limits().max_storage_binding_size > (std::uint64_t{1} << 28)) GTEST_SKIP() << "bindings are large here";
  constexpr std::int64_t kCount = 36 << 20;  // 144 MiB
  Random g{9, 0};
  const Tensor all = random_bits(device, {kCount}, g);
  for (std::int64_t at : {std::int64_t{0}, (std::int64_t{32} << 20) - 2, kCount - 4}) {
    const auto got = slice(all, 0, at, at + 4).to_host<std::uint32_t>();
    for (std::int64_t i = 0; i < 4; ++i) ASSERT_EQ(got[static_cast<std::size_t>(i)], number({9, 0}, at + i)) << at;
  }
}

TEST(Uniform, IsTheNumbersBitsScaled) {
  for (const Random& start : kStarts) {
    Random g = start;
    const std::vector<float> unit = random_uniform(test_device(), {1001}, g).to_host<float>();
    for (std::uint64_t i = 0; i < unit.size(); ++i) {
      ASSERT_EQ(unit[i], static_cast<float>(number(start, i) >> 8) * 0x1p-24F) << i;
    }
    g = start;
    const std::vector<float> wide = random_uniform(test_device(), {1001}, g, -3.7, 11.3).to_host<float>();
    const auto span = static_cast<float>(double{11.3F} - double{-3.7F});
    for (std::uint64_t i = 0; i < wide.size(); ++i) {
      // volatile: the host's compiler may not fuse either.
      volatile float product = (static_cast<float>(number(start, i) >> 8) * 0x1p-24F) * span;
      ASSERT_EQ(wide[i], product + -3.7F) << i;
    }
  }
}

// 2^-24 of an ulp at 1: without care half of all numbers would round up to the end.
TEST(Uniform, NeverGivesTheEnd) {
  Random g{1, 0};
  const float next = std::nextafter(1.0F, 2.0F);
  for (float v : random_uniform(test_device(), {1000}, g, 1.0, next).to_host<float>()) ASSERT_EQ(v, 1.0F);
  const std::vector<float> got = random_uniform(test_device(), {100'000}, g, 16'777'214, 16'777'216).to_host<float>();
  EXPECT_EQ(*std::max_element(got.begin(), got.end()), 16'777'215.0F);
  EXPECT_EQ(*std::min_element(got.begin(), got.end()), 16'777'214.0F);
  for (float v : random_uniform(test_device(), {5000}, g, -2e38, 1.4e38).to_host<float>()) {
    ASSERT_GE(v, -2e38F);
    ASSERT_LT(v, 1.4e38F);
  }
}

TEST(Uniform, F16HasElevenBits) {
  Device& device = test_device();
  if (!device.features().f16) GTEST_SKIP() << "the device has no f16";
  const Random start{77, 1};
  Random g = start;
  const std::vector<float16> got = random_uniform(device, {4001}, g, 0, 1, DType::f16).to_host<float16>();
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(static_cast<float>(got[i]), static_cast<float>(number(start, i) >> 21) * 0x1p-11F) << i;
  }
  g = start;
  float low = 10, high = 0;
  for (float16 v : random_uniform(device, {40'001}, g, 3, 4, DType::f16).to_host<float16>()) {
    low = std::min(low, static_cast<float>(v));
    high = std::max(high, static_cast<float>(v));
  }
  EXPECT_EQ(low, 3.0F);
  EXPECT_EQ(high, 4.0F - 0x1p-9F);
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, lag1 = 0, lag2 = 0;
};
Moments moments(const std::vector<float>& x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  for (float v : x) m.mean += v / n;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - m.mean;
    m.variance += d * d / n;
    m.skew += d * d * d / n;
    m.kurtosis += d * d * d * d / n;
    if (i >= 1) m.lag1 += d * (x[i - 1] - m.mean) / n;
    if (i >= 2) m.lag2 += d * (x[i - 2] - m.mean) / n;
  }
  m.skew /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  m.lag1 /= m.variance;
  m.lag2 /= m.variance;
  return m;
}

constexpr std::int64_t kMany = 1 << 20;  // standard errors are some 2^-10; the bounds are 5 of them

TEST(Uniform, MomentsAndChiSquared) {
  Random g{2024, 0};
  const std::vector<float> x = random_uniform(test_device(), {kMany}, g).to_host<float>();
  const Moments m = moments(x);
  EXPECT_NEAR(m.mean, 0.5, 5 * std::sqrt(1.0 / 12 / kMany));
  EXPECT_NEAR(m.variance, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kMany));
  EXPECT_NEAR(m.lag1, 0, 5 / std::sqrt(kMany));
  EXPECT_NEAR(m.lag2, 0, 5 / std::sqrt(kMany));
  std::vector<double> cells(256);
  for (float v : x) ++cells[static_cast<std::size_t>(v * 256)];
  double chi = 0;
  for (double c : cells) chi += (c - kMany / 256.0) * (c - kMany / 256.0) / (kMany / 256.0);
  EXPECT_NEAR(chi, 255, 5 * std::sqrt(2 * 255.0));
}

TEST(Normal, MomentsAndChiSquared) {
  Random g{2025, 0};
  const std::vector<float> x = random_normal(test_device(), {kMany}, g).to_host<float>();
  const Moments m = moments(x);
  EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(kMany));
  EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2.0 / kMany));
  EXPECT_NEAR(m.skew, 0, 5 * std::sqrt(6.0 / kMany));
  EXPECT_NEAR(m.kurtosis, 3, 5 * std::sqrt(24.0 / kMany));
  EXPECT_NEAR(m.lag1, 0, 5 / std::sqrt(kMany));
  EXPECT_NEAR(m.lag2, 0, 5 / std::sqrt(kMany));
  // 64 cells of equal probability by the distribution function.
  std::vector<double> cells(64);
  for (float v : x) {
    ASSERT_TRUE(std::isfinite(v));
    const double p = 0.5 * std::erfc(-v / std::sqrt(2.0));
    ++cells[std::min<std::size_t>(static_cast<std::size_t>(p * 64), 63)];
  }
  double chi = 0;
  for (double c : cells) chi += (c - kMany / 64.0) * (c - kMany / 64.0) / (kMany / 64.0);
  EXPECT_NEAR(chi, 63, 5 * std::sqrt(2 * 63.0));
}

TEST(Normal, IsBoxAndMullersTransformOfTheNumbers) {
  const Random start{5, 123};
  Random g = start;
  const std::vector<float> got = random_normal(test_device(), {10'001}, g, 10, 3).to_host<float>();
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    const std::uint64_t pair = i / 2 * 2;
    const double u = (double{static_cast<float>(number(start, pair))} + 1) * 0x1p-32;
    const double turn = (number(start, pair + 1) >> 8) * 0x1p-24 * 2 * std::acos(-1.0);
    const double z = std::sqrt(-2 * std::log(u)) * (i % 2 == 0 ? std::cos(turn) : std::sin(turn));
    ASSERT_NEAR(got[i], 10 + 3 * z, 1e-5) << i;
  }
  EXPECT_EQ(random_normal(test_device(), {5}, g, 4, 0).to_host<float>(), (std::vector<float>(5, 4.0F)));
}

TEST(Normal, F16) {
  Device& device = test_device();
  if (!device.features().f16) GTEST_SKIP() << "the device has no f16";
  Random a{6, 0}, b{6, 0};
  const std::vector<float16> half = random_normal(device, {4001}, a, 1, 2, DType::f16).to_host<float16>();
  const std::vector<float> full = random_normal(device, {4001}, b, 1, 2).to_host<float>();
  for (std::size_t i = 0; i < half.size(); ++i) ASSERT_EQ(half[i], float16(full[i])) << i;
}

std::int64_t integer(const Random& start, std::uint64_t i, std::int64_t low, std::uint64_t range) {
  const auto r = static_cast<std::uint32_t>(range);
  std::uint32_t attempt = 0;
  std::uint64_t product = number(start, i) * range;
  while (r != 0 && static_cast<std::uint32_t>(product) < (0u - r) % r) product = number(start, i, ++attempt) * range;
  return low + static_cast<std::int64_t>(product >> 32);
}

TEST(Integers, AreLemiresOfTheNumbers) {
  struct Case {
    std::int64_t low, high;
    DType dtype;
  };
  constexpr std::int64_t kWord = std::int64_t{1} << 32;
  // 2^31 + 1 rejects nearly a half of all numbers.
  for (const Case& c :
       {Case{0, 6, DType::i32}, Case{-5, -4, DType::i32}, Case{-1'000'000'000, 1'147'483'649, DType::i32},
        Case{-kWord / 2, kWord / 2, DType::i32}, Case{0, kWord, DType::u32}, Case{7, kWord / 2 + 8, DType::u32},
        Case{kWord - 3, kWord, DType::u32}}) {
    const Random start{99, 0xfffffff0u};
    Random g = start;
    const Tensor out = random_integers(test_device(), {10'003}, g, c.low, c.high, c.dtype);
    ASSERT_EQ(out.dtype(), c.dtype);
    const std::vector<double> got = testing::to_doubles(out);
    for (std::uint64_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], integer(start, i, c.low, static_cast<std::uint64_t>(c.high - c.low)))
          << c.low << " " << c.high << " at " << i;
    }
    EXPECT_EQ(g.offset, start.offset + 2501);
  }
}

TEST(Integers, ChiSquared) {
  Random g{31, 0};
  const std::vector<std::int32_t> x = random_integers(test_device(), {kMany}, g, -50, 47).to_host<std::int32_t>();
  std::vector<double> cells(97);
  for (std::int32_t v : x) {
    ASSERT_TRUE(v >= -50 && v < 47) << v;
    ++cells.at(static_cast<std::size_t>(std::int64_t{v} + 50));
  }
  double chi = 0;
  for (double c : cells) chi += (c - kMany / 97.0) * (c - kMany / 97.0) / (kMany / 97.0);
  EXPECT_NEAR(chi, 96, 5 * std::sqrt(2 * 96.0));
}

TEST(Generator, DrawsFollowEachOtherWithoutOverlap) {
  Device& device = test_device();
  Random g{8, 100};
  const std::vector<float> a = random_uniform(device, {kMany}, g).to_host<float>();
  EXPECT_EQ(g.offset, 100u + kMany / 4);
  const std::vector<float> b = random_uniform(device, {kMany}, g).to_host<float>();
  double product = 0;
  for (std::size_t i = 0; i < a.size(); ++i) product += (a[i] - 0.5) * (b[i] - 0.5) * 12 / kMany;
  EXPECT_NEAR(product, 0, 5 / std::sqrt(kMany));
  // The same seed and offset: the same numbers. Another seed: others.
  Random again{8, 100}, other{9, 100};
  EXPECT_EQ(random_uniform(device, {kMany}, again).to_host<float>(), a);
  EXPECT_NE(random_uniform(device, {kMany}, other).to_host<float>(), a);
}

TEST(Generator, EmptyDrawsUseNothing) {
  Random g{1, 2};
  EXPECT_EQ(random_bits(test_device(), {0}, g).shape(), (Shape{0}));
  EXPECT_EQ(random_normal(test_device(), {3, 0}, g).shape(), (Shape{3, 0}));
  EXPECT_EQ(g.offset, 2u);
  EXPECT_EQ(random_bits(test_device(), {}, g).to_host<std::uint32_t>()[0], number({1, 2}, 0));
  EXPECT_EQ(g.offset, 3u);
}

TEST(RandomCatalog, KernelsCompile) {
  testing::expect_kernels_compile(test_device(), ops::random_family());
}

TEST(Generator, DrawsIntoMemoryOfTheCallers) {
  for (std::int64_t n : {64, 63}) {
    const Tensor y = test_device().empty({n}, DType::u32);
    Random g{4, 4};
    into(y, [&] { return random_bits(test_device(), {n}, g); });
    const std::vector<std::uint32_t> got = y.to_host<std::uint32_t>();
    for (std::uint64_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], number({4, 4}, i)) << i;
  }
}

TEST(RandomErrors, NameTheNumbersAndUseNothing) {
  Device& device = test_device();
  Random g{1, 2};
  const auto refused = [&](auto&& draw, std::initializer_list<std::string_view> parts) {
    expect_error(error_of(draw), ErrorCode::invalid_argument, parts);
  };
  refused([&] { random_uniform(device, {3}, g, 1, 1); }, {"random_uniform", "from 1 up to 1", "low under high"});
  refused([&] { random_uniform(device, {3}, g, 0, 1e-60); }, {"1e-60"});
  refused([&] { random_uniform(device, {3}, g, -3e38, 3e38); }, {"3e+38"});
  refused([&] { random_uniform(device, {3}, g, 0, std::nan("")); }, {"nan"});
  refused([&] { random_uniform(device, {3}, g, 0, 1, DType::i32); }, {"int32"});
  refused([&] { random_uniform(device, {3}, g, 0, 70000, DType::f16); }, {"float16", "70000"});
  refused([&] { random_normal(device, {3}, g, 0, -1); }, {"random_normal", "deviation -1"});
  refused([&] { random_normal(device, {3}, g, 0, 1, DType::u32); }, {"uint32"});
  refused([&] { random_integers(device, {3}, g, 5, 5); }, {"random_integers", "from 5 up to 5"});
  refused([&] { random_integers(device, {3}, g, -1, 5, DType::u32); }, {"uint32", "-1"});
  refused([&] { random_integers(device, {3}, g, 0, std::int64_t{1} << 32); }, {"4294967296"});
  refused([&] { random_integers(device, {3}, g, 0, 5, DType::f32); }, {"float32"});
  EXPECT_EQ(g.offset, 2u);
}

}  // namespace
}  // namespace weft
