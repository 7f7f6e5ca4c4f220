#include "ops/matmul_text.h"

#include <fmt/format.h>

#include "ops/element_math.h"
#include "ops/wgsl_text.h"
#include "weft/ops.h"

namespace weft::ops::matmul_text {
namespace {

std::string_view sum_type(DType t) {
  return is_float(t) ? "f32" : "i32";
}

std::string array_of(std::string_view type, bool vec4) {
  return vec4 ? fmt::format("array<vec4<{}>>", type) : fmt::format("array<{}>", type);
}

bool is_sum(const MatmulSpec& s) {
  return s.plan.kind == MatmulKind::sum;
}

/// Which tile is whose. GPUs run neighbours in number at the same time: eight rows of tiles at a time, column by
/// column, have them share what they read of both operands.
constexpr const char* kRowByRow = R"(  let rest = group / tiles_n;
  return place_at(rest % tiles_m, group % tiles_n, rest / tiles_m);)";
constexpr const char* kBands = R"(  let batch = group / (tiles_m * tiles_n);
  let tile = group - batch * (tiles_m * tiles_n);
  let first = tile / (8u * tiles_n) * 8u;
  let rest = tile - first * tiles_n;
  let rows = min(8u, tiles_m - first);
  return place_at(first + rest % rows, rest / rows, batch);)";

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

}  // namespace

std::string block_tile_m(const MatmulPlan& plan) {
  return fmt::format("({}u / params.lanes * {}u)", plan.threads, plan.rows);
}
std::string block_tile_n(const MatmulPlan& plan) {
  return fmt::format("(params.lanes * {}u)", 4 * plan.quads);
}

std::string head(const MatmulSpec& s) {
  const std::string_view sum = sum_type(s.out);
  const std::string_view element = s.int8 != Int8::none                ? "u32"
                                   : s.plan.kind == MatmulKind::matrix ? wgsl_name(s.in)
                                                                       : sum;
  std::string text =
      fmt::format("alias Elem = {};\nalias Sum = {};\nalias Out = {};\n", element, sum, wgsl_name(s.out));
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
  const std::string_view in = is_sum(s) ? sum : s.wide ? "u32" : wgsl_name(s.in);
  bind(0, "read", "a", array_of(in, s.a_vec4));
  if (!is_sum(s)) bind(1, "read", "b", array_of(in, s.b_vec4));
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
$ORDER
}
)",
               {{"$ORDER", block ? kRowByRow : kBands},
                {"$TILE_M", block ? block_tile_m(s.plan) : fmt::format("{}u", s.plan.tile_m)},
                {"$TILE_N", block ? block_tile_n(s.plan) : fmt::format("{}u", s.plan.tile_n)}});
  return text;
}

std::string store_quad(const MatmulSpec& s) {
  std::string text = results(s) + R"(
fn store(p: Place, row: u32, column: u32, sum: vec4<Sum>) {
  if (row >= params.m || column >= params.n) { return; }
)";
  std::string_view total = "sum";
  std::string_view step;
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

std::string store_loop(std::string_view names, std::uint32_t count, std::string_view store) {
  return fmt::format(
      "var sums = array<vec4<Sum>, {0}>({1});\nfor (var i = 0u; i < {0}u * min(params.groups, 1u); i++) {{\n{2}\n}}\n",
      count, names, store);
}

std::string entry(const MatmulSpec& s) {
  return fmt::format(R"(
@compute @workgroup_size({})
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) grid: vec3u,
        @builtin({}) t: u32) {{
  let group = id.x + id.y * grid.x;
  if (group >= params.groups) {{ return; }}
)",
                     s.plan.threads,
                     s.plan.kind == MatmulKind::panel ? "subgroup_invocation_id" : "local_invocation_index") +
         (is_sum(s) ? "" : "  let p = place(group);\n");
}

// An unsigned b is a signed one plus 128; so is an unsigned a, where b is signed.
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

std::string multiply_add(const MatmulSpec& s, std::string_view sum, std::string_view x, std::string_view y) {
  if (s.int8 != Int8::none) return fmt::format("{0} += dot4({1}, {2});\n", sum, x, y);
  return is_float(s.in) ? fmt::format("{0} = fma(vec4<Sum>({1}), {2}, {0});\n", sum, x, y)
                        : fmt::format("{0} += {1} * {2};\n", sum, x, y);
}

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

std::string multiply_one(const MatmulSpec& s, std::string_view sum, std::string_view x, std::string_view y) {
  if (s.int8 != Int8::none) return fmt::format("{0} += dot1({1}, {2});\n", sum, x, y);
  return is_float(s.in) ? fmt::format("{0} = fma({1}, {2}, {0});\n", sum, x, y)
                        : fmt::format("{0} += {1} * {2};\n", sum, x, y);
}

}  // namespace weft::ops::matmul_text
