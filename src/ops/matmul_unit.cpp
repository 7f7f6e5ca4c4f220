// What a device's compiler has for products beside what its features say, found by asking it once a device.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "ops/launch.h"
#include "ops/matmul.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

bool compiles(const Device& device, std::string_view name, const std::string& source) {
  try {
    KernelOptions probe;
    probe.label = name;
    probe.source = source;
    dispatch::library_kernel(state_of(device), probe.label, [&] { return probe; });
  } catch (const Error& e) {
    if (e.code() != ErrorCode::compile_error) throw;
    return false;
  }
  return true;
}

/// What devices were found to have, asked once each.
class Found {
 public:
  template <class Ask>
  bool of(const Device& device, Ask&& ask) {
    {
      const std::lock_guard lock(mutex_);
      const auto it = known_.find(device.id());
      if (it != known_.end()) return it->second;
    }
    const bool answer = ask();
    const std::lock_guard lock(mutex_);
    return known_.emplace(device.id(), answer).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, bool> known_;
};

/// How many of an operand's components an item of a slab holds, at most: of f16 MatmulPlan::vec, of packed integers
/// four times that.
std::uint32_t components_of_item(DType dtype, const MatrixUnit& unit) {
  return matrix_vec(dtype, unit) * (dtype == DType::u32 ? 4 : 1);
}

/// A kernel that reads a unit's left matrix from items in memory that just holds it, with so much from row to row.
std::string unit_probe(DType dtype, const MatrixUnit& unit, std::string_view component, std::uint32_t stride) {
  const std::uint32_t vec = matrix_vec(dtype, unit);
  const std::string_view element = dtype == DType::u32 || vec == 8 ? "u32" : "f16";
  return fmt::format(R"(diagnostic(off, chromium.subgroup_matrix_uniformity);
enable {}chromium_experimental_subgroup_matrix;
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
var<workgroup> w: array<{}, {}>;
@compute @workgroup_size({}) fn main(@builtin(local_invocation_index) t: u32) {{
  let a = subgroupMatrixLoad<subgroup_matrix_left<{}, {}, {}>, row_major>(&w, 0u, {}u);
  x[t] = t;
}}
)",
                     dtype == DType::f16 ? "f16, " : "",
                     vec == 1 ? std::string(element) : fmt::format("vec{}<{}>", std::min(vec, 4u), element),
                     unit.m * unit.k / components_of_item(dtype, unit), unit.subgroup, component, unit.k, unit.m,
                     stride);
}

}  // namespace

bool has_packed_dot(const Device& device) {
  static Found found;
  return found.of(device, [&] {
    return compiles(device, "matmul_int8.probe", R"(@group(0) @binding(0) var<storage, read_write> x: array<i32>;
@compute @workgroup_size(1) fn main() {
  let w = bitcast<u32>(x[0]);
  x[0] = dot4I8Packed(w, 0x01010101u) + i32(dot4U8Packed(w, 0x01010101u));
}
)");
  });
}

MatrixUnit usable_unit(const Device& device, DType dtype, bool a_signed, bool b_signed) {
  const MatrixUnit unit = matrix_unit(device.features(), dtype, a_signed, b_signed);
  if (!unit) return unit;
  constexpr std::array<std::string_view, 3> kComponents{"f16", "i8", "u8"};
  static std::array<Found, kComponents.size()> found;
  const std::size_t which = dtype == DType::f16 ? 0 : a_signed || b_signed ? 1 : 2;
  const std::string_view component = kComponents.at(which);
  const bool usable = found.at(which).of(device, [&] {
    const std::uint32_t in_item = components_of_item(dtype, unit);
    if (unit.k % in_item != 0) return false;
    if (in_item == 1) return true;
    // Ours counts items of the array. Where components are counted, the second of these is the one that fits.
    const std::string name = fmt::format("matmul.unit.{}.", component);
    return compiles(device, name + "items", unit_probe(dtype, unit, component, unit.k / in_item)) &&
           !compiles(device, name + "components", unit_probe(dtype, unit, component, unit.k));
  });
  return usable ? unit : MatrixUnit{};
}

}  // namespace weft::ops
