#include <array>

#include "ops/catalog.h"
#include "ops/random.h"

namespace weft::ops {
namespace {

constexpr std::array kOps{
    OpEntry{"random_bits", "u32", "Philox4x32-10 of the seed and the element's number",
            "numpy.random.Philox (another order)", "-", "exact on every device"},
    OpEntry{"random_uniform", "f32 (24 bits), f16 (11 bits)", "low + u (high - low), never high",
            "numpy.random.Generator.uniform; torch.rand; ONNX RandomUniform", "high - low within float32",
            "exact on every device"},
    OpEntry{"random_normal", "f32, f16", "mean + stddev sqrt(-2 ln u) cos or sin(2 pi v)",
            "numpy.random.Generator.normal; torch.randn; ONNX RandomNormal", "within 6.66 deviations",
            "1e-5 of the formula in double"},
    OpEntry{"random_integers", "i32, u32", "an integer from low up to high, without bias",
            "numpy.random.Generator.integers; torch.randint", "-", "exact on every device"},
};

void visit_kernels(const Device& device, const KernelVisitor& visit) {
  const auto one = [&](const RandomKernel& kernel) { visit(random_key(kernel), random_options(kernel)); };
  one({"bits", DType::u32});
  one({"integers", DType::u32});
  for (DType dtype : {DType::f32, DType::f16}) {
    if (dtype == DType::f16 && !device.features().f16) continue;
    one({"uniform", dtype});
    one({"normal", dtype});
  }
}

}  // namespace

const OpFamily& random_family() {
  static const OpFamily family{"Random numbers", kOps, &visit_kernels};
  return family;
}

}  // namespace weft::ops
