// Products by subgroup matrices (matrix units, "tensor cores"): the workgroup brings a slab of both operands to
// workgroup memory, and each of its subgroups multiplies a part of the tile from there. What was tried on the way and
// what it brought: docs/decisions/012.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "ops/matmul_text.h"

namespace weft::ops {
namespace {

using namespace matmul_text;

/// One operand's share of a slab: `lines` lines of `side` elements that lie side by side in memory, and lie so in
/// workgroup memory too. Each thread brings `quads` times four of them.
struct Share {
  char of;             ///< 'a' or 'b'
  bool along_k;        ///< what lies side by side is the inner axis
  bool vec4;           ///< four at a time
  std::uint32_t tile;  ///< of the outer axis
  std::uint32_t side, lines, stride, quads, threads;

  Share(const MatmulSpec& s, char operand)
      : of(operand),
        along_k(of == 'a' ? !s.a_transposed : s.b_transposed),
        vec4(of == 'a' ? s.a_vec4 : s.b_vec4),
        tile(of == 'a' ? s.plan.tile_m : s.plan.tile_n),
        side(along_k ? kMatrixSlab : tile),
        lines(along_k ? tile : kMatrixSlab),
        stride(side + kMatrixPad),
        quads(side * lines / 4 / s.plan.threads),
        threads(s.plan.threads) {}

  std::string outer() const { return of == 'a' ? "params.m" : "params.n"; }
  std::string name(std::string_view prefix) const { return fmt::format("{}_{}", prefix, of); }
  std::string quad(std::uint32_t i) const { return fmt::format("quad_{}{}", of, i); }
  std::string first() const { return fmt::format("p.tile_{} * {}u", of == 'a' ? 'm' : 'n', tile); }
  /// The thread's quads all lie as far along their line, and so many lines apart (fits() in matmul_plan.cpp).
  std::uint32_t lines_apart() const { return threads / (side / 4); }

  /// Where the thread's first quad lies: `line` and `side` of the slab, and `base`, its index for the inner axis'
  /// start.
  std::string places() const {
    const std::string unit = vec4 ? " / 4u" : "";
    std::string text =
        fmt::format("let {} = t / {}u;\nlet {} = t % {}u * 4u;\n", name("line"), side / 4, name("side"), side / 4);
    text += along_k ? fmt::format("let {} = p.{} + ({} + {}) * params.{}_line + {}{};\n", name("base"), of, first(),
                                  name("line"), of, name("side"), unit)
                    : fmt::format("let {} = p.{} + ({} + {}){} + {} * params.{}_line;\n", name("base"), of, first(),
                                  name("side"), unit, name("line"), of);
    for (std::uint32_t i = 0; i < quads; ++i) text += fmt::format("var {} = vec4<Elem>();\n", quad(i));
    return text;
  }

  /// Reads the quads of the slab from `k` on to registers, all of which lie inside the matrix.
  std::string load_inside(std::string_view k) const {
    std::string text = fmt::format("let from_{0} = base_{0} + {1}{2};\n", of, k,
                                   along_k ? (vec4 ? " / 4u" : "") : fmt::format(" * params.{}_line", of));
    for (std::uint32_t i = 0; i < quads; ++i) {
      const std::string at = fmt::format("from_{0} + {1}u * params.{0}_line", of, i * lines_apart());
      text +=
          vec4 ? fmt::format("{} = {}[{}];\n", quad(i), of, at)
               : fmt::format("{{ let i = {0};\n{1} = vec4<Elem>({2}[i], {2}[i + 1u], {2}[i + 2u], {2}[i + 3u]); }}\n",
                             at, quad(i), of);
    }
    return text;
  }

  /// The same where some may not: past the inner axis' end there are zeros; rows or columns past theirs read the last
  /// ones, and what these give is not stored.
  std::string load_edge(std::string_view k) const {
    std::string text;
    for (std::uint32_t i = 0; i < quads; ++i) {
      const std::string line = fmt::format("({} + {}u)", name("line"), i * lines_apart());
      const std::string inner = fmt::format("({} + {})", k, along_k ? name("side") : line);
      const std::string outside = fmt::format("({} + {})", first(), along_k ? line : name("side"));
      if (vec4) {
        const std::string index =
            along_k ? fmt::format("p.{0} + min({1}, {2} - 1u) * params.{0}_line + min({3}, params.k - 4u) / 4u", of,
                                  outside, outer(), inner)
                    : fmt::format("p.{0} + min({1}, {2} - 4u) / 4u + min({3}, params.k - 1u) * params.{0}_line", of,
                                  outside, outer(), inner);
        text += fmt::format("{} = select(vec4<Elem>(), {}[{}], {} < params.k);\n", quad(i), of, index, inner);
        continue;
      }
      const auto four = [](std::string_view at, std::string_view length) {
        return fmt::format("min(vec4u({}) + vec4u(0u, 1u, 2u, 3u), vec4u({} - 1u))", at, length);
      };
      text += along_k ? fmt::format("{{ let i = vec4u(p.{0} + min({1}, {2} - 1u) * params.{0}_line) + {3};\n", of,
                                    outside, outer(), four(inner, "params.k"))
                      : fmt::format("{{ let i = vec4u(p.{0} + min({1}, params.k - 1u) * params.{0}_line) + {2};\n", of,
                                    inner, four(outside, outer()));
      text += fmt::format("let quad = vec4<Elem>({0}[i.x], {0}[i.y], {0}[i.z], {0}[i.w]);\n", of);
      text += along_k
                  ? fmt::format(
                        "{} = select(vec4<Elem>(), quad, vec4u({}) + vec4u(0u, 1u, 2u, 3u) < vec4u(params.k)); }}\n",
                        quad(i), inner)
                  : fmt::format("{} = select(vec4<Elem>(), quad, {} < params.k); }}\n", quad(i), inner);
    }
    return text;
  }

  /// From registers to workgroup memory.
  std::string keep() const {
    std::string text = fmt::format("let at_{0} = line_{0} * {1}u + side_{0};\n", of, stride);
    for (std::uint32_t i = 0; i < quads; ++i) {
      for (std::uint32_t j = 0; j < 4; ++j) {
        text += fmt::format("slab_{0}[at_{0} + {1}u] = {2}.{3};\n", of, i * lines_apart() * stride + j, quad(i),
                            kComponents[j]);
      }
    }
    return text;
  }

  /// A matrix of the operand, from `outer_at` rows or columns into the tile and `inner` steps into the slab.
  std::string matrix(const MatmulSpec& s, std::string_view outer_at, std::string_view inner) const {
    const MatrixUnit& u = s.plan.unit;
    const std::string type = of == 'a' ? fmt::format("subgroup_matrix_left<f16, {}, {}>", u.k, u.m)
                                       : fmt::format("subgroup_matrix_right<f16, {}, {}>", u.n, u.k);
    // a's rows and b's inner steps are matrix rows.
    const bool rows = (of == 'a') == along_k;
    return fmt::format("subgroupMatrixLoad<{}, {}>(&slab_{}, ({}) * {}u + {}, {}u)", type,
                       rows ? "row_major" : "col_major", of, along_k ? outer_at : inner, stride,
                       along_k ? inner : outer_at, stride);
  }
};

}  // namespace

std::string matmul_matrix_source(const MatmulSpec& s) {
  const MatmulPlan& plan = s.plan;
  const MatrixUnit& unit = plan.unit;
  const std::uint32_t across = plan.tile_n / plan.sub_n;  // subgroups side by side
  const std::uint32_t mats_m = plan.sub_m / unit.m;
  const std::uint32_t mats_n = plan.sub_n / unit.n;
  const std::uint32_t strip = plan.sub_n + kMatrixPad;
  const Share a(s, 'a'), b(s, 'b');

  // All that a subgroup's threads decide on is the same for all of them, which the compiler can't know: it comes from
  // the thread's number, and these kernels' workgroups are rows of whole subgroups.
  std::string text =
      "diagnostic(off, chromium.subgroup_matrix_uniformity);\nenable f16;\n"
      "enable chromium_experimental_subgroup_matrix;\n";
  text += head(s) + store_quad(s);
  text += fmt::format(
      "var<workgroup> slab_a: array<f16, {}>;\nvar<workgroup> slab_b: array<f16, {}>;\n"
      "var<workgroup> strips: array<Sum, {}>;\n",
      a.lines * a.stride, b.lines * b.stride, plan.threads / unit.subgroup * unit.m * strip);
  text += entry(s);
  text += fmt::format(
      "let subgroup = t / {}u;\nlet sub_row = subgroup / {}u * {}u;\nlet sub_column = subgroup % {}u * {}u;\n",
      unit.subgroup, across, plan.sub_m, across, plan.sub_n);
  text += a.places() + b.places();
  for (std::uint32_t i = 0; i < mats_m; ++i) {
    for (std::uint32_t j = 0; j < mats_n; ++j) {
      text += fmt::format("var c{}_{}: subgroup_matrix_result<Sum, {}, {}>;\n", i, j, unit.n, unit.m);
    }
  }
  const auto load = [&](std::string_view k, std::string_view end) {
    return fmt::format("if (inside && {0} <= params.k) {{\n{1}}} else if ({2} < params.k) {{\n{3}}}\n", end,
                       a.load_inside(k) + b.load_inside(k), k, a.load_edge(k) + b.load_edge(k));
  };
  text += fmt::format("let inside = (p.tile_m + 1u) * {}u <= params.m && (p.tile_n + 1u) * {}u <= params.n;\n",
                      plan.tile_m, plan.tile_n);
  // The next slab is on its way to registers while this one is multiplied.
  text += load("0u", fmt::format("{}u", kMatrixSlab));
  text += fmt::format("for (var k0 = 0u; k0 < params.k; k0 += {}u) {{\n", kMatrixSlab);
  text += a.keep() + b.keep() + "workgroupBarrier();\n";
  text += fmt::format("let next = k0 + {0}u;\n{1}", kMatrixSlab, load("next", fmt::format("next + {}u", kMatrixSlab)));
  const auto multiply = [&](std::string_view inner) {
    std::string out = "{\n";
    for (std::uint32_t i = 0; i < mats_m; ++i) {
      out += fmt::format("let a{} = {};\n", i, a.matrix(s, fmt::format("sub_row + {}u", i * unit.m), inner));
    }
    for (std::uint32_t j = 0; j < mats_n; ++j) {
      out += fmt::format("let b{} = {};\n", j, b.matrix(s, fmt::format("sub_column + {}u", j * unit.n), inner));
      for (std::uint32_t i = 0; i < mats_m; ++i) {
        out += fmt::format("c{0}_{1} = subgroupMatrixMultiplyAccumulate(a{0}, b{1}, c{0}_{1});\n", i, j);
      }
    }
    return out + "}\n";
  };
  if (kMatrixSlab / unit.k <= 2) {  // written out: a loop costs, and makes no difference to compile this little
    for (std::uint32_t inner = 0; inner < kMatrixSlab; inner += unit.k) text += multiply(fmt::format("{}u", inner));
  } else {
    text += fmt::format("for (var inner = 0u; inner < {}u; inner += {}u) {{\n{}}}\n", kMatrixSlab, unit.k,
                        multiply("inner"));
  }
  text += "workgroupBarrier();\n}\n";
  // Results go to memory through workgroup memory, a strip of matrices at a time: there they have rows and columns.
  text += fmt::format("for (var strip = 0u; strip < {}u; strip++) {{\n", mats_m);
  for (std::uint32_t i = 0; i < mats_m; ++i) {
    text += fmt::format("if (strip == {}u) {{\n", i);
    for (std::uint32_t j = 0; j < mats_n; ++j) {
      text += fmt::format("subgroupMatrixStore<row_major>(&strips, subgroup * {}u + {}u, c{}_{}, {}u);\n",
                          unit.m * strip, j * unit.n, i, j, strip);
    }
    text += "}\n";
  }
  text += fmt::format(
      "workgroupBarrier();\nfor (var i = t % {0}u; i < {1}u; i += {0}u) {{\n"
      "let row = i / {2}u;\nlet column = i % {2}u * 4u;\nlet at = subgroup * {3}u + row * {4}u + column;\n"
      "store(p, p.tile_m * {5}u + sub_row + strip * {6}u + row, p.tile_n * {7}u + sub_column + column,\n"
      "      vec4<Sum>(strips[at], strips[at + 1u], strips[at + 2u], strips[at + "
      "3u]));\n}}\nworkgroupBarrier();\n}}\n}}\n",
      unit.subgroup, unit.m * plan.sub_n / 4, plan.sub_n / 4, unit.m * strip, strip, plan.tile_m, unit.m, plan.tile_n);
  return text;
}

}  // namespace weft::ops
