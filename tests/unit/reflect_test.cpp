// What dispatch/reflect reads from WGSL. Sizes, alignments and offsets are worked out by hand from WGSL's section
// "Memory Layout". Needs no device.
#include "dispatch/reflect.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "weft/error.h"

namespace weft::dispatch {
namespace {

constexpr std::string_view kMain = "@compute @workgroup_size(1) fn main() {}\n";

Reflection reflect_source(const std::string& source, std::string_view entry = "main",
                          const std::vector<PreludeConstant>& constants = {},
                          const std::vector<OverrideValue>& overrides = {}) {
  return reflect(source, entry, constants, overrides, "k");
}

// The one binding of `declarations`.
ReflectedBinding only_binding(const std::string& declarations, const std::vector<PreludeConstant>& constants = {},
                              const std::vector<OverrideValue>& overrides = {}) {
  const Reflection r = reflect_source(declarations + "\n" + std::string(kMain), "main", constants, overrides);
  EXPECT_EQ(r.bindings.size(), 1u) << declarations;
  return r.bindings.empty() ? ReflectedBinding{} : r.bindings[0];
}

BindingInfo storage_of(const std::string& type, const std::string& before = "",
                       const std::vector<PreludeConstant>& constants = {}) {
  return only_binding(before + "@group(0) @binding(0) var<storage> x: " + type + ";", constants).info;
}

// The first multiple of the type's alignment past 2 bytes: the alignment itself, from 2 up.
std::uint64_t offset_after_f16(const std::string& type) {
  const Reflection r = reflect_source("struct Params { a: f16, b: " + type + " }\n" + std::string(kMain));
  return r.params.at(1).offset;
}

// The message of the error that `source` causes.
std::string failure(const std::string& source, std::string_view entry = "main",
                    const std::vector<PreludeConstant>& constants = {}) {
  try {
    reflect_source(source, entry, constants);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::compile_error);
    EXPECT_FALSE(e.fix().empty());
    return e.message();
  }
  ADD_FAILURE() << "no error from: " << source;
  return {};
}

void expect_failure(const std::string& source, const std::string& place, const std::string& part) {
  const std::string message = failure(source);
  EXPECT_TRUE(message.starts_with("kernel 'k': " + place + ": ")) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

std::optional<std::uint32_t> workgroup_x(const std::string& argument, const std::string& before = "",
                                         const std::vector<PreludeConstant>& constants = {},
                                         const std::vector<OverrideValue>& overrides = {}) {
  return reflect_source(before + "@compute @workgroup_size(" + argument + ") fn main() {}", "main", constants,
                        overrides)
      .workgroup_size[0];
}

struct TypeCase {
  const char* type;
  std::uint64_t size;
  std::uint64_t align;
};

TEST(ReflectLayout, EveryBuiltinType) {
  const TypeCase cases[] = {
      {"i32", 4, 4},           {"u32", 4, 4},           {"f32", 4, 4},           {"f16", 2, 2},
      {"atomic<u32>", 4, 4},   {"atomic<i32>", 4, 4},   {"vec2<f32>", 8, 8},     {"vec3<f32>", 12, 16},
      {"vec4<f32>", 16, 16},   {"vec2f", 8, 8},         {"vec3f", 12, 16},       {"vec4f", 16, 16},
      {"vec2i", 8, 8},         {"vec3i", 12, 16},       {"vec4i", 16, 16},       {"vec2u", 8, 8},
      {"vec3u", 12, 16},       {"vec4u", 16, 16},       {"vec2h", 4, 4},         {"vec3h", 6, 8},
      {"vec4h", 8, 8},         {"vec3<f16>", 6, 8},     {"vec2<i32>", 8, 8},     {"vec3<u32>", 12, 16},
      {"mat2x2<f32>", 16, 8},  {"mat2x3<f32>", 32, 16}, {"mat2x4<f32>", 32, 16}, {"mat3x2<f32>", 24, 8},
      {"mat3x3<f32>", 48, 16}, {"mat3x4<f32>", 48, 16}, {"mat4x2<f32>", 32, 8},  {"mat4x3<f32>", 64, 16},
      {"mat4x4<f32>", 64, 16}, {"mat2x2f", 16, 8},      {"mat3x3f", 48, 16},     {"mat4x4f", 64, 16},
      {"mat2x2<f16>", 8, 4},   {"mat2x3h", 16, 8},      {"mat2x4h", 16, 8},      {"mat3x2h", 12, 4},
      {"mat3x3h", 24, 8},      {"mat3x4h", 24, 8},      {"mat4x2h", 16, 4},      {"mat4x3h", 32, 8},
      {"mat4x4<f16>", 32, 8},
  };
  for (const TypeCase& c : cases) {
    const BindingInfo info = storage_of(c.type);
    EXPECT_EQ(info.min_size, c.size) << c.type;
    EXPECT_EQ(info.element_size, 0u) << c.type;
    EXPECT_EQ(info.type, c.type);
    EXPECT_EQ(offset_after_f16(c.type), c.align) << c.type;
  }
}

TEST(ReflectLayout, FixedArrays) {
  EXPECT_EQ(storage_of("array<f32, 4>").min_size, 16u);
  EXPECT_EQ(storage_of("array<vec3<f32>, 4>").min_size, 64u);
  EXPECT_EQ(storage_of("array<f16, 3>").min_size, 6u);
  EXPECT_EQ(storage_of("array<vec3h, 3>").min_size, 24u);
  EXPECT_EQ(storage_of("array<array<f32, 3>, 5>").min_size, 60u);
  EXPECT_EQ(storage_of("array<mat3x3<f32>, 2>").min_size, 96u);
  EXPECT_EQ(storage_of("array<atomic<u32>, 7>").min_size, 28u);
  EXPECT_EQ(offset_after_f16("array<vec4<f32>, 2>"), 16u);
  EXPECT_EQ(storage_of("array<f32, 4,>").min_size, 16u);
}

TEST(ReflectLayout, RuntimeArrays) {
  EXPECT_EQ(storage_of("array<f32>").min_size, 4u);
  EXPECT_EQ(storage_of("array<f32>").element_size, 4u);
  EXPECT_EQ(storage_of("array<f16>").element_size, 2u);
  EXPECT_EQ(storage_of("array<vec3<f32>>").min_size, 16u);
  EXPECT_EQ(storage_of("array<vec3<f32>>").element_size, 16u);
  EXPECT_EQ(storage_of("array<vec4<f32>>").element_size, 16u);
  EXPECT_EQ(storage_of("array<array<u32, 5>>").element_size, 20u);
  EXPECT_EQ(storage_of("array<S>", "struct S { a: vec3<f32>, b: f32, c: u32 }").element_size, 32u);
}

TEST(ReflectLayout, RuntimeArrayAtTheEndOfAStructure) {
  const BindingInfo a = storage_of("S", "struct S { n: atomic<u32>, data: array<u32> }");
  EXPECT_EQ(a.min_size, 8u);
  EXPECT_EQ(a.element_size, 4u);
  const BindingInfo b = storage_of("S", "struct S { n: u32, data: array<vec4<f32>> };");
  EXPECT_EQ(b.min_size, 32u);
  EXPECT_EQ(b.element_size, 16u);
  // SizeOf with one element: 16 + 4, rounded up to the structure's alignment of 16.
  EXPECT_EQ(storage_of("S", "struct S { v: vec4<f32>, data: array<f32> }").min_size, 32u);
}

// The first example of the specification's section "Structure Member Layout".
TEST(ReflectLayout, NestedStructures) {
  const std::string before =
      "struct A { u: f32, v: f32, w: vec2<f32>, x: f32 }\n"
      "struct B { a: vec2<f32>, b: vec3<f32>, c: f32, d: f32, e: A, f: vec3<f32>, g: array<A, 3>, h: i32 }\n";
  EXPECT_EQ(storage_of("A", before).min_size, 24u);
  EXPECT_EQ(storage_of("B", before).min_size, 160u);
  const Reflection r = reflect_source(
      "struct A { u: f32, v: f32, w: vec2<f32>, x: f32 }\n"
      "struct Params { a: vec2<f32>, b: vec3<f32>, c: f32, d: f32, e: A,\n"
      "  f: vec3<f32>, g: array<A, 3>, h: i32 }\n" +
      std::string(kMain));
  const std::uint32_t offsets[] = {0, 16, 28, 32, 40, 64, 80, 152};
  ASSERT_EQ(r.params.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(r.params[i].offset, offsets[i]) << i;
  EXPECT_EQ(r.params_size, 160u);
  EXPECT_FALSE(r.params_scalars_only);
}

// The second example of that section: the same with @size and @align.
TEST(ReflectLayout, SizeAndAlignAttributes) {
  const Reflection r = reflect_source(
      "struct A { u: f32, v: f32, w: vec2<f32>, @size(16) x: f32 }\n"
      "struct Params { a: vec2<f32>, @align(16) b: vec3<f32>, c: f32, d: f32, @align(16) e: A, f: vec3<f32>,\n"
      "  @align(16) g: array<A, 3>, h: i32, }\n" +
      std::string(kMain));
  const std::uint32_t offsets[] = {0, 16, 28, 32, 48, 80, 96, 192};
  ASSERT_EQ(r.params.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(r.params[i].offset, offsets[i]) << i;
  EXPECT_EQ(r.params_size, 208u);
  EXPECT_EQ(r.params[4].size, 32u);

  const Reflection s = reflect_source("const K = 8; struct Params { @size(2 * K) a: u32, @align(K) @size(K) b: u32 }" +
                                      std::string(kMain));
  EXPECT_EQ(s.params[0].size, 4u);  // the member's own bytes, without its padding
  EXPECT_EQ(s.params[1].offset, 16u);
  EXPECT_EQ(s.params_size, 24u);
}

TEST(ReflectLayout, AliasesAndTheirOrder) {
  EXPECT_EQ(storage_of("V", "alias V = array<T>; alias T = vec4<F>; alias F = f32;").element_size, 16u);
  EXPECT_EQ(storage_of("V", "alias V = array<T>; alias T = vec4<F>; alias F = f32;").type, "V");
  EXPECT_EQ(storage_of("array<S, 2>", "alias S = R; struct R { a: u32, b: f16 }").min_size, 16u);
  EXPECT_EQ(storage_of("array<vec2f>", "alias vec2f = f16;").element_size, 2u);
}

TEST(ReflectPrelude, ConstantsAndAliases) {
  EXPECT_EQ(storage_of("array<f32, TILE * TILE>", "", {{"TILE", "u32", "16"}}).min_size, 1024u);
  EXPECT_EQ(storage_of("array<T>", "", {{"T", "alias", "vec3<f16>"}}).element_size, 8u);
  EXPECT_EQ(storage_of("array<T>", "", {{"T", "alias", " array< f32 , N > "}, {"N", "i32", "(3 + 2)"}}).min_size, 20u);
  EXPECT_EQ(workgroup_x("TILE / 2", "", {{"TILE", "u32", "16u"}}), 8u);
  EXPECT_EQ(workgroup_x("TILE", "", {{"TILE", "f32", "16"}}), std::nullopt);
  EXPECT_EQ(failure(std::string(kMain), "main", {{"T", "alias", "array<f32"}}),
            "kernel 'k': value of constant 'T': 1:6: expected the end of the type, found '<'");
  EXPECT_EQ(failure("@group(0) @binding(0) var<storage> x: T;" + std::string(kMain), "main", {{"T", "alias", "bool"}}),
            "kernel 'k': value of constant 'T': 1:1: type 'bool' is not host-shareable");
}

TEST(ReflectBindings, AccessAndAddressSpace) {
  const Reflection r = reflect_source(
      "@group(0) @binding(3) var<uniform> u: vec4<f32>;\n"
      "@group(0) @binding(0) var<storage> a: array<f32>;\n"
      "@group(1) @binding(0) var<storage, read> b: array<f32>;\n"
      "@group(0) @binding(1) var<storage, read_write> c: array<f32>;\n"
      "@group(0) @binding(2) var < storage , read_write , > d : array < vec4 < f32 > > ;\n"
      "var<private> p: i32 = 3;\n"
      "var<workgroup> w: array<vec4<bool>, 4>;\n" +
      std::string(kMain));
  ASSERT_EQ(r.bindings.size(), 5u);
  const char* names[] = {"a", "c", "d", "u", "b"};
  const bool writable[] = {false, true, true, false, false};
  const std::uint32_t groups[] = {0, 0, 0, 0, 1};
  const std::uint32_t bindings[] = {0, 1, 2, 3, 0};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(r.bindings[i].info.name, names[i]);
    EXPECT_EQ(r.bindings[i].info.writable, writable[i]) << names[i];
    EXPECT_EQ(r.bindings[i].group, groups[i]) << names[i];
    EXPECT_EQ(r.bindings[i].info.binding, bindings[i]) << names[i];
    EXPECT_EQ(r.bindings[i].info.uniform, i == 3) << names[i];
  }
  EXPECT_EQ(r.bindings[2].info.type, "array<vec4<f32>>");
}

TEST(ReflectBindings, AttributesInAnyOrderAndShape) {
  const std::string rest = "var<storage> x: array<f32>;";
  for (const char* attributes :
       {"@group(1) @binding(2) ", "@binding(2) @group(1) ", "@binding(2)@group(1)", "@ group ( 1 ) @\nbinding(2u,)\n",
        "@group(0x1)/*,*/@binding(1 + 1) ", "@group(1i) // @binding(9)\n @binding(TWO) "}) {
    const ReflectedBinding b = only_binding("const TWO = 2; " + std::string(attributes) + rest);
    EXPECT_EQ(b.group, 1u) << attributes;
    EXPECT_EQ(b.info.binding, 2u) << attributes;
  }
}

TEST(ReflectText, CommentsBetweenTokens) {
  const ReflectedBinding b = only_binding(
      "/* a /* nested */ one */ @group /**/ ( /* zero */ 0 ) // to the end } /*\n"
      "@binding(0) var<storage /* , read_write */> /*/ x */ data /* : */ : array</* bool */ vec4<f32>/**/>/**/;");
  EXPECT_EQ(b.info.name, "data");
  EXPECT_EQ(b.info.type, "array<vec4<f32>>");
  EXPECT_FALSE(b.info.writable);
}

TEST(ReflectText, TemplatesAgainstComparisons) {
  EXPECT_EQ(storage_of("array<vec4<f32>>").element_size, 16u);
  EXPECT_EQ(storage_of("array < vec4 < f32 > >").type, "array<vec4<f32>>");
  EXPECT_EQ(storage_of("array<f32, (32 >> 2)>").min_size, 32u);
  EXPECT_EQ(storage_of("array<f32, 1 << 3>").min_size, 32u);
  EXPECT_EQ(storage_of("array<f32, N << 3>", "const N = 2;").min_size, 64u);
  EXPECT_EQ(storage_of("array<array<f32, 2>, 3>").min_size, 24u);
  // `>=` after a template list, comparisons that look like one, and a shift by assignment.
  const Reflection r = reflect_source(
      "const a:array<u32,2>=array<u32,2>(1,2);\n"
      "const b = select(1, 2, 3<4);\n"
      "var<private> v:vec2<u32>=vec2<u32>(1,2);\n"
      "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
      "@compute @workgroup_size(4) fn main() { let n = 3; let m = 2;\n"
      "  if (n < m && m > n) { x[0] >>= 1u; } if n<m { return; } let t = array<vec2<u32>,2>(); x[1]<<=2u; }\n");
  EXPECT_EQ(r.bindings.size(), 1u);
  EXPECT_TRUE(r.bindings[0].used);
  EXPECT_EQ(r.workgroup_size[0], 4u);
}

TEST(ReflectText, UnicodeNames) {
  const Reflection r = reflect_source(
      "@group(0) @binding(0) var<storage> größe: array<f32>;\xe2\x80\xa8"  // ends in U+2028, a line break
      "@compute @workgroup_size(1) fn 実行() { _ = größe[0]; }",
      "実行");
  EXPECT_EQ(r.bindings[0].info.name, "größe");
  EXPECT_TRUE(r.bindings[0].used);
  EXPECT_EQ(r.entry_points, std::vector<std::string>{"実行"});
}

TEST(ReflectText, EveryKindOfDeclaration) {
  const Reflection r = reflect_source(
      "enable f16, subgroups;\nrequires packed_4x8_integer_dot_product;\n"
      "diagnostic(off, derivative_uniformity);\n;\n"
      "const_assert 1 < 2;\nconst_assert(sizeof == 3);\n"
      "@id(7) override scale: f32 = 1.5e-3;\noverride flag = true;\n"
      "struct S { @align(16) a: f32, };\nstruct T { a: f32 }\n"
      "@must_use fn helper(@x a: f32, b: ptr<function, array<f32, 4>>) -> @y vec4<f32> { return vec4<f32>(a); }\n"
      "@fragment fn shade() -> @location(0) vec4f { return vec4f(); }\n"
      "@workgroup_size(8, 4) @compute fn main(@builtin(global_invocation_id) id: vec3<u32>) "
      "@diagnostic(off, a.b) { switch id.x { case 0: { } default: { } } }\n");
  EXPECT_TRUE(r.enables_f16);
  EXPECT_TRUE(r.enables_subgroups);
  EXPECT_EQ(r.entry_points, std::vector<std::string>{"main"});
  EXPECT_EQ(r.workgroup_size[0], 8u);
  EXPECT_EQ(r.workgroup_size[1], 4u);
  EXPECT_EQ(r.workgroup_size[2], 1u);
}

constexpr const char* kThree =
    "@group(0) @binding(0) var<storage> a: array<f32>;\n"
    "@group(0) @binding(1) var<storage> b: array<f32>;\n"
    "@group(0) @binding(2) var<storage, read_write> c: array<f32>;\n"
    "struct S { a: f32, params: f32 }\n"
    "struct Params { n: u32 }\n"
    "fn last() -> f32 { return deep(); }\n"
    "fn deep() -> f32 { return b[params.n]; }\n"
    "fn loops() { loops(); again(); }\nfn again() { loops(); _ = a[0]; }\n"
    "fn shadow(a: f32, params: u32) -> f32 { return a + f32(params); }\n"
    "@compute @workgroup_size(1) fn one() { c[0] = a[0]; }\n"
    "@compute @workgroup_size(2, 3) fn two(@builtin(global_invocation_id) id: vec3u) {\n"
    "  if (linear_index(id) < 1) { c[0] = last(); } }\n"
    "@compute @workgroup_size(4, 5, 6) fn three() { var s: S; s.a = 1.0; s . params = s.a; loops2(); }\n"
    "fn loops2() { c[1] = shadow(1, 2); }\n"
    "@compute @workgroup_size(1) fn four() { loops(); }\n";

std::string used_by(std::string_view entry) {
  std::string names;
  for (const ReflectedBinding& b : reflect_source(kThree, entry).bindings) {
    if (b.used) names += b.info.name;
  }
  return names;
}

TEST(ReflectUse, EachEntryPointHasItsOwnSubset) {
  EXPECT_EQ(used_by("one"), "ac");
  EXPECT_EQ(used_by("two"), "bc");
  EXPECT_EQ(used_by("three"), "c");
  EXPECT_EQ(used_by("four"), "a");
  EXPECT_FALSE(reflect_source(kThree, "one").uses_params);
  EXPECT_TRUE(reflect_source(kThree, "two").uses_params);
  EXPECT_FALSE(reflect_source(kThree, "three").uses_params);
  EXPECT_FALSE(reflect_source(kThree, "one").uses_linear_index);
  EXPECT_TRUE(reflect_source(kThree, "two").uses_linear_index);
  EXPECT_FALSE(reflect_source(kThree, "two").declares_linear_index);
  EXPECT_TRUE(reflect_source(kThree, "one").names_params);
  EXPECT_TRUE(reflect_source(kThree, "one").names_linear_index);
  EXPECT_FALSE(reflect_source(std::string(kMain) + "fn f() { _ = a.params + b.linear_index; }").names_params);
  EXPECT_EQ(reflect_source(kThree, "three").entry_points, (std::vector<std::string>{"one", "two", "three", "four"}));
  EXPECT_EQ(reflect_source(kThree, "three").workgroup_size[2], 6u);
  EXPECT_EQ(reflect_source(kThree, "two").workgroup_size_text, (std::array<std::string, 3>{"2", "3", "1"}));
}

// WGSL: variables may share a place as long as no entry point uses two of them.
TEST(ReflectUse, EntryPointsMayShareAPlace) {
  const std::string source =
      "@group(0) @binding(0) var<storage, read_write> floats: array<f32>;\n"
      "@group(0) @binding(0) var<storage, read_write> words: array<u32>;\n"
      "@group(0) @binding(0) var<storage> neither: array<u32>;\n"
      "@compute @workgroup_size(1) fn f() { floats[0] = 1; }\n@compute @workgroup_size(1) fn w() { words[0] = 1; }";
  for (const auto& [entry, name] : {std::pair("f", "floats"), std::pair("w", "words")}) {
    std::vector<std::string> used;
    for (const ReflectedBinding& b : reflect_source(source, entry).bindings) {
      if (b.used) used.push_back(b.info.name);
    }
    EXPECT_EQ(used, std::vector<std::string>{name});
  }
}

// Each var<workgroup> that the entry point uses, rounded up to 16 bytes, as WebGPU counts them.
TEST(ReflectUse, WorkgroupMemory) {
  const auto bytes = [](const std::string& text, const std::vector<OverrideValue>& overrides = {}) {
    return reflect_source(text, "main", {{"N", "u32", "10"}}, overrides).workgroup_storage;
  };
  const std::string main = "@compute @workgroup_size(1) fn main() { _ = a[0]; f(); } fn f() { _ = b; }\n";
  EXPECT_EQ(bytes(std::string(kMain) + "var<workgroup> a: array<u32, 100>;"), 0u);
  EXPECT_EQ(bytes(main + "var<workgroup> a: array<u32, 5>; var<workgroup> b: f32;"), 32u + 16);
  EXPECT_EQ(bytes(main + "var<workgroup> a: array<vec3f, N>; var<workgroup> b: bool;"), 160u + 16);
  EXPECT_EQ(bytes(main + "struct S { x: vec2<bool>, y: atomic<u32> } var<workgroup> a: array<S, 4>;"), 64u);
  EXPECT_EQ(bytes(main + "override W = 4; var<workgroup> a: array<f32, W * 2>;"), 32u);
  EXPECT_EQ(bytes(main + "override W = 4; var<workgroup> a: array<f32, W * 2>;", {{"W", 100}}), 800u);
  EXPECT_EQ(bytes(main + "var<workgroup> a: array<u32, u32(5.5)>; var<workgroup> b: array<f32, 4>;"), 16u)
      << "a length that is left to the compiler";
}

TEST(ReflectUse, OwnLinearIndex) {
  const Reflection r = reflect_source(
      "fn linear_index(id: vec3u) -> u32 { return id.x; }\n"
      "@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3u) { _ = linear_index(id); }");
  EXPECT_TRUE(r.declares_linear_index);
  EXPECT_TRUE(r.uses_linear_index);
}

TEST(ReflectParams, ScalarsAndVectors) {
  const Reflection r =
      reflect_source("alias F = f32; struct Params { n: u32, alpha: F, lo: vec2<F>, k: vec3i }\n" + std::string(kMain));
  ASSERT_EQ(r.params.size(), 4u);
  EXPECT_EQ(r.params[0].name, "n");
  EXPECT_EQ(r.params[1].type, "f32");
  EXPECT_EQ(r.params[2].type, "vec2<f32>");
  EXPECT_EQ(r.params[2].offset, 8u);
  EXPECT_EQ(r.params[3].offset, 16u);
  EXPECT_EQ(r.params[3].size, 12u);
  EXPECT_EQ(r.params_size, 32u);
  EXPECT_TRUE(r.params_scalars_only);
  EXPECT_FALSE(r.params_declared_by_user);
}

TEST(ReflectParams, NotOnlyScalars) {
  for (const char* type : {"f16", "vec2h", "mat2x2f", "array<f32, 2>", "S"}) {
    const Reflection r = reflect_source("struct S { a: f32 } struct Params { n: u32, x: " + std::string(type) + " }\n" +
                                        std::string(kMain));
    EXPECT_FALSE(r.params_scalars_only) << type;
  }
  const Reflection none = reflect_source(std::string(kMain));
  EXPECT_TRUE(none.params.empty());
  EXPECT_EQ(none.params_size, 0u);
  EXPECT_FALSE(none.params_scalars_only);
}

TEST(ReflectParams, DeclaredByTheUser) {
  const Reflection r = reflect_source(
      "struct Params { n: u32, m: vec2<u32> }\n@group(0) @binding(0) var<uniform> params: Params;\n"
      "@compute @workgroup_size(1) fn main() { _ = params.n; }");
  EXPECT_TRUE(r.params_declared_by_user);
  EXPECT_TRUE(r.uses_params);
  ASSERT_EQ(r.bindings.size(), 1u);
  EXPECT_EQ(r.bindings[0].info.min_size, 16u);
  EXPECT_TRUE(r.bindings[0].used);
  EXPECT_TRUE(r.params.empty());
}

TEST(ReflectWorkgroupSize, Numbers) {
  EXPECT_EQ(workgroup_x("8"), 8u);
  EXPECT_EQ(workgroup_x("8u"), 8u);
  EXPECT_EQ(workgroup_x("0x1F"), 31u);
  EXPECT_EQ(workgroup_x("0x10u"), 16u);
  EXPECT_EQ(workgroup_x("8i,"), 8u);
  EXPECT_EQ(workgroup_x("2 + 3 * 4"), 14u);
  EXPECT_EQ(workgroup_x("(2 + 3) * 4 % 7"), 6u);
  EXPECT_EQ(workgroup_x("100 / 8 - 2 - 1"), 9u);
  EXPECT_EQ(workgroup_x("-(-64)"), 64u);
  EXPECT_EQ(workgroup_x("1 << 6u"), 64u);
  EXPECT_EQ(workgroup_x("(7 & 12) | (1 ^ 3)"), 6u);
  EXPECT_EQ(workgroup_x("min(64, max(W, 3u))", "const W = 32u;"), 32u);
  EXPECT_EQ(workgroup_x("U(4) * u32(2i)", "alias U = u32;"), 8u);
  EXPECT_EQ(workgroup_x("~0xfffffff0u"), 15u);
}

TEST(ReflectWorkgroupSize, WhatIsNotANumber) {
  for (const char* text : {"8.0",
                           "1e2",
                           "1 / 0",
                           "1 % 0",
                           "4294967296u",
                           "4294967295u + 1u",
                           "2147483647i + 1i",
                           "9223372036854775807 + 1",
                           "99999999999999999999",
                           "1u + 1i",
                           "-1u",
                           "1 << 64",
                           "1u << 32",
                           "-9223372036854775808 / -1",
                           "select(1, 2, true)",
                           "unknown",
                           "8 8",
                           "true",
                           "1 +",
                           "1 && 2"}) {
    EXPECT_EQ(workgroup_x(text), std::nullopt) << text;
  }
  EXPECT_EQ(workgroup_x("A", "const A = B; const B = A;"), std::nullopt);
  EXPECT_EQ(workgroup_x("A", "const A = A + 1;"), std::nullopt);
  EXPECT_EQ(workgroup_x("u32(F / 2)", "const F: f32 = 3;"), std::nullopt);
  EXPECT_EQ(workgroup_x("A", "const A: u32 = -1;"), std::nullopt);
}

TEST(ReflectWorkgroupSize, Overrides) {
  EXPECT_EQ(workgroup_x("W", "override W: u32 = 64;"), 64u);
  EXPECT_EQ(workgroup_x("W", "override W: u32 = 64;", {}, {{"W", 32.0}}), 32u);
  EXPECT_EQ(workgroup_x("W * 2", "@id(3) override W: u32;", {}, {{"W", 8.0}}), 16u);
  EXPECT_EQ(workgroup_x("W * 2", "@id(3) override W: u32;", {}, {{"3", 8.0}}), 16u);
  EXPECT_EQ(workgroup_x("W", "override W: u32;"), std::nullopt);
  EXPECT_EQ(workgroup_x("W", "override W = H / 2; override H = 10;", {}, {{"H", 24.0}}), 12u);
  EXPECT_EQ(workgroup_x("W", "override W = 8u;", {}, {{"W", 4.0}}), 4u);
  EXPECT_EQ(workgroup_x("W", "override W: u32 = 8;", {}, {{"W", -4.0}}), std::nullopt);
  EXPECT_EQ(workgroup_x("W", "override W: u32 = 8;", {}, {{"W", 1e300}}), std::nullopt);
  EXPECT_EQ(workgroup_x("W", "override W: u32 = 8;", {}, {{"W", std::numeric_limits<double>::quiet_NaN()}}),
            std::nullopt);
  EXPECT_EQ(workgroup_x("W", "override W = 1.5;", {}, {{"W", 4.0}}), std::nullopt);
  const Reflection r = reflect_source(
      "override W: u32;\n@compute @workgroup_size( W  /* x */ *2 , min( W,4 ) ) fn main() {}", "main", {}, {{"W", 3}});
  EXPECT_EQ(r.workgroup_size_text, (std::array<std::string, 3>{"W *2", "min( W,4 )", "1"}));
  EXPECT_EQ(r.workgroup_size[0], 6u);
  EXPECT_EQ(r.workgroup_size[1], 3u);
}

TEST(ReflectWorkgroupSize, CommasInTemplatesAndCalls) {
  const Reflection r = reflect_source("@compute @workgroup_size(array<u32, 2>(8, 4)[0], 3) fn main() {}");
  EXPECT_EQ(r.workgroup_size_text[0], "array<u32, 2>(8, 4)[0]");
  EXPECT_EQ(r.workgroup_size[0], std::nullopt);
  EXPECT_EQ(r.workgroup_size[1], 3u);
}

TEST(ReflectOverrides, KeysAreNamesOrIds) {
  const Reflection r = reflect_source(
      "override plain: u32 = 1;\n@id(0x10) override numbered: f32;\nconst seven = 7;\n"
      "@id(seven + 1) override sum: bool = true;\n" +
      std::string(kMain));
  ASSERT_EQ(r.overrides.size(), 3u);
  const char* const expected[][2] = {{"plain", "plain"}, {"numbered", "16"}, {"sum", "8"}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(r.overrides[i].name, expected[i][0]);
    EXPECT_EQ(r.overrides[i].key, expected[i][1]);
  }
  expect_failure(std::string(kMain) + "@id(-1) override a: u32;", "2:2", "@id of override 'a'");
}

TEST(ReflectOverrides, RequiredAreThoseUsedWithoutADefault) {
  const Reflection r = reflect_source(
      "override size: u32; override inside: f32; override elsewhere: f32; override has = 1;\n"
      "fn other() { _ = elsewhere; }\n@compute @workgroup_size(size) fn main() { _ = inside; _ = has; }");
  std::vector<std::string> required;
  for (const ReflectedOverride& o : r.overrides) {
    if (o.required) required.push_back(o.name);
  }
  EXPECT_EQ(required, (std::vector<std::string>{"size", "inside"}));
}

TEST(ReflectPrelude, ConstantsThatAreNone) {
  const auto says = [](const PreludeConstant& constant, const std::string& part) {
    const std::string message = failure(std::string(kMain), "main", {{"M", "u32", "1"}, constant});
    EXPECT_NE(message.find("constant '" + constant.name + "'"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says({"", "u32", "1"}, "one identifier");
  says({"two words", "u32", "1"}, "one identifier");
  says({"1st", "u32", "1"}, "one identifier");
  says({"M", "u32", "1"}, "given twice");
  says({"N", "u32", ""}, "is empty");
  says({"N", "u32", " // nothing"}, "is empty");
  says({"N", "u32", "4; const X = 3"}, "';' in a value");
  says({"N", "alias", "u32; fn f() {}"}, "';' in a value");
}

TEST(ReflectFeatures, F16) {
  const auto uses = [](const std::string& body) {
    return reflect_source("@compute @workgroup_size(1) fn main() { " + body + " }").uses_f16;
  };
  EXPECT_TRUE(uses("let a = f16(1);"));
  EXPECT_TRUE(uses("let a = vec2h();"));
  EXPECT_TRUE(uses("let a = mat4x3h();"));
  EXPECT_TRUE(uses("let a = 1.5h;"));
  EXPECT_FALSE(uses("let a = s.f16; let vec5h = 1; let mat = 0x1; /* f16 */"));
  EXPECT_FALSE(reflect_source("enable f16;" + std::string(kMain)).uses_f16);
  EXPECT_FALSE(reflect_source("alias vec2h = u32;" + std::string(kMain)).uses_f16);
  EXPECT_TRUE(reflect_source(std::string(kMain), "main", {{"T", "alias", "f16"}}).uses_f16);
  EXPECT_FALSE(reflect_source("/* enable f16; */" + std::string(kMain)).enables_f16);
}

TEST(ReflectFeatures, Subgroups) {
  const auto uses = [](const std::string& text) { return reflect_source(text + std::string(kMain)).uses_subgroups; };
  EXPECT_TRUE(uses("fn f() { _ = subgroupAdd(1); }"));
  EXPECT_TRUE(uses("fn f() { _ = quadSwapX(1); }"));
  EXPECT_TRUE(uses("fn f(@builtin(subgroup_size) n: u32) { }"));
  EXPECT_FALSE(uses("fn f(subgroup_size: u32) { }"));
  EXPECT_FALSE(uses("fn subgroupMine() { } fn f() { subgroupMine(); s.subgroupAdd = 1; }"));
  EXPECT_FALSE(uses("enable subgroups;"));
  EXPECT_FALSE(uses("fn f() { subgroupMatrixStore(); }"));
}

// What has to go where a compiler does not know `subgroups`; the same text in comments is none of it.
TEST(ReflectFeatures, TheSubgroupsDirective) {
  const auto without = [](std::string text) {
    text += kMain;
    for (const auto& [begin, end] : reflect_source(text).subgroups_directive) {
      text.replace(begin, end - begin, end - begin, ' ');
    }
    return text.substr(0, text.size() - kMain.size());
  };
  EXPECT_EQ(without("enable subgroups;"), "                 ");
  EXPECT_EQ(without("/* enable subgroups; */enable /* it */ subgroups\n;"),
            "/* enable subgroups; */       /* it */          \n ");
  EXPECT_EQ(without("enable f16, subgroups;"), "enable f16,          ;");
  EXPECT_EQ(without("enable subgroups, f16;"), "enable            f16;");
  EXPECT_EQ(without("enable subgroups,;enable f16;"), "                  enable f16;");
  EXPECT_EQ(without("enable f16;"), "enable f16;");
}

TEST(ReflectErrors, EntryPoints) {
  EXPECT_EQ(failure("fn f() {}\n@compute @workgroup_size(1) fn one() {}\n@compute fn two() {}"),
            "kernel 'k': 1:1: no @compute function 'main'; the source has 'one', 'two'");
  EXPECT_EQ(failure("fn f() {}"), "kernel 'k': 1:1: no @compute function 'main'; the source has none");
  EXPECT_EQ(failure(""), "kernel 'k': 1:1: no @compute function 'main'; the source has none");
  EXPECT_EQ(failure("\n  fn main() {}"),
            "kernel 'k': 2:6: no @compute function 'main'; the function of that name is no entry point");
  expect_failure("@compute\n@workgroup_size(1, 2, 3, 4) fn main() {}", "2:2", "4 arguments");
}

TEST(ReflectErrors, Bindings) {
  const std::string main{kMain};
  expect_failure(main + "@group(0) var<storage> x: array<f32>;", "2:24", "'x' lacks its @binding");
  expect_failure(main + "@binding(0)\nvar<uniform> x: f32;", "3:14", "'x' lacks its @group");
  expect_failure(main + "var<storage> x: f32;", "2:14", "'x' lacks its @group");
  expect_failure(
      "@compute @workgroup_size(1) fn main() { _ = x; _ = y; }\n"
      "@group(0) @binding(1) var<storage> x: f32;\n@group(0) @binding(1) var<storage> between: f32;\n"
      "@binding(0x1) @group(0) var<uniform> y: f32;",
      "4:38", "'y' repeats @group(0) @binding(1) of 'x'");
  expect_failure(main + "@group(0) @binding(N) var<storage> x: f32;", "2:12", "@binding of variable 'x'");
  expect_failure(main + "@group(-1) @binding(0) var<storage> x: f32;", "2:2", "@group of variable 'x'");
  expect_failure(main + "@group() @binding(0) var<storage> x: f32;", "2:2", "@group of variable 'x'");
  expect_failure(main + "@group(0) @binding(0) var t: texture_2d<f32>;", "2:27", "'texture_2d<f32>'");
  expect_failure(main + "@group(0) @binding(0) var s: sampler;", "2:27", "only buffers");
  expect_failure(main + "@group(0) @binding(0) var<storage> x;", "2:37", "expected ':' and a type");
  expect_failure(main + "var<immediate> q: u32;", "2:16", "'q' is in 'immediate'");
  expect_failure(main + "struct Params { n: u32 } var<push_constant> params: Params;", "2:45", "'push_constant'");
}

TEST(ReflectErrors, Types) {
  const auto expect_type = [](const std::string& type, const std::string& part) {
    expect_failure(std::string(kMain) + "@group(0) @binding(0) var<storage> x: " + type + ";", "2:39", part);
  };
  expect_type("bool", "'bool' is not host-shareable");
  expect_type("Missing", "'Missing' can't be laid out");
  expect_type("main", "'main' is declared, but is no type");
  expect_type("vec5<f32>", "'vec5<f32>'");
  expect_type("vec4", "'vec4'");
  expect_type("vec4<bool>", "'vec4<bool>'");
  expect_type("mat2x2i", "'mat2x2i'");
  expect_type("mat2x5f", "'mat2x5f'");
  expect_type("atomic<vec2u>", "'atomic<vec2u>'");
  expect_type("array", "'array' can't be laid out");
  expect_type("array<f32, 0>", "has the length 0");
  expect_type("array<f32, 2 - 5>", "has the length -3");
  expect_type("array<f32, N>", "can't be worked out, 'N'");
  expect_type("array<f32, 4294967295>", "17179869180 bytes");
  expect_type("array<array<f32>, 4>", "without a fixed size");
  expect_type("ptr<storage, f32>", "'ptr<storage,f32>'");
  EXPECT_NE(
      failure(std::string(kMain) + "@group(0) @binding(0) var<storage> x: array<bool>;").find("2:45: type 'bool'"),
      std::string::npos);
}

TEST(ReflectErrors, Structures) {
  const std::string main{kMain};
  expect_failure(main + "struct Params { a: array<f32>, b: u32 }", "2:20", "not the last member");
  expect_failure(main + "struct Params { a: array<f32> }", "2:8", "ends in an array without a length");
  expect_failure(main + "struct Params {\n  ok: bool }", "3:7", "'bool'");
  expect_failure(main + "struct Params { a: Params }", "2:8", "contains itself");
  expect_failure(main + "struct A { b: B } struct B { a: A } struct Params { a: A }", "2:8", "contains itself");
  expect_failure(main + "alias A = B; alias B = A; struct Params { a: A }", "2:24", "contains itself");
  expect_failure(main + "alias Params = Params;", "2:16", "contains itself");
  expect_failure(main + "struct Params { @align(3) a: u32 }", "2:30", "can't be aligned to 3 bytes");
  expect_failure(main + "struct Params { @align(2) a: u32 }", "2:30", "can't be aligned to 2 bytes");
  expect_failure(main + "struct Params { @size(2) a: u32 }", "2:29", "needs 4 bytes, @size gives it 2");
  expect_failure(main + "struct Params { @size(X) a: u32 }", "2:18", "@size of member 'a'");
  expect_failure(main + "struct Params { a: array<u32, 1073741823>, b: vec4f }", "2:8", "more than 4294967295");
}

TEST(ReflectErrors, Syntax) {
  expect_failure("fn main() {\n  if (true) {\n}", "1:11", "'{' is never closed");
  expect_failure("fn main(", "1:8", "'(' is never closed");
  expect_failure("@compute @workgroup_size(1", "1:25", "'(' is never closed");
  expect_failure("\n\n  /* /* */", "3:3", "does not end");
  expect_failure("struct S { a f32 }", "1:14", "expected ':', found 'f32'");
  expect_failure("struct S { a: f32 b: f32 }", "1:19", "expected ',' or '}'");
  expect_failure("const a = 1\nfn f() {}", "2:8", "expected ';', found '{'");
  expect_failure("const = 1;", "1:7", "expected a name, found '='");
  expect_failure("function f() {}", "1:1", "expected a declaration, found 'function'");
  expect_failure("/* é\r\n */ + ", "2:5", "expected a declaration, found '+'");
  expect_failure("/* éé */ }", "1:10", "found '}'");
  expect_failure("fn f() {} // \xff", "1:14", "byte 0xff is not UTF-8");
  expect_failure("\xed\xa0\x80", "1:1", "not UTF-8");
  expect_failure("\xc0\x80", "1:1", "not UTF-8");
  expect_failure("a\xe2\x82", "1:2", "not UTF-8");
  expect_failure(std::string("\n\0", 2), "2:1", "zero byte");
  expect_failure("alias A = array<f32;", "1:16", "expected ';', found '<'");
  expect_failure("@", "1:2", "found the end of the text");
  expect_failure(std::string(1000, 'x'), "1:1", "xxx...'");
}

// None of these may take more stack or time than a source of their size deserves.
TEST(ReflectHostile, LargeInputs) {
  const std::size_t megabyte = 1 << 20;
  const std::clock_t begin = std::clock();  // of this process: what else the machine does counts little
  const auto repeat = [](const std::string& text, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i) out += text;
    return out;
  };
  for (const char* text :
       {"(", "{", "<", "@", "\"", "/*", "a<", "-", "array<", "@a(", "fn f(", "struct S{", "a.", ".1e"}) {
    failure(repeat(text, megabyte / std::string(text).size()));
  }
  const std::string main{kMain};
  EXPECT_EQ(workgroup_x("1" + repeat("+1", 2000)), 2001u);
  failure(main + "@group(0) @binding(0) var<storage> x: " + repeat("array<", 100000) + "f32" + repeat(",1>", 100000) +
          ";");
  std::string structures = "struct S0 { a: f32 }";
  std::string constants = "const C0 = 1;";
  for (int i = 1; i < 5000; ++i) {
    const std::string before = std::to_string(i - 1);
    constants += "const C" + std::to_string(i) + " = C" + before + " + 1;";
    if (i < 30) structures += "struct S" + std::to_string(i) + " { a: S" + before + ", b: S" + before + " }";
  }
  EXPECT_EQ(storage_of("S29", structures).min_size, std::uint64_t{4} << 29);
  EXPECT_EQ(workgroup_x("C4999", constants), 5000u);
  std::string backwards;
  for (int i = 0; i < 5000; ++i) backwards += "const C" + std::to_string(i) + " = C" + std::to_string(i + 1) + ";";
  EXPECT_EQ(workgroup_x("C0", backwards + "const C5000 = 1;"), std::nullopt);
  std::string calls;
  for (int i = 0; i < 8000; ++i) calls += "fn call" + std::to_string(i) + "() { call" + std::to_string(i + 1) + "(); }";
  const Reflection r = reflect_source(calls +
                                      "fn call8000() { _ = x; } @group(0) @binding(0) var<storage> x: f32;"
                                      "@compute @workgroup_size(1) fn main() { call0(); }");
  EXPECT_TRUE(r.bindings[0].used);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 60);
}

// What would fill the stack of a compiler that goes down one call a level: naga ended the process (gfx-rs/wgpu#5759,
// #9497, #4352, #5652). Each at a depth that real sources reach, and at one that none does.
TEST(ReflectHostile, DeepNestingIsRefused) {
  const auto repeat = [](const std::string& text, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i) out += text;
    return out;
  };
  struct Case {
    const char* what;
    std::string open, inner, close;
    std::size_t fits, refused;
  };
  const Case cases[] = {
      {"parentheses", "(", "1", ")", 120, 300},
      {"calls", "sin(", "x", ")", 120, 300},
      {"indices", "a[", "0", "]", 120, 300},
      {"types", "array<", "f32", ", 1>", 120, 300},
      {"blocks", "; {", "", "}", 120, 300},
      {"branches", "; if (b) {", "", "}", 120, 300},
      {"signs", "- ", "1", "", 1000, 3000},
      {"nots", "!", "true", "", 1000, 3000},
      {"sums", "1 + ", "1", "", 1000, 3000},
      {"members", "", "a", ".f", 1000, 3000},
      {"subscripts", "", "a", "[0]", 1000, 3000},
      {"alternatives", "", "; if (b) {}", "else if (b) {}", 300, 3000},
      {"sums in parentheses", "(1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + ", "1", ")", 120, 200},
  };
  for (const Case& c : cases) {
    const auto source = [&](std::size_t depth) {
      return std::string(kMain) + "fn deep() { let v = " + repeat(c.open, depth) + c.inner + repeat(c.close, depth) +
             "; }\n";
    };
    EXPECT_NO_THROW(reflect_source(source(c.fits))) << c.what;
    EXPECT_THROW(reflect_source(source(c.refused)), Error) << c.what;
  }
  // Long is not deep.
  EXPECT_NO_THROW(reflect_source(std::string(kMain) + "fn wide() { " +
                                 repeat("let v = a[0] + 1; if (b) { c(); }", 9000) + " d(" + repeat("1 + 1, ", 9000) +
                                 "1); }"));
  std::string declarations;
  for (int i = 0; i < 9000; ++i) declarations += "const c" + std::to_string(i) + " = 1;";
  EXPECT_THROW(reflect_source(std::string(kMain) + declarations), Error);
  EXPECT_THROW(reflect_source("fn f() { }" + std::string(kMain), "main", {{"N", "u32", repeat("(", 300) + "1"}}),
               Error);
}

TEST(ReflectWorkgroupSize, BelowOneIsRefused) {
  for (const char* text : {"0", "-1", "4 - 4", "8, 0", "8, 8, 0u"}) {
    EXPECT_THROW(workgroup_x(text), Error) << text;
  }
  EXPECT_THROW(workgroup_x("W", "override W: u32 = 8;", {}, {{"W", 0.0}}), Error);
}

// What wgpu-native does not hold against its limits (gfx-rs/wgpu#8946).
TEST(ReflectOverrides, SizesThatDependOnThemAreKnownOrNamed) {
  const auto unknown = [](const std::string& source) { return reflect_source(source).unknown_size; };
  const std::string main = "@compute @workgroup_size(1) fn main() { _ = w[0]; }";
  EXPECT_EQ(unknown("override n: u32 = 4; var<workgroup> w: array<f32, n * 2>;" + main), "");
  EXPECT_EQ(unknown("override n: f32 = 4; var<workgroup> w: array<f32, u32(n)>;" + main),
            "var<workgroup> w: array<f32, u32(n)>");
  EXPECT_EQ(unknown("override n: f32 = 4; const m = u32(n); var<workgroup> w: array<f32, m>;" + main),
            "var<workgroup> w: array<f32, m>");
  EXPECT_EQ(unknown("override n: f32 = 4; struct S { a: array<u32, u32(n)> } var<workgroup> w: array<S, 2>;" + main),
            "var<workgroup> w: array<S, 2>");
  EXPECT_EQ(unknown("const n: f32 = 4; var<workgroup> w: array<f32, u32(n)>;" + main), "");  // compilers check this
  EXPECT_EQ(unknown("override n: f32 = 4; @compute @workgroup_size(8, u32(n)) fn main() {}"),
            "workgroup_size(8, u32(n))");
  EXPECT_EQ(unknown("@compute @workgroup_size(select(1, 2, true)) fn main() {}"), "");
}

TEST(ReflectOverrides, TypesAreDeclaredOrThoseOfTheDefault) {
  const Reflection r = reflect_source(
      "alias T = u32; override a: T; override b = 1; override c = 2u; override d = 1.5; override e: bool = true;"
      "override f: f32;@compute @workgroup_size(1) fn main() {}");
  std::vector<std::string> types;
  for (const ReflectedOverride& o : r.overrides) types.push_back(o.type);
  EXPECT_EQ(types, (std::vector<std::string>{"u32", "i32", "u32", "", "bool", "f32"}));
}

// Only Error leaves reflect(), whatever comes in.
void expect_no_other_exception(const std::string& source) {
  try {
    reflect(source, "main", {{"N", "u32", "4"}}, {{"W", 8.0}}, "fuzz");
  } catch (const Error& e) {
    ASSERT_EQ(e.code(), ErrorCode::compile_error);
    ASSERT_TRUE(e.message().starts_with("kernel 'fuzz': ")) << e.message();
  }
}

TEST(ReflectHostile, RandomBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    std::string source(random() % 64, '\0');
    const bool ascii = random() % 2 == 0;
    for (char& c : source) c = static_cast<char>(ascii ? 32 + random() % 95 : random() % 256);
    ASSERT_NO_FATAL_FAILURE(expect_no_other_exception(source));
  }
}

TEST(ReflectHostile, RandomTokens) {
  const char* const words[] = {"@",
                               "group",
                               "binding",
                               "(",
                               ")",
                               "<",
                               ">",
                               "{",
                               "}",
                               "[",
                               "]",
                               ",",
                               ";",
                               ":",
                               "=",
                               ".",
                               "-",
                               "0",
                               "1",
                               "4u",
                               "N",
                               "W",
                               "var",
                               "storage",
                               "uniform",
                               "struct",
                               "Params",
                               "alias",
                               "const",
                               "override",
                               "fn",
                               "main",
                               "compute",
                               "array",
                               "vec4",
                               "f32",
                               "f16",
                               "a",
                               "b",
                               "/*",
                               "*/",
                               "//",
                               "\n",
                               "->",
                               ">>",
                               "params",
                               "@compute @workgroup_size(1) fn main() {",
                               "@group(0) @binding(0) var<storage> a:",
                               "struct Params { a:",
                               "array<vec4<f32>>",
                               "@align(",
                               "@size(",
                               "atomic<u32>",
                               "1e9",
                               "%"};
  std::mt19937 random(2);
  for (int i = 0; i < 100000; ++i) {
    std::string source;
    for (std::size_t n = random() % 40; n > 0; --n) source += std::string(words[random() % std::size(words)]) + " ";
    ASSERT_NO_FATAL_FAILURE(expect_no_other_exception(source));
  }
}

TEST(ReflectHostile, MutatedSource) {
  const std::string good(kThree);
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    std::string source = good;
    for (std::size_t n = random() % 6; n > 0; --n) {
      const std::size_t at = random() % source.size();
      switch (random() % 3) {
        case 0: source.erase(at, 1 + random() % 20); break;
        case 1: source[at] = static_cast<char>(random() % 128); break;
        default: source.insert(at, good.substr(random() % good.size(), random() % 30)); break;
      }
      if (source.empty()) source = good;
    }
    ASSERT_NO_FATAL_FAILURE(expect_no_other_exception(source));
  }
}

}  // namespace
}  // namespace weft::dispatch
