#include "cli/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

#include "weft/error.h"

namespace weft::cli {
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

std::optional<std::uint64_t> parse_size(std::string_view text) {
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
  if (!(bytes >= 1 && bytes <= kMost)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || rest != end || number < 0) return std::nullopt;
  return number;
}

}  // namespace

CLI::Option* add_size_option(CLI::App& command, const std::string& name, std::uint64_t& to, const std::string& text) {
  const auto take = [&to, name](const std::string& given) {
    const std::optional<std::uint64_t> size = parse_size(given);
    if (!size) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{} {}: not a number of bytes", name, given),
                  "write it as 4096, 512M or 1.5G");
    }
    to = *size;
  };
  return command.add_option_function<std::string>(name, take, text)->type_name("SIZE");
}

CLI::Option* add_count_option(CLI::App& command, const std::string& name, std::int64_t& to, const std::string& text) {
  const auto take = [&to, name](const std::string& given) {
    const std::optional<std::int64_t> count = parse_count(given);
    if (!count) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{} {}: not a whole number from 0 on", name, given),
                  "write it in digits, as 1000");
    }
    to = *count;
  };
  return command.add_option_function<std::string>(name, take, text)->type_name("COUNT");
}

CLI::Validator file_name() {
  return {
      [](const std::string& given) { return given.empty() ? std::string("the file name is empty") : std::string(); },
      "", ""};
}

}  // namespace weft::cli
