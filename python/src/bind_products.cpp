// Products of matrices.
#include "weft_python.h"

namespace weft::python {

void bind_products(nb::module_& m) {
  m.def(
      "matmul",
      [](ArrayLike x1, ArrayLike x2) {
        const Tensor a = to_tensor(x1);
        const Tensor b = to_tensor(x2);
        return record([&] { return matmul(a, b); });
      },
      nb::arg("x1"), nb::arg("x2"), "numpy.matmul.");
}

}  // namespace weft::python
