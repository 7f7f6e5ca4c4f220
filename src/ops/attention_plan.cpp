#include "ops/attention_plan.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"

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
// Shares that are worth trying are no shorter, and make no more workgroups, than these.
constexpr std::uint64_t kLeastTried = 64, kMostGroups = 1 << 16;
// Rows of a kv head from which on matrices pay, though they fill a tile up.
constexpr std::uint64_t kMatrixRows = 9;

// Rows of a kv head up to which keys are read by rows; workgroups to have at least, and keys of a share.
constexpr std::uint64_t kMostRows = 8;
constexpr std::uint64_t kRowFill = 1056, kRowsFill = 528, kRowLeastShare = 256;  // one row; more

AttentionTuning forced;

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
  spec.tier = AttentionTier::lane;
  // With few rows most lanes would have none.
  spec.shares = rows <= kAttentionLanes && keys >= kLeastShares;
  spec.rows = rows == 1 ? 1 : quads ? kLaneRows : kLaneRowsByElement;
  return spec;
}

/// None where subgroups are missing or too narrow, heads too wide, or rows too many.
std::optional<AttentionSpec> row_spec(const Features& features, const AttentionShape& shape, std::uint64_t rows,
                                      DType dtype, std::uint32_t unit, bool short_walks) {
  const std::uint32_t wide = dtype == DType::f16 ? 8 : 4;  // elements of 16 bytes
  if (!features.subgroups || unit < wide || rows > kMostRows) return {};
  const auto vectors = static_cast<std::uint64_t>(shape.dim) / wide;
  if (vectors > 128 || static_cast<std::uint64_t>(shape.value_dim) / wide > 64) return {};
  AttentionSpec spec;
  spec.tier = AttentionTier::row;
  spec.dtype = dtype;
  spec.rolled = short_walks;
  spec.unit = wide;
  spec.rows = rows <= 1 ? 1 : rows <= 4 ? 4 : 8;
  // Two reads a lane, so that fewer lanes add up; one where that many rows of q would not fit registers.
  const std::uint64_t most = wide * spec.rows <= 32 ? 2 : 1;
  // Where sizes are not told (wgpu-native) the kernel looks.
  const std::uint32_t told = std::clamp(features.subgroup_min_size, 4U, 32U);
  const std::uint64_t widest = features.subgroup_max_size == 0 ? 32 : std::bit_floor(told);
  const std::uint64_t lanes = std::clamp<std::uint64_t>(std::bit_ceil(ceil_div(vectors, most)), 4, widest);
  spec.key_lanes = static_cast<std::uint32_t>(lanes);
  spec.checks_subgroups = lanes > told;
  spec.key_vectors = static_cast<std::uint32_t>(std::bit_ceil(ceil_div(vectors, lanes)));
  return spec;
}

AttentionSpec choose_spec(const AttentionDevice& device, const AttentionShape& shape, DType dtype, std::uint32_t unit) {
  const auto rows = static_cast<std::uint64_t>(shape.heads / shape.kv_heads * shape.queries);
  AttentionSpec spec;
  const bool wanted = forced.tier ? *forced.tier == AttentionTier::matrix
                                  : kAttentionMatricesChosen && !device.cpu && rows >= kMatrixRows;
  if (dtype == DType::f16 && wanted && device.units) {
    const bool stand_in = forced.matrix && forced.stand_in != nullptr;
    spec.matrix =
        stand_in ? fit_attention_matrix(*forced.matrix, device.limits, shape.dim, shape.value_dim)
                 : choose_attention_matrix(device.features, device.limits, shape.dim, shape.value_dim, forced.matrix);
    if (stand_in && spec.matrix) spec.stand_in = forced.stand_in;
  }
  const bool cpu = forced.tier ? *forced.tier == AttentionTier::lane : device.cpu;
  if (forced.tier ? *forced.tier == AttentionTier::row : !device.cpu) {
    if (const std::optional<AttentionSpec> few =
            row_spec(device.features, shape, rows, dtype, unit, device.short_walks)) {
      return *few;
    }
  }
  if (spec.matrix) {
    spec.tier = AttentionTier::matrix;
    spec.unit = unit == 8 ? 8 : 1;
    spec.rolled = device.short_walks && !forced.written_out;
  } else {
    spec = cpu ? lane_spec(rows, static_cast<std::uint64_t>(shape.keys), unit >= 4)
               : tile_spec(device.limits, rows, static_cast<std::uint64_t>(shape.value_dim));
    spec.unit = unit >= 4 ? 4 : 1;
    spec.rolled = !cpu && device.short_walks;
  }
  spec.dtype = dtype;
  return spec;
}

}  // namespace

std::string_view to_string(AttentionTier tier) noexcept {
  switch (tier) {
    case AttentionTier::lane: return "lane";
    case AttentionTier::row: return "row";
    case AttentionTier::tile: return "tile";
    case AttentionTier::matrix: return "matrix";
  }
  return "";
}

void force_attention(const AttentionTuning& tuning) {
  forced = tuning;
}

namespace {

/// How the rows and keys of the shape are shared out to kernels of the spec.
AttentionPlan plan_by(const AttentionDevice& device, const AttentionShape& shape, const AttentionSpec& spec,
                      std::uint64_t wanted_splits) {
  const auto rows = static_cast<std::uint64_t>(shape.heads / shape.kv_heads * shape.queries);
  const auto keys = static_cast<std::uint64_t>(shape.keys);
  const auto dim = static_cast<std::uint64_t>(shape.dim);
  const auto value_dim = static_cast<std::uint64_t>(shape.value_dim);
  AttentionPlan plan;
  plan.spec = spec;
  const bool lane = plan.spec.tier == AttentionTier::lane;
  const bool shares = plan.spec.shares;
  std::uint64_t columns = value_dim;  // of a workgroup
  std::uint64_t keys_at_once = kKeys;
  std::uint64_t turns = 0;  // of loops, for these
  switch (plan.spec.tier) {
    case AttentionTier::lane:
      plan.tile_rows = plan.spec.rows * (shares ? 1 : kAttentionLanes);
      keys_at_once = attention_lane_keys(plan.spec.unit >= 4);
      turns = ceil_div(dim, 4) + 2 * ceil_div(value_dim, 4) + std::uint64_t{2} * plan.spec.rows + 4;
      break;
    case AttentionTier::row:
      plan.tile_rows = plan.spec.rows;
      plan.value_lanes = static_cast<std::uint32_t>(std::bit_ceil(ceil_div(value_dim, plan.spec.unit)));
      turns = 8;
      break;
    case AttentionTier::tile:
      plan.tile_rows = plan.spec.rows * 8;
      columns = plan.spec.value_columns;
      turns = ceil_div(dim, 16) * 17 + 68 + 17;
      break;
    case AttentionTier::matrix: {
      const AttentionMatrixTile& tile = plan.spec.matrix.value();
      plan.tile_rows = tile.subgroups * tile.m;
      columns = tile.columns;
      keys_at_once = tile.keys;
      turns = 1 + tile.keys;
      break;
    }
  }
  plan.tiles = static_cast<std::uint32_t>(ceil_div(rows, plan.tile_rows));
  plan.value_chunks = static_cast<std::uint32_t>(ceil_div(value_dim, columns));
  const std::uint64_t groups =
      static_cast<std::uint64_t>(shape.batch * shape.kv_heads) * plan.tiles * plan.value_chunks;
  const bool row = plan.spec.tier == AttentionTier::row;
  const std::uint64_t fill = lane ? kCpuFill : row ? (plan.spec.rows == 1 ? kRowFill : kRowsFill) : kGpuFill;
  const std::uint64_t least = lane ? kCpuLeastShare : row ? kRowLeastShare : kGpuLeastShare;
  std::uint64_t share = keys;
  if (wanted_splits > 0) {
    share = ceil_div(keys, std::min(wanted_splits, keys));
  } else if (groups < fill) {
    share = std::max(ceil_div(keys, ceil_div(fill, groups)), least);
  }
  if (row) share = std::min<std::uint64_t>(share, attention_row_keys(plan.spec.rows));
  if (shares) share = std::min(ceil_div(keys, kAttentionLanes), wanted_splits > 0 ? share : least);
  if (device.short_walks) share = std::min(share, std::max<std::uint64_t>(kMostTurns / turns, 1) * keys_at_once);
  // Even shares of what is worked on at once; as many as lanes take at once.
  const std::uint64_t splits = ceil_div(keys, share);
  share = ceil_div(ceil_div(keys, splits), keys_at_once) * keys_at_once;
  plan.chunk = static_cast<std::uint32_t>(share);
  const std::uint64_t together = shares ? kAttentionLanes : 1;
  plan.splits = static_cast<std::uint32_t>(ceil_div(ceil_div(keys, share), together) * together);
  plan.spec.partial = lane || plan.splits > 1;
  plan.groups = groups * (plan.splits / together);
  return plan;
}

std::optional<AttentionSpec> spec_by(const AttentionDevice& device, const AttentionShape& shape, DType dtype,
                                     std::uint32_t unit, const AttentionChoice& choice) {
  const auto rows = static_cast<std::uint64_t>(shape.heads / shape.kv_heads * shape.queries);
  if ((choice.tier == AttentionTier::lane) != device.cpu) return {};
  AttentionSpec spec;
  spec.tier = choice.tier;
  spec.dtype = dtype;
  switch (choice.tier) {
    case AttentionTier::lane:
      if (choice.rows != 1 && choice.rows != (unit >= 4 ? kLaneRows : kLaneRowsByElement)) return {};
      if (choice.shares && static_cast<std::uint64_t>(shape.keys) < kLeastShares) return {};
      spec.rows = choice.rows;
      spec.shares = choice.shares;
      spec.unit = unit >= 4 ? 4 : 1;
      return spec;
    case AttentionTier::row: return row_spec(device.features, shape, rows, dtype, unit, device.short_walks);
    case AttentionTier::tile:
      for (const TileChoice& c : kTiles) {
        if (c.rows != choice.rows || c.columns != choice.columns) continue;
        if (tile_bytes(c) > device.limits.max_workgroup_storage) return {};
        spec.rows = c.rows;
        spec.value_columns = c.columns;
        spec.unit = unit >= 4 ? 4 : 1;
        spec.rolled = device.short_walks;
        return spec;
      }
      return {};
    case AttentionTier::matrix:
      if (dtype != DType::f16 || !device.units) return {};
      spec.matrix = choose_attention_matrix(device.features, device.limits, shape.dim, shape.value_dim);
      spec.unit = unit == 8 ? 8 : 1;
      spec.rolled = device.short_walks;
      return spec.matrix ? std::optional(spec) : std::nullopt;
  }
  return {};
}

}  // namespace

bool attention_forced() noexcept {
  return forced.tier || forced.matrix;
}

AttentionPlan plan_attention(const AttentionDevice& device, const AttentionShape& shape, DType dtype,
                             std::uint32_t unit) {
  return plan_by(device, shape, choose_spec(device, shape, dtype, unit), 0);
}

std::optional<AttentionPlan> plan_attention(const AttentionDevice& device, const AttentionShape& shape, DType dtype,
                                            std::uint32_t unit, const AttentionChoice& choice) {
  const std::optional<AttentionSpec> spec = spec_by(device, shape, dtype, unit, choice);
  if (!spec) return {};
  return plan_by(device, shape, *spec, choice.splits);
}

std::vector<AttentionChoice> attention_choices(const AttentionDevice& device, const AttentionShape& shape, DType dtype,
                                               std::uint32_t unit) {
  const AttentionPlan own = plan_attention(device, shape, dtype, unit);
  const auto rows = static_cast<std::uint64_t>(shape.heads / shape.kv_heads * shape.queries);
  // What the kernel's text doesn't have is 0, so that equal choices are equal.
  const bool by_rows = own.spec.tier == AttentionTier::lane || own.spec.tier == AttentionTier::tile;
  std::vector<AttentionChoice> out{
      {own.spec.tier, by_rows ? own.spec.rows : 0, own.spec.value_columns, own.spec.shares, 0}};
  std::vector<AttentionChoice> bases = out;
  const auto base = [&](const AttentionChoice& choice) {
    if (choice != out.front()) bases.push_back(choice);
  };
  if (device.cpu) {
    const std::uint32_t several = unit >= 4 ? kLaneRows : kLaneRowsByElement;
    for (const bool shares : {false, true}) {
      base({AttentionTier::lane, 1, 0, shares, 0});
      if (rows > 1) base({AttentionTier::lane, several, 0, shares, 0});
    }
  } else {
    base({AttentionTier::matrix, 0, 0, false, 0});
    base({AttentionTier::row, 0, 0, false, 0});
    for (const TileChoice& c : kTiles) {
      const bool wide = c.columns > 64 && shape.value_dim <= 64;
      if (!wide && (c.rows == 1 || rows > std::uint64_t{4} * c.rows)) {
        base({AttentionTier::tile, c.rows, c.columns, false, 0});
      }
    }
  }
  std::vector<AttentionPlan> seen{own};
  for (AttentionChoice choice : bases) {
    choice.splits = 0;
    const std::optional<AttentionPlan> plain = plan_attention(device, shape, dtype, unit, choice);
    if (!plain) continue;
    const std::uint64_t splits = plain->splits;
    for (const std::uint64_t wanted :
         {std::uint64_t{0}, std::uint64_t{1}, splits / 4, splits / 2, splits * 2, splits * 4}) {
      choice.splits = wanted;
      if (wanted > 1 && static_cast<std::uint64_t>(shape.keys) / wanted < kLeastTried) continue;
      const std::optional<AttentionPlan> plan = plan_attention(device, shape, dtype, unit, choice);
      if (!plan || plan->groups > kMostGroups) continue;
      const auto same = [&](const AttentionPlan& p) {
        return attention_key(p.spec) == attention_key(plan->spec) && p.chunk == plan->chunk;
      };
      if (std::any_of(seen.begin(), seen.end(), same)) continue;
      seen.push_back(*plan);
      out.push_back(choice);
    }
  }
  return out;
}

std::vector<AttentionSpec> attention_specs(const Limits& limits, const Features& features, bool short_walks) {
  // By the choosing itself, over lengths around its seams.
  std::vector<AttentionSpec> all;
  const auto add = [&](const AttentionSpec& spec) {
    const auto same = [&](const AttentionSpec& s) { return attention_key(s) == attention_key(spec); };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(spec);
  };
  Features none = features;
  none.subgroup_matrices.clear();
  none.subgroups = false;
  for (const bool cpu : {false, true}) {
    for (const std::int64_t rows : {1, 8, 9, 16, 17, 32, 33}) {
      for (const std::int64_t keys : {1, 64}) {
        for (const std::int64_t value_dim : {64, 128, 256, 257}) {
          for (int choice = 0; choice < (features.f16 ? 8 : 4); ++choice) {
            const DType dtype = (choice & 4) != 0 ? DType::f16 : DType::f32;
            const AttentionShape shape{1, 1, 1, rows, keys, 64, value_dim};
            const AttentionDevice device{cpu, short_walks, limits, none};
            AttentionSpec spec = plan_attention(device, shape, dtype, (choice & 1) != 0 ? 4 : 1).spec;
            spec.partial = cpu || (choice & 2) != 0;
            add(spec);
          }
        }
      }
    }
  }
  for (const std::uint64_t rows : {1, 4, 8}) {
    for (const std::int64_t dim : {16, 32, 64, 128, 256, 512, 1024}) {
      for (int choice = 0; choice < (features.f16 ? 4 : 2); ++choice) {
        const DType dtype = (choice & 2) != 0 ? DType::f16 : DType::f32;
        std::optional<AttentionSpec> spec = row_spec(features, {1, 1, 1, 1, 1, dim, 64}, rows, dtype, 8, short_walks);
        if (!spec) continue;
        spec->partial = (choice & 1) != 0;
        add(*spec);
      }
    }
  }
  for (const AttentionMatrixTile& tile : attention_matrix_tiles(features, limits)) {
    for (int choice = 0; choice < 4; ++choice) {
      AttentionSpec spec;
      spec.tier = AttentionTier::matrix;
      spec.dtype = DType::f16;
      spec.unit = (choice & 1) != 0 ? 8 : 1;
      spec.partial = (choice & 2) != 0;
      spec.matrix = tile;
      spec.rolled = short_walks;
      add(spec);
    }
  }
  return all;
}

}  // namespace weft::ops
