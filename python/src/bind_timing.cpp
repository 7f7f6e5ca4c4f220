// For bench/python_overhead.py: what an operation takes when C++ calls it.
#include "weft_python.h"

namespace weft::python {

void bind_timing(nb::module_& m) {
  m.def(
      "_time_add",
      [](const Array& a, const Array& b, std::size_t times) {
        const Tensor x = a.get();
        const Tensor y = b.get();
        const ReleaseGil released;
        const auto start = std::chrono::steady_clock::now();
        for (std::size_t i = 0; i < times; ++i) binary(BinaryOp::add, x, y);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      },
      "Seconds that so many x + y take until they are recorded, in one C++ loop.");
}

}  // namespace weft::python
