#include "ops/element_codegen.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "ops/element_math.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

using Kind = ElementNode::Kind;

[[noreturn]] void no_code(std::string_view op, DType dtype) {
  throw Error(ErrorCode::internal, fmt::format("no code for {} of {}", op, to_string(dtype)), "report this");
}

/// The type of four values of a dtype in registers. f16 travels as f32 and is rounded after each operation.
std::string_view vector_of(DType t) {
  switch (t) {
    case DType::bool_: return "vec4<bool>";
    case DType::i32: return "vec4i";
    case DType::u32: return "vec4u";
    default: return "vec4f";
  }
}

/// The type of one element in memory.
std::string_view stored_as(DType t) {
  switch (t) {
    case DType::i32: return "i32";
    case DType::f16: return "f16";
    case DType::f32: return "f32";
    default: return "u32";
  }
}

char letter_of(DType t) {
  return "bijhf"[static_cast<int>(t)];
}

bool by_coordinates(Access a) {
  return a == Access::strided || a == Access::row_quad || a == Access::row_single || a == Access::row_any;
}

/// Params, in the order in which they are declared and passed.
struct Fields {
  bool count = false, shift = false, zero = false, first = false, lengths = false, out_strides = false;
};

/// Writes the text of one kernel.
class Writer {
 public:
  Writer(const ElementSlice& program, const ElementForm& form) : program_(program), form_(form) {}

  std::string source() {
    std::string body = values();
    const std::string store = write();
    const std::string where = places();
    std::string text = bindings() + params();
    text += math_.source();
    if (unpacks_) text += kUnpack;
    text += fmt::format(
        "@compute @workgroup_size({}) fn main(@builtin(global_invocation_id) id: vec3u) {{\n"
        "  let q = linear_index(id);\n  if (q >= params.quads) {{ return; }}\n",
        kElementGroup);
    return text + where + body + store + "}\n";
  }

 private:
  static constexpr std::string_view kUnpack =
      "fn bools(word: u32) -> vec4<bool> {\n"
      "  return ((vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu)) != vec4u(0u);\n}\n";

  std::string_view need(std::string_view function) {
    math_.need(function);
    return function;
  }

  // -- conversions ----------------------------------------------------------------------------------------------------

  std::string convert(const std::string& x, DType from, DType to) {
    if (from == to) return x;
    if (to == DType::f16) {
      return from == DType::bool_ ? convert(x, from, DType::f32)
                                  : fmt::format("{}({})", need("to_f16"), convert(x, from, DType::f32));
    }
    const std::string_view type = vector_of(to);
    if (from == DType::bool_) {
      return fmt::format("bitcast<{}>({}({}, {}u))", type, need("chosen"), x, is_float(to) ? "0x3f800000" : "1");
    }
    const bool real = is_float(from);
    switch (to) {
      case DType::bool_:
        return real ? fmt::format("({}({}) != vec4u(0u))", need("mag"), x)
                    : fmt::format("({} != {}(0))", x, vector_of(from));
      case DType::i32:
      case DType::u32:
        return real ? fmt::format("{}({})", need(to == DType::i32 ? "to_i32" : "to_u32"), x)
                    : fmt::format("bitcast<{}>({})", type, x);
      default: return real ? x : fmt::format("vec4f({})", x);
    }
  }

  std::string call(std::string_view function, const std::string& a) { return fmt::format("{}({})", need(function), a); }
  std::string call(std::string_view function, const std::string& a, const std::string& b) {
    return fmt::format("{}({}, {})", need(function), a, b);
  }

  // -- operations -----------------------------------------------------------------------------------------------------

  struct Value {
    std::string text;
    DType dtype;
  };

  Value unary(UnaryOp op, const std::string& x, DType t) {
    const bool real = is_float(t);
    const bool whole = is_integer(t);
    const std::string_view type = vector_of(t);
    switch (op) {
      case UnaryOp::positive: return {x, t};
      case UnaryOp::negative:
        if (real) return {fmt::format("bitcast<vec4f>(bitcast<vec4u>({}) ^ vec4u(0x80000000u))", x), t};
        if (whole) return {fmt::format("({}(0) - {})", type, x), t};
        break;
      case UnaryOp::abs:
        if (real) return {fmt::format("bitcast<vec4f>({})", call("mag", x)), t};
        if (t == DType::i32) return {fmt::format("select({0}, vec4i(0) - {0}, {0} < vec4i(0))", x), t};
        return {x, t};
      case UnaryOp::sign:
        if (real) return {call("f_sign", x), t};
        if (t == DType::i32) return {fmt::format("clamp({}, vec4i(-1), vec4i(1))", x), t};
        if (t == DType::u32) return {fmt::format("min({}, vec4u(1u))", x), t};
        break;
      case UnaryOp::invert:
        if (whole) return {fmt::format("(~{})", x), t};
        if (t == DType::bool_) return {fmt::format("(!{})", x), t};
        break;
      case UnaryOp::logical_not: return {fmt::format("(!{})", convert(x, t, DType::bool_)), DType::bool_};
      case UnaryOp::relu:
        if (real) return {call("f_relu", x), t};
        if (t == DType::i32) return {fmt::format("max({}, vec4i(0))", x), t};
        return {x, t};
      case UnaryOp::square:
        if (t == DType::bool_) return {x, t};
        return {fmt::format("({0} * {0})", x), t};
      case UnaryOp::reciprocal:
        if (real) return {call("f_reciprocal", x), t};
        if (t == DType::i32) return {call("i_reciprocal", x), t};
        if (t == DType::u32) return {fmt::format("select(vec4u(0u), {0}, {0} == vec4u(1u))", x), t};
        break;
      case UnaryOp::floor:
      case UnaryOp::ceil:
      case UnaryOp::round:
      case UnaryOp::trunc:
        if (!real) return {x, t};
        {
          std::string rounded = fmt::format("{}({})", to_string(op), x);
          if (op == UnaryOp::floor || op == UnaryOp::ceil) {
            rounded =
                fmt::format("{}({}, {}, {})", need("past_denormals"), rounded, x, op == UnaryOp::ceil ? "1.0" : "-1.0");
          }
          return {call("keep_sign", rounded, x), t};
        }
      case UnaryOp::isnan:
        if (real) return {call("is_nan", x), DType::bool_};
        return {"vec4<bool>(false)", DType::bool_};
      case UnaryOp::isinf:
        if (real) return {fmt::format("({} == vec4u(0x7f800000u))", call("mag", x)), DType::bool_};
        return {"vec4<bool>(false)", DType::bool_};
      case UnaryOp::isfinite:
        if (real) return {fmt::format("({} < vec4u(0x7f800000u))", call("mag", x)), DType::bool_};
        return {"vec4<bool>(true)", DType::bool_};
      default:
        if (real) return {call(fmt::format("f_{}", to_string(op)), x), t};
    }
    no_code(to_string(op), t);
  }

  Value compare(std::string_view sign, const std::string& a, const std::string& b) {
    return {fmt::format("({} {} {})", a, sign, b), DType::bool_};
  }

  Value binary(BinaryOp op, const std::string& a, const std::string& b, DType t) {
    const bool real = is_float(t);
    const bool whole = is_integer(t);
    const bool truth = t == DType::bool_;
    const auto function = [&](std::string_view name) -> Value {
      if (truth) no_code(to_string(op), t);
      return {call(fmt::format("{}_{}", real ? 'f' : t == DType::i32 ? 'i' : 'u', name), a, b), t};
    };
    const auto infix = [&](std::string_view sign) -> Value { return {fmt::format("({} {} {})", a, sign, b), t}; };
    switch (op) {
      case BinaryOp::add:
        if (!truth) return infix("+");
        return infix("|");
      case BinaryOp::subtract:
        if (truth) break;
        if (real && a == b) return {call("difference_of_same", a), t};
        return infix("-");
      case BinaryOp::multiply:
        if (!truth) return infix("*");
        return infix("&");
      case BinaryOp::divide:
        if (real) return function("divide");
        break;
      case BinaryOp::floor_divide: return function("floor_divide");
      case BinaryOp::remainder: return function("remainder");
      case BinaryOp::power: return function("power");
      case BinaryOp::fmod: return t == DType::u32 ? function("remainder") : function("fmod");
      case BinaryOp::atan2:
        if (real) return function("atan2");
        break;
      case BinaryOp::minimum:
        if (real) return function("minimum");
        if (whole) return {fmt::format("min({}, {})", a, b), t};
        return infix("&");
      case BinaryOp::maximum:
        if (real) return function("maximum");
        if (whole) return {fmt::format("max({}, {})", a, b), t};
        return infix("|");
      case BinaryOp::equal:
        if (real) return {call("f_equal", a, b), DType::bool_};
        return compare("==", a, b);
      case BinaryOp::not_equal:
        if (real) return {fmt::format("(!{})", call("f_equal", a, b)), DType::bool_};
        return compare("!=", a, b);
      case BinaryOp::less:
        if (real) return {call("f_less", a, b), DType::bool_};
        if (whole) return compare("<", a, b);
        return {fmt::format("((!{}) & {})", a, b), DType::bool_};
      case BinaryOp::less_equal:
        if (real) return {call("f_less_equal", a, b), DType::bool_};
        if (whole) return compare("<=", a, b);
        return {fmt::format("((!{}) | {})", a, b), DType::bool_};
      case BinaryOp::greater: return binary(BinaryOp::less, b, a, t);
      case BinaryOp::greater_equal: return binary(BinaryOp::less_equal, b, a, t);
      case BinaryOp::bit_and:
        if (!real) return infix("&");
        break;
      case BinaryOp::bit_or:
        if (!real) return infix("|");
        break;
      case BinaryOp::bit_xor:
        if (truth) return compare("!=", a, b);
        if (whole) return infix("^");
        break;
      case BinaryOp::shift_left:
      case BinaryOp::shift_right:
        if (whole) return function(op == BinaryOp::shift_left ? "shift_left" : "shift_right");
        break;
    }
    no_code(to_string(op), t);
  }

  // -- nodes ----------------------------------------------------------------------------------------------------------

  const ElementNode& node(std::int32_t i) const { return program_.nodes[static_cast<std::size_t>(i)]; }

  bool is_leaf(std::int32_t i) const {
    const Kind kind = node(i).kind;
    return kind == Kind::input || kind == Kind::scalar || kind == Kind::iota;
  }

  std::string operand(std::int32_t i, DType compute) { return convert(fmt::format("v{}", i), node(i).dtype, compute); }

  /// Operands of a sum or difference. Drivers fuse and cancel what they see through, and more of it each year:
  /// products, sums, a negation by bits, a choice or maximum of equals. So what was computed reaches a sum through bits
  /// that no compiler knows, and its two operands by two ways.
  std::pair<std::string, std::string> summands(const ElementNode& n, DType compute) {
    std::string a = operand(n.a, compute);
    std::string b = operand(n.b, compute);
    if (!is_float(compute) || n.a == n.b || (is_leaf(n.a) && is_leaf(n.b))) return {a, b};
    return {is_leaf(n.a) ? a : call("rounded", a), call("apart", b)};
  }

  Value value_of(const ElementNode& n) {
    switch (n.kind) {
      case Kind::input: return {load(static_cast<std::size_t>(n.a)), n.dtype};
      case Kind::scalar: {
        const std::string s = fmt::format("params.s{}", n.a);
        if (n.dtype == DType::bool_) return {fmt::format("vec4<bool>({} != 0u)", s), n.dtype};
        return {fmt::format("{}({})", vector_of(n.dtype), s), n.dtype};
      }
      case Kind::iota: {
        fields_.first = true;
        const std::string index =
            form_.strided_out ? "(o - vec4u(params.out_offset))" : fmt::format("{}", lanes_needed());
        return {fmt::format("bitcast<vec4i>({} + vec4u(params.first))", index), DType::i32};
      }
      case Kind::unary: {
        const DType t = unary_types(n.unary, node(n.a).dtype).compute;
        return unary(n.unary, operand(n.a, t), t);
      }
      case Kind::binary: {
        const DType t = binary_types(n.binary, node(n.a).dtype).compute;
        if (n.binary == BinaryOp::add || n.binary == BinaryOp::subtract) {
          const auto [a, b] = summands(n, t);
          return binary(n.binary, a, b, t);
        }
        return binary(n.binary, operand(n.a, t), operand(n.b, t), t);
      }
      case Kind::where:
        return {fmt::format("select({}, {}, v{})", operand(n.c, n.dtype), operand(n.b, n.dtype), n.a), n.dtype};
      case Kind::cast: return {operand(n.a, n.dtype), n.dtype};
    }
    throw Error(ErrorCode::internal, "an elementwise node of no kind", "report this");
  }

  std::string values() {
    std::string body;
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      const ElementNode& n = program_.nodes[i];
      const Value v = value_of(n);
      body += fmt::format("  let v{} = {};\n", i, convert(v.text, v.dtype, n.dtype));
    }
    return body;
  }

  // -- memory ---------------------------------------------------------------------------------------------------------

  /// The flat indices of the four elements.
  std::string_view lanes_needed() {
    lanes_ = true;
    if (form_.store == Store::edges) fields_.shift = true;
    return "e";
  }
  /// The same, those outside the output replaced by one inside.
  std::string_view safe_lanes_needed() {
    lanes_needed();
    safe_lanes_ = true;
    fields_.count = true;
    return "safe";
  }

  /// Four elements of input k by their indices, a vec4u.
  std::string gather(std::string_view array, DType t, std::string_view index) {
    if (t == DType::bool_) {
      const auto one = [&](char c) {
        return fmt::format("{0}[{1}.{2} >> 2u] >> (({1}.{2} & 3u) * 8u)", array, index, c);
      };
      return fmt::format("((vec4u({}, {}, {}, {}) & vec4u(0xffu)) != vec4u(0u))", one('x'), one('y'), one('z'),
                         one('w'));
    }
    const std::string four = fmt::format("{0}({1}[{2}.x], {1}[{2}.y], {1}[{2}.z], {1}[{2}.w])",
                                         t == DType::f16 ? "vec4<f16>" : vector_of(t), array, index);
    return t == DType::f16 ? fmt::format("vec4f({})", four) : four;
  }

  std::string whole(std::string_view array, DType t, const std::string& index) {
    const std::string quad = fmt::format("{}[{}]", array, index);
    if (t == DType::f16) return fmt::format("vec4f({})", quad);
    if (t != DType::bool_) return quad;
    unpacks_ = true;
    return fmt::format("bools({})", quad);
  }

  std::string one(std::string_view array, DType t, const std::string& index) {
    if (t == DType::bool_) {
      return fmt::format("vec4<bool>((({0}[({1}) >> 2u] >> ((({1}) & 3u) * 8u)) & 0xffu) != 0u)", array, index);
    }
    return t == DType::f16 ? fmt::format("vec4f(f32({}[{}]))", array, index)
                           : fmt::format("{}({}[{}])", vector_of(t), array, index);
  }

  /// offset + the coordinates times the strides of operand `name`, as u32 of a row or vec4u.
  std::string place(std::string_view name, bool row) {
    coordinates_ = true;
    std::string sum = row ? fmt::format("params.{}_offset", name) : fmt::format("vec4u(params.{}_offset)", name);
    for (std::uint32_t axis = 0; axis < form_.rank; ++axis)
      sum += fmt::format(" + c{} * params.{}_t{}", axis, name, axis);
    return sum;
  }

  std::string load(std::size_t k) {
    const DType t = program_.input_dtypes[k];
    const std::string name = fmt::format("in{}", k);
    const std::string offset = fmt::format("params.{}_offset", name);
    switch (form_.inputs[k]) {
      case Access::quad: return whole(name, t, "q + " + offset);
      case Access::quad_at_0: return whole(name, t, "q");
      case Access::single: return one(name, t, offset);
      case Access::element: {
        const std::string_view lanes = safe_lanes_needed();
        extra_ += fmt::format("  let i{} = {} + vec4u({});\n", k, lanes, offset);
        return gather(name, t, fmt::format("i{}", k));
      }
      case Access::strided:
        extra_ += fmt::format("  let i{} = {};\n", k, place(name, false));
        return gather(name, t, fmt::format("i{}", k));
      case Access::row_quad: return whole(name, t, fmt::format("({}) >> 2u", place(name, true)));
      case Access::row_single:
        extra_ += fmt::format("  let i{} = {};\n", k, place(name, true));
        return one(name, t, fmt::format("i{}", k));
      case Access::row_any:
        extra_ += fmt::format("  let i{} = vec4u({}) + vec4u(0u, 1u, 2u, 3u) * params.{}_t{};\n", k, place(name, true),
                              name, form_.rank - 1);
        return gather(name, t, fmt::format("i{}", k));
      case Access::in_place:
        if (form_.store == Store::element) return gather("out", t, "o");
        return whole("out", t, out_quad());
    }
    no_code("an input", t);
  }

  std::string places() {
    std::string text;
    if (form_.store == Store::element) {
      safe_lanes_needed();
      if (form_.strided_out) coordinates_ = true;
    }
    if (coordinates_) {
      fields_.lengths = true;
      if (!form_.rows) safe_lanes_needed();
    }
    if (lanes_) {
      text += fmt::format("  let e = vec4u(q * 4u) + vec4u(0u, 1u, 2u, 3u){};\n",
                          fields_.shift ? " - vec4u(params.shift)" : "");
    }
    // Elements in front of the first have wrapped round to large numbers.
    if (safe_lanes_) text += "  let safe = min(e, vec4u(params.count - 1u));\n";
    if (coordinates_) {
      std::string left = form_.rows ? "(q * 4u)" : "safe";
      for (std::uint32_t axis = form_.rank; axis-- > 1;) {
        const std::string length =
            form_.rows ? fmt::format("params.d{}", axis) : fmt::format("vec4u(params.d{})", axis);
        text += fmt::format("  let r{0} = {1} / {2};\n  let c{0} = {1} - r{0} * {2};\n", axis, left, length);
        left = fmt::format("r{}", axis);
      }
      text += fmt::format("  let c0 = {};\n", left);
    }
    if (form_.store == Store::element) {
      if (form_.strided_out) {
        fields_.out_strides = true;
        const bool row = form_.rows;
        std::string sum = place_out();
        if (row) {
          text += fmt::format("  let o = vec4u({}) + vec4u(0u, 1u, 2u, 3u) * params.out_t{};\n", sum, form_.rank - 1);
        } else {
          text += fmt::format("  let o = {};\n", sum);
        }
      } else {
        text += "  let o = safe + vec4u(params.out_offset);\n";
      }
    }
    return text + extra_;
  }

  std::string place_out() {
    std::string sum = form_.rows ? "params.out_offset" : "vec4u(params.out_offset)";
    for (std::uint32_t axis = 0; axis < form_.rank; ++axis) sum += fmt::format(" + c{} * params.out_t{}", axis, axis);
    return sum;
  }

  std::string out_quad() const { return form_.out_at_0 ? "q" : "q + params.out_offset"; }

  std::string write() {
    const DType t = program_.dtype;
    const std::string v = fmt::format("v{}", program_.nodes.size() - 1);
    std::string text;
    if (t == DType::bool_) {
      text += fmt::format(
          "  let value = dot(select(vec4u(0u), vec4u(1u, 0x100u, 0x10000u, 0x1000000u), {}), vec4u(1u));\n", v);
    } else {
      text += fmt::format("  let value = {};\n", t == DType::f16 ? fmt::format("vec4<f16>({})", v) : v);
    }
    if (form_.store == Store::whole) return text + fmt::format("  out[{}] = value;\n", out_quad());
    fields_.count = true;
    lanes_needed();
    text += "  let mine = e < vec4u(params.count);\n";
    if (form_.store == Store::edges) {
      text += "  let w = q + params.out_offset;\n  if (all(mine)) {\n    out[w] = value;\n  } else {\n";
      if (t == DType::bool_) {
        text +=
            "    let mask = dot(select(vec4u(0u), vec4u(0xffu, 0xff00u, 0xff0000u, 0xff000000u), mine), vec4u(1u));\n"
            "    out[w] = (out[w] & ~mask) | (value & mask);\n";
      } else {
        for (char c : {'x', 'y', 'z', 'w'}) text += fmt::format("    if (mine.{0}) {{ out[w].{0} = value.{0}; }}\n", c);
      }
      return text + "  }\n";
    }
    for (char c : {'x', 'y', 'z', 'w'}) text += fmt::format("  if (mine.{0}) {{ out[o.{0}] = value.{0}; }}\n", c);
    return text;
  }

  std::string array_of(DType t, bool quads) const {
    if (t == DType::bool_) return "array<u32>";
    return quads ? fmt::format("array<vec4<{}>>", stored_as(t)) : fmt::format("array<{}>", stored_as(t));
  }

  std::string bindings() const {
    std::string text;
    for (std::size_t k = 0; k < form_.inputs.size(); ++k) {
      if (form_.inputs[k] == Access::in_place) continue;
      const bool quads = form_.inputs[k] == Access::quad || form_.inputs[k] == Access::quad_at_0 ||
                         form_.inputs[k] == Access::row_quad;
      text += fmt::format("@group(0) @binding({0}) var<storage, read> in{0}: {1};\n", k,
                          array_of(program_.input_dtypes[k], quads));
    }
    return text + fmt::format("@group(0) @binding({}) var<storage, read_write> out: {};\n", form_.inputs.size(),
                              array_of(program_.dtype, form_.store != Store::element));
  }

  /// Names and order are this function's alone: element_params reads them from the kernel's reflection.
  std::string params() const {
    std::string text = "struct Params {\n";
    const auto field = [&](std::string_view name, std::string_view type = "u32") {
      text += fmt::format("  {}: {},\n", name, type);
    };
    const auto per_axis = [&](std::string_view prefix, std::uint32_t first) {
      for (std::uint32_t axis = first; axis < form_.rank; ++axis) field(fmt::format("{}{}", prefix, axis));
    };
    field("quads");
    if (fields_.count) field("count");
    if (fields_.shift) field("shift");
    if (math_.reads_params()) field("zero");
    if (fields_.first) field("first");
    if (!form_.out_at_0) field("out_offset");
    if (fields_.lengths) per_axis("d", 1);
    if (fields_.out_strides) per_axis("out_t", 0);
    for (std::size_t k = 0; k < form_.inputs.size(); ++k) {
      if (form_.inputs[k] == Access::in_place || form_.inputs[k] == Access::quad_at_0) continue;
      field(fmt::format("in{}_offset", k));
      if (by_coordinates(form_.inputs[k])) per_axis(fmt::format("in{}_t", k), 0);
    }
    for (std::size_t k = 0; k < program_.scalar_dtypes.size(); ++k) {
      const DType t = program_.scalar_dtypes[k];
      field(fmt::format("s{}", k), is_float(t) ? "f32" : stored_as(t));
    }
    return text + "}\n";
  }

  const ElementSlice& program_;
  const ElementForm& form_;
  MathSet math_;
  Fields fields_;
  bool unpacks_ = false, lanes_ = false, safe_lanes_ = false, coordinates_ = false;
  std::string extra_;  // index computations of inputs, behind the places
};

}  // namespace

ElementSlice slice_of(const std::vector<ElementNode>& nodes, std::int32_t result) {
  if (result < 0 || static_cast<std::size_t>(result) >= nodes.size()) {
    throw Error(ErrorCode::internal, fmt::format("elementwise: no node {} among {}", result, nodes.size()),
                "report this");
  }
  constexpr std::int32_t kUnused = -2, kUsed = -1;
  std::vector<std::int32_t> number(nodes.size(), kUnused);  // in the slice, once it is there
  number[static_cast<std::size_t>(result)] = kUsed;
  const auto is_leaf = [](const ElementNode& n) {
    return n.kind == Kind::input || n.kind == Kind::scalar || n.kind == Kind::iota;
  };
  for (std::size_t i = static_cast<std::size_t>(result) + 1; i-- > 0;) {
    if (number[i] == kUnused || is_leaf(nodes[i])) continue;
    for (std::int32_t from : {nodes[i].a, nodes[i].b, nodes[i].c}) {
      if (from >= 0) number[static_cast<std::size_t>(from)] = kUsed;
    }
  }
  ElementSlice out;
  out.nodes.reserve(nodes.size());
  for (std::size_t i = 0; i <= static_cast<std::size_t>(result); ++i) {
    if (number[i] == kUnused) continue;
    ElementNode n = nodes[i];
    if (n.kind == Kind::input) {
      out.inputs.push_back(n.a);
      out.input_dtypes.push_back(n.dtype);
      n.a = static_cast<std::int32_t>(out.inputs.size()) - 1;
    } else if (n.kind == Kind::scalar) {
      out.scalars.push_back(n.a);
      out.scalar_dtypes.push_back(n.dtype);
      n.a = static_cast<std::int32_t>(out.scalars.size()) - 1;
    } else if (n.kind == Kind::iota) {
      out.uses_iota = true;
    } else {
      for (std::int32_t* from : {&n.a, &n.b, &n.c}) {
        if (*from >= 0) *from = number[static_cast<std::size_t>(*from)];
      }
    }
    number[i] = static_cast<std::int32_t>(out.nodes.size());
    out.nodes.push_back(n);
  }
  out.dtype = nodes[static_cast<std::size_t>(result)].dtype;
  return out;
}

void element_key(const ElementSlice& program, const ElementForm& form, std::string& key) {
  key = "elementwise ";
  const auto out = std::back_inserter(key);
  key += "web"[static_cast<int>(form.store)];
  if (form.strided_out) key += 's';
  if (form.out_at_0) key += '0';
  fmt::format_to(out, "{}{}", form.rank, form.rows ? 'r' : ' ');
  for (Access a : form.inputs) key += static_cast<char>('a' + static_cast<int>(a));
  for (const ElementNode& n : program.nodes) {
    key += ' ';
    key += letter_of(n.dtype);
    switch (n.kind) {
      case Kind::input: fmt::format_to(out, "x{}", n.a); break;
      case Kind::scalar: fmt::format_to(out, "s{}", n.a); break;
      case Kind::iota: key += '#'; break;
      case Kind::unary: fmt::format_to(out, "u{},{}", static_cast<int>(n.unary), n.a); break;
      case Kind::binary: fmt::format_to(out, "o{},{},{}", static_cast<int>(n.binary), n.a, n.b); break;
      case Kind::where: fmt::format_to(out, "w{},{},{}", n.a, n.b, n.c); break;
      case Kind::cast: fmt::format_to(out, "c{}", n.a); break;
    }
  }
}

std::string element_label(const ElementSlice& program) {
  constexpr std::size_t kMostNamed = 6;
  std::string label;
  std::size_t operations = 0;
  for (const ElementNode& n : program.nodes) {
    std::string_view name;
    switch (n.kind) {
      case ElementNode::Kind::unary: name = to_string(n.unary); break;
      case ElementNode::Kind::binary: name = to_string(n.binary); break;
      case ElementNode::Kind::where: name = "where"; break;
      case ElementNode::Kind::cast: name = to_string(n.dtype); break;
      default: continue;
    }
    if (++operations > kMostNamed) continue;
    if (!label.empty()) label += '+';
    label += name;
  }
  if (operations > kMostNamed) label += fmt::format("+{} more", operations - kMostNamed);
  return label.empty() ? program.uses_iota ? "arange" : "copy" : label;
}

std::string element_source(const ElementSlice& program, const ElementForm& form) {
  return Writer(program, form).source();
}

void element_params(std::span<const ParamInfo> fields, const ElementValues& values, std::vector<std::uint32_t>& words) {
  words.clear();
  const auto number = [](std::string_view digits) {
    std::size_t n = 0;
    for (char c : digits) n = n * 10 + static_cast<std::size_t>(c - '0');
    return n;
  };
  for (const ParamInfo& field : fields) {
    const std::string_view name = field.name;
    std::uint32_t value = 0;  // of "zero"
    if (name == "quads") {
      value = values.quads;
    } else if (name == "count") {
      value = values.count;
    } else if (name == "shift") {
      value = values.shift;
    } else if (name == "first") {
      value = values.first;
    } else if (name == "out_offset") {
      value = values.out_offset;
    } else if (name.starts_with("out_t")) {
      value = values.out_strides[number(name.substr(5))];
    } else if (name.starts_with("in")) {
      const std::size_t bar = name.find('_');
      const std::size_t k = number(name.substr(2, bar - 2));
      value = name[bar + 1] == 'o' ? values.offsets[k] : values.strides[k][number(name.substr(bar + 2))];
    } else if (name[0] == 'd') {
      value = values.lengths[number(name.substr(1))];
    } else if (name[0] == 's') {
      value = values.scalars[number(name.substr(1))];
    }
    words.push_back(value);
  }
}

}  // namespace weft::ops
