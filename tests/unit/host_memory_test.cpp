// A49 (b): the host is out of memory at the worst moment. This program's operator new fails on demand, on one thread.
// What is called meanwhile stays off the implementation: not all of them outlive a failing operator new.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include "dispatch/bind_group_cache.h"
#include "dispatch/state.h"
#include "unit/core_helpers.h"
#include "unit/test_device.h"
#include "weft/graph.h"
#include "weft/ops.h"

namespace {
thread_local int allocations_left = -1;  ///< below 0: no limit
thread_local int allocations_made = 0;
thread_local std::size_t largest_block = SIZE_MAX;
}  // namespace

// Both forms: where only one is replaced, AddressSanitizer's own stands for the other (std::stable_sort calls it).
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations_made;
  if (allocations_left == 0 || size > largest_block) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::malloc(size);
}
void* operator new(std::size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}
// Not inlined: compilers would take a call of one for the wrong partner of the other.
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace weft::testing {
namespace {

/// While it lives, this thread's host allocations fail after `left` more.
class OutOfHostMemory {
 public:
  explicit OutOfHostMemory(int left) { allocations_left = left; }
  ~OutOfHostMemory() { allocations_left = -1; }
  OutOfHostMemory(const OutOfHostMemory&) = delete;
  OutOfHostMemory& operator=(const OutOfHostMemory&) = delete;
};

TEST(HostMemory, TheHookWorks) {
  bool failed = false;
  {
    const OutOfHostMemory out(1);
    // Called by name: a compiler may leave out a new-expression.
    ::operator delete(::operator new(8));
    try {
      ::operator delete(::operator new(8));
    } catch (const std::bad_alloc&) {
      failed = true;
    }
  }
  EXPECT_TRUE(failed);
}

TEST(HostMemory, A49_BuffersReturnWithoutHostMemory) {
  Device& device = test_device();
  device.trim();
  const std::uint64_t live = device.memory().live_bytes;
  std::vector<Buffer> held;
  for (std::size_t i = 0; i < 50; ++i) held.push_back(device.alloc(1 + i * 1000));
  {
    const OutOfHostMemory out(0);
    held.clear();
  }
  EXPECT_EQ(device.memory().live_bytes, live);
  EXPECT_GT(device.memory().retained_bytes, 0u);
  const std::uint64_t made = device.memory().allocations;
  for (std::size_t i = 0; i < 50; ++i) held.push_back(device.alloc(1 + i * 1000));
  EXPECT_EQ(device.memory().allocations, made);  // each came back from the pool
}

TEST(HostMemory, A49_StagingReturnsWithoutHostMemory) {
  memory::StagingPool pool(test_device().state()->gpu, 1 << 20);
  auto a = pool.acquire(100), b = pool.acquire(10'000), c = pool.acquire(100);
  auto settled = std::make_shared<webgpu::Gpu::MapState>();
  {
    const OutOfHostMemory out(0);
    pool.release(std::move(a));
    pool.release(std::move(b));
    pool.park(std::move(c), settled);
  }
  EXPECT_EQ(pool.stats().bytes, 4096u + 16384u + 4096u);
  settled->status = webgpu::Gpu::MapStatus::failed;
  pool.trim();
  EXPECT_EQ(pool.stats().bytes, 0u);
}

// D29, design's "no heap allocation, no WebGPU object": a warm dispatch and a warm run of a graph, by immediates and by
// uniforms. Counts operator new; Dawn's own calls of it would count too.
TEST(HostMemory, D29_WarmDispatchesAllocateNothing) {
  if (implementation_name() != "wgpu-native") GTEST_SKIP() << "Dawn allocates by operator new itself";
  for (const bool immediates : {true, false}) {
    DeviceOptions options;
    options.allow_immediates = immediates;
    options.batch_dispatches = 10'000;  // none of them submits
    Device device = Device::open(options);
    const Kernel add = add_kernel(device);
    const Buffer y = device.zeros_bytes(64), z = device.zeros_bytes(64);
    const Stream stream = device.stream();
    const BindingRange ranges[2] = {y, z};
    const auto dispatch = [&](std::uint32_t alpha) {
      const AddParams params{alpha, 16};
      add.dispatch(stream, std::span(&ranges[alpha % 2], 1), std::as_bytes(std::span(&params, 1)), Grid{});
    };
    const Graph graph = device.capture([&](const Stream& s) {
      for (std::uint32_t i = 0; i < 8; ++i) add(s, {{"y", y}}, AddParams{i, 16}, Grid{});
    });
    // The slots of a uniform ring get their bind groups when first used.
    for (int round = 0; round < 2; ++round) {
      for (std::uint32_t i = 0; i < 100; ++i) dispatch(i);
      graph.run();
      device.synchronize();
    }
    const Stats before = device.stats();
    dispatch(0);
    const int made = allocations_made;
    for (std::uint32_t i = 1; i < 100; ++i) dispatch(i);
    EXPECT_EQ(allocations_made - made, 0) << immediates;
    const int made_then = allocations_made;
    for (int i = 0; i < 10; ++i) graph.run(stream);
    EXPECT_EQ(allocations_made - made_then, 0) << immediates;
    const Stats after = device.stats();
    EXPECT_EQ(after.dispatches - before.dispatches, 180u);
    EXPECT_EQ(after.submits, before.submits);
    EXPECT_EQ(after.bind_group_misses, before.bind_group_misses);
    EXPECT_EQ(after.pool_allocations, before.pool_allocations);
    // Three rounds of 0 + 2 + ... + 98 into y, and twelve runs of 0 + 1 + ... + 7.
    EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], 3u * 2450 + 12 * 28);
  }
}

// Whichever of a buffer's host allocations fails, nothing stays counted and the memory is back in the pool.
TEST(HostMemory, A49_FailedHandlesAreNotCounted) {
  Device& device = test_device();
  device.alloc(6000);  // from here on the pool has one
  const MemoryReport before = device.memory();
  int failures = 0;
  for (int left = 0;; ++left) {
    Buffer made;
    try {
      const OutOfHostMemory out(left);
      made = device.alloc(6000);
    } catch (const std::bad_alloc&) {
      ++failures;
      const MemoryReport after = device.memory();
      ASSERT_EQ(after.live_bytes, before.live_bytes);
      ASSERT_EQ(after.retained_bytes, before.retained_bytes);
      ASSERT_EQ(after.allocations, before.allocations);
      ASSERT_LT(left, 100);
      continue;
    }
    EXPECT_TRUE(device.resident(made.id()));
    break;
  }
  EXPECT_GE(failures, 2);  // the handle's state and its place in the registry
  EXPECT_EQ(device.memory().live_bytes, before.live_bytes);
}

// A35: a host that can't hold what a read is to bring says so, before anything is sent for.
TEST(HostMemory, A35_ReadsThatTheHostHasNoRoomFor) {
  Device& device = test_device();
  const Buffer b = device.zeros_bytes(100'000);
  const Tensor x = device.zeros(Shape{25'000}, DType::f32), truths = device.zeros(Shape{100'000}, DType::bool_);
  const Tensor endless = broadcast_to(full(device, Shape{1}, 1.0, DType::f32), Shape{std::int64_t{1} << 61});
  const std::uint64_t reads = device.stats().reads;
  const auto refused = [](std::initializer_list<std::string_view> parts, auto&& call) {
    expect_error(error_of(call), ErrorCode::out_of_memory, {"the host has no room"});
    expect_error(error_of(call), ErrorCode::out_of_memory, parts);
  };
  {
    struct SmallBlocksOnly {
      SmallBlocksOnly() { largest_block = 50'000; }
      ~SmallBlocksOnly() { largest_block = SIZE_MAX; }
    } const only;
    refused({"25000 elements of 4 bytes"}, [&] { device.read_as<float>(b); });
    refused({"12501 elements of 4 bytes"}, [&] { device.read_as<float>(b, 1, 12'501); });
    refused({"25000 elements of 4 bytes"}, [&] { x.to_host<float>(); });
    refused({"100000 elements of 1 bytes"}, [&] { truths.to_host<bool>(); });
    refused({"100000 elements of 1 bytes"}, [&] { x.to_host_bytes(); });
  }
  refused({"2305843009213693952 elements"}, [&] { endless.to_host<float>(); });  // no vector is that long
  refused({"9223372036854775808 elements"}, [&] { endless.to_host_bytes(); });
  EXPECT_EQ(device.stats().reads, reads);
  EXPECT_EQ(device.read_as<float>(b).size(), 25'000u);
}

// A49 (c), B18: whichever host allocation of a look-up fails, with the lock held too, the cache is as it was, and
// another thread finds its entries.
TEST(HostMemory, A49_B18_BindGroupCacheWithoutHostMemory) {
  using dispatch::BindGroupCache;
  using dispatch::BoundRange;
  BindGroupCache cache(8);
  const std::vector<BoundRange> kept{{9, 0, 4}}, wanted{{1, 0, 4}, {2, 0, 4}, {3, 0, 4}};
  const auto get = [&](const std::vector<BoundRange>& ranges) {
    return cache.get_or_create(1, ranges, [] { return webgpu::BindGroup(); });
  };
  const auto first = get(kept);
  int failures = 0;
  for (bool made = false; !made; ++failures) {
    ASSERT_LT(failures, 100);
    try {
      const OutOfHostMemory out(failures);
      get(wanted);
      made = true;
    } catch (const std::bad_alloc&) {
      run_threads(1, [&](unsigned) {
        const auto hits = cache.stats().hits;
        EXPECT_EQ(get(kept), first);
        EXPECT_EQ(cache.stats().hits, hits + 1);
        EXPECT_EQ(cache.stats().entries, 1u);
        EXPECT_EQ(cache.stats().misses, 1u);
        for (std::uint64_t id : {1, 2, 3}) cache.forget_allocation(id);  // no index names what is not there
        EXPECT_EQ(cache.stats().entries, 1u);
      });
    }
  }
  EXPECT_GE(failures, 6);  // the group, the node, its ranges, and four places in the indexes
  EXPECT_EQ(cache.stats().entries, 2u);
  EXPECT_EQ(cache.stats().misses, 2u);
  cache.forget_allocation(2);
  EXPECT_EQ(cache.stats().entries, 1u);
}

}  // namespace
}  // namespace weft::testing
