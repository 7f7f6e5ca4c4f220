#include <fmt/format.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "ops/infer_norm.h"
#include "ops/row_ops.h"
#include "weft/error.h"
#include "weft/nn.h"

namespace weft {

ops::RowOp ops::rms_norm_row_op(bool weight) {
  const auto make = [](bool w) {
    return fmt::format(R"(
fn second(x: f32, m: f32) -> f32 {{ return x * x; }}
fn result(x: V, m: f32, s: f32, r: u32) -> V {{
  return x * (1.0 / sqrt(s / f32(params.length) + params.eps)){};
}}
)",
                       w ? " * weight[(params.weight_offset + r) / UNIT]" : "");
  };
  static const std::array<std::string, 2> texts{make(false), make(true)};
  RowOp op;
  op.name = "rms_norm";
  op.text = texts[weight ? 1U : 0U];
  op.one_statistic = true;
  return op;
}

Tensor rms_norm(const Tensor& x, const RmsNormOptions& options) {
  constexpr std::string_view kName = "rms_norm";
  std::vector<const Tensor*> operands{&x};
  if (options.weight) operands.push_back(&options.weight);
  ops::common_device(kName, operands);
  const std::size_t axis = ops::normalize_axis(kName, options.axis, x.shape());
  ops::check_eps(kName, options.eps);
  if (!is_float(x.dtype())) {
    throw Error(ErrorCode::invalid_argument, fmt::format("rms_norm: x is {}, not a float", to_string(x.dtype())),
                "cast it to float32");
  }
  std::vector<std::size_t> axes(x.rank() - axis);
  std::iota(axes.begin(), axes.end(), axis);
  const Shape normalized(std::span<const std::int64_t>(x.shape().begin() + axis, axes.size()));

  ops::RowOp op = ops::rms_norm_row_op(static_cast<bool>(options.weight));
  op.eps = static_cast<float>(options.eps);
  op.weight = ops::row_operand(kName, "weight", options.weight, normalized);
  return ops::run_rows(op, x, axes);
}

}  // namespace weft
