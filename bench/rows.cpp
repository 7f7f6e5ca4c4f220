// The ways to run row ops and reductions of long rows against each other and a copy: what the tables of rows_plan.cpp
// and reduce.cpp are chosen by. All in turns, so that other work on the device falls on all of them alike; medians.
//   weft_bench_rows [millions (2^20) of floats: 64] [rounds: 9] [part of an op's name, or ""] [unchecked]
// `unchecked`: on a device for the library's kernels alone, which Dawn runs without bounds checks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/median.h"
#include "ops/reduce.h"
#include "ops/rows.h"
#include "ops/rows_plan.h"
#include "weft/weft.h"

namespace {

using weft::Tensor;
using weft::ops::KernelClass;

bool unchecked = false;

weft::Device& device() {
  static weft::Device opened = [] {
    weft::DeviceOptions options;
    options.library_kernels_only = unchecked;
    return weft::Device::open(options);
  }();
  return opened;
}

struct Row {
  std::string op, way;
  double bytes = 0;  ///< read and written by a call
  std::function<void()> choose, call;
  std::vector<double> rates{};  ///< GB/s, one a round
};

constexpr int kCalls = 16;  // of a round, so that the wait is a small part

double rate(const Row& row) {
  row.choose();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) row.call();
  device().synchronize();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return row.bytes * kCalls / took.count() / 1e9;
}

void choose(KernelClass kernels, std::size_t hold, std::size_t group) {
  weft::ops::force_kernel_class(kernels);
  weft::ops::force_hold_shape(hold);
  weft::ops::force_group_shape(group);
}

void add_copy(std::vector<Row>& rows, const Tensor& x) {
  const Tensor y = device().empty({x.size()}, weft::f32);
  const auto call = [=] { weft::into(y, [&] { return weft::unary(weft::UnaryOp::positive, x); }); };
  rows.push_back({"copy", "control", 2.0 * static_cast<double>(x.nbytes()), [] {}, call});
}

std::string length_of(const Tensor& x) {
  return std::to_string(x.shape()[0]) + "x" + std::to_string(x.shape()[1]);
}

/// Every hold shape of one row op, or the base tier and the table's choice.
void add_row_op(std::vector<Row>& rows, const std::string& name, bool every, const Tensor& x,
                const std::function<Tensor(const Tensor&)>& op) {
  const double bytes = 2.0 * static_cast<double>(x.nbytes());
  const auto call = [=] { op(x); };
  const std::string title = name + " " + length_of(x);
  const std::span<const weft::ops::HoldShape> shapes = weft::ops::hold_shapes();
  for (std::size_t i = 0; i < (every ? shapes.size() : 1); ++i) {
    const weft::ops::HoldShape& s = shapes[i];
    const std::string way = "units " + std::to_string(s.units) + ", threads <= " + std::to_string(s.most_threads) +
                            ", turns " + std::to_string(s.turns) + (s.subgroups ? ", subgroups" : ", tree");
    rows.push_back({title, way, bytes, [i] { choose(KernelClass::gpu_subgroups, i, 0); }, call});
  }
  if (!every) rows.push_back({title, "base tier", bytes, [] { choose(KernelClass::gpu, 0, 0); }, call});
}

void add_reduction(std::vector<Row>& rows, const std::string& name, bool every, const Tensor& x,
                   const std::function<Tensor(const Tensor&)>& op) {
  const auto bytes = static_cast<double>(x.nbytes());
  const auto call = [=] { op(x); };
  const std::string title = name + " " + length_of(x);
  const std::span<const weft::ops::GroupShape> shapes = weft::ops::group_shapes();
  for (std::size_t i = 0; i < (every ? shapes.size() : 1); ++i) {
    const weft::ops::GroupShape& s = shapes[i];
    const std::string way = "threads " + std::to_string(s.threads) + (s.subgroups ? ", subgroups" : ", tree") +
                            (s.four_quads ? ", four reads" : ", one read");
    rows.push_back({title, way, bytes, [i] { choose(KernelClass::gpu_subgroups, 0, i); }, call});
  }
  if (!every) rows.push_back({title, "base tier", bytes, [] { choose(KernelClass::gpu, 0, 0); }, call});
}

int run(std::int64_t floats, int rounds, std::string_view part) {
  weft::Random generator{1};
  const Tensor flat = weft::random_normal(device(), {floats}, generator);
  const auto as = [&](std::int64_t length) {
    const std::int64_t count = floats / length;
    return weft::reshape(weft::slice(flat, 0, 0, count * length), {count, length});
  };
  const auto along = [](weft::ReduceOp op) {
    return [op](const Tensor& x) { return weft::reduce(op, x, {.axes = std::vector<std::int64_t>{-1}}); };
  };
  const auto softmax = [](const Tensor& x) { return weft::softmax(x); };
  const auto layer_norm = [](const Tensor& x) { return weft::layer_norm(x); };
  const auto rms_norm = [](const Tensor& x) { return weft::rms_norm(x); };
  const auto variance = [](const Tensor& x) { return weft::var(x, {.axes = std::vector<std::int64_t>{-1}}); };

  std::vector<Row> rows;
  add_copy(rows, flat);
  add_row_op(rows, "softmax", true, as(4096), softmax);
  add_row_op(rows, "layer_norm", true, as(4096), layer_norm);
  add_row_op(rows, "rms_norm", true, as(4096), rms_norm);
  add_reduction(rows, "sum", true, as(4096), along(weft::ReduceOp::sum));
  add_reduction(rows, "max", true, as(4096), along(weft::ReduceOp::max));
  add_reduction(rows, "argmax", false, as(4096), along(weft::ReduceOp::argmax));
  add_reduction(rows, "var", true, as(4096), variance);
  add_reduction(rows, "sum of all", true, as(floats), along(weft::ReduceOp::sum));
  for (const std::int64_t length : {64, 256, 1024, 4095, 8192, 16384, 65536}) {
    if (length * 4 > floats) continue;
    add_row_op(rows, "softmax", false, as(length), softmax);
    add_row_op(rows, "layer_norm", false, as(length), layer_norm);
    add_reduction(rows, "sum", false, as(length), along(weft::ReduceOp::sum));
  }
  if (device().features().f16) {
    const Tensor half = weft::cast(as(4096), weft::f16);
    add_row_op(rows, "softmax f16", true, half, softmax);
    add_reduction(rows, "sum f16", true, half, along(weft::ReduceOp::sum));
  }
  std::erase_if(rows, [&](const Row& r) { return r.op != "copy" && r.op.find(part) == std::string::npos; });
  for (const Row& row : rows) rate(row);  // compiles, fills the pool
  for (int i = 0; i < rounds; ++i) {
    for (Row& row : rows) row.rates.push_back(rate(row));
  }
  choose(KernelClass::automatic, 0, 0);

  std::printf("%s, %s %s, %lld Mi floats, %d rounds%s; GB/s (of the copy)\n", device().adapter().name.c_str(),
              std::string(weft::implementation_name()).c_str(), std::string(weft::implementation_version()).c_str(),
              static_cast<long long>(floats >> 20), rounds, unchecked ? ", unchecked" : "");
  const double copy = weft::median(rows.front().rates);
  for (const Row& row : rows) {
    const double middle = weft::median(row.rates);
    const auto [low, high] = std::minmax_element(row.rates.begin(), row.rates.end());
    std::printf("%-24s %-48s %8.1f (%.3f)  %8.1f .. %.1f\n", row.op.c_str(), row.way.c_str(), middle, middle / copy,
                *low, *high);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, long otherwise) {
    return argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise;
  };
  const long millions = number(1, 64);
  const long rounds = number(2, 9);
  unchecked = argc > 4 && std::string_view(argv[4]) == "unchecked";
  if (millions < 1 || millions > 1024 || rounds < 1) {
    std::fprintf(stderr,
                 "usage: weft_bench_rows [millions of floats, 1 to 1024] [rounds] [part of an op's name, or \"\"] "
                 "[unchecked]\n");
    return 1;
  }
  try {
    return run(static_cast<std::int64_t>(millions) << 20, static_cast<int>(rounds), argc > 3 ? argv[3] : "");
  } catch (const weft::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
