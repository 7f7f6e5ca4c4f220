// The WGSL of reductions: what one pass over the elements, or over what an earlier pass left, is compiled from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/reduce.h"
#include "weft/dtype.h"
#include "weft/kernel.h"

namespace weft::ops {

/// Threads of a workgroup of by_thread and by_word.
inline constexpr std::uint32_t kReduceThreads = 64;
/// The entry point in which a workgroup shares an output; the others are by_thread and by_word (of bools).
inline constexpr std::string_view kByGroup = "by_group";

/// As `struct Params` of reduce.wgsl.
struct ReduceParams {
  std::uint32_t offset, outputs, reduced;
  std::uint32_t kept_inner, kept_stride0, kept_stride1;
  std::uint32_t reduced_inner, reduced_stride0, reduced_stride1;
  std::uint32_t splits, chunk, lanes, first_index, identity, out_offset;
  float number;
};
static_assert(sizeof(ReduceParams) == 64, "no more than Dawn's immediates take");

/// argmax and argmin.
bool gives_index(Reduction op) noexcept;
/// Takes in elements sixteen at a time (reduce_blocks.wgsl).
bool in_blocks(Reduction op) noexcept;
/// Bytes that an output takes between passes.
std::uint64_t accumulator_bytes(Reduction op, DType x) noexcept;
/// Bits of the accumulator of no elements.
std::uint32_t identity_bits(Reduction op, DType x) noexcept;

/// What a pass reads: elements of a tensor, or accumulators that an earlier pass left.
enum class ReduceSource : std::uint8_t { tensor, accumulators };
/// What it writes: accumulators for the next pass, or results.
enum class ReduceSink : std::uint8_t { accumulators, results };

struct ReducePass {
  Reduction op;
  DType x;  ///< of the whole reduction's input
  DType result;
  ReduceSource source;
  ReduceSink sink;
  bool quads = false;
  bool two_reduced = false;
  bool splits_fast = true;
  // Of by_group:
  std::uint32_t group = kReduceThreads;        ///< its threads
  std::uint32_t row_threads = kReduceThreads;  ///< of those, how many share an output
  std::uint32_t subgroups = 0;                 ///< at most so many; 0: joined through workgroup memory alone
  bool four_quads = false;
};

/// Names the kernel of a pass among the device's.
std::string reduce_key(const ReducePass& pass, std::string_view entry);
KernelOptions reduce_options(const ReducePass& pass, std::string_view entry);

}  // namespace weft::ops
