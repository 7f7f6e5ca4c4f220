// weft.Stream with its callbacks, and reads that are waited for elsewhere.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <stdexcept>

#include "trace.h"
#include "weft_python.h"

namespace weft::python {
namespace {

struct PyStream : Held<std::pair<Device, Stream>> {
  using Held::Held;
  const Stream& stream() const { return get().second; }
};

/// A Python function that threads of the device's own call. Its reference is dropped with the interpreter's lock, or,
/// at the interpreter's end, never. Holds the device, so that its last handle is not dropped under the lock.
class Callback {
 public:
  Callback(nb::handle function, const Device& device) : function_(function.inc_ref().ptr()), device_(device) {}
  ~Callback() {
    const VisitorGil locked;
    if (locked) Py_DECREF(function_);
  }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  void operator()(const Error* lost) const {
    const VisitorGil locked;
    if (!locked) return;
    try {
      const nb::object made = lost == nullptr ? nb::none()
                                              : python_function("weft._errors", "make")(
                                                    std::string(to_string(lost->code())), lost->message(), lost->fix());
      nb::borrow(function_)(made);
    } catch (nb::python_error& e) {
      throw std::runtime_error(last_line(e.what()));
    }
  }

 private:
  /// "ValueError: text" of a traceback.
  static std::string last_line(std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  PyObject* function_;
  Device device_;
};

void on_complete(Stream stream, const Device& device, nb::handle function) {
  if (PyCallable_Check(function.ptr()) == 0) throw nb::type_error("weft: on_complete takes a function. Fix: pass one.");
  refuse_in_trace("on_complete()");
  auto callback = std::make_shared<Callback>(function, device);
  const ReleaseGil released;
  stream.on_complete([callback = std::move(callback)](const Error* lost) { (*callback)(lost); });
}

/// A read on its way.
class PyReadback {
 public:
  explicit PyReadback(const Tensor& tensor) : shape_(tensor.shape()), dtype_(tensor.dtype()), bytes_(tensor.nbytes()) {
    refuse_in_trace("numpy_async()");
    const ReleaseGil released;
    const Tensor dense = contiguous(tensor);
    Device device = dense.device();
    readback_.emplace(
        device.read_async(dense.buffer(), static_cast<std::size_t>(dense.offset()) * size_of(dense.dtype()), bytes_));
  }
  ~PyReadback() {
    if (forked()) new (std::nothrow) std::optional<Readback>(std::move(readback_));  // on purpose
  }
  PyReadback(const PyReadback&) = delete;
  PyReadback& operator=(const PyReadback&) = delete;

  nb::object numpy() {
    check_process();
    if (!readback_) throw Error(ErrorCode::invalid_argument, "the elements were taken already", "read the array again");
    nb::object out = nb::module_::import_("numpy").attr("empty")(to_tuple(shape_), numpy_dtype(dtype_));
    Py_buffer view;
    if (PyObject_GetBuffer(out.ptr(), &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
    struct Close {
      Py_buffer* view;
      ~Close() { PyBuffer_Release(view); }
    } const close{&view};
    const ReleaseGil released;
    const auto found = readback_->view();
    if (bytes_ > 0) std::memcpy(view.buf, found.data(), bytes_);
    readback_.reset();
    return out;
  }

 private:
  Shape shape_;
  DType dtype_;
  std::size_t bytes_;
  std::optional<Readback> readback_;
};

}  // namespace

void bind_stream(nb::module_& m) {
  nb::class_<PyStream>(m, "Stream", "Work in program order. Device.stream is the one that operations record into.")
      .def(
          "submit",
          [](const PyStream& s) {
            const Stream stream = s.stream();
            const ReleaseGil released;
            stream.submit();
          },
          "Sends what was recorded to the device; does not wait.")
      .def_prop_ro(
          "pending", [](const PyStream& s) { return s.stream().pending(); }, "Dispatches not yet submitted.")
      .def(
          "on_complete",
          [](const PyStream& s, nb::handle function) { on_complete(s.stream(), s.get().first, function); },
          nb::arg("function"), nb::sig("def on_complete(self, function: collections.abc.Callable, /) -> None"),
          "Submits, and has function(error) called once when all recorded so far is done: with None, or with a "
          "weft.DeviceLost.\n\n"
          "On a thread of the device's own. What it raises comes out of the device's next synchronize(), as a "
          "weft.InternalError with the text. The interpreter's end waits for one that runs; those left are not "
          "called.");
  m.def("_stream", [](const PyDevice& d) { return PyStream(std::pair(d.get(), d.get().stream())); });
  nb::class_<PyReadback>(m, "_Readback")
      .def("__init__", [](PyReadback* self, const Array& a) { new (self) PyReadback(a.get()); })
      .def("numpy", &PyReadback::numpy);
}

}  // namespace weft::python
