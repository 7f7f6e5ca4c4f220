#include "ops/infer_norm.h"

#include <fmt/format.h>

#include "weft/error.h"

namespace weft::ops {

void check_eps(std::string_view op, double eps) {
  if (eps >= 0) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: eps is {}", op, eps), "give a number that is not negative");
}

void check_channel_operand(std::string_view op, std::string_view what, const Shape& given, std::int64_t channels,
                           const Shape& x) {
  if (given == Shape{channels}) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{}: {} has shape {}, but x {} has {} channels", op, what, to_string(given), to_string(x), channels),
      fmt::format("give it shape ({},)", channels));
}

void check_row_operand(std::string_view op, std::string_view what, const Shape& given, const Shape& normalized) {
  bool fits = given.rank() <= normalized.rank();
  for (std::size_t i = 0; fits && i < given.rank(); ++i) {
    const std::int64_t length = given[given.rank() - 1 - i];
    fits = length == 1 || length == normalized[normalized.rank() - 1 - i];
  }
  if (fits) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} of shape {} does not broadcast to the normalised axes {}", op, what, to_string(given),
                          to_string(normalized)),
              fmt::format("give it shape {}", to_string(normalized)));
}

void check_groups(const Shape& x, std::int64_t groups) {
  if (x.rank() < 2) {
    throw Error(ErrorCode::invalid_argument, fmt::format("group_norm: x {} has no channels", to_string(x)),
                "give it shape (batch, channels, ...)");
  }
  if (groups >= 1 && x[1] % groups == 0) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("group_norm: {} groups do not divide the {} channels of {}", groups, x[1], to_string(x)),
              "use a number of groups that divides the channels");
}

}  // namespace weft::ops
