#include "webgpu/wait.h"

#include <algorithm>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace weft::webgpu {
namespace {
void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}
}  // namespace

std::chrono::nanoseconds Backoff::next_sleep() const noexcept {
  if (rounds < kSpins) return std::chrono::nanoseconds(0);
  const std::uint32_t doubling = std::min<std::uint32_t>(rounds - kSpins + 1, 5);
  return std::min<std::chrono::nanoseconds>(std::chrono::microseconds(2 << doubling), kLongestSleep);
}

void Backoff::pause(std::chrono::nanoseconds left) {
  const auto sleep = std::min(next_sleep(), left);
  if (rounds != UINT32_MAX) ++rounds;
  if (sleep > std::chrono::nanoseconds(0)) {
    this->sleep(sleep);
  } else if (rounds % 16 == 0) {
    std::this_thread::yield();  // with few cores the driver's own threads need this one
  } else {
    cpu_relax();
  }
}

void Backoff::sleep(std::chrono::nanoseconds time) {
#ifdef __linux__
  if (slack_ < 0) {
    slack_ = std::max(prctl(PR_GET_TIMERSLACK), 0);
    prctl(PR_SET_TIMERSLACK, 1UL);
  }
#endif
  std::this_thread::sleep_for(time);
}

Backoff::~Backoff() {
#ifdef __linux__
  if (slack_ > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_));
#endif
}

Clock::time_point deadline_after(std::chrono::nanoseconds timeout) noexcept {
  const auto now = Clock::now();
  return timeout > Clock::time_point::max() - now ? Clock::time_point::max() : now + timeout;
}

}  // namespace weft::webgpu
