// expr/token.h - the words of an expression.
#pragma once

#include <cstdint>
#include <string_view>

#include "expr/source.h"

namespace weft::expr {

enum class TokenKind : std::uint8_t {
  end,
  newline,  ///< outside brackets only; inside them a line break is a blank
  semicolon,
  name,
  keyword,  ///< a reserved word of Python other than True, False, None
  integer,
  floating,
  string,
  true_,
  false_,
  none,
  left_paren,
  right_paren,
  left_bracket,
  right_bracket,
  left_brace,
  right_brace,
  comma,
  colon,
  dot,
  ellipsis,
  assign,
  walrus,            ///< :=
  augmented_assign,  ///< += and its kin
  plus,
  minus,
  tilde,
  star,
  slash,
  double_slash,
  percent,
  at,
  double_star,
  ampersand,
  pipe,
  caret,
  left_shift,
  right_shift,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
};

struct Token {
  TokenKind kind = TokenKind::end;
  Span span;
  std::int64_t integer = 0;  ///< of an integer
  double floating = 0;       ///< of a floating
};

/// What a string token says, without its quotes. There are no escapes.
constexpr Span string_content(const Token& token) noexcept {
  return {token.span.begin + 1, token.span.end - 1};
}

/// Reads a source from its begin to its end. Borrows the source.
class Lexer {
 public:
  explicit Lexer(const Source& source);

  /// The next token; `end` again and again once the text is used up. Throws invalid_argument (a character, number or
  /// string that is none of the language's) or out_of_range (a number too large for int64 or float64).
  Token next();

 private:
  void skip_blanks();
  char peek(std::size_t ahead = 0) const noexcept;
  bool at_name_character() const noexcept;
  void take_name_characters() noexcept;
  void take_digits() noexcept;
  Token token(TokenKind kind) const noexcept;
  Token word();
  Token number();
  Token radix_integer(unsigned radix);
  Token decimal();
  Token decimal_integer();
  Token decimal_floating();
  Token string();
  Token sign();
  [[noreturn]] void fail_after_number(bool is_floating);
  [[noreturn]] void fail_character();

  const Source& source_;
  std::string_view text_;
  std::size_t begin_ = 0;  // of the token being read
  std::size_t at_ = 0;
  std::size_t brackets_ = 0;  // open ones
};

}  // namespace weft::expr
