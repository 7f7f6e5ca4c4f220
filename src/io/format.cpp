// Follows numpy 2.4: numpy/_core/arrayprint.py (layout, columns, switch to exponents) and scalar printing for 0-d.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "io/decimal.h"
#include "io/memory.h"
#include "weft/error.h"
#include "weft/io.h"

namespace weft::io {
namespace {

constexpr int kPrecision = 8;
constexpr std::size_t kLineWidth = 75;
constexpr std::int64_t kEdgeItems = 3;
constexpr std::string_view kEllipsis = "...";

using Words = std::vector<std::string>;

float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

double real_at(FileDType t, const std::byte* at) {
  switch (t) {
    case FileDType::f16: return static_cast<double>(static_cast<float>(read_as<float16>(at)));
    case FileDType::bf16: return static_cast<double>(bf16_to_float(read_as<std::uint16_t>(at)));
    case FileDType::f32:
    case FileDType::c64: return static_cast<double>(read_as<float>(at));
    default: return read_as<double>(at);
  }
}

FloatFormat float_format(FileDType t) {
  switch (t) {
    case FileDType::f16: return FloatFormat::f16;
    case FileDType::f64:
    case FileDType::c128: return FloatFormat::f64;
    default: return FloatFormat::f32;  // bfloat16 too: it is shown as the float32 it widens to
  }
}

std::string integer_at(FileDType t, const std::byte* at) {
  switch (t) {
    case FileDType::i8: return fmt::format("{}", static_cast<int>(read_as<std::int8_t>(at)));
    case FileDType::u8: return fmt::format("{}", static_cast<int>(read_as<std::uint8_t>(at)));
    case FileDType::i16: return fmt::format("{}", read_as<std::int16_t>(at));
    case FileDType::u16: return fmt::format("{}", read_as<std::uint16_t>(at));
    case FileDType::i32: return fmt::format("{}", read_as<std::int32_t>(at));
    case FileDType::u32: return fmt::format("{}", read_as<std::uint32_t>(at));
    case FileDType::i64: return fmt::format("{}", read_as<std::int64_t>(at));
    default: return fmt::format("{}", read_as<std::uint64_t>(at));
  }
}

std::string exponent_text(int exponent, std::size_t digits = 2) {
  return fmt::format("e{}{:0{}}", exponent < 0 ? '-' : '+', std::abs(exponent), digits);
}

std::string sign_text(double v, bool plus) {
  return std::signbit(v) ? "-" : plus ? "+" : "";
}

std::string non_finite_text(double v, bool plus) {
  if (std::isnan(v)) return plus ? "+nan" : "nan";
  return sign_text(v, plus) + "inf";
}

/// Whether numpy turns to exponents. All comparisons are made in the element type, as numpy makes them.
bool wants_exponent(const std::vector<double>& values, FloatFormat format) {
  double high = 0;
  double low = std::numeric_limits<double>::infinity();
  for (double v : values) {
    if (!std::isfinite(v) || v == 0) continue;
    high = std::max(high, std::fabs(v));
    low = std::min(low, std::fabs(v));
  }
  if (high == 0) return false;
  switch (format) {
    case FloatFormat::f16: {
      const auto ratio = static_cast<float>(float16(static_cast<float>(high) / static_cast<float>(low)));
      return high >= 1e3 || low < static_cast<double>(static_cast<float>(float16(1e-4f))) || ratio > 1000.0f;
    }
    case FloatFormat::f32:
      return high >= 1e6 || static_cast<float>(low) < 1e-4f ||
             static_cast<float>(high) / static_cast<float>(low) > 1000.0f;
    default: return high >= 1e8 || low < 1e-4 || high / low > 1000.0;
  }
}

/// Words of equal width for real numbers; `plus` shows the sign of positive ones too (imaginary parts).
Words real_words(const std::vector<double>& values, FloatFormat format, bool plus) {
  const bool exponents = wants_exponent(values, format);
  std::size_t left = 0;      // sign and digits before the point
  std::size_t fraction = 0;  // digits after it
  std::size_t power = 0;     // digits of the exponent
  bool any_finite = false;
  bool negative_inf = plus;
  bool all_finite = true;
  for (double v : values) {
    if (!std::isfinite(v)) {
      all_finite = false;
      negative_inf = negative_inf || (std::isinf(v) && v < 0);
      continue;
    }
    any_finite = true;
    const DecimalText text = exponents ? scientific(v, format, 0, kPrecision) : positional(v, format, kPrecision);
    left = std::max(left, sign_text(v, plus).size() + text.whole.size());
    fraction = std::max(fraction, text.fraction.size());
    if (exponents) power = std::max(power, exponent_text(text.exponent).size() - 2);
  }
  const std::size_t right = any_finite && exponents ? power + 2 + fraction : fraction;
  if (!all_finite) {
    const auto at_least = [&](std::size_t width) { left = std::max(left, width - std::min(width, right + 1)); };
    at_least(3);
    at_least(negative_inf ? 4 : 3);
  }

  Words words;
  words.reserve(values.size());
  for (double v : values) {
    if (!std::isfinite(v)) {
      words.push_back(fmt::format("{:>{}}", non_finite_text(v, plus), left + right + 1));
    } else if (exponents) {
      const int digits = static_cast<int>(fraction);
      const DecimalText text = scientific(v, format, digits, digits);
      words.push_back(fmt::format("{:>{}}.{:0<{}}{}", sign_text(v, plus) + text.whole, left, text.fraction, fraction,
                                  exponent_text(text.exponent, power)));
    } else {
      const DecimalText text = positional(v, format, kPrecision);
      words.push_back(fmt::format("{:>{}}.{:<{}}", sign_text(v, plus) + text.whole, left, text.fraction, fraction));
    }
  }
  return words;
}

Words complex_words(FileDType t, std::span<const std::byte> bytes, const std::vector<std::size_t>& visible) {
  std::vector<double> real;
  std::vector<double> imaginary;
  for (std::size_t i : visible) {
    const std::byte* at = &bytes[i * size_of(t)];
    real.push_back(real_at(t, at));
    imaginary.push_back(real_at(t, at + size_of(t) / 2));
  }
  Words words = real_words(real, float_format(t), false);
  const Words right = real_words(imaginary, float_format(t), true);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string part = right[i];
    part.insert(part.find_last_not_of(' ') + 1, 1, 'j');
    words[i] += part;
  }
  return words;
}

Words integer_words(FileDType t, std::span<const std::byte> bytes, const std::vector<std::size_t>& visible) {
  Words words;
  std::size_t width = 0;
  for (std::size_t i : visible) {
    words.push_back(integer_at(t, &bytes[i * size_of(t)]));
    width = std::max(width, words.back().size());
  }
  for (std::string& w : words) w.insert(0, width - w.size(), ' ');
  return words;
}

/// The texts of the elements at the given row-major places, as wide as each other.
Words element_words(FileDType t, std::span<const std::byte> bytes, const std::vector<std::size_t>& visible) {
  switch (t) {
    case FileDType::bool_: {
      Words words;
      for (std::size_t i : visible) words.emplace_back(bytes[i] != std::byte{0} ? " True" : "False");
      return words;
    }
    case FileDType::c64:
    case FileDType::c128: return complex_words(t, bytes, visible);
    case FileDType::f16:
    case FileDType::bf16:
    case FileDType::f32:
    case FileDType::f64: {
      std::vector<double> values;
      values.reserve(visible.size());
      for (std::size_t i : visible) values.push_back(real_at(t, &bytes[i * size_of(t)]));
      return real_words(values, float_format(t), false);
    }
    default: return integer_words(t, bytes, visible);
  }
}

/// A float as numpy prints a scalar. `point_zero` ends whole numbers in ".0"; parts of complex numbers do not.
std::string scalar_text(double v, FloatFormat format, bool plus, bool point_zero) {
  if (!std::isfinite(v)) return non_finite_text(v, plus);
  const double limit = format == FloatFormat::f16 ? 1e3 : format == FloatFormat::f32 ? 1e6 : 1e16;
  const double size = std::fabs(v);
  if (size == 0 || (size >= 1e-4 && size < limit)) {
    const DecimalText text = positional(v, format);
    const std::string tail = text.fraction.empty() ? (point_zero ? ".0" : "") : "." + text.fraction;
    return sign_text(v, plus) + text.whole + tail;
  }
  const DecimalText text = scientific(v, format);
  return sign_text(v, plus) + text.whole + (text.fraction.empty() ? "" : "." + text.fraction) +
         exponent_text(text.exponent);
}

std::string scalar(FileDType t, std::span<const std::byte> bytes) {
  switch (t) {
    case FileDType::bool_: return bytes[0] != std::byte{0} ? "True" : "False";
    case FileDType::c64:
    case FileDType::c128: {
      const double re = real_at(t, bytes.data());
      const double im = real_at(t, bytes.data() + size_of(t) / 2);
      if (re == 0 && !std::signbit(re)) return scalar_text(im, float_format(t), false, false) + "j";
      return "(" + scalar_text(re, float_format(t), false, false) + scalar_text(im, float_format(t), true, false) +
             "j)";
    }
    case FileDType::f16:
    case FileDType::bf16:
    case FileDType::f32:
    case FileDType::f64: return scalar_text(real_at(t, bytes.data()), float_format(t), false, true);
    default: return integer_at(t, bytes.data());
  }
}

/// Lays words out in brackets and lines. With `summarise`, an axis longer than both edges shows only these.
class Layout {
 public:
  Layout(const Shape& shape, bool summarise)
      : shape_(shape), strides_(contiguous_strides(shape)), summarise_(summarise) {}

  /// Row-major places of the elements that will show, in order.
  std::vector<std::size_t> visible() const {
    std::vector<std::size_t> out;
    collect(0, 0, out);
    return out;
  }

  std::string print(const Words& words) const {
    std::size_t next = 0;
    return axis_text(0, " ", kLineWidth, words, next);
  }

 private:
  bool cut(std::size_t axis) const { return summarise_ && shape_[axis] > 2 * kEdgeItems; }

  void collect(std::size_t axis, std::size_t base, std::vector<std::size_t>& out) const {
    if (axis == shape_.rank()) {
      out.push_back(base);
      return;
    }
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      if (cut(axis) && i == kEdgeItems) i = shape_[axis] - kEdgeItems;
      collect(axis + 1, base + static_cast<std::size_t>(i * strides_[axis]), out);
    }
  }

  /// `width` is how far a line may reach: each enclosing bracket closes at the end of some line and takes one column.
  std::string axis_text(std::size_t axis, const std::string& indent, std::size_t width, const Words& words,
                        std::size_t& next) const {
    if (axis + 1 == shape_.rank()) return row_text(indent, width - 1, words, next);
    const std::string separator(shape_.rank() - axis - 1, '\n');
    std::string out = "[";
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      if (i != 0) {
        out += separator;
        out += indent;
      }
      if (cut(axis) && i == kEdgeItems) {
        out += kEllipsis;
        out += separator;
        out += indent;
        i = shape_[axis] - kEdgeItems;
      }
      out += axis_text(axis + 1, indent + ' ', width - 1, words, next);
    }
    return out + ']';
  }

  std::string row_text(const std::string& indent, std::size_t width, const Words& words, std::size_t& next) const {
    const std::int64_t length = shape_.back();
    std::string out;
    std::string line = indent;
    const auto extend = [&](std::string_view word) {
      if (line.size() + word.size() > width && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + '\n';
        line = indent;
      }
      line += word;
    };
    for (std::int64_t i = 0; i < length; ++i) {
      if (cut(shape_.rank() - 1) && i == kEdgeItems) {
        extend(kEllipsis);
        line += ' ';
        i = length - kEdgeItems;
      }
      extend(words[next++]);
      if (i + 1 < length) line += ' ';
    }
    out += line;
    return '[' + out.substr(indent.size()) + ']';
  }

  const Shape& shape_;
  Strides strides_;
  bool summarise_;
};

}  // namespace

std::string format_array(FileDType dtype, const Shape& shape, std::span<const std::byte> bytes, std::size_t threshold) {
  const auto count = static_cast<std::uint64_t>(element_count(shape));
  if (bytes.size() % size_of(dtype) != 0 || bytes.size() / size_of(dtype) != count) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("format_array: {} bytes for shape {} of {}", bytes.size(), to_string(shape), to_string(dtype)),
        "pass the bytes of the whole array");
  }
  if (shape.rank() == 0) return scalar(dtype, bytes);
  if (count == 0) return "[]";
  const Layout layout(shape, count > threshold);
  return layout.print(element_words(dtype, bytes, layout.visible()));
}

}  // namespace weft::io
