// The device that all benchmarks of a program share, a line that names it, and the plain copy that rows stand beside.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "weft/device.h"
#include "weft/kernel.h"
#include "weft/stream.h"

namespace weft::bench {

inline Device& device() {
  static Device d = Device::open();
  return d;
}

/// For work that holds kernels of the library alone, as `weft eval` has: Dawn leaves bounds checks out then. It refuses
/// WGSL of ours, so plain copies run on device().
inline Device& library_device() {
  static Device d = [] {
    DeviceOptions options;
    options.library_kernels_only = true;
    return Device::open(options);
  }();
  return d;
}

/// Puts adapter, implementation and version into the results.
inline void add_context() {
  benchmark::AddCustomContext("adapter", device().adapter().name);
  benchmark::AddCustomContext("driver", device().adapter().driver);
  benchmark::AddCustomContext("webgpu", std::string(implementation_name()) + " " + implementation_version());
  benchmark::AddCustomContext("weft", std::string(version()));
}

/// How many calls of a row share a wait: as many as take 30 ms, at most 200, so that a wait's own time is a small part.
/// The rule of all that stand beside each other (bench/peers). Found at a row's first call, and kept.
inline int calls_a_wait(Device& d, const std::string& row, const std::function<void()>& call) {
  static std::map<std::string, int> known;
  int& calls = known[row];
  if (calls > 0) return calls;
  constexpr double kLongEnough = 0.03;
  constexpr int kMost = 200;
  for (int n = 1;;) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n; ++i) call();
    d.synchronize();
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (took > kLongEnough || n == kMost) return calls = n;
    n = std::min(kMost, std::max(2 * n, static_cast<int>(n * 1.5 * kLongEnough / took)));
  }
}

/// Copies four floats a lane: what the device's memory can do.
inline Kernel copy_kernel(Device& d) {
  return d.kernel({.source = R"(
    struct Params { n: u32 }
    @group(0) @binding(0) var<storage, read> x: array<vec4f>;
    @group(0) @binding(1) var<storage, read_write> y: array<vec4f>;
    @compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) {
      let i = linear_index(id);
      if (i < params.n) { y[i] = x[i]; }
    })",
                   .label = "copy"});
}

/// Records one copy of the whole of `from`, whose size is a multiple of 16 bytes.
inline void copy_vec4(const Kernel& kernel, const Buffer& from, const Buffer& to) {
  const struct {
    std::uint32_t n;
  } params{static_cast<std::uint32_t>(from.size() / 16)};
  kernel(device().stream(), {{"x", from}, {"y", to}}, params, grid_for(params.n));
}

}  // namespace weft::bench
