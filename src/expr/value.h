// expr/value.h - what a part of an expression stands for while it is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "expr/ast.h"
#include "expr/graph.h"
#include "expr/source.h"
#include "weft/dtype.h"
#include "weft/ops.h"

namespace weft::expr {

struct Function;
struct Value;

/// A tensor, known by the operation that makes it.
struct TensorRef {
  OpId id = 0;
};
/// A tuple or a list.
struct Sequence {
  std::vector<Value> items;
};
struct SliceValue {
  std::optional<std::int64_t> start, stop, step;
};

/// Numbers stay numbers on the host (a Scalar) until they meet a tensor.
struct Value {
  using Data =
      std::variant<None, Scalar, TensorRef, DType, std::string, Sequence, const Function*, Ellipsis, SliceValue>;

  Span span;
  Data data;

  template <typename T>
  const T* get_if() const noexcept {
    return std::get_if<T>(&data);
  }
  template <typename T>
  bool is() const noexcept {
    return std::holds_alternative<T>(data);
  }
};

}  // namespace weft::expr
