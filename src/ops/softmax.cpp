#include <array>
#include <string>

#include "ops/infer.h"
#include "ops/rows.h"
#include "weft/ops.h"
#include "wgsl/softmax.wgsl.h"

namespace weft {
namespace {

Tensor run(std::string_view name, std::string_view result, const Tensor& x, SoftmaxOptions options) {
  ops::common_device(name, std::array{&x});
  const std::array axes{ops::normalize_axis(name, options.axis, x.shape())};
  const std::string text = std::string(wgsl::softmax) + std::string(result);
  ops::RowOp op;
  op.name = name;
  op.text = text;
  return ops::run_rows(op, x, axes);
}

}  // namespace

Tensor softmax(const Tensor& x, SoftmaxOptions options) {
  return run("softmax", R"(
fn result(x: V, m: f32, s: f32, r: u32) -> V {
  if (!is_finite(m)) { return V(not_a_number()); }
  let d = x - m;
  return select(exp(d), V(), d < V(-104.0)) / s;
}
)",
             x, options);
}

Tensor log_softmax(const Tensor& x, SoftmaxOptions options) {
  return run("log_softmax", R"(
fn result(x: V, m: f32, s: f32, r: u32) -> V {
  if (!is_finite(m)) { return V(not_a_number()); }
  return (x - m) - log(s);
}
)",
             x, options);
}

}  // namespace weft
