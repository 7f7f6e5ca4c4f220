// gemm_into, the epilogues of all products, packed 8-bit products, and the list of their kernels; against plain loops
// in double. Small whole numbers make results exact. Both device classes' kernels run on whatever device there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/catalog.h"
#include "ops/infer_matmul.h"
#include "ops/matmul.h"
#include "ops/matmul_codegen.h"
#include "ops/matmul_run.h"
#include "unit/test_device.h"
#include "weft/weft.h"

namespace weft {
namespace {

using ops::DeviceClass;
using ops::MatmulTuning;
using testing::test_device;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Gemm : public ::testing::TestWithParam<DeviceClass> {
 protected:
  static MatmulTuning tuning() { return {.device = GetParam(), .matrix_units = false}; }
};
INSTANTIATE_TEST_SUITE_P(DeviceClasses, Gemm, ::testing::Values(DeviceClass::gpu, DeviceClass::cpu),
                         [](const auto& tested) { return tested.param == DeviceClass::gpu ? "gpu" : "cpu"; });

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
  ADD_FAILURE() << "no error; wanted " << parts.front();
}

/// A matrix (or a batch of them) in host memory, shown by strides, with what lies around it.
struct Host {
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;
  std::vector<float> all;

  float& at(std::int64_t batch, std::int64_t row, std::int64_t column) {
    const std::size_t r = shape.rank();
    const std::int64_t step = r > 2 ? strides[0] : 0;
    return all[static_cast<std::size_t>(offset + batch * step + row * strides[r - 2] + column * strides[r - 1])];
  }
  Tensor on_device(DType dtype) const {
    const auto whole = static_cast<std::int64_t>(all.size());
    const Tensor dense = dtype == f32   ? upload(all, {whole})
                         : dtype == f16 ? upload_f16(all, {whole})
                                        : cast(upload(all, {whole}), dtype);
    return Tensor(test_device(), dense.buffer(), shape, strides, offset, dtype);
  }
  std::vector<float> read(const Tensor& view) const {
    const Tensor whole(test_device(), view.buffer(), {static_cast<std::int64_t>(all.size())}, {1}, 0, view.dtype());
    return floats_of(is_float(view.dtype()) ? whole : cast(whole, f32));
  }
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }
  bool coin() { return below(2) == 1; }
  float whole() { return static_cast<float>(below(15) - 7); }
  float uniform() { return static_cast<float>(engine_() >> 8) / static_cast<float>(1 << 23) - 1.0f; }

  /// [batch,] rows x columns with its lines `gap` longer than need be, in rows or in columns; small whole numbers.
  Host host(std::int64_t batch, std::int64_t rows, std::int64_t columns, std::int64_t gap, bool by_columns,
            std::int64_t offset) {
    Host h;
    const std::int64_t line = (by_columns ? rows : columns) + gap;
    const std::int64_t lines = by_columns ? columns : rows;
    h.shape = {rows, columns};
    h.strides = by_columns ? Strides{1, line} : Strides{line, 1};
    if (batch > 0) {
      h.shape.insert(0, batch);
      h.strides.insert(0, line * lines + gap);
    }
    h.offset = offset;
    h.all.resize(static_cast<std::size_t>(offset + std::max<std::int64_t>(batch, 1) * (line * lines + gap) + 3));
    for (float& v : h.all) v = whole();
    return h;
  }

 private:
  std::mt19937 engine_;
};

// S16: lengths around those of vectors, tiles and their halves; all transposes; leading dimensions and offsets; what
// lies between c's elements stays.
TEST_P(Gemm, RandomShapesAreExactAndTouchOnlyC) {
  constexpr std::array<std::int64_t, 24> kLengths{1,  2,  3,  4,  5,  6,  7,   8,   9,   15,  16,  17,
                                                  31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
  Random random(20240607);
  // Kernels with barriers take a CPU adapter's compiler a second each: there the other class has most of the rounds.
  const bool few = GetParam() == DeviceClass::gpu && test_device().adapter().type == AdapterType::cpu;
  for (int round = 0; round < (few ? 12 : 40); ++round) {
    const std::int64_t m = kLengths[static_cast<std::size_t>(random.below(24))];
    const std::int64_t n = kLengths[static_cast<std::size_t>(random.below(24))];
    const std::int64_t k = kLengths[static_cast<std::size_t>(random.below(24))];
    const std::int64_t batch = m * n * k > 100000 ? 0 : random.below(3);
    GemmOptions options;
    options.transpose_a = random.coin();
    options.transpose_b = random.coin();
    const auto gap = [&] { return random.below(3) * (random.coin() ? 4 : 1); };
    const auto offset = [&] { return random.below(3) * (random.coin() ? 4 : 1); };
    Host a = options.transpose_a ? random.host(batch, k, m, gap(), random.coin(), offset())
                                 : random.host(batch, m, k, gap(), random.coin(), offset());
    Host b = options.transpose_b ? random.host(random.coin() ? batch : 0, n, k, gap(), random.coin(), offset())
                                 : random.host(random.coin() ? batch : 0, k, n, gap(), random.coin(), offset());
    Host c = random.host(batch, m, n, gap(), random.below(4) == 0, offset());
    if (random.coin()) {
      options.alpha = random.whole();
      options.beta = random.whole();
    }
    const bool has_bias = random.coin(), has_residual = random.below(3) == 0;
    Host bias = random.host(0, random.coin() ? m : 1, random.coin() ? n : 1, 0, false, 0);
    Host residual = random.host(batch, m, n, gap(), random.coin(), offset());
    options.activation = random.coin() ? Activation::relu : Activation::none;
    const DType dtype = round % 6 == 5 ? i32 : f32;
    if (has_bias) options.bias = bias.on_device(dtype);
    if (has_residual) options.residual = residual.on_device(dtype);
    const Tensor tc = c.on_device(dtype);
    ops::gemm_into(tc, a.on_device(dtype), b.on_device(dtype), options, tuning());

    Host want = c;
    for (std::int64_t g = 0; g < std::max<std::int64_t>(batch, 1); ++g) {
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t x = 0; x < k; ++x) {
            sum += static_cast<double>(options.transpose_a ? a.at(g, x, i) : a.at(g, i, x)) *
                   static_cast<double>(options.transpose_b ? b.at(g, j, x) : b.at(g, x, j));
          }
          double v = options.alpha * sum + options.beta * static_cast<double>(c.at(g, i, j));
          if (has_bias) v += static_cast<double>(bias.at(0, bias.shape[0] == 1 ? 0 : i, bias.shape[1] == 1 ? 0 : j));
          if (options.activation == Activation::relu) v = std::max(v, 0.0);
          if (has_residual) v += static_cast<double>(residual.at(g, i, j));
          want.at(g, i, j) = static_cast<float>(v);
        }
      }
    }
    ASSERT_EQ(c.read(tc), want.all) << "round " << round << ": " << batch << " x " << m << " x " << k << " x " << n
                                    << (options.transpose_a ? " T" : " N") << (options.transpose_b ? "T" : "N");
  }
}

// D8
TEST_P(Gemm, BetaOfZeroNeverReadsC) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{5, 7, 3}, {8, 1, 9}, {1, 8, 4}, {3, 2, 20003}}) {
    const Tensor c = upload(std::vector<float>(static_cast<std::size_t>(m * n), kNan), {m, n});
    const Tensor a = upload(std::vector<float>(static_cast<std::size_t>(m * k), 1), {m, k});
    const Tensor b = upload(std::vector<float>(static_cast<std::size_t>(k * n), 1), {k, n});
    ops::gemm_into(c, a, b, {.alpha = 2, .beta = 0}, tuning());
    EXPECT_EQ(c.to_host<float>(), std::vector<float>(static_cast<std::size_t>(m * n), static_cast<float>(2 * k)));
    // A beta does read it.
    ops::gemm_into(c, a, b, {.alpha = 1, .beta = 3}, tuning());
    EXPECT_EQ(c.to_host<float>(), std::vector<float>(static_cast<std::size_t>(m * n), static_cast<float>(7 * k)));
  }
}

// BLAS: nothing to add up scales c; alpha of zero reads neither a nor b.
TEST_P(Gemm, AnInnerLengthOfZeroScalesC) {
  const std::vector<float> values{1, -2, 3, 4, 5, -6};
  const auto scaled = [&](double alpha, double beta, std::int64_t k, float operands) {
    const Tensor c = upload(values, {2, 3});
    const Tensor a = k == 0 ? test_device().empty({2, 0}, f32)
                            : upload(std::vector<float>(static_cast<std::size_t>(2 * k), operands), {2, k});
    const Tensor b = k == 0 ? test_device().empty({0, 3}, f32)
                            : upload(std::vector<float>(static_cast<std::size_t>(3 * k), operands), {k, 3});
    ops::gemm_into(c, a, b, {.alpha = alpha, .beta = beta}, tuning());
    return c.to_host<float>();
  };
  EXPECT_EQ(scaled(1, 1, 0, 0), values);
  EXPECT_EQ(scaled(5, 2, 0, 0), (std::vector<float>{2, -4, 6, 8, 10, -12}));
  EXPECT_EQ(scaled(5, 0, 0, 0), std::vector<float>(6, 0.0f));
  EXPECT_EQ(scaled(0, 2, 4, kNan), (std::vector<float>{2, -4, 6, 8, 10, -12}));
  EXPECT_EQ(scaled(0, 0, 4, kNan), std::vector<float>(6, 0.0f));
  // The rest of the epilogue follows.
  const Tensor c = upload(values, {2, 3});
  ops::gemm_into(c, test_device().empty({2, 0}, f32), test_device().empty({0, 3}, f32),
                 {.beta = 1,
                  .bias = upload(std::vector<float>{1}, {1}),
                  .activation = Activation::relu,
                  .residual = upload(std::vector<float>{10, 20, 30}, {3})},
                 tuning());
  EXPECT_EQ(c.to_host<float>(), (std::vector<float>{12, 20, 34, 15, 26, 30}));
  // No results: nothing to do.
  ops::gemm_into(test_device().empty({0, 3}, f32), test_device().empty({0, 2}, f32), test_device().zeros({2, 3}, f32),
                 {}, tuning());
}

// N26 and more: what a unary op gives, the epilogue gives, bit for bit; on every path that ends in one.
TEST_P(Gemm, ActivationsAreTheUnaryOps) {
  std::vector<float> edges{0.0f, -0.0f, kNan, kInf, -kInf, 1e-30f, -1e-30f, 3e38f, -3e38f, 88.5f, -88.5f, -104.5f};
  for (int i = -52; i < 52; ++i) edges.push_back(static_cast<float>(i) * 0.171875f);
  const auto n = static_cast<std::int64_t>(edges.size());
  const Tensor bias = upload(edges, {n});
  const Tensor residual = upload(std::vector<float>(static_cast<std::size_t>(n), 0.25f), {n});
  struct Path {
    std::int64_t m, k;
    const char* name;
  };
  for (const auto& [activation, op] : {std::pair{Activation::relu, UnaryOp::relu},
                                       {Activation::gelu, UnaryOp::gelu},
                                       {Activation::gelu_tanh, UnaryOp::gelu_tanh},
                                       {Activation::silu, UnaryOp::silu}}) {
    for (const Path& path : {Path{3, 8, "matrix"}, {1, 8, "vector"}, {2, 9000, "parts"}, {2, 0, "empty"}}) {
      // Sums of 0: then the bias is what the activation gets.
      const Tensor a = test_device().zeros({path.m, path.k}, f32);
      const Tensor b = test_device().zeros({path.k, n}, f32);
      const Tensor fused = ops::matmul(a, b, {.bias = bias, .activation = activation, .residual = residual}, tuning());
      const Tensor apart = binary(
          BinaryOp::add, unary(op, binary(BinaryOp::add, test_device().zeros({path.m, n}, f32), bias)), residual);
      const auto got = fused.to_host<float>();
      const auto want = apart.to_host<float>();
      for (std::size_t i = 0; i < got.size(); ++i) {
        const bool nan = std::isnan(want[i]) && std::isnan(got[i]);
        ASSERT_TRUE(nan || std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i]))
            << path.name << " " << to_string(op) << " of " << edges[i % edges.size()] << ": " << got[i] << ", not "
            << want[i];
      }
    }
  }
}

TEST_P(Gemm, EpiloguesAreInTheSameDispatch) {
  Random random(5);
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{40, 36}, {9, 1}, {1, 12}, {5, 7}}) {
    const std::int64_t k = 12;
    Host a = random.host(0, m, k, 0, false, 0), b = random.host(0, k, n, 0, false, 0);
    Host bias = random.host(0, 1, n, 0, false, 0), residual = random.host(0, m, n, 0, false, 0);
    const Tensor ta = a.on_device(f32), tb = b.on_device(f32), tbias = bias.on_device(f32),
                 tresidual = residual.on_device(f32);
    const std::uint64_t before = test_device().stats().dispatches;
    const Tensor got =
        ops::matmul(ta, tb, {.bias = tbias, .activation = Activation::relu, .residual = tresidual}, tuning());
    EXPECT_EQ(test_device().stats().dispatches, before + 1);
    std::vector<float> want;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t x = 0; x < k; ++x) sum += a.at(0, i, x) * b.at(0, x, j);
        want.push_back(std::max(sum + bias.at(0, 0, j), 0.0f) + residual.at(0, i, j));
      }
    }
    EXPECT_EQ(got.to_host<float>(), want) << m << " x " << n;
  }
  // Parts of a long inner axis: the summing kernel finishes. One dispatch for the parts, one for what is left over.
  const Tensor a = upload(std::vector<float>(2 * 20000, 1), {2, 20000});
  const Tensor b = upload(std::vector<float>(20000 * 3, 1), {20000, 3});
  const Tensor bias = upload(std::vector<float>{-1e6f, 1, 2}, {3});
  const std::uint64_t before = test_device().stats().dispatches;
  const Tensor c = ops::matmul(a, b, {.bias = bias, .activation = Activation::relu}, tuning());
  EXPECT_LE(test_device().stats().dispatches, before + 3);
  EXPECT_EQ(c.to_host<float>(), (std::vector<float>{0, 20001, 20002, 0, 20001, 20002}));
}

/// Batches: 70,000 on kernels without barriers; on the others as many fold over the grid when it is told to be narrow.
TEST_P(Gemm, BatchesPast65535AndOnesThatBroadcast) {
  const bool few = GetParam() == DeviceClass::gpu && test_device().adapter().type == AdapterType::cpu;
  const std::int64_t batch = few ? 130 : 70000;
  MatmulTuning folding = tuning();
  if (few) folding.row_groups = 16;
  std::vector<float> a(static_cast<std::size_t>(batch * 4)), c(static_cast<std::size_t>(batch * 4), 1.0f), want;
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 11) - 5;
  const std::vector<float> b{1, 2, 3, 4};
  for (std::size_t g = 0; g < a.size(); g += 4) {
    for (std::size_t i : {0u, 2u}) {
      want.push_back(a[g + i] * b[0] + a[g + i + 1] * b[2] + 1);
      want.push_back(a[g + i] * b[1] + a[g + i + 1] * b[3] + 1);
    }
  }
  const Tensor ta = upload(a, {batch, 2, 2});
  const Tensor tb = upload(b, {2, 2});
  const Tensor tc = upload(c, {batch, 2, 2});
  ops::gemm_into(tc, ta, broadcast_to(tb, {batch, 2, 2}), {.beta = 1}, folding);
  EXPECT_EQ(tc.to_host<float>(), want);
  // The same with b a batch of its own, which no taller product can stand for.
  std::vector<float> bs;
  for (std::int64_t g = 0; g < batch; ++g) bs.insert(bs.end(), b.begin(), b.end());
  const Tensor td = upload(c, {batch, 2, 2});
  ops::gemm_into(td, ta, upload(bs, {batch, 2, 2}), {.beta = 1}, folding);
  EXPECT_EQ(td.to_host<float>(), want);
}

TEST_P(Gemm, BatchAxesThatDoNotJoin) {
  // c shows every other matrix along four axes; a and b broadcast over some of them.
  const std::vector<float> before(4 * 4 * 4 * 4 * 6, 9.0f);
  const Tensor whole = upload(before, {4, 4, 4, 4, 2, 3});
  Tensor c = whole;
  for (std::int64_t axis = 0; axis < 4; ++axis) c = slice(c, axis, 0, 4, 2);
  Random random(3);
  Host a = random.host(2, 2, 5, 1, false, 1);  // over the third axis
  Host b = random.host(2, 5, 3, 0, true, 0);   // over the first
  const Tensor ta = expand_dims(a.on_device(f32), 1);
  const Tensor tb = reshape(b.on_device(f32), {2, 1, 1, 1, 5, 3});
  ops::gemm_into(c, ta, tb, {.alpha = 2}, tuning());
  std::vector<float> want = before;
  for (std::int64_t i = 0; i < 16; ++i) {
    const std::int64_t i0 = i / 8, i1 = i / 4 % 2, i2 = i / 2 % 2, i3 = i % 2;
    for (std::int64_t r = 0; r < 2; ++r) {
      for (std::int64_t j = 0; j < 3; ++j) {
        float sum = 0;
        for (std::int64_t x = 0; x < 5; ++x) sum += a.at(i2, r, x) * b.at(i0, x, j);
        want[static_cast<std::size_t>((((i0 * 2 * 4 + i1 * 2) * 4 + i2 * 2) * 4 + i3 * 2) * 6 + r * 3 + j)] = 2 * sum;
      }
    }
  }
  EXPECT_EQ(whole.to_host<float>(), want);
}

TEST_P(Gemm, HalfFloats) {
  if (!test_device().features().f16) GTEST_SKIP() << "the device lacks f16";
  // N25: 65504 is the largest; past half way to 65536 it is infinity. Sums are in f32.
  const Tensor a = upload_f16({256, 1, 256, 1, 2, 0}, {3, 2});
  const Tensor b = upload_f16({255, -255, 224, -224}, {2, 2});
  const Tensor c = upload_f16({16, -15, 32, 30016, 0, 0}, {3, 2});
  ops::gemm_into(c, a, b, {.alpha = 1, .beta = 1}, tuning());
  EXPECT_EQ(floats_of(c), (std::vector<float>{kInf, -65504, kInf, -35488, 510, -510}));
  const Tensor wide = ops::matmul(a, b, {.dtype = f32}, tuning());
  EXPECT_EQ(wide.dtype(), f32);
  EXPECT_EQ(floats_of(wide), (std::vector<float>{65504, -65504, 65504, -65504, 510, -510}));
  const Tensor same = ops::matmul(a, b, {}, tuning());
  EXPECT_EQ(same.dtype(), f16);
  EXPECT_EQ(floats_of(same), (std::vector<float>{65504, -65504, 65504, -65504, 510, -510}));
  // Infinity comes from the finished value only: 2 * 65504 - 65504.
  const Tensor back = upload_f16({-65504, 65504, -65504, 65504, 0, 0}, {3, 2});
  ops::gemm_into(back, a, b, {.alpha = 2, .beta = 1}, tuning());
  EXPECT_EQ(floats_of(back), (std::vector<float>{65504, -65504, 65504, -65504, 1020, -1020}));
  // Into f32.
  const Tensor single = upload(std::vector<float>(6, 0.5f), {3, 2});
  ops::gemm_into(single, a, b, {.beta = 1}, tuning());
  EXPECT_EQ(floats_of(single), (std::vector<float>{65504.5f, -65503.5f, 65504.5f, -65503.5f, 510.5f, -509.5f}));
}

TEST_P(Gemm, NeighboursInOneWordStay) {
  if (!test_device().features().f16) GTEST_SKIP() << "the device lacks f16";
  Random random(11);
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{3, 3, 4}, {5, 1, 3}, {1, 5, 3}, {33, 35, 5}, {3, 1, 9000}}) {
    for (bool by_columns : {false, true}) {
      Host c = random.host(2, m, n, 1, by_columns, 1);  // odd lines from an odd place: words are shared
      Host a = random.host(2, m, k, 0, false, 0), b = random.host(2, k, n, 0, false, 0);
      if (k > 100) {
        for (float& v : a.all) v = std::min(std::max(v, 0.0f), 1.0f);
        for (float& v : b.all) v = std::min(std::max(v, 0.0f), 1.0f);
      }
      const Tensor tc = c.on_device(f16);
      ops::gemm_into(tc, a.on_device(f16), b.on_device(f16), {}, tuning());
      Host want = c;
      for (std::int64_t g = 0; g < 2; ++g) {
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::int64_t x = 0; x < k; ++x) sum += a.at(g, i, x) * b.at(g, x, j);
            want.at(g, i, j) = static_cast<float>(float16(sum));
          }
        }
      }
      EXPECT_EQ(c.read(tc), want.all) << m << " x " << n << (by_columns ? " by columns" : "");
    }
  }
}

// The error of a sum of k products in any order is below k 2^-24 / (1 - k 2^-24) times the sum of their sizes
// (Higham, Accuracy and Stability of Numerical Algorithms, 3.1); alpha, beta c and the bias each add one rounding.
TEST_P(Gemm, ErrorsAreWithinTheBoundOfTheirNumberOfTerms) {
  Random random(7);
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{17, 19, 33}, {33, 9, 1000}, {5, 1, 4099}, {3, 2, 20001}}) {
    Host a = random.host(0, m, k, 0, false, 0), b = random.host(0, k, n, 0, false, 0),
         c = random.host(0, m, n, 0, false, 0), bias = random.host(0, 1, n, 0, false, 0);
    for (Host* h : {&a, &b, &c, &bias}) {
      for (float& v : h->all) v = random.uniform();
    }
    const double alpha = 0.7f, beta = -1.3f;
    const Tensor tc = c.on_device(f32);
    ops::gemm_into(tc, a.on_device(f32), b.on_device(f32), {.alpha = alpha, .beta = beta, .bias = bias.on_device(f32)},
                   tuning());
    const auto got = tc.to_host<float>();
    const double unit = static_cast<double>(k + 3) * 0x1p-24;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (std::int64_t x = 0; x < k; ++x) {
          const double term = static_cast<double>(a.at(0, i, x)) * static_cast<double>(b.at(0, x, j));
          sum += term;
          size += std::abs(term);
        }
        const double old = static_cast<double>(c.at(0, i, j)), add = static_cast<double>(bias.at(0, 0, j));
        const double want = alpha * sum + beta * old + add;
        const double bound = unit / (1 - unit) * (alpha * size + std::abs(beta * old) + std::abs(add));
        ASSERT_LE(std::abs(static_cast<double>(got[static_cast<std::size_t>(i * n + j)]) - want), bound)
            << m << " x " << k << " x " << n;
      }
    }
  }
}

// D11: every plan of the table, also where it would not be chosen, in parts too.
TEST_P(Gemm, EveryPlanIsRight) {
  Random random(13);
  for (ops::MatmulPlan plan :
       ops::all_plans(GetParam(), test_device().limits(), f32, ops::fixed_subgroup(test_device().features()))) {
    if (plan.kind == ops::MatmulKind::sum) continue;
    const bool vector = plan.kind == ops::MatmulKind::vector_tile || plan.kind == ops::MatmulKind::vector_block;
    for (bool by_columns : {false, true}) {
      for (std::uint32_t splits : {1u, 3u}) {
        plan.splits = splits;
        const std::int64_t m = 39, n = vector ? 1 : 141, k = 23;
        Host a = random.host(0, m, k, 0, by_columns, 0), b = random.host(0, k, n, 0, by_columns, 0);
        MatmulTuning forced = tuning();
        forced.plan = plan;
        const Activation activation = by_columns ? Activation::relu : Activation::none;
        std::vector<float> want;
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::int64_t x = 0; x < k; ++x) sum += a.at(0, i, x) * b.at(0, x, j);
            want.push_back(by_columns ? std::max(sum, 0.0f) : sum);
          }
        }
        EXPECT_EQ(ops::matmul(a.on_device(f32), b.on_device(f32), {.activation = activation}, forced).to_host<float>(),
                  want)
            << static_cast<int>(plan.kind) << " " << plan.tile_m << " " << plan.rows << " " << splits;
      }
    }
  }
}

TEST_P(Gemm, EpiloguesInSlices) {
  MatmulTuning small = tuning();
  small.most_bytes = 4096;
  Random random(17);
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{100, 20, 10}, {10, 100, 40}, {3, 2, 1500}}) {
    Host a = random.host(0, m, k, 0, false, 0), b = random.host(0, k, n, 0, false, 0);
    Host c = random.host(0, m, n, 1, false, 0), residual = random.host(0, m, n, 0, true, 0);
    const Tensor tc = c.on_device(f32);
    ops::gemm_into(tc, a.on_device(f32), b.on_device(f32),
                   {.alpha = 2, .beta = -1, .activation = Activation::relu, .residual = residual.on_device(f32)},
                   small);
    Host want = c;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t x = 0; x < k; ++x) sum += a.at(0, i, x) * b.at(0, x, j);
        want.at(0, i, j) = std::max(2 * sum - c.at(0, i, j), 0.0f) + residual.at(0, i, j);
      }
    }
    EXPECT_EQ(c.read(tc), want.all) << m << " " << n << " " << k;
  }
}

TEST_P(Gemm, IntegersWrapInTheEpilogueToo) {
  const Tensor a = upload(std::vector<std::int32_t>{2147483647, -5}, {2, 1});
  const Tensor b = upload(std::vector<std::int32_t>{2, 1}, {1, 2});
  const Tensor c = upload(std::vector<std::int32_t>{1, 2, 3, 4}, {2, 2});
  ops::gemm_into(c, a, b, {.alpha = 3, .beta = -2, .activation = Activation::relu}, tuning());
  // 3 * 2 * (2^31 - 1) - 2 = -8 modulo 2^32
  EXPECT_EQ(c.to_host<std::int32_t>(), (std::vector<std::int32_t>{0, 2147483641, 0, 0}));
  const Tensor u = upload(std::vector<std::uint32_t>{4000000000u, 2}, {2, 1});
  const Tensor one = upload(std::vector<std::uint32_t>{1}, {1, 1});
  const Tensor d = upload(std::vector<std::uint32_t>{10, 20}, {2, 1});
  ops::gemm_into(d, u, one, {.alpha = -1, .beta = 1, .activation = Activation::relu}, tuning());
  EXPECT_EQ(d.to_host<std::uint32_t>(), (std::vector<std::uint32_t>{294967306u, 18}));
  // 16,777,217 is no float32.
  const Tensor big = upload(std::vector<std::int32_t>{16777217}, {1, 1});
  const Tensor got = ops::matmul(big, upload(std::vector<std::int32_t>{1}, {1, 1}), {.bias = big}, tuning());
  EXPECT_EQ(got.to_host<std::int32_t>(), std::vector<std::int32_t>{33554434});
}

TEST_P(Gemm, ProductsThatFinishByOtherOps) {
  const Tensor i = upload(std::vector<std::int32_t>{1, -2, 3, 4}, {2, 2});
  // Integers with gelu are floats; with an f32 residual too, after a relu of integers.
  const Tensor g = ops::matmul(i, i, {.activation = Activation::gelu}, tuning());
  EXPECT_EQ(g.dtype(), f32);
  EXPECT_EQ(g.to_host<float>(), unary(UnaryOp::gelu, cast(matmul(i, i), f32)).to_host<float>());
  const Tensor r =
      ops::matmul(i, i, {.activation = Activation::relu, .residual = upload(std::vector<float>{0.5f}, {1})}, tuning());
  EXPECT_EQ(r.to_host<float>(), (std::vector<float>{0.5f, 0.5f, 15.5f, 10.5f}));
  const Tensor f = ops::matmul(i, i, {.dtype = f32}, tuning());
  EXPECT_EQ(f.dtype(), f32);
  EXPECT_EQ(f.to_host<float>(), (std::vector<float>{-5, -10, 15, 10}));
  const Tensor t = upload(std::vector<std::int32_t>{1, 0, 0, 1}, {2, 2});
  const Tensor truth = ops::matmul(cast(t, bool_), cast(t, bool_), {.residual = cast(t, bool_)}, tuning());
  EXPECT_EQ(truth.to_host<bool>(), (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(matmul(t, t, {.bias = cast(t, bool_)}).to_host<std::int32_t>(), (std::vector<std::int32_t>{2, 0, 0, 2}));
}

// -- 8-bit integers -------------------------------------------------------------------------------------------------

struct Bytes {
  std::int64_t rows, words;
  bool is_signed;
  std::vector<std::uint8_t> bytes;

  Bytes(Random& random, std::int64_t r, std::int64_t w, bool s) : rows(r), words(w), is_signed(s) {
    for (std::int64_t i = 0; i < r * w * 4; ++i) {
      // The ends often: -128 and 127, or 255.
      const std::int64_t v = random.below(6);
      bytes.push_back(static_cast<std::uint8_t>(v == 0 ? 128 : v == 1 ? 127 : v == 2 ? 255 : random.below(256)));
    }
  }
  std::int32_t at(std::int64_t row, std::int64_t i) const {
    const std::uint8_t v = bytes[static_cast<std::size_t>(row * words * 4 + i)];
    return is_signed ? static_cast<std::int8_t>(v) : v;
  }
  Tensor on_device() const {
    std::vector<std::uint32_t> packed;
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
      packed.push_back(static_cast<std::uint32_t>(bytes[i]) | static_cast<std::uint32_t>(bytes[i + 1]) << 8 |
                       static_cast<std::uint32_t>(bytes[i + 2]) << 16 | static_cast<std::uint32_t>(bytes[i + 3]) << 24);
    }
    return upload(packed, {rows, words});
  }
};

TEST_P(Gemm, PackedBytesAreExactWithAllSigns) {
  Random random(23);
  std::vector<bool> ways{false};
  if (ops::has_packed_dot(test_device())) ways.push_back(true);
  for (bool dot : ways) {
    MatmulTuning forced = tuning();
    forced.int8_dot = dot;
    for (const Int8MatmulOptions& signs :
         {Int8MatmulOptions{true, true}, {true, false}, {false, true}, {false, false}}) {
      for (const auto& [m, n, words] : {std::array<std::int64_t, 3>{3, 5, 2},
                                        {33, 36, 8},
                                        {9, 1, 5},
                                        {1, 17, 16},
                                        {66, 130, 33},
                                        {2, 3, 3000},
                                        {4, 1, 1}}) {
        const Bytes a(random, m, words, signs.a_signed), b(random, n, words, signs.b_signed);
        std::vector<std::int32_t> want;
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            std::int32_t sum = 0;
            for (std::int64_t x = 0; x < words * 4; ++x) sum += a.at(i, x) * b.at(j, x);
            want.push_back(sum);
          }
        }
        const Tensor got = ops::matmul_int8(a.on_device(), b.on_device(), signs, forced);
        ASSERT_EQ(got.shape(), Shape({m, n}));
        ASSERT_EQ(got.to_host<std::int32_t>(), want)
            << m << " x " << words << " x " << n << (signs.a_signed ? " i" : " u") << (signs.b_signed ? "i" : "u")
            << (dot ? " by dot" : " unpacked");
      }
    }
  }
}

TEST_P(Gemm, PackedBytesInBatchesAndViews) {
  Random random(29);
  const Bytes a(random, 2 * 3 * 5, 4, true), b(random, 3 * 7, 4, true);
  const Tensor ta = reshape(a.on_device(), {2, 3, 5, 4});
  const Tensor tb = reshape(b.on_device(), {3, 7, 4});
  std::vector<std::int32_t> want;
  for (std::int64_t i = 0; i < 30; ++i) {
    for (std::int64_t j = 0; j < 7; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t x = 0; x < 16; ++x) sum += a.at(i, x) * b.at(i / 5 % 3 * 7 + j, x);
      want.push_back(sum);
    }
  }
  const Tensor c = ops::matmul_int8(ta, tb, {}, tuning());
  EXPECT_EQ(c.shape(), Shape({2, 3, 5, 7}));
  EXPECT_EQ(c.to_host<std::int32_t>(), want);
  // Words that do not lie side by side are copied.
  const Tensor across =
      transpose(contiguous(transpose(slice(a.on_device(), 0, 0, 5), std::array<std::int64_t, 2>{1, 0})),
                std::array<std::int64_t, 2>{1, 0});
  const auto first = ops::matmul_int8(across, slice(b.on_device(), 0, 0, 7), {}, tuning()).to_host<std::int32_t>();
  EXPECT_EQ(first, std::vector<std::int32_t>(want.begin(), want.begin() + 35));
  // Sums wrap: 131,076 times 128 * 128 is 2^31 + 2^16.
  const std::int64_t words = 131076 / 4;
  const Tensor least = upload(std::vector<std::uint32_t>(static_cast<std::size_t>(words), 0x80808080u), {1, words});
  EXPECT_EQ(ops::matmul_int8(least, least, {}, tuning()).to_host<std::int32_t>(),
            std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min() + 65536});
  EXPECT_EQ(ops::matmul_int8(test_device().empty({2, 0}, u32), test_device().empty({3, 0}, u32), {}, tuning())
                .to_host<std::int32_t>(),
            std::vector<std::int32_t>(6, 0));
}

// -- errors ---------------------------------------------------------------------------------------------------------

// D9
TEST(GemmErrors, AliasesAreRefusedByName) {
  const Tensor x = test_device().zeros({4, 4}, f32);
  const Tensor y = test_device().zeros({4, 4}, f32);
  const std::uint64_t before = test_device().stats().dispatches;
  expect_error(ErrorCode::invalid_argument, {"gemm_into: c and a are of one buffer", "Fix: "},
               [&] { gemm_into(x, x, y); });
  expect_error(ErrorCode::invalid_argument, {"gemm_into: c and b are of one buffer", "Fix: "},
               [&] { gemm_into(slice(x, 0, 0, 2), slice(y, 0, 0, 2), transpose(x)); });
  expect_error(ErrorCode::invalid_argument, {"c and bias are of one buffer"},
               [&] { gemm_into(x, y, y, {.bias = select(x, 0, 0)}); });
  expect_error(ErrorCode::invalid_argument, {"c and residual are of one buffer"},
               [&] { gemm_into(x, y, y, {.residual = x}); });
  EXPECT_EQ(test_device().stats().dispatches, before);
}

TEST(GemmErrors, NameWhatDoesNotFit) {
  const auto zeros = [](const Shape& s, DType t = f32) { return test_device().zeros(s, t); };
  const Tensor c = zeros({4, 5});
  expect_error(ErrorCode::invalid_argument, {"gemm_into", "(4, 3)", "(2, 5)", "inner lengths 3 and 2", "Fix: "},
               [&] { gemm_into(c, zeros({4, 3}), zeros({2, 5})); });
  expect_error(ErrorCode::invalid_argument, {"c of shape (4, 5)", "3 x 5", "Fix: "},
               [&] { gemm_into(c, zeros({3, 2}), zeros({2, 5})); });
  expect_error(ErrorCode::invalid_argument, {"a of shape (4,)", "Fix: "},
               [&] { gemm_into(c, zeros({4}), zeros({2, 5}), {.transpose_a = true}); });
  expect_error(ErrorCode::invalid_argument, {"batch axes (2,) of b", "(3,)", "Fix: "},
               [&] { gemm_into(zeros({3, 4, 5}), zeros({4, 2}), zeros({2, 2, 5})); });
  expect_error(ErrorCode::invalid_argument, {"batch axes (2,) of a"},
               [&] { gemm_into(c, zeros({2, 4, 2}), zeros({2, 5})); });
  expect_error(ErrorCode::invalid_argument, {"c is float32", "int32", "Fix: "},
               [&] { gemm_into(c, zeros({4, 2}, i32), zeros({2, 5}, i32)); });
  expect_error(ErrorCode::invalid_argument, {"bias of shape (4,)", "(4, 5)", "Fix: "},
               [&] { gemm_into(c, zeros({4, 2}), zeros({2, 5}), {.bias = zeros({4})}); });
  expect_error(ErrorCode::invalid_argument, {"alpha is 0.5", "int32", "Fix: "},
               [&] { gemm_into(zeros({4, 5}, i32), zeros({4, 2}, i32), zeros({2, 5}, i32), {.alpha = 0.5}); });
  expect_error(ErrorCode::invalid_argument, {"gelu and silu of int32", "Fix: "}, [&] {
    gemm_into(zeros({4, 5}, i32), zeros({4, 2}, i32), zeros({2, 5}, i32), {.activation = Activation::silu});
  });
  expect_error(ErrorCode::invalid_argument, {"residual of float32", "int32", "Fix: "}, [&] {
    gemm_into(zeros({4, 5}, i32), zeros({4, 2}, i32), zeros({2, 5}, i32), {.residual = zeros({5})});
  });
  expect_error(ErrorCode::invalid_argument, {"may show an element twice", "Fix: "},
               [&] { gemm_into(broadcast_to(zeros({5}), {4, 5}), zeros({4, 2}), zeros({2, 5})); });
  expect_error(ErrorCode::invalid_argument, {"matmul: a product of float32 does not become float16", "Fix: "},
               [&] { matmul(zeros({2, 2}), zeros({2, 2}), {.dtype = f16}); });
  expect_error(ErrorCode::invalid_argument, {"matmul: a residual of shape (3,)", "(2, 2)"},
               [&] { matmul(zeros({2, 2}), zeros({2, 2}), {.residual = zeros({3})}); });
  expect_error(ErrorCode::invalid_argument, {"matmul_int8: a is int32", "Fix: "},
               [&] { matmul_int8(zeros({2, 2}, i32), zeros({2, 2}, u32)); });
  expect_error(ErrorCode::invalid_argument, {"matmul_int8", "2 and 3 words", "Fix: "},
               [&] { matmul_int8(zeros({2, 2}, u32), zeros({2, 3}, u32)); });
  expect_error(ErrorCode::invalid_argument, {"matmul_int8", "(2,)", "at least two axes"},
               [&] { matmul_int8(zeros({2}, u32), zeros({2, 2}, u32)); });
  expect_error(ErrorCode::invalid_argument, {"matmul_int8", "(2,) and (3,)", "broadcast"},
               [&] { matmul_int8(zeros({2, 2, 2}, u32), zeros({3, 2, 2}, u32)); });
}

TEST(GemmInfer, ViewsThatShowAnElementTwice) {
  EXPECT_TRUE(ops::shows_each_once({4, 5}, {5, 1}));
  EXPECT_TRUE(ops::shows_each_once({4, 5}, {1, 4}));
  EXPECT_TRUE(ops::shows_each_once({4, 5}, {-7, 1}));
  EXPECT_TRUE(ops::shows_each_once({1, 5}, {0, 2}));
  EXPECT_TRUE(ops::shows_each_once({0, 5}, {0, 0}));
  EXPECT_FALSE(ops::shows_each_once({4, 5}, {4, 1}));
  EXPECT_FALSE(ops::shows_each_once({4, 5}, {0, 1}));
  EXPECT_FALSE(ops::shows_each_once({4, 5}, {-1, 1}));
}

// -- the kernels ----------------------------------------------------------------------------------------------------

TEST(MatmulKernels, WhatIsChosenIsInTheListOfPlans) {
  Random random(31);
  for (const Limits& limits :
       {test_device().limits(), Limits{.max_workgroup_invocations = 256, .max_workgroup_storage = 16 << 10}}) {
    for (DeviceClass of : {DeviceClass::gpu, DeviceClass::cpu}) {
      for (DType dtype : {f32, f16, i32, u32}) {
        const std::uint32_t threads = random.coin() ? 8 : 0;
        const auto plans = ops::all_plans(of, limits, dtype, threads);
        for (int i = 0; i < 400; ++i) {
          const bool b_transposed = dtype == u32 || random.coin();
          const auto length = [&] {
            return static_cast<std::uint64_t>(1 + random.below(std::int64_t{1} << random.below(15)));
          };
          const ops::MatmulPlan plan = ops::choose(of, limits,
                                                   {.m = length(),
                                                    .n = length(),
                                                    .k = length(),
                                                    .dtype = dtype,
                                                    .a_transposed = dtype != u32 && random.coin(),
                                                    .b_transposed = b_transposed,
                                                    .subgroup = threads});
          EXPECT_FALSE(plan.quads > 1 && b_transposed) << "not in the catalogue";
          ops::MatmulSpec chosen;
          chosen.plan = plan;
          EXPECT_TRUE(std::any_of(plans.begin(), plans.end(), [&](const ops::MatmulPlan& p) {
            ops::MatmulSpec listed;
            listed.plan = p;
            return ops::matmul_key(listed) == ops::matmul_key(chosen);
          })) << ops::matmul_key(chosen);
        }
      }
    }
  }
}

// On a CPU adapter products run, and the catalogue lists, tiles whose inner loop is left a loop: here are those of
// GPUs.
TEST(MatmulKernels, TilesWrittenOutForGpusCompile) {
  int written_out = 0;
  for (DType dtype : {f32, f16}) {
    if (dtype == f16 && !test_device().features().f16) continue;
    for (const ops::MatmulPlan& plan : ops::all_plans(DeviceClass::gpu, test_device().limits(), dtype, 0)) {
      if (plan.kind != ops::MatmulKind::tile || plan.unroll == 1) continue;
      for (std::uint32_t bits = 0; bits < 8; ++bits) {
        ops::MatmulSpec spec;
        spec.plan = plan;
        spec.in = spec.out = dtype;
        spec.a_transposed = (bits & 1) != 0;
        spec.b_transposed = (bits & 2) != 0;
        spec.a_vec4 = spec.b_vec4 = spec.c_vec4 = (bits & 4) != 0;
        EXPECT_NO_THROW(test_device().kernel(ops::matmul_options(ops::settle(spec)))) << plan.tile_m << " " << bits;
        ++written_out;
      }
    }
  }
  EXPECT_GE(written_out, 16);
}

TEST(MatmulKernels, SettlingIsFinal) {
  for (std::uint32_t bits = 0; bits < 128; ++bits) {
    ops::MatmulSpec s;
    s.plan = ops::choose(DeviceClass::gpu, test_device().limits(), {.m = 64, .n = bits & 64 ? 1u : 64u, .k = 64});
    s.a_transposed = (bits & 1) != 0;
    s.b_transposed = (bits & 2) != 0;
    s.a_vec4 = (bits & 4) != 0;
    s.b_vec4 = (bits & 8) != 0;
    s.c_vec4 = (bits & 16) != 0;
    s.full = (bits & 32) != 0;
    const ops::MatmulSpec once = ops::settle(s);
    EXPECT_EQ(ops::matmul_key(ops::settle(once)), ops::matmul_key(once));
    // Never wider than what the operands allow, never less than what the epilogue needs.
    EXPECT_TRUE((!once.a_vec4 || s.a_vec4) && (!once.b_vec4 || s.b_vec4) && (!once.c_vec4 || s.c_vec4));
    EXPECT_TRUE(once.full || !s.full);
  }
}

// D11
TEST(MatmulKernels, AllCompile) {
  std::vector<std::string> keys;
  std::vector<KernelOptions> all;
  ops::matmul_family().visit_kernels(test_device(), [&](std::string_view key, const KernelOptions& options) {
    keys.emplace_back(key);
    all.push_back(options);
  });
  const std::vector<PendingKernel> pending = test_device().prepare(all);
  for (std::size_t i = 0; i < pending.size(); ++i) {
    try {
      pending[i].get();
    } catch (const Error& e) {
      ADD_FAILURE() << keys[i] << ": " << e.what();
    }
  }
  RecordProperty("kernels", static_cast<int>(pending.size()));
  EXPECT_LT(pending.size(), 900u) << "too many variants to keep an eye on";
  EXPECT_GT(pending.size(), 200u);
}

}  // namespace
}  // namespace weft
