#include "ops/conv_plan.h"

#include <algorithm>

#include "base/checked.h"

namespace weft::ops {
namespace {

struct TileChoice {
  std::uint32_t tile_m, tile_n, threads, rows, columns, depth;
  std::uint64_t least_groups;  ///< fewer of these tiles leave much of a large GPU idle: take the next
};
constexpr TileChoice kTiles[] = {{128, 128, 256, 8, 8, 8, 128}, {64, 64, 128, 8, 4, 8, 128}, {32, 64, 64, 8, 4, 8, 0}};

constexpr std::uint32_t kCpuLanes = 8;   // of lavapipe's subgroup with AVX2
constexpr std::uint32_t kGpuLanes = 64;  // of a workgroup of blocks
constexpr std::uint64_t kTileRows = 8;   // a group with fewer rows leaves too much of a tile empty

constexpr std::uint64_t kPackedRows = 3, kPackedChannels = 3;  // fewer are not worth the new layout

// Below so many workgroups (few) a sum is cut until there are so many (fill), into parts no shorter than these. The
// GPU's are what `weft tune` chose for ResNet-50's shapes on an H200.
constexpr std::uint64_t kGpuFew = 256, kGpuFill = 768, kGpuLeastPart = 64;
// One kernel adds up so many parts and finishes; of a few more, fewer and longer ones are better.
constexpr std::uint64_t kPartsOfOneKernel = 7, kFewMoreParts = 12;
constexpr std::uint64_t kCpuFew = 8, kCpuFill = 8, kCpuLeastPart = 1024;
// Mesa 22's lavapipe ends all loops of an invocation, silently, after 65,535 turns in all. A block's loops take at most
// two turns a product, a tile's nine for eight.
constexpr std::uint64_t kLongestPart = 30000, kLongestTilePart = 50000;

ConvPlan tile_plan(const TileChoice& t) {
  ConvPlan plan;
  plan.kind = ConvKind::tile;
  plan.threads = t.threads;
  plan.rows = t.rows;
  plan.columns = t.columns;
  plan.tile_m = t.tile_m;
  plan.tile_n = t.tile_n;
  plan.depth = t.depth;
  return plan;
}

bool tile_fits(const TileChoice& t, const Limits& limits) {
  return t.threads <= limits.max_workgroup_invocations &&
         (t.tile_m + t.tile_n + 8) * t.depth * 4 <= limits.max_workgroup_storage;
}

ConvPlan block_plan(std::uint32_t threads, std::uint32_t rows, std::uint32_t columns, bool lanes_channels) {
  ConvPlan plan;
  plan.kind = ConvKind::block;
  plan.threads = threads;
  plan.rows = rows;
  plan.columns = columns;
  plan.lanes_channels = lanes_channels;
  plan.tile_m = lanes_channels ? threads : rows;
  plan.tile_n = lanes_channels ? columns : threads * columns;
  return plan;
}

/// 32 vectors of sums: more of them were faster on Mesa 22 (8 x 8 by a quarter) and slower on Mesa 25 (by a half).
ConvPlan packed_plan(std::uint32_t rows) {
  ConvPlan plan = block_plan(kCpuLanes, rows, rows == 8 ? 4 : 8, false);
  plan.kind = ConvKind::packed;
  return plan;
}

ConvPlan choose_blocks(bool cpu, const ConvProblem& p) {
  const std::uint32_t lanes = cpu ? kCpuLanes : kGpuLanes;
  if (cpu && p.can_pack && p.rows >= kPackedRows && p.channels >= kPackedChannels) {
    return packed_plan(p.rows > 4 ? 8 : 4);
  }
  if (p.rows >= 3) return block_plan(lanes, 4, 4, false);
  // One row a lane. Along the columns, unless neighbours in memory are the channels, or columns are few.
  const bool along_channels =
      p.rows * p.groups * 2 > lanes && (p.channels_inner || p.columns * 2 <= std::uint64_t{lanes} * 4);
  return block_plan(lanes, 1, 4, along_channels);
}

ConvPlan choose_tile(const Limits& limits, const ConvProblem& p) {
  ConvPlan plan;
  for (const TileChoice& t : kTiles) {
    if (!tile_fits(t, limits)) continue;
    plan = tile_plan(t);
    const bool half_empty = p.rows * 2 <= t.tile_m;
    if (!half_empty && groups_of(plan, p) >= t.least_groups) break;
  }
  return plan;
}

}  // namespace

std::uint64_t groups_of(const ConvPlan& plan, const ConvProblem& p) {
  const std::uint64_t tiles_n = ceil_div(p.columns, plan.tile_n);
  return plan.lanes_channels ? ceil_div(p.rows * p.groups, plan.tile_m) * tiles_n
                             : ceil_div(p.rows, plan.tile_m) * tiles_n * p.groups;
}

std::uint64_t least_conv_splits(const ConvPlan& plan, const ConvProblem& p) {
  return ceil_div(p.inner, plan.kind == ConvKind::tile ? kLongestTilePart : kLongestPart);
}

ConvPlan choose_conv(bool cpu, const Limits& limits, const ConvProblem& p) {
  ConvPlan plan = !cpu && !p.divided && p.rows >= kTileRows ? choose_tile(limits, p) : choose_blocks(cpu, p);
  const std::uint64_t fill = cpu ? kCpuFill : kGpuFill;
  const std::uint64_t least_part = cpu ? kCpuLeastPart : kGpuLeastPart;
  const std::uint64_t groups = groups_of(plan, p);
  if (groups < (cpu ? kCpuFew : kGpuFew) && p.inner >= 2 * least_part) {
    plan.splits = std::min(ceil_div(fill, groups), p.inner / least_part);
    if (!cpu && plan.splits <= kFewMoreParts) plan.splits = std::min(plan.splits, kPartsOfOneKernel);
  }
  plan.splits = std::max(plan.splits, least_conv_splits(plan, p));
  return plan;
}

std::vector<ConvPlan> conv_plans(bool cpu, const Limits& limits) {
  std::vector<ConvPlan> plans;
  if (!cpu) {
    for (const TileChoice& t : kTiles) {
      if (tile_fits(t, limits)) plans.push_back(tile_plan(t));
    }
  }
  const std::uint32_t lanes = cpu ? kCpuLanes : kGpuLanes;
  plans.push_back(block_plan(lanes, 4, 4, false));
  if (cpu) {
    for (const std::uint32_t rows : {4u, 8u}) plans.push_back(packed_plan(rows));
  }
  plans.push_back(block_plan(lanes, 1, 4, false));
  plans.push_back(block_plan(lanes, 1, 4, true));
  return plans;
}

std::vector<ConvSpec> conv_specs(bool cpu, const Limits& limits, bool f16) {
  std::vector<ConvSpec> specs;
  const auto add_dtypes = [&](ConvSpec spec) {
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
      spec.activation = activation;
      // From f32 to f16: packed without a bias. From f16 to f32: parts of a sum.
      for (const DType in : {DType::f32, DType::f16}) {
        for (const DType out : {DType::f32, DType::f16}) {
          const bool part = in == DType::f16 && out == DType::f32;
          if ((in == DType::f16 || out == DType::f16) && !f16) continue;
          if (spec.plan.kind == ConvKind::packed ? part : in == DType::f32 && out == DType::f16) continue;
          if (part && activation != Activation::none) continue;
          spec.in = in;
          spec.out = out;
          specs.push_back(spec);
        }
      }
    }
  };
  for (const ConvPlan& plan : conv_plans(cpu, limits)) {
    ConvSpec spec;
    spec.plan = plan;
    switch (plan.kind) {
      case ConvKind::packed: add_dtypes(spec); break;
      case ConvKind::tile:
        for (const bool x_inner : {false, true}) {
          spec.x_inner = x_inner;
          add_dtypes(spec);
        }
        break;
      case ConvKind::block:
        add_dtypes(spec);
        spec.moves = true;
        add_dtypes(spec);
        spec.moves = false;
        spec.divided = true;
        add_dtypes(spec);
        break;
    }
  }
  return specs;
}

}  // namespace weft::ops
