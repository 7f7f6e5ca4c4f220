// expr/fuse.h - which operations run together.
#pragma once

#include <cstdint>
#include <vector>

#include "expr/graph.h"

namespace weft::expr {

/// One thing to run: an operation alone, or several as one kernel. Makes one tensor.
struct Step {
  enum class Kind : std::uint8_t {
    single,       ///< `result` alone
    program,      ///< elementwise operations as one ElementProgram
    matmul_bias,  ///< members: the product and the addition
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
/// operations, or a dear function would be computed again for each element that it broadcasts to. A product plus a 1-D
/// bias is one kernel.
Plan make_plan(const Graph& graph, OpId result);

/// A step that reads nothing and makes a tensor of one value can be a number inside a kernel.
inline bool is_number(const Operation& op) noexcept {
  return op.kind == OpKind::scalar || op.kind == OpKind::full;
}

}  // namespace weft::expr
