// Fourier transforms against sums in double (up to 1,024 points) and a transform in double (beyond). The bound on the
// error, in the 2-norm of the whole and relative, is a multiple of 2^-24 log2 n.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/fft.h"
#include "ops/rows.h"
#include "unit/catalog_check.h"
#include "unit/core_helpers.h"
#include "unit/kernel_class_test.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "weft/fft.h"
#include "weft/ops.h"

namespace weft {
namespace {

using ops::KernelClass;
using testing::error_of;
using testing::expect_error;
using testing::test_device;
using Complex = std::complex<double>;
using Signal = std::vector<Complex>;

class Fft : public testing::KernelClassTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, Fft, testing::both_kernel_classes(), testing::kernel_class_name);

/// sum over t of x[t] exp(sign 2 pi i k t / n), as it stands.
Signal slow_transform(const Signal& x, int sign) {
  const std::size_t n = x.size();
  Signal roots(n), out(n);
  for (std::size_t k = 0; k < n; ++k) {
    roots[k] = std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
  }
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t t = 0; t < n; ++t) out[k] += x[t] * roots[k * t % n];
  }
  return out;
}

/// By halves; for powers of two.
Signal halving_transform(const Signal& x, int sign) {
  const std::size_t n = x.size();
  if (n == 1) return x;
  Signal even(n / 2), odd(n / 2), out(n);
  for (std::size_t i = 0; i < n / 2; ++i) {
    even[i] = x[2 * i];
    odd[i] = x[2 * i + 1];
  }
  even = halving_transform(even, sign);
  odd = halving_transform(odd, sign);
  for (std::size_t k = 0; k < n / 2; ++k) {
    const Complex w =
        odd[k] * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
    out[k] = even[k] + w;
    out[k + n / 2] = even[k] - w;
  }
  return out;
}

/// Any n, by the convolution of halving transforms in double.
Signal transform(const Signal& x, int sign) {
  const std::size_t n = x.size();
  if (n <= 1024) return slow_transform(x, sign);
  if ((n & (n - 1)) == 0) return halving_transform(x, sign);
  std::size_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  Signal a(m), b(m), chirp(n);
  for (std::size_t t = 0; t < n; ++t) {
    chirp[t] = std::polar(1.0, sign * std::numbers::pi * static_cast<double>(t * t % (2 * n)) / static_cast<double>(n));
    a[t] = x[t] * chirp[t];
    b[t] = std::conj(chirp[t]);
    if (t > 0) b[m - t] = b[t];
  }
  a = halving_transform(a, 1);
  b = halving_transform(b, 1);
  for (std::size_t i = 0; i < m; ++i) a[i] *= b[i] / static_cast<double>(m);
  a = halving_transform(a, -1);
  Signal out(n);
  for (std::size_t k = 0; k < n; ++k) out[k] = a[k] * chirp[k];
  return out;
}

double norm_scale(FftNorm norm, std::size_t n, bool forward) {
  const auto points = static_cast<double>(n);
  if (norm == FftNorm::ortho) return 1 / std::sqrt(points);
  return (norm == FftNorm::forward) == forward ? 1 / points : 1;
}

std::vector<float> random_floats(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1.0F, 1.0F);
  std::vector<float> out(count);
  for (float& v : out) v = draw(random);
  return out;
}

Signal as_signal(const std::vector<float>& pairs) {
  Signal out(pairs.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = {pairs[2 * i], pairs[2 * i + 1]};
  return out;
}

/// |got - expected| / |expected|, of all together.
double relative_error(const Signal& got, const Signal& expected) {
  double error = 0, whole = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::norm(got[i] - expected[i]);
    whole += std::norm(expected[i]);
  }
  return whole == 0 ? std::sqrt(error) : std::sqrt(error / whole);
}

/// Bluestein's way is two transforms of up to four times as many points, and three products.
double bound(std::size_t n) {
  const bool chirps = n > 32 && (n & (n - 1)) != 0;
  return (chirps ? 2.0 : 1.0) * (1 + std::log2(static_cast<double>(n))) * 0x1p-24;
}

/// Compiling a kernel for GPUs takes lavapipe a second or more.
bool slow_to_compile(KernelClass kernels) {
  return kernels == KernelClass::gpu && test_device().adapter().type == AdapterType::cpu;
}

/// Of every kind.
std::vector<std::int64_t> lengths(KernelClass kernels) {
  if (slow_to_compile(kernels)) return {1, 2, 3, 5, 31, 33, 47, 64, 4096};
  return {1,   2,   3,   4,   5,   6,   7,   8,   9,   12,  15,  16,   17,   20,   31,   32,   33,   47,   64,   65,
          100, 127, 128, 129, 255, 256, 257, 360, 500, 512, 513, 1000, 1024, 1025, 1536, 2048, 2187, 4096, 6000, 8192};
}

TEST_P(Fft, AnyLengthBothWays) {
  for (std::int64_t n : lengths(GetParam())) {
    SCOPED_TRACE(n);
    const auto count = static_cast<std::size_t>(n);
    const std::vector<float> pairs = random_floats(static_cast<std::uint32_t>(n), 2 * count);
    const Tensor x = test_device().upload<float>(pairs, {n, 2});
    const Signal signal = as_signal(pairs);
    const Tensor spectrum = fft(x);
    ASSERT_EQ(spectrum.shape(), (Shape{n, 2}));
    EXPECT_LT(relative_error(as_signal(spectrum.to_host<float>()), transform(signal, -1)), bound(count));
    Signal back = transform(signal, 1);
    for (Complex& v : back) v /= static_cast<double>(n);
    EXPECT_LT(relative_error(as_signal(ifft(x).to_host<float>()), back), bound(count));
    EXPECT_LT(relative_error(as_signal(ifft(spectrum).to_host<float>()), signal), 2 * bound(count));
    if (HasFailure()) return;
  }
}

TEST_P(Fft, RealBothWays) {
  for (std::int64_t n : lengths(GetParam())) {
    SCOPED_TRACE(n);
    const auto count = static_cast<std::size_t>(n);
    const std::vector<float> values = random_floats(static_cast<std::uint32_t>(n) + 7, count);
    const Tensor x = test_device().upload<float>(values, {n});
    const Signal all = transform(Signal(values.begin(), values.end()), -1);
    const Tensor half = rfft(x);
    ASSERT_EQ(half.shape(), (Shape{n / 2 + 1, 2}));
    EXPECT_LT(relative_error(as_signal(half.to_host<float>()),
                             Signal(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count / 2 + 1))),
              1.5 * bound(count));
    const Tensor back = irfft(half, {.n = n});
    ASSERT_EQ(back.shape(), (Shape{n}));
    const std::vector<float> got = back.to_host<float>();
    EXPECT_LT(relative_error(Signal(got.begin(), got.end()), Signal(values.begin(), values.end())), 2 * bound(count));
    if (HasFailure()) return;
  }
}

// numpy ignores the imaginary parts of frequency 0 and, of an even n, of n / 2; missing frequencies are zeros.
TEST_P(Fft, InverseRealTakesHermitianHalves) {
  for (std::int64_t n : {1, 2, 5, 36, 45, 64, 8, 100}) {
    if (slow_to_compile(GetParam()) && (n == 8 || n == 100)) break;
    for (std::int64_t given : {n / 2 + 1, std::max<std::int64_t>(n / 2 - 1, 1), n / 2 + 3}) {
      SCOPED_TRACE(std::to_string(n) + " from " + std::to_string(given));
      const std::vector<float> pairs =
          random_floats(static_cast<std::uint32_t>(n), static_cast<std::size_t>(2 * given));
      Signal full(static_cast<std::size_t>(n));
      for (std::int64_t k = 0; k <= n / 2 && k < given; ++k) {
        const Complex v(pairs[static_cast<std::size_t>(2 * k)], pairs[static_cast<std::size_t>(2 * k + 1)]);
        if (k == 0 || 2 * k == n) {
          full[static_cast<std::size_t>(k)] = v.real();
        } else {
          full[static_cast<std::size_t>(k)] = v;
          full[static_cast<std::size_t>(n - k)] = std::conj(v);
        }
      }
      Signal expected = transform(full, 1);
      for (Complex& v : expected) v /= static_cast<double>(n);
      const Tensor x = test_device().upload<float>(pairs, {given, 2});
      const std::vector<float> got = irfft(x, {.n = n}).to_host<float>();
      EXPECT_LT(relative_error(Signal(got.begin(), got.end()), expected), 2 * bound(static_cast<std::size_t>(n)));
      if (given > 1 && n == 2 * (given - 1)) {
        EXPECT_EQ(irfft(x).to_host<float>(), got);
      }
    }
  }
}

TEST_P(Fft, AnyAxisStridesCutPadAndNorm) {
  constexpr std::array<std::int64_t, 10> kPoints{1, 3, 10, 33, 64, 8, 16, 40, 96, 128};
  const std::size_t count = slow_to_compile(GetParam()) ? 5 : kPoints.size();
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const bool real = random() % 2 == 0;
    const bool inverse = !real && random() % 2 == 0;
    Shape shape;
    const std::size_t rank = 1 + random() % 3;
    const std::size_t axis = random() % rank;
    for (std::size_t i = 0; i < rank; ++i) {
      shape.push_back(i == axis ? kPoints[random() % count] : static_cast<std::int64_t>(1 + random() % 5));
    }
    Shape stored = shape;
    if (!real) stored.push_back(2);
    const testing::Strided x = testing::random_strided(test_device(), random, stored, DType::f32);
    FftOptions options;
    options.axis = static_cast<std::int64_t>(axis) - (random() % 2 == 0 ? static_cast<std::int64_t>(rank) : 0);
    if (random() % 2 == 0) options.n = kPoints[random() % count];
    options.norm = static_cast<FftNorm>(random() % 3);
    SCOPED_TRACE(to_string(stored) + " strides " + to_string(x.tensor.strides()) + " axis " + std::to_string(axis) +
                 " n " + std::to_string(options.n.value_or(0)) + (real ? " real" : "") + (inverse ? " inverse" : "") +
                 " seed " + std::to_string(seed));
    const Tensor out = real ? rfft(x.tensor, options) : inverse ? ifft(x.tensor, options) : fft(x.tensor, options);
    const std::int64_t n = options.n.value_or(shape[axis]);
    Shape expected_shape = shape;
    expected_shape[axis] = real ? n / 2 + 1 : n;
    expected_shape.push_back(2);
    ASSERT_EQ(out.shape(), expected_shape);
    const Signal got = as_signal(out.to_host<float>());
    std::int64_t outer = 1, inner = 1;
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (std::size_t i = axis + 1; i < rank; ++i) inner *= shape[i];
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) {
        Signal row(static_cast<std::size_t>(n));
        for (std::int64_t t = 0; t < std::min(n, shape[axis]); ++t) {
          const auto at = static_cast<std::size_t>((o * shape[axis] + t) * inner + i);
          row[static_cast<std::size_t>(t)] =
              real ? Complex(x.values[at]) : Complex(x.values[2 * at], x.values[2 * at + 1]);
        }
        Signal expected = transform(row, inverse ? 1 : -1);
        Signal found;
        for (std::int64_t k = 0; k < expected_shape[axis]; ++k) {
          expected[static_cast<std::size_t>(k)] *= norm_scale(options.norm, static_cast<std::size_t>(n), !inverse);
          found.push_back(got[static_cast<std::size_t>((o * expected_shape[axis] + k) * inner + i)]);
        }
        expected.resize(found.size());
        ASSERT_LT(relative_error(found, expected), 2 * bound(static_cast<std::size_t>(n))) << o << " " << i;
      }
    }
  }
}

TEST_P(Fft, LongSignals) {
  std::vector<std::int64_t> all{1 << 13, 1 << 17};
  if (!slow_to_compile(GetParam())) all.insert(all.end(), {1 << 11, 1 << 16, 1 << 18, 100'000});
  for (std::int64_t n : all) {
    SCOPED_TRACE(n);
    const auto count = static_cast<std::size_t>(n);
    const std::vector<float> pairs = random_floats(static_cast<std::uint32_t>(n), 2 * count);
    const Tensor x = test_device().upload<float>(pairs, {n, 2});
    EXPECT_LT(relative_error(as_signal(fft(x).to_host<float>()), transform(as_signal(pairs), -1)), bound(count));
  }
}

// A few waves, of which the spectrum is known.
TEST_P(Fft, AMillionPoints) {
  constexpr std::size_t kCount = 1 << 20;
  constexpr std::array<std::size_t, 3> kWaves{1, 77'777, kCount - 5};
  const ops::ComplexTable roots = ops::direct_table(kCount);
  std::vector<float> pairs(2 * kCount);
  for (std::size_t t = 0; t < kCount; ++t) {
    for (std::size_t k : kWaves) {
      const std::complex<float> w = std::conj(roots[k * t % kCount]);
      pairs[2 * t] += w.real();
      pairs[2 * t + 1] += w.imag();
    }
  }
  Device& device = test_device();
  const Tensor x = device.upload<float>(pairs, {kCount, 2});
  const std::vector<float> got = fft(x).to_host<float>();
  Signal expected(kCount);
  for (std::size_t k : kWaves) expected[k] = kCount;
  EXPECT_LT(relative_error(as_signal(got), expected), bound(kCount));
}

TEST_P(Fft, ParsevalAndRoundTrip) {
  for (std::int64_t n : {1 << 15, 30'030}) {
    if (slow_to_compile(GetParam()) && n == 30'030) continue;
    const std::vector<float> pairs = random_floats(3, static_cast<std::size_t>(6 * n));
    const Tensor x = test_device().upload<float>(pairs, {3, n, 2});
    FftOptions options;
    options.norm = FftNorm::ortho;
    const Tensor spectrum = fft(x, options);
    double before = 0, after = 0;
    for (float v : pairs) before += double{v} * v;
    for (float v : spectrum.to_host<float>()) after += double{v} * v;
    EXPECT_NEAR(after / before, 1, 2 * bound(static_cast<std::size_t>(n)));
    EXPECT_LT(relative_error(as_signal(ifft(spectrum, options).to_host<float>()), as_signal(pairs)),
              2 * bound(static_cast<std::size_t>(n)));
  }
}

// So many threads that their groups are folded in two dimensions.
TEST_P(Fft, ManyRows) {
  Device& device = test_device();
  for (const auto& [n, rows] : {std::pair<std::int64_t, std::int64_t>{3, 1'000'000}, {16, 600'000}}) {
    if (slow_to_compile(GetParam()) && n == 16) continue;
    const std::vector<float> row = random_floats(1, static_cast<std::size_t>(2 * n));
    const Tensor out = fft(broadcast_to(device.upload<float>(row, {1, n, 2}), {rows, n, 2}));
    const Tensor first = broadcast_to(slice(out, 0, 0, 1), {rows, n, 2});
    EXPECT_TRUE(reduce(ReduceOp::all, binary(BinaryOp::equal, out, first)).to_host<bool>()[0]) << n;
    EXPECT_LT(relative_error(as_signal(slice(out, 0, 0, 1).to_host<float>()), transform(as_signal(row), -1)),
              bound(static_cast<std::size_t>(n)));
  }
}

TEST_P(Fft, RowsPastABinding) {
  Device& device = test_device();
  if (device.limits().max_storage_binding_size > (std::uint64_t{1} << 28)) GTEST_SKIP() << "bindings are large here";
  constexpr std::int64_t kRows = 5000;  // of 4,096 points: 156 MiB
  const std::vector<float> row = random_floats(2, 8192);
  const Tensor x = broadcast_to(device.upload<float>(row, {1, 4096, 2}), {kRows, 4096, 2});
  const Tensor out = fft(x);
  for (std::int64_t at : {std::int64_t{0}, kRows / 2, kRows - 1}) {
    EXPECT_LT(relative_error(as_signal(slice(out, 0, at, at + 1).to_host<float>()), transform(as_signal(row), -1)),
              bound(4096));
  }
}

TEST_P(Fft, OtherDtypesAndEmptyBatches) {
  Device& device = test_device();
  const std::vector<std::int32_t> whole{1, 2, 3, 4};
  const std::vector<float> got = rfft(device.upload<std::int32_t>(whole, {4})).to_host<float>();
  EXPECT_EQ(got, (std::vector<float>{10, 0, -2, 2, -2, 0}));
  EXPECT_EQ(fft(device.empty({0, 8, 2}, DType::f32)).shape(), (Shape{0, 8, 2}));
  EXPECT_EQ(rfft(device.empty({3, 0}, DType::f32), {.n = 4}).to_host<float>(), std::vector<float>(18, 0.0F));
}

TEST(FftTables, RootsAreExactWhereTheyCanBe) {
  using ops::root_of_unity;
  EXPECT_EQ(root_of_unity(0, 12), Complex(1, -0.0));
  EXPECT_EQ(root_of_unity(3, 12), Complex(-0.0, -1));
  EXPECT_EQ(root_of_unity(6, 12), Complex(-1, 0));
  EXPECT_EQ(root_of_unity(9, 12), Complex(0, 1));
  for (std::uint64_t n : {1u, 2u, 3u, 7u, 8u, 24u, 1000u}) {
    for (std::uint64_t k = 0; k < n; ++k) {
      const Complex expected = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
      EXPECT_LT(std::abs(root_of_unity(k, n) - expected), 2e-15) << k << " of " << n;
    }
  }
}

// Tables stay on the device, few and small, until it is asked for all that it need not have.
TEST(FftTables, AreKeptAndTrimmed) {
  Device& device = test_device();
  device.trim();
  const Tensor x = device.upload<float>(random_floats(1, 200), {100, 2});
  const std::vector<float> first = fft(x).to_host<float>();
  const std::uint64_t uploads = device.stats().uploads;
  EXPECT_EQ(fft(x).to_host<float>(), first);
  EXPECT_EQ(device.stats().uploads, uploads);
  device.trim();
  EXPECT_EQ(fft(x).to_host<float>(), first);
  EXPECT_GT(device.stats().uploads, uploads);
  for (std::int64_t n = 33; n < 90; ++n) fft(device.empty({n, 2}, DType::f32));  // more lengths than tables are kept
  EXPECT_EQ(fft(x).to_host<float>(), first);
}

TEST(FftPasses, MultiplyToTheLength) {
  for (std::uint32_t log_n = 3; log_n <= 28; ++log_n) {
    for (bool cpu : {false, true}) {
      std::uint32_t sum = 0;
      for (std::uint32_t step : ops::fft_passes(cpu, log_n)) {
        EXPECT_TRUE(cpu ? step == 2 || step == 3 : step >= 3 && step <= ops::kLogTile);
        sum += step;
      }
      EXPECT_EQ(sum, log_n);
    }
  }
}

TEST(FftCatalog, KernelsCompile) {
  testing::expect_kernels_compile(test_device(), ops::fft_family());
}

TEST_P(Fft, IntoMemoryOfTheCallers) {
  Device& device = test_device();
  const std::vector<float> pairs = random_floats(4, 2 * 48 * 3);
  const Tensor x = transpose(device.upload<float>(pairs, {48, 3, 2}), std::array<std::int64_t, 3>{1, 0, 2});
  const Tensor y = device.empty({3, 48, 2}, DType::f32);
  into(y, [&] { return fft(x); });
  EXPECT_EQ(y.to_host<float>(), fft(x).to_host<float>());
}

TEST(FftErrors, NameTheShape) {
  Device& device = test_device();
  const Tensor x = device.empty({4, 8, 2}, DType::f32);
  expect_error(error_of([&] { fft(device.empty({4, 8}, DType::f32)); }), ErrorCode::invalid_argument,
               {"fft", "(4, 8)", "last axis of length 2"});
  expect_error(error_of([&] { ifft(x, {.axis = 2}); }), ErrorCode::out_of_range, {"ifft", "axis 2", "(4, 8)"});
  expect_error(error_of([&] { fft(x, {.n = 0}); }), ErrorCode::invalid_argument, {"0 points"});
  expect_error(error_of([&] { irfft(device.empty({1, 2}, DType::f32)); }), ErrorCode::invalid_argument,
               {"irfft", "0 points"});
  expect_error(error_of([&] { rfft(device.empty({1, 1, 1, 1, 1, 1, 1, 4}, DType::f32)); }), ErrorCode::invalid_argument,
               {"rfft", "8 axes"});
  const auto far = static_cast<std::int64_t>(device.limits().max_storage_binding_size / 8 + 1);
  expect_error(error_of([&] { fft(x, {.n = far}); }), ErrorCode::out_of_range,
               {"fft", std::to_string(far), "limit of"});
}

}  // namespace
}  // namespace weft
