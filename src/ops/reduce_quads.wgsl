// A thread's share in quads, for the kernels of GPUs: four reads are under way before the first is used. Past the end they
// read the first one's again. Otherwise as reduce_each.wgsl.
const BLOCK = 8u;

fn accumulate(k: u32, begin: u32, end: u32, lane: u32, lanes: u32) -> Acc {
  let base = kept_place(k);
  let whole = end - (end - begin) % 4u;
  let step = lanes * 4u;
  var total = identity();
  var r = begin + lane * 4u;
  while (r < whole) {
    var a = identity();
    var b = identity();
    var c = identity();
    var d = identity();
    for (var i = 0u; i < BLOCK && r < whole; i++) {
      let r1 = r + step;
      let r2 = r1 + step;
      let r3 = r2 + step;
      let q0 = quad((base + reduced_place(r)) / 4u);
      let q1 = quad((base + reduced_place(select(r, r1, r1 < whole))) / 4u);
      let q2 = quad((base + reduced_place(select(r, r2, r2 < whole))) / 4u);
      let q3 = quad((base + reduced_place(select(r, r3, r3 < whole))) / 4u);
      a = combine(a, lift(q0.x, r));
      b = combine(b, lift(q0.y, r + 1u));
      c = combine(c, lift(q0.z, r + 2u));
      d = combine(d, lift(q0.w, r + 3u));
      if (r1 < whole) {
        a = combine(a, lift(q1.x, r1));
        b = combine(b, lift(q1.y, r1 + 1u));
        c = combine(c, lift(q1.z, r1 + 2u));
        d = combine(d, lift(q1.w, r1 + 3u));
      }
      if (r2 < whole) {
        a = combine(a, lift(q2.x, r2));
        b = combine(b, lift(q2.y, r2 + 1u));
        c = combine(c, lift(q2.z, r2 + 2u));
        d = combine(d, lift(q2.w, r2 + 3u));
      }
      if (r3 < whole) {
        a = combine(a, lift(q3.x, r3));
        b = combine(b, lift(q3.y, r3 + 1u));
        c = combine(c, lift(q3.z, r3 + 2u));
        d = combine(d, lift(q3.w, r3 + 3u));
      }
      r += 4u * step;
    }
    total = combine(total, combine(combine(a, b), combine(c, d)));
  }
  if (lane == 0u) {
    for (r = whole; r < end; r++) {
      total = combine(total, lift(element(base + reduced_place(r)), r));
    }
  }
  return total;
}
