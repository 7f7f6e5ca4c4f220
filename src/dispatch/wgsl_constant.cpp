#include "dispatch/wgsl_constant.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace weft::dispatch {
namespace {

using Type = WgslIntegerType;

// Real sources nest a few levels; this bounds the stack.
constexpr std::size_t kDeepest = 200;

std::optional<WgslInteger> in_range(Type type, std::int64_t value) noexcept {
  const bool fits_i32 =
      value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
  const bool fits_u32 = value >= 0 && value <= std::numeric_limits<std::uint32_t>::max();
  if ((type == Type::i32 && !fits_i32) || (type == Type::u32 && !fits_u32)) return {};
  return WgslInteger{type, value};
}

// The conversion that WGSL makes by itself: from an abstract integer only.
std::optional<WgslInteger> implicit(WgslInteger from, Type to) noexcept {
  if (from.type == to) return from;
  return from.type == Type::abstract_ ? in_range(to, from.value) : std::nullopt;
}

// The conversion of `u32(x)`: between i32 and u32 the bits stay.
std::optional<WgslInteger> converted(WgslInteger from, Type to) noexcept {
  if (from.type == Type::abstract_ || from.type == to) return in_range(to, from.value);
  const auto bits = static_cast<std::uint32_t>(from.value);
  return WgslInteger{to, to == Type::u32 ? std::int64_t{bits} : std::int64_t{static_cast<std::int32_t>(bits)}};
}

std::optional<WgslInteger> literal(std::string_view text) noexcept {
  Type type = Type::abstract_;
  if (text.back() == 'i' || text.back() == 'u') {
    type = text.back() == 'i' ? Type::i32 : Type::u32;
    text.remove_suffix(1);
  }
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  std::int64_t value = 0;
  const char* const begin = std::to_address(text.begin());
  const char* const end = std::to_address(text.end());
  const auto [stop, error] = std::from_chars(begin, end, value, hex ? 16 : 10);
  if (error != std::errc{} || stop != end) return {};
  return in_range(type, value);
}

struct Operator {
  char symbol = 0;  // '<' and '>' stand for the shifts
  int precedence = 0;
  std::size_t tokens = 0;  // 0: none there
};

Operator operator_at(const WgslTokens& tokens, std::size_t at, std::size_t end) noexcept {
  if (at >= end) return {};
  if (at + 1 < end) {
    if (tokens.is_pair(at, "<<") || tokens.is_pair(at, ">>")) return {tokens[at].text.front(), 4, 2};
    if (tokens.is_pair(at, "&&") || tokens.is_pair(at, "||")) return {};
  }
  const WgslToken& token = tokens[at];
  if (token.kind != WgslKind::symbol) return {};
  const char c = token.text.front();
  switch (c) {
    case '|': return {c, 1, 1};
    case '^': return {c, 2, 1};
    case '&': return {c, 3, 1};
    case '+':
    case '-': return {c, 5, 1};
    case '*':
    case '/':
    case '%': return {c, 6, 1};
    default: return {};
  }
}

std::optional<WgslInteger> shifted(char symbol, WgslInteger left, WgslInteger right) noexcept {
  const std::int64_t bits = left.type == Type::abstract_ ? 64 : 32;
  if (right.type == Type::i32 || right.value < 0 || right.value >= bits) return {};
  if (symbol == '>') return WgslInteger{left.type, left.value >> right.value};
  if (left.value > (std::numeric_limits<std::int64_t>::max() >> right.value) ||
      left.value < (std::numeric_limits<std::int64_t>::min() >> right.value)) {
    return {};
  }
  return in_range(left.type, static_cast<std::int64_t>(static_cast<std::uint64_t>(left.value) << right.value));
}

std::optional<WgslInteger> combined(char symbol, WgslInteger left, WgslInteger right) noexcept {
  if (symbol == '<' || symbol == '>') return shifted(symbol, left, right);
  const Type type = left.type == Type::abstract_ ? right.type : left.type;
  const auto a = implicit(left, type);
  const auto b = implicit(right, type);
  if (!a || !b) return {};
  std::int64_t value = 0;
  bool overflow = false;
  switch (symbol) {
    case '+': overflow = __builtin_add_overflow(a->value, b->value, &value); break;
    case '-': overflow = __builtin_sub_overflow(a->value, b->value, &value); break;
    case '*': overflow = __builtin_mul_overflow(a->value, b->value, &value); break;
    case '/':
    case '%':
      if (b->value == 0 || (b->value == -1 && a->value == std::numeric_limits<std::int64_t>::min())) return {};
      value = symbol == '/' ? a->value / b->value : a->value % b->value;
      break;
    case '&': value = a->value & b->value; break;
    case '|': value = a->value | b->value; break;
    case '^': value = a->value ^ b->value; break;
    default: return {};
  }
  if (overflow) return {};
  return in_range(type, value);
}

}  // namespace

WgslConstants::WgslConstants(const WgslModule& module, const std::vector<OverrideValue>& overrides)
    : module_(module), overrides_(overrides), memos_(module.declarations.size()) {
  // In the order of the text, so that a long chain of constants, each made of the one before, needs no depth.
  for (const WgslDeclaration& declaration : module_.declarations) named(declaration);
}

std::optional<WgslInteger> WgslConstants::evaluate(WgslRange expression) {
  std::size_t at = expression.begin;
  const auto value = binary(at, expression.end, 1);
  return at == expression.end ? value : std::nullopt;
}

std::optional<WgslInteger> WgslConstants::binary(std::size_t& at, std::size_t end, int least_precedence) {
  auto left = unary(at, end);
  while (left) {
    const Operator op = operator_at(module_.tokens, at, end);
    if (op.tokens == 0 || op.precedence < least_precedence) break;
    at += op.tokens;
    const auto right = binary(at, end, op.precedence + 1);
    if (!right) return {};
    left = combined(op.symbol, *left, *right);
  }
  return left;
}

std::optional<WgslInteger> WgslConstants::unary(std::size_t& at, std::size_t end) {
  if (at >= end || depth_ >= kDeepest) return {};
  ++depth_;
  std::optional<WgslInteger> value;
  const WgslToken& token = module_.tokens[at];
  if (token.kind == WgslKind::number) {
    value = literal(token.text);
    ++at;
  } else if (token.kind == WgslKind::identifier) {
    value = word(at, end);
  } else if (token.is('(')) {
    value = binary(++at, end, 1);
    if (at >= end || !module_.tokens[at].is(')')) {
      value.reset();
    } else {
      ++at;
    }
  } else if (token.is('-')) {
    value = unary(++at, end);
    if (value) {
      value = value->type == Type::u32 ? std::nullopt : combined('-', WgslInteger{value->type, 0}, *value);
    }
  } else if (token.is('~')) {
    value = unary(++at, end);
    if (value) value->value = value->type == Type::u32 ? 0xffffffff - value->value : ~value->value;
  }
  --depth_;
  return value;
}

std::optional<WgslInteger> WgslConstants::word(std::size_t& at, std::size_t end) {
  const WgslRange self{at, at + 1};
  std::string_view name = module_.tokens[at++].text;
  const bool is_call = at < end && module_.tokens[at].is('(');
  const WgslDeclaration* declaration = module_.find(name);
  if (declaration != nullptr) {
    const auto type = is_call ? integer_type(self) : std::nullopt;
    if (!type) return named(*declaration);
    name = type == Type::u32 ? "u32" : "i32";
  }
  if (!is_call) return {};
  return call(name, ++at, end);
}

std::optional<WgslInteger> WgslConstants::call(std::string_view name, std::size_t& at, std::size_t end) {
  const auto first = binary(at, end, 1);
  std::optional<WgslInteger> second;
  if (!first) return {};
  const auto at_symbol = [&](char c) { return at < end && module_.tokens[at].is(c); };
  if (at_symbol(',')) {
    ++at;
    if (!at_symbol(')')) {
      second = binary(at, end, 1);
      if (!second) return {};
      if (at_symbol(',')) ++at;
    }
  }
  if (!at_symbol(')')) return {};
  ++at;
  if (!second) {
    if (name == "u32") return converted(*first, Type::u32);
    if (name == "i32") return converted(*first, Type::i32);
    return {};
  }
  if (name != "min" && name != "max") return {};
  const Type type = first->type == Type::abstract_ ? second->type : first->type;
  const auto a = implicit(*first, type);
  const auto b = implicit(*second, type);
  if (!a || !b) return {};
  return WgslInteger{type, name == "min" ? std::min(a->value, b->value) : std::max(a->value, b->value)};
}

std::optional<WgslInteger> WgslConstants::named(const WgslDeclaration& declaration) {
  Memo& memo = memos_[static_cast<std::size_t>(&declaration - module_.declarations.data())];
  if (memo.started) return memo.value;
  if (depth_ >= kDeepest) return {};
  memo.started = true;
  memo.value = declared(declaration);
  return memo.value;
}

std::optional<WgslInteger> WgslConstants::declared(const WgslDeclaration& declaration) {
  const bool is_override = declaration.kind == WgslDeclarationKind::override_;
  if (declaration.kind != WgslDeclarationKind::constant && !is_override) return {};
  if (is_override) {
    if (const OverrideValue* given = find_override(declaration)) return overridden(declaration, given->value);
  }
  if (declaration.value.empty()) return {};
  const auto value = evaluate(declaration.value);
  if (!value) return {};
  if (!declaration.type.empty()) {
    const auto type = integer_type(declaration.type);
    return type ? implicit(*value, *type) : std::nullopt;
  }
  return is_override && value->type == Type::abstract_ ? implicit(*value, Type::i32) : value;
}

std::optional<WgslInteger> WgslConstants::overridden(const WgslDeclaration& declaration, double value) {
  std::optional<Type> type;
  if (!declaration.type.empty()) {
    type = integer_type(declaration.type);
  } else if (const auto standard = evaluate(declaration.value)) {
    type = standard->type == Type::abstract_ ? Type::i32 : standard->type;
  }
  constexpr double kLimit = 4294967296.0;
  if (!type || !(std::fabs(value) <= kLimit)) return {};
  return in_range(*type, static_cast<std::int64_t>(value));
}

std::optional<WgslIntegerType> WgslConstants::integer_type(WgslRange type) const {
  for (std::size_t hops = 0; hops < kDeepest && type.end - type.begin == 1; ++hops) {
    const std::string_view name = module_.tokens[type.begin].text;
    const WgslDeclaration* declaration = module_.find(name);
    if (declaration == nullptr) {
      if (name == "u32") return Type::u32;
      if (name == "i32") return Type::i32;
      return {};
    }
    if (declaration->kind != WgslDeclarationKind::alias) return {};
    type = declaration->type;
  }
  return {};
}

const OverrideValue* WgslConstants::find_override(const WgslDeclaration& declaration) {
  std::string id;
  if (const WgslAttribute* attribute = find_attribute(declaration.attributes, "id")) {
    if (const auto number = evaluate(attribute->arguments)) id = std::to_string(number->value);
  }
  for (const OverrideValue& given : overrides_) {
    if (given.name == declaration.name || (!id.empty() && given.name == id)) return &given;
  }
  return nullptr;
}

}  // namespace weft::dispatch
