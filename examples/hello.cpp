// Upload, compute, read: the shortest whole program.
#include <weft/weft.h>

#include <cstdio>
#include <vector>

int main() {
  weft::Device dev = weft::Device::open();  // the best adapter, or WEFT_ADAPTER
  const std::vector<float> host{1, 2, 3, 4, 5, 6};
  weft::Tensor x = dev.upload(std::span<const float>(host), {2, 3});
  weft::Tensor y = weft::softmax(weft::matmul(x, weft::transpose(x)), {.axis = -1});  // recorded, not yet run
  const std::vector<float> out = y.to_host<float>();                                  // submits, waits, reads
  for (std::size_t i = 0; i < out.size(); ++i) std::printf("%.6f%c", out[i], i % 2 == 1 ? '\n' : ' ');
}
