// What all attention kernels share: parameters, and which keys a row sees. The text behind this is generated
// (attention_codegen.cpp).
//
// The heads of a group that share a kv head, and their queries, are the rows of that kv head: row = head in the group *
// queries + query. A score of -infinity (by the mask, or not among the row's keys) is of a key that is not seen.
struct Params {
  queries: u32, keys: u32, dim: u32, value_dim: u32,
  rows: u32,         // of a kv head
  kv_heads: u32,
  q_offset: u32, q_batch: u32, q_head: u32, q_row: u32,  // elements, or fours of them; strides wrap
  k_offset: u32, k_batch: u32, k_head: u32, k_row: u32,
  v_offset: u32, v_batch: u32, v_head: u32, v_row: u32,
  mask_offset: u32, mask_batch: u32, mask_head: u32, mask_row: u32, mask_key: u32,
  mask_kind: u32,    // 0 none, 1 bool, 2 f32, 3 f16
  mask_shift: u32,   // elements of a word, as a power of two
  lengths_offset: u32, lengths_stride: u32,
  lengths_kind: u32, // 0 none, 1 i32, 2 u32
  causal: u32,
  tiles: u32, value_chunks: u32, splits: u32, chunk: u32, groups: u32,
  shares: u32,       // of the keys, in a group: 1, or one for each lane
  out_offset: u32,   // elements, or fours
  all_rows: u32,     // of all kv heads and items
  minus_zero: u32,   // its bits
  depth: u32,        // 16, where loops are not to be unrolled
  value_lanes: u32,  // row tier: threads that cover the values of a key, a power of two
  scale: f32, softcap: f32,
  minus_infinity: f32, not_a_number: f32,  // which source text can't spell
}

@group(0) @binding(3) var<storage, read> mask: array<u32>;
@group(0) @binding(4) var<storage, read> lengths: array<u32>;

const kLowest = -3.4028234e38;

// By bits: compilers may assume that there is no NaN and no infinity.
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn is_unseen(score: f32) -> bool { return bitcast<u32>(score) == 0xff800000u; }
fn is_odd(score: f32) -> bool {  // NaN or +infinity: the row is NaN
  let bits = bitcast<u32>(score);
  return (bits & 0x7fffffffu) > 0x7f7fffffu && bits != 0xff800000u;
}
fn are_odd(scores: vec4<f32>) -> vec4<bool> {
  let bits = bitcast<vec4<u32>>(scores);
  return ((bits & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f7fffffu)) & (bits != vec4<u32>(0xff800000u));
}

struct Place { batch: u32, kv_head: u32, tile: u32, column: u32, split: u32 }
fn place(group: u32) -> Place {
  // Of the lanes that take a share each, a group does eight.
  let splits = params.splits / params.shares;
  let split = group % splits;
  var rest = group / splits;
  let column = rest % params.value_chunks;
  rest /= params.value_chunks;
  // Last tiles first: under a causal mask they are the longest.
  let tile = params.tiles - 1u - rest % params.tiles;
  rest /= params.tiles;
  return Place(rest / params.kv_heads, rest % params.kv_heads, tile, column, split);
}

// Keys of an item of the batch.
fn length_of(batch: u32) -> u32 {
  if (params.lengths_kind == 0u) { return params.keys; }
  let given = lengths[params.lengths_offset + batch * params.lengths_stride];
  if (params.lengths_kind == 1u && bitcast<i32>(given) < 0) { return 0u; }
  return min(given, params.keys);
}
// Keys that a query sees, of `length`.
fn limit_of(query: u32, length: u32) -> u32 {
  let aligned = max(i32(query + 1u + length) - i32(params.queries), 0);
  return select(length, min(u32(aligned), length), params.causal != 0u);
}

fn mask_start(p: Place, row: u32) -> u32 {
  let head = p.kv_head * (params.rows / params.queries) + row / params.queries;
  return params.mask_offset + p.batch * params.mask_batch + head * params.mask_head +
         row % params.queries * params.mask_row;
}
fn masked(score: f32, at: u32) -> f32 {
  let word = mask[at >> params.mask_shift];
  let halves = unpack2x16float(word);
  let seen = ((word >> ((at & 3u) * 8u)) & 0xffu) != 0u;
  var value = select(bitcast<f32>(word), select(halves.x, halves.y, (at & 1u) != 0u), params.mask_kind == 3u);
  value = select(value, select(params.minus_infinity, 0.0, seen), params.mask_kind == 1u);
  return select(score + value, value, is_unseen(value));
}

// cap * tanh(score / cap), by an exponential that can't overflow.
fn capped(score: f32) -> f32 {
  let t = exp(-2.0 * min(abs(score) / params.softcap, 20.0));
  let value = params.softcap * (1.0 - t) / (1.0 + t);
  return select(select(value, -value, score < 0.0), score, is_nan(score));
}

// Some devices clamp the argument of exp and never give 0.
fn exp_1(x: f32) -> f32 { return select(exp(x), 0.0, x < -87.0); }
fn exp_4(x: vec4<f32>) -> vec4<f32> { return select(exp(x), vec4<f32>(), x < vec4<f32>(-87.0)); }

fn q_start(p: Place, row: u32) -> u32 {
  let head = p.kv_head * (params.rows / params.queries) + row / params.queries;
  return params.q_offset + p.batch * params.q_batch + head * params.q_head + row % params.queries * params.q_row;
}
// Of all rows of all kv heads.
fn flat_row(p: Place, row: u32) -> u32 { return (p.batch * params.kv_heads + p.kv_head) * params.rows + row; }
