// Passes of Fourier transforms after Stockham: each reads n / R points apart and writes in the order of the next pass, so
// that nothing is ever put in order by itself. Pass with s points transformed before it, radix R, column j < n / R, and
// k = j % s: y[(j - k) R + k + m s] = sum over i < R of x[j + i n / R] w(s R)^(i k) w(R)^(i m).
//
// The text in front of this (fft.cpp) defines IN and OUT (vec2f, or f32 of real numbers), widened and narrowed between
// them and vec2f, and PLAIN: there are no flags, and all points are read and written.
struct Params {
  points: u32,      // of the signal: those behind it are zeros
  rows: u32,
  steps: u32,       // log2 n in the low byte, log2 s in the next, then the flags below
  scale: f32,
  kept_inner: u32,  // rows along the inner kept axis
  in_offset: u32,   // all in units of IN and OUT; strides wrap: a negative one is its two's complement
  in_stride0: u32,
  in_stride1: u32,
  in_stride: u32,
  in_length: u32,   // points that the input has
  out_offset: u32,
  out_stride0: u32,
  out_stride1: u32,
  out_stride: u32,
  out_length: u32,  // points that are written
}
const SWAP_IN = 0x10000u;      // The inverse transform is the transform with the parts swapped, before and after.
const SWAP_SUMS = 0x20000u;
const SWAP_OUT = 0x40000u;
const CHIRP_IN = 0x80000u;     // multiply the input by factors_in
const FACTORS_OUT = 0x100000u; // ... the sums by factors_out
const HERMITIAN = 0x200000u;   // the input has the first half of the points, the others are their conjugates

@group(0) @binding(0) var<storage, read> x: array<IN>;
@group(0) @binding(1) var<storage, read_write> out: array<OUT>;
@group(0) @binding(2) var<storage, read> roots: array<vec2f>;
@group(0) @binding(3) var<storage, read> factors_in: array<vec2f>;
@group(0) @binding(4) var<storage, read> factors_out: array<vec2f>;

fn log_n() -> u32 { return params.steps & 0xffu; }
fn log_s() -> u32 { return (params.steps >> 8u) & 0xffu; }
fn has(flag: u32) -> bool { return (params.steps & flag) != 0u; }

fn product(a: vec2f, b: vec2f) -> vec2f { return vec2f(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

// exp(-2 pi i t / n), t < n.
fn root(t: u32) -> vec2f {
  if (log_n() <= 12u) {
    return roots[2048u + t];
  }
  return product(roots[2048u + (t & 4095u)], roots[2048u + 4096u + (t >> 12u)]);
}

fn in_place(row: u32) -> u32 {
  return params.in_offset + row / params.kept_inner * params.in_stride0 + row % params.kept_inner * params.in_stride1;
}

fn out_place(row: u32) -> u32 {
  return params.out_offset + row / params.kept_inner * params.out_stride0 +
         row % params.kept_inner * params.out_stride1;
}

fn read_in(place: u32, i: u32) -> vec2f {
  if (PLAIN) {
    return widened(x[place + i * params.in_stride]);
  }
  // By selection: a branch for each of eight points of a butterfly takes CPU adapters' compilers seconds.
  let mirrored = has(HERMITIAN) && i > params.points / 2u;
  let at = select(i, params.points - i, mirrored);
  let there = i < params.points && at < params.in_length;
  var v = select(vec2f(), widened(x[place + select(0u, at * params.in_stride, there)]), there);
  // Point 0, and the middle one, are their own conjugates.
  let own = has(HERMITIAN) && (i == 0u || 2u * i == params.points);
  v.y = select(select(v.y, -v.y, mirrored), 0.0, own);
  v = select(v, v.yx, has(SWAP_IN));
  if (has(CHIRP_IN)) {
    v = product(v, factors_in[min(i, params.points - 1u)]);
  }
  return v;
}

fn write_out(place: u32, k: u32, sum: vec2f) {
  if (PLAIN) {
    out[place + k * params.out_stride] = narrowed(sum * params.scale);
    return;
  }
  if (k >= params.out_length) {
    return;
  }
  var v = select(sum, sum.yx, has(SWAP_SUMS));
  if (has(FACTORS_OUT)) {
    v = product(v, factors_out[k]);
  }
  v *= params.scale;
  out[place + k * params.out_stride] = narrowed(select(v, v.yx, has(SWAP_OUT)));
}

struct Four { a: vec2f, b: vec2f, c: vec2f, d: vec2f }
fn transform4(a: vec2f, b: vec2f, c: vec2f, d: vec2f) -> Four {
  let s = a + c;
  let t = a - c;
  let u = b + d;
  let v = (b - d).yx * vec2f(1.0, -1.0);  // times -i
  return Four(s + u, t + v, s - u, t - v);
}

struct Eight { low: Four, high: Four }
fn transform8(a: vec2f, b: vec2f, c: vec2f, d: vec2f, e: vec2f, f: vec2f, g: vec2f, h: vec2f) -> Eight {
  let even = transform4(a, c, e, g);
  let odd = transform4(b, d, f, h);
  let o1 = vec2f(odd.b.x + odd.b.y, odd.b.y - odd.b.x) * 0.70710678118654752;
  let o2 = vec2f(odd.c.y, -odd.c.x);
  let o3 = vec2f(odd.d.y - odd.d.x, -odd.d.x - odd.d.y) * 0.70710678118654752;
  return Eight(Four(even.a + odd.a, even.b + o1, even.c + o2, even.d + o3),
               Four(even.a - odd.a, even.b - o1, even.c - o2, even.d - o3));
}
