#include "base/byte_size.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

namespace weft {
namespace {

/// "M", "MB" and "MiB" in either case: 2^20.
std::optional<double> factor_of(std::string_view unit) {
  constexpr std::string_view kUnits = "bkmgt";
  std::string small(unit);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (small.empty()) return 1;
  const std::size_t power = kUnits.find(small[0]);
  const std::string_view rest = std::string_view(small).substr(1);
  const bool known = rest.empty() || (power != 0 && (rest == "b" || rest == "ib"));
  if (power == std::string_view::npos || !known) return std::nullopt;
  return std::ldexp(1.0, static_cast<int>(10 * power));
}

}  // namespace

std::optional<std::uint64_t> parse_byte_size(std::string_view text) {
  const bool begins_as_number = !text.empty() && (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
  if (!begins_as_number) return std::nullopt;
  double number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc()) return std::nullopt;
  const std::optional<double> factor = factor_of({rest, static_cast<std::size_t>(end - rest)});
  if (!factor) return std::nullopt;
  const double bytes = number * *factor;
  constexpr double kMost = 9.2e18;
  if (!(bytes >= 0 && bytes <= kMost)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace weft
