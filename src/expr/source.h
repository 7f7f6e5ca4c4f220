// expr/source.h - the text of an expression, and places in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::expr {

/// The bytes [begin, end) of a source.
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool operator==(const Span&) const = default;
};

/// The least span that holds both.
constexpr Span join(Span a, Span b) noexcept {
  return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

/// A text and the name that errors about it begin with. Owns both; immutable, so safe to read from several threads.
class Source {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  /// Throws out_of_range when the text is longer than kMaxBytes.
  explicit Source(std::string text, std::string name = "eval");

  const std::string& text() const noexcept { return text_; }
  const std::string& name() const noexcept { return name_; }

  /// The part at `span`, which must lie inside the text. Valid as long as this Source.
  std::string_view text(Span span) const noexcept {
    return std::string_view(text_).substr(span.begin, span.end - span.begin);
  }

  struct Line {
    std::uint32_t number;  ///< from 1
    Span span;             ///< without its line break
  };

  /// The line that holds the byte at `offset`; a line break belongs to the line that it ends. Lines end in "\n", "\r\n"
  /// or "\r". An offset past the end gives the last line.
  Line line_at(std::uint32_t offset) const noexcept;

  bool has_several_lines() const noexcept { return text_.find_first_of("\r\n") != std::string::npos; }

 private:
  std::string text_;
  std::string name_;
};

}  // namespace weft::expr
