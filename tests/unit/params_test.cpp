// Parameters travel with their dispatch: in one batch each keeps its own, as immediates and as uniforms.
#include <gtest/gtest.h>

#include <cstring>

#include "dispatch/state.h"
#include "unit/core_helpers.h"
#include "unit/test_device.h"

namespace weft::testing {
namespace {

/// The shared device takes immediates where it can; the second one never does. Both submit on demand only, so that the
/// ring of uniform slots (256 of them) runs out inside one batch.
Device& uniform_device() {
  static Device device = [] {
    DeviceOptions o;
    o.allow_immediates = false;
    o.batch_dispatches = 1 << 20;
    return Device::open(o);
  }();
  return device;
}

class Params : public ::testing::TestWithParam<bool> {
 protected:
  Device& device() { return GetParam() ? uniform_device() : test_device(); }
};

TEST_P(Params, TheDeviceIsWhatItClaims) {
  if (GetParam()) {
    EXPECT_FALSE(device().features().immediates);
    EXPECT_EQ(device().limits().max_immediate_size, 0u);
  } else {
    EXPECT_EQ(device().features().immediates, device().adapter().features.immediates);
  }
}

// D25: where the device takes immediates, parameters go by them: no uniform, no slot that runs out. Elsewhere each has
// a slot of a uniform.
TEST_P(Params, D25_ParametersGoByImmediates) {
  const Kernel add = add_kernel(device()), neg = neg_kernel(device());
  const bool immediates = device().features().immediates;
  using dispatch::ParamsVia;
  EXPECT_EQ(add.state()->params_via, immediates ? ParamsVia::immediates : ParamsVia::uniform);
  EXPECT_EQ(neg.state()->params_via, ParamsVia::none);
  const Buffer y = device().zeros_bytes(16);
  device().synchronize();
  const Stats before = device().stats();
  constexpr std::uint32_t kDispatches = 600;  // the ring has 256 slots
  const std::uint64_t batch = device().state()->options.batch_dispatches;
  for (std::uint32_t i = 1; i <= kDispatches; ++i) add(device().stream(), {{"y", y}}, AddParams{i, 4}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 1)[0], kDispatches * (kDispatches + 1) / 2);
  EXPECT_EQ(device().stats().submits - before.submits,
            immediates ? kDispatches / batch + 1 : (kDispatches + 255) / 256);
}

// B6, B8: a bind group knows nothing of parameters, so other values, and blocks of other sizes, make none anew; and
// each block is read whole where a smaller or a larger one lay in the batch before.
TEST_P(Params, B6_B8_BlocksOfOtherSizesShareBindGroups) {
  std::vector<Kernel> kernels;
  const std::uint32_t words[] = {1, 100, 3, 200, 64};
  for (const std::uint32_t n : words) {
    std::string members;
    for (std::uint32_t i = 0; i < n; ++i) members += "p" + std::to_string(i) + ": u32,";
    kernels.push_back(
        device().kernel({.source = "struct Params { " + members +
                                   " }\n@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                                   "@compute @workgroup_size(1) fn main() { y[0] += params.p0 + params.p" +
                                   std::to_string(n - 1) + "; }",
                         .label = "sum of " + std::to_string(n)}));
  }
  const Buffer y = device().zeros_bytes(4);
  const NamedBinding bindings[] = {{"y", y}};
  const auto run = [&](std::size_t k, std::uint32_t value) {
    std::vector<std::uint32_t> block(words[k]);
    block.front() = value;
    block.back() = value;  // the same word in a block of one
    kernels[k](device().stream(), bindings, bytes_of(block), Grid{});
    return 2 * value;
  };
  std::uint32_t want = run(0, 1);
  const Stats before = device().stats();
  std::uint32_t value = 1;
  for (std::size_t first = 0; first < std::size(words); ++first) {  // each size first in a batch, at the ring's start
    for (std::size_t i = 0; i < std::size(words); ++i) want += run((first + i) % std::size(words), ++value);
    device().stream().submit();
  }
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 1)[0], want);
  EXPECT_EQ(device().stats().bind_group_misses, before.bind_group_misses);
  EXPECT_EQ(device().stats().bind_group_entries, before.bind_group_entries);
  // Neither short nor over-long blocks are taken.
  for (const std::uint32_t n : {99u, 101u}) {
    const std::vector<std::uint32_t> wrong(n);
    expect_error(error_of([&] { kernels[1](device().stream(), bindings, bytes_of(wrong), Grid{}); }),
                 ErrorCode::invalid_argument, {"sum of 100", std::to_string(n * 4), "400"});
  }
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 1)[0], want);
}

// D3: 64 dispatches of one kernel with different scalars in one submit.
TEST_P(Params, D3_ManyScalarsOneSubmit) {
  const Kernel scale = scale_kernel(device());
  const Buffer x = upload_vector<float>(device(), {1, 2, 3, 4});
  std::vector<Buffer> y(64);
  for (Buffer& b : y) b = device().alloc(16);
  device().synchronize();
  const Stats before = device().stats();
  for (std::size_t i = 0; i < y.size(); ++i) {
    scale(device().stream(), {{"x", x}, {"y", y[i]}}, ScaleParams{float(i), 4}, Grid{});
  }
  EXPECT_EQ(device().stream().pending(), 64u);
  device().stream().submit();
  EXPECT_EQ(device().stats().submits - before.submits, 1u);
  EXPECT_EQ(device().stats().passes - before.passes, 1u);
  EXPECT_EQ(device().stats().dispatches - before.dispatches, 64u);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto f = float(i);
    EXPECT_EQ(read_vector<float>(device(), y[i], 4), (std::vector<float>{f, 2 * f, 3 * f, 4 * f}));
  }
}

// D3 on one set of buffers: no other bind group tells the dispatches apart.
TEST_P(Params, D3_SameBuffersDifferentScalars) {
  const Kernel add = add_kernel(device());
  const Buffer y = device().zeros_bytes(16);
  device().synchronize();
  const Stats before = device().stats();
  for (std::uint32_t i = 0; i < 100; ++i) add(device().stream(), {{"y", y}}, AddParams{1u << (i % 20), 4}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 4), std::vector<std::uint32_t>(4, 5 * ((1u << 20) - 1)));
  EXPECT_EQ(device().stats().submits - before.submits, 1u);
}

// Case K08, and the ring running out: 1000 distinct scalars in one go; it submits and goes on.
TEST_P(Params, K08_ThousandScalars) {
  const Kernel scale = scale_kernel(device());
  const Buffer x = upload_vector<float>(device(), {0, 1, 2, 3, 4, 5, 6, 7});
  constexpr std::size_t kCount = 1000;
  const Buffer all = device().alloc(kCount * 256);
  device().synchronize();
  const Stats before = device().stats();
  for (std::size_t i = 0; i < kCount; ++i) {
    scale(device().stream(), {{"x", x}, {"y", BindingRange(all, i * 256, 32)}}, ScaleParams{float(i), 8}, Grid{});
  }
  device().stream().submit();
  const std::uint64_t submits = device().stats().submits - before.submits;
  if (GetParam()) {
    EXPECT_EQ(submits, (kCount + 255) / 256);
  }
  EXPECT_LE(submits, 16u);
  const auto got = read_vector<float>(device(), all, kCount * 64);
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t k = 0; k < 8; ++k) ASSERT_EQ(got[i * 64 + k], float(i * k)) << i;
  }
}

// The same bytes again take no new slot: more dispatches than slots, still one submit.
TEST_P(Params, UnchangedBytesCostNoSlot) {
  if (!GetParam()) return;  // the shared device's batch limit would submit
  const Kernel add = add_kernel(device());
  const Buffer y = device().zeros_bytes(16);
  device().synchronize();
  const Stats before = device().stats();
  for (int i = 0; i < 600; ++i) add(device().stream(), {{"y", y}}, AddParams{3, 4}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 1)[0], 1800u);
  EXPECT_EQ(device().stats().submits - before.submits, 1u);
}

// Kernels with and without parameters, and with different ones, between each other.
TEST_P(Params, KernelsTakeTurns) {
  const Kernel add = add_kernel(device()), scale = scale_kernel(device()), neg = neg_kernel(device());
  const Buffer n = device().zeros_bytes(16), x = upload_vector<float>(device(), {1, 2, 3, 4}), y = device().alloc(16);
  for (std::uint32_t i = 1; i <= 20; ++i) {
    add(device().stream(), {{"y", n}}, AddParams{i, 4}, Grid{});
    scale(device().stream(), {{"x", x}, {"y", y}}, ScaleParams{float(i), 4}, Grid{});
    neg(device().stream(), {{"x", y}, {"y", x}}, Grid{});
    scale(device().stream(), {{"x", x}, {"y", y}}, ScaleParams{-1.0f / float(i), 4}, Grid{});
    add(device().stream(), {{"y", n}}, AddParams{i, 4}, Grid{});
    device().stream().copy(y, 0, x, 0, 16);
  }
  EXPECT_EQ(read_vector<std::uint32_t>(device(), n, 4), std::vector<std::uint32_t>(4, 420));
  const auto got = read_vector<float>(device(), x, 4);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], float(i + 1), 1e-4f);
}

// B.5 (3): thirty products on the same three buffers; the last alpha's stays.
TEST_P(Params, B5_3_ThirtyMatmulsOneRead) {
  const Kernel matmul = matmul_kernel(device());
  const Buffer a = upload_vector<float>(device(), {1, 2, 3, 4}), b = upload_vector<float>(device(), {5, 6, 7, 8});
  const Buffer c = device().alloc(16);
  for (int i = 0; i < 30; ++i) {
    matmul(device().stream(), {{"a", a}, {"b", b}, {"c", c}}, MatmulParams{2, 2, 2, float(1000 * i + 7)}, Grid{});
  }
  const auto got = read_vector<float>(device(), c, 4);
  const float want[] = {19, 22, 43, 50};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i] / (want[i] * 29007), 1, 1e-5);
}

// E04's kind: every member arrives; short blocks are padded by at most 15 bytes, others refused.
TEST_P(Params, E04_Layout) {
  const Kernel k = device().kernel({.source = R"(
struct Params { a: vec3<f32>, b: f32, c: vec2<u32>, d: f32 }
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main() {
  y[0] = params.a.x; y[1] = params.a.y; y[2] = params.a.z; y[3] = params.b;
  y[4] = f32(params.c.x); y[5] = f32(params.c.y); y[6] = params.d;
})",
                                    .label = "layout"});
  ASSERT_EQ(k.params_size(), 32u);
  ASSERT_EQ(k.params().size(), 4u);
  EXPECT_EQ(k.params()[1].name, "b");
  EXPECT_EQ(k.params()[1].offset, 12u);
  EXPECT_EQ(k.params()[3].offset, 24u);
  const Buffer y = upload_vector(device(), std::vector<float>(7, -1));
  std::array<std::byte, 32> bytes{};
  const float front[] = {1.5f, 2.5f, 3.5f, 4.5f}, last = 7.5f;
  const std::uint32_t middle[] = {5, 6};
  std::memcpy(bytes.data(), front, 16);
  std::memcpy(bytes.data() + 16, middle, 8);
  std::memcpy(bytes.data() + 24, &last, 4);
  const NamedBinding bindings[] = {{"y", y}};
  for (std::size_t n : {32u, 28u}) {
    k(device().stream(), bindings, std::span(bytes).first(n), Grid{});
    EXPECT_EQ(read_vector<float>(device(), y, 7), (std::vector<float>{1.5f, 2.5f, 3.5f, 4.5f, 5, 6, 7.5f}));
  }
  for (std::size_t n : {0u, 16u}) {
    expect_error(error_of([&] { k(device().stream(), bindings, std::span(bytes).first(n), Grid{}); }),
                 ErrorCode::invalid_argument, {"layout", std::to_string(n), "a: vec3<f32>", "32"});
  }
  // Padding may be left out, values not: 27 bytes lack one of d's.
  for (std::size_t n : {25u, 27u}) {
    expect_error(error_of([&] { k(device().stream(), bindings, std::span(bytes).first(n), Grid{}); }),
                 ErrorCode::invalid_argument, {"layout", std::to_string(n)});
  }
  const std::array<std::byte, 36> more{};
  expect_error(error_of([&] { k(device().stream(), bindings, more, Grid{}); }), ErrorCode::invalid_argument, {"36"});
  EXPECT_EQ(read_vector<float>(device(), y, 7)[6], 7.5f);
}

// Blocks of every size up to 256 bytes arrive whole.
TEST_P(Params, BlocksOfManySizes) {
  for (std::uint32_t words : {1u, 2u, 3u, 15u, 16u, 17u, 32u, 63u, 64u}) {
    std::string members, sum;
    std::vector<std::uint32_t> values;
    for (std::uint32_t i = 0; i < words; ++i) {
      members += "p" + std::to_string(i) + ": u32,";
      sum += " + params.p" + std::to_string(i) + " * " + std::to_string(i + 1) + "u";
      values.push_back(i * 7 + words);
    }
    const Kernel k = device().kernel({.source = "struct Params { " + members +
                                                " }\n@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                                                "@compute @workgroup_size(1) fn main() { y[0] = 0u" +
                                                sum + "; }",
                                      .label = "block of " + std::to_string(words)});
    EXPECT_EQ(k.params_size(), words * 4);
    const Buffer y = device().alloc(4);
    const NamedBinding bindings[] = {{"y", y}};
    k(device().stream(), bindings, bytes_of(values), Grid{});
    std::uint32_t want = 0;
    for (std::uint32_t i = 0; i < words; ++i) want += values[i] * (i + 1);
    EXPECT_EQ(read_vector<std::uint32_t>(device(), y, 1)[0], want) << words;
  }
}

TEST_P(Params, ParametersForAKernelWithoutAny) {
  const Kernel neg = neg_kernel(device());
  const Buffer x = device().alloc(16), y = device().alloc(16);
  EXPECT_EQ(neg.params_size(), 0u);
  expect_error(error_of([&] { neg(device().stream(), {{"x", x}, {"y", y}}, 5u, Grid{}); }), ErrorCode::invalid_argument,
               {"neg", "4 bytes"});
}

INSTANTIATE_TEST_SUITE_P(Via, Params, ::testing::Values(false, true),
                         [](const auto& via) { return via.param ? "Uniforms" : "Immediates"; });

}  // namespace
}  // namespace weft::testing
