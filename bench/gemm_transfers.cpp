// weft_bench_gemm_transfers [n] [rounds]: a float32 matrix product with its transfers (upload of both operands,
// product, readback), warm; prints seconds per run, one a line. Beside it: bench/peers/ort_matmul.py, which does the
// same work.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "weft/weft.h"

int main(int argc, char** argv) {
  try {
    const std::int64_t n = argc > 1 ? std::atoll(argv[1]) : 1024;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
    weft::Device device = weft::Device::open();
    std::vector<float> values(static_cast<std::size_t>(n * n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8.0f;
    for (int i = 0; i <= rounds; ++i) {  // the first compiles
      const auto start = std::chrono::steady_clock::now();
      const weft::Tensor a = device.upload(std::span<const float>(values), {n, n});
      const weft::Tensor b = device.upload(std::span<const float>(values), {n, n});
      const std::vector<float> c = weft::matmul(a, b).to_host<float>();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (i > 0) std::printf("%.6f\n", took.count());
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
