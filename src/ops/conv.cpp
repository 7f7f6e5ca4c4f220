// conv, conv_transpose and the gradients of conv, each as a sum over windows.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/conv_sum.h"
#include "ops/infer_conv.h"
#include "ops/launch.h"
#include "ops/result.h"
#include "ops/rows.h"
#include "weft/error.h"
#include "weft/nn.h"

namespace weft::ops {
namespace {

/// How many phases of a transposed convolution get a dispatch each; past that one kernel divides.
constexpr std::int64_t kMostPhases = 256;

/// A tensor's strides as batch, channels, height, width.
struct ImageStrides {
  std::int64_t n, c, h, w;
};
ImageStrides image_strides(const Tensor& x, Layout layout) {
  const Strides& s = x.strides();
  const std::size_t r = x.rank();
  if (layout == Layout::channels_first) return {s[0], s[1], r == 4 ? s[2] : 0, s[r - 1]};
  return {s[0], s[r - 1], r == 4 ? s[1] : 0, s[r - 2]};
}
/// A filter's strides as its first two axes, height and width.
ImageStrides filter_strides(const Tensor& f) {
  return image_strides(f, Layout::channels_first);
}

/// An output in a layout seen as [channels, batch, height, width].
Tensor canonical(const Tensor& out, const ConvGeometry& g, std::int64_t channels, std::int64_t h, std::int64_t w) {
  const ImageStrides s = image_strides(out, g.layout);
  return view_of(out, {channels, g.batch, h, w}, {s.c, s.n, s.h, s.w}, out.offset());
}

bool fits(const Tensor& x) {
  return x.size() == 0 || fits_binding(x);
}

/// out = the convolution of x with f.
void forward(std::string_view op, const ConvGeometry& g, const Tensor& x, const Tensor& f, const Tensor& out,
             const Epilogue& epilogue) {
  if (g.batch > 1 && (!fits(x) || !fits(out))) {
    for (std::int64_t start : {std::int64_t{0}, g.batch / 2}) {
      ConvGeometry half = g;
      half.batch = start == 0 ? g.batch / 2 : g.batch - g.batch / 2;
      forward(op, half, part_of(x, 0, start, half.batch), f, part_of(out, 0, start, half.batch), epilogue);
    }
    return;
  }
  const auto& [ah, aw] = g.axes;
  WindowSum s;
  s.out = canonical(out, g, g.out_channels, ah.out, aw.out);
  if (x.size() == 0 || f.size() == 0) {
    run_empty_sum(s.out, epilogue, op);
    return;
  }
  const ImageStrides xs = image_strides(x, g.layout);
  const ImageStrides fs = filter_strides(f);
  s.x = x;
  s.f = f;
  s.groups = g.groups;
  s.rows = g.out_channels / g.groups;
  s.in = {ah.in, aw.in};
  s.step = {ah.stride, aw.stride};
  s.base = {-ah.pad_before, -aw.pad_before};
  s.x_n = xs.n;
  s.x_g = xs.c * (g.channels / g.groups);
  s.x_h = xs.h;
  s.x_w = xs.w;
  s.f_g = fs.n * s.rows;
  s.f_m = fs.n;
  s.channel = {g.channels / g.groups, xs.c, fs.c, 0, 0};
  s.tap_h = {ah.window, 0, fs.h, ah.dilation, 0};
  s.tap_w = {aw.window, 0, fs.w, 0, aw.dilation};
  s.channels_inner = std::abs(xs.c) < std::abs(xs.w);
  run_sum(s, epilogue, op);
}

/// A window of one element that meets each place once is a product of matrices: filter [k, c] with x [n, c, places], or
/// x [places, c] with the filter turned. Nothing where it is no such, or the places don't lie evenly.
std::optional<Tensor> as_product(const ConvGeometry& g, const Tensor& x, const Tensor& f, const ConvOptions& options) {
  if (g.groups != 1 || x.size() == 0 || f.size() == 0) return std::nullopt;
  for (const WindowAxis& a : g.axes) {
    if (a.window != 1 || a.stride != 1 || a.pad_before + a.pad_after != 0) return std::nullopt;
  }
  const std::int64_t height = g.axes[0].in, width = g.axes[1].in, places = height * width;
  const ImageStrides xs = image_strides(x, g.layout);
  const ImageStrides fs = filter_strides(f);
  if (height != 1 && width != 1 && xs.h != xs.w * width) return std::nullopt;
  const std::int64_t step = width == 1 ? xs.h : xs.w;
  MatmulOptions with;
  with.activation = options.activation;
  if (g.layout == Layout::channels_first) {
    if (options.bias) with.bias = expand_dims(options.bias, 1);
    return matmul(view_of(f, {g.out_channels, g.channels}, {fs.n, fs.c}, f.offset()),
                  view_of(x, {g.batch, g.channels, places}, {xs.n, xs.c, step}, x.offset()), with);
  }
  with.bias = options.bias;
  return matmul(view_of(x, {g.batch, places, g.channels}, {xs.n, step, xs.c}, x.offset()),
                view_of(f, {g.channels, g.out_channels}, {fs.c, fs.n}, f.offset()), with);
}

/// One axis of a transposed convolution, for the places p, p + stride, ... of its result: a window of every `step`-th
/// element of the filter, backwards over the given tensor.
struct Phase {
  std::int64_t first = 0, count = 0;  ///< places
  std::int64_t tap = 0, taps = 0, tap_step = 1;
  std::int64_t base = 0, dilation = 1;  ///< place of the first tap; each further one lies `dilation` before
};
Phase phase_of(const WindowAxis& a, std::int64_t p) {
  Phase out;
  out.first = p;
  out.count = p < a.in ? (a.in - p + a.stride - 1) / a.stride : 0;
  const std::int64_t common = std::gcd(a.stride, a.dilation);
  out.tap_step = a.stride / common;
  out.dilation = a.dilation / common;
  // Tap e reaches place p when p + pad - e * dilation is a multiple of the stride.
  std::int64_t e = 0;
  const std::int64_t last = std::min(a.window, out.tap_step);
  while (e < last && (p + a.pad_before - e * a.dilation) % a.stride != 0) ++e;
  if (e == last) return out;
  out.tap = e;
  out.taps = (a.window - e + out.tap_step - 1) / out.tap_step;
  out.base = (p + a.pad_before - e * a.dilation) / a.stride;
  return out;
}

/// out = the gradient of the convolution's input: what conv_transpose computes of `grad`.
void backward_data(std::string_view op, const ConvGeometry& g, const Tensor& grad, const Tensor& f, const Tensor& out,
                   const Epilogue& epilogue) {
  if (g.batch > 1 && (!fits(grad) || !fits(out))) {
    for (std::int64_t start : {std::int64_t{0}, g.batch / 2}) {
      ConvGeometry half = g;
      half.batch = start == 0 ? g.batch / 2 : g.batch - g.batch / 2;
      backward_data(op, half, part_of(grad, 0, start, half.batch), f, part_of(out, 0, start, half.batch), epilogue);
    }
    return;
  }
  const auto& [ah, aw] = g.axes;
  const Tensor whole = canonical(out, g, g.channels, ah.in, aw.in);
  if (grad.size() == 0 || f.size() == 0) {
    run_empty_sum(whole, epilogue, op);
    return;
  }
  const ImageStrides gs = image_strides(grad, g.layout);
  const ImageStrides fs = filter_strides(f);
  WindowSum s;
  s.x = grad;
  s.f = f;
  s.groups = g.groups;
  s.rows = g.channels / g.groups;
  const std::int64_t summed = g.out_channels / g.groups;
  s.in = {ah.out, aw.out};
  s.x_n = gs.n;
  s.x_g = gs.c * summed;
  s.x_h = gs.h;
  s.x_w = gs.w;
  s.f_g = fs.n * summed;
  s.f_m = fs.c;
  s.channel = {summed, gs.c, fs.n, 0, 0};
  s.channels_inner = std::abs(gs.c) < std::abs(gs.w);
  // Strides so long that most places get nothing would make a phase for each place.
  const std::int64_t phases_h = std::min(ah.stride, ah.in), phases_w = std::min(aw.stride, aw.in);
  if (phases_h > kMostPhases || phases_w > kMostPhases || phases_h * phases_w > kMostPhases) {
    s.out = whole;
    s.base = {ah.pad_before, aw.pad_before};
    s.divide = {ah.stride, aw.stride};
    s.tap_h = {ah.window, 0, fs.h, -ah.dilation, 0};
    s.tap_w = {aw.window, 0, fs.w, 0, -aw.dilation};
    run_sum(s, epilogue, op);
    return;
  }
  const auto phases_of = [](const WindowAxis& a, std::int64_t count) {
    std::vector<Phase> all;
    all.reserve(static_cast<std::size_t>(count));
    for (std::int64_t p = 0; p < count; ++p) all.push_back(phase_of(a, p));
    return all;
  };
  const std::vector<Phase> all_h = phases_of(ah, phases_h), all_w = phases_of(aw, phases_w);
  Tensor packed;
  if (phases_h * phases_w > 1) {
    s.packed_x = &packed;
    const auto bound = [&](auto better, auto place) {
      std::array<std::int64_t, 2> found{};
      for (std::size_t a = 0; a < 2; ++a) {
        bool first = true;
        for (const Phase& p : a == 0 ? all_h : all_w) {
          if (p.taps == 0 || p.count == 0) continue;
          if (first || better(place(p), found[a])) found[a] = place(p);
          first = false;
        }
      }
      return found;
    };
    s.low = bound(std::less<>(), [](const Phase& p) { return p.base - (p.taps - 1) * p.dilation; });
    s.high = bound(std::greater<>(), [](const Phase& p) { return p.base + p.count - 1; });
  }
  for (std::int64_t h = 0; h < phases_h; ++h) {
    for (std::int64_t w = 0; w < phases_w; ++w) {
      const Phase &ph = all_h[static_cast<std::size_t>(h)], &pw = all_w[static_cast<std::size_t>(w)];
      const Strides& o = whole.strides();
      s.out = view_of(whole, {g.channels, g.batch, ph.count, pw.count},
                      {o[0], o[1], o[2] * ah.stride, o[3] * aw.stride}, whole.offset() + h * o[2] + w * o[3]);
      if (ph.taps == 0 || pw.taps == 0) {
        run_empty_sum(s.out, epilogue, op);
        continue;
      }
      s.base = {ph.base, pw.base};
      s.f_start = ph.tap * fs.h + pw.tap * fs.w;
      s.tap_h = {ph.taps, 0, fs.h * ph.tap_step, -ph.dilation, 0};
      s.tap_w = {pw.taps, 0, fs.w * pw.tap_step, 0, -pw.dilation};
      run_sum(s, epilogue, op);
    }
  }
}

/// The gradient of the filter: a convolution of x with the gradient as the filter, where batch and channels change
/// places, and stride and dilation too.
Tensor backward_filter(std::string_view op, const ConvGeometry& g, const Tensor& grad, const Tensor& x,
                       const Shape& filter) {
  if (g.batch > 1 && (!fits(grad) || !fits(x))) {
    const auto half = [&](std::int64_t start, std::int64_t count) {
      ConvGeometry part = g;
      part.batch = count;
      return backward_filter(op, part, part_of(grad, 0, start, count), part_of(x, 0, start, count), filter);
    };
    const std::int64_t cut = g.batch / 2;
    return binary(BinaryOp::add, half(0, cut), half(cut, g.batch - cut));
  }
  const Tensor out = new_result(x.device(), filter, x.dtype());
  const auto& [ah, aw] = g.axes;
  const ImageStrides os = filter_strides(out);
  const std::int64_t channels = g.channels / g.groups;
  WindowSum s;
  s.out = view_of(out, {g.out_channels, channels, ah.window, aw.window}, {os.n, os.c, os.h, os.w}, out.offset());
  if (grad.size() == 0 || x.size() == 0) {
    run_empty_sum(s.out, {}, op);
    return out;
  }
  const ImageStrides gs = image_strides(grad, g.layout);
  const ImageStrides xs = image_strides(x, g.layout);
  s.x = x;
  s.f = grad;
  s.groups = g.groups;
  s.rows = g.out_channels / g.groups;
  s.in = {ah.in, aw.in};
  s.step = {ah.dilation, aw.dilation};
  s.base = {-ah.pad_before, -aw.pad_before};
  s.x_n = xs.c;
  s.x_g = xs.c * channels;
  s.x_h = xs.h;
  s.x_w = xs.w;
  s.f_g = gs.c * s.rows;
  s.f_m = gs.c;
  s.channel = {g.batch, xs.n, gs.n, 0, 0};
  s.tap_h = {ah.out, 0, gs.h, ah.stride, 0};
  s.tap_w = {aw.out, 0, gs.w, 0, aw.stride};
  run_sum(s, {}, op);
  return out;
}

void require_float(std::string_view op, std::string_view what, const Tensor& x) {
  if (is_float(x.dtype())) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} {} is {}, not f32 or f16", op, what, to_string(x.shape()), to_string(x.dtype())),
              "cast it to float32");
}

void require_same_dtype(std::string_view op, const Tensor& x, std::string_view what, const Tensor& y) {
  require_float(op, "the input", x);
  if (x.dtype() == y.dtype()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: the input is {}, but {} is {}", op, to_string(x.dtype()), what, to_string(y.dtype())),
              "cast them to one dtype");
}

void require_bias(std::string_view op, const Tensor& x, const Tensor& bias, std::int64_t channels) {
  if (!bias) return;
  require_same_dtype(op, x, "the bias", bias);
  check_conv_bias(op, bias.shape(), channels);
}

Tensor dense_bias(const Tensor& bias) {
  return bias ? contiguous(bias) : bias;
}

void refuse_epilogue(std::string_view op, const ConvOptions& options) {
  if (!options.bias && options.activation == Activation::none) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: the options have a bias or an activation", op),
              "leave both empty: pass the gradient of what comes before them");
}

const Device& device_of(std::string_view op, const Tensor& a, const Tensor& b, const Tensor& bias) {
  const std::array<const Tensor*, 3> operands{&a, &b, &bias};
  return common_device(op, std::span(operands).first(bias ? 3 : 2));
}

}  // namespace
}  // namespace weft::ops

namespace weft {

Tensor conv(const Tensor& x, const Tensor& filter, const ConvOptions& options) {
  constexpr std::string_view kOp = "conv";
  const Device& device = ops::device_of(kOp, x, filter, options.bias);
  ops::require_same_dtype(kOp, x, "the filter", filter);
  const ops::ConvGeometry g =
      ops::conv_geometry(kOp, x.shape(), filter.shape(), options.window, options.groups, options.layout);
  ops::require_bias(kOp, x, options.bias, g.out_channels);
  if (const auto product = ops::as_product(g, x, filter, options)) return reshape(*product, g.out_shape());
  const Tensor out = ops::new_result(device, g.out_shape(), x.dtype());
  ops::forward(kOp, g, x, filter, out, {ops::dense_bias(options.bias), options.activation});
  return out;
}

Tensor conv_transpose(const Tensor& x, const Tensor& filter, const ConvTransposeOptions& options) {
  constexpr std::string_view kOp = "conv_transpose";
  const Device& device = ops::device_of(kOp, x, filter, options.bias);
  ops::require_same_dtype(kOp, x, "the filter", filter);
  const ops::ConvGeometry g = ops::conv_transpose_geometry(x.shape(), filter.shape(), options);
  ops::require_bias(kOp, x, options.bias, g.channels);
  const Tensor out = ops::new_result(device, g.x_shape(), x.dtype());
  ops::backward_data(kOp, g, x, filter, out, {ops::dense_bias(options.bias), Activation::none});
  return out;
}

Tensor conv_backward_data(const Tensor& grad, const Tensor& filter, const Shape& x_shape, const ConvOptions& options) {
  constexpr std::string_view kOp = "conv_backward_data";
  const Device& device = ops::device_of(kOp, grad, filter, {});
  ops::refuse_epilogue(kOp, options);
  ops::require_same_dtype(kOp, grad, "the filter", filter);
  const ops::ConvGeometry g =
      ops::conv_geometry(kOp, x_shape, filter.shape(), options.window, options.groups, options.layout);
  ops::require_shape(kOp, "the gradient", grad.shape(), g.out_shape());
  const Tensor out = ops::new_result(device, x_shape, grad.dtype());
  ops::backward_data(kOp, g, grad, filter, out, {});
  return out;
}

Tensor conv_backward_filter(const Tensor& grad, const Tensor& x, const Shape& filter_shape,
                            const ConvOptions& options) {
  constexpr std::string_view kOp = "conv_backward_filter";
  ops::device_of(kOp, grad, x, {});
  ops::refuse_epilogue(kOp, options);
  ops::require_same_dtype(kOp, grad, "x", x);
  const ops::ConvGeometry g =
      ops::conv_geometry(kOp, x.shape(), filter_shape, options.window, options.groups, options.layout);
  ops::require_shape(kOp, "the gradient", grad.shape(), g.out_shape());
  return ops::backward_filter(kOp, g, grad, x, filter_shape);
}

}  // namespace weft
