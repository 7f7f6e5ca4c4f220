// matmul against plain loops in double or in integers; exact where the values are small integers. Both device classes'
// kernels run on whatever device there is.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/infer.h"
#include "ops/matmul.h"
#include "ops/matmul_codegen.h"
#include "unit/test_device.h"
#include "weft/weft.h"

namespace weft {
namespace {

using ops::DeviceClass;
using ops::MatmulTuning;
using testing::test_device;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string name_of(const ::testing::TestParamInfo<DeviceClass>& info) {
  return info.param == DeviceClass::gpu ? "gpu" : "cpu";
}

class Matmul : public ::testing::TestWithParam<DeviceClass> {
 protected:
  static MatmulTuning tuning() { return {.device = GetParam(), .matrix_units = false}; }
  static Tensor multiply(const Tensor& a, const Tensor& b, const Tensor& bias = {}) {
    return ops::matmul(a, b, {bias}, tuning());
  }
};
INSTANTIATE_TEST_SUITE_P(DeviceClasses, Matmul, ::testing::Values(DeviceClass::gpu, DeviceClass::cpu), name_of);

Shape shape_of(std::int64_t rows, std::int64_t columns) {
  return {rows, columns};
}

/// Small integers that differ from their neighbours, so that a wrong index shows.
template <class T>
std::vector<T> values(std::int64_t count, int seed) {
  std::vector<T> out(static_cast<std::size_t>(count));
  auto state = static_cast<std::uint32_t>(seed) * 2654435761u + 12345u;
  for (T& v : out) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<T>(static_cast<int>((state >> 20) % 15u) - 7);
  }
  return out;
}

template <class T>
Tensor upload(const std::vector<T>& v, const Shape& shape) {
  return test_device().upload(std::span<const T>(v), shape);
}

Tensor upload_f16(const std::vector<float>& v, const Shape& shape) {
  std::vector<float16> half;
  for (float x : v) half.emplace_back(x);
  return upload(half, shape);
}

std::vector<float> floats_of(const Tensor& x) {
  if (x.dtype() == f32) return x.to_host<float>();
  std::vector<float> out;
  for (float16 h : x.to_host<float16>()) out.push_back(static_cast<float>(h));
  return out;
}

template <class T>
std::vector<T> expected(const std::vector<T>& a, const std::vector<T>& b, std::int64_t m, std::int64_t n,
                        std::int64_t k) {
  std::vector<T> out(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      T sum{};
      for (std::int64_t x = 0; x < k; ++x) sum += a[i * k + x] * b[x * n + j];
      out[i * n + j] = sum;
    }
  }
  return out;
}

template <class T>
std::vector<T> turned(const std::vector<T>& v, std::int64_t rows, std::int64_t columns) {
  std::vector<T> out(v.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) out[j * rows + i] = v[i * columns + j];
  }
  return out;
}

/// All four; both operands in rows, and both in columns; both in rows.
enum class Layouts { all, rows_and_columns, rows };

template <class T>
void check_layouts(std::int64_t m, std::int64_t n, std::int64_t k, const MatmulTuning& tuning,
                   Layouts layouts = Layouts::all) {
  const auto a = values<T>(m * k, static_cast<int>(m * 3 + k));
  const auto b = values<T>(k * n, static_cast<int>(n * 5 + k));
  const auto want = expected(a, b, m, n, k);
  const Tensor a_rows = upload(a, shape_of(m, k));
  const Tensor b_rows = upload(b, shape_of(k, n));
  const Tensor a_columns = transpose(upload(turned(a, m, k), shape_of(k, m)));
  const Tensor b_columns = transpose(upload(turned(b, k, n), shape_of(n, k)));
  const std::uint64_t copies = test_device().stats().materialized;
  for (const Tensor* x : {&a_rows, &a_columns}) {
    for (const Tensor* y : {&b_rows, &b_columns}) {
      if (layouts != Layouts::all && (x == &a_rows) != (y == &b_rows)) continue;
      if (layouts == Layouts::rows && x != &a_rows) continue;
      const Tensor c = ops::matmul(*x, *y, {}, tuning);
      ASSERT_EQ(c.shape(), shape_of(m, n));
      ASSERT_EQ(c.to_host<T>(), want) << m << " x " << k << " @ " << k << " x " << n << (x == &a_rows ? " N" : " T")
                                      << (y == &b_rows ? "N" : "T");
    }
  }
  EXPECT_EQ(test_device().stats().materialized, copies) << "transposed operands are to be read as they lie";
}

// S16 and its list of lengths: each on each axis. Compiling is what costs time here, so partners are few.
TEST_P(Matmul, EveryEdgeLengthIsExact) {
  const Layouts layouts = GetParam() == DeviceClass::gpu ? Layouts::rows : Layouts::rows_and_columns;
  for (std::int64_t length : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129}) {
    check_layouts<float>(length, 33, 17, tuning(), layouts);
    check_layouts<float>(17, length, 16, tuning(), layouts);
    check_layouts<float>(8, 36, length, tuning(), layouts);
  }
}

TEST_P(Matmul, AllLayoutsAreExact) {
  check_layouts<float>(36, 40, 20, tuning());
  check_layouts<float>(33, 39, 19, tuning());
}

TEST_P(Matmul, AllSmallProductsAreExact) {
  for (std::int64_t m : {1, 2, 3, 4, 5}) {
    for (std::int64_t n : {1, 2, 3, 4, 5}) {
      for (std::int64_t k : {1, 2, 3, 4, 5}) {
        const auto a = values<float>(m * k, 1);
        const auto b = values<float>(k * n, 2);
        EXPECT_EQ(multiply(upload(a, {m, k}), upload(b, {k, n})).to_host<float>(), expected(a, b, m, n, k));
      }
    }
  }
}

TEST_P(Matmul, LargeTilesAreExact) {
  check_layouts<float>(1300, 1292, 36, tuning(),
                       Layouts::rows_and_columns);  // enough 128 x 128 tiles to be chosen, with edges
  check_layouts<float>(1280, 1280, 16, tuning());
  check_layouts<float>(700, 750, 36, tuning());  // 64 x 64
}

TEST_P(Matmul, IntegersAreExactAndWrap) {
  check_layouts<std::int32_t>(17, 33, 9, tuning(), Layouts::rows);
  check_layouts<std::int32_t>(8, 1, 65, tuning(), Layouts::rows);
  check_layouts<std::int32_t>(1, 12, 64, tuning(), Layouts::rows);
  check_layouts<std::uint32_t>(33, 8, 20, tuning(), Layouts::rows);
  const std::vector<std::int32_t> a{2147483647, 1, 65536, 65536};
  const std::vector<std::int32_t> b{2, 65537, 1, 65536};
  // [[2^31-1, 1], [2^16, 2^16]] @ [[2, 65537], [1, 65536]], modulo 2^32
  const std::vector<std::int32_t> want{-1, static_cast<std::int32_t>(2147483647u * 65537u + 65536u), 196608, 65536};
  EXPECT_EQ(multiply(upload(a, {2, 2}), upload(b, {2, 2})).to_host<std::int32_t>(), want);
  // 16,777,217 is no float32.
  const std::vector<std::int32_t> big{16777217};
  EXPECT_EQ(multiply(upload(big, {1, 1}), upload(std::vector<std::int32_t>{1}, {1, 1})).to_host<std::int32_t>(), big);
}

TEST_P(Matmul, DtypesPromote) {
  const Tensor i = upload(std::vector<std::int32_t>{1, 2, 3, 4}, {2, 2});
  const Tensor u = upload(std::vector<std::uint32_t>{1, 1, 0, 1}, {2, 2});
  const Tensor f = upload(std::vector<float>{0.5f, 1, 0, 1}, {2, 2});
  const Tensor iu = multiply(i, u);
  EXPECT_EQ(iu.dtype(), i32);
  EXPECT_EQ(iu.to_host<std::int32_t>(), (std::vector<std::int32_t>{1, 3, 3, 7}));
  const Tensor fi = multiply(f, i);
  EXPECT_EQ(fi.dtype(), f32);
  EXPECT_EQ(fi.to_host<float>(), (std::vector<float>{3.5f, 5, 3, 4}));
}

TEST_P(Matmul, BoolIsAnOrOfAnds) {
  const std::vector<std::byte> a{std::byte{1}, std::byte{1}, std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0}};
  const std::vector<std::byte> b{std::byte{1}, std::byte{0}, std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}};
  const Tensor c = multiply(test_device().upload_array(a, {2, 3}, bool_), test_device().upload_array(b, {3, 2}, bool_));
  EXPECT_EQ(c.dtype(), bool_);
  EXPECT_EQ(c.to_host<bool>(), (std::vector<bool>{true, false, true, false}));
}

TEST_P(Matmul, OneDimensionalOperands) {
  const auto a = values<float>(7, 1);
  const auto b = values<float>(7 * 5, 2);
  const Tensor row = upload(a, {7});
  const Tensor matrix = upload(b, {7, 5});
  const Tensor y = multiply(row, matrix);
  EXPECT_EQ(y.shape(), Shape({5}));
  EXPECT_EQ(y.to_host<float>(), expected(a, b, 1, 5, 7));
  const Tensor z = multiply(transpose(matrix), row);
  EXPECT_EQ(z.shape(), Shape({5}));
  EXPECT_EQ(z.to_host<float>(), expected(a, b, 1, 5, 7));
  const Tensor dot = multiply(row, row);
  EXPECT_EQ(dot.rank(), 0u);
  EXPECT_EQ(dot.to_host<float>(), expected(a, a, 1, 1, 7));
  // Batched: (3, 2, 7) @ (7,) and (7,) @ (3, 7, 2).
  const auto c = values<float>(42, 3);
  EXPECT_EQ(multiply(upload(c, {3, 2, 7}), row).to_host<float>(), expected(c, a, 6, 1, 7));
  const Tensor last = multiply(row, upload(c, {3, 7, 2}));
  EXPECT_EQ(last.shape(), Shape({3, 2}));
  std::vector<float> want;
  for (int i = 0; i < 3; ++i) {
    const std::vector<float> part(c.begin() + i * 14, c.begin() + (i + 1) * 14);
    for (float v : expected(a, part, 1, 2, 7)) want.push_back(v);
  }
  EXPECT_EQ(last.to_host<float>(), want);
}

/// matmul of any ranks by loops over the broadcast batch.
std::vector<float> batched(const std::vector<float>& a, const Shape& sa, const std::vector<float>& b, const Shape& sb) {
  const auto batch = [](const Shape& s) { return Shape(std::span<const std::int64_t>(s.begin(), s.rank() - 2)); };
  const Shape out = broadcast_shapes(batch(sa), batch(sb));
  const std::int64_t m = sa[sa.rank() - 2], k = sa.back(), n = sb.back();
  const auto start = [&](const Shape& s, std::int64_t flat, std::int64_t matrix) {
    std::int64_t at = 0, step = matrix;
    for (std::size_t i = 0; i < out.rank(); ++i) {
      const std::size_t from_end = out.rank() - 1 - i;
      const std::int64_t index = flat % out[from_end];
      flat /= out[from_end];
      if (i >= s.rank() - 2) continue;
      const std::int64_t length = s[s.rank() - 3 - i];
      at += length == 1 ? 0 : index * step;
      step *= length;
    }
    return at;
  };
  std::vector<float> result;
  for (std::int64_t flat = 0; flat < element_count(out); ++flat) {
    const auto from_a = a.begin() + start(sa, flat, m * k);
    const auto from_b = b.begin() + start(sb, flat, k * n);
    const auto part =
        expected(std::vector<float>(from_a, from_a + m * k), std::vector<float>(from_b, from_b + k * n), m, n, k);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

TEST_P(Matmul, BatchAxesBroadcast) {
  const std::vector<std::pair<Shape, Shape>> cases{
      {{5, 1, 2, 3}, {4, 3, 2}},
      {{4, 2, 3}, {4, 3, 2}},
      {{4, 2, 3}, {3, 2}},
      {{2, 3}, {4, 3, 2}},
      {{1, 2, 3}, {4, 3, 1}},
      {{3, 1, 8}, {3, 8, 8}},
      {{2, 1, 3, 1, 4, 4}, {5, 1, 2, 4, 8}},
      {{2, 1, 2, 1, 2, 1, 2, 3}, {1, 3, 1, 2, 1, 2, 3, 4}},  // six axes in turn: copies are made
      {{7, 33, 20}, {7, 20, 36}},
  };
  for (const auto& [sa, sb] : cases) {
    const auto a = values<float>(element_count(sa), 5);
    const auto b = values<float>(element_count(sb), 6);
    const Tensor c = multiply(upload(a, sa), upload(b, sb));
    EXPECT_EQ(c.shape(), ops::matmul_shape(sa, sb));
    EXPECT_EQ(c.to_host<float>(), batched(a, sa, b, sb)) << to_string(sa) << " @ " << to_string(sb);
  }
}

TEST_P(Matmul, BatchesPast65535FoldIntoTheGrid) {
  // Tens of thousands of workgroups with barriers take minutes on a CPU adapter: there the gpu kernels fold earlier.
  const bool early = GetParam() == DeviceClass::gpu && test_device().adapter().type == AdapterType::cpu;
  const MatmulTuning folding{.device = GetParam(), .row_groups = early ? 16u : 32768u};
  for (const auto& [batch, m, k, n] :
       {std::array<std::int64_t, 4>{early ? 100 : 65540, 1, 1, 1}, {early ? 100 : 65540, 2, 2, 2}}) {
    const auto a = values<float>(batch * m * k, 1);
    const auto b = values<float>(batch * k * n, 2);
    const Tensor c = ops::matmul(upload(a, {batch, m, k}), upload(b, {batch, k, n}), {}, folding);
    EXPECT_EQ(c.to_host<float>(), batched(a, {batch, m, k}, b, {batch, k, n})) << m;
  }
}

TEST_P(Matmul, ViewsWithOffsetsStepsAndReversal) {
  const auto whole = values<float>(40 * 24, 9);
  const Tensor x = upload(whole, {40, 24});
  const auto at = [&](std::int64_t r, std::int64_t c) { return whole[r * 24 + c]; };
  struct View {
    Tensor tensor;
    std::vector<float> dense;
    bool copied;
  };
  const auto dense = [](std::int64_t rows, std::int64_t columns, auto&& f) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) out.push_back(f(i, j));
    }
    return out;
  };
  const std::vector<View> views{
      {slice(slice(x, 0, 3, 15), 1, 5, 21), dense(12, 16, [&](auto i, auto j) { return at(3 + i, 5 + j); }), false},
      {slice(slice(x, 0, 4, 16), 1, 4, 20), dense(12, 16, [&](auto i, auto j) { return at(4 + i, 4 + j); }), false},
      {slice(slice(x, 0, 0, 36, 3), 1, 0, 16), dense(12, 16, [&](auto i, auto j) { return at(3 * i, j); }), false},
      {slice(slice(x, 0, 0, 12), 1, 16, 0, -1), dense(12, 16, [&](auto i, auto j) { return at(i, 16 - j); }), true},
      {slice(slice(x, 0, 20, 8, -1), 1, 0, 16), dense(12, 16, [&](auto i, auto j) { return at(20 - i, j); }), true},
      {broadcast_to(slice(slice(x, 0, 2, 3), 1, 0, 16), {12, 16}),
       dense(12, 16, [&](auto, auto j) { return at(2, j); }), false},
  };
  const auto square = values<float>(16 * 16, 4);
  const Tensor other = upload(square, {16, 16});
  for (std::size_t i = 0; i < views.size(); ++i) {
    const View& v = views[i];
    const std::uint64_t before = test_device().stats().materialized;
    const Tensor left = multiply(v.tensor, other);
    const Tensor right = multiply(other, transpose(v.tensor));
    EXPECT_EQ(test_device().stats().materialized - before, v.copied ? 2u : 0u) << i;
    EXPECT_EQ(left.to_host<float>(), expected(v.dense, square, 12, 16, 16)) << i;
    EXPECT_EQ(right.to_host<float>(), expected(square, turned(v.dense, 12, 16), 16, 12, 16)) << i;
  }
  // x @ x.T: one buffer twice.
  EXPECT_EQ(multiply(x, transpose(x)).to_host<float>(), expected(whole, turned(whole, 40, 24), 40, 40, 24));
}

TEST_P(Matmul, BiasBroadcastsInTheSameKernel) {
  const std::int64_t m = 9, n = 12, k = 5;
  const auto a = values<float>(3 * m * k, 1);
  const auto b = values<float>(k * n, 2);
  const auto product = expected(a, b, 3 * m, n, k);
  const auto row = values<float>(n, 3);
  const auto column = values<float>(m, 4);
  const auto full = values<float>(3 * m * n, 5);
  const Tensor ta = upload(a, {3, m, k});
  const Tensor tb = upload(b, {k, n});
  const auto check = [&](const Tensor& bias, auto&& at) {
    const std::uint64_t before = test_device().stats().dispatches;
    const Tensor c = multiply(ta, tb, bias);
    EXPECT_EQ(test_device().stats().dispatches, before + 1);
    auto want = product;
    for (std::int64_t i = 0; i < 3 * m * n; ++i) want[i] += at(i);
    EXPECT_EQ(c.to_host<float>(), want);
  };
  check(upload(row, {n}), [&](std::int64_t i) { return row[i % n]; });
  check(upload(column, {m, 1}), [&](std::int64_t i) { return column[i / n % m]; });
  check(upload(full, {3, m, n}), [&](std::int64_t i) { return full[i]; });
  check(upload(std::vector<float>{4}, {}), [](std::int64_t) { return 4.0f; });
  check(upload(std::vector<float>{1, 2, 3}, {3, 1, 1}),
        [&](std::int64_t i) { return 1.0f + static_cast<float>(i / (m * n)); });
  // Of vector products, both ways round.
  const Tensor x = upload(std::vector<float>(a.begin(), a.begin() + k), {k});
  const std::vector<float> first(a.begin(), a.begin() + k);
  auto want = expected(first, b, 1, n, k);
  for (std::int64_t i = 0; i < n; ++i) want[i] += row[i];
  EXPECT_EQ(multiply(x, tb, upload(row, {n})).to_host<float>(), want);
  EXPECT_EQ(multiply(transpose(tb), x, upload(row, {n})).to_host<float>(), want);
  // Of another dtype: an integer product and a float bias meet in f32.
  const Tensor i = upload(std::vector<std::int32_t>{1, 2, 3, 4}, {2, 2});
  const Tensor mixed = multiply(i, i, upload(std::vector<float>{0.5f, 0.25f}, {2}));
  EXPECT_EQ(mixed.dtype(), f32);
  EXPECT_EQ(mixed.to_host<float>(), (std::vector<float>{7.5f, 10.25f, 15.5f, 22.25f}));
}

// S08, D8
TEST_P(Matmul, InnerLengthZeroGivesZerosThatAreWritten) {
  {
    Tensor dirty = full(test_device(), {3, 5}, 7.0f, f32);
    dirty.to_host<float>();
  }  // for the pool to hand out again
  const Tensor a = test_device().empty({3, 0}, f32);
  const Tensor b = test_device().empty({0, 5}, f32);
  EXPECT_EQ(multiply(a, b).to_host<float>(), std::vector<float>(15, 0.0f));
  const std::vector<float> bias{1, 2, 3, 4, 5};
  EXPECT_EQ(multiply(a, b, upload(bias, {5})).to_host<float>(),
            (std::vector<float>{1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5}));
  EXPECT_EQ(multiply(test_device().empty({0}, f32), b).to_host<float>(), std::vector<float>(5, 0.0f));
  const Tensor no_rows = multiply(test_device().empty({0, 4}, f32), test_device().zeros({4, 5}, f32));
  EXPECT_EQ(no_rows.shape(), Shape({0, 5}));
  EXPECT_TRUE(no_rows.to_host<float>().empty());
  EXPECT_EQ(multiply(test_device().zeros({4, 5}, f32), test_device().empty({5, 0}, f32)).shape(), Shape({4, 0}));
  EXPECT_EQ(multiply(test_device().empty({0, 2, 3}, f32), test_device().zeros({3, 4}, f32)).shape(), Shape({0, 2, 4}));
}

// N24
TEST_P(Matmul, HalfFloatsAddUpInSingle) {
  std::vector<float> a(2 * 4096, 16.0f), b;
  for (int i = 0; i < 4096; ++i) b.insert(b.end(), 3, i % 4 < 2 ? 2250.0f : -2250.0f);
  EXPECT_EQ(floats_of(multiply(upload_f16(a, {2, 4096}), upload_f16(b, {4096, 3}))), std::vector<float>(6, 0.0f));
}

// N25
TEST_P(Matmul, HalfFloatResultsRoundOnceAndOverflowToInfinity) {
  const std::vector<float> a{256, 256, 10, 1, 2, 3};
  const std::vector<float> b{256, 1, 256, 2, 1, 3};
  const Tensor ha = upload_f16(a, {2, 3});
  const Tensor hb = upload_f16(b, {3, 2});
  const Tensor half = multiply(ha, hb);
  EXPECT_EQ(half.dtype(), f16);
  EXPECT_EQ(floats_of(half), (std::vector<float>{kInf, 798, 771, 14}));
  const std::vector<float> wide{131082, 798, 771, 14};
  EXPECT_EQ(floats_of(multiply(upload(a, {2, 3}), upload(b, {3, 2}))), wide);
  // f16 operands and an f32 bias give f32, with no f16 stage between.
  const Tensor with_bias = multiply(ha, hb, upload(std::vector<float>{0, 0}, {2}));
  EXPECT_EQ(with_bias.dtype(), f32);
  EXPECT_EQ(floats_of(with_bias), wide);
  // 2049 lies half way between two halves; + 1/4 decides only when nothing was rounded before.
  EXPECT_EQ(floats_of(multiply(upload_f16({2048, 1}, {1, 2}), upload_f16({1, 1}, {2, 1}), upload_f16({0.25f}, {1}))),
            std::vector<float>{2050});
}

TEST_P(Matmul, HalfFloatsInAllLayouts) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{9, 17, 33}, {12, 1, 20}}) {
    const auto a = values<float>(m * k, 1);
    const auto b = values<float>(k * n, 2);
    const auto want = expected(a, b, m, n, k);
    const Tensor ta[] = {upload_f16(a, {m, k}), transpose(upload_f16(turned(a, m, k), {k, m}))};
    const Tensor tb[] = {upload_f16(b, {k, n}), transpose(upload_f16(turned(b, k, n), {n, k}))};
    for (const Tensor& x : ta) {
      for (const Tensor& y : tb) EXPECT_EQ(floats_of(multiply(x, y)), want) << m << " " << n << " " << k;
    }
  }
}

TEST_P(Matmul, NanAndInfinityPropagate) {
  std::vector<float> a(33 * 20, 1.0f);
  std::vector<float> b(20 * 36, 1.0f);
  a[2 * 20 + 7] = kNan;
  a[5 * 20 + 19] = kInf;
  b[3 * 36 + 4] = -kInf;
  b[0 * 36 + 35] = 0.0f;
  const auto got = multiply(upload(a, {33, 20}), upload(b, {20, 36})).to_host<float>();
  for (int i = 0; i < 33; ++i) {
    for (int j = 0; j < 36; ++j) {
      const float v = got[i * 36 + j];
      const bool nan = i == 2 || (i == 5 && j == 4);
      if (nan) {
        EXPECT_TRUE(std::isnan(v)) << i << "," << j;
      } else if (i == 5) {
        EXPECT_EQ(v, kInf) << j;
      } else if (j == 4) {
        EXPECT_EQ(v, -kInf) << i;
      } else {
        EXPECT_EQ(v, j == 35 ? 19.0f : 20.0f) << i << "," << j;
      }
    }
  }
  // What lies past the edge of a view must not leak into it: 0 * NaN.
  std::vector<float> padded(8 * 24, kNan);
  for (int i = 0; i < 8; ++i) std::fill_n(padded.begin() + i * 24, 9, 1.0f);
  const Tensor x = slice(upload(padded, {8, 24}), 1, 0, 9);
  EXPECT_EQ(multiply(x, transpose(x)).to_host<float>(), std::vector<float>(64, 9.0f));
}

TEST_P(Matmul, LongInnerAxisWithFewResults) {
  const std::int64_t k = 20003;
  const auto a = values<float>(3 * k, 1);
  const auto b = values<float>(k * 2, 2);
  const auto want = expected(a, b, 3, 2, k);
  EXPECT_EQ(multiply(upload(a, {3, k}), upload(b, {k, 2})).to_host<float>(), want);
  auto with_bias = want;
  for (float& v : with_bias) v += 3;
  EXPECT_EQ(multiply(upload(a, {3, k}), upload(b, {k, 2}), upload(std::vector<float>{3}, {1})).to_host<float>(),
            with_bias);
  const std::vector<std::int32_t> ones(70001, 1);
  EXPECT_EQ(multiply(upload(ones, {70001}), upload(ones, {70001})).to_host<std::int32_t>(),
            std::vector<std::int32_t>{70001});
}

// Long lines that a vector crosses are read some lines at a time, and the parts added up.
TEST_P(Matmul, VectorAcrossLongLines) {
  for (const auto& [m, k] : {std::pair<std::int64_t, std::int64_t>{1027, 300}, {1024, 64}, {2048, 67}}) {
    const auto a = values<float>(k * m, 1);
    const auto x = values<float>(k, 2);
    const Tensor lines = upload(a, {k, m});
    EXPECT_EQ(multiply(upload(x, {k}), lines).to_host<float>(), expected(x, a, 1, m, k));
    EXPECT_EQ(multiply(transpose(lines), upload(x, {k})).to_host<float>(), expected(x, a, 1, m, k));
  }
}

TEST_P(Matmul, OperandsOverTheBindingLimitAreMultipliedInSlices) {
  const MatmulTuning small{.device = GetParam(), .most_bytes = 4096};
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{100, 20, 10}, {10, 100, 40}, {3, 2, 1500}}) {
    const auto a = values<float>(m * k, 1);
    const auto b = values<float>(k * n, 2);
    const auto bias = values<float>(m * n, 3);
    auto want = expected(a, b, m, n, k);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += bias[i];
    const Tensor ta[] = {upload(a, {m, k}), transpose(upload(turned(a, m, k), {k, m}))};
    const Tensor tb[] = {upload(b, {k, n}), transpose(upload(turned(b, k, n), {n, k}))};
    for (int i : {0, 1}) {
      EXPECT_EQ(ops::matmul(ta[i], tb[i], {upload(bias, {m, n})}, small).to_host<float>(), want) << m << " " << n;
    }
  }
  const auto a = values<float>(30 * 8 * 8, 1);
  const auto b = values<float>(30 * 8 * 8, 2);
  EXPECT_EQ(ops::matmul(upload(a, {30, 8, 8}), upload(b, {30, 8, 8}), {}, small).to_host<float>(),
            batched(a, {30, 8, 8}, b, {30, 8, 8}));
}

// ---------------------------------------------------------------------------------------------------------------------

void expect_error(ErrorCode code, const std::vector<std::string>& parts, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nlacks " << part;
    }
    return;
  }
  ADD_FAILURE() << "no error";
}

TEST(MatmulErrors, NameTheShapes) {
  const Tensor a = test_device().zeros({37, 64}, f32);
  expect_error(ErrorCode::invalid_argument,
               {"matmul: ", "(37, 64) and (65, 10)", "inner lengths 64 and 65 differ", "Fix: "},
               [&] { matmul(a, test_device().zeros({65, 10}, f32)); });
  expect_error(ErrorCode::invalid_argument, {"matmul: ", "()", "Fix: "},
               [&] { matmul(a, test_device().zeros({}, f32)); });
  expect_error(ErrorCode::invalid_argument, {"matmul: ", "(2, 3, 4)", "(3, 4, 5)", "Fix: "},
               [] { matmul(test_device().zeros({2, 3, 4}, f32), test_device().zeros({3, 4, 5}, f32)); });
  expect_error(ErrorCode::invalid_argument, {"matmul: ", "bias", "(9,)", "(37, 10)", "Fix: "},
               [&] { matmul(a, test_device().zeros({64, 10}, f32), {test_device().zeros({9}, f32)}); });
  expect_error(ErrorCode::invalid_argument, {"matmul: "}, [&] { matmul(a, Tensor()); });
}

// The panel kernel, forced where it would not be chosen too. It needs subgroups of eight; every lavapipe with 256-bit
// vectors has them.
class MatmulPanels : public ::testing::Test {
 protected:
  void SetUp() override {
    const Device& device = test_device();
    subgroup_ = ops::fixed_subgroup(device.features());
    if (device.adapter().name.find("256 bits") != std::string::npos) {
      ASSERT_EQ(subgroup_, 8u);
    }
    if (subgroup_ != 8) GTEST_SKIP() << "subgroups of this device are not of eight threads: no panel kernel";
    tuning_.device = DeviceClass::cpu;
    for (const ops::MatmulPlan& plan : ops::all_plans(DeviceClass::cpu, device.limits(), f32, subgroup_)) {
      if (plan.kind == ops::MatmulKind::panel) tuning_.plan = plan;
    }
    ASSERT_TRUE(tuning_.plan.has_value());
  }

  std::uint32_t subgroup_ = 0;
  MatmulTuning tuning_;
};

TEST_F(MatmulPanels, EdgesAndLayoutsAreExact) {
  for (std::int64_t length : {2, 3, 31, 32, 33, 63, 65}) {
    check_layouts<float>(length, 33, 17, tuning_, Layouts::rows_and_columns);
    check_layouts<float>(35, length, 16, tuning_, Layouts::rows_and_columns);
    check_layouts<float>(34, 36, length, tuning_, Layouts::rows_and_columns);
  }
  check_layouts<float>(70, 68, 1, tuning_);
  check_layouts<float>(64, 96, 40, tuning_);
  check_layouts<float>(65, 33, 515, tuning_);  // more than one workgroup repacks a panel
  check_layouts<std::int32_t>(37, 66, 19, tuning_);
}

TEST_F(MatmulPanels, BatchesThatRepeatOperandsAreExact) {
  const std::int64_t m = 33, n = 35, k = 21;
  for (const auto& [a_batch, b_batch] : {std::pair{Shape{2, 3}, Shape{2, 3}},
                                         {Shape{2, 1}, Shape{1, 3}},
                                         {Shape{1, 3}, Shape{2, 3}},
                                         {Shape{2, 3}, Shape{2, 1}},
                                         {Shape{2, 3}, Shape{1, 1}}}) {
    const auto batched = [](const Shape& batch, std::int64_t rows, std::int64_t columns, int seed) {
      const Shape shape{batch[0], batch[1], rows, columns};
      return std::pair(values<float>(element_count(shape), seed), shape);
    };
    const auto [a, a_shape] = batched(a_batch, m, k, 3);
    const auto [b, b_shape] = batched(b_batch, k, n, 5);
    std::vector<float> want;
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        const auto part = [&](const std::vector<float>& all, const Shape& batch, std::int64_t size) {
          const std::int64_t at = (std::min(i, batch[0] - 1) * batch[1] + std::min(j, batch[1] - 1)) * size;
          return std::vector(all.begin() + at, all.begin() + at + size);
        };
        const auto one = expected(part(a, a_batch, m * k), part(b, b_batch, k * n), m, n, k);
        want.insert(want.end(), one.begin(), one.end());
      }
    }
    const Tensor c = ops::matmul(upload(a, a_shape), upload(b, b_shape), {}, tuning_);
    EXPECT_EQ(c.shape(), (Shape{2, 3, m, n}));
    EXPECT_EQ(c.to_host<float>(), want) << to_string(a_batch) << " " << to_string(b_batch);
  }
}

TEST_F(MatmulPanels, EpiloguesHalvesAndSlicesAreExact) {
  const std::int64_t m = 67, n = 45, k = 30;
  const auto a = values<float>(m * k, 1), b = values<float>(k * n, 2), bias = values<float>(n, 3),
             residual = values<float>(m * n, 4);
  auto want = expected(a, b, m, n, k);
  for (std::int64_t i = 0; i < m * n; ++i) want[i] = std::max(want[i] + bias[i % n], 0.0F) + residual[i];
  const MatmulOptions options{upload(bias, {n}), Activation::relu, upload(residual, shape_of(m, n))};
  const Tensor x = upload(a, shape_of(m, k)), y = upload(b, shape_of(k, n));
  EXPECT_EQ(ops::matmul(x, y, options, tuning_).to_host<float>(), want);
  MatmulTuning small = tuning_;
  small.most_bytes = 40 * 32 * 4;  // of what is repacked, one panel of each
  EXPECT_EQ(ops::matmul(x, y, options, small).to_host<float>(), want);
  small.row_groups = 2;
  EXPECT_EQ(ops::matmul(x, y, options, small).to_host<float>(), want);
}

TEST_F(MatmulPanels, HalfPrecisionIsExact) {
  if (!test_device().features().f16) GTEST_SKIP() << "this device has no f16";
  const std::int64_t m = 67, n = 45, k = 30;
  const auto a = values<float>(m * k, 1), b = values<float>(k * n, 2);
  const auto product = expected(a, b, m, n, k);
  EXPECT_EQ(floats_of(ops::matmul(upload_f16(a, shape_of(m, k)), upload_f16(b, shape_of(k, n)), {}, tuning_)), product)
      << "sums of small integers, which f16 holds";
  MatmulOptions wide;
  wide.dtype = f32;
  EXPECT_EQ(ops::matmul(upload_f16(a, shape_of(m, k)), upload_f16(b, shape_of(k, n)), wide, tuning_).to_host<float>(),
            product);
}

TEST(MatmulPlan, VectorsHaveKernelsOfTheirOwnAndTilesFollowTheShape) {
  Limits limits;
  limits.max_workgroup_invocations = 256;
  limits.max_workgroup_storage = 48 << 10;
  const auto kind = [&](DeviceClass c, std::uint64_t m, std::uint64_t n) {
    return ops::choose(c, limits, {.m = m, .n = n, .k = 64}).kind;
  };
  EXPECT_EQ(kind(DeviceClass::gpu, 4096, 1), ops::MatmulKind::vector_tile);
  EXPECT_EQ(kind(DeviceClass::cpu, 4096, 1), ops::MatmulKind::vector_block);
  EXPECT_EQ(kind(DeviceClass::gpu, 64, 64), ops::MatmulKind::tile);
  EXPECT_EQ(kind(DeviceClass::cpu, 64, 64), ops::MatmulKind::block);
  const auto with_subgroups = [&](std::uint64_t m, std::uint64_t n, DType dtype, std::uint32_t threads) {
    return ops::choose(DeviceClass::cpu, limits, {.m = m, .n = n, .k = 64, .dtype = dtype, .subgroup = threads}).kind;
  };
  EXPECT_EQ(with_subgroups(128, 128, f32, 8), ops::MatmulKind::panel);
  EXPECT_EQ(with_subgroups(128, 128, i32, 8), ops::MatmulKind::panel);
  EXPECT_EQ(with_subgroups(128, 128, f32, 16), ops::MatmulKind::block) << "the kernel is made for eight lanes";
  EXPECT_EQ(with_subgroups(128, 128, u32, 8), ops::MatmulKind::block) << "packed integers are not repacked";
  EXPECT_EQ(with_subgroups(31, 4096, f32, 8), ops::MatmulKind::block);
  EXPECT_EQ(with_subgroups(32, 32, f32, 8), ops::MatmulKind::block) << "too little work to repack for";
  const auto tile = [&](std::uint64_t m, std::uint64_t n) {
    return ops::choose(DeviceClass::gpu, limits, {.m = m, .n = n, .k = 64}).tile_m;
  };
  EXPECT_EQ(tile(4096, 4096), 128u);
  EXPECT_EQ(tile(1024, 1024), 64u);
  EXPECT_EQ(tile(128, 128), 32u);
  // What WebGPU promises everywhere: 16 KiB of workgroup memory.
  limits.max_workgroup_storage = 16 << 10;
  EXPECT_EQ(tile(4096, 4096), 64u);
  EXPECT_GT(ops::choose(DeviceClass::gpu, limits, {.m = 2, .n = 2, .k = 1 << 20}).splits, 1u);
  EXPECT_EQ(ops::choose(DeviceClass::gpu, limits, {.m = 4096, .n = 4096, .k = 1 << 20}).splits, 1u);
}

// What `weft tune` measured as fastest on an H200 in 2026, 1.5 to 2 times as fast as parts of 1,024 and more: the rule
// is to come to these, or near.
TEST(MatmulPlan, LongInnerAxesAreCutAsWasMeasured) {
  struct Case {
    std::uint64_t m, n, k;
    std::uint32_t tile, least_parts, most_parts;
  };
  const Limits limits{.max_workgroup_invocations = 1024, .max_workgroup_storage = 48 << 10};
  for (const ops::MatrixUnit& unit : {ops::MatrixUnit{}, ops::MatrixUnit{16, 16, 16, 32}}) {
    const DType dtype = unit ? f16 : f32;
    for (const auto& [m, n, k, tile, least, most] : {Case{128, 4096, 4096, 128, 8, 8},
                                                     {512, 4096, 4096, 128, 2, 2},
                                                     {16, 4096, 4096, 32, 16, 32},
                                                     {256, 256, 16384, 64, 32, 32},
                                                     {64, 64, 65536, 32, 64, 128}}) {
      const auto plan = ops::choose(DeviceClass::gpu, limits, {.m = m, .n = n, .k = k, .dtype = dtype, .unit = unit});
      if (!unit) {  // tiles of units have more threads, where they are small
        EXPECT_EQ(plan.tile_m, tile) << m << " x " << n << " x " << k;
        EXPECT_GE(plan.splits, least) << m << " x " << n << " x " << k;
        EXPECT_LE(plan.splits, most) << m << " x " << n << " x " << k;
      }
      EXPECT_GE(k / plan.splits, m <= 32 ? 256u : 512u);
      EXPECT_GE(ops::groups_of(plan, {.m = m, .n = n, .k = k}) * plan.splits * plan.threads, 32768u);
    }
    // Enough results, or inner axes too short to cut: whole, in the tiles that they had.
    for (const auto& [m, n, k, tile, least, most] : {Case{4096, 4096, 4096, 128, 1, 1},
                                                     {2048, 2048, 2048, 128, 1, 1},
                                                     {1024, 1024, 1024, 64, 1, 1},
                                                     {512, 512, 512, 32, 1, 1},
                                                     {256, 256, 2047, 32, 1, 1},
                                                     {16, 4096, 511, 32, 1, 1}}) {
      const auto plan = ops::choose(DeviceClass::gpu, limits, {.m = m, .n = n, .k = k, .dtype = dtype, .unit = unit});
      EXPECT_EQ(plan.tile_m, tile) << m << " x " << n << " x " << k;
      EXPECT_EQ(plan.splits, 1u) << m << " x " << n << " x " << k;
    }
    // Most of a 128-tile would lie outside of 33 rows.
    EXPECT_LT(
        ops::choose(DeviceClass::gpu, limits, {.m = 33, .n = 65536, .k = 4096, .dtype = dtype, .unit = unit}).tile_m,
        128u);
  }
}

TEST(MatmulCodegen, EveryFieldOfTheSpecIsInTheKey) {
  std::set<std::string> keys, texts;
  std::size_t count = 0;
  const auto add = [&](const ops::MatmulSpec& spec) {
    keys.insert(ops::matmul_key(spec));
    texts.insert(ops::matmul_source(spec));
    ++count;
  };
  for (bool a_transposed : {false, true}) {
    for (bool b_transposed : {false, true}) {
      for (bool vec4 : {false, true}) {
        for (bool full : {false, true}) {
          for (std::uint32_t axes : {1u, 3u}) {
            for (std::uint64_t m : {3u, 4096u}) {
              ops::MatmulSpec spec;
              spec.plan = ops::choose(DeviceClass::cpu, {}, {.m = m, .n = 4096, .k = 64});
              spec.a_transposed = a_transposed;
              spec.b_transposed = b_transposed;
              spec.a_vec4 = vec4;
              spec.full = full;
              spec.batch_axes = axes;
              add(spec);
            }
          }
        }
      }
    }
  }
  for (ops::Int8 int8 : {ops::Int8::dot, ops::Int8::unpacked}) {
    for (bool a_signed : {false, true}) {
      for (bool b_signed : {false, true}) {
        ops::MatmulSpec spec;
        spec.plan = ops::choose(DeviceClass::gpu, {}, {.m = 64, .n = 64, .k = 64});
        spec.in = u32;
        spec.out = i32;
        spec.int8 = int8;
        spec.a_signed = a_signed;
        spec.b_signed = b_signed;
        add(spec);
      }
    }
  }
  // By units: slabs, stores to workgroup memory, signs.
  for (std::uint32_t slab : {16u, 32u}) {
    for (std::uint32_t vec : {1u, 2u, 4u}) {
      ops::MatmulSpec spec;
      spec.plan = {.kind = ops::MatmulKind::matrix,
                   .tile_m = 64,
                   .tile_n = 64,
                   .threads = 128,
                   .sub_m = 32,
                   .sub_n = 32,
                   .slab = slab,
                   .vec = vec,
                   .unit = {16, 16, 16, 32}};
      spec.in = f16;
      add(spec);
      spec.in = u32;
      spec.out = i32;
      spec.int8 = ops::Int8::dot;
      spec.b_transposed = true;
      for (std::uint32_t signs = 0; signs < 4; ++signs) {
        spec.a_signed = (signs & 1) != 0;
        spec.b_signed = (signs & 2) != 0;
        add(spec);
      }
    }
  }
  EXPECT_EQ(keys.size(), count);
  EXPECT_EQ(texts.size(), count);
}

}  // namespace
}  // namespace weft
