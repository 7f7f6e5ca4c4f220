// What a call throws, for tests of refusals.
#pragma once

#include <optional>
#include <string>

#include "weft/error.h"

namespace weft::testing {

struct Thrown {
  std::optional<ErrorCode> code;  ///< none: nothing was thrown
  std::string text;               ///< what()
};
template <class F>
Thrown thrown(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

}  // namespace weft::testing
