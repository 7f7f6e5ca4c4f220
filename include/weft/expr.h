// weft/expr.h - array expressions as text: what the command `weft eval` runs.
//
// The language is numpy's, as far as it is about arrays: names, numbers, Python's operators with Python's precedence,
// calls with keyword arguments, methods, indexing and slicing; statements parted by `;`, the last one's value is the
// result. docs/expressions.md lists the functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/ops.h"
#include "weft/shape.h"
#include "weft/tensor.h"

namespace weft {

/// A tensor without its data.
struct TensorType {
  Shape shape;
  DType dtype = DType::f32;
  std::string origin;  ///< of an input: where it comes from, named in fixes ("w.npy"); may be empty
};

/// What one evaluation did.
struct EvalStats {
  std::uint64_t operations = 0;  ///< on tensors, after equal ones were shared and scalars folded; views count
  std::uint64_t steps = 0;       ///< of them, what ran by itself: a kernel or a view
  std::uint64_t fused = 0;       ///< of them, what ran inside another's kernel; operations = steps + fused
};

/// A parsed expression. Immutable; copies share it; any thread may use it.
class Expression {
 public:
  using Types = std::map<std::string, std::variant<TensorType, Scalar>>;
  using Values = std::map<std::string, std::variant<Tensor, Scalar>>;

  /// Needs no device. `name` begins the messages of errors. Throws Error{invalid_argument} or Error{out_of_range} whose
  /// message shows the expression with a caret under the place.
  static Expression parse(std::string text, std::string name = "eval");

  const std::string& text() const noexcept;
  /// The names that must be given, in the order of their first use. A name of the language (sum, pi) that is given too
  /// means what is given.
  const std::vector<std::string>& inputs() const noexcept;

  /// Shape and dtype of the result for inputs of these types. Checks all that can be known before data: names, calls,
  /// shapes, dtypes, constant indices; with a device also what that device lacks. Numbers among the inputs are weak, as
  /// literals are. Throws as parse does, or Error{unsupported}.
  TensorType check(const Types& inputs, const Device* device = nullptr) const;

  /// Checks as above, then records the work on the device's default stream and returns without waiting (but take() with
  /// computed indices reads those back to check them). Chains of elementwise operations run as one kernel, equal
  /// subexpressions once, and intermediates are given back as soon as their last use is recorded. Inputs must be
  /// tensors of `device`. When it throws, the inputs are as they were.
  Tensor evaluate(const Device& device, const Values& inputs, EvalStats* stats = nullptr) const;

 private:
  struct State;
  explicit Expression(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace weft
