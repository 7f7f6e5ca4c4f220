#include "expr/token.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string>
#include <system_error>

#include "expr/diagnostic.h"
#include "expr/utf8.h"

namespace weft::expr {
namespace {

struct Sign {
  std::string_view spelling;
  TokenKind kind;
};

// The longer before the shorter that it begins with.
constexpr Sign kSigns[] = {
    {"**=", TokenKind::augmented_assign},
    {"//=", TokenKind::augmented_assign},
    {"<<=", TokenKind::augmented_assign},
    {">>=", TokenKind::augmented_assign},
    {"...", TokenKind::ellipsis},
    {"+=", TokenKind::augmented_assign},
    {"-=", TokenKind::augmented_assign},
    {"*=", TokenKind::augmented_assign},
    {"/=", TokenKind::augmented_assign},
    {"%=", TokenKind::augmented_assign},
    {"@=", TokenKind::augmented_assign},
    {"&=", TokenKind::augmented_assign},
    {"|=", TokenKind::augmented_assign},
    {"^=", TokenKind::augmented_assign},
    {":=", TokenKind::walrus},
    {"**", TokenKind::double_star},
    {"//", TokenKind::double_slash},
    {"<<", TokenKind::left_shift},
    {">>", TokenKind::right_shift},
    {"==", TokenKind::equal},
    {"!=", TokenKind::not_equal},
    {"<=", TokenKind::less_equal},
    {">=", TokenKind::greater_equal},
    {"+", TokenKind::plus},
    {"-", TokenKind::minus},
    {"~", TokenKind::tilde},
    {"*", TokenKind::star},
    {"/", TokenKind::slash},
    {"%", TokenKind::percent},
    {"@", TokenKind::at},
    {"&", TokenKind::ampersand},
    {"|", TokenKind::pipe},
    {"^", TokenKind::caret},
    {"<", TokenKind::less},
    {">", TokenKind::greater},
    {"=", TokenKind::assign},
    {"(", TokenKind::left_paren},
    {")", TokenKind::right_paren},
    {"[", TokenKind::left_bracket},
    {"]", TokenKind::right_bracket},
    {"{", TokenKind::left_brace},
    {"}", TokenKind::right_brace},
    {",", TokenKind::comma},
    {":", TokenKind::colon},
    {".", TokenKind::dot},
    {";", TokenKind::semicolon},
};

struct ForeignSign {
  std::string_view spelling;
  std::string_view fix;
};

// Habits from other languages, and what a word processor makes of ASCII. None begins a valid expression.
constexpr ForeignSign kForeignSigns[] = {
    {"&&", "use &, with parentheses around comparisons"},
    {"||", "use |, with parentheses around comparisons"},
    {"!==", "use !="},
    {"===", "use =="},
    {"<>", "use !="},
    {"~=", "use !="},
    {"=<", "use <="},
    {"=>", "use >="},
    {"->", "use . for an attribute"},
    {".*", "use *, which is elementwise already"},
    {"./", "use /, which is elementwise already"},
    {".^", "use **, which is elementwise already"},
    {"?", "use where(condition, a, b)"},
    {"−", "use the ASCII sign -"},
    {"–", "use the ASCII sign -"},
    {"—", "use the ASCII sign -"},
    {"×", "use *"},
    {"·", "use *"},
    {"÷", "use /"},
    {"≤", "use <="},
    {"≥", "use >="},
    {"≠", "use !="},
    {"√", "use sqrt(...)"},
    {"²", "use **2"},
    {"³", "use **3"},
    {"“", "use the ASCII quote \""},
    {"”", "use the ASCII quote \""},
    {"‘", "use the ASCII quote '"},
    {"’", "use the ASCII quote '"},
    {"…", "use three ASCII dots"},
    {"\u00a0", "use an ordinary space"},
};

constexpr std::string_view kKeywords[] = {
    "and",      "as",     "assert",  "async", "await", "break",  "class", "continue", "def",  "del",   "elif",
    "else",     "except", "finally", "for",   "from",  "global", "if",    "import",   "in",   "is",    "lambda",
    "nonlocal", "not",    "or",      "pass",  "raise", "return", "try",   "while",    "with", "yield",
};

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

int digit_value(char c) noexcept {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

std::string without_underscores(std::string_view text) {
  std::string digits(text);
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  return digits;
}

}  // namespace

Lexer::Lexer(const Source& source) : source_(source), text_(source.text()) {
  if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // the byte order mark that some editors write
}

char Lexer::peek(std::size_t ahead) const noexcept {
  return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
}

bool Lexer::at_name_character() const noexcept {
  if (at_ >= text_.size()) return false;
  const CodePoint c = decode_utf8(text_, at_);
  return c.valid && is_name_continue(c.value);
}

void Lexer::take_name_characters() noexcept {
  while (at_name_character()) at_ += decode_utf8(text_, at_).length;
}

void Lexer::take_digits() noexcept {
  while (is_digit(peek()) || (peek() == '_' && is_digit(peek(1)))) ++at_;
}

Token Lexer::token(TokenKind kind) const noexcept {
  return {.kind = kind, .span = {static_cast<std::uint32_t>(begin_), static_cast<std::uint32_t>(at_)}};
}

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const bool is_break = c == '\n' || c == '\r';
    if (c == ' ' || c == '\t' || c == '\f' || (is_break && brackets_ > 0)) {
      ++at_;
    } else if (c == '\\' && (peek(1) == '\n' || peek(1) == '\r')) {
      at_ += peek(1) == '\r' && peek(2) == '\n' ? 3 : 2;
    } else if (c == '#') {
      at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  skip_blanks();
  begin_ = at_;
  if (at_ == text_.size()) return token(TokenKind::end);
  const char c = peek();
  if (c == '\n' || c == '\r') {
    at_ += c == '\r' && peek(1) == '\n' ? 2 : 1;
    return token(TokenKind::newline);
  }
  if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
  if (c == '\'' || c == '"') return string();
  const CodePoint first = decode_utf8(text_, at_);
  if (first.valid && is_name_start(first.value)) return word();
  return sign();
}

Token Lexer::word() {
  take_name_characters();
  const Token name = token(TokenKind::name);
  const std::string_view text = source_.text(name.span);
  if (text == "True") return token(TokenKind::true_);
  if (text == "False") return token(TokenKind::false_);
  if (text == "None") return token(TokenKind::none);
  const bool reserved = std::find(std::begin(kKeywords), std::end(kKeywords), text) != std::end(kKeywords);
  return token(reserved ? TokenKind::keyword : TokenKind::name);
}

Token Lexer::number() {
  if (peek() == '0') {
    switch (peek(1)) {
      case 'x':
      case 'X': return radix_integer(16);
      case 'o':
      case 'O': return radix_integer(8);
      case 'b':
      case 'B': return radix_integer(2);
      default: break;
    }
  }
  return decimal();
}

Token Lexer::radix_integer(unsigned radix) {
  at_ += 2;
  const std::size_t digits = at_;
  while (digit_value(peek()) < static_cast<int>(radix) ||
         (peek() == '_' && digit_value(peek(1)) < static_cast<int>(radix))) {
    ++at_;
  }
  if (at_ == digits || at_name_character()) {
    take_name_characters();
    const Token bad = token(TokenKind::integer);
    throw make_error(ErrorCode::invalid_argument, source_, bad.span, "syntax error",
                     fmt::format("'{}' is not an integer of base {}", excerpt(source_.text(bad.span)), radix),
                     fmt::format("write digits of base {} after {}, with single underscores between them at most",
                                 radix, text_.substr(begin_, 2)));
  }
  Token t = token(TokenKind::integer);
  for (char c : text_.substr(digits, at_ - digits)) {
    if (c == '_') continue;
    if (__builtin_mul_overflow(t.integer, static_cast<std::int64_t>(radix), &t.integer) ||
        __builtin_add_overflow(t.integer, static_cast<std::int64_t>(digit_value(c)), &t.integer)) {
      throw make_error(ErrorCode::out_of_range, source_, t.span, "number out of range",
                       "this integer does not fit int64", "use an integer up to 0x7fffffffffffffff");
    }
  }
  return t;
}

Token Lexer::decimal() {
  bool is_floating = false;
  take_digits();
  if (peek() == '.') {
    is_floating = true;
    ++at_;
    if (is_digit(peek())) take_digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    const std::size_t digits = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
    if (is_digit(peek(digits))) {
      is_floating = true;
      at_ += digits;
      take_digits();
    }
  }
  if (at_name_character()) fail_after_number(is_floating);
  return is_floating ? decimal_floating() : decimal_integer();
}

void Lexer::fail_after_number(bool is_floating) {
  const std::size_t end_of_number = at_;
  take_name_characters();
  const Token bad = token(TokenKind::floating);
  const std::string whole = excerpt(source_.text(bad.span));
  const std::string number = excerpt(text_.substr(begin_, end_of_number - begin_));
  const std::string rest = excerpt(text_.substr(end_of_number, at_ - end_of_number));
  const auto fail = [&](std::string_view note, std::string fix) {
    throw make_error(ErrorCode::invalid_argument, source_, bad.span, "syntax error", note, std::move(fix));
  };
  if (rest.front() == '_') {
    fail(fmt::format("'{}' has an underscore that is not between two digits", whole),
         "put single underscores between digits only");
  }
  if (rest == "j" || rest == "J") {
    fail("complex numbers are not supported", "keep the real and the imaginary part in two arrays");
  }
  if (rest == "e" || rest == "E") {
    fail(fmt::format("'{}' has no digits in its exponent", whole),
         fmt::format("write {}e0, or {}*{} to multiply by {}", number, number, rest, rest));
  }
  const bool suffix = rest.size() == 1 && std::string_view("fFhuULl").find(rest) != std::string_view::npos;
  if (suffix) {
    fail(fmt::format("'{}' has a suffix, which numbers here do not take", whole),
         fmt::format("write {}, or {}*{} to multiply", number, number, rest));
  }
  fail(fmt::format("'{}' is neither a number nor a name", whole),
       is_floating ? std::string("put an operator between the number and the name")
                   : fmt::format("write {}*{} to multiply, or begin the name with a letter", number, rest));
  __builtin_unreachable();
}

Token Lexer::decimal_integer() {
  Token t = token(TokenKind::integer);
  const std::string digits = without_underscores(source_.text(t.span));
  const std::size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return t;  // 0, and 00 as in Python
  if (first > 0) {
    throw make_error(ErrorCode::invalid_argument, source_, t.span, "syntax error", "an integer does not begin with 0",
                     "drop the leading zeros, or write 0o for octal");
  }
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), t.integer);
  if (ec != std::errc()) {
    throw make_error(ErrorCode::out_of_range, source_, t.span, "number out of range", "this integer does not fit int64",
                     "use an integer up to 9223372036854775807, or write it as a float with a point");
  }
  return t;
}

Token Lexer::decimal_floating() {
  Token t = token(TokenKind::floating);
  const std::string digits = without_underscores(source_.text(t.span));
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), t.floating);
  if (ec != std::errc() || std::isinf(t.floating)) {
    throw make_error(ErrorCode::out_of_range, source_, t.span, "number out of range",
                     "this number does not fit float64", "use a magnitude from 5e-324 to 1.8e308, or write 0 or inf");
  }
  return t;
}

Token Lexer::string() {
  const char quote = peek();
  const bool after_operand = begin_ > 0 && (text_[begin_ - 1] == ')' || text_[begin_ - 1] == ']' ||
                                            is_name_continue(static_cast<unsigned char>(text_[begin_ - 1])));
  ++at_;
  while (peek() != quote || at_ == text_.size()) {
    if (at_ == text_.size() || peek() == '\n' || peek() == '\r') {
      const Span opener{static_cast<std::uint32_t>(begin_), static_cast<std::uint32_t>(begin_ + 1)};
      throw make_error(ErrorCode::invalid_argument, source_, opener, "syntax error",
                       fmt::format("the string that {} opens is never closed", quote),
                       fmt::format("add {} at its end{}", quote, after_operand ? ", or use .T to transpose" : ""));
    }
    const CodePoint c = decode_utf8(text_, at_);
    if (!c.valid || !is_printable(c.value)) fail_character();
    if (c.value == '\\') {
      const Span place{static_cast<std::uint32_t>(at_), static_cast<std::uint32_t>(at_ + 1)};
      throw make_error(ErrorCode::invalid_argument, source_, place, "syntax error", "strings here have no escapes",
                       "write the character itself");
    }
    at_ += c.length;
  }
  ++at_;
  return token(TokenKind::string);
}

Token Lexer::sign() {
  const std::string_view rest = text_.substr(at_);
  for (const ForeignSign& s : kForeignSigns) {
    if (!rest.starts_with(s.spelling)) continue;
    at_ += s.spelling.size();
    const bool blank = s.spelling == "\u00a0";
    throw make_error(ErrorCode::invalid_argument, source_, token(TokenKind::end).span, "syntax error",
                     blank ? std::string("a no-break space is not a blank here")
                           : fmt::format("'{}' has no meaning here", s.spelling),
                     std::string(s.fix));
  }
  for (const Sign& s : kSigns) {
    if (!rest.starts_with(s.spelling)) continue;
    at_ += s.spelling.size();
    if (s.kind == TokenKind::left_paren || s.kind == TokenKind::left_bracket) ++brackets_;
    if ((s.kind == TokenKind::right_paren || s.kind == TokenKind::right_bracket) && brackets_ > 0) --brackets_;
    return token(s.kind);
  }
  fail_character();
}

void Lexer::fail_character() {
  const CodePoint c = decode_utf8(text_, at_);
  const Span place{static_cast<std::uint32_t>(at_), static_cast<std::uint32_t>(at_ + c.length)};
  std::string note;
  std::string fix = "remove it";
  if (!c.valid) {
    note = fmt::format("byte 0x{:02x} is not UTF-8", static_cast<unsigned char>(text_[at_]));
    fix = "save the expression as UTF-8";
  } else if (c.value == '!') {
    note = "'!' has no meaning here";
    fix = "use ~ to invert a mask, or != to compare";
  } else if (is_printable(c.value)) {
    note = fmt::format("'{}' has no meaning here", source_.text(place));
  } else {
    note = fmt::format("the character U+{:04X} has no meaning here", static_cast<std::uint32_t>(c.value));
  }
  throw make_error(ErrorCode::invalid_argument, source_, place, "syntax error", note, std::move(fix));
}

}  // namespace weft::expr
