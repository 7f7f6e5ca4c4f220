// Attention kernels beside each other on one device, opened for the library's kernels alone: f16, 32 heads, 4096
// tokens, head 128, causal and not, by each tile of the matrix tier that is listed here and by the tier without
// matrices. Rounds are interleaved; the median of each is printed, with a copy of 256 MiB as the control. Every
// kernel's result for a small case is compared with the tile tier's. Then decoding, one query on 32768 keys, by the row
// tier and by the others: bytes of keys and values a second. Argument: --checked leaves bounds checks on; --short does
// one round of a small shape (for a CPU adapter).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/median.h"
#include "ops/attention_plan.h"
#include "ops/rows.h"
#include "tiles.h"
#include "weft/weft.h"

namespace {

using Clock = std::chrono::steady_clock;
using weft::median;
using weft::ops::AttentionMatrixTile;
using weft::ops::AttentionTier;
using weft::ops::AttentionTuning;

struct Candidate {
  std::string name;
  AttentionTuning tuning;
  std::vector<double> plain{}, causal{};  ///< seconds a call
  std::string note{};
};

Candidate matrix(std::uint32_t subgroups, std::uint32_t keys, bool shared, bool ahead) {
  AttentionMatrixTile like;
  like.subgroups = subgroups;
  like.keys = keys;
  like.shared = shared;
  like.ahead = ahead;
  return {fmt::format("matrix {} subgroups, {} keys{}{}", subgroups, keys, shared ? ", shared" : "",
                      ahead ? ", ahead" : ""),
          {AttentionTier::matrix, like}};
}

class Bench {
 public:
  explicit Bench(const weft::bench::TileOptions& options)
      : small_(options.small), device_(weft::bench::open_device(options.checked)) {
    for (const weft::SubgroupMatrix& s : device_.features().subgroup_matrices) {
      fmt::print("  {}>{} {}x{}x{}\n", s.in, s.out, s.m, s.n, s.k);
    }
    fmt::print("  subgroups of {} to {}, {} bytes of workgroup memory\n", device_.features().subgroup_min_size,
               device_.features().subgroup_max_size, device_.limits().max_workgroup_storage);
    weft::ops::force_kernel_class(weft::ops::KernelClass::gpu);
  }

  weft::Tensor normal(const weft::Shape& shape) {
    return weft::cast(weft::random_normal(device_, shape, generator_), weft::f16);
  }

  double seconds(int calls, const std::function<weft::Tensor()>& work) {
    device_.synchronize();
    const auto start = Clock::now();
    weft::Tensor out;
    for (int i = 0; i < calls; ++i) out = work();
    device_.synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count() / calls;
  }

  /// What the device itself needs for a call, by kernel, in microseconds.
  std::string device_times(const std::function<weft::Tensor()>& work) {
    if (!device_.features().timestamps) return "";
    weft::Profiler profiler(device_);
    constexpr int kCalls = 8;
    weft::Tensor out;
    for (int i = 0; i < kCalls; ++i) out = work();
    std::map<std::string, double> by_kernel;
    const weft::Trace trace = profiler.finish();
    for (const weft::TraceEvent& e : trace.events()) {
      if (e.on_device) by_kernel[e.name] += e.duration_us / kCalls;
    }
    std::string text;
    for (const auto& [name, us] : by_kernel) text += fmt::format("{}{} {:.1f} us", text.empty() ? "" : " + ", name, us);
    return text;
  }

  void attention(std::vector<Candidate> candidates, int rounds) {
    const std::int64_t heads = small_ ? 2 : 32, tokens = small_ ? 256 : 4096, dim = 128;
    const weft::Tensor q = normal({1, heads, tokens, dim}), k = normal({1, heads, tokens, dim}),
                       v = normal({1, heads, tokens, dim});
    const weft::Tensor q1 = normal({1, 2, 333, dim}), k1 = normal({1, 1, 517, dim}), v1 = normal({1, 1, 517, dim});
    const auto run = [&](bool causal) { return weft::attention(q, k, v, {.causal = causal}); };
    const auto check = [&] { return weft::attention(q1, k1, v1, {.causal = true}).to_host<weft::float16>(); };
    std::vector<weft::float16> expected;
    for (Candidate& c : candidates) {
      weft::ops::force_attention(c.tuning);
      try {
        if (c.tuning.matrix &&
            !weft::ops::choose_attention_matrix(device_.features(), device_.limits(), dim, dim, c.tuning.matrix)) {
          c.note = "does not fit the device";
          continue;
        }
        const auto start = Clock::now();
        const std::vector<weft::float16> got = check();
        c.note = fmt::format("compiled in {:.1f} s", std::chrono::duration<double>(Clock::now() - start).count());
        if (expected.empty()) expected = got;
        double worst = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double difference = std::abs(static_cast<float>(got[i]) - static_cast<float>(expected[i]));
          worst = difference <= worst ? worst : difference;  // a NaN stays
        }
        c.note += fmt::format(", differs by {:.5f} at most{}", worst, worst < 4e-3 ? "" : "  WRONG");
        run(false);
        run(true);
      } catch (const weft::Error& e) {
        c.note = std::string("FAILED: ") + e.what();
        continue;
      }
      device_.synchronize();
    }
    const weft::Tensor x = weft::random_normal(device_, {small_ ? 1 << 16 : 1 << 26}, generator_);
    std::vector<double> copies;
    for (int round = 0; round < rounds; ++round) {
      copies.push_back(seconds(small_ ? 1 : 100, [&] { return weft::unary(weft::UnaryOp::positive, x); }));
      for (Candidate& c : candidates) {
        if (!c.note.starts_with("compiled")) continue;
        weft::ops::force_attention(c.tuning);
        c.plain.push_back(seconds(small_ ? 1 : 4, [&] { return run(false); }));
        c.causal.push_back(seconds(small_ ? 1 : 4, [&] { return run(true); }));
      }
    }
    weft::ops::force_attention({});
    const double flop = 4.0 * static_cast<double>(heads * tokens * tokens * dim);
    fmt::print("\nattention f16, {} heads, {} tokens, head {}: TFLOP/s, all and causal (half the work)\n", heads,
               tokens, dim);
    for (const Candidate& c : candidates) {
      fmt::print("{:<52} {:8.2f} {:8.2f}   {}\n", c.name, flop / median(c.plain) / 1e12,
                 flop / 2 / median(c.causal) / 1e12, c.note);
    }
    fmt::print("copy {:.0f} GB/s (slowest {:.0f})\n", 8.0 * static_cast<double>(x.size()) / median(copies) / 1e9,
               8.0 * static_cast<double>(x.size()) / *std::max_element(copies.begin(), copies.end()) / 1e9);
    std::fflush(stdout);
  }

  /// Bytes of keys and values a second, of one query.
  void decode(weft::DType dtype, std::int64_t heads, std::int64_t kv_heads, std::int64_t keys, int rounds) {
    const std::int64_t dim = 128;
    const auto tensor = [&](const weft::Shape& shape) {
      return weft::cast(weft::random_normal(device_, shape, generator_), dtype);
    };
    if (small_) keys /= 16;
    const weft::Tensor q = tensor({1, heads, 1, dim}), k = tensor({1, kv_heads, keys, dim}),
                       v = tensor({1, kv_heads, keys, dim});
    std::vector<Candidate> candidates{{"tile", {AttentionTier::tile, {}}},
                                      {"row", {AttentionTier::row, {}}},
                                      {"matrix", {AttentionTier::matrix, {}}}};
    std::vector<float> expected;
    for (Candidate& c : candidates) {
      weft::ops::force_attention(c.tuning);
      try {
        const std::vector<float> got = weft::cast(weft::attention(q, k, v), weft::f32).to_host<float>();
        if (expected.empty()) expected = got;
        double worst = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double difference = std::abs(got[i] - expected[i]);
          worst = difference <= worst ? worst : difference;
        }
        c.note = fmt::format("differs by {:.5f} at most{}", worst, worst < 4e-3 ? "" : "  WRONG");
      } catch (const weft::Error& e) {
        c.note = std::string("FAILED: ") + e.what();
      }
    }
    for (int round = 0; round < rounds; ++round) {
      for (Candidate& c : candidates) {
        if (!c.note.starts_with("differs")) continue;
        weft::ops::force_attention(c.tuning);
        c.plain.push_back(seconds(small_ ? 1 : 100, [&] { return weft::attention(q, k, v); }));
      }
    }
    for (Candidate& c : candidates) {
      if (!c.note.starts_with("differs")) continue;
      weft::ops::force_attention(c.tuning);
      c.note = device_times([&] { return weft::attention(q, k, v); }) + "  " + c.note;
    }
    weft::ops::force_attention({});
    fmt::print("\ndecode {}, {} heads on {} of {} keys, head {}: GB/s\n", to_string(dtype), heads, kv_heads, keys, dim);
    for (const Candidate& c : candidates) {
      fmt::print("{:<52} {:8.0f}   {:.1f} us   {}\n", c.name,
                 static_cast<double>(k.nbytes() + v.nbytes()) / median(c.plain) / 1e9, median(c.plain) * 1e6, c.note);
    }
    std::fflush(stdout);
  }

 private:
  bool small_;
  weft::Device device_;
  weft::Random generator_{1};
};

}  // namespace

int main(int argc, char** argv) {
  const weft::bench::TileOptions options = weft::bench::tile_options(argc, argv);
  try {
    Bench bench(options);
    std::vector<Candidate> candidates{
        {"tile (no matrices)", {AttentionTier::tile, {}}},
        matrix(4, 32, false, true),
        matrix(4, 32, true, true),
        matrix(4, 32, true, false),
        matrix(8, 32, false, true),
        matrix(8, 32, true, true),
        matrix(6, 32, true, true),
        matrix(2, 32, true, true),
        matrix(4, 64, true, true),
        matrix(4, 64, true, false),
        matrix(2, 64, true, true),
        matrix(4, 32, false, false),
        matrix(4, 64, false, true),
        matrix(8, 64, true, true),
    };
    const int rounds = options.small ? 1 : 5;
    bench.attention(std::move(candidates), rounds);
    bench.decode(weft::f16, 32, 32, 32768, rounds);
    bench.decode(weft::f16, 32, 8, 32768, rounds);
    bench.decode(weft::f16, 32, 4, 32768, rounds);
    bench.decode(weft::f16, 32, 32, 4096, rounds);
    bench.decode(weft::f32, 16, 16, 32768, rounds);
  } catch (const weft::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return 0;
}
