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
    // On GPUs, four reads are under way before the first is used; past the end they read the first one's again.
    while (FOUR_QUADS && r < whole) {
      var a = identity();
      var b = identity();
      var c = identity();
      var d = identity();
      for (var i = 0u; i < BLOCK / 4u && r < whole; i++) {
        let rs = vec4<u32>(r, r + step, r + 2u * step, r + 3u * step);
        let q0 = quad((base + reduced_place(rs.x)) / 4u);
        let q1 = quad((base + reduced_place(select(rs.x, rs.y, rs.y < whole))) / 4u);
        let q2 = quad((base + reduced_place(select(rs.x, rs.z, rs.z < whole))) / 4u);
        let q3 = quad((base + reduced_place(select(rs.x, rs.w, rs.w < whole))) / 4u);
        a = combine(a, lift(q0.x, rs.x));
        b = combine(b, lift(q0.y, rs.x + 1u));
        c = combine(c, lift(q0.z, rs.x + 2u));
        d = combine(d, lift(q0.w, rs.x + 3u));
        if (rs.y < whole) {
          a = combine(a, lift(q1.x, rs.y));
          b = combine(b, lift(q1.y, rs.y + 1u));
          c = combine(c, lift(q1.z, rs.y + 2u));
          d = combine(d, lift(q1.w, rs.y + 3u));
        }
        if (rs.z < whole) {
          a = combine(a, lift(q2.x, rs.z));
          b = combine(b, lift(q2.y, rs.z + 1u));
          c = combine(c, lift(q2.z, rs.z + 2u));
          d = combine(d, lift(q2.w, rs.z + 3u));
        }
        if (rs.w < whole) {
          a = combine(a, lift(q3.x, rs.w));
          b = combine(b, lift(q3.y, rs.w + 1u));
          c = combine(c, lift(q3.z, rs.w + 2u));
          d = combine(d, lift(q3.w, rs.w + 3u));
        }
        r += 4u * step;
      }
      total = combine(total, combine(combine(a, b), combine(c, d)));
    }
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
