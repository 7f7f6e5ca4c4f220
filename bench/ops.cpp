// What is measured beside peers besides layers and arrays: small ops in a row, an op and four bytes back, ops with
// their transfers, and what the device's arithmetic can do at most. Rows have the names that bench/peers use too.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench_device.h"
#include "bench_main.h"
#include "ops/elementwise.h"
#include "weft/weft.h"

namespace weft::bench {
namespace {

bool is_cpu() {
  return device().adapter().type == AdapterType::cpu;
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& body) {
  benchmark::RegisterBenchmark(name.c_str(), [body](benchmark::State& state) {
    try {
      body(state);
    } catch (const Error& e) {
      state.SkipWithError(e.what());
    }
  })->UseRealTime();
}

/// `work` records or does `items` things a call on `d`; the wait is ours.
void measure(benchmark::State& state, Device& d, std::int64_t items, const std::function<void()>& work) {
  for (int i = 0; i < 2; ++i) work();
  d.synchronize();
  for (auto _ : state) {
    work();
    d.synchronize();
  }
  state.SetItemsProcessed(state.iterations() * items);
}

// -- small ops ------------------------------------------------------------------------------------------------------

/// 1,000 relu over 4,096 floats: as a user writes them, captured and replayed, and with as many in one kernel as
/// Python's lazy arrays and weft.jit put there.
void add_small_ops() {
  constexpr int kOps = 1000;
  constexpr int kFused = 63;  // operations of one program (python/src/lazy.cpp)
  const auto x = [] { return full(library_device(), {4096}, 1.5, f32); };
  const auto chain = [](Tensor y) {
    for (int i = 0; i < kOps; ++i) y = relu(y);
    return y;
  };
  add("relu_chain/eager", [=](benchmark::State& state) {
    const Tensor start = x();
    measure(state, library_device(), kOps, [&] { chain(start); });
  });
  add("relu_chain/graph", [=](benchmark::State& state) {
    const Tensor start = x();
    const Graph graph = library_device().capture([&](const Stream&) { chain(start); });
    measure(state, library_device(), kOps, [&] { graph.run(); });
  });
  add("relu_chain/fused", [=](benchmark::State& state) {
    const Tensor start = x();
    const Graph graph = library_device().capture([&](const Stream&) {
      Tensor y = start;
      for (int done = 0; done < kOps;) {
        ops::ElementProgram program;
        std::int32_t node = program.input(y);
        for (int i = 0; i < kFused && done < kOps; ++i, ++done) node = program.unary(UnaryOp::relu, node);
        y = program.run(library_device(), start.shape(), node);
      }
    });
    measure(state, library_device(), kOps, [&] { graph.run(); });
  });
  add("relu_read/4096", [=](benchmark::State& state) {
    const Tensor start = x();
    std::array<std::byte, 4> word{};
    measure(state, library_device(), 1, [&] {
      const Tensor y = relu(start);
      library_device().read(y.buffer(), 0, word);
    });
  });
}

// -- with transfers ---------------------------------------------------------------------------------------------------

struct Host {
  Shape shape;
  std::vector<float> values;
};

Host host(const Shape& shape) {
  Host out{shape, std::vector<float>(static_cast<std::size_t>(element_count(shape)))};
  for (std::size_t i = 0; i < out.values.size(); ++i) out.values[i] = static_cast<float>(i % 17) / 8.0f - 1.0f;
  return out;
}

/// in/NAME: arrays of the host up, the op, the result in an array of the host.
void add_in(const std::string& name, const std::vector<Shape>& shapes,
            const std::function<Tensor(std::span<const Tensor>)>& op) {
  add("in/" + name, [=](benchmark::State& state) {
    std::vector<Host> hosts;
    hosts.reserve(shapes.size());
    for (const Shape& s : shapes) hosts.push_back(host(s));
    measure(state, library_device(), 1, [&] {
      std::vector<Tensor> tensors;
      tensors.reserve(hosts.size());
      for (const Host& h : hosts) tensors.push_back(library_device().upload(std::span<const float>(h.values), h.shape));
      benchmark::DoNotOptimize(op(tensors).to_host<float>());
    });
  });
}

void add_with_transfers() {
  using Tensors = std::span<const Tensor>;
  for (std::int64_t n : {256, 512, 1024, 2048, 4096}) {
    if (is_cpu() && n > 1024) continue;
    add_in("matmul/f32_" + std::to_string(n), {{n, n}, {n, n}}, [](Tensors t) { return matmul(t[0], t[1]); });
  }
  const std::int64_t rows = is_cpu() ? 1024 : 16384;
  const std::string at = "/" + std::to_string(rows) + "x4096";
  add_in("softmax" + at, {{rows, 4096}}, [](Tensors t) { return softmax(t[0]); });
  add_in("layer_norm" + at, {{rows, 4096}}, [](Tensors t) { return layer_norm(t[0]); });
  add_in("add/4", {{4 << 20}, {4 << 20}}, [](Tensors t) { return t[0] + t[1]; });
  add_in("relu_op/4", {{4 << 20}}, [](Tensors t) { return relu(t[0]); });
  add_in("conv/1x64x56x56_64x3x3_s1", {{1, 64, 56, 56}, {64, 64, 3, 3}}, [](Tensors t) {
    ConvOptions options;
    options.window.pad_before = options.window.pad_after = {1, 1};
    return conv(t[0], t[1], options);
  });
}

// -- what the arithmetic can do
// -----------------------------------------------------------------------------------------

/// Multiply-adds on registers alone, eight independent vectors a lane.
void peak(benchmark::State& state, std::string_view type) {
  std::string source = type == "f16" ? "enable f16;\n" : "";
  source += "alias T = " + std::string(type) + ";\n" + R"(alias V = vec4<T>;
struct Params { turns: u32, seed: f32 }
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) {
  let m = V(T(params.seed));
  var a = V(T(id.x & 7u)); var b = a + V(1.0); var c = a + V(2.0); var d = a + V(3.0);
  var e = a + V(4.0); var f = a + V(5.0); var g = a + V(6.0); var h = a + V(7.0);
  for (var i = 0u; i < params.turns; i++) {
    a = fma(a, m, m); b = fma(b, m, m); c = fma(c, m, m); d = fma(d, m, m);
    e = fma(e, m, m); f = fma(f, m, m); g = fma(g, m, m); h = fma(h, m, m);
  }
  let s = a + b + c + d + e + f + g + h;
  out[id.x & 1023u] = f32(s.x + s.y + s.z + s.w);
}
)";
  const Kernel kernel = device().kernel({.source = source, .label = "peak"});
  const struct {
    std::uint32_t turns;
    float seed;
  } params{is_cpu() ? 2000u : 20000u, 0.5f};
  const Grid grid{is_cpu() ? 64u : 4096u, 1, 1};
  const Buffer out = device().zeros_bytes(4096);
  measure(state, device(), 1, [&] { kernel(device().stream(), {{"out", out}}, params, grid); });
  state.counters["FLOP/s"] =
      benchmark::Counter(64.0 * params.turns * 128.0 * grid.x, benchmark::Counter::kIsIterationInvariantRate);
}

void add_all() {
  add_small_ops();
  add_with_transfers();
  add("peak/f32", [](benchmark::State& state) { peak(state, "f32"); });
  if (device().features().f16) add("peak/f16", [](benchmark::State& state) { peak(state, "f16"); });
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  return weft::bench::bench_main(argc, argv, weft::bench::add_all);
}
