// Rows, reductions and attention by each plan that they may be tuned to: right, and kernels that the catalogue has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/attention_tuning.h"
#include "ops/catalog.h"
#include "ops/reduce_tuning.h"
#include "ops/rows_tuning.h"
#include "unit/attention_model.h"
#include "unit/kernel_class_test.h"
#include "unit/tuning_trials.h"
#include "weft/weft.h"

namespace weft {
namespace {

using testing::asked_by;
using testing::KernelClassTest;
using testing::test_device;
using testing::upload;
using testing::values;
using testing::with_every_candidate;

class Candidates : public KernelClassTest {};
INSTANTIATE_TEST_SUITE_P(KernelClasses, Candidates, testing::both_kernel_classes(), testing::kernel_class_name);

class SubgroupCandidates : public KernelClassTest {
 protected:
  static bool cpu() { return GetParam() == ops::KernelClass::cpu; }
};
INSTANTIATE_TEST_SUITE_P(KernelClasses, SubgroupCandidates, testing::all_kernel_classes(), testing::kernel_class_name);

struct Rows {
  std::int64_t rows, length;
  bool turned;
};

TEST_P(SubgroupCandidates, OfRowsAreRight) {
  // On GPUs rows of 33 to 128 share a workgroup and shorter ones have a thread each: there is nothing to choose.
  for (const auto& [rows, length, turned] :
       {Rows{3, 8192, false}, {5, 2333, false}, {7, 5000, true}, {70, 1000, true}}) {
    const auto given = values(rows * length, 3);
    std::vector<double> want(given.size());
    const auto at = [&, rows = rows, length = length, turned = turned](std::int64_t r, std::int64_t i) {
      return static_cast<std::size_t>(turned ? i * rows + r : r * length + i);
    };
    for (std::int64_t r = 0; r < rows; ++r) {
      double total = 0;
      for (std::int64_t i = 0; i < length; ++i) total += std::exp(static_cast<double>(given[at(r, i)]));
      for (std::int64_t i = 0; i < length; ++i) want[at(r, i)] = std::exp(static_cast<double>(given[at(r, i)])) / total;
    }
    const Tensor x = upload(given, turned ? Shape{length, rows} : Shape{rows, length});
    const auto run = [&, turned = turned] { return softmax(x, {.axis = turned ? 0 : 1}); };
    if (asked_by(run, "rows ").front().candidates.size() < 2 && !cpu()) continue;
    with_every_candidate(run, "rows ", [&] {
      const std::vector<float> got = run().to_host<float>();
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 2e-5 * want[i] + 1e-9) << "at " << i;
      }
    });
  }
}

TEST_P(SubgroupCandidates, OfRowsAreInTheCatalogue) {
  std::set<std::string> listed;
  ops::rows_family().visit_kernels(test_device(),
                                   [&](std::string_view key, const KernelOptions&) { listed.emplace(key); });
  std::size_t tried = 0;
  for (std::uint64_t rows = 1; rows <= 1 << 16; rows *= 8) {
    for (std::uint64_t length = 1; length <= 1 << 22; length *= 2) {
      for (const bool quads : {false, true}) {
        ops::AxisPair kept, row;
        kept.length[1] = rows;
        row.length[1] = length;
        kept.stride[1] = static_cast<std::int64_t>(length);
        row.stride[1] = 1;
        for (const ops::RowChoice& choice : ops::row_choices(test_device(), GetParam(), kept, row, quads)) {
          const ops::RowPlan plan = ops::plan_rows(test_device(), GetParam(), kept, row, quads, choice);
          EXPECT_EQ(ops::to_tuning(ops::to_row_choice(ops::to_tuning(choice))), ops::to_tuning(choice));
          ++tried;
          if (!plan.hold) continue;
          const std::string key = fmt::format("rows:softmax:{}:float32:float32:{}:{}:false:false:false:{}:{}:{}:{}",
                                              plan.splits == 1 ? "hold" : "hold_stats", quads, plan.group, plan.threads,
                                              plan.held, plan.turns, plan.subgroups);
          EXPECT_TRUE(listed.contains(key)) << key;
        }
      }
    }
  }
  EXPECT_GT(tried, 20u);
}

// Small integers: sums are exact, and so are the places of the largest; both share the class.
TEST_P(SubgroupCandidates, OfReductionsAreRight) {
  for (const auto& [rows, length, turned] :
       {Rows{1, 50000, false}, {9, 6001, false}, {300, 900, false}, {7, 5000, true}, {130, 3000, true}}) {
    const auto given = values(rows * length, 5);
    const Tensor x = upload(given, turned ? Shape{length, rows} : Shape{rows, length});
    std::vector<float> sums(static_cast<std::size_t>(rows));
    std::vector<std::int32_t> places(sums.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      float high = -100;
      for (std::int64_t i = 0; i < length; ++i) {
        const float v = given[static_cast<std::size_t>(turned ? i * rows + r : r * length + i)];
        sums[static_cast<std::size_t>(r)] += v;
        if (v > high) {
          high = v;
          places[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(i);
        }
      }
    }
    const ReduceOptions options{.axes = std::vector<std::int64_t>{turned ? 0 : 1}};
    const auto run = [&] { return reduce(ReduceOp::sum, x, options); };
    if (asked_by(run, "reduce ").front().candidates.size() < 2 && !cpu()) continue;  // a workgroup has all of a row
    with_every_candidate(run, "reduce ", [&] {
      ASSERT_EQ(run().to_host<float>(), sums);
      ASSERT_EQ(reduce(ReduceOp::argmax, x, options).to_host<std::int32_t>(), places);
    });
  }
}

TEST(Candidates, OfReductionsSuitTheirShape) {
  for (const bool cpu : {false, true}) {
    for (const bool rows : {false, true}) {
      for (std::uint64_t outputs = 1; outputs <= 1 << 20; outputs *= 4) {
        for (std::uint64_t length = 1; length <= std::uint64_t{1} << 28; length *= 4) {
          const ops::ReduceProblem problem{outputs, length, rows};
          const ops::Split own = ops::share_out(cpu, problem);
          for (const std::uint64_t parts : ops::reduce_parts(cpu, problem)) {
            const ops::Split split = ops::share_out(cpu, problem, parts);
            EXPECT_NE(split, own);
            EXPECT_EQ(split.by_group, own.by_group);
            EXPECT_LE(split.splits, 4096u * 2);
            EXPECT_GE(split.chunk * (split.splits / split.lanes), length);
            EXPECT_LT(split.chunk * (split.splits / split.lanes - 1), length);
          }
        }
      }
    }
  }
}

TEST_P(Candidates, OfAttentionAreRight) {
  const ops::AttentionShape shapes[] = {{1, 4, 2, 1, 300, 16, 16}, {2, 2, 1, 5, 200, 12, 20}, {1, 1, 1, 33, 130, 7, 9}};
  std::uint32_t seed = 0;
  for (const ops::AttentionShape& s : shapes) {
    std::mt19937 random(++seed);
    testing::Given g = testing::random_case(random, s, f32, false);
    g.options.causal = g.model.causal = seed == 2;
    with_every_candidate([&] { return attention(g.q, g.k, g.v, g.options); }, "attention ",
                         [&] { testing::expect_model(g); });
  }
}

TEST(Candidates, OfAttentionAreInTheCatalogue) {
  const Device& device = test_device();
  std::set<std::string> listed;
  for (const ops::AttentionSpec& spec : ops::attention_specs(device.limits(), device.features(), false)) {
    listed.insert(ops::attention_key(spec));
  }
  std::set<ops::AttentionTier> tiers;
  for (const bool cpu : {false, true}) {
    const ops::AttentionDevice kernels{cpu, false, device.limits(), device.features()};
    for (const std::int64_t rows : {1, 4, 8, 32, 4096}) {
      for (const std::int64_t keys : {1, 64, 1024, 65536}) {
        for (const std::int64_t dim : {1, 32, 64, 128, 512}) {
          for (const std::uint32_t unit : {1u, 4u, 8u}) {
            for (const DType dtype : {f32, f16}) {
              if (dtype == f16 && !device.features().f16) continue;
              const ops::AttentionShape shape{1, 8, 8, rows, keys, dim, dim};
              const auto choices = ops::attention_choices(kernels, shape, dtype, unit);
              EXPECT_LE(choices.size(), 50u);
              for (const ops::AttentionChoice& choice : choices) {
                const auto plan = ops::plan_attention(kernels, shape, dtype, unit, choice);
                ASSERT_TRUE(plan);
                EXPECT_TRUE(listed.contains(ops::attention_key(plan->spec))) << ops::attention_key(plan->spec);
                EXPECT_EQ(ops::to_attention_choice(ops::to_tuning(choice)), choice);
                EXPECT_GE(std::uint64_t{plan->chunk} * plan->splits, static_cast<std::uint64_t>(keys));
                tiers.insert(plan->spec.tier);
              }
              const auto own = ops::plan_attention(kernels, shape, dtype, unit);
              const auto first = ops::plan_attention(kernels, shape, dtype, unit, choices.front());
              EXPECT_EQ(ops::attention_key(first->spec), ops::attention_key(own.spec));
              EXPECT_EQ(first->chunk, own.chunk);
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(tiers.contains(ops::AttentionTier::row), device.features().subgroups);
  EXPECT_EQ(tiers.contains(ops::AttentionTier::matrix),
            device.features().f16 && !device.features().subgroup_matrices.empty());
  EXPECT_TRUE(tiers.contains(ops::AttentionTier::lane) && tiers.contains(ops::AttentionTier::tile));
}

}  // namespace
}  // namespace weft
