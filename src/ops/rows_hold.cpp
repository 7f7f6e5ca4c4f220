#include "ops/rows_hold.h"

#include <fmt/format.h>

#include <string_view>

#include "ops/subgroups.h"
#include "ops/wgsl_text.h"

namespace weft::ops {
namespace {

/// fn `name`(place: Place, a: f32) -> f32: joins a value of each thread for all threads of the row, with one barrier.
/// Few threads a row: each joins them all.
std::string few_join(std::string_view name, std::string_view join, const RowPlan& plan) {
  return fmt::format(R"(
var<workgroup> {0}_of: array<f32, GROUP>;
fn {0}(place: Place, a: f32) -> f32 {{
  {0}_of[place.first + place.lane] = a;
  workgroupBarrier();
  return {1};
}}
)",
                     name, joined_text(join, fmt::format("{}_of[place.first + {{}}u]", name), plan.threads));
}

/// In two steps of two barriers in all: kTops threads join what stands kTops apart, then every thread joins theirs.
std::string tree_join(std::string_view name, std::string_view join, const RowPlan& plan) {
  constexpr std::uint32_t kTops = 16;
  const std::string apart = fmt::format("tree[place.lane + {{}}u * {}u]", kTops);
  return fmt::format(R"(
fn {0}(place: Place, a: f32) -> f32 {{
  tree[place.lane] = a;
  workgroupBarrier();
  if (place.lane < {1}u) {{
    tops[place.lane] = {2};
  }}
  workgroupBarrier();
  return {3};
}}
)",
                     name, kTops, joined_text(join, apart, plan.threads / kTops), joined_text(join, "tops[{}]", kTops));
}

/// A subgroup's value from each, then every thread joins those: one barrier, or none where one subgroup is the
/// workgroup.
std::string subgroup_join(std::string_view name, FirstJoin join, const RowPlan& plan) {
  const bool sum = join == FirstJoin::sum;
  const std::string_view over = sum ? "subgroupAdd(a)" : "subgroupMax(order_of(a))";
  const std::string_view finished = sum ? "{}" : "in_order({})";
  if (plan.subgroups == 1) {
    return fmt::format("fn {}(place: Place, a: f32) -> f32 {{ return {}; }}\n", name,
                       fmt::format(fmt::runtime(finished), over));
  }
  const std::string_view type = sum ? "f32" : "u32";
  const std::string tops = fmt::format("{}_tops", name);
  return fmt::format("var<workgroup> {}: array<{}, {}>;", tops, type, plan.subgroups) +
         tops_text(tops, type, sum ? "sum_of" : "max", sum ? "0.0" : "0u", plan.subgroups) +
         fmt::format(R"(
fn {0}(place: Place, a: f32) -> f32 {{
  let over = {1};
  if (place.in_subgroup == 0u) {{
    {2}[place.subgroup] = over;
  }}
  workgroupBarrier();
  return {3};
}}
)",
                     name, over, tops,
                     fmt::format(fmt::runtime(finished), fmt::format("tops_of_{}(place.subgroups)", tops)));
}

std::string joins_text(const RowOp& op, const RowPlan& plan) {
  std::string text = "fn sum_of(a: f32, b: f32) -> f32 { return a + b; }\n";
  if (plan.subgroups > 0) {
    if (!op.one_statistic) {
      if (op.first_join == FirstJoin::maximum) text += kOrderText;
      text += subgroup_join("row_first", op.first_join, plan);
    }
    return text + subgroup_join("row_sum", FirstJoin::sum, plan);
  }
  const bool few = plan.threads < plan.group;
  if (!few) text += "var<workgroup> tree: array<f32, GROUP>;\nvar<workgroup> tops: array<f32, 16>;\n";
  const auto add = [&](std::string_view name, std::string_view join) {
    text += few ? few_join(name, join, plan) : tree_join(name, join, plan);
  };
  if (!op.one_statistic) add("row_first", "first_all");
  add("row_sum", "sum_of");
  return text;
}

}  // namespace

std::string holding_text(const RowOp& op, const RowPlan& plan, bool pieces) {
  // Unrolled by name, as compilers put an array that a loop indexes into memory. All reads come before the first use,
  // so that they are under way together; past the end they read the last unit again.
  std::string fields, reads, moves, take, sums, store;
  for (std::uint32_t i = 0; i < plan.held; ++i) {
    const auto add = [&](std::string& text, std::string_view line) { text += fmt::format(fmt::runtime(line), i); };
    add(fields, "  v{0}: V,\n");
    add(reads, "\n    read_x(at + min(r + {0}u * STEP, last) * params.stride),");
    add(take, "\n    a = select(a, first_v(a, moved(h.origin, h.v{0})), r + {0}u * STEP < end);");
    if (op.from_first) add(moves, "\n    h.v{0} = moved(c, h.v{0});");
    if (op.keeps) add(sums, "\n    h.v{0} = kept(h.v{0}, m_rest);");
    add(sums, op.keeps ? "\n    s += select(0.0, sum_v(h.v{0}), r + {0}u * STEP < end);"
                       : "\n    s += select(0.0, second_v(h.v{0}, m_rest), r + {0}u * STEP < end);");
    add(store, op.keeps ? "\n    if (r + {0}u * STEP < end) {{ write_at(out_at, r + {0}u * STEP, "
                          "kept_result(h.v{0}, m_rest, s, r + {0}u * STEP)); }}"
                        : "\n    if (r + {0}u * STEP < end) {{ write_at(out_at, r + {0}u * STEP, "
                          "result(h.v{0}, m_rest, s, r + {0}u * STEP)); }}");
  }
  const std::string stats = (op.one_statistic ? std::string("\n    let m = 0.0;")
                                              : "\n    var a = none();" + take +
                                                    "\n    let m = first_of(row_first(place, a), f32(end - begin));") +
                            "\n    let c = centre(h.origin, m);\n    let m_rest = rest(h.origin, c, m);" + moves +
                            "\n    var s = 0.0;" + sums + "\n    s = row_sum(place, s);";
  const std::string_view builtins =
      plan.subgroups > 0 ? ", @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) in_subgroup: u32,\n"
                           "        @builtin(num_subgroups) subgroups: u32"
                         : "";
  const std::string_view place =
      plan.subgroups > 0 ? "Place(local % THREADS, local / THREADS * THREADS, subgroup, in_subgroup, subgroups)"
                         : "Place(local % THREADS, local / THREADS * THREADS, 0u, 0u, 0u)";
  const std::string head = fill(R"(
const THREADS = $threadsu;
const STEP = THREADS * UNIT;
struct Place {
  lane: u32,   // of the row's threads
  first: u32,  // thread of the row in the workgroup
  subgroup: u32,
  in_subgroup: u32,
  subgroups: u32,
}
struct Held {
$fields  origin: f32,
}
fn held_of(at: u32, begin: u32, end: u32, lane: u32) -> Held {
  let r = begin + lane * UNIT;
  let last = end - UNIT;
  return Held($reads
    $origin);
}
fn write_at(out_at: u32, r: u32, v: V) { write_out(out_at + r * params.out_stride, v); }
)",
                                {{"$threads", std::to_string(plan.threads)},
                                 {"$fields", fields},
                                 {"$reads", reads},
                                 {"$origin", "origin_at(at)"}});
  const std::string entry_head = fmt::format(
      "(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32{}) {{\n"
      "  let place = {};\n",
      builtins, place);
  // A row alone, or several in turns, of which the next is read before this one is finished.
  const std::string rows = plan.turns == 1 ? fill(R"(
  let given = (group.x + group.y * 32768u) * (GROUP / THREADS) + local / THREADS;
  let row = min(given, params.rows - 1u);
  var h = held_of(x_place(row), begin, end, place.lane);
  {$stats
    let out_at = out_place(row);
    if (given >= params.rows) {
      return;
    }$store
  }
)",
                                                  {{"$stats", stats}, {"$store", store}})
                                           : fill(R"(
  let given = (group.x + group.y * 32768u) * TURNS;
  var next = held_of(x_place(min(given, params.rows - 1u)), begin, end, place.lane);
  for (var turn = 0u; turn < TURNS; turn++) {
    var h = next;
    if (turn + 1u < TURNS) {
      next = held_of(x_place(min(given + turn + 1u, params.rows - 1u)), begin, end, place.lane);
    }$stats
    let out_at = out_place(min(given + turn, params.rows - 1u));$store$again
  }
)",
                                                  {{"$stats", stats},
                                                   {"$store", store},
                                                   // Else the next row's barrier parts its writes from these reads.
                                                   {"$again", op.one_statistic ? "\n    workgroupBarrier();" : ""}});
  const std::string shared = joins_text(op, plan) + head + fmt::format("const TURNS = {}u;\n", plan.turns);
  if (pieces) {
    return shared + "\n@compute @workgroup_size(GROUP)\nfn hold_stats" + entry_head +
           fill(R"(  let t = min(group.x + group.y * 32768u, params.rows * params.splits - 1u);
  let begin = t % params.splits * params.chunk;
  let end = min(begin + params.chunk, params.length);
  let r = begin + place.lane * UNIT;
  var h = held_of(x_place(t / params.splits), begin, end, place.lane);
  {$stats
    if (local == 0u) {
      pieces_out[t] = vec2<f32>(m, s);
    }
  }
}
)",
                {{"$stats", stats}});
  }
  return shared + "\n@compute @workgroup_size(GROUP)\nfn hold" + entry_head + R"(  let begin = 0u;
  let end = params.length;
  let r = place.lane * UNIT;)" +
         rows + "}\n";
}

}  // namespace weft::ops
