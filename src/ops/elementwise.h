// Elementwise programs: a chain of operations that runs as one kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "weft/ops.h"

namespace weft::ops {

/// One value of a program. Nodes stand in order: a node names earlier ones only.
struct ElementNode {
  enum class Kind : std::uint8_t { input, scalar, iota, unary, binary, where, cast };
  Kind kind = Kind::input;
  DType dtype = DType::f32;  ///< of this value
  UnaryOp unary{};
  BinaryOp binary{};
  std::int32_t a = -1, b = -1, c = -1;  ///< operands by index; for input: which tensor; for scalar: which scalar
};

/// A program over tensors that broadcast to one shape. Build it with the methods, which insert the casts that promotion
/// asks for and return the index of the new node; then run it.
///
/// Scalars travel as parameters of the dispatch, never in the source text, so another value is no other kernel and
/// infinities and NaN need no spelling. Inputs are read as they lie (strided, broadcast, offset): only shape class,
/// dtypes and operations choose the kernel, never the lengths.
class ElementProgram {
 public:
  ElementProgram() { nodes_.reserve(4); }

  /// At most this many distinct input tensors, so that WebGPU's least promise of 8 storage buffers holds the output
  /// too.
  static constexpr std::size_t kMaxInputs = 7;

  std::int32_t input(const Tensor& x);  ///< the same tensor twice is one input
  std::int32_t scalar(const Scalar& value, DType dtype);
  std::int32_t iota();  ///< the flat index of the element, as i32
  std::int32_t unary(UnaryOp op, std::int32_t x);
  /// Operands of two dtypes are cast to what they promote to.
  std::int32_t binary(BinaryOp op, std::int32_t a, std::int32_t b);
  std::int32_t where(std::int32_t condition, std::int32_t a, std::int32_t b);
  std::int32_t cast(std::int32_t x, DType dtype);

  DType dtype(std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)].dtype; }
  const std::vector<ElementNode>& nodes() const noexcept { return nodes_; }
  const std::vector<Tensor>& inputs() const noexcept { return inputs_; }
  std::size_t operations() const noexcept;  ///< unary, binary, where and cast nodes

  /// Computes `result` for every element of `shape` (to which all inputs must broadcast) into a new tensor, in as many
  /// dispatches as the binding limit asks for (one, as a rule).
  Tensor run(const Device& device, const Shape& shape, std::int32_t result) const;
  /// The same into `out`: contiguous, of the right shape and dtype, its buffer no input's (unless that input has the
  /// very same elements in the same order: in place).
  void run_into(const Tensor& out, std::int32_t result) const;

 private:
  /// Of i32 and u32, exactly.
  std::int32_t compare_signs(BinaryOp op, std::int32_t a, std::int32_t b);

  std::vector<ElementNode> nodes_;
  std::vector<Tensor> inputs_;
  std::vector<Scalar> scalars_;
};

}  // namespace weft::ops
