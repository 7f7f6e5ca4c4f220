// The pool of device memory.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <thread>

#include "dispatch/state.h"
#include "memory/buffer_pool.h"
#include "unit/core_helpers.h"
#include "unit/test_device.h"

namespace weft::testing {
namespace {

using memory::Allocation;
using memory::BufferPool;
using memory::size_class;

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;
constexpr auto kUsage = static_cast<std::uint32_t>(kDefaultUsage);
constexpr auto kOther = static_cast<std::uint32_t>(Usage::storage | Usage::copy_dst);

/// A pool of its own on the shared device.
struct Fixture {
  explicit Fixture(std::uint64_t cap)
      : pool(test_device().state()->gpu, cap, [this](std::uint64_t id) { destroyed.push_back(id); }) {}
  std::vector<std::uint64_t> destroyed;
  BufferPool pool;
};

TEST(SizeClass, WasteIsBounded) {
  std::uint64_t previous = 0;
  for (std::uint64_t n = 0; n < 300'000; n += n < 10'000 ? 1 : 37) {
    const std::uint64_t c = size_class(n, kNoLimit);
    EXPECT_GE(c, std::max<std::uint64_t>(n, 4));
    EXPECT_EQ(c % 4, 0u);
    EXPECT_GE(c, previous);  // never smaller for more
    EXPECT_EQ(size_class(c, kNoLimit), c);
    EXPECT_LE(c, n <= 4096 ? 2 * std::max<std::uint64_t>(n, 32) : n + n / 4) << n;
    previous = c;
  }
  EXPECT_EQ(size_class((std::uint64_t{100} << 20) + 1, kNoLimit), std::uint64_t{101} << 20);
}

TEST(SizeClass, StopsAtTheLimit) {
  EXPECT_EQ(size_class(5000, 5000), 5000u);
  EXPECT_EQ(size_class(4997, 5000), 5000u);
  EXPECT_EQ(size_class(2147483644, 2147483644), 2147483644u);  // lavapipe's (D33)
}

// C1: a fixed number of classes serves all small lengths.
TEST(BufferPool, C1_LengthsUpTo1000InSixteenAllocations) {
  Fixture f(1 << 20);
  for (std::uint64_t n = 1; n <= 1000; ++n) f.pool.release(f.pool.acquire(n, kUsage));
  EXPECT_LE(f.pool.stats().allocations, 16u);
  EXPECT_EQ(f.pool.stats().hits + f.pool.stats().allocations, 1000u);
  EXPECT_EQ(f.pool.stats().live_bytes, 0u);
}

TEST(BufferPool, C1_SecondRoundHits) {
  Fixture f(64 << 20);
  std::mt19937 random(3);
  for (int count : {20, 200}) {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> wanted;
    for (int i = 0; i < count; ++i) wanted.emplace_back(1 + random() % 100'000, i % 2 == 0 ? kUsage : kOther);
    std::uint64_t hits = 0;
    for (int round = 0; round < 2; ++round) {
      hits = f.pool.stats().hits;
      std::vector<std::unique_ptr<Allocation>> held;
      for (const auto& [size, usage] : wanted) held.push_back(f.pool.acquire(size, usage));
      for (auto& a : held) f.pool.release(std::move(a));
    }
    EXPECT_GE(f.pool.stats().hits - hits, static_cast<std::uint64_t>(count) * 95 / 100);
  }
}

TEST(BufferPool, OtherUsageIsAnotherBuffer) {
  Fixture f(1 << 20);
  f.pool.release(f.pool.acquire(64, kUsage));
  const auto other = f.pool.acquire(64, kOther);
  EXPECT_EQ(other->usage, kOther);
  EXPECT_EQ(f.pool.stats().hits, 0u);
}

// D15: 64 MiB never serve 4 bytes; below twice the size is near enough, and the nearest comes first.
TEST(BufferPool, D15_BestFitBelowTwice) {
  Fixture f(64 << 20);
  auto huge = f.pool.acquire(8 << 20, kUsage);
  auto near = f.pool.acquire(12 << 10, kUsage);
  auto nearer = f.pool.acquire(9 << 10, kUsage);
  const std::uint64_t near_id = near->id, nearer_id = nearer->id;
  f.pool.release(std::move(huge));
  f.pool.release(std::move(nearer));
  f.pool.release(std::move(near));
  auto tiny = f.pool.acquire(4, kUsage);
  EXPECT_LE(tiny->size, 64u);
  auto first = f.pool.acquire(8 << 10, kUsage);
  EXPECT_EQ(first->id, nearer_id);
  auto second = f.pool.acquire(8 << 10, kUsage);
  EXPECT_EQ(second->id, near_id);
  auto third = f.pool.acquire(8 << 10, kUsage);
  EXPECT_LT(third->size, 16u << 10);
  EXPECT_EQ(f.pool.stats().hits, 2u);
}

// D16: what was just returned stays; the least recently returned goes.
TEST(BufferPool, D16_OldestGoesFirst) {
  Fixture f(1 << 20);
  auto small = f.pool.acquire(4096, kUsage);
  auto large = f.pool.acquire(1 << 20, kUsage);
  const std::uint64_t small_id = small->id, large_id = large->id;
  f.pool.release(std::move(small));
  f.pool.release(std::move(large));
  EXPECT_EQ(f.destroyed, std::vector<std::uint64_t>{small_id});
  EXPECT_EQ(f.pool.stats().evictions, 1u);
  EXPECT_EQ(f.pool.stats().retained_bytes, std::uint64_t{1} << 20);
  EXPECT_EQ(f.pool.acquire(1 << 20, kUsage)->id, large_id);
}

TEST(BufferPool, LargerThanTheCapIsNotKept) {
  Fixture f(4096);
  f.pool.release(f.pool.acquire(8192, kUsage));
  EXPECT_EQ(f.pool.stats().retained_bytes, 0u);
  EXPECT_EQ(f.destroyed.size(), 1u);
}

// B12: whoever is told that memory went may take locks of his own, and ask the pool: it holds none meanwhile.
TEST(BufferPool, B12_NoLockIsHeldWhileItTells) {
  BufferPool* asked = nullptr;
  int answered = 0;
  std::vector<std::thread> others;
  BufferPool pool(test_device().state()->gpu, 4096, [&](std::uint64_t) {
    const auto done = std::make_shared<std::promise<void>>();
    others.emplace_back([&asked, done] {
      asked->stats();
      done->set_value();
    });
    answered += done->get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  });
  asked = &pool;
  auto first = pool.acquire(4096, kUsage), second = pool.acquire(4096, kUsage);
  pool.release(std::move(first));
  pool.release(std::move(second));  // the first goes for it
  EXPECT_EQ(answered, 1);
  pool.trim();
  EXPECT_EQ(answered, 2);
  pool.release(pool.acquire(8192, kUsage));  // over the cap
  EXPECT_EQ(answered, 3);
  for (std::thread& t : others) t.join();
}

TEST(BufferPool, TrimTellsWhoCares) {
  Fixture f(1 << 20);
  std::vector<std::unique_ptr<Allocation>> held;
  for (int i = 0; i < 5; ++i) held.push_back(f.pool.acquire(64, kUsage));
  for (auto& a : held) f.pool.release(std::move(a));
  f.pool.trim();
  EXPECT_EQ(f.destroyed.size(), 5u);
  EXPECT_EQ(f.pool.stats().retained_bytes, 0u);
  EXPECT_EQ(f.pool.stats().evictions, 5u);
  f.pool.trim();
  EXPECT_EQ(f.destroyed.size(), 5u);
}

// Design, "Numbers to reach": after 10,000 mixed allocations and frees retained <= the cap, live = 0.
TEST(BufferPool, RetainedStaysBelowTheCap) {
  constexpr std::uint64_t kCap = 4 << 20;
  Fixture f(kCap);
  std::mt19937 random(5);
  std::vector<std::unique_ptr<Allocation>> held;
  for (int i = 0; i < 10'000; ++i) {
    if (held.size() < 20 && random() % 2 == 0) {
      held.push_back(f.pool.acquire(1 + random() % (256u << (random() % 12)), random() % 2 == 0 ? kUsage : kOther));
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      f.pool.release(std::move(held.back()));
      held.pop_back();
    }
    const auto s = f.pool.stats();
    ASSERT_LE(s.retained_bytes, kCap);
    ASSERT_GE(s.peak_bytes, s.live_bytes + s.retained_bytes);
  }
  for (auto& a : held) f.pool.release(std::move(a));
  EXPECT_EQ(f.pool.stats().live_bytes, 0u);
  EXPECT_EQ(f.pool.stats().allocations + f.pool.stats().hits, f.pool.stats().releases);
}

// A.9 (7), A49: creation that throws (here for a usage that WebGPU refuses) counts nothing and keeps nothing.
TEST(BufferPool, A49_FailedCreationLeavesThePoolValid) {
  Fixture f(1 << 20);
  constexpr std::uint32_t kMapReadAndStorage = 0x1 | 0x80;
  EXPECT_THROW(f.pool.acquire(64, kMapReadAndStorage), Error);
  EXPECT_EQ(f.pool.stats().live_bytes, 0u);
  EXPECT_EQ(f.pool.stats().allocations, 0u);
  run_threads(2, [&](unsigned) { f.pool.release(f.pool.acquire(64, kUsage)); });
  EXPECT_EQ(f.pool.stats().live_bytes, 0u);
}

/// Makes creations fail for as long as it lives.
struct FailCreations {
  explicit FailCreations(int n) { gpu.fail_creations(n); }
  ~FailCreations() { gpu.fail_creations(0); }
  FailCreations(const FailCreations&) = delete;
  FailCreations& operator=(const FailCreations&) = delete;
  webgpu::Gpu& gpu = test_device().state()->gpu;
};

// Issue 4 (2): out of memory → trim → once more.
TEST(BufferPool, OutOfMemoryTrimsAndTriesAgain) {
  Fixture f(1 << 20);
  auto live = f.pool.acquire(4096, kUsage);
  f.pool.release(f.pool.acquire(8192, kUsage));
  const FailCreations fail(1);
  auto made = f.pool.acquire(64, kUsage);
  EXPECT_EQ(fail.gpu.failures_due(), 0);
  EXPECT_EQ(made->size, 64u);
  EXPECT_EQ(f.destroyed.size(), 1u);  // trimmed
  EXPECT_EQ(f.pool.stats().retained_bytes, 0u);
  EXPECT_EQ(f.pool.stats().live_bytes, 4096u + 64u);
  f.pool.release(std::move(made));
  f.pool.release(std::move(live));
  EXPECT_EQ(f.pool.stats().live_bytes, 0u);
}

// ... and then a typed error with what was asked for, live and retained; the pool works on.
TEST(BufferPool, OutOfMemoryTwiceIsAnError) {
  Fixture f(1 << 20);
  auto live = f.pool.acquire(4096, kUsage);
  f.pool.release(f.pool.acquire(16384, kUsage));
  for (const bool mapped : {false, true}) {
    const FailCreations fail(2);
    expect_error(error_of([&] { mapped ? f.pool.acquire_mapped(5000, kUsage) : f.pool.acquire(5000, kUsage); }),
                 ErrorCode::out_of_memory, {"5120 bytes asked for", "4096 bytes live", "0 retained"});
    EXPECT_EQ(fail.gpu.failures_due(), 0);
    EXPECT_EQ(f.pool.stats().live_bytes, 4096u);
    EXPECT_EQ(f.pool.stats().allocations, 2u);
  }
  EXPECT_EQ(f.pool.acquire(4096, kUsage)->size, 4096u);
  f.pool.release(std::move(live));
}

// The same through the device: the handle is not made, nothing is counted, and the next call works.
TEST(BufferPool, OutOfMemoryReachesTheCaller) {
  Device& device = test_device();
  device.trim();
  const MemoryReport before = device.memory();
  {
    const FailCreations fail(2);
    expect_error(error_of([&] { device.alloc(1 << 20); }), ErrorCode::out_of_memory, {"1048576 bytes asked for"});
  }
  {
    const FailCreations fail(2);
    expect_error(error_of([&] { device.upload_with(100, [](std::span<std::byte>) { FAIL(); }); }),
                 ErrorCode::out_of_memory);
  }
  EXPECT_EQ(device.memory().live_bytes, before.live_bytes);
  const Buffer b = upload_vector<int>(device, {1, 2});
  {
    const FailCreations fail(1);  // of the staging buffer: made at the second attempt
    EXPECT_EQ(read_vector<int>(device, b, 2), (std::vector<int>{1, 2}));
    EXPECT_EQ(fail.gpu.failures_due(), 0);
  }
  device.trim();
  {
    const FailCreations fail(2);
    int out = 7;
    expect_error(error_of([&] { device.read(b, 0, std::as_writable_bytes(std::span(&out, 1))); }),
                 ErrorCode::out_of_memory, {"staging"});
    EXPECT_EQ(out, 7);
  }
  EXPECT_EQ(read_vector<int>(device, b, 2), (std::vector<int>{1, 2}));
}

// Case M03, on the device's own pool.
TEST(BufferPool, M03_ManySizesStayBelowTheCap) {
  Device& device = test_device();
  const std::uint64_t cap = device.state()->options.pool_bytes != 0 ? device.state()->options.pool_bytes
                                                                    : 2 * device.limits().max_storage_binding_size;
  for (std::size_t i = 0; i < 2000; ++i) {
    device.alloc((2u << 20) + 256 * i);
    ASSERT_LE(device.stats().retained_bytes, cap);
  }
  device.trim();
  EXPECT_EQ(device.stats().retained_bytes, 0u);
}

// D17: alloc says that contents are undefined; zeros clears, also memory that comes from the pool.
TEST(BufferPool, D17_ZerosClearsRecycledMemory) {
  Device& device = test_device();
  for (std::size_t n : {1u, 5u, 64u, 1000u, 100'000u}) {
    Buffer dirty = device.upload_bytes(std::vector<std::byte>(n, std::byte{0xff}));
    const std::uint64_t allocation = dirty.allocation_id();
    dirty = {};
    const Buffer clean = device.zeros_bytes(n);
    EXPECT_EQ(clean.allocation_id(), allocation);
    EXPECT_EQ(read_vector<unsigned char>(device, clean, n), std::vector<unsigned char>(n, 0));
  }
}

// Rule 2: memory that recorded work names goes to another stream only behind that work.
TEST(BufferPool, RecycledMemoryWaitsForRecordedWork) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Stream first = device.make_stream(), second = device.make_stream();
  Buffer a = device.zeros_bytes(64);
  const Buffer kept = device.zeros_bytes(64);
  device.synchronize();
  add(first, {{"y", a}}, AddParams{5, 16}, Grid{});
  first.copy(a, 0, kept, 0, 64);
  const std::uint64_t allocation = a.allocation_id();
  a = {};
  const Buffer b = device.alloc(64);
  ASSERT_EQ(b.allocation_id(), allocation);
  second.clear(b, 0, 64);
  EXPECT_EQ(first.pending(), 0u);  // submitted by the runtime
  EXPECT_EQ(read_vector<std::uint32_t>(device, kept, 16), std::vector<std::uint32_t>(16, 5));
  EXPECT_EQ(read_vector<std::uint32_t>(device, b, 16), std::vector<std::uint32_t>(16, 0));
}

}  // namespace
}  // namespace weft::testing
