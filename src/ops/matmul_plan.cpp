#include "ops/matmul_plan.h"

#include <algorithm>

namespace weft::ops {
namespace {

struct TileChoice {
  std::uint32_t tile, threads, rows;
  std::uint64_t least_groups;  ///< fewer of these tiles leave much of a large GPU idle: take the next
};
// Depth 16; two operand tiles in f32. The last row takes what is left.
constexpr TileChoice kTiles[] = {{128, 256, 8, 96}, {64, 64, 8, 128}, {32, 64, 4, 0}};
constexpr std::uint32_t kTileDepth = 16;
constexpr std::uint32_t kPadBytes = 16 * kTileDepth;  // one vec4 a row of the tile that is stored turned

// Below so many workgroups a long inner axis is cut, into parts no shorter than these.
constexpr std::uint64_t kGpuFill = 128, kGpuLeastPart = 1024;
constexpr std::uint64_t kCpuFill = 8, kCpuLeastPart = 2048;
// Mesa 22's lavapipe ends all loops of an invocation, silently, after 65,535 turns in all.
constexpr std::uint64_t kCpuLongestPart = 32768;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

MatmulPlan choose_gpu(const Limits& limits, const MatmulProblem& p) {
  MatmulPlan plan;
  if (p.n == 1) {
    plan.kind = MatmulKind::vector_tile;
    plan.threads = std::min<std::uint32_t>(256, limits.max_workgroup_invocations);
    plan.rows = p.a_transposed ? 4 : 1;
    // 32 lanes side by side along what lies side by side in memory.
    plan.tile_m = p.a_transposed ? 128 : plan.threads / 32;
    plan.tile_n = 1;
    return plan;
  }
  plan.kind = MatmulKind::tile;
  for (const TileChoice& t : kTiles) {
    plan.tile_m = plan.tile_n = t.tile;
    plan.threads = t.threads;
    plan.rows = t.rows;
    const bool fits = t.threads <= limits.max_workgroup_invocations &&
                      2 * (t.tile * kTileDepth * 4 + kPadBytes) <= limits.max_workgroup_storage;
    if (fits && groups_of(plan, p) >= t.least_groups) break;
  }
  return plan;
}

MatmulPlan choose_cpu(const MatmulProblem& p) {
  constexpr std::uint32_t kLanes = 8;  // of lavapipe's subgroup with AVX2
  MatmulPlan plan;
  plan.threads = kLanes;
  if (p.n == 1) {
    plan.kind = MatmulKind::vector_block;
    plan.rows = p.a_transposed ? 4 : 1;
    plan.tile_m = kLanes * plan.rows;
    plan.tile_n = 1;
    return plan;
  }
  plan.kind = MatmulKind::block;
  plan.rows = p.m > 4 ? 8 : 4;
  plan.lanes_n = p.n > 16 ? 8 : p.n > 8 ? 4 : p.n > 4 ? 2 : 1;
  plan.tile_m = plan.rows * (kLanes / plan.lanes_n);
  plan.tile_n = 4 * plan.lanes_n;
  return plan;
}

}  // namespace

std::uint64_t groups_of(const MatmulPlan& plan, const MatmulProblem& p) {
  return ceil_div(p.m, plan.tile_m) * ceil_div(p.n, plan.tile_n) * p.batch;
}

MatmulPlan choose(DeviceClass device, const Limits& limits, const MatmulProblem& p) {
  const bool gpu = device == DeviceClass::gpu;
  MatmulPlan plan = gpu ? choose_gpu(limits, p) : choose_cpu(p);
  const std::uint64_t fill = gpu ? kGpuFill : kCpuFill;
  const std::uint64_t least_part = gpu ? kGpuLeastPart : kCpuLeastPart;
  const std::uint64_t groups = groups_of(plan, p);
  if (groups < fill && p.k >= 2 * least_part) {
    plan.splits = static_cast<std::uint32_t>(std::min(ceil_div(fill, groups), p.k / least_part));
  }
  if (!gpu && p.k > kCpuLongestPart) {
    plan.splits = std::max(plan.splits, static_cast<std::uint32_t>(ceil_div(p.k, kCpuLongestPart)));
  }
  return plan;
}

}  // namespace weft::ops
