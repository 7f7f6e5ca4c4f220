// What weft.profile() holds.
#include "weft/profiler.h"

#include "trace.h"
#include "weft_python.h"

namespace weft::python {
namespace {

class PyProfiler {
 public:
  explicit PyProfiler(const Device& device) : profiler_(std::in_place, device) {}
  ~PyProfiler() {
    if (forked()) new (std::nothrow) std::optional<Profiler>(std::move(profiler_));  // on purpose
  }
  PyProfiler(const PyProfiler&) = delete;
  PyProfiler& operator=(const PyProfiler&) = delete;

  Trace finish() {
    check_process();
    if (!profiler_) throw Error(ErrorCode::invalid_argument, "the profile was dropped", "begin another one");
    const ReleaseGil released;
    return profiler_->finish();
  }
  void drop() {
    const ReleaseGil released;
    profiler_.reset();
  }

 private:
  std::optional<Profiler> profiler_;
};

nb::list events_of(const Trace& trace) {
  nb::list out;
  for (const TraceEvent& e : trace.events()) {
    nb::dict d;
    d["name"] = e.name;
    d["category"] = e.category;
    d["on_device"] = e.on_device;
    d["thread"] = e.thread;
    d["start_us"] = e.start_us;
    d["duration_us"] = e.duration_us;
    d["grid"] = nb::make_tuple(e.grid.x, e.grid.y, e.grid.z);
    d["bytes"] = e.bytes;
    out.append(d);
  }
  return out;
}

}  // namespace

void bind_profile(nb::module_& m) {
  nb::class_<Trace>(m, "_Trace")
      .def("table", &Trace::table)
      .def("to_json", &Trace::to_json)
      .def("save", [](const Trace& t, const std::string& path) { t.save(path); })
      .def_prop_ro("events", &events_of)
      .def_prop_ro("has_device_times", &Trace::has_device_times)
      .def_prop_ro("device", &Trace::device)
      .def_prop_ro("duration_us", &Trace::duration_us);
  nb::class_<PyProfiler>(m, "_Profiler")
      .def("__init__",
           [](PyProfiler* self, const PyDevice& on) {
             const Device device = on.get();
             refuse_in_trace("weft.profile()");
             const ReleaseGil released;
             new (self) PyProfiler(device);
           })
      .def("finish", &PyProfiler::finish)
      .def("drop", &PyProfiler::drop);
}

}  // namespace weft::python
