// What share of the device's copy rate the memory-bound ops reach. `copy` is a plain vec4 copy kernel with bounds
// checks, as a user's; the ops are the library's kernels on a device for those. Arguments: millions (2^20) of floats.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>

#include "bench_device.h"
#include "bench_main.h"
#include "weft/weft.h"

namespace weft::bench {
namespace {

Tensor filled(std::int64_t n) {
  static Tensor all;
  if (!all || all.size() != n) {
    all = Tensor();
    all = cast(arange(library_device(), 0, static_cast<int>(n), 1), DType::f32) * 1e-6 - 4.0;
    library_device().synchronize();
  }
  return all;
}

/// Times `call`, which moves `arrays` arrays of the row's length.
void measure(benchmark::State& state, Device& d, const std::string& row, double arrays,
             const std::function<void()>& call) {
  call();  // compiles, and fills the pool
  d.synchronize();
  const int calls = calls_a_wait(d, row + '/' + std::to_string(state.range(0)), call);
  for (auto _ : state) {
    for (int i = 0; i < calls; ++i) call();
    d.synchronize();
  }
  const auto rounds = static_cast<double>(state.iterations()) * calls;
  state.SetItemsProcessed(static_cast<std::int64_t>(rounds));
  state.SetBytesProcessed(static_cast<std::int64_t>(rounds * arrays * 4 * static_cast<double>(state.range(0) << 20)));
}

template <class Op>
void run(benchmark::State& state, const std::string& row, double arrays, Op&& op) {
  const Tensor x = filled(state.range(0) << 20);
  measure(state, library_device(), row, arrays, [&] { benchmark::DoNotOptimize(op(x)); });
}

void copy(benchmark::State& state) {
  const std::int64_t n = state.range(0) << 20;
  const Tensor x = full(device(), {n}, 1.5, f32), y = device().empty({n}, f32);
  const Kernel kernel = copy_kernel(device());
  measure(state, device(), "copy", 2, [&] { copy_vec4(kernel, x.buffer(), y.buffer()); });
}

void add(benchmark::State& state) {
  const Tensor y = library_device().zeros({state.range(0) << 20}, f32);
  run(state, "add", 3, [&](const Tensor& x) { return x + y; });
}
void relu_op(benchmark::State& state) {
  run(state, "relu_op", 2, [](const Tensor& x) { return relu(x); });
}
void exp_op(benchmark::State& state) {
  run(state, "exp_op", 2, [](const Tensor& x) { return exp(x); });
}
void sum_op(benchmark::State& state) {
  run(state, "sum_op", 1, [](const Tensor& x) { return sum(x); });
}
void sum_columns(benchmark::State& state) {
  run(state, "sum_columns", 1, [](const Tensor& x) { return sum(reshape(x, {-1, 4096}), {.axes = {{0}}}); });
}
void softmax_rows(benchmark::State& state) {
  run(state, "softmax_rows", 2, [](const Tensor& x) { return softmax(reshape(x, {-1, 4096})); });
}
/// relu(a*b + c) as `weft eval` runs it: one kernel, three arrays read and one written.
void fused_chain(benchmark::State& state) {
  static const Expression chain = Expression::parse("relu(a*b + c)");
  const Tensor b = full(library_device(), {state.range(0) << 20}, -2.0, f32);
  const Tensor c = full(library_device(), {state.range(0) << 20}, 3.5, f32);
  run(state, "fused_chain", 4,
      [&](const Tensor& x) { return chain.evaluate(library_device(), {{"a", x}, {"b", b}, {"c", c}}); });
}
void layer_norm_rows(benchmark::State& state) {
  run(state, "layer_norm_rows", 2, [](const Tensor& x) { return layer_norm(reshape(x, {-1, 4096})); });
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
