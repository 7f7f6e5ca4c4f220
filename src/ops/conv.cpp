#include "ops/conv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "ops/conv_codegen.h"
#include "ops/copy.h"
#include "ops/elementwise.h"
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

/// What one step along an inner axis moves: elements of x (beside its spatial axes) and of the filter, and places.
struct InnerAxis {
  std::int64_t length = 1;
  std::int64_t x = 0, f = 0, h = 0, w = 0;
};

/// The sum that a convolution and all its gradients are, each by strides and lengths of its own:
///   out[g * rows + m, n, h, w] = sum over the inner axes i of f[g, m, i] * x[g, n, i, place of (h, i), place of (w,
///   i)]
/// with place = h * step + base + (steps of i), divided by `divide`; outside of x stand zeros. `out` has these four
/// axes; of x and f only the buffers and strides matter.
struct WindowSum {
  Tensor x, f, out;
  std::int64_t groups = 1, rows = 0;
  std::array<std::int64_t, 2> in{1, 1}, step{1, 1}, base{0, 0}, divide{1, 1};
  std::int64_t x_n = 0, x_g = 0, x_h = 0, x_w = 0;
  std::int64_t f_start = 0, f_g = 0, f_m = 0;
  /// Channels (which move along no spatial axis, or the batch), and the two of the window.
  InnerAxis channel, tap_h, tap_w;
  bool channels_inner = false;  ///< in memory the channels of x lie side by side
  /// Places of x that are read, from and up to: those of this sum, or of several that share `packed_x`.
  std::optional<std::array<std::int64_t, 2>> low, high;
  Tensor* packed_x = nullptr;  ///< keeps x in its new layout for the next sum

  std::int64_t inner() const { return channel.length * tap_h.length * tap_w.length; }
};

/// What happens to a finished sum.
struct Epilogue {
  Tensor bias{};  ///< dense
  Activation activation = Activation::none;
};

constexpr std::uint32_t word(std::int64_t v) {
  return static_cast<std::uint32_t>(v);
}

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

Tensor view(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset) {
  return Tensor(x.device(), x.buffer(), shape, strides, offset, x.dtype());
}

/// An output in a layout seen as [channels, batch, height, width].
Tensor canonical(const Tensor& out, const ConvGeometry& g, std::int64_t channels, std::int64_t h, std::int64_t w) {
  const ImageStrides s = image_strides(out, g.layout);
  return view(out, {channels, g.batch, h, w}, {s.c, s.n, s.h, s.w}, out.offset());
}

/// First and last place on each axis that the windows reach, inside x or not.
std::array<std::array<std::int64_t, 2>, 2> reach_of(const WindowSum& s) {
  std::array<std::int64_t, 2> low{}, high{};
  for (std::size_t a = 0; a < 2; ++a) {
    low[a] = s.base[a];
    high[a] = s.base[a] + (s.out.shape()[2 + a] - 1) * s.step[a];
    for (const InnerAxis* i : {&s.channel, &s.tap_h, &s.tap_w}) {
      const std::int64_t reach = (i->length - 1) * (a == 0 ? i->h : i->w);
      (reach < 0 ? low[a] : high[a]) += reach;
    }
  }
  return {low, high};
}

/// How many neighbours a walk of `length` steps of `stride` elements finds in what one load brings.
double run_length(std::int64_t length, std::int64_t stride) {
  return static_cast<double>(length) / static_cast<double>(std::max<std::int64_t>(std::abs(stride), 1));
}

/// Bias, activation and the cast for sums that were added up apart, into `out`.
void finish(const Tensor& sums, const Epilogue& epilogue, const Tensor& out, std::string_view op) {
  ElementProgram program;
  std::int32_t value = program.input(sums);
  if (epilogue.bias) {
    const Tensor& b = epilogue.bias;
    const Tensor spread = view(b, sums.shape(), {b.strides()[0], 0, 0, 0}, b.offset());
    value = program.binary(BinaryOp::add, value, program.cast(program.input(spread), DType::f32));
  }
  switch (epilogue.activation) {
    case Activation::none: break;
    case Activation::relu: value = program.unary(UnaryOp::relu, value); break;
    case Activation::gelu: value = program.unary(UnaryOp::gelu, value); break;
    case Activation::gelu_tanh: value = program.unary(UnaryOp::gelu_tanh, value); break;
    case Activation::silu: value = program.unary(UnaryOp::silu, value); break;
  }
  value = program.cast(value, out.dtype());
  if (out.is_contiguous()) {
    program.run_into(out, value);
  } else {
    copy_into(out, program.run(out.device(), out.shape(), value), op);
  }
}

// -- packed ---------------------------------------------------------------------------------------------------------

Tensor pack(const Tensor& x, PackParams p, std::int64_t a, std::string_view op) {
  const Device& device = x.device();
  const std::int64_t count = a * p.z * p.b * p.c * p.d * p.quads;
  const Tensor out = Device(device).empty({count * 4}, DType::f32);
  const Window wx = window(x, op);
  p.count = word(count);
  p.offset += wx.offset;
  const Kernel kernel =
      dispatch::library_kernel(state_of(device), pack_key(x.dtype()), [&] { return pack_options(x.dtype()); });
  launch(device, kernel, {wx.range, window(out, op).range}, p,
         kernel.grid(grid_for(static_cast<std::uint64_t>(count))));
  return out;
}

/// The sum over operands in the layout that packed kernels read: x as [n, place h, place w, group, channels in fours],
/// all places that are reached and nothing else, f as [group, block of rows, h, w, channels, row of the block]. Strides
/// of both count fours then, and `channel` too. Nothing when that is no good idea.
std::optional<WindowSum> packed_sum(const WindowSum& s, std::uint32_t block) {
  if (s.divide != std::array<std::int64_t, 2>{1, 1}) return std::nullopt;
  const auto reach = reach_of(s);
  const std::array<std::int64_t, 2> low = s.low.value_or(reach[0]), high = s.high.value_or(reach[1]);
  const std::int64_t quads = (s.channel.length + 3) / 4;
  const std::int64_t batch = s.out.shape()[1];
  const std::int64_t places_h = high[0] - low[0] + 1, places_w = high[1] - low[1] + 1;
  const std::int64_t blocks = (s.rows + block - 1) / block;
  const auto limit = static_cast<double>(s.x.device().limits().max_storage_binding_size);
  const double x_bytes =
      16.0 * static_cast<double>(batch * places_h) * static_cast<double>(places_w * s.groups * quads);
  const double f_bytes = 16.0 * static_cast<double>(s.groups * blocks * block) * static_cast<double>(s.tap_h.length) *
                         static_cast<double>(s.tap_w.length * quads);
  // Wide padding around a small input would be most of it.
  const double least = 16.0 * static_cast<double>(s.x.size()) + 65536;
  if (x_bytes > limit || f_bytes > limit || x_bytes > 4 * least) return std::nullopt;

  // As it lies already: four channels side by side throughout, and no padding.
  const Window wx = window(s.x, "conv");
  bool as_it_is = s.x.dtype() == DType::f32 && s.channel.x == 1 && wx.offset % 4 == 0 && s.channel.length % 4 == 0;
  for (const std::int64_t stride : {s.x_n, s.x_g, s.x_h, s.x_w}) as_it_is = as_it_is && stride % 4 == 0;
  for (std::size_t a = 0; a < 2; ++a) as_it_is = as_it_is && low[a] >= 0 && high[a] < s.in[a];

  WindowSum out = s;
  out.x_g = quads;
  out.x_w = quads * s.groups;
  out.x_h = out.x_w * places_w;
  out.x_n = out.x_h * places_h;
  out.base = {s.base[0] - low[0], s.base[1] - low[1]};
  if (as_it_is) {
    out.x_g = s.x_g / 4, out.x_w = s.x_w / 4, out.x_h = s.x_h / 4, out.x_n = s.x_n / 4;
    out.base = s.base;
  } else if (s.packed_x != nullptr && *s.packed_x) {
    out.x = *s.packed_x;
  } else {
    PackParams p;
    p.b = word(places_h), p.c = word(places_w), p.d = word(s.groups), p.quads = word(quads);
    p.low_b = word(low[0]), p.low_c = word(low[1]);
    p.length_b = word(s.in[0]), p.length_c = word(s.in[1]), p.length_d = word(s.groups);
    p.length_e = word(s.channel.length);
    p.stride_a = word(s.x_n), p.stride_b = word(s.x_h), p.stride_c = word(s.x_w), p.stride_d = word(s.x_g);
    p.stride_e = word(s.channel.x);
    out.x = pack(s.x, p, batch, "conv");
    if (s.packed_x != nullptr) *s.packed_x = out.x;
  }
  PackParams p;
  p.z = word(blocks), p.b = word(s.tap_h.length), p.c = word(s.tap_w.length), p.d = word(quads * 4),
  p.quads = block / 4;
  p.length_b = p.b, p.length_c = p.c, p.length_d = word(s.channel.length), p.length_e = word(s.rows);
  p.offset = word(s.f_start);
  p.stride_a = word(s.f_g), p.stride_b = word(s.tap_h.f), p.stride_c = word(s.tap_w.f), p.stride_d = word(s.channel.f);
  p.stride_e = word(s.f_m);
  out.f = pack(s.f, p, s.groups, "conv");
  out.f_start = 0;
  out.channel = {quads, 1, 0, 0, 0};
  out.f_m = out.inner() * block;
  out.f_g = out.f_m * blocks;
  if (out.tap_w.w * out.x_w == quads) {  // one walk through memory
    out.channel.length *= out.tap_w.length;
    out.tap_w = {};
  }
  return out;
}

void launch_sum(const WindowSum& s, const ConvPlan& plan, const Epilogue& epilogue, const Tensor& out,
                std::int64_t out_part, std::string_view op) {
  const Device& device = s.out.device();
  const std::int64_t batch = s.out.shape()[1], out_h = s.out.shape()[2], out_w = s.out.shape()[3];
  ConvSpec spec;
  spec.plan = plan;
  spec.plan.splits = 1;
  spec.in = epilogue.bias ? epilogue.bias.dtype() : s.x.dtype();
  spec.out = out.dtype();
  spec.divided = s.divide[0] != 1 || s.divide[1] != 1;
  spec.activation = epilogue.activation;

  // Which inner axis is the innermost: on tiles what lies side by side; in blocks a long one, preferably one that moves
  // along no spatial axis, so that all checks stand outside of the loop.
  std::array<const InnerAxis*, 3> inner{&s.channel, &s.tap_h, &s.tap_w};
  const bool tile = plan.kind == ConvKind::tile;
  const bool packed = plan.kind == ConvKind::packed;
  const bool channel_last = packed || (tile ? s.channels_inner || s.tap_h.length * s.tap_w.length == 1
                                            : spec.divided || s.tap_w.length <= 2 * s.channel.length);
  if (channel_last) std::rotate(inner.begin(), inner.begin() + 1, inner.end());
  const InnerAxis& last = *inner[2];
  if (packed) {
    if (!epilogue.bias) spec.in = DType::f32;
  } else if (tile) {
    const std::int64_t column = s.step[1] * s.x_w;
    const std::int64_t inner_x = last.x + last.h * s.x_h + last.w * s.x_w;
    spec.x_inner = run_length(last.length, inner_x) > run_length(out_w, column);
    spec.f_inner = run_length(last.length, last.f) >= run_length(s.rows, s.f_m);
  } else {
    spec.moves = last.h != 0 || last.w != 0;
  }

  const Window wx = window(s.x, op);
  const Window wf = window(s.f, op);
  const Window wo = window(out, op);
  const std::uint32_t unit = packed ? 4 : 1;
  ConvParams p;
  p.rows = word(s.rows);
  p.columns = word(batch * out_h * out_w);
  p.parts = word(s.groups);
  p.out_h = word(out_h);
  p.out_w = word(out_w);
  p.in_h = word(s.in[0]);
  p.in_w = word(s.in[1]);
  p.step_h = word(s.step[0]);
  p.step_w = word(s.step[1]);
  p.base_h = word(s.base[0]);
  p.base_w = word(s.base[1]);
  p.divide_h = word(s.divide[0]);
  p.divide_w = word(s.divide[1]);
  p.x_offset = wx.offset / unit;
  p.x_n = word(s.x_n);
  p.x_g = word(s.x_g);
  p.x_h = word(s.x_h);
  p.x_w = word(s.x_w);
  p.f_offset = wf.offset / unit + word(s.f_start);
  p.f_g = word(s.f_g);
  p.f_m = word(s.f_m);
  const auto moved = [&](const InnerAxis& i) { return word(spec.divided ? i.x : i.x + i.h * s.x_h + i.w * s.x_w); };
  p.x_0 = moved(*inner[0]), p.x_1 = moved(*inner[1]), p.x_2 = moved(*inner[2]);
  p.f_0 = word(inner[0]->f), p.f_1 = word(inner[1]->f), p.f_2 = word(inner[2]->f);
  p.h_0 = word(inner[0]->h), p.h_1 = word(inner[1]->h), p.h_2 = word(inner[2]->h);
  p.w_0 = word(inner[0]->w), p.w_1 = word(inner[1]->w), p.w_2 = word(inner[2]->w);
  p.length_0 = word(inner[0]->length), p.length_1 = word(inner[1]->length), p.length_2 = word(inner[2]->length);
  const std::int64_t all = s.inner();
  p.inner = word(all);
  const auto splits = static_cast<std::int64_t>(plan.splits);
  // Whole tiles, but for the last part.
  const std::int64_t depth = plan.depth;
  const std::int64_t chunk = ((all + splits - 1) / splits + depth - 1) / depth * depth;
  p.chunk = word(chunk);
  p.depth_2 = plan.depth % p.length_2;
  p.depth_1 = plan.depth / p.length_2 % p.length_1;
  p.depth_0 = plan.depth / p.length_2 / p.length_1;
  p.o_offset = wo.offset;
  p.o_m = word(out.strides()[0]);
  p.o_g = word(out.strides()[0] * s.rows);
  p.o_n = word(out.strides()[1]);
  p.o_h = word(out.strides()[2]);
  p.o_w = word(out.strides()[3]);
  p.o_part = word(out_part);
  const auto tiles = [](std::int64_t count, std::uint32_t length) { return (count + length - 1) / length; };
  const std::int64_t tiles_m = tiles(plan.lanes_channels ? s.rows * s.groups : s.rows, plan.tile_m);
  const std::int64_t tiles_n = tiles(batch * out_h * out_w, plan.tile_n);
  p.tiles_m = word(tiles_m);
  p.tiles_n = word(tiles_n);
  const std::uint64_t groups = static_cast<std::uint64_t>(tiles_m) * static_cast<std::uint64_t>(tiles_n) *
                               static_cast<std::uint64_t>(plan.lanes_channels ? 1 : s.groups) * plan.splits;
  const Grid grid = fold_groups(groups, op);
  p.groups = static_cast<std::uint32_t>(groups);

  BindingRange bias = wx.range;  // not read
  if (epilogue.bias) {
    const Window wb = window(epilogue.bias, op);
    bias = wb.range;
    p.bias_offset = wb.offset;
    p.has_bias = 1;
  }
  const Kernel kernel = dispatch::library_kernel(state_of(device), conv_key(spec), [&] { return conv_options(spec); });
  launch(device, kernel, {wx.range, wf.range, wo.range, bias}, p, grid);
}

void run(const WindowSum& given, const Epilogue& epilogue, std::string_view op) {
  if (given.out.size() == 0) return;
  WindowSum s = given;
  const Device& device = s.out.device();
  ConvProblem problem;
  problem.rows = static_cast<std::uint64_t>(s.rows);
  problem.groups = static_cast<std::uint64_t>(s.groups);
  problem.columns = static_cast<std::uint64_t>(s.out.size()) / problem.rows / problem.groups;
  problem.inner = static_cast<std::uint64_t>(s.inner());
  problem.channels = static_cast<std::uint64_t>(s.channel.length);
  problem.channels_inner = s.channels_inner;
  problem.can_pack = true;
  ConvPlan plan = choose_conv(cpu_kernels(device), device.limits(), problem);
  if (plan.kind == ConvKind::packed) {
    if (auto packed = packed_sum(s, plan.rows)) {
      s = std::move(*packed);
    } else {
      problem.can_pack = false;
      plan = choose_conv(cpu_kernels(device), device.limits(), problem);
    }
  }
  if (plan.splits <= 1) {
    launch_sum(s, plan, epilogue, s.out, 0, op);
    return;
  }
  const auto splits = static_cast<std::int64_t>(plan.splits);
  const Tensor parts = Device(device).empty({splits, s.out.size()}, DType::f32);
  const Shape& shape = s.out.shape();
  // Bound with all its parts, though the kernel's view is of the first: `o_part` leads to the others.
  const Tensor all = view(
      parts, {shape[0], shape[1], shape[2], shape[3], splits},
      [&] {
        Strides strides = contiguous_strides(shape);
        strides.push_back(s.out.size());
        return strides;
      }(),
      parts.offset());
  launch_sum(s, plan, {}, all, s.out.size(), op);
  const Tensor total = reduce(ReduceOp::sum, parts, {.axes = std::vector<std::int64_t>{0}, .keepdims = false});
  finish(view(total, shape, contiguous_strides(shape), total.offset()), epilogue, s.out, op);
}

/// Nothing to add up: the bias alone goes through the activation.
void run_empty(const Tensor& out, const Epilogue& epilogue, std::string_view op) {
  if (out.size() == 0) return;
  const Tensor zero = Device(out.device()).zeros({1, 1, 1, 1}, DType::f32);
  finish(view(zero, out.shape(), {0, 0, 0, 0}, zero.offset()), epilogue, out, op);
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
    run_empty(s.out, epilogue, op);
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
  run(s, epilogue, op);
}

/// A window of one element that meets each place once is a product of matrices: filter [k, c] with x [n, c, places], or
/// x [places, c] with the filter turned. Nothing where it is no such, or the places don't lie evenly.
std::optional<Tensor> as_product(const ConvGeometry& g, const Tensor& x, const Tensor& f, const ConvOptions& options) {
  if (g.groups != 1 || options.activation != Activation::none || x.size() == 0 || f.size() == 0) return std::nullopt;
  for (const WindowAxis& a : g.axes) {
    if (a.window != 1 || a.stride != 1 || a.pad_before + a.pad_after != 0) return std::nullopt;
  }
  const std::int64_t height = g.axes[0].in, width = g.axes[1].in, places = height * width;
  const ImageStrides xs = image_strides(x, g.layout);
  const ImageStrides fs = filter_strides(f);
  if (height != 1 && width != 1 && xs.h != xs.w * width) return std::nullopt;
  const std::int64_t step = width == 1 ? xs.h : xs.w;
  MatmulOptions with;
  if (g.layout == Layout::channels_first) {
    if (options.bias) with.bias = expand_dims(options.bias, 1);
    return matmul(view(f, {g.out_channels, g.channels}, {fs.n, fs.c}, f.offset()),
                  view(x, {g.batch, g.channels, places}, {xs.n, xs.c, step}, x.offset()), with);
  }
  with.bias = options.bias;
  return matmul(view(x, {g.batch, places, g.channels}, {xs.n, step, xs.c}, x.offset()),
                view(f, {g.channels, g.out_channels}, {fs.c, fs.n}, f.offset()), with);
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
    run_empty(whole, epilogue, op);
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
    run(s, epilogue, op);
    return;
  }
  const auto phases_of = [](const WindowAxis& a, std::int64_t count) {
    std::vector<Phase> all;
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
      s.out = view(whole, {g.channels, g.batch, ph.count, pw.count}, {o[0], o[1], o[2] * ah.stride, o[3] * aw.stride},
                   whole.offset() + h * o[2] + w * o[3]);
      if (ph.taps == 0 || pw.taps == 0) {
        run_empty(s.out, epilogue, op);
        continue;
      }
      s.base = {ph.base, pw.base};
      s.f_start = ph.tap * fs.h + pw.tap * fs.w;
      s.tap_h = {ph.taps, 0, fs.h * ph.tap_step, -ph.dilation, 0};
      s.tap_w = {pw.taps, 0, fs.w * pw.tap_step, 0, -pw.dilation};
      run(s, epilogue, op);
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
  s.out = view(out, {g.out_channels, channels, ah.window, aw.window}, {os.n, os.c, os.h, os.w}, out.offset());
  if (grad.size() == 0 || x.size() == 0) {
    run_empty(s.out, {}, op);
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
  run(s, {}, op);
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
  if (bias.shape() == Shape{channels}) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: a bias of shape {} for {} out channels", op, to_string(bias.shape()), channels),
              fmt::format("give it shape ({},)", channels));
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

std::vector<ConvSpec> conv_specs(bool cpu, const Limits& limits, bool f16) {
  std::vector<ConvSpec> specs;
  const auto add_dtypes = [&](ConvSpec spec) {
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
      spec.activation = activation;
      // From f32 to f16: packed without a bias. From f16 to f32: parts of a sum.
      for (const DType in : {DType::f32, DType::f16}) {
        for (const DType out : {DType::f32, DType::f16}) {
          const bool part = in == DType::f16 && out == DType::f32;
          if ((in == DType::f16 || out == DType::f16) && !f16) continue;
          if (spec.plan.kind == ConvKind::packed ? part : in == DType::f32 && out == DType::f16) continue;
          if (part && activation != Activation::none) continue;
          spec.in = in;
          spec.out = out;
          specs.push_back(spec);
        }
      }
    }
  };
  for (const ConvPlan& plan : conv_plans(cpu, limits)) {
    ConvSpec spec;
    spec.plan = plan;
    switch (plan.kind) {
      case ConvKind::packed: add_dtypes(spec); break;
      case ConvKind::tile:
        for (const bool x_inner : {false, true}) {
          for (const bool f_inner : {false, true}) {
            spec.x_inner = x_inner;
            spec.f_inner = f_inner;
            add_dtypes(spec);
          }
        }
        break;
      case ConvKind::block:
        add_dtypes(spec);
        spec.moves = true;
        add_dtypes(spec);
        spec.moves = false;
        spec.divided = true;
        add_dtypes(spec);
        break;
    }
  }
  return specs;
}

std::string pack_key(DType in) {
  return fmt::format("conv/pack/{}", to_string(in));
}

KernelOptions pack_options(DType in) {
  KernelOptions options;
  options.source = pack_source(in);
  options.label = "weft.conv.pack";
  return options;
}

KernelOptions conv_options(const ConvSpec& spec) {
  KernelOptions options;
  options.source = conv_source(spec);
  options.label = "weft.conv";
  return options;
}

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
