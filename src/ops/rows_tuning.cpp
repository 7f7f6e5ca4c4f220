#include "ops/rows_tuning.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/launch.h"
#include "ops/plan_as.h"
#include "weft/ops.h"

namespace weft::ops {
namespace {

using dispatch::TuningKey;
using dispatch::TuningPlan;

enum Kind : std::uint32_t { kPieces, kHold };

// Rows past these don't change what is best.
constexpr std::uint32_t kMostRowsClass = 20;

/// Dense rows of the class's lengths, beside each other or below each other.
std::pair<AxisPair, AxisPair> typical(std::uint64_t rows, std::uint64_t length, bool by_column) {
  rows = dispatch::typical_length(rows, kMostRowsClass);
  length = dispatch::class_length(dispatch::size_class(length));
  AxisPair kept, row;
  kept.length[1] = rows;
  row.length[1] = length;
  kept.stride[1] = static_cast<std::int64_t>(by_column ? 1 : length);
  row.stride[1] = static_cast<std::int64_t>(by_column ? rows : 1);
  return {kept, row};
}

std::vector<std::string> usual(const Device& device) {
  if (is_cpu(device)) return {"16x65536", "1024x1024", "1x1048576", "64x4096", "1024x1024t", "16x65536t"};
  return {"4096x4096", "32768x1024", "64x131072", "1024x32768", "131072x128", "4096x4096t", "1x16777216"};
}

TuneSample sample(const Device& device, DType dtype, const std::string& shape) {
  const RowsSample rows = rows_sample(shape, rows_tunable());
  const Tensor x = sample_operand(device, rows.shape, dtype);
  return {[x, axis = rows.axis] { return softmax(x, {.axis = axis}); }, dtype == DType::f16 ? 4e-3 : 1e-4};
}

std::string describe(const TuningPlan& stored) {
  const RowChoice choice = to_row_choice(stored);
  if (!choice.hold) return fmt::format("{} piece{} a row", choice.pieces, choice.pieces == 1 ? "" : "s");
  return fmt::format("held, {} to a thread, up to {} threads{}", choice.hold->units, choice.hold->most_threads,
                     choice.hold->subgroups ? "" : ", no subgroup operations");
}

}  // namespace

TuningPlan to_tuning(const RowChoice& choice) {
  if (!choice.hold) return {kPieces, static_cast<std::uint32_t>(choice.pieces)};
  const HoldShape& h = *choice.hold;
  return {kHold, h.units, h.most_threads, h.turns, h.subgroups ? 1u : 0u};
}

RowChoice to_row_choice(const TuningPlan& stored) {
  const auto& v = stored.values;
  if (v[0] == kHold) return {.hold = HoldShape{v[1], v[2], v[3], v[4] != 0}};
  return {.pieces = v[1]};
}

RowPlan tuned_row_plan(const Device& device, const AxisPair& kept, const AxisPair& row, bool quads, DType dtype) {
  dispatch::TuningTable& table = state_of(device).tuning;
  const KernelClass kernels = kernel_class(device);
  const RowPlan own = plan_rows(device, kernels, kept, row, quads);
  if (!table.in_use() || !is_float(dtype)) return own;
  // As for the whole array where this is a block of it: the class, so the plan, must be the same.
  const std::uint64_t rows = PlanAs::rows(kept.count());
  TuningKey key;
  key.add("rows").add(to_string(dtype)).add(kernels == KernelClass::cpu ? "cpu" : "gpu");
  key.add(own.by_column ? "columns" : "rows");
  key.add("r", std::min(dispatch::size_class(rows), kMostRowsClass)).add("l", dispatch::size_class(row.count()));
  if (kernels == KernelClass::gpu_subgroups) key.add("subgroups");
  if (quads) key.add("quads");
  const auto stored = table.find(key, [&] {
    const auto [all, one] = typical(rows, row.count(), own.by_column);
    // The rules themselves come first, by a number that says so: their own plan may be none of these.
    std::vector<TuningPlan> out{to_tuning(RowChoice{})};
    for (const RowChoice& choice : row_choices(device, kernels, all, one, quads)) out.push_back(to_tuning(choice));
    return out;
  });
  return stored ? plan_rows(device, kernels, kept, row, quads, to_row_choice(*stored)) : own;
}

const Tunable& rows_tunable() {
  static const Tunable tunable{
      "rows",
      "ROWSxLENGTH, with a t behind it when rows lie beside each other (the first axis is normalised): 4096x1024, "
      "1024x1024t",
      {DType::f32, DType::f16},
      &usual,
      &sample,
      &describe};
  return tunable;
}

}  // namespace weft::ops
