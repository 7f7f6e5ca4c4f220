#include "ops/reduce_codegen.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

#include "ops/subgroups.h"
#include "ops/wgsl.h"
#include "ops/wgsl_text.h"

namespace weft::ops {
namespace {

/// Sums in 64 bits: of numbers that float32 does not hold, and that may cancel.
bool in_64_bits(Reduction op, DType x) {
  return op == Reduction::mean && is_integer(x);
}

/// What an op accumulates in: f32, i32 or u32 (beside an index for argmax and argmin; several, or two words of 64 bits,
/// where accumulator_bytes says so).
DType accumulator(Reduction op, DType x) {
  switch (op) {
    case Reduction::mean:
    case Reduction::variance:
    case Reduction::deviation:
    case Reduction::abs_sum:
    case Reduction::abs_max:
    case Reduction::abs_min:
    case Reduction::norm_2:
    case Reduction::norm_p:
    case Reduction::log_sum_exp: return DType::f32;
    case Reduction::count: return DType::u32;
    case Reduction::any:
    case Reduction::all: return DType::u32;
    case Reduction::sum:
    case Reduction::prod: return x == DType::bool_ ? DType::i32 : x == DType::f16 ? DType::f32 : x;
    default: return x == DType::bool_ ? DType::u32 : x == DType::f16 ? DType::f32 : x;
  }
}

/// Its first elements are the bits of integers, in a lane of floats.
bool spread_of_integers(const ReducePass& pass) {
  return (pass.op == Reduction::variance || pass.op == Reduction::deviation) && is_integer(pass.x);
}

/// Bindings and how elements are read. Accumulators are read as what they are: the sum of sums is a sum.
std::string reading_text(const ReducePass& pass) {
  const DType accumulated = accumulator(pass.op, pass.x);
  if (pass.source == ReduceSource::accumulators && accumulator_bytes(pass.op, pass.x) > 4 && !gives_index(pass.op)) {
    return R"(
@group(0) @binding(0) var<storage, read> x: array<Acc>;
fn element(i: u32) -> Acc { return x[i]; }
struct Quad {
  x: Acc,
  y: Acc,
  z: Acc,
  w: Acc,
}
fn quad(i: u32) -> Quad { return Quad(); }
fn lift(v: Acc, r: u32) -> Acc { return v; }
)";
  }
  if (pass.source == ReduceSource::accumulators && gives_index(pass.op)) {
    return fmt::format(R"(
@group(0) @binding(0) var<storage, read> x: array<vec2<u32>>;
fn element(i: u32) -> vec2<u32> {{ return x[i]; }}
struct Quad {{
  x: vec2<u32>,
  y: vec2<u32>,
  z: vec2<u32>,
  w: vec2<u32>,
}}
fn quad(i: u32) -> Quad {{ return Quad(); }}
fn lift(v: vec2<u32>, r: u32) -> Acc {{ return Acc(bitcast<{}>(v.x), v.y); }}
)",
                       wgsl_name(accumulated));
  }
  const DType in = pass.source == ReduceSource::accumulators ? accumulated : pass.x;
  const std::string_view stored = wgsl_name(in);
  const std::string_view raw = in == DType::f16 ? "f32" : stored;
  std::string text;
  if (in == DType::bool_) {
    text = R"(
@group(0) @binding(0) var<storage, read> x: array<u32>;
fn element(i: u32) -> u32 { return (x[i / 4u] >> (i % 4u * 8u)) & 0xffu; }
fn quad(i: u32) -> vec4<u32> { return (vec4<u32>(x[i]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu); }
)";
  } else {
    text = fmt::format(R"(
@group(0) @binding(0) var<storage, read> x: array<{0}>;
fn element(i: u32) -> {1} {{ return {1}(x[i]); }}
)",
                       stored, raw);
    // A second view of the same range: a row's last elements may not fill four.
    text += pass.quads ? fmt::format(R"(
@group(0) @binding(2) var<storage, read> x4: array<vec4<{0}>>;
fn quad(i: u32) -> vec4<{1}> {{ return vec4<{1}>(x4[i]); }}
)",
                                     stored, raw)
                       : fmt::format("fn quad(i: u32) -> vec4<{0}> {{ return vec4<{0}>(); }}\n", raw);
  }
  std::string lifted = fmt::format("{}(v)", wgsl_name(accumulated));
  if (pass.source == ReduceSource::tensor && in_blocks(pass.op)) {
    // A variance takes integers as they are, bit for bit (wide_text).
    const std::string_view to = spread_of_integers(pass) ? "bitcast" : "";
    const auto type = [&](std::string_view t) { return to.empty() ? std::string(t) : fmt::format("{}<{}>", to, t); };
    text += fmt::format(
        "fn number(v: {0}) -> f32 {{ return {1}(v); }}\nfn numbers(v: vec4<{0}>) -> vec4<f32> {{ return {2}(v); }}\n",
        raw, type("f32"), type("vec4<f32>"));
  }
  if (pass.source == ReduceSource::tensor) {
    switch (pass.op) {
      case Reduction::variance:
      case Reduction::deviation: lifted = "vec4<f32>(number(v), 0.0, 0.0, 1.0)"; break;
      case Reduction::mean:
        if (pass.x == DType::i32) lifted = "vec2<u32>(bitcast<u32>(v), select(0u, 0xffffffffu, v < 0))";
        if (pass.x == DType::u32) lifted = "vec2<u32>(v, 0u)";
        break;
      case Reduction::log_sum_exp: lifted = "vec2<f32>(f32(v), 1.0)"; break;
      case Reduction::abs_sum:
      case Reduction::abs_max:
      case Reduction::abs_min: lifted = "abs(f32(v))"; break;
      case Reduction::norm_2: lifted = "squares(f32(v))"; break;
      case Reduction::norm_p: lifted = "power(f32(v))"; break;
      default: break;
    }
  }
  if (pass.op == Reduction::any || pass.op == Reduction::all ||
      (pass.op == Reduction::count && pass.source == ReduceSource::tensor)) {
    // By bits: a denormal is true, and so is NaN, but -0 is not.
    lifted = raw == "f32" ? "u32((bitcast<u32>(v) & 0x7fffffffu) != 0u)" : fmt::format("u32(v != {}(0))", raw);
  }
  text +=
      gives_index(pass.op)
          ? fmt::format("fn lift(v: {}, r: u32) -> Acc {{ return Acc({}, params.first_index + r); }}\n", raw, lifted)
          : fmt::format("fn lift(v: {}, r: u32) -> Acc {{ return {}; }}\n", raw, lifted);
  return text;
}

/// Accumulators of more than one number.
std::string wide_text(Reduction op, DType x) {
  if (in_64_bits(op, x)) {
    return fmt::format(R"(
alias Acc = vec2<u32>;  // low and high word
fn identity() -> Acc {{ return Acc(); }}
fn combine(a: Acc, b: Acc) -> Acc {{
  let low = a.x + b.x;
  return Acc(low, a.y + b.y + select(0u, 1u, low < a.x));
}}
fn number_of(acc: Acc) -> f32 {{
  let below = {} && acc.y >= 0x80000000u;
  let size = select(acc, Acc(0u - acc.x, ~acc.y + select(0u, 1u, acc.x == 0u)), below);
  let number = f32(size.y) * 4294967296.0 + f32(size.x);
  return select(number, -number, below);
}}
)",
                       x == DType::i32);
  }
  switch (op) {
    case Reduction::variance:
    case Reduction::deviation:
      // Elements are told from each other as integers, where they are, before they become floats.
      return (is_integer(x) ? fmt::format(R"(
fn number_at(bits: f32) -> f32 {{ return f32(bitcast<{0}>(bits)); }}
fn apart(b: f32, a: f32) -> f32 {{
  let far = number_at(b) - number_at(a);
  return select(far, f32(bitcast<i32>(bitcast<u32>(b) - bitcast<u32>(a))), abs(far) < 1073741824.0);
}}
fn apart_4(b: vec4<f32>, a: f32) -> vec4<f32> {{
  return vec4<f32>(apart(b.x, a), apart(b.y, a), apart(b.z, a), apart(b.w, a));
}}
)",
                                          wgsl_name(x))
                            : std::string(R"(
fn apart(b: f32, a: f32) -> f32 { return b - a; }
fn apart_4(b: vec4<f32>, a: f32) -> vec4<f32> { return b - a; }
)")) +
             // Joined as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
             // variances" (1979). Means are those of the differences to the row's first element: a small spread on a
             // large mean is not lost.
             R"(
alias Acc = vec4<f32>;  // first element, mean from there, sum of squares around it, count
fn identity() -> Acc { return Acc(); }
fn combine(a: Acc, b: Acc) -> Acc {
  let n = a.w + b.w;
  let share = b.w / max(n, 1.0);
  let d = apart(b.x, a.x) + (b.y - a.y);
  // An infinite distance has no spread. The identity is 0, which the compiler can't know.
  let square = select(d * d, bitcast<f32>(0x7fc00000u ^ params.identity), (bitcast<u32>(d) & 0x7fffffffu) == 0x7f800000u);
  let both = Acc(a.x, a.y + d * share, a.z + (b.z + square * (a.w * share)), n);
  return select(select(both, a, b.w == 0.0), b, a.w == 0.0);
}
fn total(v: vec4<f32>) -> f32 { return (v.x + v.y) + (v.z + v.w); }
fn block(q0: vec4<f32>, q1: vec4<f32>, q2: vec4<f32>, q3: vec4<f32>, w0: vec4<f32>, w1: vec4<f32>, w2: vec4<f32>,
         w3: vec4<f32>, origin: f32) -> Acc {
  let n = total((w0 + w1) + (w2 + w3));
  let d0 = apart_4(q0, origin);
  let d1 = apart_4(q1, origin);
  let d2 = apart_4(q2, origin);
  let d3 = apart_4(q3, origin);
  let mean = total((d0 * w0 + d1 * w1) + (d2 * w2 + d3 * w3)) / n;
  let e0 = (d0 - mean) * w0;
  let e1 = (d1 - mean) * w1;
  let e2 = (d2 - mean) * w2;
  let e3 = (d3 - mean) * w3;
  return Acc(origin, mean, total((e0 * e0 + e1 * e1) + (e2 * e2 + e3 * e3)), n);
}
fn variance_of(acc: Acc) -> f32 {
  // numpy divides by 0: what source text can't spell. The identity is 0, which the compiler can't know.
  let none_left = bitcast<f32>(select(0x7f800000u, 0x7fc00000u, acc.z == 0.0) ^ params.identity);
  return select(acc.z / params.number, none_left, params.number <= 0.0 && !is_nan(acc.z));
}
)";
    case Reduction::norm_2:
      // Three sums of squares: as they are, and of much larger and much smaller elements. One of them is good.
      return R"(
alias Acc = vec4<f32>;
const UP = 7.9228162514264338e28;     // 2^96
const DOWN = 8.2718061255302767e-25;  // 2^-80
fn identity() -> Acc { return Acc(); }
fn squares(v: f32) -> Acc {
  let scaled = v * Acc(1.0, UP, DOWN, 0.0);
  return scaled * scaled;
}
fn combine(a: Acc, b: Acc) -> Acc { return a + b; }
fn root_of(acc: Acc) -> f32 {
  let plain = (bitcast<u32>(acc.x) & 0x7f800000u) != 0x7f800000u;
  let small = acc.x < 8.4703294725430034e-22;  // 2^-70
  return select(sqrt(acc.z) / DOWN, select(sqrt(acc.x), sqrt(acc.y) / UP, small), plain);
}
)";
    case Reduction::log_sum_exp:
      return R"(
alias Acc = vec2<f32>;  // maximum, sum of exp(x - maximum) where that is finite
fn identity() -> Acc { return Acc(bitcast<f32>(params.identity), 0.0); }
fn is_finite(v: f32) -> bool { return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u; }
fn larger(a: f32, b: f32) -> f32 { return select(select(a, b, is_nan(b) || b > a), a, is_nan(a)); }
// One look at the largest bits for all four: max may drop a NaN.
fn largest(v: vec4<f32>) -> f32 {
  let bits = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
  let high = max(max(bits.x, bits.y), max(bits.z, bits.w));
  return select(max(max(v.x, v.y), max(v.z, v.w)), bitcast<f32>(high), high > 0x7f800000u);
}
// Some devices clamp the argument of exp and never give 0.
fn share(d: f32) -> f32 { return select(exp(d), 0.0, d < -104.0); }
fn shares(d: vec4<f32>, w: vec4<f32>) -> f32 {
  let e = select(exp(d), vec4<f32>(), d < vec4<f32>(-104.0)) * w;
  return (e.x + e.y) + (e.z + e.w);
}
fn combine(a: Acc, b: Acc) -> Acc {
  let m = larger(a.x, b.x);
  return Acc(m, select(0.0, a.y * share(a.x - m) + b.y * share(b.x - m), is_finite(m)));
}
fn block(q0: vec4<f32>, q1: vec4<f32>, q2: vec4<f32>, q3: vec4<f32>, w0: vec4<f32>, w1: vec4<f32>, w2: vec4<f32>,
         w3: vec4<f32>, origin: f32) -> Acc {
  let m = larger(larger(largest(q0), largest(q1)), larger(largest(q2), largest(q3)));
  let s = (shares(q0 - m, w0) + shares(q1 - m, w1)) + (shares(q2 - m, w2) + shares(q3 - m, w3));
  return Acc(m, select(0.0, s, is_finite(m)));
}
fn log_of(acc: Acc) -> f32 { return select(acc.x, acc.x + log(acc.y), is_finite(acc.x)); }
)";
    default: return {};
  }
}

std::string combining_text(Reduction op, DType x) {
  const DType accumulated = accumulator(op, x);
  const std::string_view type = wgsl_name(accumulated);
  const bool real = accumulated == DType::f32;
  constexpr std::string_view kIsNan =
      "fn is_nan(v: f32) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u; }\n";
  // WGSL lets a quotient be off by 2.5 ulp (17,000,000 / 17,000,000 is not 1 on an H200): one step by the remainder.
  constexpr std::string_view kMeanOf = R"(
fn mean_of(sum: f32, count: f32) -> f32 {
  // The identity is 0, which the compiler can't know: it would take the step for the zero that it is on paper.
  let q = bitcast<f32>(bitcast<u32>(sum / count) ^ params.identity);
  let nearer = q + fma(-q, count, sum) / count;
  return select(q, nearer, (bitcast<u32>(nearer) & 0x7fffffffu) < 0x7f800000u);
}
)";
  if (std::string wide = wide_text(op, x); !wide.empty()) {
    return std::string(kIsNan) + wide + std::string(in_64_bits(op, x) ? kMeanOf : "");
  }
  std::string text = gives_index(op) ? fmt::format(R"(
struct Acc {{
  value: {0},
  index: u32,
}}
fn identity() -> Acc {{ return Acc(bitcast<{0}>(params.identity), 0xffffffffu); }}
)",
                                                   type)
                                     : fmt::format(R"(
alias Acc = {0};
fn identity() -> Acc {{ return bitcast<{0}>(params.identity); }}
)",
                                                   type);
  // WGSL's max and min may drop a NaN, and compilers may assume there is none: it is known by its bits.
  if (real) text += kIsNan;
  const char better = op == Reduction::max || op == Reduction::argmax || op == Reduction::abs_max ? '>' : '<';
  switch (op) {
    case Reduction::sum:
    case Reduction::mean: return text + "fn combine(a: Acc, b: Acc) -> Acc { return a + b; }\n" + std::string(kMeanOf);
    case Reduction::count:
    case Reduction::abs_sum: return text + "fn combine(a: Acc, b: Acc) -> Acc { return a + b; }\n";
    case Reduction::norm_p:
      // 0 and infinity by themselves: their logarithms are no numbers. The identity is 0, which the compiler can't
      // know.
      return text + R"(fn combine(a: Acc, b: Acc) -> Acc { return a + b; }
fn raised(v: f32, exponent: f32) -> f32 {
  let infinity = bitcast<f32>(0x7f800000u ^ params.identity);
  let up = exponent > 0.0;
  let bits = bitcast<u32>(v);
  let number = select(exp2(exponent * log2(v)), select(infinity, 0.0, up), v == 0.0);
  return select(select(number, select(0.0, infinity, up), bits == 0x7f800000u), v, is_nan(v));
}
fn power(v: f32) -> f32 { return raised(abs(v), params.number); }
)";
    case Reduction::prod: return text + "fn combine(a: Acc, b: Acc) -> Acc { return a * b; }\n";
    case Reduction::any: return text + "fn combine(a: Acc, b: Acc) -> Acc { return a | b; }\n";
    case Reduction::all: return text + "fn combine(a: Acc, b: Acc) -> Acc { return a & b; }\n";
    case Reduction::max:
    case Reduction::min:
    case Reduction::abs_max:
    case Reduction::abs_min:
      if (!real) {
        return text + fmt::format("fn combine(a: Acc, b: Acc) -> Acc {{ return select(a, b, b {} a); }}\n", better);
      }
      return text + fmt::format(R"(
fn combine(a: Acc, b: Acc) -> Acc {{
  return select(select(a, b, is_nan(b) || b {} a), a, is_nan(a));
}}
)",
                                better);
    case Reduction::argmax:
    case Reduction::argmin:
      // Any order of combining gives the first of equals: the lower index wins.
      if (!real) {
        return text + fmt::format(R"(
fn combine(a: Acc, b: Acc) -> Acc {{
  let take = b.value {} a.value || (b.value == a.value && b.index < a.index);
  return Acc(select(a.value, b.value, take), select(a.index, b.index, take));
}}
)",
                                  better);
      }
      return text + fmt::format(R"(
fn combine(a: Acc, b: Acc) -> Acc {{
  let a_nan = is_nan(a.value);
  let b_nan = is_nan(b.value);
  let first = b.index < a.index;
  let numbers = b.value {} a.value || (b.value == a.value && first);
  let take = select(select(numbers, false, a_nan), !a_nan || first, b_nan);
  return Acc(select(a.value, b.value, take), select(a.index, b.index, take));
}}
)",
                                better);
    default: break;
  }
  return text;
}

/// fn over_subgroup(a: Acc) -> Acc: `combine` over a subgroup, for all its threads.
std::string subgroup_text(Reduction op, DType x) {
  const DType accumulated = accumulator(op, x);
  const bool real = accumulated == DType::f32;
  const auto is = [](std::string_view value) {
    return fmt::format("fn over_subgroup(a: Acc) -> Acc {{ return {}; }}\n", value);
  };
  if (in_64_bits(op, x)) {
    return R"(
fn over_subgroup(a: Acc) -> Acc {
  let low = subgroupAdd(a.x & 0xffffu);
  let middle = subgroupAdd(a.x >> 16u) + (low >> 16u);
  return Acc((middle << 16u) | (low & 0xffffu), subgroupAdd(a.y) + (middle >> 16u));
}
)";
  }
  switch (op) {
    case Reduction::prod: return is("subgroupMul(a)");
    case Reduction::any: return is("subgroupOr(a)");
    case Reduction::all: return is("subgroupAnd(a)");
    case Reduction::max:
    case Reduction::abs_max:
      return real ? std::string(kOrderText) + is("in_order(subgroupMax(order_of(a)))") : is("subgroupMax(a)");
    case Reduction::min:
    case Reduction::abs_min:
      return real ? std::string(kOrderText) + is("in_low_order(subgroupMax(low_order_of(a)))") : is("subgroupMin(a)");
    case Reduction::argmax:
    case Reduction::argmin: {
      constexpr std::string_view kText = R"(
fn over_subgroup(a: Acc) -> Acc {
  let key = $key;
  let best = $best(key);
  return Acc($value(best), subgroupMin(select(0xffffffffu, a.index, key == best)));
}
)";
      const bool high = op == Reduction::argmax;
      if (!real) {
        return fill(std::string(kText), {{"$key", "a.value"},
                                         {"$best", high ? "subgroupMax" : "subgroupMin"},
                                         {"$value", std::string(wgsl_name(accumulated))}});
      }
      // -0 equals 0.
      return std::string(kOrderText) + R"(
fn plain(v: f32) -> f32 { return bitcast<f32>(select(bitcast<u32>(v), 0u, bitcast<u32>(v) << 1u == 0u)); }
)" +
             fill(std::string(kText), {{"$key", high ? "order_of(plain(a.value))" : "low_order_of(plain(a.value))"},
                                       {"$best", "subgroupMax"},
                                       {"$value", high ? "in_order" : "in_low_order"}});
    }
    case Reduction::variance:
    case Reduction::deviation:
      // The first element of some thread that has any stands for all; then the mean of means, and squares around it.
      return R"(
fn over_subgroup(a: Acc) -> Acc {
  let some = a.w > 0.0;
  let origin = bitcast<f32>(subgroupMax(select(0u, bitcast<u32>(a.x), some)));
  let n = subgroupAdd(a.w);
  let d = select(0.0, apart(a.x, origin) + a.y, some);
  let mean = subgroupAdd(d * (a.w / max(n, 1.0)));
  let e = select(0.0, d - mean, some);
  return Acc(origin, mean, subgroupAdd(a.z + (e * e) * a.w), n);
}
)";
    case Reduction::log_sum_exp:
      return std::string(kOrderText) + R"(
fn over_subgroup(a: Acc) -> Acc {
  let m = in_order(subgroupMax(order_of(a.x)));
  return Acc(m, subgroupAdd(select(0.0, a.y * share(a.x - m), is_finite(m))));
}
)";
    default: return is("subgroupAdd(a)");
  }
}

/// The entry point by_group.
std::string group_text(const ReducePass& pass) {
  if (pass.subgroups == 0) return std::string(wgsl::reduce_tree);
  std::string text = subgroup_text(pass.op, pass.x);
  if (pass.subgroups == 1) return text + std::string(wgsl::reduce_subgroup);
  text += fmt::format("const MOST_SUBGROUPS = {}u;\n", pass.subgroups);
  text += tops_text("tops", "Acc", "combine", "identity()", pass.subgroups);
  return text + std::string(wgsl::reduce_subgroups);
}

std::string writing_text(const ReducePass& pass) {
  const auto output = [](std::string_view type, std::string_view value) {
    return fmt::format(R"(
@group(0) @binding(1) var<storage, read_write> out: array<{0}>;
fn finish(acc: Acc) -> {0} {{ return {1}; }}
)",
                       type, value);
  };
  if (pass.sink == ReduceSink::accumulators) {
    if (gives_index(pass.op)) return output("vec2<u32>", "vec2<u32>(bitcast<u32>(acc.value), acc.index)");
    return output("Acc", "acc");
  }
  if (gives_index(pass.op)) return output("i32", "i32(acc.index)");
  if (pass.result == DType::bool_) {
    return output("u32", "acc") + R"(
// A thread for four outputs of one byte each, which share a word.
@compute @workgroup_size(64)
fn by_word(@builtin(global_invocation_id) id: vec3<u32>) {
  let t = flat(id);
  let first = t * 4u;
  if (first >= params.outputs) {
    return;
  }
  var word = 0u;
  for (var i = 0u; i < 4u && first + i < params.outputs; i++) {
    word |= finish(accumulate(first + i, 0u, params.reduced, 0u, 1u)) << (i * 8u);
  }
  out[params.out_offset / 4u + t] = word;
}
)";
  }
  const std::string_view type = wgsl_name(pass.result);
  const auto by = [&](std::string_view value) { return output(type, fmt::format("{}({})", type, value)); };
  switch (pass.op) {
    case Reduction::mean:
      return by(in_64_bits(pass.op, pass.x) ? "mean_of(number_of(acc), params.number)" : "mean_of(acc, params.number)");
    case Reduction::variance: return by("variance_of(acc)");
    case Reduction::deviation: return by("sqrt(variance_of(acc))");
    case Reduction::norm_2: return by("root_of(acc)");
    case Reduction::norm_p: return by("raised(acc, 1.0 / params.number)");
    case Reduction::log_sum_exp: return by("log_of(acc)");
    default: return by("acc");
  }
}

}  // namespace

bool gives_index(Reduction op) noexcept {
  return op == Reduction::argmax || op == Reduction::argmin;
}

bool in_blocks(Reduction op) noexcept {
  return op == Reduction::variance || op == Reduction::deviation || op == Reduction::log_sum_exp;
}

std::uint64_t accumulator_bytes(Reduction op, DType x) noexcept {
  switch (op) {
    case Reduction::mean: return in_64_bits(op, x) ? 8 : 4;
    case Reduction::argmax:
    case Reduction::argmin:
    case Reduction::log_sum_exp: return 8;
    case Reduction::variance:
    case Reduction::deviation:
    case Reduction::norm_2: return 16;
    default: return 4;
  }
}

std::uint32_t identity_bits(Reduction op, DType x) noexcept {
  const DType accumulated = accumulator(op, x);
  const auto lowest = [&] {
    if (accumulated == DType::f32) return std::bit_cast<std::uint32_t>(-std::numeric_limits<float>::infinity());
    return accumulated == DType::i32 ? 0x80000000u : 0u;
  };
  const auto highest = [&] {
    if (accumulated == DType::f32) return std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());
    return accumulated == DType::i32 ? 0x7fffffffu : 0xffffffffu;
  };
  switch (op) {
    case Reduction::prod: return accumulated == DType::f32 ? std::bit_cast<std::uint32_t>(1.0f) : 1u;
    case Reduction::all: return 1;
    case Reduction::max:
    case Reduction::argmax:
    case Reduction::log_sum_exp: return lowest();
    case Reduction::min:
    case Reduction::argmin:
    case Reduction::abs_min: return highest();
    default: return 0;
  }
}

std::string reduce_key(const ReducePass& pass, std::string_view entry) {
  // Accumulators of integers may be of another form than those of floats.
  const bool of_tensor = pass.source == ReduceSource::tensor || in_64_bits(pass.op, pass.x) || spread_of_integers(pass);
  const DType read = of_tensor ? pass.x : accumulator(pass.op, pass.x);
  const std::string_view written = pass.sink == ReduceSink::results ? to_string(pass.result) : "accumulators";
  std::string key = fmt::format("reduce:{}:{}:{}:{}:{}:{}", to_string(pass.op), to_string(read), entry,
                                static_cast<int>(pass.source), written, pass.quads);
  key += entry == kByGroup ? fmt::format(":{}:{}:{}:{}", pass.group, pass.row_threads, pass.subgroups, pass.four_quads)
                           : fmt::format(":{}:{}", pass.two_reduced, pass.splits_fast);
  return key;
}

KernelOptions reduce_options(const ReducePass& pass, std::string_view entry) {
  const bool by_group = entry == kByGroup;
  KernelOptions options;
  options.source =
      fmt::format("const QUADS = {};\nconst SPLITS_FAST = {};\nconst GROUP = {}u;\nconst ROW_THREADS = {}u;\n",
                  pass.quads, pass.splits_fast, pass.group, pass.row_threads);
  // A workgroup asks once a read: not worth another kernel.
  options.source +=
      fmt::format("fn two_reduced() -> bool {{ return {}; }}\n", by_group ? "params.reduced_inner < params.reduced"
                                                                 : pass.two_reduced ? "true"
                                                                                    : "false");
  options.source += combining_text(pass.op, pass.x) + reading_text(pass) + writing_text(pass);
  options.source += wgsl::reduce;
  options.source += pass.source == ReduceSource::tensor && in_blocks(pass.op) ? wgsl::reduce_blocks
                    : by_group && pass.four_quads                             ? wgsl::reduce_quads
                                                                              : wgsl::reduce_each;
  if (by_group) options.source += group_text(pass);
  options.entry_point = entry;
  options.label = fmt::format("{}.{}", to_string(pass.op), entry);
  return options;
}

}  // namespace weft::ops
