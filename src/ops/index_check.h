// What ops with index operands share: the WGSL that reads an index, the check on the device, and its error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ops/catalog.h"
#include "weft/indexing.h"

namespace weft::ops {

/// An axis that indices choose on.
struct IndexedAxis {
  std::int64_t length = 0;
  std::string name;  ///< in errors: "axis 1", "the flattened array"
};

/// WGSL: `from_front(v: u32, length: u32) -> u32`, the index v counted from the front; not below `length` when it is
/// out of range. It reads params.sign, which is `sign_of` the indices' dtype; the array of indices is declared as u32.
inline constexpr std::string_view kFromFront = R"(
fn from_front(v: u32, length: u32) -> u32 { return v + select(0u, length, (v & params.sign) != 0u); }
)";
constexpr std::uint32_t sign_of(DType indices) noexcept {
  return indices == DType::i32 ? 0x80000000U : 0U;
}

/// n as a kernel counts. Throws Error{unsupported}: "take: 5000000000 elements of the result, over the ...".
std::uint32_t checked_u32(std::string_view op, std::int64_t n, std::string_view what);
/// Strides, which may be negative: sums wrap modulo 2^32 and end as an index again.
constexpr std::uint32_t wrapped(std::int64_t v) noexcept {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v));
}

/// A dense copy (the tensor itself when it is dense) that one binding shows. Throws Error{out_of_range}, before
/// anything is recorded, where none can: "take: indices of shape (4, 5) take ...". `what` is "x", "indices", ...
Tensor dense_operand(std::string_view op, const Tensor& x, std::string_view what);
/// The same of indices, at most 2^32 - 2 of them.
Tensor dense_indices(std::string_view op, const Tensor& indices);

/// Reads back a verdict: 0, or the complement of the position of the first bad index. Throws then as check_indices.
void read_verdict(std::string_view op, const Buffer& found, const Tensor& dense, const Shape& shape,
                  std::span<const IndexedAxis> axes);
/// Has the device look at all indices, which are tuples into `axes`, and waits for its verdict. Throws
/// Error{out_of_range} for the first bad one: "take: index 7 at position (0, 1) is out of range for axis 0 of length
/// 5". `shape` is that of the indices as the caller gave them, `dense` has the same in row-major order.
void check_indices(std::string_view op, const Tensor& dense, const Shape& shape, std::span<const IndexedAxis> axes);

void visit_check_kernels(const KernelVisitor& visit);

}  // namespace weft::ops
