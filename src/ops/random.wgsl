// Philox4x32-10 (Salmon, Moraes, Dror and Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The text in front
// of this (random.cpp) defines OUT, the quads of `out`, and the functions of element_math that are called here.
//
// A thread makes block `counter + t` of four numbers, which are elements 4 t to 4 t + 3. The counter's words: the block's
// number in 64 bits, the attempt (0, but where integers are rejected), 0. The key is the seed.
struct Params {
  quads: u32,
  zero: u32,
  counter_low: u32,
  counter_high: u32,
  key_low: u32,
  key_high: u32,
  range: u32,      // integers: how many there are, 0 for 2^32; and how many low products make a bias
  threshold: u32,
  low: u32,        // integers: the first
  origin: f32,     // uniform: low, high - low, and the last number under high; normal: mean, deviation
  scale: f32,
  below: f32,
}
@group(0) @binding(0) var<storage, read_write> out: array<OUT>;

// The high word of a * b, in halves: WGSL has no product of 64 bits.
fn high_product(a: vec4u, b: u32) -> vec4u {
  let low = a & vec4u(0xffffu);
  let high = a >> vec4u(16u);
  let b_low = b & 0xffffu;
  let b_high = b >> 16u;
  let middle = high * b_low + ((low * b_low) >> vec4u(16u));
  let other = low * b_high + (middle & vec4u(0xffffu));
  return high * b_high + (middle >> vec4u(16u)) + (other >> vec4u(16u));
}

fn philox(block: vec4u, seed: vec2u) -> vec4u {
  var c = block;
  var k = seed;
  for (var round = 0u; round < 10u; round++) {
    // Both products at once: words 0 and 2 by their multipliers.
    let a = c.xz & vec2u(0xffffu);
    let b = c.xz >> vec2u(16u);
    let m = vec2u(0xd2511f53u, 0xcd9e8d57u);
    let m_low = m & vec2u(0xffffu);
    let m_high = m >> vec2u(16u);
    let middle = b * m_low + ((a * m_low) >> vec2u(16u));
    let other = a * m_high + (middle & vec2u(0xffffu));
    let high = b * m_high + (middle >> vec2u(16u)) + (other >> vec2u(16u));
    let low = c.xz * m;
    c = vec4u(high.y ^ c.y ^ k.x, low.y, high.x ^ c.w ^ k.y, low.x);
    k += vec2u(0x9e3779b9u, 0xbb67ae85u);
  }
  return c;
}

fn numbers(t: u32, attempt: u32) -> vec4u {
  let low = params.counter_low + t;
  let high = params.counter_high + select(0u, 1u, low < t);
  return philox(vec4u(low, high, attempt, 0u), vec2u(params.key_low, params.key_high));
}

@compute @workgroup_size(128) fn bits(@builtin(global_invocation_id) id: vec3u) {
  let t = linear_index(id);
  if (t >= params.quads) { return; }
  out[t] = OUT(numbers(t, 0u));
}

@compute @workgroup_size(128) fn uniform(@builtin(global_invocation_id) id: vec3u) {
  let t = linear_index(id);
  if (t >= params.quads) { return; }
  let u = vec4f(numbers(t, 0u) >> vec4u(32u - BITS)) * (1.0 / f32(1u << BITS));
  // The product is rounded before the sum on every device, so that all give the same bits.
  let v = narrowed(rounded(u * params.scale) + params.origin);
  out[t] = OUT(min(v, vec4f(params.below)));
}

// Box and Muller, "A note on the generation of random normal deviates", 1958. A number in (0, 1] gives the length, one in
// [0, 1) the angle; the turn is split into quarters before it is rounded.
@compute @workgroup_size(128) fn normal(@builtin(global_invocation_id) id: vec3u) {
  let t = linear_index(id);
  if (t >= params.quads) { return; }
  let n = numbers(t, 0u);
  let length = sqrt(max(f_log((vec4f(n.xxzz) + 1.0) * 2.3283064365386963e-10) * -2.0, vec4f(0.0)));
  let turn = vec4f(n.yyww >> vec4u(8u)) * 2.384185791015625e-7;
  let quarter = round(turn);
  // cos, sin, cos, sin: sine one quarter on is cosine.
  let wave = sin_quarter((turn - quarter) * 1.57079633, vec4i(quarter) + vec4i(1, 0, 1, 0));
  out[t] = OUT(narrowed(rounded(length * wave * params.scale) + params.origin));
}

// Lemire, "Fast random integer generation in an interval", 2019: the high word of n * range, unless the low one is among
// the few that would come up once too often. Then the same block at the next attempt. An attempt fails for less than a
// half of all numbers; after 256 the last one is taken.
@compute @workgroup_size(128) fn integers(@builtin(global_invocation_id) id: vec3u) {
  let t = linear_index(id);
  if (t >= params.quads) { return; }
  var n = numbers(t, 0u);
  if (params.range != 0u) {
    for (var attempt = 1u; attempt < 256u; attempt++) {
      let again = (n * params.range) < vec4u(params.threshold);
      if (!any(again)) { break; }
      n = select(n, numbers(t, attempt), again);
    }
    n = high_product(n, params.range);
  }
  out[t] = OUT(n + vec4u(params.low));
}
