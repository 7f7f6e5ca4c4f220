// Serials of a stream's batches, and callbacks for work that is done.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <stdexcept>
#include <thread>

#include "unit/core_helpers.h"
#include "unit/test_device.h"
#include "weft/stream.h"

namespace weft::testing {
namespace {

using std::chrono::seconds;

/// Waits for a callback's promise; a hang is a failure, not a hang of the suite.
template <class T>
T wait_for(std::future<T>& f) {
  if (f.wait_for(seconds(60)) != std::future_status::ready) throw std::runtime_error("no callback within 60 s");
  return f.get();
}

// Issue 5, point 5.
TEST(Serials, CountBatches) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Stream s = device.make_stream();
  EXPECT_EQ(s.submitted(), 0u);
  EXPECT_EQ(s.completed(), 0u);
  const Buffer a = device.zeros_bytes(64);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    add(s, {{"y", a}}, AddParams{1, 16}, Grid{});
    EXPECT_EQ(s.submitted(), i - 1);  // recorded, not sent
    s.submit();
    EXPECT_EQ(s.submitted(), i);
    EXPECT_LE(s.completed(), i);
  }
  s.submit();  // nothing recorded
  EXPECT_EQ(s.submitted(), 5u);
  s.synchronize();
  EXPECT_EQ(s.completed(), 5u);
}

TEST(Serials, CompletedGetsThereWithoutSynchronize) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Stream s = device.make_stream();
  const Buffer a = device.zeros_bytes(64);
  add(s, {{"y", a}}, AddParams{1, 16}, Grid{});
  s.submit();
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  std::uint64_t last = 0;
  while (last < 1 && std::chrono::steady_clock::now() < end) {
    const std::uint64_t now = s.completed();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(last, 1u);
}

TEST(OnComplete, ComesInOrderAfterTheWork) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Stream s = device.make_stream();
  const Buffer a = device.zeros_bytes(64);
  std::vector<int> order;
  std::promise<void> last;
  auto done = last.get_future();
  const auto caller = std::this_thread::get_id();
  for (int i = 0; i < 20; ++i) {
    add(s, {{"y", a}}, AddParams{1, 16}, Grid{});
    s.on_complete([&, i](const Error* error) {
      EXPECT_EQ(error, nullptr);
      EXPECT_NE(std::this_thread::get_id(), caller);
      order.push_back(i);
      if (i == 19) last.set_value();
    });
  }
  wait_for(done);  // nobody else polls
  std::vector<int> want(20);
  for (int i = 0; i < 20; ++i) want[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(order, want);
  EXPECT_EQ(read_vector<std::uint32_t>(device, a, 1)[0], 20u);
}

// Case C04: in the callback of read 1: allocate, dispatch, start read 2, free read 1's buffer, and throw once.
TEST(OnComplete, MayUseTheDeviceAndThrow) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Stream s = device.make_stream();
  Buffer first = device.zeros_bytes(64);
  add(s, {{"y", first}}, AddParams{7, 16}, Grid{});
  std::promise<std::uint32_t> result;
  auto future = result.get_future();
  s.on_complete([&](const Error*) {
    const Buffer second = device.alloc(64);
    device.stream().copy(first, 0, second, 0, 64);
    add(s, {{"y", second}}, AddParams{1, 16}, Grid{});
    Readback read = device.read_async(second, 0, 4);
    first = {};
    read.wait();
    std::uint32_t value = 0;
    std::memcpy(&value, read.view().data(), 4);
    s.on_complete([&result, value](const Error* error) {
      EXPECT_EQ(error, nullptr);
      result.set_value(value);
    });
    throw std::runtime_error("thrown in a callback");
  });
  EXPECT_EQ(wait_for(future), 8u);
  try {
    device.synchronize();
    FAIL() << "what the callback threw is lost";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
    EXPECT_NE(std::string(e.what()).find("thrown in a callback"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("Fix: "), std::string::npos);
  }
  device.synchronize();  // reported once
}

// Nobody may ever ask: what is kept has an end.
TEST(OnComplete, KeepsSomeOfManyErrors) {
  Device& device = test_device();
  const Stream s = device.make_stream();
  std::promise<void> last;
  for (int i = 0; i < 100; ++i) s.on_complete([](const Error*) { throw std::runtime_error("one of many"); });
  s.on_complete([&](const Error*) { last.set_value(); });
  last.get_future().wait();
  try {
    device.synchronize();
    FAIL() << "what the callbacks threw is lost";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("and 84 more"), std::string::npos) << what;
    EXPECT_LT(what.size(), 600u);
  }
  device.synchronize();
}

TEST(OnComplete, RefusesAnEmptyCallback) {
  EXPECT_THROW(test_device().make_stream().on_complete({}), Error);
}

// Case C05: a callback is settled once, also when the device goes first.
TEST(OnComplete, SettledWhenTheDeviceIsDestroyed) {
  Device device = Device::open();
  const Stream s = device.make_stream();
  std::promise<bool> lost;
  auto future = lost.get_future();
  std::promise<void> release;
  auto released = release.get_future().share();
  s.on_complete([released](const Error*) { released.wait_for(seconds(60)); });  // holds up the next
  s.on_complete(
      [&](const Error* error) { lost.set_value(error != nullptr && error->code() == ErrorCode::device_lost); });
  device.destroy();
  release.set_value();
  EXPECT_TRUE(wait_for(future));
  EXPECT_THROW(s.on_complete([](const Error*) {}), Error);
}

// The last handle of the device goes inside a callback: its thread can't wait for itself.
TEST(OnComplete, MayHoldTheLastHandle) {
  std::promise<void> gone;
  auto future = gone.get_future();
  {
    struct Notify {
      std::promise<void>& gone;
      ~Notify() { gone.set_value(); }
    };
    struct Held {
      Notify notify;
      Device device;  // goes first
    };
    Device device = Device::open();
    auto held = std::shared_ptr<Held>(new Held{Notify{gone}, device});
    device.make_stream().on_complete([held](const Error*) {});
  }
  wait_for(future);
}

}  // namespace
}  // namespace weft::testing
