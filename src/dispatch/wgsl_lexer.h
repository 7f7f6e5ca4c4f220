// The words of a WGSL text, with template lists told apart from comparisons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::dispatch {

enum class WgslKind : std::uint8_t {
  end,
  identifier,  ///< keywords too
  number,
  string,          ///< "..." on one line; WGSL has none, but reading one as a word keeps what follows right
  symbol,          ///< one character; `->` or `<<` are two that touch
  template_open,   ///< the `<` of a template list
  template_close,  ///< its `>`
};

/// Borrows its text.
struct WgslToken {
  std::string_view text;
  std::uint32_t line = 1;
  std::uint32_t column = 1;  ///< in code points, from 1
  std::uint32_t origin = 0;
  WgslKind kind = WgslKind::end;

  bool is(char c) const noexcept { return kind == WgslKind::symbol && text.front() == c; }
  bool is_word(std::string_view word) const noexcept { return kind == WgslKind::identifier && text == word; }
};

/// Indices of tokens, the end excluded.
struct WgslRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool empty() const noexcept { return begin == end; }
};

/// The tokens of several texts, one after the other, each text closed by a token `end`. Borrows the texts.
class WgslTokens {
 public:
  /// Appends the tokens of `text`; `origin` goes in front of the place in errors ("kernel 'gemm'"). Returns them, their
  /// `end` excluded. Throws Error{compile_error}: not UTF-8, a zero byte, a block comment that does not end, more
  /// nesting than compilers bear.
  WgslRange lex(std::string_view text, std::string origin);

  const WgslToken& operator[](std::size_t i) const noexcept { return tokens_[i]; }

  /// True when tokens `i` and `i + 1` are symbols that touch and read `pair`.
  bool is_pair(std::size_t i, std::string_view pair) const noexcept;

  /// The tokens' text without blanks and comments.
  std::string packed(WgslRange range) const;
  /// The same with one blank wherever the source has blanks or comments.
  std::string spaced(WgslRange range) const;

  /// The parts of `range` between its outermost commas. A trailing comma adds none, nor does an empty range.
  std::vector<WgslRange> split(WgslRange range) const;

  /// Throws Error{compile_error} "<origin>: LINE:COLUMN: <what>".
  [[noreturn]] void fail(const WgslToken& at, const std::string& what, std::string fix) const;
  /// fail(), with what stood there instead of `wanted`.
  [[noreturn]] void fail_expected(const WgslToken& at, std::string_view wanted) const;

 private:
  void find_template_lists(WgslRange range);
  void check_depth(WgslRange range) const;

  std::vector<WgslToken> tokens_;
  std::vector<std::string> origins_;
};

/// 'text' in quotes, cut when long.
std::string wgsl_quoted(std::string_view text);

}  // namespace weft::dispatch
