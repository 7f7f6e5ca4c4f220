// Streams: program order, batches, and work that one stream recorded and another needs.
#include "weft/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "dispatch/state.h"
#include "unit/core_helpers.h"
#include "unit/sanitized.h"
#include "unit/test_device.h"
#include "weft/graph.h"

namespace weft::testing {
namespace {

using namespace std::chrono_literals;

/// Everything small: no memory kept, two bind groups, a submit after four dispatches or 64 KiB.
Device& tiny_device() {
  static Device device = [] {
    DeviceOptions o;
    o.pool_bytes = 1;
    o.bind_groups = 2;
    o.batch_dispatches = 4;
    o.batch_bytes = 64 << 10;
    return Device::open(o);
  }();
  return device;
}

std::vector<std::uint32_t> words(Device& device, const Buffer& b, std::size_t n) {
  return read_vector<std::uint32_t>(device, b, n);
}

// Issue 5: dispatches, copies, clears and uploads take effect in the order of their calls, in one pass where that can
// be.
TEST(Stream, ProgramOrder) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer a = device.zeros_bytes(64), b = device.zeros_bytes(64);
  device.synchronize();
  const Stats before = device.stats();
  const Stream s = device.stream();
  add(s, {{"y", a}}, AddParams{1, 16}, Grid{});
  add(s, {{"y", a}}, AddParams{2, 16}, Grid{});
  s.copy(a, 0, b, 0, 32);
  s.clear(a, 0, 16);
  add(s, {{"y", a}}, AddParams{10, 16}, Grid{});
  EXPECT_EQ(s.pending(), 3u);
  EXPECT_EQ(words(device, a, 5), (std::vector<std::uint32_t>{10, 10, 10, 10, 13}));
  EXPECT_EQ(words(device, b, 9), (std::vector<std::uint32_t>{3, 3, 3, 3, 3, 3, 3, 3, 0}));
  EXPECT_EQ(device.stats().submits - before.submits, 2u);  // one a read: the work went with the first
  EXPECT_EQ(device.stats().passes - before.passes, 2u);
  EXPECT_EQ(device.stats().copies - before.copies, 2u);
  EXPECT_EQ(s.pending(), 0u);
}

// Work of one stream that another one needs is submitted first, in both directions.
TEST(Stream, AcrossStreams) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Stream first = device.make_stream(), second = device.make_stream();
  const Buffer a = device.zeros_bytes(64), b = device.zeros_bytes(64);
  for (std::uint32_t i = 0; i < 5; ++i) {
    add(first, {{"y", a}}, AddParams{1, 16}, Grid{});
    second.copy(a, 0, b, 0, 64);
    EXPECT_EQ(first.pending(), 0u);
    add(second, {{"y", a}}, AddParams{100, 16}, Grid{});
    first.copy(b, 0, a, 0, 4);
    EXPECT_EQ(second.pending(), 0u);
  }
  EXPECT_EQ(words(device, a, 2), (std::vector<std::uint32_t>{5, 505}));
}

TEST(Stream, OtherStreamsWorkStaysWhereItIs) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Stream first = device.make_stream(), second = device.make_stream();
  const Buffer a = device.zeros_bytes(64), b = device.zeros_bytes(64);
  device.synchronize();
  add(first, {{"y", a}}, AddParams{1, 16}, Grid{});
  add(second, {{"y", b}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(first.pending(), 1u);
  EXPECT_EQ(words(device, b, 1)[0], 1u);
  EXPECT_EQ(first.pending(), 1u);
  device.synchronize();  // of all streams
  EXPECT_EQ(first.pending(), 0u);
  EXPECT_EQ(words(device, a, 1)[0], 1u);
}

// A stream goes with work recorded: the work is done all the same.
TEST(Stream, DroppedWithWork) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer a = device.zeros_bytes(64);
  {
    add(device.make_stream(), {{"y", a}}, AddParams{3, 16}, Grid{});
  }
  EXPECT_EQ(words(device, a, 16), std::vector<std::uint32_t>(16, 3));
}

TEST(Stream, CopiesShareTheStream) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer a = device.zeros_bytes(64);
  Stream s = device.make_stream();
  const Stream copy = s;
  add(s, {{"y", a}}, AddParams{3, 16}, Grid{});
  s = {};
  EXPECT_EQ(copy.pending(), 1u);
  copy.synchronize();
  EXPECT_EQ(copy.pending(), 0u);
  expect_error(error_of([&] { s.submit(); }), ErrorCode::invalid_argument, {"stream is empty"});
  expect_error(error_of([&] { (void)s.pending(); }), ErrorCode::invalid_argument);
}

TEST(Stream, CopyWithinOneBuffer) {
  Device& device = test_device();
  const Buffer a = upload_vector<std::uint32_t>(device, {1, 2, 3, 4, 5, 6});
  device.stream().copy(a, 0, a, 8, 16);  // overlapping: as if read before it is written
  EXPECT_EQ(words(device, a, 6), (std::vector<std::uint32_t>{1, 2, 1, 2, 3, 4}));
}

TEST(Stream, RangesAreChecked) {
  Device& device = test_device();
  const Stream s = device.stream();
  const Buffer a = upload_vector<std::uint32_t>(device, {1, 2, 3, 4}), b = device.zeros_bytes(16);
  using enum ErrorCode;
  expect_error(error_of([&] { s.copy(a, 4, b, 0, 16); }), out_of_range, {"4", "20", "16"});
  expect_error(error_of([&] { s.copy(a, 0, b, 4, 16); }), out_of_range);
  expect_error(error_of([&] { s.copy(a, SIZE_MAX - 3, b, 0, 8); }), out_of_range, {"64 bits"});
  expect_error(error_of([&] { s.copy(a, 2, b, 0, 4); }), invalid_argument, {"offset 2", "multiples of 4"});
  expect_error(error_of([&] { s.copy(a, 0, b, 0, 3); }), invalid_argument);
  expect_error(error_of([&] { s.copy(device.alloc(16, Usage::copy_dst), 0, b, 0, 4); }), invalid_argument,
               {"copy_src"});
  expect_error(error_of([&] { s.copy(a, 0, device.alloc(16, Usage::copy_src), 0, 4); }), invalid_argument,
               {"copy_dst"});
  expect_error(error_of([&] { s.clear(b, 8, 12); }), out_of_range);
  expect_error(error_of([&] { s.clear(b, 1, 4); }), invalid_argument);
  expect_error(error_of([&] { s.copy(Buffer(), 0, b, 0, 4); }), invalid_argument, {"empty"});
  s.copy(a, 16, b, 16, 0);
  s.clear(b, 16, 0);
  EXPECT_EQ(words(device, b, 4), std::vector<std::uint32_t>(4, 0));
}

// B.5 (6): nothing failed, so synchronize says nothing; a submit of nothing does nothing.
TEST(Stream, SynchronizeWithNothing) {
  Device& device = test_device();
  device.synchronize();
  const Stats before = device.stats();
  device.stream().submit();
  device.stream().synchronize();
  device.make_stream().synchronize({std::chrono::seconds(5)});
  EXPECT_EQ(device.stats().submits, before.submits);
}

TEST(Stream, SubmitsAtTheCount) {
  Device& device = tiny_device();
  const Kernel add = add_kernel(device);
  const Buffer a = device.zeros_bytes(64);
  device.synchronize();
  const Stats before = device.stats();
  for (std::uint32_t i = 0; i < 10; ++i) {
    add(device.stream(), {{"y", a}}, AddParams{1, 16}, Grid{});
    EXPECT_EQ(device.stream().pending(), (i + 1) % 4);
  }
  EXPECT_EQ(device.stats().submits - before.submits, 2u);
  EXPECT_EQ(words(device, a, 1)[0], 10u);
}

TEST(Stream, SubmitsAtTheBytes) {
  Device& device = tiny_device();
  const Kernel add = add_kernel(device);
  const Buffer a = device.zeros_bytes(40 << 10);
  device.synchronize();
  add(device.stream(), {{"y", a}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(device.stream().pending(), 1u);
  add(device.stream(), {{"y", a}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(device.stream().pending(), 0u);
}

// Case K01 with the pool off: every round's memory is new, often at the old address.
TEST(Stream, K01_WithoutAPool) {
  Device& device = tiny_device();
  const Kernel neg = neg_kernel(device);
  for (int i = 0; i < 2000; ++i) {
    const auto f = static_cast<float>(i);
    const Buffer x = upload_vector(device, std::vector<float>(64, f)), y = device.alloc(256);
    neg(device.stream(), {{"x", x}, {"y", y}}, Grid{});
    ASSERT_EQ(read_vector<float>(device, y, 64), std::vector<float>(64, -f));
  }
  EXPECT_EQ(device.stats().retained_bytes, 0u);
}

// Case K03: a cache of two groups, 500 other calls in between, then the first again.
TEST(Stream, K03_EvictedAndBack) {
  Device& device = tiny_device();
  const Kernel add = add_kernel(device), neg = neg_kernel(device);
  const Buffer a = upload_vector<float>(device, {1, 2}), out = device.alloc(8);
  neg(device.stream(), {{"x", a}, {"y", out}}, Grid{});
  const Stats before = device.stats();
  for (std::uint32_t i = 0; i < 500; ++i) {
    const Buffer other = device.zeros_bytes(64 + 4 * (i % 100));
    add(device.stream(), {{"y", other}}, AddParams{i, 16}, Grid{});
    ASSERT_LE(device.stats().bind_group_entries, 2u);
  }
  EXPECT_EQ(device.stats().bind_group_misses - before.bind_group_misses, 500u);
  device.trim();
  device.synchronize();
  device.stream().clear(out, 0, 8);
  neg(device.stream(), {{"x", a}, {"y", out}}, Grid{});
  EXPECT_EQ(read_vector<float>(device, out, 2), (std::vector<float>{-1, -2}));
}

// D19, B15: bind groups of destroyed memory go at once, those of memory in the pool stay.
TEST(Stream, D19_GroupsGoWithTheMemory) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  device.trim();
  const std::uint64_t entries = device.stats().bind_group_entries;
  Buffer a = device.zeros_bytes(64);
  add(device.stream(), {{"y", a}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(device.stats().bind_group_entries, entries + 1);
  a = {};
  EXPECT_EQ(device.stats().bind_group_entries, entries + 1);
  const Stats before = device.stats();
  a = device.zeros_bytes(64);
  add(device.stream(), {{"y", a}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(device.stats().bind_group_misses, before.bind_group_misses);
  device.synchronize();
  a = {};
  device.trim();
  EXPECT_EQ(device.stats().bind_group_entries, entries);
}

// Rule 8: a call that gives up waiting for work in flight has recorded nothing, so it can be made again.
TEST(Stream, CallsThatTimeOutRecordNothing) {
  DeviceOptions options;
  options.wait_timeout = 5ms;
  options.batch_dispatches = 1;  // each is sent at once
  Device device = Device::open(options);
  const Kernel add = add_kernel(device);
  const Buffer y = device.zeros_bytes(64), z = device.zeros_bytes(64);
  const Graph graph = device.capture([&](const Stream& s) { add(s, {{"y", y}}, AddParams{1, 16}, Grid{}); });
  device.synchronize({60s});
  // As if the device had not answered for long.
  detail::DeviceState& state = *device.state();
  std::vector<std::shared_ptr<std::atomic<bool>>> unanswered;
  for (int i = 0; i < 20; ++i) unanswered.push_back(std::make_shared<std::atomic<bool>>(false));
  {
    const std::lock_guard lock(state.in_flight_mutex);
    state.in_flight = unanswered;
    state.submits_since_signal = 1000;
  }
  const Stream s = device.stream();
  add(s, {{"y", y}}, AddParams{1, 16}, Grid{});
  const Stats before = device.stats();
  const auto refused = [&](auto&& call) {
    expect_error(error_of(call), ErrorCode::timed_out, {"recording work", "WEFT_WAIT_TIMEOUT"});
  };
  refused([&] { add(s, {{"y", y}}, AddParams{1, 16}, Grid{}); });
  refused([&] { s.copy(y, 0, z, 0, 64); });
  refused([&] { s.clear(y, 0, 64); });
  refused([&] { graph.run(); });
  s.submit();  // does not wait
  EXPECT_EQ(device.stats().dispatches, before.dispatches);
  EXPECT_EQ(device.stats().copies, before.copies);
  for (const auto& signal : unanswered) signal->store(true);
  add(s, {{"y", y}}, AddParams{1, 16}, Grid{});
  graph.run();
  std::uint32_t got = 0;
  device.read(y, 0, std::as_writable_bytes(std::span(&got, 1)), {60s});
  EXPECT_EQ(got, 3u);
}

// Scopes of one thread may end in any order: what stays decides.
TEST(Stream, ScopesEndInAnyOrder) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer y = device.zeros_bytes(64);
  device.synchronize();
  const Stream one = device.make_stream(), two = device.make_stream();
  auto outer = std::make_unique<StreamScope>(one);
  auto inner = std::make_unique<StreamScope>(two);
  outer.reset();
  add(device.stream(), {{"y", y}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(two.pending(), 1u);
  outer = std::make_unique<StreamScope>(one);
  inner.reset();
  add(device.stream(), {{"y", y}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(one.pending(), 1u);
  outer.reset();
  add(device.stream(), {{"y", y}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(one.pending(), 0u) << "the default stream's work waits for it";
  EXPECT_EQ(words(device, y, 1)[0], 3u);
}

// A scope that another thread ends (a generator, a coroutine that moved) counts as ended, and leaves nothing behind.
TEST(Stream, ScopesMayEndOnAnotherThread) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer y = device.zeros_bytes(64);
  device.synchronize();
  const Stream one = device.make_stream(), two = device.make_stream();
  const StreamScope outer(one);
  auto inner = std::make_unique<StreamScope>(two);
  std::thread([&] { inner.reset(); }).join();
  add(device.stream(), {{"y", y}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(two.pending(), 0u);
  EXPECT_EQ(one.pending(), 1u);
  const StreamScope next(two);
  add(device.stream(), {{"y", y}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(two.pending(), 1u);
  EXPECT_EQ(words(device, y, 1)[0], 2u);
}

// Memory that goes while recorded work names it: the work still runs.
TEST(Stream, TrimmedWhileRecorded) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const Buffer y = device.alloc(16);
  {
    const Buffer x = upload_vector<float>(device, {1, 2, 3, 4});
    neg(device.stream(), {{"x", x}, {"y", y}}, Grid{});
  }
  device.trim();
  EXPECT_EQ(read_vector<float>(device, y, 4), (std::vector<float>{-1, -2, -3, -4}));
}

// Case M02: 20,000 submits without a read keep memory flat: the runtime polls and bounds what is in flight.
TEST(Stream, M02_SubmitsWithoutARead) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const Buffer x = upload_vector(device, std::vector<float>(1024, 3)), y = device.alloc(4096);
#if WEFT_SANITIZED
  constexpr int kSubmits = 3000;
  constexpr bool kMeasure = false;  // AddressSanitizer keeps freed memory for a while
#else
  constexpr int kSubmits = 20'000;
  constexpr bool kMeasure = true;
#endif
  std::uint64_t start = 0;
  for (int i = 0; i < kSubmits; ++i) {
    neg(device.stream(), {{"x", x}, {"y", y}}, Grid{16, 1, 1});
    device.stream().submit();
    if (i == kSubmits / 10) start = resident_bytes();  // warm: drivers fill pools of their own first
  }
  if (kMeasure) {
    EXPECT_LT(resident_bytes(), start + (std::uint64_t{64} << 20));
  }
  EXPECT_EQ(read_vector<float>(device, y, 1024), std::vector<float>(1024, -3));
}

// Case C07's kind: never one behind.
TEST(Stream, C07_NeverOneBehind) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer y = device.zeros_bytes(64);
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < 300; ++i) {
    for (std::uint32_t k = 0; k < 1 + i * 7 % 50; ++k, ++sum)
      add(device.stream(), {{"y", y}}, AddParams{1, 16}, Grid{});
    device.synchronize();
    ASSERT_EQ(words(device, y, 1)[0], sum);
  }
}

// Rule 3, K01: within one open pass a bind group goes with its buffer, and the next one may be made at its address. Met
// in memory_stress_test: the pass took the new group for the one it had set, and the dispatch ran on the old buffer.
TEST(Stream, K01_AFreedGroupsAddressIsNoIdentity) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  device.synchronize();
  std::vector<Buffer> out;
  for (int i = 0; i < 100; ++i) {
    out.push_back(device.alloc(16));
    {
      const Buffer x = upload_vector(device, std::vector<float>(4, static_cast<float>(i)));
      neg(device.stream(), {{"x", x}, {"y", out.back()}}, Grid{});
    }
    device.trim();  // destroys x's memory, and with it the group that the pass has set
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(read_vector<float>(device, out[static_cast<std::size_t>(i)], 4),
              std::vector<float>(4, static_cast<float>(-i)));
  }
}

}  // namespace
}  // namespace weft::testing
