// Variances, norms, and sums of exponentials.
#include "weft_python.h"

namespace weft::python {

void bind_statistics(nb::module_& m) {
  const auto spread = [&](const char* name, auto make, const char* doc) {
    m.def(
        name,
        [make](ArrayLike x_given, AxesLike axis, double correction, bool keepdims) {
          const Tensor x = to_tensor(x_given);
          const VarOptions options{.axes = to_axes(axis), .keepdims = keepdims, .ddof = correction};
          return record([&] { return make(x, options); });
        },
        nb::arg("x"), nb::arg("axis") = nb::none(), nb::kw_only(), nb::arg("correction") = 0.0,
        nb::arg("keepdims") = false, doc);
  };
  spread(
      "var", [](const Tensor& x, const VarOptions& o) { return var(x, o); },
      "Mean squared distance to the mean; the divisor is count - correction.");
  spread("std", [](const Tensor& x, const VarOptions& o) { return stddev(x, o); }, "The root of var.");
  m.def(
      "logsumexp",
      [](ArrayLike x_given, AxesLike axis, bool keepdims) {
        const Tensor x = to_tensor(x_given);
        const ReduceOptions options{.axes = to_axes(axis), .keepdims = keepdims};
        return record([&] { return logsumexp(x, options); });
      },
      nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, "log(sum(exp(x))), without overflow.");
  m.def(
      "vector_norm",
      [](ArrayLike x_given, AxesLike axis, bool keepdims, double ord) {
        const Tensor x = to_tensor(x_given);
        const ReduceOptions options{.axes = to_axes(axis), .keepdims = keepdims};
        return record([&] { return norm(x, ord, options); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, nb::arg("ord") = 2.0,
      "(sum of |x|^ord)^(1/ord); ord inf: the largest, -inf: the smallest, 0: how many are not 0.");
}

}  // namespace weft::python
