// Integers that a WGSL module fixes before it runs: array lengths, workgroup sizes, binding numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dispatch/wgsl_module.h"

namespace weft::dispatch {

enum class WgslIntegerType : std::uint8_t { abstract_, i32, u32 };

struct WgslInteger {
  WgslIntegerType type = WgslIntegerType::abstract_;
  std::int64_t value = 0;
};

/// Works out integer expressions: literals, constants, overrides, + - * / % << >> & | ^ ~, parentheses, u32(), i32(),
/// min(), max(). Borrows the module and the overrides.
class WgslConstants {
 public:
  WgslConstants(const WgslModule& module, const std::vector<OverrideValue>& overrides);

  /// Empty when the expression is something else, overflows its type (compilers refuse that), divides by zero, depends
  /// on itself, on an override without a value, or nests too deep. Never throws for what the source says.
  std::optional<WgslInteger> evaluate(WgslRange expression);

 private:
  struct Memo {
    bool started = false;
    std::optional<WgslInteger> value;
  };

  std::optional<WgslInteger> binary(std::size_t& at, std::size_t end, int least_precedence);
  std::optional<WgslInteger> unary(std::size_t& at, std::size_t end);
  std::optional<WgslInteger> word(std::size_t& at, std::size_t end);
  std::optional<WgslInteger> call(std::string_view name, std::size_t& at, std::size_t end);
  std::optional<WgslInteger> named(const WgslDeclaration& declaration);
  std::optional<WgslInteger> declared(const WgslDeclaration& declaration);
  std::optional<WgslInteger> overridden(const WgslDeclaration& declaration, double value);
  std::optional<WgslIntegerType> integer_type(WgslRange type) const;
  const OverrideValue* find_override(const WgslDeclaration& declaration);

  const WgslModule& module_;
  const std::vector<OverrideValue>& overrides_;
  std::vector<Memo> memos_;  // one a declaration
  std::size_t depth_ = 0;
};

}  // namespace weft::dispatch
