// The tiers of attention that take some shapes and devices only: by rows (16-byte reads, subgroups) and by subgroup
// matrices. What a tier can't take falls to another unseen, so each test says which tier a shape comes to.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/attention_plan.h"
#include "ops/rows.h"
#include "unit/attention_emulation.h"
#include "unit/attention_model.h"
#include "unit/test_device.h"
#include "weft/nn.h"

namespace weft {
namespace {

using ops::AttentionShape;
using ops::AttentionTier;
using testing::Given;
using testing::test_device;

class AttentionTiers : public ::testing::Test {
 protected:
  void TearDown() override {
    ops::force_attention({});
    ops::force_kernel_class(ops::KernelClass::automatic);
  }
  static void force(AttentionTier tier) {
    ops::force_kernel_class(ops::KernelClass::gpu);
    ops::force_attention({.tier = tier, .matrix = {}});
  }
  /// What a GPU with this device's features takes (or what is forced), where q, k and v are dense.
  static ops::AttentionPlan plan_of(const AttentionShape& shape, DType dtype) {
    const Device& device = test_device();
    const std::uint32_t unit = shape.dim % 8 == 0 && shape.value_dim % 8 == 0   ? 8
                               : shape.dim % 4 == 0 && shape.value_dim % 4 == 0 ? 4
                                                                                : 1;
    return ops::plan_attention({false, false, device.limits(), device.features()}, shape, dtype, unit);
  }
  static AttentionTier tier_of(const AttentionShape& shape, DType dtype) { return plan_of(shape, dtype).spec.tier; }
};
class AttentionByRows : public AttentionTiers {};
class AttentionByMatrices : public AttentionTiers {
 protected:
  /// wgpu-native has none: there the plan never comes to them.
  static bool there() {
    const Features& f = test_device().features();
    const bool has = f.f16 && !f.subgroup_matrices.empty();
    for (const std::int64_t queries : {1, 9, 33, 4096}) {
      for (const bool forced : {false, true}) {
        ops::force_attention({});
        if (forced) force(AttentionTier::matrix);
        const bool taken = tier_of({1, 2, 2, queries, 100, 32, 32}, DType::f16) == AttentionTier::matrix;
        EXPECT_EQ(taken, has && (forced || (ops::kAttentionMatricesChosen && queries > 8))) << queries << " queries";
        EXPECT_NE(tier_of({1, 2, 2, queries, 100, 32, 32}, DType::f32), AttentionTier::matrix);
      }
    }
    return has;
  }
};

void random_options(std::mt19937& random, std::uint32_t seed, Given& g) {
  g.options.causal = g.model.causal = random() % 2 == 0;
  if (random() % 3 == 0) g.options.softcap = g.model.softcap = 0.75;
  if (random() % 3 == 0) g.options.scale = g.model.scale = seed % 4 == 0 ? -0.5 : 0.5;
  if (random() % 2 == 0) testing::add_mask(random, g);
  if (random() % 3 == 0) testing::add_lengths(random, g);
}

std::string described(std::uint32_t seed, const Given& g) {
  return "seed " + std::to_string(seed) + " q " + to_string(g.q.shape()) + " k " + to_string(g.k.shape()) + " v " +
         to_string(g.v.shape()) + " causal " + std::to_string(g.options.causal) + " mask " +
         (g.options.mask ? std::string(to_string(g.options.mask.dtype())) : "-") + " lengths " +
         std::to_string(static_cast<bool>(g.options.lengths));
}

Tensor upload(const std::vector<double>& values, const Shape& shape, DType dtype) {
  std::vector<float> floats(values.begin(), values.end());
  const Tensor x = test_device().upload<float>(floats, shape);
  return dtype == DType::f16 ? cast(x, DType::f16) : x;
}

/// NaN and infinities in keys and values, some of them of keys that not every query sees.
void spoil(std::mt19937& random, Given& g) {
  const double bad[] = {std::nan(""), std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity()};
  for (int i = 0; i < 2; ++i) {
    g.model.v[random() % g.model.v.size()] = bad[random() % 3];
    if (i == 0 && random() % 2 == 0) g.model.k[random() % g.model.k.size()] = bad[0];
  }
  g.k = upload(g.model.k, g.k.shape(), g.k.dtype());
  g.v = upload(g.model.v, g.v.shape(), g.v.dtype());
}

/// Scores that rise from key to key, so that the running maximum does in every tile.
Given rising(const AttentionShape& s, DType dtype) {
  Given g;
  g.model.shape = s;
  g.model.scale = 1;
  g.options.scale = 1;
  g.model.q.assign(static_cast<std::size_t>(s.heads * s.queries * s.dim), 0);
  for (std::size_t i = 0; i < g.model.q.size(); i += static_cast<std::size_t>(s.dim)) g.model.q[i] = 1;
  g.model.k.assign(static_cast<std::size_t>(s.kv_heads * s.keys * s.dim), 0);
  for (std::size_t i = 0; i < g.model.k.size(); i += static_cast<std::size_t>(s.dim)) {
    const std::size_t key = i / static_cast<std::size_t>(s.dim) % static_cast<std::size_t>(s.keys);
    g.model.k[i] = 100 + static_cast<double>(key) * 0.5;
  }
  for (std::int64_t i = 0; i < s.kv_heads * s.keys * s.value_dim; ++i) g.model.v.push_back(static_cast<double>(i % 37));
  g.q = upload(g.model.q, {1, s.heads, s.queries, s.dim}, dtype);
  g.k = upload(g.model.k, {1, s.kv_heads, s.keys, s.dim}, dtype);
  g.v = upload(g.model.v, {1, s.kv_heads, s.keys, s.value_dim}, dtype);
  return g;
}

// -- by rows
// ---------------------------------------------------------------------------------------------------------------

TEST_F(AttentionByRows, MatchesTheModelOnAnyShapeAndOptions) {
  force(AttentionTier::row);
  const bool f16 = test_device().features().f16;
  // Few kernels, as lavapipe takes a second for each: dtype and rows of a kv head go with the head's size.
  struct Range {
    DType dtype;
    std::int64_t group, queries;  // at most
    std::vector<std::int64_t> dims;
  };
  const std::vector<Range> ranges{{f16 ? DType::f16 : DType::f32, 1, 1, {72, 128}},
                                  {f16 ? DType::f16 : DType::f32, 4, 2, {128, 136}},
                                  {DType::f32, 2, 2, {4, 8, 12, 16}}};
  const std::int64_t keys[] = {1, 2, 7, 8, 63, 64, 65, 130, 500, 1100};
  const std::int64_t value_dims[] = {8, 16, 40, 64, 72, 128, 136};
  for (std::uint32_t seed = 0; seed < 80; ++seed) {
    std::mt19937 random(seed);
    const Range& range = ranges[seed % ranges.size()];
    AttentionShape s;
    s.batch = 1 + random() % 2;
    s.kv_heads = 1 + random() % 2;
    s.heads = s.kv_heads * (1 + static_cast<std::int64_t>(random()) % range.group);
    s.queries = 1 + static_cast<std::int64_t>(random()) % range.queries;
    s.keys = keys[random() % std::size(keys)];
    s.dim = range.dims[random() % range.dims.size()];
    s.value_dim = random() % 2 == 0 ? s.dim : value_dims[random() % std::size(value_dims)];
    ASSERT_EQ(tier_of(s, range.dtype) == AttentionTier::row, test_device().features().subgroups);
    Given g = testing::random_case(random, s, range.dtype, false);
    random_options(random, seed, g);
    if (seed % 4 == 3) spoil(random, g);
    SCOPED_TRACE(described(seed, g));
    testing::expect_model(g);
    if (HasFailure()) return;
  }
}

TEST_F(AttentionByRows, IsTakenForFewRowsThatCanBeReadBySixteenBytes) {
  const bool subgroups = test_device().features().subgroups;
  const auto expect = [&](const AttentionShape& shape, DType dtype, bool row) {
    EXPECT_EQ(tier_of(shape, dtype) == AttentionTier::row, row && subgroups) << to_string(shape.scores());
  };
  expect({1, 32, 32, 1, 4096, 128, 128}, DType::f32, true);
  expect({1, 32, 32, 1, 4096, 128, 128}, DType::f16, true);
  expect({1, 32, 4, 1, 4096, 128, 128}, DType::f16, true);   // 8 rows of a kv head
  expect({1, 32, 4, 2, 4096, 128, 128}, DType::f16, false);  // 16
  expect({1, 32, 32, 1, 4096, 100, 100}, DType::f16, false);
  expect({1, 32, 32, 1, 4096, 100, 100}, DType::f32, true);
  expect({1, 2, 2, 1, 4096, 2048, 128}, DType::f16, false);
  // Keys are shared out to enough workgroups for a large GPU.
  if (subgroups) {
    EXPECT_GE(plan_of({1, 32, 32, 1, 32768, 128, 128}, DType::f16).groups, 1000u);
  }
}

TEST_F(AttentionByRows, RisingScores) {
  force(AttentionTier::row);
  testing::expect_model(rising({1, 2, 1, 1, 700, 8, 8}, DType::f32));
}

// -- by subgroup matrices
// --------------------------------------------------------------------------------------------------

TEST_F(AttentionByMatrices, MatchesTheModelOnAnyShapeAndOptions) {
  if (!there()) return;
  force(AttentionTier::matrix);
  const std::int64_t queries[] = {1, 3, 9, 17, 31, 32, 33, 40, 70};
  const std::int64_t keys[] = {1, 2, 7, 8, 31, 32, 33, 64, 65, 100, 130, 600};
  // A CPU takes half a minute to compile for larger heads.
  const std::int64_t most = test_device().adapter().type == AdapterType::cpu ? 32 : 160;
  for (std::uint32_t seed = 0; seed < 80; ++seed) {
    std::mt19937 random(seed);
    AttentionShape s;
    s.batch = 1 + random() % 2;
    s.kv_heads = 1 + random() % 2;
    s.heads = s.kv_heads * (1 + random() % 3);
    s.queries = queries[random() % std::size(queries)];
    s.keys = keys[random() % std::size(keys)];
    const bool eights = seed % 2 == 0;
    const auto size = [&] {
      const std::int64_t n = eights ? most / 8 : most;
      return (1 + static_cast<std::int64_t>(random()) % n) * (eights ? 8 : 1);
    };
    s.dim = std::min<std::int64_t>(size(), 128);
    s.value_dim = random() % 2 == 0 ? s.dim : size();
    Given g = testing::random_case(random, s, DType::f16, !eights);
    random_options(random, seed, g);
    if (eights && seed % 4 == 2) spoil(random, g);
    SCOPED_TRACE(described(seed, g));
    testing::expect_model(g);
    if (HasFailure()) return;
  }
}

TEST_F(AttentionByMatrices, RisingScores) {
  if (!there()) return;
  force(AttentionTier::matrix);
  // Every tile scales the sums, and the last keys have nearly all the weight.
  testing::expect_model(rising({1, 2, 1, 40, 200, 8, 24}, DType::f16));
  Given g = rising({1, 1, 1, 150, 150, 8, 24}, DType::f16);
  g.options.causal = g.model.causal = true;
  testing::expect_model(g);
}

TEST_F(AttentionByMatrices, ManyKeysOfSmallWeightCount) {
  if (!there()) return;
  force(AttentionTier::matrix);
  // One key far over the others, which are many: e^-9 of 2,000 is a fifth.
  Given g = rising({1, 1, 1, 9, 2000, 8, 8}, DType::f16);
  for (std::size_t i = 0; i < g.model.k.size(); i += 8) g.model.k[i] = i == 0 ? 9 : 0;
  g.k = upload(g.model.k, g.k.shape(), DType::f16);
  testing::expect_model(g);
}

// What one subgroup may see of another must not depend on which runs first.
TEST_F(AttentionByMatrices, SubgroupsInReverseOrder) {
  if (!there()) return;
  const Device& device = test_device();
  const ops::AttentionMatrixTile like{.subgroups = 4, .keys = 32, .shared = true, .ahead = false};
  const auto tile = ops::choose_attention_matrix(device.features(), device.limits(), 32, 32, like);
  ASSERT_TRUE(tile);
  const ops::AttentionStandIn stand_in{"reversed", [](const ops::AttentionSpec& spec, const std::string& text) {
                                         return testing::reversed(text, *spec.matrix);
                                       }};
  ops::force_kernel_class(ops::KernelClass::gpu);
  ops::force_attention({.tier = AttentionTier::matrix, .matrix = tile, .stand_in = &stand_in});
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    const AttentionShape s{1, 2, 1, 33, 40 + 30 * static_cast<std::int64_t>(seed % 4), 32, 32};
    Given g = testing::random_case(random, s, DType::f16, false);
    random_options(random, seed, g);
    if (seed % 4 == 2) spoil(random, g);
    SCOPED_TRACE(described(seed, g));
    testing::expect_model(g);
    if (HasFailure()) return;
  }
}

// Tiles of devices that aren't here, in plain WGSL, with NaN in all workgroup memory to begin with. That a device's own
// units do what these do is for the other tests, on that device.
class AttentionEmulated : public AttentionTiers {
 protected:
  static void expect_model(const ops::AttentionMatrixTile& tile, bool written_out) {
    if (!test_device().features().f16) GTEST_SKIP() << "the device has no f16";
    if (implementation_name() != "dawn") GTEST_SKIP() << "naga has no bitcast to vec2<f16>; the tier is Dawn's alone";
    ops::AttentionStandIn stand_in{"emulated", [](const ops::AttentionSpec& spec, const std::string& text) {
                                     const ops::AttentionMatrixTile& t = *spec.matrix;
                                     return testing::poisoned(testing::emulated(t, text), t.subgroups * t.lanes);
                                   }};
    ops::force_kernel_class(ops::KernelClass::gpu);
    ops::force_attention(
        {.tier = AttentionTier::matrix, .matrix = tile, .stand_in = &stand_in, .written_out = written_out});
    const std::int64_t queries[] = {1, 9, 17, 31, 33, 40};
    const std::int64_t keys[] = {1, 31, 32, 33, 65, 100};
    for (std::uint32_t seed = 0; seed < 24; ++seed) {
      std::mt19937 random(seed);
      AttentionShape s{1, 1, 1, queries[random() % std::size(queries)], 0, 40, 24};
      s.heads = 1 + random() % 2;
      s.keys = keys[random() % std::size(keys)];
      ASSERT_EQ(plan_of(s, DType::f16).spec.tier, AttentionTier::matrix);
      Given g = testing::random_case(random, s, DType::f16, false);
      random_options(random, seed, g);
      if (seed % 4 == 2) spoil(random, g);
      SCOPED_TRACE(described(seed, g));
      testing::expect_model(g);
      if (HasFailure()) return;
    }
    testing::expect_model(rising({1, 1, 1, 40, 100, 40, 24}, DType::f16));
  }
};

TEST_F(AttentionEmulated, TwoLanesARowAsOnTheH200) {
  expect_model({.m = 16, .n = 16, .k = 16, .lanes = 32, .subgroups = 2, .keys = 32, .shared = true, .ahead = false},
               true);
}

TEST_F(AttentionEmulated, FourLanesARow) {
  expect_model({.m = 8, .n = 8, .k = 8, .lanes = 32, .subgroups = 2, .keys = 32, .shared = true, .ahead = false},
               false);
}

}  // namespace
}  // namespace weft
