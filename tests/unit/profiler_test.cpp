// The profiler: what it records, that it records all of it, and that it changes nothing (issue 5, point 8).
#include "weft/profiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "core_helpers.h"
#include "test_device.h"
#include "webgpu/timestamps.h"
#include "weft/graph.h"
#include "weft/ops.h"

namespace weft {
namespace {

using testing::add_kernel;
using testing::AddParams;
using testing::error_of;
using testing::expect_error;
using testing::neg_kernel;
using testing::read_vector;
using testing::run_threads;
using testing::test_device;
using testing::upload_vector;

std::vector<TraceEvent> dispatches_of(const Trace& trace) {
  std::vector<TraceEvent> out;
  std::copy_if(trace.events().begin(), trace.events().end(), std::back_inserter(out),
               [](const TraceEvent& e) { return e.on_device; });
  return out;
}

std::vector<TraceEvent> host_of(const Trace& trace, std::string_view category, std::string_view name = {}) {
  std::vector<TraceEvent> out;
  std::copy_if(trace.events().begin(), trace.events().end(), std::back_inserter(out), [&](const TraceEvent& e) {
    return !e.on_device && e.category == category && (name.empty() || e.name == name);
  });
  return out;
}

void add(Device& device, const Kernel& kernel, const Buffer& y, std::uint32_t alpha, const Stream& stream) {
  const auto n = static_cast<std::uint32_t>(y.size() / 4);
  kernel(stream, {{"y", y}}, AddParams{alpha, n}, grid_for(n));
  static_cast<void>(device);
}
void add(Device& device, const Kernel& kernel, const Buffer& y, std::uint32_t alpha) {
  add(device, kernel, y, alpha, device.stream());
}

/// Nothing is profiled: another profile is accepted, and sees its own work only.
void expect_profiling_off(Device& device) {
  const Kernel kernel = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(64));
  const Trace trace = device.profile([&] { add(device, kernel, y, 1); });
  EXPECT_EQ(dispatches_of(trace).size(), 1u);
}

/// Those of one thread nest or stand apart, as trace viewers require of a track.
void expect_nesting(std::vector<std::pair<double, double>> spans) {
  std::sort(spans.begin(), spans.end(),
            [](auto a, auto b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
  std::vector<double> open;
  for (const auto& [begin, end] : spans) {
    while (!open.empty() && open.back() <= begin) open.pop_back();
    EXPECT_TRUE(open.empty() || end <= open.back()) << begin << " to " << end;
    open.push_back(end);
  }
}

// A counter that wraps or is reset in the middle throws nothing hours away (gpuweb/gpuweb#4135,
// DiligentGraphics/DiligentCore#791).
TEST(Timestamps, GoOnAfterAReset) {
  using Times = std::vector<std::pair<double, double>>;
  const auto straight = [](Times times) {
    webgpu::go_on_after_resets(times);
    return times;
  };
  EXPECT_EQ(straight({}), Times{});
  const Times steady{{5e12, 5e12 + 100}, {5e12 + 50, 5e12 + 80}, {5e12 + 20, 5e12 + 400}};  // passes may overlap
  EXPECT_EQ(straight(steady), steady);
  EXPECT_EQ(straight({{5e12, 5e12 + 100}, {7, 9}, {12, 20}}),
            (Times{{5e12, 5e12 + 100}, {5e12 + 100, 5e12 + 102}, {5e12 + 105, 5e12 + 113}}));
  EXPECT_EQ(straight({{5e12, 3}, {7, 9}}), (Times{{5e12, 5e12}, {5e12, 5e12 + 2}}));  // in the middle of a pass
}

TEST(Profiler, RecordsEachDispatchInOrder) {
  Device& device = test_device();
  ASSERT_TRUE(device.features().timestamps);
  const Kernel neg = neg_kernel(device);
  const Kernel plus = add_kernel(device);
  const Buffer x = upload_vector(device, std::vector<float>(1000, 2.5f));
  const Buffer z = device.alloc(4000);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(300));

  const Trace trace = device.profile([&] {
    neg(device.stream(), {{"x", x}, {"y", z}}, grid_for(1000));
    add(device, plus, y, 7);
    add(device, plus, y, 8);
    neg(device.stream(), {{"x", x}, {"y", z}}, grid_for(1000));
  });

  EXPECT_TRUE(trace.has_device_times());
  EXPECT_EQ(trace.device(), device.adapter().name);
  const auto events = dispatches_of(trace);
  ASSERT_EQ(events.size(), 4u);
  const std::vector<std::string> names{"neg", "add", "add", "neg"};
  for (std::size_t i = 0; i < events.size(); ++i) {
    const TraceEvent& e = events[i];
    EXPECT_EQ(e.name, names[i]);
    EXPECT_EQ(e.category, "dispatch");
    EXPECT_EQ(e.thread, 0u);
    EXPECT_EQ(e.bytes, e.name == "neg" ? 8000u : 1200u);
    EXPECT_EQ(e.grid, (e.name == "neg" ? Grid{16, 1, 1} : Grid{5, 1, 1}));
    EXPECT_GT(e.duration_us, 0) << i;
    EXPECT_GE(e.start_us, 0) << i;
    EXPECT_LE(e.start_us + e.duration_us, trace.duration_us()) << i;
    EXPECT_TRUE(i == 0 || e.start_us >= events[i - 1].start_us) << i;
  }
  // They went in one submit, and none starts before it did.
  const auto submits = host_of(trace, "submit");
  ASSERT_EQ(submits.size(), 1u);
  EXPECT_NEAR(events[0].start_us, submits[0].start_us, 1);  // the device's clock ticks in its own steps
  ASSERT_EQ(host_of(trace, "wait", "synchronize").size(), 1u);
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 300), std::vector<std::uint32_t>(300, 15));
  EXPECT_EQ(read_vector<float>(device, z, 1000), std::vector<float>(1000, -2.5f));
}

TEST(Profiler, RecordsWhatTheHostDoes) {
  Device& device = test_device();
  static std::atomic<int> round{0};
  const std::string label = "compiled_in_a_profile_" + std::to_string(++round);
  std::optional<Trace> trace;
  trace = device.profile([&] {
    const Buffer a = upload_vector(device, std::vector<float>(256, 1.0f));
    const std::vector<float> threes(2, 3.0f);
    device.write(a, 8, std::as_bytes(std::span(threes)));
    const Buffer b =
        device.upload_with(64, [](std::span<std::byte> to) { std::fill(to.begin(), to.end(), std::byte{1}); });
    const Kernel kernel = device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                                                   "@compute @workgroup_size(1) fn main() { y[0] += K; }",
                                         .label = label,
                                         .constants = {{"K", "u32", std::to_string(round) + "u"}}});
    kernel(device.stream(), {{"y", b}}, Grid{});
    EXPECT_EQ(read_vector<float>(device, a, 4), (std::vector<float>{1, 1, 3, 3}));
    std::vector<std::byte> first(4), second(8);
    const std::vector<ReadRange> ranges{{a, 0, first}, {b, 4, second}};
    device.read_ranges(ranges);
    Readback late = device.read_async(a, 0, 16);
    EXPECT_EQ(late.view().size(), 16u);
  });
  const auto writes = host_of(*trace, "upload", "write");
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(writes[0].bytes, 1024u);
  EXPECT_EQ(writes[1].bytes, 8u);
  ASSERT_EQ(host_of(*trace, "upload", "upload").size(), 1u);
  EXPECT_EQ(host_of(*trace, "upload", "upload")[0].bytes, 64u);
  ASSERT_EQ(host_of(*trace, "compile").size(), 1u);
  EXPECT_EQ(host_of(*trace, "compile")[0].name, label);
  ASSERT_EQ(host_of(*trace, "read", "read").size(), 1u);
  EXPECT_EQ(host_of(*trace, "read", "read")[0].bytes, 16u);
  ASSERT_EQ(host_of(*trace, "read", "read_ranges").size(), 1u);
  EXPECT_EQ(host_of(*trace, "read", "read_ranges")[0].bytes, 12u);
  ASSERT_EQ(host_of(*trace, "read", "read_async").size(), 1u);
  EXPECT_GE(host_of(*trace, "wait", "read").size(), 1u);
  EXPECT_EQ(host_of(*trace, "submit").size(), 3u);
  for (const TraceEvent& e : trace->events()) {
    if (e.on_device) continue;
    EXPECT_EQ(e.thread, 1u);
    EXPECT_EQ(e.grid, (Grid{0, 0, 0}));
    EXPECT_GE(e.start_us, 0) << e.name;
    EXPECT_GE(e.duration_us, 0) << e.name;
    // The last wait may end a little after the moment taken as the profile's end.
    EXPECT_LE(e.start_us + e.duration_us, trace->duration_us() + 1) << e.name;
  }
}

TEST(Profiler, TenTimesTheWorkTakesLonger) {
  struct Turns {
    std::uint32_t turns;
  };
  Device& device = test_device();
  // One thread that turns ten times as often: more groups would only run side by side on a GPU.
  const Kernel turn = device.kernel({.source = R"(
    struct Params { turns: u32 }
    @group(0) @binding(0) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(1) fn main() {
      var x = y[0];
      for (var i = 0u; i < params.turns; i++) { x = x * 1664525u + 1013904223u; }
      y[0] = x;
    })",
                                     .label = "turn"});
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(1, 1));
  const Trace trace = device.profile([&] {
    for (int i = 0; i < 40; ++i) {
      turn(device.stream(), {{"y", y}}, Turns{6000}, Grid{});
      turn(device.stream(), {{"y", y}}, Turns{60000}, Grid{});
    }
  });
  // The shortest of each: other work on this machine can only add.
  double small = INFINITY, large = INFINITY;
  const auto events = dispatches_of(trace);
  for (std::size_t i = 0; i < events.size(); ++i) {
    double& least = i % 2 == 0 ? small : large;
    least = std::min(least, events[i].duration_us);
  }
  ASSERT_LT(large, INFINITY);
  EXPECT_GT(small, 0);
  EXPECT_GT(large, 2 * small);
}

TEST(Profiler, GoesPastOneQuerySet) {
  Device& device = test_device();
  const Kernel plus = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(16));
  constexpr std::uint32_t kDispatches = 5000;  // 10,000 queries; a set has 4,096
  const Stats before = device.stats();
  const Trace trace = device.profile([&] {
    for (std::uint32_t i = 0; i < kDispatches; ++i) add(device, plus, y, i);
  });
  const Stats after = device.stats();
  EXPECT_EQ(after.passes - before.passes, kDispatches);
  const auto events = dispatches_of(trace);
  ASSERT_EQ(events.size(), kDispatches);
  EXPECT_GE(events.front().start_us, 0);
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_GT(events[i].duration_us, 0);
    EXPECT_TRUE(i == 0 || events[i].start_us >= events[i - 1].start_us) << i;
  }
  EXPECT_LE(events.back().start_us + events.back().duration_us, trace.duration_us());
  EXPECT_EQ(host_of(trace, "submit").size(), after.submits - before.submits);
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], kDispatches * (kDispatches - 1) / 2);
}

TEST(Profiler, CoversGraphs) {
  Device& device = test_device();
  const Kernel plus = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(100));
  const Graph graph = device.capture([&](const Stream& stream) {
    for (std::uint32_t i = 1; i <= 3; ++i) add(device, plus, y, i, stream);
  });
  const Trace trace = device.profile([&] {
    graph.run();
    graph.run();
  });
  const auto events = dispatches_of(trace);
  ASSERT_EQ(events.size(), 6u);
  for (const TraceEvent& e : events) {
    EXPECT_EQ(e.name, "add");
    EXPECT_EQ(e.bytes, 400u);
    EXPECT_EQ(e.grid, (Grid{2, 1, 1}));
  }
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], 12u);
}

TEST(Profiler, CoversStreamsThatComeAndGo) {
  Device& device = test_device();
  const Kernel plus = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(8));
  const Stream old = device.make_stream();
  const Trace trace = device.profile([&] {
    add(device, plus, y, 1, old);
    for (std::uint32_t i = 0; i < 10; ++i) {
      const Stream fresh = device.make_stream();
      add(device, plus, y, 1, fresh);
    }
    add(device, plus, y, 1);
  });
  EXPECT_EQ(dispatches_of(trace).size(), 12u);
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], 12u);
}

TEST(Profiler, WorkBeforeAndAfterIsNotInIt) {
  Device& device = test_device();
  const Kernel plus = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(8));
  add(device, plus, y, 1);
  ASSERT_EQ(device.stream().pending(), 1u);
  Profiler profiler(device);
  EXPECT_EQ(device.stream().pending(), 0u);
  add(device, plus, y, 10);
  const Trace trace = profiler.finish();
  const Stats before = device.stats();
  add(device, plus, y, 100);
  add(device, plus, y, 100);
  device.synchronize();
  EXPECT_EQ(device.stats().passes - before.passes, 1u);  // they share a pass again
  EXPECT_EQ(dispatches_of(trace).size(), 1u);
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], 211u);
}

TEST(Profiler, ChangesNoResult) {
  Device& device = test_device();
  std::vector<float> values(64 * 48);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 3;
  const Tensor x = device.upload(std::span<const float>(values), {64, 48});
  const auto work = [&] {
    const Tensor a = softmax(matmul(x, transpose(x)), {.axis = -1});
    return sum(a * a, ReduceOptions{{{0}}, false}).to_host<float>();
  };
  const std::vector<float> plain = work();
  std::vector<float> profiled;
  const Trace trace = device.profile([&] { profiled = work(); });
  EXPECT_EQ(profiled, plain);
  EXPECT_GE(dispatches_of(trace).size(), 3u);
}

TEST(Profiler, ExceptionsLeaveTheDeviceUsable) {
  Device& device = test_device();
  const Kernel plus = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(8));
  EXPECT_THROW(device.profile([&] {
    add(device, plus, y, 1);  // recorded, not submitted
    throw std::runtime_error("from the work");
  }),
               std::runtime_error);
  expect_profiling_off(device);
  EXPECT_THROW(device.profile([&] {
    add(device, plus, y, 2);
    device.read(y, 64, std::span<std::byte>());  // past the end
  }),
               Error);
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], 3u);
  expect_profiling_off(device);
}

TEST(Profiler, IsThrownAwayWithoutFinish) {
  Device& device = test_device();
  const Kernel plus = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(8));
  {
    Profiler profiler(device);
    add(device, plus, y, 1);
    Profiler moved = std::move(profiler);
    add(device, plus, y, 1);
    // NOLINTNEXTLINE(bugprone-use-after-move): that it is refused is what is tested.
    expect_error(error_of([&] { profiler.finish(); }), ErrorCode::invalid_argument, {"profile", "finished"});
  }
  expect_profiling_off(device);
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], 2u);
}

TEST(Profiler, RefusesASecondOne) {
  Device& device = test_device();
  Profiler profiler(device);
  expect_error(error_of([&] { device.profile([] {}); }), ErrorCode::invalid_argument, {"profiled already"});
  run_threads(2, [&](unsigned) {
    expect_error(error_of([&] { Profiler second(device); }), ErrorCode::invalid_argument, {"profiled already"});
  });
  const Kernel plus = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(8));
  add(device, plus, y, 1);
  EXPECT_EQ(dispatches_of(profiler.finish()).size(), 1u);  // the first one goes on
  expect_error(error_of([&] { profiler.finish(); }), ErrorCode::invalid_argument, {"finished already"});
  expect_profiling_off(device);
}

TEST(Profiler, RecordsAllThreads) {
  Device& device = test_device();
  const Kernel plus = add_kernel(device);
  constexpr unsigned kThreads = 6, kRounds = 40;
  std::vector<Buffer> own;
  for (unsigned t = 0; t < kThreads; ++t) own.push_back(upload_vector(device, std::vector<std::uint32_t>(8)));
  const Buffer shared = upload_vector(device, std::vector<std::uint32_t>(8));
  const Trace trace = device.profile([&] {
    run_threads(kThreads, [&](unsigned t) {
      const Stream stream = device.make_stream();
      for (unsigned i = 0; i < kRounds; ++i) {
        add(device, plus, own[t], i, stream);
        add(device, plus, shared, 1, stream);
        if (i % 10 != t) continue;
        EXPECT_EQ(read_vector<std::uint32_t>(device, own[t], 1)[0], i * (i + 1) / 2);
      }
    });
  });
  EXPECT_EQ(dispatches_of(trace).size(), std::size_t{2} * kThreads * kRounds);
  EXPECT_EQ(read_vector<std::uint32_t>(device, shared, 1)[0], kThreads * kRounds);
  std::map<std::uint32_t, std::vector<std::pair<double, double>>> by_thread;
  for (const TraceEvent& e : trace.events()) {
    if (!e.on_device) by_thread[e.thread].emplace_back(e.start_us, e.start_us + e.duration_us);
  }
  EXPECT_GE(by_thread.size(), kThreads);
  EXPECT_EQ(by_thread.begin()->first, 1u);
  EXPECT_EQ(by_thread.rbegin()->first, by_thread.size());
  for (const auto& [thread, spans] : by_thread) expect_nesting(spans);
}

TEST(Profiler, MayBeginAndEndWhileOthersWork) {
  Device& device = test_device();
  const Kernel plus = add_kernel(device);
  constexpr unsigned kThreads = 4, kRounds = 150;
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(8));
  std::atomic<unsigned> working{kThreads};
  run_threads(kThreads + 1, [&](unsigned t) {
    if (t < kThreads) {
      for (unsigned i = 0; i < kRounds; ++i) {
        const Stream stream = device.make_stream();
        add(device, plus, y, 1, stream);
        if (i % 16 == 0) read_vector<std::uint32_t>(device, y, 1);
      }
      --working;
      return;
    }
    std::size_t seen = 0;
    do {
      const Trace trace = device.profile([] {});
      for (const TraceEvent& e : dispatches_of(trace)) EXPECT_EQ(e.name, "add");
      seen += dispatches_of(trace).size();
    } while (working > 0);
    EXPECT_LE(seen, kThreads * kRounds);
  });
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], kThreads * kRounds);
  expect_profiling_off(device);
}

// D45: timing and reads without waiting need no timestamps.
TEST(Profiler, WithoutTimestampsTheHostIsRecorded) {
  DeviceOptions options;
  options.allow_timestamps = false;
  Device device = Device::open(options);
  ASSERT_FALSE(device.features().timestamps);
  const Kernel plus = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(8));
  const Stats before = device.stats();
  const Trace trace = device.profile([&] {
    add(device, plus, y, 1);
    add(device, plus, y, 1);
  });
  EXPECT_EQ(device.stats().passes - before.passes, 1u);
  EXPECT_EQ(device.read_async(y, 0, 4).view().size(), 4u);
  EXPECT_FALSE(trace.has_device_times());
  EXPECT_TRUE(dispatches_of(trace).empty());
  EXPECT_EQ(host_of(trace, "submit").size(), 1u);
  EXPECT_NE(trace.table().find("no timestamps on this device"), std::string::npos) << trace.table();
  EXPECT_NE(trace.table().find("submit"), std::string::npos) << trace.table();
  EXPECT_FALSE(nlohmann::json::parse(trace.to_json())["otherData"]["device_times"].get<bool>());
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], 2u);
}

TEST(Profiler, ALostDeviceEndsIt) {
  Device device = Device::open();
  Profiler profiler(device);
  device.destroy();
  expect_error(error_of([&] { profiler.finish(); }), ErrorCode::device_lost);
  expect_error(error_of([&] { device.profile(nullptr); }), ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([&] { Profiler again(device); }), ErrorCode::device_lost);
}

// -- what is written ----------------------------------------------------------------------------------------------

TraceEvent device_event(std::string name, double start, double duration, std::uint64_t bytes = 0) {
  TraceEvent e;
  e.name = std::move(name);
  e.category = "dispatch";
  e.on_device = true;
  e.start_us = start;
  e.duration_us = duration;
  e.grid = {4, 2, 1};
  e.bytes = bytes;
  return e;
}

TraceEvent host_event(std::string name, std::string category, std::uint32_t thread, double start, double duration) {
  TraceEvent e;
  e.name = std::move(name);
  e.category = std::move(category);
  e.thread = thread;
  e.start_us = start;
  e.duration_us = duration;
  return e;
}

TEST(Trace, TableSumsByKernel) {
  const Trace trace("a device", true, 1000,
                    {device_event("small", 0, 10, 5000), device_event("large", 10, 120, 3'000'000),
                     device_event("small", 130, 30, 5000), device_event("no\x1b[31mbytes", 160, 40),
                     host_event("submit", "submit", 1, 0, 5), host_event("x.wgsl", "compile", 1, 6, 7)});
  EXPECT_EQ(trace.table(),
            "a device: 4 dispatches, 200.0 us of 1000.0 us\n"
            "kernel              count      total us     mean us    share      GB/s\n"
            "large                   1         120.0       120.0   60.0 %     25.00\n"
            "no?[31mbytes            1          40.0        40.0   20.0 %         -\n"
            "small                   2          40.0        20.0   20.0 %      0.25\n"
            "host                count      total us     mean us               GB/s\n"
            "compile: x.wgsl         1           7.0         7.0                  -\n"
            "submit                  1           5.0         5.0                  -\n");
  EXPECT_EQ(Trace("a device", true, 12.5, {}).table(), "a device: 0 dispatches, 0.0 us of 12.5 us\n");
}

TEST(Trace, JsonHasTheTracks) {
  const Trace trace("a \"device\"", true, 1000,
                    {device_event("k\xff", 1.0004, 10, 64), device_event("beside", 5, 20), device_event("k", 30, 1),
                     host_event("read", "read", 2, 0, 50), host_event("submit", "submit", 2, 0, 3)});
  const nlohmann::json json = nlohmann::json::parse(trace.to_json());
  EXPECT_EQ(json["displayTimeUnit"], "ns");
  EXPECT_EQ(json["otherData"]["device"], "a \"device\"");
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  std::vector<nlohmann::json> spans;
  for (const auto& e : json["traceEvents"]) {
    if (e["ph"] == "M") {
      if (e["name"] == "process_name") processes[e["pid"]] = e["args"]["name"];
      if (e["name"] == "thread_name") threads[{e["pid"], e["tid"]}] = e["args"]["name"];
      continue;
    }
    EXPECT_EQ(e["ph"], "X");
    spans.push_back(e);
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{1, "host"}, {2, "device: a \"device\""}}));
  EXPECT_EQ(threads[std::pair(1, 2)], "thread 2");
  EXPECT_EQ(threads[std::pair(2, 1)], "dispatches");
  EXPECT_TRUE(threads.contains({2, 2}));
  ASSERT_EQ(spans.size(), 5u);
  EXPECT_EQ(spans[0]["name"], "read");  // before what it has inside
  EXPECT_EQ(spans[1]["name"], "submit");
  EXPECT_EQ(spans[2]["name"], "k\xef\xbf\xbd");
  EXPECT_EQ(spans[2]["cat"], "dispatch");
  EXPECT_EQ(spans[2]["ts"], 1.0);
  EXPECT_EQ(spans[2]["dur"], 10.0);
  EXPECT_EQ(spans[2]["pid"], 2);
  EXPECT_EQ(spans[2]["tid"], 1);
  EXPECT_EQ(spans[2]["args"]["grid"], (nlohmann::json{4, 2, 1}));
  EXPECT_EQ(spans[2]["args"]["bytes"], 64);
  EXPECT_EQ(spans[3]["tid"], 2);  // overlaps the one before in part
  EXPECT_FALSE(spans[3]["args"].contains("bytes"));
  EXPECT_EQ(spans[4]["tid"], 1);
}

TEST(Trace, JsonOfRealWorkNests) {
  Device& device = test_device();
  const Kernel plus = add_kernel(device);
  const Buffer y = upload_vector(device, std::vector<std::uint32_t>(64));
  const Trace trace = device.profile([&] {
    for (std::uint32_t i = 0; i < 40; ++i) {
      add(device, plus, y, 1);
      if (i % 8 == 0) read_vector<std::uint32_t>(device, y, 4);
    }
  });
  const nlohmann::json json = nlohmann::json::parse(trace.to_json());
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  std::set<std::pair<int, int>> named;
  std::size_t dispatches = 0;
  for (const auto& e : json["traceEvents"]) {
    if (e["ph"] == "X") {
      // Whole nanoseconds again: what nests there nests in the viewer.
      const double begin = std::round(e["ts"].get<double>() * 1e3);
      tracks[{e["pid"], e["tid"]}].emplace_back(begin, begin + std::round(e["dur"].get<double>() * 1e3));
      dispatches += e["cat"] == "dispatch";
    } else if (e["name"] == "thread_name") {
      named.emplace(e["pid"], e["tid"]);
    }
  }
  EXPECT_EQ(dispatches, 40u);
  for (const auto& [track, spans] : tracks) {
    EXPECT_TRUE(named.contains(track));
    expect_nesting(spans);
  }
}

TEST(Trace, SavesWholeOrNotAtAll) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "weft_trace_test";
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = folder / "trace.json";
  const Trace trace("d", true, 10, {device_event("k", 0, 1)});
  trace.save(file);
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, trace.to_json());
  expect_error(error_of([&] { trace.save(folder / "missing" / "trace.json"); }), ErrorCode::io_error, {"missing"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
