// Convolutions, attention, norms, scans, sorting, transforms and random numbers through the public API: time from the
// call to completion on the device, warm; each row has its shape in its name. Rows marked large
// are for GPUs: on a CPU adapter they are left out.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench_device.h"
#include "bench_main.h"
#include "weft/weft.h"

namespace {

weft::Device& device() {
  return weft::bench::library_device();
}

weft::Tensor normal(const weft::Shape& shape, weft::DType dtype = weft::f32) {
  static weft::Random generator{1};
  return weft::cast(weft::random_normal(device(), shape, generator), dtype);
}

struct Work {
  std::function<weft::Tensor()> run;
  double flop = 0;   ///< 0: not told
  double bytes = 0;  ///< read and written at least; 0: not told
};

void add(const std::string& name, bool large, const std::function<Work()>& prepare) {
  if (large && device().adapter().type == weft::AdapterType::cpu) return;
  benchmark::RegisterBenchmark(name.c_str(), [name, prepare](benchmark::State& state) {
    try {
      const Work work = prepare();
      for (int i = 0; i < 2; ++i) work.run();
      device().synchronize();
      const int calls = weft::bench::calls_a_wait(device(), name, [&] { work.run(); });
      for (auto _ : state) {
        weft::Tensor out;
        for (int i = 0; i < calls; ++i) out = work.run();
        device().synchronize();
        benchmark::DoNotOptimize(out);
      }
      const double rounds = static_cast<double>(state.iterations()) * calls;
      state.SetItemsProcessed(static_cast<std::int64_t>(rounds));
      if (work.flop > 0) state.counters["FLOP/s"] = benchmark::Counter(work.flop * rounds, benchmark::Counter::kIsRate);
      if (work.bytes > 0) state.SetBytesProcessed(static_cast<std::int64_t>(work.bytes * rounds));
    } catch (const weft::Error& e) {
      state.SkipWithError(e.what());
    }
  })->UseRealTime();
}

void add_conv(std::int64_t batch, std::int64_t in, std::int64_t size, std::int64_t out, std::int64_t window,
              std::int64_t stride, bool large) {
  add("conv/" + std::to_string(batch) + "x" + std::to_string(in) + "x" + std::to_string(size) + "x" +
          std::to_string(size) + "_" + std::to_string(out) + "x" + std::to_string(window) + "x" +
          std::to_string(window) + "_s" + std::to_string(stride),
      large, [=] {
        const weft::Tensor x = normal({batch, in, size, size});
        const weft::Tensor w = normal({out, in, window, window});
        weft::ConvOptions options;
        options.window.stride = {stride, stride};
        options.window.pad_before = options.window.pad_after = {window / 2, window / 2};
        const std::int64_t side = (size + 2 * (window / 2) - window) / stride + 1;
        return Work{[=] { return weft::conv(x, w, options); },
                    2.0 * static_cast<double>(batch * out * side * side * in * window * window)};
      });
}

void add_attention(const std::string& name, weft::DType dtype, std::int64_t heads, std::int64_t kv_heads,
                   std::int64_t queries, std::int64_t keys, std::int64_t dim, bool causal, bool large) {
  add("attention/" + name + "_" + std::to_string(heads) + "x" + std::to_string(queries) + "x" + std::to_string(keys) +
          "x" + std::to_string(dim) + (causal ? "_causal" : ""),
      large, [=] {
        const weft::Tensor q = normal({1, heads, queries, dim}, dtype);
        const weft::Tensor k = normal({1, kv_heads, keys, dim}, dtype);
        const weft::Tensor v = normal({1, kv_heads, keys, dim}, dtype);
        weft::AttentionOptions options;
        options.causal = causal;
        const double pairs = static_cast<double>(heads * queries * keys) * (causal && queries == keys ? 0.5 : 1.0);
        Work work{[=] { return weft::attention(q, k, v, options); }, 4.0 * pairs * static_cast<double>(dim)};
        if (queries == 1) work.bytes = static_cast<double>(k.nbytes() + v.nbytes());
        return work;
      });
}

void add_rows() {
  for (std::int64_t rows : {1024, 16384}) {
    const bool large = rows > 1024;
    const weft::Shape shape{rows, 4096};
    const double bytes = 8.0 * static_cast<double>(rows * 4096);
    const std::string at = "/" + std::to_string(rows) + "x4096";
    add("softmax" + at, large, [=] {
      const weft::Tensor x = normal(shape);
      return Work{[=] { return weft::softmax(x); }, 0, bytes};
    });
    add("layer_norm" + at, large, [=] {
      const weft::Tensor x = normal(shape);
      return Work{[=] { return weft::layer_norm(x); }, 0, bytes};
    });
    add("rms_norm" + at, large, [=] {
      const weft::Tensor x = normal(shape);
      return Work{[=] { return weft::rms_norm(x); }, 0, bytes};
    });
    add("var" + at, large, [=] {
      const weft::Tensor x = normal(shape);
      return Work{[=] { return weft::var(x, {.axes = std::vector<std::int64_t>{-1}}); }, 0, bytes / 2};
    });
    add("sum_rows" + at, large, [=] {
      const weft::Tensor x = normal(shape);
      return Work{[=] { return weft::sum(x, {.axes = std::vector<std::int64_t>{-1}}); }, 0, bytes / 2};
    });
    add("cumsum" + at, large, [=] {
      const weft::Tensor x = normal(shape);
      return Work{[=] { return weft::cumsum(x); }, 0, bytes};
    });
    add("sort" + at, large, [=] {
      const weft::Tensor x = normal(shape);
      return Work{[=] { return weft::sort(x); }, 0, bytes};
    });
    add("topk32" + at, large, [=] {
      const weft::Tensor x = normal(shape);
      return Work{[=] { return weft::topk(x, 32).values; }, 0, bytes / 2};
    });
    add("fft" + at, large, [=] {
      const weft::Tensor x = normal({rows, 2048, 2});
      return Work{[=] { return weft::fft(x); }, 0, bytes};
    });
    add("random_normal" + at, large, [=] {
      return Work{[=] {
                    weft::Random generator{7};
                    return weft::random_normal(device(), shape, generator);
                  },
                  0, bytes / 2};
    });
  }
  add("cumsum/16Mi", false, [] {
    const weft::Tensor x = normal({1 << 24});
    return Work{[=] { return weft::cumsum(x); }, 0, 8.0 * (1 << 24)};
  });
  add("sort/1Mi", false, [] {
    const weft::Tensor x = normal({1 << 20});
    return Work{[=] { return weft::sort(x); }, 0, 8.0 * (1 << 20)};
  });
  add("fft/1Mi", false, [] {
    const weft::Tensor x = normal({1 << 20, 2});
    return Work{[=] { return weft::fft(x); }, 0, 16.0 * (1 << 20)};
  });
  add("embedding/50257x768_4096", true, [] {
    const weft::Tensor table = normal({50257, 768});
    const weft::Tensor ids = weft::arange(device(), 0, 4096 * 12, 12);
    return Work{[=] { return weft::embedding(table, ids, weft::IndexCheck::trusted); }, 0, 8.0 * 4096 * 768};
  });
}

void add_products() {
  for (std::int64_t n : {256, 512, 1024, 2048, 4096, 8192}) {
    for (weft::DType dtype : {weft::f32, weft::f16}) {
      if (dtype == weft::f16 && !device().features().f16) continue;
      add("matmul/" + std::string(dtype == weft::f16 ? "f16_" : "f32_") + std::to_string(n), n > 1024, [=] {
        const weft::Tensor a = normal({n, n}, dtype), b = normal({n, n}, dtype);
        const auto size = static_cast<double>(n);
        return Work{[=] { return weft::matmul(a, b); }, 2 * size * size * size};
      });
    }
  }
  for (std::int64_t n : {512, 1024, 4096, 8192}) {
    add("matmul/i8_" + std::to_string(n), n > 512, [=] {
      weft::Random generator{1};
      const weft::Tensor words = weft::random_bits(device(), {n, n / 4}, generator);
      const auto size = static_cast<double>(n);
      return Work{[=] { return weft::matmul_int8(words, words); }, 2 * size * size * size};
    });
  }
  const std::int64_t side = device().adapter().type == weft::AdapterType::cpu ? 128 : 512;
  add("batched_matmul/f32_64x" + std::to_string(side), false, [=] {
    const weft::Tensor a = normal({64, side, side}), b = normal({64, side, side});
    return Work{[=] { return weft::matmul(a, b); }, 2.0 * 64 * static_cast<double>(side * side * side)};
  });
  add("matmul_bias_gelu/f32_1024", false, [] {
    const weft::Tensor a = normal({1024, 1024}), b = normal({1024, 1024}), bias = normal({1024});
    return Work{[=] { return weft::matmul(a, b, {.bias = bias, .activation = weft::Activation::gelu}); },
                2.0 * 1024 * 1024 * 1024};
  });
  add("matvec/f32_4096", false, [] {
    const weft::Tensor a = normal({4096, 4096}), x = normal({4096});
    return Work{[=] { return weft::matmul(a, x); }, 2.0 * 4096 * 4096, 4.0 * 4096 * 4096};
  });
  add("matvec_transposed/f32_4096", false, [] {
    const weft::Tensor a = weft::transpose(normal({4096, 4096})), x = normal({4096});
    return Work{[=] { return weft::matmul(a, x); }, 2.0 * 4096 * 4096, 4.0 * 4096 * 4096};
  });
}

void add_all() {
  add_conv(1, 64, 56, 64, 3, 1, false);
  add_conv(1, 64, 56, 64, 1, 1, false);
  add_conv(1, 256, 14, 256, 3, 1, false);
  add_conv(8, 64, 56, 64, 3, 1, true);
  add_conv(8, 64, 56, 256, 1, 1, true);
  add_conv(8, 3, 224, 64, 7, 2, true);
  add_conv(8, 128, 28, 128, 3, 1, true);
  add_conv(8, 256, 14, 256, 3, 1, true);
  add_conv(8, 512, 7, 512, 3, 1, true);
  add_attention("f32", weft::f32, 8, 8, 256, 256, 64, false, false);
  add_attention("f32", weft::f32, 16, 16, 1024, 1024, 64, false, false);
  add_attention("f32", weft::f32, 16, 16, 1024, 1024, 64, true, false);
  add_attention("f16", weft::f16, 32, 32, 4096, 4096, 128, false, true);
  add_attention("f16", weft::f16, 32, 32, 4096, 4096, 128, true, true);
  add_attention("decode_f32", weft::f32, 16, 16, 1, 4096, 64, false, false);
  add_attention("decode_f16", weft::f16, 32, 32, 1, 32768, 128, false, true);
  add_rows();
  add_products();
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::bench_main(argc, argv, add_all);
}
