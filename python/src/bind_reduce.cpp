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
    const std::string doc = op_doc(to_string(op));
    const bool adds = op == ReduceOp::sum || op == ReduceOp::mean || op == ReduceOp::prod;
    if (!adds) {
      m.def(
          name,
          [op = op](ArrayLike x, AxesLike axis, bool keepdims) {
            const Tensor t = to_tensor(x);
            const ReduceOptions options{.axes = to_axes(axis), .keepdims = keepdims};
            return record([&] { return reduce(op, t, options); });
          },
          nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, doc.c_str());
      continue;
    }
    m.def(
        name,
        [op = op](ArrayLike x, AxesLike axis, bool keepdims, DTypeLike dtype_given) {
          const Tensor t = to_tensor(x);
          const ReduceOptions options{.axes = to_axes(axis), .keepdims = keepdims};
          const auto dtype = to_optional_dtype(dtype_given);
          return record([&] {
            if (!dtype) return reduce(op, t, options);
            // As numpy does, the elements are cast first. A mean keeps its fractions until the end.
            const bool first = *dtype != t.dtype() && (op != ReduceOp::mean || is_float(*dtype));
            const Tensor out = reduce(op, first ? cast(t, *dtype) : t, options);
            return out.dtype() == *dtype ? out : cast(out, *dtype);
          });
        },
        nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, nb::kw_only(),
        nb::arg("dtype") = nb::none(), doc.c_str());
  }
}

}  // namespace weft::python
