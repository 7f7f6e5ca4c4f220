// Python objects to the library's types and back.
#include <fmt/format.h>

#include <array>
#include <map>
#include <string>

#include "weft_python.h"

namespace weft::python {
namespace {

constexpr std::array kDTypes{DType::bool_, DType::i32, DType::u32, DType::f16, DType::f32};

/// numpy's dtype objects, which are the same ones in the whole process.
nb::object& cached_dtype(DType dtype) {
  static std::array<nb::object, kDTypes.size()>* cache = [] {
    auto* made = new std::array<nb::object, kDTypes.size()>;  // never dropped: the interpreter may be gone by then
    const nb::object type = nb::module_::import_("numpy").attr("dtype");
    for (const DType t : kDTypes) (*made)[static_cast<std::size_t>(t)] = type(std::string(to_string(t)).c_str());
    return made;
  }();
  return (*cache)[static_cast<std::size_t>(dtype)];
}

std::optional<DType> known_dtype(nb::handle h) {
  for (const DType t : kDTypes) {
    if (h.is(cached_dtype(t))) return t;
  }
  return std::nullopt;
}

/// A whole number past 64 bits. Its digits are cut: Python makes no text of the longest ones.
[[noreturn]] void refuse_wide(const std::string& what, nb::handle number, std::string fix) {
  nb::object text = nb::steal(PyObject_Repr(number.ptr()));
  if (!text.is_valid()) PyErr_Clear();
  const std::string digits = text.is_valid() ? nb::cast<std::string>(text) : "one of thousands of digits";
  throw Error(ErrorCode::out_of_range, fmt::format("{} {:.40}, which does not fit 64 bits", what, digits),
              std::move(fix));
}

/// `wide`: a whole number of more than 64 bits comes out as a float; else it is refused.
bool number(nb::handle h, std::optional<Scalar>& out, bool wide = false) {
  PyObject* const p = h.ptr();
  if (PyBool_Check(p)) {
    out.emplace(p == Py_True);
    return true;
  }
  if (PyLong_Check(p)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(p, &overflow);
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (overflow != 0 && wide) {
      out.emplace(PyLong_AsDouble(p));
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
      return true;
    }
    if (overflow != 0) refuse_wide("the number", h, "use a smaller number, or a float");
    out.emplace(std::int64_t{value});
    return true;
  }
  if (PyFloat_Check(p)) {
    out.emplace(PyFloat_AsDouble(p));
    return true;
  }
  return false;
}

}  // namespace

nb::object python_function(const char* module, const char* name) {
  static auto* found = new std::map<std::pair<std::string, std::string>, nb::object>;
  nb::object& entry = (*found)[{module, name}];
  if (!entry.is_valid()) entry = nb::module_::import_(module).attr(name);
  return entry;
}

nb::object numpy_dtype(DType dtype) {
  return cached_dtype(dtype);
}

bool is_array(nb::handle h) noexcept {
  return nb::isinstance<Array>(h);
}

const Tensor& array_tensor(nb::handle h) {
  return nb::inst_ptr<Array>(h)->get();
}

std::optional<Device> device_beside(std::initializer_list<nb::handle> given) {
  nb::handle array;
  bool others = false;
  for (const nb::handle h : given) {
    if (!is_array(h)) {
      others = others || !h.is_none();
    } else if (!array.is_valid()) {
      array = h;
    }
  }
  if (!others || !array.is_valid()) return std::nullopt;
  return nb::inst_ptr<Array>(array)->device();
}

Tensor to_tensor(ArrayLike a, const std::optional<Device>& beside) {
  if (is_array(a.given)) return array_tensor(a.given);
  check_process();
  const nb::object& function = python_function("weft._convert", "asarray");
  const nb::object made = beside ? function(a.given, nb::none(), PyDevice(*beside)) : function(a.given);
  return array_tensor(made);
}

Tensor to_tensor(OptionalArray a, const std::optional<Device>& beside) {
  return a.given.is_none() ? Tensor() : to_tensor(ArrayLike{a.given}, beside);
}

std::optional<Operand> try_operand(nb::handle h, const Device* beside) {
  if (is_array(h)) return Operand(array_tensor(h));
  std::optional<Scalar> scalar;
  if (number(h, scalar, true)) return Operand(scalar.value());
  const nb::object function = python_function("weft._convert", "operand");
  const nb::object made = beside == nullptr ? function(h) : function(h, PyDevice(*beside));
  if (is_array(made)) return Operand(array_tensor(made));
  if (number(made, scalar, true)) return Operand(scalar.value());
  return std::nullopt;
}

Tensor to_tensor(const Operand& operand, const Device& device, std::optional<DType> beside) {
  if (const Tensor* t = std::get_if<Tensor>(&operand)) return *t;
  const Scalar& s = std::get<Scalar>(operand);
  DType dtype = DType::f32;
  if (std::holds_alternative<bool>(s.value)) {
    dtype = beside.value_or(DType::bool_);
  } else if (std::holds_alternative<std::int64_t>(s.value)) {
    dtype = beside && *beside != DType::bool_ ? *beside : DType::i32;
  } else if (beside && is_float(*beside)) {
    dtype = *beside;
  }
  return full(device, {}, s, dtype);
}

Scalar to_scalar(NumberLike n) {
  std::optional<Scalar> scalar;
  if (number(n.given, scalar)) return scalar.value();
  // numpy's scalars and 0-d arrays.
  const nb::object made = python_function("weft._convert", "number")(n.given);
  if (!number(made, scalar)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} is no number", nb::cast<std::string>(nb::repr(n.given))),
                "give a bool, int or float");
  }
  return scalar.value();
}

DType to_dtype(DTypeLike d) {
  if (const auto known = known_dtype(d.given)) return *known;
  const nb::object made = python_function("weft._convert", "dtype")(d.given);
  return known_dtype(made).value();
}

std::optional<DType> to_optional_dtype(DTypeLike d) {
  if (d.given.is_none()) return std::nullopt;
  return to_dtype(d);
}

std::int64_t to_integer(nb::handle h, const char* what) {
  if (PyBool_Check(h.ptr()) || !PyIndex_Check(h.ptr())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is {}, not an integer", what, nb::cast<std::string>(nb::repr(h))), "give an integer");
  }
  const nb::object whole = nb::steal(PyNumber_Index(h.ptr()));
  if (!whole.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (overflow != 0) refuse_wide(fmt::format("{} is", what), whole, "use a smaller number");
  return value;
}

std::vector<std::int64_t> to_integers(nb::handle h, const char* what) {
  std::vector<std::int64_t> out;
  // numpy's integers and arrays of no axes are no sequences, whatever they claim; all else is refused in to_integer.
  const auto has_no_axes = [&] { return nb::hasattr(h, "ndim") && nb::cast<int>(h.attr("ndim")) == 0; };
  if (PyLong_Check(h.ptr()) || nb::isinstance<nb::str>(h) || PySequence_Check(h.ptr()) == 0 || has_no_axes()) {
    out.push_back(to_integer(h, what));
    return out;
  }
  for (const nb::handle item : nb::borrow<nb::sequence>(h)) out.push_back(to_integer(item, what));
  return out;
}

std::optional<std::vector<std::int64_t>> to_axes(AxesLike a) {
  if (a.given.is_none()) return std::nullopt;
  return to_integers(a.given, "axis");
}

Shape to_shape(ShapeLike s) {
  return Shape(std::span<const std::int64_t>(to_integers(s.given, "a length of the shape")));
}

nb::tuple to_tuple(const Shape& shape) {
  nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.rank())));
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    PyTuple_SetItem(out.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
  }
  return nb::borrow<nb::tuple>(out);
}

nb::object to_numpy(const Tensor& tensor, Timeout timeout) {
  static nb::object* empty = new nb::object(nb::module_::import_("numpy").attr("empty"));
  nb::object out;
  try {
    out = (*empty)(to_tuple(tensor.shape()), numpy_dtype(tensor.dtype()));
  } catch (const nb::python_error& e) {
    if (!e.matches(PyExc_MemoryError)) throw;
    throw Error(ErrorCode::out_of_memory,
                fmt::format("numpy has no room for the {} bytes of an array of shape {}", tensor.nbytes(),
                            to_string(tensor.shape())),
                "read parts of it, as x[:1000].numpy()");
  }
  Py_buffer view;
  if (PyObject_GetBuffer(out.ptr(), &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
  struct Close {
    Py_buffer* view;
    ~Close() { PyBuffer_Release(view); }
  } const close{&view};
  read_interruptibly(tensor, {static_cast<std::byte*>(view.buf), tensor.nbytes()}, timeout);
  return out;
}

}  // namespace weft::python
