// Product kernels beside each other on one device: each plan that the table can choose, and variations of it, at
// several sizes; rounds interleaved, medians. The device is opened for the library's kernels alone. Argument: --checked
// leaves bounds checks on; --short does one round of one small size (for a CPU adapter).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/median.h"
#include "ops/matmul.h"
#include "tiles.h"
#include "weft/weft.h"

namespace {

using Clock = std::chrono::steady_clock;
using weft::ops::DeviceClass;
using weft::ops::MatmulKind;
using weft::ops::MatmulPlan;

struct Candidate {
  std::string name;
  MatmulPlan plan;
  std::vector<double> seconds{};
};

std::vector<Candidate> candidates(const weft::Device& device, weft::DType dtype) {
  const auto unit =
      dtype == weft::f16 ? weft::ops::matrix_unit(device.features(), "f16", "f32") : weft::ops::MatrixUnit{};
  std::vector<Candidate> out;
  for (const MatmulPlan& plan : weft::ops::all_plans(DeviceClass::gpu, device.limits(), dtype, 0, unit)) {
    if (plan.kind == MatmulKind::matrix) {
      out.push_back(
          {fmt::format("matrix {}x{}, {}x{} a subgroup", plan.tile_m, plan.tile_n, plan.sub_m, plan.sub_n), plan});
    }
    if (plan.kind != MatmulKind::tile) continue;
    for (std::uint32_t unroll : {1u, 4u, 16u}) {
      MatmulPlan p = plan;
      p.unroll = unroll;
      out.push_back(
          {fmt::format("tile {}x{}, {} threads, {} steps written out", p.tile_m, p.tile_n, p.threads, unroll), p});
      if (p.tile_m == 128) {
        p.threads = 256;
        out.push_back(
            {fmt::format("tile {}x{}, {} threads, {} steps written out", p.tile_m, p.tile_n, p.threads, unroll), p});
      }
    }
  }
  return out;
}

void compare(weft::Device& device, weft::DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, int rounds) {
  weft::Random generator(1);
  const weft::Tensor a = weft::cast(weft::random_uniform(device, {m, k}, generator), dtype);
  const weft::Tensor b = weft::cast(weft::random_uniform(device, {k, n}, generator), dtype);
  std::vector<Candidate> all = candidates(device, dtype);
  const double work = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  for (int round = 0; round <= rounds; ++round) {
    for (Candidate& c : all) {
      const auto start = Clock::now();
      const weft::Tensor r = weft::ops::matmul(a, b, {}, {.device = DeviceClass::gpu, .plan = c.plan});
      device.synchronize();
      if (round > 0) c.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  for (const Candidate& c : all) {
    fmt::print("{:8} {:5}x{:5}x{:5}  {:46} {:9.2f} TFLOP/s (best {:.2f})\n", to_string(dtype), m, k, n, c.name,
               work / weft::median(c.seconds) / 1e12,
               work / *std::min_element(c.seconds.begin(), c.seconds.end()) / 1e12);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const weft::bench::TileOptions options = weft::bench::tile_options(argc, argv);
  try {
    weft::Device device = weft::bench::open_device(options.checked);
    for (weft::DType dtype : {weft::f32, weft::f16}) {
      if (dtype == weft::f16 && !device.features().f16) continue;
      if (options.small) {
        compare(device, dtype, 96, 96, 96, 1);
        continue;
      }
      for (std::int64_t n : {1024, 4096}) compare(device, dtype, n, n, n, 9);
      compare(device, dtype, 4095, 4097, 4095, 5);
      if (dtype == weft::f16) compare(device, dtype, 8192, 8192, 8192, 5);
    }
  } catch (const weft::Error& e) {
    fmt::print(stderr, "weft_bench_gemm_tiles: {}\n", e.what());
    return 1;
  }
  return 0;
}
