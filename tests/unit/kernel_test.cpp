// A user's kernels: what is checked on every call, grids, and errors that name what is wrong.
#include "weft/kernel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <fstream>

#include "unit/core_helpers.h"
#include "unit/sanitized.h"
#include "unit/test_device.h"

namespace weft::testing {
namespace {

// B.5 (2): eight in a row with no wait between.
TEST(Kernel, B5_2_ChainOfEight) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const std::vector<float> x{1, -2, 3.5f, 0, 1e-5f};
  Buffer from = upload_vector(device, x);
  for (int i = 0; i < 8; ++i) {
    const Buffer to = device.alloc(20);
    neg(device.stream(), {{"x", from}, {"y", to}}, grid_for(5));
    from = to;
  }
  EXPECT_EQ(read_vector<float>(device, from, 5), x);
}

// B.5 (4): one result goes, the survivor's still computes.
TEST(Kernel, B5_4_DisjointMatmuls) {
  Device& device = test_device();
  const Kernel matmul = matmul_kernel(device);
  const auto a = upload_vector<float>(device, {1, 2, 3, 4}), b = upload_vector<float>(device, {5, 6, 7, 8});
  const auto identity = upload_vector<float>(device, {1, 0, 0, 1}), d = upload_vector<float>(device, {16, 17, 22, 23});
  Buffer c = device.alloc(16);
  const Buffer survivor = device.alloc(16);
  const auto run = [&](const Buffer& x, const Buffer& y, const Buffer& z) {
    matmul(device.stream(), {{"a", x}, {"b", y}, {"c", z}}, MatmulParams{2, 2, 2, 1}, Grid{});
  };
  run(a, b, c);
  run(d, identity, survivor);
  EXPECT_EQ(read_vector<float>(device, c, 4), (std::vector<float>{19, 22, 43, 50}));
  c = {};
  device.trim();
  device.stream().clear(survivor, 0, 16);
  run(d, identity, survivor);
  EXPECT_EQ(read_vector<float>(device, survivor, 4), (std::vector<float>{16, 17, 22, 23}));
}

// B.5 (5), B16: rounds of allocate, run, free leave nothing live and no bind group of memory that is gone.
TEST(Kernel, B5_5_TwoHundredRounds) {
  Device& device = test_device();
  device.synchronize();
  device.trim();
  const Stats before = device.stats();
  const Kernel matmul = matmul_kernel(device);
  for (int i = 0; i < 200; ++i) {
    const auto a = upload_vector<float>(device, {float(i), 0, 0, 1}), b = upload_vector<float>(device, {1, 2, 3, 4});
    const Buffer c = device.alloc(16);
    matmul(device.stream(), {{"a", a}, {"b", b}, {"c", c}}, MatmulParams{2, 2, 2, 1}, Grid{});
    ASSERT_EQ(read_vector<float>(device, c, 2), (std::vector<float>{float(i), 2 * float(i)}));
  }
  EXPECT_EQ(device.stats().live_bytes, before.live_bytes);
  device.trim();
  EXPECT_EQ(device.stats().bind_group_entries, before.bind_group_entries);
}

// D1, case K01: the memory of dropped buffers comes back at once, and no result is ever an earlier round's.
TEST(Kernel, D1_NoStaleBindGroupInTenThousandRounds) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const std::clock_t start = std::clock();  // of this process: what else the machine does counts little
  int stale = 0;
  constexpr int kRounds = 10'000;
  for (int i = 0; i < kRounds; ++i) {
    const auto f = static_cast<float>(i);
    const Buffer x = upload_vector<float>(device, {f, f + 1});
    const Buffer y = device.alloc(8);
    neg(device.stream(), {{"x", x}, {"y", y}}, Grid{});
    stale += read_vector<float>(device, y, 2) != std::vector<float>{-f, -f - 1};
    if (i % 100 == 50) device.trim();  // the memory itself goes, and new memory may get its address
  }
  EXPECT_EQ(stale, 0);
#if !WEFT_SANITIZED
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 20);
#endif
}

// D4, D5: sizes are checked when warm as when cold.
TEST(Kernel, D4_SizesAreCheckedOnEveryCall) {
  Device& device = test_device();
  const Kernel k = device.kernel({.source = R"(
struct Row { a: vec4<f32>, b: vec4<f32> }
@group(0) @binding(0) var<storage, read> rows: array<Row>;
@group(0) @binding(3) var<storage, read_write> out: array<f32, 8>;
@compute @workgroup_size(1) fn main() { for (var i = 0u; i < 4; i++) { out[i] = rows[0].a[i]; out[i + 4] = rows[0].b[i]; } })",
                                  .label = "rows"});
  ASSERT_EQ(k.bindings().size(), 2u);
  EXPECT_EQ(k.bindings()[0].min_size, 32u);
  EXPECT_EQ(k.bindings()[1].min_size, 32u);
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
  const Buffer rows = upload_vector(device, values), out = device.zeros_bytes(32), small = device.alloc(16);
  for (int i = 0; i < 3; ++i) {
    expect_error(error_of([&] { k(device.stream(), {{"rows", small}, {"out", out}}, Grid{}); }),
                 ErrorCode::invalid_argument, {"rows", "16 bytes given", "32"});
    expect_error(error_of([&] { k(device.stream(), {{"rows", rows}, {"out", BindingRange(out, 0, 28)}}, Grid{}); }),
                 ErrorCode::invalid_argument, {"out", "28", "32"});
    k(device.stream(), {{"rows", rows}, {"out", out}}, Grid{});
    EXPECT_EQ(read_vector<float>(device, out, 8), values);
  }
}

// arrayLength is that of the logical length, whatever the pool gave (C3).
TEST(Kernel, ArrayLengthIsTheLogicalLength) {
  Device& device = test_device();
  const Kernel k = device.kernel({.source = R"(
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> n: array<u32>;
@compute @workgroup_size(1) fn main() { n[0] = arrayLength(&x); })",
                                  .label = "length"});
  const Buffer n = device.alloc(4);
  const std::size_t sizes[][2] = {{1, 1}, {3, 1}, {4, 1}, {5, 2}, {257, 65}, {5000, 1250}};
  for (const auto& [bytes, words] : sizes) {
    k(device.stream(), {{"x", device.alloc(bytes)}, {"n", n}}, Grid{});
    EXPECT_EQ(read_vector<std::uint32_t>(device, n, 1)[0], words) << bytes;
  }
  const Buffer big = device.alloc(4096);
  k(device.stream(), {{"x", BindingRange(big, 256, 12)}, {"n", n}}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, n, 1)[0], 3u);
}

// D9, B.5 (7): an output that is also an input is refused by both names; one input twice is fine.
TEST(Kernel, D9_Aliasing) {
  Device& device = test_device();
  const Kernel matmul = matmul_kernel(device);
  const Buffer a = upload_vector<float>(device, {1, 2, 3, 4}), c = device.alloc(16);
  const MatmulParams p{2, 2, 2, 1};
  expect_error(error_of([&] { matmul(device.stream(), {{"a", a}, {"b", c}, {"c", a}}, p, Grid{}); }),
               ErrorCode::invalid_argument, {"matmul", "'a'", "'c'"});
  matmul(device.stream(), {{"a", a}, {"b", a}, {"c", c}}, p, Grid{});
  EXPECT_EQ(read_vector<float>(device, c, 4), (std::vector<float>{7, 10, 15, 22}));
  EXPECT_EQ(read_vector<float>(device, a, 4), (std::vector<float>{1, 2, 3, 4}));
}

// Two written windows of one buffer may stand side by side, not overlap; beside a read one they may not stand at all.
TEST(Kernel, D9_WindowsOfOneBuffer) {
  Device& device = test_device();
  const Kernel k = device.kernel({.source = R"(
@group(0) @binding(0) var<storage, read_write> p: array<u32>;
@group(0) @binding(1) var<storage, read_write> q: array<u32>;
@compute @workgroup_size(1) fn main() { p[0] = 1u; q[0] = 2u; })",
                                  .label = "two windows"});
  const Buffer b = device.zeros_bytes(1024);
  k(device.stream(), {{"p", BindingRange(b, 0, 256)}, {"q", BindingRange(b, 512, 256)}}, Grid{});
  const auto got = read_vector<std::uint32_t>(device, b, 256);
  EXPECT_EQ(got[0], 1u);
  EXPECT_EQ(got[128], 2u);
  expect_error(
      error_of([&] { k(device.stream(), {{"p", BindingRange(b, 0, 512)}, {"q", BindingRange(b, 256, 256)}}, Grid{}); }),
      ErrorCode::invalid_argument, {"'p'", "'q'"});
  const Kernel neg = neg_kernel(device);
  expect_error(error_of([&] {
                 neg(device.stream(), {{"x", BindingRange(b, 0, 256)}, {"y", BindingRange(b, 512, 256)}}, Grid{});
               }),
               ErrorCode::invalid_argument, {"'x'", "'y'"});
}

// Case E03.
TEST(Kernel, E03_WrongBindings) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const Buffer x = upload_vector<float>(device, {1, 2}), y = device.zeros_bytes(8);
  const Stream s = device.stream();
  using enum ErrorCode;
  expect_error(error_of([&] { neg(s, {{"x", x}}, Grid{}); }), invalid_argument, {"neg", "'y'", "array<f32>"});
  expect_error(error_of([&] { neg(s, {{"x", x}, {"y", y}, {"z", y}}, Grid{}); }), invalid_argument, {"'z'", "x, y"});
  expect_error(error_of([&] { neg(s, {{"x", x}, {"x", x}, {"y", y}}, Grid{}); }), invalid_argument, {"'x'", "twice"});
  const BindingRange one[] = {x}, three[] = {x, y, y};
  expect_error(error_of([&] { neg.dispatch(s, one, {}, Grid{}); }), invalid_argument, {"1 buffers", "2 bindings"});
  expect_error(error_of([&] { neg.dispatch(s, three, {}, Grid{}); }), invalid_argument, {"3 buffers", "2 bindings"});
  BindingRange half(x);
  half.dtype = DType::f16;
  expect_error(error_of([&] { neg(s, {{"x", half}, {"y", y}}, Grid{}); }), invalid_argument,
               {"'x'", "float16", "array<f32>"});
  expect_error(error_of([&] { neg(s, {{"x", Buffer()}, {"y", y}}, Grid{}); }), invalid_argument, {"'x'", "empty"});
  expect_error(error_of([&] { neg(s, {{"x", device.alloc(8, Usage::copy_dst)}, {"y", y}}, Grid{}); }), invalid_argument,
               {"'x'", "storage"});
  expect_error(error_of([&] { neg(s, {{"x", BindingRange(x, 4)}, {"y", y}}, Grid{}); }), invalid_argument,
               {"'x'", "offset 4"});
  expect_error(error_of([&] { neg(s, {{"x", BindingRange(x, 0, 12)}, {"y", y}}, Grid{}); }), out_of_range, {"12", "8"});
  expect_error(error_of([&] { neg(s, {{"x", BindingRange(x, 256, UINT64_MAX)}, {"y", y}}, Grid{}); }), out_of_range);
  expect_error(error_of([&] { neg(Stream(), {{"x", x}, {"y", y}}, Grid{}); }), invalid_argument, {"stream"});
  expect_error(error_of([&] { Kernel()(s, {{"x", x}, {"y", y}}, Grid{}); }), invalid_argument, {"kernel is empty"});
  expect_error(error_of([&] {
                 device.kernel({.source = "@group(1) @binding(0) var<storage, read_write> g: array<u32>;\n"
                                          "@compute @workgroup_size(1) fn main() { g[0] = 1u; }",
                                .label = "other group"});
               }),
               unsupported, {"other group", "'g'", "@group(1)"});
  neg(s, {{"x", x}, {"y", y}}, Grid{});
  EXPECT_EQ(read_vector<float>(device, y, 2), (std::vector<float>{-1, -2}));
}

// Case E03: bindings 0 and 5 only.
TEST(Kernel, E03_GapsBetweenBindings) {
  Device& device = test_device();
  const Kernel k = device.kernel({.source = R"(
@group(0) @binding(5) var<storage, read_write> y: array<u32>;
@group(0) @binding(0) var<storage, read> x: array<u32>;
@compute @workgroup_size(1) fn main() { y[0] = x[0] + 1u; })",
                                  .label = "gap"});
  EXPECT_EQ(k.bindings()[1].binding, 5u);
  const Buffer x = upload_vector<std::uint32_t>(device, {41}), y = device.alloc(4);
  k(device.stream(), {{"y", y}, {"x", x}}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, y, 1)[0], 42u);
}

// Case E01: name, line and column; the output keeps its contents; good kernels of the same batch run.
TEST(Kernel, E01_BrokenSources) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const Buffer seven = upload_vector(device, std::vector<float>(8, 7)), x = upload_vector<float>(device, {5}),
               y = device.alloc(4);
  neg(device.stream(), {{"x", x}, {"y", y}}, Grid{});
  const std::string head =
      "@group(0) @binding(0) var<storage, read_write> o: array<f32>;\n"
      "@compute @workgroup_size(1) fn main() {\n";
  for (const char* body : {"  o[0] = 1.0", "  o[0] = nothing;", "  o[0] = f32(1i + 2.0f);", "  o[0] = 1.0 / 0.0;"}) {
    const Error e = error_of([&] { device.kernel({.source = head + body + "\n}", .label = "broken.wgsl"}); });
    expect_error(e, ErrorCode::compile_error, {"broken.wgsl"});
    EXPECT_TRUE(std::string(e.what()).find(":3:") != std::string::npos ||
                std::string(e.what()).find(":4:") != std::string::npos)
        << e.what();
  }
  expect_error(error_of([&] { device.kernel({.source = "", .label = "nothing at all"}); }), ErrorCode::compile_error,
               {"nothing at all", "main"});
  EXPECT_EQ(read_vector<float>(device, seven, 8), std::vector<float>(8, 7));
  EXPECT_EQ(read_vector<float>(device, y, 1)[0], -5.0f);
}

TEST(Kernel, SourceFromAFile) {
  Device& device = test_device();
  const std::string path = ::testing::TempDir() + "weft_kernel_test.wgsl";
  std::ofstream(path) << "@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
                         "@compute @workgroup_size(1) fn main() { o[0] = 11u; }\n";
  const Kernel k = device.kernel({.source = {}, .file = path});
  EXPECT_EQ(k.label(), "weft_kernel_test.wgsl");
  const Buffer o = device.alloc(4);
  k(device.stream(), {{"o", o}}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, o, 1)[0], 11u);
  std::remove(path.c_str());
  expect_error(error_of([&] { device.kernel({.source = {}, .file = path}); }), ErrorCode::io_error, {path});
}

// Case LM04: 42 within the limit, an error at the build past it; 1.5 without an error is the failure.
TEST(Kernel, LM04_WorkgroupSizes) {
  Device& device = test_device();
  for (std::uint32_t size : {256u, 1024u, 2048u}) {
    const Buffer out = upload_vector(device, std::vector<float>(size, 1.5f));
    const KernelOptions options{.source =
                                    "@group(0) @binding(0) var<storage, read_write> o: array<f32>;\n"
                                    "@compute @workgroup_size(" +
                                    std::to_string(size) +
                                    ") fn main(@builtin(local_invocation_index) i: u32) { o[i] = 42.0; }",
                                .label = "wide"};
    const bool fits = size <= device.limits().max_workgroup_size_x && size <= device.limits().max_workgroup_invocations;
    if (fits) {
      device.kernel(options)(device.stream(), {{"o", out}}, Grid{});
    } else {
      expect_error(error_of([&] { device.kernel(options); }), ErrorCode::compile_error, {"wide", std::to_string(size)});
    }
    EXPECT_EQ(read_vector<float>(device, out, size), std::vector<float>(size, fits ? 42.0f : 1.5f));
  }
}

// D32, case S01's kind: past 65,535 groups of 256, through linear_index; exactly n elements change (D6).
TEST(Kernel, D32_MoreGroupsThanOneAxisTakes) {
  Device& device = test_device();
  const Kernel k = device.kernel({.source = R"(
struct Params { n: u32 }
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < params.n) { y[i] += i + 1u; }
})",
                                  .label = "many groups"});
  constexpr std::uint32_t kMost = 16'776'962;
  const Buffer y = device.alloc((kMost + 2) * 4);
  for (std::uint32_t n : {16'776'960u, 16'776'961u, kMost}) {
    device.stream().clear(y, 0, (kMost + 2) * 4);
    k(device.stream(), {{"y", y}}, n, grid_for(n));
    const auto got = read_vector<std::uint32_t>(device, y, kMost + 2);
    std::uint32_t wrong = 0;
    for (std::uint32_t i = 0; i < kMost + 2; ++i) wrong += got[i] != (i < n ? i + 1 : 0);
    EXPECT_EQ(wrong, 0u) << n;
  }
}

TEST(Kernel, GridsAreFoldedAndLimited) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);  // groups of 64
  EXPECT_EQ(add.grid(grid_for(0)), (Grid{0, 1, 1}));
  EXPECT_EQ(add.grid(grid_for(64)), (Grid{1, 1, 1}));
  EXPECT_EQ(add.grid(grid_for(65)), (Grid{2, 1, 1}));
  EXPECT_EQ(add.grid(grid_for(std::uint64_t{32768} * 64)), (Grid{32768, 1, 1}));
  EXPECT_EQ(add.grid(grid_for(std::uint64_t{32768} * 64 + 1)), (Grid{32768, 2, 1}));
  expect_error(error_of([&] { (void)add.grid(grid_for(std::uint64_t{1} << 32)); }), ErrorCode::out_of_range,
               {"4294967296", "4294967295"});
  expect_error(error_of([&] { (void)matmul_kernel(device).grid(grid_for(5)); }), ErrorCode::invalid_argument);
  const Buffer y = device.zeros_bytes(64);
  for (const Grid& g : {Grid{65536, 1, 1}, Grid{1, 65536, 1}, Grid{1, 1, 65536}}) {
    expect_error(error_of([&] { add(device.stream(), {{"y", y}}, AddParams{1, 1}, g); }), ErrorCode::out_of_range,
                 {"add", "65536", "65535"});
  }
  const Stats before = device.stats();
  add(device.stream(), {{"y", y}}, AddParams{1, 0}, grid_for(0));  // nothing to do
  EXPECT_EQ(device.stats().dispatches, before.dispatches);
}

// Zero elements and zero bytes: a binding needs at least one element, and the error says so.
TEST(Kernel, EmptyBuffersAreNamed) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const Buffer y = device.alloc(4);
  expect_error(error_of([&] { neg(device.stream(), {{"x", device.alloc(0)}, {"y", y}}, Grid{}); }),
               ErrorCode::invalid_argument, {"'x'", "0 bytes"});
}

// A24's other side: bytes of a byte array are whole words to a kernel, also at the end.
TEST(Kernel, OddByteCountsBindAsWords) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer y = upload_vector<unsigned char>(device, {1, 2, 3});
  add(device.stream(), {{"y", y}}, AddParams{0x010101, 1}, Grid{});
  EXPECT_EQ(read_vector<unsigned char>(device, y, 3), (std::vector<unsigned char>{2, 3, 4}));
}

// Rule 7: a user's kernel keeps its bounds checks; neighbours stay as they are.
TEST(Kernel, OutOfBoundsWritesStayInside) {
  Device& device = test_device();
  const Kernel k = device.kernel({.source = R"(
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) { y[id.x + 4u] = 9u; })",
                                  .label = "too far"});
  const Buffer y = device.zeros_bytes(4096);
  k(device.stream(), {{"y", BindingRange(y, 0, 16)}}, Grid{4, 1, 1});
  const auto got = read_vector<std::uint32_t>(device, y, 1024);
  EXPECT_EQ(std::vector<std::uint32_t>(got.begin() + 4, got.end()), std::vector<std::uint32_t>(1020, 0));
}

// D45: a dispatch reads nothing back, and a sequence of them is one submit.
TEST(Kernel, D45_DispatchesReadNothingBack) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const Buffer x = upload_vector(device, std::vector<float>(1000, 3)), y = device.alloc(4000);
  device.synchronize();
  const Stats before = device.stats();
  for (int i = 0; i < 20; ++i)
    neg(device.stream(), {{"x", i % 2 == 0 ? x : y}, {"y", i % 2 == 0 ? y : x}}, Grid{16, 1, 1});
  device.synchronize();
  const Stats after = device.stats();
  EXPECT_EQ(after.dispatches - before.dispatches, 20u);
  EXPECT_EQ(after.submits - before.submits, 1u);
  EXPECT_EQ(after.passes - before.passes, 1u);
  EXPECT_EQ(after.reads, before.reads);
  EXPECT_EQ(after.staging_allocations + after.staging_hits, before.staging_allocations + before.staging_hits);
  EXPECT_EQ(read_vector<float>(device, x, 1000), std::vector<float>(1000, 3));
}

// D24, issue 5: warm calls hit both caches and make nothing.
TEST(Kernel, WarmCallsHitTheCaches) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer y = device.zeros_bytes(64);
  add(device.stream(), {{"y", y}}, AddParams{1, 16}, Grid{});
  const Stats before = device.stats();
  for (int i = 0; i < 50; ++i) add(device.stream(), {{"y", y}}, AddParams{1, 16}, Grid{});
  EXPECT_EQ(device.stats().bind_group_hits - before.bind_group_hits, 50u);
  EXPECT_EQ(device.stats().bind_group_misses, before.bind_group_misses);
  const Kernel again = add_kernel(device);
  EXPECT_EQ(device.stats().pipeline_misses, before.pipeline_misses);
  EXPECT_EQ(again.label(), "add");
}

}  // namespace
}  // namespace weft::testing
