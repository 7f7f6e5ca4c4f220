// expr/diagnostic.h - errors that show the expression with a caret under the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "expr/source.h"
#include "weft/error.h"

namespace weft::expr {

/// What an error points at: the underlined bytes, and the one of them under which the caret stands. A Span converts to
/// a Place whose caret is at its begin.
struct Place {
  Span span;
  std::uint32_t caret = 0;

  Place(Span whole) : span(whole), caret(whole.begin) {}  // NOLINT(google-explicit-constructor)
  /// The caret at the begin of `point`, for example at an operator, with its operands underlined.
  Place(Span whole, Span point) : span(join(whole, point)), caret(point.begin) {}
};

/// The error that reports `place` of `source`. Its message has three lines,
///
///     eval: shapes don't match
///         x @ w + b
///         ~~^~~ (37, 64) and (65, 10): inner lengths 64 and 65 differ
///
/// from the source's name, `title`, the source line and `note`. `note` and `fix` are one line each, without a full
/// stop; an empty note leaves the caret line bare. A source of several lines shows the caret's line only, with its
/// number; a line longer than 76 code points is cut around the caret. A tab is shown as one space, a control character
/// or a byte that is not UTF-8 as U+FFFD. An empty span shows one caret. Does not throw the error; safe from any
/// thread.
Error make_error(ErrorCode code, const Source& source, Place place, std::string_view title, std::string_view note,
                 std::string fix);

/// A piece of a source as a note quotes it: at most 40 code points, the rest cut to …, on one line, and without
/// anything that could steer a terminal. What the user wrote reaches an error's text only through here and make_error.
std::string excerpt(std::string_view text);

}  // namespace weft::expr
