#include "ops/conv_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ops/conv_codegen.h"
#include "ops/conv_tuning.h"
#include "ops/copy.h"
#include "ops/elementwise.h"
#include "ops/launch.h"
#include "ops/rows.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

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

/// The axes of `x` as they lie in memory, the innermost last.
std::array<std::int64_t, 4> memory_order(const Tensor& x) {
  std::array<std::int64_t, 4> order{0, 1, 2, 3};
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return x.strides()[static_cast<std::size_t>(a)] > x.strides()[static_cast<std::size_t>(b)];
  });
  return order;
}

/// Sums of the parts (of the shape of `out`: channels, images, rows, columns), bias, activation and cast, into `out`:
/// one kernel where the parts lie as `out` does and that is without gaps.
void finish(std::span<const Tensor> parts, const Epilogue& epilogue, const Tensor& out, std::string_view op) {
  const auto order = memory_order(out);
  ElementProgram program;
  std::int32_t value = -1;
  for (const Tensor& part : parts) {
    const std::int32_t next = program.input(transpose(part, order));
    value = value < 0 ? next : program.binary(BinaryOp::add, value, next);
  }
  if (epilogue.bias) {
    const Tensor& b = epilogue.bias;
    const Tensor spread = view_of(b, out.shape(), {b.strides()[0], 0, 0, 0}, b.offset());
    value = program.binary(BinaryOp::add, value, program.cast(program.input(transpose(spread, order)), DType::f32));
  }
  switch (epilogue.activation) {
    case Activation::none: break;
    case Activation::relu: value = program.unary(UnaryOp::relu, value); break;
    case Activation::gelu: value = program.unary(UnaryOp::gelu, value); break;
    case Activation::gelu_tanh: value = program.unary(UnaryOp::gelu_tanh, value); break;
    case Activation::silu: value = program.unary(UnaryOp::silu, value); break;
  }
  value = program.cast(value, out.dtype());
  const Tensor target = transpose(out, order);
  if (target.is_contiguous()) {
    program.run_into(target, value);
  } else {
    copy_into(target, program.run(out.device(), target.shape(), value), op);
  }
}

// -- packed ---------------------------------------------------------------------------------------------------------

Tensor pack(const Tensor& x, PackParams p, std::int64_t a, std::string_view op) {
  const Device& device = x.device();
  const std::int64_t count = a * p.z * p.b * p.c * p.d * p.quads;
  const Tensor out = Device(device).empty({count * 4}, DType::f32);
  state_of(device).counters.materialized.fetch_add(1, std::memory_order_relaxed);
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
  if (f_bytes > limit) return std::nullopt;

  // As it lies already: four channels side by side throughout, and no padding.
  const Window wx = window(s.x, "conv");
  bool as_it_is = s.x.dtype() == DType::f32 && s.channel.x == 1 && wx.offset % 4 == 0 && s.channel.length % 4 == 0;
  for (const std::int64_t stride : {s.x_n, s.x_g, s.x_h, s.x_w}) as_it_is = as_it_is && stride % 4 == 0;
  for (std::size_t a = 0; a < 2; ++a) as_it_is = as_it_is && low[a] >= 0 && high[a] < s.in[a];
  if (!as_it_is && (x_bytes > limit || x_bytes > 4 * least)) return std::nullopt;

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

}  // namespace

void run_sum(const WindowSum& given, const Epilogue& epilogue, std::string_view op) {
  if (given.out.size() == 0) return;
  constexpr double kMost = 0x7fffffff;  // broadcast filters may be longer than memory
  const double inner = static_cast<double>(given.channel.length) * static_cast<double>(given.tap_h.length) *
                       static_cast<double>(given.tap_w.length);
  if (inner > kMost || static_cast<double>(given.out.size()) > kMost) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: {} results, each a sum of {} products, over the {} that kernels count", op,
                            given.out.size(), inner, kMost),
                "work on slices of the tensors");
  }
  WindowSum s = given;
  const Device& device = s.out.device();
  ConvProblem problem;
  problem.rows = static_cast<std::uint64_t>(s.rows);
  problem.groups = static_cast<std::uint64_t>(s.groups);
  problem.columns = static_cast<std::uint64_t>(s.out.size()) / problem.rows / problem.groups;
  problem.inner = static_cast<std::uint64_t>(s.inner());
  problem.channels = static_cast<std::uint64_t>(s.channel.length);
  problem.channels_inner = s.channels_inner;
  problem.divided = s.divide != std::array<std::int64_t, 2>{1, 1};
  problem.can_pack = !problem.divided;
  ConvPlan plan = conv_plan(device, problem, s.x.dtype());
  if (plan.kind == ConvKind::packed) {
    if (auto packed = packed_sum(s, plan.rows)) {
      s = std::move(*packed);
    } else {
      problem.can_pack = false;
      plan = conv_plan(device, problem, s.x.dtype());
    }
  }
  if (plan.splits <= 1) {
    launch_sum(s, plan, epilogue, s.out, 0, op);
    return;
  }
  const auto splits = static_cast<std::int64_t>(plan.splits);
  const std::int64_t size = s.out.size();
  const Tensor parts = Device(device).empty({splits, size}, DType::f32);
  // A part lies as the result does: then adding them up and all else is one kernel.
  const Shape& shape = s.out.shape();
  Strides strides{0, 0, 0, 0};
  std::int64_t step = 1;
  const auto order = memory_order(s.out);
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto axis = static_cast<std::size_t>(order[i]);
    strides[axis] = step;
    step *= shape[axis];
  }
  // Bound with all its parts, though the kernel's view is of the first: `o_part` leads to the others.
  Strides all_strides = strides;
  all_strides.push_back(size);
  const Tensor all = view_of(parts, {shape[0], shape[1], shape[2], shape[3], splits}, all_strides, parts.offset());
  launch_sum(s, plan, {}, all, size, op);
  std::vector<Tensor> sums;
  if (plan.splits + (epilogue.bias ? 1 : 0) <= ElementProgram::kMaxInputs) {
    for (std::int64_t i = 0; i < splits; ++i) {
      sums.push_back(view_of(parts, shape, strides, parts.offset() + i * size));
    }
  } else {
    const Tensor total = reduce(ReduceOp::sum, parts, {.axes = std::vector<std::int64_t>{0}, .keepdims = false});
    sums.push_back(view_of(total, shape, strides, total.offset()));
  }
  finish(sums, epilogue, s.out, op);
}

void run_empty_sum(const Tensor& out, const Epilogue& epilogue, std::string_view op) {
  if (out.size() == 0) return;
  const Tensor zero = Device(out.device()).zeros({1, 1, 1, 1}, DType::f32);
  finish(std::array{view_of(zero, out.shape(), {0, 0, 0, 0}, zero.offset())}, epilogue, out, op);
}

}  // namespace weft::ops
