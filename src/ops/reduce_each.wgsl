// A thread's share, for operations whose accumulators take in one element at little cost; see reduce.wgsl.
// Four accumulators take turns, and their sums go into a total after BLOCK rounds: rounding errors of a long sum stay
// those of two short ones.
const BLOCK = 32u;

fn accumulate(k: u32, begin: u32, end: u32, lane: u32, lanes: u32) -> Acc {
  let base = kept_place(k);
  var total = identity();
  if (QUADS) {
    let whole = end - (end - begin) % 4u;
    let step = lanes * 4u;
    var r = begin + lane * 4u;
    while (r < whole) {
      var a = identity();
      var b = identity();
      var c = identity();
      var d = identity();
      for (var i = 0u; i < BLOCK && r < whole; i++) {
        let q = quad((base + reduced_place(r)) / 4u);
        a = combine(a, lift(q.x, r));
        b = combine(b, lift(q.y, r + 1u));
        c = combine(c, lift(q.z, r + 2u));
        d = combine(d, lift(q.w, r + 3u));
        r += step;
      }
      total = combine(total, combine(combine(a, b), combine(c, d)));
    }
    if (lane == 0u) {
      for (r = whole; r < end; r++) {
        total = combine(total, lift(element(base + reduced_place(r)), r));
      }
    }
  } else {
    let step = lanes * 4u;
    var r = begin + lane;
    while (r + 3u * lanes < end) {
      var a = identity();
      var b = identity();
      var c = identity();
      var d = identity();
      for (var i = 0u; i < BLOCK && r + 3u * lanes < end; i++) {
        let r1 = r + lanes;
        let r2 = r1 + lanes;
        let r3 = r2 + lanes;
        a = combine(a, lift(element(base + reduced_place(r)), r));
        b = combine(b, lift(element(base + reduced_place(r1)), r1));
        c = combine(c, lift(element(base + reduced_place(r2)), r2));
        d = combine(d, lift(element(base + reduced_place(r3)), r3));
        r += step;
      }
      total = combine(total, combine(combine(a, b), combine(c, d)));
    }
    for (; r < end; r += lanes) {
      total = combine(total, lift(element(base + reduced_place(r)), r));
    }
  }
  return total;
}
