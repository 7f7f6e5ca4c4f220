// weft::tune: every plan of every class, timed in turns, checked, and the best one kept.
#include "weft/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "base/median.h"
#include "dispatch/tuning_file.h"
#include "ops/launch.h"
#include "ops/tunable.h"
#include "webgpu/instance.h"
#include "weft/error.h"
#include "weft/ops.h"
#include "weft/profiler.h"

namespace weft {
namespace ops {
namespace {

using dispatch::TuningFile;
using dispatch::TuningPlan;
using dispatch::TuningTrial;
using Clock = std::chrono::steady_clock;

constexpr double kSlow = 1.5;      // times the best: given up
constexpr double kHopeless = 3;    // times the best: given up after the first run, whose time is a rough one
constexpr double kWorthIt = 0.97;  // of the time of the plan that ships: less of a gain is noise
constexpr std::size_t kLeastRounds = 3, kMostRounds = 7, kDuels = 9;
constexpr std::size_t kLeastWins = 6;  // of the duels; three equal plans win a third of them each
constexpr int kMostRuns = 16;          // of a sample, so that one batch holds them

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::optional<TuningFile> file_of(const Device& device) {
  return TuningFile::of(state_of(device).gpu.kernels_identity());
}

/// Times runs of an op, by the device's clock where it tells.
class Timer {
 public:
  explicit Timer(const Device& device) : device_(device), by_device_(device.features().timestamps) {}

  bool by_device() const noexcept { return by_device_; }

  /// Seconds of one run, from the mean of `count` in a row. From the first kernel's start to the last one's end: a plan
  /// of several dispatches pays for what lies between them.
  double time(const std::function<Tensor()>& run, int count) {
    if (by_device_) {
      Profiler profiler(device_);
      for (int i = 0; i < count; ++i) run();
      double first = std::numeric_limits<double>::infinity(), last = -first;
      const Trace trace = profiler.finish();
      for (const TraceEvent& e : trace.events()) {
        if (!e.on_device) continue;
        first = std::min(first, e.start_us);
        last = std::max(last, e.start_us + e.duration_us);
      }
      if (last > first) return (last - first) * 1e-6 / count;
      by_device_ = false;  // timestamps that stand still
    }
    device_.synchronize();
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) run();
    device_.synchronize();
    return seconds_since(start) / count;
  }

 private:
  Device device_;
  bool by_device_;
};

double largest(const Tensor& x) {
  return static_cast<double>(max(unary(UnaryOp::abs, cast(x, DType::f32))).to_host<float>()[0]);
}

/// Largest difference as a share of the largest element; NaN where only one of them has it.
double difference(const Tensor& x, const Tensor& reference, double scale) {
  const Tensor apart = binary(BinaryOp::subtract, cast(x, DType::f32), cast(reference, DType::f32));
  return largest(apart) / (scale > 0 ? scale : 1);
}

/// One shape of one op.
struct Job {
  const Tunable* tunable;
  DType dtype;
  std::string shape;

  std::string where() const { return fmt::format("{} {}", to_string(dtype), shape); }
};

struct Entrant {
  TuningPlan plan;  // none: the one that ships
  std::vector<double> times{};
  bool alive = true;
};

class Tuner {
 public:
  Tuner(const Device& device, const TuneOptions& options)
      : device_(device), options_(options), timer_(device), start_(Clock::now()) {
    file_ = file_of(device_);
    if (options.keep && !file_) {
      throw Error(ErrorCode::invalid_argument, "tune: there is nowhere to keep choices: the disk cache is off",
                  "unset WEFT_CACHE and WEFT_CACHE_BYTES, set HOME or XDG_CACHE_HOME, or only measure");
    }
    if (options.again) return;
    if (file_) known_ = file_->load();
    for (auto& [key, plan] : table().choices()) known_.insert_or_assign(key, plan);
  }

  /// The jobs of each op in their order; whichever op has had the least time goes on.
  TuneReport run(const std::vector<std::vector<Job>>& by_op) {
    for (const auto& jobs : by_op) total_ += jobs.size();
    std::vector<std::size_t> next(by_op.size());
    std::vector<double> spent(by_op.size());
    for (; done_ < total_; ++done_) {
      std::size_t op = by_op.size();
      for (std::size_t i = 0; i < by_op.size(); ++i) {
        if (next[i] < by_op[i].size() && (op == by_op.size() || spent[i] < spent[op])) op = i;
      }
      const Job& job = by_op[op][next[op]++];
      const Clock::time_point begin = Clock::now();
      if (go_on(job)) {
        tune_job(job);
      } else {
        ++report_.left;
      }
      spent[op] += seconds_since(begin);
    }
    report_.gpu_times = timer_.by_device();
    report_.seconds = seconds_since(start_);
    return std::move(report_);
  }

 private:
  dispatch::TuningTable& table() const { return state_of(device_).tuning; }

  /// False: the time is up.
  bool go_on(const Job& job) {
    if (stopped_) return false;
    stopped_ =
        Clock::now() - start_ >= options_.budget ||
        (options_.progress && !options_.progress({done_, total_, fmt::format("{} {}", job.tunable->name, job.where()),
                                                  seconds_since(start_)}));
    return !stopped_;
  }

  void tune_job(const Job& job) {
    try {
      const TuneSample sample = job.tunable->sample(device_, job.dtype, job.shape);
      std::vector<TuningTrial::Asked> asked;
      {
        const TuningTrial trial(table());
        sample.run();
        asked = trial.asked();
      }
      // What the op calls has choices of its own, for which there are other samples.
      const std::string own = fmt::format("{} ", job.tunable->name);
      std::erase_if(asked, [&](const auto& a) { return !a.key.starts_with(own) || a.candidates.size() < 2; });
      if (asked.empty()) ++report_.without_choice;
      for (const auto& a : asked) {
        if (known_.count(a.key) != 0) {
          ++report_.stored_before;
        } else if (auto result = tune_class(job, sample, a)) {
          report_.results.push_back(std::move(*result));
        } else {
          ++report_.left;
          return;
        }
      }
    } catch (const Error& error) {
      // A usual shape may be too large for this device; one that was asked for is an error.
      const bool fatal = error.code() == ErrorCode::device_lost || error.code() == ErrorCode::io_error;
      if (fatal || !options_.shapes.empty()) throw;
      TuneResult result;
      result.op = job.tunable->name;
      result.shape = job.where();
      result.plan = "default";
      result.failures.push_back(error.what());
      report_.results.push_back(std::move(result));
    }
  }

  /// Seconds of one run by the plan, from the mean of `runs`.
  double time(const TuneSample& sample, const std::string& key, const TuningPlan& plan, int runs) {
    const TuningTrial trial(table(), key, plan);
    return timer_.time(sample.run, runs);
  }

  /// The op's result by the plan, compiled and done. Throws where that can't be.
  Tensor result_of(const TuneSample& sample, const std::string& key, const TuningPlan& plan) {
    const TuningTrial trial(table(), key, plan);
    Tensor out = sample.run();
    device_.synchronize();
    if (trial.uses() == 0) throw Error(ErrorCode::internal, "the plan was not asked for", "report this");
    return out;
  }

  /// Nothing when the time ran out before anything could be said.
  std::optional<TuneResult> tune_class(const Job& job, const TuneSample& sample, const TuningTrial::Asked& asked) {
    TuneResult result;
    result.op = job.tunable->name;
    result.shape = job.where();
    result.key = asked.key;
    result.candidates = asked.candidates.size();

    std::vector<Entrant> entrants{{TuningPlan()}};
    if (!enter_all(job, sample, asked, entrants, result)) return std::nullopt;
    const double first = entrants.front().times.front();
    const double target = device_.adapter().type == AdapterType::cpu ? 0.02 : 0.002;
    const int runs = static_cast<int>(std::clamp(target / first, 1.0, double{kMostRuns}));
    for (Entrant& e : entrants) e.times.clear();  // of one run, after a compile

    for (std::size_t round = 0; round < kMostRounds; ++round) {
      const auto left = std::count_if(entrants.begin(), entrants.end(), [](const Entrant& e) { return e.alive; });
      if (left == 1 && round >= kLeastRounds) break;
      for (std::size_t i = 0; i < entrants.size(); ++i) {  // each round begins with another
        Entrant& e = entrants[(i + round) % entrants.size()];
        if (!e.alive) continue;
        if (!go_on(job)) return std::nullopt;
        e.times.push_back(time(sample, asked.key, e.plan, runs));
      }
      drop_slow(entrants, result);
    }
    std::size_t best = 0;
    for (std::size_t i = 1; i < entrants.size(); ++i) {
      if (entrants[i].alive && median(entrants[i].times) < median(entrants[best].times)) best = i;
    }
    // The lowest of many medians is low by luck too: what it is worth shows when both run again.
    result.default_seconds = result.seconds = median(entrants[0].times);
    if (best != 0) {
      std::vector<double> shipped, found, again;
      std::size_t wins = 0;
      for (std::size_t i = 0; i < kDuels; ++i) {
        if (!go_on(job)) return std::nullopt;
        shipped.push_back(time(sample, asked.key, {}, runs));
        found.push_back(time(sample, asked.key, entrants[best].plan, runs));
        again.push_back(time(sample, asked.key, {}, runs));
        if (found[i] < std::min(shipped[i], again[i])) ++wins;
      }
      result.default_seconds = std::min(median(shipped), median(again));
      result.control = std::max(median(shipped), median(again)) / result.default_seconds;
      result.seconds = median(found);
      if (result.seconds > kWorthIt * result.default_seconds || wins < kLeastWins) {
        best = 0;
        result.seconds = result.default_seconds;
      }
    }
    const TuningPlan& plan = entrants[best].plan;
    result.plan = plan.count == 0 ? "default" : job.tunable->describe(plan);
    keep(asked.key, plan);
    return result;
  }

  /// Compiles and runs each candidate once, checks what it gives, and takes its time. False: the time is up.
  bool enter_all(const Job& job, const TuneSample& sample, const TuningTrial::Asked& asked,
                 std::vector<Entrant>& entrants, TuneResult& result) {
    const Tensor reference = result_of(sample, asked.key, {});
    const double scale = largest(reference);
    double best = time(sample, asked.key, {}, 1);
    entrants.front().times.push_back(best);
    for (const TuningPlan& plan : std::span(asked.candidates).subspan(1)) {
      if (!go_on(job)) return false;
      std::string wrong;
      try {
        const double apart = difference(result_of(sample, asked.key, plan), reference, scale);
        if (!(apart <= sample.tolerance)) wrong = fmt::format("differs by {:.2g} of the largest result", apart);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::device_lost) throw;
        wrong = error.what();
      }
      if (!wrong.empty()) {
        result.failures.push_back(fmt::format("{}: {}", job.tunable->describe(plan), wrong));
        continue;
      }
      const double seconds = time(sample, asked.key, plan, 1);
      best = std::min(best, seconds);
      if (seconds > kHopeless * best) {
        ++result.slow;
      } else {
        entrants.push_back({plan, {seconds}});
      }
    }
    return true;
  }

  /// The one that ships stays: it is what others are compared with.
  static void drop_slow(std::vector<Entrant>& entrants, TuneResult& result) {
    double best = std::numeric_limits<double>::infinity();
    for (const Entrant& e : entrants) {
      if (e.alive) best = std::min(best, median(e.times));
    }
    for (Entrant& e : entrants) {
      if (!e.alive || e.plan.count == 0 || median(e.times) <= kSlow * best) continue;
      e.alive = false;
      ++result.slow;
    }
  }

  void keep(const std::string& key, const TuningPlan& plan) {
    known_.insert_or_assign(key, plan);
    if (!options_.keep) return;
    file_.value().merge({{key, plan}});
    if (state_of(device_).options.tuning != TuningMode::off) table().set(key, plan);
  }

  Device device_;
  const TuneOptions& options_;
  Timer timer_;
  const Clock::time_point start_;
  std::optional<TuningFile> file_;
  dispatch::TuningChoices known_;  // classes that are left alone
  TuneReport report_;
  std::size_t done_ = 0, total_ = 0;
  bool stopped_ = false;
};

using Tunables = std::span<const Tunable* const>;

const Tunable* tunable_named(std::string_view name, Tunables all) {
  std::vector<std::string_view> names;
  for (const Tunable* t : all) {
    if (t->name == name) return t;
    names.push_back(t->name);
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("tune: there is nothing to tune in '{}'", name.substr(0, 60)),
              fmt::format("use {}", fmt::join(names, ", ")));
}

std::vector<DType> dtypes_of(const Device& device, const Tunable& tunable, const TuneOptions& options) {
  std::vector<DType> out;
  for (const DType dtype : tunable.dtypes) {
    const bool wanted = options.dtypes.empty() ||
                        std::find(options.dtypes.begin(), options.dtypes.end(), dtype) != options.dtypes.end();
    if (wanted && (dtype != DType::f16 || device.features().f16)) out.push_back(dtype);
  }
  return out;
}

/// What is to be measured, by op: the first shape for each dtype, then the second, ...
std::vector<std::vector<Job>> jobs_of(const Device& device, const TuneOptions& options, Tunables all) {
  std::vector<const Tunable*> ops;
  ops.reserve(options.ops.size());
  for (const std::string& name : options.ops) ops.push_back(tunable_named(name, all));
  if (options.ops.empty()) ops.assign(all.begin(), all.end());
  if (!options.shapes.empty() && options.ops.size() != 1) {
    throw Error(ErrorCode::invalid_argument, fmt::format("tune: shapes for {} ops", ops.size()),
                "name the one op that they are shapes of");
  }
  std::vector<std::vector<Job>> by_op;
  for (const Tunable* t : ops) {
    const std::vector<DType> dtypes = dtypes_of(device, *t, options);
    if (dtypes.empty()) continue;
    std::vector<Job>& jobs = by_op.emplace_back();
    for (const std::string& shape : options.shapes.empty() ? t->usual(device) : options.shapes) {
      for (const DType dtype : dtypes) jobs.push_back({t, dtype, shape});
    }
  }
  if (by_op.empty()) {
    throw Error(ErrorCode::invalid_argument, "tune: none of these ops is tuned for these dtypes on this device",
                "use f32, or f16 where the device has it");
  }
  return by_op;
}

}  // namespace

TuneReport run_tuning(const Device& device, const TuneOptions& options, Tunables all) {
  const std::vector<std::vector<Job>> by_op = jobs_of(device, options, all);
  return Tuner(device, options).run(by_op);
}

}  // namespace ops

std::vector<TunableOp> tunable_ops(const Device& device) {
  std::vector<TunableOp> out;
  for (const ops::Tunable* t : ops::tunables()) {
    out.push_back({std::string(t->name), std::string(t->syntax), t->usual(device)});
  }
  return out;
}

TuneReport tune(const Device& device, const TuneOptions& options) {
  return ops::run_tuning(device, options, ops::tunables());
}

bool library_devices_tune_apart() noexcept {
  return webgpu::bounds_checks_by_device();
}

std::vector<TunedChoice> tuned_choices(const Device& device) {
  std::vector<TunedChoice> out;
  for (const auto& [key, plan] : ops::state_of(device).tuning.choices()) {
    TunedChoice& choice = out.emplace_back(TunedChoice{key, "default"});
    for (const ops::Tunable* t : ops::tunables()) {
      if (plan.count > 0 && key.starts_with(fmt::format("{} ", t->name))) choice.plan = t->describe(plan);
    }
  }
  return out;
}

void clear_tuned_choices(const Device& device) {
  ops::state_of(device).tuning.clear();
  if (const auto file = ops::file_of(device)) file->clear();
}

}  // namespace weft
