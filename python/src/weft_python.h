// What the files of the Python module share: the two classes that Python sees, how arguments become tensors, and how
// the interpreter's lock is let go.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "weft/weft.h"

namespace weft::python {

namespace nb = nanobind;

// -- the process (process.cpp)
// ------------------------------------------------------------------------------------------

/// Throws when this process was forked from one that had used a device: the child has none of the driver's threads, so
/// a call into it could wait for ever.
void check_process();
/// True in such a child: handles are then leaked, never dropped.
bool forked() noexcept;

/// The interpreter's lock, let go while this lives. At the interpreter's end a thread other than the main one never
/// comes back out of it: taking the lock would end the thread in the middle of C++ frames.
class ReleaseGil {
 public:
  ReleaseGil() noexcept : saved_(PyEval_SaveThread()) {}
  ~ReleaseGil();
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  PyThreadState* saved_;
};

/// The interpreter's lock, taken by a thread of a device's own while this lives. False, and not taken, once the
/// interpreter begins to end, which waits for the threads that have it or asked for it: taking the lock later would end
/// the thread in the middle of C++ frames.
class VisitorGil {
 public:
  VisitorGil();
  ~VisitorGil();
  VisitorGil(const VisitorGil&) = delete;
  VisitorGil& operator=(const VisitorGil&) = delete;

  explicit operator bool() const noexcept { return lock_.has_value(); }

 private:
  std::optional<nb::gil_scoped_acquire> lock_;
};

// -- classes
// ------------------------------------------------------------------------------------------------------------

/// A handle that a forked child leaks.
template <class T>
class Held {
 public:
  explicit Held(T value) : value_(std::move(value)) {}
  Held(Held&& other) noexcept : value_(std::move(other.value_)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Held& operator=(Held&&) = delete;
  ~Held() {
    if (forked()) new (std::nothrow) T(std::move(value_));  // on purpose
  }

  const T& get() const {
    check_process();
    return value_;
  }
  /// For what needs no device: shapes, names.
  const T& peek() const noexcept { return value_; }

 private:
  T value_;
};

/// weft.Device
struct PyDevice : Held<Device> {
  using Held::Held;
};
struct LazyNode;

/// weft.Array: a tensor, or an elementwise expression whose tensor is made when something needs it (lazy.h).
class Array {
 public:
  explicit Array(Tensor tensor);
  explicit Array(std::shared_ptr<LazyNode> node);
  Array(Array&& other) noexcept = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  Array& operator=(Array&&) = delete;
  ~Array();

  /// The tensor; a pending expression is recorded first. Call it with the interpreter's lock. Throws for an array of a
  /// trace (trace.h) that is over, or is another thread's.
  const Tensor& get() const;
  /// What the array is made of while it has no tensor, else null. Throws as get() does.
  const std::shared_ptr<LazyNode>& pending() const;

  // What needs no tensor.
  const Shape& shape() const noexcept;
  DType dtype() const noexcept;
  const Device& device() const;
  /// The trace that it was made in, or 0.
  std::uint64_t trace() const noexcept { return trace_; }

 private:
  void check() const;
  void settle() const;

  mutable Tensor tensor_;
  mutable std::shared_ptr<LazyNode> node_;
  std::uint64_t trace_;
};

/// Calls `f` without the interpreter's lock and makes an Array of the tensor it gives.
template <class F>
Array record(F&& f) {
  std::optional<Tensor> made;
  {
    const ReleaseGil released;
    made.emplace(f());
  }
  return Array(std::move(*made));
}

/// The device that arrays go to when none is named; opened at the first call.
Device default_device();
void set_default_device(const Device& device);
/// None means the default.
Device device_or_default(nb::handle device);

// -- waiting (wait.cpp)
// ------------------------------------------------------------------------------------------------

/// Seconds; none means the device's own.
using Timeout = std::optional<double>;

/// The elements in row-major order. Waits in slices, so that Ctrl-C ends it.
void read_interruptibly(const Tensor& tensor, std::span<std::byte> out, Timeout timeout);
void synchronize_interruptibly(Device device, Timeout timeout);

// -- arguments (convert.cpp)
// ------------------------------------------------------------------------------------------

/// An argument that asarray takes: an Array, or anything that numpy makes an array of. Converted where it is used, so
/// that errors come out as such.
struct ArrayLike {
  nb::handle given;
};
/// The same, or a number.
struct OperandLike {
  nb::handle given;
};
/// An ArrayLike or None.
struct OptionalArray {
  nb::handle given;
};
struct NumberLike {
  nb::handle given;
};
struct DTypeLike {
  nb::handle given;
};
/// An axis, several, or None.
struct AxesLike {
  nb::handle given;
};
/// A length, or several.
struct ShapeLike {
  nb::handle given;
};
/// A device, or None.
struct DeviceLike {
  nb::handle given;
};

using Operand = std::variant<Tensor, Scalar>;

bool is_array(nb::handle h) noexcept;
const Tensor& array_tensor(nb::handle h);
/// The device that numpy's arrays and lists among these arguments go to: that of the first Array beside them. Nothing
/// where there is no Array, or nothing to bring.
std::optional<Device> device_beside(std::initializer_list<nb::handle> given);
/// What is no Array goes to the device `beside`, else to the default one.
Tensor to_tensor(ArrayLike a, const std::optional<Device>& beside = std::nullopt);
/// An empty handle for None.
Tensor to_tensor(OptionalArray a, const std::optional<Device>& beside = std::nullopt);
/// Nothing for what is neither array nor number. What is converted goes to the device `beside`.
std::optional<Operand> try_operand(nb::handle h, const Device* beside = nullptr);
Tensor to_tensor(const Operand& operand, const Device& device, std::optional<DType> beside);
Scalar to_scalar(NumberLike n);
DType to_dtype(DTypeLike d);
std::optional<DType> to_optional_dtype(DTypeLike d);
std::optional<std::vector<std::int64_t>> to_axes(AxesLike a);
Shape to_shape(ShapeLike s);
/// What the library's list of ops says of this one (op_doc.cpp).
std::string op_doc(std::string_view op);

/// A whole number, numpy's too, but no bool.
std::int64_t to_integer(nb::handle h, const char* what);
std::vector<std::int64_t> to_integers(nb::handle h, const char* what);

/// numpy's object of this dtype.
nb::object numpy_dtype(DType dtype);
/// The function of a Python file of ours: ("weft._convert", "asarray"). Looked up once.
nb::object python_function(const char* module, const char* name);
nb::tuple to_tuple(const Shape& shape);
/// A new numpy array with the tensor's elements.
nb::object to_numpy(const Tensor& tensor, Timeout timeout);

/// The error types of weft._errors for weft::Error.
void bind_errors();

void bind_process(nb::module_& m);
void bind_device(nb::module_& m);
void bind_array(nb::module_& m);
void bind_elementwise(nb::module_& m);
void bind_lazy(nb::module_& m);
void bind_trace(nb::module_& m);
void bind_kernel(nb::module_& m);
void bind_profile(nb::module_& m);
void bind_stream(nb::module_& m);
void bind_timing(nb::module_& m);
void bind_make(nb::module_& m);
void bind_views(nb::module_& m);
void bind_reduce(nb::module_& m);
void bind_products(nb::module_& m);
void bind_indexing(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_ordering(nb::module_& m);
void bind_random(nb::module_& m);
void bind_fft(nb::module_& m);
void bind_statistics(nb::module_& m);

/// None, "relu", "gelu", "gelu_tanh" or "silu".
Activation to_activation(nb::handle name);

}  // namespace weft::python

namespace nanobind::detail {

#define WEFT_LATE_CASTER(Type, Name)                                             \
  template <>                                                                    \
  struct type_caster<Type> {                                                     \
    NB_TYPE_CASTER(Type, const_name(Name))                                       \
    bool from_python(handle src, std::uint8_t, cleanup_list*) noexcept {         \
      value.given = src;                                                         \
      return true;                                                               \
    }                                                                            \
    static handle from_cpp(const Type& src, rv_policy, cleanup_list*) noexcept { \
      return src.given.inc_ref();                                                \
    }                                                                            \
  }
/// None goes through too.
#define WEFT_LATE_CASTER_OR_NONE(Type, Name)         \
  template <>                                        \
  struct has_arg_defaults<Type> : std::true_type {}; \
  WEFT_LATE_CASTER(Type, Name)

WEFT_LATE_CASTER(weft::python::ArrayLike, "weft._types.ArrayLike");
WEFT_LATE_CASTER(weft::python::OperandLike, "weft._types.ArrayLike");
WEFT_LATE_CASTER(weft::python::NumberLike, "bool | int | float");
WEFT_LATE_CASTER(weft::python::ShapeLike, "int | collections.abc.Sequence[int]");
WEFT_LATE_CASTER_OR_NONE(weft::python::OptionalArray, "weft._types.ArrayLike");
WEFT_LATE_CASTER_OR_NONE(weft::python::DTypeLike, "weft._types.DTypeLike");
WEFT_LATE_CASTER_OR_NONE(weft::python::AxesLike, "int | collections.abc.Sequence[int]");
WEFT_LATE_CASTER_OR_NONE(weft::python::DeviceLike, "Device");

#undef WEFT_LATE_CASTER_OR_NONE
#undef WEFT_LATE_CASTER

}  // namespace nanobind::detail
