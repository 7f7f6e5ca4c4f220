// Tensors out of numbers: full and arange.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "ops/elementwise.h"
#include "ops/scalar.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft {
namespace {

double as_double(const Scalar& s) {
  return std::visit([](auto v) { return static_cast<double>(v); }, s.value);
}

std::int64_t as_integer(const Scalar& s) {
  return std::visit([](auto v) { return static_cast<std::int64_t>(v); }, s.value);
}

/// What numpy.arange fills with: element i is start + i * delta, in the arithmetic of the dtype.
struct Progression {
  std::int64_t count = 0;
  std::int64_t start = 0, delta = 0;           // of integers
  float real_start = 0.0F, real_delta = 0.0F;  // of floats
};

[[noreturn]] void refuse_length(double from, double to, double step) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("arange: from {} to {} in steps of {} is no number of elements that an array can have", from,
                          to, step),
              "use finite numbers and a larger step");
}

float rounded(double value, DType dtype) {
  return dtype == DType::f16 ? static_cast<float>(nearest_half(value)) : static_cast<float>(value);
}

/// numpy takes the difference of the first two elements, as stored, for the step.
void set_real(Progression& p, double start, double step, DType dtype) {
  p.real_start = rounded(start, dtype);
  p.real_delta = rounded(start + step, dtype) - p.real_start;
}

Progression integer_progression(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype) {
  Progression p;
  const bool forward = step > 0;
  if (forward ? start < stop : start > stop) {
    const auto distance = forward ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                                  : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
    const auto magnitude = forward ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
    const std::uint64_t count = (distance - 1) / magnitude + 1;
    if (count > std::numeric_limits<std::uint32_t>::max()) {
      refuse_length(static_cast<double>(start), static_cast<double>(stop), static_cast<double>(step));
    }
    p.count = static_cast<std::int64_t>(count);
  }
  p.start = start;
  p.delta = step;
  set_real(p, static_cast<double>(start), static_cast<double>(step), dtype);
  return p;
}

Progression real_progression(double start, double stop, double step, DType dtype) {
  Progression p;
  const double count = std::ceil((stop - start) / step);
  if (!std::isfinite(count) || count > std::numeric_limits<std::uint32_t>::max()) refuse_length(start, stop, step);
  p.count = static_cast<std::int64_t>(std::max(count, 0.0));
  if (p.count == 0) return p;
  if (is_float(dtype)) {
    set_real(p, start, step, dtype);
    return p;
  }
  const double next = p.count > 1 ? start + step : start;
  for (double v : {start, next}) {
    // Far outside 32 bits, and so far inside 64 that cutting it is defined.
    if (std::abs(v) < 0x1p53) continue;
    throw Error(ErrorCode::invalid_argument, fmt::format("arange: {} does not fit {}", v, to_string(dtype)),
                "use smaller numbers, or float32");
  }
  p.start = static_cast<std::int64_t>(start);
  p.delta = static_cast<std::int64_t>(next) - p.start;
  return p;
}

}  // namespace

Tensor full(const Device& device, const Shape& shape, Scalar value, DType dtype) {
  const Scalar held = ops::stored_scalar("full", value, dtype);
  if (element_count(shape) == 0) return Device(device).empty(shape, dtype);
  ops::ElementProgram program;
  return program.run(device, shape, program.scalar(held, dtype));
}

Tensor arange(const Device& device, Scalar start, Scalar stop, Scalar step, std::optional<DType> dtype) {
  const auto is_real = [](const Scalar& s) { return std::holds_alternative<double>(s.value); };
  const bool real = is_real(start) || is_real(stop) || is_real(step);
  const DType type = dtype.value_or(real ? DType::f32 : DType::i32);
  if (as_double(step) == 0) {
    throw Error(ErrorCode::invalid_argument, "arange: the step is 0", "use a step above or below 0");
  }
  const Progression p = real ? real_progression(as_double(start), as_double(stop), as_double(step), type)
                             : integer_progression(as_integer(start), as_integer(stop), as_integer(step), type);
  const Shape shape{p.count};
  if (type == DType::bool_ && p.count > 2) {
    throw Error(ErrorCode::invalid_argument, fmt::format("arange: {} elements of bool", p.count),
                "use int32, and cast the result");
  }
  if (p.count == 0) return Device(device).empty(shape, type);

  ops::ElementProgram program;
  // The index is an i32 that wraps past 2^31; as u32 it is right up to 2^32 elements.
  const std::int32_t index = program.cast(program.iota(), DType::u32);
  std::int32_t result = -1;
  if (is_float(type)) {
    const std::int32_t i = program.cast(index, DType::f32);
    const std::int32_t way = program.binary(BinaryOp::multiply, i, program.scalar(double{p.real_delta}, DType::f32));
    result = program.binary(BinaryOp::add, program.scalar(double{p.real_start}, DType::f32), way);
  } else {
    const DType held = type == DType::bool_ ? DType::i32 : type;
    ops::stored_scalar("arange", p.start, held);  // throws where it does not fit
    if (p.count > 1) {
      std::int64_t last = 0;
      if (__builtin_mul_overflow(p.count - 1, p.delta, &last) || __builtin_add_overflow(p.start, last, &last)) {
        last = p.delta > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
      }
      ops::stored_scalar("arange", last, held);
    }
    // Modulo 2^32: a step down in u32 is right too, and every element was shown to fit.
    const auto bits = [&](std::int64_t v) {
      const auto low = static_cast<std::uint32_t>(static_cast<std::uint64_t>(v));
      return held == DType::u32 ? std::int64_t{low} : std::int64_t{static_cast<std::int32_t>(low)};
    };
    const std::int32_t i = held == DType::u32 ? index : program.cast(index, held);
    const std::int32_t way = program.binary(BinaryOp::multiply, i, program.scalar(bits(p.delta), held));
    result = program.binary(BinaryOp::add, program.scalar(bits(p.start), held), way);
  }
  if (program.dtype(result) != type) result = program.cast(result, type);
  return program.run(device, shape, result);
}

}  // namespace weft
