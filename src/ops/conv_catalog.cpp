#include <array>
#include <set>

#include "ops/catalog.h"
#include "ops/conv_codegen.h"
#include "ops/pool.h"

namespace weft::ops {
namespace {

constexpr std::string_view kDtypes = "f32, f16";
constexpr std::string_view kSums = "sums in f32: relative 2^-24 times the number of products; f16 rounds once";

constexpr std::array kOps{
    OpEntry{
        "conv", kDtypes,
        "activation(Σ x[n, c, o · stride + e · dilation - pad] · filter[k, c, e] + bias[k]), 1-D and 2-D, in groups",
        "torch.nn.functional.conv1d, conv2d; ONNX Conv", "lengths and padded lengths below 2^31", kSums},
    OpEntry{"conv_transpose", kDtypes, "the gradient of conv by its input, + bias",
            "torch.nn.functional.conv_transpose1d, conv_transpose2d; ONNX ConvTranspose",
            "lengths and padded lengths below 2^31", kSums},
    OpEntry{"conv_backward_data", kDtypes, "Σ over k, o of grad[n, k, o] · filter[k, c, e] where o reads that place",
            "torch.nn.grad.conv2d_input", "as conv", kSums},
    OpEntry{"conv_backward_filter", kDtypes, "Σ over n, o of grad[n, k, o] · x[n, c, o · stride + e · dilation - pad]",
            "torch.nn.grad.conv2d_weight", "as conv", kSums},
    OpEntry{"pool (max)", kDtypes, "the maximum of each window; NaN kept",
            "torch.nn.functional.max_pool2d; ONNX MaxPool, GlobalMaxPool", "padding less than the window spans",
            "exact"},
    OpEntry{"pool (average)", kDtypes, "the mean of each window",
            "torch.nn.functional.avg_pool2d; ONNX AveragePool, GlobalAveragePool", "padding less than the window spans",
            kSums},
    OpEntry{"batch_norm", kDtypes, "(x - mean) / sqrt(variance + eps) · weight + bias by channel",
            "torch.nn.functional.batch_norm (inference); ONNX BatchNormalization", "-", "4 ulp; f16 1 ulp"},
    OpEntry{"group_norm", kDtypes,
            "(x - mean) / sqrt(mean((x - mean)²) + eps) of each group of channels, · weight + bias by channel",
            "torch.nn.functional.group_norm, instance_norm; ONNX GroupNormalization, InstanceNormalization", "-",
            "absolute and relative 2e-5; f16 2e-3"},
};

/// batch_norm runs elementwise programs, group_norm the rows of layer_norm: kernels of those families.
void visit_kernels(const Device& device, const KernelVisitor& visit) {
  const bool f16 = device.features().f16;
  std::set<std::string> seen;  // the classes share some
  for (const bool cpu : {false, true}) {
    for (const ConvSpec& spec : conv_specs(cpu, device.limits(), f16)) {
      const std::string key = conv_key(spec);
      if (seen.insert(key).second) visit(key, conv_options(spec));
    }
  }
  visit(pack_key(DType::f32), pack_options(DType::f32));
  if (f16) visit(pack_key(DType::f16), pack_options(DType::f16));
  for (const PoolSpec& spec : pool_specs(f16)) visit(pool_key(spec), pool_options(spec));
}

}  // namespace

const OpFamily& conv_family() {
  static const OpFamily family{"Convolution and pooling", kOps, &visit_kernels};
  return family;
}

}  // namespace weft::ops
