// weft/dtype.h - element types of tensors, and the 16-bit float that hosts lack.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

/// Element type of a Tensor. In device memory each element takes `size_of(dtype)` bytes, as in numpy: a bool is one
/// byte, 0 or 1, and four of them share a 32-bit word.
enum class DType : std::uint8_t { bool_, i32, u32, f16, f32 };

inline constexpr DType bool_ = DType::bool_;
inline constexpr DType i32 = DType::i32;
inline constexpr DType u32 = DType::u32;
inline constexpr DType f16 = DType::f16;
inline constexpr DType f32 = DType::f32;

/// Bytes of one element.
constexpr std::size_t size_of(DType t) noexcept {
  switch (t) {
    case DType::bool_: return 1;
    case DType::f16: return 2;
    default: return 4;
  }
}

constexpr bool is_float(DType t) noexcept {
  return t == DType::f16 || t == DType::f32;
}
constexpr bool is_integer(DType t) noexcept {
  return t == DType::i32 || t == DType::u32;
}

/// numpy's name: "bool", "int32", "uint32", "float16", "float32".
std::string_view to_string(DType t) noexcept;

/// The reverse of to_string; also takes "i32", "u32", "f16", "f32" and numpy's "i4", "u4", "f2", "f4", "b1", "?".
std::optional<DType> parse_dtype(std::string_view name) noexcept;

/// IEEE 754 binary16 as stored; converts to and from float with round to nearest even.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  explicit float16(float value) noexcept;
  explicit operator float() const noexcept;
  bool operator==(const float16&) const = default;  ///< compares bits, so NaN == NaN and +0 != -0
};

/// Maps a C++ element type to its DType: `dtype_of<float> == DType::f32`.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no weft dtype for this C++ type: use float, weft::float16, int32_t, uint32_t or bool");
  return DType::f32;
}();
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<float16> = DType::f16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::uint32_t> = DType::u32;
template <>
inline constexpr DType dtype_of<bool> = DType::bool_;

}  // namespace weft
