// Attention against a model in double: requirement C6, method 13, and the faults D10 (causal attention of unequal
// lengths), D11 (kernels that one compiler refuses), D27 (NaN in a key), with cases N20 and S26 of others.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention_plan.h"
#include "ops/rows.h"
#include "unit/attention_model.h"
#include "unit/catalog_check.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "weft/nn.h"

namespace weft {
namespace {

using ops::AttentionShape;
using ops::AttentionTier;
using ops::KernelClass;
using testing::add_lengths;
using testing::add_mask;
using testing::expect_model;
using testing::expect_near;
using testing::Given;
using testing::random_case;
using testing::Strided;
using testing::test_device;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Each tier of kernels that takes any shape and dtype, whatever the device would choose. attention_tiers_test.cpp has
/// the others.
class Attention : public ::testing::TestWithParam<AttentionTier> {
 protected:
  void SetUp() override {
    ops::force_kernel_class(GetParam() == AttentionTier::lane ? KernelClass::cpu : KernelClass::gpu);
    ops::force_attention({.tier = GetParam(), .matrix = {}});
  }
  void TearDown() override {
    ops::force_attention({});
    ops::force_kernel_class(KernelClass::automatic);
  }

  static Tensor floats(const std::vector<float>& values, const Shape& shape) {
    return test_device().upload<float>(values, shape);
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, Attention, ::testing::Values(AttentionTier::tile, AttentionTier::lane),
                         [](const auto& p) { return std::string(to_string(p.param)); });

/// What a random case is drawn from. Few kernels, as lavapipe takes a second for each: dtype and alignment go with the
/// number of rows, which chooses the kernel.
struct Range {
  DType dtype;
  bool quads;
  std::vector<std::int64_t> queries;
};

TEST_P(Attention, MatchesTheModelOnAnyShapeAndOptions) {
  const bool f16 = test_device().features().f16;
  const std::vector<Range> ranges{{DType::f32, false, {1, 2, 3, 5}},
                                  {f16 ? DType::f16 : DType::f32, true, {17, 20, 30}},
                                  {DType::f32, true, {65, 70, 100}}};
  const std::int64_t keys[] = {1, 2, 3, 7, 8, 9, 16, 17, 33, 64, 65, 100, 130};
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    const Range& range = ranges[seed % ranges.size()];
    AttentionShape s;
    s.batch = 1 + random() % 2;
    s.kv_heads = 1 + random() % 2;
    s.heads = s.kv_heads * (1 + random() % 3);
    s.queries = range.queries[random() % range.queries.size()];
    s.keys = keys[random() % std::size(keys)];
    const auto size = [&] { return range.quads ? 4 * (1 + random() % 16) : 1 + random() % 64; };
    s.dim = static_cast<std::int64_t>(size());
    s.value_dim = random() % 2 == 0 ? s.dim : static_cast<std::int64_t>(size());
    Given g = random_case(random, s, range.dtype, !range.quads);
    g.options.causal = g.model.causal = random() % 2 == 0;
    if (random() % 3 == 0) g.options.softcap = g.model.softcap = 0.75;
    if (random() % 3 == 0) g.options.scale = g.model.scale = 0.5;
    if (random() % 2 == 0) add_mask(random, g);
    if (random() % 3 == 0) add_lengths(random, g);
    SCOPED_TRACE("seed " + std::to_string(seed) + " q " + to_string(g.q.shape()) + " strides " +
                 to_string(g.q.strides()) + " k " + to_string(g.k.shape()) + " v " + to_string(g.v.shape()) +
                 " causal " + std::to_string(g.options.causal) + " mask " +
                 (g.options.mask ? std::string(to_string(g.options.mask.dtype())) : "-") + " lengths " +
                 std::to_string(static_cast<bool>(g.options.lengths)));
    expect_model(g);
    if (HasFailure()) return;
  }
}

TEST_P(Attention, LargeHeads) {
  // More dimensions than a tile's depth, more columns than a workgroup adds up.
  for (const auto& [dim, value_dim] : {std::pair<int, int>{300, 96}, {64, 260}}) {
    std::mt19937 random(static_cast<std::uint32_t>(dim));
    Given g = random_case(random, {1, 2, 1, 40, 70, dim, value_dim}, DType::f32, false);
    g.options.causal = g.model.causal = true;
    SCOPED_TRACE("dim " + std::to_string(dim) + " value dim " + std::to_string(value_dim));
    expect_model(g);
    if (HasFailure()) return;
  }
}

TEST_P(Attention, FewQueriesManyKeysAreSharedOut) {
  for (const std::int64_t queries : {1, 3, 8}) {
    for (const std::int64_t keys : {257, 1000, 5000}) {
      std::mt19937 random(static_cast<std::uint32_t>(keys));
      Given g = random_case(random, {1, 4, 2, queries, keys, 24, 20}, DType::f32, false);
      g.options.causal = g.model.causal = queries == 3;
      if (queries == 8) add_mask(random, g);
      if (queries == 1) add_lengths(random, g);
      ASSERT_GT(ops::plan_attention(
                    {GetParam() == AttentionTier::lane, false, test_device().limits(), test_device().features()},
                    {1, 2, 1, 1, 5000, 24, 20}, DType::f32, 1)
                    .splits,
                1U);
      SCOPED_TRACE(std::to_string(queries) + " queries, " + std::to_string(keys) + " keys");
      expect_model(g);
      if (HasFailure()) return;
    }
  }
}

TEST_P(Attention, ManyKeysGoRoundTheLimitOnLoops) {
  // Mesa 22's lavapipe ends the loops of an invocation after 65,535 turns. The last key decides.
  const std::int64_t keys = 140000;
  std::vector<float> k(static_cast<std::size_t>(keys), 0.0f), v(static_cast<std::size_t>(keys), 1.0f);
  k.back() = 40.0f;
  v.back() = 7.0f;
  const Tensor q = floats(std::vector<float>(40, 1.0f), {1, 1, 40, 1});
  const std::vector<float> got = attention(q, floats(k, {1, 1, keys, 1}), floats(v, {1, 1, keys, 1})).to_host<float>();
  for (float value : got) ASSERT_NEAR(value, 7.0f, 1e-5);
}

TEST_P(Attention, ViewsOfSequenceMajorTensorsAreReadAsTheyLie) {
  // [batch, sequence, heads, dim], seen as [batch, heads, sequence, dim].
  std::mt19937 random(5);
  const AttentionShape s{2, 3, 3, 20, 20, 16, 16};
  Given g;
  g.model.shape = s;
  g.model.scale = 0.25;
  const auto view = [&](std::vector<double>& values) {
    const Strided storage = testing::dense(test_device(), random, {2, 20, 3, 16}, DType::f32);
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t h = 0; h < 3; ++h) {
        for (std::size_t i = 0; i < 20 * 16; ++i) {
          values.push_back(storage.values[((b * 20 + i / 16) * 3 + h) * 16 + i % 16]);
        }
      }
    }
    return transpose(storage.tensor, std::array<std::int64_t, 4>{0, 2, 1, 3});
  };
  g.q = view(g.model.q);
  g.k = view(g.model.k);
  g.v = view(g.model.v);
  expect_model(g);
}

TEST_P(Attention, MasksThatHideAllGiveZeros) {  // N20
  const Tensor ones = floats(std::vector<float>(8, 1.0f), {1, 1, 2, 4});
  const Tensor k = floats(std::vector<float>(16, 1.0f), {1, 1, 4, 4});
  std::vector<float> counting(16);
  for (std::size_t i = 0; i < 16; ++i) counting[i] = static_cast<float>(i + 1);
  const Tensor v = floats(counting, {1, 1, 4, 4});
  AttentionOptions options;
  options.mask = floats({-kInf, -kInf, -kInf, -kInf, 0, 0, -kInf, -kInf}, {1, 1, 2, 4});
  const std::vector<double> expected{0, 0, 0, 0, 3, 4, 5, 6};
  expect_near(testing::to_doubles(attention(ones, k, v, options)), expected, 1e-6);
  options.mask = test_device().upload_array(
      std::as_bytes(std::span<const std::uint8_t>(std::array<std::uint8_t, 8>{0, 0, 0, 0, 1, 1, 0, 0})), {1, 1, 2, 4},
      DType::bool_);
  expect_near(testing::to_doubles(attention(ones, k, v, options)), expected, 1e-6);
  // A large negative number is a number: the mean of all, as the formula has it.
  for (const float low : {-1e30f, std::numeric_limits<float>::lowest()}) {
    options.mask = floats({low, low, low, low, 0, 0, low, low}, {1, 1, 2, 4});
    expect_near(testing::to_doubles(attention(ones, k, v, options)), {7, 8, 9, 10, 3, 4, 5, 6}, 1e-6);
  }
}

TEST_P(Attention, CausalCaseOfOthers) {  // S26
  std::vector<float> q(512), k(512), v(512);
  for (std::size_t i = 0; i < 512; ++i) {
    q[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7));
    k[i] = static_cast<float>(std::cos(static_cast<double>(i) * 0.3));
    v[i] = static_cast<float>(i) / 100;
  }
  AttentionOptions options;
  options.causal = true;
  const Shape shape{1, 1, 64, 8};
  const std::vector<float> before =
      attention(floats(q, shape), floats(k, shape), floats(v, shape), options).to_host<float>();
  EXPECT_NEAR(before[0], 0.0, 2e-5);
  EXPECT_NEAR(before[1], 0.01, 2e-5);
  EXPECT_NEAR(before[32 * 8], 1.280052666949886, 2e-5);
  EXPECT_NEAR(before[63 * 8 + 6], 2.5868514611789184, 2e-5);
  EXPECT_NEAR(before[63 * 8 + 7], 2.5968514710597215, 2e-5);
  double sum = 0;
  for (float value : before) sum += value;
  EXPECT_NEAR(sum, 664.0065785743194, 1e-2);
  // What stands behind a query does not touch it, whatever it is.
  for (const float bad : {5.0f, kNan, kInf, -kInf}) {
    std::vector<float> k2 = k, v2 = v;
    for (std::size_t i = 41 * 8; i < 512; ++i) k2[i] = v2[i] = bad;
    const std::vector<float> after =
        attention(floats(q, shape), floats(k2, shape), floats(v2, shape), options).to_host<float>();
    for (std::size_t i = 0; i < 41 * 8; ++i) ASSERT_EQ(before[i], after[i]) << i << " with " << bad;
    if (std::isnan(bad)) {
      for (std::size_t i = 41 * 8; i < 512; ++i) ASSERT_TRUE(std::isnan(after[i])) << i;
    }
  }
}

TEST_P(Attention, CausalIsRightAligned) {  // D10
  AttentionOptions options;
  options.causal = true;
  // One query, the last, sees all three keys.
  const Tensor q = floats({0}, {1, 1, 1, 1});
  const Tensor k = floats({1, 1, 1}, {1, 1, 3, 1});
  const Tensor v = floats({1, 10, 100}, {1, 1, 3, 1});
  EXPECT_NEAR(attention(q, k, v, options).to_host<float>()[0], 37.0f, 1e-4);
  // More queries than keys: the first see none.
  const Tensor many = floats({0, 0, 0, 0, 0}, {1, 1, 5, 1});
  expect_near(testing::to_doubles(attention(many, k, v, options)), {0, 0, 1, 5.5, 37}, 1e-5);
  // The length is the item's own.
  options.lengths = test_device().upload<std::int32_t>(std::vector<std::int32_t>{2}, {1});
  expect_near(testing::to_doubles(attention(many, k, v, options)), {0, 0, 0, 1, 5.5}, 1e-5);
  const std::vector<std::uint32_t> far{0xffffffffu};
  options.lengths = test_device().upload<std::uint32_t>(far, {1});
  expect_near(testing::to_doubles(attention(many, k, v, options)), {0, 0, 1, 5.5, 37}, 1e-5);
}

TEST_P(Attention, NanInASeenKeyOrValueShowsInOthersNot) {  // D27
  const std::int64_t n = 70, dim = 6;
  std::vector<float> q(static_cast<std::size_t>(n * dim), 0.25f), k = q, v = q;
  const Shape shape{1, 1, n, dim};
  const std::size_t at = 66 * 6 + 2;
  for (const float bad : {kNan, -kNan, kInf}) {
    k[at] = bad;
    std::vector<float> got = attention(floats(q, shape), floats(k, shape), floats(v, shape)).to_host<float>();
    for (float value : got) ASSERT_TRUE(std::isnan(value));
    k[at] = 0.25f;
    v[at] = bad;
    got = attention(floats(q, shape), floats(k, shape), floats(v, shape)).to_host<float>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (i % 6 != 2) {
        ASSERT_NEAR(got[i], 0.25f, 1e-6) << i;
      } else {
        ASSERT_TRUE(std::isnan(bad) ? std::isnan(got[i]) : got[i] == bad) << i << " " << got[i];
      }
    }
    AttentionOptions options;
    std::vector<std::uint8_t> seen(static_cast<std::size_t>(n), 1);
    seen[66] = 0;
    options.mask = test_device().upload_array(std::as_bytes(std::span<const std::uint8_t>(seen)), {n}, DType::bool_);
    k[at] = bad;
    for (float value : attention(floats(q, shape), floats(k, shape), floats(v, shape), options).to_host<float>()) {
      ASSERT_NEAR(value, 0.25f, 1e-6);
    }
    options = {};
    options.lengths = test_device().upload<std::int32_t>(std::vector<std::int32_t>{66}, {1});
    for (float value : attention(floats(q, shape), floats(k, shape), floats(v, shape), options).to_host<float>()) {
      ASSERT_NEAR(value, 0.25f, 1e-6);
    }
    k[at] = v[at] = 0.25f;
  }
}

TEST_P(Attention, WeightsFarBelowTheMaximumAreZero) {
  // Scores 0 and 200 below: e^-200 is no float. A value that would show the least of it.
  for (const bool far_first : {false, true}) {
    std::vector<float> k(80, 0.0f), v(80, 3e36f);
    const std::size_t near = far_first ? 79 : 0;
    k[near] = 200;
    v[near] = 1;
    const std::vector<float> got =
        attention(floats({1, 1}, {1, 1, 2, 1}), floats(k, {1, 1, 80, 1}), floats(v, {1, 1, 80, 1})).to_host<float>();
    EXPECT_EQ(got, (std::vector<float>{1, 1})) << far_first;
  }
  // Scores that would overflow exp; and a rising maximum, step by step.
  std::vector<float> k(64), v(64);
  for (std::size_t i = 0; i < 64; ++i) {
    k[i] = 1000.0f + 7.0f * static_cast<float>(i);
    v[i] = static_cast<float>(i);
  }
  const std::vector<float> got =
      attention(floats({1}, {1, 1, 1, 1}), floats(k, {1, 1, 64, 1}), floats(v, {1, 1, 64, 1})).to_host<float>();
  EXPECT_NEAR(got[0], 63 - std::exp(-7.0) / (1 + std::exp(-7.0)) * 1.0009, 1e-4);
}

TEST_P(Attention, HalvesAtTheirLargest) {
  if (!test_device().features().f16) {
    EXPECT_THROW(test_device().zeros({1}, DType::f16), Error);
    return;
  }
  const std::vector<float16> big(16 * 8, float16(65504.0f));
  const Tensor x = test_device().upload<float16>(big, {1, 1, 16, 8});
  for (float16 v : attention(x, x, x).to_host<float16>()) ASSERT_EQ(static_cast<float>(v), 65504.0f);
}

TEST_P(Attention, EmptyOperands) {
  const auto zeros = [](const Shape& shape) { return test_device().zeros(shape, DType::f32); };
  EXPECT_EQ(attention(zeros({0, 2, 3, 4}), zeros({0, 2, 3, 4}), zeros({0, 2, 3, 4})).shape(), (Shape{0, 2, 3, 4}));
  EXPECT_EQ(attention(zeros({1, 2, 0, 4}), zeros({1, 2, 3, 4}), zeros({1, 2, 3, 5})).shape(), (Shape{1, 2, 0, 5}));
  EXPECT_EQ(attention(zeros({1, 2, 3, 4}), zeros({1, 2, 3, 4}), zeros({1, 2, 3, 0})).shape(), (Shape{1, 2, 3, 0}));
  EXPECT_EQ(attention(zeros({1, 0, 3, 4}), zeros({1, 0, 3, 4}), zeros({1, 0, 3, 4})).shape(), (Shape{1, 0, 3, 4}));
  EXPECT_EQ(attention(floats({1, 2}, {1, 1, 1, 2}), zeros({1, 1, 0, 2}), zeros({1, 1, 0, 2})).to_host<float>(),
            (std::vector<float>{0, 0}));
}

TEST_P(Attention, WhatDoesNotFitIsRefusedBeforeAnyWork) {
  const auto zeros = [](const Shape& shape, DType dtype = DType::f32) { return test_device().zeros(shape, dtype); };
  const Tensor q = zeros({2, 4, 3, 8});
  const Tensor k = zeros({2, 2, 5, 8});
  const auto refused = [](auto&& call, std::string_view said) {
    try {
      call();
      ADD_FAILURE() << "taken: " << said;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_NE(e.message().find(said), std::string::npos) << e.what();
    }
  };
  refused([&] { attention(q, zeros({2, 3, 5, 8}), zeros({2, 3, 5, 8})); }, "4 heads are no multiple of 3");
  refused([&] { attention(q, zeros({1, 2, 5, 8}), k); }, "batches differ");
  refused([&] { attention(q, zeros({2, 2, 5, 7}), k); }, "last axis");
  refused([&] { attention(q, k, zeros({2, 2, 6, 8})); }, "(2, 2, 6, 8)");
  refused([&] { attention(zeros({4, 3, 8}), k, k); }, "4 axes");
  refused([&] { attention(zeros({2, 4, 3, 8}, DType::i32), k, k); }, "int32");
  refused([&] { attention(zeros({1, 1, 1, 0}), zeros({1, 1, 1, 0}), zeros({1, 1, 1, 1})); }, "dimension of 0");
  AttentionOptions options;
  options.mask = zeros({3, 4});
  refused([&] { attention(q, k, k, options); }, "(2, 4, 3, 5)");
  options.mask = zeros({3, 5}, DType::i32);
  refused([&] { attention(q, k, k, options); }, "mask is int32");
  options = {};
  options.lengths = zeros({3}, DType::i32);
  refused([&] { attention(q, k, k, options); }, "batch of 2");
  options = {};
  options.scale = std::nan("");
  refused([&] { attention(q, k, k, options); }, "scale is nan");
  options = {};
  options.softcap = -1;
  refused([&] { attention(q, k, k, options); }, "softcap is -1");
  EXPECT_THROW(attention(q, Tensor(), k), Error);
}

TEST(AttentionCatalog, EveryKernelCompiles) {  // D11
  testing::expect_kernels_compile(test_device(), ops::attention_family(), 50);
}

}  // namespace
}  // namespace weft
