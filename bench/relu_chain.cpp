// A chain of small ops, relu over a few thousand floats, as a user writes it: eagerly through the op library, and
// captured once and replayed, also with as many of them in one kernel as Python's lazy arrays and weft.jit put there.
// The peer is bench/peers/torch_relu_chain.py, which starts this in turns with itself. Prints "eager S", "graph S" and
// "fused S" lines: seconds from the first call to the work being done, per chain.
//
//   weft_bench_relu_chain [FLOATS=4096] [OPS=1000] [ROUNDS=5]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "ops/elementwise.h"
#include "weft/weft.h"

namespace {

using Clock = std::chrono::steady_clock;

template <class Work>
double seconds(weft::Device& device, Work&& work) {
  const auto start = Clock::now();
  work();
  device.synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t floats = argc > 1 ? std::atoll(argv[1]) : 4096;
  const int ops = argc > 2 ? std::atoi(argv[2]) : 1000;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  weft::Device device = weft::Device::open();
  const weft::Tensor x = weft::full(device, {floats}, 1.5, weft::f32);
  weft::Tensor y;
  const auto chain = [&] {
    y = x;
    for (int i = 0; i < ops; ++i) y = weft::relu(y);
  };
  const weft::Graph graph = device.capture([&](const weft::Stream&) { chain(); });
  constexpr int kFused = 63;  // operations of one program (python/src/lazy.cpp)
  const weft::Graph fused = device.capture([&](const weft::Stream&) {
    weft::Tensor z = x;
    for (int done = 0; done < ops;) {
      weft::ops::ElementProgram program;
      std::int32_t node = program.input(z);
      for (int i = 0; i < kFused && done < ops; ++i, ++done) node = program.unary(weft::UnaryOp::relu, node);
      z = program.run(device, x.shape(), node);
    }
  });
  for (int r = 0; r < 3; ++r) {
    seconds(device, chain);
    seconds(device, [&] { graph.run(); });
    seconds(device, [&] { fused.run(); });
  }
  for (int r = 0; r < rounds; ++r) {
    fmt::print("eager {:.9f}\n", seconds(device, chain));
    fmt::print("graph {:.9f}\n", seconds(device, [&] { graph.run(); }));
    fmt::print("fused {:.9f}\n", seconds(device, [&] { fused.run(); }));
  }
}
