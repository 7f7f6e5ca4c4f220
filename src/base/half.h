// float16 of a double.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "weft/dtype.h"

namespace weft {

/// The float16 nearest to a double, half to even, in one rounding. By way of a float, which keeps what it drops in its
/// last bit: rounded twice, what lies just past a half between two float16s would fall back on it.
inline float16 nearest_half(double value) noexcept {
  const auto single = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(single) == value) return float16(single);
  const bool grew = std::fabs(static_cast<double>(single)) > std::fabs(value);
  const float inner = grew ? std::nextafter(single, 0.0F) : single;
  return float16(std::bit_cast<float>(std::bit_cast<std::uint32_t>(inner) | 1U));
}

}  // namespace weft
