#include "ops/infer_conv.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/refuse.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

/// Kernels count places in 32 bits, some of them below 0.
constexpr std::int64_t kMost = 0x7fffffff;

std::string list(const std::vector<std::int64_t>& values) {
  return fmt::format("({})", fmt::join(values, ", "));
}

/// Values of one option for each spatial axis, the default where none are given; each at least `least`.
std::array<std::int64_t, 2> per_axis(std::string_view op, std::string_view name,
                                     const std::vector<std::int64_t>& values, std::size_t spatial, std::int64_t def,
                                     std::int64_t least, const Shape& x) {
  std::array<std::int64_t, 2> out{def, def};
  if (values.empty()) return out;
  if (values.size() != spatial) {
    refuse(fmt::format("{}: {} {} has {} numbers, but x {} has {} spatial ax{}", op, name, list(values), values.size(),
                       to_string(x), spatial, spatial == 1 ? "is" : "es"),
           "give one number for each spatial axis, or none for the default");
  }
  for (std::size_t i = 0; i < spatial; ++i) {
    if (values[i] < least || values[i] > kMost) {
      refuse(fmt::format("{}: {} {} holds {}", op, name, list(values), values[i]),
             fmt::format("use numbers from {} to {}", least, kMost));
    }
    out[2 - spatial + i] = values[i];
  }
  return out;
}

/// Rank 3 or 4 of x; how many of its axes are spatial.
std::size_t spatial_axes(std::string_view op, const Shape& x) {
  if (x.rank() != 3 && x.rank() != 4) {
    refuse(fmt::format("{}: x {} has {} ax{}", op, to_string(x), x.rank(), x.rank() == 1 ? "is" : "es"),
           "give it 3 (batch, channels, width) or 4 (batch, channels, height, width)");
  }
  return x.rank() - 2;
}

std::size_t spatial_start(Layout layout) {
  return layout == Layout::channels_first ? 2 : 1;
}
std::int64_t channels_of(const Shape& x, Layout layout) {
  return layout == Layout::channels_first ? x[1] : x.back();
}

Shape shape_of(const ConvGeometry& g, std::int64_t channels, std::int64_t WindowAxis::* length) {
  Shape shape{g.batch};
  if (g.layout == Layout::channels_first) shape.push_back(channels);
  for (std::size_t i = 2 - g.spatial; i < 2; ++i) shape.push_back(g.axes[i].*length);
  if (g.layout == Layout::channels_last) shape.push_back(channels);
  return shape;
}

/// Strides, padding and dilation of a window of these sizes.
void read_window(std::string_view op, const SlidingWindow& window, std::size_t spatial, const Shape& x,
                 std::array<WindowAxis, 2>& axes) {
  const auto stride = per_axis(op, "stride", window.stride, spatial, 1, 1, x);
  const auto before = per_axis(op, "pad_before", window.pad_before, spatial, 0, 0, x);
  const auto after = per_axis(op, "pad_after", window.pad_after, spatial, 0, 0, x);
  const auto dilation = per_axis(op, "dilation", window.dilation, spatial, 1, 1, x);
  for (std::size_t i = 0; i < 2; ++i) {
    axes[i].stride = stride[i];
    axes[i].pad_before = before[i];
    axes[i].pad_after = after[i];
    axes[i].dilation = dilation[i];
  }
}

void check_filter(std::string_view op, const Shape& x, const Shape& filter, std::int64_t groups) {
  if (filter.rank() != x.rank()) {
    refuse(fmt::format("{}: filter {} has {} axes, x {} has {}", op, to_string(filter), filter.rank(), to_string(x),
                       x.rank()),
           "give both the same number of spatial axes");
  }
  for (std::size_t i = 2; i < filter.rank(); ++i) {
    if (filter[i] < 1) {
      refuse(fmt::format("{}: filter {} has a window of length 0", op, to_string(filter)),
             "give each spatial axis of the filter a length of at least 1");
    }
  }
  if (groups < 1) refuse(fmt::format("{}: groups is {}", op, groups), "use 1 or more");
}

void check_divides(std::string_view op, std::string_view what, std::int64_t channels, std::int64_t groups,
                   const Shape& shape) {
  if (channels % groups == 0) return;
  refuse(fmt::format("{}: {} groups do not divide the {} {} of {}", op, groups, channels, what, to_string(shape)),
         "use a number of groups that divides the channels in and out");
}

void check_length(std::string_view op, std::int64_t length, std::string_view what) {
  if (length <= kMost) return;
  throw Error(ErrorCode::out_of_range,
              fmt::format("{}: {} of {} is over the {} that kernels count", op, what, length, kMost),
              "work on slices of it");
}

/// The extent of the window and the padded length, both within what kernels count.
void check_reach(std::string_view op, const WindowAxis& axis) {
  check_length(op, axis.in, "a length");
  check_length(op, axis.window, "a window");
  check_length(op, axis.extent(), "a dilated window");  // < 2^62: both factors are below 2^31
  check_length(op, axis.in + axis.pad_before + axis.pad_after, "a padded length");
}

void check_window_fits(std::string_view op, const WindowAxis& axis, std::string_view what, const Shape& filter,
                       const Shape& x) {
  const std::int64_t padded = axis.in + axis.pad_before + axis.pad_after;
  if (axis.extent() <= padded) return;
  refuse(fmt::format("{}: {} {} spans {} elements of an axis, but x {} with its padding has {} there", op, what,
                     to_string(filter), axis.extent(), to_string(x), padded),
         "pad the input, or use a smaller window or dilation");
}

}  // namespace

Shape ConvGeometry::x_shape() const {
  return shape_of(*this, channels, &WindowAxis::in);
}
Shape ConvGeometry::out_shape() const {
  return shape_of(*this, out_channels, &WindowAxis::out);
}

ConvGeometry conv_geometry(std::string_view op, const Shape& x, const Shape& filter, const SlidingWindow& window,
                           std::int64_t groups, Layout layout) {
  ConvGeometry g;
  g.spatial = spatial_axes(op, x);
  g.layout = layout;
  g.groups = groups;
  check_filter(op, x, filter, groups);
  read_window(op, window, g.spatial, x, g.axes);
  g.batch = x[0];
  g.channels = channels_of(x, layout);
  g.out_channels = filter[0];
  check_divides(op, "channels", g.channels, groups, x);
  check_divides(op, "out channels", g.out_channels, groups, filter);
  if (filter[1] != g.channels / groups) {
    const std::int64_t other = layout == Layout::channels_first ? x.back() : x[1];
    const bool turned = filter[1] == other / groups && other % groups == 0;
    refuse(fmt::format("{}: x {} has {} channels, but filter {} takes {} in {} group{}", op, to_string(x), g.channels,
                       to_string(filter), filter[1] * groups, groups, groups == 1 ? "" : "s"),
           turned ? "set ConvOptions::layout to where the channels of x lie"
                  : fmt::format("give the filter shape ({}, {}, ...)", g.out_channels, g.channels / groups));
  }
  for (std::size_t i = 0; i < g.spatial; ++i) {
    WindowAxis& axis = g.axes[2 - g.spatial + i];
    axis.in = x[spatial_start(layout) + i];
    axis.window = filter[2 + i];
    check_reach(op, axis);
    check_window_fits(op, axis, "filter", filter, x);
    axis.out = (axis.in + axis.pad_before + axis.pad_after - axis.extent()) / axis.stride + 1;
  }
  return g;
}

ConvGeometry conv_transpose_geometry(const Shape& x, const Shape& filter, const ConvTransposeOptions& options) {
  constexpr std::string_view kOp = "conv_transpose";
  ConvGeometry g;
  g.spatial = spatial_axes(kOp, x);
  g.layout = options.layout;
  g.groups = options.groups;
  check_filter(kOp, x, filter, options.groups);
  read_window(kOp, options.window, g.spatial, x, g.axes);
  const auto output_padding = per_axis(kOp, "output_padding", options.output_padding, g.spatial, 0, 0, x);
  g.batch = x[0];
  g.out_channels = channels_of(x, options.layout);
  check_divides(kOp, "channels", g.out_channels, options.groups, x);
  if (filter[0] != g.out_channels) {
    refuse(fmt::format("conv_transpose: x {} has {} channels, but filter {} takes {}", to_string(x), g.out_channels,
                       to_string(filter), filter[0]),
           fmt::format("give the filter shape ({}, out channels / groups, ...)", g.out_channels));
  }
  check_length(kOp, filter[1], "the out channels of a group");
  check_length(kOp, options.groups, "a number of groups");
  g.channels = filter[1] * options.groups;
  for (std::size_t i = 0; i < g.spatial; ++i) {
    const std::size_t at = 2 - g.spatial + i;
    WindowAxis& axis = g.axes[at];
    axis.out = x[spatial_start(options.layout) + i];
    axis.window = filter[2 + i];
    check_length(kOp, axis.out, "a length");
    check_length(kOp, axis.window, "a window");
    check_length(kOp, axis.extent(), "a dilated window");
    const std::int64_t padding = axis.pad_before + axis.pad_after;
    const std::int64_t full =
        axis.out == 0 ? output_padding[at] : (axis.out - 1) * axis.stride + axis.extent() + output_padding[at];
    axis.in = axis.out == 0 ? 0 : full - padding;
    if (axis.out > 0 && axis.in < 1) {
      refuse(fmt::format("conv_transpose: x {} with filter {} makes {} elements of an axis, and padding takes away {}",
                         to_string(x), to_string(filter), full, padding),
             "use less padding");
    }
    check_length(kOp, full, "a length of the result");
  }
  return g;
}

Shape conv_shape(const Shape& x, const Shape& filter, const ConvOptions& options) {
  return conv_geometry("conv", x, filter, options.window, options.groups, options.layout).out_shape();
}

Shape conv_transpose_shape(const Shape& x, const Shape& filter, const ConvTransposeOptions& options) {
  return conv_transpose_geometry(x, filter, options).x_shape();
}

ConvGeometry pool_geometry(const Shape& x, std::span<const std::int64_t> size, const PoolOptions& options) {
  constexpr std::string_view kOp = "pool";
  ConvGeometry g;
  g.spatial = spatial_axes(kOp, x);
  g.layout = options.layout;
  const std::vector<std::int64_t> sizes(size.begin(), size.end());
  if (sizes.empty()) {
    refuse(fmt::format("pool: no size given for x {}", to_string(x)), "give the window's length on each spatial axis");
  }
  const auto window = per_axis(kOp, "size", sizes, g.spatial, 1, 1, x);
  read_window(kOp, options.window, g.spatial, x, g.axes);
  g.batch = x[0];
  g.channels = g.out_channels = channels_of(x, options.layout);
  for (std::size_t i = 0; i < g.spatial; ++i) {
    WindowAxis& axis = g.axes[2 - g.spatial + i];
    axis.in = x[spatial_start(options.layout) + i];
    axis.window = window[2 - g.spatial + i];
    check_reach(kOp, axis);
    if (std::max(axis.pad_before, axis.pad_after) >= axis.extent()) {
      refuse(fmt::format("pool: padding of {} and {} with a window that spans {}", axis.pad_before, axis.pad_after,
                         axis.extent()),
             "use less padding than the window spans: others hold padding alone");
    }
    check_window_fits(kOp, axis, "a window of", Shape(size), x);
    const std::int64_t room = axis.in + axis.pad_before + axis.pad_after - axis.extent();
    axis.out = (room + (options.ceil_mode ? axis.stride - 1 : 0)) / axis.stride + 1;
    // A window that would start behind the input would hold padding alone.
    if (options.ceil_mode && (axis.out - 1) * axis.stride >= axis.in + axis.pad_before) --axis.out;
  }
  return g;
}

Shape pool_shape(const Shape& x, std::span<const std::int64_t> size, const PoolOptions& options) {
  return pool_geometry(x, size, options).out_shape();
}

void check_conv_bias(std::string_view op, const Shape& bias, std::int64_t channels) {
  if (bias == Shape{channels}) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: a bias of shape {} for {} out channels", op, to_string(bias), channels),
              fmt::format("give it shape ({},)", channels));
}

void require_shape(std::string_view op, std::string_view what, const Shape& given, const Shape& wanted) {
  if (given == wanted) return;
  refuse(fmt::format("{}: {} has shape {}, but those of the others and the options make it {}", op, what,
                     to_string(given), to_string(wanted)),
         "pass the options and shapes of the forward call");
}

}  // namespace weft::ops
