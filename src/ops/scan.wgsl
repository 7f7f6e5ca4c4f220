// Running sums (products, maxima, minima) along rows. The text in front of this (scan.cpp) defines, for one operation and
// one pair of element types: Acc, the accumulator; combine(a, b), a standing before b; IDENTITY, bits; V, UNIT elements of
// a row in accumulators; load(i), store(i, v); GROUP; the bindings x, out, prefix and sums; before_chunk(i), the prefix if
// there is one; held_scan and held_sum, of kScanHeld elements a thread.
//
// A row is cut into chunks. Their sums are scanned by these same kernels, and what stands before a chunk comes back as its
// `prefix`. No workgroup waits for another: WebGPU does not promise that all make progress.
struct Params {
  offset: u32,        // of element (0, 0) in x
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
  splits: u32,        // chunks of a row in this dispatch
  chunk: u32,         // elements of a chunk, a multiple of 4
  flags: u32,         // 1: an element is not in its own sum; 2: neighbouring threads take neighbouring rows; 4: the
                      // identity with the other sign
  first_split: u32,   // the number of the row's first chunk here, and of chunks in all
  all_splits: u32,
}

// The source can't spell an infinity; so the bits pass through a parameter, the rest of which is 0.
fn identity() -> Acc {
  return bitcast<Acc>(IDENTITY ^ (params.flags & 0xfffffff8u) ^ ((params.flags & 4u) << 29u));
}

fn x_place(row: u32) -> u32 {
  return params.offset + row / params.kept_inner * params.kept_stride0 + row % params.kept_inner * params.kept_stride1;
}

fn out_place(row: u32) -> u32 {
  return params.out_offset + row / params.kept_inner * params.out_stride0 +
         row % params.kept_inner * params.out_stride1;
}

// Where the sum of a chunk stands among those of all rows.
fn chunk_place(row: u32, split: u32) -> u32 { return row * params.all_splits + params.first_split + split; }

// Sums go into a total after so many elements: rounding errors of a long chunk stay those of two short ones.
const BLOCK = 32u;

// Groups are folded at 32768 (rows.h).
fn flat(id: vec3<u32>) -> u32 { return id.x + id.y * (32768u * GROUP); }

// Row and chunk of thread t.
fn part_of(t: u32) -> vec2<u32> {
  if ((params.flags & 2u) != 0u) {
    return vec2<u32>(t % params.rows, t / params.rows);
  }
  return vec2<u32>(t / params.splits, t % params.splits);
}

@compute @workgroup_size(GROUP)
fn sums_by_thread(@builtin(global_invocation_id) id: vec3<u32>) {
  let t = flat(id);
  if (t >= params.rows * params.splits) {
    return;
  }
  let part = part_of(t);
  let at = x_place(part.x);
  let end = min((part.y + 1u) * params.chunk, params.length);
  var total = identity();
  var r = part.y * params.chunk;
  while (r < end) {
    var block = identity();
    for (var i = 0u; i < BLOCK && r < end; i += UNIT) {
      block = combine(block, last(running(load(at + r * params.stride))));
      r += UNIT;
    }
    total = combine(total, block);
  }
  sums[chunk_place(part.x, part.y)] = total;
}

@compute @workgroup_size(GROUP)
fn scan_by_thread(@builtin(global_invocation_id) id: vec3<u32>) {
  let t = flat(id);
  if (t >= params.rows * params.splits) {
    return;
  }
  let part = part_of(t);
  let at = x_place(part.x);
  let out_at = out_place(part.x);
  let exclusive = (params.flags & 1u) != 0u;
  let end = min((part.y + 1u) * params.chunk, params.length);
  var carry = before_chunk(chunk_place(part.x, part.y));
  var r = part.y * params.chunk;
  while (r < end) {
    var block = identity();
    for (var i = 0u; i < BLOCK && r < end; i += UNIT) {
      let after = joined(block, running(load(at + r * params.stride)));
      store(out_at + r * params.out_stride, joined(carry, select(after, moved(block, after), exclusive)));
      block = last(after);
      r += UNIT;
    }
    carry = combine(carry, block);
  }
}

var<workgroup> totals: array<Acc, 2u * GROUP>;

@compute @workgroup_size(GROUP)
fn sums_by_group(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let t = min(group.x + group.y * 32768u, params.rows * params.splits - 1u);
  let row = t / params.splits;
  let split = t % params.splits;
  let begin = split * params.chunk;
  totals[lane] = held_sum(lane, x_place(row), begin, min(begin + params.chunk, params.length));
  for (var half = GROUP / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      totals[lane] = combine(totals[lane], totals[lane + half]);
    }
  }
  if (lane == 0u) {
    sums[chunk_place(row, split)] = totals[0];
  }
}

// What stands before a thread's elements in its workgroup's chunk, from the sum of each thread's.
fn before_lane(lane: u32, total: Acc) -> Acc {
  var half = 0u;
  totals[lane] = total;
  for (var step = 1u; step < GROUP; step *= 2u) {
    workgroupBarrier();
    var sum = totals[half + lane];
    if (lane >= step) {
      sum = combine(totals[half + lane - step], sum);
    }
    half = GROUP - half;
    totals[half + lane] = sum;
  }
  workgroupBarrier();
  if (lane == 0u) {
    return identity();
  }
  return totals[half + lane - 1u];
}

@compute @workgroup_size(GROUP)
fn scan_by_group(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let t = min(group.x + group.y * 32768u, params.rows * params.splits - 1u);
  let row = t / params.splits;
  let split = t % params.splits;
  let begin = split * params.chunk;
  held_scan(lane, x_place(row), out_place(row), begin, min(begin + params.chunk, params.length),
            chunk_place(row, split));
}
