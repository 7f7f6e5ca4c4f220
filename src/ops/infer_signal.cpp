#include "ops/infer_signal.h"
#include "base/half.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "weft/error.h"

namespace weft::ops {

std::string_view scan_name(ScanOp op) noexcept {
  switch (op) {
    case ScanOp::sum: return "cumsum";
    case ScanOp::prod: return "cumprod";
    case ScanOp::max: return "cummax";
    case ScanOp::min: return "cummin";
  }
  return "?";
}

OpTypes scan_types(ScanOp op, DType x) {
  switch (op) {
    case ScanOp::sum: return reduce_types(ReduceOp::sum, x);
    case ScanOp::prod: return reduce_types(ReduceOp::prod, x);
    case ScanOp::max: return reduce_types(ReduceOp::max, x);
    case ScanOp::min: return reduce_types(ReduceOp::min, x);
  }
  throw Error(ErrorCode::internal, fmt::format("no dtype rule for scan {}", static_cast<int>(op)), "report this");
}

std::string_view to_string(Transform transform) noexcept {
  switch (transform) {
    case Transform::fft: return "fft";
    case Transform::ifft: return "ifft";
    case Transform::rfft: return "rfft";
    case Transform::irfft: return "irfft";
  }
  return "?";
}

TransformRule transform_rule(Transform transform, const Shape& x, const FftOptions& options) {
  const std::string_view name = to_string(transform);
  Shape signal = x;
  if (transform != Transform::rfft) {
    if (x.rank() == 0 || x.back() != 2) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: shape {} has no last axis of length 2 for the real and the imaginary part", name,
                              to_string(x)),
                  "give complex numbers as [..., 2]; real ones go to rfft");
    }
    signal.erase(x.rank() - 1);
  }
  TransformRule rule;
  rule.axis = normalize_axis(name, options.axis, signal);
  const std::int64_t length = signal[rule.axis];
  rule.n = options.n ? *options.n : transform == Transform::irfft ? 2 * (length - 1) : length;
  if (rule.n < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} points, of axis {} of shape {}", name, rule.n, rule.axis, to_string(x)),
                "transform at least 1 point: give n");
  }
  rule.shape = signal;
  rule.shape[rule.axis] = transform == Transform::rfft ? rule.n / 2 + 1 : rule.n;
  if (transform != Transform::irfft) {
    if (rule.shape.rank() == kMaxRank) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{}: shape {} and an axis for the parts make more than {} axes", name, to_string(x), kMaxRank),
          "reshape it to fewer axes");
    }
    rule.shape.push_back(2);
  }
  const bool forward = transform == Transform::fft || transform == Transform::rfft;
  const auto n = static_cast<double>(rule.n);
  switch (options.norm) {
    case FftNorm::backward: rule.scale = forward ? 1 : 1 / n; break;
    case FftNorm::ortho: rule.scale = 1 / std::sqrt(n); break;
    case FftNorm::forward: rule.scale = forward ? 1 / n : 1; break;
  }
  return rule;
}

void check_random_dtype(std::string_view op, DType dtype) {
  if (is_float(dtype)) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: no {} numbers", op, to_string(dtype)),
              "draw float32 or float16, or use random_integers");
}

void check_uniform_range(double low, double high, DType dtype) {
  check_random_dtype("random_uniform", dtype);
  const auto stored = [&](double v) {
    return dtype == DType::f16 ? static_cast<float>(nearest_half(v)) : static_cast<float>(v);
  };
  // float's conversion from a double past its range is undefined.
  constexpr double kMost = std::numeric_limits<float>::max();
  const bool finite = std::abs(low) <= kMost && std::abs(high) <= kMost && std::isfinite(stored(low)) &&
                      std::isfinite(stored(high)) && double{stored(high)} - double{stored(low)} <= kMost;
  if (!finite || !(stored(low) < stored(high))) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("random_uniform: no {} numbers from {} up to {}", to_string(dtype), low, high),
                "give finite bounds, low under high, no further apart than the largest float32");
  }
}

void check_normal(double mean, double stddev) {
  // float's conversion from a double past its range is undefined.
  constexpr double kMost = std::numeric_limits<float>::max();
  if (std::abs(mean) <= kMost && stddev >= 0 && stddev <= kMost) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("random_normal: mean {} and deviation {} are no normal distribution", mean, stddev),
              "give finite numbers, the deviation 0 or more");
}

void check_integer_range(std::int64_t low, std::int64_t high, DType dtype) {
  if (!is_integer(dtype)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("random_integers: no {} numbers", to_string(dtype)),
                "draw int32 or uint32, or use random_uniform");
  }
  const std::int64_t least = dtype == DType::u32 ? 0 : std::numeric_limits<std::int32_t>::min();
  const std::int64_t end = least + (std::int64_t{1} << 32);
  if (low < high && low >= least && high <= end) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("random_integers: no {} numbers from {} up to {}", to_string(dtype), low, high),
              fmt::format("give low under high, from {} to {}", least, end));
}

}  // namespace weft::ops
