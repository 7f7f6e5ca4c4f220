// Attention of few rows (decoding): bound by the reading of keys and values.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "ops/attention_plan.h"
#include "ops/attention_text.h"
#include "ops/wgsl.h"
#include "ops/wgsl_text.h"

namespace weft::ops {
namespace {

constexpr std::uint32_t kThreads = kAttentionRowThreads;

}  // namespace

/// A workgroup takes a share of the keys that fits workgroup memory, in three steps with few barriers: scores (so many
/// lanes a key, sums by shuffles), weights, weighted sums of the values (a thread for 16 bytes of columns, others for
/// other keys). So keys and values are read once for all rows of the kv head, in whole lines, and many reads are under
/// way at a time.
std::string attention_row_source(const AttentionSpec& s) {
  const bool f16 = s.dtype == DType::f16;
  const std::uint32_t rows = s.rows;
  const std::uint32_t lanes = s.key_lanes;
  const std::uint32_t vectors = s.key_vectors;
  const std::uint32_t fours = f16 ? 2 : 1;                      // of elements, in 16 bytes
  const std::uint32_t reads = s.rolled ? 2 : 8;                 // of 16 bytes, that a thread has under way
  const std::uint32_t keys = reads / std::min(vectors, reads);  // of a lane, at once
  const std::uint32_t kept = attention_row_keys(rows);

  std::string text = f16 ? "enable f16;\n" : "";
  text += wgsl::attention;
  text += R"(
@group(0) @binding(0) var<storage, read> q: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> k: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<u32>>;
)";
  text += attention_deliver(s);
  text += f16 ? R"(
fn four_0(x: vec4<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(x.x), unpack2x16float(x.y)); }
fn four_1(x: vec4<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(x.z), unpack2x16float(x.w)); }
)"
              : "\nfn four_0(x: vec4<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(x); }\n";
  text += fill(R"(
var<workgroup> scores: array<f32, $KEPT>;      // of a row, by key; then weights
var<workgroup> joined: array<f32, $JOINED>;    // of a row, by subgroup
var<workgroup> parts: array<vec4<f32>, $THREADS>;
var<workgroup> flags: atomic<u32>;             // bit r: row r is NaN; bit 31: there are keys that a row does not see

@compute @workgroup_size($THREADS)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_size) subgroup_size: u32) {
  let group = id.x + id.y * 32768u;
  if (group >= params.groups) { return; }
  let p = place(group);
  let length = length_of(p.batch);
  let share = p.split * params.chunk;
  let first_row = p.tile * $ROWS;
  let last_row = min(first_row + $ROWS, params.rows) - 1u;
  let one_head = first_row / params.queries == last_row / params.queries;
  let last_query = select(params.queries - 1u, last_row % params.queries, one_head);
  // No row sees a key from here on.
  let end = min(limit_of(last_query, length), share + params.chunk);
  let k_start = params.k_offset + p.batch * params.k_batch + p.kv_head * params.k_head;
  let v_start = params.v_offset + p.batch * params.v_batch + p.kv_head * params.v_head;
  let last_key = params.keys - 1u;
  let subgroups = $THREADS / subgroup_size;
  let subgroup = t / subgroup_size;
  if (t == 0u) { atomicStore(&flags, 0u); }  // not every implementation clears workgroup memory
)",
               {{"$KEPT", std::to_string(kept * rows)},
                {"$JOINED", std::to_string(rows * kThreads / 4)},
                {"$THREADS", number(kThreads)},
                {"$ROWS", number(rows)}});
  text += each(rows, R"(  let row$I = min(first_row + $Iu, params.rows - 1u);
  let limit$I = min(limit_of(row$I % params.queries, length), end);
  let mask$I = mask_start(p, row$I);
)");

  // Scores.
  text += fill(R"(
  let lane = t % $LANES;
  let turn = t / $LANES;
  let last_vector = (params.dim - 1u) / $UNIT;
)",
               {{"$LANES", number(lanes)}, {"$UNIT", number(s.unit)}});
  for (std::uint32_t i = 0; i < vectors; ++i) {
    text += fmt::format("  let at{0} = min(lane + {1}u, last_vector);\n  let used{0} = lane + {1}u <= last_vector;\n",
                        i, i * lanes);
    for (std::uint32_t r = 0; r < rows; ++r) {
      text += fmt::format("  let q{0}_{1} = select(vec4<u32>(), q[q_start(p, row{0}) + at{1}], used{1});\n", r, i);
      for (std::uint32_t f = 0; f < fours; ++f) {
        text += fmt::format("  let q{0}_{1}_{2} = four_{2}(q{0}_{1});\n", r, i, f);
      }
    }
  }
  // Which of its `keys` keys a lane has in the end: each step of the adding halves them.
  const std::uint32_t steps = static_cast<std::uint32_t>(__builtin_ctz(lanes));
  std::uint32_t left = keys;
  text += "  var which = 0u;\n";
  for (std::uint32_t step = 0; step < steps; ++step) {
    const std::uint32_t by = lanes >> (step + 1);
    if (left > 1) {
      left /= 2;
      text += fmt::format("  which += select(0u, {}u, (lane & {}u) != 0u);\n", left, by);
    }
  }
  const std::uint32_t idle = keys >= lanes ? 0 : lanes / keys - 1;  // of lanes that have the same key, all but one
  if (s.checks_subgroups) {
    // Narrower subgroups than hoped for: each thread has keys of its own.
    std::string sums, stores;
    for (std::uint32_t r = 0; r < rows; ++r) {
      for (std::uint32_t f = 0; f < fours; ++f) {
        sums += fmt::format("        s{0} += dot(four_{1}(q[q_start(p, row{0}) + i]), four_{1}(x));\n", r, f);
      }
      stores += fmt::format("      scores[{}u + j - share] = s{};\n", r * kept, r);
    }
    text += fmt::format("  if (subgroup_size < {}u) {{\n    for (var j = share + t; j < end; j += {}u) {{\n", lanes,
                        kThreads);
    text += each(rows, "      var s$I = 0.0;\n");
    text += "      for (var i = 0u; i <= last_vector; i++) {\n        let x = k[k_start + j * params.k_row + i];\n" +
            sums + "      }\n" + stores + "    }\n  } else {\n";
  }
  text += fmt::format("  for (var j0 = share; j0 < end; j0 += {}u) {{\n", keys * kThreads / lanes);
  for (std::uint32_t u = 0; u < keys; ++u) {
    text += fmt::format("    let k_at{0} = k_start + min(j0 + {1}u + turn, last_key) * params.k_row;\n", u,
                        u * kThreads / lanes);
  }
  for (std::uint32_t u = 0; u < keys; ++u) {
    for (std::uint32_t i = 0; i < vectors; ++i) {
      text += fmt::format("    let k{0}_{1} = k[k_at{0} + at{1}];\n", u, i);
    }
  }
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t u = 0; u < keys; ++u) {
      // Behind the head's end a lane has its last vector again.
      std::string sum;
      for (std::uint32_t i = 0; i < vectors; ++i) {
        std::string product;
        for (std::uint32_t f = 0; f < fours; ++f) {
          product +=
              fmt::format("{}dot(q{}_{}_{f}, four_{f}(k{}_{}))", f > 0 ? " + " : "", r, i, u, i, fmt::arg("f", f));
        }
        sum += fmt::format("{}select(0.0, {}, used{})", i > 0 ? " + " : "", product, i);
      }
      text += fmt::format("    var s{}_{} = {};\n", r, u, sum);
    }
  }
  std::uint32_t count = keys;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const std::uint32_t by = lanes >> (step + 1);
    text += fmt::format("    {{\n      let upper = (lane & {}u) != 0u;\n", by);
    for (std::uint32_t r = 0; r < rows; ++r) {
      if (count == 1) {
        text += fmt::format("      s{0}_0 += subgroupShuffleXor(s{0}_0, {1}u);\n", r, by);
        continue;
      }
      for (std::uint32_t u = 0; u < count / 2; ++u) {
        text += fmt::format(
            "      s{0}_{1} = select(s{0}_{1}, s{0}_{2}, upper) + subgroupShuffleXor(select(s{0}_{2}, s{0}_{1}, "
            "upper), {3}u);\n",
            r, u, u + count / 2, by);
      }
    }
    text += "    }\n";
    if (count > 1) count /= 2;
  }
  for (std::uint32_t u = 0; u < count; ++u) {
    text += fmt::format(
        "    let key{0} = j0 + (which + {0}u) * {1}u + turn;\n    if (key{0} < end && (lane & {2}u) == 0u) {{\n", u,
        kThreads / lanes, idle);
    for (std::uint32_t r = 0; r < rows; ++r) {
      text += fmt::format("      scores[{}u + key{} - share] = s{}_{};\n", r * kept, u, r, u);
    }
    text += "    }\n";
  }
  text += s.checks_subgroups ? "  }\n  }\n  workgroupBarrier();\n" : "  }\n  workgroupBarrier();\n";

  // Weights.
  text += each(rows, "  var m$I = kLowest;\n  var l$I = 0.0;\n  var odd$I = false;\n");
  text += fmt::format("  var unseen = false;\n  for (var j = share + t; j < end; j += {}u) {{\n", kThreads);
  for (std::uint32_t r = 0; r < rows; ++r) {
    text += fill(R"(    {
      var s = scores[$AT + j - share] * params.scale;
      if (params.softcap > 0.0) { s = capped(s); }
      if (params.mask_kind != 0u) { s = masked(s, mask$R + j * params.mask_key); }
      s = select(params.minus_infinity, s, j < limit$R);
      odd$R = odd$R || is_odd(s);
      unseen = unseen || is_unseen(s);
      m$R = max(m$R, s);
      scores[$AT + j - share] = s;
    }
)",
                 {{"$AT", number(r * kept)}, {"$R", std::to_string(r)}});
  }
  text += "  }\n  if (unseen) { atomicOr(&flags, 0x80000000u); }\n";
  text += each(rows, "  if (odd$I) { atomicOr(&flags, 1u << $Iu); }\n");
  const auto join = [&](char name, std::string_view all, std::string_view pair) {
    std::string out;
    for (std::uint32_t r = 0; r < rows; ++r) {
      out +=
          fmt::format("  {0}{1} = {2}({0}{1});\n  joined[{3}u + subgroup] = {0}{1};\n", name, r, all, r * kThreads / 4);
    }
    out += "  workgroupBarrier();\n  for (var i = 0u; i < subgroups; i++) {\n";
    for (std::uint32_t r = 0; r < rows; ++r) {
      out += fill(fmt::format("    {0}{1} = {2};\n", name, r, pair),
                  {{"$A", fmt::format("{}{}", name, r)}, {"$B", fmt::format("joined[{}u + i]", r * kThreads / 4)}});
    }
    return out + "  }\n";
  };
  text += join('m', "subgroupMax", "max($A, $B)");
  text += fmt::format("  workgroupBarrier();\n  for (var j = share + t; j < end; j += {}u) {{\n", kThreads);
  for (std::uint32_t r = 0; r < rows; ++r) {
    text += fill(R"(    {
      let s = scores[$AT + j - share];
      let w = exp_1(s - m$R);
      l$R += select(w, 0.0, is_unseen(s));
      scores[$AT + j - share] = select(w, bitcast<f32>(params.minus_zero), is_unseen(s));
    }
)",
                 {{"$AT", number(r * kept)}, {"$R", std::to_string(r)}});
  }
  text += "  }\n";
  // The barrier in here also stands between the weights and their use.
  {
    std::string sums;
    for (std::uint32_t r = 0; r < rows; ++r) {
      sums += fmt::format("  l{0} = subgroupAdd(l{0});\n  joined[{1}u + subgroup] = l{0};\n", r, r * kThreads / 4);
    }
    sums += "  workgroupBarrier();\n";
    for (std::uint32_t r = 0; r < rows; ++r) sums += fmt::format("  l{} = 0.0;\n", r);
    sums += "  for (var i = 0u; i < subgroups; i++) {\n";
    for (std::uint32_t r = 0; r < rows; ++r)
      sums += fmt::format("    l{0} += joined[{1}u + i];\n", r, r * kThreads / 4);
    text += sums + "  }\n";
  }
  text += "  let found = atomicLoad(&flags);\n";
  text += each(rows, "  l$I = select(l$I, params.not_a_number, (found & (1u << $Iu)) != 0u);\n");
  if (s.partial) {
    text += "  if (t == 0u) {\n" + each(rows, R"(    if (first_row + $Iu < params.rows) {
      stats[p.split * params.all_rows + flat_row(p, first_row + $Iu)] = vec2<f32>(m$I, l$I);
    }
)") + "  }\n";
  }

  // Weighted sums: a thread has a column's 16 bytes, of every so many-th key.
  text += fill(R"(
  let column = t & (params.value_lanes - 1u);
  let begin = t / params.value_lanes;
  let step = $THREADS / params.value_lanes;
  let v_at = v_start + min(column, (params.value_dim - 1u) / $UNIT);
)",
               {{"$THREADS", number(kThreads)}, {"$UNIT", number(s.unit)}});
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t f = 0; f < fours; ++f) text += fmt::format("  var o{}_{} = vec4<f32>();\n", r, f);
  }
  const auto sums = [&](bool careful) {
    std::string out = fmt::format("    for (var j = share + begin; j < end; j += step * {}u) {{\n", reads);
    for (std::uint32_t u = 0; u < reads; ++u) {
      out += fmt::format(
          "      let j{0} = j + step * {0}u;\n      let v{0} = select(vec4<u32>(), v[v_at + min(j{0}, last_key) * "
          "params.v_row], j{0} < end);\n",
          u);
    }
    for (std::uint32_t u = 0; u < reads; ++u) {
      if (!careful) {
        for (std::uint32_t f = 0; f < fours; ++f) out += fmt::format("      let x{0}_{1} = four_{1}(v{0});\n", u, f);
      }
      for (std::uint32_t r = 0; r < rows; ++r) {
        // A weight that is not there is read as what the last key has: its values are zeros.
        out += fmt::format("      let w{0}_{1} = scores[{2}u + min(j{0}, end - 1u) - share];\n", u, r, r * kept);
        if (careful) {
          out += fmt::format("      let y{0}_{1} = select(v{0}, vec4<u32>(), bitcast<u32>(w{0}_{1}) == 0x80000000u);\n",
                             u, r);
        }
        for (std::uint32_t f = 0; f < fours; ++f) {
          const std::string x = careful ? fmt::format("four_{}(y{}_{})", f, u, r) : fmt::format("x{}_{}", u, f);
          out += fmt::format("      o{0}_{1} = fma(vec4<f32>(w{2}_{0}), {3}, o{0}_{1});\n", r, f, u, x);
        }
      }
    }
    return out + "    }\n";
  };
  text += "  if ((found & 0x80000000u) != 0u) {\n" + sums(true) + "  } else {\n" + sums(false) + "  }\n";
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t f = 0; f < fours; ++f) {
      text += fill(R"(  workgroupBarrier();
  parts[t] = $O;
  workgroupBarrier();
  if (begin == 0u && column <= (params.value_dim - 1u) / $UNIT) {
    var sum = parts[t];
    for (var i = 1u; i < step; i++) { sum += parts[i * params.value_lanes + t]; }
    deliver(p, first_row + $R, column * $UNIT + $F, sum, l$N);
  }
)",
                   {{"$O", fmt::format("o{}_{}", r, f)},
                    {"$UNIT", number(s.unit)},
                    {"$R", number(r)},
                    {"$N", std::to_string(r)},
                    {"$F", number(f * 4)}});
    }
  }
  return text + "}\n";
}

}  // namespace weft::ops
