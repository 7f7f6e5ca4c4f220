// Lengths of convolutions and pools: pure rules, no device. All throw Error{invalid_argument} (shapes, options) or
// Error{out_of_range} (lengths past what kernels count) whose message names the op, the shapes, and a fix.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "weft/nn.h"
#include "weft/shape.h"

namespace weft::ops {

/// One spatial axis. All lengths are below 2^31, and so is every place that a window can reach.
struct WindowAxis {
  std::int64_t in = 1, window = 1, out = 1;
  std::int64_t stride = 1, pad_before = 0, pad_after = 0, dilation = 1;

  std::int64_t extent() const noexcept { return dilation * (window - 1) + 1; }
};

/// A convolution with two spatial axes; of a 1-D one the first has length 1 throughout.
struct ConvGeometry {
  std::size_t spatial = 2;  ///< 1 or 2
  Layout layout = Layout::channels_first;
  std::int64_t batch = 0, groups = 1, channels = 0, out_channels = 0;
  std::array<WindowAxis, 2> axes;

  /// [batch, channels, ...] with the input's or the output's lengths, in the layout.
  Shape x_shape() const;
  Shape out_shape() const;
};

/// `op` names the op in errors: "conv", or one of its gradients with their shapes of x and filter.
ConvGeometry conv_geometry(std::string_view op, const Shape& x, const Shape& filter, const SlidingWindow& window,
                           std::int64_t groups, Layout layout);
/// The convolution whose data gradient conv_transpose is: its `out` is the given x, its `in` the result.
ConvGeometry conv_transpose_geometry(const Shape& x, const Shape& filter, const ConvTransposeOptions& options);

Shape conv_shape(const Shape& x, const Shape& filter, const ConvOptions& options);
Shape conv_transpose_shape(const Shape& x, const Shape& filter, const ConvTransposeOptions& options);

/// Channels in and out are the same.
ConvGeometry pool_geometry(const Shape& x, std::span<const std::int64_t> size, const PoolOptions& options);
Shape pool_shape(const Shape& x, std::span<const std::int64_t> size, const PoolOptions& options);

/// Refuses a bias that is not one number an out channel.
void check_conv_bias(std::string_view op, const Shape& bias, std::int64_t channels);
/// Refuses a gradient (or another tensor) whose shape is not the one that belongs there.
void require_shape(std::string_view op, std::string_view what, const Shape& given, const Shape& wanted);

}  // namespace weft::ops
