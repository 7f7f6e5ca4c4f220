#include "ops/sort_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ops/indexing_kernels.h"
#include "ops/wgsl.h"

namespace weft::ops {
namespace {

std::string params_text(bool first) {
  return fmt::format(R"(struct Params {{
  rows: u32, length: u32, run: u32, keep: u32, row_out: u32, {}: u32,
  x_offset: u32, kept_inner: u32, stride0: u32, stride1: u32, axis_stride: u32,
  out0: u32, out1: u32, out_axis: u32, values_offset: u32, indices_offset: u32,
}}
)",
                     first ? "mode" : "chunk");
}

/// key_of(i): the order of the elements as integers. Words are floats or integers, with a sign or not, by params.mode:
/// a kernel each would be three times as many to compile.
std::string_view key_text(bool half) {
  if (half)
    return R"(
fn key_of(i: u32) -> u32 {
  let u = (x[i / 2u] >> (16u * (i % 2u))) & 0xffffu;
  let m = u & 0x7fffu;
  let number = select(select(u | 0x8000u, 0xffffu - u, u > 0x8000u), 0x8000u, m == 0u);
  return select(number, 0x10000u, m > 0x7c00u) ^ (0u - (params.mode & DESCENDING));
}
)";
  return R"(
fn key_of(i: u32) -> u32 {
  let u = x[i];
  let m = u & 0x7fffffffu;
  let number = select(select(u | 0x80000000u, ~u, u > 0x80000000u), 0x80000000u, m == 0u);
  let real = select(number, 0xffffffffu, m > 0x7f800000u);
  let whole = u ^ select(0u, 0x80000000u, (params.mode & SIGNED) != 0u);
  return select(whole, real, (params.mode & REAL) != 0u) ^ (0u - (params.mode & DESCENDING));
}
)";
}

/// Batcher's odd-even merge sort of `run` pairs in registers: every lane the same steps, on data of its own.
std::string network_text(std::uint32_t run) {
  std::string text;
  for (std::uint32_t p = 1; p < run; p *= 2) {
    for (std::uint32_t k = p; k >= 1; k /= 2) {
      for (std::uint32_t j = k % p; j + k < run; j += 2 * k) {
        for (std::uint32_t i = j; i < std::min(j + k, run - k); ++i) {
          if (i / (2 * p) != (i + k) / (2 * p)) continue;
          text += fmt::format(
              "  {{ let s = (k{0} > k{1}) | ((k{0} == k{1}) & (p{0} > p{1}));\n"
              "    let k = select(k{0}, k{1}, s); k{1} = select(k{1}, k{0}, s); k{0} = k;\n"
              "    let p = select(p{0}, p{1}, s); p{1} = select(p{1}, p{0}, s); p{0} = p; }}\n",
              i, i + k);
        }
      }
    }
  }
  return text;
}

std::string by_thread_text(std::uint32_t run) {
  std::string load;
  std::string store;
  for (std::uint32_t i = 0; i < run; ++i) {
    load += fmt::format(
        "  var p{0} = start + {0}u;\n  var k{0} = key_of(at + min({0}u, last) * params.axis_stride);\n"
        "  k{0} = select(k{0}, 0xffffffffu, {0}u > last);\n",
        i);
    store += fmt::format("  if ({0}u < kept) {{ put(spot, {0}u, k{0}, p{0}); }}\n", i);
  }
  return fmt::format(R"(
@compute @workgroup_size(64)
fn by_thread(@builtin(global_invocation_id) id: vec3<u32>) {{
  let t = linear_index(id);
  let runs = runs_of_row();
  let row = t / runs;
  if (row >= params.rows) {{ return; }}
  let run = t - row * runs;
  let start = run * params.run;
  let count = min(params.run, params.length - start);
  let kept = min(count, params.keep);
  let last = count - 1u;
  let at = row_start(row) + start * params.axis_stride;
  let spot = spot_of(row, run);
{}{}{}}}
)",
                     load, network_text(run), store);
}

std::string_view value_type(const SortStage& s) {
  return s.half ? "f16" : "u32";
}

}  // namespace

std::string sort_key(const SortStage& s) {
  // Later stages know elements only where they move them.
  const std::string_view of = s.first || s.gives_values() ? value_type(s) : "";
  const std::string by = s.by_group ? "group" : s.first ? fmt::format("thread {}", s.run) : "thread";
  return fmt::format("sort.{} {} {} {}", s.first ? "first" : "merge", by, static_cast<int>(s.sink), of);
}

KernelOptions sort_options(const SortStage& s) {
  std::string text = params_text(s.first);
  int next = 0;
  const auto binding = [&](std::string_view name, std::string_view type, bool written = false) {
    text += fmt::format("@group(0) @binding({}) var<storage, {}> {}: array<{}>;\n", next++,
                        written ? "read_write" : "read", name, type);
  };
  if (s.first) {
    binding("x", "u32");
    if (s.half && s.gives_values()) binding("elements", "f16");
    text +=
        fmt::format("const DESCENDING = {}u;\nconst REAL = {}u;\nconst SIGNED = {}u;\n", kDescending, kReal, kSigned);
    text += key_text(s.half);
  } else {
    if (s.gives_values()) binding("elements", value_type(s));
    binding("keys", "u32");
    binding("places", "u32");
  }
  // Where a run goes, worked out once for all of its elements; and how element j of it is put there.
  const std::string_view place = s.first ? "at" : "places[at]";
  if (s.sink == SortSink::runs) {
    text += fmt::format(R"(
alias Spot = u32;
fn spot_of(row: u32, run: u32) -> Spot {{ return row * params.row_out + run * params.keep; }}
fn put(spot: Spot, j: u32, key: u32, at: u32) {{
  keys_out[spot + j] = key;
  places_out[spot + j] = {};
}}
)",
                        place);
    binding("keys_out", "u32", true);
    binding("places_out", "u32", true);
  } else {
    text += fmt::format(R"(
struct Spot {{ out: u32, x: u32 }}
fn spot_of(row: u32, run: u32) -> Spot {{
  let outer = row / params.kept_inner;
  let inner = row - outer * params.kept_inner;
  return Spot(outer * params.out0 + inner * params.out1,
              params.x_offset + outer * params.stride0 + inner * params.stride1);
}}
fn put(spot: Spot, j: u32, key: u32, at: u32) {{
  let place = {};
  let d = spot.out + j * params.out_axis;
)",
                        place);
    if (s.gives_values()) {
      text += fmt::format("  values[params.values_offset + d] = {}[spot.x + place * params.axis_stride];\n",
                          s.first && !s.half ? "x" : "elements");
    }
    if (s.gives_indices()) text += "  indices[params.indices_offset + d] = place;\n";
    text += "}\n";
    if (s.gives_values()) binding("values", value_type(s), true);
    if (s.gives_indices()) binding("indices", "u32", true);
  }
  KernelOptions o;
  o.label = fmt::format("weft.sort.{}", s.first ? "first" : "merge");
  o.entry_point = s.by_group ? "by_group" : "by_thread";
  if (s.first) {
    text += s.by_group ? "" : by_thread_text(s.run);
    text += wgsl::sort_first;
  } else {
    text += wgsl::sort_merge;
  }
  o.source = std::move(text);
  return o;
}

void visit_sort_kernels(const Device& device, const KernelVisitor& visit) {
  const auto each = [&](SortStage stage) {
    for (SortSink sink : {SortSink::runs, SortSink::values, SortSink::indices, SortSink::both}) {
      stage.sink = sink;
      for (bool half : {false, true}) {
        stage.half = half;
        // Of later stages that don't move elements there is one for all.
        if (half && (!device.features().f16 || (!stage.first && !stage.gives_values()))) continue;
        visit(sort_key(stage), sort_options(stage));
      }
    }
  };
  each({.first = true, .by_group = true});
  each({.first = true, .run = kShortRun});
  each({.first = true, .run = kThreadRun});
  each({.first = false, .by_group = true});
  each({.first = false});
}

}  // namespace weft::ops
