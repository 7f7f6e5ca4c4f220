// expr/translate.h - from the parsed text to typed operations; every check that needs no data is made here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "expr/ast.h"
#include "expr/diagnostic.h"
#include "expr/functions.h"
#include "expr/graph.h"
#include "expr/value.h"
#include "weft/error.h"
#include "weft/expr.h"

namespace weft::expr {

/// Walks one program once. Every error it throws shows the source with a caret. Borrows its arguments.
class Translator {
 public:
  Translator(const Program& program, const Expression::Types& inputs, Graph& to);

  /// The operation whose value is the program's.
  OpId run();

  // -- for functions and indexing ---------------------------------------------------------------------------------
  Graph& graph() noexcept { return graph_; }

  /// An error at `place`; see make_error.
  [[noreturn]] void fail(Place place, std::string_view title, std::string_view note, std::string fix,
                         ErrorCode code = ErrorCode::invalid_argument) const;
  /// Runs f; what it throws without a place gets this one. `f` may add operations.
  template <typename F>
  auto at(Place place, std::string_view title, F&& f) {
    graph_.set_span(place.span);
    try {
      return f();
    } catch (const Error& error) {
      rethrow(error, place, title);
    }
  }

  /// A value as a tensor: numbers become 0-d, sequences of numbers arrays.
  OpId tensor(const Value& value);
  /// The same in a dtype: an array is cast, and numbers need fit that dtype only.
  OpId tensor(const Value& value, DType dtype);
  std::int64_t integer(const Value& value, std::string_view what);
  double number(const Value& value, std::string_view what);
  bool boolean(const Value& value, std::string_view what);
  Scalar scalar(const Value& value, std::string_view what);
  DType dtype(const Value& value);
  /// An integer, or a sequence of them.
  std::vector<std::int64_t> integers(const Value& value, std::string_view what);
  Shape shape(const Value& value);
  /// The items of a tuple or a list.
  const std::vector<Value>& items(const Value& value, std::string_view what);

  Value unary(weft::UnaryOp op, const Value& x, Place place);
  Value binary(weft::BinaryOp op, const Value& a, const Value& b, Place place);
  Value matmul(const Value& a, const Value& b, Place place);
  Value where(const Value& condition, const Value& a, const Value& b);
  /// The elements at `indices`, an integer array, along one axis. Constant indices are checked here.
  OpId take(OpId x, std::size_t axis, const Value& indices);

  /// The whole call that is being translated.
  Span call_span() const noexcept { return call_span_; }
  Value make(Value::Data data) const { return {call_span_, std::move(data)}; }
  Value make_tensor(OpId id) const { return make(TensorRef{id}); }

 private:
  [[noreturn]] void rethrow(const Error& error, Place place, std::string_view title) const;
  void check_given();

  Value value(NodeId id);
  Value name(const Node& node);
  Value unary_node(const Node& node);
  Value binary_node(const Node& node);
  Value call(const Node& node);
  Value attribute(const Node& node);
  std::optional<Value> property(const Value& object, const Attribute& attribute, Span span);
  Value sequence(const Node& node, const std::vector<NodeId>& ids);
  Value slice(const Node& node);

  const Function& callee(const Call& call, std::optional<Value>& self);
  const Function& function_named(std::string_view name, Span span);
  Arguments bind(const Function& function, const Node& node, const std::optional<Value>& self,
                 std::vector<Value>& storage);

  // indexing.cpp
  Value index(const Node& node);
  Value index_sequence(const Value& object, const std::vector<Value>& items, Span span);
  OpId index_tensor(OpId x, const std::vector<Value>& items, Span span);

  /// tensor(), with numbers in `dtype` where one is given.
  OpId make_array(const Value& value, std::optional<DType> dtype);
  /// Numbers beside a tensor take the dtype that the two meet in.
  OpId operand(const Value& value, DType beside);
  std::pair<OpId, OpId> operands(const Value& a, const Value& b);
  [[noreturn]] void shapes_differ(OpId a, OpId b, const Value& left, const Value& right, Place place) const;
  std::string_view name_of(const Value& value) const;
  std::string file_of(const Value& value) const;
  std::vector<std::string_view> visible_names() const;

  const Program& program_;
  const Expression::Types& inputs_;
  Graph& graph_;
  std::unordered_map<std::string, Value> variables_;
  Span call_span_;
};

/// What a value is, for messages: "an array of shape (2, 3)", "a number".
std::string describe(const Value& value, const Graph& graph);

}  // namespace weft::expr
