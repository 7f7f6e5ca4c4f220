// Compiled pipelines: exact keys, a bounded count, failures not kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>

#include "dispatch/pipeline_cache.h"
#include "dispatch/state.h"
#include "ops/catalog.h"
#include "unit/core_helpers.h"
#include "unit/sanitized.h"
#include "unit/test_device.h"
#include "weft/expr.h"

namespace weft::testing {
namespace {

using dispatch::PipelineCache;
using dispatch::PipelineKey;

#if WEFT_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::string constant_source(std::uint32_t value) {
  return "@group(0) @binding(0) var<storage, read_write> out: array<u32>;\n"
         "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) { out[id.x] = " +
         std::to_string(value) + "u; }";
}

PipelineKey key_of(std::uint32_t value) {
  PipelineKey key;
  key.code = constant_source(value);
  key.entry_point = "main";
  key.entries = {{0, webgpu::BindingType::storage, 4}};
  return key;
}

// Every part of a key changes it.
TEST(PipelineKey, IsExact) {
  const PipelineKey base = key_of(1);
  std::vector<PipelineKey> keys(10, base);
  keys[1].code += " ";
  keys[2].entry_point = "mai";
  keys[3].constants = {{"n", 1.0}};
  keys[4].constants = {{"n", 1.0000000000000002}};
  keys[5].constants = {{"m", 1.0}};
  keys[6].entries[0].type = webgpu::BindingType::read_only_storage;
  keys[7].params = dispatch::ParamsVia::uniform;
  keys[8].params_size = 4;
  keys[9].trusted = true;
  std::vector<std::string> texts;
  for (const PipelineKey& k : keys) texts.push_back(k.serialized());
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
  EXPECT_EQ(base.serialized(), key_of(1).serialized());
}

TEST(PipelineCache, HitsShareOnePipeline) {
  PipelineCache cache(test_device().state()->gpu, 4);
  const auto a = cache.get_or_compile(key_of(1), "a");
  EXPECT_EQ(cache.get_or_compile(key_of(1), "a again"), a);
  EXPECT_NE(cache.get_or_compile(key_of(2), "b"), a);
  EXPECT_EQ(cache.stats().hits, 1u);
  EXPECT_EQ(cache.stats().misses, 2u);
  EXPECT_EQ(cache.stats().entries, 2u);
  EXPECT_GT(cache.stats().compile_ms, 0);
}

// D21: bounded, least recently used goes first, and what goes is released unless somebody holds it.
TEST(PipelineCache, D21_BoundedAndReleased) {
  PipelineCache cache(test_device().state()->gpu, 2);
  std::weak_ptr<const dispatch::PipelineEntry> one = cache.get_or_compile(key_of(1), "1");
  const auto two = cache.get_or_compile(key_of(2), "2");
  cache.get_or_compile(key_of(1), "1");
  cache.get_or_compile(key_of(3), "3");  // 2 goes
  EXPECT_EQ(cache.stats().evictions, 1u);
  EXPECT_FALSE(one.expired());
  EXPECT_TRUE(two->pipeline);
  cache.get_or_compile(key_of(4), "4");  // 1 goes
  EXPECT_TRUE(one.expired());
  EXPECT_EQ(cache.stats().entries, 2u);
  PipelineCache least(test_device().state()->gpu, 0);
  least.get_or_compile(key_of(1), "1");
  EXPECT_EQ(least.stats().entries, 1u);
}

// D39: not kept, and it compiles when the text is right; each try gets the error.
TEST(PipelineCache, D39_FailuresAreNotKept) {
  PipelineCache cache(test_device().state()->gpu, 4);
  PipelineKey broken = key_of(1);
  broken.code = "@compute @workgroup_size(1) fn main() { undeclared(); }";
  for (int i = 0; i < 3; ++i) {
    expect_error(error_of([&] { cache.get_or_compile(broken, "broken one"); }), ErrorCode::compile_error,
                 {"broken one"});
    EXPECT_EQ(cache.stats().entries, 0u);
  }
  EXPECT_EQ(cache.stats().misses, 3u);
  EXPECT_TRUE(cache.get_or_compile(key_of(1), "fine")->pipeline);
}

// A48, B1: pipelines with the same bindings share one layout object, and so their bind groups.
TEST(PipelineCache, LayoutsAreShared) {
  PipelineCache cache(test_device().state()->gpu, 4);
  const auto a = cache.get_or_compile(key_of(1), "a"), b = cache.get_or_compile(key_of(2), "b");
  EXPECT_EQ(a->layout, b->layout);
  PipelineKey other = key_of(1);
  other.entries[0].min_size = 64;
  EXPECT_NE(cache.get_or_compile(other, "c")->layout->id, a->layout->id);
}

// Case K06: near-identical kernels in random order, twice; then one text with two entry points and with other bindings.
TEST(PipelineCache, K06_NearIdenticalKernels) {
  Device& device = test_device();
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < (kSanitized ? 50 : 300); ++i) order.push_back(i);
  std::mt19937 random(6);
  for (int round = 0; round < 2; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::uint32_t c : order) {
      const Kernel k = device.kernel({.source = constant_source(c), .label = "constant"});
      const Buffer out = device.alloc(256);
      k(device.stream(), {{"out", out}}, Grid{});
      ASSERT_EQ(read_vector<std::uint32_t>(device, out, 64), std::vector<std::uint32_t>(64, c));
    }
  }
  const std::string two =
      "@group(0) @binding(0) var<storage, read_write> out: array<u32>;\n"
      "@compute @workgroup_size(1) fn first() { out[0] = 1u; }\n"
      "@compute @workgroup_size(1) fn second() { out[0] = 2u; }\n";
  const Buffer out = device.alloc(4);
  for (std::uint32_t i = 1; i <= 2; ++i) {
    device.kernel({.source = two, .entry_point = i == 1 ? "first" : "second", .label = "two"})(device.stream(),
                                                                                               {{"out", out}}, Grid{});
    EXPECT_EQ(read_vector<std::uint32_t>(device, out, 1)[0], i);
  }
  for (const char* value : {"3", "4"}) {
    const Kernel k =
        device.kernel({.source = "override n: u32 = 9;\n@group(0) @binding(0) var<storage, read_write> out: "
                                 "array<u32>;\n@compute @workgroup_size(1) fn main() { out[0] = n; }",
                       .label = "override",
                       .overrides = {{"n", std::stod(value)}}});
    k(device.stream(), {{"out", out}}, Grid{});
    EXPECT_EQ(read_vector<std::uint32_t>(device, out, 1)[0], static_cast<std::uint32_t>(std::stoi(value)));
  }
}

// Case M06: kernels that come and go leave no pipelines behind. A small cap makes most of 600 be replaced (a compile
// takes 12 ms on lavapipe).
TEST(PipelineCache, M06_KernelsComeAndGo) {
  constexpr std::uint32_t kKernels = kSanitized ? 200 : 600;
  DeviceOptions options;
  options.pipelines = 64;
  Device device = Device::open(options);
  const Buffer out = device.alloc(1024);
  std::uint64_t warm = 0;
  for (std::uint32_t i = 0; i < kKernels; ++i) {
    device.kernel({.source = constant_source(1'000'000 + i), .label = "passing"})(device.stream(), {{"out", out}},
                                                                                  Grid{4, 1, 1});
    if (i % 50 == 49) device.synchronize();
    ASSERT_LE(device.stats().pipeline_entries, 64u);
    if (i + 1 == kKernels / 2) warm = resident_bytes();
  }
  EXPECT_EQ(read_vector<std::uint32_t>(device, out, 256), std::vector<std::uint32_t>(256, 1'000'000 + kKernels - 1));
  EXPECT_EQ(device.stats().pipeline_evictions, kKernels - 64);
  if (!kSanitized) {
    EXPECT_LT(resident_bytes(), warm + (std::uint64_t{32} << 20));
  }
}

// B2: a key of the op library names one kernel's text, whatever family asks for it: all share one table.
TEST(LibraryKernels, B2_AKeyNamesOneText) {
  std::unordered_map<std::string, std::pair<std::size_t, std::string>> texts;  // hash of the text; the family
  for (const ops::OpFamily* family : ops::families()) {
    if (family->visit_kernels == nullptr) continue;
    family->visit_kernels(test_device(), [&](std::string_view key, const KernelOptions& o) {
      std::string text = o.source + '\0' + o.entry_point;
      for (const PreludeConstant& c : o.constants) text += '\0' + c.name + '\0' + c.type + '\0' + c.value;
      for (const OverrideValue& v : o.overrides) text += '\0' + v.name + '\0' + std::to_string(v.value);
      const auto [it, fresh] =
          texts.try_emplace(std::string(key), std::hash<std::string>()(text), std::string(family->title));
      EXPECT_TRUE(fresh || it->second.first == std::hash<std::string>()(text))
          << "two texts for " << key << ", of " << it->second.second << " and " << family->title;
    });
  }
  EXPECT_GT(texts.size(), 1000u);
}

// Elementwise programs have no end of kernels: those of the library are bounded, too (D21,
// tensorflow/tfjs#7589).
TEST(LibraryKernels, AreBounded) {
  DeviceOptions options;
  options.pipelines = 8;
  Device device = Device::open(options);
  const std::vector<float> values{0.5, 2};
  const Tensor x = device.upload<float>(values, {2});
  const std::size_t before = device.state()->library.keys().size();
  for (int round = 0; round < 2; ++round) {
    for (unsigned program = 0; program < 32; ++program) {
      std::string text = "x";
      for (unsigned bit = 0; bit < 5; ++bit) text = ((program >> bit & 1) != 0 ? "-(" : "abs(") + text + ")";
      const Tensor y = Expression::parse(text).evaluate(device, {{"x", x}});
      const bool negated = (program >> 3 & 3) == 2;  // -abs(...)
      const bool positive = program >> 4 == 0;       // abs(...)
      const auto got = device.read_as<float>(y.buffer(), 0, 2);
      EXPECT_EQ(std::abs(got[0]), 0.5f) << text;
      EXPECT_EQ(std::abs(got[1]), 2.0f) << text;
      EXPECT_TRUE(got[1] < 0 ? !positive : !negated) << text;
    }
  }
  EXPECT_LE(before, 8u);
  EXPECT_LE(device.state()->library.keys().size(), 8u);
  EXPECT_LE(device.stats().pipeline_entries, 8u);
}

}  // namespace
}  // namespace weft::testing
