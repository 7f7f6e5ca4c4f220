#include "io/decimal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace weft::io {
namespace {

// Room for any double in fixed notation with kAnyDigits after the point.
using Buffer = std::array<char, 1600>;

std::string_view print(Buffer& buffer, double value, std::chars_format style, int precision) {
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, style, precision);
  return {buffer.data(), result.ptr};
}

void cut_zeros(std::string& digits) {
  digits.erase(digits.find_last_not_of('0') + 1);
}

/// "d.ddde-dd" or "d.ddd" in pieces.
DecimalText split(std::string_view text) {
  DecimalText out;
  const std::size_t e = text.find('e');
  if (e != std::string_view::npos) {
    std::string_view power = text.substr(e + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    std::from_chars(power.data(), power.data() + power.size(), out.exponent);
    text = text.substr(0, e);
  }
  const std::size_t point = text.find('.');
  out.whole = text.substr(0, point);
  if (point != std::string_view::npos) out.fraction = text.substr(point + 1);
  return out;
}

/// The standard library prints no binary16. At most five digits tell its values apart: the first count of digits that
/// has a decimal between the midpoints to both neighbours wins. `value` is positive.
DecimalText shortest_half(double value) {
  const int exponent = std::max(std::ilogb(value), -14);
  const double step = std::ldexp(1.0, exponent - 10);
  const bool narrow_below = exponent > -14 && value == std::ldexp(1.0, exponent);
  const double low = value - (narrow_below ? step / 4 : step / 2);
  const double high = value + step / 2;
  const bool even = std::fmod(value / step, 2.0) == 0.0;
  const auto reads_back = [&](double v) { return (low < v && v < high) || (even && (v == low || v == high)); };
  for (int precision = 0;; ++precision) {
    Buffer buffer;
    const std::string_view text = print(buffer, value, std::chars_format::scientific, precision);
    DecimalText nearest = split(text);
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (reads_back(back) || precision == 5) return nearest;
    // At a power of two the gap above is the wider one: the next decimal up may do where the nearest, below, does not.
    const double next = back + std::pow(10.0, nearest.exponent - precision);
    if (narrow_below && back < value && reads_back(next)) {
      return split(print(buffer, next, std::chars_format::scientific, precision));
    }
  }
}

DecimalText shortest(double value, FloatFormat format) {
  if (value == 0) return {"0", "", 0};
  if (format == FloatFormat::f16) return shortest_half(value);
  Buffer buffer;
  char* const end = buffer.data() + buffer.size();
  const auto result = format == FloatFormat::f32
                          ? std::to_chars(buffer.data(), end, static_cast<float>(value), std::chars_format::scientific)
                          : std::to_chars(buffer.data(), end, value, std::chars_format::scientific);
  return split({buffer.data(), result.ptr});
}

}  // namespace

DecimalText positional(double value, FloatFormat format, int max_fraction) {
  value = std::fabs(value);
  const DecimalText digits = shortest(value, format);
  const int fraction = static_cast<int>(digits.fraction.size()) - digits.exponent;
  DecimalText out;
  if (fraction > max_fraction) {
    Buffer buffer;
    out = split(print(buffer, value, std::chars_format::fixed, max_fraction));
    cut_zeros(out.fraction);
    return out;
  }
  const std::string all = digits.whole + digits.fraction;
  if (digits.exponent < 0) {
    out.whole = "0";
    out.fraction = std::string(static_cast<std::size_t>(-digits.exponent) - 1, '0') + all;
  } else {
    const auto whole = static_cast<std::size_t>(digits.exponent) + 1;
    out.whole = all.substr(0, whole);
    out.whole.resize(whole, '0');
    if (all.size() > whole) out.fraction = all.substr(whole);
  }
  if (value == 0) out.fraction.clear();
  return out;
}

DecimalText scientific(double value, FloatFormat format, int min_fraction, int max_fraction) {
  value = std::fabs(value);
  DecimalText out = shortest(value, format);
  const int fraction = static_cast<int>(out.fraction.size());
  if (fraction >= min_fraction && fraction <= max_fraction) return out;
  const int wanted = fraction < min_fraction ? min_fraction : max_fraction;
  Buffer buffer;
  out = split(print(buffer, value, std::chars_format::scientific, wanted));
  if (fraction > max_fraction) {
    cut_zeros(out.fraction);
    if (static_cast<int>(out.fraction.size()) < min_fraction)
      out.fraction.resize(static_cast<std::size_t>(min_fraction), '0');
  }
  return out;
}

}  // namespace weft::io
