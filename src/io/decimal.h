// Decimal digits of binary floats, as numpy's dragon4 gives them (shortest that reads back the same, per type).
#pragma once

#include <cstdint>
#include <string>

namespace weft::io {

/// The binary format whose neighbours decide how many digits are needed.
enum class FloatFormat : std::uint8_t { f16, f32, f64 };

/// Text of a finite number in three pieces; the sign is not in them.
struct DecimalText {
  std::string whole;     ///< digits before the point, at least one
  std::string fraction;  ///< digits after it, maybe none
  int exponent = 0;      ///< power of ten; 0 in positional text
};

inline constexpr int kAnyDigits = 1100;  ///< more than any double has

/// Digits after the point: the shortest text that reads back as `value` in `format`, but at most `max_fraction`
/// digits (rounded half to even from the exact value, zeros at the end cut).
DecimalText positional(double value, FloatFormat format, int max_fraction = kAnyDigits);

/// One digit before the point. A shortest text with fewer than `min_fraction` digits is filled up with the exact
/// value's digits, as numpy does ("9.9999997e-06" for float32 1e-5 beside longer numbers).
DecimalText scientific(double value, FloatFormat format, int min_fraction = 0, int max_fraction = kAnyDigits);

}  // namespace weft::io
