// Reductions.
#include "weft_python.h"

namespace weft::python {
namespace {

constexpr std::pair<ReduceOp, const char*> kReduce[] = {
    {ReduceOp::sum, "sum"}, {ReduceOp::mean, "mean"},     {ReduceOp::prod, "prod"},
    {ReduceOp::max, "max"}, {ReduceOp::min, "min"},       {ReduceOp::any, "any"},
    {ReduceOp::all, "all"}, {ReduceOp::argmax, "argmax"}, {ReduceOp::argmin, "argmin"},
};

}  // namespace

void bind_reduce(nb::module_& m) {
  for (const auto& [op, name] : kReduce) {
    m.def(
        name,
        [op = op](ArrayLike x, AxesLike axis, bool keepdims, DTypeLike dtype_given) {
          const Tensor t = to_tensor(x);
          const ReduceOptions options{.axes = to_axes(axis), .keepdims = keepdims};
          const auto dtype = to_optional_dtype(dtype_given);
          return record([&] {
            // Of a sum in another dtype the elements are cast first, as numpy does.
            return dtype && *dtype != t.dtype() ? reduce(op, cast(t, *dtype), options) : reduce(op, t, options);
          });
        },
        nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, nb::kw_only(),
        nb::arg("dtype") = nb::none());
  }
}

}  // namespace weft::python
