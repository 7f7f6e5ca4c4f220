// Random numbers (weft.random).
#include <fmt/format.h>

#include <mutex>

#include "weft_python.h"

namespace weft::python {
namespace {

/// weft.random.Generator: one draw at a time, so those of two threads never overlap.
struct Generator {
  explicit Generator(std::uint64_t seed) : state{.seed = seed, .offset = 0} {}
  Random state;
  std::mutex mutex;  // never taken with the interpreter's lock held
};

std::uint64_t to_seed(nb::handle given) {
  const nb::object whole = PyIndex_Check(given.ptr()) != 0 ? nb::steal(PyNumber_Index(given.ptr())) : nb::object();
  const unsigned long long seed = whole.is_valid() ? PyLong_AsUnsignedLongLong(whole.ptr()) : 0;
  if (whole.is_valid() && PyErr_Occurred() == nullptr) return seed;
  PyErr_Clear();
  throw Error(ErrorCode::invalid_argument, fmt::format("the seed is {:.60}", nb::cast<std::string>(nb::repr(given))),
              "give a whole number from 0 to 18446744073709551615");
}

template <class F>
Array draw(Generator& g, F&& f) {
  const ReleaseGil released;
  const std::lock_guard lock(g.mutex);
  return Array(f(g.state));
}

}  // namespace

void bind_random(nb::module_& m) {
  nb::class_<Generator>(m, "Generator",
                        "A stream of random numbers, the same for a seed on every device (Philox4x32-10). Not for "
                        "secrets.")
      .def(
          "__init__", [](Generator* self, nb::handle seed) { new (self) Generator(to_seed(seed)); },
          nb::arg("seed").none() = 0, nb::sig("def __init__(self, seed: int = 0) -> None"))
      .def("__repr__",
           [](const Generator& g) {
             return fmt::format("weft.random.Generator(seed={}, offset={})", g.state.seed, g.state.offset);
           })
      .def_prop_ro("seed", [](const Generator& g) { return g.state.seed; })
      .def_prop_rw(
          "offset", [](const Generator& g) { return g.state.offset; },
          [](Generator& g, std::uint64_t offset) { g.state.offset = offset; }, "Blocks of four numbers drawn so far.")
      .def(
          "bits",
          [](Generator& g, ShapeLike shape_given, DeviceLike device_given) {
            const Shape shape = to_shape(shape_given);
            const Device device = device_or_default(device_given.given);
            return draw(g, [&](Random& r) { return random_bits(device, shape, r); });
          },
          nb::arg("shape"), nb::kw_only(), nb::arg("device") = nb::none(), "32 random bits an element, in uint32.")
      .def(
          "uniform",
          [](Generator& g, ShapeLike shape_given, double low, double high, DTypeLike dtype_given,
             DeviceLike device_given) {
            const Shape shape = to_shape(shape_given);
            const DType dtype = to_optional_dtype(dtype_given).value_or(DType::f32);
            const Device device = device_or_default(device_given.given);
            return draw(g, [&](Random& r) { return random_uniform(device, shape, r, low, high, dtype); });
          },
          nb::arg("shape"), nb::arg("low") = 0.0, nb::arg("high") = 1.0, nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("device") = nb::none(), "From low up to, not with, high.")
      .def(
          "normal",
          [](Generator& g, ShapeLike shape_given, double mean, double stddev, DTypeLike dtype_given,
             DeviceLike device_given) {
            const Shape shape = to_shape(shape_given);
            const DType dtype = to_optional_dtype(dtype_given).value_or(DType::f32);
            const Device device = device_or_default(device_given.given);
            return draw(g, [&](Random& r) { return random_normal(device, shape, r, mean, stddev, dtype); });
          },
          nb::arg("shape"), nb::arg("mean") = 0.0, nb::arg("stddev") = 1.0, nb::kw_only(),
          nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
          "Normally distributed: about 68 in 100 lie within one stddev of the mean.")
      .def(
          "integers",
          [](Generator& g, std::int64_t low, std::int64_t high, ShapeLike shape_given, DTypeLike dtype_given,
             DeviceLike device_given) {
            const Shape shape = to_shape(shape_given);
            const DType dtype = to_optional_dtype(dtype_given).value_or(DType::i32);
            const Device device = device_or_default(device_given.given);
            return draw(g, [&](Random& r) { return random_integers(device, shape, r, low, high, dtype); });
          },
          nb::arg("low"), nb::arg("high"), nb::arg("shape"), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("device") = nb::none(), "From low up to, not with, high.");
}

}  // namespace weft::python
