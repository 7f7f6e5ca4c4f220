// What a program of somebody else's does with Weft: prints the version, opens a device, adds two arrays.
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "weft/device.h"
#include "weft/ops.h"
#include "weft/tensor.h"

int main() try {
  std::printf("weft %s\n", std::string(weft::version()).c_str());
  weft::Device device = weft::Device::open();
  const std::vector<float> a{1, 2, 3};
  const std::vector<float> b{10, 20, 30};
  weft::Tensor sum = device.upload(std::span(a), {3}) + device.upload(std::span(b), {3});
  const std::vector<float> expected{11, 22, 33};
  if (sum.to_host<float>() != expected) {
    std::puts("1 2 3 + 10 20 30 came out wrong");
    return 1;
  }
  std::puts("11 22 33");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
