// weft/tensor.h - an n-dimensional array in device memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/buffer.h"
#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/error.h"
#include "weft/shape.h"

namespace weft {

/// A buffer seen as an array: element i0, i1, ... lies at element `offset + i0 * strides[0] + i1 * strides[1] + ...`.
/// Copies and views share the buffer; a Tensor never changes which elements it shows. Strides may be negative or 0.
class Tensor {
 public:
  Tensor() = default;
  /// A view of `buffer`. Throws Error{out_of_range} when an element would lie outside it.
  Tensor(const Device& device, Buffer buffer, Shape shape, Strides strides, std::int64_t offset, DType dtype);

  explicit operator bool() const noexcept { return static_cast<bool>(buffer_); }
  const Device& device() const;
  const Buffer& buffer() const noexcept { return buffer_; }
  const Shape& shape() const noexcept { return shape_; }
  const Strides& strides() const noexcept { return strides_; }  ///< in elements
  std::int64_t offset() const noexcept { return offset_; }      ///< in elements
  DType dtype() const noexcept { return dtype_; }
  std::size_t rank() const noexcept { return shape_.rank(); }
  std::int64_t size() const noexcept { return count_; }  ///< elements
  std::size_t nbytes() const noexcept { return static_cast<std::size_t>(count_) * size_of(dtype_); }
  /// Dense and row-major (the offset may be anything).
  bool is_contiguous() const noexcept;

  /// Submits, waits, reads: all elements in row-major order. T must match dtype(), else Error{invalid_argument};
  /// Error{out_of_memory} when the host has no room for them.
  template <class T>
  std::vector<T> to_host(ReadOptions options = {}) const {
    check_host_type(dtype_of<T>);
    std::vector<T> out = detail::host_elements<T>(static_cast<std::size_t>(count_));
    read_into(std::as_writable_bytes(std::span<T>(out)), options);
    return out;
  }
  /// The same, as raw bytes of dtype().
  std::vector<std::byte> to_host_bytes(ReadOptions options = {}) const;
  /// The same into memory of the caller's, of exactly nbytes() bytes.
  void read_into(std::span<std::byte> out, ReadOptions options = {}) const;

 private:
  void check_host_type(DType asked) const;

  Device device_{nullptr};  // empty in an empty handle
  Buffer buffer_;
  Shape shape_;
  Strides strides_;
  std::int64_t offset_ = 0;
  std::int64_t count_ = 0;
  DType dtype_ = DType::f32;
};

/// std::vector<bool> has no contiguous storage; bools come as bytes 0 and 1.
template <>
inline std::vector<bool> Tensor::to_host<bool>(ReadOptions options) const {
  check_host_type(DType::bool_);
  const std::vector<std::byte> bytes = to_host_bytes(options);
  std::vector<bool> out = detail::host_elements<bool>(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) out[i] = bytes[i] != std::byte{0};
  return out;
}

template <class T>
Tensor Device::upload(std::span<const T> values, const Shape& shape) {
  return upload_array(std::as_bytes(values), shape, dtype_of<T>);
}

}  // namespace weft
