// weft::Error becomes the exception of weft/_errors.py for its code.
#include "weft_python.h"

namespace weft::python {

void bind_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& e) {
      // make() gives the exception; its type is what is raised.
      nb::object made = python_function("weft._errors", "make")(std::string(to_string(e.code())), e.message(), e.fix());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });
}

}  // namespace weft::python
