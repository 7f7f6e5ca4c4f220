// Product kernels beside each other on one device: each plan that the table can choose, and variations of it, at
// several sizes; rounds interleaved, medians. Of float32, float16, and packed 8-bit integers (as uint32). The device is
// opened for the library's kernels alone. Arguments: float32, float16 or uint32 for one of them; --checked leaves
// bounds checks on; --short does one round of one small size (for a CPU adapter).
#include <fmt/format.h>

#include <algorithm>
#include <array>
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

/// The table's plan for units (which comes first), with other tiles, slabs and stores to workgroup memory.
/// `few`: the slabs alone.
std::vector<Candidate> matrix_candidates(const weft::Device& device, weft::DType dtype, const MatmulPlan& table,
                                         bool few) {
  std::vector<Candidate> out;
  const auto add = [&](MatmulPlan p) {
    p.threads = p.tile_m / p.sub_m * (p.tile_n / p.sub_n) * p.unit.subgroup;
    const bool there = std::any_of(out.begin(), out.end(), [&](const Candidate& c) { return c.plan == p; });
    if (there || !weft::ops::matrix_fits(p, dtype, device.limits())) return;
    out.push_back({fmt::format("matrix {}x{}, {}x{} a subgroup, slab {}, stores of {}", p.tile_m, p.tile_n, p.sub_m,
                               p.sub_n, p.slab, p.vec),
                   p});
  };
  add(table);
  if (few) {
    for (std::uint32_t slab : {table.slab / 2, table.slab * 2}) {
      MatmulPlan p = table;
      p.slab = slab;
      add(p);
    }
    return out;
  }
  for (std::uint32_t vec : {1u, 4u, 8u}) {
    MatmulPlan p = table;
    p.vec = vec;
    for (std::uint32_t slab : {table.slab / 2, table.slab, table.slab * 2}) {
      p.slab = slab;
      add(p);
    }
  }
  constexpr std::array<std::uint32_t, 4> kTiles[] = {{128, 256, 64, 64}, {256, 128, 64, 64}, {128, 128, 64, 32},
                                                     {64, 128, 64, 64},  {64, 128, 32, 64},  {128, 64, 64, 32}};
  for (const auto& [tile_m, tile_n, sub_m, sub_n] : kTiles) {
    MatmulPlan p = table;
    p.tile_m = tile_m, p.tile_n = tile_n, p.sub_m = sub_m, p.sub_n = sub_n;
    for (std::uint32_t slab : {table.slab, table.slab * 2}) {
      p.slab = slab;
      add(p);
    }
  }
  return out;
}

std::vector<Candidate> candidates(const weft::Device& device, weft::DType dtype) {
  const weft::ops::MatrixUnit unit = weft::ops::usable_unit(device, dtype);
  std::vector<Candidate> out;
  bool varied = false;
  for (const MatmulPlan& plan : weft::ops::all_plans(DeviceClass::gpu, device.limits(), dtype, 0, unit)) {
    if (plan.kind == MatmulKind::matrix) {
      const auto more = matrix_candidates(device, dtype, plan, varied);
      out.insert(out.end(), more.begin(), more.end());
      varied = true;
    }
    if (plan.kind != MatmulKind::tile) continue;
    for (std::uint32_t unroll : {1u, 4u, 16u}) {
      MatmulPlan p = plan;
      p.unroll = unroll;
      out.push_back({fmt::format("tile {}x{}, {} threads, {} steps written out{}", p.tile_m, p.tile_n, p.threads,
                                 unroll, p.slices > 1 ? fmt::format(", {} slices", p.slices) : ""),
                     p});
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
  const bool packed = dtype == weft::u32;
  const auto operand = [&](const weft::Shape& shape) {
    return packed ? weft::random_integers(device, shape, generator, 0, std::int64_t{1} << 32, weft::u32)
                  : weft::cast(weft::random_uniform(device, shape, generator), dtype);
  };
  const weft::Tensor a = operand({m, packed ? k / 4 : k});
  const weft::Tensor b = packed ? operand({n, k / 4}) : operand({k, n});
  std::vector<Candidate> all = candidates(device, dtype);
  const double work = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  // Several calls a wait where one is short.
  const int calls = std::clamp(static_cast<int>(2e11 / work), 1, 50);
  for (int round = 0; round <= rounds; ++round) {
    for (Candidate& c : all) {
      const auto start = Clock::now();
      const weft::ops::MatmulTuning tuning{.device = DeviceClass::gpu, .plan = c.plan};
      for (int i = 0; i < (round > 0 ? calls : 1); ++i) {
        packed ? weft::ops::matmul_int8(a, b, {}, tuning) : weft::ops::matmul(a, b, {}, tuning);
      }
      device.synchronize();
      if (round > 0) c.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count() / calls);
    }
  }
  for (const Candidate& c : all) {
    fmt::print("{:8} {:5}x{:5}x{:5}  {:60} {:9.2f} {} (best {:.2f})\n", packed ? "8 bits" : to_string(dtype), m, k, n,
               c.name, work / weft::median(c.seconds) / 1e12, packed ? "TOP/s" : "TFLOP/s",
               work / *std::min_element(c.seconds.begin(), c.seconds.end()) / 1e12);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const weft::bench::TileOptions options = weft::bench::tile_options(argc, argv);
  std::vector<weft::DType> dtypes;
  for (int i = 1; i < argc; ++i) {
    for (weft::DType dtype : {weft::f32, weft::f16, weft::u32}) {
      if (argv[i] == to_string(dtype)) dtypes.push_back(dtype);
    }
  }
  if (dtypes.empty()) dtypes = {weft::f32, weft::f16, weft::u32};
  try {
    weft::Device device = weft::bench::open_device(options.checked);
    for (weft::DType dtype : dtypes) {
      if (dtype == weft::f16 && !device.features().f16) continue;
      if (options.small) {
        compare(device, dtype, 96, 96, 128, 1);
        continue;
      }
      for (std::int64_t n : {256, 512, 1024, 4096}) compare(device, dtype, n, n, n, 9);
      if (dtype == weft::u32) {
        compare(device, dtype, 4095, 4097, 4092, 5);
      } else {
        compare(device, dtype, 4095, 4097, 4095, 5);
      }
      if (dtype != weft::f32) compare(device, dtype, 8192, 8192, 8192, 5);
    }
  } catch (const weft::Error& e) {
    fmt::print(stderr, "weft_bench_gemm_tiles: {}\n", e.what());
    return 1;
  }
  return 0;
}
