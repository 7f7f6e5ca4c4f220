// Small pieces that generated WGSL is made of.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "weft/dtype.h"

namespace weft::ops {

/// What an element of this dtype is in a kernel; a bool is read from the u32 word that holds it.
inline std::string_view wgsl_name(DType t) noexcept {
  switch (t) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::i32: return "i32";
    default: return "u32";
  }
}

struct Replacement {
  std::string_view mark;
  std::string text;
};

/// `text` with every mark replaced. A mark starts with '$'; none is the beginning of another in the same list.
inline std::string fill(std::string text, std::initializer_list<Replacement> replacements) {
  for (const Replacement& r : replacements) {
    for (std::size_t at = 0; (at = text.find(r.mark, at)) != std::string::npos; at += r.text.size()) {
      text.replace(at, r.mark.size(), r.text);
    }
  }
  return text;
}

/// A u32 literal.
inline std::string number(std::uint32_t n) {
  return std::to_string(n) + "u";
}

/// `text` for each of 0 .. count - 1, with $I for the number.
inline std::string each(std::uint32_t count, const std::string& text) {
  std::string out;
  for (std::uint32_t i = 0; i < count; ++i) out += fill(text, {{"$I", std::to_string(i)}});
  return out;
}

}  // namespace weft::ops
