#include <array>
#include <cmath>

#include "ops/infer.h"
#include "ops/infer_moments.h"
#include "ops/launch.h"
#include "ops/reduce.h"
#include "weft/ops.h"

namespace weft {
namespace {

Tensor run(ops::Reduction reduction, std::string_view name, const Tensor& x,
           const std::optional<std::vector<std::int64_t>>& axes, bool keepdims, float number) {
  return ops::run_reduction(reduction, x, ops::normalize_axes(name, axes, x.shape()),
                            ops::moment_shape(name, x.shape(), axes, keepdims), ops::float_result(x.dtype()), number);
}

Tensor run_variance(ops::Reduction reduction, const Tensor& x, const VarOptions& options) {
  const std::string_view name = ops::to_string(reduction);
  ops::common_device(name, std::array{&x});
  std::int64_t count = 1;
  for (std::size_t axis : ops::normalize_axes(name, options.axes, x.shape())) count *= x.shape()[axis];
  const double divisor = static_cast<double>(count) - options.ddof;
  return run(reduction, name, x, options.axes, options.keepdims, static_cast<float>(divisor));
}

}  // namespace

Tensor var(const Tensor& x, const VarOptions& options) {
  return run_variance(ops::Reduction::variance, x, options);
}

Tensor stddev(const Tensor& x, const VarOptions& options) {
  return run_variance(ops::Reduction::deviation, x, options);
}

Tensor norm(const Tensor& x, double ord, const ReduceOptions& options) {
  ops::common_device("norm", std::array{&x});
  ops::check_norm(ord, x.shape(), options.axes);
  ops::Reduction reduction = ops::Reduction::norm_p;
  if (ord == 0) reduction = ops::Reduction::count;
  if (ord == 1) reduction = ops::Reduction::abs_sum;
  if (ord == 2) reduction = ops::Reduction::norm_2;
  if (std::isinf(ord)) reduction = ord > 0 ? ops::Reduction::abs_max : ops::Reduction::abs_min;
  return run(reduction, "norm", x, options.axes, options.keepdims, static_cast<float>(ord));
}

Tensor logsumexp(const Tensor& x, const ReduceOptions& options) {
  ops::common_device("logsumexp", std::array{&x});
  return run(ops::Reduction::log_sum_exp, "logsumexp", x, options.axes, options.keepdims, 0);
}

}  // namespace weft
