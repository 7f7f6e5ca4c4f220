// What share of the device's copy rate the memory-bound ops reach. `copy` is a plain vec4 copy kernel with bounds
// checks, as a user's; the ops are the library's kernels on a device for those. Arguments: millions (2^20) of floats.
#include <benchmark/benchmark.h>

#include "bench_device.h"
#include "bench_main.h"
#include "weft/weft.h"

namespace weft::bench {
namespace {

/// A batch: what is timed is the device, not the submit.
int ops_per_sync() {
  return device().adapter().type == AdapterType::cpu ? 1 : 8;
}

Tensor filled(std::int64_t n) {
  static Tensor all;
  if (!all || all.size() != n) {
    all = Tensor();
    all = cast(arange(library_device(), 0, static_cast<int>(n), 1), DType::f32) * 1e-6 - 4.0;
    library_device().synchronize();
  }
  return all;
}

void finish(benchmark::State& state, double bytes_per_op) {
  state.SetItemsProcessed(state.iterations() * ops_per_sync());
  state.SetBytesProcessed(
      static_cast<std::int64_t>(static_cast<double>(state.iterations()) * ops_per_sync() * bytes_per_op));
}

template <class Op>
void run(benchmark::State& state, double arrays_moved, Op&& op) {
  const std::int64_t n = state.range(0) << 20;
  const Tensor x = filled(n);
  op(x);  // compiles, and fills the pool
  library_device().synchronize();
  for (auto _ : state) {
    for (int i = 0; i < ops_per_sync(); ++i) benchmark::DoNotOptimize(op(x));
    library_device().synchronize();
  }
  finish(state, arrays_moved * 4 * static_cast<double>(n));
}

void copy(benchmark::State& state) {
  const std::int64_t n = state.range(0) << 20;
  const Tensor x = full(device(), {n}, 1.5, f32), y = device().empty({n}, f32);
  const Kernel kernel = copy_kernel(device());
  copy_vec4(kernel, x.buffer(), y.buffer());
  device().synchronize();
  for (auto _ : state) {
    for (int i = 0; i < ops_per_sync(); ++i) copy_vec4(kernel, x.buffer(), y.buffer());
    device().synchronize();
  }
  finish(state, 2.0 * 4 * static_cast<double>(n));
}

void add(benchmark::State& state) {
  const Tensor y = library_device().zeros({state.range(0) << 20}, f32);
  run(state, 3, [&](const Tensor& x) { return x + y; });
}
void relu_op(benchmark::State& state) {
  run(state, 2, [](const Tensor& x) { return relu(x); });
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
/// relu(a*b + c) as `weft eval` runs it: one kernel, three arrays read and one written.
void fused_chain(benchmark::State& state) {
  static const Expression chain = Expression::parse("relu(a*b + c)");
  const Tensor b = full(library_device(), {state.range(0) << 20}, -2.0, f32);
  const Tensor c = full(library_device(), {state.range(0) << 20}, 3.5, f32);
  run(state, 4, [&](const Tensor& x) { return chain.evaluate(library_device(), {{"a", x}, {"b", b}, {"c", c}}); });
}
void layer_norm_rows(benchmark::State& state) {
  run(state, 2, [](const Tensor& x) { return layer_norm(reshape(x, {-1, 4096})); });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->Arg(4)->Arg(16)->Arg(256)->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(copy)->Apply(sizes);
BENCHMARK(add)->Apply(sizes);
BENCHMARK(relu_op)->Apply(sizes);
BENCHMARK(exp_op)->Apply(sizes);
BENCHMARK(sum_op)->Apply(sizes);
BENCHMARK(sum_columns)->Apply(sizes);
BENCHMARK(softmax_rows)->Apply(sizes);
BENCHMARK(layer_norm_rows)->Apply(sizes);
BENCHMARK(fused_chain)->Apply(sizes);

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  return weft::bench::bench_main(argc, argv);
}
