#include "expr/joining.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ops/elementwise.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft::expr {
namespace {

using Operands = std::span<const Tensor>;
using Tensors = std::vector<Tensor>;

Tensor as(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : cast(x, dtype);
}

/// a op b, elementwise, where the two are the only values of their parts.
auto pairwise(BinaryOp op) {
  return [op](const Part& a, const Part& b) { return Tensors{binary(op, a.values[0], b.values[0])}; };
}

/// The op again, over both.
template <typename F>
auto again(F&& f) {
  return [f](const Part& a, const Part& b) {
    Shape row = a.values[0].shape();
    row.insert(0, 1);
    const std::array both{reshape(a.values[0], row), reshape(b.values[0], row)};
    return Tensors{f(concat(both, 0))};
  };
}

auto finished(DType dtype) {
  return [dtype](const Part& all) { return as(all.values[0], dtype); };
}

/// One value, reduced by `options` from what `as` a dtype is.
Joining plain(ReduceOp op, const ReduceOptions& options, DType accumulate, BinaryOp join, DType result) {
  Joining out;
  out.reduce = [=](Operands x, Operands, std::int64_t) {
    return Tensors{reduce(op, accumulate == DType::bool_ ? x[0] : as(x[0], accumulate), options)};
  };
  out.join = pairwise(join);
  out.finish = finished(result);
  return out;
}

/// Value and position. The first of equals wins, and the first NaN wins over all.
Joining extreme(ReduceOp op, const ReduceOptions& options, std::int64_t inner) {
  const bool largest = op == ReduceOp::argmax;
  Joining out;
  out.reduce = [=](Operands x, Operands, std::int64_t first) {
    const Tensor position = reduce(op, x[0], options);
    // Bools compare as numbers.
    const Tensor value = as(reduce(largest ? ReduceOp::max : ReduceOp::min, x[0], options),
                            x[0].dtype() == DType::bool_ ? DType::i32 : x[0].dtype());
    return Tensors{value, binary(BinaryOp::add, position, Scalar(first * inner))};
  };
  out.join = [=](const Part& a, const Part& b) {
    const Tensor &va = a.values[0], &vb = b.values[0];
    Tensor take = binary(largest ? BinaryOp::greater : BinaryOp::less, vb, va);
    if (is_float(va.dtype())) {
      const Tensor number = unary(UnaryOp::logical_not, unary(UnaryOp::isnan, va));
      take = binary(BinaryOp::bit_and, number, binary(BinaryOp::bit_or, take, unary(UnaryOp::isnan, vb)));
    }
    return Tensors{where(take, vb, va), where(take, b.values[1], a.values[1])};
  };
  out.finish = [](const Part& all) { return all.values[1]; };
  return out;
}

Joining product_joining(const Operation& op) {
  // Sums of float16 products are kept in float32 until the last.
  const DType sum = op.dtype == DType::f16 ? DType::f32 : op.dtype;
  Joining out;
  out.reduce = [=](Operands x, Operands, std::int64_t) { return Tensors{matmul(as(x[0], sum), as(x[1], sum))}; };
  out.join = pairwise(BinaryOp::add);
  out.finish = finished(op.dtype);
  return out;
}

/// (na a + nb b) / (na + nb), of two means.
Tensor joined_means(const Part& a, const Part& b) {
  const double na = static_cast<double>(a.count), nb = static_cast<double>(b.count);
  const Tensor d = binary(BinaryOp::subtract, b.values[0], a.values[0]);
  return binary(BinaryOp::add, a.values[0], binary(BinaryOp::multiply, d, nb / (na + nb)));
}

/// What all blocks are moved by, so that a small spread on a large mean is not lost in the means: one block's mean, or
/// of integers its first elements.
Tensor origin_of(const Tensor& x, const std::vector<std::int64_t>& axes) {
  if (!is_integer(x.dtype())) return reduce(ReduceOp::mean, as(x, DType::f32), {.axes = axes, .keepdims = true});
  Tensor first = x;
  for (const std::int64_t axis : axes) first = slice(first, axis, 0, 1);
  return binary(BinaryOp::add, first, Scalar(0));  // a copy: the block's memory is used again
}

/// x - origin in float32. Integers are told from each other before they become floats, as in the reduction's own
/// kernel.
Tensor moved(const Tensor& x, const Tensor& origin) {
  if (!is_integer(x.dtype())) return binary(BinaryOp::subtract, as(x, DType::f32), origin);
  ops::ElementProgram program;
  const std::int32_t a = program.input(x), b = program.input(origin);
  const std::int32_t far = program.binary(BinaryOp::subtract, program.cast(a, DType::f32), program.cast(b, DType::f32));
  const std::int32_t near =
      program.cast(program.cast(program.binary(BinaryOp::subtract, a, b), DType::i32), DType::f32);
  const std::int32_t is_near =
      program.binary(BinaryOp::less, program.unary(UnaryOp::abs, far), program.scalar(0x1p30, DType::f32));
  return program.run(x.device(), x.shape(), program.where(is_near, near, far));
}

Tensor constant_like(const Tensor& x, double value) {
  return full(x.device(), x.shape(), value, x.dtype());
}

}  // namespace

Joining joining_of(const Graph& graph, const Operation& op, std::size_t cut) {
  if (op.joining) return *op.joining;
  if (op.kind == OpKind::matmul) return product_joining(op);
  const DType x = graph.dtype(op.operands[0]);
  ReduceOptions options;
  options.keepdims = op.keepdims;
  const bool flat = op.numbers.size() != 1;
  const bool gives_index = op.reduce == ReduceOp::argmax || op.reduce == ReduceOp::argmin;
  if (!gives_index || !flat) options.axes = op.numbers;
  switch (op.reduce) {
    case ReduceOp::sum: return plain(op.reduce, options, x == DType::f16 ? DType::f32 : x, BinaryOp::add, op.dtype);
    case ReduceOp::prod:
      return plain(op.reduce, options, x == DType::f16 ? DType::f32 : x, BinaryOp::multiply, op.dtype);
    case ReduceOp::mean: {
      if (is_integer(x)) {  // whose sums would round in float32
        Joining out;
        out.reduce = [=](Operands of, Operands, std::int64_t) {
          return Tensors{reduce(ReduceOp::mean, of[0], options)};
        };
        out.join = [](const Part& a, const Part& b) { return Tensors{joined_means(a, b)}; };
        out.finish = finished(op.dtype);
        return out;
      }
      Joining out = plain(ReduceOp::sum, options, DType::f32, BinaryOp::add, op.dtype);
      out.finish = [to = op.dtype](const Part& all) {
        return as(binary(BinaryOp::divide, all.values[0], static_cast<double>(all.count)), to);
      };
      return out;
    }
    case ReduceOp::max: return plain(op.reduce, options, x, BinaryOp::maximum, op.dtype);
    case ReduceOp::min: return plain(op.reduce, options, x, BinaryOp::minimum, op.dtype);
    case ReduceOp::any: return plain(op.reduce, options, x, BinaryOp::bit_or, op.dtype);
    case ReduceOp::all: return plain(op.reduce, options, x, BinaryOp::bit_and, op.dtype);
    case ReduceOp::argmax:
    case ReduceOp::argmin: {
      const Shape& shape = graph.shape(op.operands[0]);
      std::int64_t inner = 1;
      for (std::size_t i = cut + 1; flat && i < shape.rank(); ++i) inner *= shape[i];
      return extreme(op.reduce, options, inner);
    }
  }
  throw Error(ErrorCode::internal, "a reduction that can't be joined from blocks", "report this, with the expression");
}

Joining variance_joining(const std::vector<std::int64_t>& axes, bool keepdims, std::int64_t ddof, bool root,
                         DType result) {
  Joining out;
  out.prepare = [=](Operands x) { return Tensors{origin_of(x[0], axes)}; };
  out.reduce = [=](Operands x, Operands origin, std::int64_t) {
    const Tensor from_origin = moved(x[0], origin[0]);
    const ReduceOptions options{.axes = axes, .keepdims = keepdims};
    const Tensor mean = reduce(ReduceOp::mean, from_origin, options);
    double count = 1;
    for (std::int64_t axis : axes) count *= static_cast<double>(from_origin.shape()[static_cast<std::size_t>(axis)]);
    const Tensor spread = var(from_origin, {.axes = axes, .keepdims = keepdims, .ddof = 0});
    return Tensors{mean, binary(BinaryOp::multiply, spread, count)};
  };
  // Chan, Golub and LeVeque (1979), as the reduction's own kernel.
  out.join = [](const Part& a, const Part& b) {
    const double na = static_cast<double>(a.count), nb = static_cast<double>(b.count);
    const Tensor d = binary(BinaryOp::subtract, b.values[0], a.values[0]);
    const Tensor mean = joined_means(a, b);
    const Tensor between = binary(BinaryOp::multiply, unary(UnaryOp::square, d), na * (nb / (na + nb)));
    return Tensors{mean, binary(BinaryOp::add, binary(BinaryOp::add, a.values[1], b.values[1]), between)};
  };
  out.finish = [=](const Part& all) {
    // As numpy: what is left to divide by is never below 0, and 0 gives inf or NaN.
    const double left = std::max(0.0, static_cast<double>(all.count) - static_cast<double>(ddof));
    const Tensor v = binary(BinaryOp::divide, all.values[1], constant_like(all.values[1], left));
    return as(root ? unary(UnaryOp::sqrt, v) : v, result);
  };
  return out;
}

Joining norm_joining(std::vector<std::int64_t> axes, bool keepdims, double ord, DType result) {
  const ReduceOptions options{.axes = std::move(axes), .keepdims = keepdims};
  Joining out;
  out.reduce = [=](Operands x, Operands, std::int64_t) { return Tensors{norm(as(x[0], DType::f32), ord, options)}; };
  // The order 0 counts, and counts add up.
  if (ord == 0) {
    out.join = pairwise(BinaryOp::add);
  } else {
    out.join = again([=](const Tensor& both) { return norm(both, ord, {.axes = std::vector<std::int64_t>{0}}); });
  }
  out.finish = finished(result);
  return out;
}

Joining logsumexp_joining(std::vector<std::int64_t> axes, bool keepdims, DType result) {
  const ReduceOptions options{.axes = std::move(axes), .keepdims = keepdims};
  Joining out;
  out.reduce = [=](Operands x, Operands, std::int64_t) { return Tensors{logsumexp(as(x[0], DType::f32), options)}; };
  out.join = again([](const Tensor& both) { return logsumexp(both, {.axes = std::vector<std::int64_t>{0}}); });
  out.finish = finished(result);
  return out;
}

void Joiner::add(Part part) {
  levels_.push_back({std::move(part), 1});
  while (levels_.size() > 1 && levels_[levels_.size() - 2].blocks == levels_.back().blocks) join_last_two();
}

void Joiner::join_last_two() {
  Level b = std::move(levels_.back());
  levels_.pop_back();
  Level& a = levels_.back();
  a.part.values = joining_.join(a.part, b.part);
  a.part.count += b.part.count;
  a.blocks += b.blocks;
}

Tensor Joiner::finish() {
  while (levels_.size() > 1) join_last_two();
  return joining_.finish(levels_.front().part);
}

}  // namespace weft::expr
