// weft::Error becomes the exception of weft/_errors.py for its code.
#include "base/refuse.h"
#include "weft_python.h"

namespace weft::python {

void bind_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& e) {
      // make() gives the exception; its type is what is raised.
      const bool dtype = dynamic_cast<const DTypeError*>(&e) != nullptr;
      nb::object made = python_function("weft._errors", "make")(dtype ? "dtype" : std::string(to_string(e.code())),
                                                                e.message(), e.fix());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });
}

}  // namespace weft::python
