// weft bench - how fast this device is, in half a minute.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/app.h"
#include "cli/arrays.h"
#include "cli/error_report.h"
#include "cli/progress.h"
#include "cli/stats_report.h"
#include "weft/graph.h"
#include "weft/kernel.h"
#include "weft/ops.h"
#include "weft/stream.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::string device;
  bool json = false;
  double seconds = 1.0;  ///< a row
};

enum class Unit : std::uint8_t { bytes, flop, each };

struct Row {
  std::string name;
  Unit unit = Unit::bytes;
  double work = 1;     ///< bytes, operations or items a call
  std::string beside;  ///< the row whose rate is 100 %
  double seconds = 0;  ///< a call, median
  double spread = 0;   ///< (third quartile - first) / median
};

/// Calls `work`, which waits for itself, for about so many seconds in all, and gives quartiles of the time a call.
void measure(const std::function<void()>& work, double seconds, Row& row) {
  work();  // compiles
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto start = Clock::now();
    work();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end || times.size() < 3);
  std::sort(times.begin(), times.end());
  row.seconds = times[times.size() / 2];
  row.spread = (times[times.size() * 3 / 4] - times[times.size() / 4]) / row.seconds;
}

/// As many threads as an upload has: what its staging could reach if the link cost nothing.
void copy_on_host(std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  const std::size_t part = (from.size() + threads - 1) / threads;
  std::vector<std::thread> running;
  for (std::size_t at = 0; at < from.size(); at += part) {
    const std::size_t size = std::min(part, from.size() - at);
    running.emplace_back([=] { std::memcpy(to.data() + at, from.data() + at, size); });
  }
  for (std::thread& t : running) t.join();
}

/// Multiply-adds on registers alone: what products could reach.
Kernel peak_kernel(Device& device, std::string_view type) {
  KernelOptions options;
  options.label = "bench.peak";
  options.source = fmt::format(R"({0}alias V = vec4<{1}>;
struct Params {{ turns: u32, seed: f32 }}
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) {{
  let m = V({1}(params.seed));
  var a = V({1}(id.x & 7u)); var b = a + V(1.0); var c = a + V(2.0); var d = a + V(3.0);
  var e = a + V(4.0); var f = a + V(5.0); var g = a + V(6.0); var h = a + V(7.0);
  for (var i = 0u; i < params.turns; i++) {{
    a = fma(a, m, m); b = fma(b, m, m); c = fma(c, m, m); d = fma(d, m, m);
    e = fma(e, m, m); f = fma(f, m, m); g = fma(g, m, m); h = fma(h, m, m);
  }}
  let s = a + b + c + d + e + f + g + h;
  out[id.x & 1023u] = f32(s.x + s.y + s.z + s.w);
}}
)",
                               type == "f16" ? "enable f16;\n" : "", type);
  return device.kernel(options);
}

class Bench {
 public:
  /// Ops run on a device for the library's kernels, as `weft eval` does; kernels written here on one for a user's.
  Bench(const Device& library, const Device& user, double seconds)
      : device_(library), user_device_(user), seconds_(seconds) {
    is_cpu_ = device_.adapter().type == AdapterType::cpu;
  }

  std::vector<Row> run(Progress& progress) {
    bandwidth(progress);
    products(progress);
    dispatches(progress);
    transfers(progress);
    return std::move(rows_);
  }

 private:
  void add(Progress& progress, Row row, const std::function<void()>& work) {
    progress.phase(row.name);
    measure(work, seconds_, row);
    rows_.push_back(std::move(row));
  }

  /// `calls` of an op and one wait, so that the wait is a small part.
  std::function<void()> repeated(int calls, std::function<Tensor()> op) {
    return [this, calls, op = std::move(op)] {
      Tensor out;
      for (int i = 0; i < calls; ++i) out = op();
      device_.synchronize();
    };
  }

  void bandwidth(Progress& progress) {
    const std::int64_t columns = 4096;
    const std::int64_t n = is_cpu_ ? 1 << 22 : 1 << 27;
    const int calls = is_cpu_ ? 1 : 4;
    const Tensor x = full(device_, Shape{n / columns, columns}, 1.5, DType::f32);
    const Tensor y = device_.empty(x.shape(), DType::f32);
    const double bytes = 4.0 * static_cast<double>(n) * calls;
    add(progress, {"copy", Unit::bytes, 2 * bytes, "copy"}, repeated(calls, [=] {
          into(y, [&] { return unary(UnaryOp::positive, x); });
          return y;
        }));
    add(progress, {"relu", Unit::bytes, 2 * bytes, "copy"}, repeated(calls, [=] { return relu(x); }));
    add(progress, {"sum", Unit::bytes, bytes, "copy"}, repeated(calls, [=] { return sum(x); }));
    add(progress, {"softmax, rows of 4,096", Unit::bytes, 2 * bytes, "copy"},
        repeated(calls, [=] { return softmax(x); }));
    add(progress, {"layer_norm, rows of 4,096", Unit::bytes, 2 * bytes, "copy"},
        repeated(calls, [=] { return layer_norm(x); }));
  }

  void products(Progress& progress) {
    const std::int64_t n = is_cpu_ ? 512 : 4096;
    for (DType dtype : {DType::f32, DType::f16}) {
      if (dtype == DType::f16 && !device_.features().f16) continue;
      const std::string type = dtype == DType::f16 ? "f16" : "f32";
      const std::string peak = "multiply-add on registers, " + type;
      const Kernel kernel = peak_kernel(user_device_, type);
      const struct {
        std::uint32_t turns;
        float seed;
      } params{is_cpu_ ? 2000u : 20000u, 0.5f};
      const Grid grid{is_cpu_ ? 64u : 4096u, 1, 1};
      const Buffer out = user_device_.zeros_bytes(4096);
      add(progress, {peak, Unit::flop, 64.0 * params.turns * 128.0 * grid.x, peak}, [=, this] {
        kernel(user_device_.stream(), {{"out", out}}, params, grid);
        user_device_.synchronize();
      });
      const Tensor a = full(device_, Shape{n, n}, 0.5, dtype), b = full(device_, Shape{n, n}, 0.25, dtype);
      const auto size = static_cast<double>(n);
      add(progress, {fmt::format("a @ b, {0} x {0}, {1}", n, type), Unit::flop, 2 * size * size * size, peak},
          repeated(1, [=] { return matmul(a, b); }));
    }
  }

  void dispatches(Progress& progress) {
    constexpr int kCalls = 1000;
    const std::string best = "empty dispatches from a graph";
    const Kernel empty = user_device_.kernel({.source = R"(
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(1) fn main() { if (arrayLength(&out) == 0u) { out[0] = 0.0; } }
)",
                                              .label = "bench.empty"});
    const Buffer four_bytes = user_device_.zeros_bytes(4);
    const Graph nothing = user_device_.capture([&](const Stream& stream) {
      for (int i = 0; i < kCalls; ++i) empty(stream, {{"out", four_bytes}}, Grid{1, 1, 1});
    });
    add(progress, {best, Unit::each, kCalls, best}, [=, this] {
      nothing.run();
      user_device_.synchronize();
    });
    const Tensor x = full(device_, Shape{4096}, 1.0, DType::f32);
    add(progress, {"small ops in a row", Unit::each, kCalls, best}, [=, this] {
      Tensor y = x;
      for (int i = 0; i < kCalls; ++i) y = relu(y);
      device_.synchronize();
    });
    const Graph graph = device_.capture([&](const Stream&) {
      Tensor y = x;
      for (int i = 0; i < kCalls; ++i) y = relu(y);
    });
    add(progress, {"the same from a graph", Unit::each, kCalls, best}, [=, this] {
      graph.run();
      device_.synchronize();
    });
    add(progress, {"one small op and 4 bytes back", Unit::each, 1, ""}, [=] {
      const Tensor y = relu(x);
      std::array<std::byte, 4> word{};
      Device(y.device()).read(y.buffer(), 0, word);
    });
  }

  void transfers(Progress& progress) {
    const std::size_t size = std::size_t{is_cpu_ ? 32u : 256u} << 20;
    const auto host = std::make_shared<std::vector<std::byte>>(size, std::byte{1});
    const Buffer buffer = device_.alloc(size);
    const std::string best = "copy of " + bytes_text(size) + " on the host";
    {
      const auto other = std::make_shared<std::vector<std::byte>>(size);
      add(progress, {best, Unit::bytes, static_cast<double>(size), best}, [=] { copy_on_host(*host, *other); });
    }
    add(progress, {"upload of " + bytes_text(size), Unit::bytes, static_cast<double>(size), best}, [=, this] {
      device_.write(buffer, 0, *host);
      device_.synchronize();
    });
    add(progress, {"read of " + bytes_text(size), Unit::bytes, static_cast<double>(size), best},
        [=, this] { device_.read(buffer, 0, *host); });
  }

  Device device_, user_device_;
  const double seconds_;
  bool is_cpu_ = false;
  std::vector<Row> rows_;
};

double rate(const Row& row) {
  return row.work / row.seconds;
}

std::string rate_text(const Row& row) {
  switch (row.unit) {
    case Unit::bytes: return fmt::format("{:.1f} GB/s", rate(row) / 1e9);
    case Unit::flop:
      return rate(row) >= 1e12 ? fmt::format("{:.1f} TFLOP/s", rate(row) / 1e12)
                               : fmt::format("{:.1f} GFLOP/s", rate(row) / 1e9);
    case Unit::each: break;
  }
  return fmt::format("{:.2f} us each", row.seconds / row.work * 1e6);
}

/// Share of the row that it stands beside; 0 for none.
double share(const std::vector<Row>& rows, const Row& row) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == row.beside; });
  return it == rows.end() ? 0 : rate(row) / rate(*it);
}

void run_bench(const BenchOptions& options) {
  if (!(options.seconds > 0 && options.seconds <= 600)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("--seconds is {}", options.seconds),
                "give seconds above 0 and up to 600, such as 1");
  }
  const Device device = open_device(options.device, KernelsOf::library);
  Progress progress;
  const std::vector<Row> rows = Bench(device, open_device(options.device), options.seconds).run(progress);
  progress.finish();
  if (options.json) {
    nlohmann::json out = {{"device", device_json(device)}, {"rows", nlohmann::json::array()}};
    for (const Row& r : rows) {
      nlohmann::json row = {
          {"name", r.name}, {"seconds", r.seconds / (r.unit == Unit::each ? r.work : 1)}, {"spread", r.spread}};
      if (r.unit == Unit::bytes) row["bytes_per_second"] = rate(r);
      if (r.unit == Unit::flop) row["flop_per_second"] = rate(r);
      if (!r.beside.empty()) row["share"] = share(rows, r);
      out["rows"].push_back(std::move(row));
    }
    fmt::print("{}\n", json_text(out));
    return;
  }
  fmt::print("{}, {}, {} {}\n", device.adapter().name, device.adapter().driver, implementation_name(),
             implementation_version());
  fmt::print("{:34} {:>14} {:>8} {:>9}\n", "", "median", "spread", "of best");
  for (const Row& r : rows) {
    const double part = share(rows, r);
    fmt::print("{:34} {:>14} {:>7.0f}% {:>9}\n", r.name, rate_text(r), 100 * r.spread,
               part > 0 ? fmt::format("{:.0f}%", 100 * part) : std::string());
  }
  fmt::print(
      "Spread is between the quartiles. Of best, what the device can do: memory rows of copy, products of "
      "multiply-adds\n"
      "on registers (more than 100% where matrix units do them), small ops of empty dispatches, transfers of the "
      "host's\n"
      "own copy.\n");
}

}  // namespace

void add_bench(CLI::App& app) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure this device: memory, products, dispatches, transfers");
  command->add_option("--device", options->device, "Part of an adapter's name, or its index (see weft info)");
  command->add_option("--seconds", options->seconds, "Time for each row (1)");
  command->add_flag("--json", options->json, "Print one JSON object on stdout");
  command->footer(
      "Each figure is the median of calls through the library, warm, each waited for: what a program gets.\n"
      "Needs the device for itself.");
  command->callback([options] { run_bench(*options); });
}

}  // namespace weft::cli
