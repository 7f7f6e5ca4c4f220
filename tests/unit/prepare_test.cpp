// Kernels compiled in the background, and threads that want one kernel at once.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <string>

#include "unit/core_helpers.h"
#include "unit/test_device.h"

namespace weft::testing {
namespace {

KernelOptions constant_kernel(const std::string& value, std::string label) {
  return {.source =
              "@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
              "@compute @workgroup_size(1) fn main() { o[0] = " +
              value + "; }",
          .label = std::move(label)};
}

std::uint32_t run(Device& device, const Kernel& kernel) {
  const Buffer o = device.alloc(4);
  kernel(device.stream(), {{"o", o}}, Grid{});
  return read_vector<std::uint32_t>(device, o, 1)[0];
}

TEST(Prepare, EachHasItsKernelOrItsError) {
  Device& device = test_device();
  std::vector<KernelOptions> options;
  for (int i = 0; i < 12; ++i) options.push_back(constant_kernel(std::to_string(500 + i) + "u", "prepared"));
  options[3] = constant_kernel("undeclared", "the bad one");
  options[7] = options[2];  // the same text twice
  const Stats before = device.stats();
  const std::vector<PendingKernel> pending = device.prepare(options);
  ASSERT_EQ(pending.size(), options.size());
  for (std::size_t i = 0; i < pending.size(); ++i) {
    if (i == 3) {
      for (int again = 0; again < 2; ++again) {
        expect_error(error_of([&] { pending[i].get(); }), ErrorCode::compile_error, {"the bad one", "undeclared"});
      }
      continue;
    }
    EXPECT_EQ(run(device, pending[i].get()), i == 7 ? 502 : 500 + i);
    EXPECT_TRUE(pending[i].ready());
  }
  EXPECT_EQ(device.stats().pipeline_misses - before.pipeline_misses, 11u);  // 10 good texts and the bad one
  // All are hits now, but for the failure, which is not kept.
  const Stats warm = device.stats();
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (i == 3) continue;
    EXPECT_EQ(run(device, device.kernel(options[i])), i == 7 ? 502 : 500 + i);
  }
  EXPECT_EQ(device.stats().pipeline_misses, warm.pipeline_misses);
  EXPECT_EQ(device.stats().pipeline_hits - warm.pipeline_hits, 11u);
  expect_error(error_of([&] { device.kernel(options[3]); }), ErrorCode::compile_error);
  EXPECT_EQ(device.stats().pipeline_misses - warm.pipeline_misses, 1u);
}

TEST(Prepare, NothingAndEmptyHandles) {
  EXPECT_TRUE(test_device().prepare({}).empty());
  expect_error(error_of([] { PendingKernel().get(); }), ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([] { (void)PendingKernel().ready(); }), ErrorCode::invalid_argument, {"empty"});
}

// The second of them waits for the first's result; a failure reaches each of them and is not kept (D39).
TEST(Prepare, EightThreadsMissOnOneKey) {
  Device& device = test_device();
  constexpr unsigned kThreads = 8;
  for (int round = 0; round < 5; ++round) {
    const KernelOptions good = constant_kernel(std::to_string(9000 + round) + "u", "shared");
    const KernelOptions bad = constant_kernel("missing_" + std::to_string(round), "shared failure");
    const Stats before = device.stats();
    std::barrier together(kThreads);
    run_threads(kThreads, [&](unsigned) {
      together.arrive_and_wait();
      EXPECT_EQ(run(device, device.kernel(good)), 9000u + static_cast<unsigned>(round));
    });
    EXPECT_EQ(device.stats().pipeline_misses - before.pipeline_misses, 1u);
    EXPECT_EQ(device.stats().pipeline_hits - before.pipeline_hits, kThreads - 1);
    std::atomic<unsigned> failures{0};
    run_threads(kThreads, [&](unsigned) {
      together.arrive_and_wait();
      try {
        device.kernel(bad);
      } catch (const Error& e) {
        failures += e.code() == ErrorCode::compile_error;
      }
    });
    EXPECT_EQ(failures, kThreads);
    EXPECT_EQ(device.stats().pipeline_entries, before.pipeline_entries + 1);
  }
}

// Dropping the handles drops nothing; what the device's end overtakes says so; kernels outlive the device.
TEST(Prepare, TheDeviceMayGoFirst) {
  std::vector<PendingKernel> pending;
  std::size_t made = 0;
  {
    Device device = Device::open();
    std::vector<KernelOptions> options;
    for (int i = 0; i < 40; ++i) options.push_back(constant_kernel(std::to_string(700 + i) + "u", "overtaken"));
    device.prepare(std::span(options).first(2));  // handles dropped at once
    pending = device.prepare(std::span(options).subspan(2));
    pending.front().get();
  }
  for (const PendingKernel& p : pending) {
    ASSERT_TRUE(p.ready());
    try {
      EXPECT_EQ(p.get().label(), "overtaken");
      ++made;
    } catch (const Error& e) {
      expect_error(e, ErrorCode::invalid_argument, {"prepare", "closed"});
    }
  }
  EXPECT_GE(made, 1u);
}

// A device that is lost fails what is prepared on it, by name.
TEST(Prepare, OnALostDevice) {
  Device device = Device::open();
  device.destroy();
  const KernelOptions options = constant_kernel("1u", "late");
  expect_error(error_of([&] { device.prepare(std::span(&options, 1))[0].get(); }), ErrorCode::device_lost);
}

}  // namespace
}  // namespace weft::testing
