#include "ops/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

struct IntegerRange {
  std::int64_t low, high;
};
IntegerRange range_of(DType dtype) {
  if (dtype == DType::u32) return {0, std::numeric_limits<std::uint32_t>::max()};
  return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
}

void check_fits(std::string_view op, std::int64_t value, DType dtype) {
  const IntegerRange range = range_of(dtype);
  if (value >= range.low && value <= range.high) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} does not fit {}", op, value, to_string(dtype)),
              fmt::format("use values from {} to {}, or float32", range.low, range.high));
}

template <class T>
T as(const Scalar& s) {
  return std::visit([](auto v) { return static_cast<T>(v); }, s.value);
}

}  // namespace

Scalar stored_scalar(std::string_view op, const Scalar& s, DType dtype) {
  if (is_float(dtype)) return as<double>(s);
  if (const auto* real = std::get_if<double>(&s.value)) {
    if (dtype == DType::bool_) return *real != 0;
    if (std::isnan(*real)) return 0;
    const IntegerRange range = range_of(dtype);
    return static_cast<std::int64_t>(
        std::clamp(std::trunc(*real), static_cast<double>(range.low), static_cast<double>(range.high)));
  }
  const auto value = as<std::int64_t>(s);
  if (dtype == DType::bool_) return value != 0;
  check_fits(op, value, dtype);
  return value;
}

std::uint32_t param_bits(const Scalar& stored, DType dtype) {
  switch (dtype) {
    case DType::bool_: return as<double>(stored) != 0 ? 1U : 0U;
    case DType::i32:
    case DType::u32: return static_cast<std::uint32_t>(as<std::int64_t>(stored));
    case DType::f16: return std::bit_cast<std::uint32_t>(static_cast<float>(nearest_half(as<double>(stored))));
    case DType::f32: break;
  }
  return std::bit_cast<std::uint32_t>(static_cast<float>(as<double>(stored)));
}

}  // namespace weft::ops
