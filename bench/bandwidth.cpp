// What share of the device's copy rate the memory-bound ops reach. `copy` is a plain vec4 copy kernel: the control row.
// Arguments: millions (2^20) of floats.
#include <benchmark/benchmark.h>

#include "bench_device.h"
#include "weft/kernel.h"
#include "weft/ops.h"
#include "weft/stream.h"

namespace weft::bench {
namespace {

constexpr int kOpsPerSync = 8;  // a batch: what is timed is the device, not the submit

Tensor filled(std::int64_t n) {
  static Tensor all;
  if (!all || all.size() != n) {
    all = Tensor();
    all = cast(arange(device(), 0, static_cast<int>(n), 1), DType::f32) * 1e-6 - 4.0;
    device().synchronize();
  }
  return all;
}

void finish(benchmark::State& state, double bytes_per_op) {
  state.SetBytesProcessed(
      static_cast<std::int64_t>(static_cast<double>(state.iterations()) * kOpsPerSync * bytes_per_op));
}

template <class Op>
void run(benchmark::State& state, double arrays_moved, Op&& op) {
  const std::int64_t n = state.range(0) << 20;
  const Tensor x = filled(n);
  op(x);  // compiles, and fills the pool
  device().synchronize();
  for (auto _ : state) {
    for (int i = 0; i < kOpsPerSync; ++i) benchmark::DoNotOptimize(op(x));
    device().synchronize();
  }
  finish(state, arrays_moved * 4 * static_cast<double>(n));
}

void copy(benchmark::State& state) {
  const auto n = static_cast<std::uint32_t>(state.range(0) << 20);
  const Tensor x = filled(n);
  const Tensor y = device().empty({n}, f32);
  const Kernel kernel = device().kernel({.source = R"(
    struct Params { n: u32 }
    @group(0) @binding(0) var<storage, read> x: array<vec4f>;
    @group(0) @binding(1) var<storage, read_write> y: array<vec4f>;
    @compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) {
      let i = linear_index(id);
      if (i < params.n) { y[i] = x[i]; }
    })",
                                         .label = "copy"});
  const struct {
    std::uint32_t n;
  } params{n / 4};
  for (auto _ : state) {
    for (int i = 0; i < kOpsPerSync; ++i) kernel(device().stream(), {{"x", x}, {"y", y}}, params, grid_for(n / 4));
    device().synchronize();
  }
  finish(state, 2.0 * 4 * n);
}

void add(benchmark::State& state) {
  const Tensor y = device().zeros({state.range(0) << 20}, f32);
  run(state, 3, [&](const Tensor& x) { return x + y; });
}
void exp_op(benchmark::State& state) {
  run(state, 2, [](const Tensor& x) { return exp(x); });
}
void sum_op(benchmark::State& state) {
  run(state, 1, [](const Tensor& x) { return sum(x); });
}
void sum_columns(benchmark::State& state) {
  run(state, 1, [](const Tensor& x) { return sum(reshape(x, {-1, 4096}), {.axes = {{0}}}); });
}
void softmax_rows(benchmark::State& state) {
  run(state, 2, [](const Tensor& x) { return softmax(reshape(x, {-1, 4096})); });
}
void layer_norm_rows(benchmark::State& state) {
  run(state, 2, [](const Tensor& x) { return layer_norm(reshape(x, {-1, 4096})); });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->Arg(16)->Arg(256)->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(copy)->Apply(sizes);
BENCHMARK(add)->Apply(sizes);
BENCHMARK(exp_op)->Apply(sizes);
BENCHMARK(sum_op)->Apply(sizes);
BENCHMARK(sum_columns)->Apply(sizes);
BENCHMARK(softmax_rows)->Apply(sizes);
BENCHMARK(layer_norm_rows)->Apply(sizes);

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  weft::bench::add_context();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
