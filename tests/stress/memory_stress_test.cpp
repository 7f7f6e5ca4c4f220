// Issue 4: 8 threads allocate, upload, read, drop and dispatch for a while: right data, and nothing live at the end.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>

#include "stress/stress_env.h"
#include "unit/core_helpers.h"
#include "unit/test_device.h"

namespace weft::testing {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr unsigned kThreads = 8;

/// One thread's work. It keeps a few buffers and knows what each must hold.
class Worker {
 public:
  Worker(Device device, Kernel add, unsigned seed)
      : device_(std::move(device)), add_(std::move(add)), own_(device_.make_stream()), random_(seed) {}

  /// One step of a random kind. Returns how many words were wrong.
  std::size_t step() {
    const unsigned kind = random_() % 16;
    if (held_.empty() || kind < 4) {
      make();
      return 0;
    }
    Held& h = held_[random_() % held_.size()];
    if (kind < 8) {
      add(h);
    } else if (kind < 10) {
      write(h);
    } else if (kind < 12) {
      return read(h);
    } else if (kind == 12) {
      device_.read_async(h.buffer, 0, h.buffer.size());  // given up at once
    } else if (kind == 13) {
      return read_all();
    } else {
      std::swap(h, held_.back());
      held_.pop_back();
      if (random_() % 64 == 0) device_.trim();
    }
    return 0;
  }

  std::size_t finish() {
    std::size_t wrong = 0;
    for (Held& h : held_) wrong += read(h);
    held_.clear();
    return wrong;
  }

 private:
  struct Held {
    Buffer buffer;
    Words want;
  };

  void make() {
    // Mostly small; now and then large enough for the ring of staging buffers.
    const std::size_t words = random_() % 200 == 0 ? (std::size_t{1} << 19) + random_() % 1000 : 1 + random_() % 4000;
    Held h{{}, Words(words)};
    std::iota(h.want.begin(), h.want.end(), static_cast<std::uint32_t>(random_()));
    if (random_() % 4 == 0) {
      h.buffer = device_.upload_with(
          words * 4, [&](std::span<std::byte> to) { std::memcpy(to.data(), h.want.data(), to.size()); });
    } else if (random_() % 4 == 0) {
      h.buffer = device_.zeros_bytes(words * 4);
      std::fill(h.want.begin(), h.want.end(), 0u);
    } else {
      h.buffer = upload_vector(device_, h.want);
    }
    if (held_.size() < 8) {
      held_.push_back(std::move(h));
    } else {
      held_[random_() % held_.size()] = std::move(h);
    }
  }

  void add(Held& h) {
    const auto n = static_cast<std::uint32_t>(h.want.size());
    const auto alpha = static_cast<std::uint32_t>(random_());
    add_(random_() % 2 == 0 ? own_ : device_.stream(), {{"y", h.buffer}}, AddParams{alpha, n}, grid_for(n));
    for (std::uint32_t& w : h.want) w += alpha;
  }

  void write(Held& h) {
    const std::size_t first = random_() % h.want.size();
    const std::size_t n = std::min<std::size_t>(1 + random_() % 100, h.want.size() - first);
    for (std::size_t i = 0; i < n; ++i) h.want[first + i] = static_cast<std::uint32_t>(random_());
    device_.write(h.buffer, first * 4, std::as_bytes(std::span(h.want).subspan(first, n)));
  }

  std::size_t read(Held& h) {
    const std::size_t first = random_() % h.want.size(), n = h.want.size() - first;
    const Words got = device_.read_as<std::uint32_t>(h.buffer, first, n);
    return differing(got, h.want.data() + first);
  }

  std::size_t read_all() {
    std::vector<Words> got;
    std::vector<ReadRange> ranges;
    for (const Held& h : held_) got.emplace_back(h.want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ranges.push_back({held_[i].buffer, 0, std::as_writable_bytes(std::span(got[i]))});
    }
    device_.read_ranges(ranges);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) wrong += differing(got[i], held_[i].want.data());
    return wrong;
  }

  static std::size_t differing(const Words& got, const std::uint32_t* want) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != want[i];
    return wrong;
  }

  Device device_;
  Kernel add_;
  Stream own_;
  std::mt19937 random_;
  std::vector<Held> held_;
};

TEST(MemoryStress, EightThreads) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const auto end = std::chrono::steady_clock::now() + stress_time();
  std::atomic<std::uint64_t> wrong{0}, steps{0};
  run_threads(kThreads, [&](unsigned t) {
    Worker worker(device, add, t);
    std::uint64_t own = 0;
    for (; std::chrono::steady_clock::now() < end; ++own) wrong += worker.step();
    wrong += worker.finish();
    steps += own;
  });
  device.synchronize();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(steps, kThreads);
  const MemoryReport m = device.memory();
  EXPECT_EQ(m.live_bytes, 0u);
  EXPECT_LE(m.retained_bytes, m.cap_bytes);
  EXPECT_EQ(m.in_flight_bytes, 0u);
  device.trim();
  const MemoryReport trimmed = device.memory();
  EXPECT_EQ(trimmed.retained_bytes, 0u);
  EXPECT_EQ(trimmed.staging_bytes, 0u);
  EXPECT_TRUE(trimmed.classes.empty());
  RecordProperty("steps", std::to_string(steps));
  std::printf("%llu steps\n", static_cast<unsigned long long>(steps));
}

}  // namespace
}  // namespace weft::testing
