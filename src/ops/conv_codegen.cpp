#include "ops/conv_codegen.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/element_math.h"
#include "ops/wgsl_text.h"

namespace weft::ops {
namespace {

constexpr std::string_view kComponents = "xyzw";

constexpr std::string_view kNames =
    "groups tiles_m tiles_n rows columns parts out_h out_w in_h in_w step_h step_w base_h base_w h_0 h_1 h_2 w_0 w_1 "
    "w_2 divide_h divide_w x_offset x_n x_g x_h x_w x_0 x_1 x_2 f_offset f_g f_m f_0 f_1 f_2 o_offset o_n o_g o_m o_h "
    "o_w o_part inner chunk length_0 length_1 length_2 depth_0 depth_1 depth_2 has_bias "
    "bias_offset zero";
constexpr std::size_t name_count() {
  std::size_t n = 1;
  for (char c : kNames) n += c == ' ';
  return n;
}
static_assert(name_count() * 4 == sizeof(ConvParams), "the names are those of the members, in order");

std::string word(std::uint64_t v) {
  return fmt::format("{}u", v);
}

/// Of element_math; empty for none.
std::string_view function_of(Activation a) {
  switch (a) {
    case Activation::none: return "";
    case Activation::relu: return "f_relu";
    case Activation::gelu: return "f_gelu";
    case Activation::gelu_tanh: return "f_gelu_tanh";
    case Activation::silu: return "f_silu";
  }
  return "";
}

/// Columns are found from the start of their tile, whose own place takes two divisions: those by lengths of each column
/// would take longer than a short sum.
constexpr std::string_view kColumns = R"(
struct Column { n: u32, h: u32, w: u32 }
fn tile_start(column: u32) -> Column {
  let line = column / params.out_w;
  let n = line / params.out_h;
  return Column(n, line - n * params.out_h, column - line * params.out_w);
}
// a / b and the rest, where a < b + 2^16: the quotient is small enough that its error is below 1.
fn split(a: u32, b: u32) -> vec2u {
  let q = u32(f32(a) / f32(b));
  let rest = i32(a - q * b);
  let less = rest < 0;
  let more = rest >= i32(b);
  return vec2u(q + select(0u, 1u, more) - select(0u, 1u, less),
               u32(rest + select(0, i32(b), less) - select(0, i32(b), more)));
}
fn column_behind(start: Column, step: u32) -> Column {
  let w = split(start.w + step, params.out_w);
  let h = split(start.h + w.x, params.out_h);
  return Column(start.n + h.x, h.y, w.y);
}
)";

/// Parameters, bindings, and `finish`, which makes results of four sums.
std::string head(const ConvSpec& s) {
  std::string text = "struct Params {\n";
  std::string_view names = kNames;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    text += fmt::format("  {}: u32,\n", names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  text += "}\n";
  text += fmt::format("alias In = {};\nalias Out = {};\n", wgsl_name(s.in), wgsl_name(s.out));
  const std::string_view operand = s.plan.kind == ConvKind::packed ? "array<vec4f>" : "array<In>";
  text += fmt::format("@group(0) @binding(0) var<storage, read> x: {};\n", operand);
  text += fmt::format("@group(0) @binding(1) var<storage, read> f: {};\n", operand);
  text += "@group(0) @binding(2) var<storage, read_write> out: array<Out>;\n";
  text += "@group(0) @binding(3) var<storage, read> bias: array<In>;\n";
  MathSet math;
  std::string value = "v";
  const std::string_view activation = function_of(s.activation);
  if (!activation.empty()) {
    math.need(activation);
    value = fmt::format("{}({})", activation, value);
  }
  if (s.out == DType::f16) {
    math.need("to_f16");
    value = fmt::format("to_f16({})", value);
  }
  text += math.source();
  text += kColumns;
  text += R"(fn bias_of(row: u32) -> f32 {
  return select(0.0, f32(bias[select(0u, params.bias_offset + row, params.has_bias == 1u)]), params.has_bias == 1u);
}
)";
  text += fmt::format("fn finish(v: vec4f) -> vec4<Out> {{ return vec4<Out>({}); }}\n", value);
  return text;
}

/// The workgroup's place: `group` (of the convolution), `tile_m`, `tile_n`, and its part [begin, end) of the inner
/// axis. Rows go fastest, so that neighbouring workgroups read the same part of x.
std::string entry(const ConvSpec& s) {
  return fmt::format(R"(
@compute @workgroup_size({})
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) t: u32) {{
  let index = id.x + id.y * 32768u;
  if (index >= params.groups) {{ return; }}
  let tile_m = index % params.tiles_m;
  let rest_n = index / params.tiles_m;
  let tile_n = rest_n % params.tiles_n;
  let rest = rest_n / params.tiles_n;
  let group = {};
  let part = {};
  let begin = part * params.chunk;
  let end = min(begin + params.chunk, params.inner);
  let start = tile_start(tile_n * {}u);
)",
                     s.plan.threads, s.plan.lanes_channels ? "0u" : "rest % params.parts",
                     s.plan.lanes_channels ? "rest" : "rest / params.parts", s.plan.tile_n);
}

/// `n`, `h`, `w` of a column of the tile, suffixed: what it is in the batch and in the output.
std::string column_of(const ConvSpec& s, std::string_view suffix, std::string_view column) {
  return fill(R"(
  let at$S_ = column_behind(start, $COLUMN - tile_n * $TILE_N);
  let w$S = at$S_.w;
  let n$S = at$S_.n;
  let h$S = at$S_.h;
)",
              {{"$COLUMN", std::string(column)}, {"$S", std::string(suffix)}, {"$TILE_N", word(s.plan.tile_n)}});
}

/// `var sums`, an array of the named sums: what loops over results indexes. Loops, of a length that no compiler knows,
/// since compilers take long over the same few lines for each of up to 16 vectors.
std::string sums_array(const std::vector<std::string>& names) {
  return fmt::format("  var sums = array<vec4f, {}>({});\n", names.size(), fmt::join(names, ", "));
}

constexpr std::string_view kOutAt =
    "params.o_offset + part * params.o_part + g * params.o_g + n * params.o_n + h * params.o_h + w * params.o_w";

/// Writes a lane's sums: sum number q * columns + i is of quad q of the rows and column i; where it has one row, sum q
/// is of four columns.
std::string block_store(const ConvSpec& s) {
  const ConvPlan& plan = s.plan;
  const bool by_rows = plan.rows >= 4;
  const std::uint32_t sums = plan.columns * (by_rows ? plan.rows : 1) / 4;
  std::vector<std::string> names;
  names.reserve(sums);
  for (std::uint32_t i = 0; i < sums; ++i) names.push_back(fmt::format("sum{}", i));
  std::string text = sums_array(names);
  text += fmt::format(
      "  for (var i = 0u; i < {0}u + params.zero; i++) {{\n    let column = tile_n * {1}u + {2};\n"
      "    if ({3}column < params.columns) {{\n",
      plan.columns, plan.tile_n, plan.lanes_channels ? "i" : fmt::format("t + i * {}u", plan.threads),
      by_rows ? "" : "live && ");
  text += column_of(s, "", "column");
  text += fmt::format("  let o = {} + row * params.o_m;\n", kOutAt);
  if (!by_rows) {
    return text + R"(  let r = finish(sums[i / 4u] + vec4f(bias_of(g * params.rows + row)));
  out[o] = r[i % 4u];
    }
  }
)";
  }
  text += fmt::format(
      "  for (var q = 0u; q < {}u + params.zero; q++) {{\n    let first = row + q * 4u;\n    let b = vec4f(",
      plan.rows / 4);
  for (std::uint32_t e = 0; e < 4; ++e) {
    text += fmt::format("{}bias_of(g * params.rows + min(first + {}u, params.rows - 1u))", e == 0 ? "" : ", ", e);
  }
  text += fmt::format(");\n    let r = finish(sums[q * {}u + i] + b);\n", plan.columns);
  for (std::uint32_t e = 0; e < 4; ++e) {
    text += fmt::format("    if (first + {0}u < params.rows) {{ out[o + (q * 4u + {0}u) * params.o_m] = r.{1}; }}\n", e,
                        kComponents[e]);
  }
  return text + "  }\n    }\n  }\n";
}

/// Sums of a lane. Four rows of a column are a vector; of one row alone, four columns.
std::string block_source(const ConvSpec& s) {
  const ConvPlan& plan = s.plan;
  const std::uint32_t columns = plan.columns;
  const bool by_rows = plan.rows >= 4;
  const std::uint32_t quads = by_rows ? plan.rows / 4 * columns : columns / 4;

  std::string text = head(s) + entry(s);
  // `row` is the lane's first row in its group, `g` the group that it is of.
  if (plan.lanes_channels) {
    text += fmt::format(R"(
  let channel = min(tile_m * {}u + t, params.rows * params.parts - 1u);
  let g = channel / params.rows;
  let row = channel - g * params.rows;
  let live = tile_m * {}u + t < params.rows * params.parts;
)",
                        plan.threads, plan.threads);
  } else {
    text += fmt::format("  let g = group;\n  let row = tile_m * {}u;\n  let live = true;\n", plan.tile_m);
  }
  for (std::uint32_t i = 0; i < columns; ++i) {
    text += fmt::format("  let column{} = tile_n * {}u + {}{}u;\n", i, plan.tile_n, plan.lanes_channels ? "" : "t + ",
                        plan.lanes_channels ? i : i * plan.threads);
    text += fmt::format("  let held{0} = min(column{0}, params.columns - 1u);\n", i);
    text += column_of(s, std::to_string(i), fmt::format("held{}", i));
    text += fmt::format(
        "  let ph{0} = h{0} * params.step_h + params.base_h;\n"
        "  let pw{0} = w{0} * params.step_w + params.base_w;\n",
        i);
    text += fmt::format("  let x{0} = params.x_offset + g * params.x_g + n{0} * params.x_n{1};\n", i,
                        s.divided ? "" : fmt::format(" + ph{0} * params.x_h + pw{0} * params.x_w", i));
  }
  if (by_rows) {
    for (std::uint32_t r = 0; r < plan.rows; ++r) {
      text += fmt::format(
          "  let f{0} = params.f_offset + g * params.f_g + min(row + {0}u, params.rows - 1u) * params.f_m;\n", r);
    }
  } else {
    text += "  let f0 = params.f_offset + g * params.f_g + row * params.f_m;\n";
  }
  for (std::uint32_t q = 0; q < quads; ++q) text += fmt::format("  var sum{} = vec4f();\n", q);
  // Places inside x, and where to read. Outside stand zeros, read from a place that is there.
  std::string places;
  for (std::uint32_t i = 0; i < columns; ++i) {
    if (s.moves) {
      places +=
          fmt::format("    var ih{0} = ph{0} + ho;\n    var iw{0} = pw{0} + wo;\n    var at{0} = x{0} + xo;\n", i);
      continue;
    }
    if (s.divided) {
      places += fill(R"(    let ih$I = ph$I + ho;
    let iw$I = pw$I + wo;
    let qh$I = ih$I / params.divide_h;
    let qw$I = iw$I / params.divide_w;
    let in$I = ih$I < 0x80000000u && iw$I < 0x80000000u && qh$I * params.divide_h == ih$I &&
               qw$I * params.divide_w == iw$I && qh$I < params.in_h && qw$I < params.in_w;
    var at$I = select(params.x_offset, x$I + qh$I * params.x_h + qw$I * params.x_w + xo, in$I);
    let step$I = select(0u, params.x_2, in$I);
)",
                     {{"$I", std::to_string(i)}});
      continue;
    }
    places += fill(R"(    let in$I = ph$I + ho < params.in_h && pw$I + wo < params.in_w;
    var at$I = select(params.x_offset, x$I + xo, in$I);
    let step$I = select(0u, params.x_2, in$I);
)",
                   {{"$I", std::to_string(i)}});
  }
  // One line of the inner axes after the other: all that is the same along the innermost is known before it starts.
  text += fmt::format(R"(
  var j = begin;
  var i2 = j % params.length_2;
  var i1 = j / params.length_2 % params.length_1;
  var i0 = j / params.length_2 / params.length_1;
  while (j < end) {{
    let count = min(params.length_2 - i2, end - j);
    let ho = i0 * params.h_0 + i1 * params.h_1 + i2 * params.h_2;
    let wo = i0 * params.w_0 + i1 * params.w_1 + i2 * params.w_2;
    let xo = i0 * params.x_0 + i1 * params.x_1 + i2 * params.x_2;
    var fo = i0 * params.f_0 + i1 * params.f_1 + i2 * params.f_2;
{}    for (var i = 0u; i < count; i++) {{
)",
                      places);
  for (std::uint32_t i = 0; i < columns; ++i) {
    if (s.moves) {
      text += fill(R"(      let in$I = ih$I < params.in_h && iw$I < params.in_w;
      let v$I = select(0.0, f32(x[select(params.x_offset, at$I, in$I)]), in$I);
      at$I += params.x_2;
      ih$I += params.h_2;
      iw$I += params.w_2;
)",
                   {{"$I", std::to_string(i)}});
    } else {
      text += fmt::format("      let v{0} = select(0.0, f32(x[at{0}]), in{0});\n      at{0} += step{0};\n", i);
    }
  }
  if (by_rows) {
    for (std::uint32_t q = 0; q < plan.rows / 4; ++q) {
      text += fmt::format(
          "      let m{0} = vec4f(f32(f[f{1} + fo]), f32(f[f{2} + fo]), f32(f[f{3} + fo]), f32(f[f{4} + fo]));\n", q,
          q * 4, q * 4 + 1, q * 4 + 2, q * 4 + 3);
      for (std::uint32_t i = 0; i < columns; ++i) {
        text += fmt::format("      sum{0} = fma(vec4f(v{1}), m{2}, sum{0});\n", q * columns + i, i, q);
      }
    }
  } else {
    text += "      let m = vec4f(f32(f[f0 + fo]));\n";
    for (std::uint32_t q = 0; q < quads; ++q) {
      text += fmt::format("      sum{0} = fma(vec4f(v{1}, v{2}, v{3}, v{4}), m, sum{0});\n", q, q * 4, q * 4 + 1,
                          q * 4 + 2, q * 4 + 3);
    }
  }
  text += R"(      fo += params.f_2;
    }
    j += count;
    i2 = 0u;
    i1 += 1u;
    if (i1 == params.length_1) {
      i1 = 0u;
      i0 += 1u;
    }
  }
)";
  return text + block_store(s) + "}\n";
}

// -- packed ---------------------------------------------------------------------------------------------------------

/// As a block of rows, where x and f are vec4s of channels and of rows, the filter in the very order of the loop.
std::string packed_source(const ConvSpec& s) {
  const ConvPlan& plan = s.plan;
  const std::uint32_t columns = plan.columns;
  const std::uint32_t quads = plan.rows / 4;
  std::string text = head(s) + entry(s);
  text += fmt::format("  let g = group;\n  let row = tile_m * {}u;\n", plan.tile_m);
  for (std::uint32_t i = 0; i < columns; ++i) {
    text += fmt::format(
        "  let column{0} = tile_n * {1}u + t + {2}u;\n  let held{0} = min(column{0}, params.columns - 1u);\n", i,
        plan.tile_n, i * plan.threads);
    text += column_of(s, std::to_string(i), fmt::format("held{}", i));
    text += fill(R"(  let x$I = params.x_offset + g * params.x_g + n$I * params.x_n +
            (h$I * params.step_h + params.base_h) * params.x_h + (w$I * params.step_w + params.base_w) * params.x_w;
)",
                 {{"$I", std::to_string(i)}});
  }
  for (std::uint32_t q = 0; q < quads * columns; ++q) text += fmt::format("  var sum{} = vec4f();\n", q);
  text += fmt::format(R"(
  var fo = params.f_offset + g * params.f_g + tile_m * params.f_m + begin * {}u;
  var j = begin;
  var i2 = j % params.length_2;
  var i1 = j / params.length_2 % params.length_1;
  var i0 = j / params.length_2 / params.length_1;
  while (j < end) {{
    let count = min(params.length_2 - i2, end - j);
    var xo = i0 * params.x_0 + i1 * params.x_1 + i2 * params.x_2;
    for (var i = 0u; i < count; i++) {{
)",
                      plan.rows);
  for (std::uint32_t i = 0; i < columns; ++i) text += fmt::format("      let v{0} = x[x{0} + xo];\n", i);
  for (std::uint32_t e = 0; e < 4; ++e) {
    for (std::uint32_t q = 0; q < quads; ++q) {
      text += fmt::format("      let m{}_{} = f[fo + {}u];\n", e, q, e * quads + q);
      for (std::uint32_t i = 0; i < columns; ++i) {
        text += fmt::format("      sum{0} = fma(vec4f(v{1}.{2}), m{3}_{4}, sum{0});\n", q * columns + i, i,
                            kComponents[e], e, q);
      }
    }
  }
  text += fmt::format(R"(      xo += params.x_2;
      fo += {}u;
    }}
    j += count;
    i2 = 0u;
    i1 += 1u;
    if (i1 == params.length_1) {{
      i1 = 0u;
      i0 += 1u;
    }}
  }}
)",
                      plan.rows);
  return text + block_store(s) + "}\n";
}

// -- tile -----------------------------------------------------------------------------------------------------------

/// How the workgroup's threads bring one operand's tile: each `quads` times four elements of one inner place, which lie
/// a quarter of the tile apart, so that neighbouring threads read neighbours.
struct TileShare {
  std::uint32_t quads = 0;   ///< a thread brings
  std::uint32_t across = 0;  ///< quads of the tile along rows or columns
  bool inner = false;        ///< neighbouring threads lie along the inner axis

  /// The thread's quad q lies at this inner place of the tile, and at this quad across it.
  std::string place(std::uint32_t q, std::uint32_t threads, std::uint32_t depth) const {
    return inner ? fmt::format("t % {}u", depth) : fmt::format("(t / {}u + {}u)", across, q * (threads / across));
  }
  std::string quad(std::uint32_t q, std::uint32_t threads, std::uint32_t depth) const {
    return inner ? fmt::format("(t / {}u + {}u)", depth, q * (threads / depth)) : fmt::format("t % {}u", across);
  }
};

/// Inner indices of a thread's quads, and their advance by a tile's depth without divisions.
std::string indices_of(std::string_view name, const std::string& place) {
  return fill(R"(  var $N_j = begin + $PLACE;
  var $N_2 = $N_j % params.length_2;
  var $N_1 = $N_j / params.length_2 % params.length_1;
  var $N_0 = $N_j / params.length_2 / params.length_1;
)",
              {{"$N", std::string(name)}, {"$PLACE", place}});
}
std::string advance_by_tile(std::string_view name, std::uint32_t depth) {
  return fill(R"(      $N_j += $DEPTH;
      $N_2 += params.depth_2;
      $N_1 += params.depth_1;
      $N_0 += params.depth_0;
      if ($N_2 >= params.length_2) { $N_2 -= params.length_2; $N_1 += 1u; }
      if ($N_1 >= params.length_1) { $N_1 -= params.length_1; $N_0 += 1u; }
)",
              {{"$N", std::string(name)}, {"$DEPTH", word(depth)}});
}

std::string tile_source(const ConvSpec& s) {
  const ConvPlan& plan = s.plan;
  const std::uint32_t threads = plan.threads;
  const std::uint32_t depth = plan.depth;
  const std::uint32_t quads_m = plan.rows / 4;
  const std::uint32_t quads_n = plan.columns / 4;
  const std::uint32_t lanes_m = plan.tile_m / plan.rows;
  const std::uint32_t lanes_n = plan.tile_n / plan.columns;
  const std::uint32_t across_m = plan.tile_m / 4;
  const std::uint32_t across_n = plan.tile_n / 4;
  const TileShare a{depth * across_m / threads, across_m, true};
  const TileShare b{depth * across_n / threads, across_n, s.x_inner};
  // One vec4 of padding a row where neighbouring threads write along the inner axis, else they meet in one bank.
  const std::uint32_t row_a = across_m + 1;
  const std::uint32_t row_b = across_n + (s.x_inner ? 1 : 0);

  std::string text = head(s);
  text += fmt::format(
      "fn place(start: Column, tile_n: u32, column: u32, part: u32, g: u32) -> u32 {{\n{}  return {};\n}}\n",
      column_of(s, "", "column"), kOutAt);
  text += fmt::format("var<workgroup> tile_a: array<vec4f, {}>;\nvar<workgroup> tile_b: array<vec4f, {}>;\n",
                      depth * row_a, depth * row_b);
  text += entry(s);

  std::string load, keep, next;
  // Of the filter, whose inner axis is what lies side by side as a rule: quad i holds the rows i, i + across, ...
  text += indices_of("ja", a.place(0, threads, depth));
  next += advance_by_tile("ja", depth);
  load +=
      "      let ja_f = ja_0 * params.f_0 + ja_1 * params.f_1 + ja_2 * params.f_2;\n      let ja_in = ja_j < end;\n";
  for (std::uint32_t q = 0; q < a.quads; ++q) {
    load += fmt::format("      qa{} = vec4f(", q);
    for (std::uint32_t e = 0; e < 4; ++e) {
      text += fmt::format(
          "  let f{}_{} = params.f_offset + group * params.f_g + min(tile_m * {}u + {} + {}u, params.rows - 1u) * "
          "params.f_m;\n",
          q, e, plan.tile_m, a.quad(q, threads, depth), e * across_m);
      load += fmt::format("{}f32(f[select(params.f_offset, f{}_{} + ja_f, ja_in)])", e == 0 ? "" : ", ", q, e);
    }
    load += fmt::format(");\n      qa{0} = select(vec4f(), qa{0}, ja_in);\n", q);
    keep += fmt::format("      tile_a[({}) * {}u + {}] = qa{};\n", a.place(q, threads, depth), row_a,
                        a.quad(q, threads, depth), q);
    text += fmt::format("  var qa{} = vec4f();\n", q);
  }
  for (std::uint32_t q = 0; q < b.quads; ++q) {
    const std::string jb = b.inner ? "jb" : fmt::format("jb{}", q);
    if (!b.inner || q == 0) {
      text += indices_of(jb, b.place(q, threads, depth));
      next += advance_by_tile(jb, depth);
      load += fmt::format("      let {0}_x = {0}_0 * params.x_0 + {0}_1 * params.x_1 + {0}_2 * params.x_2;\n", jb);
      load += fmt::format(
          "      let {0}_h = {0}_0 * params.h_0 + {0}_1 * params.h_1 + {0}_2 * params.h_2;\n"
          "      let {0}_w = {0}_0 * params.w_0 + {0}_1 * params.w_1 + {0}_2 * params.w_2;\n",
          jb);
      load += fmt::format("      let {0}_in = {0}_j < end;\n", jb);
    }
    if (b.inner || q == 0) {
      for (std::uint32_t e = 0; e < 4; ++e) {
        const std::string n = fmt::format("{}_{}", q, e);
        text += fmt::format("  let c{} = min(tile_n * {}u + {} + {}u, params.columns - 1u);\n", n, plan.tile_n,
                            b.quad(q, threads, depth), e * across_n);
        text += column_of(s, n, "c" + n);
        text += fill(R"(  let ph$N = h$N * params.step_h + params.base_h;
  let pw$N = w$N * params.step_w + params.base_w;
  let x$N = params.x_offset + group * params.x_g + n$N * params.x_n + ph$N * params.x_h + pw$N * params.x_w;
)",
                     {{"$N", n}});
      }
    }
    for (std::uint32_t e = 0; e < 4; ++e) {
      const std::string n = fmt::format("{}_{}", b.inner ? q : 0, e);
      load += fmt::format(
          "      let in{0}_{1} = {2}_in && ph{3} + {2}_h < params.in_h && pw{3} + {2}_w < params.in_w;\n", q, e, jb, n);
    }
    load += fmt::format("      qb{} = vec4f(", q);
    for (std::uint32_t e = 0; e < 4; ++e) {
      load += fmt::format("{}f32(x[select(params.x_offset, x{}_{} + {}_x, in{}_{})])", e == 0 ? "" : ", ",
                          b.inner ? q : 0, e, jb, q, e);
    }
    load +=
        fmt::format(");\n      qb{0} = select(vec4f(), qb{0}, vec4<bool>(in{0}_0, in{0}_1, in{0}_2, in{0}_3));\n", q);
    keep += fmt::format("      tile_b[({}) * {}u + {}] = qb{};\n", b.place(q, threads, depth), row_b,
                        b.quad(q, threads, depth), q);
    text += fmt::format("  var qb{} = vec4f();\n", q);
  }
  text += fmt::format("  let lane_n = t % {0}u;\n  let lane_m = t / {0}u;\n", lanes_n);
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    for (std::uint32_t q = 0; q < quads_n; ++q) text += fmt::format("  var sum{}_{} = vec4f();\n", r, q);
  }
  // Each thread's share of the next pair of tiles is on its way to registers while the pair before it is multiplied.
  text += fmt::format(R"(
  var k = begin;
  loop {{
    if (k < end) {{
{}{}    }}
    if (k > begin) {{
      for (var i = 0u; i < {}u; i++) {{
)",
                      load, next, depth);
  for (std::uint32_t q = 0; q < quads_m; ++q) {
    text += fmt::format("        let a{} = tile_a[i * {}u + lane_m + {}u];\n", q, row_a, q * lanes_m);
  }
  for (std::uint32_t q = 0; q < quads_n; ++q) {
    text += fmt::format("        let b{} = tile_b[i * {}u + lane_n + {}u];\n", q, row_b, q * lanes_n);
  }
  for (std::uint32_t r = 0; r < plan.rows; ++r) {
    for (std::uint32_t q = 0; q < quads_n; ++q) {
      text += fmt::format("        sum{0}_{1} = fma(vec4f(a{2}.{3}), b{1}, sum{0}_{1});\n", r, q, r / 4,
                          kComponents[r % 4]);
    }
  }
  text += fmt::format(R"(      }}
    }}
    if (k >= end) {{ break; }}
    workgroupBarrier();
{}    workgroupBarrier();
    k += {}u;
  }}
)",
                      keep, depth);
  // Component e of quad i is row, or column, e * across + i of the tile.
  std::vector<std::string> names;
  for (std::uint32_t q = 0; q < quads_n; ++q) {
    for (std::uint32_t r = 0; r < plan.rows; ++r) names.push_back(fmt::format("sum{}_{}", r, q));
  }
  text += sums_array(names);
  text += fmt::format("  let g = group;\n  for (var q = 0u; q < {}u + params.zero; q++) {{\n", quads_n);
  for (std::uint32_t e = 0; e < 4; ++e) {
    text += fmt::format(
        "  let column{0} = tile_n * {1}u + lane_n + q * {2}u + {3}u;\n  let at{0} = place(start, tile_n, column{0}, "
        "part, g);\n",
        e, plan.tile_n, lanes_n, e * across_n);
  }
  text += fmt::format(R"(  for (var r = 0u; r < {0}u + params.zero; r++) {{
    let row = tile_m * {1}u + lane_m + r % 4u * {2}u + r / 4u * {3}u;
    if (row < params.rows) {{
      let v = finish(sums[q * {0}u + r] + vec4f(bias_of(g * params.rows + row)));
      let o = row * params.o_m;
)",
                      plan.rows, plan.tile_m, across_m, lanes_m);
  for (std::uint32_t e = 0; e < 4; ++e) {
    text += fmt::format("      if (column{0} < params.columns) {{ out[at{0} + o] = v.{1}; }}\n", e, kComponents[e]);
  }
  return text + "    }\n  }\n  }\n}\n";
}

std::string conv_source(const ConvSpec& spec) {
  switch (spec.plan.kind) {
    case ConvKind::tile: return tile_source(spec);
    case ConvKind::block: return block_source(spec);
    case ConvKind::packed: return packed_source(spec);
  }
  return {};
}

std::string pack_source(DType in) {
  std::string text = fmt::format(R"(struct Params {{
  count: u32, z: u32, b: u32, c: u32, d: u32, quads: u32, low_b: u32, low_c: u32,
  length_b: u32, length_c: u32, length_d: u32, length_e: u32,
  offset: u32, stride_a: u32, stride_b: u32, stride_c: u32, stride_d: u32, stride_e: u32,
}}
@group(0) @binding(0) var<storage, read> x: array<{}>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4f>;
)",
                                 wgsl_name(in));
  return text + R"(
fn element(start: u32, e: u32, inside: bool) -> f32 {
  let held = inside && e < params.length_e;
  return select(0.0, f32(x[select(params.offset, start + e * params.stride_e, held)]), held);
}
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i >= params.count) { return; }
  let q = i % params.quads;
  let i_d = i / params.quads;
  let d = i_d % params.d;
  let i_c = i_d / params.d;
  let c = i_c % params.c + params.low_c;
  let i_b = i_c / params.c;
  let b = i_b % params.b + params.low_b;
  let i_z = i_b / params.b;
  let e = ((i_z % params.z) * params.quads + q) * 4u;
  let inside = b < params.length_b && c < params.length_c && d < params.length_d;
  let start = params.offset + i_z / params.z * params.stride_a + b * params.stride_b + c * params.stride_c +
             d * params.stride_d;
  out[i] = vec4f(element(start, e, inside), element(start, e + 1u, inside), element(start, e + 2u, inside),
                 element(start, e + 3u, inside));
}
)";
}

}  // namespace

std::string conv_key(const ConvSpec& s) {
  constexpr std::string_view kinds[] = {"tile", "block", "packed"};
  const ConvPlan& p = s.plan;
  return fmt::format("conv/{}/{}x{}/{}/{}x{}/{}/{}-{}/{}{}{}{}/{}", kinds[static_cast<std::size_t>(p.kind)], p.tile_m,
                     p.tile_n, p.threads, p.rows, p.columns, p.depth, wgsl_name(s.in), wgsl_name(s.out),
                     p.lanes_channels ? 'c' : '-', s.moves ? 'm' : '-', s.divided ? 'd' : '-', s.x_inner ? 'x' : '-',
                     static_cast<int>(s.activation));
}

std::string pack_key(DType in) {
  return fmt::format("conv/pack/{}", to_string(in));
}

KernelOptions pack_options(DType in) {
  KernelOptions options;
  options.source = pack_source(in);
  options.label = "weft.conv.pack";
  return options;
}

KernelOptions conv_options(const ConvSpec& spec) {
  KernelOptions options;
  options.source = conv_source(spec);
  options.label = "weft.conv";
  return options;
}

}  // namespace weft::ops
