// weft::tune through a device: candidates are kernels that the catalogue has and give right results, stored choices are
// really used, and the tuner keeps what is faster and drops what is slow, wrong or broken.
#include "weft/tune.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "dispatch/state.h"
#include "dispatch/tuning_file.h"
#include "ops/conv_codegen.h"
#include "ops/conv_tuning.h"
#include "ops/matmul.h"
#include "ops/matmul_codegen.h"
#include "ops/matmul_tuning.h"
#include "ops/plan_as.h"
#include "ops/tunable.h"
#include "unit/kernel_class_test.h"
#include "unit/tuning_trials.h"
#include "weft/weft.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using dispatch::TuningPlan;
using dispatch::TuningTrial;
using ops::ConvPlan;
using ops::ConvProblem;
using ops::DeviceClass;
using ops::MatmulPlan;
using ops::MatmulProblem;
using testing::asked_by;
using testing::check_every_candidate;
using testing::KernelClassTest;
using testing::table;
using testing::test_device;
using testing::upload;
using testing::values;

/// A cache folder of this program's own, before any device is opened.
const fs::path& cache_home() {
  static const fs::path home = [] {
    const fs::path path = fs::path(::testing::TempDir()) / ("weft_tune_" + std::to_string(getpid()));
    setenv("XDG_CACHE_HOME", path.c_str(), 1);
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);  // it would look for the same folder
    unsetenv("WEFT_CACHE");
    unsetenv("WEFT_CACHE_BYTES");
    unsetenv("WEFT_TUNE");
    return path;
  }();
  return home;
}
class CacheHome : public ::testing::Environment {
 public:
  void SetUp() override { fs::remove_all(cache_home()); }
  void TearDown() override { fs::remove_all(cache_home()); }
};
const auto* const cache_home_set = ::testing::AddGlobalTestEnvironment(new CacheHome);

// -- candidates -----------------------------------------------------------------------------------------------------

// D11: a stored choice can't come to a kernel that the catalogue, and with it the test that compiles all, lacks.
TEST(Candidates, OfProductsAreInTheCatalogue) {
  const auto key = [](MatmulPlan plan, DType dtype) {
    ops::MatmulSpec spec;
    spec.plan = plan;
    spec.in = dtype;
    return ops::matmul_key(spec);
  };
  const std::vector<std::uint64_t> lengths{1, 2, 8, 64, 1024, 8192};
  for (DeviceClass of : {DeviceClass::gpu, DeviceClass::cpu}) {
    for (DType dtype : {f32, f16, i32, u32}) {
      std::set<std::string> listed;
      const std::uint32_t subgroup = ops::fixed_subgroup(test_device().features());
      const ops::MatrixUnit unit = ops::usable_unit(test_device(), dtype);
      for (const MatmulPlan& plan : ops::all_plans(of, test_device().limits(), dtype, subgroup, unit)) {
        listed.insert(key(plan, dtype));
      }
      for (std::uint64_t m : lengths) {
        for (std::uint64_t n : lengths) {
          for (std::uint64_t k : {std::uint64_t{4}, std::uint64_t{512}, std::uint64_t{1} << 20}) {
            for (int turned = 0; turned < 4; ++turned) {
              const bool packed = dtype == u32;
              const MatmulProblem problem{.m = m,
                                          .n = n,
                                          .k = k,
                                          .dtype = dtype,
                                          .a_transposed = !packed && (turned & 1) != 0,
                                          .b_transposed = packed || (turned & 2) != 0,
                                          .subgroup = subgroup,
                                          .unit = unit};
              const auto plans = ops::matmul_candidates(of, test_device().limits(), problem);
              EXPECT_EQ(plans.front(), ops::choose(of, test_device().limits(), problem));
              EXPECT_LE(plans.size(), 100u);
              std::set<std::vector<std::uint32_t>> seen;
              for (const MatmulPlan& plan : plans) {
                EXPECT_TRUE(listed.contains(key(plan, dtype))) << key(plan, dtype);
                EXPECT_FALSE(plan.quads > 1 && problem.b_transposed);
                EXPECT_GE(plan.splits, ops::least_splits(of, problem));
                EXPECT_EQ(ops::to_matmul(ops::to_tuning(plan)), plan);
                const TuningPlan numbers = ops::to_tuning(plan);
                EXPECT_TRUE(seen.insert({numbers.values.begin(), numbers.values.end()}).second) << "twice";
              }
            }
          }
        }
      }
    }
  }
}

TEST(Candidates, OfConvolutionsAreInTheCatalogue) {
  const auto key = [](const ConvPlan& plan) {
    ops::ConvSpec spec;
    spec.plan = plan;
    return ops::conv_key(spec);
  };
  for (bool cpu : {false, true}) {
    std::set<std::string> listed;
    for (const ConvPlan& plan : ops::conv_plans(cpu, test_device().limits())) listed.insert(key(plan));
    for (std::uint64_t rows : {1, 4, 64}) {
      for (std::uint64_t columns : {1, 64, 1 << 18}) {
        for (std::uint64_t inner : {1, 1024, 1 << 20}) {
          for (int flags = 0; flags < 8; ++flags) {
            const ConvProblem problem{.rows = rows,
                                      .columns = columns,
                                      .inner = inner,
                                      .groups = std::uint64_t{(flags & 1) != 0 ? 8u : 1u},
                                      .channels = 4,
                                      .can_pack = (flags & 2) != 0,
                                      .divided = (flags & 4) != 0};
            const auto plans = ops::conv_candidates(cpu, test_device().limits(), problem);
            EXPECT_LE(plans.size(), 100u);
            for (const ConvPlan& plan : plans) {
              EXPECT_TRUE(listed.contains(key(plan))) << key(plan);
              EXPECT_FALSE(plan.kind == ops::ConvKind::tile && problem.divided);
              EXPECT_FALSE(plan.kind == ops::ConvKind::packed && !problem.can_pack);
              EXPECT_GE(plan.splits, ops::least_conv_splits(plan, problem));
              EXPECT_EQ(ops::to_tuning(ops::to_conv(ops::to_tuning(plan))), ops::to_tuning(plan));
            }
          }
        }
      }
    }
  }
}

class Candidates : public KernelClassTest {};
INSTANTIATE_TEST_SUITE_P(KernelClasses, Candidates, testing::both_kernel_classes(), testing::kernel_class_name);

// Lengths that are not those at which a class is measured, and odd; sums of small integers are exact in f32.
TEST_P(Candidates, OfProductsAreRight) {
  struct Case {
    std::int64_t batch, m, n, k;
    bool turned;
  };
  for (const auto& [batch, m, n, k, turned] :
       {Case{1, 45, 77, 130, true}, {1, 1, 50, 300, true}, {3, 9, 12, 515, false}}) {
    const auto a = values(batch * m * k, 1), b = values(batch * k * n, 2);
    std::vector<float> want;
    for (std::int64_t x = 0; x < batch; ++x) {
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (std::int64_t e = 0; e < k; ++e) {
            const std::int64_t at = turned ? j * k + e : e * n + j;
            sum += a[static_cast<std::size_t>((x * m + i) * k + e)] * b[static_cast<std::size_t>(x * k * n + at)];
          }
          want.push_back(sum);
        }
      }
    }
    const Tensor ta = upload(a, {batch, m, k});
    const std::vector<std::int64_t> swapped{0, 2, 1};
    const Tensor tb = turned ? transpose(upload(b, {batch, n, k}), swapped) : upload(b, {batch, k, n});
    check_every_candidate([&] { return matmul(ta, tb); }, "matmul ", want);
  }
}

// Packed integers, by units too where the device has them.
TEST_P(Candidates, OfInt8ProductsAreRight) {
  for (const char* bad : {"32x32", "32x32x31", "2x2x32x32x32", "32x32x32t"}) {
    EXPECT_THROW(ops::matmul_int8_tunable().sample(test_device(), u32, bad), Error) << bad;
  }
  for (const char* shape : {"40x36x132", "1x33x256"}) {
    const ops::TuneSample sample = ops::matmul_int8_tunable().sample(test_device(), u32, shape);
    const std::vector<std::int32_t> want = sample.run().to_host<std::int32_t>();
    const auto asked = asked_by(sample.run, "matmul_int8 ");
    ASSERT_EQ(asked.size(), 1u) << shape;
    for (const TuningPlan& plan : asked[0].candidates) {
      const TuningTrial trial(table(), asked[0].key, plan);
      ASSERT_EQ(sample.run().to_host<std::int32_t>(), want) << ops::matmul_int8_tunable().describe(plan);
      EXPECT_GE(trial.uses(), 1u);
    }
  }
}

struct ConvCase {
  std::int64_t batch, channels, length, filters, window, stride, groups;
  Layout layout = Layout::channels_first;
};

TEST_P(Candidates, OfConvolutionsAreRight) {
  const ConvCase cases[] = {{2, 5, 13, 11, 3, 1, 1},
                            {1, 12, 9, 12, 3, 2, 12},
                            {2, 9, 8, 3, 2, 1, 1, Layout::channels_last},
                            {1, 70, 5, 9, 3, 1, 1}};
  for (const ConvCase& c : cases) {
    const std::int64_t out = (c.length + 2 - c.window) / c.stride + 1, per = c.channels / c.groups;
    const std::int64_t filters = c.filters / c.groups;
    const bool first = c.layout == Layout::channels_first;
    const auto x = values(c.batch * c.channels * c.length * c.length, 1);
    const auto f = values(c.filters * per * c.window * c.window, 2);
    std::vector<float> want(static_cast<std::size_t>(c.batch * c.filters * out * out));
    const auto at = [&](std::int64_t n, std::int64_t channel, std::int64_t h, std::int64_t w, std::int64_t channels,
                        std::int64_t length) {
      return static_cast<std::size_t>(first ? ((n * channels + channel) * length + h) * length + w
                                            : ((n * length + h) * length + w) * channels + channel);
    };
    for (std::int64_t n = 0; n < c.batch; ++n) {
      for (std::int64_t k = 0; k < c.filters; ++k) {
        for (std::int64_t h = 0; h < out; ++h) {
          for (std::int64_t w = 0; w < out; ++w) {
            float sum = 0;
            for (std::int64_t e = 0; e < per * c.window * c.window; ++e) {
              const std::int64_t channel = k / filters * per + e / (c.window * c.window);
              const std::int64_t ih = h * c.stride + e / c.window % c.window - 1, iw = w * c.stride + e % c.window - 1;
              if (ih < 0 || iw < 0 || ih >= c.length || iw >= c.length) continue;
              sum += x[at(n, channel, ih, iw, c.channels, c.length)] *
                     f[static_cast<std::size_t>(k * per * c.window * c.window + e)];
            }
            want[at(n, k, h, w, c.filters, out)] = sum;
          }
        }
      }
    }
    const Tensor tx = upload(
        x, first ? Shape{c.batch, c.channels, c.length, c.length} : Shape{c.batch, c.length, c.length, c.channels});
    const Tensor tf = upload(f, {c.filters, per, c.window, c.window});
    ConvOptions options;
    options.groups = c.groups;
    options.layout = c.layout;
    options.window = {.stride = {c.stride, c.stride}, .pad_before = {1, 1}, .pad_after = {1, 1}};
    check_every_candidate([&] { return conv(tx, tf, options); }, "conv ", want);
  }
}

// Strides past all phases are divided by in the kernel; tiles know no such places, also where a group has many rows.
TEST_P(Candidates, OfDividedPlacesAreRight) {
  const std::int64_t length = 3, stride = 300, channels = 3, outputs = 12, window = 2;
  const auto x = values(channels * length, 1), f = values(channels * outputs * window, 2);
  const std::int64_t out = (length - 1) * stride + window;
  std::vector<float> want(static_cast<std::size_t>(outputs * out));
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t k = 0; k < outputs; ++k) {
      for (std::int64_t i = 0; i < length; ++i) {
        for (std::int64_t e = 0; e < window; ++e) {
          want[static_cast<std::size_t>(k * out + i * stride + e)] +=
              x[static_cast<std::size_t>(c * length + i)] * f[static_cast<std::size_t>((c * outputs + k) * window + e)];
        }
      }
    }
  }
  const Tensor tx = upload(x, {1, channels, length}), tf = upload(f, {channels, outputs, window});
  ConvTransposeOptions options;
  options.window.stride = {stride};
  EXPECT_EQ(conv_transpose(tx, tf, options).to_host<float>(), want);
  check_every_candidate([&] { return conv_transpose(tx, tf, options); }, "conv ", want);
}

// -- stored choices -------------------------------------------------------------------------------------------------

class Stored : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("WEFT_CACHE");
    clear_tuned_choices(test_device());
  }
  void TearDown() override { SetUp(); }
};

TEST_F(Stored, ChoicesAreUsedAndWhatIsNoCandidateIsNot) {
  const Tensor a = upload(values(64 * 1024, 1), {64, 1024}), b = upload(values(1024 * 64, 2), {1024, 64});
  const auto run = [&] { return matmul(a, b); };
  const std::vector<float> want = run().to_host<float>();
  const auto dispatches = [&] {
    const std::uint64_t before = test_device().stats().dispatches;
    EXPECT_EQ(run().to_host<float>(), want);
    return test_device().stats().dispatches - before;
  };
  const std::uint64_t uses = test_device().stats().tuned_ops;
  const std::uint64_t own = dispatches();
  ASSERT_NE(own, 2u);
  // One that reads the operands as they lie and cuts the sums into two parts takes two: the second adds them up.
  const auto asked = asked_by(run, "matmul ");
  ASSERT_EQ(asked.size(), 1u);
  const auto cut = std::find_if(asked[0].candidates.begin(), asked[0].candidates.end(), [](const TuningPlan& p) {
    const MatmulPlan plan = ops::to_matmul(p);
    return plan.splits == 2 && plan.kind != ops::MatmulKind::panel;
  });
  ASSERT_NE(cut, asked[0].candidates.end());
  table().set(asked[0].key, *cut);
  EXPECT_EQ(dispatches(), 2u);
  EXPECT_EQ(test_device().stats().tuned_ops, uses + 1);
  // A kernel that this device lacks, numbers that are no plan, and the plan that ships.
  MatmulPlan none = ops::to_matmul(*cut);
  none.threads *= 4;
  const TuningPlan others[] = {ops::to_tuning(none), {}, {99}, {99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
  for (const TuningPlan& other : others) {
    table().set(asked[0].key, other);
    EXPECT_EQ(dispatches(), own);
  }
  EXPECT_EQ(test_device().stats().tuned_ops, uses + 1);
  table().set(asked[0].key, *cut);
  clear_tuned_choices(test_device());
  EXPECT_EQ(dispatches(), own);
}

// For each op with a table: a candidate counts, numbers that are none do not.
TEST_F(Stored, ChoicesOfEveryOpAreUsed) {
  const Tensor x = upload(values(3 * 8192, 1), {3, 8192});
  const Tensor q = upload(values(4 * 32, 1), {1, 4, 1, 32}), k = upload(values(4 * 512 * 32, 2), {1, 4, 512, 32});
  struct Op {
    std::string_view name;
    std::function<Tensor()> run;
  };
  const Op all[] = {{"rows ", [&] { return softmax(x, {.axis = 1}); }},
                    {"reduce ", [&] { return reduce(ReduceOp::max, x, {.axes = std::vector<std::int64_t>{1}}); }},
                    {"attention ", [&] { return attention(q, k, k); }}};
  for (const Op& op : all) {
    const std::vector<float> want = op.run().to_host<float>();
    const auto asked = asked_by(op.run, op.name);
    ASSERT_EQ(asked.size(), 1u) << op.name;
    ASSERT_GE(asked[0].candidates.size(), 2u) << asked[0].key;
    const auto uses = [&] {
      const std::uint64_t before = test_device().stats().tuned_ops;
      const std::vector<float> got = op.run().to_host<float>();
      EXPECT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 + 1e-4 * std::abs(want[i]));
      return test_device().stats().tuned_ops - before;
    };
    EXPECT_EQ(uses(), 0u);
    table().set(asked[0].key, asked[0].candidates[1]);
    EXPECT_EQ(uses(), 1u) << asked[0].key;
    for (const TuningPlan& none : {TuningPlan{9, 9, 9, 9, 9}, TuningPlan{77777}, TuningPlan{}}) {
      table().set(asked[0].key, none);
      EXPECT_EQ(uses(), 0u) << asked[0].key;
    }
    clear_tuned_choices(test_device());
  }
}

// Blocks of a large array must have the bits of the whole: they ask for its class.
TEST_F(Stored, BlocksAskAsTheWholeDoes) {
  const Tensor whole = upload(values(64 * 4096, 1), {64, 4096}), block = upload(values(8 * 4096, 1), {8, 4096});
  for (const bool rows : {false, true}) {
    const auto run = [&](const Tensor& x) {
      return rows ? softmax(x, {.axis = 1}) : reduce(ReduceOp::sum, x, {.axes = std::vector<std::int64_t>{1}});
    };
    const std::string_view op = rows ? "rows " : "reduce ";
    const std::string key = asked_by([&] { return run(whole); }, op).at(0).key;
    EXPECT_NE(asked_by([&] { return run(block); }, op).at(0).key, key);
    const ops::PlanAs as(8, 64);
    EXPECT_EQ(asked_by([&] { return run(block); }, op).at(0).key, key);
  }
}

// -- the tuner ------------------------------------------------------------------------------------------------------

/// An op of this file's, whose plans 1 to 5 take so many times the work; 3 gives wrong results, 4 can't be compiled.
constexpr int kWork[] = {0, 6, 1, 1, 1, 60};
std::uint32_t own_choice = 1;

Tensor fake_op(const Tensor& x) {
  dispatch::TuningKey key;
  key.add("fake").add("x", dispatch::size_class(static_cast<std::uint64_t>(x.size())));
  std::vector<TuningPlan> plans{{own_choice}};
  for (std::uint32_t p = 1; p <= 5; ++p) {
    if (p != own_choice) plans.push_back({p});
  }
  const auto stored = table().find(key, [&] { return plans; });
  const std::uint32_t plan = stored ? stored->values[0] : own_choice;
  if (plan == 4) throw Error(ErrorCode::compile_error, "plan 4 has no kernel", "none");
  Tensor y = x;
  for (int i = 0; i < kWork[plan]; ++i) y = unary(UnaryOp::abs, y);
  return plan == 3 ? binary(BinaryOp::add, y, full(test_device(), {1}, 0.5, f32)) : y;
}

const ops::Tunable& fake() {
  static const ops::Tunable tunable{
      "fake",
      "N",
      {f32},
      [](const Device&) -> std::vector<std::string> { return {"200000", "400000", "100"}; },
      [](const Device& device, DType dtype, const std::string& shape) -> ops::TuneSample {
        const auto n = ops::lengths_of(shape);
        if (!n || n->size() != 1) throw ops::bad_shape(shape, fake());
        const Tensor x = ops::sample_operand(device, {n->front()}, dtype);
        return {[x] { return fake_op(x); }, 0};
      },
      [](const TuningPlan& plan) { return "plan " + std::to_string(plan.values[0]); }};
  return tunable;
}

class Tuner : public Stored {
 protected:
  static TuneReport tune(TuneOptions options) {
    const ops::Tunable* all[] = {&fake()};
    if (options.budget == TuneOptions().budget) options.budget = std::chrono::minutes(5);
    return ops::run_tuning(test_device(), options, all);
  }
  static dispatch::TuningChoices on_disk() {
    return dispatch::TuningFile::of(test_device().state()->gpu.kernels_identity())->load();
  }
};

TEST_F(Tuner, KeepsTheFastestAndDropsSlowWrongAndBroken) {
  own_choice = 1;
  std::vector<TuneProgress> seen;
  TuneOptions options{.shapes = {"400000"}, .progress = [&](const TuneProgress& p) {
                        seen.push_back(p);
                        return true;
                      }};
  options.ops = {"fake"};
  // The clock decides, and on a loaded machine it may be wrong about a plan of six times the work: not each time.
  TuneReport report;
  for (int attempt = 0; attempt < 5; ++attempt) {
    clear_tuned_choices(test_device());
    seen.clear();
    report = tune(options);
    ASSERT_EQ(report.results.size(), 1u);
    const TuneResult& r = report.results[0];
    if (r.plan == "plan 2" && r.slow == 1 && r.default_seconds > 1.5 * r.seconds) break;
  }
  const TuneResult& r = report.results[0];
  EXPECT_EQ(r.op, "fake");
  EXPECT_EQ(r.shape, "float32 400000");
  EXPECT_EQ(r.key, "fake x19");
  EXPECT_EQ(r.plan, "plan 2");
  EXPECT_EQ(r.candidates, 5u);
  EXPECT_EQ(r.slow, 1u);
  ASSERT_EQ(r.failures.size(), 2u);
  EXPECT_EQ(r.failures[0].rfind("plan 3: differs by ", 0), 0u) << r.failures[0];
  EXPECT_EQ(r.failures[1].rfind("plan 4: plan 4 has no kernel", 0), 0u) << r.failures[1];
  EXPECT_GT(r.default_seconds, 1.5 * r.seconds);
  EXPECT_EQ(report.left, 0u);
  EXPECT_EQ(report.stored_before, 0u);
  EXPECT_GE(seen.size(), 5u);
  EXPECT_EQ(seen[0].what, "fake float32 400000");
  EXPECT_EQ(seen[0].total, 1u);

  // In use at once, and on disk.
  const std::uint64_t before = test_device().stats().dispatches;
  fake_op(ops::sample_operand(test_device(), {400000}, f32));
  EXPECT_EQ(test_device().stats().dispatches - before, 2u);  // the operand and one of work
  EXPECT_EQ(on_disk(), (dispatch::TuningChoices{{"fake x19", {2}}}));
  ASSERT_EQ(tuned_choices(test_device()).size(), 1u);

  // Not measured again, but when asked to.
  EXPECT_EQ(tune(options).stored_before, 1u);
  options.again = true;
  EXPECT_EQ(tune(options).results.size(), 1u);
}

TEST_F(Tuner, KeepsThePlanThatShipsWhereNoneIsFaster) {
  own_choice = 2;
  const TuneReport report = tune({.ops = {"fake"}, .shapes = {"400000"}});
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_EQ(report.results[0].plan, "default");
  EXPECT_EQ(report.results[0].seconds, report.results[0].default_seconds);
  EXPECT_EQ(on_disk(), (dispatch::TuningChoices{{"fake x19", {}}}));
  ASSERT_EQ(tuned_choices(test_device()).size(), 1u);
  EXPECT_EQ(tuned_choices(test_device())[0].plan, "default");
}

TEST_F(Tuner, OnlyMeasuresWhenAskedTo) {
  own_choice = 1;
  EXPECT_EQ(tune({.ops = {"fake"}, .shapes = {"200000"}, .keep = false}).results.size(), 1u);
  EXPECT_TRUE(on_disk().empty());
  EXPECT_TRUE(tuned_choices(test_device()).empty());
  setenv("WEFT_CACHE", "0", 1);
  EXPECT_EQ(tune({.ops = {"fake"}, .shapes = {"200000"}, .keep = false}).results.size(), 1u);
  try {
    tune({.ops = {"fake"}});
    FAIL() << "nowhere to keep it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("WEFT_CACHE"), std::string::npos);
  }
}

TEST_F(Tuner, EndsWithItsBudget) {
  own_choice = 1;
  const TuneReport none = tune({.budget = std::chrono::nanoseconds(0)});
  EXPECT_TRUE(none.results.empty());
  EXPECT_EQ(none.left, 3u);
  // Stopped amid the second shape: what was finished stays, what was not is not kept.
  const TuneReport one = tune({.progress = [](const TuneProgress& p) { return p.done == 0; }});
  EXPECT_EQ(one.results.size(), 1u);
  EXPECT_EQ(one.left, 2u);
  EXPECT_EQ(on_disk().size(), 1u);
  int calls = 0;
  const TuneReport half =
      tune({.ops = {"fake"}, .shapes = {"400000"}, .progress = [&](const TuneProgress&) { return ++calls < 4; }});
  EXPECT_TRUE(half.results.empty());
  EXPECT_EQ(half.left, 1u);
  EXPECT_EQ(on_disk().size(), 1u);
}

// An op that takes no time gets all of its shapes in before a slow one's second.
TEST_F(Tuner, TheOpThatHadTheLeastTimeGoesOn) {
  own_choice = 1;
  ops::Tunable quick = fake();
  quick.name = "quick";  // whose samples ask for nothing
  const ops::Tunable* all[] = {&fake(), &quick};
  std::vector<std::string> began;
  TuneOptions options{.budget = std::chrono::minutes(5), .keep = false, .progress = [&](const TuneProgress& p) {
                        EXPECT_EQ(p.total, 6u);
                        if (began.empty() || began.back() != p.what) began.push_back(p.what);
                        return true;
                      }};
  EXPECT_EQ(ops::run_tuning(test_device(), options, all).left, 0u);
  EXPECT_EQ(began, (std::vector<std::string>{"fake float32 200000", "quick float32 200000", "quick float32 400000",
                                             "quick float32 100", "fake float32 400000", "fake float32 100"}));
}

// -- the library's own ------------------------------------------------------------------------------------------------

Device opened(TuningMode tuning) {
  DeviceOptions options;
  options.tuning = tuning;
  return Device::open(options);
}

TEST_F(Stored, AreReadByDevicesThatOpenLater) {
  TuneOptions options{.ops = {"matmul"}, .dtypes = {f32}, .shapes = {"32x32x32"}};
  options.budget = std::chrono::minutes(5);
  const TuneReport report = tune(test_device(), options);
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_GE(report.results[0].candidates, 2u);
  EXPECT_TRUE(report.results[0].failures.empty()) << report.results[0].failures[0];
  EXPECT_GT(report.results[0].seconds, 0);
  EXPECT_LE(report.results[0].seconds, report.results[0].default_seconds);
  const auto known = tuned_choices(test_device());
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known[0].key, report.results[0].key);
  EXPECT_EQ(known[0].plan, report.results[0].plan);
  {
    const Device later = Device::open();
    ASSERT_EQ(tuned_choices(later).size(), 1u);
    EXPECT_EQ(tuned_choices(later)[0].plan, known[0].plan);
    EXPECT_TRUE(tuned_choices(opened(TuningMode::off)).empty());
    setenv("WEFT_TUNE", "off", 1);
    EXPECT_TRUE(tuned_choices(Device::open()).empty());
    EXPECT_EQ(tuned_choices(opened(TuningMode::read)).size(), 1u);
    setenv("WEFT_TUNE", "on", 1);
    EXPECT_THROW(Device::open(), Error);
    unsetenv("WEFT_TUNE");
    setenv("WEFT_CACHE", "0", 1);
    EXPECT_TRUE(tuned_choices(Device::open()).empty());
    unsetenv("WEFT_CACHE");
  }
  // Without bounds checks other kernels may be the fastest ones: Dawn leaves them out of whole devices only.
  DeviceOptions library;
  library.library_kernels_only = true;
  EXPECT_EQ(tuned_choices(Device::open(library)).size(), implementation_name() == "dawn" ? 0u : 1u);
  clear_tuned_choices(test_device());
  EXPECT_TRUE(tuned_choices(Device::open()).empty());
}

TEST(Tune, RefusesWhatIsNotThere) {
  const auto code_of = [](const TuneOptions& options) {
    try {
      tune(test_device(), options);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("Fix: "), std::string::npos);
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code_of({.ops = {"softmin"}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.shapes = {"64x64x64"}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.ops = {"matmul", "conv"}, .shapes = {"64x64x64"}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.ops = {"matmul"}, .dtypes = {i32}}), ErrorCode::invalid_argument);
  for (const char* shape : {"", "64", "64x64", "64x64x", "x64x64", "64x64x0", "64x64x-1", "64X64X64", "1x2x3x4x5", "t",
                            "64x64x64tt", "99999999999999999999x1x1", "64x64x2147483648", "64 x 64 x 64"}) {
    EXPECT_EQ(code_of({.ops = {"matmul"}, .shapes = {shape}}), ErrorCode::invalid_argument) << shape;
  }
  for (const char* shape : {"1x2x3x4x5", "1x3x8x8x4x3g2", "1x4x8x8x4x3/", "1x4x8x8x4x3g", "1x4x8x8x4x3/2/2", "g2/2"}) {
    EXPECT_EQ(code_of({.ops = {"conv"}, .shapes = {shape}}), ErrorCode::invalid_argument) << shape;
  }
  for (const char* shape : {"64", "64x64x64", "t", "64x64tt", "0x64", "64t64"}) {
    EXPECT_EQ(code_of({.ops = {"rows"}, .shapes = {shape}}), ErrorCode::invalid_argument) << shape;
    EXPECT_EQ(code_of({.ops = {"reduce"}, .shapes = {shape}}), ErrorCode::invalid_argument) << shape;
  }
  for (const char* shape : {"1x2x3x4x5", "1x4x3x8x8x16", "1x4x4x8x8x16t", "1x2x2x2x2x2x2"}) {
    EXPECT_EQ(code_of({.ops = {"attention"}, .shapes = {shape}}), ErrorCode::invalid_argument) << shape;
  }
}

TEST(Tune, UsualShapesAreShapes) {
  for (const ops::Tunable* t : ops::tunables()) {
    for (const std::string& shape : t->usual(test_device())) {
      EXPECT_TRUE(t->sample(test_device(), t->dtypes[0], shape).run) << t->name << " " << shape;
    }
  }
  ASSERT_EQ(tunable_ops(test_device()).size(), ops::tunables().size());
  EXPECT_EQ(tunable_ops(test_device())[0].name, "matmul");
}

}  // namespace
}  // namespace weft
