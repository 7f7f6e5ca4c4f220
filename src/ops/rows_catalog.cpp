#include <array>

#include "ops/catalog.h"
#include "ops/row_ops.h"

namespace weft::ops {
namespace {

constexpr std::array kOps{
    OpEntry{"softmax", "f32, f16; i32, u32, bool give f32", "exp(x - max) / sum(exp(x - max)) along an axis",
            "scipy.special.softmax; torch.softmax; ONNX Softmax", "-", "absolute and relative 2e-6; f16 1e-3"},
    OpEntry{"log_softmax", "f32, f16; i32, u32, bool give f32", "x - max - log(sum(exp(x - max))) along an axis",
            "scipy.special.log_softmax; torch.log_softmax; ONNX LogSoftmax", "-",
            "absolute and relative 2e-6; f16 1e-3"},
    OpEntry{"layer_norm", "f32, f16; i32, u32, bool give f32",
            "(x - mean) / sqrt(mean((x - mean)²) + eps) · weight + bias over the axes from `axis` on",
            "torch.nn.functional.layer_norm; ONNX LayerNormalization", "-", "absolute and relative 2e-5; f16 2e-3"},
    OpEntry{"rms_norm", "f32, f16", "x / sqrt(mean(x²) + eps) · weight over the axes from `axis` on",
            "torch.nn.functional.rms_norm; ONNX RMSNormalization", "squares in f32: |x| below 1.8e19",
            "absolute and relative 1e-5; f16 2e-3"},
};

/// An op as if it had been called with weight and bias: only that they are there changes the kernel.
RowOp with(RowOp op, const Tensor& weight, const Tensor& bias) {
  op.weight = weight;
  op.bias = bias;
  return op;
}

void visit_kernels(const Device& device, const KernelVisitor& visit) {
  Device owner = device;
  const Tensor some = owner.empty({1}, DType::f32);
  visit_row_kernels(device, softmax_row_op(), visit);
  visit_row_kernels(device, log_softmax_row_op(), visit);
  for (const bool weight : {false, true}) {
    for (const bool bias : {false, true}) {
      visit_row_kernels(device, with(layer_norm_row_op(weight, bias), weight ? some : Tensor(), bias ? some : Tensor()),
                        visit);
    }
    visit_row_kernels(device, with(rms_norm_row_op(weight), weight ? some : Tensor(), Tensor()), visit);
  }
}

}  // namespace

const OpFamily& rows_family() {
  static const OpFamily family{"Rows", kOps, &visit_kernels};
  return family;
}

}  // namespace weft::ops
