#include "expr/utf8.h"

#include <algorithm>
#include <iterator>

namespace weft::expr {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Code points past ASCII that no name contains, in rising order.
constexpr Range kNotInNames[] = {
    {0x0080, 0x00a9},     // C1 controls, Latin-1 punctuation
    {0x00ab, 0x00b4},     // « ¬ soft hyphen ® ¯ ° ± ² ³ ´
    {0x00b6, 0x00b9},     // ¶ · ¸ ¹
    {0x00bb, 0x00bf},     // » ¼ ½ ¾ ¿
    {0x00d7, 0x00d7},     // ×
    {0x00f7, 0x00f7},     // ÷
    {0x061c, 0x061c},     // Arabic letter mark
    {0x1680, 0x1680},     // Ogham space
    {0x2000, 0x20cf},     // spaces, dashes, quotes, superscripts, subscripts, currency
    {0x2150, 0x215f},     // fractions
    {0x2190, 0x2bff},     // arrows, mathematical operators, technical, boxes, shapes, dingbats
    {0x2e00, 0x2e7f},     // supplemental punctuation
    {0x3000, 0x3004},     // ideographic space and punctuation
    {0x3008, 0x3020},     // CJK brackets
    {0xd800, 0xf8ff},     // surrogates, private use
    {0xfe00, 0xfe6f},     // variation selectors, vertical and small forms
    {0xfeff, 0xff0f},     // byte order mark, full-width punctuation
    {0xff1a, 0xff20},     // full-width : ; < = > ? @
    {0xff3b, 0xff3e},     // full-width [ \ ] ^
    {0xff5b, 0xff65},     // full-width { | } ~ and half-width punctuation
    {0xffe0, 0xffff},     // full-width signs, specials
    {0x1f000, 0x1faff},   // pictographs
    {0xe0000, 0x10ffff},  // tags, selectors, private use
};

bool in_name(char32_t c) noexcept {
  const Range* r = std::lower_bound(std::begin(kNotInNames), std::end(kNotInNames), c,
                                    [](const Range& range, char32_t value) { return range.last < value; });
  return r == std::end(kNotInNames) || c < r->first;
}

bool is_ascii_letter(char32_t c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_combining(char32_t c) noexcept {
  return (c >= 0x0300 && c <= 0x036f) || (c >= 0x20d0 && c <= 0x20ff);
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t offset) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(offset);
  if (lead < 0x80) return {lead, 1, true};
  std::uint32_t length = 0;
  char32_t value = 0;
  char32_t smallest = 0;  // below it the form is overlong
  if ((lead & 0xe0) == 0xc0) {
    length = 2, value = lead & 0x1fu, smallest = 0x80;
  } else if ((lead & 0xf0) == 0xe0) {
    length = 3, value = lead & 0x0fu, smallest = 0x800;
  } else if ((lead & 0xf8) == 0xf0) {
    length = 4, value = lead & 0x07u, smallest = 0x10000;
  } else {
    return {};
  }
  if (text.size() - offset < length) return {};
  for (std::uint32_t i = 1; i < length; ++i) {
    const unsigned char c = byte(offset + i);
    if ((c & 0xc0) != 0x80) return {};
    value = (value << 6) | (c & 0x3fu);
  }
  if (value < smallest || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return {};
  return {value, length, true};
}

void append_utf8(std::string& to, char32_t c) {
  const auto put = [&](char32_t byte) { to.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | (c >> 6));
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3f));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

bool is_name_start(char32_t c) noexcept {
  if (c < 0x80) return is_ascii_letter(c);
  return in_name(c) && !is_combining(c);
}

bool is_name_continue(char32_t c) noexcept {
  if (c < 0x80) return is_ascii_letter(c) || (c >= '0' && c <= '9');
  return in_name(c) || is_combining(c);
}

bool is_printable(char32_t c) noexcept {
  if (c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0xfeff) return false;
  const bool steers_layout =
      (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0x061c;
  return !steers_layout;
}

std::size_t cells_of(char32_t c) noexcept {
  static constexpr Range kCombining[] = {
      {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a}, {0x064b, 0x065f},
      {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff},
      {0x3099, 0x309a}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
  };
  static constexpr Range kWide[] = {
      {0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0xa4cf},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
      {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
  };
  const auto holds = [c](const Range& range) { return c >= range.first && c <= range.last; };
  if (std::any_of(std::begin(kCombining), std::end(kCombining), holds)) return 0;
  return std::any_of(std::begin(kWide), std::end(kWide), holds) ? 2 : 1;
}

}  // namespace weft::expr
