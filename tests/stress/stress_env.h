// How long the stress tests run.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/env.h"

namespace weft::testing {

inline std::chrono::nanoseconds stress_time() {
  return env_duration("WEFT_STRESS_SECONDS").value_or(std::chrono::seconds(10));
}

inline std::uint64_t soak_operations() {
  return env_count("WEFT_SOAK_OPERATIONS").value_or(50'000);
}

}  // namespace weft::testing
