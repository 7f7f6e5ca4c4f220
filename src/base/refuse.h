// base/refuse.h - the error of most checks of arguments.
#pragma once

#include <string>
#include <utility>

#include "weft/error.h"

namespace weft {

/// Throws Error{invalid_argument}.
[[noreturn]] inline void refuse(const std::string& message, std::string fix) {
  throw Error(ErrorCode::invalid_argument, message, std::move(fix));
}

}  // namespace weft
