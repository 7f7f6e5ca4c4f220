// Running sums, products, maxima and minima against models in double: D27 (sums of many ones), D32 to D35 (NaN,
// extremes, empty, strides).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/rows.h"
#include "unit/catalog_check.h"
#include "unit/core_helpers.h"
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

class Scan : public testing::KernelClassTest {
 protected:
  static std::vector<float> scanned(ScanOp op, const std::vector<float>& values, const ScanOptions& options = {}) {
    return scan(op, floats(values, {static_cast<std::int64_t>(values.size())}), options).to_host<float>();
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, Scan, testing::both_kernel_classes(), testing::kernel_class_name);

double identity(ScanOp op, DType dtype) {
  const bool real = is_float(dtype);
  switch (op) {
    case ScanOp::sum: return 0;
    case ScanOp::prod: return 1;
    case ScanOp::max: return real ? -kInf : dtype == DType::i32 ? double{std::numeric_limits<std::int32_t>::min()} : 0;
    case ScanOp::min:
      return real                  ? kInf
             : dtype == DType::i32 ? double{std::numeric_limits<std::int32_t>::max()}
             : dtype == DType::u32 ? double{std::numeric_limits<std::uint32_t>::max()}
                                   : 1;
  }
  return 0;
}

/// In double, wrapped to 32 bits for integers.
double combined(ScanOp op, double a, double b, DType dtype) {
  if (op == ScanOp::max) return std::isnan(a) || a >= b ? a : b;
  if (op == ScanOp::min) return std::isnan(a) || a <= b ? a : b;
  if (is_float(dtype)) return op == ScanOp::sum ? a + b : a * b;
  const auto word = [](double v) { return static_cast<std::uint32_t>(static_cast<std::int64_t>(v)); };
  const std::uint32_t wrapped = op == ScanOp::sum ? word(a) + word(b) : word(a) * word(b);
  return dtype == DType::u32 ? static_cast<double>(wrapped) : static_cast<double>(static_cast<std::int32_t>(wrapped));
}

std::vector<double> model(ScanOp op, const std::vector<double>& x, const Shape& shape, std::size_t axis, DType dtype,
                          const ScanOptions& options) {
  std::vector<double> out(x.size());
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t length = shape[axis];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      double sum = identity(op, dtype);
      for (std::int64_t r = 0; r < length; ++r) {
        const std::int64_t from_end = options.reverse ? length - 1 - r : r;
        const auto at = static_cast<std::size_t>((o * length + from_end) * inner + i);
        const double after = combined(op, sum, x[at], dtype);
        out[at] = options.exclusive ? sum : after;
        sum = after;
      }
    }
  }
  return out;
}

/// Signs only, so that products of thousands are exact; else whole and half numbers.
Strided input_for(std::mt19937& random, ScanOp op, const Shape& shape, DType dtype) {
  Strided x = testing::random_strided(test_device(), random, shape, dtype);
  if (op != ScanOp::prod || !is_float(dtype)) return x;
  Strided signs;
  for (double v : x.values) signs.values.push_back(v < 0 ? -1 : 1);
  signs.tensor = where(binary(BinaryOp::less, x.tensor, 0), full(test_device(), shape, -1, dtype),
                       full(test_device(), shape, 1, dtype));
  return signs;
}

TEST_P(Scan, MatchesTheModelOnAnyShapeAxisDtypeAndStrides) {
  std::vector<DType> kinds{DType::f32, DType::i32, DType::u32, DType::bool_, DType::f32};
  if (test_device().features().f16) kinds.push_back(DType::f16);
  constexpr std::array kOps{ScanOp::sum, ScanOp::prod, ScanOp::max, ScanOp::min};
  for (std::uint32_t seed = 0; seed < 160; ++seed) {
    std::mt19937 random(seed);
    Shape shape = testing::random_shape(random, 4);
    if (shape.rank() == 0) shape.push_back(6000);
    const ScanOp op = kOps[random() % 4];
    const DType dtype = kinds[seed % kinds.size()];
    const Strided x = input_for(random, op, shape, dtype);
    ScanOptions options;
    const std::size_t axis = random() % shape.rank();
    options.axis = static_cast<std::int64_t>(axis) - (random() % 2 == 0 ? static_cast<std::int64_t>(shape.rank()) : 0);
    options.exclusive = random() % 2 == 0;
    options.reverse = random() % 2 == 0;
    SCOPED_TRACE(std::string(to_string(dtype)) + " op " + std::to_string(static_cast<int>(op)) + " " +
                 to_string(shape) + " strides " + to_string(x.tensor.strides()) + " axis " + std::to_string(axis) +
                 (options.exclusive ? " exclusive" : "") + (options.reverse ? " reverse" : "") + " seed " +
                 std::to_string(seed));
    const Tensor out = scan(op, x.tensor, options);
    const bool counts = dtype == DType::bool_ && (op == ScanOp::sum || op == ScanOp::prod);
    const DType result = counts ? DType::i32 : dtype;
    ASSERT_EQ(out.shape(), shape);
    ASSERT_EQ(out.dtype(), result);
    std::vector<double> expected = model(op, x.values, shape, axis, result, options);
    for (double& v : expected) v = testing::stored(v, result);
    const std::vector<double> got = testing::to_doubles(out);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]) << "at " << i;
  }
}

// 17,000,000 ones: a plain f32 loop stops at 16,777,216.
TEST_P(Scan, SeventeenMillionOnes) {
  constexpr std::int64_t kCount = 17'000'000;
  const Tensor out = cumsum(full(test_device(), {kCount}, 1, DType::f32));
  const std::vector<float> got = out.to_host<float>();
  EXPECT_EQ(got.back(), 17'000'000.0F);
  for (std::int64_t i = 0; i < kCount; i += 4099) {
    ASSERT_NEAR(got[static_cast<std::size_t>(i)], static_cast<double>(i + 1), i < (1 << 24) ? 0 : 2) << i;
  }
}

// Numbers that round: 2^22 elements stay within the error of a few hundred additions, not of millions.
TEST_P(Scan, ErrorGrowsWithTheLogarithm) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> draw(0.0F, 1.0F);
  std::vector<float> x(1 << 22);
  for (float& v : x) v = draw(random);
  const std::vector<float> got = scanned(ScanOp::sum, x);
  double sum = 0, worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i];
    worst = std::max(worst, std::abs(got[i] - sum) / sum);
  }
  EXPECT_LT(worst, 64 * 0x1p-24);
}

TEST_P(Scan, NanStaysAndInfinitiesMeet) {
  const std::vector<float> x{1, -kInf, 3, kNan, 2, kInf, 5};
  const std::vector<float> high = scanned(ScanOp::max, x);
  EXPECT_EQ(std::vector<float>(high.begin(), high.begin() + 3), (std::vector<float>{1, 1, 3}));
  for (std::size_t i = 3; i < 7; ++i) EXPECT_TRUE(std::isnan(high[i])) << i;
  const std::vector<float> low = scanned(ScanOp::min, x, {.reverse = true});
  EXPECT_EQ(std::vector<float>(low.begin() + 4, low.end()), (std::vector<float>{2, 5, 5}));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(low[i])) << i;
  const std::vector<float> sums = scanned(ScanOp::sum, {1, kInf, 2, -kInf, 1});
  EXPECT_EQ(sums[0], 1);
  EXPECT_EQ(sums[1], kInf);
  EXPECT_EQ(sums[2], kInf);
  EXPECT_TRUE(std::isnan(sums[3]) && std::isnan(sums[4]));
  EXPECT_EQ(scanned(ScanOp::prod, {3e38F, 10, -1}), (std::vector<float>{3e38F, kInf, -kInf}));
  // In a long row NaN of one chunk reaches all behind it.
  std::vector<float> longer(10000, 1.0F);
  longer[3000] = kNan;
  for (ScanOp op : {ScanOp::sum, ScanOp::prod, ScanOp::max, ScanOp::min}) {
    const std::vector<float> got = scanned(op, longer);
    EXPECT_FALSE(std::isnan(got[2999]));
    for (std::size_t i : {3000, 3001, 5000, 9999}) EXPECT_TRUE(std::isnan(got[i])) << i;
  }
}

TEST_P(Scan, SignedZerosAndIdentities) {
  const auto negative = [](float v) { return v == 0 && std::signbit(v); };
  const std::vector<float> zeros = scanned(ScanOp::sum, {-0.0F, -0.0F, 0.0F});
  EXPECT_TRUE(negative(zeros[0]) && negative(zeros[1]));
  EXPECT_FALSE(negative(zeros[2]));
  const std::vector<float> before = scanned(ScanOp::sum, {-0.0F, -0.0F}, {.exclusive = true});
  EXPECT_FALSE(negative(before[0]) || negative(before[1]));
  EXPECT_EQ(scanned(ScanOp::max, {1, 2}, {.exclusive = true}), (std::vector<float>{-kInf, 1}));
  EXPECT_EQ(scanned(ScanOp::min, {1, 2}, {.exclusive = true, .reverse = true}), (std::vector<float>{2, kInf}));
  EXPECT_EQ(scanned(ScanOp::prod, {3, 2}, {.exclusive = true}), (std::vector<float>{1, 3}));
}

TEST_P(Scan, F16AddsInF32) {
  Device& device = test_device();
  if (!device.features().f16) GTEST_SKIP() << "the device has no f16";
  // 4096 ones and halves: an f16 loop stops at 2048.
  const std::vector<float16> got = cumsum(full(device, {4096}, 1, DType::f16)).to_host<float16>();
  EXPECT_EQ(static_cast<float>(got[2049]), 2050.0F);
  EXPECT_EQ(static_cast<float>(got[4095]), 4096.0F);
  // Past 65504 there is infinity, and the way back to 65504 is exact.
  const std::vector<float16> x{float16(65504.0F), float16(65504.0F), float16(-65504.0F)};
  const std::vector<float16> far = cumsum(device.upload<float16>(x, {3})).to_host<float16>();
  EXPECT_EQ(static_cast<float>(far[0]), 65504.0F);
  EXPECT_EQ(static_cast<float>(far[1]), kInf);
  EXPECT_EQ(static_cast<float>(far[2]), 65504.0F);
}

TEST_P(Scan, EmptyAndSingleElements) {
  Device& device = test_device();
  EXPECT_EQ(cumsum(device.empty({0}, DType::f32)).shape(), (Shape{0}));
  EXPECT_EQ(cumsum(device.empty({3, 0, 2}, DType::i32), {.axis = 0}).shape(), (Shape{3, 0, 2}));
  EXPECT_EQ(scanned(ScanOp::sum, {7}), (std::vector<float>{7}));
  EXPECT_EQ(scanned(ScanOp::sum, {7}, {.exclusive = true}), (std::vector<float>{0}));
}

TEST_P(Scan, ManyShortRowsPastTheGridLimit) {
  constexpr std::int64_t kRows = 70'000 * 64 + 3;  // over 65,535 groups of threads
  const Tensor out = cumsum(full(test_device(), {kRows, 3}, 2, DType::i32));
  const std::vector<std::int32_t> got = out.to_host<std::int32_t>();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<std::int32_t>(2 * (i % 3 + 1))) << i;
}

TEST_P(Scan, RowsOfAWorkgroupPastTheGridLimit) {
  const Tensor x = full(test_device(), {66'000, 36}, 1, DType::u32);
  const std::vector<std::uint32_t> got = cumsum(x).to_host<std::uint32_t>();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i % 36 + 1) << i;
}

// 129 MiB of one row, and 137 of columns: over what lavapipe binds at once.
TEST_P(Scan, LongerThanABinding) {
  Device& device = test_device();
  if (device.limits().max_storage_binding_size > (std::uint64_t{1} << 28)) GTEST_SKIP() << "bindings are large here";
  constexpr std::int64_t kLength = 33'900'005;
  const Tensor one = full(device, {1}, 1, DType::i32);
  const std::vector<std::int32_t> row = cumsum(broadcast_to(one, {kLength})).to_host<std::int32_t>();
  for (std::size_t i = 0; i < row.size(); ++i) ASSERT_EQ(row[i], static_cast<std::int32_t>(i + 1));
  constexpr std::int64_t kColumns = 12'000'001;
  const Tensor columns = cumsum(broadcast_to(one, {3, kColumns}), {.axis = 0});
  for (std::int64_t r = 0; r < 3; ++r) {
    const Tensor part = select(columns, 0, r);
    EXPECT_EQ(reduce(ReduceOp::min, part).to_host<std::int32_t>()[0], r + 1);
    EXPECT_EQ(reduce(ReduceOp::max, part).to_host<std::int32_t>()[0], r + 1);
  }
}

TEST(ScanCatalog, KernelsCompile) {
  testing::expect_kernels_compile(test_device(), ops::scan_family());
}

TEST_P(Scan, IntoMemoryOfTheCallers) {
  const Tensor x = full(test_device(), {3, 5000}, 1, DType::f32);
  const Tensor y = test_device().empty({3, 5000}, DType::f32);
  into(y, [&] { return cumsum(transpose(transpose(x)), {.reverse = true}); });
  EXPECT_EQ(slice(y, 1, 0, 1).to_host<float>(), (std::vector<float>{5000, 5000, 5000}));
  const Tensor b = test_device().empty({3}, DType::bool_);
  into(b, [&] { return scan(ScanOp::max, cast(floats({0, 2, 0}, {3}), DType::bool_)); });
  EXPECT_EQ(b.to_host<bool>(), (std::vector<bool>{false, true, true}));
}

TEST(ScanErrors, NameTheAxis) {
  const Tensor x = test_device().empty({2, 3}, DType::f32);
  testing::expect_error(testing::error_of([&] { cumsum(x, {.axis = 2}); }), ErrorCode::out_of_range,
                        {"cumsum", "axis 2", "(2, 3)"});
  testing::expect_error(testing::error_of([&] { scan(ScanOp::max, test_device().empty({}, DType::f32)); }),
                        ErrorCode::out_of_range, {"cummax"});
  testing::expect_error(testing::error_of([&] { cumsum(Tensor()); }), ErrorCode::invalid_argument, {"cumsum"});
}

}  // namespace
}  // namespace weft
