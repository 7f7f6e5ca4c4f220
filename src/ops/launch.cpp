#include "ops/launch.h"

#include <fmt/format.h>

#include "weft/error.h"
#include "weft/stream.h"

namespace weft::ops {
namespace {

struct Bytes {
  std::uint64_t begin = 0, end = 0;
};

/// First and last byte that the tensor's elements touch, widened to what can be bound.
Bytes touched(const Tensor& x) {
  std::int64_t low = x.offset();
  std::int64_t high = x.offset();
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const std::int64_t reach = (x.shape()[i] - 1) * x.strides()[i];
    (reach < 0 ? low : high) += reach;
  }
  const std::uint64_t size = size_of(x.dtype());
  const std::uint64_t alignment = x.device().limits().min_storage_offset_alignment;
  const std::uint64_t begin = static_cast<std::uint64_t>(low) * size / alignment * alignment;
  const std::uint64_t end = (static_cast<std::uint64_t>(high) + 1) * size;
  return {begin, end};
}

}  // namespace

std::uint64_t window_bytes(const Tensor& x) {
  const Bytes b = touched(x);
  return b.end - b.begin;
}

Window window(const Tensor& x, std::string_view op) {
  const Bytes b = touched(x);
  const std::uint64_t limit = x.device().limits().max_storage_binding_size;
  if (b.end - b.begin > limit) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: a tensor of shape {} spans {} bytes, over the device's limit of {} for one binding",
                            op, to_string(x.shape()), b.end - b.begin, limit),
                "work on slices of it");
  }
  Window w;
  w.range = BindingRange(x.buffer(), b.begin, b.end - b.begin);
  w.offset = static_cast<std::uint32_t>(static_cast<std::uint64_t>(x.offset()) - b.begin / size_of(x.dtype()));
  return w;
}

bool is_cpu(const Device& device) {
  return device.adapter().type == AdapterType::cpu;
}

detail::DeviceState& state_of(const Device& device) {
  return *device.state();
}

const Device& common_device(std::string_view op, std::span<const Tensor* const> operands) {
  const Tensor* first = nullptr;
  for (const Tensor* t : operands) {
    if (!*t) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{}: an operand is an empty tensor handle", op),
                  "pass a tensor that Device::upload or an op gave");
    }
    if (first == nullptr) {
      first = t;
    } else if (t->device().id() != first->device().id()) {
      throw Error(
          ErrorCode::foreign_buffer,
          fmt::format("{}: operands are owned by devices {} and {}", op, first->device().id(), t->device().id()),
          "read one of them and upload it to the other's device");
    }
  }
  return first->device();
}

void launch(const Device& device, const Kernel& kernel, std::span<const BindingRange> bindings,
            std::span<const std::byte> params, Grid grid) {
  kernel.dispatch(device.stream(), bindings, params, grid);
}

}  // namespace weft::ops
