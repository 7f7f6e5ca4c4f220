// Functions that make arrays of nothing but numbers.
#include "weft_python.h"

namespace weft::python {

void bind_make(nb::module_& m) {
  m.def(
      "full",
      [](ShapeLike shape_given, NumberLike value_given, DTypeLike dtype_given, DeviceLike device_given) {
        const Shape shape = to_shape(shape_given);
        const Scalar value = to_scalar(value_given);
        const auto natural = [&] {
          if (std::holds_alternative<bool>(value.value)) return DType::bool_;
          return std::holds_alternative<double>(value.value) ? DType::f32 : DType::i32;
        };
        const DType dtype = to_optional_dtype(dtype_given).value_or(natural());
        const Device device = device_or_default(device_given.given);
        return record([&] { return full(device, shape, value, dtype); });
      },
      nb::arg("shape"), nb::arg("fill_value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), "dtype None: bool, int32 or float32 by the value.");
  const auto plain = [&](const char* name, auto make, const char* doc) {
    m.def(
        name,
        [make](ShapeLike shape_given, DTypeLike dtype_given, DeviceLike device_given) {
          const Shape shape = to_shape(shape_given);
          const DType dtype = to_optional_dtype(dtype_given).value_or(DType::f32);
          Device device = device_or_default(device_given.given);
          return record([&] { return make(device, shape, dtype); });
        },
        nb::arg("shape"), nb::arg("dtype") = nb::none(), nb::kw_only(), nb::arg("device") = nb::none(), doc);
  };
  plain("zeros", [](Device& d, const Shape& s, DType t) { return d.zeros(s, t); }, "dtype None: float32.");
  plain("ones", [](Device& d, const Shape& s, DType t) { return full(d, s, 1, t); }, "dtype None: float32.");
  plain(
      "empty", [](Device& d, const Shape& s, DType t) { return d.empty(s, t); },
      "Contents undefined; dtype None: float32.");
  m.def("_arange", [](NumberLike start_given, NumberLike stop_given, NumberLike step_given, DTypeLike dtype_given,
                      DeviceLike device_given) {
    const Scalar start = to_scalar(start_given);
    const Scalar stop = to_scalar(stop_given);
    const Scalar step = to_scalar(step_given);
    const auto dtype = to_optional_dtype(dtype_given);
    const Device device = device_or_default(device_given.given);
    return record([&] { return arange(device, start, stop, step, dtype); });
  });
}

}  // namespace weft::python
