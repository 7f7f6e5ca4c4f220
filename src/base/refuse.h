// base/refuse.h - the error of most checks of arguments.
#pragma once

#include <string>
#include <utility>

#include "weft/error.h"

namespace weft {

/// An op that has no meaning for a dtype. Python's counterpart is a TypeError, as numpy's is.
class DTypeError : public Error {
 public:
  DTypeError(const std::string& message, std::string fix)
      : Error(ErrorCode::invalid_argument, message, std::move(fix)) {}
};

/// Throws Error{invalid_argument}.
[[noreturn]] inline void refuse(const std::string& message, std::string fix) {
  throw Error(ErrorCode::invalid_argument, message, std::move(fix));
}

}  // namespace weft
