#include "ops/element_math.h"

#include <algorithm>
#include <iterator>

#include "weft/error.h"

namespace weft::ops {
namespace {

constexpr MathFunction kFunctions[] = {
    // -- bits ---------------------------------------------------------------------------------------------------------
    {"mag", "", R"(
fn mag(x: vec4f) -> vec4u { return bitcast<vec4u>(x) & vec4u(0x7fffffffu); }
)"},
    {"is_nan", "mag", R"(
fn is_nan(x: vec4f) -> vec4<bool> { return mag(x) > vec4u(0x7f800000u); }
)"},
    {"with_sign", "mag", R"(
// |x| with the sign of s.
fn with_sign(x: vec4f, s: vec4f) -> vec4f {
  return bitcast<vec4f>(mag(x) | (bitcast<vec4u>(s) & vec4u(0x80000000u)));
}
)"},
    {"keep_sign", "", R"(
// x, a zero of which takes the sign of s; for roundings of s.
fn keep_sign(x: vec4f, s: vec4f) -> vec4f {
  return bitcast<vec4f>(bitcast<vec4u>(x) | (bitcast<vec4u>(s) & vec4u(0x80000000u)));
}
)"},
    {"past_denormals", "mag", R"(
// r, a rounding of x that goes by s from 0: a device may read a denormal as 0, which stays there.
fn past_denormals(r: vec4f, x: vec4f, s: f32) -> vec4f {
  let tiny = (mag(x) < vec4u(0x00800000u)) & (mag(x) != vec4u(0u));
  return select(r, vec4f(s), tiny & ((bitcast<vec4u>(x) >> vec4u(31u)) == vec4u(select(0u, 1u, s < 0.0))));
}
)"},
    {"chop", "", R"(
// The leading 12 bits: products of two such are exact.
fn chop(x: vec4f) -> vec4f { return bitcast<vec4f>(bitcast<vec4u>(x) & vec4u(0xfffff000u)); }
)"},
    {"infinity", "", R"(
fn infinity() -> vec4f { return bitcast<vec4f>(vec4u(params.zero | 0x7f800000u)); }
)",
     true},
    {"not_a_number", "", R"(
fn not_a_number() -> vec4f { return bitcast<vec4f>(vec4u(params.zero | 0x7fc00000u)); }
)",
     true},
    {"rounded", "", R"(
// x as it is. Keeps the compiler from fusing or cancelling what made it with what uses it: (a + b) - a is not b.
fn rounded(x: vec4f) -> vec4f { return bitcast<vec4f>(bitcast<vec4u>(x) ^ vec4u(params.zero)); }
)",
     true},
    {"apart", "", R"(
// x as it is, by another way than rounded(): a sum of the two can't be taken for one of x and x, or of x and -x, which
// compilers hold to be 0 also where x is infinite or NaN.
fn apart(x: vec4f) -> vec4f { return bitcast<vec4f>(bitcast<vec4u>(x) + vec4u(params.zero)); }
)",
     true},
    {"chosen", "", R"(
// The bits given where c holds, else 0: a number of a bool. Compilers may take a product with one for a choice between
// the other factor and 0, also where that factor is infinite or NaN.
fn chosen(c: vec4<bool>, one: u32) -> vec4u { return select(vec4u(0u), vec4u(one), c) ^ vec4u(params.zero); }
)",
     true},
    {"order", "", R"(
// Integers in the order of the numbers; -0 and 0 are one. NaN lies outside the infinities.
fn order(x: vec4f) -> vec4i {
  let i = bitcast<vec4i>(x);
  return select(i, -(i & vec4i(0x7fffffff)), i < vec4i(0));
}
)"},
    {"times_power_of_2", "", R"(
// x * 2^n for n in -250 .. 250; in two steps, so that 2^n itself may be out of range.
fn times_power_of_2(x: vec4f, n: vec4i) -> vec4f {
  let half = n >> vec4u(1u);
  return (x * bitcast<vec4f>((half + vec4i(127)) << vec4u(23u))) * bitcast<vec4f>((n - half + vec4i(127)) << vec4u(23u));
}
)"},
    // -- comparing ----------------------------------------------------------------------------------------------------
    {"f_equal", "is_nan order", R"(
fn f_equal(a: vec4f, b: vec4f) -> vec4<bool> { return (order(a) == order(b)) & !is_nan(a) & !is_nan(b); }
)"},
    {"f_less", "is_nan order", R"(
fn f_less(a: vec4f, b: vec4f) -> vec4<bool> { return (order(a) < order(b)) & !is_nan(a) & !is_nan(b); }
)"},
    {"f_less_equal", "is_nan order", R"(
fn f_less_equal(a: vec4f, b: vec4f) -> vec4<bool> { return (order(a) <= order(b)) & !is_nan(a) & !is_nan(b); }
)"},
    {"f_maximum", "is_nan order", R"(
fn f_maximum(a: vec4f, b: vec4f) -> vec4f { return select(b, a, ((order(a) >= order(b)) & !is_nan(b)) | is_nan(a)); }
)"},
    {"f_minimum", "is_nan order", R"(
fn f_minimum(a: vec4f, b: vec4f) -> vec4f { return select(b, a, ((order(a) <= order(b)) & !is_nan(b)) | is_nan(a)); }
)"},
    {"f_relu", "", R"(
fn f_relu(x: vec4f) -> vec4f {
  return select(x, vec4f(0.0), bitcast<vec4u>(x) - vec4u(0x80000000u) <= vec4u(0x7f800000u));
}
)"},
    {"f_sign", "mag is_nan with_sign", R"(
fn f_sign(x: vec4f) -> vec4f {
  return select(select(with_sign(vec4f(1.0), x), vec4f(0.0), mag(x) == vec4u(0u)), x, is_nan(x));
}
)"},
    // -- casts --------------------------------------------------------------------------------------------------------
    {"to_i32", "is_nan", R"(
fn to_i32(x: vec4f) -> vec4i {
  let high = x >= vec4f(2147483648.0);
  let low = x <= vec4f(-2147483648.0);
  let inside = vec4i(select(x, vec4f(0.0), high | low | is_nan(x)));
  return select(select(select(inside, vec4i(2147483647), high), vec4i(-2147483647 - 1), low), vec4i(0), is_nan(x));
}
)"},
    {"to_u32", "is_nan", R"(
fn to_u32(x: vec4f) -> vec4u {
  let high = x >= vec4f(4294967296.0);
  let low = x <= vec4f(0.0);
  let inside = vec4u(select(x, vec4f(0.0), high | low | is_nan(x)));
  return select(select(select(inside, vec4u(0xffffffffu), high), vec4u(0u), low), vec4u(0u), is_nan(x));
}
)"},
    {"to_f16", "", R"(
// The nearest f16, half to even. In integers: WGSL leaves the rounding of conversions and what is past 65504 open.
fn to_f16(x: vec4f) -> vec4f {
  let u = bitcast<vec4u>(x);
  let m = u & vec4u(0x7fffffffu);
  let normal = (m + vec4u(0xfffu) + ((m >> vec4u(13u)) & vec4u(1u))) & vec4u(0xffffe000u);
  // Below 2^-14 the steps are 2^-24. The sum is under 2^23 there, so round() is of a small number.
  let small = bitcast<vec4u>(round(bitcast<vec4f>(m) * 16777216.0) * 5.9604644775390625e-8);
  let finite = select(normal, small, m < vec4u(0x38800000u));
  let kept = select(select(finite, vec4u(0x7f800000u), finite > vec4u(0x477fe000u)), m, m >= vec4u(0x7f800000u));
  return bitcast<vec4f>(kept | (u & vec4u(0x80000000u)));
}
)"},
    // -- dividing -----------------------------------------------------------------------------------------------------
    {"quotient", "mag", R"(
// a / b where b is no zero. Devices may go through 1 / b, which is denormal from 2^126 on.
fn quotient(a: vec4f, b: vec4f) -> vec4f {
  let scale = select(vec4f(1.0), vec4f(0.25), mag(b) >= vec4u(0x7e800000u));
  return (a * scale) / (b * scale);
}
)"},
    {"raised", "mag with_sign", R"(
// x * 2^100, of a small x. A denormal, which a device may read as 0, counts its units of 2^-149.
fn raised(x: vec4f) -> vec4f {
  return select(x * 1.2676506002282294e30, with_sign(vec4f(mag(x)) * 1.7763568394002505e-15, x), mag(x) < vec4u(0x00800000u));
}
)"},
    {"f_divide", "mag is_nan with_sign infinity not_a_number quotient raised times_power_of_2", R"(
fn f_divide(a: vec4f, b: vec4f) -> vec4f {
  let ma = mag(a);
  let mb = mag(b);
  let zero = mb == vec4u(0u);
  let sign = bitcast<vec4f>(bitcast<vec4u>(a) ^ bitcast<vec4u>(b));
  let none = is_nan(a) | is_nan(b) | (zero & (ma == vec4u(0u))) | ((ma == vec4u(0x7f800000u)) & (mb == vec4u(0x7f800000u)));
  // Under 2^-63, and so denormals too.
  let small_a = ma < vec4u(0x20000000u);
  let small_b = mb < vec4u(0x20000000u);
  let above = select(a, raised(a), small_a);
  let below = select(select(b, raised(b), small_b), vec4f(1.0), zero);
  let back = select(vec4i(0), vec4i(100), small_b) - select(vec4i(0), vec4i(100), small_a);
  let r = select(times_power_of_2(quotient(above, below), back), with_sign(infinity(), sign), zero);
  return select(r, not_a_number(), none);
}
)"},
    {"difference_of_same", "mag not_a_number", R"(
// x - x, which compilers take for 0 also where x is infinite or NaN.
fn difference_of_same(x: vec4f) -> vec4f {
  return select(vec4f(0.0), not_a_number(), mag(x) >= vec4u(0x7f800000u));
}
)"},
    {"f_fmod", "mag is_nan not_a_number times_power_of_2", R"(
// Exact: the long division of the mantissas, 8 bits a step.
fn f_fmod(a: vec4f, b: vec4f) -> vec4f {
  let ma = mag(a);
  let mb = mag(b);
  let ea = max(ma >> vec4u(23u), vec4u(1u));
  let eb = max(mb >> vec4u(23u), vec4u(1u));
  let fa = (ma & vec4u(0x7fffffu)) | select(vec4u(0u), vec4u(0x800000u), ma >= vec4u(0x800000u));
  let fb = max((mb & vec4u(0x7fffffu)) | select(vec4u(0u), vec4u(0x800000u), mb >= vec4u(0x800000u)), vec4u(1u));
  let none = (ma >= vec4u(0x7f800000u)) | (mb > vec4u(0x7f800000u)) | (mb == vec4u(0u));
  let less = ma < mb;
  var left = select(ea - eb, vec4u(0u), less | none);
  var r = fa % fb;
  while (any(left > vec4u(0u))) {
    let step = min(left, vec4u(8u));
    r = (r << step) % fb;
    left -= step;
  }
  // r < 2^24 counts units of b's last place, 2^(eb - 150). As bits, so that a denormal result is not flushed.
  let top = vec4u(31u) - countLeadingZeros(max(r, vec4u(1u)));
  let raise = min(vec4u(23u) - min(top, vec4u(23u)), eb - vec4u(1u));
  let m = r << raise;
  let e = select(vec4u(0u), eb - raise, m >= vec4u(0x800000u));
  let bits = select((e << vec4u(23u)) | (m & vec4u(0x7fffffu)), ma, less);
  let r_of_a = bitcast<vec4f>(bits | (bitcast<vec4u>(a) & vec4u(0x80000000u)));
  return select(r_of_a, not_a_number(), none);
}
)"},
    {"f_remainder", "mag with_sign f_fmod", R"(
// The sign of b, as Python's %.
fn f_remainder(a: vec4f, b: vec4f) -> vec4f {
  let r = f_fmod(a, b);
  let other = ((bitcast<vec4u>(r) ^ bitcast<vec4u>(b)) >> vec4u(31u)) == vec4u(1u);
  return select(select(r, r + b, other), with_sign(vec4f(0.0), b), mag(r) == vec4u(0u));
}
)"},
    {"f_floor_divide", "mag chop with_sign is_nan raised f_fmod f_divide rounded", R"(
// As numpy: from the exact remainder, so that the quotient of the two is whole but for its own rounding.
fn f_floor_divide(given_a: vec4f, given_b: vec4f) -> vec4f {
  // Small ones both times 2^100: no remainder is a denormal, which a device may read as 0.
  let small = (mag(given_a) < vec4u(0x4d000000u)) & (mag(given_b) < vec4u(0x20000000u));
  let a = select(given_a, raised(given_a), small);
  let b = select(given_b, raised(given_b), small);
  let r = f_fmod(a, b);
  let whole = mag(r) == vec4u(0u);
  let other = (((bitcast<vec4u>(r) ^ bitcast<vec4u>(b)) >> vec4u(31u)) == vec4u(1u)) & !whole;
  let multiple = rounded(a - r);
  var d = f_divide(multiple, b);
  // A GPU's quotient may be off by 2.5 ulp, which past 2^22 is more than a half: one step by the remainder, whose products
  // of halves are exact whether the device fuses multiply and add or not.
  let dh = chop(d);
  let bh = chop(b);
  let rest = ((multiple - dh * bh) - (dh * (b - bh) + (d - dh) * bh)) - (d - dh) * (b - bh);
  let nearer = d + f_divide(rest, b);
  // Not where parts of b under 2^-100 may be denormals, which a device may read as 0.
  d = select(d, nearer, (mag(nearer) < vec4u(0x7f800000u)) & (mag(b) >= vec4u(0x0d800000u)));
  d = rounded(select(d, d - 1.0, other));
  var f = floor(d);
  f = select(f, f + 1.0, d - f > vec4f(0.5));
  let plain = f_divide(a, b);
  f = select(f, with_sign(vec4f(0.0), plain), mag(d) == vec4u(0u));
  return select(select(f, d, is_nan(d)), plain, mag(b) == vec4u(0u));
}
)"},
    // -- exponentials -------------------------------------------------------------------------------------------------
    {"expm1_near_0", "", R"(
// e^r - 1 on |r| <= 0.35; relative error of the fit 2.6e-10.
fn expm1_near_0(r: vec4f) -> vec4f {
  let q = ((((1.99155853e-4 * r + 1.39420468e-3) * r + 8.33327044e-3) * r + 4.16663438e-2) * r + 0.166666672) * r + 0.5;
  return r * r * q + r;
}
)"},
    {"exp_times", "expm1_near_0 times_power_of_2", R"(
// f e^(h + l) for h + l in -150 .. 89. ln 2 in two parts, the first of 9 bits, so that n times it is exact. The factor
// goes in before the scaling: the result may be normal where e^(h + l) is not.
fn exp_times(f: vec4f, h: vec4f, l: vec4f) -> vec4f {
  let n = round((h + l) * 1.44269504);
  let r = ((h - n * 0.693359375) + n * 2.12194440e-4) + l;
  return times_power_of_2(f * (expm1_near_0(r) + 1.0), vec4i(n));
}
// e^x for x in -104 .. 89.
fn exp_inside(x: vec4f) -> vec4f { return exp_times(vec4f(1.0), x, vec4f(0.0)); }
)"},
    {"f_exp", "is_nan infinity exp_times", R"(
fn f_exp(x: vec4f) -> vec4f {
  let r = exp_inside(clamp(x, vec4f(-104.0), vec4f(89.0)));
  return select(select(select(r, infinity(), x > vec4f(88.7228394)), vec4f(0.0), x < vec4f(-104.0)), x, is_nan(x));
}
)"},
    {"f_exp2", "is_nan infinity expm1_near_0 times_power_of_2", R"(
fn f_exp2(x: vec4f) -> vec4f {
  let c = clamp(x, vec4f(-151.0), vec4f(128.0));
  let n = round(c);
  let r = times_power_of_2(expm1_near_0((c - n) * 0.693147181) + 1.0, vec4i(n));
  return select(select(select(r, infinity(), x >= vec4f(128.0)), vec4f(0.0), x < vec4f(-151.0)), x, is_nan(x));
}
)"},
    {"f_expm1", "mag is_nan infinity expm1_near_0 times_power_of_2", R"(
// 2^n ((e^r - 1) + (1 - 2^-n)): no cancellation where n is 0.
fn f_expm1(x: vec4f) -> vec4f {
  let c = clamp(x, vec4f(-20.0), vec4f(89.0));
  let n = round(c * 1.44269504);
  let r = (c - n * 0.693359375) + n * 2.12194440e-4;
  let back = bitcast<vec4f>((vec4i(127) - min(vec4i(n), vec4i(100))) << vec4u(23u));
  let y = times_power_of_2(expm1_near_0(r) + (1.0 - back), vec4i(n));
  let small = mag(x) < vec4u(0x33000000u);
  return select(select(y, infinity(), x > vec4f(88.7228394)), x, small | is_nan(x));
}
)"},
    // -- logarithms ---------------------------------------------------------------------------------------------------
    {"Scaled", "mag", R"(
struct Scaled { e: vec4f, f: vec4f }
// A positive x as 2^e (1 + f), 1 + f in sqrt(1/2) .. sqrt(2). A denormal counts its units in integers: no flush to 0.
fn scaled(x: vec4f) -> Scaled {
  let tiny = mag(x) < vec4u(0x00800000u);
  let i = bitcast<vec4i>(select(x, vec4f(mag(x)), tiny)) - vec4i(0x3f3504f3);
  let e = vec4f(i >> vec4u(23u)) + select(vec4f(0.0), vec4f(-149.0), tiny);
  return Scaled(e, bitcast<vec4f>((i & vec4i(0x7fffff)) + vec4i(0x3f3504f3)) - 1.0);
}
)"},
    {"log1p_cubic", "", R"(
// (ln(1 + f) - f + f^2/2) / f^3 for 1 + f in sqrt(1/2) .. sqrt(2); error of the fit times f^2: 7.4e-10.
fn log1p_cubic(f: vec4f) -> vec4f {
  let p = ((6.92087635e-2 * f - 0.117988609) * f + 0.118753381) * f - 0.123830684;
  return ((((p * f + 0.142182022) * f - 0.166693047) * f + 0.200022489) * f - 0.249999866) * f + 0.333333105;
}
)"},
    {"log1p_near_0", "log1p_cubic", R"(
fn log1p_near_0(f: vec4f) -> vec4f { return f + f * f * (f * log1p_cubic(f) - 0.5); }
)"},
    {"log_edges", "mag is_nan infinity not_a_number", R"(
// r, but what logarithms are of 0, infinity, negative numbers and NaN.
fn log_edges(x: vec4f, r: vec4f) -> vec4f {
  let u = bitcast<vec4u>(x);
  let edge = select(select(r, infinity(), u == vec4u(0x7f800000u)), -infinity(), mag(x) == vec4u(0u));
  return select(edge, not_a_number(), (u > vec4u(0x80000000u)) | is_nan(x));
}
)"},
    {"f_log", "Scaled log1p_near_0 log_edges", R"(
fn f_log(x: vec4f) -> vec4f {
  let s = scaled(x);
  return log_edges(x, (log1p_near_0(s.f) - s.e * 2.12194440e-4) + s.e * 0.693359375);
}
)"},
    {"f_log2", "Scaled log1p_near_0 log_edges", R"(
fn f_log2(x: vec4f) -> vec4f {
  let s = scaled(x);
  let l = log1p_near_0(s.f);
  // 1.44269504 as 1 + 0.44269504: exact where it matters, in the leading term.
  return log_edges(x, (l * 0.442695041 + l) + s.e);
}
)"},
    {"f_log1p", "f_log log1p_near_0", R"(
// Where 1 + x rounds, |ln(1 + x)| > 0.34, and half an ulp of 1 + x is under 2 ulp of it.
fn f_log1p(x: vec4f) -> vec4f {
  return select(f_log(1.0 + x), select(log1p_near_0(x), x, mag(x) < vec4u(0x33000000u)),
                (x > vec4f(-0.29)) & (x < vec4f(0.41)) & !is_nan(x));
}
)"},
    // -- roots --------------------------------------------------------------------------------------------------------
    {"f_sqrt", "mag is_nan not_a_number", R"(
// A denormal counts its units of 2^-149; 2^-150 has a root.
fn f_sqrt(x: vec4f) -> vec4f {
  let u = bitcast<vec4u>(x);
  let m = mag(x);
  let tiny = m < vec4u(0x00800000u);
  let same = (m == vec4u(0u)) | (u == vec4u(0x7f800000u)) | is_nan(x);
  let r = sqrt(select(x, vec4f(m << vec4u(1u)), tiny)) * select(vec4f(1.0), vec4f(2.6469779601696886e-23), tiny);
  return select(select(r, not_a_number(), u > vec4u(0x80000000u)), x, same);
}
)"},
    {"f_rsqrt", "f_sqrt f_divide", R"(
fn f_rsqrt(x: vec4f) -> vec4f { return f_divide(vec4f(1.0), f_sqrt(x)); }
)"},
    {"f_reciprocal", "f_divide", R"(
fn f_reciprocal(x: vec4f) -> vec4f { return f_divide(vec4f(1.0), x); }
)"},
    // -- circular functions -------------------------------------------------------------------------------------------
    {"Angle", "mag", R"(
struct Angle { r: vec4f, q: vec4i }
// Bits 32 k .. 32 k + 31 of 2/pi, behind one word of zeros.
fn two_over_pi(k: vec4u) -> vec4u {
  var w = select(vec4u(0u), vec4u(0xa2f9836eu), k == vec4u(1u));
  w = select(w, vec4u(0x4e441529u), k == vec4u(2u));
  w = select(w, vec4u(0xfc2757d1u), k == vec4u(3u));
  w = select(w, vec4u(0xf534ddc0u), k == vec4u(4u));
  w = select(w, vec4u(0xdb629599u), k == vec4u(5u));
  w = select(w, vec4u(0x3c439041u), k == vec4u(6u));
  w = select(w, vec4u(0xfe5163abu), k == vec4u(7u));
  return w;
}
// The high word of m h, m < 2^24.
fn high_word(m: vec4u, h: vec4u) -> vec4u {
  let a = (m & vec4u(0xffffu)) * (h >> vec4u(16u));
  let b = (m >> vec4u(16u)) * (h & vec4u(0xffffu));
  let c = ((m & vec4u(0xffffu)) * (h & vec4u(0xffffu))) >> vec4u(16u);
  let middle = (a & vec4u(0xffffu)) + (b & vec4u(0xffffu)) + c;
  return (m >> vec4u(16u)) * (h >> vec4u(16u)) + (a >> vec4u(16u)) + (b >> vec4u(16u)) + (middle >> vec4u(16u));
}
// Payne and Hanek: the mantissa times those 96 bits of 2/pi that decide the quadrant and the fraction.
fn reduced_large(x: vec4f) -> Angle {
  let u = mag(x);
  let m = (u & vec4u(0x7fffffu)) | vec4u(0x800000u);
  let bit = (u >> vec4u(23u)) - vec4u(120u);
  let k = bit >> vec4u(5u);
  let s = bit & vec4u(31u);
  let w1 = two_over_pi(k + 1u);
  let w2 = two_over_pi(k + 2u);
  let h0 = (two_over_pi(k) << s) | ((w1 >> vec4u(1u)) >> (vec4u(31u) - s));
  let h1 = (w1 << s) | ((w2 >> vec4u(1u)) >> (vec4u(31u) - s));
  let h2 = (w2 << s) | ((two_over_pi(k + 3u) >> vec4u(1u)) >> (vec4u(31u) - s));
  let middle = m * h1 + high_word(m, h2);
  let carry = select(vec4u(0u), vec4u(1u), middle < m * h1);
  let high = m * h0 + high_word(m, h1) + carry;
  let quarter = vec4i((high + vec4u(0x20000000u)) >> vec4u(30u));
  let f1 = (high << vec4u(2u)) | (middle >> vec4u(30u));
  let f0 = middle << vec4u(2u);
  let below = f1 >= vec4u(0x80000000u);
  let size = vec4f(select(f1, ~f1, below)) * 2.3283064365386963e-10 + vec4f(select(f0, ~f0, below)) * 5.421010862427522e-20;
  let r = select(size, -size, below != (x < vec4f(0.0))) * 1.57079633;
  return Angle(r, select(quarter, -quarter, x < vec4f(0.0)));
}
// x - q pi/2 in -pi/4 .. pi/4. pi/2 in three parts of 8 bits and a rest: q times the first two is exact below 2^16.
fn reduced(x: vec4f) -> Angle {
  let n = round(x * 0.636619772);
  var a = Angle((((x - n * 1.5703125) - n * 4.825592041015625e-4) - n * 1.2665987014770508e-6) - n * 9.9209358e-10,
                vec4i(clamp(n, vec4f(-65536.0), vec4f(65536.0))));
  let large = mag(x) >= vec4u(0x47800000u);
  if (any(large)) {
    let b = reduced_large(x);
    a.r = select(a.r, b.r, large);
    a.q = select(a.q, b.q, large);
  }
  return a;
}
// Relative error of the fit 5.4e-12.
fn sin_near_0(r: vec4f) -> vec4f {
  let z = r * r;
  return r + r * z * (((2.71756448e-6 * z - 1.98392561e-4) * z + 8.33332911e-3) * z - 0.166666672);
}
// Error of the fit 1.2e-13.
fn cos_near_0(r: vec4f) -> vec4f {
  let z = r * r;
  return (1.0 - 0.5 * z) + z * z * (((-2.72033049e-7 * z + 2.47994358e-5) * z - 1.38888834e-3) * z + 4.16666679e-2);
}
fn sin_quarter(r: vec4f, q: vec4i) -> vec4f {
  let v = select(sin_near_0(r), cos_near_0(r), (q & vec4i(1)) != vec4i(0));
  return select(v, -v, (q & vec4i(2)) != vec4i(0));
}
)"},
    {"f_sin", "Angle not_a_number", R"(
fn f_sin(x: vec4f) -> vec4f {
  let a = reduced(x);
  let r = select(sin_quarter(a.r, a.q), x, mag(x) < vec4u(0x39000000u));
  return select(r, not_a_number(), mag(x) >= vec4u(0x7f800000u));
}
)"},
    {"f_cos", "Angle not_a_number", R"(
fn f_cos(x: vec4f) -> vec4f {
  let a = reduced(x);
  return select(sin_quarter(a.r, a.q + vec4i(1)), not_a_number(), mag(x) >= vec4u(0x7f800000u));
}
)"},
    {"f_tan", "Angle not_a_number", R"(
fn f_tan(x: vec4f) -> vec4f {
  let a = reduced(x);
  let s = sin_near_0(a.r);
  let c = cos_near_0(a.r);
  let odd = (a.q & vec4i(1)) != vec4i(0);
  let t = select(s, -c, odd) / select(c, s, odd);
  return select(select(t, x, mag(x) < vec4u(0x39000000u)), not_a_number(), mag(x) >= vec4u(0x7f800000u));
}
)"},
    {"f_atan2", "mag is_nan not_a_number quotient with_sign", R"(
// The arc of t = smaller / larger in 0 .. 1 (error of the fit 2.4e-9), unfolded.
fn f_atan2(y: vec4f, x: vec4f) -> vec4f {
  let my = mag(y);
  let mx = mag(x);
  let steep = my > mx;
  let both = min(my, mx) == vec4u(0x7f800000u);
  // Two denormals, which a device may read as 0, have the ratio of their bits.
  let tiny = max(my, mx) < vec4u(0x00800000u);
  let small = select(bitcast<vec4f>(min(my, mx)), vec4f(min(my, mx)), tiny);
  let big = select(bitcast<vec4f>(max(my, mx)), vec4f(max(max(my, mx), vec4u(1u))), tiny);
  let t = select(quotient(small, big), vec4f(1.0), both);
  let z = t * t;
  let p = (((-1.82721287e-3 * z + 1.10644409e-2) * z - 3.14557031e-2) * z + 5.82345538e-2) * z - 8.41945931e-2;
  var a = t + t * z * ((((p * z + 0.109575763) * z - 0.142652452) * z + 0.199986383) * z - 0.333333015);
  a = select(a, 1.57079633 - a, steep);
  a = select(a, 3.14159265 - a, (bitcast<vec4u>(x) >> vec4u(31u)) == vec4u(1u));
  return select(with_sign(a, y), not_a_number(), is_nan(x) | is_nan(y));
}
)"},
    // -- activations --------------------------------------------------------------------------------------------------
    {"f_tanh", "mag is_nan with_sign exp_times", R"(
// Below 0.6 an odd polynomial (relative error of the fit 2.8e-9), above 1 - 2 / (e^2|x| + 1), which is 1 from 9.02 on.
fn f_tanh(x: vec4f) -> vec4f {
  let a = bitcast<vec4f>(min(mag(x), vec4u(0x41200000u)));
  let z = a * a;
  let p = (((-5.8832597e-3 * z + 2.07875092e-2) * z - 5.37818782e-2) * z + 0.13331908) * z - 0.333332986;
  let far = 1.0 - 2.0 / (exp_inside(a + a) + 1.0);
  return select(with_sign(select(far, a + a * z * p, a < vec4f(0.6)), x), x, is_nan(x));
}
)"},
    {"f_sigmoid", "mag is_nan exp_times", R"(
// From e^-|x|, which can't overflow.
fn f_sigmoid(x: vec4f) -> vec4f {
  let e = exp_inside(-bitcast<vec4f>(min(mag(x), vec4u(0x42d00000u))));
  return select(select(vec4f(1.0), e, x < vec4f(0.0)) / (1.0 + e), x, is_nan(x));
}
)"},
    {"f_silu", "mag is_nan exp_times", R"(
fn f_silu(x: vec4f) -> vec4f {
  let a = -bitcast<vec4f>(min(mag(x), vec4u(0x42d00000u)));
  let r = select(x, exp_times(max(x, vec4f(-1e4)), a, vec4f(0.0)), x < vec4f(0.0)) / (1.0 + exp_inside(a));
  return select(select(r, vec4f(0.0), bitcast<vec4u>(x) == vec4u(0xff800000u)), x, is_nan(x));
}
)"},
    {"erfc_times", "chop exp_times", R"(
// f erfc(z) for z >= 0, erfc as t e^(P(t) - z^2), t = 2 / (2 + z): the form of Press et al., Numerical Recipes 6.2, with a
// fit of our own (error 5.0e-8 up to z = 11, where the result is 0). z^2 comes as k w^2, k a power of two, in two parts,
// the first exact.
fn erfc_times(f: vec4f, z: vec4f, k: f32, w: vec4f) -> vec4f {
  let t = 2.0 / (2.0 + z);
  let q = (((0.148848563 * t - 0.702452719) * t + 1.20839989) * t - 0.766201377) * t - 2.13119313e-2;
  let p = ((((q * t - 3.07268128e-2) * t + 4.57344502e-2) * t + 0.384254992) * t + 0.998917282) * t - 1.26546228;
  let h = chop(w);
  return exp_times(f * t, -(k * h * h), p - k * (w - h) * (w + h));
}
)"},
    {"f_erf", "mag is_nan with_sign erfc_times", R"(
// Below 1 an odd polynomial (relative error of the fit 1.2e-9), above 1 - erfc.
fn f_erf(x: vec4f) -> vec4f {
  let a = bitcast<vec4f>(min(mag(x), vec4u(0x41200000u)));
  let z = a * a;
  let p = ((7.88912294e-5 * z - 8.02084222e-4) * z + 5.18953567e-3) * z - 2.68544443e-2;
  let near = a * (((p * z + 0.112836003) * z - 0.37612626) * z + 1.12837911);
  return select(with_sign(select(1.0 - erfc_times(vec4f(1.0), a, 1.0, a), near, a < vec4f(1.0)), x), x, is_nan(x));
}
)"},
    {"f_gelu", "mag is_nan erfc_times", R"(
// x (1 - erfc(x / sqrt 2) / 2), and by symmetry x erfc(|x| / sqrt 2) / 2 for x < 0, which keeps its digits there.
fn f_gelu(x: vec4f) -> vec4f {
  let a = bitcast<vec4f>(min(mag(x), vec4u(0x41800000u)));
  let half = erfc_times(-0.5 * a, a * 0.707106781, 0.5, a);
  let r = select(x + half, half, x < vec4f(0.0));
  let u = bitcast<vec4u>(x);
  return select(select(r, vec4f(0.0), u == vec4u(0xff800000u)), x, is_nan(x) | (u == vec4u(0x7f800000u)));
}
)"},
    {"f_gelu_tanh", "is_nan exp_times", R"(
// (1 + tanh u) / 2 is sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3); past |x| = 16 it is 0 or 1.
fn f_gelu_tanh(x: vec4f) -> vec4f {
  let c = clamp(x, vec4f(-16.0), vec4f(16.0));
  let u = c * (1.59576912 + 0.0713548163 * c * c);
  let e = exp_inside(max(-abs(u), vec4f(-104.0)));
  let r = x * (select(vec4f(1.0), e, x < vec4f(0.0)) / (1.0 + e));
  return select(select(r, vec4f(0.0), bitcast<vec4u>(x) == vec4u(0xff800000u)), x, is_nan(x));
}
)"},
    // -- powers -------------------------------------------------------------------------------------------------------
    {"f_power", "mag is_nan chop infinity not_a_number Scaled log1p_cubic expm1_near_0 times_power_of_2", R"(
// C99's pow. Whole exponents up to 16 by multiplying, so that what fits 24 bits is exact; else 2^(y log2|x|) with the
// logarithm and the product in two parts of 12 and 24 bits (2^-27 relative), split by bits, so exactly.
fn f_power(x: vec4f, y: vec4f) -> vec4f {
  let a = bitcast<vec4f>(mag(x));
  let s = scaled(a);
  let fh = chop(s.f);
  let square = 0.5 * fh * fh;
  let tail = s.f * s.f * s.f * log1p_cubic(s.f) - 0.5 * (s.f - fh) * (s.f + fh);
  let h = chop((s.f - square) + tail);
  let l = ((s.f - h) - square) + tail;
  // log2(e) = 1.4423828125 (12 bits) + 3.1222838896e-4
  let first = h * 1.4423828125;
  let rest = h * 3.12228389e-4 + l * 1.44269504;
  let t1 = chop(s.e + (first + rest));
  let t2 = ((s.e - t1) + first) + rest;
  let yc = clamp(y, vec4f(-2147483648.0), vec4f(2147483648.0));
  let yh = chop(yc);
  let p = yh * t1;
  let w = (yc - yh) * t1 + yc * t2;
  let total = p + w;
  let n = round(clamp(total, vec4f(-200.0), vec4f(200.0)));
  let d = clamp((p - n) + w, vec4f(-1.0), vec4f(1.0));
  var r = times_power_of_2(expm1_near_0(d * 0.693147181) + 1.0, vec4i(n));
  r = select(select(r, infinity(), total >= vec4f(128.0)), vec4f(0.0), total < vec4f(-151.0));

  let my = mag(y);
  // Signs and zeros by bits: a device may read a denormal as 0.
  let whole = ((trunc(y) == y) & ((my >= vec4u(0x00800000u)) | (my == vec4u(0u)))) | (my >= vec4u(0x4b000000u));
  let count = vec4u(min(abs(yc), vec4f(16777216.0)));
  let odd = whole & ((count & vec4u(1u)) == vec4u(1u)) & (my < vec4u(0x4b800000u));
  var product = vec4f(1.0);
  var base = a;
  for (var bit = 0u; bit < 5u; bit++) {
    product = select(product, product * base, ((count >> vec4u(bit)) & vec4u(1u)) == vec4u(1u));
    base = base * base;
  }
  let down = ((bitcast<vec4u>(y) >> vec4u(31u)) == vec4u(1u)) & (my != vec4u(0u));
  let usable = !down | ((mag(product) >= vec4u(0x00800000u)) & (mag(product) < vec4u(0x7e000000u)));
  r = select(r, select(product, 1.0 / product, down), whole & (count <= vec4u(16u)) & usable);

  let ma = mag(x);
  let one = ma == vec4u(0x3f800000u);
  let huge = (ma > vec4u(0x3f800000u)) != down;
  r = select(r, select(vec4f(0.0), infinity(), huge), (ma == vec4u(0u)) | (ma == vec4u(0x7f800000u)));
  r = select(r, select(select(vec4f(0.0), infinity(), huge), vec4f(1.0), one), my == vec4u(0x7f800000u));
  let negative = (bitcast<vec4u>(x) >> vec4u(31u)) == vec4u(1u);
  r = select(r, -r, negative & odd);
  let none = is_nan(x) | is_nan(y) | (negative & !whole & (ma != vec4u(0u)) & (ma != vec4u(0x7f800000u)) & (my != vec4u(0x7f800000u)));
  r = select(r, not_a_number(), none);
  return select(r, vec4f(1.0), (my == vec4u(0u)) | (bitcast<vec4u>(x) == vec4u(0x3f800000u)));
}
)"},
    // -- integers -----------------------------------------------------------------------------------------------------
    {"i_floor_divide", "", R"(
fn i_floor_divide(a: vec4i, b: vec4i) -> vec4i {
  let none = b == vec4i(0);
  let least = (a == vec4i(-2147483647 - 1)) & (b == vec4i(-1));
  let d = select(b, vec4i(1), none | least);
  let q = a / d;
  let r = a - q * d;
  return select(select(q, q - vec4i(1), (r != vec4i(0)) & ((r ^ d) < vec4i(0))), vec4i(0), none);
}
)"},
    {"i_fmod", "", R"(
fn i_fmod(a: vec4i, b: vec4i) -> vec4i {
  let d = select(b, vec4i(1), (b == vec4i(0)) | (b == vec4i(-1)));
  return a - (a / d) * d;
}
)"},
    {"i_remainder", "i_fmod", R"(
fn i_remainder(a: vec4i, b: vec4i) -> vec4i {
  let r = i_fmod(a, b);
  return select(r, r + b, (r != vec4i(0)) & ((r ^ b) < vec4i(0)));
}
)"},
    {"i_reciprocal", "", R"(
fn i_reciprocal(x: vec4i) -> vec4i { return select(vec4i(0), x, (x == vec4i(1)) | (x == vec4i(-1))); }
)"},
    {"i_power", "", R"(
fn i_power(a: vec4i, b: vec4i) -> vec4i {
  var base = a;
  var left = vec4u(max(b, vec4i(0)));
  var r = vec4i(1);
  while (any(left > vec4u(0u))) {
    r = select(r, r * base, (left & vec4u(1u)) == vec4u(1u));
    base = base * base;
    left = left >> vec4u(1u);
  }
  let unit = select(select(vec4i(0), vec4i(1), a == vec4i(1)), vec4i(1) - ((b & vec4i(1)) << vec4u(1u)), a == vec4i(-1));
  return select(r, unit, b < vec4i(0));
}
)"},
    {"i_shift_left", "", R"(
fn i_shift_left(a: vec4i, b: vec4i) -> vec4i {
  let n = bitcast<vec4u>(b);
  return select(a << (n & vec4u(31u)), vec4i(0), n > vec4u(31u));
}
)"},
    {"i_shift_right", "", R"(
fn i_shift_right(a: vec4i, b: vec4i) -> vec4i { return a >> min(bitcast<vec4u>(b), vec4u(31u)); }
)"},
    {"u_floor_divide", "", R"(
fn u_floor_divide(a: vec4u, b: vec4u) -> vec4u { return select(a / max(b, vec4u(1u)), vec4u(0u), b == vec4u(0u)); }
)"},
    {"u_remainder", "", R"(
fn u_remainder(a: vec4u, b: vec4u) -> vec4u { return a % max(b, vec4u(1u)); }
)"},
    {"u_power", "", R"(
fn u_power(a: vec4u, b: vec4u) -> vec4u {
  var base = a;
  var left = b;
  var r = vec4u(1u);
  while (any(left > vec4u(0u))) {
    r = select(r, r * base, (left & vec4u(1u)) == vec4u(1u));
    base = base * base;
    left = left >> vec4u(1u);
  }
  return r;
}
)"},
    {"u_shift_left", "", R"(
fn u_shift_left(a: vec4u, b: vec4u) -> vec4u { return select(a << (b & vec4u(31u)), vec4u(0u), b > vec4u(31u)); }
)"},
    {"u_shift_right", "", R"(
fn u_shift_right(a: vec4u, b: vec4u) -> vec4u { return select(a >> (b & vec4u(31u)), vec4u(0u), b > vec4u(31u)); }
)"},
};
static_assert(std::size(kFunctions) <= MathSet::kMost, "MathSet holds a bit per function");

std::size_t row_of(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kFunctions); ++i) {
    if (kFunctions[i].name == name) return i;
  }
  throw Error(ErrorCode::internal, "no elementwise function '" + std::string(name) + "'", "report this");
}

}  // namespace

std::span<const MathFunction> math_functions() noexcept {
  return kFunctions;
}

void MathSet::need(std::string_view name) {
  const std::size_t row = row_of(name);
  if (needed_[row]) return;
  needed_.set(row);
  std::string_view calls = kFunctions[row].calls;
  while (!calls.empty()) {
    const std::size_t end = std::min(calls.find(' '), calls.size());
    need(calls.substr(0, end));
    calls.remove_prefix(std::min(end + 1, calls.size()));
  }
}

bool MathSet::reads_params() const noexcept {
  for (std::size_t i = 0; i < std::size(kFunctions); ++i) {
    if (needed_[i] && kFunctions[i].reads_params) return true;
  }
  return false;
}

std::string MathSet::source() const {
  std::string out;
  for (std::size_t i = 0; i < std::size(kFunctions); ++i) {
    if (needed_[i]) out += kFunctions[i].source.substr(1);
  }
  return out;
}

}  // namespace weft::ops
