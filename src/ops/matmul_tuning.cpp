#include "ops/matmul_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ops/launch.h"
#include "ops/matmul_run.h"
#include "weft/ops.h"
#include "weft/random.h"

namespace weft::ops {
namespace {

using dispatch::TuningKey;
using dispatch::TuningPlan;

// Rows and columns past these don't change what is best; nor does more of a batch.
constexpr std::uint32_t kMostLengthClass = 13, kMostBatchClass = 6;
// Parts of the inner axis that are worth trying are no shorter, and make no more workgroups, than these.
constexpr std::uint64_t kLeastPart = 64, kMostGroups = 2048;

TuningKey key_of(DeviceClass of, const MatmulProblem& p) {
  TuningKey key;
  if (p.dtype == DType::u32) {
    key.add("matmul_int8");
  } else {
    key.add("matmul").add(to_string(p.dtype));
  }
  key.add(of == DeviceClass::gpu ? "gpu" : "cpu");
  key.add(p.a_transposed ? (p.b_transposed ? "tt" : "tn") : (p.b_transposed ? "nt" : "nn"));
  const auto add = [&](std::string_view name, std::uint64_t length, std::uint32_t most) {
    key.add(name, std::min(dispatch::size_class(length), most));
  };
  add("m", p.m, kMostLengthClass);
  add("n", p.n, kMostLengthClass);
  add("k", p.k, 31);
  add("b", p.batch, kMostBatchClass);
  if (p.unit) key.add("matrix");  // units that may be used
  return key;
}

/// Into how many parts the inner axis may be cut with this plan; `own` is of choose().
std::set<std::uint32_t> splits_of(DeviceClass of, const MatmulPlan& plan, const MatmulProblem& p,
                                  const MatmulPlan& own) {
  const std::uint32_t least = least_splits(of, p);
  std::set<std::uint32_t> out{least};
  for (std::uint32_t splits = 2; splits <= 64; splits *= 2) {
    const std::uint64_t groups = groups_of(plan, p) * splits;
    if (splits > least && p.k / splits >= kLeastPart && groups <= kMostGroups) out.insert(splits);
  }
  if (own.splits > least) {
    for (std::uint32_t splits : {own.splits / 4, own.splits / 2, own.splits, own.splits * 2, own.splits * 4}) {
      if (splits > least && splits <= p.k / 4) out.insert(splits);
    }
  }
  return out;
}

std::vector<std::string> usual(const Device& device) {
  if (is_cpu(device)) {
    return {"512x512x512",   "1024x1024x1024", "256x256x256",  "128x128x128",  "1024x1x1024",   "1x1024x1024",
            "1x1024x1024t",  "16x1024x1024",   "64x1024x1024", "64x64x64",     "512x512x512t",  "1024x64x1024",
            "16x1024x1024t", "64x64x16384",    "8x256x256x64", "8x256x64x256", "2048x2048x2048"};
  }
  return {"4096x4096x4096",  "1024x1024x1024", "1x4096x4096t",   "2048x2048x2048", "512x512x512",    "4096x4096x4096t",
          "16x4096x4096t",   "1x4096x4096",    "128x4096x4096t", "8192x8192x8192", "512x4096x4096t", "4096x1x4096",
          "256x256x256",     "256x256x16384",  "64x64x65536",    "64x512x512x64",  "64x512x64x512",  "16x4096x4096",
          "1024x4096x1024t", "4096x1024x1024", "128x128x128",    "2048x2048x2048t"};
}

TuneSample sample(const Device& device, DType dtype, const std::string& shape) {
  const bool turned = shape.ends_with('t');
  auto lengths = lengths_of(std::string_view(shape).substr(0, shape.size() - (turned ? 1 : 0)));
  if (!lengths || lengths->size() < 3 || lengths->size() > 4) throw bad_shape(shape, matmul_tunable());
  if (lengths->size() == 3) lengths->insert(lengths->begin(), 1);
  const std::int64_t batch = (*lengths)[0], m = (*lengths)[1], n = (*lengths)[2], k = (*lengths)[3];
  const auto operand = [&](std::int64_t rows, std::int64_t columns) {
    return sample_operand(device, batch == 1 ? Shape{rows, columns} : Shape{batch, rows, columns}, dtype);
  };
  const Tensor a = operand(m, k);
  const Tensor b = turned ? swap_last_two(operand(n, k)) : operand(k, n);
  TuneSample out;
  out.run = [a, b] { return matmul(a, b); };
  out.tolerance = is_float(dtype) ? (dtype == DType::f16 ? 4e-3 : 1e-4) : 0;
  return out;
}

std::vector<std::string> usual_int8(const Device& device) {
  if (is_cpu(device)) return {"512x512x512", "16x1024x1024", "1x1024x1024", "1024x1024x1024"};
  return {"4096x4096x4096", "1x4096x4096",   "16x4096x4096",   "1024x1024x1024",
          "128x4096x4096",  "512x4096x4096", "8192x8192x8192", "512x512x512"};
}

TuneSample sample_int8(const Device& device, DType, const std::string& shape) {
  auto lengths = lengths_of(shape);
  if (!lengths || lengths->size() < 3 || lengths->size() > 4 || lengths->back() % 4 != 0) {
    throw bad_shape(shape, matmul_int8_tunable());
  }
  const std::int64_t words = lengths->back() / 4, n = (*lengths)[lengths->size() - 2];
  Random random{.seed = 1};
  const auto operand = [&](std::int64_t rows) {
    const Shape rows_of_words = lengths->size() == 3 ? Shape{rows, words} : Shape{lengths->front(), rows, words};
    return random_integers(device, rows_of_words, random, 0, std::int64_t{1} << 32, DType::u32);
  };
  const Tensor a = operand((*lengths)[lengths->size() - 3]), b = operand(n);
  return {[a, b] { return matmul_int8(a, b); }, 0};
}

std::string describe(const TuningPlan& stored) {
  const MatmulPlan plan = to_matmul(stored);
  const std::string parts = plan.splits > 1 ? fmt::format(", {} parts", plan.splits) : "";
  switch (plan.kind) {
    case MatmulKind::tile:
      return fmt::format("tile {}x{}, {} threads{}", plan.tile_m, plan.tile_n, plan.threads, parts);
    case MatmulKind::matrix:
      return fmt::format("matrix units, tile {}x{}, {} threads{}", plan.tile_m, plan.tile_n, plan.threads, parts);
    case MatmulKind::block:
      return fmt::format("block {}x{} of {}x{}{}", plan.rows, 4 * plan.quads, plan.tile_m, plan.tile_n, parts);
    case MatmulKind::panel: return fmt::format("panels of {}{}", plan.tile_m, parts);
    case MatmulKind::vector_tile: return fmt::format("vector tile of {}{}", plan.tile_m, parts);
    case MatmulKind::vector_block: return fmt::format("vector block of {}{}", plan.tile_m, parts);
    default: return "sum";
  }
}

}  // namespace

TuningPlan to_tuning(const MatmulPlan& p) {
  return {static_cast<std::uint32_t>(p.kind),
          p.tile_m,
          p.tile_n,
          p.threads,
          p.rows,
          p.unroll,
          p.quads,
          p.lanes_n,
          p.splits,
          p.sub_m,
          p.sub_n,
          p.slab,
          p.vec,
          p.unit.m,
          p.unit.n,
          p.unit.k,
          p.unit.subgroup,
          p.slices};
}

MatmulPlan to_matmul(const TuningPlan& stored) {
  const auto& v = stored.values;
  MatmulPlan p;
  p.kind = static_cast<MatmulKind>(v[0]);
  p.tile_m = v[1], p.tile_n = v[2], p.threads = v[3], p.rows = v[4], p.unroll = v[5], p.quads = v[6];
  p.lanes_n = v[7], p.splits = v[8], p.sub_m = v[9], p.sub_n = v[10];
  p.slab = v[11], p.vec = v[12];
  p.unit = {v[13], v[14], v[15], v[16]};
  p.slices = v[17];
  return p;
}

bool applies(const MatmulPlan& plan, const MatmulProblem& p, const MatmulPlan& own) {
  switch (plan.kind) {
    case MatmulKind::sum: return false;
    case MatmulKind::matrix: return p.unit && p.k >= plan.slab;
    case MatmulKind::vector_tile:
    case MatmulKind::vector_block: return p.n == 1 && (plan.rows == 1) == (own.rows == 1);
    default: return true;
  }
}

MatmulProblem typical(const MatmulProblem& problem) {
  MatmulProblem out = problem;
  out.m = dispatch::typical_length(problem.m, kMostLengthClass);
  out.n = dispatch::typical_length(problem.n, kMostLengthClass);
  out.k = dispatch::typical_length(problem.k, 31);
  out.batch = dispatch::typical_length(problem.batch, kMostBatchClass);
  return out;
}

std::vector<MatmulPlan> matmul_candidates(DeviceClass of, const Limits& limits, const MatmulProblem& p) {
  const MatmulPlan own = choose(of, limits, p);
  std::vector<MatmulPlan> out{own};
  const auto add = [&](MatmulPlan plan) {
    for (std::uint32_t splits : splits_of(of, plan, p, own)) {
      plan.splits = splits;
      if (to_tuning(plan) != to_tuning(own)) out.push_back(plan);
    }
  };
  for (MatmulPlan plan : all_plans(of, limits, p.dtype, p.subgroup, p.unit)) {
    if (!applies(plan, p, own) || (plan.quads > 1 && p.b_transposed)) continue;  // those: not in the catalogue
    if (plan.kind != MatmulKind::block) {
      const bool idle = plan.kind == MatmulKind::panel && (plan.tile_m >= 2 * p.m || plan.tile_n >= 2 * p.n);
      if (!idle) add(plan);
      continue;
    }
    // The same kernel with its lanes along the columns, or the rows, or both.
    for (std::uint32_t lanes_n = 1; lanes_n <= plan.threads; lanes_n *= 2) {
      plan.lanes_n = lanes_n;
      plan.tile_m = plan.rows * (plan.threads / lanes_n);
      plan.tile_n = 4 * plan.quads * lanes_n;
      const bool idle = (lanes_n > 1 && plan.tile_n >= 2 * p.n) || (lanes_n < plan.threads && plan.tile_m >= 2 * p.m);
      if (!idle) add(plan);
    }
  }
  return out;
}

std::optional<MatmulPlan> stored_matmul_plan(const Device& device, DeviceClass of, const MatmulProblem& p) {
  dispatch::TuningTable& table = state_of(device).tuning;
  if (!table.in_use()) return std::nullopt;
  const auto stored =
      table.find(key_of(of, p), [&] { return to_tunings(matmul_candidates(of, device.limits(), typical(p))); });
  if (!stored) return std::nullopt;
  MatmulPlan plan = to_matmul(*stored);
  plan.splits = std::max(least_splits(of, p), std::min(plan.splits, static_cast<std::uint32_t>((p.k + 3) / 4)));
  return plan;
}

const Tunable& matmul_tunable() {
  static const Tunable tunable{
      "matmul",
      "MxNxK or BxMxNxK, with a t behind it when the second matrix is read turned: 1024x1024x1024, 16x4096x4096t",
      {DType::f32, DType::f16},
      &usual,
      &sample,
      &describe};
  return tunable;
}

const Tunable& matmul_int8_tunable() {
  static const Tunable tunable{"matmul_int8", "MxNxK or BxMxNxK, K a multiple of 4: 1024x1024x1024, 16x4096x4096",
                               {DType::u32},  &usual_int8,
                               &sample_int8,  &describe};
  return tunable;
}

}  // namespace weft::ops
