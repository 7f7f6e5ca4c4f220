// A user's kernel called with C++ structs, derived and indirect grids, overrides, several entry points.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "unit/core_helpers.h"
#include "unit/test_device.h"
#include "weft/graph.h"
#include "weft/tensor.h"

namespace weft::testing {
namespace {

// -- struct Params against C++ structs -----------------------------------------------------------------------------

Kernel saxpy_kernel(Device& device) {
  return device.kernel({.source = R"(
struct Params { a: f32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < params.n) { y[i] += params.a * x[i]; }
})",
                        .label = "saxpy"});
}

struct Saxpy {
  float a;
  std::uint32_t n;
};

TEST(KernelParams, TheSameStructPasses) {
  Device& device = test_device();
  const Kernel saxpy = saxpy_kernel(device);
  const Buffer x = upload_vector<float>(device, {1, 2, 3}), y = upload_vector<float>(device, {10, 20, 30});
  for (int i = 0; i < 3; ++i) saxpy(device.stream(), {{"x", x}, {"y", y}}, Saxpy{2, 3}, grid_for(3));
  EXPECT_EQ(read_vector<float>(device, y, 3), (std::vector<float>{16, 32, 48}));
}

TEST(KernelParams, WrongMembersAreNamed) {
  Device& device = test_device();
  const Kernel saxpy = saxpy_kernel(device);
  const Buffer x = upload_vector<float>(device, {1}), y = upload_vector<float>(device, {10});
  const auto refused = [&](const auto& params, std::initializer_list<std::string_view> parts) {
    for (int i = 0; i < 2; ++i) {  // warm as well
      expect_error(error_of([&] { saxpy(device.stream(), {{"x", x}, {"y", y}}, params, Grid{}); }),
                   ErrorCode::invalid_argument, parts);
    }
  };
  struct Swapped {
    std::uint32_t n;
    float a;
  };
  refused(Swapped{1, 2}, {"saxpy", "member 0 of the C++ struct is uint32 at byte 0", "'a' of struct Params is f32"});
  struct Floats {
    float a, n;
  };
  refused(Floats{1, 2}, {"member 1 of the C++ struct is float at byte 4", "'n' of struct Params is u32 at byte 4"});
  struct Signed {
    float a;
    std::int32_t n;
  };
  refused(Signed{1, 2}, {"member 1 of the C++ struct is int32 at byte 4", "'n'"});
  struct Wide {
    double a;
  };
  refused(Wide{1}, {"member 0", "8 bytes", "'a'"});
  struct Short {
    float a;
  };
  refused(Short{1}, {"the C++ struct of 4 bytes has no member at byte 4", "'n' of struct Params is u32"});
  refused(1.0f, {"no member at byte 4", "'n'"});
  struct Flag {
    float a;
    bool n;
  };
  refused(Flag{1, true}, {"member 1 of the C++ struct is bool at byte 4", "declare member 1 as std::uint32_t"});
  struct Halves {
    std::array<float16, 4> h;
  };
  refused(Halves{}, {"member 0 of the C++ struct is 4 x float16 at byte 0", "'a'"});
  struct Long {
    float a;
    std::uint32_t n;
    std::uint32_t more;
  };
  refused(Long{1, 2, 3}, {"12 bytes of parameters given", "has 8"});
  EXPECT_EQ(read_vector<float>(device, y, 1)[0], 10.0f);
}

struct Float3 {
  float x, y, z;
};
struct alignas(16) Float3Aligned {
  float x, y, z;
};
/// What a mathematics library has: not to be looked into.
class Opaque3 {
 public:
  Opaque3() = default;
  explicit Opaque3(float v) : x_(v), y_(v), z_(v) {}

 private:
  float x_, y_, z_;
};

// The ways a vec3f followed by a u32, a mat2x2f and an array may come.
TEST(KernelParams, VectorsMatricesAndArrays) {
  Device& device = test_device();
  const Kernel k = device.kernel({.source = R"(
struct Params { v: vec3f, n: u32, m: mat2x2<f32>, q: vec2<i32>, t: array<vec4f, 2> }
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main() {
  y[0] = params.v.x + params.v.y * 10 + params.v.z * 100;
  y[1] = f32(params.n);
  y[2] = params.m[0].x + params.m[1].y * 10;
  y[3] = f32(params.q.x + params.q.y * 10);
  y[4] = params.t[0].x + params.t[1].w * 10;
})",
                                  .label = "vectors"});
  const Buffer y = device.alloc(20);
  const auto expect = [&](const auto& params) {
    k(device.stream(), {{"y", y}}, params, Grid{});
    EXPECT_EQ(read_vector<float>(device, y, 5), (std::vector<float>{321, 4, 85, 76, 91}));
  };
  struct Arrays {
    std::array<float, 3> v;
    std::uint32_t n;
    std::array<float, 4> m;
    std::array<std::int32_t, 2> q;
    std::array<float, 2> padding;
    std::array<float, 8> t;
  };
  expect(Arrays{{1, 2, 3}, 4, {5, 6, 7, 8}, {6, 7}, {}, {1, 0, 0, 0, 0, 0, 0, 9}});
  struct CArrays {
    float v[3];
    std::uint32_t n;
    float m[2][2];
    std::int32_t q[4];
    float t[2][4];
  };
  expect(CArrays{{1, 2, 3}, 4, {{5, 6}, {7, 8}}, {6, 7, 0, 0}, {{1, 0, 0, 0}, {0, 0, 0, 9}}});
  struct Structs {
    Float3 v;
    std::uint32_t n;
    float m00, m01, m10, m11;
    std::int32_t q0, q1;
    alignas(16) float t[8];
  };
  expect(Structs{{1, 2, 3}, 4, 5, 6, 7, 8, 6, 7, {1, 0, 0, 0, 0, 0, 0, 9}});

  struct Shifted {  // Float3Aligned is 16 bytes, so that n comes too late
    Float3Aligned v;
    std::uint32_t n;
    float m[4];
    std::int32_t q[2];
    float t[8];
  };
  expect_error(error_of([&] { k(device.stream(), {{"y", y}}, Shifted{}, Grid{}); }), ErrorCode::invalid_argument,
               {"vectors", "member 0 of the C++ struct is 3 x float", "'n' of struct Params is u32 at byte 12"});
  struct Opaque {
    Opaque3 v;
    float n;
    float m[4];
    std::int32_t q[4];
    float t[8];
  };
  expect_error(error_of([&] { k(device.stream(), {{"y", y}}, Opaque{}, Grid{}); }), ErrorCode::invalid_argument,
               {"member 1 of the C++ struct is float at byte 12", "'n'"});
}

enum class Mode : std::uint32_t { off, on };
struct Base {
  float a;
};
struct Derived : Base {
  std::uint32_t n;
};
union Either {
  float a;
  std::uint32_t n;
};
struct WithUnion {
  Either either;
  std::uint32_t n;
};
struct Bits {
  std::uint32_t low : 16;
  std::uint32_t high : 16;
  std::uint32_t n;
};
struct Seventeen {
  float a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q;
};
struct Sixteen {
  float a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
};
struct Enumerated {
  Mode mode;
  float16 h[2];
};

// What can't be looked into is not known; what can is exact.
TEST(KernelParams, WhatIsKnownOfAType) {
  EXPECT_FALSE(param_struct(Derived{}).known);
  EXPECT_FALSE(param_struct(WithUnion{}).known);
  EXPECT_FALSE(param_struct(Bits{}).known);
  EXPECT_FALSE(param_struct(Seventeen{}).known);
  EXPECT_FALSE(param_struct(Opaque3(1)).known);
  EXPECT_EQ(param_struct(Sixteen{}).count, 16u);
  EXPECT_EQ(param_struct(Sixteen{}).members[15].offset, 60u);
  const ParamStruct& e = param_struct(Enumerated{});
  ASSERT_EQ(e.count, 2u);
  EXPECT_EQ(e.members[0].scalar, ParamScalar::uint);
  EXPECT_EQ(e.members[1].scalar, ParamScalar::half);
  EXPECT_EQ(e.members[1].count, 2u);
  EXPECT_EQ(param_struct(Float3Aligned{}).count, 3u);
  EXPECT_EQ(&param_struct(Saxpy{1, 2}), &param_struct(Saxpy{3, 4}));
}

// Of those the size still counts, and a right one works.
TEST(KernelParams, UnknownTypesPassBySize) {
  Device& device = test_device();
  const Kernel saxpy = saxpy_kernel(device);
  const Buffer x = upload_vector<float>(device, {1}), y = upload_vector<float>(device, {10});
  Derived d;
  d.a = 3;
  d.n = 1;
  saxpy(device.stream(), {{"x", x}, {"y", y}}, d, Grid{});
  EXPECT_EQ(read_vector<float>(device, y, 1)[0], 13.0f);
  expect_error(error_of([&] { saxpy(device.stream(), {{"x", x}, {"y", y}}, Seventeen{}, Grid{}); }),
               ErrorCode::invalid_argument, {"68 bytes of parameters"});
}

// -- grids ---------------------------------------------------------------------------------------------------------

// Behind the last element whole rows of groups run. None of their threads may wrap round to an index in front.
TEST(KernelGrid, NoIndexComesTwice) {
  Device& device = test_device();
  for (const std::uint32_t size : {1u, 96u, 128u, 250u}) {
    const Kernel k = device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
                                              "@compute @workgroup_size(" +
                                              std::to_string(size) +
                                              ") fn main("
                                              "@builtin(global_invocation_id) id: vec3u) { o[linear_index(id)] = 1; }",
                                    .label = "rows"});
    std::uint64_t accepted = 0;
    for (std::uint64_t n = UINT32_MAX; accepted == 0; n -= 32768 * 8) {
      try {
        const Grid g = k.grid(grid_for(n));
        accepted = n;
        EXPECT_GE(std::uint64_t{g.x} * g.y * size, n);
        EXPECT_LE(std::uint64_t{g.x} * g.y * size, std::uint64_t{1} << 32) << size;
        EXPECT_LE(g.y, 65535u);
      } catch (const Error& e) {
        expect_error(e, ErrorCode::out_of_range, {"rows", std::to_string(n), "run it once per slice"});
      }
    }
    EXPECT_EQ(size == 128, accepted == UINT32_MAX);  // its rows fill 2^32
    EXPECT_GT(accepted, (std::uint64_t{1} << 31) - (std::uint64_t{1} << 21));
  }
}

TEST(KernelGrid, AutoCountsTheOutput) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const std::vector<float> values(1000, 2.0f);
  const Buffer x = upload_vector(device, values), y = device.zeros_bytes(4000);
  neg(device.stream(), {{"y", y}, {"x", x}}, kAutoGrid);
  EXPECT_EQ(read_vector<float>(device, y, 1000), std::vector<float>(1000, -2.0f));
  const Buffer z = device.zeros_bytes(4000);
  neg(device.stream(), {{"x", x}, {"y", BindingRange(z, 256, 1024)}}, kAutoGrid);  // 256 elements: four groups
  const auto got = read_vector<float>(device, z, 1000);
  EXPECT_EQ(got[63], 0.0f);
  EXPECT_EQ(got[64], -2.0f);
  EXPECT_EQ(got[319], -2.0f);
  EXPECT_EQ(got[320], 0.0f);
  expect_error(error_of([&] { neg(device.stream(), {{"x", x}, {"y", Buffer()}}, kAutoGrid); }),
               ErrorCode::invalid_argument, {"'y'", "empty"});
  const Kernel fixed = device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> o: array<u32, 4>;\n"
                                                "@compute @workgroup_size(4) fn main() { o[0] = 1u; }",
                                      .label = "fixed"});
  expect_error(error_of([&] { fixed(device.stream(), {{"o", y}}, kAutoGrid); }), ErrorCode::invalid_argument,
               {"fixed", "no runtime-sized array", "o"});
}

constexpr Usage kIndirect = kDefaultUsage | Usage::indirect;

/// out[group.x] += 1 for each group.
Kernel count_groups(Device& device) {
  return device.kernel({.source = R"(
struct Params { step: u32 }
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) g: vec3u) { out[g.x + 10 * g.y] += params.step; })",
                        .label = "count groups"});
}

// The grid is read when the dispatch runs: an earlier dispatch of the same batch writes it.
TEST(KernelIndirect, TheGridComesFromTheDevice) {
  Device& device = test_device();
  const Kernel write = device.kernel({.source = R"(
@group(0) @binding(0) var<storage, read_write> args: array<u32>;
@compute @workgroup_size(1) fn main() { args[1] = 3u; args[2] = 2u; args[3] = 1u; })",
                                      .label = "write grid"});
  const Kernel count = count_groups(device);
  const Buffer args = device.zeros_bytes(16, kIndirect), out = device.zeros_bytes(80);
  write(device.stream(), {{"args", args}}, Grid{});
  count.dispatch_indirect(device.stream(), {{"out", out}}, 5u, args, 4);
  // One batch: nothing came back to the host in between. (Where WebGPU leaves the grid unchecked, Weft's check is a
  // third dispatch.)
  EXPECT_GE(device.stream().pending(), 2u);
  std::vector<std::uint32_t> expected(20, 0);
  for (std::size_t i : {0, 1, 2, 10, 11, 12}) expected[i] = 5;
  EXPECT_EQ(read_vector<std::uint32_t>(device, out, 20), expected);
  // By order, on another stream, with a grid of nothing, and after a write from the host.
  const Stream other = device.make_stream();
  const BindingRange in_order[] = {out};
  const std::uint32_t step = 1;
  device.write(args, 0, bytes_of(std::vector<std::uint32_t>{0, 1, 1}));
  count.dispatch_indirect(other, in_order, std::as_bytes(std::span(&step, 1)), args);
  device.write(args, 0, bytes_of(std::vector<std::uint32_t>{1, 1, 1}));
  count.dispatch_indirect(other, in_order, std::as_bytes(std::span(&step, 1)), args);
  expected[0] = 6;
  EXPECT_EQ(read_vector<std::uint32_t>(device, out, 20), expected);
}

// A grid over the limit runs nothing, whatever the driver would make of it (gpuweb/gpuweb#323, gfx-rs/wgpu#5714).
TEST(KernelIndirect, GridsOverTheLimitRunNothing) {
  Device& device = test_device();
  const Kernel count = device.kernel({.source = R"(
@group(0) @binding(0) var<storage, read_write> n: array<atomic<u32>>;
@compute @workgroup_size(1) fn main() { atomicAdd(&n[0], 1u); })",
                                      .label = "count all"});
  const std::uint32_t most = device.limits().max_workgroups_per_dimension;
  struct Case {
    std::array<std::uint32_t, 3> grid;
    std::uint32_t ran;
  };
  for (const Case& c : {Case{{3, 2, 1}, 6}, Case{{most, 1, 1}, most}, Case{{most + 1, 1, 1}, 0},
                        Case{{1, most + 1, 1}, 0}, Case{{2, 2, UINT32_MAX}, 0}, Case{{UINT32_MAX, 0, 0}, 0}}) {
    std::vector<std::uint32_t> words(70, 1);  // the grid past the first 256 bytes, and over a boundary of that
    std::copy(c.grid.begin(), c.grid.end(), words.begin() + 63);
    const Buffer args = upload_vector(device, words, kIndirect), n = device.zeros_bytes(4);
    const BindingRange bound[] = {n};
    count.dispatch_indirect(device.stream(), bound, {}, args, std::size_t{63} * 4);
    EXPECT_EQ(read_vector<std::uint32_t>(device, n, 1)[0], c.ran) << c.grid[0] << ' ' << c.grid[1] << ' ' << c.grid[2];
  }
}

TEST(KernelIndirect, BadGridsAreRefused) {
  Device& device = test_device();
  const Kernel count = count_groups(device);
  const Buffer args = device.zeros_bytes(16, kIndirect), out = device.zeros_bytes(80), plain = device.zeros_bytes(16);
  const auto refused = [&](const Buffer& from, std::size_t offset, ErrorCode code,
                           std::initializer_list<std::string_view> parts) {
    expect_error(error_of([&] { count.dispatch_indirect(device.stream(), {{"out", out}}, 1u, from, offset); }), code,
                 parts);
  };
  refused(plain, 0, ErrorCode::invalid_argument, {"count groups", "without indirect"});
  refused(args, 2, ErrorCode::invalid_argument, {"offset 2", "multiple of 4"});
  refused(args, 8, ErrorCode::out_of_range, {"12 bytes from 8", "16"});
  refused(args, SIZE_MAX - 3, ErrorCode::out_of_range, {"which has 16"});
  refused(Buffer(), 0, ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([&] { count.dispatch_indirect(device.stream(), {{"out", args}}, 1u, args, 0); }),
               ErrorCode::invalid_argument, {"'out'", "written"});
  expect_error(error_of([&] { count.dispatch_indirect(device.stream(), {{"out", out}}, 1.0f, args, 0); }),
               ErrorCode::invalid_argument, {"float", "'step'"});
  expect_error(error_of([&] {
                 device.capture([&](const Stream& s) { count.dispatch_indirect(s, {{"out", out}}, 1u, args, 0); });
               }),
               ErrorCode::unsupported, {"count groups", "graph"});
  EXPECT_EQ(read_vector<std::uint32_t>(device, out, 20), std::vector<std::uint32_t>(20, 0));
}

// -- sources -------------------------------------------------------------------------------------------------------

TEST(KernelOverrides, ByNameAndById) {
  Device& device = test_device();
  const std::string source =
      "@id(7) override scale: u32 = 2;\noverride shift: u32 = 1;\n"
      "@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
      "@compute @workgroup_size(1) fn main() { o[0] = scale * 10u + shift; }";
  const Buffer o = device.alloc(4);
  const auto result = [&](std::vector<OverrideValue> values) {
    device.kernel({.source = source, .label = "overrides", .overrides = std::move(values)})(device.stream(), {{"o", o}},
                                                                                            Grid{});
    return read_vector<std::uint32_t>(device, o, 1)[0];
  };
  EXPECT_EQ(result({}), 21u);
  EXPECT_EQ(result({{"scale", 4}}), 41u);
  EXPECT_EQ(result({{"7", 5}}), 51u);
  EXPECT_EQ(result({{"shift", 9}, {"scale", 6}}), 69u);
  expect_error(error_of([&] { result({{"scales", 1}}); }), ErrorCode::invalid_argument,
               {"overrides", "'scales'", "scale, shift"});
  expect_error(error_of([&] { result({{"7", 1}, {"scale", 2}}); }), ErrorCode::invalid_argument, {"'scale'", "twice"});
  for (double v : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    expect_error(error_of([&] { result({{"shift", v}}); }), ErrorCode::invalid_argument, {"'shift'", "finite"});
  }
}

// A value that the type can't hold is named before the compiler sees it (gpuweb/gpuweb#3435).
TEST(KernelOverrides, ValuesAreInTheRangeOfTheirType) {
  Device& device = test_device();
  const auto make = [&](const std::string& declaration, double value) {
    KernelOptions options;
    options.source = declaration +
                     "\n@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n"
                     "@compute @workgroup_size(1) fn main() { y[0] = f32(c); }";
    options.overrides = {{"c", value}};
    return device.kernel(options);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  struct Case {
    const char* declaration;
    std::vector<double> fit, refused;
  };
  for (const Case& c : {Case{"override c: f32;", {3.4e38, -3.4e38, 1e-300, 0}, {1e39, -1e300, infinity}},
                        Case{"override c: i32;", {2147483647.0, -2147483648.0}, {2147483648.0, -2147483649.0, 1e300}},
                        Case{"override c: u32;", {0, 4294967295.0}, {-1, 4294967296.0}},
                        Case{"alias T = u32; override c: T = 3;", {7}, {-1}}, Case{"override c = 4;", {-5}, {3e9}},
                        Case{"override c = 4u;", {5}, {-5}}, Case{"override c: bool = true;", {0, 1, 2}, {infinity}}}) {
    for (const double value : c.fit) EXPECT_NO_THROW(make(c.declaration, value)) << c.declaration << value;
    for (const double value : c.refused) {
      expect_error(error_of([&] { make(c.declaration, value); }), ErrorCode::invalid_argument, {"'c'"});
    }
  }
}

// wgpu-native holds neither against its limits once overrides have their values, and ran 4,096 threads where 1,024 are
// the most (gfx-rs/wgpu#8946).
TEST(KernelOverrides, SizesThatTheyMakeAreLimited) {
  Device& device = test_device();
  const auto make = [&](const std::string& source, double n) {
    KernelOptions options;
    options.source = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n" + source;
    options.overrides = {{"n", n}};
    return device.kernel(options);
  };
  const std::string threads = "@compute @workgroup_size(n * 2) fn main() { y[0] = 1.0; }";
  const std::string memory =
      "var<workgroup> w: array<f32, n>;\n@compute @workgroup_size(1) fn main() { w[0] = 1.0; y[0] = w[0]; }";
  const Limits& limits = device.limits();
  EXPECT_NO_THROW(make("override n: u32 = 4;\n" + threads, limits.max_workgroup_invocations / 2));
  EXPECT_NO_THROW(make("override n: u32 = 4;\n" + memory, limits.max_workgroup_storage / 4));
  for (const char* declaration : {"override n: u32 = 4;\n", "override n: i32;\n", "override n = 4;\n"}) {
    for (const double n : {limits.max_workgroup_storage / 4 + 1.0, 1e9, 0.0}) {
      expect_error(error_of([&] { make(declaration + threads, n); }), ErrorCode::compile_error);
      expect_error(error_of([&] { make(declaration + memory, n); }), ErrorCode::compile_error);
    }
  }
  for (const double n : {4.0, 1e6}) {  // not to be worked out: refused by name, small or large
    expect_error(error_of([&] {
                   make(
                       "override f: f32 = 1; override n: f32;\nconst unused = 1;\n"
                       "@compute @workgroup_size(u32(n)) fn main() { y[0] = 1.0; }",
                       n);
                 }),
                 ErrorCode::compile_error, {"workgroup_size(u32(n))"});
    expect_error(error_of([&] {
                   make(
                       "override n: f32;\nvar<workgroup> w: array<f32, u32(n)>;\n"
                       "@compute @workgroup_size(1) fn main() { w[0] = 1.0; y[0] = w[0]; }",
                       n);
                 }),
                 ErrorCode::compile_error, {"array<f32, u32(n)>"});
  }
}

TEST(KernelOverrides, OneWithoutADefaultMustBeGiven) {
  Device& device = test_device();
  const std::string source =
      "override n: u32;\n@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
      "@compute @workgroup_size(1) fn main() { o[0] = n; }";
  expect_error(error_of([&] { device.kernel({.source = source, .label = "open"}); }), ErrorCode::invalid_argument,
               {"open", "'n' has no default"});
  const Buffer o = device.alloc(4);
  device.kernel({.source = source, .label = "open", .overrides = {{"n", 6}}})(device.stream(), {{"o", o}}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, o, 1)[0], 6u);
}

// What only another entry point uses must be there too, or the module does not compile.
TEST(KernelSources, SeveralEntryPoints) {
  Device& device = test_device();
  const std::string source = R"(
struct Params { n: u32 }
@group(0) @binding(0) var<storage, read_write> o: array<u32>;
@compute @workgroup_size(1) fn plain() { o[0] = 7u; }
@compute @workgroup_size(64) fn indexed(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < params.n) { o[i] = i; }
})";
  const Buffer o = device.zeros_bytes(12);
  device.kernel({.source = source, .entry_point = "plain", .label = "two"})(device.stream(), {{"o", o}}, 0u, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, o, 3), (std::vector<std::uint32_t>{7, 0, 0}));
  device.kernel({.source = source, .entry_point = "indexed", .label = "two"})(device.stream(), {{"o", o}}, 3u,
                                                                              kAutoGrid);
  EXPECT_EQ(read_vector<std::uint32_t>(device, o, 3), (std::vector<std::uint32_t>{0, 1, 2}));
  expect_error(error_of([&] { device.kernel({.source = source, .label = "two"}); }), ErrorCode::compile_error,
               {"two", "no @compute function 'main'", "'plain', 'indexed'"});
  // An entry point that does not use them needs no parameters; half of them are refused all the same.
  const Kernel plain = device.kernel({.source = source, .entry_point = "plain", .label = "two"});
  device.stream().clear(o, 0, 12);
  plain(device.stream(), {{"o", o}}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, o, 1)[0], 7u);
  const std::array<std::byte, 2> half{};
  const BindingRange ranges[] = {o};
  expect_error(error_of([&] { plain.dispatch(device.stream(), ranges, half, Grid{}); }), ErrorCode::invalid_argument,
               {"2 bytes"});
}

// A view of no elements is not all that lies behind it: a binding's size 0 means that.
TEST(KernelBindings, TensorsWithoutElementsAreRefused) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  const Buffer eight = upload_vector(device, std::vector<float>(8, 7));
  const Buffer x = upload_vector(device, std::vector<float>(8, 1));
  const Tensor none(device, eight, Shape{0}, Strides{1}, 0, f32);
  expect_error(error_of([&] { neg(device.stream(), {{"x", x}, {"y", none}}, kAutoGrid); }), ErrorCode::invalid_argument,
               {"(0,)", "no elements"});
  expect_error(error_of([&] { neg(device.stream(), {{"x", x}, {"y", Tensor()}}, kAutoGrid); }),
               ErrorCode::invalid_argument, {"empty"});
  EXPECT_EQ(read_vector<float>(device, eight, 8), std::vector<float>(8, 7));
  expect_error(error_of([] { Tensor().to_host<float>(); }), ErrorCode::invalid_argument, {"empty"});
  EXPECT_TRUE(none.to_host<float>().empty());
}

// Strides of 0 show more elements than there are bytes; so many that their bytes can't be counted are refused.
TEST(KernelBindings, ElementTypesAreToldByWholeWords) {
  Device& device = test_device();
  const auto doubles = [&](const char* declared, const char* type) {
    return device.kernel({.source = std::string(declared) + "@group(0) @binding(0) var<storage, read_write> x: array<" +
                                    type + ">;\n@compute @workgroup_size(1) fn main() { x[0] = x[1]; }",
                          .label = "told"});
  };
  const std::vector<std::uint32_t> values{1, 2, 3, 4};
  const Tensor x = device.upload(std::span(values), {4});
  doubles("struct f32_or_u32 { a: u32, b: u32 }\n", "f32_or_u32")(device.stream(), {{"x", x}}, Grid{});
  EXPECT_EQ(x.to_host<std::uint32_t>(), (std::vector<std::uint32_t>{3, 4, 3, 4}));
  expect_error(error_of([&] { doubles("", "vec2<f32>")(device.stream(), {{"x", x}}, Grid{}); }),
               ErrorCode::invalid_argument, {"told", "'x'", "uint32 given", "'array<vec2<f32>>' declared"});
}

TEST(KernelBindings, TensorsPastSixtyFourBits) {
  Device& device = test_device();
  const Buffer one = device.zeros_bytes(4);
  expect_error(error_of([&] { Tensor(device, one, Shape{INT64_MAX}, Strides{0}, 0, f32); }), ErrorCode::out_of_range,
               {"9223372036854775807", "64 bits"});
  EXPECT_EQ(Tensor(device, one, Shape{1000}, Strides{0}, 0, f32).to_host<float>(), std::vector<float>(1000));
}

// Two variables at one place, each for an entry point of its own.
TEST(KernelSources, EntryPointsMayShareAPlace) {
  Device& device = test_device();
  const std::string source =
      "@group(0) @binding(0) var<storage, read_write> floats: array<f32>;\n"
      "@group(0) @binding(0) var<storage, read_write> words: array<u32>;\n"
      "@compute @workgroup_size(1) fn f() { floats[0] = 1; }\n@compute @workgroup_size(1) fn w() { words[1] = 7; }";
  const Buffer o = device.zeros_bytes(8);
  device.kernel({.source = source, .entry_point = "f", .label = "f"})(device.stream(), {{"floats", o}}, Grid{});
  device.kernel({.source = source, .entry_point = "w", .label = "w"})(device.stream(), {{"words", o}}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, o, 2), (std::vector<std::uint32_t>{0x3f800000u, 7}));
}

// Editors put a byte order mark in front; WGSL has none.
TEST(KernelSources, AByteOrderMarkIsNoPartOfThem) {
  Device& device = test_device();
  const Buffer o = device.alloc(4);
  device.kernel({.source = "\xef\xbb\xbf@group(0) @binding(0) var<storage, read_write> o: array<u32>;\r\n"
                           "@compute @workgroup_size(1) fn main() { o[0] = 3u; }\r\n",
                 .label = "marked"})(device.stream(), {{"o", o}}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, o, 1)[0], 3u);
}

// `subgroups` in a list, and in comments in front of the directive.
TEST(KernelSources, SubgroupsAreEnabledInAnyForm) {
  Device& device = test_device();
  if (!device.features().subgroups) GTEST_SKIP() << "no subgroups on this device";
  const Buffer o = device.alloc(4);
  std::vector<std::string> heads{"// enable subgroups; comes next\nenable subgroups;", "enable /* all */ subgroups;"};
  if (device.features().f16) heads.insert(heads.end(), {"enable f16, subgroups;", "enable subgroups, f16,;"});
  for (const std::string& head : heads) {
    device.kernel({.source = head + "\n@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
                                    "@compute @workgroup_size(1) fn main() { o[0] = subgroupAdd(5u); }",
                   .label = "joined"})(device.stream(), {{"o", o}}, Grid{});
    EXPECT_EQ(read_vector<std::uint32_t>(device, o, 1)[0], 5u) << head;
  }
}

TEST(KernelSources, ConstantsMayEndInAComment) {
  Device& device = test_device();
  const Buffer o = device.alloc(4);
  device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> o: array<T>;\n"
                           "@compute @workgroup_size(1) fn main() { o[0] = N; } // the end",
                 .label = "commented",
                 .constants = {{"N", "u32", "4 // four"}, {"T", "alias", "u32 // words"}}})(device.stream(), {{"o", o}},
                                                                                            Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, o, 1)[0], 4u);
}

// What a compiler finds only after parsing is shown at the user's own line too, also where lines were put in front.
TEST(KernelSources, LateErrorsHaveTheirPlace) {
  Device& device = test_device();
  for (const bool directive : {false, true}) {
    if (directive && !device.features().f16) continue;
    const std::string source = std::string("@group(0) @binding(0) var<storage> o: array<f32>;\n") +
                               "@compute @workgroup_size(1) fn main() {\n" +
                               (directive ? "  _ = f16(1);\n" : "  _ = 1;\n") + "  o[0] = 3;\n}";
    expect_error(error_of([&] { device.kernel({.source = source, .label = "late.wgsl"}); }), ErrorCode::compile_error,
                 {"late.wgsl:4:", "\n      o[0] = 3;\n      ", "^\n", "at the caret"});
  }
}

// Workgroup memory has a limit that wgpu-native does not check.
// Lines by every line break that WGSL has, columns in characters, a caret below its place, also on a line too long to
// show; and what Weft adds behind the source is told apart from it.
TEST(KernelSources, ErrorsHaveTheirPlace) {
  Device& device = test_device();
  const auto error = [&](const std::string& source, const std::vector<PreludeConstant>& constants = {}) {
    KernelOptions options;
    options.source = source;
    options.label = "k";
    options.constants = constants;
    const Error e = error_of([&] { device.kernel(options); });
    EXPECT_EQ(e.code(), ErrorCode::compile_error) << e.what();
    return e;
  };
  const std::string head = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;";
  for (const std::string line_break : {"\n", "\r\n", "\r", "\v", "\f", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"}) {
    const Error e = error(head + line_break + line_break + "@compute @workgroup_size(1) fn main() {" + line_break +
                          " let v = nowhere;" + line_break + "}");
    EXPECT_TRUE(e.message().starts_with("k:4:10: ")) << e.what();
    EXPECT_NE(std::string(e.what()).find("     let v = nowhere;\n             ^\n"), std::string::npos) << e.what();
  }
  const Error wide =
      error(head + "\n@compute @workgroup_size(1) fn main() {\n/* \xc3\xa9\xe4\xb8\xad */ y[0] = nowhere; }");
  EXPECT_TRUE(wide.message().starts_with("k:3:17: ")) << wide.what();
  EXPECT_NE(std::string(wide.what()).find("\n" + std::string(4 + 16, ' ') + "^\n"), std::string::npos) << wide.what();

  std::string chain = "y[0] = 1.0";
  for (int i = 0; i < 200; ++i) chain += " + 1.0";
  const Error lengthy =
      error(head + "\n@compute @workgroup_size(1) fn main() { " + chain + " + nowhere" + chain.substr(10) + "; }");
  EXPECT_LT(lengthy.message().size(), 600u) << lengthy.what();
  EXPECT_NE(lengthy.message().find("nowhere + 1.0"), std::string::npos) << lengthy.what();

  for (const PreludeConstant& constant : {PreludeConstant{"N", "u32", "nowhere"}, PreludeConstant{"N", "nosuch", "1"},
                                          PreludeConstant{"N", "u32", "1.5"}, PreludeConstant{"var", "u32", "1"}}) {
    const Error e = error(head + "\n@compute @workgroup_size(1) fn main() { y[0] = 1.0; }\n", {constant});
    EXPECT_NE(e.message().find("const " + constant.name + ": " + constant.type), std::string::npos) << e.what();
    EXPECT_NE(e.fix().find("KernelOptions::constants"), std::string::npos) << e.what();
  }
}

// What Weft lets through of nested and long sources, the compiler takes or refuses; it does not end the process
// (gfx-rs/wgpu#5759).
TEST(KernelSources, DeepSourcesEndInAKernelOrAnError) {
  Device& device = test_device();
  const auto repeat = [](const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  for (const std::string& expression :
       {repeat("(", 240) + "1.0" + repeat(")", 240), repeat("sin(", 110) + "y[0]" + repeat(")", 110),
        repeat("y[0] + ", 900) + "1.0", repeat("- ", 2000) + "1.0",
        repeat("(y[0] + ", 110) + "1.0" + repeat(" + 1.0 + 1.0 + 1.0)", 110)}) {
    KernelOptions options;
    options.source =
        "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n"
        "@compute @workgroup_size(1) fn main() { y[0] = " +
        expression + "; }";
    try {
      device.kernel(options);
    } catch (const Error& e) {
      expect_error(e, ErrorCode::compile_error);
    }
  }
}

TEST(KernelSources, WorkgroupMemoryIsLimited) {
  Device& device = test_device();
  const std::uint64_t most = device.limits().max_workgroup_storage;
  const auto make = [&](std::uint64_t bytes) {
    return device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
                                    "var<workgroup> w: array<u32, N>;\n"
                                    "@compute @workgroup_size(1) fn main() { w[N - 1] = o[0]; o[1] = w[N - 1]; }",
                          .label = "wide",
                          .constants = {{"N", "u32", std::to_string(bytes / 4)}}});
  };
  const Buffer o = upload_vector<std::uint32_t>(device, {9, 0});
  make(most)(device.stream(), {{"o", o}}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, o, 2)[1], 9u);
  expect_error(error_of([&] { make(most + 16); }), ErrorCode::compile_error,
               {"wide", std::to_string(most + 16), std::to_string(most)});
}

TEST(KernelSources, OwnImmediatesAreRefused) {
  Device& device = test_device();
  expect_error(error_of([&] {
                 device.kernel({.source = "struct Params { n: u32 }\nvar<immediate> params: Params;\n"
                                          "@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
                                          "@compute @workgroup_size(1) fn main() { o[0] = params.n; }",
                                .label = "own"});
               }),
               ErrorCode::compile_error, {"own", "2:16", "'params'", "'immediate'", "struct Params"});
}

TEST(KernelSources, FilesThatCannotBeRead) {
  Device& device = test_device();
  const std::filesystem::path folder = ::testing::TempDir();
  expect_error(error_of([&] { device.kernel({.source = {}, .file = folder / "weft_no_such.wgsl"}); }),
               ErrorCode::io_error, {"weft_no_such.wgsl", "No such file"});
  expect_error(error_of([&] { device.kernel({.source = {}, .file = folder}); }), ErrorCode::io_error,
               {folder.string(), "directory"});
  const std::filesystem::path empty = folder / "weft_empty.wgsl";
  std::ofstream(empty).flush();
  expect_error(error_of([&] { device.kernel({.source = {}, .file = empty}); }), ErrorCode::io_error,
               {"weft_empty.wgsl", "empty"});
  const std::filesystem::path broken = folder / "weft_broken.wgsl";
  std::ofstream(broken) << "@compute @workgroup_size(1) fn main() {\n  let a = nothing;\n}";
  expect_error(error_of([&] { device.kernel({.source = {}, .file = broken}); }), ErrorCode::compile_error,
               {broken.string() + ":2:"});
  std::filesystem::remove(empty);
  std::filesystem::remove(broken);
}

}  // namespace
}  // namespace weft::testing
