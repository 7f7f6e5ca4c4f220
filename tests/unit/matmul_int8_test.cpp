// Products of packed 8-bit integers in every tier that the device has, with units for them (subgroup matrices) first:
// exact against loops in 64 bits, at every size of edge, in every layout, with values at their ends. tests/unit/
// gemm_test.cpp has the base tiers' own tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "ops/launch.h"
#include "ops/matmul.h"
#include "ops/matmul_codegen.h"
#include "ops/matmul_run.h"
#include "ops/matmul_tuning.h"
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

constexpr Int8MatmulOptions kSigns[] = {{true, true}, {true, false}, {false, true}, {false, false}};

ops::MatrixUnit unit(const Int8MatmulOptions& signs) {
  return ops::usable_unit(test_device(), u32, signs.a_signed, signs.b_signed);
}

std::vector<MatmulPlan> matrix_plans(const Int8MatmulOptions& signs) {
  return testing::matrix_plans(u32, unit(signs));
}

std::string named(const Int8MatmulOptions& signs) {
  return std::string(signs.a_signed ? "i8" : "u8") + " by " + (signs.b_signed ? "i8" : "u8");
}

/// Packed rows [batch, rows, words] on the device, with a gap in words in front of all and behind each row and matrix.
struct Operand {
  std::vector<std::int32_t> values;  ///< dense, a byte each
  Tensor tensor;

  Operand(std::mt19937& random, std::int64_t batch, std::int64_t rows, std::int64_t words, bool is_signed,
          std::int64_t gap = 0) {
    const std::int64_t line = words + gap, step = rows * line + gap;
    std::vector<std::uint32_t> all(static_cast<std::size_t>(gap + batch * step), 0xdeadbeefu);
    for (std::int64_t g = 0; g < batch; ++g) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < words; ++j) {
          std::uint32_t word = 0;
          for (unsigned byte = 0; byte < 4; ++byte) {
            // The ends often: -128 and 127, or 255.
            constexpr std::array<std::uint32_t, 4> kEnds{128, 127, 255, 0};
            const std::uint32_t pick = random() % 8;
            const std::uint32_t v = pick < kEnds.size() ? kEnds[pick] : random() % 256;
            values.push_back(is_signed ? static_cast<std::int8_t>(v) : static_cast<std::int32_t>(v));
            word |= v << (8 * byte);
          }
          all[static_cast<std::size_t>(gap + g * step + i * line + j)] = word;
        }
      }
    }
    const Tensor flat =
        test_device().upload(std::span<const std::uint32_t>(all), Shape{static_cast<std::int64_t>(all.size())});
    tensor = Tensor(test_device(), flat.buffer(), {batch, rows, words}, {step, line, 1}, gap, u32);
  }
};

/// Of dense values [batch, m, k] and [batch, n, k], in 64 bits, wrapped to 32.
std::vector<std::int32_t> product(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b,
                                  std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<std::int32_t> out;
  for (std::int64_t g = 0; g < batch; ++g) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int32_t* x = a.data() + (g * m + i) * k;
        const std::int32_t* y = b.data() + (g * n + j) * k;
        std::int64_t sum = 0;
        for (std::int64_t e = 0; e < k; ++e) sum += std::int64_t{x[e]} * y[e];
        out.push_back(static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint64_t>(sum))));
      }
    }
  }
  return out;
}

// Words along the inner axis, so lengths of 4 to 260 there.
constexpr std::int64_t kWordLengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 18, 20, 31, 32, 33, 36, 48, 63, 64, 65};
constexpr std::int64_t kLengths[] = {1,  2,  3,  4,  5,  6,  7,   8,   9,   15,  16,  17,
                                     31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257};

void check_random_products(const MatmulTuning& tuning, const Int8MatmulOptions& signs, int rounds, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < rounds; ++round) {
    const auto length = [&] { return kLengths[below(std::size(kLengths))]; };
    const std::int64_t m = length(), n = length(), batch = 1 + (m * n < 10000 ? below(3) : 0);
    const std::int64_t words = kWordLengths[below(std::size(kWordLengths))] + (below(3) == 0 ? 0 : 16);
    const std::int64_t gap = std::array{0, 0, 4, 1}[static_cast<std::size_t>(below(4))];
    const Operand a(random, batch, m, words, signs.a_signed, gap), b(random, batch, n, words, signs.b_signed, gap);
    const Tensor c = ops::matmul_int8(a.tensor, b.tensor, signs, tuning);
    ASSERT_EQ(c.shape(), Shape({batch, m, n}));
    ASSERT_EQ(c.to_host<std::int32_t>(), product(a.values, b.values, batch, m, n, words * 4))
        << "round " << round << ": " << batch << " x " << m << " x " << words << " words x " << n << ", gap " << gap;
  }
}

TEST(MatmulInt8, UnitsAreChosenWhereTheDeviceHasThem) {
  for (const Int8MatmulOptions& signs : kSigns) {
    SCOPED_TRACE(named(signs));
    const Limits& limits = test_device().limits();
    // Of all versions met so far that have the units, and the kernels' way to write them.
    EXPECT_EQ(unit(signs), ops::matrix_unit(test_device().features(), u32, signs.a_signed, signs.b_signed));
    ops::MatmulProblem problem{.m = 512, .n = 512, .k = 128, .dtype = u32, .b_transposed = true, .unit = unit(signs)};
    EXPECT_EQ(static_cast<bool>(unit(signs)), !matrix_plans(signs).empty());
    EXPECT_EQ(ops::choose(DeviceClass::gpu, limits, problem).kind, unit(signs) ? MatmulKind::matrix : MatmulKind::tile);
    problem.k = 15;  // less than a slab
    EXPECT_EQ(ops::choose(DeviceClass::gpu, limits, problem).kind, MatmulKind::tile);
    problem.unit = {};
    problem.k = 128;
    EXPECT_EQ(ops::choose(DeviceClass::gpu, limits, problem).kind, MatmulKind::tile);
  }
  // An H200's: four subgroups of 64 x 64 each, and four steps of a unit in a slab.
  const Limits limits{.max_workgroup_invocations = 1024, .max_workgroup_storage = 48 << 10};
  const ops::MatmulProblem large{
      .m = 4096, .n = 4096, .k = 1024, .dtype = u32, .b_transposed = true, .unit = {16, 16, 32, 32}};
  const MatmulPlan plan = ops::choose(DeviceClass::gpu, limits, large);
  EXPECT_EQ(plan.kind, MatmulKind::matrix);
  EXPECT_EQ(plan.tile_m, 128u);
  EXPECT_EQ(plan.sub_n, 64u);
  EXPECT_EQ(plan.threads, 128u);
  EXPECT_EQ(plan.slab, 32u);
  EXPECT_EQ(plan.vec, 4u);
}

TEST(MatmulInt8, WhatAMatrixPlanNeeds) {
  const Limits limits{.max_workgroup_invocations = 1024, .max_workgroup_storage = 48 << 10};
  const MatmulPlan plan{.kind = MatmulKind::matrix,
                        .tile_m = 128,
                        .tile_n = 128,
                        .threads = 128,
                        .sub_m = 64,
                        .sub_n = 64,
                        .slab = 16,
                        .vec = 4,
                        .unit = {16, 16, 32, 32}};
  const auto fits = [&](auto change) {
    MatmulPlan p = plan;
    change(p);
    return ops::matrix_fits(p, u32, limits);
  };
  EXPECT_TRUE(fits([](MatmulPlan&) {}));
  EXPECT_TRUE(fits([](MatmulPlan& p) { p.slab = 32; }));
  EXPECT_TRUE(fits([](MatmulPlan& p) { p.slab = 8; }));
  EXPECT_TRUE(fits([](MatmulPlan& p) { p.tile_n = 256, p.threads = 256; }));
  EXPECT_TRUE(fits([](MatmulPlan& p) { p.vec = 1; }));
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.vec = 3; }));
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.unit.k = 8; })) << "offsets that don't count in fours";
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.slab = 64; })) << "workgroup memory";
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.slab = 4; })) << "less than a unit's inner axis";
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.slab = 0; }));
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.slab = 18; })) << "quads";
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.sub_m = 128, p.threads = 64; })) << "too many sums a subgroup";
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.threads = 64; })) << "subgroups that don't cover the tile";
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.tile_m = 96; }));
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.unit = {}; }));
  EXPECT_FALSE(fits([](MatmulPlan& p) { p.kind = MatmulKind::tile; }));
  EXPECT_FALSE(ops::matrix_fits(plan, u32, Limits{.max_workgroup_invocations = 1024, .max_workgroup_storage = 16384}));
  EXPECT_FALSE(ops::matrix_fits(plan, u32, Limits{.max_workgroup_invocations = 64, .max_workgroup_storage = 48 << 10}));
}

/// Was the kernel of this plan made, for operands that are read in fours, or one by one?
bool was_made(const MatmulPlan& plan, const Int8MatmulOptions& signs, bool in_fours) {
  ops::MatmulSpec spec;
  spec.plan = plan;
  spec.in = u32;
  spec.out = i32;
  spec.b_transposed = true;
  spec.a_vec4 = spec.b_vec4 = spec.c_vec4 = in_fours;
  spec.int8 = ops::Int8::dot;
  spec.a_signed = signs.a_signed;
  spec.b_signed = signs.b_signed;
  spec = ops::settle(spec);
  bool made = true;
  dispatch::library_kernel(ops::state_of(test_device()), ops::matmul_key(spec), [&] {
    made = false;
    return ops::matmul_options(spec);
  });
  return made;
}

// The base tier on any device, and each matrix plan that this one has.
TEST(MatmulInt8, ProductsAreExactInEveryTier) {
  // A CPU adapter's compiler takes long for each new kernel.
  const bool few = test_device().adapter().type == AdapterType::cpu;
  unsigned seed = 1;
  for (const Int8MatmulOptions& signs : kSigns) {
    SCOPED_TRACE(named(signs));
    std::mt19937 random(seed);
    check_random_products({.device = DeviceClass::gpu, .matrix_units = false}, signs, few ? 3 : 40, seed++);
    check_random_products({.device = DeviceClass::gpu}, signs, few ? 3 : 60, seed++);
    for (const MatmulPlan& plan : matrix_plans(signs)) {
      SCOPED_TRACE("units, tile of " + std::to_string(plan.tile_m));
      const MatmulTuning tuning{.device = DeviceClass::gpu, .plan = plan};
      check_random_products(tuning, signs, few ? 4 : 80, seed++);
      // Edges of all tiles and slabs; then in fours, and that these are the kernels that ran.
      for (const auto& [m, n, words] :
           {std::array<std::int64_t, 3>{129, 67, 33}, {33, 257, 16}, {16, 36, 36}, {132, 128, 20}}) {
        const Operand a(random, 1, m, words, signs.a_signed), b(random, 1, n, words, signs.b_signed);
        ASSERT_EQ(ops::matmul_int8(a.tensor, b.tensor, signs, tuning).to_host<std::int32_t>(),
                  product(a.values, b.values, 1, m, n, words * 4))
            << m << " x " << words << " words x " << n;
      }
      EXPECT_TRUE(was_made(plan, signs, false));
      EXPECT_TRUE(was_made(plan, signs, true));
    }
  }
}

// What bench/gemm_tiles tries beside the table's plans.
TEST(MatmulInt8, VariationsOfPlansAreExact) {
  const bool few = test_device().adapter().type == AdapterType::cpu;
  for (const Int8MatmulOptions& signs : {Int8MatmulOptions{true, false}, {false, false}}) {
    if (matrix_plans(signs).empty()) GTEST_SKIP() << "the device has no units for 8-bit integers";
    SCOPED_TRACE(named(signs));
    const MatmulPlan smallest = matrix_plans(signs).back();
    std::vector<MatmulPlan> plans(4, smallest);
    plans[0].vec = 1;
    plans[1].slab *= 2;
    plans[2].vec = 1, plans[2].slab /= 2;
    plans[3].tile_n *= 2, plans[3].sub_n *= 2;
    int ran = 0;
    for (const MatmulPlan& plan : plans) {
      if (!ops::matrix_fits(plan, u32, test_device().limits())) continue;
      check_random_products({.device = DeviceClass::gpu, .plan = plan}, signs, few ? 2 : 40, 40 + plan.slab);
      ++ran;
    }
    EXPECT_GE(ran, 2);
  }
}

/// With every byte at the end of its range that makes sums large.
Tensor all_of(std::uint32_t byte, std::int64_t rows, std::int64_t words) {
  return full(test_device(), {rows, words}, static_cast<double>(byte * 0x01010101u), u32);
}

// Sums past 32 bits wrap, in one kernel and when parts are summed apart.
TEST(MatmulInt8, SumsWrapInEveryTier) {
  constexpr std::int64_t kM = 18, kN = 20, kWords = 131076 / 4;  // 131,076 times 128 * 128 is 2^31 + 2^16
  for (const Int8MatmulOptions& signs : kSigns) {
    SCOPED_TRACE(named(signs));
    const auto end = [](bool is_signed) { return is_signed ? 128u : 255u; };
    const std::int64_t x = signs.a_signed ? -128 : 255, y = signs.b_signed ? -128 : 255;
    const auto want =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint64_t>(x * y * kWords * 4)));
    const Tensor a = all_of(end(signs.a_signed), kM, kWords), b = all_of(end(signs.b_signed), kN, kWords);
    std::vector<MatmulTuning> ways{{.device = DeviceClass::gpu, .matrix_units = false}};
    if (unit(signs)) ways.push_back({.device = DeviceClass::gpu});
    for (MatmulPlan plan : matrix_plans(signs)) {
      for (std::uint32_t splits : {1u, 3u}) {
        plan.splits = splits;
        ways.push_back({.device = DeviceClass::gpu, .plan = plan});
      }
    }
    for (const MatmulTuning& tuning : ways) {
      for (std::int32_t v : ops::matmul_int8(a, b, signs, tuning).to_host<std::int32_t>()) ASSERT_EQ(v, want);
    }
  }
}

// Batch axes that repeat an operand, three of them, and words that do not lie side by side (which are copied).
TEST(MatmulInt8, BatchesAndViews) {
  std::mt19937 random(5);
  constexpr std::int64_t kM = 17, kN = 20, kWords = 18;
  const Operand a(random, 6, kM, kWords, true), b(random, 3, kN, kWords, false);
  std::vector<std::int32_t> want;
  for (int g = 0; g < 6; ++g) {
    const auto of = [](const std::vector<std::int32_t>& v, std::int64_t at, std::int64_t size) {
      return std::vector(v.begin() + at * size, v.begin() + (at + 1) * size);
    };
    const auto part =
        product(of(a.values, g, kM * kWords * 4), of(b.values, g % 3, kN * kWords * 4), 1, kM, kN, kWords * 4);
    want.insert(want.end(), part.begin(), part.end());
  }
  const Int8MatmulOptions signs{true, false};
  const Tensor ta = reshape(a.tensor, {2, 1, 3, kM, kWords}), tb = reshape(b.tensor, {1, 3, kN, kWords});
  const Tensor c = ops::matmul_int8(ta, tb, signs, {.device = DeviceClass::gpu});
  EXPECT_EQ(c.shape(), Shape({2, 1, 3, kM, kN}));
  EXPECT_EQ(c.to_host<std::int32_t>(), want);
  const std::array<std::int64_t, 3> turned{0, 2, 1};
  const Tensor across = transpose(contiguous(transpose(b.tensor, turned)), turned);
  EXPECT_NE(across.strides().back(), 1);
  const Tensor d = ops::matmul_int8(ta, reshape(across, {1, 3, kN, kWords}), signs, {.device = DeviceClass::gpu});
  EXPECT_EQ(d.to_host<std::int32_t>(), want);
}

}  // namespace
}  // namespace weft
