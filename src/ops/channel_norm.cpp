// Normalisations whose weight and bias go by channel.
#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "ops/elementwise.h"
#include "ops/infer.h"
#include "ops/infer_norm.h"
#include "ops/launch.h"
#include "weft/error.h"
#include "weft/nn.h"

namespace weft {
namespace {

void require_float(std::string_view op, std::string_view what, const Tensor& x) {
  if (is_float(x.dtype())) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} is {}, not f32 or f16", op, what, to_string(x.dtype())),
              "cast it to float32");
}

void require_channels(std::string_view op, std::string_view what, const Tensor& given, std::int64_t channels,
                      const Shape& x) {
  if (!given) return;
  require_float(op, what, given);
  ops::check_channel_operand(op, what, given.shape(), channels, x);
}

const Device& device_of(std::string_view op, std::vector<const Tensor*> operands, const Tensor& weight,
                        const Tensor& bias) {
  if (weight) operands.push_back(&weight);
  if (bias) operands.push_back(&bias);
  return ops::common_device(op, operands);
}

/// A value of each channel as a view of x's shape.
Tensor along(const Tensor& by_channel, const Shape& x, std::size_t axis) {
  Strides strides = x;
  for (std::size_t i = 0; i < x.rank(); ++i) strides[i] = i == axis ? by_channel.strides()[0] : 0;
  return Tensor(by_channel.device(), by_channel.buffer(), x, strides, by_channel.offset(), by_channel.dtype());
}

/// A program's input as f32.
std::int32_t wide(ops::ElementProgram& program, const Tensor& x) {
  return program.cast(program.input(x), DType::f32);
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const BatchNormOptions& options) {
  constexpr std::string_view kOp = "batch_norm";
  const Device& device = device_of(kOp, {&x, &mean, &variance}, options.weight, options.bias);
  require_float(kOp, "x", x);
  const std::size_t axis = ops::normalize_axis(kOp, options.axis, x.shape());
  const std::int64_t channels = x.shape()[axis];
  require_channels(kOp, "the mean", mean, channels, x.shape());
  require_channels(kOp, "the variance", variance, channels, x.shape());
  require_channels(kOp, "the weight", options.weight, channels, x.shape());
  require_channels(kOp, "the bias", options.bias, channels, x.shape());
  ops::check_eps(kOp, options.eps);
  if (x.size() == 0) return Device(device).empty(x.shape(), x.dtype());

  // The root and the quotient once a channel. The mean leaves x before anything multiplies: no difference of products.
  ops::ElementProgram factor;
  std::int32_t value =
      factor.binary(BinaryOp::add, wide(factor, variance), factor.scalar(Scalar(options.eps), DType::f32));
  value = factor.unary(UnaryOp::sqrt, value);
  value = factor.binary(BinaryOp::divide,
                        options.weight ? wide(factor, options.weight) : factor.scalar(Scalar(1.0), DType::f32), value);
  const Tensor scale = factor.run(device, {channels}, value);

  ops::ElementProgram program;
  value = program.binary(BinaryOp::subtract, wide(program, x), wide(program, along(mean, x.shape(), axis)));
  value = program.binary(BinaryOp::multiply, value, program.input(along(scale, x.shape(), axis)));
  if (options.bias) {
    value = program.binary(BinaryOp::add, value, wide(program, along(options.bias, x.shape(), axis)));
  }
  return program.run(device, x.shape(), program.cast(value, x.dtype()));
}

Tensor group_norm(const Tensor& x, const GroupNormOptions& options) {
  constexpr std::string_view kOp = "group_norm";
  const Device& device = device_of(kOp, {&x}, options.weight, options.bias);
  require_float(kOp, "x", x);
  ops::check_groups(x.shape(), options.groups);
  const std::int64_t channels = x.shape()[1];
  require_channels(kOp, "the weight", options.weight, channels, x.shape());
  require_channels(kOp, "the bias", options.bias, channels, x.shape());
  ops::check_eps(kOp, options.eps);
  if (x.size() == 0) return Device(device).empty(x.shape(), x.dtype());

  // Rows of layer_norm in [batch, groups, channels of a group, ...]: the channels' axis in two, which any strides
  // allow.
  Tensor split = x;
  if (x.rank() == kMaxRank) {
    split = reshape(contiguous(x), {x.shape()[0], channels, x.size() / x.shape()[0] / channels});
  }
  Shape shape = split.shape();
  Strides strides = split.strides();
  shape[1] = options.groups;
  shape.insert(2, channels / options.groups);
  strides.insert(2, strides[1]);
  strides[1] *= channels / options.groups;
  split = Tensor(split.device(), split.buffer(), shape, strides, split.offset(), split.dtype());
  LayerNormOptions rows;
  rows.axis = 2;
  rows.eps = options.eps;
  const Tensor out = reshape(layer_norm(split, rows), x.shape());
  if (!options.weight && !options.bias) return out;
  ops::ElementProgram program;
  std::int32_t value = wide(program, out);
  if (options.weight) {
    value = program.binary(BinaryOp::multiply, value, wide(program, along(options.weight, x.shape(), 1)));
  }
  if (options.bias) value = program.binary(BinaryOp::add, value, wide(program, along(options.bias, x.shape(), 1)));
  program.run_into(out, program.cast(value, out.dtype()));
  return out;
}

}  // namespace weft
