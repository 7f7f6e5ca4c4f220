#include <fmt/format.h>

#include <array>

#include "ops/attention_plan.h"
#include "ops/catalog.h"
#include "ops/launch.h"
#include "ops/matmul.h"

namespace weft::ops {
namespace {

constexpr std::array kOps{
    OpEntry{"attention", "f32, f16 (mask: bool, f32, f16)", "softmax(q kᵀ · scale + mask) v by heads",
            "torch.nn.functional.scaled_dot_product_attention (causal: lower right); ONNX Attention",
            "2^30 queries of all heads, 2^30 keys", "absolute and relative 2e-5; f16 4e-3"},
};

void visit_kernels(const Device& device, const KernelVisitor& visit) {
  const auto give = [&](const std::string& key, std::string source) {
    KernelOptions options;
    options.source = std::move(source);
    options.label = key;
    visit(key, options);
  };
  // On a CPU adapter also what a GPU with its limits would get, for the compilers' sake.
  for (const bool short_walks : {false, true}) {
    if (short_walks && !is_cpu(device)) continue;
    for (const AttentionSpec& spec : attention_specs(device.limits(), device.features(), short_walks)) {
      if (spec.matrix && !usable_unit(device, DType::f16)) continue;
      // Of what takes a CPU's compiler long, matrix kernels written out and many rows, the smallest.
      const bool large_matrix = spec.matrix && (spec.matrix->depth * spec.matrix->columns > 32 * 32 || spec.partial);
      const bool long_text = !spec.rolled && (large_matrix || (spec.tier == AttentionTier::row && spec.rows > 4));
      if (is_cpu(device) && long_text) continue;
      if (!short_walks || spec.rolled) give(attention_key(spec), attention_source(spec));
    }
  }
  for (const bool cpu : {false, true}) {
    give(attention_merge_key(DType::f32, cpu), attention_merge_source(DType::f32, cpu));
    if (device.features().f16) {
      give(attention_merge_key(DType::f16, cpu), attention_merge_source(DType::f16, cpu));
    }
  }
}

}  // namespace

const OpFamily& attention_family() {
  static const OpFamily family{"Attention", kOps, &visit_kernels};
  return family;
}

}  // namespace weft::ops
