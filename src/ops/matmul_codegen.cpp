#include "ops/matmul_codegen.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>
#include <utility>

namespace weft::ops {
namespace {

constexpr std::uint32_t kDepth = 16;  // of a tile along the inner axis
constexpr std::string_view kComponents = "xyzw";

struct Replacement {
  std::string_view mark;
  std::string text;
};

/// `text` with every mark replaced. A mark starts with '$'; none is the beginning of another in the same list.
std::string fill(std::string text, std::initializer_list<Replacement> replacements) {
  for (const Replacement& r : replacements) {
    for (std::size_t at = 0; (at = text.find(r.mark, at)) != std::string::npos; at += r.text.size()) {
      text.replace(at, r.mark.size(), r.text);
    }
  }
  return text;
}

std::string_view wgsl_name(DType t) {
  switch (t) {
    case DType::i32: return "i32";
    case DType::u32: return "u32";
    case DType::f16: return "f16";
    default: return "f32";
  }
}

std::string_view sum_type(DType t) {
  return is_float(t) ? "f32" : wgsl_name(t);
}

std::string array_of(std::string_view type, bool vec4) {
  return vec4 ? fmt::format("array<vec4<{}>>", type) : fmt::format("array<{}>", type);
}

/// Aliases, parameters, bindings, and `place`, which finds the workgroup's tile and where its matrices start.
std::string head(const MatmulSpec& s) {
  std::string text = fmt::format("alias Sum = {};\nalias Out = {};\nalias Total = {};\n", sum_type(s.in),
                                 wgsl_name(s.out), sum_type(s.out));
  text +=
      "struct Params {\n  m: u32, n: u32, k: u32, groups: u32,\n  a_offset: u32, a_line: u32, b_offset: u32, b_line: "
      "u32, "
      "c_offset: u32, c_line: u32,\n";
  if (s.batch_axes == 3) text += "  batch_1: u32, batch_2: u32,\n";
  for (std::string_view of : {"a", "b"}) {
    for (std::uint32_t i = 0; i < s.batch_axes; ++i) text += fmt::format("  {}_batch_{}: u32,\n", of, i);
  }
  if (s.batch_axes > 0) text += "  c_batch: u32,\n";
  if (s.bias) {
    text += "  bias_offset: u32, bias_row: u32, bias_column: u32,\n";
    for (std::uint32_t i = 0; i < s.batch_axes; ++i) text += fmt::format("  bias_batch_{}: u32,\n", i);
  }
  text += "}\n";
  text += fmt::format("@group(0) @binding(0) var<storage, read> a: {};\n", array_of(wgsl_name(s.in), s.a_vec4));
  text += fmt::format("@group(0) @binding(1) var<storage, read> b: {};\n", array_of(wgsl_name(s.in), s.b_vec4));
  text += fmt::format("@group(0) @binding(2) var<storage, read_write> c: {};\n", array_of(wgsl_name(s.out), s.c_vec4));
  if (s.bias) {
    text += fmt::format("@group(0) @binding(3) var<storage, read> bias: {};\n", array_of(wgsl_name(s.out), false));
  }

  const auto start = [&](std::string_view of) {
    std::string sum = fmt::format("params.{}_offset", of);
    if (s.batch_axes == 1) sum += fmt::format(" + batch * params.{}_batch_0", of);
    if (s.batch_axes == 3) {
      for (int i = 0; i < 3; ++i) sum += fmt::format(" + i{0} * params.{1}_batch_{0}", i, of);
    }
    return sum;
  };
  text += fill(R"(
struct Place { tile_m: u32, tile_n: u32, a: u32, b: u32, c: u32, bias: u32 }
fn place(group: u32) -> Place {
  let tiles_m = (params.m + $TILE_M - 1u) / $TILE_M;
  let tiles_n = (params.n + $TILE_N - 1u) / $TILE_N;
  let rest = group / tiles_n;
  let batch = rest / tiles_m;
)",
               {{"$TILE_M", fmt::format("{}u", s.plan.tile_m)}, {"$TILE_N", fmt::format("{}u", s.plan.tile_n)}});
  if (s.batch_axes == 3) {
    text +=
        "  let i2 = batch % params.batch_2;\n  let i1 = batch / params.batch_2 % params.batch_1;\n"
        "  let i0 = batch / params.batch_2 / params.batch_1;\n";
  }
  text +=
      fmt::format("  return Place(rest % tiles_m, group % tiles_n, {}, {}, params.c_offset{}, {});\n}}\n", start("a"),
                  start("b"), s.batch_axes > 0 ? " + batch * params.c_batch" : "", s.bias ? start("bias") : "0u");
  return text;
}

/// `store`: four results side by side, those inside the matrix.
std::string store_quad(const MatmulSpec& s) {
  std::string text = R"(
fn store(p: Place, row: u32, column: u32, sum: vec4<Sum>) {
  if (row >= params.m || column >= params.n) { return; }
)";
  const std::string bias = "Total(bias[p.bias + row * params.bias_row + (column + $Iu) * params.bias_column])";
  const auto bias_at = [&](int i) { return fill(bias, {{"$I", std::to_string(i)}}); };
  if (s.c_vec4) {
    text += "  var total = vec4<Total>(sum);\n";
    if (s.bias) {
      text += fmt::format("  total += vec4<Total>({}, {}, {}, {});\n", bias_at(0), bias_at(1), bias_at(2), bias_at(3));
    }
    return text + "  c[p.c + row * params.c_line + column / 4u] = vec4<Out>(total);\n}\n";
  }
  text += "  let at = p.c + row * params.c_line + column;\n";
  for (int i = 0; i < 4; ++i) {
    text += fmt::format("  if (column + {0}u < params.n) {{ c[at + {0}u] = Out(Total(sum.{1}){2}); }}\n", i,
                        kComponents[static_cast<std::size_t>(i)], s.bias ? " + " + bias_at(i) : "");
  }
  return text + "}\n";
}

/// `store_row`: one result of a vector kernel.
std::string store_row(const MatmulSpec& s) {
  return fmt::format(R"(
fn store_row(p: Place, row: u32, sum: Sum) {{
  if (row < params.m) {{ c[p.c + row * params.c_line] = Out(Total(sum){}); }}
}}
)",
                     s.bias ? " + Total(bias[p.bias + row * params.bias_row])" : "");
}

std::string entry(const MatmulSpec& s) {
  return fmt::format(R"(
@compute @workgroup_size({})
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) grid: vec3u,
        @builtin(local_invocation_index) t: u32) {{
  let group = id.x + id.y * grid.x;
  if (group >= params.groups) {{ return; }}
  let p = place(group);
)",
                     s.plan.threads);
}

std::string multiply_add(const MatmulSpec& s, std::string_view sum, std::string_view x, std::string_view y) {
  return is_float(s.in) ? fmt::format("{0} = fma({1}, {2}, {0});\n", sum, x, y)
                        : fmt::format("{0} += {1} * {2};\n", sum, x, y);
}

// -- tile -----------------------------------------------------------------------------------------------------------

/// `fetch_a` / `fetch_b`: four elements side by side from `at` on line `line`; zeros past the inner axis, and past the
/// outer one whatever lies at its end (those results are never stored).
std::string fetch(char of, bool inner_side_by_side, bool vec4) {
  const std::string_view outer = of == 'a' ? "params.m" : "params.n";
  std::string text = fmt::format("fn fetch_{}(start: u32, line: u32, at: u32) -> vec4<Sum> {{\n", of);
  const auto element = [&](std::string_view index) { return fmt::format("{}[{}]", of, index); };
  if (inner_side_by_side) {
    text += fill("  let first = start + min(line, $OUTER - 1u) * params.$X_line;\n",
                 {{"$OUTER", std::string(outer)}, {"$X", std::string(1, of)}});
    if (vec4) {
      return text + fmt::format("  return select(vec4<Sum>(), vec4<Sum>({}), at < params.k);\n}}\n",
                                element("first + min(at, params.k - 4u) / 4u"));
    }
    text += "  let last = params.k - 1u;\n";
    text += fmt::format("  let quad = vec4<Sum>(Sum({}), Sum({}), Sum({}), Sum({}));\n",
                        element("first + min(at, last)"), element("first + min(at + 1u, last)"),
                        element("first + min(at + 2u, last)"), element("first + min(at + 3u, last)"));
    return text + "  return select(vec4<Sum>(), quad, vec4u(at, at + 1u, at + 2u, at + 3u) < vec4u(params.k));\n}\n";
  }
  text += fmt::format("  let first = start + min(line, params.k - 1u) * params.{}_line;\n", of);
  if (vec4) {
    text += fmt::format("  let quad = vec4<Sum>({});\n", element(fmt::format("first + min(at, {} - 4u) / 4u", outer)));
  } else {
    text += fmt::format("  let last = {} - 1u;\n", outer);
    text += fmt::format("  let quad = vec4<Sum>(Sum({}), Sum({}), Sum({}), Sum({}));\n",
                        element("first + min(at, last)"), element("first + min(at + 1u, last)"),
                        element("first + min(at + 2u, last)"), element("first + min(at + 3u, last)"));
  }
  return text + "  return select(vec4<Sum>(), quad, line < params.k);\n}\n";
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
    const std::string value = inner_side_by_side ? fmt::format("vec4<Sum>({0}q0.{1}, {0}q1.{1}, {0}q2.{1}, {0}q3.{1})",
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

  std::string text = head(s) + store_quad(s);
  text += fetch('a', !s.a_transposed, s.a_vec4) + fetch('b', s.b_transposed, s.b_vec4);
  text += fmt::format("var<workgroup> tile_a: array<vec4<Sum>, {}>;\nvar<workgroup> tile_b: array<vec4<Sum>, {}>;\n",
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
    for (int i = 0; i < 4; ++i) text += fmt::format("var {}q{} = vec4<Sum>();\n", of, i);
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
      text += multiply_add(s, fmt::format("c{}_{}", r, q), fmt::format("vec4<Sum>(a{}.{})", r / 4, kComponents[r % 4]),
                           fmt::format("b{}", q));
    }
  }
  text += fmt::format(
      "}}\n}}\nif (k0 >= params.k) {{ break; }}\nworkgroupBarrier();\n{}workgroupBarrier();\nk0 += {}u;\n}}\n",
      both(a.keep, b.keep), kDepth);
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
        text += vec4 ? fmt::format("let {0}{1} = vec4<Sum>({0}[{0}p{1} + k / 4u]);\n", of, i)
                     : fmt::format(
                           "let {0}{1} = vec4<Sum>(Sum({0}[{0}p{1} + k]), Sum({0}[{0}p{1} + k + 1u]), "
                           "Sum({0}[{0}p{1} + k + 2u]), Sum({0}[{0}p{1} + k + 3u]));\n",
                           of, i);
      }
      return text;
    }
    if (inner_side_by_side) {
      for (std::uint32_t i = 0; i < count; ++i) text += fmt::format("let {0}{1} = Sum({0}[{0}p{1} + k]);\n", of, i);
      return text;
    }
    for (std::uint32_t d = 0; d < depth; ++d) {
      text += fmt::format("let {0}k{1} = (k + {1}u) * params.{0}_line;\n", of, d);
      for (std::uint32_t q = 0; q < count / 4; ++q) {
        if (vec4) {
          text += fmt::format("let {0}{1}_{2} = vec4<Sum>({0}[{0}p{1} + {0}k{2}]);\n", of, q, d);
        } else {
          text += fmt::format(
              "let {0}{1}_{2} = vec4<Sum>(Sum({0}[{0}p{3} + {0}k{2}]), Sum({0}[{0}p{4} + {0}k{2}]), "
              "Sum({0}[{0}p{5} + {0}k{2}]), Sum({0}[{0}p{6} + {0}k{2}]));\n",
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
  const BlockLoad a = block_load('a', plan.rows, !s.a_transposed, s.a_vec4);
  const BlockLoad b = block_load('b', 4, s.b_transposed, s.b_vec4);

  std::string text = head(s) + store_quad(s) + entry(s);
  text += fmt::format("let column = p.tile_n * {}u + t % {}u * 4u;\nlet row = p.tile_m * {}u + t / {}u * {}u;\n",
                      plan.tile_n, plan.lanes_n, plan.tile_m, plan.lanes_n, plan.rows);
  text += a.prepare + b.prepare;
  for (std::uint32_t r = 0; r < plan.rows; ++r) text += fmt::format("var c{} = vec4<Sum>();\n", r);

  const auto body = [&](std::uint32_t depth) {
    std::string out = depth == 4 ? a.load4 + b.load4 : a.load1 + b.load1;
    for (std::uint32_t d = 0; d < depth; ++d) {
      const std::string component = depth == 4 ? fmt::format(".{}", kComponents[d]) : "";
      std::string columns = fmt::format("b0_{}", d);
      if (b.inner) {
        columns = fmt::format("w{}", d);
        out += fmt::format("let {0} = vec4<Sum>(b0{1}, b1{1}, b2{1}, b3{1});\n", columns, component);
      }
      for (std::uint32_t r = 0; r < plan.rows; ++r) {
        const std::string element =
            a.inner ? fmt::format("a{}{}", r, component) : fmt::format("a{}_{}.{}", r / 4, d, kComponents[r % 4]);
        out += multiply_add(s, fmt::format("c{}", r), fmt::format("vec4<Sum>({})", element), columns);
      }
    }
    return out;
  };
  // Loads of four along the inner axis mean that its length is a multiple of four.
  const std::uint32_t depth = (a.inner && s.a_vec4) || (b.inner && s.b_vec4) ? 4 : 1;
  text += fmt::format("for (var k = 0u; k < params.k; k += {}u) {{\n{}}}\n", depth, body(depth));
  for (std::uint32_t r = 0; r < plan.rows; ++r) text += fmt::format("store(p, row + {0}u, column, c{0});\n", r);
  return text + "}\n";
}

// -- vectors --------------------------------------------------------------------------------------------------------

/// Four elements of the vector from k on.
std::string vector_quad(const MatmulSpec& s, std::string_view k) {
  if (s.b_vec4) return fmt::format("vec4<Sum>(b[p.b + {} / 4u])", k);
  return fill(
      "vec4<Sum>(Sum(b[p.b + $K * params.b_line]), Sum(b[p.b + ($K + 1u) * params.b_line]), "
      "Sum(b[p.b + ($K + 2u) * params.b_line]), Sum(b[p.b + ($K + 3u) * params.b_line]))",
      {{"$K", std::string(k)}});
}

/// `ap0` (or ap0..ap3): where the lane's row, or four rows, start.
std::string vector_rows(const MatmulSpec& s) {
  if (!s.a_transposed) return "let ap0 = p.a + min(row, params.m - 1u) * params.a_line;\n";
  if (s.a_vec4) return "let ap0 = p.a + min(row, params.m - 4u) / 4u;\n";
  std::string text;
  for (int i = 0; i < 4; ++i) text += fmt::format("let ap{0} = p.a + min(row + {0}u, params.m - 1u);\n", i);
  return text;
}

/// Adds step k of the inner axis to the sums of four rows.
std::string vector_step(const MatmulSpec& s) {
  const std::string quad = s.a_vec4
                               ? "vec4<Sum>(a[ap0 + at])"
                               : "vec4<Sum>(Sum(a[ap0 + at]), Sum(a[ap1 + at]), Sum(a[ap2 + at]), Sum(a[ap3 + at]))";
  return "let at = k * params.a_line;\n" + multiply_add(s, "sum", quad, "vec4<Sum>(Sum(b[p.b + k * params.b_line]))");
}

std::string vector_block_source(const MatmulSpec& s) {
  std::string text = head(s) + store_row(s) + entry(s);
  text += fmt::format("let row = p.tile_m * {}u + t * {}u;\n", s.plan.tile_m, s.plan.rows);
  text += vector_rows(s) + "var sum = vec4<Sum>();\nvar k = 0u;\n";
  if (s.a_transposed) {
    text += fmt::format("for (; k < params.k; k++) {{\n{}}}\n", vector_step(s));
    for (int i = 0; i < 4; ++i) {
      text += fmt::format("store_row(p, row + {}u, sum.{});\n", i, kComponents[static_cast<std::size_t>(i)]);
    }
    return text + "}\n";
  }
  const std::string quad = s.a_vec4 ? "vec4<Sum>(a[ap0 + k / 4u])"
                                    : "vec4<Sum>(Sum(a[ap0 + k]), Sum(a[ap0 + k + 1u]), Sum(a[ap0 + k + 2u]), "
                                      "Sum(a[ap0 + k + 3u]))";
  text +=
      fmt::format("for (; k + 4u <= params.k; k += 4u) {{\n{}}}\n", multiply_add(s, "sum", quad, vector_quad(s, "k")));
  text += "var total = (sum.x + sum.y) + (sum.z + sum.w);\n";
  if (!s.a_vec4 && !s.b_vec4) {
    text += "for (; k < params.k; k++) { total += Sum(a[ap0 + k]) * Sum(b[p.b + k * params.b_line]); }\n";
  }
  return text + "store_row(p, row, total);\n}\n";
}

std::string vector_tile_source(const MatmulSpec& s) {
  const std::uint32_t threads = s.plan.threads;
  const std::uint32_t slices = threads / 32;
  std::string text = head(s) + store_row(s);
  text += fmt::format("var<workgroup> parts: array<{}, {}>;\n", s.a_transposed ? "vec4<Sum>" : "Sum", threads);
  text += entry(s) + "let lane = t % 32u;\nlet slice = t / 32u;\n";
  if (s.a_transposed) {
    text += fmt::format("let row = p.tile_m * {}u + lane * 4u;\n", s.plan.tile_m) + vector_rows(s);
    text += "var sum = vec4<Sum>();\n";
    text += fmt::format("for (var k = slice; k < params.k; k += {}u) {{\n{}}}\n", slices, vector_step(s));
    text += "parts[t] = sum;\nworkgroupBarrier();\nif (slice == 0u) {\n";
    text += fmt::format("for (var i = 1u; i < {}u; i++) {{ sum += parts[i * 32u + lane]; }}\n", slices);
    for (int i = 0; i < 4; ++i) {
      text += fmt::format("store_row(p, row + {}u, sum.{});\n", i, kComponents[static_cast<std::size_t>(i)]);
    }
    return text + "}\n}\n";
  }
  text += fmt::format("let row = p.tile_m * {}u + slice;\n", s.plan.tile_m) + vector_rows(s);
  if (s.a_vec4) {
    text += "var sum = vec4<Sum>();\n";
    text += fmt::format("for (var k = lane * 4u; k < params.k; k += 128u) {{\n{}}}\n",
                        multiply_add(s, "sum", "vec4<Sum>(a[ap0 + k / 4u])", vector_quad(s, "k")));
    text += "parts[t] = (sum.x + sum.y) + (sum.z + sum.w);\n";
  } else {
    text += "var sum = Sum();\n";
    text += fmt::format("for (var k = lane; k < params.k; k += 32u) {{\n{}}}\n",
                        multiply_add(s, "sum", "Sum(a[ap0 + k])", "Sum(b[p.b + k * params.b_line])"));
    text += "parts[t] = sum;\n";
  }
  text +=
      "workgroupBarrier();\nif (lane == 0u) {\nvar total = parts[t];\n"
      "for (var i = 1u; i < 32u; i++) { total += parts[t + i]; }\nstore_row(p, row, total);\n}\n}\n";
  return text;
}

}  // namespace

std::string matmul_key(const MatmulSpec& s) {
  const MatmulPlan& p = s.plan;
  return fmt::format("matmul/{}/{}x{}/{}/{}/{}/{}-{}/{}{}{}{}{}{}{}", static_cast<int>(p.kind), p.tile_m, p.tile_n,
                     p.threads, p.rows, p.lanes_n, wgsl_name(s.in), wgsl_name(s.out), s.a_transposed ? 'T' : 'N',
                     s.b_transposed ? 'T' : 'N', s.a_vec4 ? '4' : '1', s.b_vec4 ? '4' : '1', s.c_vec4 ? '4' : '1',
                     s.bias ? 'b' : '-', s.batch_axes);
}

std::string matmul_source(const MatmulSpec& spec) {
  switch (spec.plan.kind) {
    case MatmulKind::tile: return tile_source(spec);
    case MatmulKind::block: return block_source(spec);
    case MatmulKind::vector_tile: return vector_tile_source(spec);
    case MatmulKind::vector_block: return vector_block_source(spec);
  }
  return {};
}

}  // namespace weft::ops
