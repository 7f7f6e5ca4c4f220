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
  std::string name(std::string_view prefix, std::uint32_t i) const { return fmt::format("{}_{}{}", prefix, of, i); }
  std::string first() const { return fmt::format("p.tile_{} * {}u", of == 'a' ? 'm' : 'n', tile); }

  /// Where each of the thread's quads lies: `line` and `side` of the slab, and `base`, from which the step along the
  /// inner axis counts. Rows or columns past the matrix's end read its last ones; what they give is not stored.
  std::string places() const {
    std::string text;
    for (std::uint32_t i = 0; i < quads; ++i) {
      text += fmt::format("let {} = (t + {}u) / {}u;\nlet {} = (t + {}u) % {}u * 4u;\n", name("line", i), i * threads,
                          side / 4, name("side", i), i * threads, side / 4);
      if (along_k) {
        text += fmt::format("let {} = p.{} + min({} + {}, {} - 1u) * params.{}_line;\n", name("base", i), of, first(),
                            name("line", i), outer(), of);
      } else if (vec4) {
        text += fmt::format("let {} = p.{} + min({} + {}, {} - 4u) / 4u;\n", name("base", i), of, first(),
                            name("side", i), outer());
      } else {
        text += fmt::format("let {} = vec4u(p.{}) + min(vec4u({} + {}) + vec4u(0u, 1u, 2u, 3u), vec4u({} - 1u));\n",
                            name("base", i), of, first(), name("side", i), outer());
      }
      text += fmt::format("var {} = vec4<Elem>();\n", name("quad", i));
    }
    return text;
  }

  /// Reads the quads of the slab from `k` on to registers. `whole`: all of it lies inside; else zeros past its end.
  std::string load(std::string_view k, bool whole) const {
    std::string text;
    for (std::uint32_t i = 0; i < quads; ++i) {
      const std::string quad = name("quad", i), base = name("base", i);
      if (along_k) {
        const std::string at = fmt::format("{} + {}", k, name("side", i));
        if (vec4) {
          text += whole ? fmt::format("{} = {}[{} + ({}) / 4u];\n", quad, of, base, at)
                        : fmt::format(
                              "{0} = select(vec4<Elem>(), {1}[{2} + min({3}, params.k - 4u) / 4u], {3} < params.k);\n",
                              quad, of, base, at);
          continue;
        }
        const std::string index =
            whole ? fmt::format("vec4u({} + {}) + vec4u(0u, 1u, 2u, 3u)", base, at)
                  : fmt::format("vec4u({}) + min(vec4u({}) + vec4u(0u, 1u, 2u, 3u), vec4u(params.k - 1u))", base, at);
        text += fmt::format("{{ let i = {0};\n{1} = vec4<Elem>({2}[i.x], {2}[i.y], {2}[i.z], {2}[i.w]); }}\n", index,
                            quad, of);
        if (!whole) {
          text += fmt::format(
              "{0} = select(vec4<Elem>(), {0}, vec4u({1}) + vec4u(0u, 1u, 2u, 3u) < vec4u(params.k));\n", quad, at);
        }
        continue;
      }
      const std::string line = fmt::format("{} + {}", k, name("line", i));
      const std::string step = whole ? fmt::format("({}) * params.{}_line", line, of)
                                     : fmt::format("min({}, params.k - 1u) * params.{}_line", line, of);
      const std::string value =
          vec4 ? fmt::format("{}[{} + {}]", of, base, step)
               : fmt::format("vec4<Elem>({0}[{1}.x + {2}], {0}[{1}.y + {2}], {0}[{1}.z + {2}], {0}[{1}.w + {2}])", of,
                             base, step);
      text += whole ? fmt::format("{} = {};\n", quad, value)
                    : fmt::format("{} = select(vec4<Elem>(), {}, {} < params.k);\n", quad, value, line);
    }
    return text;
  }

  /// From registers to workgroup memory.
  std::string keep() const {
    std::string text;
    for (std::uint32_t i = 0; i < quads; ++i) {
      text += fmt::format("{{ let at = {} * {}u + {};\n", name("line", i), stride, name("side", i));
      for (std::uint32_t j = 0; j < 4; ++j) {
        text += fmt::format("slab_{}[at + {}u] = {}.{};\n", of, j, name("quad", i), kComponents[j]);
      }
      text += "}\n";
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
  const auto load = [&](std::string_view k, bool whole) { return a.load(k, whole) + b.load(k, whole); };
  // The next slab is on its way to registers while this one is multiplied.
  text +=
      fmt::format("if ({0}u <= params.k) {{\n{1}}} else {{\n{2}}}\n", kMatrixSlab, load("0u", true), load("0u", false));
  text += fmt::format("for (var k0 = 0u; k0 < params.k; k0 += {}u) {{\n", kMatrixSlab);
  text += a.keep() + b.keep() + "workgroupBarrier();\n";
  text +=
      fmt::format("let next = k0 + {0}u;\nif (next + {0}u <= params.k) {{\n{1}}} else if (next < params.k) {{\n{2}}}\n",
                  kMatrixSlab, load("next", true), load("next", false));
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
