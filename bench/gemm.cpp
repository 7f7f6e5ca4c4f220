// Matrix products through the public API: time from the call to completion on the device, warm. The row `copy` is the
// device's plain rate, to hold the others against.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "bench_device.h"
#include "weft/weft.h"

namespace {

using weft::bench::device;

weft::Tensor filled(const weft::Shape& shape, weft::DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(weft::element_count(shape)));
  std::uint32_t state = 1;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1.0f;
  }
  return weft::cast(device().upload(std::span<const float>(values), shape), dtype);
}

void measure(benchmark::State& state, const weft::Tensor& a, const weft::Tensor& b, double operations) {
  weft::matmul(a, b);  // compiles
  device().synchronize();
  for (auto _ : state) {
    const weft::Tensor c = weft::matmul(a, b);
    device().synchronize();
    benchmark::DoNotOptimize(c);
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void gemm(benchmark::State& state, weft::DType dtype, bool a_transposed, bool b_transposed) {
  if (dtype == weft::f16 && !device().features().f16) {
    state.SkipWithError("the device lacks f16");
    return;
  }
  const std::int64_t n = state.range(0);
  weft::Tensor a = filled({n, n}, dtype);
  weft::Tensor b = filled({n, n}, dtype);
  if (a_transposed) a = weft::transpose(a);
  if (b_transposed) b = weft::transpose(b);
  measure(state, a, b, 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n));
}
BENCHMARK_CAPTURE(gemm, f32_NN, weft::f32, false, false)->RangeMultiplier(2)->Range(256, 2048)->UseRealTime();
BENCHMARK_CAPTURE(gemm, f32_NT, weft::f32, false, true)->Arg(1024)->UseRealTime();
BENCHMARK_CAPTURE(gemm, f32_TN, weft::f32, true, false)->Arg(1024)->UseRealTime();
BENCHMARK_CAPTURE(gemm, f32_odd, weft::f32, false, false)->Arg(1023)->UseRealTime();
BENCHMARK_CAPTURE(gemm, f16_NN, weft::f16, false, false)->Arg(1024)->UseRealTime();

void gemv(benchmark::State& state, bool transposed) {
  const std::int64_t n = state.range(0);
  weft::Tensor a = filled({n, n}, weft::f32);
  if (transposed) a = weft::transpose(a);
  measure(state, a, filled({n}, weft::f32), 2.0 * static_cast<double>(n) * static_cast<double>(n));
  state.SetBytesProcessed(state.iterations() * n * n * 4);
}
BENCHMARK_CAPTURE(gemv, f32_N, false)->Arg(4096)->UseRealTime();
BENCHMARK_CAPTURE(gemv, f32_T, true)->Arg(4096)->UseRealTime();

/// The control: 64 MiB read and written, four floats a lane.
void copy(benchmark::State& state) {
  constexpr std::int64_t kBytes = 64 << 20;
  const weft::Kernel kernel = device().kernel({.source = R"(
    @group(0) @binding(0) var<storage, read> input: array<vec4f>;
    @group(0) @binding(1) var<storage, read_write> output: array<vec4f>;
    @compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {
      let i = linear_index(id);
      if (i < arrayLength(&input)) { output[i] = input[i]; }
    })",
                                               .label = "copy"});
  const weft::Buffer input = device().zeros_bytes(kBytes);
  const weft::Buffer output = device().zeros_bytes(kBytes);
  const auto run = [&] {
    kernel(device().stream(), {{"input", input}, {"output", output}}, weft::grid_for(kBytes / 16));
    device().synchronize();
  };
  run();
  for (auto _ : state) run();
  state.SetBytesProcessed(state.iterations() * 2 * kBytes);
}
BENCHMARK(copy)->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  weft::bench::add_context();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
