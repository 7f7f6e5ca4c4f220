// Products by subgroup matrices: exact against loops over small whole numbers, in every layout, size of edge and
// epilogue. Where the device has no matrix units, that no plan wants them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/matmul.h"
#include "ops/matmul_codegen.h"
#include "ops/matmul_run.h"
#include "unit/matrix_plans.h"
#include "unit/test_device.h"
#include "weft/weft.h"

namespace weft {
namespace {

using ops::DeviceClass;
using ops::MatmulKind;
using ops::MatmulPlan;
using ops::MatmulTuning;
using testing::test_device;

ops::MatrixUnit unit() {
  return ops::usable_unit(test_device(), f16);
}

std::vector<MatmulPlan> matrix_plans() {
  return testing::matrix_plans(f16, unit());
}

/// Small whole numbers [batch,] rows x columns of f16 on the device, by rows or by columns, with a gap behind each
/// line.
struct Operand {
  std::vector<float> values;  ///< dense, by rows
  Tensor tensor;

  Operand(std::mt19937& random, std::int64_t batch, std::int64_t rows, std::int64_t columns, bool by_columns,
          std::int64_t gap, DType dtype = f16) {
    const std::int64_t line = (by_columns ? rows : columns) + gap;
    const std::int64_t step = line * (by_columns ? columns : rows) + gap;
    std::vector<float> all(static_cast<std::size_t>(batch * step + 8), 77.0f);
    for (std::int64_t g = 0; g < batch; ++g) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          const float v = static_cast<float>(random() % 9) - 4;
          values.push_back(v);
          all[static_cast<std::size_t>(g * step + (by_columns ? j * line + i : i * line + j))] = v;
        }
      }
    }
    const auto n = static_cast<std::int64_t>(all.size());
    const Tensor dense = cast(test_device().upload(std::span<const float>(all), Shape{n}), dtype);
    tensor = Tensor(test_device(), dense.buffer(), {batch, rows, columns},
                    by_columns ? Strides{step, 1, line} : Strides{step, line, 1}, 0, dtype);
  }
};

std::vector<float> floats_of(const Tensor& x) {
  return cast(x, f32).to_host<float>();
}

void check_random_products(const MatmulTuning& tuning, int rounds, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  constexpr std::int64_t kLengths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 36, 63, 64, 65, 96, 127, 129, 132};
  for (int round = 0; round < rounds; ++round) {
    const auto length = [&] { return kLengths[below(std::size(kLengths))]; };
    // Every other one can be read sixteen bytes at a time.
    const std::int64_t whole = round % 2 == 0 ? 8 : 1;
    const auto rounded_up = [&](std::int64_t n) { return (n + whole - 1) / whole * whole; };
    const std::int64_t m = rounded_up(length() + 1), n = rounded_up(length() + 1),
                       k = rounded_up(length() + (below(3) == 0 ? 0 : 31)), batch = 1 + below(2);
    const std::int64_t gap = below(2) * std::max<std::int64_t>(4, whole);
    const Operand a(random, batch, m, k, below(2) == 1, gap), b(random, batch, k, n, below(2) == 1, gap);
    const DType out = below(2) == 1 ? f32 : f16;
    Operand c(random, batch, m, n, below(4) == 0, below(3), out);
    GemmOptions options;
    const bool plain = below(3) == 0;
    const Operand bias(random, 1, 1, n, false, 0, out), residual(random, batch, m, n, below(2) == 1, 0, out);
    if (!plain) {
      options.alpha = static_cast<double>(below(3)) + 1;
      options.beta = static_cast<double>(below(3)) - 1;
      options.bias = bias.tensor;
      if (below(2) == 1) options.residual = residual.tensor;
      if (below(2) == 1) options.activation = Activation::relu;
    }
    std::vector<float> want;
    for (std::int64_t g = 0; g < batch; ++g) {
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t x = 0; x < k; ++x) {
            sum += static_cast<double>(a.values[static_cast<std::size_t>((g * m + i) * k + x)]) *
                   static_cast<double>(b.values[static_cast<std::size_t>((g * k + x) * n + j)]);
          }
          const auto at = static_cast<std::size_t>((g * m + i) * n + j);
          double v = options.alpha * sum;
          if (options.beta != 0) v += options.beta * static_cast<double>(c.values[at]);
          if (!plain) v += static_cast<double>(bias.values[static_cast<std::size_t>(j)]);
          if (options.activation == Activation::relu) v = std::max(v, 0.0);
          if (options.residual) v += static_cast<double>(residual.values[at]);
          want.push_back(out == f16 ? static_cast<float>(float16(static_cast<float>(v))) : static_cast<float>(v));
        }
      }
    }
    ops::gemm_into(c.tensor, a.tensor, b.tensor, options, tuning);
    ASSERT_EQ(floats_of(c.tensor), want) << "round " << round << ": " << batch << " x " << m << " x " << k << " x " << n
                                         << " into " << to_string(out) << (plain ? ", plain" : "");
  }
}

TEST(MatmulMatrix, ChosenWhereTheDeviceHasUnits) {
  ops::MatmulProblem problem{.m = 512, .n = 512, .k = 512, .dtype = f16, .unit = unit()};
  const MatmulPlan plan = ops::choose(DeviceClass::gpu, test_device().limits(), problem);
  EXPECT_EQ(plan.kind, unit() && !matrix_plans().empty() ? MatmulKind::matrix : MatmulKind::tile);
  EXPECT_EQ(static_cast<bool>(unit()), !matrix_plans().empty());
  problem.unit = {};
  EXPECT_EQ(ops::choose(DeviceClass::gpu, test_device().limits(), problem).kind, MatmulKind::tile);
  // A unit that does not divide the tiles, or whose workgroup is too large, is no choice.
  for (const ops::MatrixUnit& odd : {ops::MatrixUnit{24, 24, 16, 32}, {16, 16, 24, 32}, {16, 16, 16, 1024}}) {
    problem.unit = odd;
    EXPECT_EQ(ops::choose(DeviceClass::gpu, test_device().limits(), problem).kind, MatmulKind::tile);
  }
}

// The base tier on any device, and each matrix plan that this one has.
TEST(MatmulMatrix, HalfProductsAreExactInEveryTier) {
  // A CPU adapter's compiler takes a second for each new kernel.
  const bool few = test_device().adapter().type == AdapterType::cpu;
  check_random_products({.device = DeviceClass::gpu, .matrix_units = false}, few ? 3 : 25, 11);
  for (const MatmulPlan& plan : matrix_plans()) {
    SCOPED_TRACE("tile of " + std::to_string(plan.tile_m));
    check_random_products({.device = DeviceClass::gpu, .plan = plan}, few ? 6 : 50, plan.tile_m);
  }
}

// What bench/gemm_tiles tries beside the table's plans: wider stores to workgroup memory, other slabs, tiles that are
// longer one way.
TEST(MatmulMatrix, VariationsOfPlansAreExact) {
  if (matrix_plans().empty()) GTEST_SKIP() << "the device has no units for f16";
  const bool few = test_device().adapter().type == AdapterType::cpu;
  const MatmulPlan smallest = matrix_plans().back();
  std::vector<MatmulPlan> plans(4, smallest);
  plans[0].vec = 2, plans[0].slab *= 2;
  plans[1].vec = 4, plans[1].slab /= 2;
  plans[2].vec = 4, plans[2].tile_n *= 2, plans[2].sub_n *= 2;
  plans[3].vec = 1;
  int ran = 0;
  for (const MatmulPlan& plan : plans) {
    if (!ops::matrix_fits(plan, f16, test_device().limits())) continue;
    SCOPED_TRACE("slab " + std::to_string(plan.slab) + ", stores of " + std::to_string(plan.vec));
    check_random_products({.device = DeviceClass::gpu, .plan = plan}, few ? 2 : 50, 20 + plan.slab);
    ++ran;
  }
  EXPECT_GE(ran, 3);
}

// Long inner axes: parts that are summed apart; sums in f32, past what f16 counts to.
TEST(MatmulMatrix, LongInnerAxesAndLargeSums) {
  const std::int64_t k = 8199;
  const Tensor a = full(test_device(), {20, k}, 1.0, f16), b = full(test_device(), {k, 24}, 1.0, f16);
  const Tensor c = test_device().zeros({20, 24}, f32);
  ops::gemm_into(c, a, b, {}, {.device = DeviceClass::gpu});
  for (float v : c.to_host<float>()) ASSERT_EQ(v, static_cast<float>(k));
  // 65,504 is the largest f16; twice that is infinite there, and only there.
  const Tensor x = full(test_device(), {32, 32}, 65504.0, f16), two = full(test_device(), {32, 32}, 0.0625, f16);
  for (float v : floats_of(ops::matmul(x, two, {}, {.device = DeviceClass::gpu}))) {
    ASSERT_EQ(v, std::numeric_limits<float>::infinity());
  }
}

// NaN and infinity reach their own row and column only, also past the edge of a tile and of a slab.
TEST(MatmulMatrix, NanStaysInItsRow) {
  constexpr std::int64_t kM = 37, kK = 45, kN = 41;
  std::vector<float> values(kM * kK, 1.0f);
  values[36 * kK + 44] = std::numeric_limits<float>::quiet_NaN();
  values[3 * kK + 2] = std::numeric_limits<float>::infinity();
  const Tensor a = cast(test_device().upload(std::span<const float>(values), Shape{kM, kK}), f16);
  const std::vector<float> got =
      floats_of(ops::matmul(a, full(test_device(), {kK, kN}, 1.0, f16), {}, {.device = DeviceClass::gpu}));
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      const float v = got[static_cast<std::size_t>(i * kN + j)];
      if (i == 36) {
        EXPECT_TRUE(std::isnan(v));
      } else {
        EXPECT_EQ(v, i == 3 ? std::numeric_limits<float>::infinity() : 45.0f) << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace weft
