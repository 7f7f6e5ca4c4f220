// The extension module weft._weft.
#include "weft_python.h"

NB_MODULE(_weft, m) {
  using namespace weft::python;
  // Arrays that live in a module's globals until the interpreter's end are no leak.
  nb::set_leak_warnings(false);
  m.doc() = "Weft's C++ part; import weft instead.";
  m.attr("version") = std::string(weft::version());
  m.attr("implementation") = std::string(weft::implementation_name());
  m.def("implementation_version", &weft::implementation_version);
  bind_errors();
  bind_process(m);
  bind_device(m);
  bind_array(m);
  bind_elementwise(m);
  bind_lazy(m);
  bind_trace(m);
  bind_kernel(m);
  bind_profile(m);
  bind_stream(m);
  bind_make(m);
  bind_views(m);
  bind_reduce(m);
  bind_statistics(m);
  bind_products(m);
  bind_indexing(m);
  bind_ordering(m);
  bind_nn(m);
  bind_random(m);
  bind_fft(m);
}
