// Cold start: the time from nothing to 20 kernels of the library's kind that have run once, in milliseconds, as one
// line of JSON. Run it twice with the same, at first empty, XDG_CACHE_HOME: on Dawn the second finds compiled pipelines
// on disk. `--threads` compiles through Device::prepare.
//
//   XDG_CACHE_HOME=$(mktemp -d) sh -c 'for i in 1 2 3; do build/bin/weft_bench_cold_start; done'
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "weft/device.h"
#include "weft/error.h"
#include "weft/kernel.h"
#include "weft/stream.h"

namespace {

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// A tiled matrix product: what a library's kernel is made of, different for each tile and depth.
weft::KernelOptions matmul(int tile, int depth) {
  const std::string t = std::to_string(tile);
  std::string body;
  for (int i = 0; i < depth; ++i) {
    const std::string n = std::to_string(i);
    body.append("    acc").append(n).append(" = fma(left[id.y * tile + k], right[k * tile + id.x], acc").append(n);
    body.append(" * 1.").append(n).append(");\n");
  }
  std::string accumulators;
  std::string sum = "0.0";
  for (int i = 0; i < depth; ++i) {
    accumulators += "  var acc" + std::to_string(i) + " = 0.0;\n";
    sum += " + acc" + std::to_string(i);
  }
  return {.source =
              "struct Params { m: u32, n: u32, k: u32, alpha: f32 }\n"
              "@group(0) @binding(0) var<storage, read> a: array<f32>;\n"
              "@group(0) @binding(1) var<storage, read> b: array<f32>;\n"
              "@group(0) @binding(2) var<storage, read_write> c: array<f32>;\n"
              "var<workgroup> left: array<f32, tile * tile>;\n"
              "var<workgroup> right: array<f32, tile * tile>;\n"
              "@compute @workgroup_size(tile, tile)\n"
              "fn main(@builtin(local_invocation_id) id: vec3u, @builtin(workgroup_id) group: vec3u) {\n"
              "  let row = group.y * tile + id.y;\n  let column = group.x * tile + id.x;\n" +
              accumulators +
              "  for (var at = 0u; at < params.k; at += tile) {\n"
              "    left[id.y * tile + id.x] = select(0.0, a[row * params.k + at + id.x], row < params.m);\n"
              "    right[id.y * tile + id.x] = select(0.0, b[(at + id.y) * params.n + column], column < params.n);\n"
              "    workgroupBarrier();\n    for (var k = 0u; k < tile; k++) {\n" +
              body +
              "    }\n    workgroupBarrier();\n  }\n"
              "  if (row < params.m && column < params.n) { c[row * params.n + column] = params.alpha * (" +
              sum + "); }\n}",
          .label = "matmul " + t + " " + std::to_string(depth),
          .constants = {{"tile", "u32", t + "u"}}};
}

}  // namespace

int main(int argc, char** argv) try {
  const bool threads = argc > 1 && std::strcmp(argv[1], "--threads") == 0;
  std::vector<weft::KernelOptions> options;
  for (int tile : {4, 8, 12, 16}) {
    for (int depth : {1, 2, 3, 4, 8}) options.push_back(matmul(tile, depth));
  }

  auto start = std::chrono::steady_clock::now();
  weft::Device device = weft::Device::open();
  const double open = since(start);

  start = std::chrono::steady_clock::now();
  std::vector<weft::Kernel> kernels;
  if (threads) {
    for (const weft::PendingKernel& pending : device.prepare(options)) kernels.push_back(pending.get());
  } else {
    for (const weft::KernelOptions& o : options) kernels.push_back(device.kernel(o));
  }
  const double compile = since(start);

  struct Params {
    std::uint32_t m, n, k;
    float alpha;
  };
  const weft::Buffer a = device.zeros_bytes(1024);
  const weft::Buffer b = device.zeros_bytes(1024);
  const weft::Buffer c = device.zeros_bytes(1024);
  start = std::chrono::steady_clock::now();
  for (const weft::Kernel& k : kernels) {
    k(device.stream(), {{"a", a}, {"b", b}, {"c", c}}, Params{16, 16, 16, 1.0f}, weft::Grid{1, 1, 1});
  }
  device.synchronize();
  const double run = since(start);
  std::printf(
      "{\"implementation\": \"%s\", \"adapter\": \"%s\", \"kernels\": %zu, \"open_ms\": %.1f, "
      "\"compile_ms\": %.1f, \"first_run_ms\": %.1f}\n",
      std::string(weft::implementation_name()).c_str(), device.adapter().name.c_str(), kernels.size(), open, compile,
      run);
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
