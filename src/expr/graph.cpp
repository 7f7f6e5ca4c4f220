#include "expr/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "expr/joining.h"
#include "ops/infer.h"
#include "ops/infer_norm.h"
#include "weft/error.h"

namespace weft::expr {
namespace {

std::string key_of(const Scalar& s) {
  if (const double* d = std::get_if<double>(&s.value)) return fmt::format("f{:x}", std::bit_cast<std::uint64_t>(*d));
  if (const bool* b = std::get_if<bool>(&s.value)) return *b ? "t" : "n";
  return fmt::format("{}", std::get<std::int64_t>(s.value));
}

/// Equal for operations that compute the same.
std::string key_of(const Operation& op) {
  std::string key = fmt::format("{};{};{};{},{},{};{};{};{};{};{}{}{};", static_cast<int>(op.kind),
                                static_cast<int>(op.dtype), to_string(op.shape), static_cast<int>(op.unary),
                                static_cast<int>(op.binary), static_cast<int>(op.reduce), op.axis, key_of(op.value),
                                key_of(op.stop), key_of(op.step), op.keepdims, op.has_weight, op.has_bias);
  for (OpId id : op.operands) key += fmt::format("{},", id);
  key += ';';
  for (std::int64_t n : op.numbers) key += fmt::format("{},", n);
  if (op.from) key += fmt::format("<{}", *op.from);
  if (op.to) key += fmt::format(">{}", *op.to);
  key += ';';
  key += op.name;
  key.append(reinterpret_cast<const char*>(op.bytes.data()), op.bytes.size());
  return key;
}

bool is_nonzero_integer(const Scalar& s, std::int64_t& n) {
  const std::int64_t* i = std::get_if<std::int64_t>(&s.value);
  if (i != nullptr) n = *i;
  return i != nullptr && n != 0;
}

double as_double(const Scalar& s) {
  return std::visit([](auto v) { return static_cast<double>(v); }, s.value);
}

/// ceil((stop - start) / step), at least 0.
std::int64_t arange_count(const Scalar& start, const Scalar& stop, const Scalar& step) {
  if (as_double(step) == 0 || std::isnan(as_double(step))) {
    throw Error(ErrorCode::invalid_argument, "the step is 0", "give a step other than 0");
  }
  std::int64_t by = 0;
  std::int64_t length = 0;
  const std::int64_t* from = std::get_if<std::int64_t>(&start.value);
  const std::int64_t* to = std::get_if<std::int64_t>(&stop.value);
  if (from != nullptr && to != nullptr && is_nonzero_integer(step, by) &&
      !__builtin_sub_overflow(*to, *from, &length)) {
    if (length == 0 || (length < 0) != (by < 0)) return 0;
    return length / by + (length % by != 0 ? 1 : 0);
  }
  if (std::isnan(as_double(start)) || std::isnan(as_double(stop))) {
    throw Error(ErrorCode::invalid_argument, "an end is NaN", "give numbers");
  }
  const double count = std::ceil((as_double(stop) - as_double(start)) / as_double(step));
  if (!(count < 9.0e18)) {
    throw Error(ErrorCode::out_of_range, fmt::format("{} elements are too many", count), "use a larger step");
  }
  return count > 0 ? static_cast<std::int64_t>(count) : 0;
}

}  // namespace

bool is_elementwise(OpKind kind) noexcept {
  return kind == OpKind::unary || kind == OpKind::binary || kind == OpKind::where || kind == OpKind::cast;
}

OpId Graph::add(Operation op) {
  element_count(op.shape);  // refuses what does not fit 63 bits
  op.span = span_;
  const auto [it, is_new] = known_.emplace(key_of(op), static_cast<OpId>(operations_.size()));
  if (is_new) operations_.push_back(std::move(op));
  return it->second;
}

OpId Graph::input(const std::string& name, const Shape& shape, DType dtype) {
  Operation op{.kind = OpKind::input, .dtype = dtype, .shape = shape};
  op.name = name;
  return add(std::move(op));
}

OpId Graph::scalar(const Scalar& value, DType dtype) {
  Operation op{.kind = OpKind::scalar, .dtype = dtype};
  op.value = value;
  return add(std::move(op));
}

OpId Graph::constant(std::vector<std::byte> bytes, const Shape& shape, DType dtype) {
  Operation op{.kind = OpKind::constant, .dtype = dtype, .shape = shape};
  op.bytes = std::move(bytes);
  return add(std::move(op));
}

OpId Graph::full(const Shape& shape, const Scalar& value, DType dtype) {
  Operation op{.kind = OpKind::full, .dtype = dtype, .shape = shape};
  op.value = value;
  return add(std::move(op));
}

OpId Graph::arange(const Scalar& start, const Scalar& stop, const Scalar& step, DType dtype) {
  Operation op{.kind = OpKind::arange, .dtype = dtype, .shape = {arange_count(start, stop, step)}};
  op.value = start;
  op.stop = stop;
  op.step = step;
  return add(std::move(op));
}

OpId Graph::unary(weft::UnaryOp code, OpId x) {
  Operation op{
      .kind = OpKind::unary, .dtype = ops::unary_types(code, dtype(x)).result, .shape = shape(x), .operands = {x}};
  op.unary = code;
  return add(std::move(op));
}

OpId Graph::binary(weft::BinaryOp code, OpId a, OpId b) {
  const DType operands = ops::promote(dtype(a), dtype(b));
  Operation op{.kind = OpKind::binary,
               .dtype = ops::binary_types(code, operands).result,
               .shape = broadcast_shapes(shape(a), shape(b)),
               .operands = {a, b}};
  op.binary = code;
  return add(std::move(op));
}

OpId Graph::where(OpId condition, OpId a, OpId b) {
  condition = cast(condition, DType::bool_);
  return add({.kind = OpKind::where,
              .dtype = ops::promote(dtype(a), dtype(b)),
              .shape = broadcast_shapes(shape(condition), broadcast_shapes(shape(a), shape(b))),
              .operands = {condition, a, b}});
}

OpId Graph::cast(OpId x, DType to) {
  if (dtype(x) == to) return x;
  return add({.kind = OpKind::cast, .dtype = to, .shape = shape(x), .operands = {x}});
}

OpId Graph::transpose(OpId x, std::span<const std::int64_t> axes) {
  const std::vector<std::size_t> order = ops::transpose_axes(shape(x), axes);
  if (std::is_sorted(order.begin(), order.end())) return x;
  Operation op{.kind = OpKind::transpose, .dtype = dtype(x), .operands = {x}};
  for (std::size_t axis : order) {
    op.shape.push_back(shape(x)[axis]);
    op.numbers.push_back(static_cast<std::int64_t>(axis));
  }
  return add(std::move(op));
}

OpId Graph::reshape(OpId x, const Shape& wanted) {
  const Shape to = ops::reshape_shape(shape(x), wanted);
  if (to == shape(x)) return x;
  return add({.kind = OpKind::reshape, .dtype = dtype(x), .shape = to, .operands = {x}});
}

OpId Graph::broadcast_to(OpId x, const Shape& wanted) {
  if (wanted == shape(x)) return x;
  bool fits = false;
  try {
    fits = broadcast_shapes(shape(x), wanted) == wanted;
  } catch (const Error&) {
    fits = false;
  }
  if (!fits) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} does not broadcast to {}", to_string(shape(x)), to_string(wanted)),
                "keep the last axes' lengths where they are not 1");
  }
  return add({.kind = OpKind::broadcast, .dtype = dtype(x), .shape = wanted, .operands = {x}});
}

OpId Graph::expand_dims(OpId x, std::size_t axis) {
  Shape to = shape(x);
  to.insert(axis, 1);
  return reshape(x, to);
}

OpId Graph::slice(OpId x, std::size_t axis, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                  std::int64_t step) {
  const ops::SliceRange range = ops::slice_range(shape(x)[axis], start, stop, step);
  if (range.step == 1 && range.count == shape(x)[axis]) return x;
  Operation op{.kind = OpKind::slice, .dtype = dtype(x), .shape = shape(x), .operands = {x}};
  op.shape[axis] = range.count;
  op.axis = axis;
  op.from = start;
  op.to = stop;
  op.numbers = {step};
  return add(std::move(op));
}

OpId Graph::select(OpId x, std::size_t axis, std::int64_t index) {
  const std::int64_t length = shape(x)[axis];
  if (index < -length || index >= length) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("index {} is out of range for axis {} of length {} of {}", index, axis, length,
                            to_string(shape(x))),
                length == 0 ? std::string("index another axis: this one has no elements")
                            : fmt::format("use an index from {} to {}", -length, length - 1));
  }
  Operation op{.kind = OpKind::select, .dtype = dtype(x), .shape = shape(x), .operands = {x}};
  op.shape.erase(axis);
  op.axis = axis;
  op.numbers = {index < 0 ? index + length : index};
  return add(std::move(op));
}

OpId Graph::take(OpId x, OpId indices, std::size_t axis) {
  Operation op{.kind = OpKind::take,
               .dtype = dtype(x),
               .shape = ops::take_shape(shape(x), shape(indices), static_cast<std::int64_t>(axis)),
               .operands = {x, indices}};
  op.axis = axis;
  return add(std::move(op));
}

OpId Graph::concat(std::span<const OpId> parts, std::int64_t axis) {
  Operation op{.kind = OpKind::concat, .dtype = dtype(parts.front())};
  std::vector<Shape> shapes;
  for (OpId part : parts) {
    shapes.push_back(shape(part));
    op.dtype = ops::promote(op.dtype, dtype(part));
  }
  op.shape = ops::concat_shape(shapes, axis);
  op.axis = ops::normalize_axis("concatenate", axis, op.shape);
  for (OpId part : parts) op.operands.push_back(cast(part, op.dtype));
  if (parts.size() == 1) return parts.front();
  return add(std::move(op));
}

OpId Graph::reduce(ReduceOp code, OpId x, const ReduceOptions& options) {
  Operation op{.kind = OpKind::reduce,
               .dtype = ops::reduce_types(code, dtype(x)).result,
               .shape = ops::reduce_shape(code, shape(x), options),
               .operands = {x}};
  op.reduce = code;
  op.keepdims = options.keepdims;
  for (std::size_t axis : ops::normalize_axes(to_string(code), options.axes, shape(x))) {
    op.numbers.push_back(static_cast<std::int64_t>(axis));
  }
  return add(std::move(op));
}

OpId Graph::softmax(OpKind kind, OpId x, std::int64_t axis) {
  const std::size_t at = ops::normalize_axis(kind == OpKind::softmax ? "softmax" : "log_softmax", axis, shape(x));
  if (!is_float(dtype(x))) x = cast(x, DType::f32);
  Operation op{.kind = kind, .dtype = dtype(x), .shape = shape(x), .operands = {x}};
  op.axis = at;
  return add(std::move(op));
}

OpId Graph::layer_norm(OpId x, std::optional<OpId> weight, std::optional<OpId> bias, double eps, std::int64_t axis) {
  const std::size_t at = ops::normalize_axis("layer_norm", axis, shape(x));
  const Shape inner(std::span<const std::int64_t>(shape(x).begin() + at, shape(x).end()));
  ops::check_eps("layer_norm", eps);
  if (!is_float(dtype(x))) x = cast(x, DType::f32);
  Operation op{.kind = OpKind::layer_norm, .dtype = dtype(x), .shape = shape(x), .operands = {x}};
  op.axis = at;
  op.value = eps;
  const auto add_operand = [&](std::optional<OpId> operand, const char* what) {
    if (!operand) return false;
    if (shape(*operand) != inner) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} has shape {}, and the normalised axes have {}", what, to_string(shape(*operand)),
                              to_string(inner)),
                  fmt::format("give a {} of shape {}", what, to_string(inner)));
    }
    op.operands.push_back(cast(*operand, op.dtype));
    return true;
  };
  op.has_weight = add_operand(weight, "weight");
  op.has_bias = add_operand(bias, "bias");
  return add(std::move(op));
}

OpId Graph::matmul(OpId a, OpId b) {
  const Shape to = ops::matmul_shape(shape(a), shape(b));
  const DType operands = ops::promote(dtype(a), dtype(b));
  // numpy's product of bools is "any of both": count, then ask for more than none.
  const DType compute = operands == DType::bool_ ? DType::i32 : operands;
  const OpId product =
      add({.kind = OpKind::matmul, .dtype = compute, .shape = to, .operands = {cast(a, compute), cast(b, compute)}});
  return cast(product, operands);
}

OpId Graph::library(std::string key, const Shape& shape, DType dtype, std::span<const OpId> operands, LibraryCall run,
                    const Slices& slices) {
  Operation op{.kind = OpKind::library, .dtype = dtype, .shape = shape};
  op.operands.assign(operands.begin(), operands.end());
  op.name = std::move(key);
  op.run = std::make_shared<const LibraryCall>(std::move(run));
  op.slices = slices;
  return add(std::move(op));
}

OpId Graph::library_reduction(std::string key, const Shape& shape, DType dtype, OpId x, LibraryCall run,
                              std::span<const std::size_t> axes, bool keepdims, Joining joining) {
  Operation op{.kind = OpKind::library, .dtype = dtype, .shape = shape, .operands = {x}};
  op.name = std::move(key);
  op.run = std::make_shared<const LibraryCall>(std::move(run));
  for (std::size_t axis : axes) op.numbers.push_back(static_cast<std::int64_t>(axis));
  op.keepdims = keepdims;
  op.joining = std::make_shared<const Joining>(std::move(joining));
  return add(std::move(op));
}

}  // namespace weft::expr
