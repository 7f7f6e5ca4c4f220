// The one place that waits.
#include "webgpu/wait.h"

#include <gtest/gtest.h>

#include "unit/core_helpers.h"

namespace weft::testing {
namespace {

using namespace std::chrono_literals;
using webgpu::Backoff;
using webgpu::Clock;

TEST(Backoff, A34_SpinsThenSleepsByTheTable) {
  Backoff b;
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(b.next_sleep(), 0ns) << i;
    b.pause(1h);
  }
  for (std::chrono::nanoseconds want : {4us, 8us, 16us, 32us, 50us, 50us, 50us}) {
    EXPECT_EQ(b.next_sleep(), want);
    b.pause(0ns);  // nothing left: a spin, and still a round
  }
  EXPECT_EQ(b.rounds, 71u);
}

TEST(Backoff, A34_CounterSaturates) {
  Backoff b;
  b.rounds = UINT32_MAX - 1;
  EXPECT_EQ(b.next_sleep(), 50us);
  b.pause(0ns);
  EXPECT_EQ(b.rounds, UINT32_MAX);
  b.pause(0ns);
  EXPECT_EQ(b.rounds, UINT32_MAX);
  EXPECT_EQ(b.next_sleep(), 50us);
}

TEST(Backoff, A34_SleepsNoLongerThanWhatIsLeft) {
  Backoff b;
  b.rounds = 1000;
  const auto start = Clock::now();
  for (int i = 0; i < 100; ++i) b.pause(1ns);
  EXPECT_LT(Clock::now() - start, 1s);
  b.pause(-5ns);  // past the deadline already
}

// A33: done work counts although the deadline has passed, and one poll always happens.
TEST(WaitUntil, A33_PollsOnceEvenPastTheDeadline) {
  int polls = 0;
  EXPECT_TRUE(webgpu::wait_until([&] { ++polls; }, [&] { return polls == 1; }, Clock::now() - 1s));
  EXPECT_EQ(polls, 1);
  polls = 0;
  EXPECT_FALSE(webgpu::wait_until([&] { ++polls; }, [] { return false; }, Clock::now() - 1s));
  EXPECT_EQ(polls, 1);
}

TEST(WaitUntil, EndsAtTheDeadline) {
  const auto start = Clock::now();
  int polls = 0;
  EXPECT_FALSE(webgpu::wait_until([&] { ++polls; }, [] { return false; }, start + 20ms));
  const auto took = Clock::now() - start;
  EXPECT_GE(took, 20ms);
  EXPECT_LT(took, 20s);  // a loaded machine
  EXPECT_GE(polls, 1);
}

// A wait must not burn a core: past the spins each round sleeps.
TEST(WaitUntil, SleepsBetweenPolls) {
  int polls = 0;
  EXPECT_FALSE(webgpu::wait_until([&] { ++polls; }, [] { return false; }, Clock::now() + 100ms));
  EXPECT_LT(polls, 64 + 5 + 100'000 / 50 + 100);
}

TEST(WaitUntil, ExceptionsComeOut) {
  EXPECT_THROW(webgpu::wait_until([] { throw std::runtime_error("poll"); }, [] { return true; }, Clock::now()),
               std::runtime_error);
}

TEST(DeadlineAfter, DoesNotWrap) {
  EXPECT_EQ(webgpu::deadline_after(std::chrono::nanoseconds::max()), Clock::time_point::max());
  EXPECT_LT(webgpu::deadline_after(std::chrono::nanoseconds::min()), Clock::now());
  EXPECT_GT(webgpu::deadline_after(1h), Clock::now() + 59min);
}

}  // namespace
}  // namespace weft::testing
