// A user's kernel: compiled here, called by name with arrays. What needs Python's types is in weft/_kernel.py.
#include <fmt/format.h>

#include "lazy.h"
#include "trace.h"
#include "weft_python.h"

namespace weft::python {
namespace {

struct PyKernel : Held<Kernel> {
  using Held::Held;
};

PyKernel compile(const PyDevice& on, const std::string& source, const std::string& entry, const std::string& label,
                 const std::vector<std::vector<std::string>>& constants,
                 const std::vector<std::pair<std::string, double>>& overrides) {
  KernelOptions options;
  options.source = source;
  options.entry_point = entry;
  options.label = label;
  for (const auto& c : constants) options.constants.push_back({c.at(0), c.at(1), c.at(2)});
  for (const auto& [name, value] : overrides) options.overrides.push_back({name, value});
  Device device = on.get();
  const ReleaseGil released;
  return PyKernel(device.kernel(options));
}

nb::list bindings_of(const Kernel& kernel) {
  nb::list out;
  for (const BindingInfo& b : kernel.bindings()) {
    out.append(nb::make_tuple(b.name, b.type, b.writable, b.uniform));
  }
  return out;
}

nb::list params_of(const Kernel& kernel) {
  nb::list out;
  for (const ParamInfo& p : kernel.params()) out.append(nb::make_tuple(p.name, p.type, p.offset, p.size));
  return out;
}

/// A kernel sees plain memory.
bool is_bindable(const Tensor& x) {
  const std::size_t offset = static_cast<std::size_t>(x.offset()) * size_of(x.dtype());
  return x.is_contiguous() && offset % x.device().limits().min_storage_offset_alignment == 0;
}

void check_written(const Tensor& x, const std::string& binding) {
  if (is_bindable(x)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("weft.Kernel: '{}' is written, and is a view of shape {}, where a kernel sees plain memory",
                          binding, to_string(x.shape())),
              "write to a copy of it (x.copy()), or let the kernel make the array: out={'" + binding + "': shape}");
}

/// What a binding that is only read may be given as: dense, from an aligned place.
Tensor bindable(const Tensor& x) {
  if (is_bindable(x)) return x;
  Tensor out = Device(x.device()).empty(x.shape(), x.dtype());
  if (x.size() == 0) return out;
  ops::ElementProgram copy;
  copy.run_into(out, copy.input(x));
  return out;
}

/// grid: workgroups, or None for one thread an element: of `elements`, else of the first written array.
void call(const PyKernel& self, const std::vector<std::string>& names, nb::handle arrays, nb::bytes params,
          nb::handle grid, std::optional<std::uint64_t> elements, const PyDevice& on) {
  const Kernel& kernel = self.get();
  std::vector<Tensor> tensors;
  for (const nb::handle a : nb::borrow<nb::sequence>(arrays)) tensors.push_back(array_tensor(a));
  std::vector<NamedBinding> bindings;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Tensor& t = tensors.at(i);
    for (const BindingInfo& b : kernel.bindings()) {
      if (b.name != names[i]) continue;
      if (b.writable) {
        check_writable_in_trace(t, b.name);
        check_written(t, b.name);
        flush_readers(t.buffer());
      } else {
        const ReleaseGil released;
        t = bindable(t);
      }
    }
    bindings.push_back({names[i], BindingRange(t)});
  }
  std::optional<Grid> groups;
  if (!grid.is_none()) {
    const auto given = to_integers(grid, "grid");
    if (given.empty() || given.size() > 3) {
      throw Error(ErrorCode::invalid_argument, fmt::format("weft.Kernel: grid of {} numbers", given.size()),
                  "give 1 to 3: workgroups along x, y and z");
    }
    std::uint32_t lengths[3] = {1, 1, 1};
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i] < 0 || given[i] > std::int64_t{UINT32_MAX}) {
        throw Error(ErrorCode::out_of_range, fmt::format("weft.Kernel: a grid of {} workgroups", given[i]),
                    "give numbers from 0 to the device's max_workgroups_per_dimension");
      }
      lengths[i] = static_cast<std::uint32_t>(given[i]);
    }
    groups = Grid{lengths[0], lengths[1], lengths[2]};
  }
  const std::span<const std::byte> bytes{reinterpret_cast<const std::byte*>(params.data()), params.size()};
  const Device device = on.get();
  const ReleaseGil released;
  const Stream stream = device.stream();
  if (groups) {
    kernel(stream, bindings, bytes, *groups);
  } else if (elements) {
    kernel(stream, bindings, bytes, grid_for(*elements));
  } else {
    kernel(stream, bindings, bytes, kAutoGrid);
  }
}

}  // namespace

void bind_kernel(nb::module_& m) {
  nb::class_<PyKernel>(m, "_Kernel", "A kernel compiled for one device; use weft.Kernel.")
      .def_static("compile", &compile)
      .def_prop_ro("label", [](const PyKernel& k) { return k.get().label(); })
      .def_prop_ro("bindings", [](const PyKernel& k) { return bindings_of(k.get()); })
      .def_prop_ro("params", [](const PyKernel& k) { return params_of(k.get()); })
      .def_prop_ro("params_size", [](const PyKernel& k) { return k.get().params_size(); })
      .def_prop_ro("workgroup_size",
                   [](const PyKernel& k) {
                     const auto s = k.get().workgroup_size();
                     return nb::make_tuple(s[0], s[1], s[2]);
                   })
      .def("call", &call, nb::arg("names"), nb::arg("arrays"), nb::arg("params"), nb::arg("grid").none(),
           nb::arg("elements").none(), nb::arg("device"));
}

}  // namespace weft::python
