// What reductions and row ops share: a tensor seen as rows, the kernels' device class, and the launch of row ops.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/catalog.h"
#include "ops/launch.h"
#include "weft/tensor.h"

namespace weft::ops {

/// Which kernels ops take. `automatic` goes by the adapter and its features. `gpu` are the kernels for GPUs in their
/// base tier, `gpu_subgroups` those with subgroup operations where an op has them; a device without subgroups stays at
/// the base. All are right on every device, so tests force one after the other.
enum class KernelClass : std::uint8_t { automatic, gpu, gpu_subgroups, cpu };
/// For the whole process; takes effect from the next op.
void force_kernel_class(KernelClass kernels) noexcept;
/// What runs on this device: never `automatic`.
KernelClass kernel_class(const Device& device);
/// True where the kernels for CPU adapters run: no barriers, every lane on its own elements.
bool cpu_kernels(const Device& device);
/// All that a test can force on this device.
std::vector<KernelClass> kernel_classes(const Device& device);

/// Threads of the longest workgroup along x, rounded down to a power of two.
std::uint32_t longest_workgroup(const Device& device);

/// Groups on x before a grid of groups is folded: kernels undo it by `id.x + id.y * 32768`.
inline constexpr std::uint32_t kGroupsPerRow = 32768;
/// `groups` on up to two axes. Throws Error{out_of_range} past 2^31.
Grid fold_groups(std::uint64_t groups, std::string_view op);

/// Two axes, outer and inner: index i stands at (i / length[1]) * stride[0] + (i % length[1]) * stride[1]. One axis
/// alone is the inner one.
struct AxisPair {
  std::array<std::uint64_t, 2> length{1, 1};
  std::array<std::int64_t, 2> stride{0, 0};
  std::array<std::int64_t, 2> out_stride{0, 0};  ///< of the second tensor, where there is one

  std::uint64_t count() const noexcept { return length[0] * length[1]; }
  bool folded() const noexcept { return length[0] > 1; }
};

/// The listed axes of `x` as one index in row-major order: neighbours merge where the strides allow it, in `out` too
/// when it is given (a tensor of the same shape). Nothing when more than two remain.
std::optional<AxisPair> axis_pair(const Tensor& x, std::span<const std::size_t> axes, const Tensor* out = nullptr);

/// The axes of a tensor of `rank` that are not listed (sorted).
std::vector<std::size_t> other_axes(std::size_t rank, std::span<const std::size_t> axes);

/// `count` elements of one axis from `start`. View.
Tensor part_of(const Tensor& x, std::size_t axis, std::int64_t start, std::int64_t count);

/// Where to cut an axis of `length` in two: in the middle, rounded to a multiple that keeps wide loads aligned.
std::int64_t cut_at(std::int64_t length) noexcept;

/// One that fits a single binding, and whose indices fit 32 bits.
bool fits_binding(const Tensor& x);

/// True when each stride in use, and the offset, is a multiple of four elements: rows can be read four at a time.
bool starts_on_quads(const AxisPair& kept, std::uint32_t offset, std::uint32_t out_offset) noexcept;

/// What first_all is, of numbers: for joining by subgroup operations. A maximum keeps a NaN.
enum class FirstJoin : std::uint8_t { sum, maximum };

/// A row op: two statistics of a row, the first from the elements (a maximum, a mean), the second from the elements and
/// the first (a sum of exponentials, of centred squares), then a result per element. `text` is WGSL and defines
///   fn none() -> f32                                       the first statistic of no elements
///   fn first(a: f32, x: f32) -> f32                        takes in an element
///   fn first_4(x: vec4<f32>) -> f32                        of four elements
///   fn first_all(a: f32, b: f32) -> f32                    joins two of them
///   fn first_of(a: f32, count: f32) -> f32                 the finished statistic of `count` elements
///   fn merge_first(a: f32, piece: f32, count: f32) -> f32  takes in the finished statistic of a piece
///   fn second(x: f32, m: f32) -> f32                      an element's share in the second statistic, a sum
///   fn merge_second(s: f32, piece: vec2<f32>, count: f32, m: f32) -> f32  takes in both statistics of a piece
///   fn result(x: V, m: f32, s: f32, r: u32) -> V          of the elements at r; V is f32, or vec4<f32> from a multiple
///   of 4
/// It may read params.length and params.eps, and `weight` and `bias` (read as V at r / UNIT, bindings 2 and 3) when
/// given.
struct RowOp {
  std::string_view name;
  std::string_view text;
  FirstJoin first_join = FirstJoin::sum;
  /// There is no first statistic (m is 0), and pieces' second ones add up: `text` defines `second` and `result` only.
  bool one_statistic = false;
  /// For ops that don't mind where 0 is: what makes the first statistic gets elements less the row's first one, the
  /// rest elements and statistic less a float near that statistic.
  bool from_first = false;
  /// Where a row is kept in registers, shares are kept instead of elements, for a `second` that is dear: `text` also
  /// defines
  ///   fn kept(x: V, m: f32) -> V                                 the shares of the elements
  ///   fn kept_result(share: V, m: f32, s: f32, r: u32) -> V      the results from them
  bool keeps = false;
  float eps = 0;
  Tensor weight{};  ///< f32, contiguous, one element for each of a row; empty for none
  Tensor bias{};
};
/// Runs the op over rows that lie along `axes` of `x`. Gives f16 for f16, else f32.
Tensor run_rows(const RowOp& op, const Tensor& x, std::span<const std::size_t> axes);

/// A weight or bias as RowOp wants it, from one that broadcasts to the normalised axes (empty: for none). Throws
/// Error{invalid_argument} that names `op` and `name`.
Tensor row_operand(std::string_view op, std::string_view name, const Tensor& given, const Shape& normalized);

/// Every kernel that run_rows can come to for this op (its text, and whether it has weight and bias); see OpFamily.
void visit_row_kernels(const Device& device, const RowOp& op, const KernelVisitor& visit);

}  // namespace weft::ops
