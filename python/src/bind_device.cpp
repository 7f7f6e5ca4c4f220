// weft.Device, and what reports on it.
#include <fmt/format.h>

#include "weft_python.h"

namespace weft::python {
namespace {

nb::dict limits_dict(const Limits& l) {
  nb::dict d;
  d["max_buffer_size"] = l.max_buffer_size;
  d["max_storage_binding_size"] = l.max_storage_binding_size;
  d["max_uniform_binding_size"] = l.max_uniform_binding_size;
  d["max_storage_buffers"] = l.max_storage_buffers;
  d["max_workgroup_size"] = nb::make_tuple(l.max_workgroup_size_x, l.max_workgroup_size_y, l.max_workgroup_size_z);
  d["max_workgroup_invocations"] = l.max_workgroup_invocations;
  d["max_workgroup_storage"] = l.max_workgroup_storage;
  d["max_workgroups_per_dimension"] = l.max_workgroups_per_dimension;
  d["min_storage_offset_alignment"] = l.min_storage_offset_alignment;
  d["min_uniform_offset_alignment"] = l.min_uniform_offset_alignment;
  d["max_immediate_size"] = l.max_immediate_size;
  return d;
}

nb::dict features_dict(const Features& f) {
  nb::dict d;
  d["f16"] = f.f16;
  d["subgroups"] = f.subgroups;
  d["timestamps"] = f.timestamps;
  d["immediates"] = f.immediates;
  d["subgroup_min_size"] = f.subgroup_min_size;
  d["subgroup_max_size"] = f.subgroup_max_size;
  nb::list matrices;
  for (const SubgroupMatrix& s : f.subgroup_matrices) {
    matrices.append(fmt::format("{}>{} {}x{}x{}", s.in, s.out, s.m, s.n, s.k));
  }
  d["subgroup_matrices"] = matrices;
  return d;
}

nb::dict adapter_dict(const AdapterInfo& a) {
  nb::dict d;
  d["index"] = a.index;
  d["name"] = a.name;
  d["vendor"] = a.vendor;
  d["driver"] = a.driver;
  d["backend"] = a.backend;
  d["type"] = std::string(to_string(a.type));
  d["vendor_id"] = a.vendor_id;
  d["device_id"] = a.device_id;
  d["limits"] = limits_dict(a.limits);
  d["features"] = features_dict(a.features);
  return d;
}

nb::list adapters() {
  check_process();
  std::vector<AdapterInfo> found;
  {
    const ReleaseGil released;
    found = Device::adapters();
  }
  nb::list out;
  for (const AdapterInfo& a : found) out.append(adapter_dict(a));
  return out;
}

PyDevice open(nb::handle adapter, const std::string& power, bool allow_f16, bool allow_subgroups, bool allow_immediates,
              bool allow_timestamps, bool allow_subgroup_matrices, bool library_kernels_only, bool default_limits_only,
              std::uint64_t pool_bytes, Timeout wait_timeout) {
  check_process();
  DeviceOptions options;
  if (!adapter.is_none()) options.adapter = nb::cast<std::string>(nb::str(adapter));
  if (power != "high" && power != "low") {
    throw Error(ErrorCode::invalid_argument, "power is '" + power + "'", "use 'high' or 'low'");
  }
  options.power = power == "high" ? PowerPreference::high_performance : PowerPreference::low_power;
  options.allow_f16 = allow_f16;
  options.allow_subgroups = allow_subgroups;
  options.allow_immediates = allow_immediates;
  options.allow_timestamps = allow_timestamps;
  options.allow_subgroup_matrices = allow_subgroup_matrices;
  options.library_kernels_only = library_kernels_only;
  options.default_limits_only = default_limits_only;
  options.pool_bytes = pool_bytes;
  if (wait_timeout) options.wait_timeout = std::chrono::nanoseconds(static_cast<std::int64_t>(*wait_timeout * 1e9));
  const ReleaseGil released;
  return PyDevice(Device::open(options));
}

nb::dict stats_dict(const Stats& s) {
  nb::dict d;
#define WEFT_FIELD(name) d[#name] = s.name
  WEFT_FIELD(dispatches);
  WEFT_FIELD(copies);
  WEFT_FIELD(submits);
  WEFT_FIELD(passes);
  WEFT_FIELD(bytes_uploaded);
  WEFT_FIELD(bytes_read);
  WEFT_FIELD(uploads);
  WEFT_FIELD(reads);
  WEFT_FIELD(read_copies);
  WEFT_FIELD(live_bytes);
  WEFT_FIELD(retained_bytes);
  WEFT_FIELD(staging_bytes);
  WEFT_FIELD(peak_bytes);
  WEFT_FIELD(pool_allocations);
  WEFT_FIELD(pool_hits);
  WEFT_FIELD(pool_releases);
  WEFT_FIELD(pool_evictions);
  WEFT_FIELD(staging_allocations);
  WEFT_FIELD(staging_hits);
  WEFT_FIELD(pipeline_hits);
  WEFT_FIELD(pipeline_misses);
  WEFT_FIELD(pipeline_evictions);
  WEFT_FIELD(pipeline_entries);
  WEFT_FIELD(compile_ms);
  WEFT_FIELD(bind_group_hits);
  WEFT_FIELD(bind_group_misses);
  WEFT_FIELD(bind_group_evictions);
  WEFT_FIELD(bind_group_entries);
  WEFT_FIELD(fused_ops);
  WEFT_FIELD(materialized);
  WEFT_FIELD(tuned_ops);
#undef WEFT_FIELD
  return d;
}

}  // namespace

void bind_device(nb::module_& m) {
  nb::class_<PyDevice>(m, "Device", "A WebGPU device with its memory pool and caches; open one with Device.open().")
      .def_static(
          "open", &open, nb::arg("adapter") = nb::none(), nb::kw_only(), nb::arg("power") = "high",
          nb::arg("allow_f16") = true, nb::arg("allow_subgroups") = true, nb::arg("allow_immediates") = true,
          nb::arg("allow_timestamps") = true, nb::arg("allow_subgroup_matrices") = true,
          nb::arg("library_kernels_only") = false, nb::arg("default_limits_only") = false, nb::arg("pool_bytes") = 0,
          nb::arg("wait_timeout") = nb::none(),
          nb::sig("def open(adapter: str | int | None = None, *, power: str = 'high', allow_f16: bool = True, "
                  "allow_subgroups: bool = True, allow_immediates: bool = True, allow_timestamps: bool = True, "
                  "allow_subgroup_matrices: bool = True, library_kernels_only: bool = False, "
                  "default_limits_only: bool = False, pool_bytes: int = 0, wait_timeout: float | None = None) "
                  "-> Device"),
          "Opens the adapter whose name has this part, or with this index; None: WEFT_ADAPTER, else the best.\n\n"
          "wait_timeout: seconds that a wait without a timeout of its own may take (WEFT_WAIT_TIMEOUT, 30). "
          "library_kernels_only: refuses WGSL of yours, and runs the library's without bounds checks on Dawn too.")
      .def_static("adapters", &adapters, "The adapters of this machine, as dicts; none: an empty list.")
      .def_prop_ro("id", [](const PyDevice& d) { return d.peek().id(); })
      .def_prop_ro("name", [](const PyDevice& d) { return d.peek().adapter().name; })
      .def_prop_ro("adapter", [](const PyDevice& d) { return adapter_dict(d.peek().adapter()); })
      .def_prop_ro("limits", [](const PyDevice& d) { return limits_dict(d.peek().limits()); })
      .def_prop_ro("features", [](const PyDevice& d) { return features_dict(d.peek().features()); })
      .def_prop_ro("lost", [](const PyDevice& d) { return d.get().lost(); })
      .def(
          "destroy",
          [](const PyDevice& d) {
            Device device = d.get();
            const ReleaseGil released;
            device.destroy();
          },
          "Ends the device now: every later call on it and its arrays fails.")
      .def(
          "synchronize", [](const PyDevice& d, Timeout timeout) { synchronize_interruptibly(d.get(), timeout); },
          nb::arg("timeout") = nb::none(), "Waits until all work recorded so far is done.")
      .def(
          "trim",
          [](const PyDevice& d) {
            Device device = d.get();
            const ReleaseGil released;
            device.trim();
          },
          "Releases the memory that is kept for reuse.")
      .def(
          "stats", [](const PyDevice& d) { return stats_dict(d.get().stats()); }, "Counters since it was opened.")
      .def("_memory_json", [](const PyDevice& d) { return d.get().memory().to_json(); })
      .def("_memory_text", [](const PyDevice& d) { return d.get().memory().to_text(); })
      .def(
          "__eq__",
          [](const PyDevice& d, nb::handle other) {
            return nb::isinstance<PyDevice>(other) && nb::inst_ptr<PyDevice>(other)->peek().id() == d.peek().id();
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__copy__", [](nb::object self) { return self; })
      .def(
          "__deepcopy__", [](nb::object self, nb::handle) { return self; }, nb::arg("memo"))
      .def("__hash__", [](const PyDevice& d) { return d.peek().id(); })
      .def("__repr__", [](const PyDevice& d) {
        return "<weft.Device " + std::to_string(d.peek().id()) + ": " + d.peek().adapter().name + ">";
      });
  m.def(
      "default_device", [] { return PyDevice(default_device()); },
      "The device of arrays for which none is named; opened at the first use. WEFT_ADAPTER chooses it.");
  m.def("_device_or_default", [](DeviceLike d) { return PyDevice(device_or_default(d.given)); });
  m.def(
      "set_default_device", [](const PyDevice& d) { set_default_device(d.get()); }, nb::arg("device"),
      "Arrays for which no device is named are made there from now on.");
}

}  // namespace weft::python
