// expr/ast.h - what the parser makes of an expression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "expr/source.h"

namespace weft::expr {

/// The index of a node in Program::nodes. Every node's children come before it, so one loop over the nodes, upwards,
/// meets each operand before its use; and a vector with one element a node holds what is learnt about them.
using NodeId = std::uint32_t;

enum class UnaryOp : std::uint8_t { negate, plus, invert };

enum class BinaryOp : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  remainder,
  matmul,
  power,
  bit_and,
  bit_or,
  bit_xor,
  left_shift,
  right_shift,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
};

/// The operator as it is written, "+" for example.
constexpr std::string_view spelling(UnaryOp op) noexcept {
  constexpr std::string_view kSpellings[] = {"-", "+", "~"};
  return kSpellings[static_cast<std::size_t>(op)];
}
constexpr std::string_view spelling(BinaryOp op) noexcept {
  constexpr std::string_view kSpellings[] = {"+", "-",  "*",  "/",  "//", "%", "@",  "**", "&", "|",
                                             "^", "<<", ">>", "==", "!=", "<", "<=", ">",  ">="};
  return kSpellings[static_cast<std::size_t>(op)];
}

struct Integer {
  std::int64_t value;  ///< never negative: the sign is a Unary
};
struct Floating {
  double value;  ///< finite, never negative
};
struct Bool {
  bool value;
};
struct None {};
struct Ellipsis {};  ///< only as an item of an Index
struct String {
  std::string value;
};
/// A variable, a constant such as pi, a dtype, a function or the prefix np: the parser does not tell.
struct Name {
  std::string value;
};
struct Unary {
  UnaryOp op;
  NodeId operand;
  Span op_span;
};
struct Binary {
  BinaryOp op;
  NodeId left;
  NodeId right;
  Span op_span;
};
struct Keyword {
  std::string name;
  NodeId value;
  Span name_span;
};
struct Call {
  NodeId callee;  ///< a Name or an Attribute
  std::vector<NodeId> arguments;
  std::vector<Keyword> keywords;  ///< no name twice
};
struct Attribute {
  NodeId object;
  std::string name;
  Span name_span;
};
/// object[items]. x[1, 2] and x[(1, 2)] are the same, two items; x[()] has none.
struct Index {
  NodeId object;
  std::vector<NodeId> items;
};
/// start:stop:step, only as an item of an Index.
struct Slice {
  std::optional<NodeId> start;
  std::optional<NodeId> stop;
  std::optional<NodeId> step;
};
struct Tuple {
  std::vector<NodeId> items;
};
struct List {
  std::vector<NodeId> items;
};

/// For switch; in the order of the variant's alternatives.
enum class NodeKind : std::uint8_t {
  integer,
  floating,
  bool_,
  none,
  ellipsis,
  string,
  name,
  unary,
  binary,
  call,
  attribute,
  index,
  slice,
  tuple,
  list,
};

struct Node {
  using Data = std::variant<Integer, Floating, Bool, None, Ellipsis, String, Name, Unary, Binary, Call, Attribute,
                            Index, Slice, Tuple, List>;

  Span span;  ///< with the parentheses directly around it
  Data data;

  NodeKind kind() const noexcept { return static_cast<NodeKind>(data.index()); }

  /// The node as a T, for example node.as<Binary>(); it must be one.
  template <typename T>
  const T& as() const {
    return std::get<T>(data);
  }
  /// Null when the node is not a T.
  template <typename T>
  const T* get_if() const noexcept {
    return std::get_if<T>(&data);
  }
};
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(NodeKind::list), Node::Data>, List>);
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(NodeKind::binary), Node::Data>, Binary>);

/// `target = value`, or a value alone.
struct Statement {
  std::string target;  ///< empty for a value alone
  Span target_span;
  NodeId value = 0;
  Span span;
};

/// A parsed text. A value; owns all of it.
struct Program {
  Source source;
  std::vector<Node> nodes;            ///< children before parents; each is reached from exactly one parent or statement
  std::vector<Statement> statements;  ///< at least one; the last one's value is the result

  const Node& node(NodeId id) const { return nodes[id]; }
};

/// Calls f(NodeId) for each child of `node`, in the order of the source.
template <typename F>
void for_each_child(const Node& node, F&& f) {
  const auto each = [&](const std::vector<NodeId>& ids) {
    for (NodeId id : ids) f(id);
  };
  const auto maybe = [&](std::optional<NodeId> id) {
    if (id) f(*id);
  };
  switch (node.kind()) {
    case NodeKind::integer:
    case NodeKind::floating:
    case NodeKind::bool_:
    case NodeKind::none:
    case NodeKind::ellipsis:
    case NodeKind::string:
    case NodeKind::name: break;
    case NodeKind::unary: f(node.as<Unary>().operand); break;
    case NodeKind::binary:
      f(node.as<Binary>().left);
      f(node.as<Binary>().right);
      break;
    case NodeKind::call:
      f(node.as<Call>().callee);
      each(node.as<Call>().arguments);
      for (const Keyword& k : node.as<Call>().keywords) f(k.value);
      break;
    case NodeKind::attribute: f(node.as<Attribute>().object); break;
    case NodeKind::index:
      f(node.as<Index>().object);
      each(node.as<Index>().items);
      break;
    case NodeKind::slice:
      maybe(node.as<Slice>().start);
      maybe(node.as<Slice>().stop);
      maybe(node.as<Slice>().step);
      break;
    case NodeKind::tuple: each(node.as<Tuple>().items); break;
    case NodeKind::list: each(node.as<List>().items); break;
  }
}

}  // namespace weft::expr
