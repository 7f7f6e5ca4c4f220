// Products on CPU adapters with subgroups: both operands are repacked first, then each workgroup, one subgroup of eight
// lanes, makes 32 x 32 of the result. On lavapipe each lane of a load has its own address, whatever the addresses are,
// and costs as much as a multiplication: so each lane loads a share of what all need, and subgroupBroadcast, which is a
// shuffle there, hands it round. Repacked operands lie in the order in which they are read (decision 010).
#include <fmt/format.h>

#include "ops/matmul_text.h"
#include "ops/wgsl_text.h"

namespace weft::ops {

using namespace matmul_text;

std::string matmul_panel_source(const MatmulSpec& s) {
  constexpr std::uint32_t kQuads = kPanel / 4;  // of a panel's line: one a lane
  constexpr std::uint32_t kSteps = 4;           // of the inner axis, in a turn of the loop
  static_assert(kQuads == 8, "a lane loads one quad of each line");
  std::string text = head(s) + store_quad(s) + entry(s);
  text +=
      fmt::format("var at_a = p.a + p.tile_m * params.a_line + t;\nvar at_b = p.b + p.tile_n * params.b_line + t;\n");
  for (std::uint32_t r = 0; r < kPanel; ++r) text += fmt::format("var c{} = vec4<Sum>();\n", r);
  text += fmt::format("for (var k = 0u; k < params.k; k += {}u) {{\n", kSteps);
  for (std::uint32_t d = 0; d < kSteps; ++d) text += fmt::format("let a{0} = a[at_a + {1}u];\n", d, d * kQuads);
  for (std::uint32_t d = 0; d < kSteps; ++d) {
    text += fmt::format("let b{0} = b[at_b + {1}u];\n", d, d * kQuads);
    for (std::uint32_t q = 0; q < kQuads; ++q) {
      text += fmt::format("let a{0}_{1} = subgroupBroadcast(a{0}, {1}u);\n", d, q);
      for (std::uint32_t i = 0; i < 4; ++i) {
        text += multiply_add(s, fmt::format("c{}", 4 * q + i), fmt::format("a{}_{}.{}", d, q, kComponents[i]),
                             fmt::format("b{}", d));
      }
    }
  }
  text += fmt::format("at_a += {0}u;\nat_b += {0}u;\n}}\n", kSteps * kQuads);
  text += fmt::format("let row = p.tile_m * {0}u;\nlet column = p.tile_n * {0}u + t * 4u;\n", kPanel);
  if (s.full) {
    std::string names;
    for (std::uint32_t r = 0; r < kPanel; ++r) names += fmt::format("c{}, ", r);
    return text + store_loop(names, kPanel, "store(p, row + i, column, sums[i]);") + "}\n";
  }
  for (std::uint32_t r = 0; r < kPanel; ++r) text += fmt::format("store(p, row + {0}u, column, c{0});\n", r);
  return text + "}\n";
}

std::string matmul_pack_source(DType in) {
  std::string text = fill(R"(alias Sum = $SUM;
struct Params {
  outer: u32, k: u32, padded_k: u32, groups: u32, per_matrix: u32, chunks: u32, offset: u32, outer_step: u32,
  inner_step: u32, batch_1: u32, batch_2: u32, step_0: u32, step_1: u32, step_2: u32,
}
@group(0) @binding(0) var<storage, read> x: array<$IN>;
@group(0) @binding(1) var<storage, read_write> panels: array<vec4<Sum>>;

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) grid: vec3u,
        @builtin(local_invocation_index) t: u32) {
  let group = id.x + id.y * grid.x;
  if (group >= params.groups) { return; }
  let panel = group / params.chunks;
  let matrix = panel / params.per_matrix;
  let first = vec4u(panel % params.per_matrix * $PANELu + t * 4u) + vec4u(0u, 1u, 2u, 3u);
  let start = params.offset + matrix / params.batch_2 / params.batch_1 * params.step_0 +
              matrix / params.batch_2 % params.batch_1 * params.step_1 + matrix % params.batch_2 * params.step_2;
  let lines = vec4u(start) + min(first, vec4u(params.outer - 1u)) * params.outer_step;
  let inside = first < vec4u(params.outer);
  let begin = group % params.chunks * $STEPSu;
  let end = min(begin + $STEPSu, params.padded_k);
  var to = (panel * params.padded_k + begin) * $QUADSu + t;
  for (var k = begin; k < end; k += 4u) {
)",
                          {{"$SUM", is_float(in) ? "f32" : "i32"},
                           {"$IN", std::string(wgsl_name(in))},
                           {"$PANEL", std::to_string(kPanel)},
                           {"$STEPS", std::to_string(kPackSteps)},
                           {"$QUADS", std::to_string(kPanel / 4)}});
  for (std::uint32_t d = 0; d < 4; ++d) {
    text += fill(R"(    let i$D = lines + vec4u(min(k + $Du, params.k - 1u) * params.inner_step);
    let v$D = vec4<Sum>(Sum(x[i$D.x]), Sum(x[i$D.y]), Sum(x[i$D.z]), Sum(x[i$D.w]));
    panels[to + $ATu] = select(vec4<Sum>(), v$D, inside & vec4<bool>(k + $Du < params.k));
)",
                 {{"$D", std::to_string(d)}, {"$AT", std::to_string(d * kPanel / 4)}});
  }
  return text + fmt::format("    to += {}u;\n  }}\n}}\n", kPanel);
}

}  // namespace weft::ops
