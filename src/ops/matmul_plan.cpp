#include "ops/matmul_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/checked.h"

namespace weft::ops {
namespace {

struct TileChoice {
  std::uint32_t tile, threads, rows, unroll;
  std::uint64_t least_groups;  ///< fewer of these tiles leave much of a large GPU idle: take the next
};
// Depth 16; two operand tiles in f32. The last row takes what is left.
constexpr TileChoice kTiles[] = {{128, 128, 8, 16, 96}, {64, 64, 8, 16, 128}, {32, 64, 4, 4, 0}};
constexpr std::uint32_t kTileDepth = 16;
// Few small tiles wait for memory most of the time, a slab after the other: several slabs at once then, from
// `kLeastSliced` steps of the inner axis on (decision 014).
constexpr std::uint32_t kSlices = 4;
constexpr std::uint64_t kLeastSliced = 128, kMostSlicedGroups = 512;
constexpr std::uint32_t kPadBytes = 16 * kTileDepth;  // one vec4 a row of the tile that is stored turned

/// When an inner axis is cut: from `least_length` on, until so many threads are at work, into parts no shorter than
/// `least_part`. From what weft tune found fastest on an H200 (decision 009; matmul_test.cpp has the cases).
struct Cutting {
  std::uint64_t threads, least_length, least_part;
};
constexpr Cutting kGpuCutting{32768, 2048, 512};
// Of few rows or columns each operand element is used a few times: reading wants more at work.
constexpr std::uint64_t kGpuSkinny = 32;
constexpr Cutting kGpuSkinnyCutting{131072, 512, 256};
// Below so many workgroups, for products by a vector and on CPUs.
constexpr std::uint64_t kGpuVectorFill = 1024, kGpuVectorLeastPart = 256;
constexpr std::uint64_t kCpuFill = 8, kCpuLeastPart = 2048;
// A vector by a matrix whose lines are at least so long is read in so many lines at a time: each group reads a stretch
// of every line, and the pages of more lines than these drop out of caches before the next group comes.
constexpr std::uint64_t kCpuLongLine = 1024, kCpuLines = 32, kCpuMostParts = 4096;
// Mesa 22's lavapipe ends all loops of an invocation, silently, after 65,535 turns in all.
constexpr std::uint64_t kCpuLongestPart = 32768;

bool fits(const TileChoice& t, const Limits& limits, std::uint32_t slices = 1) {
  return t.threads * slices <= limits.max_workgroup_invocations &&
         2 * slices * (t.tile * kTileDepth * 4 + kPadBytes) <= limits.max_workgroup_storage;
}

std::uint32_t parts_to_fill(const MatmulPlan& plan, const MatmulProblem& p, std::uint64_t fill,
                            std::uint64_t least_part) {
  const std::uint64_t groups = groups_of(plan, p);
  if (groups >= fill || p.k < 2 * least_part) return 1;
  return static_cast<std::uint32_t>(std::min(ceil_div(fill, groups), p.k / least_part));
}

MatmulPlan tile_plan(const TileChoice& t, std::uint32_t slices = 1) {
  MatmulPlan plan;
  plan.kind = MatmulKind::tile;
  plan.tile_m = plan.tile_n = t.tile;
  plan.threads = t.threads * slices;
  plan.rows = t.rows;
  plan.unroll = t.unroll;
  plan.slices = slices;
  return plan;
}

MatmulPlan vector_tile_plan(const Limits& limits, bool a_transposed) {
  MatmulPlan plan;
  plan.kind = MatmulKind::vector_tile;
  plan.threads = std::min<std::uint32_t>(256, limits.max_workgroup_invocations);
  plan.rows = a_transposed ? 4 : 1;
  // 32 lanes side by side along what lies side by side in memory.
  plan.tile_m = a_transposed ? 128 : plan.threads / 32;
  plan.tile_n = 1;
  return plan;
}

/// Integers are rare, and have the smallest tile only.
bool one_tile(DType dtype) {
  return dtype == DType::i32;
}

bool can_slice(DType dtype, const Limits& limits) {
  return is_float(dtype) && fits(std::end(kTiles)[-1], limits, kSlices);
}

struct MatrixChoice {
  std::uint32_t tile, sub;     ///< of a workgroup and of a subgroup, along both axes
  std::uint64_t least_groups;  ///< as above
};
constexpr MatrixChoice kMatrixTiles[] = {{128, 64, 96}, {64, 32, 96}, {32, 16, 0}};
// Fewer rows or columns leave most of a tile unused.
constexpr std::uint64_t kLeastMatrix = 16;
// More sums than these a subgroup don't stay in registers.
constexpr std::uint32_t kMostMatrices = 16;

/// Bytes of one row's stretch of the inner axis that workgroup memory holds at a time, a slab: the first that the
/// product has and the device's memory holds. The largest tile of f16 has no registers for more than 64 (decision 012);
/// short inner axes are the smallest tile's.
constexpr std::uint32_t kSlabBytes[] = {128, 64};
bool takes(const MatrixChoice& t, DType dtype, std::uint32_t slab_bytes) {
  const bool large = t.tile == 128;
  return slab_bytes == 128 ? !large || dtype == DType::u32 : large || t.tile == 32;
}

MatmulPlan matrix_plan(const MatrixChoice& t, DType dtype, const MatrixUnit& unit, std::uint32_t slab_bytes) {
  MatmulPlan plan;
  plan.kind = MatmulKind::matrix;
  plan.tile_m = plan.tile_n = t.tile;
  plan.sub_m = plan.sub_n = t.sub;
  plan.threads = (t.tile / t.sub) * (t.tile / t.sub) * unit.subgroup;
  plan.slab = slab_bytes / static_cast<std::uint32_t>(size_of(dtype));
  plan.vec = matrix_vec(dtype, unit);
  plan.unit = unit;
  return plan;
}

/// Into how many parts the plan's inner axis is cut.
std::uint32_t gpu_parts(const MatmulPlan& plan, const MatmulProblem& p) {
  const Cutting& cutting = std::min(p.m, p.n) <= kGpuSkinny ? kGpuSkinnyCutting : kGpuCutting;
  if (p.k < cutting.least_length) return 1;
  const std::uint64_t wanted = ceil_div(cutting.threads, groups_of(plan, p) * plan.threads);
  return static_cast<std::uint32_t>(std::min(wanted, p.k / cutting.least_part));
}

/// Does a tile of this size keep a large GPU at work? Of an axis that may be cut, in its parts, and without most of the
/// tile outside of the matrix; else by itself.
bool keeps_busy(const MatmulPlan& plan, const MatmulProblem& p, std::uint64_t least_groups) {
  const Cutting& cutting = std::min(p.m, p.n) <= kGpuSkinny ? kGpuSkinnyCutting : kGpuCutting;
  const std::uint64_t groups = groups_of(plan, p);
  if (p.k < cutting.least_length) return groups >= least_groups;
  return 2 * std::min(p.m, p.n) > plan.tile_m && groups * gpu_parts(plan, p) * plan.threads >= cutting.threads;
}

MatmulPlan gpu_tile(const Limits& limits, const MatmulProblem& p) {
  for (const MatrixChoice& t : kMatrixTiles) {
    if (!p.unit || std::min(p.m, p.n) < kLeastMatrix) break;
    for (std::uint32_t slab_bytes : kSlabBytes) {
      if (!takes(t, p.dtype, slab_bytes)) continue;
      const MatmulPlan plan = matrix_plan(t, p.dtype, p.unit, slab_bytes);
      if (p.k < plan.slab || !matrix_fits(plan, p.dtype, limits)) continue;
      if (t.least_groups == 0 || keeps_busy(plan, p, t.least_groups)) return plan;
    }
  }
  for (const TileChoice& t : kTiles) {
    const MatmulPlan plan = tile_plan(t);
    if (!one_tile(p.dtype) && fits(t, limits) && keeps_busy(plan, p, t.least_groups)) return plan;
  }
  const TileChoice& last = std::end(kTiles)[-1];
  const MatmulPlan plan = tile_plan(last);
  const bool sliced = can_slice(p.dtype, limits) && p.k >= kLeastSliced && groups_of(plan, p) <= kMostSlicedGroups &&
                      gpu_parts(plan, p) == 1;
  return sliced ? tile_plan(last, kSlices) : plan;
}

MatmulPlan choose_gpu(const Limits& limits, const MatmulProblem& p) {
  if (p.n == 1) {
    MatmulPlan plan = vector_tile_plan(limits, p.a_transposed);
    plan.splits = parts_to_fill(plan, p, kGpuVectorFill, kGpuVectorLeastPart);
    return plan;
  }
  MatmulPlan plan = gpu_tile(limits, p);
  plan.splits = gpu_parts(plan, p);
  return plan;
}

constexpr std::uint32_t kLanes = 8;  // of lavapipe's subgroup with AVX2

MatmulPlan vector_block_plan(bool a_transposed) {
  MatmulPlan plan;
  plan.kind = MatmulKind::vector_block;
  plan.threads = kLanes;
  plan.rows = a_transposed ? 16 : 1;  // side by side: a cache line a lane and step
  plan.tile_m = kLanes * plan.rows;
  plan.tile_n = 1;
  return plan;
}

/// Does a unit's matrix of operands begin and end between items of so many elements, however it lies? Packed integers
/// lie along the inner axis, four to an element.
bool divides(std::uint32_t vec, DType dtype, const MatrixUnit& unit) {
  if (dtype == DType::u32) return unit.k % (4 * vec) == 0;
  return unit.m % vec == 0 && unit.n % vec == 0 && unit.k % vec == 0;
}

MatmulPlan panel_plan() {
  MatmulPlan plan;
  plan.kind = MatmulKind::panel;
  plan.threads = kLanes;
  plan.rows = kPanel;
  plan.tile_m = plan.tile_n = kPanel;
  return plan;
}

/// Repacking reads and writes each operand once, and is two more dispatches: from here it pays (decision 010).
constexpr std::uint64_t kLeastPanelWork = 1U << 19;
bool pays_panels(const MatmulProblem& p) {
  return p.subgroup == kLanes && p.dtype != DType::u32 && std::min(p.m, p.n) >= kPanel &&
         p.m * p.n * p.k * p.batch >= kLeastPanelWork;
}

MatmulPlan block_plan(std::uint32_t rows, std::uint32_t quads, std::uint32_t lanes_n) {
  MatmulPlan plan;
  plan.kind = MatmulKind::block;
  plan.threads = kLanes;
  plan.rows = rows;
  plan.quads = quads;
  plan.lanes_n = lanes_n;
  plan.tile_m = rows * (kLanes / lanes_n);
  plan.tile_n = 4 * quads * lanes_n;
  return plan;
}

MatmulPlan choose_cpu(const MatmulProblem& p) {
  if (p.n == 1) return vector_block_plan(p.a_transposed);
  return pays_panels(p) ? panel_plan() : choose_block(p);
}

}  // namespace

std::uint32_t matrix_vec(DType dtype, const MatrixUnit& unit) {
  std::uint32_t vec = dtype == DType::u32 ? 4 : 8;
  while (vec > 1 && !divides(vec, dtype, unit)) vec /= 2;
  return vec;
}

bool matrix_fits(const MatmulPlan& p, DType dtype, const Limits& limits) {
  const MatrixUnit& unit = p.unit;
  if (p.kind != MatmulKind::matrix || !unit || p.slab == 0 || p.slab % 4 != 0) return false;
  const std::uint32_t steps = dtype == DType::u32 ? 4 * p.slab : p.slab;
  if (dtype == DType::u32 && unit.k % 4 != 0) return false;
  if (p.sub_m % unit.m != 0 || p.sub_n % unit.n != 0 || steps % unit.k != 0) return false;
  const bool eights = p.vec == 8 && dtype == DType::f16;
  if ((p.vec != 1 && p.vec != 2 && p.vec != 4 && !eights) || !divides(p.vec, dtype, unit)) return false;
  if (p.sub_m == 0 || p.sub_n == 0 || p.tile_m % p.sub_m != 0 || p.tile_n % p.sub_n != 0) return false;
  if (p.threads != p.tile_m / p.sub_m * (p.tile_n / p.sub_n) * unit.subgroup) return false;
  if (p.sub_m / unit.m * (p.sub_n / unit.n) > kMostMatrices) return false;
  const auto bytes = static_cast<std::uint32_t>(size_of(dtype));
  std::uint64_t storage = std::uint64_t{4} * p.threads / unit.subgroup * unit.m * (unit.n + 4);  // of results
  for (std::uint32_t tile : {p.tile_m, p.tile_n}) {
    // Each thread brings whole pieces, as far along their line (Share in matmul_matrix.cpp).
    const std::uint32_t piece = eights ? 8 : 4;
    if (tile % piece != 0 || p.slab % piece != 0 || tile * p.slab / piece % p.threads != 0) return false;
    if (p.threads % (p.slab / 4) != 0) return false;
    storage += std::uint64_t{tile} * (p.slab * bytes + kMatrixPadBytes);
    if (dtype == DType::u32) continue;  // whose inner axis is always what lies side by side
    if (p.threads % (tile / 4) != 0) return false;
    const std::uint64_t along = std::uint64_t{tile} * (p.slab * bytes + kMatrixPadBytes);
    const std::uint64_t across = std::uint64_t{p.slab} * (tile * bytes + kMatrixPadBytes);
    storage += std::max(along, across) - along;
  }
  return p.threads <= limits.max_workgroup_invocations && storage <= limits.max_workgroup_storage;
}

MatmulPlan choose_block(const MatmulProblem& p) {
  const std::uint32_t lanes_n = p.n > 16 ? 8 : p.n > 8 ? 4 : p.n > 4 ? 2 : 1;
  // Few rows: all is in reading b, best a cache line a lane and step.
  const std::uint32_t quads = p.m <= 16 && p.n >= 128 && !p.b_transposed ? 4 : 1;
  return block_plan(p.m > 4 ? 8 : 4, quads, lanes_n);
}

bool turns(DeviceClass device, const MatmulProblem& p) {
  if (p.n == 1) return false;
  return p.m == 1 || (device == DeviceClass::cpu && p.a_transposed && p.n <= 16 && p.m >= 128);
}

std::uint64_t groups_of(const MatmulPlan& plan, const MatmulProblem& p) {
  return ceil_div(p.m, plan.tile_m) * ceil_div(p.n, plan.tile_n) * p.batch;
}

MatmulPlan choose(DeviceClass device, const Limits& limits, const MatmulProblem& p) {
  if (device == DeviceClass::gpu) return choose_gpu(limits, p);
  MatmulPlan plan = choose_cpu(p);
  plan.splits = parts_to_fill(plan, p, kCpuFill, kCpuLeastPart);
  if (plan.kind == MatmulKind::vector_block && p.a_transposed && p.batch == 1 && p.m >= kCpuLongLine &&
      p.k >= 2 * kCpuLines) {
    plan.splits = static_cast<std::uint32_t>(std::min(p.k / kCpuLines, kCpuMostParts));
  }
  plan.splits = std::max(plan.splits, least_splits(device, p));
  return plan;
}

std::uint32_t least_splits(DeviceClass device, const MatmulProblem& p) {
  if (device == DeviceClass::gpu || p.k <= kCpuLongestPart) return 1;
  return static_cast<std::uint32_t>(ceil_div(p.k, kCpuLongestPart));
}

MatmulPlan sum_plan() {
  MatmulPlan plan;
  plan.kind = MatmulKind::sum;
  plan.threads = 64;
  return plan;
}

std::uint32_t fixed_subgroup(const Features& features) {
  const bool fixed = features.subgroups && features.subgroup_min_size == features.subgroup_max_size;
  return fixed ? features.subgroup_max_size : 0;
}

MatrixUnit matrix_unit(const Features& features, std::string_view in, std::string_view sums) {
  MatrixUnit best;
  const std::uint32_t subgroup = fixed_subgroup(features);
  for (const SubgroupMatrix& s : features.subgroup_matrices) {
    if (subgroup != 0 && s.in == in && s.out == sums && s.m * s.n > best.m * best.n) best = {s.m, s.n, s.k, subgroup};
  }
  return best;
}

MatrixUnit matrix_unit(const Features& features, DType dtype, bool a_signed, bool b_signed) {
  if (dtype == DType::f16) return matrix_unit(features, "f16", "f32");
  if (dtype != DType::u32) return {};
  return a_signed || b_signed ? matrix_unit(features, "i8", "i32") : matrix_unit(features, "u8", "u32");
}

std::vector<MatmulPlan> all_plans(DeviceClass device, const Limits& limits, DType dtype, std::uint32_t subgroup,
                                  const MatrixUnit& unit) {
  // Packed integers always lie along the inner axis.
  std::vector<MatmulPlan> plans{sum_plan()};
  if (device == DeviceClass::gpu) {
    for (const TileChoice& t : kTiles) {
      if (t.least_groups == 0 || (!one_tile(dtype) && fits(t, limits))) plans.push_back(tile_plan(t));
    }
    if (can_slice(dtype, limits)) plans.push_back(tile_plan(std::end(kTiles)[-1], kSlices));
    for (const MatrixChoice& t : kMatrixTiles) {
      if (!unit) break;
      for (std::uint32_t slab_bytes : kSlabBytes) {
        if (!takes(t, dtype, slab_bytes)) continue;
        const MatmulPlan plan = matrix_plan(t, dtype, unit, slab_bytes);
        if (matrix_fits(plan, dtype, limits)) plans.push_back(plan);
      }
    }
    plans.push_back(vector_tile_plan(limits, false));
    if (dtype != DType::u32) plans.push_back(vector_tile_plan(limits, true));
  } else {
    for (const auto& [rows, quads] : {std::pair{8u, 1u}, {8u, 4u}, {4u, 1u}, {4u, 4u}})
      plans.push_back(block_plan(rows, quads, 8));
    if (subgroup == kLanes && dtype != DType::u32) plans.push_back(panel_plan());
    plans.push_back(vector_block_plan(false));
    if (dtype != DType::u32) plans.push_back(vector_block_plan(true));
  }
  return plans;
}

}  // namespace weft::ops
