#include "ops/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/refuse.h"
#include "weft/error.h"

namespace weft {

std::string_view to_string(UnaryOp op) noexcept {
  switch (op) {
    case UnaryOp::negative: return "negative";
    case UnaryOp::positive: return "positive";
    case UnaryOp::abs: return "abs";
    case UnaryOp::sign: return "sign";
    case UnaryOp::invert: return "invert";
    case UnaryOp::logical_not: return "logical_not";
    case UnaryOp::exp: return "exp";
    case UnaryOp::expm1: return "expm1";
    case UnaryOp::exp2: return "exp2";
    case UnaryOp::log: return "log";
    case UnaryOp::log1p: return "log1p";
    case UnaryOp::log2: return "log2";
    case UnaryOp::sqrt: return "sqrt";
    case UnaryOp::rsqrt: return "rsqrt";
    case UnaryOp::square: return "square";
    case UnaryOp::reciprocal: return "reciprocal";
    case UnaryOp::sin: return "sin";
    case UnaryOp::cos: return "cos";
    case UnaryOp::tan: return "tan";
    case UnaryOp::tanh: return "tanh";
    case UnaryOp::sigmoid: return "sigmoid";
    case UnaryOp::relu: return "relu";
    case UnaryOp::gelu: return "gelu";
    case UnaryOp::gelu_tanh: return "gelu_tanh";
    case UnaryOp::silu: return "silu";
    case UnaryOp::erf: return "erf";
    case UnaryOp::floor: return "floor";
    case UnaryOp::ceil: return "ceil";
    case UnaryOp::round: return "round";
    case UnaryOp::trunc: return "trunc";
    case UnaryOp::isnan: return "isnan";
    case UnaryOp::isinf: return "isinf";
    case UnaryOp::isfinite: return "isfinite";
  }
  return "?";
}

std::string_view to_string(BinaryOp op) noexcept {
  switch (op) {
    case BinaryOp::add: return "add";
    case BinaryOp::subtract: return "subtract";
    case BinaryOp::multiply: return "multiply";
    case BinaryOp::divide: return "divide";
    case BinaryOp::floor_divide: return "floor_divide";
    case BinaryOp::remainder: return "remainder";
    case BinaryOp::power: return "power";
    case BinaryOp::minimum: return "minimum";
    case BinaryOp::maximum: return "maximum";
    case BinaryOp::equal: return "equal";
    case BinaryOp::not_equal: return "not_equal";
    case BinaryOp::less: return "less";
    case BinaryOp::less_equal: return "less_equal";
    case BinaryOp::greater: return "greater";
    case BinaryOp::greater_equal: return "greater_equal";
    case BinaryOp::bit_and: return "bitwise_and";
    case BinaryOp::bit_or: return "bitwise_or";
    case BinaryOp::bit_xor: return "bitwise_xor";
    case BinaryOp::shift_left: return "left_shift";
    case BinaryOp::shift_right: return "right_shift";
    case BinaryOp::atan2: return "arctan2";
    case BinaryOp::fmod: return "fmod";
  }
  return "?";
}

std::string_view to_string(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::mean: return "mean";
    case ReduceOp::prod: return "prod";
    case ReduceOp::max: return "max";
    case ReduceOp::min: return "min";
    case ReduceOp::any: return "any";
    case ReduceOp::all: return "all";
    case ReduceOp::argmax: return "argmax";
    case ReduceOp::argmin: return "argmin";
  }
  return "?";
}

namespace ops {
namespace {

[[noreturn]] void refuse_dtype(std::string_view op, DType dtype, std::string fix) {
  throw DTypeError(fmt::format("{} is not defined for {}", op, to_string(dtype)), std::move(fix));
}

/// What arithmetic on one dtype runs in. f16 goes through f32: one operation rounded from f32 is the right f16, as
/// numpy has it. bool runs as 0 and 1, and a result that is not 0 counts as true: so + is «or» and * is «and».
DType working(DType x) {
  if (x == DType::f16) return DType::f32;
  if (x == DType::bool_) return DType::i32;
  return x;
}

struct IntegerRange {
  std::int64_t low, high;
};
IntegerRange integer_range(DType x) {
  if (x == DType::u32) return {0, std::numeric_limits<std::uint32_t>::max()};
  return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
}

/// "3 dimensions (2, 3, 4)".
std::string dimensions(const Shape& shape) {
  return fmt::format("{} dimension{} {}", shape.rank(), shape.rank() == 1 ? "" : "s", to_string(shape));
}

std::string list(std::span<const std::int64_t> values) {
  return fmt::format("({}{})", fmt::join(values, ", "), values.size() == 1 ? "," : "");
}

std::int64_t sum_of_lengths(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw Error(ErrorCode::out_of_range, fmt::format("{}: lengths {} + {} do not fit 64 bits", op, a, b),
                "work on slices of the arrays");
  }
  return sum;
}

}  // namespace

DType promote(DType a, DType b) noexcept {
  if (a == b) return a;
  if (a == DType::bool_) return b;
  if (b == DType::bool_) return a;
  if (is_float(a) || is_float(b)) return DType::f32;  // f16 with f32, or a float with an integer
  return DType::i32;                                  // i32 with u32
}

DType promote(DType a, const Scalar& b) {
  if (std::holds_alternative<bool>(b.value)) return a;
  if (std::holds_alternative<double>(b.value)) return is_float(a) ? a : DType::f32;
  if (is_float(a)) return a;
  const std::int64_t value = std::get<std::int64_t>(b.value);
  const DType meets = a == DType::bool_ ? DType::i32 : a;
  const auto [low, high] = integer_range(meets);
  if (value < low || value > high) {
    refuse(fmt::format("the number {} does not fit {}, which it meets", value, to_string(meets)),
           fmt::format("use a number from {} to {}, or cast the array to float32", low, high));
  }
  return meets;
}

bool is_comparison(BinaryOp op) noexcept {
  return op == BinaryOp::equal || op == BinaryOp::not_equal || op == BinaryOp::less || op == BinaryOp::less_equal ||
         op == BinaryOp::greater || op == BinaryOp::greater_equal;
}

BinaryOp swapped(BinaryOp comparison) noexcept {
  switch (comparison) {
    case BinaryOp::less: return BinaryOp::greater;
    case BinaryOp::less_equal: return BinaryOp::greater_equal;
    case BinaryOp::greater: return BinaryOp::less;
    case BinaryOp::greater_equal: return BinaryOp::less_equal;
    default: return comparison;
  }
}

std::optional<Comparison> comparison_beside(DType x, BinaryOp op, const Scalar& number) {
  if (is_float(x) || std::holds_alternative<bool>(number.value)) return std::nullopt;
  const auto [low, high] = integer_range(x == DType::bool_ ? DType::i32 : x);
  bool above = false;
  if (const auto* whole = std::get_if<std::int64_t>(&number.value)) {
    if (*whole >= low && *whole <= high) return std::nullopt;
    above = *whole > high;
  } else {
    const double real = std::get<double>(number.value);
    if (std::isnan(real)) return std::nullopt;
    above = real > static_cast<double>(high);
    if (!above && real >= static_cast<double>(low)) {
      const double below = std::floor(real);
      const auto nearest = static_cast<std::int64_t>(below);
      if (below == real) return Comparison{op, nearest};
      // Between two whole numbers: less means up to the lower one, and none is equal.
      if (op == BinaryOp::equal) return Comparison{BinaryOp::less, low};
      if (op == BinaryOp::not_equal) return Comparison{BinaryOp::greater_equal, low};
      const bool less = op == BinaryOp::less || op == BinaryOp::less_equal;
      return Comparison{less ? BinaryOp::less_equal : BinaryOp::greater, nearest};
    }
  }
  const bool holds = op == BinaryOp::not_equal || (above ? op == BinaryOp::less || op == BinaryOp::less_equal
                                                         : op == BinaryOp::greater || op == BinaryOp::greater_equal);
  if (above) return Comparison{holds ? BinaryOp::less_equal : BinaryOp::greater, high};
  return Comparison{holds ? BinaryOp::greater_equal : BinaryOp::less, low};
}

Scalar number_for(BinaryOp op, DType x, const Scalar& number) {
  const auto* whole = std::get_if<std::int64_t>(&number.value);
  if (whole == nullptr || is_float(x) || (op != BinaryOp::divide && op != BinaryOp::atan2)) return number;
  const auto [low, high] = integer_range(x == DType::bool_ ? DType::i32 : x);
  return *whole >= low && *whole <= high ? number : Scalar(static_cast<double>(*whole));
}

OpTypes unary_types(UnaryOp op, DType x) {
  switch (op) {
    case UnaryOp::negative:
    case UnaryOp::positive:
    case UnaryOp::sign:
      if (x == DType::bool_) refuse_dtype(to_string(op), x, "use logical_not (~x), or cast it to int32 first");
      return {working(x), x};
    case UnaryOp::invert:
      if (is_float(x)) refuse_dtype(to_string(op), x, "cast it to int32 first, or use logical_not");
      return {x, x};  // of bool: «not», which is no arithmetic on 0 and 1
    case UnaryOp::abs:
    case UnaryOp::square:
    case UnaryOp::reciprocal:
    case UnaryOp::relu:
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
    case UnaryOp::trunc: return {working(x), x};
    case UnaryOp::logical_not:
    case UnaryOp::isnan:
    case UnaryOp::isinf:
    case UnaryOp::isfinite: return {working(x), DType::bool_};
    case UnaryOp::exp:
    case UnaryOp::expm1:
    case UnaryOp::exp2:
    case UnaryOp::log:
    case UnaryOp::log1p:
    case UnaryOp::log2:
    case UnaryOp::sqrt:
    case UnaryOp::rsqrt:
    case UnaryOp::sin:
    case UnaryOp::cos:
    case UnaryOp::tan:
    case UnaryOp::tanh:
    case UnaryOp::sigmoid:
    case UnaryOp::gelu:
    case UnaryOp::gelu_tanh:
    case UnaryOp::silu:
    case UnaryOp::erf: break;
  }
  return {DType::f32, x == DType::f16 ? DType::f16 : DType::f32};
}

OpTypes binary_types(BinaryOp op, DType operands) {
  switch (op) {
    case BinaryOp::subtract:
      if (operands == DType::bool_) refuse_dtype(to_string(op), operands, "use not_equal (^), or cast to int32 first");
      return {working(operands), operands};
    case BinaryOp::add:
    case BinaryOp::multiply:
    case BinaryOp::minimum:
    case BinaryOp::maximum: return {working(operands), operands};
    case BinaryOp::divide:
    case BinaryOp::atan2: return {DType::f32, operands == DType::f16 ? DType::f16 : DType::f32};
    case BinaryOp::floor_divide:
    case BinaryOp::remainder:
    case BinaryOp::power:
    case BinaryOp::fmod:  // of bool: numpy gives int8
      return {working(operands), operands == DType::bool_ ? DType::i32 : operands};
    case BinaryOp::equal:
    case BinaryOp::not_equal:
    case BinaryOp::less:
    case BinaryOp::less_equal:
    case BinaryOp::greater:
    case BinaryOp::greater_equal: return {working(operands), DType::bool_};
    case BinaryOp::bit_and:
    case BinaryOp::bit_or:
    case BinaryOp::bit_xor:
      if (is_float(operands)) refuse_dtype(to_string(op), operands, "cast both to int32 first");
      return {working(operands), operands};
    case BinaryOp::shift_left:
    case BinaryOp::shift_right:
      if (is_float(operands)) refuse_dtype(to_string(op), operands, "cast both to int32 first");
      return {working(operands), working(operands)};
  }
  throw Error(ErrorCode::internal, fmt::format("no dtype rule for binary op {}", static_cast<int>(op)), "report this");
}

OpTypes reduce_types(ReduceOp op, DType x) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod: return {working(x), x == DType::bool_ ? DType::i32 : x};
    case ReduceOp::mean: return {DType::f32, x == DType::f16 ? DType::f16 : DType::f32};
    case ReduceOp::max:
    case ReduceOp::min: return {working(x), x};
    case ReduceOp::any:
    case ReduceOp::all: return {DType::bool_, DType::bool_};
    case ReduceOp::argmax:
    case ReduceOp::argmin: return {working(x), DType::i32};
  }
  throw Error(ErrorCode::internal, fmt::format("no dtype rule for reduction {}", static_cast<int>(op)), "report this");
}

std::size_t normalize_axis(std::string_view op, std::int64_t axis, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.rank());
  if (axis < -rank || axis >= rank) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: axis {} is out of range for a tensor of {}", op, axis, dimensions(shape)),
                rank == 0 ? std::string("give it an axis first (reshape or expand_dims)")
                          : fmt::format("use an axis from {} to {}", -rank, rank - 1));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

std::vector<std::size_t> normalize_axes(std::string_view op, const std::optional<std::vector<std::int64_t>>& axes,
                                        const Shape& shape) {
  std::vector<std::size_t> out;
  if (!axes) {
    for (std::size_t i = 0; i < shape.rank(); ++i) out.push_back(i);
    return out;
  }
  std::array<bool, kMaxRank> seen{};
  for (std::int64_t axis : *axes) {
    const std::size_t at = normalize_axis(op, axis, shape);
    if (seen[at]) {
      refuse(
          fmt::format("{}: axis {} is given twice, in {} for a tensor of {}", op, at, list(*axes), dimensions(shape)),
          "name each axis once");
    }
    seen[at] = true;
    out.push_back(at);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Shape reduce_shape(ReduceOp op, const Shape& x, const ReduceOptions& options) {
  const std::string_view name = to_string(op);
  const bool gives_index = op == ReduceOp::argmax || op == ReduceOp::argmin;
  if (gives_index && options.axes && options.axes->size() != 1) {
    refuse(fmt::format("{}: {} axes given, {}", name, options.axes->size(), list(*options.axes)),
           "give one axis, or none for the flattened array");
  }
  const std::vector<std::size_t> axes = normalize_axes(name, options.axes, x);
  if (gives_index || op == ReduceOp::max || op == ReduceOp::min) {
    for (std::size_t axis : axes) {
      if (x[axis] == 0) {
        refuse(fmt::format("{}: no elements to reduce: axis {} of shape {} has length 0", name, axis, to_string(x)),
               "reduce axes that have elements, or test for the empty array first");
      }
    }
  }
  Shape out;
  for (std::size_t i = 0, next = 0; i < x.rank(); ++i) {
    const bool reduced = next < axes.size() && axes[next] == i;
    if (!reduced) {
      out.push_back(x[i]);
      continue;
    }
    ++next;
    if (options.keepdims) out.push_back(1);
  }
  return out;
}

Shape matmul_shape(const Shape& a, const Shape& b) {
  if (a.rank() == 0 || b.rank() == 0) {
    refuse(fmt::format("matmul: shapes {} and {}: a single number has no rows", to_string(a), to_string(b)),
           "multiply by it (*)");
  }
  const std::size_t b_inner_axis = b.rank() == 1 ? 0 : b.rank() - 2;
  if (a.back() != b[b_inner_axis]) {
    refuse(fmt::format("matmul: shapes {} and {} don't fit: inner lengths {} and {} differ", to_string(a), to_string(b),
                       a.back(), b[b_inner_axis]),
           "make the last axis of the first as long as the last but one of the second (transpose one?)");
  }
  const auto batch = [](const Shape& s) {
    return s.rank() <= 2 ? Shape() : Shape(std::span<const std::int64_t>(s.begin(), s.rank() - 2));
  };
  Shape out;
  try {
    out = broadcast_shapes(batch(a), batch(b));
  } catch (const Error&) {
    refuse(fmt::format("matmul: batch axes {} and {} of shapes {} and {} don't broadcast", to_string(batch(a)),
                       to_string(batch(b)), to_string(a), to_string(b)),
           "make their lengths equal, or one of them 1");
  }
  if (a.rank() > 1) out.push_back(a[a.rank() - 2]);
  if (b.rank() > 1) out.push_back(b.back());
  return out;
}

Shape concat_shape(std::span<const Shape> parts, std::int64_t axis) {
  if (parts.empty()) refuse("concat: no arrays given", "give at least one");
  const Shape& first = parts.front();
  if (first.rank() == 0) refuse("concat: a single number has no axis to join along", "give it an axis first (reshape)");
  const std::size_t at = normalize_axis("concat", axis, first);
  Shape out = first;
  for (std::size_t p = 1; p < parts.size(); ++p) {
    const Shape& part = parts[p];
    if (part.rank() != first.rank()) {
      refuse(fmt::format("concat: array 0 has {}, and array {} has {}", dimensions(first), p, dimensions(part)),
             "give all the same number of axes (expand_dims)");
    }
    for (std::size_t i = 0; i < first.rank(); ++i) {
      if (i != at && part[i] != first[i]) {
        refuse(fmt::format("concat: shapes {} (array 0) and {} (array {}) differ on axis {}, and are joined on axis {}",
                           to_string(first), to_string(part), p, i, at),
               "make all lengths but that of the joined axis equal");
      }
    }
    out[at] = sum_of_lengths("concat", out[at], part[at]);
  }
  return out;
}

void check_picked_rank(std::string_view op, std::size_t rank, const Shape& x, const Shape& indices) {
  if (rank <= kMaxRank) return;
  refuse(fmt::format("{}: shape {} with indices of shape {} gives {} dimensions, over the most of {}", op, to_string(x),
                     to_string(indices), rank, kMaxRank),
         "flatten the indices first, and reshape the result");
}

Shape take_shape(const Shape& x, const Shape& indices, std::optional<std::int64_t> axis) {
  const bool any = element_count(indices) > 0;
  if (!axis) {
    if (any && element_count(x) == 0) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("take: indices of shape {} into an array of no elements, shape {}", to_string(indices),
                              to_string(x)),
                  "take from an array that has elements");
    }
    return indices;
  }
  const std::size_t at = normalize_axis("take", *axis, x);
  if (any && x[at] == 0) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("take: indices of shape {} into axis {} of shape {}, which has length 0",
                            to_string(indices), at, to_string(x)),
                "take from an axis that has elements");
  }
  check_picked_rank("take", x.rank() - 1 + indices.rank(), x, indices);
  Shape out(std::span<const std::int64_t>(x.begin(), at));
  for (std::int64_t n : indices) out.push_back(n);
  for (std::size_t i = at + 1; i < x.rank(); ++i) out.push_back(x[i]);
  return out;
}

Shape reshape_shape(const Shape& x, const Shape& wanted) {
  std::optional<std::size_t> open;
  Shape out = wanted;
  for (std::size_t i = 0; i < wanted.rank(); ++i) {
    if (wanted[i] >= 0) continue;
    if (wanted[i] != -1) {
      refuse(fmt::format("reshape: length {} in {}", wanted[i], to_string(wanted)),
             "use lengths of 0 or more, and at most one -1");
    }
    if (open)
      refuse(fmt::format("reshape: more than one -1 in {}", to_string(wanted)), "leave one length open at most");
    open = i;
    out[i] = 1;
  }
  const std::int64_t have = element_count(x);
  const std::int64_t rest = element_count(out);
  const auto fail = [&](std::string fix) {
    refuse(fmt::format("reshape: shape {} has {} element{}, which {} can't hold", to_string(x), have,
                       have == 1 ? "" : "s", to_string(wanted)),
           std::move(fix));
  };
  if (!open) {
    if (rest != have) fail(fmt::format("use lengths whose product is {}", have));
    return out;
  }
  if (rest == 0) fail("name every length where one is 0: -1 could then be anything");
  if (have % rest != 0) fail(fmt::format("use lengths whose product divides {}", have));
  out[*open] = have / rest;
  return out;
}

std::vector<std::size_t> transpose_axes(const Shape& x, std::span<const std::int64_t> axes) {
  std::vector<std::size_t> out;
  if (axes.empty()) {
    for (std::size_t i = x.rank(); i-- > 0;) out.push_back(i);
    return out;
  }
  if (axes.size() != x.rank()) {
    refuse(fmt::format("transpose: axes {} given for a tensor of {}", list(axes), dimensions(x)),
           "name every axis once");
  }
  std::array<bool, kMaxRank> seen{};
  for (std::int64_t axis : axes) {
    const std::size_t at = normalize_axis("transpose", axis, x);
    if (seen[at]) {
      refuse(fmt::format("transpose: axis {} is given twice, in {} for a tensor of {}", at, list(axes), dimensions(x)),
             "name every axis once");
    }
    seen[at] = true;
    out.push_back(at);
  }
  return out;
}

SliceRange slice_range(std::int64_t length, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                       std::int64_t step) {
  if (step == 0) refuse("slice: the step is 0", "use a step of 1 or more, or of -1 or less");
  const bool forward = step > 0;
  // Where a walk may begin and end: [0, length] forward, [-1, length - 1] backward. As PySlice_AdjustIndices.
  const std::int64_t low = forward ? 0 : -1;
  const std::int64_t high = forward ? length : length - 1;
  const auto bound = [&](const std::optional<std::int64_t>& given, std::int64_t fallback) {
    if (!given) return fallback;
    const std::int64_t from_front = *given < 0 ? *given + length : *given;
    return std::clamp(from_front, low, high);
  };
  const std::int64_t first = bound(start, forward ? low : high);
  const std::int64_t end = bound(stop, forward ? high : low);
  const auto distance = static_cast<std::uint64_t>(forward ? std::max<std::int64_t>(end - first, 0)
                                                           : std::max<std::int64_t>(first - end, 0));
  const std::uint64_t magnitude =
      forward ? static_cast<std::uint64_t>(step) : std::uint64_t{0} - static_cast<std::uint64_t>(step);
  const std::uint64_t count = distance == 0 ? 0 : (distance - 1) / magnitude + 1;
  return {first, static_cast<std::int64_t>(count), step};
}

std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides, const Shape& wanted) {
  const std::int64_t count = element_count(shape);
  if (element_count(wanted) != count) return std::nullopt;
  if (count == 0) return contiguous_strides(wanted);
  // Axes of length 1 say nothing about where elements lie.
  Shape lengths;
  Strides steps;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    lengths.push_back(shape[i]);
    steps.push_back(strides[i]);
  }
  Strides out = wanted;
  std::size_t old_axis = 0;
  std::size_t new_axis = 0;
  // Smallest groups of axes, old and new, of one element count. Within a group the old axes must lie as one would.
  while (new_axis < wanted.rank()) {
    if (wanted[new_axis] == 1) {
      out[new_axis++] = 1;
      continue;
    }
    const std::size_t old_begin = old_axis;
    const std::size_t new_begin = new_axis;
    std::int64_t old_count = lengths[old_axis++];
    std::int64_t new_count = wanted[new_axis++];
    while (old_count != new_count) {
      if (old_count < new_count) {
        old_count *= lengths[old_axis++];
      } else {
        new_count *= wanted[new_axis++];
      }
    }
    for (std::size_t i = old_begin; i + 1 < old_axis; ++i) {
      if (steps[i] != lengths[i + 1] * steps[i + 1]) return std::nullopt;
    }
    std::int64_t step = steps[old_axis - 1];
    for (std::size_t i = new_axis; i-- > new_begin;) {
      out[i] = step;
      step *= wanted[i];
    }
  }
  return out;
}

}  // namespace ops
}  // namespace weft
