// Which kernel multiplies which matrices: the one place that knows speeds. Pure, needs no device.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/device.h"
#include "weft/dtype.h"

namespace weft::ops {

/// The kinds of device that want different kernels. Both give right results on every device.
enum class DeviceClass : std::uint8_t {
  gpu,  ///< register tiles fed through workgroup memory
  cpu,  ///< register blocks fed straight from storage; no barrier (they are dear on lavapipe)
};

enum class MatmulKind : std::uint8_t {
  tile,          ///< gpu: a workgroup makes tile_m x tile_n of the result through workgroup memory
  matrix,        ///< gpu: likewise, and its subgroups multiply by matrix units; inner axes of a slab or more
  block,         ///< cpu: a lane makes rows x (4 quads) of the result, alone
  panel,         ///< cpu: from operands repacked into panels, which the lanes of a subgroup read and pass on
  vector_tile,   ///< gpu: matrix times vector, a workgroup's lanes share the inner axis
  vector_block,  ///< cpu: matrix times vector, a lane makes one row (or several, where rows lie side by side)
  sum            ///< adds up what the parts of a long inner axis came to, and finishes
};

/// Rows or columns of a panel: an operand's share of one workgroup's result, all of its inner axis, side by side for
/// each step of that.
inline constexpr std::uint32_t kPanel = 32;

/// What a subgroup multiplies at once (SubgroupMatrix); all 0 where there is nothing of the kind.
struct MatrixUnit {
  std::uint32_t m = 0, n = 0, k = 0;
  std::uint32_t subgroup = 0;  ///< threads of every subgroup
  explicit operator bool() const { return m != 0; }
  bool operator==(const MatrixUnit&) const = default;
};

/// The unit for operands and sums of these types that the device has, if its subgroups are all of one size.
MatrixUnit matrix_unit(const Features& features, std::string_view in, std::string_view sums);

/// That of a product's operands: f16, added up in f32; packed 8-bit integers (u32), added up in 32 bits, for which two
/// unsigned operands have units of their own. None for other dtypes. See usable_unit.
MatrixUnit matrix_unit(const Features& features, DType dtype, bool a_signed = true, bool b_signed = true);

/// Matrix kernels: bytes between the rows of an operand in workgroup memory, which keep rows that are read together in
/// banks of their own, and start each on 16 bytes.
inline constexpr std::uint32_t kMatrixPadBytes = 16;

/// A product as the kernels see it: c[m, n] = a[m, k] @ b[k, n], `batch` times.
struct MatmulProblem {
  std::uint64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::f32;    ///< of the operands; u32: packed 8-bit integers
  bool a_transposed = false;   ///< a's rows (m) lie side by side, not its inner axis
  bool b_transposed = false;   ///< b's inner axis lies side by side, not its columns (n)
  std::uint32_t subgroup = 0;  ///< threads of every subgroup of the device; 0 where there are none, or they differ
  MatrixUnit unit{};           ///< that multiplies these operands, where one may be used
};

/// The choice. What one workgroup makes is tile_m x tile_n.
struct MatmulPlan {
  MatmulKind kind = MatmulKind::tile;
  std::uint32_t tile_m = 0, tile_n = 0;
  std::uint32_t threads = 0;  ///< invocations of a workgroup
  std::uint32_t rows = 0;     ///< result rows that one invocation makes
  std::uint32_t unroll = 1;   ///< tile: steps of the inner axis written out
  /// tile: equal shares of the inner axis, one for each threads / slices threads of a workgroup, that are added up in
  /// workgroup memory: 1, or a power of two where tile_m is 32 at most
  std::uint32_t slices = 1;
  std::uint32_t quads = 1;             ///< block: four columns each, that one invocation makes
  std::uint32_t lanes_n = 0;           ///< block: how many of a workgroup's lanes lie along n
  std::uint32_t splits = 1;            ///< parts of the inner axis that are summed apart and added afterwards
  std::uint32_t sub_m = 0, sub_n = 0;  ///< matrix: what one subgroup makes
  std::uint32_t slab = 0;              ///< matrix: elements of the inner axis (of packed integers: words) at a time
  /// matrix: elements that go to workgroup memory at once: 1, 2 or 4; of f16 also 8, where both operands' lengths,
  /// strides and offsets allow it, and 4 where they don't
  std::uint32_t vec = 0;
  MatrixUnit unit{};  ///< matrix

  bool operator==(const MatmulPlan&) const = default;
};

MatmulPlan choose(DeviceClass device, const Limits& limits, const MatmulProblem& problem);

/// The CPU kernel that takes every product with more than one column.
MatmulPlan choose_block(const MatmulProblem& problem);

/// The fewest parts that the inner axis must be cut into, whatever the plan.
std::uint32_t least_splits(DeviceClass device, const MatmulProblem& problem);

/// True where b^T @ a^T, the result turned, is the better way: a row times a matrix is a matrix times a column, and few
/// columns are better few rows where a is read across its lines.
bool turns(DeviceClass device, const MatmulProblem& problem);

/// How parts are summed.
MatmulPlan sum_plan();

/// All that `choose` can come to, without `splits` and `lanes_n`, for operands of `dtype`; sum_plan() too. `subgroup`
/// and `unit` as in MatmulProblem.
std::vector<MatmulPlan> all_plans(DeviceClass device, const Limits& limits, DType dtype, std::uint32_t subgroup,
                                  const MatrixUnit& unit = {});

/// MatmulPlan::vec of the table's plans: as many, up to 16 bytes, as a unit's step along the inner axis allows, since
/// offsets there count in these.
std::uint32_t matrix_vec(DType dtype, const MatrixUnit& unit);

/// Can a device of these limits run this matrix plan (of whatever tile, subgroup's part and slab) for operands of
/// `dtype`?
bool matrix_fits(const MatmulPlan& plan, DType dtype, const Limits& limits);

/// MatmulProblem::subgroup of a device.
std::uint32_t fixed_subgroup(const Features& features);

/// Workgroups of one dispatch of the plan.
std::uint64_t groups_of(const MatmulPlan& plan, const MatmulProblem& problem);

}  // namespace weft::ops
