// ops/plan_as.h - a block of a larger array takes the kernels that all of it would take.
#pragma once

#include <cstdint>

namespace weft::ops {

/// How kernels share out work depends on how many rows there are, and rounding depends on that. While one lives, on
/// this thread, it is chosen as for all `whole` rows of an array of which the ops see `part`: so that blocks have, bit
/// by bit, the values that all at once would have.
class PlanAs {
 public:
  PlanAs(std::int64_t part, std::int64_t whole) noexcept : before_(current()) {
    current() = {static_cast<std::uint64_t>(part), static_cast<std::uint64_t>(whole)};
  }
  ~PlanAs() { current() = before_; }
  PlanAs(const PlanAs&) = delete;
  PlanAs& operator=(const PlanAs&) = delete;

  /// So many rows of a block are how many of all; the number itself when none lives.
  static std::uint64_t rows(std::uint64_t of_block) noexcept {
    const Ratio r = current();
    return r.part == r.whole ? of_block : of_block / r.part * r.whole + of_block % r.part * r.whole / r.part;
  }

 private:
  struct Ratio {
    std::uint64_t part = 1, whole = 1;
  };
  static Ratio& current() noexcept {
    thread_local Ratio ratio;
    return ratio;
  }

  Ratio before_;
};

}  // namespace weft::ops
