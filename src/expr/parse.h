// expr/parse.h - the grammar of `weft eval`.
#pragma once

#include <cstddef>

#include "expr/ast.h"
#include "expr/source.h"

namespace weft::expr {

/// How deep brackets, signs and powers nest. A recursive visitor's stack is bounded by kMaxHeight.
inline constexpr std::size_t kMaxNesting = 200;
/// How many nodes lie on a way from a statement's value to a leaf: a + b + ... + z is as high as it is long.
inline constexpr std::size_t kMaxHeight = 1000;

/// Parses statements `name = expression` or `expression`, parted by ; or line breaks. Expressions have the syntax,
/// precedence and associativity of Python 3 (docs.python.org/3/reference/expressions.html, Operator precedence), less
/// what arrays have no use for: and/or/not, chained comparisons, conditionals, lambda, comprehensions, unpacking,
/// dictionaries, string prefixes and escapes, complex numbers. Takes time and memory linear in the text.
///
/// Throws invalid_argument for what is not of the language and out_of_range for a number, a nesting or a chain over its
/// limit; both show the place (make_error). Touches no device.
Program parse(Source source);

}  // namespace weft::expr
