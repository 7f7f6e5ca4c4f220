#include <fmt/format.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "ops/rows.h"
#include "weft/error.h"
#include "weft/ops.h"
#include "wgsl/layer_norm.wgsl.h"

namespace weft {
namespace {

/// Weight or bias as the kernel reads it: f32, dense, one element for each of a row.
Tensor prepared(std::string_view name, const Tensor& given, const Shape& normalized) {
  if (!given) return given;
  if (!is_float(given.dtype())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("layer_norm: {} is {}, not a float", name, to_string(given.dtype())), "cast it to float32");
  }
  bool fits = given.rank() <= normalized.rank();
  for (std::size_t i = 0; fits && i < given.rank(); ++i) {
    const std::int64_t length = given.shape()[given.rank() - 1 - i];
    fits = length == 1 || length == normalized[normalized.rank() - 1 - i];
  }
  if (!fits) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("layer_norm: {} of shape {} does not broadcast to the normalised axes {}", name,
                            to_string(given.shape()), to_string(normalized)),
                fmt::format("give it shape {}", to_string(normalized)));
  }
  return contiguous(cast(broadcast_to(given, normalized), DType::f32));
}

}  // namespace

Tensor layer_norm(const Tensor& x, const LayerNormOptions& options) {
  constexpr std::string_view kName = "layer_norm";
  std::vector<const Tensor*> operands{&x};
  if (options.weight) operands.push_back(&options.weight);
  if (options.bias) operands.push_back(&options.bias);
  ops::common_device(kName, operands);
  const std::size_t axis = ops::normalize_axis(kName, options.axis, x.shape());
  if (!(options.eps >= 0)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("layer_norm: eps is {}", options.eps),
                "give a number that is not negative");
  }
  std::vector<std::size_t> axes(x.rank() - axis);
  std::iota(axes.begin(), axes.end(), axis);
  const Shape normalized(std::span<const std::int64_t>(x.shape().begin() + axis, axes.size()));

  ops::RowOp op;
  op.name = kName;
  op.eps = static_cast<float>(options.eps);
  op.weight = prepared("weight", options.weight, normalized);
  op.bias = prepared("bias", options.bias, normalized);
  if (x.size() == 0) return ops::run_rows(op, x, axes);
  const std::string text =
      std::string(wgsl::layer_norm) + fmt::format(R"(
fn result(x: V, m: f32, s: f32, r: u32) -> V {{ return (x - m) * scale_of(s){}{}; }}
)",
                                                  op.weight ? " * weight[(params.weight_offset + r) / UNIT]" : "",
                                                  op.bias ? " + bias[(params.bias_offset + r) / UNIT]" : "");
  op.text = text;
  return ops::run_rows(op, x, axes);
}

}  // namespace weft
