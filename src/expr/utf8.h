// expr/utf8.h - reading and writing UTF-8, one code point at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::expr {

/// Stands for what cannot be shown, and for bytes that are not UTF-8.
inline constexpr char32_t kReplacement = 0xfffd;

struct CodePoint {
  char32_t value = kReplacement;
  std::uint32_t length = 1;  ///< in bytes, at least 1
  bool valid = false;        ///< false: the byte is not the start of well-formed UTF-8; value is kReplacement, length 1
};

/// The code point that starts at `offset`, which must be inside `text`. Refuses overlong forms, surrogates and values
/// past U+10FFFF (RFC 3629). Never fails.
CodePoint decode_utf8(std::string_view text, std::size_t offset) noexcept;

/// Appends `c`, a code point up to U+10FFFF.
void append_utf8(std::string& to, char32_t c);

/// True for what a name can begin with, or go on with. ASCII as in Python; beyond it every code point but the blocks of
/// spaces, punctuation, symbols and private use: wider than Unicode's XID classes, without their tables. Names are not
/// normalised.
bool is_name_start(char32_t c) noexcept;
bool is_name_continue(char32_t c) noexcept;

/// False for control characters, and for those that only steer the layout of a line (a direction, a width of zero).
bool is_printable(char32_t c) noexcept;

/// How many cells of a terminal a printable character takes: 0 for marks that combine with the one before, 2 for the
/// ideographs, syllables and full-width forms of East Asia and for emoji, 1 for all others. By blocks, not by Unicode's
/// tables.
std::size_t cells_of(char32_t c) noexcept;

}  // namespace weft::expr
