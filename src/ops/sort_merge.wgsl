// The later stages of a sort: neighbouring runs of a row become one, of which the first params.keep elements stay. In
// front of this text stand Params, the keys and places of the runs, spot_of(row, run), and put(spot, j, key, at): the
// j-th element of a run's order, which stands at `at` among the places.
//
// Equal keys of the first run come first, so the order stays that of the places.

struct Runs {
  base: u32,      // where the first run starts
  first: u32,     // its length
  second: u32,    // of the other
  kept: u32,      // of both together
}

fn pairs_of_row() -> u32 {
  return (params.length + 2u * params.run - 1u) / (2u * params.run);
}

fn runs_of(row: u32, pair: u32) -> Runs {
  let start = pair * 2u * params.run;
  let first = min(params.run, params.length - start);
  let second = min(params.run, params.length - start - first);
  return Runs(row * params.length + start, first, second, min(params.keep, first + second));
}

// How many of the first `count` elements of both come from the first run.
fn share(r: Runs, count: u32) -> u32 {
  var low = select(0u, count - r.second, count > r.second);
  var high = min(count, r.first);
  while (low < high) {
    let middle = (low + high) / 2u;
    if (keys[r.base + middle] <= keys[r.base + r.first + count - 1u - middle]) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low;
}

// A thread for params.chunk elements.
@compute @workgroup_size(64)
fn by_thread(@builtin(global_invocation_id) id: vec3<u32>) {
  let t = linear_index(id);
  let chunks = (params.keep + params.chunk - 1u) / params.chunk;
  let pairs = pairs_of_row();
  let row = t / (pairs * chunks);
  if (row >= params.rows) {
    return;
  }
  let pair = t / chunks - row * pairs;
  let r = runs_of(row, pair);
  let start = t % chunks * params.chunk;
  if (start >= r.kept) {
    return;
  }
  let stop = min(start + params.chunk, r.kept);
  let from_first = share(r, start);
  let end_a = r.base + r.first;
  let end_b = end_a + r.second;
  var a = r.base + from_first;
  var b = end_a + (start - from_first);
  var key_a = keys[min(a, end_b - 1u)];
  var key_b = keys[min(b, end_b - 1u)];
  let spot = spot_of(row, pair);
  for (var j = start; j < stop; j++) {
    let take_a = b >= end_b || (a < end_a && key_a <= key_b);
    let at = select(b, a, take_a);
    put(spot, j, select(key_b, key_a, take_a), at);
    let key = keys[min(at + 1u, end_b - 1u)];
    a = select(a, at + 1u, take_a);
    b = select(at + 1u, b, take_a);
    key_a = select(key_a, key, take_a);
    key_b = select(key, key_b, take_a);
  }
}

const TILE = 2048u;
const THREADS = 256u;
const EACH = 8u;
var<workgroup> tile: array<u32, TILE>;
var<workgroup> cuts: array<u32, 2>;

// A workgroup for TILE elements, whose keys it holds.
@compute @workgroup_size(256)
fn by_group(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let t = group_id.x + group_id.y * 32768u;
  let chunks = (params.keep + TILE - 1u) / TILE;
  let pairs = pairs_of_row();
  let row = t / (pairs * chunks);
  if (row >= params.rows) {
    return;
  }
  let pair = t / chunks - row * pairs;
  let r = runs_of(row, pair);
  let start = t % chunks * TILE;
  if (start >= r.kept) {
    return;
  }
  let stop = min(start + TILE, r.kept);
  if (lane < 2u) {
    cuts[lane] = share(r, select(start, stop, lane == 1u));
  }
  workgroupBarrier();
  // The tile: `na` elements of the first run from a0, then those of the other from b0.
  let na = cuts[1] - cuts[0];
  let a0 = r.base + cuts[0];
  let b0 = r.base + r.first + (start - cuts[0]);
  let n = stop - start;
  for (var i = lane; i < n; i += THREADS) {
    tile[i] = keys[select(b0 + i - na, a0 + i, i < na)];
  }
  workgroupBarrier();
  let begin = min(lane * EACH, n);
  let end = min(begin + EACH, n);
  var low = select(0u, begin - (n - na), begin > n - na);
  var high = min(begin, na);
  while (low < high) {
    let middle = (low + high) / 2u;
    if (tile[middle] <= tile[na + begin - 1u - middle]) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  var a = low;
  var b = na + begin - low;
  let spot = spot_of(row, pair);
  for (var j = begin; j < end; j++) {
    let key_a = tile[min(a, n - 1u)];
    let key_b = tile[min(b, n - 1u)];
    let take_a = b >= n || (a < na && key_a <= key_b);
    put(spot, start + j, select(key_b, key_a, take_a), select(b0 + b - na, a0 + a, take_a));
    a += select(0u, 1u, take_a);
    b += select(1u, 0u, take_a);
  }
}
