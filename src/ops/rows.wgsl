// Row ops. The text in front of this (rows.cpp, and a RowOp's own) defines V (f32, or vec4<f32> where rows can be read
// four at a time), UNIT (its elements), GROUP, ONE_STATISTIC (there is no first one), FROM_FIRST, two_kept(), the bindings x, out, pieces, pieces_out,
// read_x, write_out, and what the op computes.
struct Params {
  offset: u32,
  rows: u32,
  length: u32,
  kept_inner: u32,    // rows along the inner kept axis
  kept_stride0: u32,  // strides wrap: a negative one is its two's complement
  kept_stride1: u32,
  stride: u32,
  out_offset: u32,
  out_stride0: u32,
  out_stride1: u32,
  out_stride: u32,
  splits: u32,  // pieces of a row
  chunk: u32,   // elements of a piece
  eps: f32,
  weight_offset: u32,
  bias_offset: u32,
}

fn x_place(row: u32) -> u32 {
  if (two_kept()) {
    return params.offset + row / params.kept_inner * params.kept_stride0 + row % params.kept_inner * params.kept_stride1;
  }
  return params.offset + row * params.kept_stride1;
}

fn out_place(row: u32) -> u32 {
  if (two_kept()) {
    return params.out_offset + row / params.kept_inner * params.out_stride0 +
           row % params.kept_inner * params.out_stride1;
  }
  return params.out_offset + row * params.out_stride1;
}

// Where elements count from the row's first one (FROM_FIRST; else these do nothing): origin_at is that one, and once the first
// statistic m is known, elements count from centre, origin + m as near as a float comes, and rest is what that lacks of m.
fn origin_at(at: u32) -> f32 {
  if (FROM_FIRST) {
    return lead(read_x(at));
  }
  return 0.0;
}

fn moved(origin: f32, x: V) -> V {
  if (FROM_FIRST) {
    return x - origin;
  }
  return x;
}

// The sum goes by its bits (splits is below 2^31): some drivers take (origin - (origin + m)) + m for 0.
fn centre(origin: f32, m: f32) -> f32 {
  return select(0.0, bitcast<f32>(bitcast<u32>(origin + m) ^ (params.splits >> 31u)), FROM_FIRST);
}
fn rest(origin: f32, c: f32, m: f32) -> f32 { return select(m, (origin - c) + m, FROM_FIRST); }

// First and second statistic of a row's elements begin .. end - 1. Sums are blocked, so that rounding errors of long rows
// stay those of short ones.
const BLOCK = 32u;

fn stats(row: u32, begin: u32, end: u32) -> vec2<f32> {
  let at = x_place(row);
  let origin = origin_at(at);
  var m = 0.0;
  var r = begin;
  if (!ONE_STATISTIC) {
    var a = none();
    while (r < end) {
      var block = none();
      for (var i = 0u; i < BLOCK && r < end; i++) {
        block = first_v(block, moved(origin, read_x(at + r * params.stride)));
        r += UNIT;
      }
      a = first_all(a, block);
    }
    m = first_of(a, f32(end - begin));
  }
  var s = 0.0;
  let c = centre(origin, m);
  let m_rest = rest(origin, c, m);
  r = begin;
  while (r < end) {
    var block = 0.0;
    for (var i = 0u; i < BLOCK && r < end; i++) {
      block += second_v(moved(c, read_x(at + r * params.stride)), m_rest);
      r += UNIT;
    }
    s += block;
  }
  return vec2<f32>(m, s);
}

fn write_row(row: u32, begin: u32, end: u32, step: u32, found: vec2<f32>) {
  let at = x_place(row);
  let origin = origin_at(at);
  let c = centre(origin, found.x);
  let m_rest = rest(origin, c, found.x);
  let out_at = out_place(row);
  for (var r = begin; r < end; r += step) {
    write_out(out_at + r * params.out_stride, result(moved(c, read_x(at + r * params.stride)), m_rest, found.y, r));
  }
}

// Groups are folded at 32768 (rows.h).
fn flat(id: vec3<u32>) -> u32 { return id.x + id.y * (32768u * GROUP); }

@compute @workgroup_size(GROUP)
fn by_thread(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = flat(id);
  if (row < params.rows) {
    write_row(row, 0u, params.length, UNIT, stats(row, 0u, params.length));
  }
}

// Pieces of a row stand side by side in `pieces`, whoever computes them.
fn piece_stats(row: u32, piece: u32) {
  let begin = piece * params.chunk;
  pieces_out[row * params.splits + piece] = stats(row, begin, min(begin + params.chunk, params.length));
}

@compute @workgroup_size(GROUP)
fn stats_by_row(@builtin(global_invocation_id) id: vec3<u32>) {
  let t = flat(id);
  if (t < params.rows * params.splits) {
    piece_stats(t / params.splits, t % params.splits);
  }
}

@compute @workgroup_size(GROUP)
fn stats_by_column(@builtin(global_invocation_id) id: vec3<u32>) {
  let t = flat(id);
  if (t < params.rows * params.splits) {
    piece_stats(t % params.rows, t / params.rows);
  }
}

fn piece_count(piece: u32) -> f32 {
  let begin = piece * params.chunk;
  return f32(min(begin + params.chunk, params.length) - begin);
}

@compute @workgroup_size(GROUP)
fn merge(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = flat(id);
  if (row >= params.rows) {
    return;
  }
  let at = row * params.splits;
  var m = 0.0;
  if (!ONE_STATISTIC) {
    // Where elements may count from anywhere, from near the statistic: the row's first element may be far from all others.
    let origin = select(0.0, pieces[at].x, FROM_FIRST);
    var a = none();
    for (var i = 0u; i < params.splits; i++) {
      a = merge_first(a, pieces[at + i].x - origin, piece_count(i));
    }
    m = origin + first_of(a, f32(params.length));
  }
  var s = 0.0;
  for (var i = 0u; i < params.splits; i++) {
    let piece = pieces[at + i];
    s = merge_second(s, piece, piece_count(i), m);
  }
  pieces_out[row] = vec2<f32>(m, s);
}

@compute @workgroup_size(GROUP)
fn write_by_group(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let t = group.x + group.y * 32768u;
  if (t < params.rows * params.splits) {
    let row = t / params.splits;
    let begin = t % params.splits * params.chunk;
    write_row(row, begin + lane * UNIT, min(begin + params.chunk, params.length), GROUP * UNIT, pieces[row]);
  }
}

@compute @workgroup_size(GROUP)
fn write_by_column(@builtin(global_invocation_id) id: vec3<u32>) {
  let t = flat(id);
  if (t < params.rows * params.splits) {
    let row = t % params.rows;
    let begin = t / params.rows * params.chunk;
    write_row(row, begin, min(begin + params.chunk, params.length), UNIT, pieces[row]);
  }
}
