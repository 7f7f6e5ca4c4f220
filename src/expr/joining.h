// expr/joining.h - reductions along the axis that is cut into blocks: what is kept of each block, and how two become
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "expr/graph.h"
#include "weft/tensor.h"

namespace weft::expr {

/// One block of the reduced operand, or of several blocks side by side.
struct Part {
  std::vector<Tensor> values;
  std::int64_t first = 0;  ///< its first element along the axis that is cut
  std::int64_t count = 0;  ///< elements of the operand that went into each element of the result
};

/// A reduction in three steps. All of them record work and wait for nothing.
struct Joining {
  /// From the first block: what every block is compared with, once for all (a variance's origin); may be null.
  std::function<std::vector<Tensor>(std::span<const Tensor> operands)> prepare{};
  /// One block's values. `first` as in Part; `origin` is what prepare gave.
  std::function<std::vector<Tensor>(std::span<const Tensor> operands, std::span<const Tensor> origin,
                                    std::int64_t first)>
      reduce{};
  /// Neighbours, a in front of b. May change the order of nothing: blocks are joined in pairs, always the same ones.
  std::function<std::vector<Tensor>(const Part& a, const Part& b)> join{};
  /// The result, of the operation's shape and dtype.
  std::function<Tensor(const Part& all)> finish{};
};

/// How `op`, a reduction or a product whose summed axis is cut, is joined. `cut` is that axis of its first operand.
Joining joining_of(const Graph& graph, const Operation& op, std::size_t cut);

// For reductions in the library; `axes` as in ReduceOptions with numbers counted from 0.
Joining variance_joining(const std::vector<std::int64_t>& axes, bool keepdims, std::int64_t ddof, bool root,
                         DType result);
Joining norm_joining(std::vector<std::int64_t> axes, bool keepdims, double ord, DType result);
Joining logsumexp_joining(std::vector<std::int64_t> axes, bool keepdims, DType result);

/// Joins parts as they come so that each went through about log2(blocks) additions, whatever the number of blocks:
/// equals stand side by side like the digits of a binary counter.
class Joiner {
 public:
  explicit Joiner(const Joining& joining) : joining_(joining) {}
  void add(Part part);
  /// At least one part was added.
  Tensor finish();

 private:
  struct Level {
    Part part;
    std::size_t blocks = 1;
  };
  void join_last_two();

  const Joining& joining_;
  std::vector<Level> levels_;
};

}  // namespace weft::expr
