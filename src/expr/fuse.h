// expr/fuse.h - which operations run together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "expr/graph.h"

namespace weft::expr {

/// One thing to run: an operation alone, or several as one kernel. Makes one tensor.
struct Step {
  enum class Kind : std::uint8_t {
    single,   ///< `result` alone
    program,  ///< elementwise operations as one ElementProgram
    matmul,   ///< members: a product and what its kernel does to it, as finish_of tells
  };
  Kind kind = Kind::single;
  OpId result = 0;
  std::vector<OpId> members;   ///< in the order of the graph; the last is `result`
  std::vector<OpId> operands;  ///< tensors that it reads
  std::vector<OpId> release;   ///< tensors that no later step reads
};

struct Plan {
  std::vector<Step> steps;  ///< in an order in which operands come first
  OpId result = 0;
  std::uint64_t operations = 0;  ///< of all steps
};

/// Plans what `result` needs, and nothing else. Elementwise operations join the kernel of their consumer, unless their
/// value is needed outside it too, the kernel would read more than ElementProgram::kMaxInputs tensors or hold too many
/// operations, or a dear function would be computed again for each element that it broadcasts to. A product is one
/// kernel with an added bias, an activation (relu, gelu, silu) and an added residual behind it, in this order, each
/// where there is one; not so behind a product of `apart`, whose own value is needed.
Plan make_plan(const Graph& graph, OpId result, std::span<const OpId> apart = {});

/// What follows the product of a step `matmul`.
struct MatmulFinish {
  OpId product = 0;
  std::optional<OpId> bias{};
  Activation activation = Activation::none;
  std::optional<OpId> residual{};
};
MatmulFinish finish_of(const Graph& graph, const Step& step);

/// A step that reads nothing and makes a tensor of one value can be a number inside a kernel.
inline bool is_number(const Operation& op) noexcept {
  return op.kind == OpKind::scalar || op.kind == OpKind::full;
}

}  // namespace weft::expr
