#include "expr/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "expr/utf8.h"

namespace weft::expr {
namespace {

constexpr std::size_t kMaxColumns = 76;
constexpr std::string_view kIndent = "    ";
constexpr char32_t kCut = 0x2026;  // …

char32_t shown_as(const CodePoint& c) {
  if (c.value == '\t') return ' ';
  return is_printable(c.value) ? c.value : kReplacement;
}

/// One source line as it is shown, one cell a code point, and the columns of a place in it.
struct Row {
  std::u32string cells;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t caret = 0;
};

Row lay_out(const Source& source, const Place& place) {
  const Span line = source.line_at(place.caret).span;
  const std::string_view text = source.text(line);
  Row row;
  // A place past the line's end (its break, or the end of the text) gets the column after the last cell.
  std::size_t begin = std::string_view::npos;
  std::size_t end = begin;
  std::size_t caret = begin;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint c = decode_utf8(text, i);
    const std::size_t next = line.begin + i + c.length;
    const std::size_t column = row.cells.size();
    if (begin == std::string_view::npos && place.span.begin < next) begin = column;
    if (caret == std::string_view::npos && place.caret < next) caret = column;
    if (end == std::string_view::npos && place.span.end < next)
      end = column + (place.span.end > line.begin + i ? 1 : 0);
    row.cells.push_back(shown_as(c));
    i += c.length;
  }
  row.begin = std::min(begin, row.cells.size());
  row.caret = std::min(caret, row.cells.size());
  row.end = std::max(std::min(end, row.cells.size()), row.caret + 1);
  row.begin = std::min(row.begin, row.caret);
  return row;
}

/// Takes off the blanks around the line, and what lies too far from the caret.
Row cut(const Row& row) {
  std::size_t first = std::min(row.cells.find_first_not_of(U' '), row.begin);
  const std::size_t last_cell = row.cells.find_last_not_of(U' ');
  std::size_t last = last_cell == std::u32string::npos ? 0 : last_cell + 1;
  last = std::min(std::max({last, row.end, first}), std::max(row.cells.size(), first));
  bool cut_left = false;
  bool cut_right = false;
  if (last - first > kMaxColumns) {
    const std::size_t room_left = row.caret > kMaxColumns / 2 ? row.caret - kMaxColumns / 2 : 0;
    const std::size_t start = std::clamp(room_left, first, last - kMaxColumns);
    cut_left = start > first;
    cut_right = start + kMaxColumns < last;
    first = start;
    last = start + kMaxColumns;
  }
  Row out;
  out.cells = row.cells.substr(first, last - first);
  out.caret = row.caret - first;
  out.begin = std::max(row.begin, first + (cut_left ? 1 : 0)) - first;
  out.end = std::max(std::min(row.end, last - (cut_right ? 1 : 0)) - first, out.caret + 1);
  if (cut_left) out.cells.front() = kCut;
  if (cut_right) out.cells.back() = kCut;
  return out;
}

}  // namespace

Error make_error(ErrorCode code, const Source& source, Place place, std::string_view title, std::string_view note,
                 std::string fix) {
  const Row row = cut(lay_out(source, place));
  std::string shown;
  for (char32_t c : row.cells) append_utf8(shown, c);
  shown.erase(shown.find_last_not_of(' ') + 1);
  std::string marks;
  for (std::size_t i = 0; i < row.end; ++i) {
    const std::size_t cells = i < row.cells.size() ? cells_of(row.cells[i]) : 1;
    std::string mark(cells, i < row.begin ? ' ' : '~');
    if (i == row.caret) mark.replace(0, 1, "^");
    marks += mark;
  }

  std::string message = source.name() + ": ";
  if (source.has_several_lines()) message += fmt::format("line {}: ", source.line_at(place.caret).number);
  message += fmt::format("{}\n{}{}\n{}{}", title, kIndent, shown, kIndent, marks);
  // Ending in a line break, a message gets its fix on a line of its own.
  message += note.empty() ? "\n" : fmt::format(" {}", note);
  return Error(code, message, std::move(fix));
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kMaxExcerpt = 40;
  std::string out;
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++count) {
    const CodePoint c = decode_utf8(text, i);
    const bool last = i + c.length == text.size();
    if (count + 1 == kMaxExcerpt && !last) {
      append_utf8(out, kCut);
      break;
    }
    append_utf8(out, shown_as(c));
    i += c.length;
  }
  return out;
}

}  // namespace weft::expr
