// The maximum of a row and the sum of exp(x - maximum); see RowOp. The text behind this defines the results.
// NaN, infinities: known by their bits, as compilers may assume there are none. A row whose maximum is not finite (a NaN,
// an infinity, or -infinity throughout) is NaN throughout.
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
// Constant expressions may not make these; params.rows is below 2^31.
fn minus_infinity() -> f32 { return bitcast<f32>(0xff800000u | (params.rows >> 31u)); }
fn not_a_number() -> f32 { return bitcast<f32>(0x7fc00000u | params.rows); }

fn none() -> f32 { return minus_infinity(); }
fn larger(a: f32, x: f32) -> f32 { return select(select(a, x, is_nan(x) || x > a), a, is_nan(a)); }
fn first(a: f32, x: f32) -> f32 { return larger(a, x); }
// One look at the largest bits for all four: max may drop a NaN.
fn first_4(x: vec4<f32>) -> f32 {
  let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
  let high = max(max(bits.x, bits.y), max(bits.z, bits.w));
  return select(max(max(x.x, x.y), max(x.z, x.w)), bitcast<f32>(high), high > 0x7f800000u);
}
fn first_all(a: f32, b: f32) -> f32 { return larger(a, b); }
fn first_of(a: f32, count: f32) -> f32 { return a; }
fn merge_first(a: f32, piece: f32, count: f32) -> f32 { return larger(a, piece); }

// exp(-104) is under half of the smallest denormal; some devices clamp the argument of exp and never give 0.
fn second(x: f32, m: f32) -> f32 { return select(exp(x - m), 0.0, x - m < -104.0); }
fn shares(x: V, m: f32) -> V {
  let d = x - m;
  return select(exp(d), V(), d < V(-104.0));
}
fn merge_second(s: f32, piece: vec2<f32>, count: f32, m: f32) -> f32 {
  if (is_finite(piece.x)) {
    return s + piece.y * second(piece.x, m);
  }
  return s;
}
