#include "ops/pool.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "ops/infer_conv.h"
#include "ops/launch.h"
#include "ops/result.h"
#include "ops/rows.h"
#include "ops/wgsl.h"
#include "ops/wgsl_text.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

constexpr std::string_view kOp = "pool";
/// Elements of a window that one thread walks: Mesa 22's lavapipe ends its loops, silently, after 65,535 turns.
constexpr std::int64_t kLongestWalk = 30000;

struct PoolParams {
  std::uint32_t count, channels, out_h, out_w, in_h, in_w, window_h, window_w, step_h, step_w, before_h, before_w,
      dilation_h, dilation_w, first_h, first_w, end_h, end_w, limit_h, limit_w, count_before, x_offset, x_n, x_c, x_h,
      x_w, out_offset, zero;
};

/// Elements of the window that one dispatch takes, [first, end) on each axis.
struct Taps {
  std::array<std::int64_t, 2> first{0, 0}, end{0, 0};

  std::int64_t count() const { return (end[0] - first[0]) * (end[1] - first[1]); }
};

void launch_pool(PoolOp op, const ConvGeometry& g, const PoolOptions& options, const Taps& taps, const Tensor& x,
                 const Tensor& out) {
  const Device& device = x.device();
  const auto& [ah, aw] = g.axes;
  const bool last = g.layout == Layout::channels_last;
  const Strides& xs = x.strides();
  const std::size_t r = x.rank();
  const Window wx = window(x, kOp);
  std::int64_t x_n = xs[0], x_c = last ? xs[r - 1] : xs[1], x_w = last ? xs[r - 2] : xs[r - 1];
  std::int64_t x_h = r == 4 ? xs[last ? 1 : 2] : 0;
  const bool quads = last && g.channels % 4 == 0 && x_c == 1 && x_n % 4 == 0 && x_h % 4 == 0 && x_w % 4 == 0 &&
                     wx.offset % 4 == 0 && out.offset() % 4 == 0;
  const std::int64_t unit = quads ? 4 : 1;

  PoolParams p{};
  p.channels = word(g.channels / unit);
  p.out_h = word(ah.out), p.out_w = word(aw.out);
  p.in_h = word(ah.in), p.in_w = word(aw.in);
  p.window_h = word(ah.window), p.window_w = word(aw.window);
  p.step_h = word(ah.stride), p.step_w = word(aw.stride);
  p.before_h = word(ah.pad_before), p.before_w = word(aw.pad_before);
  p.dilation_h = word(ah.dilation), p.dilation_w = word(aw.dilation);
  p.first_h = word(taps.first[0]), p.first_w = word(taps.first[1]);
  p.end_h = word(taps.end[0]), p.end_w = word(taps.end[1]);
  p.count_before = options.count_padded ? 0 : 1;
  p.limit_h = word(ah.pad_before + ah.in + (options.count_padded ? ah.pad_after : 0));
  p.limit_w = word(aw.pad_before + aw.in + (options.count_padded ? aw.pad_after : 0));
  p.x_offset = word(wx.offset / unit);
  p.x_n = word(x_n / unit), p.x_c = word(quads ? 1 : x_c), p.x_h = word(x_h / unit), p.x_w = word(x_w / unit);
  p.count = word(out.size() / unit);
  // A slice of the result may start between the places that bindings can start at.
  const Window wo = window(out, kOp);
  p.out_offset = word(wo.offset / unit);

  const PoolSpec spec{op, x.dtype(), out.dtype(), last, quads};
  const Kernel kernel = dispatch::library_kernel(state_of(device), pool_key(spec), [&] { return pool_options(spec); });
  launch(device, kernel, {wx.range, wo.range}, p, kernel.grid(grid_for(p.count)));
}

/// Into `out`, whose slices along the batch (or the channels, where they come first) are dense.
void run(PoolOp op, const ConvGeometry& g, const PoolOptions& options, const Taps& taps, const Tensor& x,
         const Tensor& out) {
  if (!fits_binding(x) || !fits_binding(out)) {
    const bool by_batch = g.batch > 1;
    const std::int64_t length = by_batch ? g.batch : g.layout == Layout::channels_first ? g.channels : 1;
    if (length > 1) {
      const std::size_t axis = by_batch ? 0 : 1;
      for (std::int64_t start : {std::int64_t{0}, length / 2}) {
        const std::int64_t count = start == 0 ? length / 2 : length - length / 2;
        ConvGeometry part = g;
        (by_batch ? part.batch : part.channels) = count;
        run(op, part, options, taps, part_of(x, axis, start, count), part_of(out, axis, start, count));
      }
      return;
    }
  }
  launch_pool(op, g, options, taps, x, out);
}

/// Windows too long for one walk come in halves.
Tensor run_halves(PoolOp op, const ConvGeometry& g, const PoolOptions& options, const Taps& taps, const Tensor& x,
                  DType dtype) {
  if (taps.count() <= kLongestWalk) {
    const Tensor out = new_result(x.device(), g.out_shape(), dtype);
    run(op, g, options, taps, x, out);
    return out;
  }
  const std::size_t axis = taps.end[0] - taps.first[0] > taps.end[1] - taps.first[1] ? 0 : 1;
  const std::int64_t middle = (taps.first[axis] + taps.end[axis]) / 2;
  Taps front = taps, back = taps;
  front.end[axis] = back.first[axis] = middle;
  return binary(op == PoolOp::max ? BinaryOp::maximum : BinaryOp::add, run_halves(op, g, options, front, x, DType::f32),
                run_halves(op, g, options, back, x, DType::f32));
}

}  // namespace

std::string pool_key(const PoolSpec& s) {
  return fmt::format("pool/{}/{}-{}/{}{}", s.op == PoolOp::max ? "max" : "average", wgsl_name(s.in), wgsl_name(s.out),
                     s.channels_last ? 'l' : 'f', s.quads ? '4' : '1');
}

KernelOptions pool_options(const PoolSpec& s) {
  const auto type = [&](std::string_view scalar) {
    return s.quads ? fmt::format("vec4<{}>", scalar) : std::string(scalar);
  };
  KernelOptions options;
  options.label = "weft.pool";
  options.source = fmt::format(R"(alias V = {};
alias Bits = {};
alias vec_of_bool = {};
const CHANNELS_LAST = {};
const AVERAGE = {};
@group(0) @binding(0) var<storage, read> x: array<{}>;
@group(0) @binding(1) var<storage, read_write> out: array<{}>;
fn element(i: u32) -> V {{ return V(x[i]); }}
fn store(i: u32, v: V) {{ out[params.out_offset + i] = {}(v); }}
)",
                               type("f32"), type("u32"), type("bool"), s.channels_last, s.op == PoolOp::average,
                               type(wgsl_name(s.in)), type(wgsl_name(s.out)), type(wgsl_name(s.out)));
  options.source += wgsl::pool;
  return options;
}

std::vector<PoolSpec> pool_specs(bool f16) {
  std::vector<PoolSpec> specs;
  for (const PoolOp op : {PoolOp::max, PoolOp::average}) {
    for (const auto& [in, out] :
         {std::pair{DType::f32, DType::f32}, std::pair{DType::f16, DType::f16}, std::pair{DType::f16, DType::f32}}) {
      if (in == DType::f16 && !f16) continue;
      specs.push_back({op, in, out, false, false});
      specs.push_back({op, in, out, true, false});
      specs.push_back({op, in, out, true, true});
    }
  }
  return specs;
}

}  // namespace weft::ops

namespace weft {

Tensor pool(PoolOp op, const Tensor& x, const std::vector<std::int64_t>& size, const PoolOptions& options) {
  Device device = ops::common_device(ops::kOp, std::array{&x});
  if (!is_float(x.dtype())) {
    throw Error(ErrorCode::invalid_argument, fmt::format("pool: x is {}, not f32 or f16", to_string(x.dtype())),
                "cast it to float32");
  }
  const ops::ConvGeometry g = ops::pool_geometry(x.shape(), size, options);
  const Shape shape = g.out_shape();
  if (element_count(shape) == 0) return device.empty(shape, x.dtype());
  if (x.size() == 0) {  // padding alone
    return full(device, shape, op == PoolOp::max ? -std::numeric_limits<double>::infinity() : 0.0, x.dtype());
  }
  const auto& [ah, aw] = g.axes;
  bool whole = true;
  for (const ops::WindowAxis& a : g.axes) {
    whole = whole && a.window == a.in && a.dilation == 1 && a.pad_before + a.pad_after == 0;
  }
  if (whole) {  // one window: reductions share such a one among threads
    std::vector<std::int64_t> axes;
    axes.reserve(g.spatial);
    for (std::size_t i = 0; i < g.spatial; ++i) {
      axes.push_back(static_cast<std::int64_t>(i) + (options.layout == Layout::channels_first ? 2 : 1));
    }
    return reduce(op == PoolOp::max ? ReduceOp::max : ReduceOp::mean, x, {.axes = axes, .keepdims = true});
  }
  const ops::Taps taps{{0, 0}, {ah.window, aw.window}};
  const Tensor out = ops::run_halves(op, g, options, taps, x, x.dtype());
  return out.dtype() == x.dtype() ? out : cast(out, x.dtype());
}

}  // namespace weft
