#include "dispatch/wgsl_lexer.h"

#include <fmt/format.h>

#include <utility>

#include "weft/error.h"

namespace weft::dispatch {
namespace {

constexpr std::size_t kLongestQuote = 60;

// naga goes down one call of its own a bracket and one an operator of a chain, and ends the process when the stack is
// full (gfx-rs/wgpu#5759, #9497): at about 2,000 brackets, 10,000 operators or 5,000 branches of one `else if` on 8
// MiB. Tint takes 128 and 512.
constexpr std::size_t kMostNested = 256;
constexpr std::size_t kLongestChain = 2048;

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_continuation(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// Beyond ASCII every code point that is no blank may be part of a name: wider than XID, without its tables.
bool is_name_start(char32_t c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

bool is_name_continue(char32_t c) noexcept {
  return is_name_start(c) || (c >= '0' && c <= '9');
}

// WGSL, section "Blankspace and Line Breaks".
bool is_line_break(char32_t c) noexcept {
  return (c >= 0x0a && c <= 0x0d) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_blank(char32_t c) noexcept {
  return c == ' ' || c == '\t' || is_line_break(c) || c == 0x200e || c == 0x200f;
}

struct CodePoint {
  char32_t value = 0;
  std::size_t length = 0;  // 0: not UTF-8
};

// RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF.
CodePoint decode(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - at < length) return {};
  char32_t value = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[at + i])) return {};
    value = value << 6 | (byte(at + i) & 0x3fu);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return {};
  return {value, length};
}

class Lexer {
 public:
  Lexer(std::string_view text, std::uint32_t origin, const WgslTokens& tokens)
      : text_(text), tokens_(tokens), origin_(origin) {}

  WgslToken next() {
    skip_blanks();
    WgslToken token = here();
    if (at_ == text_.size()) return token;
    const std::size_t begin = at_;
    const char c = text_[at_];
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      token.kind = WgslKind::number;
      take_number();
    } else if (is_name_start(code_point().value)) {
      token.kind = WgslKind::identifier;
      while (at_ < text_.size() && is_name_continue(code_point().value) && !is_blank(code_point().value)) take();
    } else if (c == '"' && string_length() != 0) {
      token.kind = WgslKind::string;
      for (const std::size_t end = at_ + string_length(); at_ < end;) take();
    } else {
      token.kind = WgslKind::symbol;
      take();
    }
    token.text = text_.substr(begin, at_ - begin);
    return token;
  }

 private:
  WgslToken here() const noexcept { return {text_.substr(at_, 0), line_, column_, origin_, WgslKind::end}; }

  char peek(std::size_t ahead = 0) const noexcept { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  CodePoint code_point() const {
    const CodePoint c = decode(text_, at_);
    if (c.length == 0) {
      tokens_.fail(here(), fmt::format("byte 0x{:02x} is not UTF-8", static_cast<unsigned char>(text_[at_])),
                   "save the source as UTF-8");
    }
    if (c.value == 0) tokens_.fail(here(), "the text holds a zero byte", "remove it");
    return c;
  }

  void take() {
    const CodePoint c = code_point();
    at_ += c.length;
    const bool inside_crlf = c.value == '\r' && peek() == '\n';
    if (is_line_break(c.value) && !inside_crlf) {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (peek() == '/' && peek(1) == '/') {
        while (at_ < text_.size() && !is_line_break(code_point().value)) take();
      } else if (peek() == '/' && peek(1) == '*') {
        skip_block_comment();
      } else if (is_blank(code_point().value)) {
        take();
      } else {
        break;
      }
    }
  }

  void skip_block_comment() {
    const WgslToken begin = here();
    std::size_t depth = 0;
    do {
      if (at_ == text_.size()) tokens_.fail(begin, "a block comment does not end", "close it with '*/'");
      const bool opens = peek() == '/' && peek(1) == '*';
      const bool closes = peek() == '*' && peek(1) == '/';
      if (opens) ++depth;
      if (closes) --depth;
      if (opens || closes) take();
      take();
    } while (depth != 0);
  }

  void take_exponent(char lower, char upper) {
    if (peek() != lower && peek() != upper) return;
    const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (!is_digit(peek(1 + sign))) return;
    for (std::size_t i = 0; i < 1 + sign; ++i) take();
    while (is_digit(peek())) take();
  }

  void take_number() {
    const bool hex = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    const auto is_own_digit = hex ? is_hex_digit : is_digit;
    if (hex) {
      take();
      take();
    }
    while (is_own_digit(peek())) take();
    if (peek() == '.') take();
    while (is_own_digit(peek())) take();
    hex ? take_exponent('p', 'P') : take_exponent('e', 'E');
    const char suffix = peek();
    if (suffix == 'i' || suffix == 'u' || suffix == 'f' || suffix == 'h') take();
  }

  // With both quotes; 0 when the line ends first.
  std::size_t string_length() const noexcept {
    const std::size_t end = text_.find_first_of("\"\n\r", at_ + 1);
    return end == std::string_view::npos || text_[end] != '"' ? 0 : end + 1 - at_;
  }

  std::string_view text_;
  const WgslTokens& tokens_;
  std::uint32_t origin_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::uint32_t column_ = 1;
};

}  // namespace

WgslRange WgslTokens::lex(std::string_view text, std::string origin) {
  origins_.push_back(std::move(origin));
  Lexer lexer(text, static_cast<std::uint32_t>(origins_.size() - 1), *this);
  const std::size_t begin = tokens_.size();
  do tokens_.push_back(lexer.next());
  while (tokens_.back().kind != WgslKind::end);
  const WgslRange range{begin, tokens_.size() - 1};
  find_template_lists(range);
  check_depth(range);
  return range;
}

// Counts how deep the tree of an expression or statement can get at each token: one level a bracket and a symbol, back
// to where the bracket stands when it closes, and to the start of the bracket's inside at a comma or semicolon.
void WgslTokens::check_depth(WgslRange range) const {
  std::vector<std::size_t> open;
  std::size_t depth = 0;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const WgslToken& token = tokens_[i];
    const bool opens = token.is('(') || token.is('[') || token.is('{') || token.kind == WgslKind::template_open;
    const bool closes = token.is(')') || token.is(']') || token.is('}') || token.kind == WgslKind::template_close;
    if (closes) {
      if (open.empty()) continue;  // the parser says what is wrong
      depth = open.back();
      open.pop_back();
      const bool ends = token.is('}') && !(i + 1 < range.end && tokens_[i + 1].is_word("else"));
      if (ends) depth = open.empty() ? 0 : open.back();
    } else if (token.is(',') || token.is(';')) {
      depth = open.empty() ? 0 : open.back();
    } else if (token.kind == WgslKind::symbol || opens) {
      ++depth;
    }
    if (opens) open.push_back(depth);
    if (open.size() > kMostNested) {
      fail(token, fmt::format("more than {} brackets are open here", kMostNested),
           "nest less deeply: name parts of the expression with let, or move statements into functions");
    }
    if (depth > kLongestChain) {
      fail(token,
           fmt::format("one expression or chain of branches is more than {} operations deep here", kLongestChain),
           "split it: name parts of it with let, or loop over an array");
    }
  }
}

bool WgslTokens::is_pair(std::size_t i, std::string_view pair) const noexcept {
  const WgslToken& token = tokens_[i];
  return token.is(pair[0]) && tokens_[i + 1].is(pair[1]) && token.text.data() + 1 == tokens_[i + 1].text.data();
}

// WGSL, section "Template List Discovery".
void WgslTokens::find_template_lists(WgslRange range) {
  struct Candidate {
    std::size_t token;
    std::size_t depth;
  };
  std::vector<Candidate> open;
  std::size_t depth = 0;
  const auto drop_inner = [&] {
    while (!open.empty() && open.back().depth >= depth) open.pop_back();
  };
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const WgslToken& token = tokens_[i];
    if (token.kind != WgslKind::symbol) continue;
    switch (token.text.front()) {
      case '<':
        if (is_pair(i, "<<") || is_pair(i, "<=")) {
          ++i;
        } else if (i > range.begin && tokens_[i - 1].kind == WgslKind::identifier) {
          open.push_back({i, depth});
        }
        break;
      case '>':
        if (!open.empty() && open.back().depth == depth) {
          tokens_[open.back().token].kind = WgslKind::template_open;
          tokens_[i].kind = WgslKind::template_close;
          open.pop_back();
        } else if (is_pair(i, ">=")) {
          ++i;
        }
        break;
      case '(':
      case '[': ++depth; break;
      case ')':
      case ']':
        drop_inner();
        if (depth > 0) --depth;
        break;
      case '!':
        if (is_pair(i, "!=")) ++i;
        break;
      case '=':
        if (is_pair(i, "==")) {
          ++i;
          break;
        }
        [[fallthrough]];
      case ';':
      case '{':
      case ':':
        depth = 0;
        open.clear();
        break;
      case '&':
      case '|':
        if (is_pair(i, "&&") || is_pair(i, "||")) {
          drop_inner();
          ++i;
        }
        break;
      default: break;
    }
  }
}

std::string WgslTokens::packed(WgslRange range) const {
  std::string out;
  for (std::size_t i = range.begin; i < range.end; ++i) out += tokens_[i].text;
  return out;
}

std::string WgslTokens::spaced(WgslRange range) const {
  std::string out;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const bool touches =
        i == range.begin || tokens_[i - 1].text.data() + tokens_[i - 1].text.size() == tokens_[i].text.data();
    if (!touches) out += ' ';
    out += tokens_[i].text;
  }
  return out;
}

std::vector<WgslRange> WgslTokens::split(WgslRange range) const {
  std::vector<WgslRange> parts;
  std::size_t depth = 0;
  std::size_t begin = range.begin;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const WgslToken& token = tokens_[i];
    if (token.is('(') || token.is('[') || token.kind == WgslKind::template_open) {
      ++depth;
    } else if (token.is(')') || token.is(']') || token.kind == WgslKind::template_close) {
      if (depth > 0) --depth;
    } else if (token.is(',') && depth == 0) {
      parts.push_back({begin, i});
      begin = i + 1;
    }
  }
  if (begin != range.end) parts.push_back({begin, range.end});
  return parts;
}

void WgslTokens::fail(const WgslToken& at, const std::string& what, std::string fix) const {
  throw Error(ErrorCode::compile_error, fmt::format("{}: {}:{}: {}", origins_[at.origin], at.line, at.column, what),
              std::move(fix));
}

void WgslTokens::fail_expected(const WgslToken& at, std::string_view wanted) const {
  const std::string found = at.kind == WgslKind::end ? "the end of the text" : wgsl_quoted(at.text);
  fail(at, fmt::format("expected {}, found {}", wanted, found), "correct the WGSL source at that place");
}

std::string wgsl_quoted(std::string_view text) {
  if (text.size() <= kLongestQuote) return fmt::format("'{}'", text);
  std::size_t end = kLongestQuote;
  while (is_continuation(text[end])) --end;
  return fmt::format("'{}...'", text.substr(0, end));
}

}  // namespace weft::dispatch
