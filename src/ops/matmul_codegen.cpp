#include "ops/matmul_codegen.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>
#include <utility>

#include "ops/element_math.h"
#include "ops/wgsl_text.h"
#include "weft/ops.h"

namespace weft::ops {
namespace {

/// What a workgroup of a block kernel makes; how its lanes lie is a parameter.
std::string block_tile_m(const MatmulPlan& plan) {
  return fmt::format("({}u / params.lanes * {}u)", plan.threads, plan.rows);
}
std::string block_tile_n(const MatmulPlan& plan) {
  return fmt::format("(params.lanes * {}u)", 4 * plan.quads);
}

constexpr std::uint32_t kDepth = 16;  // of a tile along the inner axis
constexpr std::string_view kComponents = "xyzw";

std::string_view sum_type(DType t) {
  return is_float(t) ? "f32" : "i32";
}

std::string array_of(std::string_view type, bool vec4) {
  return vec4 ? fmt::format("array<vec4<{}>>", type) : fmt::format("array<{}>", type);
}

bool is_sum(const MatmulSpec& s) {
  return s.plan.kind == MatmulKind::sum;
}

/// Aliases, parameters, bindings, and `place`, which finds the workgroup's tile and where its matrices start. An
/// element of a or b is an Elem in registers.
std::string head(const MatmulSpec& s) {
  const std::string_view sum = sum_type(s.out);
  std::string text = fmt::format("alias Elem = {};\nalias Sum = {};\nalias Out = {};\n",
                                 s.int8 == Int8::none ? sum : "u32", sum, wgsl_name(s.out));
  text +=
      "struct Params {\n  m: u32, n: u32, k: u32, groups: u32,\n"
      "  a_offset: u32, a_line: u32, b_offset: u32, b_line: u32, c_offset: u32, c_line: u32, lanes: u32,\n";
  if (s.batch_axes == 3) text += "  batch_1: u32, batch_2: u32,\n";
  const auto batch_strides = [&](std::string_view of) {
    for (std::uint32_t i = 0; i < s.batch_axes; ++i) text += fmt::format("  {}_batch_{}: u32,\n", of, i);
  };
  for (std::string_view of : {"a", "b", "c"}) batch_strides(of);
  if (s.full) {
    text += fmt::format("  c_column: u32, flags: u32, alpha: {0}, beta: {0},\n", sum);
    for (std::string_view of : {"bias", "residual"}) {
      text += fmt::format("  {0}_offset: u32, {0}_row: u32, {0}_column: u32,\n", of);
      batch_strides(of);
    }
  }
  text += "}\n";
  const auto bind = [&](int at, std::string_view access, std::string_view name, const std::string& type) {
    text += fmt::format("@group(0) @binding({}) var<storage, {}> {}: {};\n", at, access, name, type);
  };
  bind(0, "read", "a", array_of(is_sum(s) ? sum : wgsl_name(s.in), s.a_vec4));
  if (!is_sum(s)) bind(1, "read", "b", array_of(wgsl_name(s.in), s.b_vec4));
  bind(2, "read_write", "c", array_of(wgsl_name(s.out), s.c_vec4));
  if (s.full) {
    bind(3, "read", "bias", array_of(wgsl_name(s.out), false));
    bind(4, "read", "residual", array_of(wgsl_name(s.out), false));
  }

  const auto start = [&](std::string_view of) {
    std::string at = fmt::format("params.{}_offset", of);
    if (s.batch_axes == 1) return at + fmt::format(" + batch * params.{}_batch_0", of);
    for (int i = 0; i < 3; ++i) at += fmt::format(" + i{0} * params.{1}_batch_{0}", i, of);
    return at;
  };
  text += "\nstruct Place { tile_m: u32, tile_n: u32, a: u32, b: u32, c: u32, bias: u32, residual: u32 }\n";
  text += "fn place_at(tile_m: u32, tile_n: u32, batch: u32) -> Place {\n";
  if (s.batch_axes == 3) {
    text +=
        "  let i2 = batch % params.batch_2;\n  let i1 = batch / params.batch_2 % params.batch_1;\n"
        "  let i0 = batch / params.batch_2 / params.batch_1;\n";
  }
  text += fmt::format("  return Place(tile_m, tile_n, {}, {}, {}, {}, {});\n}}\n", start("a"), start("b"), start("c"),
                      s.full ? start("bias") : "0u", s.full ? start("residual") : "0u");
  if (is_sum(s)) return text;
  const bool block = s.plan.kind == MatmulKind::block;
  text += fill(R"(
fn place(group: u32) -> Place {
  let tiles_m = (params.m + $TILE_M - 1u) / $TILE_M;
  let tiles_n = (params.n + $TILE_N - 1u) / $TILE_N;
  let rest = group / tiles_n;
  return place_at(rest % tiles_m, group % tiles_n, rest / tiles_m);
}
)",
               {{"$TILE_M", block ? block_tile_m(s.plan) : fmt::format("{}u", s.plan.tile_m)},
                {"$TILE_N", block ? block_tile_n(s.plan) : fmt::format("{}u", s.plan.tile_n)}});
  return text;
}

/// Four of an array of results' dtype, as sums, by a vec4u of indices.
std::string gather(std::string_view array, std::string_view at) {
  return fill("vec4<Sum>(Sum($X[$I.x]), Sum($X[$I.y]), Sum($X[$I.z]), Sum($X[$I.w]))",
              {{"$X", std::string(array)}, {"$I", std::string(at)}});
}

/// `finish`: what a full epilogue makes of four sums. Which parts it has are parameters, the same for all invocations:
/// the branches cost next to nothing, and there is one kernel instead of one a combination.
std::string finish(const MatmulSpec& s) {
  std::string text;
  if (is_float(s.out)) {
    MathSet math;
    for (std::string_view name : {"f_relu", "f_gelu", "f_gelu_tanh", "f_silu"}) math.need(name);
    if (s.out == DType::f16) math.need("to_f16");
    text += math.source();
    text += fmt::format(
        "fn activate(x: vec4f) -> vec4f {{\n  switch (params.flags & 7u) {{\n    case {}u: {{ return f_relu(x); }}\n"
        "    case {}u: {{ return f_gelu(x); }}\n    case {}u: {{ return f_gelu_tanh(x); }}\n"
        "    case {}u: {{ return f_silu(x); }}\n    default: {{ return x; }}\n  }}\n}}\n",
        static_cast<int>(Activation::relu), static_cast<int>(Activation::gelu), static_cast<int>(Activation::gelu_tanh),
        static_cast<int>(Activation::silu));
  } else {
    text += fmt::format(
        "fn activate(x: vec4i) -> vec4i {{ return select(x, max(x, vec4i(0)), (params.flags & 7u) == {}u); }}\n",
        static_cast<int>(Activation::relu));
  }
  const auto term = [&](std::uint32_t flag, std::string_view factor, std::string_view array, std::string_view row,
                        std::string_view column) {
    return fmt::format(
        "  if ((params.flags & {}u) != 0u) {{\n    let at = vec4u(p.{}) + rows * params.{} + columns * params.{};\n"
        "    total += {}{};\n  }}\n",
        flag, array, row, column, factor, gather(array, "at"));
  };
  return text + "fn finish(p: Place, rows: vec4u, columns: vec4u, sum: vec4<Sum>) -> vec4<Sum> {\n" +
         "  var total = params.alpha * sum;\n" + term(kAddsC, "params.beta * ", "c", "c_line", "c_column") +
         term(kAddsBias, "", "bias", "bias_row", "bias_column") + "  total = activate(total);\n" +
         term(kAddsResidual, "", "residual", "residual_row", "residual_column") + "  return total;\n}\n";
}

/// What is stored of four sums: WGSL leaves it open how a conversion to f16 rounds, so that is done by bits.
std::string rounded(const MatmulSpec& s, std::string_view sums) {
  return s.out == DType::f16 ? fmt::format("to_f16({})", sums) : std::string(sums);
}

/// `finish`, or what plain kernels need.
std::string results(const MatmulSpec& s) {
  if (s.full) return finish(s);
  MathSet math;
  if (s.out == DType::f16) math.need("to_f16");
  return math.source();
}

/// `store`: four results side by side, those inside the matrix.
std::string store_quad(const MatmulSpec& s) {
  std::string text = results(s) + R"(
fn store(p: Place, row: u32, column: u32, sum: vec4<Sum>) {
  if (row >= params.m || column >= params.n) { return; }
)";
  std::string_view total = "sum";
  std::string_view step = "";
  if (s.full) {
    text +=
        "  let columns = min(vec4u(column) + vec4u(0u, 1u, 2u, 3u), vec4u(params.n - 1u));\n"
        "  let total = finish(p, vec4u(row), columns, sum);\n";
    total = "total";
    step = " * params.c_column";
  }
  text += fmt::format("  let r = {};\n", rounded(s, total));
  if (s.c_vec4) return text + "  c[p.c + row * params.c_line + column / 4u] = vec4<Out>(r);\n}\n";
  text += fmt::format("  let at = p.c + row * params.c_line + column{};\n", step);
  for (int i = 0; i < 4; ++i) {
    text += fmt::format("  if (column + {0}u < params.n) {{ c[at + {0}u{2}] = Out(r.{1}); }}\n", i,
                        kComponents[static_cast<std::size_t>(i)], step);
  }
  return text + "}\n";
}

/// `store_row` and `store_rows`: one result of a vector kernel, and four below each other.
std::string store_row(const MatmulSpec& s) {
  std::string text = results(s) + R"(
fn store_rows(p: Place, row: u32, sum: vec4<Sum>, count: u32) {
  if (row >= params.m) { return; }
)";
  if (s.full) {
    text +=
        "  let rows = min(vec4u(row) + vec4u(0u, 1u, 2u, 3u), vec4u(params.m - 1u));\n"
        "  let total = finish(p, rows, vec4u(0u), sum);\n";
  }
  text += fmt::format("  let r = {};\n", rounded(s, s.full ? "total" : "sum"));
  for (int i = 0; i < 4; ++i) {
    text += fmt::format(
        "  if ({0}u < count && row + {0}u < params.m) {{ c[p.c + (row + {0}u) * params.c_line] = "
        "Out(r.{1}); }}\n",
        i, kComponents[static_cast<std::size_t>(i)]);
  }
  return text + "}\nfn store_row(p: Place, row: u32, sum: Sum) { store_rows(p, row, vec4<Sum>(sum), 1u); }\n";
}

/// `store` for each of `count` sums, by name: in a loop whose end the compiler can't know, for the epilogue is long,
/// and unrolled it takes ten times as long to compile as the rest.
std::string store_loop(std::string_view names, std::uint32_t count, std::string_view store) {
  return fmt::format(
      "var sums = array<vec4<Sum>, {0}>({1});\nfor (var i = 0u; i < {0}u * min(params.groups, 1u); i++) {{\n{2}\n}}\n",
      count, names, store);
}

std::string entry(const MatmulSpec& s) {
  return fmt::format(R"(
@compute @workgroup_size({})
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) grid: vec3u,
        @builtin(local_invocation_index) t: u32) {{
  let group = id.x + id.y * grid.x;
  if (group >= params.groups) {{ return; }}
)",
                     s.plan.threads) +
         (is_sum(s) ? "" : "  let p = place(group);\n");
}

/// `dot`: four products of 8-bit integers, added up, of one word with each of four. An unsigned b is a signed one plus
/// 128; so is an unsigned a, where b is signed.
std::string int8_functions(const MatmulSpec& s) {
  if (s.int8 == Int8::none) return {};
  const bool same = s.a_signed == s.b_signed;
  std::string text;
  if (s.int8 == Int8::unpacked) {
    const auto bytes = [](std::string_view name, bool is_signed) {
      return fmt::format("fn {}(x: u32) -> vec4i {{ return {}; }}\n", name,
                         is_signed ? "bitcast<vec4i>(vec4u(x) << vec4u(24u, 16u, 8u, 0u)) >> vec4u(24u)"
                                   : "bitcast<vec4i>((vec4u(x) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(255u))");
    };
    text = bytes("bytes_a", s.a_signed) + bytes("bytes_b", s.b_signed) + R"(
fn one(x: vec4i, y: u32) -> i32 {
  let z = x * bytes_b(y);
  return (z.x + z.y) + (z.z + z.w);
}
fn dot4(x: u32, y: vec4u) -> vec4i {
  let w = bytes_a(x);
  return vec4i(one(w, y.x), one(w, y.y), one(w, y.z), one(w, y.w));
}
)";
  } else {
    const std::string_view builtin = same && !s.a_signed ? "i32(dot4U8Packed(" : "i32(dot4I8Packed(";
    const std::string_view x = same || s.a_signed ? "x" : "(x ^ 0x80808080u)";
    const std::string_view y = same || s.b_signed ? "y" : "(y ^ vec4u(0x80808080u))";
    const auto four = [&](std::string_view f, std::string_view first, std::string_view second) {
      return fill("vec4i($F$X, $Y.x)), $F$X, $Y.y)), $F$X, $Y.z)), $F$X, $Y.w)))",
                  {{"$F", std::string(f)}, {"$X", std::string(first)}, {"$Y", std::string(second)}});
    };
    std::string rest;
    if (!same && s.a_signed) rest = " + vec4i(dot4I8Packed(x, 0x01010101u) * 128)";
    if (!same && s.b_signed) rest = " + " + four("i32(dot4I8Packed(", "0x01010101u", "y") + " * 128";
    text = fmt::format("fn dot4(x: u32, y: vec4u) -> vec4i {{ return {}{}; }}\n", four(builtin, x, y), rest);
  }
  return text + R"(
fn dot1(x: u32, y: u32) -> i32 { return dot4(x, vec4u(y)).x; }
)";
}

/// sum += x * y for four columns y.
std::string multiply_add(const MatmulSpec& s, std::string_view sum, std::string_view x, std::string_view y) {
  if (s.int8 != Int8::none) return fmt::format("{0} += dot4({1}, {2});\n", sum, x, y);
  return is_float(s.in) ? fmt::format("{0} = fma(vec4<Sum>({1}), {2}, {0});\n", sum, x, y)
                        : fmt::format("{0} += {1} * {2};\n", sum, x, y);
}

/// sum += x * y, each in its component.
std::string multiply_each(const MatmulSpec& s, std::string_view sum, std::string_view x, std::string_view y) {
  if (s.int8 != Int8::none) {
    return fmt::format(
        "{{ let x = {1}; let y = {2}; {0} += vec4i(dot1(x.x, y.x), dot1(x.y, y.y), dot1(x.z, y.z), "
        "dot1(x.w, y.w)); }}\n",
        sum, x, y);
  }
  return is_float(s.in) ? fmt::format("{0} = fma({1}, {2}, {0});\n", sum, x, y)
                        : fmt::format("{0} += {1} * {2};\n", sum, x, y);
}

/// sum += x * y of single elements.
std::string multiply_one(const MatmulSpec& s, std::string_view sum, std::string_view x, std::string_view y) {
  if (s.int8 != Int8::none) return fmt::format("{0} += dot1({1}, {2});\n", sum, x, y);
  return is_float(s.in) ? fmt::format("{0} = fma({1}, {2}, {0});\n", sum, x, y)
                        : fmt::format("{0} += {1} * {2};\n", sum, x, y);
}

// -- tile -----------------------------------------------------------------------------------------------------------

/// `fetch_a` / `fetch_b`: four elements side by side from `at` on line `line`; zeros past the inner axis, and past the
/// outer one whatever lies at its end (those results are never stored).
std::string fetch(char of, bool inner_side_by_side, bool vec4) {
  const std::string_view outer = of == 'a' ? "params.m" : "params.n";
  std::string text = fmt::format("fn fetch_{}(start: u32, line: u32, at: u32) -> vec4<Elem> {{\n", of);
  const auto element = [&](std::string_view index) { return fmt::format("{}[{}]", of, index); };
  if (inner_side_by_side) {
    text += fill("  let first = start + min(line, $OUTER - 1u) * params.$X_line;\n",
                 {{"$OUTER", std::string(outer)}, {"$X", std::string(1, of)}});
    if (vec4) {
      return text + fmt::format("  return select(vec4<Elem>(), vec4<Elem>({}), at < params.k);\n}}\n",
                                element("first + min(at, params.k - 4u) / 4u"));
    }
    text += "  let last = params.k - 1u;\n";
    text += fmt::format("  let quad = vec4<Elem>(Elem({}), Elem({}), Elem({}), Elem({}));\n",
                        element("first + min(at, last)"), element("first + min(at + 1u, last)"),
                        element("first + min(at + 2u, last)"), element("first + min(at + 3u, last)"));
    return text + "  return select(vec4<Elem>(), quad, vec4u(at, at + 1u, at + 2u, at + 3u) < vec4u(params.k));\n}\n";
  }
  text += fmt::format("  let first = start + min(line, params.k - 1u) * params.{}_line;\n", of);
  if (vec4) {
    text += fmt::format("  let quad = vec4<Elem>({});\n", element(fmt::format("first + min(at, {} - 4u) / 4u", outer)));
  } else {
    text += fmt::format("  let last = {} - 1u;\n", outer);
    text += fmt::format("  let quad = vec4<Elem>(Elem({}), Elem({}), Elem({}), Elem({}));\n",
                        element("first + min(at, last)"), element("first + min(at + 1u, last)"),
                        element("first + min(at + 2u, last)"), element("first + min(at + 3u, last)"));
  }
  return text + "  return select(vec4<Elem>(), quad, line < params.k);\n}\n";
}

/// How the workgroup's threads bring one operand's tile, in blocks of four by four: `load` to registers q0..q3 and
/// `keep` to workgroup memory, as rows along the inner axis. A block whose lines lie along the other axis is turned on
/// the way.
struct TileLoad {
  std::string load, keep;
};
TileLoad tile_load(char of, std::uint32_t tile, bool inner_side_by_side, std::uint32_t row_length,
                   std::string_view thread) {
  const char axis = of == 'a' ? 'm' : 'n';
  TileLoad out;
  // Neighbours among the threads read what lies side by side.
  const std::string along_k =
      inner_side_by_side ? fmt::format("{} % {}u", thread, kDepth / 4) : fmt::format("{} / {}u", thread, tile / 4);
  const std::string along_other =
      inner_side_by_side ? fmt::format("{} / {}u", thread, kDepth / 4) : fmt::format("{} % {}u", thread, tile / 4);
  for (int i = 0; i < 4; ++i) {
    const std::string other = fmt::format("p.tile_{} * {}u + ({}) * 4u", axis, tile, along_other);
    const std::string inner = fmt::format("k0 + ({}) * 4u", along_k);
    out.load += inner_side_by_side ? fmt::format("{0}q{1} = fetch_{0}(p.{0}, {2} + {1}u, {3});\n", of, i, other, inner)
                                   : fmt::format("{0}q{1} = fetch_{0}(p.{0}, {3} + {1}u, {2});\n", of, i, other, inner);
    const std::string value = inner_side_by_side ? fmt::format("vec4<Elem>({0}q0.{1}, {0}q1.{1}, {0}q2.{1}, {0}q3.{1})",
                                                               of, kComponents[static_cast<std::size_t>(i)])
                                                 : fmt::format("{}q{}", of, i);
    out.keep +=
        fmt::format("tile_{}[(({}) * 4u + {}u) * {}u + ({})] = {};\n", of, along_k, i, row_length, along_other, value);
  }
  return out;
}

std::string tile_source(const MatmulSpec& s) {
  const MatmulPlan& plan = s.plan;
  const std::uint32_t quads_m = plan.rows / 4;
  const std::uint32_t lanes_m = plan.tile_m / plan.rows;
  const std::uint32_t lanes_n = plan.threads / lanes_m;
  const std::uint32_t quads_n = plan.tile_n / lanes_n / 4;
  // One vec4 of padding a row where blocks are turned, else threads that turn neighbours meet in one memory bank.
  const std::uint32_t row_a = plan.tile_m / 4 + (s.a_transposed ? 0 : 1);
  const std::uint32_t row_b = plan.tile_n / 4 + (s.b_transposed ? 1 : 0);

  std::string text = head(s) + int8_functions(s) + store_quad(s);
  text += fetch('a', !s.a_transposed, s.a_vec4) + fetch('b', s.b_transposed, s.b_vec4);
  text += fmt::format("var<workgroup> tile_a: array<vec4<Elem>, {}>;\nvar<workgroup> tile_b: array<vec4<Elem>, {}>;\n",
                      kDepth * row_a, kDepth * row_b);
  text += entry(s);

  const std::uint32_t blocks = plan.tile_m * kDepth / 16;  // tile_m == tile_n
  const bool halves = blocks * 2 == plan.threads;          // half of the threads bring a, the others b
  const TileLoad a = tile_load('a', plan.tile_m, !s.a_transposed, row_a, "t");
  const TileLoad b = tile_load('b', plan.tile_n, s.b_transposed, row_b, halves ? "u" : "t");
  const auto both = [&](const std::string& of_a, const std::string& of_b) {
    return halves ? fmt::format("if (t < {}u) {{\n{}}} else {{\n{}}}\n", blocks, of_a, of_b) : of_a + of_b;
  };
  if (halves) text += fmt::format("  let u = t - {}u;\n", blocks);
  for (char of : {'a', 'b'}) {
    for (int i = 0; i < 4; ++i) text += fmt::format("var {}q{} = vec4<Elem>();\n", of, i);
  }
  text += fmt::format("let x = t % {}u;\nlet y = t / {}u;\n", lanes_n, lanes_n);
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    for (std::uint32_t q = 0; q < quads_n; ++q) text += fmt::format("var c{}_{} = vec4<Sum>();\n", r, q);
  }
  // Each thread's share of the next pair of tiles is on its way to registers while the pair before it is multiplied.
  text += fmt::format("var k0 = 0u;\nloop {{\nif (k0 < params.k) {{\n{}}}\nif (k0 > 0u) {{\n", both(a.load, b.load));
  text += fmt::format("for (var i = 0u; i < {}u; i++) {{\n", kDepth);
  for (std::uint32_t q = 0; q < quads_m; ++q) {
    text += fmt::format("let a{} = tile_a[i * {}u + y + {}u];\n", q, row_a, q * lanes_m);
  }
  for (std::uint32_t q = 0; q < quads_n; ++q) {
    text += fmt::format("let b{} = tile_b[i * {}u + x + {}u];\n", q, row_b, q * lanes_n);
  }
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    for (std::uint32_t q = 0; q < quads_n; ++q) {
      text += multiply_add(s, fmt::format("c{}_{}", r, q), fmt::format("a{}.{}", r / 4, kComponents[r % 4]),
                           fmt::format("b{}", q));
    }
  }
  text += fmt::format(
      "}}\n}}\nif (k0 >= params.k) {{ break; }}\nworkgroupBarrier();\n{}workgroupBarrier();\nk0 += {}u;\n}}\n",
      both(a.keep, b.keep), kDepth);
  if (s.full) {
    std::string names;
    for (std::uint32_t r = 0; r < plan.rows; ++r) {
      for (std::uint32_t q = 0; q < quads_n; ++q) names += fmt::format("c{}_{}, ", r, q);
    }
    const std::string store = fmt::format(
        "let r = i / {0}u;\nstore(p, p.tile_m * {1}u + (y + r / 4u * {2}u) * 4u + r % 4u, "
        "p.tile_n * {3}u + (x + i % {0}u * {4}u) * 4u, sums[i]);",
        quads_n, plan.tile_m, lanes_m, plan.tile_n, lanes_n);
    text += store_loop(names, plan.rows * quads_n, store);
    return text + "}\n";
  }
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    for (std::uint32_t q = 0; q < quads_n; ++q) {
      text += fmt::format("store(p, p.tile_m * {}u + (y + {}u) * 4u + {}u, p.tile_n * {}u + (x + {}u) * 4u, c{}_{});\n",
                          plan.tile_m, r / 4 * lanes_m, r % 4, plan.tile_n, q * lanes_n, r, q);
    }
  }
  return text + "}\n";
}

// -- block ----------------------------------------------------------------------------------------------------------

/// Loads of one operand's share for `depth` steps of the inner axis from k on; `element(i, d)` then names element i of
/// step d. `count` elements lie along the outer axis, in quads.
struct BlockLoad {
  std::string prepare;  ///< before the loop: where each line or quad starts
  std::string load4, load1;
  bool inner = false;  ///< the inner axis lies side by side
};
BlockLoad block_load(char of, std::uint32_t count, bool inner_side_by_side, bool vec4) {
  const std::string outer = of == 'a' ? "params.m" : "params.n";
  const std::string first = of == 'a' ? "row" : "column";
  BlockLoad out;
  out.inner = inner_side_by_side;
  const bool by_quad = !inner_side_by_side && vec4;
  if (by_quad) {
    for (std::uint32_t q = 0; q < count / 4; ++q) {
      out.prepare += fmt::format("let {0}p{1} = p.{0} + min({2} + {3}u, {4} - 4u) / 4u;\n", of, q, first, q * 4, outer);
    }
  } else {
    for (std::uint32_t i = 0; i < count; ++i) {
      out.prepare += fmt::format("let {0}p{1} = p.{0} + min({2} + {1}u, {3} - 1u){4};\n", of, i, first, outer,
                                 inner_side_by_side ? fmt::format(" * params.{}_line", of) : "");
    }
  }
  const auto load = [&](std::uint32_t depth) {
    std::string text;
    if (inner_side_by_side && depth == 4) {
      for (std::uint32_t i = 0; i < count; ++i) {
        text += vec4 ? fmt::format("let {0}{1} = vec4<Elem>({0}[{0}p{1} + k / 4u]);\n", of, i)
                     : fmt::format(
                           "let {0}{1} = vec4<Elem>(Elem({0}[{0}p{1} + k]), Elem({0}[{0}p{1} + k + 1u]), "
                           "Elem({0}[{0}p{1} + k + 2u]), Elem({0}[{0}p{1} + k + 3u]));\n",
                           of, i);
      }
      return text;
    }
    if (inner_side_by_side) {
      for (std::uint32_t i = 0; i < count; ++i) text += fmt::format("let {0}{1} = Elem({0}[{0}p{1} + k]);\n", of, i);
      return text;
    }
    for (std::uint32_t d = 0; d < depth; ++d) {
      text += fmt::format("let {0}k{1} = (k + {1}u) * params.{0}_line;\n", of, d);
      for (std::uint32_t q = 0; q < count / 4; ++q) {
        if (vec4) {
          text += fmt::format("let {0}{1}_{2} = vec4<Elem>({0}[{0}p{1} + {0}k{2}]);\n", of, q, d);
        } else {
          text += fmt::format(
              "let {0}{1}_{2} = vec4<Elem>(Elem({0}[{0}p{3} + {0}k{2}]), Elem({0}[{0}p{4} + {0}k{2}]), "
              "Elem({0}[{0}p{5} + {0}k{2}]), Elem({0}[{0}p{6} + {0}k{2}]));\n",
              of, q, d, q * 4, q * 4 + 1, q * 4 + 2, q * 4 + 3);
        }
      }
    }
    return text;
  };
  out.load4 = load(4);
  out.load1 = load(1);
  return out;
}

std::string block_source(const MatmulSpec& s) {
  const MatmulPlan& plan = s.plan;
  const std::uint32_t quads = plan.quads;
  const BlockLoad a = block_load('a', plan.rows, !s.a_transposed, s.a_vec4);
  const BlockLoad b = block_load('b', 4 * quads, s.b_transposed, s.b_vec4);

  std::string text = head(s) + int8_functions(s) + store_quad(s) + entry(s);
  text += fmt::format("let column = p.tile_n * {} + t % params.lanes * {}u;\n", block_tile_n(plan), 4 * quads);
  text += fmt::format("let row = p.tile_m * {} + t / params.lanes * {}u;\n", block_tile_m(plan), plan.rows);
  text += a.prepare + b.prepare;
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    for (std::uint32_t q = 0; q < quads; ++q) text += fmt::format("var c{}_{} = vec4<Sum>();\n", r, q);
  }

  const auto body = [&](std::uint32_t depth) {
    std::string out = depth == 4 ? a.load4 + b.load4 : a.load1 + b.load1;
    for (std::uint32_t d = 0; d < depth; ++d) {
      const std::string component = depth == 4 ? fmt::format(".{}", kComponents[d]) : "";
      for (std::uint32_t q = 0; q < quads; ++q) {
        std::string columns = fmt::format("b{}_{}", q, d);
        if (b.inner) {
          columns = fmt::format("w{}_{}", q, d);
          out += fmt::format("let {0} = vec4<Elem>(b{2}{1}, b{3}{1}, b{4}{1}, b{5}{1});\n", columns, component, 4 * q,
                             4 * q + 1, 4 * q + 2, 4 * q + 3);
        }
        for (std::uint32_t r = 0; r < plan.rows; ++r) {
          const std::string element =
              a.inner ? fmt::format("a{}{}", r, component) : fmt::format("a{}_{}.{}", r / 4, d, kComponents[r % 4]);
          out += multiply_add(s, fmt::format("c{}_{}", r, q), element, columns);
        }
      }
    }
    return out;
  };
  // Loads of four along the inner axis mean that its length is a multiple of four.
  const std::uint32_t depth = (a.inner && s.a_vec4) || (b.inner && s.b_vec4) ? 4 : 1;
  text += fmt::format("for (var k = 0u; k < params.k; k += {}u) {{\n{}}}\n", depth, body(depth));
  if (s.full) {
    std::string names;
    for (std::uint32_t r = 0; r < plan.rows; ++r) {
      for (std::uint32_t q = 0; q < quads; ++q) names += fmt::format("c{}_{}, ", r, q);
    }
    text += store_loop(names, plan.rows * quads,
                       fmt::format("store(p, row + i / {0}u, column + i % {0}u * 4u, sums[i]);", quads));
    return text + "}\n";
  }
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    for (std::uint32_t q = 0; q < quads; ++q) {
      text += fmt::format("store(p, row + {0}u, column + {2}u, c{0}_{1});\n", r, q, 4 * q);
    }
  }
  return text + "}\n";
}

// -- vectors --------------------------------------------------------------------------------------------------------

/// Four elements of the vector from k on.
std::string vector_quad(const MatmulSpec& s, std::string_view k) {
  if (s.b_vec4) return fmt::format("vec4<Elem>(b[p.b + {} / 4u])", k);
  return fill(
      "vec4<Elem>(Elem(b[p.b + $K * params.b_line]), Elem(b[p.b + ($K + 1u) * params.b_line]), "
      "Elem(b[p.b + ($K + 2u) * params.b_line]), Elem(b[p.b + ($K + 3u) * params.b_line]))",
      {{"$K", std::string(k)}});
}

/// `ap0`, `ap1`, ...: where the lane's row, or the quads (else elements) of its `rows` rows, start.
std::string vector_rows(const MatmulSpec& s) {
  if (!s.a_transposed) return "let ap0 = p.a + min(row, params.m - 1u) * params.a_line;\n";
  std::string text;
  for (std::uint32_t i = 0; i < (s.a_vec4 ? s.plan.rows / 4 : s.plan.rows); ++i) {
    text += s.a_vec4 ? fmt::format("let ap{} = p.a + min(row + {}u, params.m - 4u) / 4u;\n", i, 4 * i)
                     : fmt::format("let ap{0} = p.a + min(row + {0}u, params.m - 1u);\n", i);
  }
  return text;
}

/// `sum0`, `sum1`, ...: of four rows each.
std::string vector_sums(const MatmulSpec& s) {
  std::string text;
  for (std::uint32_t q = 0; q < s.plan.rows / 4; ++q) text += fmt::format("var sum{} = vec4<Sum>();\n", q);
  return text;
}

/// Adds step k of the inner axis to the sums of four rows each.
std::string vector_step(const MatmulSpec& s) {
  std::string text = "let at = k * params.a_line;\nlet y = Elem(b[p.b + k * params.b_line]);\n";
  for (std::uint32_t q = 0; q < s.plan.rows / 4; ++q) {
    const std::string quad =
        s.a_vec4 ? fmt::format("vec4<Elem>(a[ap{} + at])", q)
                 : fmt::format(
                       "vec4<Elem>(Elem(a[ap{} + at]), Elem(a[ap{} + at]), Elem(a[ap{} + at]), Elem(a[ap{} + "
                       "at]))",
                       4 * q, 4 * q + 1, 4 * q + 2, 4 * q + 3);
    text += multiply_add(s, fmt::format("sum{}", q), "y", quad);
  }
  return text;
}

std::string vector_block_source(const MatmulSpec& s) {
  std::string text = head(s) + int8_functions(s) + store_row(s) + entry(s);
  text += fmt::format("let row = p.tile_m * {}u + t * {}u;\nif (row >= params.m) {{ return; }}\n", s.plan.tile_m,
                      s.plan.rows);
  text += vector_rows(s);
  if (s.a_transposed) {
    text += vector_sums(s);
    text += fmt::format("for (var k = 0u; k < params.k; k++) {{\n{}}}\n", vector_step(s));
    const std::uint32_t quads = s.plan.rows / 4;
    if (s.full) {
      std::string names;
      for (std::uint32_t q = 0; q < quads; ++q) names += fmt::format("sum{}, ", q);
      return text + store_loop(names, quads, "store_rows(p, row + i * 4u, sums[i], 4u);") + "}\n";
    }
    for (std::uint32_t q = 0; q < quads; ++q) {
      text += fmt::format("store_rows(p, row + {}u, sum{}, 4u);\n", 4 * q, q);
    }
    return text + "}\n";
  }
  const std::string quad = s.a_vec4 ? "vec4<Elem>(a[ap0 + k / 4u])"
                                    : "vec4<Elem>(Elem(a[ap0 + k]), Elem(a[ap0 + k + 1u]), Elem(a[ap0 + k + 2u]), "
                                      "Elem(a[ap0 + k + 3u]))";
  text += "var sum = vec4<Sum>();\nvar k = 0u;\n";
  text +=
      fmt::format("for (; k + 4u <= params.k; k += 4u) {{\n{}}}\n", multiply_each(s, "sum", quad, vector_quad(s, "k")));
  text += "var total = (sum.x + sum.y) + (sum.z + sum.w);\n";
  if (!s.a_vec4 && !s.b_vec4) {
    text += fmt::format("for (; k < params.k; k++) {{\n{}}}\n",
                        multiply_one(s, "total", "Elem(a[ap0 + k])", "Elem(b[p.b + k * params.b_line])"));
  }
  return text + "store_row(p, row, total);\n}\n";
}

std::string vector_tile_source(const MatmulSpec& s) {
  const std::uint32_t threads = s.plan.threads;
  const std::uint32_t slices = threads / 32;
  std::string text = head(s) + int8_functions(s) + store_row(s);
  text += fmt::format("var<workgroup> parts: array<{}, {}>;\n", s.a_transposed ? "vec4<Sum>" : "Sum", threads);
  text += entry(s) + "let lane = t % 32u;\nlet slice = t / 32u;\n";
  if (s.a_transposed) {
    text += fmt::format("let row = p.tile_m * {}u + lane * 4u;\n", s.plan.tile_m) + vector_rows(s) + vector_sums(s);
    text += fmt::format("for (var k = slice; k < params.k; k += {}u) {{\n{}}}\n", slices, vector_step(s));
    text += "parts[t] = sum0;\nworkgroupBarrier();\nif (slice == 0u) {\n";
    text += fmt::format("for (var i = 1u; i < {}u; i++) {{ sum0 += parts[i * 32u + lane]; }}\n", slices);
    return text + "store_rows(p, row, sum0, 4u);\n}\n}\n";
  }
  text += fmt::format("let row = p.tile_m * {}u + slice;\n", s.plan.tile_m) + vector_rows(s);
  if (s.a_vec4) {
    text += "var sum = vec4<Sum>();\n";
    text += fmt::format("for (var k = lane * 4u; k < params.k; k += 128u) {{\n{}}}\n",
                        multiply_each(s, "sum", "vec4<Elem>(a[ap0 + k / 4u])", vector_quad(s, "k")));
    text += "parts[t] = (sum.x + sum.y) + (sum.z + sum.w);\n";
  } else {
    text += "var sum = Sum();\n";
    text += fmt::format("for (var k = lane; k < params.k; k += 32u) {{\n{}}}\n",
                        multiply_one(s, "sum", "Elem(a[ap0 + k])", "Elem(b[p.b + k * params.b_line])"));
    text += "parts[t] = sum;\n";
  }
  text +=
      "workgroupBarrier();\nif (lane == 0u) {\nvar total = parts[t];\n"
      "for (var i = 1u; i < 32u; i++) { total += parts[t + i]; }\nstore_row(p, row, total);\n}\n}\n";
  return text;
}

// -- sums -----------------------------------------------------------------------------------------------------------

/// Adds up the parts that a long inner axis was cut into, four results a lane. Of no parts: zeros.
std::string sum_source(const MatmulSpec& s) {
  return head(s) + store_quad(s) + entry(s) +
         fmt::format(R"(let i = group * {}u + t;
let quads = (params.n + 3u) / 4u;
let line = i / quads;
if (line >= params.b_line) {{ return; }}
let column = i % quads * 4u;
let p = place_at(0u, 0u, line / params.m);
var at = params.a_offset + line * params.n + min(vec4u(column) + vec4u(0u, 1u, 2u, 3u), vec4u(params.n - 1u));
var sum = vec4<Sum>();
for (var part = 0u; part < params.k; part++) {{
  sum += vec4<Sum>(a[at.x], a[at.y], a[at.z], a[at.w]);
  at += vec4u(params.a_line);
}}
store(p, line % params.m, column, sum);
}}
)",
                     s.plan.threads);
}

}  // namespace

MatmulSpec settle(MatmulSpec s) {
  const bool sum = s.plan.kind == MatmulKind::sum;
  const bool vector = s.plan.kind == MatmulKind::vector_tile || s.plan.kind == MatmulKind::vector_block;
  s.plan.splits = 1;
  s.plan.lanes_n = 0;
  if (sum) s.in = DType::f32;
  if (sum || vector) s.b_transposed = false;
  if (s.int8 == Int8::none) {
    s.a_signed = s.b_signed = true;
    s.full = s.full || sum || s.batch_axes == 3 || s.out != s.in || s.out == DType::i32;
    if (sum || s.in == DType::i32) s.a_vec4 = s.b_vec4 = false;
  } else {
    s.a_transposed = false;  // no plan with several rows a lane
    s.b_transposed = !vector;
    s.full = s.c_vec4 = false;
    s.batch_axes = 3;
  }
  if (sum) s.a_transposed = false;
  if (vector) {
    s.a_transposed = s.plan.rows > 1;  // a lane's several rows lie side by side
    s.c_vec4 = false;
    s.b_vec4 = s.b_vec4 && s.a_vec4 && !s.a_transposed;
  } else if (s.b_transposed) {
    // With a in rows both are read along the inner axis, and as a rule both or none start on fours.
    s.a_vec4 = s.b_vec4 = s.a_vec4 && s.b_vec4;
    if (s.int8 == Int8::none) {
      if (s.a_vec4 && !s.c_vec4) s.full = true;
      s.c_vec4 = s.c_vec4 && s.a_vec4;
    }
  } else {
    if (s.b_vec4 && !s.c_vec4) s.full = true;
    s.c_vec4 = s.c_vec4 && s.b_vec4;
  }
  if (s.full) {
    s.c_vec4 = false;
    s.batch_axes = 3;
  }
  return s;
}

std::string matmul_key(const MatmulSpec& s) {
  const MatmulPlan& p = s.plan;
  const bool block = p.kind == MatmulKind::block;  // its tile is a parameter
  return fmt::format("matmul/{}/{}x{}/{}/{}/{}/{}-{}/{}{}{}{}{}/{}{}/{}{}{}", static_cast<int>(p.kind),
                     block ? 0 : p.tile_m, block ? 0 : p.tile_n, p.threads, p.rows, p.quads, wgsl_name(s.in),
                     wgsl_name(s.out), s.a_transposed ? 'T' : 'N', s.b_transposed ? 'T' : 'N', s.a_vec4 ? '4' : '1',
                     s.b_vec4 ? '4' : '1', s.c_vec4 ? '4' : '1', s.full ? "full" : "plain", s.batch_axes,
                     static_cast<int>(s.int8), s.a_signed ? 'i' : 'u', s.b_signed ? 'i' : 'u');
}

std::string matmul_source(const MatmulSpec& spec) {
  switch (spec.plan.kind) {
    case MatmulKind::tile: return tile_source(spec);
    case MatmulKind::block: return block_source(spec);
    case MatmulKind::vector_tile: return vector_tile_source(spec);
    case MatmulKind::vector_block: return vector_block_source(spec);
    case MatmulKind::sum: return sum_source(spec);
  }
  return {};
}

}  // namespace weft::ops
