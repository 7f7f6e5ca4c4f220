#include "weft/dtype.h"

namespace weft {

std::string_view to_string(DType t) noexcept {
  switch (t) {
    case DType::bool_: return "bool";
    case DType::i32: return "int32";
    case DType::u32: return "uint32";
    case DType::f16: return "float16";
    case DType::f32: return "float32";
  }
  return "?";
}

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  struct Entry {
    std::string_view name;
    DType dtype;
  };
  static constexpr Entry kEntries[] = {
      {"bool", DType::bool_}, {"b1", DType::bool_},    {"?", DType::bool_},    {"int32", DType::i32},
      {"i32", DType::i32},    {"i4", DType::i32},      {"uint32", DType::u32}, {"u32", DType::u32},
      {"u4", DType::u32},     {"float16", DType::f16}, {"f16", DType::f16},    {"f2", DType::f16},
      {"half", DType::f16},   {"float32", DType::f32}, {"f32", DType::f32},    {"f4", DType::f32},
  };
  for (const Entry& e : kEntries) {
    if (e.name == name) return e.dtype;
  }
  return std::nullopt;
}

float16::float16(float value) noexcept {
  const auto x = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((x >> 16) & 0x8000u);
  const std::uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: keep the top payload bits, stay quiet
    bits = static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
    bits = static_cast<std::uint16_t>(sign | 0x7c00u);
  } else if (magnitude >= 0x38800000u) {  // normal
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  } else {  // subnormal or zero: adding 0.5 lets the FPU align and round the mantissa
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
}

float16::operator float() const noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

}  // namespace weft
