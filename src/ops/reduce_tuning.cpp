#include "ops/reduce_tuning.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/launch.h"
#include "weft/ops.h"

namespace weft::ops {
namespace {

using dispatch::TuningKey;
using dispatch::TuningPlan;

// Outputs past these don't change what is best.
constexpr std::uint32_t kMostOutputsClass = 20;

ReduceProblem typical(const ReduceProblem& p) {
  return {dispatch::typical_length(p.outputs, kMostOutputsClass),
          dispatch::class_length(dispatch::size_class(p.length)), p.rows};
}

std::vector<std::string> usual(const Device& device) {
  if (is_cpu(device)) return {"1x4194304", "1024x1024", "1024x4096t", "16x65536", "65536x64", "16x65536t"};
  return {"1x67108864", "4096x4096", "4096x4096t", "64x1048576", "131072x128", "64x65536t", "1x1048576"};
}

/// The mean of absolute values: sums of f16 would leave its range, and those around 0 would be all rounding.
TuneSample sample(const Device& device, DType dtype, const std::string& shape) {
  const RowsSample rows = rows_sample(shape, reduce_tunable());
  const Tensor x = unary(UnaryOp::abs, sample_operand(device, rows.shape, dtype));
  const ReduceOptions options{.axes = std::vector<std::int64_t>{rows.axis}};
  return {[x, options] { return reduce(ReduceOp::mean, x, options); }, dtype == DType::f16 ? 4e-3 : 1e-4};
}

std::string describe(const TuningPlan& stored) {
  return fmt::format("{} part{}", stored.values[0], stored.values[0] == 1 ? "" : "s");
}

}  // namespace

Split tuned_split(const Device& device, bool cpu, const ReduceProblem& problem, DType dtype) {
  dispatch::TuningTable& table = state_of(device).tuning;
  if (!table.in_use() || !is_float(dtype)) return share_out(cpu, problem);
  TuningKey key;
  key.add("reduce").add(to_string(dtype)).add(cpu ? "cpu" : "gpu").add(problem.rows ? "rows" : "columns");
  key.add("o", std::min(dispatch::size_class(problem.outputs), kMostOutputsClass));
  key.add("l", dispatch::size_class(problem.length));
  const auto stored = table.find(key, [&] {
    std::vector<TuningPlan> out{TuningPlan{0}};  // the rules
    for (const std::uint64_t parts : reduce_parts(cpu, typical(problem))) {
      out.push_back({static_cast<std::uint32_t>(parts)});
    }
    return out;
  });
  return share_out(cpu, problem, stored ? stored->values[0] : 0);
}

const Tunable& reduce_tunable() {
  static const Tunable tunable{
      "reduce",
      "ROWSxLENGTH, with a t behind it when rows lie beside each other (the first axis is reduced): 1024x4096, "
      "4096x4096t",
      {DType::f32, DType::f16},
      &usual,
      &sample,
      &describe};
  return tunable;
}

}  // namespace weft::ops
