// Elementwise functions, under the names of the array API standard, else numpy's.
#include "lazy.h"
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

/// Two numbers become an array of no axes.
Array apply(BinaryOp op, OperandLike left, OperandLike right) {
  const auto beside = device_beside({left.given, right.given});
  ElementOperand a = to_element(left, beside);
  const ElementOperand b = to_element(right, beside);
  if (a.is_number() && b.is_number()) a = number_array(a, default_device(), std::nullopt);
  return element_binary(op, a, b);
}

Array where_any(ArrayLike condition, OperandLike left, OperandLike right) {
  const auto beside = device_beside({condition.given, left.given, right.given});
  const ElementOperand c = to_element(condition, beside);
  ElementOperand a = to_element(left, beside);
  ElementOperand b = to_element(right, beside);
  const Device& device = c.device();
  const auto dtype_of_other = [](const ElementOperand& o) {
    return o.is_number() ? std::nullopt : std::optional(o.dtype());
  };
  const bool numbers = a.is_number() && b.is_number();
  if (a.is_number()) a = number_array(a, device, dtype_of_other(b));
  if (b.is_number()) b = number_array(b, device, numbers ? std::optional(a.dtype()) : dtype_of_other(a));
  return element_where(c, a, b);
}

Array clip(ArrayLike x, nb::handle low, nb::handle high) {
  const auto beside = device_beside({x.given, low, high});
  const ElementOperand given = to_element(x, beside);
  const auto bound = [&](nb::handle h) {
    return h.is_none() ? std::nullopt : std::optional(to_element(OperandLike{h}, beside));
  };
  const std::optional<ElementOperand> a = bound(low);
  const std::optional<ElementOperand> b = bound(high);
  // numpy's numbers have dtypes, in which all three meet.
  std::optional<Array> met;
  for (const auto* o : {&a, &b}) {
    const ElementOperand& now = met ? element(*met) : given;
    if (*o && meeting(now.dtype(), **o) != now.dtype()) met.emplace(element_cast(now, meeting(now.dtype(), **o)));
  }
  const ElementOperand& out = met ? element(*met) : given;
  if (a && b && a->is_number() && b->is_number() && !a->is_huge() && !b->is_huge())
    return element_clamp(out, a->number(), b->number());
  if (!a && !b) return Array(Tensor(out.tensor()));
  if (!a) return element_binary(BinaryOp::minimum, out, *b);
  if (!b) return element_binary(BinaryOp::maximum, out, *a);
  const Array raised = element_binary(BinaryOp::maximum, out, *a);
  return element_binary(BinaryOp::minimum, element(raised), *b);
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  for (const auto& [op, name] : kUnary) {
    m.def(
        name, [op = op](ArrayLike x) { return element_unary(op, to_element(x)); }, nb::arg("x"),
        op_doc(to_string(op)).c_str());
  }
  for (const auto& [op, name] : kBinary) {
    m.def(
        name, [op = op](OperandLike a, OperandLike b) { return apply(op, a, b); }, nb::arg("x1"), nb::arg("x2"),
        op_doc(to_string(op)).c_str());
  }
  m.def("where", &where_any, nb::arg("condition"), nb::arg("x1"), nb::arg("x2"),
        "Elements of x1 where condition holds, else of x2.");
  m.def("clip", &clip, nb::arg("x"), nb::arg("min") = nb::none(), nb::arg("max") = nb::none(),
        nb::sig("def clip(x: weft._types.ArrayLike, min: weft._types.ArrayLike | None = None, max: "
                "weft._types.ArrayLike | None = None) -> Array"),
        "min(max(x, min), max); NaN stays.");
  m.def(
      "_astype", [](ArrayLike x, DTypeLike dtype) { return element_cast(to_element(x), to_dtype(dtype)); },
      nb::arg("x"), nb::arg("dtype"));
}

}  // namespace weft::python
