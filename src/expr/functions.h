// expr/functions.h - the functions, methods and constants of the language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "expr/value.h"

namespace weft::expr {

class Translator;

/// The values of a call, by the position of their parameter; null where left out.
struct Arguments {
  std::vector<const Value*> values;
  std::vector<Value> rest;  ///< of a "*name" parameter

  const Value& operator[](std::size_t i) const { return *values[i]; }
  /// False for a parameter that was left out or is None.
  bool has(std::size_t i) const { return values[i] != nullptr && !values[i]->is<None>(); }
};

struct Function {
  std::string_view name;
  /// Names parted by ", ": "x" is needed, "axis=" is not, "*shape" takes all further positional arguments, or one by
  /// that name.
  std::string_view parameters;
  using Apply = Value (*)(Translator&, const Function&, const Arguments&);
  Apply apply;
  int code = 0;            ///< which of a family: a UnaryOp, BinaryOp or ReduceOp
  bool is_method = false;  ///< x.name(...) is name(x, ...)
};

/// The table of library_functions.cpp, by name; part of functions().
std::span<const Function> library_functions() noexcept;

/// Null when there is none.
const Function* find_function(std::string_view name) noexcept;
/// All functions by name.
std::span<const Function> functions() noexcept;

/// A number or None under a name, such as pi and newaxis, or a dtype, such as float32. Throws Error{unsupported} for a
/// dtype of numpy's that devices lack.
std::optional<Value::Data> find_constant(std::string_view name);
bool is_constant(std::string_view name) noexcept;
std::span<const std::string_view> constant_names() noexcept;

}  // namespace weft::expr
