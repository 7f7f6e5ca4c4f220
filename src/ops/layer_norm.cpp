#include <fmt/format.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "ops/infer_norm.h"
#include "ops/row_ops.h"
#include "ops/wgsl.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft {

ops::RowOp ops::layer_norm_row_op(bool weight, bool bias) {
  const auto make = [](bool w, bool b) {
    return std::string(wgsl::layer_norm) +
           fmt::format("\nfn result(x: V, m: f32, s: f32, r: u32) -> V {{ return (x - m) * scale_of(s){}{}; }}\n",
                       w ? " * weight[(params.weight_offset + r) / UNIT]" : "",
                       b ? " + bias[(params.bias_offset + r) / UNIT]" : "");
  };
  static const std::array<std::string, 4> texts{make(false, false), make(true, false), make(false, true),
                                                make(true, true)};
  RowOp op;
  op.name = "layer_norm";
  op.from_first = true;
  op.text = texts[(weight ? 1U : 0U) + (bias ? 2U : 0U)];
  return op;
}

Tensor layer_norm(const Tensor& x, const LayerNormOptions& options) {
  constexpr std::string_view kName = "layer_norm";
  std::vector<const Tensor*> operands{&x};
  if (options.weight) operands.push_back(&options.weight);
  if (options.bias) operands.push_back(&options.bias);
  ops::common_device(kName, operands);
  const std::size_t axis = ops::normalize_axis(kName, options.axis, x.shape());
  ops::check_eps(kName, options.eps);
  std::vector<std::size_t> axes(x.rank() - axis);
  std::iota(axes.begin(), axes.end(), axis);
  const Shape normalized(std::span<const std::int64_t>(x.shape().begin() + axis, axes.size()));

  ops::RowOp op = ops::layer_norm_row_op(static_cast<bool>(options.weight), static_cast<bool>(options.bias));
  op.eps = static_cast<float>(options.eps);
  op.weight = ops::row_operand(kName, "weight", options.weight, normalized);
  op.bias = ops::row_operand(kName, "bias", options.bias, normalized);
  return ops::run_rows(op, x, axes);
}

}  // namespace weft
