#include "base/checked.h"

#include <fmt/format.h>

#include "weft/error.h"

namespace weft {
namespace {
[[noreturn]] void overflow(std::string_view what, std::uint64_t a, char op, std::uint64_t b) {
  throw Error(ErrorCode::out_of_range, fmt::format("{}: {} {} {} does not fit 64 bits", what, a, op, b),
              "split the work into smaller pieces");
}
}  // namespace

std::uint64_t checked_add(std::uint64_t a, std::uint64_t b, std::string_view what) {
  std::uint64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) overflow(what, a, '+', b);
  return r;
}

std::uint64_t checked_mul(std::uint64_t a, std::uint64_t b, std::string_view what) {
  std::uint64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) overflow(what, a, '*', b);
  return r;
}

std::uint64_t checked_align(std::uint64_t n, std::uint64_t alignment, std::string_view what) {
  if (alignment == 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: alignment 0", what), "use an alignment of 1 or more");
  }
  return checked_add(n, alignment - 1, what) / alignment * alignment;
}

}  // namespace weft
