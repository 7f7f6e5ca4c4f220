// How row ops run: chosen by device class, shape and, for rows that workgroups keep in registers, one table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/rows.h"

namespace weft::ops {

/// How workgroups hold rows in registers. A unit is an element, or four that are read at once.
struct HoldShape {
  std::uint32_t units = 4;           ///< that a thread aims at, a power of two
  std::uint32_t most_threads = 256;  ///< of a row, a power of two; no more than the device's limit are taken
  std::uint32_t turns = 1;           ///< rows that a workgroup takes in turns, each read before the last is finished
  bool subgroups = true;             ///< join by subgroup operations, where kernels take them at all
  bool operator==(const HoldShape&) const = default;
};

/// What was measured against each other. Ops take the first one.
std::span<const HoldShape> hold_shapes() noexcept;
/// For tests and measurements: another one of them, for the whole process from the next op on.
void force_hold_shape(std::size_t index) noexcept;

/// One way to run a row op.
struct RowPlan {
  bool quads = false;      ///< four elements at a time, all of them f32 or f16
  bool by_column = false;  ///< neighbouring threads take neighbouring rows, which lie side by side
  bool hold = false;       ///< threads of a workgroup share a row (or piece) and keep it in registers
  std::uint32_t group = 64;
  std::uint64_t splits = 1;
  std::uint64_t chunk = 0;
  // Where rows are held:
  std::uint32_t threads = 64;   ///< of a row
  std::uint32_t held = 1;       ///< units a thread
  std::uint32_t turns = 1;      ///< rows that the threads take one after the other
  std::uint32_t subgroups = 0;  ///< a workgroup has at most so many; 0: joined through workgroup memory alone

  bool operator==(const RowPlan&) const = default;
  std::uint32_t rows_of_group() const noexcept { return hold ? group / threads * turns : 1; }
};

/// On CPU adapters, from this many rows on each gets a thread. On GPUs, so many threads keep one busy.
inline constexpr std::uint64_t kCpuRows = 64;
inline constexpr std::uint64_t kGpuRowThreads = 16384;

/// What was measured on the device, or is tried there, in the place of a plan's own rules.
struct RowChoice {
  std::uint64_t pieces = 0;         ///< of a row, where rows are walked; 0: by the rules
  std::optional<HoldShape> hold{};  ///< where workgroups hold rows
};

/// `kernels` as kernel_class() gives it.
RowPlan plan_rows(const Device& device, KernelClass kernels, const AxisPair& kept, const AxisPair& row, bool quads,
                  const RowChoice& choice = {});

/// Every choice other than the rules that may be tried for these rows.
std::vector<RowChoice> row_choices(const Device& device, KernelClass kernels, const AxisPair& kept, const AxisPair& row,
                                   bool quads);
/// The shapes among them: their kernels are in the catalogue, for f32 and f16.
std::span<const HoldShape> tuned_hold_shapes() noexcept;

}  // namespace weft::ops
