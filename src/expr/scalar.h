// expr/scalar.h - arithmetic on numbers of the source text, done on the host before anything runs.
#pragma once

#include <string>

#include "weft/ops.h"

namespace weft::expr {

/// As Python computes: integers stay integers within int64, / gives a float, // and % take the floor, ** of a negative
/// exponent gives a float. Throws Error{out_of_range} where a result leaves int64 or (of **) float64, and
/// Error{invalid_argument} for a division by zero, a bit operation on floats, a complex result.
Scalar fold(weft::BinaryOp op, const Scalar& a, const Scalar& b);
/// Functions as numpy computes them, in float64; integers where numpy keeps them.
Scalar fold(weft::UnaryOp op, const Scalar& x);

/// The dtype that a number has when no tensor gives it one: bool, int32, float32. Throws Error{out_of_range} for an
/// integer that does not fit.
DType default_dtype(const Scalar& x);

bool is_float(const Scalar& x) noexcept;
double to_double(const Scalar& x) noexcept;
/// As Python prints it.
std::string to_string(const Scalar& x);

}  // namespace weft::expr
