// The pool of memory that reads go through.
#include <gtest/gtest.h>

#include "dispatch/state.h"
#include "memory/staging_pool.h"
#include "unit/core_helpers.h"
#include "unit/test_device.h"

namespace weft::testing {
namespace {

using memory::StagingPool;
using MapState = webgpu::Gpu::MapState;
using MapStatus = webgpu::Gpu::MapStatus;

StagingPool pool_of(std::uint64_t cap) {
  return StagingPool(test_device().state()->gpu, cap);
}

// A38, A40.
TEST(StagingPool, A38_MostRecentlyReleasedFirst) {
  StagingPool pool = pool_of(1 << 20);
  auto a = pool.acquire(100), b = pool.acquire(100);
  const auto* second = b.get();
  pool.release(std::move(a));
  pool.release(std::move(b));
  EXPECT_EQ(pool.acquire(100).get(), second);
  EXPECT_EQ(pool.stats().allocations, 2u);
  EXPECT_EQ(pool.stats().hits, 1u);
}

// D18: powers of two, so that 300 sizes are a few buffers and not 300.
TEST(StagingPool, D18_ManySizesFewBuffers) {
  StagingPool pool = pool_of(16 << 20);
  for (std::uint64_t n = 1; n <= 300; ++n) {
    auto s = pool.acquire(n * 100);
    EXPECT_GE(s->size, n * 100);
    pool.release(std::move(s));
  }
  EXPECT_LE(pool.stats().allocations, 5u);
  EXPECT_EQ(pool.stats().hits + pool.stats().allocations, 300u);
}

// C8: 1 -> 4096, 4096 -> 4096, 4097 -> 8192; never over the adapter's limit.
TEST(StagingPool, Classes) {
  StagingPool pool = pool_of(1 << 20);
  EXPECT_EQ(pool.acquire(1)->size, 4096u);
  EXPECT_EQ(pool.acquire(4096)->size, 4096u);
  EXPECT_EQ(pool.acquire(4097)->size, 8192u);
}

// A39: what is kept is bounded by bytes.
TEST(StagingPool, A39_ByteCap) {
  StagingPool pool = pool_of(64 << 10);
  std::vector<std::unique_ptr<memory::Staging>> held;
  for (int i = 0; i < 40; ++i) held.push_back(pool.acquire(i % 2 == 0 ? 4096 : 16384));
  for (auto& s : held) pool.release(std::move(s));
  EXPECT_LE(pool.stats().bytes, 64u << 10);
  EXPECT_GT(pool.stats().bytes, 0u);
  pool.release(pool.acquire(1 << 20));  // larger than the cap: not kept
  EXPECT_LE(pool.stats().bytes, 64u << 10);
  pool.trim();
  EXPECT_EQ(pool.stats().bytes, 0u);
}

// Rule 2: a buffer whose map is on its way is not handed out again, and comes back when the callback has come.
TEST(StagingPool, ParkedUntilTheCallback) {
  webgpu::Gpu& gpu = test_device().state()->gpu;
  StagingPool pool(gpu, 1 << 20);
  auto s = pool.acquire(64);
  const auto* raw = s.get();
  const auto map = gpu.map_async(s->buffer.get(), false, 64);
  pool.park(std::move(s), map);
  EXPECT_TRUE(webgpu::wait_until([&] { gpu.poll(); }, [&] { return map->status.load() != MapStatus::pending; },
                                 webgpu::deadline_after(std::chrono::seconds(10))));
  EXPECT_EQ(pool.acquire(64).get(), raw);
  EXPECT_EQ(pool.stats().allocations, 1u);
}

TEST(StagingPool, ParkedAndPendingIsNotHandedOut) {
  StagingPool pool = pool_of(1 << 20);
  auto never = std::make_shared<MapState>();
  auto s = pool.acquire(64);
  const auto* raw = s.get();
  pool.park(std::move(s), never);
  auto other = pool.acquire(64);
  EXPECT_NE(other.get(), raw);
  EXPECT_EQ(pool.stats().bytes, 8192u);
  never->status = MapStatus::failed;  // settled: of no more use
  pool.trim();
  EXPECT_EQ(pool.stats().bytes, 4096u);
  pool.drop(std::move(other));
  EXPECT_EQ(pool.stats().bytes, 0u);
}

TEST(StagingPool, ManyThreads) {
  StagingPool pool = pool_of(1 << 20);
  run_threads(8, [&](unsigned t) {
    for (std::uint64_t i = 0; i < 200; ++i) pool.release(pool.acquire(1 + (i * 7919 + t) % 20'000));
  });
  EXPECT_EQ(pool.stats().allocations + pool.stats().hits, 1600u);
  pool.trim();
  EXPECT_EQ(pool.stats().bytes, 0u);
}

// A.9 (1): at most 2 staging buffers for 100 reads.
TEST(StagingPool, A9_1_HundredReadbacks) {
  Device& device = test_device();
  std::vector<unsigned char> bytes(64);
  for (std::size_t i = 0; i < 64; ++i) bytes[i] = static_cast<unsigned char>(i * 3);
  const Buffer b = upload_vector(device, bytes);
  device.trim();
  const Stats before = device.stats();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(read_vector<unsigned char>(device, b, 64), bytes);
  EXPECT_LE(device.stats().staging_allocations - before.staging_allocations, 2u);
}

// A.9 (2): without anything kept.
TEST(StagingPool, A9_2_FiveColdReadbacks) {
  Device& device = test_device();
  const std::vector<std::uint32_t> values{1, 2, 3, 4, 5, 6, 7, 8};
  const Buffer b = upload_vector(device, values);
  for (int i = 0; i < 5; ++i) {
    device.trim();
    EXPECT_EQ(read_vector<std::uint32_t>(device, b, 8), values);
  }
}

}  // namespace
}  // namespace weft::testing
