// Products by subgroup matrices (matrix units, "tensor cores"): the workgroup brings a slab of both operands to
// workgroup memory, and each of its subgroups multiplies a part of the tile from there. What was tried on the way and
// what it brought: docs/decisions/012; 8-bit integers: 013.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "ops/matmul_text.h"

namespace weft::ops {
namespace {

using namespace matmul_text;

bool is_packed(const MatmulSpec& s) {
  return s.int8 != Int8::none;
}
/// Units multiply operands of one signedness; of two, the unsigned one goes to them as signed ones that are 128 less,
/// and 128 times the signed one's sums along the inner axis come on top.
bool is_mixed(const MatmulSpec& s) {
  return is_packed(s) && s.a_signed != s.b_signed;
}

/// What units multiply and add up in, by their names in WGSL.
struct UnitTypes {
  std::string_view component, sum;
};
UnitTypes unit_types(const MatmulSpec& s) {
  if (!is_packed(s)) return {"f16", "f32"};
  return s.a_signed || s.b_signed ? UnitTypes{"i8", "i32"} : UnitTypes{"u8", "u32"};
}

/// One operand's share of a slab: `lines` lines of `side` elements that lie side by side in memory, and lie so in
/// workgroup memory too. Each thread brings `count` pieces, of four of them; of eight, as four words, where reads are
/// wide.
struct Share {
  char of;                  ///< 'a' or 'b'
  bool along_k;             ///< what lies side by side is the inner axis
  bool vec4;                ///< a piece is one read
  bool flips, sums;         ///< of mixed operands, the unsigned and the signed one
  std::uint32_t tile;       ///< of the outer axis
  std::uint32_t piece;      ///< elements of one
  std::string_view pieces;  ///< their type
  std::uint32_t side, lines, stride, count, threads;
  std::uint32_t vec;  ///< of workgroup memory's elements; the strides above are in single ones
  UnitTypes types;

  Share(const MatmulSpec& s, char operand)
      : of(operand),
        along_k(of == 'a' ? !s.a_transposed : s.b_transposed),
        vec4(of == 'a' ? s.a_vec4 : s.b_vec4),
        flips(is_mixed(s) && !(of == 'a' ? s.a_signed : s.b_signed)),
        sums(is_mixed(s) && !flips),
        tile(of == 'a' ? s.plan.tile_m : s.plan.tile_n),
        piece(s.wide ? 8 : 4),
        pieces(s.wide ? "vec4u" : "vec4<Elem>"),
        side(along_k ? s.plan.slab : tile),
        lines(along_k ? tile : s.plan.slab),
        stride(side + kMatrixPadBytes / static_cast<std::uint32_t>(size_of(s.in))),
        count(side * lines / piece / s.plan.threads),
        threads(s.plan.threads),
        vec(s.wide ? 8 : std::min(s.plan.vec, 4u)),
        types(unit_types(s)) {}

  std::string outer() const { return of == 'a' ? "params.m" : "params.n"; }
  std::string name(std::string_view prefix, std::uint32_t i) const { return fmt::format("{}_{}{}", prefix, of, i); }
  std::string by_piece() const { return vec4 ? fmt::format(" / {}u", piece) : ""; }
  std::string first() const { return fmt::format("p.tile_{} * {}u", of == 'a' ? 'm' : 'n', tile); }

  /// Where each of the thread's pieces lies: its index for the inner axis' start, and its `inner` step into a slab.
  /// Rows or columns past the matrix's end read its last ones; what they give is not stored.
  std::string places() const {
    std::string text;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string line = fmt::format("(t + {}u) / {}u", i * threads, side / piece);
      const std::string at = fmt::format("(t + {}u) % {}u * {}u", i * threads, side / piece, piece);
      text += fmt::format("let {} = {};\n", name("inner", i), along_k ? at : line);
      if (along_k) {
        text += fmt::format("let {0} = p.{1} + min({2} + {3}, {4} - 1u) * params.{1}_line + {5}{6};\n", name("base", i),
                            of, first(), line, outer(), name("inner", i), by_piece());
      } else if (vec4) {
        text += fmt::format("let {0} = p.{1} + min({2} + {3}, {4} - {6}u){7} + {5} * params.{1}_line;\n",
                            name("base", i), of, first(), at, outer(), name("inner", i), piece, by_piece());
      } else {
        text += fmt::format(
            "let {0} = vec4u(p.{1} + {5} * params.{1}_line) + min(vec4u({2} + {3}) + vec4u(0u, 1u, 2u, 3u), "
            "vec4u({4} - 1u));\n",
            name("base", i), of, first(), at, outer(), name("inner", i));
      }
      text += fmt::format("var {} = {}();\n", name("piece", i), pieces);
      if (sums) text += fmt::format("var {} = 0i;\n", name("sum", i));
    }
    return text;
  }

  /// Reads the pieces of the slab from `k` on to registers. `whole`: all of it; else what lies before `head`, and
  /// zeros.
  std::string load(std::string_view k, bool whole) const {
    std::string text = along_k ? fmt::format("let step_{} = {}{};\n", of, k, by_piece())
                               : fmt::format("let step_{0} = {1} * params.{0}_line;\n", of, k);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string to = name("piece", i), at = name("inner", i);
      const std::string index = fmt::format("{} + step_{}", name("base", i), of);
      if (vec4) {
        text += whole ? fmt::format("{} = {}[{}];\n", to, of, index)
                      : fmt::format("if ({0} < head) {{ {1} = {2}[{3}]; }} else {{ {1} = {4}(); }}\n", at, to, of,
                                    index, pieces);
        continue;
      }
      if (!along_k) {
        const std::string read = fmt::format(
            "{{ let i = {0} + vec4u(step_{1}); {2} = vec4<Elem>({1}[i.x], {1}[i.y], "
            "{1}[i.z], {1}[i.w]); }}\n",
            name("base", i), of, to);
        text += whole ? read : fmt::format("if ({} < head) {} else {{ {} = vec4<Elem>(); }}\n", at, read, to);
        continue;
      }
      text += fmt::format("{{ let i = {};\n", index);
      if (whole) {
        text += fmt::format("{0} = vec4<Elem>({1}[i], {1}[i + 1u], {1}[i + 2u], {1}[i + 3u]);\n", to, of);
      } else {
        text += fmt::format("{} = vec4<Elem>();\n", to);
        for (std::uint32_t j = 0; j < 4; ++j) {
          text += fmt::format("if ({0} + {1}u < head) {{ {2}.{3} = {4}[i + {1}u]; }}\n", at, j, to, kComponents[j], of);
        }
      }
      text += "}\n";
    }
    return text;
  }

  std::string slab() const {
    return fmt::format("var<workgroup> slab_{}: array<{}, {}>;\n", of,
                       vec == 1   ? "Elem"
                       : vec == 8 ? "vec4u"
                                  : fmt::format("vec{}<Elem>", vec),
                       lines * stride / vec);
  }

  /// From registers to workgroup memory.
  std::string keep() const {
    std::string text;
    for (std::uint32_t i = 0; i < count; ++i) {
      text += fmt::format("{{ let at = (t + {0}u) / {1}u * {2}u + (t + {0}u) % {1}u * {3}u;\nlet piece = {4}{5};\n",
                          i * threads, side / piece, stride / vec, piece / vec, name("piece", i),
                          flips ? " ^ vec4u(0x80808080u)" : "");
      if (vec >= 4 && !sums) {
        text += fmt::format("slab_{}[at] = piece;\n}}\n", of);
        continue;
      }
      for (std::uint32_t j = 0; j < 4; j += vec) {
        text += fmt::format("slab_{}[at + {}u] = piece.{};\n", of, j / vec, kComponents.substr(j, vec));
        for (std::uint32_t c = j; sums && c < j + vec; ++c) {
          text += fmt::format("{} += dot4I8Packed(piece.{}, 0x01010101u);\n", name("sum", i), kComponents[c]);
        }
      }
      text += "}\n";
    }
    return text;
  }

  /// To workgroup memory, which no slab is in any more, what the elements of each line came to: a sum of each thread
  /// that brought some. And `line_total`, which adds these up.
  std::string keep_sums() const {
    std::string text;
    for (std::uint32_t i = 0; i < count; ++i) {
      text += fmt::format("slab_{}[t + {}u]{} = bitcast<u32>({});\n", of, i * threads, vec == 1 ? "" : ".x",
                          name("sum", i));
    }
    return text;
  }
  std::string line_total() const {
    std::string text = "fn line_total(line: u32) -> i32 {\n  return bitcast<i32>((";
    for (std::uint32_t i = 0; i < side / 4; ++i) {
      text += fmt::format("{}slab_{}[line * {}u + {}u]{}", i == 0 ? "" : " + ", of, side / 4, i, vec == 1 ? "" : ".x");
    }
    return text + ") * 128u);\n}\n";
  }

  /// A matrix of the operand, from `outer_at` rows or columns into the tile and `inner` elements into the slab. WGSL
  /// counts offsets and strides in elements of the array, whatever these are.
  std::string matrix(const MatmulSpec& s, std::string_view outer_at, std::string_view inner) const {
    const MatrixUnit& u = s.plan.unit;
    const std::string type = of == 'a' ? fmt::format("subgroup_matrix_left<{}, {}, {}>", types.component, u.k, u.m)
                                       : fmt::format("subgroup_matrix_right<{}, {}, {}>", types.component, u.n, u.k);
    // a's rows and b's inner steps are matrix rows.
    const bool rows = (of == 'a') == along_k;
    return fmt::format("subgroupMatrixLoad<{}, {}>(&slab_{}, ({}) * {}u + ({}) / {}u, {}u)", type,
                       rows ? "row_major" : "col_major", of, along_k ? outer_at : inner, stride / vec,
                       along_k ? inner : outer_at, vec, stride / vec);
  }
};

}  // namespace

std::string matmul_matrix_source(const MatmulSpec& s) {
  const MatmulPlan& plan = s.plan;
  const MatrixUnit& unit = plan.unit;
  const std::uint32_t across = plan.tile_n / plan.sub_n;  // subgroups side by side
  const std::uint32_t mats_m = plan.sub_m / unit.m;
  const std::uint32_t mats_n = plan.sub_n / unit.n;
  const std::uint32_t line = unit.n + 4;  // of a unit's results in workgroup memory
  const std::uint32_t slab = plan.slab;
  const Share a(s, 'a'), b(s, 'b');
  const UnitTypes types = unit_types(s);

  // All that a subgroup's threads decide on is the same for all of them, which the compiler can't know: it comes from
  // the thread's number, and these kernels' workgroups are rows of whole subgroups.
  std::string text = "diagnostic(off, chromium.subgroup_matrix_uniformity);\n";
  if (!is_packed(s)) text += "enable f16;\n";
  text += "enable chromium_experimental_subgroup_matrix;\n";
  text += head(s) + store_quad(s);
  text += fmt::format("alias UnitSum = {};\n{}{}var<workgroup> results: array<UnitSum, {}>;\n", types.sum, a.slab(),
                      b.slab(), plan.threads / unit.subgroup * unit.m * line);
  if (is_mixed(s)) text += a.sums ? a.line_total() : b.line_total();
  text += entry(s);
  text += fmt::format(
      "let subgroup = t / {}u;\nlet sub_row = subgroup / {}u * {}u;\nlet sub_column = subgroup % {}u * {}u;\n",
      unit.subgroup, across, plan.sub_m, across, plan.sub_n);
  text += a.places() + b.places();
  for (std::uint32_t i = 0; i < mats_m; ++i) {
    for (std::uint32_t j = 0; j < mats_n; ++j) {
      text += fmt::format("var c{}_{}: subgroup_matrix_result<UnitSum, {}, {}>;\n", i, j, unit.n, unit.m);
    }
  }
  const auto load = [&](std::string_view k, bool whole) { return a.load(k, whole) + b.load(k, whole); };
  // What is no whole slab comes first, so that the loop reads whole ones and has no branch: while it multiplies one,
  // the next is on its way to registers (the last again, in the end). Both cost a fifth of the speed otherwise
  // (decision 012).
  text += fmt::format("let head = params.k % {0}u;\nif (head == 0u) {{\n{1}}} else {{\n{2}}}\n", slab, load("0u", true),
                      load("0u", false));
  text += fmt::format(
      "var next = select(head, {0}u, head == 0u);\nlet slabs = (params.k + {0}u - 1u) / {0}u;\n"
      "for (var i = 0u; i < slabs; i++) {{\n",
      slab);
  text += a.keep() + b.keep() + "workgroupBarrier();\n";
  text += fmt::format("let start = min(next, params.k - {0}u);\nnext += {0}u;\n{1}", slab, load("start", true));
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
  const std::uint32_t step = unit.k / (is_packed(s) ? 4 : 1);  // of the unit, in elements
  if (slab / step <= 2) {  // written out: a loop costs, and makes no difference to compile this little
    for (std::uint32_t inner = 0; inner < slab; inner += step) text += multiply(fmt::format("{}u", inner));
  } else {
    text += fmt::format("for (var inner = 0u; inner < {}u; inner += {}u) {{\n{}}}\n", slab, step, multiply("inner"));
  }
  text += "workgroupBarrier();\n}\n";
  if (is_mixed(s)) text += a.sums ? a.keep_sums() : b.keep_sums();
  // Results go to memory through workgroup memory, a unit of each subgroup at a time: there they have rows and columns.
  // More of it at a time would leave room for fewer workgroups.
  text += fmt::format("for (var i = 0u; i < {}u; i++) {{\n", mats_m * mats_n);
  for (std::uint32_t i = 0; i < mats_m * mats_n; ++i) {
    text +=
        fmt::format("{}if (i == {}u) {{ subgroupMatrixStore<row_major>(&results, subgroup * {}u, c{}_{}, {}u); }}\n",
                    i == 0 ? "" : "else ", i, unit.m * line, i / mats_n, i % mats_n, line);
  }
  text += fmt::format(
      "workgroupBarrier();\nfor (var j = t % {0}u; j < {1}u; j += {0}u) {{\n"
      "let row = j / {2}u;\nlet column = j % {2}u * 4u;\nlet at = subgroup * {3}u + row * {4}u + column;\n",
      unit.subgroup, unit.m * unit.n / 4, unit.n / 4, unit.m * line, line);
  text += fmt::format(
      "let tile_row = sub_row + i / {0}u * {1}u + row;\nlet tile_column = sub_column + i % {0}u * {2}u + column;\n"
      "let units = vec4<UnitSum>(results[at], results[at + 1u], results[at + 2u], results[at + 3u]);\n",
      mats_n, unit.m, unit.n);
  std::string sum = types.sum == "u32" ? "bitcast<vec4<Sum>>(units)" : "units";
  if (a.sums) sum += " + vec4i(line_total(tile_row))";
  if (b.sums) {
    sum += " + vec4i(";
    for (int j = 0; j < 4; ++j) sum += fmt::format("{}line_total(tile_column + {}u)", j == 0 ? "" : ", ", j);
    sum += ')';
  }
  text += fmt::format(
      "store(p, p.tile_m * {}u + tile_row, p.tile_n * {}u + tile_column, {});\n}}\nworkgroupBarrier();\n}}\n}}\n",
      plan.tile_m, plan.tile_n, sum);
  return text;
}

}  // namespace weft::ops
