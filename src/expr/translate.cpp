#include "expr/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/half.h"
#include "expr/names.h"
#include "expr/scalar.h"
#include "ops/infer.h"
#include "ops/scalar.h"

namespace weft::expr {
namespace {

weft::UnaryOp op_of(expr::UnaryOp op) {
  switch (op) {
    case expr::UnaryOp::negate: return weft::UnaryOp::negative;
    case expr::UnaryOp::plus: return weft::UnaryOp::positive;
    case expr::UnaryOp::invert: return weft::UnaryOp::invert;
  }
  return weft::UnaryOp::positive;
}

/// Of every operator but @.
weft::BinaryOp op_of(expr::BinaryOp op) {
  using From = expr::BinaryOp;
  using To = weft::BinaryOp;
  switch (op) {
    case From::add: return To::add;
    case From::subtract: return To::subtract;
    case From::multiply: return To::multiply;
    case From::divide: return To::divide;
    case From::floor_divide: return To::floor_divide;
    case From::remainder: return To::remainder;
    case From::power: return To::power;
    case From::bit_and: return To::bit_and;
    case From::bit_or: return To::bit_or;
    case From::bit_xor: return To::bit_xor;
    case From::left_shift: return To::shift_left;
    case From::right_shift: return To::shift_right;
    case From::equal: return To::equal;
    case From::not_equal: return To::not_equal;
    case From::less: return To::less;
    case From::less_equal: return To::less_equal;
    case From::greater: return To::greater;
    case From::greater_equal: return To::greater_equal;
    case From::matmul: break;
  }
  return To::multiply;
}

/// Text of infer.h's errors without the op's name, which the caret shows.
std::string_view without_op(std::string_view message) {
  const std::size_t colon = message.find(": ");
  if (colon == std::string_view::npos || message.substr(0, colon).find(' ') != std::string_view::npos) return message;
  return message.substr(colon + 2);
}

std::string join(const std::vector<std::string_view>& names, std::string_view last) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? fmt::format(" {} ", last) : ", ";
    out += excerpt(names[i]);
  }
  return out;
}

bool do_broadcast(const Shape& a, const Shape& b) {
  for (std::size_t i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::int64_t m = a[a.rank() - i];
    const std::int64_t n = b[b.rank() - i];
    if (m != n && m != 1 && n != 1) return false;
  }
  return true;
}

Shape reversed(Shape shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}

/// Why two shapes do not broadcast: the last axis on which they differ.
std::string difference(const Shape& a, const Shape& b) {
  for (std::size_t i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::int64_t m = a[a.rank() - i];
    const std::int64_t n = b[b.rank() - i];
    if (m == n || m == 1 || n == 1) continue;
    const std::string axis = i == 1 ? "the last axis" : fmt::format("axis -{}", i);
    return fmt::format("lengths {} and {} of {} differ", m, n, axis);
  }
  return "they have more axes than there may be";
}

}  // namespace

std::string describe(const Value& value, const Graph& graph) {
  struct Visitor {
    const Graph& graph;
    std::string operator()(const None&) const { return "None"; }
    std::string operator()(const Scalar& s) const { return fmt::format("the number {}", to_string(s)); }
    std::string operator()(const TensorRef& t) const {
      const DType dtype = graph.dtype(t.id);
      return fmt::format("{} {} array of shape {}", dtype == DType::i32 ? "an" : "a", to_string(dtype),
                         to_string(graph.shape(t.id)));
    }
    std::string operator()(const DType& t) const { return fmt::format("the dtype {}", to_string(t)); }
    std::string operator()(const std::string& s) const { return fmt::format("the text '{}'", excerpt(s)); }
    std::string operator()(const Sequence&) const { return "a tuple or list"; }
    std::string operator()(const Function* const& f) const { return fmt::format("the function {}", f->name); }
    std::string operator()(const Ellipsis&) const { return "..."; }
    std::string operator()(const SliceValue&) const { return "a slice"; }
  };
  return std::visit(Visitor{graph}, value.data);
}

Translator::Translator(const Program& program, const Expression::Types& inputs, Graph& to)
    : program_(program), inputs_(inputs), graph_(to) {}

void Translator::fail(Place place, std::string_view title, std::string_view note, std::string fix,
                      ErrorCode code) const {
  throw make_error(code, program_.source, place, title, note, std::move(fix));
}

void Translator::rethrow(const Error& error, Place place, std::string_view title) const {
  // A message of several lines has its caret already.
  if (error.message().find('\n') != std::string::npos) throw error;
  fail(place, title, without_op(error.message()), error.fix(), error.code());
}

// -- names ---------------------------------------------------------------------------------------------------------

std::vector<std::string_view> Translator::visible_names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, type] : inputs_) out.push_back(name);
  for (const auto& [name, value] : variables_) out.push_back(name);
  std::sort(out.begin(), out.end());
  for (const Function& f : functions()) out.push_back(f.name);
  for (std::string_view name : constant_names()) out.push_back(name);
  return out;
}

void Translator::check_given() {
  const std::vector<FreeName> read = free_names(program_);
  std::vector<std::string_view> given;
  for (const auto& [name, type] : inputs_) given.push_back(name);

  std::vector<std::string_view> missing;
  NodeId first = 0;
  for (const FreeName& f : read) {
    const bool known = inputs_.contains(f.name) || find_function(f.name) != nullptr || is_constant(f.name) ||
                       (is_module(f.name) && f.is_prefix);
    if (known || f.only_called) continue;  // an unknown function: call() says more about it
    if (missing.empty()) first = f.first;
    missing.push_back(f.name);
  }
  if (!missing.empty()) {
    const auto near = nearest(missing.front(), visible_names());
    const std::string has = given.empty() ? "nothing is given" : fmt::format("given: {}", join(given, "and"));
    const std::string note =
        fmt::format("{} {} not given; {}", join(missing, "and"), missing.size() == 1 ? "is" : "are", has);
    const std::string add = excerpt(missing.front());
    fail(program_.node(first).span, "unknown name", note,
         near ? fmt::format("did you mean '{}'? Otherwise add {}=FILE", excerpt(*near), add)
              : fmt::format("add {}=FILE, or correct the name", add));
  }
  for (const auto& [name, type] : inputs_) {
    const bool is_read =
        std::any_of(read.begin(), read.end(), [&, &n = name](const FreeName& f) { return f.name == n; });
    if (is_read) continue;
    std::vector<std::string_view> used;
    for (const FreeName& f : read) {
      if (inputs_.contains(f.name)) used.push_back(f.name);
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is given, and the expression does not use it{}", program_.source.name(),
                            excerpt(name), used.empty() ? "" : fmt::format("; it uses {}", join(used, "and"))),
                "leave it out, or correct the name");
  }
}

Value Translator::name(const Node& node) {
  const std::string& name = node.as<Name>().value;
  if (const auto it = variables_.find(name); it != variables_.end()) {
    Value out = it->second;
    out.span = node.span;
    return out;
  }
  if (const auto it = inputs_.find(name); it != inputs_.end()) {
    if (const Scalar* number = std::get_if<Scalar>(&it->second)) return {node.span, *number};
    const TensorType& type = std::get<TensorType>(it->second);
    return at(node.span, "bad input",
              [&]() -> Value { return {node.span, TensorRef{graph_.input(name, type.shape, type.dtype)}}; });
  }
  if (const Function* f = find_function(name)) return {node.span, f};
  if (auto constant = at(node.span, "unknown type", [&] { return find_constant(name); })) {
    return {node.span, std::move(*constant)};
  }
  fail(node.span, "unknown name", "this is a prefix, not a value", "write np.name");
}

std::string_view Translator::name_of(const Value& value) const {
  std::string_view text = program_.source.text(value.span);
  while (text.starts_with('(') || text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(')') || text.ends_with(' ')) text.remove_suffix(1);
  return variables_.contains(std::string(text)) || inputs_.contains(std::string(text)) ? text : std::string_view();
}

std::string Translator::file_of(const Value& value) const {
  const TensorRef* ref = value.get_if<TensorRef>();
  if (ref == nullptr || graph_[ref->id].kind != OpKind::input) return {};
  const auto it = inputs_.find(graph_[ref->id].name);
  return it == inputs_.end() ? std::string() : std::get<TensorType>(it->second).origin;
}

// -- what functions ask of their arguments ---------------------------------------------------------------------------

namespace {

/// The shape of nested sequences of numbers, and the numbers; false when it is not of one depth and length.
bool flatten(const Value& value, std::size_t depth, std::vector<std::int64_t>& shape, std::vector<Scalar>& out) {
  if (const Scalar* s = value.get_if<Scalar>()) {
    if (depth != shape.size()) return false;
    out.push_back(*s);
    return true;
  }
  const Sequence* sequence = value.get_if<Sequence>();
  if (sequence == nullptr || depth >= kMaxRank) return false;
  const auto length = static_cast<std::int64_t>(sequence->items.size());
  if (depth == shape.size()) {
    if (!out.empty()) return false;
    shape.push_back(length);
  }
  if (shape[depth] != length) return false;
  return std::all_of(sequence->items.begin(), sequence->items.end(),
                     [&](const Value& item) { return flatten(item, depth + 1, shape, out); });
}

template <typename T>
void append(std::vector<std::byte>& bytes, T v) {
  const auto* p = reinterpret_cast<const std::byte*>(&v);
  bytes.insert(bytes.end(), p, p + sizeof v);
}

/// Throws Error{out_of_range} for an integer that `dtype` does not hold.
void append_as(std::vector<std::byte>& bytes, const Scalar& number, DType dtype) {
  const Scalar stored = ops::stored_scalar("array", number, dtype);
  switch (dtype) {
    case DType::bool_: return append(bytes, std::uint8_t{to_double(stored) != 0});
    case DType::i32: return append(bytes, static_cast<std::int32_t>(std::get<std::int64_t>(stored.value)));
    case DType::u32: return append(bytes, static_cast<std::uint32_t>(std::get<std::int64_t>(stored.value)));
    case DType::f16: return append(bytes, nearest_half(to_double(stored)));
    case DType::f32: return append(bytes, static_cast<float>(to_double(stored)));
  }
}

/// What numbers are together: with a float among them the integers need not fit int32.
DType common_dtype(std::span<const Scalar> numbers) {
  if (numbers.empty() || std::any_of(numbers.begin(), numbers.end(), [](const Scalar& n) { return is_float(n); })) {
    return DType::f32;
  }
  DType dtype = DType::bool_;
  for (const Scalar& n : numbers) dtype = ops::promote(dtype, default_dtype(n));
  return dtype;
}

}  // namespace

OpId Translator::tensor(const Value& value) {
  return make_array(value, std::nullopt);
}

OpId Translator::tensor(const Value& value, DType dtype) {
  const OpId x = make_array(value, dtype);
  return graph_.dtype(x) == dtype ? x : graph_.cast(x, dtype);
}

OpId Translator::make_array(const Value& value, std::optional<DType> dtype) {
  if (const TensorRef* ref = value.get_if<TensorRef>()) return ref->id;
  if (const Scalar* number = value.get_if<Scalar>()) {
    return at(value.span, "bad number", [&] {
      const DType of = dtype ? *dtype : default_dtype(*number);
      return graph_.full({}, ops::stored_scalar("array", *number, of), of);
    });
  }
  if (!value.is<Sequence>()) {
    fail(value.span, "not an array", fmt::format("this is {}", describe(value, graph_)),
         value.is<const Function*>() ? "call it, with its arguments in parentheses" : "give an array or a number");
  }
  std::vector<std::int64_t> lengths;
  std::vector<Scalar> numbers;
  if (!flatten(value, 0, lengths, numbers)) {
    fail(value.span, "not an array", "its parts are not numbers in rows of one length",
         "use stack([...]) or concatenate([...]) to join arrays");
  }
  return at(value.span, "bad array", [&] {
    const DType of = dtype ? *dtype : common_dtype(numbers);
    std::vector<std::byte> bytes;
    for (const Scalar& n : numbers) append_as(bytes, n, of);
    return graph_.constant(std::move(bytes), Shape(lengths), of);
  });
}

Scalar Translator::scalar(const Value& value, std::string_view what) {
  if (const Scalar* number = value.get_if<Scalar>()) return *number;
  fail(value.span, fmt::format("{} must be a number", what), fmt::format("this is {}", describe(value, graph_)),
       "give a number that is known before anything runs");
}

std::int64_t Translator::integer(const Value& value, std::string_view what) {
  const Scalar number = scalar(value, what);
  if (const std::int64_t* i = std::get_if<std::int64_t>(&number.value)) return *i;
  if (const bool* b = std::get_if<bool>(&number.value)) return *b ? 1 : 0;
  fail(value.span, fmt::format("{} must be an integer", what), fmt::format("this is {}", describe(value, graph_)),
       "use // for a whole quotient, or int()");
}

double Translator::number(const Value& value, std::string_view what) {
  return to_double(scalar(value, what));
}

bool Translator::boolean(const Value& value, std::string_view what) {
  return to_double(scalar(value, what)) != 0;
}

const std::vector<Value>& Translator::items(const Value& value, std::string_view what) {
  if (const Sequence* sequence = value.get_if<Sequence>()) return sequence->items;
  fail(value.span, fmt::format("{} must be a list", what), fmt::format("this is {}", describe(value, graph_)),
       "put the arrays into brackets: [a, b]");
}

std::vector<std::int64_t> Translator::integers(const Value& value, std::string_view what) {
  if (!value.is<Sequence>()) return {integer(value, what)};
  std::vector<std::int64_t> out;
  for (const Value& item : value.get_if<Sequence>()->items) out.push_back(integer(item, what));
  return out;
}

Shape Translator::shape(const Value& value) {
  const std::vector<std::int64_t> lengths = integers(value, "a length of the shape");
  return at(value.span, "too many axes", [&] { return Shape(lengths); });
}

DType Translator::dtype(const Value& value) {
  if (const DType* t = value.get_if<DType>()) return *t;
  if (const Function* const* f = value.get_if<const Function*>()) {
    if ((*f)->name == "int") return DType::i32;
    if ((*f)->name == "float") return DType::f32;
    if ((*f)->name == "bool") return DType::bool_;
  }
  if (const std::string* text = value.get_if<std::string>()) {
    std::string_view name = *text;
    if (name.starts_with('<') || name.starts_with('=')) name.remove_prefix(1);
    if (const auto t = parse_dtype(name)) return *t;
    if (name == "int") return DType::i32;
    if (name == "float") return DType::f32;
  }
  fail(value.span, "not a type that devices compute with", fmt::format("this is {}", describe(value, graph_)),
       "use 'float32', 'float16', 'int32', 'uint32' or 'bool'");
}

// -- operators -----------------------------------------------------------------------------------------------------

OpId Translator::operand(const Value& value, DType beside) {
  if (const Scalar* number = value.get_if<Scalar>()) {
    return at(value.span, "the number does not fit",
              [&] { return graph_.scalar(*number, ops::promote(beside, *number)); });
  }
  return tensor(value);
}

std::pair<OpId, OpId> Translator::operands(const Value& a, const Value& b) {
  if (a.is<Scalar>()) {
    const OpId right = tensor(b);
    return {operand(a, graph_.dtype(right)), right};
  }
  const OpId left = tensor(a);
  return {left, operand(b, graph_.dtype(left))};
}

void Translator::shapes_differ(OpId a, OpId b, const Value& left, const Value& right, Place place) const {
  const Shape& m = graph_.shape(a);
  const Shape& n = graph_.shape(b);
  std::string fix = "make the lengths equal, or one of them 1";
  const std::string left_name = name_of(left).empty() ? "the left side" : excerpt(name_of(left));
  const std::string right_name = name_of(right).empty() ? "the right side" : excerpt(name_of(right));
  const std::string file = !file_of(right).empty() ? file_of(right) : file_of(left);
  const bool one_column = n.rank() == 1 && m.rank() == 2 && m[0] == n[0];
  const bool one_row = m.rank() == 1 && n.rank() == 2 && n[0] == m[0];
  if (one_column && !name_of(right).empty())
    fix = fmt::format("write {}[:, None]", right_name);
  else if (one_row && !name_of(left).empty())
    fix = fmt::format("write {}[:, None]", left_name);
  else if (n.rank() == 2 && do_broadcast(m, reversed(n)))
    fix = fmt::format("transpose {}", right_name);
  else if (m.rank() == 2 && do_broadcast(reversed(m), n))
    fix = fmt::format("transpose {}", left_name);
  if (!file.empty()) fix += fmt::format(", or check {}", excerpt(file));
  fail(place, "shapes don't match",
       fmt::format("{} and {}: {}", weft::to_string(m), weft::to_string(n), difference(m, n)), fix);
}

Value Translator::unary(weft::UnaryOp op, const Value& x, Place place) {
  const std::string title = fmt::format("can't compute {}", weft::to_string(op));
  if (const Scalar* number = x.get_if<Scalar>()) {
    return {place.span, at(place, title, [&] { return fold(op, *number); })};
  }
  const OpId operand_id = tensor(x);
  return {place.span, at(place, title, [&] { return TensorRef{graph_.unary(op, operand_id)}; })};
}

Value Translator::binary(weft::BinaryOp op, const Value& a, const Value& b, Place place) {
  const std::string title = fmt::format("can't compute {}", weft::to_string(op));
  const Scalar* left = a.get_if<Scalar>();
  const Scalar* right = b.get_if<Scalar>();
  if (left != nullptr && right != nullptr) {
    return {place.span, at(place, title, [&] { return fold(op, *left, *right); })};
  }
  if (op == weft::BinaryOp::add && a.is<Sequence>() && b.is<Sequence>()) {
    Sequence both = *a.get_if<Sequence>();
    const std::vector<Value>& more = b.get_if<Sequence>()->items;
    both.items.insert(both.items.end(), more.begin(), more.end());
    return {place.span, std::move(both)};
  }
  if ((left != nullptr || right != nullptr) && ops::is_comparison(op)) {
    const Value& other = left != nullptr ? b : a;
    const Scalar& number = left != nullptr ? *left : *right;
    const auto fitting =
        ops::comparison_beside(graph_.dtype(tensor(other)), left != nullptr ? ops::swapped(op) : op, number);
    if (fitting) {
      return binary(fitting->op, other, {left != nullptr ? a.span : b.span, fitting->number}, place);
    }
  }
  const auto as_taken = [&](const Value& v, const Value& beside) {
    const Scalar* number = v.get_if<Scalar>();
    return number == nullptr ? v : Value{v.span, ops::number_for(op, graph_.dtype(tensor(beside)), *number)};
  };
  const auto [m, n] = operands(as_taken(a, b), as_taken(b, a));
  if (!do_broadcast(graph_.shape(m), graph_.shape(n))) shapes_differ(m, n, a, b, place);
  return {place.span, at(place, title, [&, &m = m, &n = n] {
            // As numpy does: x ** 2 is a square, exact and cheap.
            const bool is_two = op == weft::BinaryOp::power && right != nullptr && to_double(*right) == 2;
            if (is_two && (is_float(*right) ? weft::is_float(graph_.dtype(m)) : graph_.dtype(m) != DType::bool_)) {
              return TensorRef{graph_.unary(weft::UnaryOp::square, m)};
            }
            return TensorRef{graph_.binary(op, m, n)};
          })};
}

Value Translator::matmul(const Value& a, const Value& b, Place place) {
  const OpId m = tensor(a);
  const OpId n = tensor(b);
  const Shape& left = graph_.shape(m);
  const Shape& right = graph_.shape(n);
  if (left.rank() > 0 && right.rank() > 0) {
    const std::int64_t rows = right[right.rank() == 1 ? 0 : right.rank() - 2];
    if (left.back() != rows) {
      std::string fix;
      const std::string_view name = name_of(b);
      if (right.rank() >= 2) fix = fmt::format("transpose {}", name.empty() ? "the right side" : excerpt(name));
      if (right.rank() == 1) fix = "make the lengths equal";
      const std::string file = !file_of(b).empty() ? file_of(b) : file_of(a);
      if (!file.empty()) fix += fmt::format(", or check {}", excerpt(file));
      fail(place, "shapes don't match",
           fmt::format("{} and {}: inner lengths {} and {} differ", weft::to_string(left), weft::to_string(right),
                       left.back(), rows),
           fix);
    }
  }
  return {place.span, at(place, "shapes don't match", [&] { return TensorRef{graph_.matmul(m, n)}; })};
}

Value Translator::where(const Value& condition, const Value& a, const Value& b) {
  const Scalar* fixed = condition.get_if<Scalar>();
  if (fixed != nullptr && a.is<Scalar>() && b.is<Scalar>()) return to_double(*fixed) != 0 ? a : b;
  std::pair<OpId, OpId> sides;
  if (a.is<Scalar>() && b.is<Scalar>()) {
    const DType meet = at(call_span_, "can't choose",
                          [&] { return common_dtype(std::array{*a.get_if<Scalar>(), *b.get_if<Scalar>()}); });
    sides = {graph_.scalar(*a.get_if<Scalar>(), meet), graph_.scalar(*b.get_if<Scalar>(), meet)};
  } else {
    sides = operands(a, b);
  }
  const OpId c = fixed != nullptr ? graph_.scalar(to_double(*fixed) != 0, DType::bool_) : tensor(condition);
  const auto [m, n] = sides;
  if (!do_broadcast(graph_.shape(m), graph_.shape(n))) shapes_differ(m, n, a, b, call_span_);
  if (!do_broadcast(graph_.shape(c), graph_.shape(m))) shapes_differ(c, m, condition, a, call_span_);
  if (!do_broadcast(graph_.shape(c), graph_.shape(n))) shapes_differ(c, n, condition, b, call_span_);
  return make_tensor(at(call_span_, "can't choose", [&, &m = m, &n = n] { return graph_.where(c, m, n); }));
}

// -- the walk ------------------------------------------------------------------------------------------------------

OpId Translator::run() {
  check_given();
  Value last;
  for (const Statement& statement : program_.statements) {
    last = value(statement.value);
    if (!statement.target.empty()) variables_.insert_or_assign(statement.target, last);
  }
  return tensor(last);
}

Value Translator::value(NodeId id) {
  const Node& node = program_.node(id);
  switch (node.kind()) {
    case NodeKind::integer: return {node.span, Scalar(node.as<Integer>().value)};
    case NodeKind::floating: return {node.span, Scalar(node.as<Floating>().value)};
    case NodeKind::bool_: return {node.span, Scalar(node.as<Bool>().value)};
    case NodeKind::none: return {node.span, None{}};
    case NodeKind::ellipsis: return {node.span, Ellipsis{}};
    case NodeKind::string: return {node.span, node.as<String>().value};
    case NodeKind::name: return name(node);
    case NodeKind::unary: return unary_node(node);
    case NodeKind::binary: return binary_node(node);
    case NodeKind::call: return call(node);
    case NodeKind::attribute: return attribute(node);
    case NodeKind::index: return index(node);
    case NodeKind::slice: return slice(node);
    case NodeKind::tuple: return sequence(node, node.as<Tuple>().items);
    case NodeKind::list: return sequence(node, node.as<List>().items);
  }
  fail(node.span, "no value", "", "report this");
}

Value Translator::unary_node(const Node& node) {
  const Unary& op = node.as<Unary>();
  return unary(op_of(op.op), value(op.operand), Place(node.span, op.op_span));
}

Value Translator::binary_node(const Node& node) {
  const Binary& op = node.as<Binary>();
  const Value left = value(op.left);
  const Value right = value(op.right);
  const Place place(node.span, op.op_span);
  return op.op == expr::BinaryOp::matmul ? matmul(left, right, place) : binary(op_of(op.op), left, right, place);
}

Value Translator::sequence(const Node& node, const std::vector<NodeId>& ids) {
  Sequence out;
  for (NodeId id : ids) out.items.push_back(value(id));
  return {node.span, std::move(out)};
}

Value Translator::slice(const Node& node) {
  const Slice& slice = node.as<Slice>();
  const auto end = [&](std::optional<NodeId> id) -> std::optional<std::int64_t> {
    if (!id) return std::nullopt;
    const Value given = value(*id);
    if (given.is<None>()) return std::nullopt;
    return integer(given, "an end of a slice");
  };
  return {node.span, SliceValue{end(slice.start), end(slice.stop), end(slice.step)}};
}

// -- attributes and calls --------------------------------------------------------------------------------------------

std::optional<Value> Translator::property(const Value& object, const Attribute& attribute, Span span) {
  const TensorRef* ref = object.get_if<TensorRef>();
  const std::string& name = attribute.name;
  if (ref == nullptr && !object.is<Scalar>()) return std::nullopt;
  const Shape shape = ref != nullptr ? graph_.shape(ref->id) : Shape();
  if (name == "shape") {
    Sequence out;
    for (std::int64_t n : shape) out.items.push_back({span, Scalar(n)});
    return Value{span, std::move(out)};
  }
  if (name == "ndim") return Value{span, Scalar(static_cast<std::int64_t>(shape.rank()))};
  if (name == "size") return Value{span, Scalar(element_count(shape))};
  if (name == "T") {
    const OpId x = tensor(object);
    return Value{span, at(span, "can't transpose", [&] { return TensorRef{graph_.transpose(x, {})}; })};
  }
  if (name == "dtype") return Value{span, graph_.dtype(tensor(object))};
  return std::nullopt;
}

namespace {

/// np.name, unless np is a value here.
bool is_module_access(const Program& program, const Attribute& attribute,
                      const std::unordered_map<std::string, Value>& variables, const Expression::Types& inputs) {
  const Name* prefix = program.node(attribute.object).get_if<Name>();
  return prefix != nullptr && is_module(prefix->value) && !variables.contains(prefix->value) &&
         !inputs.contains(prefix->value);
}

constexpr std::string_view kProperties[] = {"shape", "ndim", "size", "T", "dtype"};

}  // namespace

Value Translator::attribute(const Node& node) {
  const Attribute& attribute = node.as<Attribute>();
  if (is_module_access(program_, attribute, variables_, inputs_)) {
    if (auto constant = at(attribute.name_span, "unknown type", [&] { return find_constant(attribute.name); })) {
      return {node.span, std::move(*constant)};
    }
    return {node.span, &function_named(attribute.name, attribute.name_span)};
  }
  const Value object = value(attribute.object);
  if (auto found = property(object, attribute, node.span)) return *found;
  const Function* method = find_function(attribute.name);
  if (method != nullptr && method->is_method) {
    fail(attribute.name_span, "a method without its call", "", fmt::format("write {}()", attribute.name));
  }
  const auto near = nearest(attribute.name, kProperties);
  fail(attribute.name_span, "unknown attribute",
       near ? fmt::format("did you mean '{}'", *near)
            : fmt::format("{} has no attribute '{}'", describe(object, graph_), excerpt(attribute.name)),
       near ? fmt::format("write {}", *near) : "use shape, ndim, size, T, dtype, or a method");
}

const Function& Translator::function_named(std::string_view name, Span span) {
  if (const Function* f = find_function(name)) return *f;
  if (at(span, "not a function", [&] { return find_constant(name); })) {
    fail(span, "not a function", fmt::format("{} is a constant", name), "write x.astype('float32') to convert");
  }
  std::vector<std::string_view> names;
  for (const Function& f : functions()) names.push_back(f.name);
  const auto near = nearest(name, names);
  fail(span, "unknown function", near ? fmt::format("did you mean '{}'", *near) : "there is none of this name",
       near ? fmt::format("write {}", *near) : "use one of those that docs/expressions.md lists");
}

const Function& Translator::callee(const Call& call, std::optional<Value>& self) {
  const Node& node = program_.node(call.callee);
  if (const Name* name = node.get_if<Name>()) {
    if (variables_.contains(name->value) || inputs_.contains(name->value)) {
      fail(node.span, "not a function",
           fmt::format("here, {} is {}", excerpt(name->value), describe(value(call.callee), graph_)),
           "use * to multiply, or another name for the array");
    }
    return function_named(name->value, node.span);
  }
  const Attribute* attribute = node.get_if<Attribute>();
  if (attribute == nullptr) fail(node.span, "not a function", "", "call a function by its name");
  if (is_module_access(program_, *attribute, variables_, inputs_)) {
    return function_named(attribute->name, attribute->name_span);
  }
  self = value(attribute->object);
  const Function* f = find_function(attribute->name);
  const bool fits = self->is<TensorRef>() || self->is<Scalar>();
  if (f != nullptr && f->is_method && fits) return *f;
  if (!fits) {
    fail(attribute->name_span, "unknown method", fmt::format("{} has none", describe(*self, graph_)),
         "call it on an array");
  }
  if (f != nullptr) {
    fail(attribute->name_span, "unknown method", fmt::format("{} is a function, not a method", f->name),
         fmt::format("write {}(x)", f->name));
  }
  if (std::find(std::begin(kProperties), std::end(kProperties), attribute->name) != std::end(kProperties)) {
    fail(attribute->name_span, "not a method", fmt::format("'{}' is called, and is none", attribute->name),
         fmt::format("write {} without parentheses", attribute->name));
  }
  std::vector<std::string_view> names;
  for (const Function& each : functions()) {
    if (each.is_method) names.push_back(each.name);
  }
  const auto near = nearest(attribute->name, names);
  fail(attribute->name_span, "unknown method",
       near ? fmt::format("did you mean '{}'", *near) : "arrays have none of this name",
       near ? fmt::format("write {}", *near) : "use one of those that docs/expressions.md lists");
}

namespace {

struct Parameter {
  std::string_view name;
  bool optional = false;
  bool rest = false;
};

std::vector<Parameter> parameters_of(const Function& function) {
  std::vector<Parameter> out;
  std::string_view text = function.parameters;
  while (!text.empty()) {
    const std::size_t comma = text.find(", ");
    std::string_view name = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 2);
    Parameter p;
    p.rest = name.starts_with('*');
    p.optional = name.ends_with('=');
    if (p.rest) name.remove_prefix(1);
    if (p.optional) name.remove_suffix(1);
    p.name = name;
    out.push_back(p);
  }
  return out;
}

std::string list_of(const std::vector<Parameter>& parameters) {
  std::string out;
  for (const Parameter& p : parameters) out += fmt::format("{}{}", out.empty() ? "" : ", ", p.name);
  return out;
}

}  // namespace

Arguments Translator::bind(const Function& function, const Node& node, const std::optional<Value>& self,
                           std::vector<Value>& storage) {
  const Call& call = node.as<Call>();
  const std::vector<Parameter> parameters = parameters_of(function);
  storage.reserve(call.arguments.size() + call.keywords.size() + 1);
  Arguments out;
  out.values.resize(parameters.size(), nullptr);
  std::size_t at_parameter = 0;
  const auto take = [&](Value given) {
    if (at_parameter == parameters.size()) {
      const std::size_t most = parameters.size() - (self ? 1 : 0);
      fail(given.span, "too many arguments",
           most == 0 ? fmt::format("{} takes none", function.name)
                     : fmt::format("{} takes {}: {}", function.name, parameters.size(), list_of(parameters)),
           "leave this one out");
    }
    if (parameters[at_parameter].rest) {
      out.rest.push_back(std::move(given));
      return;
    }
    storage.push_back(std::move(given));
    out.values[at_parameter++] = &storage.back();
  };
  if (self) take(*self);
  for (NodeId id : call.arguments) take(value(id));
  for (const Keyword& keyword : call.keywords) {
    const auto it =
        std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == keyword.name; });
    if (it == parameters.end()) {
      std::vector<std::string_view> names;
      names.reserve(parameters.size());
      for (const Parameter& p : parameters) names.push_back(p.name);
      const auto near = nearest(keyword.name, names);
      fail(keyword.name_span, "unknown keyword", fmt::format("{} takes {}", function.name, list_of(parameters)),
           near ? fmt::format("did you mean '{}'", *near) : "leave it out");
    }
    const auto i = static_cast<std::size_t>(it - parameters.begin());
    if (out.values[i] != nullptr || (it->rest && !out.rest.empty())) {
      fail(keyword.name_span, "an argument is given twice",
           fmt::format("{} stands by its position already", keyword.name), "leave one of them out");
    }
    if (it->rest) {
      out.rest.push_back(value(keyword.value));
      continue;
    }
    storage.push_back(value(keyword.value));
    out.values[i] = &storage.back();
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].optional || parameters[i].rest || out.values[i] != nullptr) continue;
    fail(node.span, "an argument is missing", fmt::format("{} needs '{}'", function.name, parameters[i].name),
         fmt::format("call it as {}({})", function.name, list_of(parameters)));
  }
  return out;
}

Value Translator::call(const Node& node) {
  std::optional<Value> self;
  const Function& function = callee(node.as<Call>(), self);
  std::vector<Value> storage;
  const Arguments arguments = bind(function, node, self, storage);
  call_span_ = node.span;
  return function.apply(*this, function, arguments);
}

}  // namespace weft::expr
