#include "ops/index_check.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

#include "ops/launch.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft::ops {
namespace {

std::string check_key(std::size_t tuple) {
  return fmt::format("index_check {}", tuple);
}

KernelOptions check_options(std::size_t tuple) {
  std::string members;
  std::string lengths;
  for (std::size_t j = 0; j < tuple; ++j) {
    members += fmt::format(", n{}: u32", j);
    lengths += j == 0 ? "  var length = params.n0;\n"
                      : fmt::format("  if (i % {}u == {}u) {{ length = params.n{}; }}\n", tuple, j, j);
  }
  KernelOptions o;
  o.label = "weft.index_check";
  // `found` starts at 0; the first bad index has the largest complement.
  o.source = fmt::format(R"(struct Params {{ count: u32, offset: u32, sign: u32{} }}
@group(0) @binding(0) var<storage, read> indices: array<u32>;
@group(0) @binding(1) var<storage, read_write> found: array<atomic<u32>>;
{}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {{
  let i = linear_index(id);
  if (i >= params.count) {{ return; }}
{}  if (from_front(indices[params.offset + i], length) >= length) {{ atomicMax(&found[0], ~i); }}
}}
)",
                         members, kFromFront, lengths);
  return o;
}

[[noreturn]] void refuse_index(std::string_view op, const Tensor& dense, const Shape& shape, std::int64_t position,
                               const IndexedAxis& axis) {
  std::uint32_t bits = 0;
  Device(dense.device())
      .read(dense.buffer(), static_cast<std::size_t>(dense.offset() + position) * 4,
            std::as_writable_bytes(std::span<std::uint32_t, 1>(&bits, 1)));
  const bool has_sign = dense.dtype() == DType::i32;
  Shape at = shape;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    at[i] = position % shape[i];
    position /= shape[i];
  }
  throw Error(ErrorCode::out_of_range,
              fmt::format("{}: index {}{} is out of range for {} of length {}", op,
                          has_sign ? std::int64_t{static_cast<std::int32_t>(bits)} : std::int64_t{bits},
                          shape.rank() == 0 ? std::string() : fmt::format(" at position {}", to_string(at)), axis.name,
                          axis.length),
              axis.length == 0
                  ? std::string("choose from an axis that has elements")
                  : fmt::format("use indices from {} to {}", has_sign ? -axis.length : 0, axis.length - 1));
}

}  // namespace

std::uint32_t checked_u32(std::string_view op, std::int64_t n, std::string_view what) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (n > kMost) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: {} {}, over the {} that a kernel can index", op, n, what, kMost), "work on slices");
  }
  return static_cast<std::uint32_t>(n);
}

Tensor dense_operand(std::string_view op, const Tensor& x, std::string_view what) {
  const std::uint64_t limit = x.device().limits().max_storage_binding_size;
  const std::uint64_t bytes = x.size() == 0 ? 0 : x.is_contiguous() ? window_bytes(x) : x.nbytes();
  if (bytes > limit) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: {} of shape {} span {} bytes, over the device's limit of {} for one binding", op, what,
                            to_string(x.shape()), bytes, limit),
                "work on slices of it");
  }
  return contiguous(x);
}

Tensor dense_indices(std::string_view op, const Tensor& indices) {
  checked_u32(op, indices.size() + 1, "indices");
  return dense_operand(op, indices, "indices");
}

void read_verdict(std::string_view op, const Buffer& found, const Tensor& dense, const Shape& shape,
                  std::span<const IndexedAxis> axes) {
  std::uint32_t complement = 0;
  Device(dense.device()).read(found, 0, std::as_writable_bytes(std::span<std::uint32_t, 1>(&complement, 1)));
  if (complement == 0) return;
  const std::uint32_t position = ~complement;
  refuse_index(op, dense, shape, position, axes[position % axes.size()]);
}

void check_indices(std::string_view op, const Tensor& dense, const Shape& shape, std::span<const IndexedAxis> axes) {
  if (dense.size() == 0) return;
  Device device = dense.device();
  const Window range = window(dense, op);
  std::vector<std::uint32_t> params{static_cast<std::uint32_t>(dense.size()), range.offset, sign_of(dense.dtype())};
  for (const IndexedAxis& axis : axes) params.push_back(checked_u32(op, axis.length, "places to choose from"));
  const Kernel kernel =
      dispatch::library_kernel(state_of(device), check_key(axes.size()), [&] { return check_options(axes.size()); });
  const Buffer found = device.zeros_bytes(4);
  launch(device, kernel, std::array{range.range, BindingRange(found)}, std::as_bytes(std::span(params)),
         kernel.grid(grid_for(static_cast<std::uint64_t>(dense.size()))));
  read_verdict(op, found, dense, shape, axes);
}

void visit_check_kernels(const KernelVisitor& visit) {
  for (std::size_t tuple = 1; tuple <= kMaxRank; ++tuple) visit(check_key(tuple), check_options(tuple));
}

}  // namespace weft::ops
