#include "ops/row_ops.h"

#include <array>
#include <string>

#include "ops/infer.h"
#include "ops/rows.h"
#include "ops/wgsl.h"
#include "weft/ops.h"

namespace weft {
namespace ops {
namespace {

Tensor run(const RowOp& op, const Tensor& x, SoftmaxOptions options) {
  common_device(op.name, std::array{&x});
  const std::array axes{normalize_axis(op.name, options.axis, x.shape())};
  return run_rows(op, x, axes);
}

}  // namespace

RowOp softmax_row_op() {
  static const std::string text = std::string(wgsl::softmax) + R"(
fn kept(x: V, m: f32) -> V { return shares(x, m); }
fn kept_result(share: V, m: f32, s: f32, r: u32) -> V {
  if (!is_finite(m)) { return V(not_a_number()); }
  return share * (1.0 / s);
}
fn result(x: V, m: f32, s: f32, r: u32) -> V { return kept_result(shares(x, m), m, s, r); }
)";
  RowOp op;
  op.name = "softmax";
  op.first_join = FirstJoin::maximum;
  op.text = text;
  op.keeps = true;
  return op;
}

RowOp log_softmax_row_op() {
  static const std::string text = std::string(wgsl::softmax) + R"(
fn result(x: V, m: f32, s: f32, r: u32) -> V {
  if (!is_finite(m)) { return V(not_a_number()); }
  return (x - m) - log(s);
}
)";
  RowOp op;
  op.name = "log_softmax";
  op.first_join = FirstJoin::maximum;
  op.text = text;
  return op;
}

}  // namespace ops

Tensor softmax(const Tensor& x, SoftmaxOptions options) {
  return ops::run(ops::softmax_row_op(), x, options);
}

Tensor log_softmax(const Tensor& x, SoftmaxOptions options) {
  return ops::run(ops::log_softmax_row_op(), x, options);
}

}  // namespace weft
