#include "weft/tensor.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "weft/kernel.h"
#include "weft/ops.h"

namespace weft {
namespace {

std::size_t bytes_of(const Shape& shape, DType dtype) {
  return checked_mul(static_cast<std::uint64_t>(element_count(shape)), size_of(dtype), "size of a tensor in bytes");
}

void check_dtype(const Device& device, DType dtype) {
  if (dtype == DType::f16 && !device.features().f16) {
    throw Error(ErrorCode::unsupported, fmt::format("the device '{}' lacks float16", device.adapter().name),
                "use float32, or open another device");
  }
}

}  // namespace

Tensor::Tensor(const Device& device, Buffer buffer, Shape shape, Strides strides, std::int64_t offset, DType dtype)
    : device_(device),
      buffer_(std::move(buffer)),
      shape_(shape),
      strides_(strides),
      offset_(offset),
      count_(element_count(shape)),
      dtype_(dtype) {
  if (shape_.rank() != strides_.rank()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor: shape {} and strides {} differ in rank", to_string(shape_), to_string(strides_)),
                "give one stride per axis");
  }
  if (count_ == 0) {
    offset_ = 0;  // a slice of nothing may point past a buffer that has nothing either
    return;
  }
  bytes_of(shape_, dtype_);  // with strides of 0 they may be more than the buffer's, not more than 64 bits count
  std::int64_t low = offset_;
  std::int64_t high = offset_;
  for (std::size_t i = 0; i < shape_.rank(); ++i) {
    std::int64_t reach = 0;
    const bool wraps = __builtin_mul_overflow(shape_[i] - 1, strides_[i], &reach) ||
                       __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
    if (wraps) low = -1;
  }
  const auto held = static_cast<std::int64_t>(buffer_.size() / size_of(dtype_));
  if (low < 0 || high >= held) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("tensor: shape {} with strides {} from element {} reaches outside a buffer of {} elements",
                            to_string(shape_), to_string(strides_), offset_, held),
                "use a larger buffer, or smaller strides");
  }
}

const Device& Tensor::device() const {
  if (!device_.state()) {
    throw Error(ErrorCode::invalid_argument, "the tensor handle is empty", "take one from Device::upload or an op");
  }
  return device_;
}

bool Tensor::is_contiguous() const noexcept {
  if (count_ == 0) return true;
  std::int64_t step = 1;
  for (std::size_t i = shape_.rank(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != step) return false;
    step *= shape_[i];
  }
  return true;
}

void Tensor::check_host_type(DType asked) const {
  if (asked != dtype_) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("to_host: the tensor is {}, and {} was asked for", to_string(dtype_), to_string(asked)),
                "ask for the tensor's own type, or cast it first");
  }
}

void Tensor::read_into(std::span<std::byte> out, ReadOptions options) const {
  if (out.size() != nbytes()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("read_into: {} bytes given for a tensor of {}", out.size(), nbytes()),
                fmt::format("give exactly {} bytes", nbytes()));
  }
  if (out.empty()) {
    (void)device();  // an empty handle is no tensor of no elements
    return;
  }
  const Tensor dense = contiguous(*this);
  Device device_of = dense.device();
  device_of.read(dense.buffer(), static_cast<std::size_t>(dense.offset()) * size_of(dtype_), out, options);
}

std::vector<std::byte> Tensor::to_host_bytes(ReadOptions options) const {
  std::vector<std::byte> out = detail::host_elements<std::byte>(nbytes());
  read_into(out, options);
  return out;
}

BindingRange::BindingRange(const Tensor& t) : dtype(t.dtype()) {
  const Device& device = t.device();
  if (t.size() == 0) {  // WebGPU binds at least 4 bytes, and 0 here would mean all the rest
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a kernel was given a tensor of shape {}, which has no elements", to_string(t.shape())),
                "leave the call out when there is nothing to do");
  }
  const std::uint64_t begin = static_cast<std::uint64_t>(t.offset()) * size_of(t.dtype());
  const std::uint32_t alignment = device.limits().min_storage_offset_alignment;
  if (!t.is_contiguous() || begin % alignment != 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("a kernel was given a view of shape {}, strides {}, from byte {}: a kernel sees plain memory",
                    to_string(t.shape()), to_string(t.strides()), begin),
        "pass contiguous(x)");
  }
  buffer = t.buffer();
  offset = begin;
  size = t.nbytes();
}

Tensor Device::upload_array(std::span<const std::byte> bytes, const Shape& shape, DType dtype) {
  check_dtype(*this, dtype);
  const std::size_t needed = bytes_of(shape, dtype);
  if (bytes.size() != needed) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("upload: {} bytes given, shape {} of {} has {}", bytes.size(), to_string(shape),
                            to_string(dtype), needed),
                "give as many values as the shape has elements");
  }
  return Tensor(*this, upload_bytes(bytes), shape, contiguous_strides(shape), 0, dtype);
}

Tensor Device::zeros(const Shape& shape, DType dtype) {
  check_dtype(*this, dtype);
  return Tensor(*this, zeros_bytes(bytes_of(shape, dtype)), shape, contiguous_strides(shape), 0, dtype);
}

Tensor Device::empty(const Shape& shape, DType dtype) {
  check_dtype(*this, dtype);
  return Tensor(*this, alloc(bytes_of(shape, dtype)), shape, contiguous_strides(shape), 0, dtype);
}

}  // namespace weft
