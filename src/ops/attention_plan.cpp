#include "ops/attention_plan.h"

#include <algorithm>

namespace weft::ops {
namespace {

// gpu: rows of a thread (eight threads share a row's keys in 16 parts) and columns of values, by preference; the first
// that fits workgroup memory and has work for all its rows.
struct TileChoice {
  std::uint32_t rows, columns;
};
constexpr TileChoice kTiles[] = {{8, 128}, {8, 64}, {4, 128}, {4, 64}, {1, 128}, {1, 64}};
// cpu: rows of a lane, and where elements are read one by one.
constexpr std::uint32_t kLaneRows = 4, kLaneRowsByElement = 2;

// Below so many workgroups the keys are shared out, in shares no shorter than these.
constexpr std::uint64_t kGpuFill = 264, kGpuLeastShare = 256;
constexpr std::uint64_t kCpuFill = 4, kCpuLeastShare = 256;
constexpr std::uint64_t kLeastShares = 64;  ///< keys from which on lanes take shares
// Mesa 22's lavapipe ends all loops of an invocation, silently, after 65,535 turns in all.
constexpr std::uint64_t kMostTurns = 49152;
constexpr std::uint32_t kKeys = 64;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

/// Bytes of workgroup memory; see tile_source.
std::uint32_t tile_bytes(const TileChoice& c) {
  const std::uint32_t rows = 8 * c.rows;
  const std::uint32_t line = c.rows == 1 ? (rows + 1) * 4 : (rows / 4 + 1) * 16;
  return 16 * line + std::max(16U * 17, 16 * c.columns / 4) * 16 + kKeys * line + 16;
}

AttentionSpec tile_spec(const Limits& limits, std::uint64_t rows, std::uint64_t value_dim) {
  AttentionSpec spec;
  for (const TileChoice& c : kTiles) {
    spec.rows = c.rows;
    spec.value_columns = c.columns;
    const bool wide = c.columns > 64 && value_dim <= 64;                // half of the columns would be none
    const bool tall = c.rows > 1 && rows <= 4 * std::uint64_t{c.rows};  // half of the rows
    if (!wide && !tall && tile_bytes(c) <= limits.max_workgroup_storage) break;
  }
  return spec;
}

AttentionSpec lane_spec(std::uint64_t rows, std::uint64_t keys, bool quads) {
  AttentionSpec spec;
  spec.cpu = true;
  // With few rows most lanes would have none.
  spec.shares = rows <= kAttentionLanes && keys >= kLeastShares;
  spec.rows = rows == 1 ? 1 : quads ? kLaneRows : kLaneRowsByElement;
  return spec;
}

}  // namespace

AttentionPlan plan_attention(bool cpu, bool short_walks, const Limits& limits, const AttentionShape& shape, DType dtype,
                             bool quads) {
  const auto rows = static_cast<std::uint64_t>(shape.heads / shape.kv_heads * shape.queries);
  const auto keys = static_cast<std::uint64_t>(shape.keys);
  const auto dim = static_cast<std::uint64_t>(shape.dim);
  const auto value_dim = static_cast<std::uint64_t>(shape.value_dim);
  AttentionPlan plan;
  plan.spec = cpu ? lane_spec(rows, keys, quads) : tile_spec(limits, rows, value_dim);
  plan.spec.dtype = dtype;
  plan.spec.rolled = !cpu && short_walks;
  plan.spec.quads = quads;
  const bool shares = plan.spec.shares;
  plan.tile_rows = plan.spec.rows * (shares ? 1 : 8);
  plan.tiles = static_cast<std::uint32_t>(ceil_div(rows, plan.tile_rows));
  plan.value_chunks = cpu ? 1 : static_cast<std::uint32_t>(ceil_div(value_dim, plan.spec.value_columns));
  const std::uint64_t groups =
      static_cast<std::uint64_t>(shape.batch * shape.kv_heads) * plan.tiles * plan.value_chunks;
  const std::uint64_t unit = cpu ? attention_lane_keys(quads) : kKeys;
  const std::uint64_t fill = cpu ? kCpuFill : kGpuFill;
  const std::uint64_t least = cpu ? kCpuLeastShare : kGpuLeastShare;
  std::uint64_t share = keys;
  if (groups < fill) share = std::max(ceil_div(keys, ceil_div(fill, groups)), least);
  if (shares) share = std::min(ceil_div(keys, kAttentionLanes), least);
  if (short_walks) {
    const std::uint64_t turns = cpu ? ceil_div(dim, 4) + 2 * ceil_div(value_dim, 4) + 2 * plan.spec.rows + 4
                                    : ceil_div(dim, 16) * 17 + 68 + 17;  // for each unit
    share = std::min(share, std::max<std::uint64_t>(kMostTurns / turns, 1) * unit);
  }
  // Even shares of whole units; as many as lanes take at once.
  const std::uint64_t splits = ceil_div(keys, share);
  share = ceil_div(ceil_div(keys, splits), unit) * unit;
  plan.chunk = static_cast<std::uint32_t>(share);
  const std::uint64_t together = shares ? kAttentionLanes : 1;
  plan.splits = static_cast<std::uint32_t>(ceil_div(ceil_div(keys, share), together) * together);
  plan.spec.partial = cpu || plan.splits > 1;
  plan.groups = groups * (plan.splits / together);
  return plan;
}

std::vector<AttentionSpec> attention_specs(const Limits& limits, bool f16, bool short_walks) {
  // By the choosing itself, over lengths around its seams.
  std::vector<AttentionSpec> all;
  for (const bool cpu : {false, true}) {
    for (const std::int64_t rows : {1, 8, 9, 16, 17, 32, 33}) {
      for (const std::int64_t keys : {1, 64}) {
        for (const std::int64_t value_dim : {64, 128, 256, 257}) {
          for (int choice = 0; choice < (f16 ? 8 : 4); ++choice) {
            const DType dtype = (choice & 4) != 0 ? DType::f16 : DType::f32;
            const AttentionShape shape{1, 1, 1, rows, keys, 64, value_dim};
            AttentionSpec spec = plan_attention(cpu, short_walks, limits, shape, dtype, (choice & 1) != 0).spec;
            spec.partial = cpu || (choice & 2) != 0;
            const auto same = [&](const AttentionSpec& s) { return attention_key(s) == attention_key(spec); };
            if (std::none_of(all.begin(), all.end(), same)) all.push_back(spec);
          }
        }
      }
    }
  }
  return all;
}

}  // namespace weft::ops
