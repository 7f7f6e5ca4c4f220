// A thread's share, for operations that take in sixteen elements at little more than the cost of one: `block` gives the
// accumulator of those whose weight is 1 (others are copies of one of them). See reduce.wgsl. Each element is read once.
fn at_of(base: u32, r: u32, end: u32, safe: u32) -> u32 { return base + reduced_place(select(safe, r, r < end)); }

fn accumulate(k: u32, begin: u32, end: u32, lane: u32, lanes: u32) -> Acc {
  let base = kept_place(k);
  var total = identity();
  let origin = number(element(base + reduced_place(0u)));
  if (QUADS) {
    let whole = end - (end - begin) % 4u;
    let step = lanes * 4u;
    for (var r = begin + lane * 4u; r < whole; r += 4u * step) {
      let r1 = r + step;
      let r2 = r1 + step;
      let r3 = r2 + step;
      let q0 = numbers(quad(at_of(base, r, whole, r) / 4u));
      let q1 = numbers(quad(at_of(base, r1, whole, r) / 4u));
      let q2 = numbers(quad(at_of(base, r2, whole, r) / 4u));
      let q3 = numbers(quad(at_of(base, r3, whole, r) / 4u));
      let w = select(vec4<f32>(), vec4<f32>(1.0), vec4<u32>(r, r1, r2, r3) < vec4<u32>(whole));
      total = combine(total, block(q0, q1, q2, q3, vec4<f32>(w.x), vec4<f32>(w.y), vec4<f32>(w.z), vec4<f32>(w.w),
                                   origin));
    }
    if (lane == 0u) {
      for (var r = whole; r < end; r++) {
        total = combine(total, lift(element(base + reduced_place(r)), r));
      }
    }
    return total;
  }
  for (var r = begin + lane; r < end; r += 16u * lanes) {
    var q: array<vec4<f32>, 4>;
    var w: array<vec4<f32>, 4>;
    for (var i = 0u; i < 4u; i++) {
      let first = r + 4u * i * lanes;
      let rs = vec4<u32>(first, first + lanes, first + 2u * lanes, first + 3u * lanes);
      q[i] = vec4<f32>(number(element(at_of(base, rs.x, end, r))), number(element(at_of(base, rs.y, end, r))),
                       number(element(at_of(base, rs.z, end, r))), number(element(at_of(base, rs.w, end, r))));
      w[i] = select(vec4<f32>(), vec4<f32>(1.0), rs < vec4<u32>(end));
    }
    total = combine(total, block(q[0], q[1], q[2], q[3], w[0], w[1], w[2], w[3], origin));
  }
  return total;
}
