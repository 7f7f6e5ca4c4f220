// The text of an attention kernel of the matrix tier, turned into WGSL that needs neither subgroups nor subgroup
// matrices: so tiles of devices that aren't at hand run anywhere. A subgroup is so many threads side by side; a matrix
// of sums lies spread over them, and each thread has the rows and the column of the operands that its sums need.
#pragma once

#include <fmt/format.h>

#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ops/attention_plan.h"

namespace weft::testing {

inline std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

/// Before anything else, all workgroup memory becomes NaN, or what is worst instead: what a kernel reads of it without
/// having written it shows.
inline std::string poisoned(const std::string& text, std::uint32_t threads) {
  static const std::regex variable(R"(var<workgroup> (\w+): array<(vec4<\w+>|\w+), (\d+)>;)");
  std::string fill;
  for (std::sregex_iterator it(text.begin(), text.end(), variable), end; it != end; ++it) {
    const std::string name = (*it)[1], type = (*it)[2], count = (*it)[3];
    const std::string_view bad = type == "u32"         ? "0xffffffffu"
                                 : type == "vec4<u32>" ? "vec4<u32>(0x7fff7fffu)"
                                 : type == "vec4<f32>" ? "vec4<f32>(bad)"
                                                       : "bad";
    fill += fmt::format("  for (var i = t; i < {}u; i += {}u) {{ {}[i] = {}; }}\n", count, threads, name, bad);
  }
  const std::string_view entry = "  let share = p.split * params.chunk;\n";
  if (text.find(entry) == std::string::npos || fill.empty()) throw std::logic_error("the kernel's text has changed");
  return replaced(text, entry,
                  "  let bad = params.not_a_number;\n" + fill + "  workgroupBarrier();\n" + std::string(entry));
}

/// The subgroups of a workgroup in the reverse order. A CPU device runs them one after another from barrier to barrier,
/// so what one may see of another too early, or too late, depends on that order.
inline std::string reversed(const std::string& text, const ops::AttentionMatrixTile& tile) {
  const std::string_view argument = "@builtin(local_invocation_index) t: u32) {\n";
  if (text.find(argument) == std::string::npos) throw std::logic_error("the kernel's text has changed");
  return replaced(text, argument,
                  fmt::format("@builtin(local_invocation_index) given: u32) {{\n  let t = ({0}u - given / {1}u) * {1}u "
                              "+ given % {1}u;\n",
                              tile.subgroups - 1, tile.lanes));
}

inline std::string emulated(const ops::AttentionMatrixTile& tile, std::string text) {
  const std::uint32_t threads = tile.subgroups * tile.lanes;
  const std::uint32_t share = tile.m * tile.n / tile.lanes;  // sums of a thread
  // Lengths of loops that compilers can't know, else they write them out: params.depth is 16.
  const std::string shares = fmt::format("(params.depth * {}u / 16u)", share);
  const std::string depth = fmt::format("(params.depth * {}u / 16u)", tile.k);
  if (tile.lanes % tile.n != 0 || share == 0) throw std::logic_error("such subgroups are not emulated");
  text = std::regex_replace(text, std::regex(R"(diagnostic\(off, chromium\.subgroup_matrix_uniformity\);\n)"), "");
  text = std::regex_replace(text, std::regex(R"(enable (subgroups|chromium_experimental_subgroup_matrix);\n?)"), "");
  text = std::regex_replace(text, std::regex(R"(enable (subgroups|chromium_experimental_subgroup_matrix);\n?)"), "");

  std::string loads;
  const std::string load_text =
      R"(subgroupMatrixLoad<subgroup_matrix_(\w+)<f\d+, \d+, \d+>, (row|col)_major>\(&(\w+), (.*), (\d+u)\))";
  const std::regex load(load_text);
  for (std::sregex_iterator it(text.begin(), text.end(), load), end; it != end; ++it) {
    const std::string side = (*it)[1], order = (*it)[2], array = (*it)[3];
    const std::string name = fmt::format("load_{}_{}_{}", side, order, array);
    if (loads.find("fn " + name + "(") != std::string::npos) continue;
    const auto at = [&](std::string_view row, std::string_view column) {
      // Offsets and lines count items: four f32, eight f16.
      const std::string_view outer = order == "row" ? row : column, inner = order == "row" ? column : row;
      const std::string place = fmt::format("(offset + {} * line) * {}u + {}", outer, array == "scores" ? 4 : 8, inner);
      return fmt::format("{}({})", array == "scores" ? "score_at_place" : "half_of_" + array, place);
    };
    std::string body;
    if (side == "left") {
      body = fmt::format(
          "  for (var i = 0u; i < {}; i++) {{\n    for (var k = 0u; k < {}; k++) {{ (*out).at[i * {}u + k] = {}; }}\n"
          "  }}\n",
          shares, depth, tile.k, at("row_of(i)", "k"));
    } else if (side == "right") {
      body = fmt::format("  for (var k = 0u; k < {}; k++) {{ (*out).at[k] = {}; }}\n", depth, at("k", "column_of()"));
    } else {
      body = fmt::format("  for (var i = 0u; i < {}; i++) {{ (*out).at[i] = {}; }}\n", shares,
                         at("row_of(i)", "column_of()"));
    }
    if (array != "scores" && loads.find("fn half_of_" + array) == std::string::npos) {
      loads += fmt::format("fn half_of_{0}(at: u32) -> f32 {{ return four_of({0}[at / 8u], at)[at & 3u]; }}\n", array);
    }
    loads += fmt::format("fn {}(out: ptr<function, Matrix_{}>, offset: u32, line: u32) {{\n{}}}\n", name, side, body);
  }
  // Matrices go by reference: copies of arrays take compilers long.
  text = std::regex_replace(text, std::regex(R"(let (\w+) = subgroupMatrixLoad<subgroup_matrix_(\w+)<)"),
                            "var $1: Matrix_$2;\n$1 = subgroupMatrixLoad<subgroup_matrix_$2<");
  text = std::regex_replace(text, std::regex(R"((\S[^\n;{}]*) = )" + load_text), "load_$2_$3_$4(&$1, $5, $6)");
  text =
      std::regex_replace(text, std::regex(R"(subgroupMatrixStore<row_major>\(&scores, (.*), ([a-z][^,]*), (\d+u)\);)"),
                         "store($1, &$2, $3);");
  text = std::regex_replace(
      text, std::regex(R"((\S[^\n;{}]*) = subgroupMatrixMultiplyAccumulate\(([^,]*), ([^,]*), ([^,]*)\);)"),
      "multiply_add(&$2, &$3, &$4);");
  text = std::regex_replace(text, std::regex(R"(subgroup_matrix_(\w+)<f\d+, \d+, \d+>)"), "Matrix_$1");
  text = replaced(text, "subgroupShuffleXor(all_odd, ", "exchange_u32(all_odd, ");
  text = replaced(text, "subgroupShuffleXor(", "exchange(");
  text = replaced(text, "subgroupOr(", "any_bits(");
  static const std::regex call(R"(subgroup\w*\s*[(<])");  // comments may have the word
  if (std::regex_search(text, call)) throw std::logic_error("a subgroup operation that is not emulated");

  std::string helpers = fmt::format(R"(
struct Matrix_left {{ at: array<f32, {0}> }}
struct Matrix_right {{ at: array<f32, {1}> }}
struct Matrix_result {{ at: array<f32, {2}> }}
var<workgroup> exchanged: array<u32, {3}>;
var<private> own_t: u32;
fn row_of(i: u32) -> u32 {{ return (i * {4}u + own_t % {4}u) / {5}u; }}
fn column_of() -> u32 {{ return own_t % {5}u; }}
fn multiply_add(a: ptr<function, Matrix_left>, b: ptr<function, Matrix_right>, sums: ptr<function, Matrix_result>) {{
  for (var i = 0u; i < {6}; i++) {{
    var sum = (*sums).at[i];
    for (var k = 0u; k < {7}; k++) {{ sum += (*a).at[i * {1}u + k] * (*b).at[k]; }}
    (*sums).at[i] = sum;
  }}
}}
fn store(offset: u32, sums: ptr<function, Matrix_result>, line: u32) {{
  for (var i = 0u; i < {6}; i++) {{ 
    let at = (offset + row_of(i) * line) * 4u + column_of();
    scores[at / 4u][at & 3u] = (*sums).at[i];
  }}
}}
fn score_at_place(at: u32) -> f32 {{ return scores[at / 4u][at & 3u]; }}
fn exchange_u32(value: u32, by: u32) -> u32 {{
  exchanged[own_t] = value;
  workgroupBarrier();
  let out = exchanged[own_t ^ by];
  workgroupBarrier();
  return out;
}}
fn exchange(value: f32, by: u32) -> f32 {{ return bitcast<f32>(exchange_u32(bitcast<u32>(value), by)); }}
fn any_bits(value: u32) -> u32 {{
  exchanged[own_t] = value;
  workgroupBarrier();
  var out = 0u;
  for (var i = 0u; i < params.depth * {4}u / 16u; i++) {{ out |= exchanged[own_t / {4}u * {4}u + i]; }}
  workgroupBarrier();
  return out;
}}
)",
                                    share * tile.k, tile.k, share, threads, tile.lanes, tile.n, shares, depth);
  helpers += loads;
  const std::string_view entry = "\n@compute";
  if (text.find(entry) == std::string::npos) throw std::logic_error("the kernel's text has changed");
  text = replaced(text, entry, helpers + std::string(entry));
  const std::string_view first = "  let group = id.x + id.y * 32768u;\n";
  if (text.find(first) == std::string::npos) throw std::logic_error("the kernel's text has changed");
  return replaced(text, first, "  own_t = t;\n" + std::string(first));
}

}  // namespace weft::testing
