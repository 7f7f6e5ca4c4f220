// Small dispatches: a bare WebGPU loop, a stream and a graph that record the same calls. A batch is a chain of
// relu-like kernels over 4,096 floats from one buffer to the other and back. Run with
// --benchmark_enable_random_interleaving=true and repetitions; script/bench does.
//
// record: CPU time until the batch is ready to submit; submit: until the submit has returned; complete: wall time until
// the work is done. allocs: calls of operator new a dispatch while recording; made: buffers, bind groups and pipelines
// made.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <new>
#include <vector>

#include "bench_device.h"
#include "bench_main.h"
#include "raw_webgpu.h"
#include "webgpu/encoder.h"
#include "weft/graph.h"
#include "weft/kernel.h"
#include "weft/stream.h"

namespace {
thread_local std::uint64_t allocations = 0;

void* counted(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}

namespace weft::bench {
namespace {

constexpr std::uint32_t kElements = 4096;

/// Submits on demand only, so that every way sends one command buffer a batch.
Device& one_submit_device() {
  static Device d = [] {
    DeviceOptions o;
    o.batch_dispatches = 1 << 20;
    return Device::open(o);
  }();
  return d;
}

struct Params {
  float slope;
  std::uint32_t n;
};

enum class Vary { no, yes };
enum class Until { record, submit, complete };

/// What all ways share: the kernel, two buffers, and parameters of each dispatch.
struct Chain {
  Chain(Device& d, Vary v) : device(d), vary(v == Vary::yes) {
    kernel = d.kernel({.source = R"(
      struct Params { slope: f32, n: u32 }
      @group(0) @binding(0) var<storage, read> x: array<f32>;
      @group(0) @binding(1) var<storage, read_write> y: array<f32>;
      @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
        if (id.x < params.n) { y[id.x] = select(params.slope * x[id.x], x[id.x], x[id.x] > 0.0); }
      })",
                       .label = "relu"});
    for (auto& b : buffers) b = d.zeros_bytes(kElements * sizeof(float));
    ranges[0] = {buffers[0], buffers[1]};
    ranges[1] = {buffers[1], buffers[0]};
    d.synchronize();
  }

  Params params(std::int64_t i) const { return {vary ? static_cast<float>(i) : 0.5f, kElements}; }

  Device& device;
  bool vary;
  Kernel kernel;
  std::array<Buffer, 2> buffers;
  std::array<std::array<BindingRange, 2>, 2> ranges;
  Grid grid{kElements / 64, 1, 1};
};

/// Now: of this thread's CPU time while only that counts, so that other work on the machine stays out of it.
double seconds(Until until) {
  timespec now{};
  clock_gettime(until == Until::complete ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Times `record` and `submit` in turn; waits between rounds, so that each starts with an idle device.
template <class Record, class Submit>
void measure(benchmark::State& state, Chain& chain, Until until, Record&& record, Submit&& submit) {
  const Raw raw(chain.device);
  const auto round = [&] {
    const double start = seconds(until);
    const std::uint64_t before = allocations;
    record();
    const std::uint64_t made = allocations - before;
    const double recorded = seconds(until);
    submit();
    const double submitted = seconds(until);
    raw.wait_idle();
    const double end = until == Until::record ? recorded : until == Until::submit ? submitted : seconds(until);
    return std::pair(end - start, made);
  };
  for (int i = 0; i < 3; ++i) round();
  const Stats before = chain.device.stats();
  std::uint64_t allocated = 0;
  for (auto _ : state) {
    const auto [time, made] = round();
    state.SetIterationTime(time);
    allocated += made;
  }
  const Stats after = chain.device.stats();
  const auto batch = state.range(0);
  const double dispatches = static_cast<double>(state.iterations() * batch);
  state.SetItemsProcessed(state.iterations() * batch);
  state.counters["allocs"] = static_cast<double>(allocated) / dispatches;
  state.counters["made"] =
      static_cast<double>(after.bind_group_misses - before.bind_group_misses + after.pool_allocations -
                          before.pool_allocations + after.pipeline_misses - before.pipeline_misses);
}

/// Pipeline once, a bind group when it changes, immediates when they change, dispatch: what a careful program does.
void raw(benchmark::State& state, Vary vary, Until until) {
  Chain chain(one_submit_device(), vary);
  const detail::KernelState& kernel = *chain.kernel.state();
  if (kernel.params_via != dispatch::ParamsVia::immediates) {
    state.SkipWithError("the device has no immediates");
    return;
  }
  const Raw gpu(chain.device);
  std::array<webgpu::BindGroup, 2> groups;
  for (std::size_t g = 0; g < 2; ++g) {
    std::array<webgpu::GroupEntry, 2> entries;
    for (std::uint32_t i = 0; i < 2; ++i) {
      entries[i] = {i, chain.ranges[g][i].buffer.state()->allocation->buffer.get(), 0, kElements * sizeof(float)};
    }
    groups[g] = chain.device.state()->gpu.create_bind_group(kernel.pipeline->layout->handle.get(), entries, "raw");
  }
  WGPUCommandEncoder encoder = nullptr;
  WGPUComputePassEncoder pass = nullptr;
  measure(
      state, chain, until,
      [&] {
        encoder = wgpuDeviceCreateCommandEncoder(gpu.device(), nullptr);
        pass = wgpuCommandEncoderBeginComputePass(encoder, nullptr);
        wgpuComputePassEncoderSetPipeline(pass, kernel.pipeline->pipeline.get());
        for (std::int64_t i = 0; i < state.range(0); ++i) {
          wgpuComputePassEncoderSetBindGroup(pass, 0, groups[i % 2].get(), 0, nullptr);
          if (chain.vary || i == 0) {
            const Params params = chain.params(i);
            wgpuComputePassEncoderSetImmediates(pass, 0, &params, sizeof params);
          }
          wgpuComputePassEncoderDispatchWorkgroups(pass, chain.grid.x, chain.grid.y, chain.grid.z);
        }
      },
      [&] {
        wgpuComputePassEncoderEnd(pass);
        wgpuComputePassEncoderRelease(pass);
        gpu.submit(encoder);
      });
}

void record_stream(const Chain& chain, const Stream& stream, std::int64_t batch) {
  for (std::int64_t i = 0; i < batch; ++i) {
    const Params params = chain.params(i);
    chain.kernel.dispatch(stream, chain.ranges[i % 2], std::as_bytes(std::span(&params, 1)), chain.grid);
  }
}

void stream(benchmark::State& state, Vary vary, Until until) {
  Chain chain(one_submit_device(), vary);
  const Stream s = chain.device.stream();
  measure(state, chain, until, [&] { record_stream(chain, s, state.range(0)); }, [&] { s.submit(); });
}

/// Bindings by name, as users write it.
void stream_named(benchmark::State& state, Vary vary, Until until) {
  Chain chain(one_submit_device(), vary);
  const Stream s = chain.device.stream();
  measure(
      state, chain, until,
      [&] {
        for (std::int64_t i = 0; i < state.range(0); ++i) {
          chain.kernel(s, {{"x", chain.buffers[i % 2]}, {"y", chain.buffers[1 - i % 2]}}, chain.params(i), chain.grid);
        }
      },
      [&] { s.submit(); });
}

/// With the default batch limit: earlier parts of a long batch run while later ones are recorded.
void stream_batched(benchmark::State& state, Vary vary, Until until) {
  Chain chain(device(), vary);
  const Stream s = chain.device.stream();
  measure(state, chain, until, [&] { record_stream(chain, s, state.range(0)); }, [&] { s.submit(); });
}

void graph(benchmark::State& state, Vary vary, Until until) {
  Chain chain(one_submit_device(), vary);
  const Graph g = chain.device.capture([&](const Stream& s) { record_stream(chain, s, state.range(0)); });
  const Stream s = chain.device.stream();
  measure(state, chain, until, [&] { g.run(s); }, [&] { s.submit(); });
}

void common(benchmark::internal::Benchmark* b) {
  b->UseManualTime()->Unit(benchmark::kMicrosecond);
}
void short_batches(benchmark::internal::Benchmark* b) {
  b->Arg(1)->Arg(16)->Arg(64)->Iterations(30)->Apply(common);
}
void long_batches(benchmark::internal::Benchmark* b) {
  b->Arg(256)->Arg(1000)->Iterations(10)->Apply(common);
}

#define WEFT_ROWS(way, name, vary, until)                          \
  BENCHMARK_CAPTURE(way, name, vary, until)->Apply(short_batches); \
  BENCHMARK_CAPTURE(way, name, vary, until)->Apply(long_batches)
#define WEFT_WAY(way)                                       \
  WEFT_ROWS(way, same_record, Vary::no, Until::record);     \
  WEFT_ROWS(way, vary_record, Vary::yes, Until::record);    \
  WEFT_ROWS(way, same_submit, Vary::no, Until::submit);     \
  WEFT_ROWS(way, vary_submit, Vary::yes, Until::submit);    \
  WEFT_ROWS(way, same_complete, Vary::no, Until::complete); \
  WEFT_ROWS(way, vary_complete, Vary::yes, Until::complete)

WEFT_WAY(raw);
WEFT_WAY(stream);
WEFT_WAY(stream_named);
WEFT_WAY(stream_batched);
WEFT_WAY(graph);

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  return weft::bench::bench_main(argc, argv);
}
