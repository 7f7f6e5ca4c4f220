// Transfers and the pool against bare WebGPU on the same device. Run with --benchmark_enable_random_interleaving=true
// and repetitions; script/bench does.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "bench_device.h"
#include "bench_main.h"
#include "raw_webgpu.h"

namespace weft::bench {
namespace {

std::vector<std::byte> pattern(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

/// Transfers of the row's size, warm: one goes before those that are timed, on our side and on the bare one.
template <class Transfer>
void timed(benchmark::State& state, Transfer&& transfer) {
  transfer();
  for (auto _ : state) transfer();
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

void raw_upload(benchmark::State& state) {
  const Raw raw(device());
  const auto bytes = pattern(static_cast<std::size_t>(state.range(0)));
  const auto buffer = raw.buffer(bytes.size(), WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst);
  timed(state, [&] {
    raw.write(buffer.get(), bytes);
    raw.flush();
    raw.wait_idle();
  });
}

void weft_upload(benchmark::State& state) {
  const auto bytes = pattern(static_cast<std::size_t>(state.range(0)));
  const Buffer buffer = device().alloc(bytes.size());
  timed(state, [&] {
    device().write(buffer, 0, bytes);
    device().synchronize();
  });
}

/// The two ways up, whatever Device::write would choose for this size (docs/memory.md, «Uploads»).
void queue_write(benchmark::State& state) {
  const auto bytes = pattern(static_cast<std::size_t>(state.range(0)));
  const Buffer buffer = device().alloc(bytes.size());
  timed(state, [&] {
    device().state()->memory->queue_writes().write(buffer.state()->allocation->buffer.get(), 0, bytes,
                                                   webgpu::deadline_after(std::chrono::seconds(30)));
    device().synchronize();
  });
}

void ring_write(benchmark::State& state) {
  const auto bytes = pattern(static_cast<std::size_t>(state.range(0)));
  const Buffer buffer = device().alloc(bytes.size());
  timed(state, [&] {
    device().state()->memory->upload_ring().upload(buffer.state()->allocation->buffer.get(), 0, bytes,
                                                   webgpu::deadline_after(std::chrono::seconds(30)));
    device().synchronize();
  });
}

void raw_readback(benchmark::State& state) {
  const Raw raw(device());
  std::vector<std::byte> out(static_cast<std::size_t>(state.range(0)));
  const auto buffer = raw.buffer(out.size(), WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc);
  const auto staging = raw.buffer(out.size(), WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst);
  timed(state, [&] { raw.read(buffer.get(), staging.get(), out); });
}

void weft_readback(benchmark::State& state) {
  std::vector<std::byte> out(static_cast<std::size_t>(state.range(0)));
  const Buffer buffer = device().alloc(out.size());
  timed(state, [&] { device().read(buffer, 0, out); });
}

void weft_readback_view(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const Buffer buffer = device().alloc(size);
  timed(state, [&] {
    Readback r = device().read_async(buffer, 0, size);
    benchmark::DoNotOptimize(r.view().data());
  });
}

void raw_create(benchmark::State& state) {
  const Raw raw(device());
  for (auto _ : state) {
    const auto b =
        raw.buffer(static_cast<std::uint64_t>(state.range(0)), WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst);
    benchmark::DoNotOptimize(b.get());
  }
}

void pool_hit(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(device().alloc(static_cast<std::size_t>(state.range(0))));
}

void pool_miss(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(device().alloc(static_cast<std::size_t>(state.range(0))));
    device().trim();
  }
}

/// 64 buffers of sizes that come and go, as a training step's temporaries do.
void churn(benchmark::State& state) {
  std::vector<Buffer> held(64);
  std::uint32_t x = 1;
  for (auto _ : state) {
    x = x * 1664525u + 1013904223u;
    held[(x >> 8) % held.size()] = device().alloc(1 + (x >> 12) % (1u << 20));
  }
  held.clear();
  state.counters["retained_MiB"] = static_cast<double>(device().memory().retained_bytes) / (1 << 20);
}

/// 10,000 mixed allocations and frees, writes and reads among them, on a device of their own; what then is live and
/// retained.
void mixed_10000(benchmark::State& state) {
  Device own = Device::open();
  for (auto _ : state) {
    std::vector<Buffer> held(128);
    std::uint32_t x = 7;
    for (int i = 0; i < 10'000; ++i) {
      x = x * 1664525u + 1013904223u;
      Buffer& slot = held[(x >> 8) % held.size()];
      slot = own.alloc(1 + (x >> 10) % (4u << 20));
      if (i % 100 == 0) own.write(slot, 0, pattern(1));
      if (i % 100 == 50) own.read_as<std::uint8_t>(slot, 0, 1);
    }
  }
  own.synchronize();
  const MemoryReport now = own.memory();
  state.SetItemsProcessed(state.iterations() * 10'000);
  state.counters["live_bytes"] = static_cast<double>(now.live_bytes);
  state.counters["retained_bytes"] = static_cast<double>(now.retained_bytes);
  state.counters["cap_bytes"] = static_cast<double>(now.cap_bytes);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (std::int64_t n : {4ll, 4ll << 10, 64ll << 10, 1ll << 20, 16ll << 20, 256ll << 20}) b->Arg(n);
  b->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(queue_write)->RangeMultiplier(2)->Range(64 << 10, 64 << 20)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(ring_write)->RangeMultiplier(2)->Range(64 << 10, 64 << 20)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(raw_upload)->Apply(sizes);
BENCHMARK(weft_upload)->Apply(sizes);
BENCHMARK(raw_readback)->Apply(sizes);
BENCHMARK(weft_readback)->Apply(sizes);
BENCHMARK(weft_readback_view)->Apply(sizes);
BENCHMARK(raw_create)->Arg(4096)->Arg(1 << 20)->UseRealTime();
BENCHMARK(pool_hit)->Arg(4096)->Arg(1 << 20)->UseRealTime();
BENCHMARK(pool_miss)->Arg(4096)->Arg(1 << 20)->UseRealTime();
BENCHMARK(churn)->UseRealTime();
BENCHMARK(mixed_10000)->Iterations(1)->UseRealTime();

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  return weft::bench::bench_main(argc, argv);
}
