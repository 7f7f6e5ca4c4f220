#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "ops/infer_matmul.h"
#include "ops/launch.h"
#include "ops/matmul.h"
#include "ops/matmul_run.h"
#include "ops/result.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

constexpr std::string_view kOp = "matmul_int8";

/// The words of a row lie side by side.
Tensor in_rows(const Tensor& x) {
  bool fits = x.shape().back() == 1 || x.strides().back() == 1;
  for (std::size_t i = 0; i + 1 < x.rank(); ++i) fits = fits && x.strides()[i] >= 0;
  return fits ? x : contiguous(x);
}

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

/// A kernel that reads a unit's left matrix from memory that just holds it, with so much from row to row.
std::string unit_probe(const MatrixUnit& unit, std::string_view component, std::uint32_t stride) {
  const std::uint32_t vec = matrix_vec(DType::u32, unit);
  return fmt::format(R"(diagnostic(off, chromium.subgroup_matrix_uniformity);
enable chromium_experimental_subgroup_matrix;
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
var<workgroup> w: array<{}, {}>;
@compute @workgroup_size({}) fn main(@builtin(local_invocation_index) t: u32) {{
  let a = subgroupMatrixLoad<subgroup_matrix_left<{}, {}, {}>, row_major>(&w, 0u, {}u);
  x[t] = t;
}}
)",
                     vec == 1 ? "u32" : fmt::format("vec{}u", vec), unit.m * unit.k / 4 / vec, unit.subgroup, component,
                     unit.k, unit.m, stride);
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
  if (!unit || dtype != DType::u32) return unit;
  static std::array<Found, 2> found;  // by component
  const bool is_signed = a_signed || b_signed;
  const bool usable = found.at(is_signed ? 1 : 0).of(device, [&] {
    // Ours counts elements of the array. Where components are counted, the second of these is the one that fits.
    const std::string_view component = is_signed ? "i8" : "u8";
    const std::string name = fmt::format("matmul_int8.{}.", component);
    const std::uint32_t row = unit.k / 4 / matrix_vec(dtype, unit);
    return unit.k % 4 == 0 && compiles(device, name + "elements", unit_probe(unit, component, row)) &&
           !compiles(device, name + "components", unit_probe(unit, component, unit.k));
  });
  return usable ? unit : MatrixUnit{};
}

Tensor matmul_int8(const Tensor& a, const Tensor& b, const Int8MatmulOptions& options, const MatmulTuning& tuning) {
  const Device& device = common_device(kOp, std::array{&a, &b});
  for (const auto& [name, x] : {std::pair{"a", &a}, {"b", &b}}) {
    if (x->dtype() == DType::u32) continue;
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} is {}", kOp, name, to_string(x->dtype())),
                "give uint32 words of four packed values each");
  }
  const Shape shape = int8_matmul_shape(a.shape(), b.shape());
  if (a.shape().back() == 0) return Device(device).zeros(shape, DType::i32);
  const Tensor result = new_result(device, shape, DType::i32);
  if (result.size() == 0) return result;
  const Shape batch(std::span<const std::int64_t>(shape.begin(), shape.rank() - 2));
  Product p;
  p.a = stretch(in_rows(a), batch);
  p.b = swap_last_two(stretch(in_rows(b), batch));
  p.c = result;
  p.int8 = tuning.int8_dot.value_or(has_packed_dot(device)) ? Int8::dot : Int8::unpacked;
  p.a_signed = options.a_signed;
  p.b_signed = options.b_signed;
  run_product(device, p, kOp, tuning);
  return result;
}

}  // namespace weft::ops

namespace weft {

Tensor matmul_int8(const Tensor& a, const Tensor& b, const Int8MatmulOptions& options) {
  return ops::matmul_int8(a, b, options, {});
}

}  // namespace weft
