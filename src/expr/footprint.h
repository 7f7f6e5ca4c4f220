// expr/footprint.h - how much device memory an evaluation takes, and how large inputs are best cut into blocks. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "expr/blocks.h"

namespace weft::expr {

/// Bytes of a dense tensor of this operation.
std::uint64_t bytes_of(const Graph& graph, OpId id);

/// Of evaluating all at once: inputs, intermediate values and result at their worst moment.
struct WholeFootprint {
  std::uint64_t bytes = 0;
  OpId largest = 0;  ///< the largest tensor
};
WholeFootprint whole_footprint(const Graph& graph, const Plan& plan);

/// Of evaluating in blocks.
struct BlockFootprint {
  std::uint64_t whole = 0;    ///< whole tensors
  std::uint64_t joined = 0;   ///< values that are being joined, for each binary digit of the count of blocks
  std::uint64_t per_row = 0;  ///< what a block takes, for each of its rows
  std::uint64_t row = 0;      ///< the largest tensor of a block, for each of its rows
  OpId largest_whole = 0;     ///< the largest whole tensor
};
BlockFootprint block_footprint(const Graph& graph, const Blocks& blocks);

struct BlockLimits {
  std::uint64_t memory = 0;       ///< of the device, for buffers that kernels use
  std::uint64_t block_bytes = 0;  ///< of the largest tensor of a block, about
  std::uint64_t binding = 0;      ///< the largest range that a kernel can be shown
};

/// A way of cutting that fits, or why there is none.
struct BlockChoice {
  std::optional<Blocks> blocks;
  std::int64_t count = 0;   ///< of blocks; their rows differ by one at most
  std::uint64_t bytes = 0;  ///< that it takes
  BlockFootprint footprint;
  Obstacle obstacle;              ///< where `least_bytes` is 0: what can't follow
  std::uint64_t least_bytes = 0;  ///< what the most modest way needs; 0 when there is no way to cut
};

/// The best way to cut some of `sources` (by operation; true: the file is in Fortran order) within `limits`: the one
/// whose transfers take least time by a rough guess. The same question has the same answer on every machine.
BlockChoice choose_blocks(const Graph& graph, OpId result, const std::map<OpId, bool>& sources,
                          const BlockLimits& limits);

}  // namespace weft::expr
