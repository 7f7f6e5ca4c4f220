// weft.Array: what it shows, its operators and plain indexing. The rest of its methods are in weft/_array.py.
#include <fmt/format.h>

#include <numeric>

#include "lazy.h"
#include "trace.h"
#include "weft_python.h"

namespace weft::python {
namespace {

// -- operators
// ------------------------------------------------------------------------------------------------------------

nb::object not_implemented() {
  return nb::borrow(Py_NotImplemented);
}

nb::object forward(BinaryOp op, const Array& self, nb::handle other) {
  const ElementOperand a = element(self);
  const auto operand = try_element(other, &a.device());
  return operand ? nb::cast(element_binary(op, a, *operand)) : not_implemented();
}

nb::object reflected(BinaryOp op, const Array& self, nb::handle other) {
  const ElementOperand b = element(self);
  const auto operand = try_element(other, &b.device());
  return operand ? nb::cast(element_binary(op, *operand, b)) : not_implemented();
}

nb::object product(const Array& self, nb::handle other, bool swapped) {
  const Tensor& a = self.get();
  const auto operand = try_operand(other, &a.device());
  if (!operand || !std::holds_alternative<Tensor>(*operand)) return not_implemented();
  const Tensor& b = std::get<Tensor>(*operand);
  return nb::cast(record([&] { return swapped ? matmul(b, a) : matmul(a, b); }));
}

struct BinaryName {
  BinaryOp op;
  const char* name;
  const char* swapped;  // none for comparisons, which Python swaps itself
};
constexpr BinaryName kOperators[] = {
    {BinaryOp::add, "__add__", "__radd__"},
    {BinaryOp::subtract, "__sub__", "__rsub__"},
    {BinaryOp::multiply, "__mul__", "__rmul__"},
    {BinaryOp::divide, "__truediv__", "__rtruediv__"},
    {BinaryOp::floor_divide, "__floordiv__", "__rfloordiv__"},
    {BinaryOp::remainder, "__mod__", "__rmod__"},
    {BinaryOp::bit_and, "__and__", "__rand__"},
    {BinaryOp::bit_or, "__or__", "__ror__"},
    {BinaryOp::bit_xor, "__xor__", "__rxor__"},
    {BinaryOp::shift_left, "__lshift__", "__rlshift__"},
    {BinaryOp::shift_right, "__rshift__", "__rrshift__"},
    {BinaryOp::equal, "__eq__", nullptr},
    {BinaryOp::not_equal, "__ne__", nullptr},
    {BinaryOp::less, "__lt__", nullptr},
    {BinaryOp::less_equal, "__le__", nullptr},
    {BinaryOp::greater, "__gt__", nullptr},
    {BinaryOp::greater_equal, "__ge__", nullptr},
};

// -- indexing
// -------------------------------------------------------------------------------------------------------------

/// One slice of a key on an axis of this length.
Tensor take_slice(const Tensor& x, std::int64_t axis, nb::handle item) {
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(item.ptr(), &start, &stop, &step) != 0) {
    if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) throw nb::python_error();
    PyErr_Clear();
    throw Error(ErrorCode::invalid_argument, "slice step cannot be zero", "use a step of 1 or more, or of -1 or less");
  }
  const Py_ssize_t count = PySlice_AdjustIndices(x.shape()[static_cast<std::size_t>(axis)], &start, &stop, step);
  if (count == 0) return slice(x, axis, 0, 0, 1);
  // Python's -1 as the end of a walk down means «before the first», which the library writes as none.
  return slice(x, axis, start, stop < 0 ? std::nullopt : std::optional<std::int64_t>(stop), step);
}

/// x[key] for whole numbers, slices, None and Ellipsis; nothing when there is anything else in the key.
std::optional<Tensor> plain_index(const Tensor& x, nb::handle key) {
  const bool many = PyTuple_Check(key.ptr()) != 0;
  const std::size_t items = many ? static_cast<std::size_t>(PyTuple_Size(key.ptr())) : 1;
  const auto item_at = [&](std::size_t i) {
    return many ? nb::handle(PyTuple_GetItem(key.ptr(), static_cast<Py_ssize_t>(i))) : key;
  };
  std::size_t used = 0;
  bool ellipsis = false;
  for (std::size_t i = 0; i < items; ++i) {
    const nb::handle item = item_at(i);
    if (item.is_none()) continue;
    if (item.ptr() == Py_Ellipsis) {
      if (ellipsis) {
        throw Error(ErrorCode::out_of_range, "an index has two ellipses (...)", "keep one of them");
      }
      ellipsis = true;
    } else if (PySlice_Check(item.ptr()) || (PyLong_Check(item.ptr()) && !PyBool_Check(item.ptr()))) {
      ++used;
    } else {
      return std::nullopt;
    }
  }
  if (used > x.rank()) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{} indices for an array of {} axes {}", used, x.rank(), to_string(x.shape())),
                fmt::format("give at most {}", x.rank()));
  }
  Tensor out = x;
  std::int64_t axis = 0;
  for (std::size_t i = 0; i < items; ++i) {
    const nb::handle item = item_at(i);
    if (item.is_none()) {
      out = expand_dims(out, axis++);
    } else if (item.ptr() == Py_Ellipsis) {
      axis += static_cast<std::int64_t>(x.rank() - used);
    } else if (PySlice_Check(item.ptr())) {
      out = take_slice(out, axis, item);
      ++axis;
    } else {
      out = select(out, axis, to_integer(item, "an index"));
    }
  }
  return out;
}

nb::object get_item(nb::handle self, nb::handle key) {
  if (auto plain = plain_index(array_tensor(self), key)) return nb::cast(Array(std::move(*plain)));
  return python_function("weft._indexing", "get_item")(self, key);
}

Tensor swap_last(const Tensor& x) {
  if (x.rank() < 2) {
    throw Error(ErrorCode::invalid_argument, fmt::format("mT of an array of {} axes", x.rank()), "give at least 2");
  }
  std::vector<std::int64_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[x.rank() - 1], axes[x.rank() - 2]);
  return transpose(x, axes);
}

nb::tuple strides_in_bytes(const Tensor& t) {
  Strides strides = t.strides();
  for (std::int64_t& s : strides) s *= static_cast<std::int64_t>(size_of(t.dtype()));
  return to_tuple(strides);
}

}  // namespace

void bind_array(nb::module_& m) {
  nb::class_<Array> cls(m, "Array", nb::is_weak_referenceable(),
                        "An n-dimensional array in a device's memory. It never changes: operators make new ones, and "
                        "slices are views. Make one with weft.asarray.");
  cls.def_prop_ro(
         "shape", [](const Array& a) { return to_tuple(a.shape()); }, nb::sig("def shape(self) -> tuple[int, ...]"),
         "Lengths of the axes.")
      .def_prop_ro(
          "dtype", [](const Array& a) { return numpy_dtype(a.dtype()); }, nb::sig("def dtype(self) -> numpy.dtype"),
          "numpy's dtype: one of bool, int32, uint32, float16 and float32.")
      .def_prop_ro(
          "strides", [](const Array& a) { return strides_in_bytes(a.get()); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "In bytes, as numpy's.")
      .def_prop_ro("ndim", [](const Array& a) { return a.shape().rank(); })
      .def_prop_ro("size", [](const Array& a) { return element_count(a.shape()); })
      .def_prop_ro("itemsize", [](const Array& a) { return size_of(a.dtype()); })
      .def_prop_ro(
          "nbytes",
          [](const Array& a) { return static_cast<std::uint64_t>(element_count(a.shape())) * size_of(a.dtype()); })
      .def_prop_ro(
          "is_contiguous", [](const Array& a) { return a.get().is_contiguous(); }, "Dense and row-major.")
      .def_prop_ro("device", [](const Array& a) { return PyDevice(a.device()); })
      .def_prop_ro(
          "T", [](const Array& a) { return Array(transpose(a.get())); }, "All axes reversed; a view.")
      .def_prop_ro(
          "mT", [](const Array& a) { return Array(swap_last(a.get())); }, "The last two axes swapped; a view.")
      .def(
          "numpy", [](const Array& a, Timeout timeout) { return to_numpy(a.get(), timeout); },
          nb::arg("timeout") = nb::none(), nb::sig("def numpy(self, timeout: float | None = None) -> numpy.ndarray"),
          "A new numpy array with the elements; waits for the work that makes them.\n\n"
          "timeout: seconds; past them weft.TimedOut, and everything stays usable.")
      .def("__getitem__", &get_item, nb::arg("key").none(), nb::sig("def __getitem__(self, key: object, /) -> Array"))
      .def("__len__", [](const Array& a) {
        if (a.shape().rank() == 0) throw nb::type_error("len() of an array of no axes");
        return a.shape()[0];
      });
  for (const BinaryName& o : kOperators) {
    const BinaryOp op = o.op;
    cls.def(
        o.name, [op](const Array& self, nb::handle other) { return forward(op, self, other); }, nb::arg("other").none(),
        nb::sig(fmt::format("def {}(self, other: weft._types.ArrayLike, /) -> Array", o.name).c_str()));
    if (o.swapped != nullptr) {
      cls.def(
          o.swapped, [op](const Array& self, nb::handle other) { return reflected(op, self, other); },
          nb::arg("other").none(),
          nb::sig(fmt::format("def {}(self, other: weft._types.ArrayLike, /) -> Array", o.swapped).c_str()));
    }
  }
  cls.def(
         "__pow__",
         [](const Array& self, nb::handle other, nb::handle modulo) {
           return modulo.is_none() ? forward(BinaryOp::power, self, other) : not_implemented();
         },
         nb::arg("other").none(), nb::arg("modulo") = nb::none(),
         nb::sig("def __pow__(self, other: weft._types.ArrayLike, modulo: None = None, /) -> Array"))
      .def(
          "__rpow__",
          [](const Array& self, nb::handle other, nb::handle) { return reflected(BinaryOp::power, self, other); },
          nb::arg("other").none(), nb::arg("modulo") = nb::none(),
          nb::sig("def __rpow__(self, other: weft._types.ArrayLike, modulo: None = None, /) -> Array"))
      .def(
          "__matmul__", [](const Array& self, nb::handle other) { return product(self, other, false); },
          nb::arg("other").none(), nb::sig("def __matmul__(self, other: weft._types.ArrayLike, /) -> Array"))
      .def(
          "__rmatmul__", [](const Array& self, nb::handle other) { return product(self, other, true); },
          nb::arg("other").none(), nb::sig("def __rmatmul__(self, other: weft._types.ArrayLike, /) -> Array"));
  constexpr std::pair<UnaryOp, const char*> kUnary[] = {{UnaryOp::negative, "__neg__"},
                                                        {UnaryOp::positive, "__pos__"},
                                                        {UnaryOp::abs, "__abs__"},
                                                        {UnaryOp::invert, "__invert__"}};
  for (const auto& [op, name] : kUnary) {
    cls.def(name, [op = op](const Array& self) { return element_unary(op, element(self)); });
  }
  cls.attr("__hash__") = nb::none();
  m.def(
      "_upload",
      [](nb::handle source, ShapeLike shape_given, DTypeLike dtype_given, DeviceLike device_given) {
        const Shape shape = to_shape(shape_given);
        const DType dtype = to_dtype(dtype_given);
        Device device = device_or_default(device_given.given);
        Py_buffer view;
        if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
        struct Close {
          Py_buffer* view;
          ~Close() { PyBuffer_Release(view); }
        } const close{&view};
        Array made = record([&] {
          return device.upload_array({static_cast<const std::byte*>(view.buf), static_cast<std::size_t>(view.len)},
                                     shape, dtype);
        });
        note_upload(made.get());
        return made;
      },
      "The bytes of a C-contiguous buffer as an array of this shape and dtype.");
}

}  // namespace weft::python
