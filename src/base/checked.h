// Arithmetic that refuses to wrap. Every size that comes from outside goes through here.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// a + b or Error{out_of_range} that names `what` and both numbers.
std::uint64_t checked_add(std::uint64_t a, std::uint64_t b, std::string_view what);
std::uint64_t checked_mul(std::uint64_t a, std::uint64_t b, std::string_view what);
/// Rounds up to a multiple of `alignment` (not 0), or Error{out_of_range}.
std::uint64_t checked_align(std::uint64_t n, std::uint64_t alignment, std::string_view what);

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace weft
