#include "webgpu/wait.h"

#include <algorithm>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
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
    std::this_thread::sleep_for(sleep);
  } else if (rounds % 16 == 0) {
    std::this_thread::yield();  // with few cores the driver's own threads need this one
  } else {
    cpu_relax();
  }
}

Clock::time_point deadline_after(std::chrono::nanoseconds timeout) noexcept {
  const auto now = Clock::now();
  return timeout > Clock::time_point::max() - now ? Clock::time_point::max() : now + timeout;
}

}  // namespace weft::webgpu
