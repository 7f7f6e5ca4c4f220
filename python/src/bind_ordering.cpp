// Sorting.
#include <nanobind/stl/pair.h>

#include "weft_python.h"

namespace weft::python {

void bind_ordering(nb::module_& m) {
  m.def(
      "sort",
      [](ArrayLike x_given, std::int64_t axis, bool descending, bool) {
        const Tensor x = to_tensor(x_given);
        return record([&] { return sort(x, {.axis = axis, .descending = descending}); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = -1, nb::arg("descending") = false, nb::arg("stable") = true,
      "Always stable; NaN last, or first when descending.");
  m.def(
      "argsort",
      [](ArrayLike x_given, std::int64_t axis, bool descending, bool) {
        const Tensor x = to_tensor(x_given);
        return record([&] { return argsort(x, {.axis = axis, .descending = descending}); });
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = -1, nb::arg("descending") = false, nb::arg("stable") = true,
      "The positions that sort takes its elements from.");
  m.def(
      "topk",
      [](ArrayLike x_given, std::int64_t k, std::int64_t axis, bool largest) {
        const Tensor x = to_tensor(x_given);
        TopK found;
        {
          const ReleaseGil released;
          found = topk(x, k, {.axis = axis, .largest = largest});
        }
        return std::pair(Array(std::move(found.values)), Array(std::move(found.indices)));
      },
      nb::arg("x"), nb::arg("k"), nb::kw_only(), nb::arg("axis") = -1, nb::arg("largest") = true,
      "The k largest (smallest) of each row, in order, and their positions.");
}

}  // namespace weft::python
