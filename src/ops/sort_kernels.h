// The kernels that sort, and what chooses among them.
#pragma once

#include <cstdint>
#include <string>

#include "ops/catalog.h"
#include "weft/dtype.h"
#include "weft/kernel.h"

namespace weft::ops {

/// What a stage writes: runs of keys and places for the next one, or the results.
enum class SortSink : std::uint8_t { runs, values, indices, both };

struct SortStage {
  bool first = true;      ///< reads the elements, else runs of an earlier stage
  bool by_group = false;  ///< a workgroup with barriers, else a thread on its own
  std::uint32_t run = 0;  ///< that a thread of a first stage makes: kShortRun or kThreadRun
  SortSink sink = SortSink::runs;
  bool half = false;  ///< elements of f16, else of four bytes

  bool gives_values() const noexcept { return sink == SortSink::values || sink == SortSink::both; }
  bool gives_indices() const noexcept { return sink == SortSink::indices || sink == SortSink::both; }
};

/// Length of the runs that the first stage makes: by group a power of two up to kGroupRun; by thread kThreadRun, or
/// kShortRun for rows that are no longer.
inline constexpr std::uint32_t kGroupRun = 2048;
inline constexpr std::uint32_t kThreadRun = 16;
inline constexpr std::uint32_t kShortRun = 8;
inline constexpr std::uint32_t kGroupTile = 2048;  ///< elements of a workgroup that merges

/// Bindings, in this order, those that the stage has: the elements; keys and places of the runs before; keys and places
/// to write, or values, then indices. A first stage that gives f16 values binds the elements twice.
std::string sort_key(const SortStage& stage);
KernelOptions sort_options(const SortStage& stage);

/// How a first stage understands elements of four bytes, and which way it sorts.
inline constexpr std::uint32_t kDescending = 1, kReal = 2, kSigned = 4;

/// `struct Params` of every stage. Strides are in elements: 0 and 1 of the rows, whose axis 1 is kept_inner long.
struct SortParams {
  std::uint32_t rows = 0;
  std::uint32_t length = 0;         ///< of a row, as it comes in
  std::uint32_t run = 0;            ///< length of the runs: that are made, or that come in
  std::uint32_t keep = 0;           ///< at most so many elements of each run that is made
  std::uint32_t row_out = 0;        ///< length of a row of runs that are written
  std::uint32_t mode_or_chunk = 0;  ///< first stage: the flags below; later: elements a thread
  std::uint32_t x_offset = 0, kept_inner = 1, stride0 = 0, stride1 = 0, axis_stride = 0;
  std::uint32_t out0 = 0, out1 = 0, out_axis = 0, values_offset = 0, indices_offset = 0;
};
static_assert(sizeof(SortParams) == 64, "no more than Dawn's immediates take");

}  // namespace weft::ops
