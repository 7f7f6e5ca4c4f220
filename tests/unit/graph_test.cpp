// Graphs: captured once, replayed with other buffers and other parameters, in order with everything else.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "unit/core_helpers.h"
#include "unit/test_device.h"
#include "weft/fft.h"
#include "weft/graph.h"
#include "weft/ops.h"

namespace weft::testing {
namespace {

/// Parameters as immediates where the device takes them, and as uniforms.
Device& uniform_device() {
  static Device device = [] {
    DeviceOptions o;
    o.allow_immediates = false;
    return Device::open(o);
  }();
  return device;
}

using Floats = std::vector<float>;
using Words = std::vector<std::uint32_t>;

/// y = alpha x over four floats.
void scale(const Kernel& kernel, const Stream& stream, const Buffer& x, const Buffer& y, float alpha) {
  kernel(stream, {{"x", x}, {"y", y}}, ScaleParams{alpha, 4}, Grid{});
}

template <class P>
void set_params(const Graph& graph, std::size_t index, const P& params) {
  graph.set_params(index, std::as_bytes(std::span(&params, 1)));
}

class GraphParams : public ::testing::TestWithParam<bool> {
 protected:
  Device& device() { return GetParam() ? uniform_device() : test_device(); }
};

TEST_P(GraphParams, ReplaysManyTimes) {
  const Kernel add = add_kernel(device());
  const Buffer y = device().zeros_bytes(64);
  const Graph graph = device().capture([&](const Stream& s) {
    add(s, {{"y", y}}, AddParams{1, 16}, Grid{});
    add(s, {{"y", y}}, AddParams{10, 8}, Grid{});
  });
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 16), Words(16, 0)) << "nothing runs in the capture";
  for (int i = 0; i < 300; ++i) graph.run();
  Words expected(16, 300);
  for (std::size_t i = 0; i < 8; ++i) expected[i] += 3000;
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 16), expected);
}

// Rule 1: a run that is recorded keeps the parameters it was recorded with.
TEST_P(GraphParams, NewParametersFromTheNextRunOn) {
  const Kernel add = add_kernel(device());
  const Buffer y = device().zeros_bytes(64);
  const Graph graph = device().capture([&](const Stream& s) {
    add(s, {{"y", y}}, AddParams{1, 16}, Grid{});
    s.clear(y, 60, 4);
    add(s, {{"y", y}}, AddParams{100, 16}, Grid{});
  });
  graph.run();
  set_params(graph, 0, AddParams{2, 16});
  graph.run();
  set_params(graph, 2, AddParams{200, 8});
  set_params(graph, 2, AddParams{200, 8});
  graph.run();
  Words expected(16, 1 + 100 + 2 + 100 + 2);
  for (std::size_t i = 0; i < 8; ++i) expected[i] += 200;
  expected[15] = 0;
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 16), expected);
}

TEST_P(GraphParams, BadParametersChangeNothing) {
  const Kernel add = add_kernel(device());
  const Buffer y = device().zeros_bytes(64);
  const Graph graph = device().capture([&](const Stream& s) {
    add(s, {{"y", y}}, AddParams{1, 16}, Grid{});
    s.clear(y, 0, 4);
  });
  expect_error(error_of([&] { set_params(graph, 0, std::uint32_t{7}); }), ErrorCode::invalid_argument,
               {"4 bytes", "'add'", "8"});
  expect_error(error_of([&] { graph.set_params(0, {}); }), ErrorCode::invalid_argument, {"'add'"});
  expect_error(error_of([&] { graph.set_params(1, {}); }), ErrorCode::invalid_argument, {"'clear'"});
  expect_error(error_of([&] { set_params(graph, 2, AddParams{1, 16}); }), ErrorCode::out_of_range, {"node 2", "2"});
  graph.run();
  Words expected(16, 1);
  expected[0] = 0;
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 16), expected);
}

TEST_P(GraphParams, AThousandDispatches) {
  const Kernel add = add_kernel(device());
  const Buffer y = device().zeros_bytes(64);
  const Graph graph = device().capture([&](const Stream& s) {
    for (std::uint32_t i = 1; i <= 1000; ++i) add(s, {{"y", y}}, AddParams{i, 16}, Grid{});
  });
  EXPECT_EQ(graph.nodes().size(), 1000u);
  const Stats before = device().stats();
  graph.run();
  graph.run();
  EXPECT_EQ(device().stats().dispatches - before.dispatches, 2000u);
  EXPECT_EQ(device().stats().bind_group_misses, before.bind_group_misses);
  EXPECT_EQ(device().stats().bind_group_hits, before.bind_group_hits) << "a run looks nothing up";
  EXPECT_EQ(device().stats().pool_allocations, before.pool_allocations);
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 16), Words(16, 2 * 500500));
}

INSTANTIATE_TEST_SUITE_P(Via, GraphParams, ::testing::Values(false, true),
                         [](const auto& p) { return p.param ? "Uniforms" : "Immediates"; });

TEST(Graph, OpsRecordIntoTheCapture) {
  Device& device = test_device();
  const Tensor x = device.upload(std::span<const float>(Floats{1, -2, 3, -4}), {4});
  Tensor y;
  const Graph graph = device.capture([&](const Stream&) { y = sum(relu(x * 2.0f) + 1.0f, {}); });
  EXPECT_FALSE(graph.nodes().empty());
  EXPECT_EQ(device.stream().pending(), 0u);
  graph.run();
  EXPECT_EQ(y.to_host<float>(), Floats{12});
  device.write(x.buffer(), 0, bytes_of(Floats{5, 6, -7, 8}));
  graph.run();
  EXPECT_EQ(y.to_host<float>(), Floats{42});
}

// D44: a node takes several inputs, outputs feed later nodes on the device, and nothing is read back but what the
// caller asks for; again and again.
TEST(Graph, D44_OutputsFeedNodesAndNothingIsReadBack) {
  Device& device = test_device();
  const Kernel matmul = matmul_kernel(device), k = scale_kernel(device);
  const Buffer a = upload_vector<float>(device, {1, 2, 3, 4}), b = upload_vector<float>(device, {0, 1, 1, 0});
  const Buffer c = device.alloc(16);
  const Graph graph = device.capture([&](const Stream& s) {
    const Buffer product = device.alloc(16), twice = device.alloc(16);
    matmul(s, {{"a", a}, {"b", b}, {"c", product}}, MatmulParams{2, 2, 2, 1}, Grid{});
    scale(k, s, product, twice, 2);
    matmul(s, {{"a", twice}, {"b", product}, {"c", c}}, MatmulParams{2, 2, 2, 1}, Grid{});
  });
  device.synchronize();
  const Stats before = device.stats();
  for (int i = 0; i < 20; ++i) graph.run();
  device.synchronize();
  const Stats after = device.stats();
  EXPECT_EQ(after.dispatches - before.dispatches, 60u);
  EXPECT_EQ(after.submits - before.submits, 1u);
  EXPECT_EQ(after.reads, before.reads);
  EXPECT_EQ(after.uploads, before.uploads);
  // 2 p p for p = [[2, 1], [4, 3]]
  EXPECT_EQ(read_vector<float>(device, c, 4), (Floats{16, 10, 40, 26}));
  EXPECT_EQ(device.stats().reads - before.reads, 1u);
}

TEST(Graph, NodesTellWhatWasCaptured) {
  Device& device = test_device();
  const Kernel k = scale_kernel(device);
  const Buffer x = device.zeros_bytes(16), y = device.zeros_bytes(16);
  const Graph graph = device.capture([&](const Stream& s) {
    k(s, {{"x", x}, {"y", y}}, ScaleParams{1, 4}, Grid{3, 2, 1});
    s.copy(y, 0, x, 0, 16);
    s.clear(y, 0, 16);
    k(s, {{"x", x}, {"y", y}}, ScaleParams{1, 4}, Grid{0, 1, 1});  // nothing to run, nothing to keep
  });
  const auto nodes = graph.nodes();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].label, "scale");
  EXPECT_EQ(nodes[0].grid, (Grid{3, 2, 1}));
  EXPECT_EQ(nodes[0].params_size, sizeof(ScaleParams));
  EXPECT_EQ(nodes[1].label, "copy");
  EXPECT_EQ(nodes[1].grid, (Grid{0, 0, 0}));
  EXPECT_EQ(nodes[2].label, "clear");
}

TEST(Graph, CopiesAndClearsInOrder) {
  Device& device = test_device();
  const Kernel k = scale_kernel(device);
  const Buffer x = upload_vector<float>(device, {1, 2, 3, 4}), y = device.alloc(16), z = device.alloc(32);
  const Graph graph = device.capture([&](const Stream& s) {
    scale(k, s, x, y, 2);
    s.copy(y, 0, z, 16, 16);
    s.clear(z, 0, 16);
    s.copy(z, 16, z, 4, 8);  // within one buffer
    scale(k, s, y, x, 1);
  });
  graph.run();
  EXPECT_EQ(read_vector<float>(device, z, 8), (Floats{0, 2, 4, 0, 2, 4, 6, 8}));
  graph.run();
  EXPECT_EQ(read_vector<float>(device, z, 8), (Floats{0, 4, 8, 0, 4, 8, 12, 16}));
  EXPECT_EQ(read_vector<float>(device, x, 4), (Floats{4, 8, 12, 16}));
}

TEST(Graph, EmptyCaptureAndEmptyHandle) {
  Device& device = test_device();
  const Graph nothing = device.capture([](const Stream&) {});
  EXPECT_TRUE(nothing);
  EXPECT_TRUE(nothing.nodes().empty());
  nothing.run();
  EXPECT_EQ(device.stream().pending(), 0u);
  const Graph empty;
  EXPECT_FALSE(empty);
  expect_error(error_of([&] { empty.run(); }), ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([&] { empty.nodes(); }), ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([&] { empty.set_params(0, {}); }), ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([&] { device.capture(nullptr); }), ErrorCode::invalid_argument, {"capture"});
  expect_error(error_of([&] { nothing.run(Stream()); }), ErrorCode::foreign_buffer, {"stream"});
}

/// y = 2 x, through an intermediate made in the capture.
class GraphSwap : public ::testing::Test {
 protected:
  void SetUp() override {
    graph_ = device_.capture([&](const Stream& s) {
      const Buffer between = device_.alloc(16);
      scale(kernel_, s, x_, between, 4);
      scale(kernel_, s, between, y_, 0.5f);
    });
  }

  Device& device_ = test_device();
  Kernel kernel_ = scale_kernel(device_);
  Buffer x_ = upload_vector<float>(device_, {1, 2, 3, 4});
  Buffer y_ = device_.zeros_bytes(16);
  Graph graph_;
};

TEST_F(GraphSwap, InputsOutputsBoth) {
  const Buffer other_x = upload_vector<float>(device_, {10, 20, 30, 40});
  const Buffer other_y = device_.zeros_bytes(16), third_y = device_.zeros_bytes(16);
  EXPECT_TRUE(graph_.uses(x_) && graph_.uses(y_));
  EXPECT_FALSE(graph_.uses(other_x));
  graph_.run({{x_, other_x}});
  EXPECT_EQ(read_vector<float>(device_, y_, 4), (Floats{20, 40, 60, 80}));
  graph_.run({{y_, other_y}});
  EXPECT_EQ(read_vector<float>(device_, other_y, 4), (Floats{2, 4, 6, 8}));
  EXPECT_EQ(read_vector<float>(device_, y_, 4), (Floats{20, 40, 60, 80}));
  graph_.run({{x_, other_y}, {y_, third_y}});
  EXPECT_EQ(read_vector<float>(device_, third_y, 4), (Floats{4, 8, 12, 16}));
  graph_.run();  // a swap is for one run
  EXPECT_EQ(read_vector<float>(device_, y_, 4), (Floats{2, 4, 6, 8}));
  graph_.run({{x_, x_}});
  graph_.run({{x_, y_}, {y_, x_}});  // exchanged
  EXPECT_EQ(read_vector<float>(device_, x_, 4), (Floats{4, 8, 12, 16}));
}

TEST_F(GraphSwap, OneBufferForInputAndOutputOfDifferentDispatches) {
  graph_.run({{y_, x_}});
  EXPECT_EQ(read_vector<float>(device_, x_, 4), (Floats{2, 4, 6, 8}));
}

// Swapped groups come from the device's cache: the second run makes none.
TEST_F(GraphSwap, SwappedGroupsAreCached) {
  const Buffer other = upload_vector<float>(device_, {1, 1, 1, 1});
  graph_.run({{x_, other}});
  const Stats before = device_.stats();
  graph_.run({{x_, other}});
  EXPECT_EQ(device_.stats().bind_group_misses, before.bind_group_misses);
}

TEST_F(GraphSwap, RefusedSwapsRecordNothing) {
  const Buffer larger = device_.zeros_bytes(20), no_storage = device_.alloc(16, Usage::copy_src | Usage::copy_dst);
  const Buffer other = device_.zeros_bytes(16), foreign = uniform_device().zeros_bytes(16);
  const std::size_t pending = device_.stream().pending();
  expect_error(error_of([&] { graph_.run({{x_, larger}}); }), ErrorCode::invalid_argument, {"20 bytes", "of 16"});
  expect_error(error_of([&] { graph_.run({{x_, no_storage}}); }), ErrorCode::invalid_argument, {"usage", "storage"});
  expect_error(error_of([&] { graph_.run({{x_, foreign}}); }), ErrorCode::foreign_buffer, {"graph"});
  expect_error(error_of([&] { graph_.run({{foreign, x_}}); }), ErrorCode::foreign_buffer, {"graph"});
  expect_error(error_of([&] { graph_.run({{other, x_}}); }), ErrorCode::invalid_argument, {"was not captured"});
  expect_error(error_of([&] { graph_.run({{x_, Buffer()}}); }), ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([&] { graph_.run({{Buffer(), x_}}); }), ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([&] { graph_.run({{x_, other}, {x_, y_}}); }), ErrorCode::invalid_argument, {"twice"});
  expect_error(error_of([&] { graph_.run(uniform_device().stream()); }), ErrorCode::foreign_buffer, {"stream"});
  EXPECT_EQ(device_.stream().pending(), pending);
  graph_.run();
  EXPECT_EQ(read_vector<float>(device_, y_, 4), (Floats{2, 4, 6, 8}));
}

// Rule 5, D9: both names, and nothing recorded.
TEST_F(GraphSwap, AliasingBySwapIsRefused) {
  const Graph direct = device_.capture([&](const Stream& s) { scale(kernel_, s, x_, y_, 2); });
  expect_error(error_of([&] { direct.run({{y_, x_}}); }), ErrorCode::invalid_argument, {"'x'", "'y'", "'scale'"});
  expect_error(error_of([&] { direct.run({{x_, y_}}); }), ErrorCode::invalid_argument, {"'x'", "'y'", "'scale'"});
  const Graph copies = device_.capture([&](const Stream& s) { s.copy(x_, 0, y_, 0, 16); });
  expect_error(error_of([&] { copies.run({{y_, x_}}); }), ErrorCode::invalid_argument, {"copy"});
  direct.run();
  EXPECT_EQ(read_vector<float>(device_, y_, 4), (Floats{2, 4, 6, 8}));
  copies.run();
  EXPECT_EQ(read_vector<float>(device_, y_, 4), (Floats{1, 2, 3, 4}));
}

// Two bindings that are only read may get one buffer; two ranges written may share one while they stay apart.
TEST_F(GraphSwap, AliasingThatWebGpuAllows) {
  const Kernel two = device_.kernel({.source = R"(
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(3) var<storage, read_write> d: array<f32>;
@compute @workgroup_size(4) fn main(@builtin(local_invocation_index) i: u32) {
  c[i] = a[i] + b[i];
  d[i] = a[i] * b[i];
})",
                                     .label = "two"});
  const Buffer b = upload_vector<float>(device_, {5, 6, 7, 8}), c = device_.zeros_bytes(512);
  const Buffer d = device_.zeros_bytes(512);
  const Graph graph = device_.capture(
      [&](const Stream& s) { two(s, {{"a", x_}, {"b", b}, {"c", {c, 0, 16}}, {"d", {d, 256, 16}}}, Grid{}); });
  graph.run({{b, x_}, {d, c}});
  EXPECT_EQ(read_vector<float>(device_, c, 4), (Floats{2, 4, 6, 8}));
  EXPECT_EQ(read_vector<float>(device_, c, 4, 64), (Floats{1, 4, 9, 16}));
}

TEST(Graph, AGoneBufferIsAClearError) {
  Device& device = test_device();
  const Kernel k = scale_kernel(device);
  Buffer x = upload_vector<float>(device, {1, 2, 3, 4});
  const Buffer y = device.zeros_bytes(16);
  const Graph graph = device.capture([&](const Stream& s) { scale(k, s, x, y, 3); });
  graph.run();
  x = Buffer();
  expect_error(error_of([&] { graph.run(); }), ErrorCode::invalid_argument, {"gone", "'x'", "'scale'"});
  // Whoever has the memory now is not touched, and all else works.
  const Buffer next = upload_vector<float>(device, {9, 9, 9, 9});
  expect_error(error_of([&] { graph.run(); }), ErrorCode::invalid_argument, {"gone"});
  EXPECT_EQ(read_vector<float>(device, y, 4), (Floats{3, 6, 9, 12}));
  scale(k, device.stream(), next, y, 1);
  EXPECT_EQ(read_vector<float>(device, y, 4), (Floats{9, 9, 9, 9}));
}

// A pool that could hand an intermediate's memory out again would show up here.
TEST(Graph, IntermediatesLiveOn) {
  Device& device = test_device();
  const Tensor x = device.upload(std::span<const float>(Floats(1000, 2.0f)), {1000});
  Tensor y;
  const Graph graph = device.capture([&](const Stream&) {
    y = x;
    for (int i = 0; i < 5; ++i) y = y * 0.5f + 1.0f;
  });
  graph.run();
  const Floats expected = y.to_host<float>();
  for (int round = 0; round < 3; ++round) {
    std::vector<Buffer> others;
    for (int i = 0; i < 20; ++i) others.push_back(upload_vector<float>(device, Floats(1000, 1e9f)));
    graph.run();
    EXPECT_EQ(y.to_host<float>(), expected);
    for (const Buffer& b : others) EXPECT_EQ(read_vector<float>(device, b, 1000), Floats(1000, 1e9f));
  }
}

// What an op keeps for its next call (an FFT's table of roots) belongs to nobody who could hold it: the graph does
// (flashinfer-ai/flashinfer#4399, pytorch/pytorch#193402).
TEST(Graph, TablesOfTheLibraryLiveOn) {
  Device device = Device::open();
  const std::vector<float> values(64, 1);
  const Tensor x = device.upload<float>(values, {64});
  rfft(x);  // the table is there before the capture
  Tensor y;
  const Graph graph = device.capture([&](const Stream&) { y = rfft(x); });
  device.trim();  // lets the tables go
  graph.run();
  const auto first = device.read_as<float>(y.buffer(), 0, 4);
  EXPECT_EQ(first, (std::vector<float>{64, 0, 0, 0}));
}

TEST(Graph, MemoryComesBackWithTheGraph) {
  Device& device = test_device();
  const Kernel k = scale_kernel(device);
  const Buffer x = device.zeros_bytes(16);
  const std::uint64_t before = device.memory().live_bytes;
  {
    const Graph graph = device.capture([&](const Stream& s) { scale(k, s, x, device.alloc(16), 1); });
    EXPECT_GT(device.memory().live_bytes, before);
    graph.run();
  }
  EXPECT_EQ(device.memory().live_bytes, before);
}

TEST(Graph, AnExceptionInTheCaptureLeavesAllUsable) {
  Device& device = test_device();
  const Kernel k = scale_kernel(device);
  const Buffer x = upload_vector<float>(device, {1, 2, 3, 4}), y = device.zeros_bytes(16);
  std::optional<Stream> kept;
  EXPECT_THROW(device.capture([&](const Stream& s) {
    kept = s;
    scale(k, s, x, y, 5);
    throw std::runtime_error("mine");
  }),
               std::runtime_error);
  expect_error(error_of([&] {
                 device.capture([&](const Stream& s) {
                   scale(k, s, x, y, 5);
                   scale(k, s, x, x, 5);
                 });
               }),
               ErrorCode::invalid_argument, {"'x'", "'y'"});
  EXPECT_EQ(read_vector<float>(device, y, 4), Floats(4, 0)) << "what was written down never runs";
  scale(k, device.stream(), x, y, 2);  // the thread's stream is the default one again
  EXPECT_EQ(read_vector<float>(device, y, 4), (Floats{2, 4, 6, 8}));
  scale(k, *kept, x, y, 3);  // and the capture's records again
  EXPECT_EQ(read_vector<float>(device, y, 4), (Floats{3, 6, 9, 12}));
}

TEST(Graph, ReadsInACaptureAreRefused) {
  Device& device = test_device();
  const Kernel k = scale_kernel(device);
  const Buffer x = upload_vector<float>(device, {1, 2, 3, 4}), y = device.zeros_bytes(16);
  const Graph graph = device.capture([&](const Stream& s) {
    scale(k, s, x, y, 2);
    expect_error(error_of([&] { read_vector<float>(device, y, 4); }), ErrorCode::invalid_argument, {"captur"});
    expect_error(error_of([&] { device.read_async(y, 0, 16); }), ErrorCode::invalid_argument, {"captur"});
    Floats out(4);
    const ReadRange range{y, 0, std::as_writable_bytes(std::span(out))};
    expect_error(error_of([&] { device.read_ranges(std::span(&range, 1)); }), ErrorCode::invalid_argument, {"captur"});
    s.submit();
    s.synchronize();
    EXPECT_EQ(s.pending(), 0u);
    scale(k, s, x, y, 3);
  });
  EXPECT_EQ(graph.nodes().size(), 2u);
  graph.run();
  EXPECT_EQ(read_vector<float>(device, y, 4), (Floats{3, 6, 9, 12}));
}

TEST(Graph, WritesInACaptureTakeEffectAtOnce) {
  Device& device = test_device();
  const Kernel k = scale_kernel(device);
  const Buffer y = device.zeros_bytes(16);
  const Graph graph = device.capture([&](const Stream& s) {
    const Buffer weights = upload_vector<float>(device, {1, 2, 3, 4});
    scale(k, s, weights, y, 2);
  });
  for (int i = 0; i < 2; ++i) {
    graph.run();
    EXPECT_EQ(read_vector<float>(device, y, 4), (Floats{2, 4, 6, 8}));
  }
}

TEST(Graph, CapturesNestAndGraphsDoNot) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer a = device.zeros_bytes(64), b = device.zeros_bytes(64);
  Graph inner;
  const Graph outer = device.capture([&](const Stream&) {
    add(device.stream(), {{"y", a}}, AddParams{1, 16}, Grid{});
    inner = device.capture([&](const Stream&) { add(device.stream(), {{"y", b}}, AddParams{5, 16}, Grid{}); });
    expect_error(error_of([&] { inner.run(); }), ErrorCode::invalid_argument, {"capturing"});
    add(device.stream(), {{"y", a}}, AddParams{2, 16}, Grid{});
  });
  EXPECT_EQ(outer.nodes().size(), 2u);
  EXPECT_EQ(inner.nodes().size(), 1u);
  outer.run();
  inner.run();
  inner.run();
  EXPECT_EQ(read_vector<std::uint32_t>(device, a, 16), Words(16, 3));
  EXPECT_EQ(read_vector<std::uint32_t>(device, b, 16), Words(16, 10));
}

// The order of all work on a buffer is the order of the calls, whatever streams they go to.
TEST(Graph, RunsAreOrderedWithOtherWork) {
  Device& device = test_device();
  const Kernel k = scale_kernel(device);
  const Buffer x = upload_vector<float>(device, {1, 1, 1, 1}), y = device.zeros_bytes(16);
  const Stream other = device.make_stream(), third = device.make_stream();
  const Graph twice = device.capture([&](const Stream& s) { scale(k, s, x, y, 2); });
  float expected = 1;
  for (int i = 0; i < 20; ++i) {
    twice.run(i % 2 == 0 ? other : device.stream());
    scale(k, third, y, x, 1);
    expected *= 2;
    if (i % 5 == 4) {
      expected = static_cast<float>(i);
      device.write(x, 0, bytes_of(Floats(4, expected)));
    }
  }
  twice.run(other);
  EXPECT_EQ(read_vector<float>(device, y, 4), Floats(4, 2 * expected));
  {
    const StreamScope scope(third);
    twice.run();
    EXPECT_EQ(third.pending(), 1u) << "a run goes to the thread's stream";
  }
}

/// Longer than a batch: the run goes out in pieces, and is still one call in the order of all calls.
TEST(Graph, ALongRunGoesOutInPieces) {
  DeviceOptions options;
  options.batch_dispatches = 4;
  Device device = Device::open(options);
  const Kernel add = add_kernel(device);
  const Buffer y = device.zeros_bytes(64);
  device.synchronize();
  const Graph graph = device.capture([&](const Stream& s) {
    for (std::uint32_t i = 0; i < 10; ++i) add(s, {{"y", y}}, AddParams{1, 16}, Grid{});
  });
  const std::uint64_t before = device.stats().submits;
  graph.run();
  EXPECT_EQ(device.stats().submits - before, 3u);
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 16), Words(16, 10));
  // Two streams' runs on one buffer: none is lost, whatever their pieces do.
  run_threads(4, [&](unsigned) {
    const Stream own = device.make_stream();
    const Graph mine = device.capture([&](const Stream& s) {
      for (std::uint32_t i = 0; i < 10; ++i) add(s, {{"y", y}}, AddParams{1, 16}, Grid{});
    });
    for (int r = 0; r < 20; ++r) mine.run(own);
  });
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 16), Words(16, 10 + 4 * 20 * 10));
}

TEST(Graph, OneGraphPerThread) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  constexpr unsigned kThreads = 4;
  const Buffer shared = device.zeros_bytes(64);
  std::vector<Buffer> own(kThreads);
  run_threads(kThreads, [&](unsigned t) {
    own[t] = device.zeros_bytes(64);
    const Graph graph = device.capture([&](const Stream&) {
      add(device.stream(), {{"y", own[t]}}, AddParams{t + 1, 16}, Grid{});
      add(device.stream(), {{"y", shared}}, AddParams{1, 16}, Grid{});
    });
    const Stream stream = device.make_stream();
    for (int i = 0; i < 200; ++i) graph.run(i % 2 == 0 ? stream : device.stream());
  });
  for (unsigned t = 0; t < kThreads; ++t) {
    EXPECT_EQ(read_vector<std::uint32_t>(device, own[t], 16), Words(16, 200 * (t + 1)));
  }
  EXPECT_EQ(read_vector<std::uint32_t>(device, shared, 16), Words(16, 200 * kThreads));
}

// Runs that are refused leave no trace; those that are not all count.
TEST(Graph, OneGraphOnTwoThreads) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer y = device.zeros_bytes(64);
  const Graph graph = device.capture([&](const Stream& s) {
    for (int i = 0; i < 100; ++i) add(s, {{"y", y}}, AddParams{1, 16}, Grid{});
  });
  std::atomic<std::uint32_t> done{0}, refused{0};
  run_threads(2, [&](unsigned) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int i = 0; i < 20 || (refused.load() == 0 && std::chrono::steady_clock::now() < end); ++i) {
      try {
        graph.run();
        ++done;
      } catch (const Error& e) {
        expect_error(e, ErrorCode::invalid_argument, {"another thread"});
        ++refused;
      }
    }
  });
  EXPECT_GT(refused.load(), 0u);
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 16), Words(16, 100 * done.load()));
}

TEST(Graph, OutlivesTheDeviceHandle) {
  Graph graph;
  Buffer y;
  std::weak_ptr<detail::DeviceState> state;
  {
    Device device = Device::open();
    state = device.state();
    const Kernel add = add_kernel(device);
    y = device.zeros_bytes(64);
    graph = device.capture([&](const Stream& s) { add(s, {{"y", y}}, AddParams{3, 16}, Grid{}); });
  }
  graph.run();
  ASSERT_FALSE(state.expired());
  Device again(state.lock());
  EXPECT_EQ(read_vector<std::uint32_t>(again, y, 16), Words(16, 3));
  again = Device(nullptr);
  graph = Graph();
  EXPECT_TRUE(state.expired());
}

TEST(Graph, ALostDeviceIsANamedError) {
  Device device = Device::open();
  const Kernel add = add_kernel(device);
  const Buffer y = device.zeros_bytes(64);
  const Graph graph = device.capture([&](const Stream& s) { add(s, {{"y", y}}, AddParams{3, 16}, Grid{}); });
  device.synchronize();
  device.destroy();
  expect_error(error_of([&] { graph.run(); }), ErrorCode::device_lost);
}

}  // namespace
}  // namespace weft::testing
