// expr/blocks.h - which part of an expression can be worked block by block along one axis of its large inputs. Pure:
// looks at operations and shapes, needs no device.
//
// Every operation is one of three:
//   whole     - does not depend on an input that is cut, or only through a reduction: made once, kept on the device;
//   cut       - its blocks come from the same blocks of its operands (a whole operand gives a slice where an axis of it
//               runs along the cut one);
//   combined  - a reduction along the cut axis: whole, once all blocks of a pass went by and were joined (joining.h).
// What is cut and needs a combined value waits for the next pass over the inputs: x - mean(x, 0) takes two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "expr/fuse.h"
#include "expr/graph.h"

namespace weft::expr {

struct OpCut {
  /// Of what is cut: the axis. It has Blocks::rows equal runs of elements; a block is some rows' runs.
  std::optional<std::size_t> axis;
  bool combined = false;
  /// Passes over the inputs that must be over before it is there (whole, combined), or can be made (cut).
  std::size_t after = 0;
  /// Of what is made from blocks, by operand: the axis along which a block of it is needed.
  std::vector<std::optional<std::size_t>> operands;

  bool from_blocks() const noexcept { return axis.has_value() || combined; }
};

/// Why something can't be cut.
struct Obstacle {
  OpId op = 0;
  std::string why;  ///< "cumsum runs along the axis that is cut"
};

/// One pass over the blocks.
struct BlockPass {
  std::vector<std::size_t> before;  ///< steps on whole tensors, to run first
  std::vector<std::size_t> steps;   ///< steps on each block, in order; those whose result is combined too
  std::vector<OpId> inputs;         ///< cut inputs that it reads
};

struct Blocks {
  std::int64_t rows = 0;               ///< of the whole
  std::map<OpId, std::size_t> inputs;  ///< those that are cut, and along which axis
  std::vector<OpCut> cuts;             ///< by operation
  Plan plan;                           ///< of all; passes name its steps by index
  std::vector<BlockPass> passes;       ///< the last one makes the blocks of the result, if that is cut
  std::vector<std::size_t> after;      ///< steps on whole tensors behind the last pass
  const OpCut& result() const { return cuts[plan.result]; }
};

/// Cuts the given inputs along the given axes into `rows` rows (each axis a multiple of it) and finds what follows.
/// Null with `obstacle` filled when an operation can't follow.
std::optional<Blocks> cut(const Graph& graph, OpId result, const std::map<OpId, std::size_t>& inputs, std::int64_t rows,
                          Obstacle& obstacle);

/// Along which axis a step needs a block of the tensor `operand` of it; none where it needs the whole.
std::optional<std::size_t> operand_axis(const Graph& graph, const Blocks& blocks, const Step& step, OpId operand);

/// The shape of n rows of a value that is cut; of another value, its shape.
Shape block_shape(const Graph& graph, const Blocks& blocks, OpId id, std::int64_t n);

}  // namespace weft::expr
