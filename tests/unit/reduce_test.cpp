// Reductions against models in double (or 64-bit integers) on the host: requirement B7 (numbers as numpy has them), and
// cases N22, N35, S03, S06 and LM06 of the faults that others met.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "ops/reduce.h"
#include "ops/rows.h"
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

class Reduce : public testing::KernelClassTest {
 protected:
  static ReduceOptions over(std::vector<std::int64_t> axes, bool keepdims = false) {
    return {std::move(axes), keepdims};
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, Reduce, testing::all_kernel_classes(), testing::kernel_class_name);

constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::prod,   ReduceOp::max,   ReduceOp::min,
                                ReduceOp::any, ReduceOp::all,  ReduceOp::argmax, ReduceOp::argmin};

/// What numpy gives for these values, in row-major order of the reduced axes; integers wrap at 32 bits.
double model(ReduceOp op, const std::vector<double>& v, DType dtype) {
  const bool real = is_float(dtype);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: {
      double sum = 0;
      for (double x : v) sum += x;
      if (op == ReduceOp::mean) return sum / static_cast<double>(v.size());
      if (real) return sum;
      const auto bits = static_cast<std::uint32_t>(static_cast<std::int64_t>(sum));
      return dtype == DType::u32 ? static_cast<double>(bits) : static_cast<double>(static_cast<std::int32_t>(bits));
    }
    case ReduceOp::prod: {
      if (real) {
        double product = 1;
        for (double x : v) product *= x;
        return product;
      }
      std::uint32_t product = 1;
      for (double x : v) product *= static_cast<std::uint32_t>(static_cast<std::int64_t>(x));
      return dtype == DType::u32 ? static_cast<double>(product)
                                 : static_cast<double>(static_cast<std::int32_t>(product));
    }
    case ReduceOp::any: return std::any_of(v.begin(), v.end(), [](double x) { return x != 0; });
    case ReduceOp::all: return std::all_of(v.begin(), v.end(), [](double x) { return x != 0; });
    default: break;
  }
  const bool larger = op == ReduceOp::max || op == ReduceOp::argmax;
  std::size_t best = 0;
  for (std::size_t i = 1; i < v.size() && !std::isnan(v[best]); ++i) {
    if (std::isnan(v[i]) || (larger ? v[i] > v[best] : v[i] < v[best])) best = i;
  }
  return op == ReduceOp::max || op == ReduceOp::min ? v[best] : static_cast<double>(best);
}

/// The reduction of a whole array by the model, in the result's row-major order.
std::vector<double> model_reduce(ReduceOp op, const std::vector<double>& x, const Shape& shape,
                                 const std::vector<std::size_t>& axes, DType dtype) {
  std::vector<bool> reduced(shape.rank(), false);
  for (std::size_t a : axes) reduced[a] = true;
  std::int64_t outputs = 1;
  for (std::size_t i = 0; i < shape.rank(); ++i) outputs *= reduced[i] ? 1 : shape[i];
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(outputs));
  std::vector<std::int64_t> index(shape.rank(), 0);
  for (double value : x) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      if (!reduced[i]) at = at * shape[i] + index[i];
    }
    groups[static_cast<std::size_t>(at)].push_back(value);
    for (std::size_t i = shape.rank(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
  std::vector<double> out;
  for (const auto& group : groups) out.push_back(model(op, group, dtype));
  return out;
}

void expect_matches(ReduceOp op, const Strided& x, const ReduceOptions& options, std::uint32_t seed) {
  SCOPED_TRACE(std::string(to_string(op)) + " of " + std::string(to_string(x.tensor.dtype())) + " " +
               to_string(x.tensor.shape()) + " strides " + to_string(x.tensor.strides()) + ", seed " +
               std::to_string(seed));
  const DType dtype = x.tensor.dtype();
  const std::vector<std::size_t> axes = ops::normalize_axes("test", options.axes, x.tensor.shape());
  const Tensor out = reduce(op, x.tensor, options);
  ASSERT_EQ(out.shape(), ops::reduce_shape(op, x.tensor.shape(), options));
  ASSERT_EQ(out.dtype(), ops::reduce_types(op, dtype).result);
  const std::vector<double> got = testing::to_doubles(out);
  const std::vector<double> expected = model_reduce(op, x.values, x.tensor.shape(), axes, dtype);
  ASSERT_EQ(got.size(), expected.size());
  const bool rounds = is_float(out.dtype()) && (op == ReduceOp::sum || op == ReduceOp::mean || op == ReduceOp::prod);
  const double relative = !rounds ? 0 : out.dtype() == DType::f16 ? 1e-3 : 1e-5;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << "at " << i << ": " << got[i] << " for NaN";
    } else {
      ASSERT_NEAR(got[i], expected[i], relative * std::max(1.0, std::abs(expected[i]))) << "at " << i;
    }
  }
}

TEST_P(Reduce, MatchesTheModelOnAnyShapeAxesDtypeAndStrides) {
  std::vector<DType> dtypes{DType::f32, DType::i32, DType::u32, DType::bool_};
  if (test_device().features().f16) dtypes.push_back(DType::f16);
  for (std::uint32_t seed = 0; seed < 250; ++seed) {
    std::mt19937 random(seed);
    const DType dtype = dtypes[seed % dtypes.size()];
    const Shape shape = testing::random_shape(random, 5);
    const Strided x = testing::random_strided(test_device(), random, shape, dtype);
    const ReduceOp op = kAllOps[random() % std::size(kAllOps)];
    ReduceOptions options;
    options.keepdims = random() % 2 == 0;
    const bool index = op == ReduceOp::argmax || op == ReduceOp::argmin;
    if (index && shape.rank() > 0 && random() % 4 != 0) {
      options.axes = {static_cast<std::int64_t>(random() % shape.rank())};
    } else if (!index && random() % 5 != 0) {
      options.axes.emplace();
      for (std::size_t i = 0; i < shape.rank(); ++i) {
        const auto axis = static_cast<std::int64_t>(i);
        if (random() % 2 == 0)
          options.axes->push_back(random() % 2 ? axis : axis - static_cast<std::int64_t>(shape.rank()));
      }
    }
    expect_matches(op, x, options, seed);
    if (HasFailure()) return;
  }
}

TEST_P(Reduce, LongRowsAndColumnsMatchTheModel) {
  // Lengths around the seams of splits, blocks, quads and groups; few and many outputs.
  const std::int64_t lengths[] = {33, 255, 256, 257, 1023, 1024, 1025, 4099, 20000};
  std::uint32_t seed = 1000;
  for (std::int64_t length : lengths) {
    for (std::int64_t other : {std::int64_t{1}, std::int64_t{3}, std::int64_t{70}}) {
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::argmin, ReduceOp::any}) {
        std::mt19937 random(++seed);
        const Strided rows = testing::dense(test_device(), random, {other, length}, DType::f32);
        expect_matches(op, rows, over({1}), seed);
        const Strided columns = testing::dense(test_device(), random, {length, other}, DType::f32);
        expect_matches(op, columns, over({0}), seed);
      }
      if (HasFailure()) return;
    }
  }
}

TEST_P(Reduce, SumsOfManyOnesAreExact) {  // N22
  const std::int64_t n = 17000000;
  const std::vector<float> ones(static_cast<std::size_t>(n), 1.0f);
  const Tensor column = floats(ones, {n, 1});
  const Tensor row(column.device(), column.buffer(), {1, n}, {n, 1}, 0, DType::f32);
  EXPECT_EQ(sum(column, over({0})).to_host<float>(), std::vector<float>{17000000.0f});
  EXPECT_EQ(sum(row, over({1})).to_host<float>(), std::vector<float>{17000000.0f});
  EXPECT_EQ(sum(column).to_host<float>(), std::vector<float>{17000000.0f});
  EXPECT_EQ(mean(column, over({0})).to_host<float>(), std::vector<float>{1.0f});
  EXPECT_EQ(mean(row, over({1})).to_host<float>(), std::vector<float>{1.0f});
}

TEST_P(Reduce, SumsOfManyFractionsStayClose) {
  // 0.1f over 3 columns: with one running sum the error would be near 1e-3.
  const std::int64_t n = 3000000;
  const Tensor x = floats(std::vector<float>(static_cast<std::size_t>(n), 0.1f), {n / 3, 3});
  const double each = static_cast<double>(0.1f);
  for (float v : mean(x, over({0})).to_host<float>()) EXPECT_NEAR(v, each, each * 1e-6);
  EXPECT_NEAR(sum(x).to_host<float>()[0], each * static_cast<double>(n), each * static_cast<double>(n) * 1e-6);
}

TEST_P(Reduce, ArgmaxFindsTheOneAtEveryPosition) {  // N35
  for (std::int64_t length : {84, 86, 88, 257}) {
    // Row i has its 1 at position i.
    std::vector<float> eye(static_cast<std::size_t>(length * length), 0.0f);
    for (std::int64_t i = 0; i < length; ++i) eye[static_cast<std::size_t>(i * length + i)] = 1.0f;
    const Tensor x = floats(eye, {length, length});
    std::vector<std::int32_t> expected(static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::int32_t>(i);
    EXPECT_EQ(reduce(ReduceOp::argmax, x, over({1})).to_host<std::int32_t>(), expected) << length;
    EXPECT_EQ(reduce(ReduceOp::argmax, x, over({0})).to_host<std::int32_t>(), expected) << length;
    for (std::int64_t i = 0; i < length; ++i) {
      const Tensor one(x.device(), x.buffer(), {length}, {1}, i * length, DType::f32);
      ASSERT_EQ(reduce(ReduceOp::argmax, one).to_host<std::int32_t>()[0], i) << length;
      ASSERT_EQ(max(one).to_host<float>()[0], 1.0f) << length;
    }
  }
}

TEST_P(Reduce, ManyShortRows) {  // S03
  const std::int64_t rows = 70001;
  std::vector<float> x(static_cast<std::size_t>(rows * 3));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11);
  const std::vector<float> got = sum(floats(x, {rows, 3}), over({1})).to_host<float>();
  ASSERT_EQ(got.size(), static_cast<std::size_t>(rows));
  EXPECT_EQ(got[69999], 24.0f);
  EXPECT_EQ(got[70000], 11.0f);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], x[3 * i] + x[3 * i + 1] + x[3 * i + 2]) << i;
}

TEST_P(Reduce, ManyLongerRowsNeedMoreGroupsThanOneAxisHas) {
  const std::int64_t rows = 66001, length = 33;
  std::vector<float> x(static_cast<std::size_t>(rows * length));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / 33 % 127);
  const std::vector<float> got = sum(floats(x, {rows, length}), over({-1})).to_host<float>();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 33.0f * static_cast<float>(i % 127)) << i;
}

TEST_P(Reduce, FourRowsOfThousand) {  // LM06
  std::vector<float> x(4000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
  EXPECT_EQ(sum(floats(x, {4, 1000}), over({1})).to_host<float>(), (std::vector<float>{5994, 5995, 5996, 5997}));
}

TEST_P(Reduce, EmptyAxes) {  // S06
  Tensor x = test_device().zeros({0, 10}, DType::f32);
  EXPECT_EQ(sum(x, over({0})).to_host<float>(), std::vector<float>(10, 0.0f));
  EXPECT_EQ(reduce(ReduceOp::prod, x, over({0})).to_host<float>(), std::vector<float>(10, 1.0f));
  EXPECT_EQ(reduce(ReduceOp::any, x, over({0})).to_host<bool>(), std::vector<bool>(10, false));
  EXPECT_EQ(reduce(ReduceOp::all, x, over({0})).to_host<bool>(), std::vector<bool>(10, true));
  for (float v : mean(x, over({0})).to_host<float>()) EXPECT_TRUE(std::isnan(v));
  EXPECT_EQ(sum(x, over({1})).shape(), Shape{0});
  EXPECT_EQ(max(x, over({1})).shape(), Shape{0});
  EXPECT_EQ(sum(x, over({0}, true)).shape(), (Shape{1, 10}));
  EXPECT_EQ(sum(x).to_host<float>(), std::vector<float>{0.0f});
  EXPECT_EQ(sum(test_device().zeros({0}, DType::bool_)).to_host<std::int32_t>(), std::vector<std::int32_t>{0});
  for (ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::argmax, ReduceOp::argmin}) {
    try {
      reduce(op, x, over({0}));
      ADD_FAILURE() << to_string(op) << " of nothing gave a result";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_NE(e.message().find("(0, 10)"), std::string::npos) << e.what();
    }
  }
}

TEST_P(Reduce, NanStays) {
  // In each place of a row among others: maxima, minima and their indices show it; its neighbours' rows do not.
  for (std::int64_t length : {3, 40, 2000}) {
    for (std::int64_t at : {std::int64_t{0}, length / 2, length - 1}) {
      std::vector<float> x(static_cast<std::size_t>(3 * length), 1.0f);
      x[static_cast<std::size_t>(length + at)] = kNan;
      if (at + 1 < length) x[static_cast<std::size_t>(length + at + 1)] = kNan;
      x[static_cast<std::size_t>(length)] = at == 0 ? kNan : kInf;
      const Tensor t = floats(x, {3, length});
      for (ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::sum, ReduceOp::mean, ReduceOp::prod}) {
        const std::vector<float> got = reduce(op, t, over({1})).to_host<float>();
        EXPECT_TRUE(std::isnan(got[1])) << to_string(op) << " " << length << " " << at;
        EXPECT_FALSE(std::isnan(got[0]) || std::isnan(got[2])) << to_string(op) << " " << length << " " << at;
      }
      for (ReduceOp op : {ReduceOp::argmax, ReduceOp::argmin}) {
        const std::vector<std::int32_t> got = reduce(op, t, over({1})).to_host<std::int32_t>();
        EXPECT_EQ(got, (std::vector<std::int32_t>{0, static_cast<std::int32_t>(at), 0})) << to_string(op);
      }
    }
  }
}

TEST_P(Reduce, NanOfEitherSignAndInfinities) {
  const Tensor x = floats({-kInf, -kNan, -kInf, -kInf, -kInf, -kInf, kInf, kInf, kInf}, {3, 3});
  const std::vector<float> high = max(x, over({1})).to_host<float>();
  EXPECT_TRUE(std::isnan(high[0]));
  EXPECT_EQ(high[1], -kInf);
  EXPECT_EQ(high[2], kInf);
  EXPECT_EQ(min(x, over({1})).to_host<float>()[2], kInf);
  EXPECT_EQ(reduce(ReduceOp::argmax, x, over({1})).to_host<std::int32_t>(), (std::vector<std::int32_t>{1, 0, 0}));
  EXPECT_EQ(reduce(ReduceOp::argmin, x, over({1})).to_host<std::int32_t>(), (std::vector<std::int32_t>{1, 0, 0}));
}

TEST_P(Reduce, AnyAndAllGoByTheValue) {
  const Tensor x = floats({kNan, 0, 0, -0.0f, 1e-40f, 0, 1, -1, 2, 0, kInf, 0}, {6, 2});
  EXPECT_EQ(reduce(ReduceOp::any, x, over({1})).to_host<bool>(), (std::vector<bool>{1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(reduce(ReduceOp::all, x, over({1})).to_host<bool>(), (std::vector<bool>{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(reduce(ReduceOp::any, x).to_host<bool>(), std::vector<bool>{true});
}

TEST_P(Reduce, IntegersWrapAndKeepTheirLowBits) {
  const std::vector<std::int32_t> big{2147483647, 1, 16777217, 0};
  const Tensor x = test_device().upload<std::int32_t>(big, {2, 2});
  EXPECT_EQ(sum(x, over({1})).to_host<std::int32_t>(), (std::vector<std::int32_t>{-2147483647 - 1, 16777217}));
  EXPECT_EQ(max(x, over({1})).to_host<std::int32_t>(), (std::vector<std::int32_t>{2147483647, 16777217}));
  EXPECT_EQ(mean(x, over({1})).dtype(), DType::f32);
  const std::vector<std::uint32_t> high{0x80000000u, 0x7fffffffu, 0xffffffffu};
  const Tensor u = test_device().upload<std::uint32_t>(high, {3});
  EXPECT_EQ(max(u).to_host<std::uint32_t>()[0], 0xffffffffu);
  EXPECT_EQ(min(u).to_host<std::uint32_t>()[0], 0x7fffffffu);
  EXPECT_EQ(sum(u).to_host<std::uint32_t>()[0], 0xfffffffeu);
}

// numpy adds them in float64: what float32 rounds cancels exactly.
TEST_P(Reduce, MeansOfIntegersAreExactSums) {
  for (const std::int64_t length : {2, 64, 1000, 300000}) {
    std::vector<std::int32_t> x(static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? -2147483647 - 1 : 2147483647;
    EXPECT_EQ(mean(test_device().upload<std::int32_t>(x, {length})).to_host<float>()[0], -0.5f) << length;
    const Tensor columns = test_device().upload<std::int32_t>(x, {length / 2, 2});
    EXPECT_EQ(mean(columns, over({0})).to_host<float>(), (std::vector<float>{-0x1p31f, 0x1p31f})) << length;
    EXPECT_EQ(mean(columns, over({1})).to_host<float>(),
              std::vector<float>(static_cast<std::size_t>(length / 2), -0.5f));
    std::vector<std::uint32_t> most(x.size(), 0xffffffffu);
    EXPECT_EQ(mean(test_device().upload<std::uint32_t>(most, {length})).to_host<float>()[0], 0x1p32f) << length;
    most[0] = 0;
    EXPECT_NEAR(mean(test_device().upload<std::uint32_t>(most, {length})).to_host<float>()[0],
                4294967295.0 * static_cast<double>(length - 1) / static_cast<double>(length), 1e3);
  }
  const std::vector<std::int32_t> big{16777217, -16777216};
  EXPECT_EQ(mean(test_device().upload<std::int32_t>(big, {2})).to_host<float>()[0], 0.5f);
}

TEST_P(Reduce, HalvesAddUpInF32) {
  if (!test_device().features().f16) {
    EXPECT_THROW(test_device().zeros({1}, DType::f16), Error);
    return;
  }
  const std::vector<float16> x(4096, float16(16.0f));
  EXPECT_EQ(static_cast<float>(sum(test_device().upload<float16>(x, {4096})).to_host<float16>()[0]), kInf);
  EXPECT_EQ(static_cast<float>(mean(test_device().upload<float16>(x, {4096})).to_host<float16>()[0]), 16.0f);
  // 2050 ones: a running sum in f16 stops at 2048.
  const std::vector<float16> ones(2050, float16(1.0f));
  EXPECT_EQ(static_cast<float>(sum(test_device().upload<float16>(ones, {2050})).to_host<float16>()[0]), 2050.0f);
}

TEST_P(Reduce, NoAxesGiveTheArrayAndZeroDimensionsWork) {
  const Tensor x = floats({3, -1, 2});
  EXPECT_EQ(sum(x, over({})).to_host<float>(), (std::vector<float>{3, -1, 2}));
  EXPECT_EQ(reduce(ReduceOp::any, x, over({})).to_host<bool>(), (std::vector<bool>{1, 1, 1}));
  const Tensor one = floats({7}, {});
  EXPECT_EQ(sum(one).to_host<float>(), std::vector<float>{7});
  EXPECT_EQ(reduce(ReduceOp::argmax, one).to_host<std::int32_t>(), std::vector<std::int32_t>{0});
  EXPECT_EQ(sum(x, over({0}, true)).shape(), Shape{1});
}

TEST_P(Reduce, WrongAxesAreRefused) {
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto code = [&](ReduceOp op, const ReduceOptions& options) {
    try {
      reduce(op, x, options);
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code(ReduceOp::sum, over({2})), ErrorCode::out_of_range);
  EXPECT_EQ(code(ReduceOp::sum, over({-3})), ErrorCode::out_of_range);
  EXPECT_EQ(code(ReduceOp::sum, over({0, -2})), ErrorCode::invalid_argument);
  EXPECT_EQ(code(ReduceOp::argmax, over({0, 1})), ErrorCode::invalid_argument);
  EXPECT_THROW(sum(Tensor()), Error);
}

TEST_P(Reduce, ArraysPastTheBindingLimitAreWorkedInSlices) {
  // A view that shows a small buffer many times would not do: the limit is on memory. A device of modest limits needs
  // 128 MiB and a little more.
  const std::uint64_t limit = test_device().limits().max_storage_binding_size;
  if (limit > (std::uint64_t{256} << 20)) {
    EXPECT_TRUE(ops::fits_binding(test_device().zeros({1024}, DType::f32)));
    return;
  }
  const auto rows = static_cast<std::int64_t>(limit / 4 / 1024 + 5);
  Tensor x = test_device().zeros({rows, 1024}, DType::f32);
  ASSERT_FALSE(ops::fits_binding(x));
  const std::vector<float> five{5.0f};
  const auto last = static_cast<std::size_t>(rows * 1024 - 1);
  test_device().write(x.buffer(), last * 4, std::as_bytes(std::span<const float>(five)));
  EXPECT_EQ(sum(x).to_host<float>()[0], 5.0f);
  EXPECT_EQ(reduce(ReduceOp::argmax, x).to_host<std::int32_t>()[0], static_cast<std::int32_t>(last));
  EXPECT_TRUE(reduce(ReduceOp::any, x).to_host<bool>()[0]);
  const std::vector<float> by_row = max(x, over({1})).to_host<float>();
  EXPECT_EQ(by_row.back(), 5.0f);
  EXPECT_EQ(std::count(by_row.begin(), by_row.end(), 0.0f), rows - 1);
  const std::vector<float> by_column = sum(x, over({0})).to_host<float>();
  EXPECT_EQ(by_column.back(), 5.0f);
  EXPECT_EQ(std::count(by_column.begin(), by_column.end(), 0.0f), 1023);
  EXPECT_EQ(reduce(ReduceOp::argmax, x, over({0})).to_host<std::int32_t>().back(), static_cast<std::int32_t>(rows - 1));
}

/// Puts the table's shape and the device's class back.
struct GroupShapeGuard {
  ~GroupShapeGuard() {
    ops::force_group_shape(0);
    ops::force_kernel_class(ops::KernelClass::automatic);
  }
};

// With subgroups, where the device has them: the shapes have both tiers.
TEST(ReduceTiers, EveryWayToShareARow) {
  ops::force_kernel_class(ops::KernelClass::gpu_subgroups);
  const GroupShapeGuard guard;
  std::mt19937 random(5);
  for (std::size_t i = 0; i < ops::group_shapes().size(); ++i) {
    ops::force_group_shape(i);
    for (const std::int64_t length : {333, 4096, 4100, 9001}) {
      const Shape shape{5, length};
      const Strided x = testing::dense(test_device(), random, shape, DType::f32);
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::argmin}) {
        SCOPED_TRACE(std::string(to_string(op)) + ", shape " + std::to_string(i) + ", length " +
                     std::to_string(length));
        const std::vector<double> got = testing::to_doubles(reduce(op, x.tensor, {.axes = {{1}}}));
        const std::vector<double> expected = model_reduce(op, x.values, shape, {1}, DType::f32);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t k = 0; k < got.size(); ++k) {
          ASSERT_NEAR(got[k], expected[k], op == ReduceOp::sum ? 1e-5 * static_cast<double>(length) : 0) << k;
        }
      }
    }
  }
}

// Of each length that a way of sharing rows begins or ends at, more rows than a workgroup takes.
TEST_P(Reduce, RowsAtTheSeamsOfThePlan) {
  std::mt19937 random(6);
  for (const std::int64_t length : {32, 33, 36, 64, 255, 256, 1021, 1024, 1025, 1028, 8191, 8192, 8196}) {
    const Shape shape{length <= 1028 ? 259 : 11, length};
    const Strided x = testing::dense(test_device(), random, shape, DType::f32);
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::argmax, ReduceOp::any}) {
      SCOPED_TRACE(std::string(to_string(op)) + ", length " + std::to_string(length));
      const std::vector<double> got = testing::to_doubles(reduce(op, x.tensor, over({1})));
      const std::vector<double> expected = model_reduce(op, x.values, shape, {1}, DType::f32);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        ASSERT_NEAR(got[k], expected[k], op == ReduceOp::sum ? 1e-5 * static_cast<double>(length) : 0) << k;
      }
    }
  }
}

// Joins order floats as integers, where subgroups do it: both signs of NaN and of zero, infinities, denormals.
TEST_P(Reduce, ExtremesAnywhereInALongRow) {
  const float minus_nan = std::copysign(kNan, -1.0f);
  std::vector<float> row(700);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 13) - 6;
  for (const float v : {kNan, minus_nan, kInf, -kInf}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{77}, std::size_t{400}, std::size_t{699}}) {
      std::vector<float> x = row;
      x[at] = v;
      const Tensor t = floats(x);
      const float high = reduce(ReduceOp::max, t).to_host<float>()[0];
      const float low = reduce(ReduceOp::min, t).to_host<float>()[0];
      SCOPED_TRACE(std::to_string(v) + " at " + std::to_string(at));
      if (std::isnan(v)) {
        EXPECT_TRUE(std::isnan(high));
        EXPECT_TRUE(std::isnan(low));
        EXPECT_EQ(reduce(ReduceOp::argmax, t).to_host<std::int32_t>()[0], static_cast<std::int32_t>(at));
        EXPECT_EQ(reduce(ReduceOp::argmin, t).to_host<std::int32_t>()[0], static_cast<std::int32_t>(at));
      } else {
        EXPECT_EQ(high, v > 0 ? v : 6.0f);
        EXPECT_EQ(low, v < 0 ? v : -6.0f);
        EXPECT_EQ(reduce(v > 0 ? ReduceOp::argmax : ReduceOp::argmin, t).to_host<std::int32_t>()[0],
                  static_cast<std::int32_t>(at));
      }
    }
  }
  // Two NaN: the first one's index. Zeros of both signs are equal: the first one's index again.
  std::vector<float> x(700, 0.0f);
  x[3] = -0.0f;
  EXPECT_EQ(reduce(ReduceOp::argmin, floats(x)).to_host<std::int32_t>()[0], 0);
  x.assign(700, -0.0f);
  x[650] = 0.0f;
  EXPECT_EQ(reduce(ReduceOp::argmax, floats(x)).to_host<std::int32_t>()[0], 0);
  EXPECT_EQ(reduce(ReduceOp::max, floats(x)).to_host<float>()[0], 0.0f);
  x[600] = kNan;
  x[350] = minus_nan;
  EXPECT_EQ(reduce(ReduceOp::argmax, floats(x)).to_host<std::int32_t>()[0], 350);
  x.assign(700, -kInf);
  EXPECT_EQ(reduce(ReduceOp::max, floats(x)).to_host<float>()[0], -kInf);
  EXPECT_EQ(reduce(ReduceOp::argmax, floats(x)).to_host<std::int32_t>()[0], 0);
}

TEST_P(Reduce, TheSameRowsGiveTheSameBits) {
  std::mt19937 random(8);
  const Tensor x = testing::dense(test_device(), random, {40, 5000}, DType::f32).tensor;
  EXPECT_EQ(reduce(ReduceOp::sum, x, over({1})).to_host<float>(), reduce(ReduceOp::sum, x, over({1})).to_host<float>());
  EXPECT_EQ(reduce(ReduceOp::sum, x).to_host<float>(), reduce(ReduceOp::sum, x).to_host<float>());
}

}  // namespace
}  // namespace weft
