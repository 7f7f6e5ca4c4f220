#include "ops/conv_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ops/launch.h"
#include "ops/rows.h"
#include "weft/nn.h"

namespace weft::ops {
namespace {

using dispatch::TuningKey;
using dispatch::TuningPlan;

// Places past these don't change what is best.
constexpr std::uint32_t kMostColumnsClass = 20;
// Parts of the sum that are worth trying are no shorter, and make no more workgroups, than these.
constexpr std::uint64_t kLeastPart = 64, kMostGroups = 2048;

TuningKey key_of(bool cpu, const ConvProblem& p, DType dtype) {
  TuningKey key;
  key.add("conv").add(to_string(dtype)).add(cpu ? "cpu" : "gpu");
  const auto add = [&](std::string_view name, std::uint64_t length, std::uint32_t most = 31) {
    key.add(name, std::min(dispatch::size_class(length), most));
  };
  add("r", p.rows);
  add("o", p.columns, kMostColumnsClass);
  add("i", p.inner);
  add("c", p.channels);
  add("g", p.groups);
  if (p.channels_inner) key.add("last");
  if (p.divided) key.add("divided");
  if (!p.can_pack) key.add("asitlies");
  return key;
}

std::set<std::uint64_t> splits_of(const ConvPlan& plan, const ConvProblem& p, const ConvPlan& own) {
  const std::uint64_t least = least_conv_splits(plan, p);
  std::set<std::uint64_t> out{least};
  const auto add = [&](std::uint64_t splits) {
    if (splits > least && p.inner / splits >= kLeastPart && groups_of(plan, p) * splits <= kMostGroups) {
      out.insert(splits);
    }
  };
  for (std::uint64_t splits = 2; splits <= 64; splits *= 2) add(splits);
  if (own.splits > least) {
    for (std::uint64_t splits : {own.splits / 2, own.splits, own.splits * 2}) add(splits);
  }
  return out;
}

std::vector<std::string> usual(const Device& device) {
  if (is_cpu(device)) {
    return {"1x64x56x56x64x3",    "1x128x28x28x128x3", "1x3x224x224x64x7/2", "1x256x14x14x256x3",
            "1x64x56x56x128x3/2", "1x512x7x7x512x3",   "4x1x28x28x16x5",     "1x64x56x56x64x3g64"};
  }
  return {"8x64x56x56x64x3",    "8x128x28x28x128x3", "8x256x14x14x256x3", "8x512x7x7x512x3",    "8x3x224x224x64x7/2",
          "1x64x56x56x64x3",    "1x256x14x14x256x3", "1x512x7x7x512x3",   "8x64x56x56x128x3/2", "32x64x56x56x64x3",
          "8x96x56x56x96x3g96", "1x320x64x64x320x3", "1x3x224x224x64x7/2"};
}

/// Takes `letter` and the number behind it off the end; 1 where it is not there, nothing where it is no number.
std::optional<std::int64_t> take_number(std::string& shape, char letter) {
  const std::size_t at = shape.find(letter);
  if (at == std::string::npos) return 1;
  const auto numbers = lengths_of(std::string_view(shape).substr(at + 1));
  shape.resize(at);
  return numbers && numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
}

TuneSample sample(const Device& device, DType dtype, const std::string& shape) {
  std::string rest = shape;
  const auto in_groups = take_number(rest, 'g');
  const auto by = take_number(rest, '/');
  const auto lengths = lengths_of(rest);
  if (!in_groups || !by || !lengths || lengths->size() != 6) throw bad_shape(shape, conv_tunable());
  const std::vector<std::int64_t>& n = *lengths;
  const std::int64_t groups = *in_groups, stride = *by;
  if (n[1] % groups != 0 || n[4] % groups != 0) throw bad_shape(shape, conv_tunable());
  ConvOptions options;
  options.groups = groups;
  options.window.stride = {stride, stride};
  options.window.pad_before = options.window.pad_after = {n[5] / 2, n[5] / 2};
  const Tensor x = sample_operand(device, {n[0], n[1], n[2], n[3]}, dtype);
  const Tensor f = sample_operand(device, {n[4], n[1] / groups, n[5], n[5]}, dtype);
  return {[x, f, options] { return conv(x, f, options); }, dtype == DType::f16 ? 4e-3 : 1e-4};
}

std::string describe(const TuningPlan& stored) {
  const ConvPlan plan = to_conv(stored);
  const std::string parts = plan.splits > 1 ? fmt::format(", {} parts", plan.splits) : "";
  switch (plan.kind) {
    case ConvKind::tile: return fmt::format("tile {}x{}, {} threads{}", plan.tile_m, plan.tile_n, plan.threads, parts);
    case ConvKind::packed: return fmt::format("packed {}x{}{}", plan.rows, plan.columns, parts);
    default: break;
  }
  return fmt::format("block {}x{}, lanes along {}{}", plan.rows, plan.columns,
                     plan.lanes_channels ? "channels" : "places", parts);
}

}  // namespace

TuningPlan to_tuning(const ConvPlan& p) {
  return {static_cast<std::uint32_t>(p.kind),
          p.threads,
          p.rows,
          p.columns,
          p.tile_m,
          p.tile_n,
          p.depth,
          p.lanes_channels ? 1u : 0u,
          static_cast<std::uint32_t>(p.splits)};
}

ConvPlan to_conv(const TuningPlan& stored) {
  const auto& v = stored.values;
  return {static_cast<ConvKind>(v[0]), v[1], v[2], v[3], v[4], v[5], v[6], v[7] != 0, v[8]};
}

ConvProblem typical(const ConvProblem& problem) {
  ConvProblem out = problem;
  out.rows = dispatch::typical_length(problem.rows, 31);
  out.columns = dispatch::typical_length(problem.columns, kMostColumnsClass);
  out.inner = dispatch::typical_length(problem.inner, 31);
  out.channels = dispatch::typical_length(problem.channels, 31);
  out.groups = dispatch::typical_length(problem.groups, 31);
  return out;
}

std::vector<ConvPlan> conv_candidates(bool cpu, const Limits& limits, const ConvProblem& p) {
  const ConvPlan own = choose_conv(cpu, limits, p);
  std::vector<ConvPlan> out{own};
  for (ConvPlan plan : conv_plans(cpu, limits)) {
    if (plan.kind == ConvKind::tile && p.divided) continue;  // it knows no such places
    if (plan.kind == ConvKind::packed && (!p.can_pack || p.divided)) continue;
    for (std::uint64_t splits : splits_of(plan, p, own)) {
      plan.splits = splits;
      if (to_tuning(plan) != to_tuning(own)) out.push_back(plan);
    }
  }
  return out;
}

ConvPlan conv_plan(const Device& device, const ConvProblem& p, DType dtype) {
  dispatch::TuningTable& table = state_of(device).tuning;
  const bool cpu = cpu_kernels(device);
  if (!table.in_use()) return choose_conv(cpu, device.limits(), p);
  const auto stored =
      table.find(key_of(cpu, p, dtype), [&] { return to_tunings(conv_candidates(cpu, device.limits(), typical(p))); });
  if (!stored) return choose_conv(cpu, device.limits(), p);
  ConvPlan plan = to_conv(*stored);
  plan.splits = std::max(least_conv_splits(plan, p), std::min(plan.splits, (p.inner + 7) / 8));
  return plan;
}

const Tunable& conv_tunable() {
  static const Tunable tunable{
      "conv",
      "batch x channels x height x width x filters x window, then /stride, then g and the number of groups: "
      "8x64x56x56x64x3, 8x3x224x224x64x7/2, 1x64x56x56x64x3g64",
      {DType::f32, DType::f16},
      &usual,
      &sample,
      &describe};
  return tunable;
}

}  // namespace weft::ops
