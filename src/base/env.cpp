#include "base/env.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/byte_size.h"
#include "weft/error.h"

namespace weft {
namespace {
[[noreturn]] void refuse(const char* name, const std::string& text, std::string fix) {
  throw Error(ErrorCode::invalid_argument, fmt::format("the environment variable {} is '{}'", name, text),
              std::move(fix));
}
}  // namespace

std::optional<std::string> env_text(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string(text);
}

std::optional<std::uint64_t> env_count(const char* name) {
  const auto text = env_text(name);
  if (!text) return std::nullopt;
  std::uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [rest, ec] = std::from_chars(text->data(), end, value);
  if (ec != std::errc() || rest != end) refuse(name, *text, "set it to a whole number, or unset it");
  return value;
}

std::optional<std::uint64_t> env_bytes(const char* name) {
  const auto text = env_text(name);
  if (!text) return std::nullopt;
  const std::optional<std::uint64_t> bytes = parse_byte_size(*text);
  if (!bytes) refuse(name, *text, fmt::format("set it to a number of bytes, as {}, or unset it", kByteSizeForm));
  return bytes;
}

std::optional<bool> env_flag(const char* name) {
  const auto text = env_text(name);
  if (!text) return std::nullopt;
  if (*text != "0" && *text != "1") refuse(name, *text, "set it to 0 or 1, or unset it");
  return *text == "1";
}

std::optional<std::chrono::nanoseconds> env_duration(const char* name) {
  const auto text = env_text(name);
  if (!text) return std::nullopt;
  static constexpr const char* kFix = "set it to seconds such as 30 or 2.5, or to 500ms, or unset it";
  double value = 0;
  const char* end = text->data() + text->size();
  const auto [rest, ec] = std::from_chars(text->data(), end, value);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (ec != std::errc() || !std::isfinite(value) || value < 0 || (!unit.empty() && unit != "s" && unit != "ms")) {
    refuse(name, *text, kFix);
  }
  const double seconds = unit == "ms" ? value * 1e-3 : value;
  if (seconds > 1e9) refuse(name, *text, kFix);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

}  // namespace weft
