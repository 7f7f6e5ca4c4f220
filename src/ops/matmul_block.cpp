// Products on CPU adapters: a lane makes a block of the result in registers, straight from storage.
#include <fmt/format.h>

#include "ops/matmul_text.h"

namespace weft::ops {
namespace {

using namespace matmul_text;

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

}  // namespace

std::string matmul_block_source(const MatmulSpec& s) {
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

}  // namespace weft::ops
