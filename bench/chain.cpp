// The fused chain relu(a*b + c), as `weft eval` runs it, beside a plain vec4 copy kernel (issue 3's measure: at least
// 0.8 of the copy's rate). One process, in turns, medians. Prints a line of JSON.
//
//   weft_bench_chain [MILLIONS=16] [ROUNDS=15]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "weft/weft.h"

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

template <class Work>
double seconds(weft::Device& device, Work&& work) {
  const auto start = Clock::now();
  for (int i = 0; i < 8; ++i) work();
  device.synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count() / 8;
}

}  // namespace

int main(int argc, char** argv) {
  const auto n = static_cast<std::uint32_t>((argc > 1 ? std::atoi(argv[1]) : 16) << 20);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  weft::Device device = weft::Device::open();
  const weft::Tensor a = weft::full(device, {n}, 1.5, weft::f32);
  const weft::Tensor b = weft::full(device, {n}, -2.0, weft::f32);
  const weft::Tensor c = weft::full(device, {n}, 3.5, weft::f32);
  const weft::Expression chain = weft::Expression::parse("relu(a*b + c)");
  const weft::Tensor out = device.empty({n}, weft::f32);
  const weft::Kernel copy = device.kernel({.source = R"(
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
  const auto run_chain = [&] { chain.evaluate(device, {{"a", a}, {"b", b}, {"c", c}}); };
  const auto run_copy = [&] { copy(device.stream(), {{"x", a}, {"y", out}}, params, weft::grid_for(n / 4)); };
  seconds(device, run_chain);
  seconds(device, run_copy);
  std::vector<double> chain_rate, copy_rate, ratio;
  for (int r = 0; r < rounds; ++r) {
    copy_rate.push_back(8.0 * n / seconds(device, run_copy) / 1e9);
    chain_rate.push_back(16.0 * n / seconds(device, run_chain) / 1e9);
    ratio.push_back(chain_rate.back() / copy_rate.back());
  }
  fmt::print(
      "{{\"device\": \"{}\", \"webgpu\": \"{} {}\", \"floats\": {}, \"copy_GBps\": {:.2f}, \"chain_GBps\": {:.2f}, "
      "\"ratio\": {:.3f}}}\n",
      device.adapter().name, weft::implementation_name(), weft::implementation_version(), n, median(copy_rate),
      median(chain_rate), median(ratio));
}
