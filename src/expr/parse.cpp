#include "expr/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "expr/diagnostic.h"
#include "expr/token.h"

namespace weft::expr {
namespace {

struct Infix {
  BinaryOp op;
  int level;  // the higher binds the tighter
};

constexpr int kComparison = 1;

/// All of them associate to the left. ** is not among them: it binds tighter than a sign on its left.
std::optional<Infix> infix(TokenKind kind) {
  switch (kind) {
    case TokenKind::equal: return Infix{BinaryOp::equal, kComparison};
    case TokenKind::not_equal: return Infix{BinaryOp::not_equal, kComparison};
    case TokenKind::less: return Infix{BinaryOp::less, kComparison};
    case TokenKind::less_equal: return Infix{BinaryOp::less_equal, kComparison};
    case TokenKind::greater: return Infix{BinaryOp::greater, kComparison};
    case TokenKind::greater_equal: return Infix{BinaryOp::greater_equal, kComparison};
    case TokenKind::pipe: return Infix{BinaryOp::bit_or, 2};
    case TokenKind::caret: return Infix{BinaryOp::bit_xor, 3};
    case TokenKind::ampersand: return Infix{BinaryOp::bit_and, 4};
    case TokenKind::left_shift: return Infix{BinaryOp::left_shift, 5};
    case TokenKind::right_shift: return Infix{BinaryOp::right_shift, 5};
    case TokenKind::plus: return Infix{BinaryOp::add, 6};
    case TokenKind::minus: return Infix{BinaryOp::subtract, 6};
    case TokenKind::star: return Infix{BinaryOp::multiply, 7};
    case TokenKind::slash: return Infix{BinaryOp::divide, 7};
    case TokenKind::double_slash: return Infix{BinaryOp::floor_divide, 7};
    case TokenKind::percent: return Infix{BinaryOp::remainder, 7};
    case TokenKind::at: return Infix{BinaryOp::matmul, 7};
    default: return std::nullopt;
  }
}

std::optional<UnaryOp> prefix(TokenKind kind) {
  switch (kind) {
    case TokenKind::plus: return UnaryOp::plus;
    case TokenKind::minus: return UnaryOp::negate;
    case TokenKind::tilde: return UnaryOp::invert;
    default: return std::nullopt;
  }
}

bool is_operator(TokenKind kind) {
  return infix(kind) || prefix(kind) || kind == TokenKind::double_star;
}

bool ends_statement(TokenKind kind) {
  return kind == TokenKind::end || kind == TokenKind::newline || kind == TokenKind::semicolon;
}

bool closes(TokenKind kind) {
  return kind == TokenKind::right_paren || kind == TokenKind::right_bracket;
}

TokenKind closer_of(TokenKind opener) {
  return opener == TokenKind::left_paren ? TokenKind::right_paren : TokenKind::right_bracket;
}

/// With its article, to end a sentence: "cannot assign to a call".
std::string_view describe(NodeKind kind) {
  switch (kind) {
    case NodeKind::integer:
    case NodeKind::floating: return "a number";
    case NodeKind::bool_: return "a constant";
    case NodeKind::none: return "None";
    case NodeKind::ellipsis: return "...";
    case NodeKind::string: return "a string";
    case NodeKind::name: return "a name in parentheses";
    case NodeKind::unary:
    case NodeKind::binary: return "an expression";
    case NodeKind::call: return "a call";
    case NodeKind::attribute: return "an attribute";
    case NodeKind::index: return "an index";
    case NodeKind::slice: return "a slice";
    case NodeKind::tuple: return "a tuple";
    case NodeKind::list: return "a list";
  }
  return "this";
}

class Parser {
 public:
  explicit Parser(const Source& source) : source_(source), lexer_(source) { advance(); }

  std::vector<Statement> statements();
  std::vector<Node> take_nodes() { return std::move(nodes_); }

 private:
  // The grammar.
  Statement statement();
  NodeId expression();
  NodeId binary(int least_level);
  NodeId unary();
  NodeId power();
  NodeId postfix();
  NodeId primary();
  NodeId parenthesised();
  NodeId list();
  NodeId call(NodeId callee);
  NodeId attribute(NodeId object);
  NodeId index(NodeId object);
  NodeId index_item();
  NodeId slice(std::uint32_t begin, std::optional<NodeId> start);

  // Tokens.
  void advance();
  void open();
  Span close();
  std::string_view text(Span span) const { return source_.text(span); }

  // Nodes.
  NodeId add(Span span, Node::Data data, Span place);
  NodeId add(Span span, Node::Data data) { return add(span, std::move(data), span); }
  Span span_of(NodeId id) const { return nodes_[id].span; }
  bool is_bare_name(NodeId id) const;
  Token take_bare_name();

  // Errors.
  [[noreturn]] void fail(Place place, std::string_view note, std::string fix) const;
  [[noreturn]] void refuse(Place place, std::string_view note, std::string fix) const;
  [[noreturn]] void fail_unclosed() const;
  [[noreturn]] void fail_after_operand() const;
  [[noreturn]] void fail_no_operand() const;
  [[noreturn]] void fail_keyword() const;
  [[noreturn]] void fail_augmented(const Token& op, std::optional<NodeId> target) const;
  [[noreturn]] void fail_target(NodeId target) const;
  [[noreturn]] void fail_chained(NodeId left, BinaryOp second, Span op_span, NodeId right) const;
  std::string quote(const Token& token) const;

  const Source& source_;
  Lexer lexer_;
  Token previous_;
  Token current_;
  std::vector<Token> openers_;  // the brackets that are open
  std::vector<Node> nodes_;
  std::vector<std::uint16_t> heights_;  // one a node
  std::size_t depth_ = 0;
};

// --- tokens and nodes

void Parser::advance() {
  previous_ = current_;
  current_ = lexer_.next();
}

void Parser::open() {
  openers_.push_back(current_);
  advance();
}

/// Takes the bracket that closes the innermost open one; gives the span of both.
Span Parser::close() {
  const Token opener = openers_.back();
  if (current_.kind != closer_of(opener.kind)) fail_after_operand();
  const Span span = join(opener.span, current_.span);
  openers_.pop_back();
  advance();
  return span;
}

NodeId Parser::add(Span span, Node::Data data, Span place) {
  Node node{span, std::move(data)};
  std::size_t height = 1;
  for_each_child(node, [&](NodeId id) { height = std::max<std::size_t>(height, heights_[id] + 1u); });
  if (height > kMaxHeight) {
    throw make_error(ErrorCode::out_of_range, source_, place, "expression too long",
                     fmt::format("more than {} operations chained in one statement", kMaxHeight),
                     "split it into several statements joined by ;");
  }
  nodes_.push_back(std::move(node));
  heights_.push_back(static_cast<std::uint16_t>(height));
  return static_cast<NodeId>(nodes_.size() - 1);
}

bool Parser::is_bare_name(NodeId id) const {
  return nodes_[id].kind() == NodeKind::name && source_.text()[span_of(id).begin] != '(';
}

/// Takes back the name that was read as an expression and turns out to be a target or a keyword.
Token Parser::take_bare_name() {
  const Token name{.kind = TokenKind::name, .span = nodes_.back().span};
  nodes_.pop_back();
  heights_.pop_back();
  return name;
}

// --- the grammar

std::vector<Statement> Parser::statements() {
  std::vector<Statement> all;
  while (true) {
    while (current_.kind == TokenKind::semicolon || current_.kind == TokenKind::newline) advance();
    if (current_.kind == TokenKind::end) break;
    all.push_back(statement());
    if (!ends_statement(current_.kind)) fail_after_operand();
  }
  if (all.empty()) {
    fail(Span{0, 0}, "the expression is empty", "write one, for example 'a + b'");
  }
  return all;
}

Statement Parser::statement() {
  Statement s;
  s.value = expression();
  s.span = span_of(s.value);
  if (current_.kind == TokenKind::augmented_assign) fail_augmented(current_, s.value);
  if (current_.kind != TokenKind::assign) return s;
  if (!is_bare_name(s.value)) fail_target(s.value);
  const Token target = take_bare_name();
  s.target = text(target.span);
  s.target_span = target.span;
  advance();
  s.value = expression();
  s.span = join(target.span, span_of(s.value));
  if (current_.kind == TokenKind::assign) {
    refuse(current_.span, "a statement assigns once", "write one assignment a statement, or == to compare");
  }
  return s;
}

NodeId Parser::expression() {
  return binary(kComparison);
}

NodeId Parser::binary(int least_level) {
  NodeId left = unary();
  bool compared = false;
  while (true) {
    const std::optional<Infix> operation = infix(current_.kind);
    if (!operation || operation->level < least_level) return left;
    const Span op_span = current_.span;
    advance();
    const NodeId right = binary(operation->level + 1);
    if (operation->level == kComparison) {
      if (compared) fail_chained(left, operation->op, op_span, right);
      compared = true;
    }
    left = add(join(span_of(left), span_of(right)), Binary{operation->op, left, right, op_span}, op_span);
  }
}

NodeId Parser::unary() {
  // Every way to nest leads through here.
  if (depth_ > kMaxNesting) {
    throw make_error(ErrorCode::out_of_range, source_, current_.span, "expression too deep",
                     fmt::format("brackets, signs and powers nest deeper than {} levels", kMaxNesting),
                     "split it into several statements joined by ;");
  }
  ++depth_;
  NodeId result = 0;
  if (const std::optional<UnaryOp> op = prefix(current_.kind)) {
    const Span op_span = current_.span;
    advance();
    const NodeId operand = unary();
    result = add(join(op_span, span_of(operand)), Unary{*op, operand, op_span}, op_span);
  } else {
    result = power();
  }
  --depth_;
  return result;
}

NodeId Parser::power() {
  const NodeId base = postfix();
  if (current_.kind != TokenKind::double_star) return base;
  const Span op_span = current_.span;
  advance();
  const NodeId exponent = unary();
  return add(join(span_of(base), span_of(exponent)), Binary{BinaryOp::power, base, exponent, op_span}, op_span);
}

NodeId Parser::postfix() {
  NodeId object = primary();
  while (true) {
    switch (current_.kind) {
      case TokenKind::left_paren: object = call(object); break;
      case TokenKind::left_bracket: object = index(object); break;
      case TokenKind::dot: object = attribute(object); break;
      default: return object;
    }
  }
}

NodeId Parser::primary() {
  const Token t = current_;
  switch (t.kind) {
    case TokenKind::integer: advance(); return add(t.span, Integer{t.integer});
    case TokenKind::floating: advance(); return add(t.span, Floating{t.floating});
    case TokenKind::true_: advance(); return add(t.span, Bool{true});
    case TokenKind::false_: advance(); return add(t.span, Bool{false});
    case TokenKind::none: advance(); return add(t.span, None{});
    case TokenKind::string: advance(); return add(t.span, String{std::string(text(string_content(t)))});
    case TokenKind::name: advance(); return add(t.span, Name{std::string(text(t.span))});
    case TokenKind::left_paren: return parenthesised();
    case TokenKind::left_bracket: return list();
    default: fail_no_operand();
  }
}

NodeId Parser::parenthesised() {
  open();
  if (current_.kind == TokenKind::right_paren) return add(close(), Tuple{});
  const NodeId first = expression();
  if (current_.kind != TokenKind::comma) {
    nodes_[first].span = close();
    return first;
  }
  Tuple tuple{{first}};
  while (current_.kind == TokenKind::comma) {
    advance();
    if (current_.kind == TokenKind::right_paren) break;
    tuple.items.push_back(expression());
  }
  return add(close(), std::move(tuple));
}

NodeId Parser::list() {
  open();
  List list;
  while (current_.kind != TokenKind::right_bracket) {
    list.items.push_back(expression());
    if (current_.kind != TokenKind::comma) break;
    advance();
  }
  return add(close(), std::move(list));
}

NodeId Parser::call(NodeId callee) {
  const NodeKind kind = nodes_[callee].kind();
  if (kind != NodeKind::name && kind != NodeKind::attribute) {
    fail(Place(span_of(callee), current_.span), fmt::format("{} cannot be called", describe(kind)),
         "write * before the parenthesis to multiply");
  }
  open();
  Call call{callee, {}, {}};
  std::unordered_set<std::string_view> names;
  while (current_.kind != TokenKind::right_paren) {
    if (current_.kind == TokenKind::star || current_.kind == TokenKind::double_star) {
      refuse(current_.span, "arguments cannot be unpacked", "pass them one by one");
    }
    const NodeId value = expression();
    if (current_.kind == TokenKind::assign) {
      if (!is_bare_name(value)) {
        fail(Place(span_of(value), current_.span), "the left side of '=' is not the name of an argument",
             "write name=value for a keyword argument, or == to compare");
      }
      const Span name = take_bare_name().span;
      if (!names.insert(text(name)).second) {
        fail(name, fmt::format("keyword argument {} is given twice", excerpt(text(name))), "keep one of them");
      }
      advance();
      const NodeId given = expression();
      call.keywords.push_back({std::string(text(name)), given, name});
    } else if (!call.keywords.empty()) {
      if (current_.kind != TokenKind::comma && current_.kind != TokenKind::right_paren) fail_after_operand();
      fail(span_of(value), "a positional argument follows a keyword argument",
           "put positional arguments first, or give this one its name");
    } else {
      call.arguments.push_back(value);
    }
    if (current_.kind != TokenKind::comma) break;
    advance();
  }
  return add(join(span_of(callee), close()), std::move(call));
}

NodeId Parser::attribute(NodeId object) {
  const Span dot = current_.span;
  advance();
  if (current_.kind != TokenKind::name) {
    fail(dot, "no name follows the '.'", "write an attribute or a method, for example x.T or x.sum()");
  }
  const Span name = current_.span;
  advance();
  return add(join(span_of(object), name), Attribute{object, std::string(text(name)), name}, name);
}

NodeId Parser::index(NodeId object) {
  open();
  if (current_.kind == TokenKind::right_bracket) {
    fail(join(openers_.back().span, current_.span), "the index is empty",
         "write an index, for example x[0], x[:] or x[...]");
  }
  Index index{object, {}};
  bool comma = false;
  while (current_.kind != TokenKind::right_bracket) {
    index.items.push_back(index_item());
    if (current_.kind != TokenKind::comma) break;
    comma = true;
    advance();
  }
  if (!comma && nodes_[index.items.front()].kind() == NodeKind::tuple) {
    // x[(1, 2)] is x[1, 2]: the tuple, which is the newest node, gives way to its items.
    const Span brackets = close();
    Tuple tuple = std::get<Tuple>(std::move(nodes_.back().data));
    nodes_.pop_back();
    heights_.pop_back();
    index.items = std::move(tuple.items);
    return add(join(span_of(object), brackets), std::move(index));
  }
  return add(join(span_of(object), close()), std::move(index));
}

NodeId Parser::index_item() {
  const Token first = current_;
  if (first.kind == TokenKind::ellipsis) {
    advance();
    return add(first.span, Ellipsis{});
  }
  if (first.kind == TokenKind::colon) return slice(first.span.begin, std::nullopt);
  const NodeId start = expression();
  if (current_.kind != TokenKind::colon) return start;
  return slice(span_of(start).begin, start);
}

NodeId Parser::slice(std::uint32_t begin, std::optional<NodeId> start) {
  const auto ends_part = [&] {
    return current_.kind == TokenKind::colon || current_.kind == TokenKind::comma || closes(current_.kind);
  };
  Slice slice{start, std::nullopt, std::nullopt};
  advance();
  if (!ends_part()) slice.stop = expression();
  if (current_.kind == TokenKind::colon) {
    advance();
    if (!ends_part()) slice.step = expression();
  }
  return add({begin, previous_.span.end}, slice);
}

// --- errors

void Parser::fail(Place place, std::string_view note, std::string fix) const {
  throw make_error(ErrorCode::invalid_argument, source_, place, "syntax error", note, std::move(fix));
}

void Parser::refuse(Place place, std::string_view note, std::string fix) const {
  throw make_error(ErrorCode::invalid_argument, source_, place, "not supported", note, std::move(fix));
}

std::string Parser::quote(const Token& token) const {
  if (token.kind == TokenKind::end) return "the end";
  if (token.kind == TokenKind::newline) return "the end of the line";
  const std::string word = excerpt(text(token.span));
  return token.kind == TokenKind::string ? word : fmt::format("'{}'", word);
}

void Parser::fail_unclosed() const {
  const Token& opener = openers_.back();
  fail(opener.span, fmt::format("{} is never closed", quote(opener)),
       opener.kind == TokenKind::left_paren ? "add the missing ')'" : "add the missing ']'");
}

/// current_ cannot follow the operand before it.
void Parser::fail_after_operand() const {
  const bool bracketed = !openers_.empty();
  const bool in_index = bracketed && openers_.back().kind == TokenKind::left_bracket;
  switch (current_.kind) {
    case TokenKind::end:
    case TokenKind::newline:
    case TokenKind::semicolon: fail_unclosed();
    case TokenKind::right_paren:
    case TokenKind::right_bracket:
    case TokenKind::right_brace:
      if (bracketed) {
        fail(Place(join(openers_.back().span, current_.span), current_.span),
             fmt::format("{} does not close {}", quote(current_), quote(openers_.back())),
             in_index ? "write ']' here" : "write ')' here");
      }
      fail(current_.span, fmt::format("{} closes nothing", quote(current_)), "remove it, or open the bracket before");
    case TokenKind::keyword: fail_keyword();
    case TokenKind::assign:
      fail(current_.span, "'=' stands inside an expression",
           "use == to compare, or assign in a statement of its own, name = value");
    case TokenKind::walrus:
      refuse(current_.span, "':=' is not supported", "assign in a statement of its own, name = value");
    case TokenKind::augmented_assign: fail_augmented(current_, std::nullopt);
    case TokenKind::comma:
      fail(current_.span, "a comma stands outside brackets", "put parentheses around a tuple, or ; between statements");
    case TokenKind::colon:
      if (in_index) {
        fail(current_.span, "this ':' belongs to no slice",
             "write start:stop:step, directly between the [ ] of an index");
      }
      fail(current_.span, "':' stands outside an index", "write slices between [ and ]");
    default: break;
  }
  // Two operands side by side. Over a line break, the bracket that turned the break into a blank is the likely fault.
  const Span gap{previous_.span.end, current_.span.begin};
  if (bracketed && text(gap).find_first_of("\r\n") != std::string_view::npos) fail_unclosed();
  if (current_.kind == TokenKind::string && previous_.kind == TokenKind::name && gap.begin == gap.end) {
    refuse(join(previous_.span, current_.span), "strings have no prefixes here", "write the string alone");
  }
  if (current_.kind == TokenKind::tilde) {
    fail(current_.span, "'~' takes no operand on its left", "use != to compare, or ^ for exclusive or");
  }
  fail(current_.span, fmt::format("an operator is missing before {}", quote(current_)),
       bracketed ? "put an operator or a comma before it" : "put an operator before it, or ; between statements");
}

/// current_ cannot begin an operand.
void Parser::fail_no_operand() const {
  switch (current_.kind) {
    case TokenKind::keyword: fail_keyword();
    case TokenKind::left_brace:
      refuse(current_.span, "dictionaries and sets are not supported", "use ( ) to group, or [ ] for a list");
    case TokenKind::ellipsis:
      fail(current_.span, "'...' stands outside an index", "write it directly between [ and ], for example x[..., 0]");
    case TokenKind::assign:
      if (previous_.kind == TokenKind::assign || is_operator(previous_.kind)) break;
      fail(current_.span, "no name stands before '='", "write name = value");
    case TokenKind::walrus:
      refuse(current_.span, "':=' is not supported", "assign in a statement of its own, name = value");
    default: break;
  }
  const bool after_operator = is_operator(previous_.kind);
  const bool operator_here = is_operator(current_.kind);
  if (after_operator && operator_here) {
    fail(Place(join(previous_.span, current_.span), current_.span),
         fmt::format("no operand stands between {} and {}", quote(previous_), quote(current_)),
         "remove one of the operators, or put a value between them");
  }
  if (after_operator) {
    fail(previous_.span, fmt::format("no operand follows {}", quote(previous_)), "put a value after the operator");
  }
  if (!openers_.empty() && ends_statement(current_.kind)) fail_unclosed();
  if (previous_.kind == TokenKind::assign) {
    fail(previous_.span, "no value follows '='", "write a value after it");
  }
  if (operator_here) {
    fail(current_.span, fmt::format("no operand stands before {}", quote(current_)), "put a value before the operator");
  }
  if (openers_.empty() && closes(current_.kind)) fail_after_operand();
  if (!openers_.empty() && closes(current_.kind) && current_.kind != closer_of(openers_.back().kind)) {
    fail_after_operand();
  }
  fail(current_.span, fmt::format("a value is expected before {}", quote(current_)), "put a value there, or remove it");
}

void Parser::fail_keyword() const {
  const std::string_view word = text(current_.span);
  const Span place = current_.span;
  const std::string note = fmt::format("'{}' is not supported", word);
  if (word == "and") refuse(place, note, "use &, with parentheses around comparisons");
  if (word == "or") refuse(place, note, "use |, with parentheses around comparisons");
  if (word == "not") refuse(place, note, "use ~ to invert a mask");
  if (word == "if" || word == "else" || word == "elif") {
    refuse(place, fmt::format("'{}' does not work on arrays", word), "use where(condition, a, b)");
  }
  if (word == "is") refuse(place, note, "use == to compare, or isnan(x)");
  if (word == "in") refuse(place, note, "use any(x == value)");
  if (word == "lambda" || word == "def") refuse(place, note, "write the expression out, in statements name = part");
  if (word == "for" || word == "while") refuse(place, note, "work on whole arrays, with an axis argument");
  if (word == "import" || word == "from") refuse(place, note, "remove it, since all functions are known already");
  if (word == "return" || word == "yield") refuse(place, note, "write the result as the last statement");
  refuse(place, fmt::format("'{}' is a reserved word of Python", word), "choose another name");
}

void Parser::fail_augmented(const Token& op, std::optional<NodeId> target) const {
  const std::string_view sign = text(op.span).substr(0, op.span.end - op.span.begin - 1);
  const std::string name = target && is_bare_name(*target) ? excerpt(text(span_of(*target))) : "name";
  refuse(op.span, "augmented assignment is not supported", fmt::format("write {} = {} {} value", name, name, sign));
}

void Parser::fail_target(NodeId target) const {
  const NodeKind kind = nodes_[target].kind();
  std::string fix = "use == to compare, or assign to a name, name = value";
  if (kind == NodeKind::index) fix = "build a new array with where(...) or concat(...), or use == to compare";
  if (kind == NodeKind::name) fix = "remove the parentheses around the name";
  if (kind == NodeKind::tuple || kind == NodeKind::list) fix = "write one assignment a statement, name = value";
  fail(Place(span_of(target), current_.span), fmt::format("cannot assign to {}", describe(kind)), std::move(fix));
}

void Parser::fail_chained(NodeId left, BinaryOp second, Span op_span, NodeId right) const {
  const Span first = span_of(left);
  const Span middle = span_of(nodes_[left].as<Binary>().right);
  const Span last = span_of(right);
  const bool has_comment = text(join(first, last)).find('#') != std::string_view::npos;
  const Binary* joint = nodes_[nodes_[left].as<Binary>().right].get_if<Binary>();
  const bool joins =
      joint != nullptr && source_.text()[middle.begin] != '(' &&
      (joint->op == BinaryOp::bit_and || joint->op == BinaryOp::bit_or || joint->op == BinaryOp::bit_xor);
  if (joins) {
    refuse(Place(join(first, last), op_span),
           fmt::format("'{}' binds tighter than comparisons, which cannot be chained", spelling(joint->op)),
           "put each comparison in parentheses");
  }
  refuse(Place(join(first, last), op_span), "comparisons cannot be chained",
         has_comment ? std::string("compare two by two and join with &, each in parentheses")
                     : fmt::format("write ({}) & ({} {} {})", excerpt(text(first)), excerpt(text(middle)),
                                   spelling(second), excerpt(text(last))));
}

}  // namespace

Program parse(Source source) {
  Parser parser(source);
  std::vector<Statement> statements = parser.statements();
  std::vector<Node> nodes = parser.take_nodes();
  return {std::move(source), std::move(nodes), std::move(statements)};
}

}  // namespace weft::expr
