// Reductions. The text in front of this (reduce.cpp) defines, for one operation and one element type:
//   Acc, the accumulator; element(i) and quad(i), which read x; lift(value, r), combine(a, b), identity(); finish(acc),
// what `out` holds: a result, or an accumulator for the next pass; two_reduced(); and the constants QUADS, SPLITS_FAST,
// GROUP, ROW_THREADS. The texts behind it define accumulate(k, begin, end, lane, lanes), a thread's share of output k, and
// by_group.
//
// Output k, split s and reduced index r: a split covers `chunk` indices; its `lanes` threads take them in turns, so that
// neighbours read neighbours.
struct Params {
  offset: u32,        // of element (0, 0) in x
  outputs: u32,
  reduced: u32,
  kept_inner: u32,    // length of the inner kept axis
  kept_stride0: u32,  // strides wrap: a negative one is its two's complement
  kept_stride1: u32,
  reduced_inner: u32,
  reduced_stride0: u32,
  reduced_stride1: u32,
  splits: u32,
  chunk: u32,
  lanes: u32,
  first_index: u32,  // of r = 0 in the whole array, for argmax
  identity: u32,     // its bits: source text can't spell an infinity
  out_offset: u32,
  number: f32,       // elements behind one output (mean), count - ddof (variance), the order (norm)
}

fn kept_place(k: u32) -> u32 {
  return params.offset + k / params.kept_inner * params.kept_stride0 + k % params.kept_inner * params.kept_stride1;
}

fn reduced_place(r: u32) -> u32 {
  if (two_reduced()) {
    return r / params.reduced_inner * params.reduced_stride0 + r % params.reduced_inner * params.reduced_stride1;
  }
  return r * params.reduced_stride1;
}

// Groups are folded at 32768 (rows.h).
fn flat(id: vec3<u32>) -> u32 { return id.x + id.y * (32768u * 64u); }

// A thread for each output and split: of short rows, of columns, and on devices where barriers are dear.
@compute @workgroup_size(64)
fn by_thread(@builtin(global_invocation_id) id: vec3<u32>) {
  let t = flat(id);
  if (t >= params.outputs * params.splits) {
    return;
  }
  var k = t / params.splits;
  var s = t % params.splits;
  if (!SPLITS_FAST) {
    k = t % params.outputs;
    s = t / params.outputs;
  }
  let begin = s / params.lanes * params.chunk;
  let end = min(begin + params.chunk, params.reduced);
  let total = accumulate(k, min(begin, end), end, s % params.lanes, params.lanes);
  out[params.out_offset + k * params.splits + s] = finish(total);
}

// A thread's share of the output and split t, of ROW_THREADS; none past the last.
fn is_output(t: u32) -> bool { return t < params.outputs * params.splits; }
fn share_of_group(t: u32, lane: u32) -> Acc {
  let begin = min(t % params.splits * params.chunk, params.reduced);
  let end = select(begin, min(begin + params.chunk, params.reduced), is_output(t));
  return accumulate(min(t / params.splits, params.outputs - 1u), begin, end, lane, ROW_THREADS);
}
