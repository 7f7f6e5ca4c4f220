// The one place where Weft waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace weft::webgpu {

using Clock = std::chrono::steady_clock;

/// Spin, then sleep: 64 rounds of spinning, then sleeps of 4, 8, 16, 32 and from then on 50 us, never past the
/// deadline. The counter saturates.
class Backoff {
 public:
  static constexpr std::uint32_t kSpins = 64;
  static constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::microseconds(50);

  /// What the next pause would sleep: 0 while spinning.
  std::chrono::nanoseconds next_sleep() const noexcept;
  /// Spins, yields or sleeps once, at most `left`.
  void pause(std::chrono::nanoseconds left);

  std::uint32_t rounds = 0;
};

/// Calls `poll` and then `done` until `done` is true or `deadline` has passed, backing off in between. At least one
/// poll happens, so work that is already done counts even when the deadline has passed. Returns what `done` said last.
template <class Poll, class Done>
bool wait_until(Poll&& poll, Done&& done, Clock::time_point deadline) {
  Backoff backoff;
  for (;;) {
    poll();
    if (done()) return true;
    const auto now = Clock::now();
    if (now >= deadline) return false;
    backoff.pause(deadline - now);
  }
}

/// now + timeout, without wrapping.
Clock::time_point deadline_after(std::chrono::nanoseconds timeout) noexcept;

}  // namespace weft::webgpu
