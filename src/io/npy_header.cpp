#include "io/npy_header.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "io/malformed.h"

namespace weft::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionEnd = kMagic.size() + 2;
constexpr std::string_view kSaveAgain = "save the array again with numpy.save";
constexpr std::string_view kSpace = " \t\r\n\f";

/// Where the dictionary begins; in front of it stands its length.
std::size_t header_start(int major) noexcept {
  return kVersionEnd + (major == 1 ? sizeof(std::uint16_t) : sizeof(std::uint32_t));
}

/// Of a file that has all bytes up to header_start().
std::size_t header_length(std::span<const std::byte> file) noexcept {
  const std::byte* const at = &file[kVersionEnd];
  return std::to_integer<int>(file[kMagic.size()]) == 1 ? read_as<std::uint16_t>(at) : read_as<std::uint32_t>(at);
}

/// Where the dictionary's text is read, and how a fault in it is told.
class Scanner {
 public:
  Scanner(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  [[noreturn]] void fail(std::string_view what) const {
    const std::string_view shown = text_.substr(0, text_.find_last_not_of(kSpace) + 1);  // without the padding
    malformed(name_, fmt::format("bad .npy header: {}; the header is \"{}\"", what, printable(shown)), kSaveAgain);
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  void expect(char c, std::string_view where) {
    if (!accept(c)) fail(fmt::format("'{}' expected {}", c, where));
  }

  /// A quoted string without escapes: no name or type in a header that Weft reads has any.
  std::string_view string(std::string_view what) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail(fmt::format("{} is not a string", what));
    const std::size_t begin = ++at_;
    const std::size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) fail(fmt::format("{} has no closing quote", what));
    const std::string_view inside = text_.substr(begin, end - begin);
    if (inside.find_first_of("\\\n") != std::string_view::npos) fail(fmt::format("{} holds an escape", what));
    at_ = end + 1;
    return inside;
  }

  /// A run of letters, digits and what else may stand in a number or a name.
  std::string_view word() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '.' || text_[at_] == '+' || text_[at_] == '-')) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  std::string_view rest() const { return text_.substr(at_); }

 private:
  void skip_space() {
    while (at_ < text_.size() && kSpace.find(text_[at_]) != std::string_view::npos) ++at_;
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
};

std::int64_t parse_length(Scanner& in) {
  const std::string_view digits = in.word();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool leading_zero = digits.size() > 1 && digits[0] == '0';
  if (error == std::errc::result_out_of_range && end == digits.data() + digits.size()) {
    in.fail(fmt::format("shape length {} does not fit 64 bits", printable(digits, 40)));
  }
  if (error != std::errc{} || end != digits.data() + digits.size() || leading_zero) {
    in.fail("shape is not a tuple of whole numbers");
  }
  if (value < 0 || digits[0] == '-') in.fail(fmt::format("shape length {} is negative", digits));
  return value;
}

/// "()", "(3,)", "(2, 3)"; "(3)" is a number to Python, and no shape.
Shape parse_shape(Scanner& in, std::string_view name) {
  if (!in.accept('(')) in.fail("shape is not a tuple");
  Shape shape;
  std::size_t rank = 0;
  bool comma = true;
  while (!in.accept(')')) {
    if (!comma) in.fail("shape is not a tuple of whole numbers");
    const std::int64_t length = parse_length(in);
    if (rank++ < kMaxRank) shape.push_back(length);
    comma = in.accept(',');
  }
  if (rank == 1 && !comma) in.fail("shape is a number in brackets, not a tuple");
  if (rank > kMaxRank) {
    unsupported(name, fmt::format("an array of {} axes; Weft has at most {}", rank, kMaxRank),
                fmt::format("reshape it to at most {} axes", kMaxRank));
  }
  return shape;
}

bool parse_bool(Scanner& in) {
  const std::string_view text = in.word();
  if (text != "True" && text != "False") in.fail("fortran_order is not True or False");
  return text == "True";
}

std::optional<FileDType> element_type(std::string_view code) {
  struct Entry {
    std::string_view code;
    FileDType dtype;
  };
  static constexpr Entry kEntries[] = {
      {"?", FileDType::bool_}, {"b1", FileDType::bool_}, {"i1", FileDType::i8},    {"u1", FileDType::u8},
      {"i2", FileDType::i16},  {"u2", FileDType::u16},   {"i4", FileDType::i32},   {"u4", FileDType::u32},
      {"i8", FileDType::i64},  {"u8", FileDType::u64},   {"f2", FileDType::f16},   {"f4", FileDType::f32},
      {"f8", FileDType::f64},  {"c8", FileDType::c64},   {"c16", FileDType::c128},
  };
  for (const Entry& e : kEntries) {
    if (e.code == code) return e.dtype;
  }
  return std::nullopt;
}

/// What a type that Weft does not have is called, with what to do about it; empty for text that is no type at all.
std::pair<std::string_view, std::string_view> foreign_type(std::string_view code) {
  const bool sized = code.size() > 1;
  const char kind = code.empty() ? '\0' : code[0];
  if (code == "O" || (sized && kind == 'O')) return {"Python objects", "convert it to a number type before saving"};
  if (kind == 'U' || kind == 'S' || kind == 'a') return {"text", "save numbers"};
  if (kind == 'M' || kind == 'm') return {"dates or times", "save it as a number, with .astype('int32')"};
  if (kind == 'V') {
    return {"raw records (numpy's form of bfloat16 too)", "save one field or, for bfloat16, .astype('float32')"};
  }
  if (code == "f16" || code == "f12" || code == "c32" || code == "c24") {
    return {"extended precision numbers", "save it as float32 or float64"};
  }
  return {};
}

/// The list or tuple that `text` begins with; all of it where that is never closed.
std::string_view bracketed(std::string_view text) {
  int open = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '(') {
      ++open;
    } else if ((c == ']' || c == ')') && --open == 0) {
      return text.substr(0, i + 1);
    }
  }
  return text;
}

void parse_descr(Scanner& in, ArrayLayout& layout, std::string_view name) {
  // numpy writes a list of fields for a structured type; a tuple stands for a sub-array type.
  if (in.peek() == '[' || in.peek() == '(') {
    unsupported(name, fmt::format("structured dtype {}", printable(bracketed(in.rest()), 120)),
                "save each field as an array of its own");
  }
  const std::string_view descr = in.string("descr");
  std::string_view code = descr;
  if (!code.empty() && std::string_view("<>|=").find(code[0]) != std::string_view::npos) code.remove_prefix(1);
  const std::optional<FileDType> dtype = element_type(code);
  if (!dtype) {
    const auto [kind, fix] = foreign_type(code);
    if (kind.empty()) in.fail(fmt::format("descr '{}' is not an element type", printable(descr, 60)));
    unsupported(name, fmt::format("dtype '{}' holds {}", printable(descr, 60), kind), fix);
  }
  layout.dtype = *dtype;
  layout.big_endian = descr[0] == '>';
}

ArrayLayout parse_dictionary(std::string_view text, std::string_view name) {
  Scanner in(text, name);
  ArrayLayout layout;
  bool have_descr = false;
  bool have_order = false;
  bool have_shape = false;
  const auto once = [&in](bool& have, std::string_view key) {
    if (have) in.fail(fmt::format("key '{}' comes twice", key));
    have = true;
  };
  in.expect('{', "at the start");
  bool comma = true;
  while (!in.accept('}')) {
    if (!comma) in.fail("',' or '}' expected after a value");
    const std::string_view key = in.string("a key");
    in.expect(':', "after a key");
    if (key == "descr") {
      once(have_descr, key);
      parse_descr(in, layout, name);
    } else if (key == "fortran_order") {
      once(have_order, key);
      layout.fortran_order = parse_bool(in);
    } else if (key == "shape") {
      once(have_shape, key);
      layout.shape = parse_shape(in, name);
    } else {
      in.fail(fmt::format("unknown key '{}'", printable(key, 60)));
    }
    comma = in.accept(',');
  }
  if (!have_descr) in.fail("key 'descr' is missing");
  if (!have_order) in.fail("key 'fortran_order' is missing");
  if (!have_shape) in.fail("key 'shape' is missing");
  const std::string_view tail = in.rest();
  if (tail.find_first_not_of(kSpace) != std::string_view::npos) in.fail("text after the closing '}'");
  if (tail.find('\n') == std::string_view::npos) in.fail("no newline at the end");
  return layout;
}

}  // namespace

bool is_npy(std::span<const std::byte> file) noexcept {
  return std::string_view(reinterpret_cast<const char*>(file.data()), file.size()).starts_with(kMagic);
}

std::optional<std::size_t> npy_header_size(std::span<const std::byte> file) noexcept {
  if (file.size() < kVersionEnd) return std::nullopt;
  const std::size_t start = header_start(std::to_integer<int>(file[kMagic.size()]));
  if (file.size() < start) return std::nullopt;
  return start + header_length(file);
}

NpyHeader parse_npy_header(std::span<const std::byte> file, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.empty()) malformed(name, "empty file, not a .npy file", kSaveAgain);
  if (!text.starts_with(kMagic)) {
    malformed(name,
              fmt::format("not a .npy file: it starts with \"{}\", not \"\\x93NUMPY\"",
                          printable(text.substr(0, kMagic.size()))),
              "give a .npy, .npz or .safetensors file");
  }
  if (text.size() < kVersionEnd) {
    malformed(name, fmt::format("truncated: {} bytes, no version after the magic", text.size()), kSaveAgain);
  }
  const int major = std::to_integer<int>(file[6]);
  const int minor = std::to_integer<int>(file[7]);
  if (major < 1 || major > 3 || minor != 0) {
    malformed(name, fmt::format(".npy version {}.{}; known are 1.0, 2.0 and 3.0", major, minor), kSaveAgain);
  }
  const std::size_t start = header_start(major);
  if (file.size() < start) {
    malformed(name, fmt::format("truncated: {} bytes, no header length", file.size()), kSaveAgain);
  }
  const std::size_t length = header_length(file);
  if (length > file.size() - start) {
    malformed(name,
              fmt::format("truncated: the header is {} bytes, the file has {} left: \"{}\"", length,
                          file.size() - start, printable(text.substr(start), 200)),
              kSaveAgain);
  }
  return {parse_dictionary(text.substr(start, length), name), start + length};
}

}  // namespace weft::io
