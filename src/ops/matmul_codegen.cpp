#include "ops/matmul_codegen.h"

#include <fmt/format.h>

#include <string_view>

#include "ops/matmul_text.h"
#include "ops/wgsl_text.h"

namespace weft::ops {
namespace {

using namespace matmul_text;

constexpr std::uint32_t kDepth = 16;  // of a tile along the inner axis

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
  std::string base;         ///< where the block lies for the start of the inner axis
  std::string load_inside;  ///< where all of the pair of tiles lies inside the matrices
  std::string load, keep;
};
TileLoad tile_load(char of, std::uint32_t tile, bool inner_side_by_side, bool vec4, std::uint32_t row_length,
                   std::string_view thread) {
  const char axis = of == 'a' ? 'm' : 'n';
  TileLoad out;
  // Neighbours among the threads read what lies side by side.
  const std::string along_k =
      inner_side_by_side ? fmt::format("{} % {}u", thread, kDepth / 4) : fmt::format("{} / {}u", thread, tile / 4);
  const std::string along_other =
      inner_side_by_side ? fmt::format("{} / {}u", thread, kDepth / 4) : fmt::format("{} % {}u", thread, tile / 4);
  const std::string_view unit = vec4 ? " / 4u" : "";
  const std::string first = fmt::format("(p.tile_{} * {}u + ({}) * 4u)", axis, tile, along_other);
  out.base =
      inner_side_by_side
          ? fmt::format("let base_{0} = p.{0} + {1} * params.{0}_line + ({2}) * 4u{3};\n", of, first, along_k, unit)
          : fmt::format("let base_{0} = p.{0} + {1}{3} + ({2}) * 4u * params.{0}_line;\n", of, first, along_k, unit);
  out.load_inside = inner_side_by_side ? fmt::format("let from_{0} = base_{0} + k0{1};\n", of, unit)
                                       : fmt::format("let from_{0} = base_{0} + k0 * params.{0}_line;\n", of);
  for (int i = 0; i < 4; ++i) {
    out.load_inside +=
        vec4 ? fmt::format("{0}q{1} = vec4<Elem>({0}[from_{0} + {1}u * params.{0}_line]);\n", of, i)
             : fmt::format(
                   "{{ let i = from_{0} + {1}u * params.{0}_line;\n"
                   "{0}q{1} = vec4<Elem>(Elem({0}[i]), Elem({0}[i + 1u]), Elem({0}[i + 2u]), Elem({0}[i + 3u])); }}\n",
                   of, i);
  }
  for (int i = 0; i < 4; ++i) {
    const std::string other = fmt::format("p.tile_{} * {}u + ({}) * 4u", axis, tile, along_other);
    const std::string inner = fmt::format("k0 + ({}) * 4u", along_k);
    out.load += inner_side_by_side ? fmt::format("{0}q{1} = fetch_{0}(p.{0}, {2} + {1}u, {3});\n", of, i, other, inner)
                                   : fmt::format("{0}q{1} = fetch_{0}(p.{0}, {3} + {1}u, {2});\n", of, i, other, inner);
    const std::string value = inner_side_by_side ? fmt::format("vec4<Elem>({0}q0.{1}, {0}q1.{1}, {0}q2.{1}, {0}q3.{1})",
                                                               of, kComponents[static_cast<std::size_t>(i)])
                                                 : fmt::format("{}q{}", of, i);
    out.keep += fmt::format("tile_{0}[at_{0} + (({1}) * 4u + {2}u) * {3}u + ({4})] = {5};\n", of, along_k, i,
                            row_length, along_other, value);
  }
  return out;
}

std::string tile_source(const MatmulSpec& s) {
  const MatmulPlan& plan = s.plan;
  const std::uint32_t quads_m = plan.rows / 4;
  const std::uint32_t lanes_m = plan.tile_m / plan.rows;
  const std::uint32_t threads = plan.threads / plan.slices;  // of a slice
  const std::uint32_t lanes_n = threads / lanes_m;
  const std::uint32_t quads_n = plan.tile_n / lanes_n / 4;
  // One vec4 of padding a row where blocks are turned, else threads that turn neighbours meet in one memory bank.
  const std::uint32_t row_a = plan.tile_m / 4 + (s.a_transposed ? 0 : 1);
  const std::uint32_t row_b = plan.tile_n / 4 + (s.b_transposed ? 1 : 0);

  std::string text = head(s) + int8_functions(s) + store_quad(s);
  text += fetch('a', !s.a_transposed, s.a_vec4) + fetch('b', s.b_transposed, s.b_vec4);
  text += fmt::format("var<workgroup> tile_a: array<vec4<Elem>, {}>;\nvar<workgroup> tile_b: array<vec4<Elem>, {}>;\n",
                      plan.slices * kDepth * row_a, plan.slices * kDepth * row_b);
  text += entry(s);
  const bool sliced = plan.slices > 1;
  text += sliced ? fmt::format(
                       "let slice = t / {0}u;\nlet w = t % {0}u;\nlet at_a = slice * {1}u;\nlet at_b = slice * {2}u;\n",
                       threads, kDepth * row_a, kDepth * row_b)
                 : "let w = t;\nconst at_a = 0u;\nconst at_b = 0u;\n";

  const std::uint32_t blocks = plan.tile_m * kDepth / 16;  // tile_m == tile_n
  const bool halves = blocks * 2 == threads;               // half of the threads bring a, the others b
  const TileLoad a = tile_load('a', plan.tile_m, !s.a_transposed, s.a_vec4, row_a, "w");
  const TileLoad b = tile_load('b', plan.tile_n, s.b_transposed, s.b_vec4, row_b, halves ? "u" : "w");
  const auto both = [&](const std::string& of_a, const std::string& of_b) {
    return halves ? fmt::format("if (w < {}u) {{\n{}}} else {{\n{}}}\n", blocks, of_a, of_b) : of_a + of_b;
  };
  if (halves) text += fmt::format("  let u = w - {}u;\n", blocks);
  for (char of : {'a', 'b'}) {
    for (int i = 0; i < 4; ++i) text += fmt::format("var {}q{} = vec4<Elem>();\n", of, i);
  }
  text += fmt::format("let x = w % {}u;\nlet y = w / {}u;\n", lanes_n, lanes_n);
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    for (std::uint32_t q = 0; q < quads_n; ++q) text += fmt::format("var c{}_{} = vec4<Sum>();\n", r, q);
  }
  // Each thread's share of the next pair of tiles is on its way to registers while the pair before it is multiplied.
  text += a.base + b.base;
  text += fmt::format("let inside = (p.tile_m + 1u) * {}u <= params.m && (p.tile_n + 1u) * {}u <= params.n;\n",
                      plan.tile_m, plan.tile_n);
  // Slices have the same number of steps, whatever is left of the inner axis for the last of them: barriers are for
  // all.
  const std::string_view done = sliced ? "done" : "k0", all = sliced ? "share" : "params.k";
  if (sliced) {
    text += fmt::format("let share = (params.k + {}u) / {}u * {}u;\nvar done = 0u;\n", plan.slices * kDepth - 1,
                        plan.slices * kDepth, kDepth);
  }
  text += fmt::format(
      "var k0 = {};\nloop {{\nif (inside && {} < {} && k0 + {}u <= params.k) {{\n{}}} else if ({} < {}) {{\n{}}}\n",
      sliced ? "slice * share" : "0u", done, all, kDepth, both(a.load_inside, b.load_inside), done, all,
      both(a.load, b.load));
  text += fmt::format("if ({} > 0u) {{\n", done);
  text += fmt::format("for (var i = 0u; i < {}u; i += {}u) {{\n", kDepth, plan.unroll);
  for (std::uint32_t step = 0; step < plan.unroll; ++step) {
    text += "{\n";
    for (std::uint32_t q = 0; q < quads_m; ++q) {
      text += fmt::format("let a{} = tile_a[at_a + i * {}u + y + {}u];\n", q, row_a, step * row_a + q * lanes_m);
    }
    for (std::uint32_t q = 0; q < quads_n; ++q) {
      text += fmt::format("let b{} = tile_b[at_b + i * {}u + x + {}u];\n", q, row_b, step * row_b + q * lanes_n);
    }
    for (std::uint32_t r = 0; r < plan.rows; ++r) {
      for (std::uint32_t q = 0; q < quads_n; ++q) {
        text += multiply_add(s, fmt::format("c{}_{}", r, q), fmt::format("a{}.{}", r / 4, kComponents[r % 4]),
                             fmt::format("b{}", q));
      }
    }
    text += "}\n";
  }
  text +=
      fmt::format("}}\n}}\nif ({} >= {}) {{ break; }}\nworkgroupBarrier();\n{}workgroupBarrier();\nk0 += {}u;\n{}}}\n",
                  done, all, both(a.keep, b.keep), kDepth, sliced ? fmt::format("done += {}u;\n", kDepth) : "");
  // Half of the slices hand their sums to the others, until one has them all.
  for (std::uint32_t half = plan.slices / 2; half > 0; half /= 2) {
    std::string give, take;
    for (std::uint32_t i = 0; i < plan.rows * quads_n; ++i) {
      const std::string place =
          fmt::format("tile_b[((slice % {}u) * {}u + {}u) * {}u + w]", half, plan.rows * quads_n, i, threads);
      give += fmt::format("{} = vec4<Elem>(c{}_{});\n", place, i / quads_n, i % quads_n);
      take += fmt::format("c{0}_{1} += vec4<Sum>({2});\n", i / quads_n, i % quads_n, place);
    }
    text += fmt::format(
        "workgroupBarrier();\nif (slice >= {0}u && slice < {1}u) {{\n{2}}}\nworkgroupBarrier();\nif (slice < {0}u) "
        "{{\n{3}}}\n",
        half, 2 * half, give, take);
  }
  if (plan.slices > 1) text += "if (slice > 0u) { return; }\n";
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
  s.wide = s.wide && s.plan.kind == MatmulKind::matrix && s.in == DType::f16 && s.plan.vec == 8;
  if (s.wide) s.a_vec4 = s.b_vec4 = true;
  if (s.plan.kind == MatmulKind::panel) {
    s.in = is_float(s.out) ? DType::f32 : DType::i32;  // panels hold sums
    s.a_transposed = s.b_transposed = false;
    s.a_vec4 = s.b_vec4 = s.a_signed = s.b_signed = true;
    s.full = s.full || s.batch_axes == 3 || s.out == DType::i32;
    s.c_vec4 = s.c_vec4 && !s.full;
    if (s.full) s.batch_axes = 3;
    return s;
  }
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
  // Implementations that have units for packed integers have WGSL's products of them too.
  if (s.plan.kind == MatmulKind::matrix && s.int8 != Int8::none) s.int8 = Int8::dot;
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
  const auto of = [&](bool vec4) { return s.wide ? '8' : vec4 ? '4' : '1'; };
  const std::string matrix =
      p.unit ? fmt::format("/{}x{}x{}/{}/{}x{}x{}", p.sub_m, p.sub_n, p.slab, p.vec, p.unit.m, p.unit.n, p.unit.k) : "";
  return fmt::format("matmul/{}/{}x{}/{}/{}/{}/{}/{}-{}/{}{}{}{}{}/{}{}/{}{}{}{}", static_cast<int>(p.kind),
                     block ? 0 : p.tile_m, block ? 0 : p.tile_n, p.threads, p.rows, p.unroll, p.quads * p.slices,
                     wgsl_name(s.in), wgsl_name(s.out), s.a_transposed ? 'T' : 'N', s.b_transposed ? 'T' : 'N',
                     of(s.a_vec4), of(s.b_vec4), s.c_vec4 ? '4' : '1', s.full ? "full" : "plain", s.batch_axes,
                     static_cast<int>(s.int8), s.a_signed ? 'i' : 'u', s.b_signed ? 'i' : 'u', matrix);
}

std::string matmul_source(const MatmulSpec& spec) {
  switch (spec.plan.kind) {
    case MatmulKind::tile: return tile_source(spec);
    case MatmulKind::matrix: return matmul_matrix_source(spec);
    case MatmulKind::block: return matmul_block_source(spec);
    case MatmulKind::panel: return matmul_panel_source(spec);
    case MatmulKind::vector_tile: return matmul_vector_tile_source(spec);
    case MatmulKind::vector_block: return matmul_vector_block_source(spec);
    case MatmulKind::sum: return sum_source(spec);
  }
  return {};
}

}  // namespace weft::ops
