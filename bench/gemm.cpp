// Matrix products whose operands lie otherwise, or have odd lengths: time from the call to completion on the device,
// warm. Plain products of all sizes are in layers.cpp.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "bench_device.h"
#include "bench_main.h"
#include "weft/weft.h"

namespace {

weft::Device& device() {
  return weft::bench::library_device();
}

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
BENCHMARK_CAPTURE(gemm, f32_NT, weft::f32, false, true)->Arg(1024)->UseRealTime();
BENCHMARK_CAPTURE(gemm, f32_TN, weft::f32, true, false)->Arg(1024)->UseRealTime();
BENCHMARK_CAPTURE(gemm, f32_odd, weft::f32, false, false)->Arg(1023)->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::bench_main(argc, argv);
}
