#include "expr/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "expr/scalar.h"
#include "expr/translate.h"
#include "ops/infer.h"

namespace weft::expr {
namespace {

using U = weft::UnaryOp;
using B = weft::BinaryOp;
using R = ReduceOp;

template <typename E>
constexpr int code_of(E op) {
  return static_cast<int>(op);
}

std::string title_of(const Function& f) {
  return fmt::format("{} does not take this", f.name);
}

// -- elementwise -----------------------------------------------------------------------------------------------------

Value apply_unary(Translator& t, const Function& f, const Arguments& args) {
  return t.unary(static_cast<U>(f.code), args[0], t.call_span());
}

Value apply_binary(Translator& t, const Function& f, const Arguments& args) {
  return t.binary(static_cast<B>(f.code), args[0], args[1], t.call_span());
}

Value apply_round(Translator& t, const Function& f, const Arguments& args) {
  if (args.has(1) && t.integer(args[1], "decimals") != 0) {
    t.fail(args[1].span, title_of(f), "it rounds to whole numbers", "scale by a power of ten around it");
  }
  return t.unary(U::round, args[0], t.call_span());
}

Value apply_gelu(Translator& t, const Function& f, const Arguments& args) {
  if (!args.has(1)) return t.unary(U::gelu, args[0], t.call_span());
  const std::string* form = args[1].get_if<std::string>();
  if (form == nullptr || (*form != "tanh" && *form != "none")) {
    t.fail(args[1].span, title_of(f), "approximate is 'tanh' or 'none'", "write approximate='tanh'");
  }
  return t.unary(*form == "tanh" ? U::gelu_tanh : U::gelu, args[0], t.call_span());
}

Value to_bool(Translator& t, const Value& x) {
  if (const Scalar* number = x.get_if<Scalar>()) return {x.span, Scalar(to_double(*number) != 0)};
  return {x.span, TensorRef{t.graph().cast(t.tensor(x), DType::bool_)}};
}

Value apply_logical(Translator& t, const Function& f, const Arguments& args) {
  return t.binary(static_cast<B>(f.code), to_bool(t, args[0]), to_bool(t, args[1]), t.call_span());
}

Value apply_where(Translator& t, const Function&, const Arguments& args) {
  return t.where(args[0], args[1], args[2]);
}

Value apply_clip(Translator& t, const Function& f, const Arguments& args) {
  if (!args.has(1) && !args.has(2)) t.fail(t.call_span(), title_of(f), "no limit is given", "give min, max, or both");
  Value out = args[0];
  if (args.has(1)) out = t.binary(B::maximum, out, args[1], t.call_span());
  if (args.has(2)) out = t.binary(B::minimum, out, args[2], t.call_span());
  return out;
}

Value apply_cast(Translator& t, const Function& f, const Arguments& args) {
  const DType to = t.dtype(args[1]);
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] { return t.tensor(args[0], to); }));
}

/// int(), float(), bool(): of numbers; of a tensor too, as astype.
Value apply_number(Translator& t, const Function& f, const Arguments& args) {
  const DType to = static_cast<DType>(f.code);
  const Scalar* number = args[0].get_if<Scalar>();
  if (number == nullptr) return t.make_tensor(t.graph().cast(t.tensor(args[0]), to));
  const double d = to_double(*number);
  if (to == DType::f32) return t.make(Scalar(d));
  if (to == DType::bool_) return t.make(Scalar(d != 0));
  if (!is_float(*number)) return t.make(Scalar(t.integer(args[0], "the number")));
  if (!(std::fabs(d) < 9.2e18)) {
    t.fail(args[0].span, title_of(f), fmt::format("{} does not fit an integer", d), "give a smaller number",
           ErrorCode::out_of_range);
  }
  return t.make(Scalar(static_cast<std::int64_t>(d)));
}

// -- reductions, rows, products ---------------------------------------------------------------------------------------

Value apply_reduce(Translator& t, const Function& f, const Arguments& args) {
  const auto op = static_cast<R>(f.code);
  ReduceOptions options;
  if (args.has(1)) options.axes = t.integers(args[1], "an axis");
  if (args.has(2)) options.keepdims = t.boolean(args[2], "keepdims");
  const OpId x = t.tensor(args[0]);
  if ((op == R::max || op == R::min) && args[0].is<Scalar>() && args.has(1)) {
    t.fail(t.call_span(), title_of(f), "a single number has no axes",
           fmt::format("use {}(a, b) for the {} of two", op == R::max ? "maximum" : "minimum",
                       op == R::max ? "larger" : "smaller"));
  }
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] { return t.graph().reduce(op, x, options); }));
}

Value apply_softmax(Translator& t, const Function& f, const Arguments& args) {
  const std::int64_t axis = args.has(1) ? t.integer(args[1], "axis") : -1;
  const OpId x = t.tensor(args[0]);
  return t.make_tensor(
      t.at(t.call_span(), title_of(f), [&] { return t.graph().softmax(static_cast<OpKind>(f.code), x, axis); }));
}

Value apply_layer_norm(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  const auto operand = [&](std::size_t i) -> std::optional<OpId> {
    if (!args.has(i)) return std::nullopt;
    return t.tensor(args[i]);
  };
  const auto weight = operand(1);
  const auto bias = operand(2);
  const double eps = args.has(3) ? t.number(args[3], "eps") : 1e-5;
  const std::int64_t axis = args.has(4) ? t.integer(args[4], "axis") : -1;
  return t.make_tensor(
      t.at(t.call_span(), title_of(f), [&] { return t.graph().layer_norm(x, weight, bias, eps, axis); }));
}

Value apply_matmul(Translator& t, const Function& f, const Arguments& args) {
  if (f.name == "dot") {
    for (std::size_t i : {0, 1}) {
      const std::size_t rank = t.graph().shape(t.tensor(args[i])).rank();
      if (rank == 1 || rank == 2) continue;
      t.fail(args[i].span, title_of(f), fmt::format("this has {} axes, and dot is for 1 or 2", rank),
             rank == 0 ? "use *" : "use matmul or @, which go over leading axes");
    }
  }
  return t.matmul(args[0], args[1], t.call_span());
}

// -- views and moving
// --------------------------------------------------------------------------------------------------

/// x.transpose(1, 0) and transpose(x, (1, 0)) alike; None where nothing is given.
std::optional<std::vector<std::int64_t>> rest_integers(Translator& t, const Arguments& args, std::string_view what) {
  if (args.rest.empty()) return std::nullopt;
  if (args.rest.size() == 1) {
    if (args.rest[0].is<None>()) return std::nullopt;
    return t.integers(args.rest[0], what);
  }
  std::vector<std::int64_t> out;
  out.reserve(args.rest.size());
  for (const Value& v : args.rest) out.push_back(t.integer(v, what));
  return out;
}

Value apply_transpose(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  const auto axes = rest_integers(t, args, "an axis");
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] {
    if (axes && axes->empty() && t.graph().shape(x).rank() != 0) {
      throw Error(ErrorCode::invalid_argument, "no axes given", "name every axis once");
    }
    return t.graph().transpose(x, axes.value_or(std::vector<std::int64_t>{}));
  }));
}

Value apply_swapaxes(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  const std::int64_t a = t.integer(args[1], "an axis");
  const std::int64_t b = t.integer(args[2], "an axis");
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] {
    const Shape shape = t.graph().shape(x);
    std::vector<std::int64_t> axes(shape.rank());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
    std::swap(axes[ops::normalize_axis(f.name, a, shape)], axes[ops::normalize_axis(f.name, b, shape)]);
    return t.graph().transpose(x, axes);
  }));
}

Value apply_reshape(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  const auto lengths = rest_integers(t, args, "a length of the shape");
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] {
    if (!lengths) throw Error(ErrorCode::invalid_argument, "no shape given", "give the lengths: reshape(x, (2, -1))");
    return t.graph().reshape(x, Shape(*lengths));
  }));
}

Value apply_ravel(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  return t.make_tensor(
      t.at(t.call_span(), title_of(f), [&] { return t.graph().reshape(x, Shape{element_count(t.graph().shape(x))}); }));
}

Value apply_squeeze(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  std::optional<std::vector<std::int64_t>> wanted;
  if (args.has(1)) wanted = t.integers(args[1], "an axis");
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] {
    const Shape shape = t.graph().shape(x);
    std::array<bool, kMaxRank> gone{};
    for (std::size_t axis : ops::normalize_axes(f.name, wanted, shape)) {
      if (shape[axis] == 1) {
        gone[axis] = true;
      } else if (wanted) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("axis {} of shape {} has length {}, not 1", axis, to_string(shape), shape[axis]),
                    "name axes of length 1");
      }
    }
    Shape out;
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      if (!gone[i]) out.push_back(shape[i]);
    }
    return t.graph().reshape(x, out);
  }));
}

Value apply_expand_dims(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  const std::vector<std::int64_t> axes = t.integers(args[1], "an axis");
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] {
    const Shape shape = t.graph().shape(x);
    Shape out;
    for (std::size_t i = 0; i < shape.rank() + axes.size(); ++i) out.push_back(1);
    std::array<bool, kMaxRank> is_new{};
    for (std::size_t axis : ops::normalize_axes(f.name, axes, out)) is_new[axis] = true;
    for (std::size_t i = 0, from = 0; i < out.rank(); ++i) {
      if (!is_new[i]) out[i] = shape[from++];
    }
    return t.graph().reshape(x, out);
  }));
}

Value apply_broadcast_to(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  const Shape shape = t.shape(args[1]);
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] { return t.graph().broadcast_to(x, shape); }));
}

Value apply_flip(Translator& t, const Function& f, const Arguments& args) {
  OpId x = t.tensor(args[0]);
  std::optional<std::vector<std::int64_t>> axes;
  if (args.has(1)) axes = t.integers(args[1], "an axis");
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] {
    for (std::size_t axis : ops::normalize_axes(f.name, axes, t.graph().shape(x))) {
      x = t.graph().slice(x, axis, std::nullopt, std::nullopt, -1);
    }
    return x;
  }));
}

std::vector<OpId> parts_of(Translator& t, const Function& f, const Value& list) {
  std::vector<OpId> out;
  for (const Value& part : t.items(list, "the first argument")) out.push_back(t.tensor(part));
  if (out.empty()) t.fail(list.span, title_of(f), "the list is empty", "give at least one array");
  return out;
}

Value apply_concatenate(Translator& t, const Function& f, const Arguments& args) {
  std::vector<OpId> parts = parts_of(t, f, args[0]);
  const bool flat = args.values[1] != nullptr && args.values[1]->is<None>();
  const std::int64_t axis = args.has(1) ? t.integer(args[1], "axis") : 0;
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] {
    if (flat) {
      for (OpId& part : parts) part = t.graph().reshape(part, Shape{element_count(t.graph().shape(part))});
    }
    return t.graph().concat(parts, axis);
  }));
}

Value apply_stack(Translator& t, const Function& f, const Arguments& args) {
  std::vector<OpId> parts = parts_of(t, f, args[0]);
  const std::int64_t axis = args.has(1) ? t.integer(args[1], "axis") : 0;
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] {
    const Shape first = t.graph().shape(parts.front());
    Shape whole = first;
    whole.push_back(1);
    const std::size_t at = ops::normalize_axis(f.name, axis, whole);
    for (OpId& part : parts) {
      const Shape& shape = t.graph().shape(part);
      if (shape != first) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("shapes {} and {} differ", to_string(first), to_string(shape)),
                    "give arrays of one shape, or use concatenate");
      }
      part = t.graph().expand_dims(part, at);
    }
    return t.graph().concat(parts, static_cast<std::int64_t>(at));
  }));
}

// -- making
// ------------------------------------------------------------------------------------------------------------

Value apply_arange(Translator& t, const Function& f, const Arguments& args) {
  Scalar start = 0;
  Scalar stop = t.scalar(args[0], "the end");
  if (args.has(1)) {
    start = stop;
    stop = t.scalar(args[1], "the end");
  }
  const Scalar step = args.has(2) ? t.scalar(args[2], "the step") : Scalar(1);
  const bool has_float = is_float(start) || is_float(stop) || is_float(step);
  DType dtype = has_float ? DType::f32 : DType::i32;
  if (args.has(3)) dtype = t.dtype(args[3]);
  if (dtype == DType::bool_) t.fail(args[3].span, title_of(f), "a range of bools", "compare an integer range instead");
  return t.make_tensor(t.at(t.call_span(), title_of(f), [&] {
    if (!is_float(dtype)) {
      ops::promote(dtype, start);
      ops::promote(dtype, stop);
      ops::promote(dtype, step);
    }
    return t.graph().arange(start, stop, step, dtype);
  }));
}

OpId make_full(Translator& t, const Function& f, const Shape& shape, const Value& value, std::optional<DType> dtype) {
  const Scalar* number = value.get_if<Scalar>();
  if (number == nullptr) {
    const OpId x = t.tensor(value);
    return t.at(t.call_span(), title_of(f),
                [&] { return t.graph().broadcast_to(t.graph().cast(x, dtype.value_or(t.graph().dtype(x))), shape); });
  }
  return t.at(t.call_span(), title_of(f), [&] {
    const DType of = dtype ? *dtype : default_dtype(*number);
    if (!is_float(of) && of != DType::bool_ && !is_float(*number)) ops::promote(of, *number);  // refuses what won't fit
    Scalar stored = *number;
    if (of == DType::bool_) stored = to_double(*number) != 0;
    if (is_integer(of) && is_float(*number)) {
      const double d = std::trunc(to_double(*number));
      if (!(std::fabs(d) < 9.2e18)) {
        throw Error(ErrorCode::out_of_range, fmt::format("{} does not fit {}", d, weft::to_string(of)),
                    "give a smaller number, or another dtype");
      }
      stored = static_cast<std::int64_t>(d);
      ops::promote(of, stored);
    }
    return t.graph().full(shape, stored, of);
  });
}

Value apply_full(Translator& t, const Function& f, const Arguments& args) {
  std::optional<DType> dtype;
  if (args.has(2)) dtype = t.dtype(args[2]);
  return t.make_tensor(make_full(t, f, t.shape(args[0]), args[1], dtype));
}

/// zeros and ones: code is the value.
Value apply_filled(Translator& t, const Function& f, const Arguments& args) {
  const DType dtype = args.has(1) ? t.dtype(args[1]) : DType::f32;
  return t.make_tensor(make_full(t, f, t.shape(args[0]), t.make(Scalar(f.code)), dtype));
}

Value apply_filled_like(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  const DType dtype = args.has(1) ? t.dtype(args[1]) : t.graph().dtype(x);
  return t.make_tensor(make_full(t, f, t.graph().shape(x), t.make(Scalar(f.code)), dtype));
}

Value apply_full_like(Translator& t, const Function& f, const Arguments& args) {
  const OpId x = t.tensor(args[0]);
  const DType dtype = args.has(2) ? t.dtype(args[2]) : t.graph().dtype(x);
  return t.make_tensor(make_full(t, f, t.graph().shape(x), args[1], dtype));
}

/// As numpy computes it, in float64 on the host: the ends are exact.
Value apply_linspace(Translator& t, const Function& f, const Arguments& args) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  const double start = t.number(args[0], "the start");
  const double stop = t.number(args[1], "the end");
  const std::int64_t count = args.has(2) ? t.integer(args[2], "num") : 50;
  if (count < 0 || count > kMost) {
    t.fail(args[2].span, title_of(f), fmt::format("num is {}", count), fmt::format("use 0 to {}", kMost),
           ErrorCode::out_of_range);
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(start + static_cast<double>(i) * step);
  if (count > 1) values.back() = static_cast<float>(stop);
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return t.make_tensor(t.graph().constant(std::move(bytes), {count}, DType::f32));
}

Value apply_array(Translator& t, const Function&, const Arguments& args) {
  return t.make_tensor(args.has(1) ? t.tensor(args[0], t.dtype(args[1])) : t.tensor(args[0]));
}

// -- on the host
// -------------------------------------------------------------------------------------------------------

Value apply_len(Translator& t, const Function& f, const Arguments& args) {
  if (const Sequence* s = args[0].get_if<Sequence>()) return t.make(Scalar(static_cast<std::int64_t>(s->items.size())));
  const Shape& shape = t.graph().shape(t.tensor(args[0]));
  if (shape.rank() == 0) t.fail(args[0].span, title_of(f), "a single number has no length", "use x.size");
  return t.make(Scalar(shape[0]));
}

/// shape, ndim, size as functions: code counts them.
Value apply_property(Translator& t, const Function& f, const Arguments& args) {
  const Shape shape = t.graph().shape(t.tensor(args[0]));
  if (f.name == "ndim") return t.make(Scalar(static_cast<std::int64_t>(shape.rank())));
  if (f.name == "size") return t.make(Scalar(element_count(shape)));
  Sequence out;
  for (std::int64_t n : shape) out.items.push_back(t.make(Scalar(n)));
  return t.make(std::move(out));
}

Value apply_take(Translator& t, const Function& f, const Arguments& args) {
  OpId x = t.tensor(args[0]);
  std::size_t axis = 0;
  if (args.has(2)) {
    const std::int64_t wanted = t.integer(args[2], "axis");
    axis = t.at(t.call_span(), title_of(f), [&] { return ops::normalize_axis(f.name, wanted, t.graph().shape(x)); });
  } else {
    x = t.at(t.call_span(), title_of(f),
             [&] { return t.graph().reshape(x, Shape{element_count(t.graph().shape(x))}); });
  }
  return t.make_tensor(t.take(x, axis, args[1]));
}

constexpr auto kFunctions = std::to_array<Function>({
    {"abs", "x", apply_unary, code_of(U::abs)},
    {"absolute", "x", apply_unary, code_of(U::abs)},
    {"add", "a, b", apply_binary, code_of(B::add)},
    {"all", "x, axis=, keepdims=", apply_reduce, code_of(R::all), true},
    {"amax", "x, axis=, keepdims=", apply_reduce, code_of(R::max)},
    {"amin", "x, axis=, keepdims=", apply_reduce, code_of(R::min)},
    {"any", "x, axis=, keepdims=", apply_reduce, code_of(R::any), true},
    {"arange", "start, stop=, step=, dtype=", apply_arange},
    {"arctan2", "a, b", apply_binary, code_of(B::atan2)},
    {"argmax", "x, axis=, keepdims=", apply_reduce, code_of(R::argmax), true},
    {"argmin", "x, axis=, keepdims=", apply_reduce, code_of(R::argmin), true},
    {"array", "values, dtype=", apply_array},
    {"asarray", "values, dtype=", apply_array},
    {"astype", "x, dtype", apply_cast, 0, true},
    {"atan2", "a, b", apply_binary, code_of(B::atan2)},
    {"bitwise_and", "a, b", apply_binary, code_of(B::bit_and)},
    {"bitwise_not", "x", apply_unary, code_of(U::invert)},
    {"bitwise_or", "a, b", apply_binary, code_of(B::bit_or)},
    {"bitwise_xor", "a, b", apply_binary, code_of(B::bit_xor)},
    {"bool", "x", apply_number, code_of(DType::bool_)},
    {"broadcast_to", "x, shape", apply_broadcast_to},
    {"cast", "x, dtype", apply_cast},
    {"ceil", "x", apply_unary, code_of(U::ceil)},
    {"clamp", "x, min=, max=", apply_clip, 0, true},
    {"clip", "x, min=, max=", apply_clip, 0, true},
    {"concat", "arrays, axis=", apply_concatenate},
    {"concatenate", "arrays, axis=", apply_concatenate},
    {"cos", "x", apply_unary, code_of(U::cos)},
    {"divide", "a, b", apply_binary, code_of(B::divide)},
    {"dot", "a, b", apply_matmul, 0, true},
    {"equal", "a, b", apply_binary, code_of(B::equal)},
    {"erf", "x", apply_unary, code_of(U::erf)},
    {"exp", "x", apply_unary, code_of(U::exp)},
    {"exp2", "x", apply_unary, code_of(U::exp2)},
    {"expand_dims", "x, axis", apply_expand_dims},
    {"expm1", "x", apply_unary, code_of(U::expm1)},
    {"flatten", "x", apply_ravel, 0, true},
    {"flip", "x, axis=", apply_flip},
    {"float", "x", apply_number, code_of(DType::f32)},
    {"floor", "x", apply_unary, code_of(U::floor)},
    {"floor_divide", "a, b", apply_binary, code_of(B::floor_divide)},
    {"fmod", "a, b", apply_binary, code_of(B::fmod)},
    {"full", "shape, value, dtype=", apply_full},
    {"full_like", "x, value, dtype=", apply_full_like},
    {"gelu", "x, approximate=", apply_gelu},
    {"greater", "a, b", apply_binary, code_of(B::greater)},
    {"greater_equal", "a, b", apply_binary, code_of(B::greater_equal)},
    {"int", "x", apply_number, code_of(DType::i32)},
    {"invert", "x", apply_unary, code_of(U::invert)},
    {"isfinite", "x", apply_unary, code_of(U::isfinite)},
    {"isinf", "x", apply_unary, code_of(U::isinf)},
    {"isnan", "x", apply_unary, code_of(U::isnan)},
    {"layer_norm", "x, weight=, bias=, eps=, axis=", apply_layer_norm},
    {"layernorm", "x, weight=, bias=, eps=, axis=", apply_layer_norm},
    {"left_shift", "a, b", apply_binary, code_of(B::shift_left)},
    {"len", "x", apply_len},
    {"less", "a, b", apply_binary, code_of(B::less)},
    {"less_equal", "a, b", apply_binary, code_of(B::less_equal)},
    {"linspace", "start, stop, num=", apply_linspace},
    {"log", "x", apply_unary, code_of(U::log)},
    {"log1p", "x", apply_unary, code_of(U::log1p)},
    {"log2", "x", apply_unary, code_of(U::log2)},
    {"log_softmax", "x, axis=", apply_softmax, code_of(OpKind::log_softmax)},
    {"logical_and", "a, b", apply_logical, code_of(B::bit_and)},
    {"logical_not", "x", apply_unary, code_of(U::logical_not)},
    {"logical_or", "a, b", apply_logical, code_of(B::bit_or)},
    {"logical_xor", "a, b", apply_logical, code_of(B::bit_xor)},
    {"matmul", "a, b", apply_matmul},
    {"max", "x, axis=, keepdims=", apply_reduce, code_of(R::max), true},
    {"maximum", "a, b", apply_binary, code_of(B::maximum)},
    {"mean", "x, axis=, keepdims=", apply_reduce, code_of(R::mean), true},
    {"min", "x, axis=, keepdims=", apply_reduce, code_of(R::min), true},
    {"minimum", "a, b", apply_binary, code_of(B::minimum)},
    {"mod", "a, b", apply_binary, code_of(B::remainder)},
    {"multiply", "a, b", apply_binary, code_of(B::multiply)},
    {"ndim", "x", apply_property},
    {"negative", "x", apply_unary, code_of(U::negative)},
    {"not_equal", "a, b", apply_binary, code_of(B::not_equal)},
    {"ones", "shape, dtype=", apply_filled, 1},
    {"ones_like", "x, dtype=", apply_filled_like, 1},
    {"positive", "x", apply_unary, code_of(U::positive)},
    {"pow", "a, b", apply_binary, code_of(B::power)},
    {"power", "a, b", apply_binary, code_of(B::power)},
    {"prod", "x, axis=, keepdims=", apply_reduce, code_of(R::prod), true},
    {"ravel", "x", apply_ravel, 0, true},
    {"reciprocal", "x", apply_unary, code_of(U::reciprocal)},
    {"relu", "x", apply_unary, code_of(U::relu)},
    {"remainder", "a, b", apply_binary, code_of(B::remainder)},
    {"reshape", "x, *shape", apply_reshape, 0, true},
    {"right_shift", "a, b", apply_binary, code_of(B::shift_right)},
    {"rint", "x", apply_unary, code_of(U::round)},
    {"round", "x, decimals=", apply_round, 0, true},
    {"rsqrt", "x", apply_unary, code_of(U::rsqrt)},
    {"shape", "x", apply_property},
    {"sigmoid", "x", apply_unary, code_of(U::sigmoid)},
    {"sign", "x", apply_unary, code_of(U::sign)},
    {"silu", "x", apply_unary, code_of(U::silu)},
    {"sin", "x", apply_unary, code_of(U::sin)},
    {"size", "x", apply_property},
    {"softmax", "x, axis=", apply_softmax, code_of(OpKind::softmax)},
    {"sqrt", "x", apply_unary, code_of(U::sqrt)},
    {"square", "x", apply_unary, code_of(U::square)},
    {"squeeze", "x, axis=", apply_squeeze, 0, true},
    {"stack", "arrays, axis=", apply_stack},
    {"subtract", "a, b", apply_binary, code_of(B::subtract)},
    {"sum", "x, axis=, keepdims=", apply_reduce, code_of(R::sum), true},
    {"swapaxes", "x, axis1, axis2", apply_swapaxes, 0, true},
    {"take", "x, indices, axis=", apply_take, 0, true},
    {"tan", "x", apply_unary, code_of(U::tan)},
    {"tanh", "x", apply_unary, code_of(U::tanh)},
    {"transpose", "x, *axes", apply_transpose, 0, true},
    {"true_divide", "a, b", apply_binary, code_of(B::divide)},
    {"trunc", "x", apply_unary, code_of(U::trunc)},
    {"where", "condition, a, b", apply_where},
    {"zeros", "shape, dtype=", apply_filled, 0},
    {"zeros_like", "x, dtype=", apply_filled_like, 0},
});

constexpr auto kConstantNames = std::to_array<std::string_view>(
    {"pi", "e", "inf", "nan", "newaxis", "float32", "float16", "int32", "uint32", "bool_", "f32", "f16", "i32", "u32"});

constexpr auto kWideTypes = std::to_array<std::string_view>(
    {"float64", "int64", "uint64", "int8", "uint8", "int16", "uint16", "complex64", "complex128"});

}  // namespace

const Function* find_function(std::string_view name) noexcept {
  const std::span<const Function> all = functions();
  const auto it =
      std::lower_bound(all.begin(), all.end(), name, [](const Function& f, std::string_view n) { return f.name < n; });
  return it != all.end() && it->name == name ? &*it : nullptr;
}

std::span<const Function> functions() noexcept {
  static const std::vector<Function> all = [] {
    std::vector<Function> both(kFunctions.begin(), kFunctions.end());
    both.insert(both.end(), library_functions().begin(), library_functions().end());
    std::sort(both.begin(), both.end(), [](const Function& a, const Function& b) { return a.name < b.name; });
    return both;
  }();
  return all;
}

std::span<const std::string_view> constant_names() noexcept {
  return kConstantNames;
}

bool is_constant(std::string_view name) noexcept {
  const auto has = [&](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  return has(kConstantNames) || has(kWideTypes);
}

std::optional<Value::Data> find_constant(std::string_view name) {
  if (!is_constant(name)) return std::nullopt;
  if (name == "pi") return Scalar(std::numbers::pi);
  if (name == "e") return Scalar(std::numbers::e);
  if (name == "inf") return Scalar(std::numeric_limits<double>::infinity());
  if (name == "nan") return Scalar(std::numeric_limits<double>::quiet_NaN());
  if (name == "newaxis") return None{};
  if (name == "bool_") return DType::bool_;
  if (const auto dtype = parse_dtype(name)) return *dtype;
  throw Error(ErrorCode::unsupported, fmt::format("devices do not compute with {}", name),
              name.starts_with("float") || name.starts_with("complex") ? "use float32" : "use int32");
}

}  // namespace weft::expr
