// Matrix times vector, for both device classes.
#include <fmt/format.h>

#include "ops/matmul_text.h"
#include "ops/wgsl_text.h"

namespace weft::ops {
namespace {

using namespace matmul_text;

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

}  // namespace

std::string matmul_vector_block_source(const MatmulSpec& s) {
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

std::string matmul_vector_tile_source(const MatmulSpec& s) {
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

}  // namespace weft::ops
