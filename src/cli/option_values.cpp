#include "cli/option_values.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/byte_size.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

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
    const std::optional<std::uint64_t> size = parse_byte_size(given);
    if (!size || *size == 0) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{} {}: not a number of bytes", name, given),
                  fmt::format("write it as {}", kByteSizeForm));
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
