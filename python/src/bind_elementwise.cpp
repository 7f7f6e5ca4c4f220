// Elementwise functions, under the names of the array API standard, else numpy's.
#include "weft_python.h"

namespace weft::python {
namespace {

constexpr std::pair<UnaryOp, const char*> kUnary[] = {
    {UnaryOp::negative, "negative"},
    {UnaryOp::positive, "positive"},
    {UnaryOp::abs, "abs"},
    {UnaryOp::sign, "sign"},
    {UnaryOp::invert, "bitwise_invert"},
    {UnaryOp::logical_not, "logical_not"},
    {UnaryOp::exp, "exp"},
    {UnaryOp::expm1, "expm1"},
    {UnaryOp::exp2, "exp2"},
    {UnaryOp::log, "log"},
    {UnaryOp::log1p, "log1p"},
    {UnaryOp::log2, "log2"},
    {UnaryOp::sqrt, "sqrt"},
    {UnaryOp::rsqrt, "rsqrt"},
    {UnaryOp::square, "square"},
    {UnaryOp::reciprocal, "reciprocal"},
    {UnaryOp::sin, "sin"},
    {UnaryOp::cos, "cos"},
    {UnaryOp::tan, "tan"},
    {UnaryOp::tanh, "tanh"},
    {UnaryOp::sigmoid, "sigmoid"},
    {UnaryOp::relu, "relu"},
    {UnaryOp::gelu, "_gelu"},
    {UnaryOp::gelu_tanh, "_gelu_tanh"},
    {UnaryOp::silu, "silu"},
    {UnaryOp::erf, "erf"},
    {UnaryOp::floor, "floor"},
    {UnaryOp::ceil, "ceil"},
    {UnaryOp::round, "round"},
    {UnaryOp::trunc, "trunc"},
    {UnaryOp::isnan, "isnan"},
    {UnaryOp::isinf, "isinf"},
    {UnaryOp::isfinite, "isfinite"},
};

constexpr std::pair<BinaryOp, const char*> kBinary[] = {
    {BinaryOp::add, "add"},
    {BinaryOp::subtract, "subtract"},
    {BinaryOp::multiply, "multiply"},
    {BinaryOp::divide, "divide"},
    {BinaryOp::floor_divide, "floor_divide"},
    {BinaryOp::remainder, "remainder"},
    {BinaryOp::power, "pow"},
    {BinaryOp::minimum, "minimum"},
    {BinaryOp::maximum, "maximum"},
    {BinaryOp::equal, "equal"},
    {BinaryOp::not_equal, "not_equal"},
    {BinaryOp::less, "less"},
    {BinaryOp::less_equal, "less_equal"},
    {BinaryOp::greater, "greater"},
    {BinaryOp::greater_equal, "greater_equal"},
    {BinaryOp::bit_and, "bitwise_and"},
    {BinaryOp::bit_or, "bitwise_or"},
    {BinaryOp::bit_xor, "bitwise_xor"},
    {BinaryOp::shift_left, "bitwise_left_shift"},
    {BinaryOp::shift_right, "bitwise_right_shift"},
    {BinaryOp::atan2, "atan2"},
    {BinaryOp::fmod, "fmod"},
};

/// At least one operand is an array; two numbers become one of no axes.
Array apply(BinaryOp op, OperandLike left, OperandLike right) {
  const Operand a = to_operand(left);
  const Operand b = to_operand(right);
  if (std::holds_alternative<Scalar>(a) && std::holds_alternative<Scalar>(b)) {
    const Device device = default_device();
    return record([&] {
      return std::visit([&](const auto& y) { return binary(op, to_tensor(a, device, std::nullopt), y); }, b);
    });
  }
  return record([&] {
    return std::visit(
        [&](const auto& x, const auto& y) -> Tensor {
          if constexpr (std::is_same_v<decltype(x), const Scalar&> && std::is_same_v<decltype(y), const Scalar&>) {
            return {};
          } else {
            return binary(op, x, y);
          }
        },
        a, b);
  });
}

const Tensor* tensor_of(const Operand& o) {
  return std::get_if<Tensor>(&o);
}

Array where_any(ArrayLike condition, OperandLike left, OperandLike right) {
  const Tensor c = to_tensor(condition);
  const Operand a = to_operand(left);
  const Operand b = to_operand(right);
  return record([&] {
    const Tensor* ta = tensor_of(a);
    const Tensor* tb = tensor_of(b);
    const auto dtype_of_other = [](const Tensor* t) { return t ? std::optional(t->dtype()) : std::nullopt; };
    const Tensor x = to_tensor(a, c.device(), dtype_of_other(tb));
    return where(c, x, to_tensor(b, c.device(), ta || tb ? dtype_of_other(ta) : std::optional(x.dtype())));
  });
}

Array clip(ArrayLike x, nb::handle low, nb::handle high) {
  const Tensor t = to_tensor(x);
  const auto bound = [](nb::handle h) {
    return h.is_none() ? std::nullopt : std::optional(to_operand(OperandLike{h}));
  };
  const std::optional<Operand> a = bound(low);
  const std::optional<Operand> b = bound(high);
  return record([&] {
    Tensor out = t;
    const auto narrow = [&](const std::optional<Operand>& o, BinaryOp op) {
      if (o) out = std::visit([&](const auto& v) { return binary(op, out, v); }, *o);
    };
    if (a && b && std::holds_alternative<Scalar>(*a) && std::holds_alternative<Scalar>(*b)) {
      return clamp(t, std::get<Scalar>(*a), std::get<Scalar>(*b));
    }
    narrow(a, BinaryOp::maximum);
    narrow(b, BinaryOp::minimum);
    return out;
  });
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  for (const auto& [op, name] : kUnary) {
    m.def(
        name,
        [op = op](ArrayLike x) {
          const Tensor t = to_tensor(x);
          return record([&] { return unary(op, t); });
        },
        nb::arg("x"));
  }
  for (const auto& [op, name] : kBinary) {
    m.def(name, [op = op](OperandLike a, OperandLike b) { return apply(op, a, b); }, nb::arg("x1"), nb::arg("x2"));
  }
  m.def("where", &where_any, nb::arg("condition"), nb::arg("x1"), nb::arg("x2"),
        "Elements of x1 where condition holds, else of x2.");
  m.def("clip", &clip, nb::arg("x"), nb::arg("min") = nb::none(), nb::arg("max") = nb::none(),
        nb::sig("def clip(x: weft._types.ArrayLike, min: weft._types.ArrayLike | None = None, max: "
                "weft._types.ArrayLike | None = None) -> Array"),
        "min(max(x, min), max); NaN stays.");
  m.def(
      "_astype",
      [](ArrayLike x, DTypeLike dtype) {
        const Tensor t = to_tensor(x);
        const DType wanted = to_dtype(dtype);
        return record([&] { return cast(t, wanted); });
      },
      nb::arg("x"), nb::arg("dtype"));
}

}  // namespace weft::python
