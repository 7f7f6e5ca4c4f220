// Layers of neural networks (weft.nn).
#include "weft_python.h"

namespace weft::python {
namespace {

Tensor optional_tensor(nb::handle h) {
  return h.is_none() ? Tensor() : to_tensor(ArrayLike{h});
}

}  // namespace

void bind_nn(nb::module_& m) {
  m.def(
      "softmax",
      [](ArrayLike x, std::int64_t axis) {
        const Tensor t = to_tensor(x);
        return record([&] { return softmax(t, {.axis = axis}); });
      },
      nb::arg("x"), nb::arg("axis") = -1);
  m.def(
      "log_softmax",
      [](ArrayLike x, std::int64_t axis) {
        const Tensor t = to_tensor(x);
        return record([&] { return log_softmax(t, {.axis = axis}); });
      },
      nb::arg("x"), nb::arg("axis") = -1);
  m.def(
      "layer_norm",
      [](ArrayLike x, nb::handle weight, nb::handle bias, std::int64_t axis, double eps) {
        const Tensor t = to_tensor(x);
        const LayerNormOptions options{
            .axis = axis, .weight = optional_tensor(weight), .bias = optional_tensor(bias), .eps = eps};
        return record([&] { return layer_norm(t, options); });
      },
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::kw_only(), nb::arg("axis") = -1,
      nb::arg("eps") = 1e-5,
      nb::sig("def layer_norm(x: weft._types.ArrayLike, weight: weft._types.ArrayLike | None = None, bias: "
              "weft._types.ArrayLike | None = None, *, axis: int = -1, eps: float = 1e-05) -> Array"),
      "Over this axis and all behind it.");
}

}  // namespace weft::python
