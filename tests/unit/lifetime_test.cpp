// What may be dropped when: devices before and after what they made, lost devices, many devices.
#include <gtest/gtest.h>

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "dispatch/state.h"
#include "unit/core_helpers.h"
#include "unit/test_device.h"
#include "weft/graph.h"

namespace weft::testing {
namespace {

using namespace std::chrono_literals;

std::size_t open_files() {
  const std::filesystem::directory_iterator list("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(list), end(list)));
}

/// The device is gone; its buffers, kernel, stream and read are dropped after it, in every order (A15).
TEST(Lifetime, HandlesOutliveTheDevice) {
  Buffer buffer, dropped_first;
  Kernel kernel;
  {
    Device device = Device::open();
    buffer = upload_vector<float>(device, {1, 2});
    dropped_first = device.alloc(64);
    kernel = neg_kernel(device);
    kernel(device.stream(), {{"x", buffer}, {"y", dropped_first}}, Grid{});
  }
  EXPECT_EQ(buffer.size(), 8u);
  EXPECT_EQ(kernel.label(), "neg");
  dropped_first = {};
  // Another device takes its place and refuses what is left.
  Device next = Device::open();
  std::byte out[4];
  expect_error(error_of([&] { next.read(buffer, 0, out); }), ErrorCode::foreign_buffer);
  expect_error(error_of([&] { kernel(next.stream(), {{"x", buffer}, {"y", buffer}}, Grid{}); }),
               ErrorCode::foreign_buffer, {"neg"});
}

// Case L10: copies in every order; a stream alone keeps the device.
TEST(Lifetime, L10_CopiesShareTheDevice) {
  Stream stream;
  Buffer x, y;
  Kernel neg;
  std::optional<Device> last;
  {
    Device a = Device::open();
    Device b = a;
    const Device c = std::move(a);
    last = b;
    stream = b.make_stream();
    x = upload_vector<float>(b, {4});
    y = b.alloc(4);
    neg = neg_kernel(b);
    EXPECT_EQ(c.id(), b.id());
  }
  neg(stream, {{"x", x}, {"y", y}}, Grid{});
  EXPECT_EQ(read_vector<float>(*last, y, 1)[0], -4.0f);
  last.reset();
  neg(stream, {{"x", y}, {"y", x}}, Grid{});
  stream.synchronize();
}

// Cases L07, C05 (b): a destroyed device fails all that waits on it with one named error, soon.
TEST(Lifetime, L07_C05_DestroyedDevice) {
  Device device = Device::open();
  const Kernel neg = neg_kernel(device);
  const Buffer x = upload_vector<float>(device, {1, 2}), y = device.alloc(8);
  const Stream own = device.make_stream();
  neg(own, {{"x", x}, {"y", y}}, Grid{});
  Readback begun = device.read_async(x, 0, 8);
  EXPECT_FALSE(device.lost());
  device.destroy();
  EXPECT_TRUE(device.lost());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(begun.ready());  // it has settled one way or the other
  try {
    begun.wait();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::device_lost) << e.what();
  }
  std::vector<float> out(2, 7);
  const auto lost = [&](auto&& call) { expect_error(error_of(call), ErrorCode::device_lost, {"lost"}); };
  lost([&] { device.read(x, 0, std::as_writable_bytes(std::span(out))); });
  lost([&] { device.read_async(x, 0, 4); });
  lost([&] { device.write(x, 0, std::as_bytes(std::span(out))); });
  lost([&] { device.alloc(4); });
  lost([&] { device.upload_with(4, [](std::span<std::byte>) {}); });
  lost([&] { neg_kernel(device); });
  lost([&] { device.synchronize(); });
  lost([&] { own.synchronize(); });
  lost([&] { device.stream().clear(y, 0, 8); });
  lost([&] { neg(device.stream(), {{"x", x}, {"y", y}}, Grid{}); });
  EXPECT_EQ(out, std::vector<float>(2, 7));                  // A31
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);  // long before the wait_timeout of 30 s
  device.destroy();                                          // again: nothing
  // The process lives, and a new device works.
  Device again = Device::open();
  EXPECT_EQ(read_vector<float>(again, upload_vector<float>(again, {5}), 1)[0], 5.0f);
}

// D40: the implementation loses the device, and Weft learns of it by its callback alone: what waits ends with the named
// error, and the next device has nothing of the old one.
TEST(Lifetime, D40_ALossThatTheImplementationReports) {
  Device device = Device::open();
  const Kernel neg = neg_kernel(device);
  const Buffer x = upload_vector<float>(device, {1, 2}), y = device.zeros_bytes(8);
  neg(device.stream(), {{"x", x}, {"y", y}}, Grid{});
  device.synchronize();
  neg(device.stream(), {{"x", x}, {"y", y}}, Grid{});
  EXPECT_FALSE(device.lost());
  Readback begun = device.read_async(x, 0, 8);
  device.state()->gpu.lose();
  const auto lost = [&](auto&& call) { expect_error(error_of(call), ErrorCode::device_lost, {"is lost"}); };
  const auto start = std::chrono::steady_clock::now();
  float out[2] = {7, 7};
  lost([&] { device.read(y, 0, std::as_writable_bytes(std::span(out))); });
  EXPECT_TRUE(device.lost());
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);  // long before the wait_timeout of 30 s
  EXPECT_EQ(out[0], 7);
  try {
    begun.wait();  // it had come, or it never will
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::device_lost) << e.what();
  }
  lost([&] { device.synchronize(); });
  lost([&] { device.alloc(4); });
  lost([&] { neg(device.stream(), {{"x", x}, {"y", y}}, Grid{}); });

  Device next = Device::open();
  EXPECT_NE(next.id(), device.id());
  expect_error(error_of([&] { next.read(x, 0, std::as_writable_bytes(std::span(out))); }), ErrorCode::foreign_buffer);
  expect_error(error_of([&] { neg(next.stream(), {{"x", x}, {"y", y}}, Grid{}); }), ErrorCode::foreign_buffer, {"neg"});
  const Kernel fresh = neg_kernel(next);
  EXPECT_EQ(next.stats().pipeline_misses, 1u);  // compiled anew, not the lost device's
  const Buffer z = next.alloc(8);
  fresh(next.stream(), {{"x", upload_vector<float>(next, {3, 4})}, {"y", z}}, Grid{});
  EXPECT_EQ(read_vector<float>(next, z, 2), (std::vector<float>{-3, -4}));
}

// D40: reads and uploads that are under way when the implementation loses the device end in the named error:
// wgpu-native ends the process when asked for memory that was mapped, and on an empty submit.
TEST(Lifetime, D40_WorkUnderWayInALoss) {
  Device device = Device::open();
  const Kernel spin = spin_kernel(device);
  const Buffer y = device.zeros_bytes(256 * 4), z = device.alloc(64);
  device.synchronize();
  spin(device.stream(), {{"y", y}}, Grid{256, 1, 1});
  Readback begun = device.read_async(y, 0, 1024);
  device.state()->gpu.lose();
  const std::vector<std::byte> bytes(64);
  const auto ends = [](auto&& call) {  // what was there already may still come
    try {
      call();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::device_lost) << e.what();
    }
  };
  ends([&] { begun.wait(); });
  ends([&] { begun.view(); });
  ends([&] { device.state()->gpu.submit_writes(); });
  for (int i = 0; i < 3; ++i) ends([&] { device.write(z, 0, bytes); });
  expect_error(error_of([&] { device.upload_with(64, [](std::span<std::byte>) {}); }), ErrorCode::device_lost);
  begun.cancel();
  EXPECT_TRUE(device.lost());
}

// "Every later call": recording, too, where a batch was open when the device went.
TEST(Lifetime, L07_RecordingAfterTheEnd) {
  Device device = Device::open();
  const Kernel neg = neg_kernel(device);
  const Buffer x = upload_vector<float>(device, {1, 2}), y = device.zeros_bytes(8);
  const Graph graph = device.capture([&](const Stream& s) { neg(s, {{"x", x}, {"y", y}}, Grid{}); });
  neg(device.stream(), {{"x", x}, {"y", y}}, Grid{});
  ASSERT_GT(device.stream().pending(), 0u);
  device.destroy();
  const Stats before = device.stats();
  const auto lost = [&](auto&& call) { expect_error(error_of(call), ErrorCode::device_lost, {"recording"}); };
  lost([&] { neg(device.stream(), {{"x", x}, {"y", y}}, Grid{}); });
  lost([&] { device.stream().copy(x, 0, y, 0, 8); });
  lost([&] { device.stream().clear(y, 0, 8); });
  lost([&] { graph.run(); });
  EXPECT_EQ(device.stats().dispatches, before.dispatches);
}

// A handle that was moved from, or assigned to itself, is still one.
TEST(Lifetime, L10_MovedFromDevices) {
  Device a = test_device();
  Device b = std::move(a);
  EXPECT_EQ(a.id(), b.id());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(read_vector<int>(a, upload_vector<int>(a, {7}), 1)[0], 7);
  Device& same = a;
  a = std::move(same);
  EXPECT_EQ(a.id(), test_device().id());
}

// Reads that wait on other threads end when the device goes.
TEST(Lifetime, WaitersEndWhenTheDeviceGoes) {
  Device device = Device::open();
  const Kernel spin = spin_kernel(device);
  const Buffer y = device.zeros_bytes(256 * 4);
  std::atomic<int> reads{0};
  run_threads(3, [&](unsigned t) {
    if (t == 0) {
      while (reads < 4) std::this_thread::yield();  // both are at it
      device.destroy();
      return;
    }
    try {
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < 60s) {
        spin(device.stream(), {{"y", y}}, Grid{64, 1, 1});
        read_vector<std::uint32_t>(device, y, 1);
        ++reads;
      }
      ADD_FAILURE() << "the device never went";
      reads = 4;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::device_lost) << e.what();
    }
  });
}

// Case L04: descriptors do not pile up, in the paths that fail neither.
TEST(Lifetime, L04_ManyDevices) {
  Device::open();  // what the first one opens for good
  const std::size_t before = open_files();
  for (int i = 0; i < 50; ++i) {
    Device device = Device::open();
    if (i % 10 == 0) {
      EXPECT_EQ(read_vector<int>(device, upload_vector<int>(device, {i}), 1)[0], i);
    }
  }
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(Device::adapters().empty());
  for (int i = 0; i < 50; ++i) {
    DeviceOptions impossible;
    impossible.adapter = "no such adapter";
    expect_error(error_of([&] { Device::open(impossible); }), ErrorCode::invalid_argument, {"no such adapter"});
  }
  EXPECT_LE(open_files(), before + 5);
}

#ifndef _WIN32
// A forked child has none of the driver's threads: its calls fail at once instead of waiting for them, and it ends
// (inducer/pycuda#137, pytorch/pytorch#32188).
TEST(Lifetime, AForkedChildFailsAtOnceAndEnds) {
  Device device = Device::open();
  std::optional<Buffer> buffer = upload_vector<float>(device, {3});
  EXPECT_EQ(read_vector<float>(device, *buffer, 1)[0], 3.0f);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(25);  // a hang ends by a signal
    const auto code_of = [](auto&& call) {
      try {
        call();
      } catch (const Error& e) {
        return e.code();
      }
      return ErrorCode::internal;
    };
    std::vector<float> out(1);
    int wrong = device.lost() ? 0 : 1;
    const auto start = std::chrono::steady_clock::now();
    const auto read = [&] { device.read(*buffer, 0, std::as_writable_bytes(std::span(out))); };
    wrong |= code_of(read) == ErrorCode::device_lost ? 0 : 2;
    wrong |= code_of([&] { device.synchronize(); }) == ErrorCode::device_lost ? 0 : 4;
    wrong |= code_of([] { Device::open(); }) == ErrorCode::unsupported ? 0 : 8;
    buffer.reset();
    wrong |= std::chrono::steady_clock::now() - start < 5s ? 0 : 16;
    std::exit(wrong);  // with static devices, and the driver's own handlers
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_vector<float>(device, *buffer, 1)[0], 3.0f);  // the parent goes on
}
#endif

}  // namespace
}  // namespace weft::testing
