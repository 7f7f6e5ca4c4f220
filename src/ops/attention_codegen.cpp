#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "ops/attention_plan.h"
#include "ops/attention_text.h"
#include "ops/wgsl.h"
#include "ops/wgsl_text.h"

namespace weft::ops {
namespace {

constexpr std::string_view kComponents = "xyzw";
constexpr std::uint32_t kThreads = 128;  // gpu: 16 along keys and columns, 8 along rows
constexpr std::uint32_t kKeys = 64;      // of a tile: four of a thread, 16 apart
constexpr std::uint32_t kDepth = 16;     // of the head dimension, or keys, that stand in workgroup memory at once

/// Four elements side by side from d on; zeros from `length` on.
std::string fetch(char of, std::string_view length, bool quads) {
  if (quads) {
    return fmt::format(R"(
fn fetch_{0}(start: u32, d: u32) -> vec4<f32> {{
  return select(vec4<f32>(), vec4<f32>({0}[start + min(d, {1} - 4u) / 4u]), d < {1});
}}
)",
                       of, length);
  }
  return fmt::format(R"(
fn fetch_{0}(start: u32, d: u32) -> vec4<f32> {{
  let last = {1} - 1u;
  let quad = vec4<f32>(f32({0}[start + min(d, last)]), f32({0}[start + min(d + 1u, last)]),
                       f32({0}[start + min(d + 2u, last)]), f32({0}[start + min(d + 3u, last)]));
  return select(vec4<f32>(), quad, vec4<u32>(d, d + 1u, d + 2u, d + 3u) < vec4<u32>({1}));
}}
)",
                     of, length);
}

/// Parameters, bindings, fetch_q, fetch_k, fetch_v, and, unless partial, `store(p, row, column, sums, l)`.
std::string head(const AttentionSpec& s) {
  std::string text(wgsl::attention);
  const auto array = [&](std::string_view type) {
    return (s.unit >= 4) ? fmt::format("array<vec4<{}>>", type) : fmt::format("array<{}>", type);
  };
  const std::string_view in = wgsl_name(s.dtype);
  text += fmt::format("@group(0) @binding(0) var<storage, read> q: {};\n", array(in));
  text += fmt::format("@group(0) @binding(1) var<storage, read> k: {};\n", array(in));
  text += fmt::format("@group(0) @binding(2) var<storage, read> v: {};\n", array(in));
  text += fetch('q', "params.dim", (s.unit >= 4)) + fetch('k', "params.dim", (s.unit >= 4)) +
          fetch('v', "params.value_dim", (s.unit >= 4));
  if (s.partial) {
    // Each row of sums is filled up to whole fours.
    return text + R"(
@group(0) @binding(5) var<storage, read_write> sums: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> stats: array<vec2<f32>>;  // maximum, and sum of weights
fn sums_start(p: Place, part: u32, row: u32) -> u32 {
  return (part * params.all_rows + flat_row(p, row)) * ((params.value_dim + 3u) / 4u);
}
)";
  }
  text += fmt::format("@group(0) @binding(5) var<storage, read_write> out: {};\n", array(in));
  // l of 0: no key was seen. NaN in l is what a NaN among the scores left.
  text += R"(
fn store(p: Place, row: u32, column: u32, sums: vec4<f32>, l: f32) {
  if (row >= params.rows || column >= params.value_dim) { return; }
  let at = flat_row(p, row);
  let value = select(sums * select(1.0 / l, 0.0, l == 0.0), vec4<f32>(params.not_a_number), is_nan(l));
)";
  if ((s.unit >= 4)) {
    return text +
           fmt::format("  out[params.out_offset + at * (params.value_dim / 4u) + column / 4u] = vec4<{}>(value);\n}}\n",
                       in);
  }
  text += "  let first = params.out_offset + at * params.value_dim + column;\n";
  for (int i = 0; i < 4; ++i) {
    text += fmt::format("  if (column + {0}u < params.value_dim) {{ out[first + {0}u] = {1}(value.{2}); }}\n", i, in,
                        kComponents[static_cast<std::size_t>(i)]);
  }
  return text + "}\n";
}

/// `text` for each of 0 .. count - 1, with $R for the number.
std::string each_row(std::uint32_t count, const std::string& text) {
  std::string out;
  for (std::uint32_t i = 0; i < count; ++i) out += fill(text, {{"$R", std::to_string(i)}});
  return out;
}

// -- gpu: tiles in workgroup memory
// -----------------------------------------------------------------------------------

std::string tile_source(const AttentionSpec& s) {
  const std::uint32_t rows = s.rows;
  const bool scalar = rows < 4;                            // then a thread has one row
  const std::uint32_t vectors = scalar ? rows : rows / 4;  // of rows, of a thread
  const std::uint32_t width = scalar ? 1 : 4;
  const std::uint32_t tile_rows = rows * 8;
  const std::uint32_t line = tile_rows / width;             // vectors of the tile's rows
  const std::uint32_t column_quads = s.value_columns / 64;  // of a thread
  const std::uint32_t value_line = s.value_columns / 4;
  const std::string row_type = scalar ? "f32" : "vec4<f32>";
  // Of the loops over depth, and over the threads of a row: both 16.
  const std::string turns = s.rolled ? "params.depth" : number(kDepth);
  // Vector and component of row i of a thread.
  const auto of_row = [&](std::string_view name, std::uint32_t i) {
    return scalar ? fmt::format("{}{}", name, i) : fmt::format("{}{}.{}", name, i / 4, kComponents[i % 4]);
  };

  // One vector of padding a line: threads that turn neighbours would meet in one memory bank.
  std::string text = head(s);
  text += fmt::format("alias Rows = {};\n", row_type);
  text += fmt::format("var<workgroup> row_stage: array<Rows, {}>;  // q by depth, or a value of each thread's rows\n",
                      kDepth * (line + 1));
  text += fmt::format("var<workgroup> key_stage: array<vec4<f32>, {}>;  // k by depth, or v\n",
                      std::max(kDepth * (kKeys / 4 + 1), kDepth * value_line));
  text += fmt::format("var<workgroup> weights: array<Rows, {}>;  // of a row, by key\n", kKeys * (line + 1));
  text += "var<workgroup> odd_values: atomic<u32>;  // v has NaN or infinity: those of unseen keys must not count\n";
  text += R"(
fn any_odd(v: vec4<f32>) -> bool {
  return any((bitcast<vec4<u32>>(v) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u));
}
// Weights of unseen keys are -0, told by its bits.
fn weight(e: f32, score: f32) -> f32 { return select(e, bitcast<f32>(params.minus_zero), is_unseen(score)); }
fn counted(v: vec4<f32>, w: f32) -> vec4<f32> { return select(v, vec4<f32>(), bitcast<u32>(w) == 0x80000000u); }
)";
  text += attention_entry(kThreads);
  text += fill(R"(
  let share = p.split * params.chunk;
  let x = t % 16u;
  let y = t / 16u;
  let first_row = p.tile * $TILE;
  let last_row = min(first_row + $TILE, params.rows) - 1u;
  // No row of the tile sees a key from here on.
  let last_query = select(params.queries - 1u, last_row % params.queries,
                          first_row / params.queries == last_row / params.queries);
  let end = min(limit_of(last_query, length), share + params.chunk);
  let k_start = params.k_offset + p.batch * params.k_batch + p.kv_head * params.k_head;
  let v_start = params.v_offset + p.batch * params.v_batch + p.kv_head * params.v_head;
  let first_column = p.column * $COLUMNS;
  if (t == 0u) { atomicStore(&odd_values, 0u); }
)",
               {{"$TILE", number(tile_rows)}, {"$COLUMNS", number(s.value_columns)}});
  text += each_row(rows, fill(R"(
  let row$R = first_row + y * $ROWS + $Ru;
  let limit$R = limit_of(min(row$R, params.rows - 1u) % params.queries, length);
  let mask$R = mask_start(p, min(row$R, params.rows - 1u));
)",
                              {{"$ROWS", number(rows)}}));
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t c = 0; c < column_quads; ++c) text += fmt::format("  var o{}_{} = vec4<f32>();\n", r, c);
  }
  text += each_row(vectors, "  var m$R = Rows(kLowest);\n  var l$R = Rows();\n");
  // What the thread brings: the first half keys, the others queries; blocks of four by four, turned on the way.
  text += "  let brings_keys = t < 64u;\n  let bring = t % 64u / 4u;\n  let bring_depth = t % 4u * 4u;\n";
  const std::uint32_t bringers = scalar ? tile_rows * 4 : tile_rows;
  for (std::uint32_t i = 0; i < (scalar ? 1U : 4U); ++i) {
    text += fmt::format("  let bring_q{0} = q_start(p, min(first_row + bring{1} + {0}u, params.rows - 1u));\n", i,
                        scalar ? "" : " * 4u");
  }

  text += fmt::format("  for (var j0 = share; j0 < end; j0 += {}u) {{\n", kKeys);
  text += each_row(rows, "    var s$R = vec4<f32>();\n");
  text += each_row(4, "    let bring_k$R = k_start + min(j0 + bring + $Ru * 16u, params.keys - 1u) * params.k_row;\n");
  text +=
      fmt::format("    for (var d0 = 0u; d0 < params.dim; d0 += {}u) {{\n      let d = d0 + bring_depth;\n", kDepth);
  text += "      if (brings_keys) {\n" + each_row(4, "        let k$R = fetch_k(bring_k$R, d);\n");
  for (char c : kComponents) {
    text += fmt::format(
        "        key_stage[(bring_depth + {}u) * {}u + bring] = vec4<f32>(k0.{c}, k1.{c}, k2.{c}, k3.{c});\n",
        kComponents.find(c), kKeys / 4 + 1, fmt::arg("c", c));
  }
  text += fmt::format("      }} else if (t < {}u) {{\n", 64 + bringers);
  text += each_row(scalar ? 1 : 4, "        let q$R = fetch_q(bring_q$R, d);\n");
  for (char c : kComponents) {
    const std::string value =
        scalar ? fmt::format("q0.{}", c) : fmt::format("vec4<f32>(q0.{c}, q1.{c}, q2.{c}, q3.{c})", fmt::arg("c", c));
    text += fmt::format("        row_stage[(bring_depth + {}u) * {}u + bring] = {};\n", kComponents.find(c), line + 1,
                        value);
  }
  text += "      }\n      workgroupBarrier();\n";
  text += fmt::format("      for (var i = 0u; i < {}; i++) {{\n        let keys = key_stage[i * {}u + x];\n", turns,
                      kKeys / 4 + 1);
  for (std::uint32_t i = 0; i < vectors; ++i) {
    text += fmt::format("        let a{0} = row_stage[i * {1}u + y * {2}u + {0}u];\n", i, line + 1, vectors);
  }
  for (std::uint32_t r = 0; r < rows; ++r) {
    text += fmt::format("        s{0} = fma(vec4<f32>({1}), keys, s{0});\n", r, of_row("a", r));
  }
  text += "      }\n      workgroupBarrier();\n    }\n";

  // Scores of keys j, j + 16, j + 32, j + 48.
  text += "    let j = j0 + x;\n    let js = vec4<u32>(j, j + 16u, j + 32u, j + 48u);\n";
  text += each_row(rows, "    s$R *= params.scale;\n");
  text += "    if (params.softcap > 0.0) {\n" +
          each_row(rows, "      s$R = vec4<f32>(capped(s$R.x), capped(s$R.y), capped(s$R.z), capped(s$R.w));\n") +
          "    }\n";
  text += "    if (params.mask_kind != 0u) {\n      let at = min(js, vec4<u32>(params.keys - 1u)) * params.mask_key;\n";
  text += each_row(rows, R"(      s$R = vec4<f32>(masked(s$R.x, mask$R + at.x), masked(s$R.y, mask$R + at.y),
                      masked(s$R.z, mask$R + at.z), masked(s$R.w, mask$R + at.w));
)");
  text += "    }\n";
  text +=
      each_row(rows, "    s$R = select(vec4<f32>(params.minus_infinity), s$R, js < vec4<u32>(min(limit$R, end)));\n");

  // The largest of each row, over the 16 threads that share it.
  const auto per_vector = [&](std::string_view value) {
    std::string out;
    for (std::uint32_t i = 0; i < vectors; ++i) {
      std::string values;
      for (std::uint32_t w = 0; w < width; ++w) {
        values += (w > 0 ? ", " : "") + fill(std::string(value), {{"$R", std::to_string(i * width + w)}});
      }
      out += fmt::format("    row_stage[x * {0}u + y * {1}u + {2}u] = Rows({3});\n", line, vectors, i, values);
    }
    return out;
  };
  text += per_vector("max(max(s$R.x, s$R.y), max(s$R.z, s$R.w))");
  text += "    workgroupBarrier();\n" + each_row(vectors, "    var high$R = m$R;\n");
  text += fmt::format("    for (var i = 0u; i < {}; i++) {{\n", turns);
  for (std::uint32_t i = 0; i < vectors; ++i) {
    text += fmt::format("      high{0} = max(high{0}, row_stage[i * {1}u + y * {2}u + {0}u]);\n", i, line, vectors);
  }
  text += "    }\n";
  const std::string exp_rows = scalar ? "exp_1" : "exp_4";
  text +=
      each_row(vectors, "    let fade$R = " + exp_rows + "(m$R - high$R);\n    m$R = high$R;\n    l$R *= fade$R;\n");
  for (std::uint32_t r = 0; r < rows; ++r) {
    text += fill(R"(    let e$R = exp_4(s$R - vec4<f32>($M));
    $L = select($L + ((e$R.x + e$R.y) + (e$R.z + e$R.w)), params.not_a_number,
                is_odd(s$R.x) || is_odd(s$R.y) || is_odd(s$R.z) || is_odd(s$R.w));
)",
                 {{"$R", std::to_string(r)}, {"$M", of_row("m", r)}, {"$L", of_row("l", r)}});
    for (std::uint32_t c = 0; c < column_quads; ++c)
      text += fmt::format("    o{0}_{1} *= {2};\n", r, c, of_row("fade", r));
  }
  for (std::uint32_t key = 0; key < 4; ++key) {
    for (std::uint32_t i = 0; i < vectors; ++i) {
      std::string values;
      for (std::uint32_t w = 0; w < width; ++w) {
        values += fmt::format("{0}weight(e{1}.{2}, s{1}.{2})", w > 0 ? ", " : "", i * width + w, kComponents[key]);
      }
      text += fmt::format("    weights[(x + {0}u) * {1}u + y * {2}u + {3}u] = Rows({4});\n", key * 16, line + 1,
                          vectors, i, values);
    }
  }

  // Weighted sums of the values, 16 keys at a time.
  text += fmt::format("    for (var j1 = 0u; j1 < {}u && j0 + j1 < end; j1 += {}u) {{\n", kKeys, kDepth);
  const std::uint32_t loads = kDepth * value_line / kThreads;
  for (std::uint32_t i = 0; i < loads; ++i) {
    text += fill(R"(      {
        let e = t + $Iu * $THREADS;
        let key = j0 + j1 + e / $LINE;
        var value = fetch_v(v_start + min(key, params.keys - 1u) * params.v_row, first_column + e % $LINE * 4u);
        value = select(vec4<f32>(), value, key < end);
        if (any_odd(value)) { atomicStore(&odd_values, 1u); }
        key_stage[e] = value;
      }
)",
                 {{"$I", std::to_string(i)}, {"$THREADS", number(kThreads)}, {"$LINE", number(value_line)}});
  }
  text += "      workgroupBarrier();\n";
  const auto sums = [&](bool careful) {
    std::string out = fmt::format("        for (var i = 0u; i < {}; i++) {{\n", turns);
    for (std::uint32_t i = 0; i < vectors; ++i) {
      out += fmt::format("          let w{0} = weights[(j1 + i) * {1}u + y * {2}u + {0}u];\n", i, line + 1, vectors);
    }
    for (std::uint32_t c = 0; c < column_quads; ++c) {
      out += fmt::format("          let v{0} = key_stage[i * {1}u + x + {2}u];\n", c, value_line, c * 16);
      for (std::uint32_t r = 0; r < rows; ++r) {
        const std::string w = of_row("w", r);
        out += fmt::format("          o{0}_{1} = fma(vec4<f32>({2}), {3}, o{0}_{1});\n", r, c, w,
                           careful ? fmt::format("counted(v{}, {})", c, w) : fmt::format("v{}", c));
      }
    }
    return out + "        }\n";
  };
  text += "      if (atomicLoad(&odd_values) != 0u) {\n" + sums(true) + "      } else {\n" + sums(false) + "      }\n";
  text += "      workgroupBarrier();\n    }\n  }\n";

  // Sums of weights over the 16 threads of a row.
  for (std::uint32_t i = 0; i < vectors; ++i) {
    text += fmt::format("  row_stage[x * {0}u + y * {1}u + {2}u] = l{2};\n  l{2} = Rows();\n", line, vectors, i);
  }
  text += fmt::format("  workgroupBarrier();\n  for (var i = 0u; i < {}; i++) {{\n", turns);
  for (std::uint32_t i = 0; i < vectors; ++i) {
    text += fmt::format("    l{0} += row_stage[i * {1}u + y * {2}u + {0}u];\n", i, line, vectors);
  }
  text += "  }\n";
  for (std::uint32_t r = 0; r < rows; ++r) {
    const std::string l = of_row("l", r);
    if (s.partial) text += fmt::format("  if (row{0} < params.rows) {{\n", r);
    for (std::uint32_t c = 0; c < column_quads; ++c) {
      const std::string column = fmt::format("first_column + (x + {}u) * 4u", c * 16);
      text += s.partial ? fmt::format(
                              "    if ({0} < params.value_dim) {{ sums[sums_start(p, p.split, row{1}) + ({0}) / 4u] "
                              "= o{1}_{2}; }}\n",
                              column, r, c)
                        : fmt::format("  store(p, row{0}, {1}, o{0}_{2}, {3});\n", r, column, c, l);
    }
    if (s.partial) {
      text += fmt::format(
          "    if (x == 0u) {{ stats[p.split * params.all_rows + flat_row(p, row{0})] = vec2<f32>({1}, {2}); }}\n  "
          "}}\n",
          r, of_row("m", r), l);
    }
  }
  return text + "}\n";
}

// -- cpu: a lane takes rows of its own
// ----------------------------------------------------------------------------------

/// No barriers: lanes work alone, each on its own rows and all keys, or (shares) on the same rows and its own share of
/// the keys. Loads are what costs on lavapipe, so a register tile of rows x keys scores makes use of each. Sums stand
/// in storage, which costs no more than an array of the lane's own; loops stay loops, since much text takes seconds to
/// compile. A branch is paid for by all lanes whether taken or not, but a
/// loop of no turns is not: `for (var once = ...`.
std::string lane_source(const AttentionSpec& s) {
  constexpr std::uint32_t kLanes = kAttentionLanes;
  const std::uint32_t rows = s.rows;
  const std::uint32_t keys = attention_lane_keys((s.unit >= 4));
  const std::uint32_t fours = keys / 4;
  const auto per_four = [&](const std::string& text) {  // with $K for the number of the four, and $R
    std::string out;
    for (std::uint32_t i = 0; i < fours; ++i) out += fill(text, {{"$K", std::to_string(i)}});
    return each_row(rows, out);
  };
  std::string text = head(s) + attention_entry(kLanes);
  text += fill(R"(
  let part = $PART;
  let begin = part * params.chunk;
  let first_row = $FIRST_ROW;
  let k_start = params.k_offset + p.batch * params.k_batch + p.kv_head * params.k_head;
  let v_start = params.v_offset + p.batch * params.v_batch + p.kv_head * params.v_head;
  var tile: array<vec4<f32>, $TILE>;  // scores by row and key, where a loop works on them
  var mask_at: array<u32, $ROWS>;
  var end = 0u;
)",
               {{"$PART", s.shares ? fmt::format("p.split * {}u + t", kLanes) : "p.split"},
                {"$FIRST_ROW", fmt::format("p.tile * {}u{}", rows * (s.shares ? 1 : kLanes), s.shares ? "" : " + t")},
                {"$TILE", std::to_string(rows * fours)},
                {"$ROWS", std::to_string(rows)}});
  text += each_row(rows, fill(R"(
  let row$R = first_row + $Ru * $STEP;
  let safe$R = min(row$R, params.rows - 1u);
  let limit$R = limit_of(safe$R % params.queries, length);
  let q_at$R = q_start(p, safe$R);
  mask_at[$R] = mask_start(p, safe$R);
  let sums_at$R = sums_start(p, part, safe$R);
  let live$R = row$R < params.rows && part < params.splits;
  end = select(end, max(end, limit$R), live$R);
  var m$R = kLowest;
  var l$R = 0.0;
  var odd$R = false;
)",
                              {{"$STEP", number(s.shares ? 1 : kLanes)}}));
  text += "  let quads = (params.value_dim + 3u) / 4u;\n  for (var c = 0u; c < quads; c++) {\n" +
          each_row(rows, "    if (live$R) { sums[sums_at$R + c] = vec4<f32>(); }\n") + "  }\n";
  text +=
      fmt::format("  end = min(end, begin + params.chunk);\n  for (var j0 = begin; j0 < end; j0 += {}u) {{\n", keys);
  text += each_row(keys, R"(    let key$R = min(j0 + $Ru, params.keys - 1u);
    let k_at$R = k_start + key$R * params.k_row;
)");
  text += per_four("    var s$R_$K = vec4<f32>();\n");
  text += "    for (var d = 0u; d < params.dim; d += 4u) {\n" + each_row(rows, "      let q$R = fetch_q(q_at$R, d);\n");
  for (std::uint32_t i = 0; i < keys; ++i) {
    text += fmt::format("      let k{0} = fetch_k(k_at{0}, d);\n", i);
    for (std::uint32_t r = 0; r < rows; ++r) {
      text += fmt::format(
          "      s{0}_{1}.{2} = fma(q{0}.w, k{3}.w, fma(q{0}.z, k{3}.z, fma(q{0}.y, k{3}.y, fma(q{0}.x, k{3}.x, "
          "s{0}_{1}.{2}))));\n",
          r, i / 4, kComponents[i % 4], i);
    }
  }
  text += "    }\n" + per_four("    s$R_$K *= params.scale;\n");

  text += "    for (var once = params.softcap > 0.0 || params.mask_kind != 0u; once; once = false) {\n";
  const auto numbered = [&](const std::string& line) {  // with $N for the place in `tile`, too
    std::string out;
    for (std::uint32_t i = 0; i < rows * fours; ++i) {
      out +=
          fill(line, {{"$N", std::to_string(i)}, {"$R", std::to_string(i / fours)}, {"$K", std::to_string(i % fours)}});
    }
    return out;
  };
  text += numbered("      tile[$N] = s$R_$K;\n");
  text += fmt::format(R"(      for (var i = 0u; i < {0}u; i++) {{
        var score = tile[i];
        if (params.softcap > 0.0) {{
          score = vec4<f32>(capped(score.x), capped(score.y), capped(score.z), capped(score.w));
        }}
        if (params.mask_kind != 0u) {{
          let j = j0 + i % {1}u * 4u;
          let at = mask_at[i / {1}u];
          let last = params.keys - 1u;
          score = vec4<f32>(masked(score.x, at + min(j, last) * params.mask_key),
                            masked(score.y, at + min(j + 1u, last) * params.mask_key),
                            masked(score.z, at + min(j + 2u, last) * params.mask_key),
                            masked(score.w, at + min(j + 3u, last) * params.mask_key));
        }}
        tile[i] = score;
      }}
)",
                      rows * fours, fours);
  text += numbered("      s$R_$K = tile[$N];\n") + "    }\n";

  // The maximum stands until a score is over it by more than 8: weights up to e^8 harm no one, and sums are rarely
  // scaled.
  text += "    let js = vec4<u32>(j0, j0 + 1u, j0 + 2u, j0 + 3u);\n    var grows = false;\n";
  for (std::uint32_t i = 0; i < fours; ++i) {
    text += each_row(rows, fmt::format("    s$R_{0} = select(vec4<f32>(params.minus_infinity), s$R_{0}, js + {1}u < "
                                       "vec4<u32>(min(limit$R, end)));\n",
                                       i, i * 4));
  }
  for (std::uint32_t r = 0; r < rows; ++r) {
    std::string high = fmt::format("s{}_0", r);
    std::string odd;
    for (std::uint32_t i = 0; i < fours; ++i) {
      if (i > 0) high = fmt::format("max({}, s{}_{})", high, r, i);
      odd += fmt::format("{}any(are_odd(s{}_{}))", i > 0 ? " || " : "", r, i);
    }
    text += fmt::format(R"(    let high_4_{0} = {1};
    let high{0} = max(max(high_4_{0}.x, high_4_{0}.y), max(high_4_{0}.z, high_4_{0}.w));
    let grows{0} = high{0} > m{0} + 8.0;
    grows = grows || grows{0};
    odd{0} = odd{0} || {2};
)",
                        r, high, odd);
  }
  text += "    for (var once = grows; once; once = false) {\n";
  text += each_row(rows, R"(      let next$R = select(m$R, high$R, grows$R);
      let fade$R = exp_1(m$R - next$R);
      m$R = next$R;
      l$R *= fade$R;
)");
  text += "      for (var c = 0u; c < quads; c++) {\n";
  text += each_row(rows, "        if (live$R) { sums[sums_at$R + c] *= fade$R; }\n") + "      }\n    }\n";
  // Values of unseen keys are read as zeros: a NaN among them must not count.
  text += per_four(R"(    let w$R_$K = exp_4(s$R_$K - vec4<f32>(m$R));
    let seen$R_$K = select(vec4<u32>(0xffffffffu), vec4<u32>(), bitcast<vec4<u32>>(s$R_$K) == vec4<u32>(0xff800000u));
    l$R += (w$R_$K.x + w$R_$K.y) + (w$R_$K.z + w$R_$K.w);
)");
  text += each_row(keys, "    let v_at$R = v_start + key$R * params.v_row;\n");
  text += "    for (var c = 0u; c < quads; c++) {\n" + each_row(rows, "      var sum$R = sums[sums_at$R + c];\n");
  for (std::uint32_t i = 0; i < keys; ++i) {
    text += fmt::format("      let v{0} = bitcast<vec4<u32>>(fetch_v(v_at{0}, c * 4u));\n", i);
    for (std::uint32_t r = 0; r < rows; ++r) {
      text += fmt::format(
          "      sum{0} = fma(vec4<f32>(w{0}_{1}.{2}), bitcast<vec4<f32>>(v{3} & vec4<u32>(seen{0}_{1}.{2})), "
          "sum{0});\n",
          r, i / 4, kComponents[i % 4], i);
    }
  }
  text += each_row(rows, "      if (live$R) { sums[sums_at$R + c] = sum$R; }\n") + "    }\n  }\n";
  text += each_row(rows, R"(  if (live$R) {
    stats[part * params.all_rows + flat_row(p, row$R)] = vec2<f32>(m$R, select(l$R, params.not_a_number, odd$R));
  }
)");
  return text + "}\n";
}

}  // namespace

std::string attention_entry(std::uint32_t threads) {
  return fmt::format(R"(
@compute @workgroup_size({})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) t: u32) {{
  let group = id.x + id.y * 32768u;
  if (group >= params.groups) {{ return; }}
  let p = place(group);
  let length = length_of(p.batch);
)",
                     threads);
}

std::string attention_deliver(const AttentionSpec& s) {
  if (s.partial) {
    // Each row of sums is filled up to whole fours.
    return R"(
@group(0) @binding(5) var<storage, read_write> sums: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> stats: array<vec2<f32>>;  // maximum, and sum of weights
fn deliver(p: Place, row: u32, column: u32, value: vec4<f32>, l: f32) {
  if (row >= params.rows || column >= params.value_dim) { return; }
  let quads = (params.value_dim + 3u) / 4u;
  sums[(p.split * params.all_rows + flat_row(p, row)) * quads + column / 4u] = value;
}
)";
  }
  const std::string_view type = wgsl_name(s.dtype);
  // l of 0: no key was seen. NaN in l is what a NaN among the scores left.
  std::string text = fmt::format(R"(
@group(0) @binding(5) var<storage, read_write> out: array<{}>;
fn deliver(p: Place, row: u32, column: u32, sums: vec4<f32>, l: f32) {{
  if (row >= params.rows || column >= params.value_dim) {{ return; }}
  let at = flat_row(p, row);
  let value = vec4<{}>(select(sums * select(1.0 / l, 0.0, l == 0.0), vec4<f32>(params.not_a_number), is_nan(l)));
)",
                                 s.unit >= 4 ? fmt::format("vec4<{}>", type) : std::string(type), type);
  if (s.unit >= 4) return text + "  out[params.out_offset + at * (params.value_dim / 4u) + column / 4u] = value;\n}\n";
  text += "  let first = params.out_offset + at * params.value_dim + column;\n";
  for (std::size_t i = 0; i < 4; ++i) {
    text += fmt::format("  if (column + {0}u < params.value_dim) {{ out[first + {0}u] = value.{1}; }}\n", i,
                        kComponents[i]);
  }
  return text + "}\n";
}

std::string attention_key(const AttentionSpec& s) {
  std::string name = s.shares ? "share" : std::string(to_string(s.tier));
  if (s.rolled) name = "rolled_" + name;
  std::string shape = std::to_string(s.value_columns);
  if (s.matrix) shape = attention_matrix_key(*s.matrix);
  if (s.tier == AttentionTier::row)
    shape = fmt::format("{}x{}{}", s.key_lanes, s.key_vectors, s.checks_subgroups ? "/checked" : "");
  if (s.stand_in != nullptr) shape += "/" + s.stand_in->name;
  return fmt::format("attention/{}/{}/{}/{}/{}/{}", name, to_string(s.dtype), s.unit, s.partial ? "part" : "whole",
                     s.rows, shape);
}

std::string attention_source(const AttentionSpec& spec) {
  switch (spec.tier) {
    case AttentionTier::lane: return lane_source(spec);
    case AttentionTier::tile: return tile_source(spec);
    case AttentionTier::row: return attention_row_source(spec);
    case AttentionTier::matrix: {
      std::string text = attention_matrix_source(spec);
      return spec.stand_in != nullptr ? spec.stand_in->make(spec, std::move(text)) : text;
    }
  }
  return {};
}

std::string attention_merge_key(DType dtype, bool cpu) {
  return fmt::format("attention/merge/{}/{}", to_string(dtype), cpu ? "cpu" : "gpu");
}

std::string attention_merge_source(DType dtype, bool cpu) {
  // On a CPU a thread walks over the shares, for a row and four columns; else a workgroup takes 32 columns of a row,
  // and its threads four columns of every sixteenth share.
  std::string text = fmt::format(R"(
struct Params {{ all_rows: u32, value_dim: u32, splits: u32, out_offset: u32, not_a_number: f32 }}
@group(0) @binding(0) var<storage, read> sums: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<{0}>;
fn exp_1(x: f32) -> f32 {{ return select(exp(x), 0.0, x < -87.0); }}
fn is_nan(x: f32) -> bool {{ return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }}
fn store(row: u32, quad: u32, sum: vec4<f32>, l: f32, odd: bool) {{
  let value = select(sum * select(1.0 / l, 0.0, l == 0.0), vec4<f32>(params.not_a_number), odd);
  let column = quad * 4u;
  let first = params.out_offset + row * params.value_dim + column;
  out[first] = {0}(value.x);
  if (column + 1u < params.value_dim) {{ out[first + 1u] = {0}(value.y); }}
  if (column + 2u < params.value_dim) {{ out[first + 2u] = {0}(value.z); }}
  if (column + 3u < params.value_dim) {{ out[first + 3u] = {0}(value.w); }}
}}
)",
                                 wgsl_name(dtype));
  if (cpu) {
    return text + R"(
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let at = (id.x + id.y * 32768u) * 64u + t;
  let quads = (params.value_dim + 3u) / 4u;
  if (at >= params.all_rows * quads) { return; }
  let row = at / quads;
  var m = stats[row].x;
  for (var i = 1u; i < params.splits; i++) { m = max(m, stats[i * params.all_rows + row].x); }
  var l = 0.0;
  var sum = vec4<f32>();
  var odd = false;
  for (var i = 0u; i < params.splits; i++) {
    let part = stats[i * params.all_rows + row];
    // A share that saw no key has sums of 0.
    let fade = exp_1(part.x - m);
    odd = odd || is_nan(part.y);
    l += part.y * fade;
    sum += sums[i * params.all_rows * quads + at] * fade;
  }
  store(row, at % quads, sum, l, odd);
}
)";
  }
  return text + R"(
var<workgroup> shared_by_share: array<f32, 128>;
var<workgroup> odd_shares: atomic<u32>;
var<workgroup> parts: array<vec4<f32>, 128>;
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let quads = (params.value_dim + 3u) / 4u;
  let blocks = (quads + 7u) / 8u;
  let group = id.x + id.y * 32768u;
  let row = group / blocks;
  if (row >= params.all_rows) { return; }
  if (t == 0u) { atomicStore(&odd_shares, 0u); }
  let used = min(params.splits, 128u);
  var m = -3.4028234e38;
  for (var i = t; i < params.splits; i += 128u) { m = max(m, stats[i * params.all_rows + row].x); }
  shared_by_share[t] = m;
  workgroupBarrier();
  for (var i = 0u; i < used; i++) { m = max(m, shared_by_share[i]); }
  workgroupBarrier();
  var mine = 0.0;
  var odd = false;
  for (var i = t; i < params.splits; i += 128u) {
    let part = stats[i * params.all_rows + row];
    odd = odd || is_nan(part.y);
    mine += part.y * exp_1(part.x - m);
  }
  shared_by_share[t] = mine;
  if (odd) { atomicOr(&odd_shares, 1u); }
  workgroupBarrier();
  var l = 0.0;
  for (var i = 0u; i < used; i++) { l += shared_by_share[i]; }
  let any_odd = atomicLoad(&odd_shares) != 0u;

  let quad = group % blocks * 8u + t % 8u;
  let at = min(quad, quads - 1u);
  let last = params.splits - 1u;
  var sum = vec4<f32>();
  for (var first = 0u; first < params.splits; first += 128u) {
    workgroupBarrier();
    let share = first + t;
    shared_by_share[t] = select(0.0, exp_1(stats[min(share, last) * params.all_rows + row].x - m), share <= last);
    workgroupBarrier();
    let end = min(params.splits - first, 128u);
    // Four reads under way at a time.
    for (var i = t / 8u; i < end; i += 64u) {
      let i1 = min(i + 16u, end - 1u);
      let i2 = min(i + 32u, end - 1u);
      let i3 = min(i + 48u, end - 1u);
      let s0 = sums[((first + i) * params.all_rows + row) * quads + at];
      let s1 = sums[((first + i1) * params.all_rows + row) * quads + at];
      let s2 = sums[((first + i2) * params.all_rows + row) * quads + at];
      let s3 = sums[((first + i3) * params.all_rows + row) * quads + at];
      sum += s0 * shared_by_share[i];
      if (i + 16u < end) { sum += s1 * shared_by_share[i1]; }
      if (i + 32u < end) { sum += s2 * shared_by_share[i2]; }
      if (i + 48u < end) { sum += s3 * shared_by_share[i3]; }
    }
  }
  parts[t] = sum;
  workgroupBarrier();
  if (t < 8u && quad < quads) {
    for (var i = 1u; i < 16u; i++) { sum += parts[i * 8u + t]; }
    store(row, quad, sum, l, any_odd);
  }
}
)";
}

}  // namespace weft::ops
