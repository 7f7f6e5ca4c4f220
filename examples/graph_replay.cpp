// A graph: work recorded once, then replayed with other inputs and outputs, without a look-up or an allocation.
#include <weft/weft.h>

#include <cstdio>
#include <vector>

int main() {
  weft::Device dev = weft::Device::open();
  const std::vector<float> first(1024, 1.0f), second(1024, 2.0f);
  const weft::Tensor x = dev.upload(std::span<const float>(first), {1024});
  const weft::Tensor weights = dev.upload(std::span<const float>(std::vector<float>(1024, 0.5f)), {1024});

  // Nothing runs here. What the ops allocate on the way belongs to the graph.
  weft::Tensor y;
  const weft::Graph graph = dev.capture([&](const weft::Stream&) {
    y = x;
    for (int layer = 0; layer < 4; ++layer) y = weft::relu(y * weights + 1.0f);
  });
  std::printf("%zu nodes, the first is '%s'\n", graph.nodes().size(), graph.nodes()[0].label.c_str());

  for (int i = 0; i < 100; ++i) graph.run();  // recorded like any other work, in order with it
  const float a = y.to_host<float>()[0];

  dev.write(x.buffer(), 0, std::as_bytes(std::span(second)));  // new data in the same buffer
  graph.run();
  const float b = y.to_host<float>()[0];

  const weft::Tensor other = dev.upload(std::span<const float>(first), {1024});
  const weft::Tensor out = dev.empty({1024}, weft::f32);
  graph.run({{x.buffer(), other.buffer()}, {y.buffer(), out.buffer()}});  // or in other buffers, for this run
  const float c = out.to_host<float>()[0];

  std::printf("f(1) = %g, f(2) = %g, f(1) again = %g\n", a, b, c);
  return a == 1.9375f && b == 2.0f && c == a ? 0 : 1;
}
