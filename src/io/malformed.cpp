#include "io/malformed.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "weft/error.h"

namespace weft::io {
namespace {

void append_escaped(std::string& out, std::string_view text) {
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c >= 0x20 && c < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
}

std::string summary(std::span<const std::string> names) {
  constexpr std::size_t kShown = 10;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    if (i != 0) out += ", ";
    out += printable(names[i], 100);
  }
  if (names.size() > kShown) out += fmt::format(", and {} more", names.size() - kShown);
  return out;
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  if (text.size() <= limit) {
    append_escaped(out, text);
  } else {
    append_escaped(out, text.substr(0, limit / 2));
    out += fmt::format(" ...{} bytes... ", text.size() - limit / 2 * 2);
    append_escaped(out, text.substr(text.size() - limit / 2));
  }
  return out;
}

void malformed(std::string_view name, std::string_view what, std::string_view fix) {
  throw Error(ErrorCode::io_error, fmt::format("{}: {}", name, what), std::string(fix));
}

void unsupported(std::string_view name, std::string_view what, std::string_view fix) {
  throw Error(ErrorCode::unsupported, fmt::format("{}: {}", name, what), std::string(fix));
}

void system_error(std::string_view name, std::string_view action, int error, std::string_view fix) {
  throw Error(ErrorCode::io_error,
              fmt::format("{}: {}: {}", name, action, std::error_code(error, std::generic_category()).message()),
              std::string(fix));
}

std::size_t choose(std::string_view file, std::span<const std::string> names, std::string_view wanted) {
  if (names.empty()) malformed(file, "holds no arrays", "name a file that holds at least one array");
  if (wanted.empty()) {
    if (names.size() == 1) return 0;
    malformed(file, fmt::format("holds {} arrays ({}), and none is named", names.size(), summary(names)),
              fmt::format("name one, as in {}:{}", file, printable(names[0], 100)));
  }
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found == names.end()) {
    malformed(file, fmt::format("has no array '{}'; it has {}", printable(wanted), summary(names)),
              "use one of the names in the file");
  }
  if (std::find(found + 1, names.end(), wanted) != names.end()) {
    malformed(file, fmt::format("has more than one array '{}'", printable(wanted)),
              "write the archive again with unique names");
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace weft::io
