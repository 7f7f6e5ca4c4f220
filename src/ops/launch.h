// What the ops share to start kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dispatch/state.h"
#include "weft/kernel.h"
#include "weft/tensor.h"

namespace weft::ops {

/// A bound range and where the tensor's first element (index 0, 0, ...) lies in it.
struct Window {
  BindingRange range;
  std::uint32_t offset = 0;  ///< in elements of the tensor's dtype, from the start of the range
};

/// The smallest aligned range of the buffer that shows every element of `x`, whatever its strides. `x` is not empty.
/// Throws Error{out_of_range}, naming `op` and the limit, when it is over Limits::max_storage_binding_size.
Window window(const Tensor& x, std::string_view op);
/// Bytes of that range, without throwing: for deciding whether to work in slices.
std::uint64_t window_bytes(const Tensor& x);

/// A length, stride or count as kernels take it. Callers have shown that it fits; a negative stride wraps, as does the
/// kernel's arithmetic.
constexpr std::uint32_t word(std::int64_t v) noexcept {
  return static_cast<std::uint32_t>(v);
}

/// True for a CPU Vulkan device (lavapipe, SwiftShader): barriers are dear there, wide independent lanes cheap.
bool is_cpu(const Device& device);

/// The default stream's state of the device.
detail::DeviceState& state_of(const Device& device);

/// All operands on one device, else Error{foreign_buffer} that names the op. Returns the device.
const Device& common_device(std::string_view op, std::span<const Tensor* const> operands);

/// Records `kernel` on the device's default stream.
void launch(const Device& device, const Kernel& kernel, std::span<const BindingRange> bindings,
            std::span<const std::byte> params, Grid grid);
template <class P>
void launch(const Device& device, const Kernel& kernel, std::initializer_list<BindingRange> bindings, const P& params,
            Grid grid) {
  launch(device, kernel, std::span<const BindingRange>(bindings.begin(), bindings.size()),
         std::as_bytes(std::span<const P, 1>(&params, 1)), grid);
}

}  // namespace weft::ops
