#include "ops/attention_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "ops/attention_plan.h"
#include "ops/attention_text.h"
#include "ops/wgsl.h"
#include "ops/wgsl_text.h"

namespace weft::ops {
namespace {

using Tile = AttentionMatrixTile;

// Workgroup memory holds items of 16 bytes, eight f16 or four f32, which threads read and write whole; matrices are
// read from there in their own type, with offsets and strides in items. Rows are longer than what they hold by one
// item: rows below each other then start in different memory banks.
constexpr std::uint32_t kHalves = 8, kFloats = 4;

/// Elements of a row, f16.
std::uint32_t key_line(const Tile& t) {
  return t.depth + 8;
}
std::uint32_t value_line(const Tile& t) {
  return t.columns + 8;
}
std::uint32_t weight_line(const Tile& t) {
  return t.keys + 8;
}
/// Of scores, f32; sums take the same place where threads must see them.
std::uint32_t score_line(const Tile& t) {
  return t.keys + 4;
}
/// Of the array that holds keys, and values too when they take turns in it.
std::uint32_t key_elements(const Tile& t) {
  return t.keys * (t.shared ? std::max(key_line(t), value_line(t)) : key_line(t));
}

/// Eight elements side by side from d on, two to a word; zeros from `length` on.
std::string fetch(char of, std::string_view length, bool eights) {
  if (eights) {
    return fmt::format(R"(
fn fetch_{0}(start: u32, d: u32) -> vec4<u32> {{
  return select(vec4<u32>(), {0}[start + min(d, {1} - 8u) / 8u], d < {1});
}}
)",
                       of, length);
  }
  std::string words;
  for (int i = 0; i < 4; ++i) {
    words += fmt::format("{}pair_{}(start, d + {}u)", i > 0 ? ", " : "", of, i * 2);
  }
  return fmt::format(R"(
fn pair_{0}(start: u32, d: u32) -> u32 {{
  let last = {1} - 1u;
  let pair = vec2<f16>({0}[start + min(d, last)], {0}[start + min(d + 1u, last)]);
  return bitcast<u32>(select(vec2<f16>(), pair, vec2<u32>(d, d + 1u) < vec2<u32>({1})));
}}
fn fetch_{0}(start: u32, d: u32) -> vec4<u32> {{ return vec4<u32>({2}); }}
)",
                     of, length, words);
}

/// Parameters, bindings, fetch_q, fetch_k, fetch_v, deliver.
std::string head(const AttentionSpec& s) {
  std::string text =
      "diagnostic(off, chromium.subgroup_matrix_uniformity);\n"
      "enable f16;\nenable subgroups;\nenable chromium_experimental_subgroup_matrix;\n";
  text += wgsl::attention;
  const bool eights = s.unit == 8;
  for (const auto& [binding, name] : {std::pair{0, 'q'}, {1, 'k'}, {2, 'v'}}) {
    text += fmt::format("@group(0) @binding({}) var<storage, read> {}: array<{}>;\n", binding, name,
                        eights ? "vec4<u32>" : "f16");
  }
  text += fetch('q', "params.dim", eights) + fetch('k', "params.dim", eights) + fetch('v', "params.value_dim", eights);
  return text + attention_deliver(s);
}

/// Names of the matrix types.
struct Types {
  std::string left, right, result;
  explicit Types(const Tile& t)
      : left(fmt::format("subgroup_matrix_left<f16, {}, {}>", t.k, t.m)),
        right(fmt::format("subgroup_matrix_right<f16, {}, {}>", t.n, t.k)),
        result(fmt::format("subgroup_matrix_result<f32, {}, {}>", t.n, t.m)) {}
};

/// Brings `keys` rows into workgroup memory: what each thread reads, as `name`0, `name`1, ...
struct Bringing {
  std::uint32_t items;  ///< of a thread
  std::uint32_t line;   ///< reads of a row
  std::uint32_t threads;
  std::uint32_t total;
  /// `text` for each item, with $ROW, $AT (a multiple of 8 elements) and $I.
  std::string each_item(const std::string& text) const {
    std::string out;
    for (std::uint32_t i = 0; i < items; ++i) {
      const std::string e = fmt::format("(t + {}u)", i * threads);
      std::string one = fill(text, {{"$ROW", fmt::format("({} / {}u)", e, line)},
                                    {"$AT", fmt::format("({} % {}u * 8u)", e, line)},
                                    {"$I", std::to_string(i)}});
      if ((i + 1) * threads > total) one = fmt::format("    if ({} < {}u) {{\n{}    }}\n", e, total, one);
      out += one;
    }
    return out;
  }
};

Bringing bringing(const Tile& t, std::uint32_t width) {
  const std::uint32_t threads = t.subgroups * t.lanes;
  const std::uint32_t total = t.keys * width / 8;
  return {(total + threads - 1) / threads, width / 8, threads, total};
}

}  // namespace

std::uint32_t attention_matrix_bytes(const Tile& t) {
  const std::uint32_t rows = t.subgroups * t.m;
  const std::uint32_t halves = key_elements(t) + (t.shared ? 0 : t.keys * value_line(t)) + rows * weight_line(t);
  return halves * 2 + rows * score_line(t) * 4 + rows * 4 + t.subgroups * 8;
}

bool attention_matrix_fits(const Tile& t, const Limits& limits) {
  const auto divides = [](std::uint32_t a, std::uint32_t b) { return a > 0 && b > 0 && b % a == 0; };
  if (!divides(t.m, t.lanes) || !divides(t.m, t.keys)) return false;
  if (!divides(t.n, t.keys) || !divides(t.k, t.keys) || !divides(t.k, t.depth) || !divides(8, t.depth)) return false;
  if (!divides(t.keys, t.columns) || !divides(8, t.columns) || !divides(t.n, t.columns)) return false;
  const std::uint32_t parts = t.lanes / t.m;  // lanes of a row
  if (!divides(parts, t.keys) || !divides(kHalves, t.keys / parts)) return false;
  if (!divides(kHalves, t.n) || !divides(kHalves, t.k)) return false;
  const std::uint32_t threads = t.subgroups * t.lanes;
  return threads <= limits.max_workgroup_invocations && threads <= limits.max_workgroup_size_x &&
         attention_matrix_bytes(t) <= limits.max_workgroup_storage;
}

std::optional<Tile> fit_attention_matrix(Tile tile, const Limits& limits, std::int64_t dim, std::int64_t value_dim) {
  if (dim > 128) return {};
  tile.depth = dim <= 32 ? 32 : dim <= 64 ? 64 : 128;
  tile.columns = value_dim <= 32 ? 32 : value_dim <= 64 ? 64 : 128;
  if (!attention_matrix_fits(tile, limits)) return {};
  return tile;
}

std::optional<Tile> choose_attention_matrix(const Features& features, const Limits& limits, std::int64_t dim,
                                            std::int64_t value_dim, const std::optional<Tile>& like) {
  // How lanes share rows is part of the text, so their number must be known.
  if (!features.f16 || features.subgroup_min_size == 0 || features.subgroup_min_size != features.subgroup_max_size) {
    return {};
  }
  const SubgroupMatrix* best = nullptr;
  for (const SubgroupMatrix& s : features.subgroup_matrices) {
    if (s.in != "f16" || s.out != "f32") continue;
    if (best == nullptr || s.m * s.n * s.k > best->m * best->n * best->k) best = &s;
  }
  if (best == nullptr) return {};
  const auto fit = [&](std::uint32_t subgroups, std::uint32_t keys, bool shared, bool ahead) {
    Tile tile;
    tile.m = best->m;
    tile.n = best->n;
    tile.k = best->k;
    tile.lanes = features.subgroup_max_size;
    tile.subgroups = subgroups;
    tile.keys = keys;
    tile.shared = shared;
    tile.ahead = ahead;
    return fit_attention_matrix(tile, limits, dim, value_dim);
  };
  if (like) return fit(like->subgroups, like->keys, like->shared, like->ahead);
  // With two lanes a row the fastest of all on the H200 (decision 011).
  const bool shared = features.subgroup_max_size > best->m;
  for (const std::uint32_t subgroups : {4U, 2U, 1U}) {
    if (const auto tile = fit(subgroups, 32, shared, !shared)) return tile;
  }
  return {};
}

std::vector<Tile> attention_matrix_tiles(const Features& features, const Limits& limits) {
  std::vector<Tile> all;
  for (const std::int64_t dim : {32, 64, 128}) {
    for (const std::int64_t value_dim : {32, 64, 128}) {
      const std::optional<Tile> tile = choose_attention_matrix(features, limits, dim, value_dim);
      if (tile && std::find(all.begin(), all.end(), *tile) == all.end()) all.push_back(*tile);
    }
  }
  return all;
}

std::string attention_matrix_key(const Tile& t) {
  return fmt::format("{}x{}x{}/{}/{}x{}/{}/{}{}{}", t.m, t.n, t.k, t.lanes, t.subgroups, t.keys, t.depth, t.columns,
                     t.shared ? "/shared" : "", t.ahead ? "/ahead" : "");
}

/// S = Q Kᵀ by matrices into workgroup memory; there each lane turns (a part of) a row into weights; O += P V by
/// matrices. O stays in matrices, whose elements a thread can't reach: so the maximum that weights are relative to
/// stands until a score is over it by so much that weights would be too large for f16, and only then O goes through
/// workgroup memory to be scaled. Weights are 2^(score - maximum + 6) at first: f16 has no smaller numbers than 2^-24.
std::string attention_matrix_source(const AttentionSpec& spec) {
  const Tile& tile = spec.matrix.value();
  const Types types(tile);
  const std::uint32_t threads = tile.subgroups * tile.lanes;
  const std::uint32_t tile_rows = tile.subgroups * tile.m;
  const std::uint32_t key_blocks = tile.keys / tile.n;
  const std::uint32_t column_blocks = tile.columns / tile.n;
  const std::uint32_t depth_steps = tile.depth / tile.k;
  const std::uint32_t key_steps = tile.keys / tile.k;
  const std::uint32_t parts = tile.lanes / tile.m;  // lanes of a row
  const std::uint32_t width = tile.keys / parts;    // keys of a lane
  const std::uint32_t fours = width / 4;
  const Bringing keys = bringing(tile, tile.depth);
  const Bringing values = bringing(tile, tile.columns);

  // Matrices must be variables with a name each, and loops over them written out: an array that a loop indexes does not
  // stay in registers. A CPU's compiler takes arrays and loops instead, or it would take minutes.
  const auto loop = [&](const std::string& name, std::uint32_t count, auto&& body) {
    if (spec.rolled) return fmt::format("for (var {0} = 0u; {0} < {1}u; {0}++) {{\n{2}}}\n", name, count, body(name));
    std::string out;
    for (std::uint32_t i = 0; i < count; ++i) out += "{\n" + body(number(i)) + "}\n";
    return out;
  };
  const auto declare = [&](char name, std::string_view type, std::uint32_t count) {
    if (spec.rolled) return fmt::format("var {}: array<{}, {}>;\n", name, type, count);
    std::string out;
    for (std::uint32_t i = 0; i < count; ++i) out += fmt::format("var {}{}: {};\n", name, i, type);
    return out;
  };
  const auto matrix = [&](char name, const std::string& i) {
    if (spec.rolled) return fmt::format("{}[{}]", name, i);
    return fmt::format("{}{}", name, i.substr(0, i.size() - 1));
  };
  const auto load = [&](std::string_view type, std::string_view order, std::string_view from, std::string_view offset,
                        std::uint32_t line) {
    return fmt::format("subgroupMatrixLoad<{}, {}>({}, {}, {}u)", type, order, from, offset, line);
  };

  std::string text = head(spec);
  const std::string_view value_array = tile.shared ? "keys" : "values";
  text += fmt::format("var<workgroup> keys: array<vec4<u32>, {}>;{}\n", key_elements(tile) / kHalves,
                      tile.shared ? "  // in turn with values" : "");
  if (!tile.shared) {
    text += fmt::format("var<workgroup> values: array<vec4<u32>, {}>;\n", tile.keys * value_line(tile) / kHalves);
  }
  text += fmt::format(R"(var<workgroup> scores: array<vec4<f32>, {}>;   // and sums, where threads must see them
var<workgroup> weights: array<vec4<u32>, {}>;
var<workgroup> row_sums: array<f32, {}>;
var<workgroup> odd_blocks: array<u32, {}>;  // by subgroup
var<workgroup> flags: array<u32, {}>;
)",
                      tile_rows * score_line(tile) / kFloats, tile_rows * weight_line(tile) / kHalves, tile_rows,
                      tile.subgroups, tile.subgroups);
  text += R"(
const kLog2e = 1.4426950408889634;
const kScale = 1u;  // some sums must be scaled
const kOdd = 2u;    // some values are NaN or infinite
// Bits 15 and 31 of a sum of a word's halves that are NaN or infinite.
fn odd_halves(words: vec4<u32>) -> vec4<u32> { return (words & vec4<u32>(0x7c007c00u)) + vec4<u32>(0x04000400u); }
// Elements `at` and the three behind it (a multiple of four) of an item that holds them.
fn four_of(item: vec4<u32>, at: u32) -> vec4<f32> {
  let words = select(item.xy, item.zw, (at & 4u) != 0u);
  return vec4<f32>(vec2<f32>(bitcast<vec2<f16>>(words.x)), vec2<f32>(bitcast<vec2<f16>>(words.y)));
}
fn words_of(w: vec4<f32>) -> vec2<u32> { return bitcast<vec2<u32>>(vec4<f16>(w)); }
)";

  // Scales a lane's row of one matrix of sums, and adds the products one by one when the values are odd: what unseen
  // keys (weight -0) have must not count, and what seen ones have does however small the weight.
  text += fmt::format("fn amend(row: u32, part: u32, column: u32, fade: f32, odd: bool) {{\n");
  text += fill(R"(
  for (var c = part * 4u; c < $N; c += $PARTS * 4u) {
    let place = (row * $SCORE_LINE + c) / 4u;
    var sum = scores[place] * fade;
    if (odd) {
      for (var key = 0u; key < $KEYS; key++) {
        let weight_at = row * $WEIGHT_LINE + key;
        let weight = four_of(weights[weight_at / 8u], weight_at)[weight_at & 3u];
        let value_at = key * $VALUE_LINE + column + c;
        let value = four_of($VALUES[value_at / 8u], value_at);
        let is_odd_value = (bitcast<vec4<u32>>(value) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u);
        if (bitcast<u32>(weight) != 0x80000000u) { sum += select(weight * value, value, is_odd_value); }
      }
    }
    scores[place] = sum;
  }
}
)",
               {{"$N", number(tile.n)},
                {"$PARTS", number(parts)},
                {"$SCORE_LINE", number(score_line(tile))},
                {"$KEYS", number(tile.keys)},
                {"$WEIGHT_LINE", number(weight_line(tile))},
                {"$VALUES", std::string(value_array)},
                {"$VALUE_LINE", number(value_line(tile))}});

  text += attention_entry(threads);
  text += fill(R"(
  let share = p.split * params.chunk;
  let first_row = p.tile * $TILE;
  let last_row = min(first_row + $TILE, params.rows) - 1u;
  // No row of the tile sees a key from `end` on, and each sees all before `all_see`.
  let one_head = first_row / params.queries == last_row / params.queries;
  let last_query = select(params.queries - 1u, last_row % params.queries, one_head);
  let end = min(limit_of(last_query, length), share + params.chunk);
  let all_see = min(limit_of(select(0u, first_row % params.queries, one_head), length), end);
  let simple = params.mask_kind == 0u && params.softcap == 0.0 && params.scale > 0.0;
  let k_start = params.k_offset + p.batch * params.k_batch + p.kv_head * params.k_head;
  let v_start = params.v_offset + p.batch * params.v_batch + p.kv_head * params.v_head;
  let first_column = p.column * $COLUMNS;
  // A lane's row of the scores, or part of it.
  let block = t / $LANES;
  let lane = t % $LANES;
  let part = lane / $ROWS;
  let row_in_tile = block * $ROWS + lane % $ROWS;
  let row = first_row + row_in_tile;
  let safe_row = min(row, params.rows - 1u);
  let limit = min(limit_of(safe_row % params.queries, length), end);
  let mask_row = mask_start(p, safe_row);
  let score_at = row_in_tile * $LINE + part * $WIDTH;
  let weight_at = row_in_tile * $WEIGHT_LINE + part * $WIDTH;
  var m = kLowest;
  var l = 0.0;
  var odd = false;
)",
               {{"$TILE", number(tile_rows)},
                {"$COLUMNS", number(tile.columns)},
                {"$LANES", number(tile.lanes)},
                {"$ROWS", number(tile.m)},
                {"$LINE", number(score_line(tile))},
                {"$WEIGHT_LINE", number(weight_line(tile))},
                {"$WIDTH", number(width)}});
  text += declare('q', types.left, depth_steps) + declare('o', types.result, column_blocks);

  // Queries, through the keys' place, so many rows at a time.
  const auto put = [&](std::string_view where, std::uint32_t line, std::string_view value) {
    return fmt::format("    {}[$ROW * {}u + $AT / 8u] = {};\n", where, line / kHalves, value);
  };
  text += fmt::format("  for (var first = 0u; first < {}u; first += {}u) {{\n", tile_rows, tile.keys);
  text += keys.each_item(
      put("keys", key_line(tile), "fetch_q(q_start(p, min(first_row + first + $ROW, params.rows - 1u)), $AT)"));
  text += "    workgroupBarrier();\n";
  text += fmt::format("    if (block * {}u / {}u * {}u == first) {{\n", tile.m, tile.keys, tile.keys);
  text += loop("i", depth_steps, [&](const std::string& i) {
    return fmt::format("{} = {};\n", matrix('q', i),
                       load(types.left, "row_major", "&keys",
                            fmt::format("block * {}u % {}u * {}u + {} * {}u", tile.m, tile.keys,
                                        key_line(tile) / kHalves, i, tile.k / kHalves),
                            key_line(tile) / kHalves));
  });
  text += "    }\n    workgroupBarrier();\n  }\n";

  const std::string read_key = "fetch_k(k_start + min($FROM + $ROW, params.keys - 1u) * params.k_row, $AT)";
  const std::string read_value =
      "select(vec4<u32>(), fetch_v(v_start + min(j0 + $ROW, params.keys - 1u) * params.v_row, first_column + $AT), "
      "j0 + $ROW < end)";
  const auto key_from = [&](const std::string& line, std::string_view from) {
    return keys.each_item(fill(line, {{"$FROM", std::string(from)}}));
  };
  if (tile.ahead) {
    text += each(keys.items, "  var k$I = vec4<u32>();\n");
    text += key_from("    k$I = " + read_key + ";\n", "share");
  }
  text += fmt::format("  for (var j0 = share; j0 < end; j0 += {}u) {{\n", tile.keys);
  text += tile.ahead ? keys.each_item(put("keys", key_line(tile), "k$I"))
                     : key_from(put("keys", key_line(tile), read_key), "j0");
  text += "    workgroupBarrier();\n";
  text += each(values.items, "    var v$I = vec4<u32>();\n");
  const std::string bring_values = values.each_item("    v$I = " + read_value + ";\n");
  if (tile.ahead) text += bring_values;

  const auto multiply = [](const std::string& sum, std::string_view a, std::string_view b) {
    return fmt::format("{0} = subgroupMatrixMultiplyAccumulate({1}, {2}, {0});\n", sum, a, b);
  };
  text += declare('s', types.result, key_blocks);
  // In so many words: arrays of matrices keep their values from one turn of the loop to the next (Tint of 2026).
  text += loop("j", key_blocks,
               [&](const std::string& j) { return fmt::format("{} = {}();\n", matrix('s', j), types.result); });
  text += loop("i", depth_steps, [&](const std::string& i) {
    return loop("j", key_blocks, [&](const std::string& j) {
      return fmt::format("let b = {};\n", load(types.right, "col_major", "&keys",
                                               fmt::format("{} * {}u + {} * {}u", j, tile.n * key_line(tile) / kHalves,
                                                           i, tile.k / kHalves),
                                               key_line(tile) / kHalves)) +
             multiply(matrix('s', j), matrix('q', i), "b");
    });
  });
  // As many matrices as there are scores of a row, from `first` on.
  const auto store_scores = [&](char name, const std::string& first) {
    return loop("j", key_blocks, [&](const std::string& j) {
      const std::string from = first.empty() ? j
                               : spec.rolled ? fmt::format("({} + {})", first, j)
                                             : number(static_cast<std::uint32_t>(std::stoul(first) + std::stoul(j)));
      return fmt::format("subgroupMatrixStore<row_major>(&scores, block * {}u + {} * {}u, {}, {}u);\n",
                         tile.m * score_line(tile) / kFloats, j, tile.n / kFloats, matrix(name, from),
                         score_line(tile) / kFloats);
    });
  };
  text += store_scores('s', "");
  if (!tile.ahead) text += bring_values;
  const std::string put_values = values.each_item(put(value_array, value_line(tile), "v$I"));
  text += "    var odd_bits = vec4<u32>();\n" + each(values.items, "    odd_bits |= odd_halves(v$I);\n");
  text += R"(
    let odd_block = subgroupOr(select(0u, kOdd, any((odd_bits & vec4<u32>(0x80008000u)) != vec4<u32>())));
    if (lane == 0u) { odd_blocks[block] = odd_block; }
)";
  if (!tile.shared) text += put_values;
  text += "    workgroupBarrier();\n";
  if (tile.shared) text += put_values;

  // Weights. Scores become powers of two by `factor`, or by the loop that also does what is rarely asked for.
  text += fill(R"(
    let plain = simple && j0 + $KEYS <= all_see;
    let factor = select(1.0, params.scale * kLog2e, plain);
    if (!plain) {
      for (var i = 0u; i < $WIDTH; i++) {
        let j = j0 + part * $WIDTH + i;
        let at = score_at + i;
        var s = scores[at / 4u][at & 3u] * params.scale;
        if (params.softcap > 0.0) { s = capped(s); }
        if (params.mask_kind != 0u) { s = masked(s, mask_row + min(j, params.keys - 1u) * params.mask_key); }
        // What is finite stays so.
        let grown = s * kLog2e;
        s = select(grown, kLowest, is_unseen(grown) && !is_unseen(s));
        s = select(params.minus_infinity, s, j < limit);
        odd = odd || is_odd(s);
        scores[at / 4u][at & 3u] = s;
      }
    }
)",
               {{"$KEYS", number(tile.keys)}, {"$WIDTH", number(width)}});
  text += each(fours, "    let x$I = scores[score_at / 4u + $Iu];\n");
  text += "    var total = x0;\n    var highs = x0;\n";
  for (std::uint32_t i = 1; i < fours; ++i) {
    text += fmt::format("    total += x{0};\n    highs = max(highs, x{0});\n", i);
  }
  // A NaN or an infinity shows in the sum.
  text += "    if (plain) { odd = odd || is_odd((total.x + total.y) + (total.z + total.w)); }\n";
  text += "    var high = max(max(highs.x, highs.y), max(highs.z, highs.w)) * factor;\n";
  for (std::uint32_t by = tile.m; by < tile.lanes; by *= 2) {
    text += fmt::format("    high = max(high, subgroupShuffleXor(high, {}u));\n", by);
  }
  text += R"(
    let grows = high > m + 9.0;
    let next = select(m, high - 6.0, grows);
    let fade = select(1.0, exp2(m - next), grows);
    let flag = odd_block | subgroupOr(select(0u, kScale, grows && l != 0.0));
    if (lane == 0u) { flags[block] = flag; }
    m = next;
)";
  text += each(fours, "    var w$I = exp2(fma(x$I, vec4<f32>(factor), vec4<f32>(-next)));\n");
  text += "    total = w0;\n";
  for (std::uint32_t i = 1; i < fours; ++i) text += fmt::format("    total += w{};\n", i);
  text += "    l = fma(l, fade, (total.x + total.y) + (total.z + total.w));\n";
  // Weights of unseen keys are -0 where that matters.
  std::string any_odd, any_flag;
  for (std::uint32_t i = 0; i < tile.subgroups; ++i) {
    any_odd += fmt::format("{}odd_blocks[{}]", i > 0 ? " | " : "", i);
    any_flag += fmt::format("{}all_flags[{}]", i > 0 ? " | " : "", i);
  }
  text += fmt::format("    if (!plain && ({}) != 0u) {{\n", any_odd) +
          "      let minus_zero = vec4<f32>(bitcast<f32>(params.minus_zero));\n" +
          each(fours, "      w$I = select(w$I, minus_zero, bitcast<vec4<u32>>(x$I) == vec4<u32>(0xff800000u));\n") +
          "    }\n";
  for (std::uint32_t i = 0; i < fours; i += 2) {
    text +=
        fmt::format("    weights[weight_at / 8u + {}u] = vec4<u32>(words_of(w{}), words_of(w{}));\n", i / 2, i, i + 1);
  }
  if (tile.ahead) text += key_from("    k$I = " + read_key + ";\n", fmt::format("j0 + {}u", tile.keys));
  text += fmt::format("    let all_flags = workgroupUniformLoad(&flags);\n    let found = {};\n", any_flag);

  text += "    if (found != 0u) {\n";
  text += loop("c", column_blocks, [&](const std::string& c) {
    return fill(R"(      subgroupMatrixStore<row_major>(&scores, block * $SIZE, $O, $LINE);
      workgroupBarrier();
      amend(row_in_tile, part, $C * $N, fade, (found & kOdd) != 0u);
      workgroupBarrier();
      $O = subgroupMatrixLoad<$TYPE, row_major>(&scores, block * $SIZE, $LINE);
      workgroupBarrier();
)",
                {{"$SIZE", number(tile.m * score_line(tile) / kFloats)},
                 {"$O", matrix('o', c)},
                 {"$LINE", number(score_line(tile) / kFloats)},
                 {"$C", c},
                 {"$N", number(tile.n)},
                 {"$TYPE", types.result}});
  });
  text += "    }\n    if ((found & kOdd) == 0u) {\n";
  text += loop("i", key_steps, [&](const std::string& i) {
    return fmt::format("let a = {};\n", load(types.left, "row_major", "&weights",
                                             fmt::format("block * {}u + {} * {}u", tile.m * weight_line(tile) / kHalves,
                                                         i, tile.k / kHalves),
                                             weight_line(tile) / kHalves)) +
           loop("c", column_blocks, [&](const std::string& c) {
             return fmt::format("let b = {};\n",
                                load(types.right, "row_major", fmt::format("&{}", value_array),
                                     fmt::format("{} * {}u + {} * {}u", i, tile.k * value_line(tile) / kHalves, c,
                                                 tile.n / kHalves),
                                     value_line(tile) / kHalves)) +
                    multiply(matrix('o', c), "a", "b");
           });
  });
  text += "    }\n";
  if (tile.shared) text += "    workgroupBarrier();\n";
  text += "  }\n";

  // Results, so many columns at a time as there are scores of a row.
  text += "  var all_odd = select(0u, 1u, odd);\n";
  for (std::uint32_t by = tile.m; by < tile.lanes; by *= 2) {
    text += fmt::format("  l += subgroupShuffleXor(l, {0}u);\n  all_odd |= subgroupShuffleXor(all_odd, {0}u);\n", by);
  }
  text += "  l = select(l, params.not_a_number, all_odd != 0u);\n";
  text += "  if (part == 0u) { row_sums[row_in_tile] = l; }\n";
  if (spec.partial) {
    text += R"(  if (part == 0u && p.column == 0u && row < params.rows) {
    stats[p.split * params.all_rows + flat_row(p, row)] = vec2<f32>(m * 0.6931471805599453, l);
  }
)";
  }
  const auto results = [&](const std::string& first) {  // from this column block on
    return "  workgroupBarrier();\n" + store_scores('o', first) +
           fmt::format(R"(  workgroupBarrier();
  for (var i = t; i < {0}u; i += {1}u) {{
    let line = i / {2}u;
    let four = i % {2}u;
    deliver(p, first_row + line, first_column + {3} * {4}u + four * 4u, scores[line * {5}u + four], row_sums[line]);
  }}
)",
                       tile_rows * tile.keys / 4, threads, tile.keys / 4, first, tile.n, score_line(tile) / kFloats);
  };
  if (spec.rolled) {
    text += fmt::format("for (var c = 0u; c < {}u; c += {}u) {{\n{}}}\n", column_blocks, key_blocks, results("c"));
  } else {
    for (std::uint32_t c = 0; c < column_blocks; c += key_blocks) text += results(number(c));
  }
  return text + "}\n";
}

}  // namespace weft::ops
