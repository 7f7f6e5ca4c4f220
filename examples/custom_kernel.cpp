// A kernel of one's own: WGSL with parameters, over buffers bound by name.
#include <weft/weft.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  weft::Device dev = weft::Device::open();
  const weft::Kernel saxpy = dev.kernel({.source = R"(
    struct Params { a: f32, n: u32 }
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {
      let i = linear_index(id);  // from the prelude; right past 65,535 groups
      if (i < params.n) { y[i] += params.a * x[i]; }
    })",
                                         .label = "saxpy"});

  struct Params {
    float a;
    std::uint32_t n;
  };
  const std::uint32_t n = 1'000'000;
  const weft::Tensor x = dev.upload(std::span<const float>(std::vector<float>(n, 3.0f)), {n});
  const weft::Tensor y = dev.zeros({n}, weft::f32);
  for (int step = 0; step < 10; ++step) {  // ten dispatches, one submit
    saxpy(dev.stream(), {{"x", x}, {"y", y}}, Params{0.5f, n}, weft::grid_for(n));
  }
  const std::vector<float> out = y.to_host<float>();
  std::printf("y[0] = %g, y[%u] = %g\n", out[0], n - 1, out[n - 1]);
  return out[0] == 15.0f && out[n - 1] == 15.0f ? 0 : 1;
}
