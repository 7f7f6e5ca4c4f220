// The front half of `weft eval`: requirement of issue 3, point 7 (Python's precedence; errors with a caret).
#include "expr/parse.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "expr/diagnostic.h"
#include "expr/utf8.h"
#include "weft/error.h"

namespace weft::expr {
namespace {

/// The program as S-expressions, statements parted by " ; ".
class Dump {
 public:
  explicit Dump(const Program& program) : program_(program) {}

  std::string statements() const {
    std::string out;
    for (const Statement& s : program_.statements) {
      if (!out.empty()) out += " ; ";
      out += s.target.empty() ? node(s.value) : fmt::format("(= {} {})", s.target, node(s.value));
    }
    return out;
  }

 private:
  std::string node(NodeId id) const {
    const Node& n = program_.node(id);
    switch (n.kind()) {
      case NodeKind::integer: return fmt::format("{}", n.as<Integer>().value);
      case NodeKind::floating: {
        std::string digits = fmt::format("{:.17g}", n.as<Floating>().value);
        return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
      }
      case NodeKind::bool_: return n.as<Bool>().value ? "True" : "False";
      case NodeKind::none: return "None";
      case NodeKind::ellipsis: return "...";
      case NodeKind::string: return fmt::format("\"{}\"", n.as<String>().value);
      case NodeKind::name: return n.as<Name>().value;
      case NodeKind::unary: {
        const Unary& u = n.as<Unary>();
        const std::string_view head = u.op == UnaryOp::negate ? "neg" : u.op == UnaryOp::plus ? "pos" : "~";
        return fmt::format("({} {})", head, node(u.operand));
      }
      case NodeKind::binary: {
        const Binary& b = n.as<Binary>();
        return fmt::format("({} {} {})", spelling(b.op), node(b.left), node(b.right));
      }
      case NodeKind::call: {
        const Call& c = n.as<Call>();
        std::string out = "(call " + node(c.callee) + all(c.arguments);
        for (const Keyword& k : c.keywords) out += fmt::format(" {}={}", k.name, node(k.value));
        return out + ")";
      }
      case NodeKind::attribute: return fmt::format("(. {} {})", node(n.as<Attribute>().object), n.as<Attribute>().name);
      case NodeKind::index: return "(index " + node(n.as<Index>().object) + all(n.as<Index>().items) + ")";
      case NodeKind::slice: {
        const Slice& s = n.as<Slice>();
        return fmt::format("(slice {} {} {})", part(s.start), part(s.stop), part(s.step));
      }
      case NodeKind::tuple: return "(tuple" + all(n.as<Tuple>().items) + ")";
      case NodeKind::list: return "(list" + all(n.as<List>().items) + ")";
    }
    return "?";
  }
  std::string all(const std::vector<NodeId>& ids) const {
    std::string out;
    for (NodeId id : ids) out += " " + node(id);
    return out;
  }
  std::string part(std::optional<NodeId> id) const { return id ? node(*id) : "_"; }

  const Program& program_;
};

std::string dump(std::string_view text) {
  const Program program = parse(Source(std::string(text)));
  return Dump(program).statements();
}

Error error_of(std::string_view text) {
  try {
    parse(Source(std::string(text)));
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error for: " << text;
  return Error(ErrorCode::internal, "no error", "none");
}

std::string repeat(std::string_view part, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += part;
  return out;
}

// Each text beside what Python 3.11's ast module makes of it.
struct Case {
  std::string_view text;
  std::string_view tree;
};

constexpr Case kPrecedence[] = {
    {"a + b * c", "(+ a (* b c))"},
    {"a * b + c", "(+ (* a b) c)"},
    {"a - b - c", "(- (- a b) c)"},
    {"a - (b - c)", "(- a (- b c))"},
    {"a / b / c", "(/ (/ a b) c)"},
    {"a / b * c", "(* (/ a b) c)"},
    {"a // b % c", "(% (// a b) c)"},
    {"a % b // c", "(// (% a b) c)"},
    {"a @ b @ c", "(@ (@ a b) c)"},
    {"a @ b * c", "(* (@ a b) c)"},
    {"a * b @ c", "(@ (* a b) c)"},
    {"a @ b + c", "(+ (@ a b) c)"},
    {"a + b @ c", "(+ a (@ b c))"},
    {"a ** b ** c", "(** a (** b c))"},
    {"(a ** b) ** c", "(** (** a b) c)"},
    {"-a ** 2", "(neg (** a 2))"},
    {"(-a) ** 2", "(** (neg a) 2)"},
    {"2 ** -1", "(** 2 (neg 1))"},
    {"2 ** -a ** b", "(** 2 (neg (** a b)))"},
    {"a ** -b * c", "(* (** a (neg b)) c)"},
    {"-a * b", "(* (neg a) b)"},
    {"-a @ b", "(@ (neg a) b)"},
    {"a * -b", "(* a (neg b))"},
    {"a - -b", "(- a (neg b))"},
    {"a--b", "(- a (neg b))"},
    {"a++b", "(+ a (pos b))"},
    {"~a & b", "(& (~ a) b)"},
    {"~a ** 2", "(~ (** a 2))"},
    {"-~+a", "(neg (~ (pos a)))"},
    {"- - -a", "(neg (neg (neg a)))"},
    {"+a - b", "(- (pos a) b)"},
    {"a << b + c", "(<< a (+ b c))"},
    {"a + b << c", "(<< (+ a b) c)"},
    {"a << b >> c", "(>> (<< a b) c)"},
    {"a << (b >> c)", "(<< a (>> b c))"},
    {"a & b << c", "(& a (<< b c))"},
    {"a << b & c", "(& (<< a b) c)"},
    {"a ^ b & c", "(^ a (& b c))"},
    {"a & b ^ c", "(^ (& a b) c)"},
    {"a | b ^ c", "(| a (^ b c))"},
    {"a ^ b | c", "(| (^ a b) c)"},
    {"a | b & c", "(| a (& b c))"},
    {"a & b | c", "(| (& a b) c)"},
    {"a | b | c", "(| (| a b) c)"},
    {"a ^ b ^ c", "(^ (^ a b) c)"},
    {"a & b & c", "(& (& a b) c)"},
    {"a == b | c", "(== a (| b c))"},
    {"a | b == c", "(== (| a b) c)"},
    {"a & b == c", "(== (& a b) c)"},
    {"(a == b) & (c != d)", "(& (== a b) (!= c d))"},
    {"a < b + c", "(< a (+ b c))"},
    {"a + b <= c << d", "(<= (+ a b) (<< c d))"},
    {"a > -b", "(> a (neg b))"},
    {"a >= b ** c", "(>= a (** b c))"},
    {"(a < b) < c", "(< (< a b) c)"},
    {"a < (b < c)", "(< a (< b c))"},
    {"a != ~b", "(!= a (~ b))"},
    {"a + b - c * d / e // f % g @ h ** i", "(- (+ a b) (@ (% (// (/ (* c d) e) f) g) (** h i)))"},
    {"a | b ^ c & d << e + f * g", "(| a (^ b (& c (<< d (+ e (* f g))))))"},
    {"a * b + c << d & e ^ f | g == h", "(== (| (^ (& (<< (+ (* a b) c) d) e) f) g) h)"},
};
constexpr Case kPostfix[] = {
    {"f()", "(call f)"},
    {"f(a)", "(call f a)"},
    {"f(a, b,)", "(call f a b)"},
    {"f(a, axis=1)", "(call f a axis=1)"},
    {"f(a, axis=(0, -1), keepdims=True,)", "(call f a axis=(tuple 0 (neg 1)) keepdims=True)"},
    {"f(axis=1)", "(call f axis=1)"},
    {"f(g(h(x)))", "(call f (call g (call h x)))"},
    {"x.T", "(. x T)"},
    {"x.T.T", "(. (. x T) T)"},
    {"x.shape", "(. x shape)"},
    {"x.sum(axis=1).T", "(. (call (. x sum) axis=1) T)"},
    {"x.sum()[0].T", "(. (index (call (. x sum)) 0) T)"},
    {"np.sum(x, 1)", "(call (. np sum) x 1)"},
    {"-x.T ** y.T", "(neg (** (. x T) (. y T)))"},
    {"a ** x[0]", "(** a (index x 0))"},
    {"-f(x) ** 2", "(neg (** (call f x) 2))"},
    {"a @ b.T", "(@ a (. b T))"},
    {"(a + b).T", "(. (+ a b) T)"},
    {"(a + b)[0]", "(index (+ a b) 0)"},
    {"x[0]", "(index x 0)"},
    {"x[-1]", "(index x (neg 1))"},
    {"x[0, 1]", "(index x 0 1)"},
    {"x[0,]", "(index x 0)"},
    {"x[(0, 1)]", "(index x 0 1)"},
    {"x[(0, 1), 2]", "(index x (tuple 0 1) 2)"},
    {"x[()]", "(index x)"},
    {"x[[0, 2]]", "(index x (list 0 2))"},
    {"x[:]", "(index x (slice _ _ _))"},
    {"x[::]", "(index x (slice _ _ _))"},
    {"x[1:]", "(index x (slice 1 _ _))"},
    {"x[:1]", "(index x (slice _ 1 _))"},
    {"x[1:2]", "(index x (slice 1 2 _))"},
    {"x[1:2:3]", "(index x (slice 1 2 3))"},
    {"x[::-1]", "(index x (slice _ _ (neg 1)))"},
    {"x[:2:]", "(index x (slice _ 2 _))"},
    {"x[1::2]", "(index x (slice 1 _ 2))"},
    {"x[1:, ::-1, None, ..., -1]", "(index x (slice 1 _ _) (slice _ _ (neg 1)) None ... (neg 1))"},
    {"x[a + 1:b * 2:-c]", "(index x (slice (+ a 1) (* b 2) (neg c)))"},
    {"x[1:2][0]", "(index (index x (slice 1 2 _)) 0)"},
    {"x[y[0]]", "(index x (index y 0))"},
    {"x[a == b]", "(index x (== a b))"},
    {"x[..., None]", "(index x ... None)"},
    {"2 .T", "(. 2 T)"},
    {"1..T", "(. 1.0 T)"},
};
constexpr Case kLiterals[] = {
    {"0", "0"},
    {"00", "0"},
    {"0_0", "0"},
    {"1_000", "1000"},
    {"0x1F", "31"},
    {"0XfF_ff", "65535"},
    {"0x_f", "15"},
    {"0b1010", "10"},
    {"0o17", "15"},
    {"9223372036854775807", "9223372036854775807"},
    {"0x7fffffffffffffff", "9223372036854775807"},
    {"1.", "1.0"},
    {".5", "0.5"},
    {"1.5", "1.5"},
    {"1_000.5", "1000.5"},
    {"1e3", "1000.0"},
    {"1e-3", "0.001"},
    {"1E+3", "1000.0"},
    {"1.e5", "100000.0"},
    {".5e1", "5.0"},
    {"1_0e1_0", "100000000000.0"},
    {"012.5", "12.5"},
    {"09e1", "90.0"},
    {"00.5", "0.5"},
    {"5e-324", "4.9406564584124654e-324"},
    {"1.7976931348623157e308", "1.7976931348623157e+308"},
    {"0.1", "0.10000000000000001"},
    {"123456789012345678901234567890.", "1.2345678901234568e+29"},
    {"True", "True"},
    {"False", "False"},
    {"None", "None"},
    {"inf", "inf"},
    {"'f4'", "\"f4\""},
    {"\"f4\"", "\"f4\""},
    {"''", "\"\""},
    {"\"it's\"", "\"it's\""},
    {"'é'", "\"é\""},
    {"()", "(tuple)"},
    {"(1,)", "(tuple 1)"},
    {"(1, 0)", "(tuple 1 0)"},
    {"((1, 0), (2,))", "(tuple (tuple 1 0) (tuple 2))"},
    {"(1)", "1"},
    {"((a))", "a"},
    {"[]", "(list)"},
    {"[1]", "(list 1)"},
    {"[1, 2, 3]", "(list 1 2 3)"},
    {"[[1, 2], [3, 4],]", "(list (list 1 2) (list 3 4))"},
    {"[1, a + b]", "(list 1 (+ a b))"},
    {"größe + β", "(+ größe β)"},
    {"_x1", "_x1"},
};
constexpr Case kPrograms[] = {
    {"a; b", "a ; b"},
    {"a\nb", "a ; b"},
    {"a;", "a"},
    {";;a;;b", "a ; b"},
    {"d = a - b; d * d", "(= d (- a b)) ; (* d d)"},
    {"x = 1\ny = x + 2\ny", "(= x 1) ; (= y (+ x 2)) ; y"},
    {"x = (1, 2)", "(= x (tuple 1 2))"},
    {"a = b == c", "(= a (== b c))"},
    {"a # note; b = 1", "a"},
    {"# first\na", "a"},
    {"(a +\n b)", "(+ a b)"},
    {"f(a,\n  b # why\n)", "(call f a b)"},
    {"x[\n0\n]", "(index x 0)"},
    {"a + \\\n b", "(+ a b)"},
    {"a\r\nb\r\n", "a ; b"},
    {"d = sum(a*a, 1, keepdims=1) - 2*(a @ b.T) + sum(b*b, 1); argmin(d, axis=1)",
     "(= d (+ (- (call sum (* a a) 1 keepdims=1) (* 2 (@ a (. b T)))) (call sum (* b b) 1))) ; (call argmin d axis=1)"},
    {"softmax(x @ w + b, axis=1)", "(call softmax (+ (@ x w) b) axis=1)"},
    {"import_ = lambdas + iffy", "(= import_ (+ lambdas iffy))"},
    {"T = x.T; T", "(= T (. x T)) ; T"},
};

void expect_all(std::span<const Case> cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    try {
      EXPECT_EQ(dump(c.text), c.tree);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(ExprParse, PrecedenceIsPythons) {
  expect_all(kPrecedence);
}
TEST(ExprParse, CallsAttributesAndIndices) {
  expect_all(kPostfix);
}
TEST(ExprParse, Literals) {
  expect_all(kLiterals);
}
TEST(ExprParse, Programs) {
  expect_all(kPrograms);
}

// For each pair of binary operators, the tree follows from their levels alone.
TEST(ExprParse, EveryPairOfOperators) {
  struct Operator {
    std::string_view sign;
    int level;
  };
  constexpr Operator kOperators[] = {{"==", 1}, {"<", 1}, {"|", 2}, {"^", 3}, {"&", 4},  {"<<", 5}, {">>", 5}, {"+", 6},
                                     {"-", 6},  {"*", 7}, {"/", 7}, {"%", 7}, {"//", 7}, {"@", 7},  {"**", 8}};
  for (const Operator& p : kOperators) {
    for (const Operator& q : kOperators) {
      const std::string text = fmt::format("a {} b {} c", p.sign, q.sign);
      SCOPED_TRACE(text);
      if (p.level == 1 && q.level == 1) {
        EXPECT_EQ(error_of(text).code(), ErrorCode::invalid_argument);
        continue;
      }
      const bool left_first = p.level > q.level || (p.level == q.level && p.level != 8);
      EXPECT_EQ(dump(text), left_first ? fmt::format("({} ({} a b) c)", q.sign, p.sign)
                                       : fmt::format("({} a ({} b c))", p.sign, q.sign));
    }
  }
}

TEST(ExprParse, ChildrenComeBeforeParentsAndEachNodeIsUsedOnce) {
  const Program p = parse(Source("y = f(x[1:, (a, 2)], axis=-1, k=[1]) ** 2; y[(1, 2)].T @ (y)"));
  std::vector<int> uses(p.nodes.size());
  for (NodeId id = 0; id < p.nodes.size(); ++id) {
    for_each_child(p.node(id), [&](NodeId child) {
      EXPECT_LT(child, id);
      ++uses[child];
    });
  }
  for (const Statement& s : p.statements) ++uses[s.value];
  for (NodeId id = 0; id < p.nodes.size(); ++id) EXPECT_EQ(uses[id], 1) << "node " << id;
}

TEST(ExprParse, SpansCoverTheTextWithItsParentheses) {
  const Program p = parse(Source(" größe = (a + b) @ f(x,\n k = 1)[0] ; -z.T"));
  ASSERT_EQ(p.statements.size(), 2u);
  const Statement& first = p.statements[0];
  EXPECT_EQ(p.source.text(first.target_span), "größe");
  EXPECT_EQ(first.target, "größe");
  EXPECT_EQ(p.source.text(first.span), "größe = (a + b) @ f(x,\n k = 1)[0]");
  const Binary& product = p.node(first.value).as<Binary>();
  EXPECT_EQ(p.source.text(product.op_span), "@");
  EXPECT_EQ(p.source.text(p.node(product.left).span), "(a + b)");
  EXPECT_EQ(p.source.text(p.node(product.right).span), "f(x,\n k = 1)[0]");
  const Index& index = p.node(product.right).as<Index>();
  const Call& call = p.node(index.object).as<Call>();
  EXPECT_EQ(p.source.text(call.keywords.at(0).name_span), "k");
  EXPECT_EQ(p.source.text(p.node(call.keywords.at(0).value).span), "1");
  const Unary& minus = p.node(p.statements[1].value).as<Unary>();
  EXPECT_EQ(p.source.text(minus.op_span), "-");
  EXPECT_EQ(p.source.text(p.node(minus.operand).as<Attribute>().name_span), "T");
}

struct Fault {
  std::string_view text;
  std::string_view shown;  // the caret line and the note
  std::string_view fix;
};

constexpr Fault kFaults[] = {
    {"sum(a, 1", "   ^ '(' is never closed", "add the missing ')'"},
    {"x[1:", " ^ '[' is never closed", "add the missing ']'"},
    {"x[1:2", " ^ '[' is never closed", "add the missing ']'"},
    {"(a + b]", "~~~~~~^ ']' does not close '('", "write ')' here"},
    {"f(a)]", "    ^ ']' closes nothing", "remove it, or open the bracket before"},
    {"a +", "  ^ no operand follows '+'", "put a value after the operator"},
    {"a + * b", "  ~~^ no operand stands between '+' and '*'",
     "remove one of the operators, or put a value between them"},
    {"* b", "^ no operand stands before '*'", "put a value before the operator"},
    {"a b", "  ^ an operator is missing before 'b'", "put an operator before it, or ; between statements"},
    {"2(a + b)", "~^ a number cannot be called", "write * before the parenthesis to multiply"},
    {"(a + b)(c)", "~~~~~~~^ an expression cannot be called", "write * before the parenthesis to multiply"},
    {"f(a=1, b)", "       ^ a positional argument follows a keyword argument",
     "put positional arguments first, or give this one its name"},
    {"f(a=1, a=2)", "       ^ keyword argument a is given twice", "keep one of them"},
    {"1 = a", "~~^ cannot assign to a number", "use == to compare, or assign to a name, name = value"},
    {"f(x) = 2", "~~~~~^ cannot assign to a call", "use == to compare, or assign to a name, name = value"},
    {"a + b = c", "~~~~~~^ cannot assign to an expression", "use == to compare, or assign to a name, name = value"},
    {"x[0] = 1", "~~~~~^ cannot assign to an index",
     "build a new array with where(...) or concat(...), or use == to compare"},
    {"x.T = 1", "~~~~^ cannot assign to an attribute", "use == to compare, or assign to a name, name = value"},
    {"(x) = 1", "~~~~^ cannot assign to a name in parentheses", "remove the parentheses around the name"},
    {"a = b = c", "      ^ a statement assigns once", "write one assignment a statement, or == to compare"},
    {"(a = b)", "   ^ '=' stands inside an expression",
     "use == to compare, or assign in a statement of its own, name = value"},
    {"f(1=2)", "  ~^ the left side of '=' is not the name of an argument",
     "write name=value for a keyword argument, or == to compare"},
    {"f(a.b=1)", "  ~~~^ the left side of '=' is not the name of an argument",
     "write name=value for a keyword argument, or == to compare"},
    {"f((a)=1)", "  ~~~^ the left side of '=' is not the name of an argument",
     "write name=value for a keyword argument, or == to compare"},
    {"f(x=)", "   ^ no value follows '='", "write a value after it"},
    {"a = ", "  ^ no value follows '='", "write a value after it"},
    {"= 3", "^ no name stands before '='", "write name = value"},
    {"a += 1", "  ^~ augmented assignment is not supported", "write a = a + value"},
    {"x[0] -= 1", "     ^~ augmented assignment is not supported", "write name = name - value"},
    {"a := 1", "  ^~ ':=' is not supported", "assign in a statement of its own, name = value"},
    {"(a := 1)", "   ^~ ':=' is not supported", "assign in a statement of its own, name = value"},
    {"a, b", " ^ a comma stands outside brackets", "put parentheses around a tuple, or ; between statements"},
    {"a, b = c", " ^ a comma stands outside brackets", "put parentheses around a tuple, or ; between statements"},
    {"a < b < c", "~~~~~~^~~ comparisons cannot be chained", "write (a < b) & (b < c)"},
    {"a > 1 & a < 5", "~~~~~~~~~~^~~ '&' binds tighter than comparisons, which cannot be chained",
     "put each comparison in parentheses"},
    {"a > 1 | a < 5", "~~~~~~~~~~^~~ '|' binds tighter than comparisons, which cannot be chained",
     "put each comparison in parentheses"},
    {"0 < x <= 1", "~~~~~~^~~~ comparisons cannot be chained", "write (0 < x) & (x <= 1)"},
    {"a and b", "  ^~~ 'and' is not supported", "use &, with parentheses around comparisons"},
    {"a or b", "  ^~ 'or' is not supported", "use |, with parentheses around comparisons"},
    {"not a", "^~~ 'not' is not supported", "use ~ to invert a mask"},
    {"a if c else b", "  ^~ 'if' does not work on arrays", "use where(condition, a, b)"},
    {"lambda x: x", "^~~~~~ 'lambda' is not supported", "write the expression out, in statements name = part"},
    {"a is None", "  ^~ 'is' is not supported", "use == to compare, or isnan(x)"},
    {"a in b", "  ^~ 'in' is not supported", "use any(x == value)"},
    {"[x for x in y]", "   ^~~ 'for' is not supported", "work on whole arrays, with an axis argument"},
    {"import numpy", "^~~~~~ 'import' is not supported", "remove it, since all functions are known already"},
    {"f(*a)", "  ^ arguments cannot be unpacked", "pass them one by one"},
    {"f(**k)", "  ^~ arguments cannot be unpacked", "pass them one by one"},
    {"{1: 2}", "^ dictionaries and sets are not supported", "use ( ) to group, or [ ] for a list"},
    {"a && b", "  ^~ '&&' has no meaning here", "use &, with parentheses around comparisons"},
    {"a || b", "  ^~ '||' has no meaning here", "use |, with parentheses around comparisons"},
    {"!a", "^ '!' has no meaning here", "use ~ to invert a mask, or != to compare"},
    {"a ! b", "  ^ '!' has no meaning here", "use ~ to invert a mask, or != to compare"},
    {"a <> b", "  ^~ '<>' has no meaning here", "use !="},
    {"a === b", "  ^~~ '===' has no meaning here", "use =="},
    {"x ? a : b", "  ^ '?' has no meaning here", "use where(condition, a, b)"},
    {"x .* y", "  ^~ '.*' has no meaning here", "use *, which is elementwise already"},
    {"x'", " ^ the string that ' opens is never closed", "add ' at its end, or use .T to transpose"},
    {"x' y", " ^ the string that ' opens is never closed", "add ' at its end, or use .T to transpose"},
    {"f\"abc\"", "^~~~~~ strings have no prefixes here", "write the string alone"},
    {"'abc", "^ the string that ' opens is never closed", "add ' at its end"},
    {"'a\\n'", "  ^ strings here have no escapes", "write the character itself"},
    {"12abc", "^~~~~ '12abc' is neither a number nor a name",
     "write 12*abc to multiply, or begin the name with a letter"},
    {"2x", "^~ '2x' is neither a number nor a name", "write 2*x to multiply, or begin the name with a letter"},
    {"1_", "^~ '1_' has an underscore that is not between two digits", "put single underscores between digits only"},
    {"1__0", "^~~~ '1__0' has an underscore that is not between two digits",
     "put single underscores between digits only"},
    {"1e", "^~ '1e' has no digits in its exponent", "write 1e0, or 1*e to multiply by e"},
    {"1.0f", "^~~~ '1.0f' has a suffix, which numbers here do not take", "write 1.0, or 1.0*f to multiply"},
    {"1j", "^~ complex numbers are not supported", "keep the real and the imaginary part in two arrays"},
    {"012", "^~~ an integer does not begin with 0", "drop the leading zeros, or write 0o for octal"},
    {"0x", "^~ '0x' is not an integer of base 16",
     "write digits of base 16 after 0x, with single underscores between them at most"},
    {"0b12", "^~~~ '0b12' is not an integer of base 2",
     "write digits of base 2 after 0b, with single underscores between them at most"},
    {"0xg", "^~~ '0xg' is not an integer of base 16",
     "write digits of base 16 after 0x, with single underscores between them at most"},
    {"99999999999999999999", "^~~~~~~~~~~~~~~~~~~~ this integer does not fit int64",
     "use an integer up to 9223372036854775807, or write it as a float with a point"},
    {"0xffffffffffffffff", "^~~~~~~~~~~~~~~~~~ this integer does not fit int64",
     "use an integer up to 0x7fffffffffffffff"},
    {"1e400", "^~~~~ this number does not fit float64", "use a magnitude from 5e-324 to 1.8e308, or write 0 or inf"},
    {"1e-400", "^~~~~~ this number does not fit float64", "use a magnitude from 5e-324 to 1.8e308, or write 0 or inf"},
    {"a $ b", "  ^ '$' has no meaning here", "remove it"},
    {"a × b", "  ^ '×' has no meaning here", "use *"},
    {"a − b", "  ^ '−' has no meaning here", "use the ASCII sign -"},
    {"“f4”", "^ '“' has no meaning here", "use the ASCII quote \""},
    {"x[]", " ^~ the index is empty", "write an index, for example x[0], x[:] or x[...]"},
    {"x[1:2:3:4]", "       ^ this ':' belongs to no slice",
     "write start:stop:step, directly between the [ ] of an index"},
    {"x:y", " ^ ':' stands outside an index", "write slices between [ and ]"},
    {"x[(1:2)]", "    ^ ':' stands outside an index", "write slices between [ and ]"},
    {"(a, ...)", "    ^~~ '...' stands outside an index", "write it directly between [ and ], for example x[..., 0]"},
    {"...", "^~~ '...' stands outside an index", "write it directly between [ and ], for example x[..., 0]"},
    {"x.", " ^ no name follows the '.'", "write an attribute or a method, for example x.T or x.sum()"},
    {"x.if", " ^ no name follows the '.'", "write an attribute or a method, for example x.T or x.sum()"},
    {"x.5", " ^~ an operator is missing before '.5'", "put an operator before it, or ; between statements"},
    {"f(,)", "  ^ a value is expected before ','", "put a value there, or remove it"},
    {"f(a,,b)", "    ^ a value is expected before ','", "put a value there, or remove it"},
    {"[,]", " ^ a value is expected before ','", "put a value there, or remove it"},
    {"(,)", " ^ a value is expected before ','", "put a value there, or remove it"},
    {"()()", "~~^ a tuple cannot be called", "write * before the parenthesis to multiply"},
    {"a ~ b", "  ^ '~' takes no operand on its left", "use != to compare, or ^ for exclusive or"},
    {"a ~= b", "  ^~ '~=' has no meaning here", "use !="},
    {"f(a b)", "    ^ an operator is missing before 'b'", "put an operator or a comma before it"},
    {"f(a; b)", " ^ '(' is never closed", "add the missing ')'"},
    {"'a' 'b'", "    ^~~ an operator is missing before 'b'", "put an operator before it, or ; between statements"},
    {"x = 1; y == ; z", "         ^~ no operand follows '=='", "put a value after the operator"},
    {"¬a", "^ '¬' has no meaning here", "remove it"},
    {"def f(x)", "^~~ 'def' is not supported", "write the expression out, in statements name = part"},
    {")", "^ ')' closes nothing", "remove it, or open the bracket before"},
    {"x[a=1]", "   ^ '=' stands inside an expression",
     "use == to compare, or assign in a statement of its own, name = value"},
    {"f(a := 1)", "    ^~ ':=' is not supported", "assign in a statement of its own, name = value"},
    {"[1, 2", "^ '[' is never closed", "add the missing ']'"},
    {"x @ (w + b", "    ^ '(' is never closed", "add the missing ')'"},
    {"True = 1", "~~~~~^ cannot assign to a constant", "use == to compare, or assign to a name, name = value"},
    {"f(True=1)", "  ~~~~^ the left side of '=' is not the name of an argument",
     "write name=value for a keyword argument, or == to compare"},
    {"pass", "^~~~ 'pass' is a reserved word of Python", "choose another name"},
    {"f(a\nb)", " ^ '(' is never closed", "add the missing ')'"},
    {"  # only", "^ the expression is empty", "write one, for example 'a + b'"},
    {"x[1:, 2", " ^ '[' is never closed", "add the missing ']'"},
    {"a + (b, c", "    ^ '(' is never closed", "add the missing ')'"},
    {"a ++", "   ^ no operand follows '+'", "put a value after the operator"},
    {"x..T", " ^ no name follows the '.'", "write an attribute or a method, for example x.T or x.sum()"},
    {"f(k=1 2)", "      ^ an operator is missing before '2'", "put an operator or a comma before it"},
    {"for x in y: x", "^~~ 'for' is not supported", "work on whole arrays, with an axis argument"},
    {"a elif b", "  ^~~~ 'elif' does not work on arrays", "use where(condition, a, b)"},
    {"while a", "^~~~~ 'while' is not supported", "work on whole arrays, with an axis argument"},
    {"a = return b", "    ^~~~~~ 'return' is not supported", "write the result as the last statement"},
    {"x += ", "  ^~ augmented assignment is not supported", "write x = x + value"},
    {"(a += 1)", "   ^~ augmented assignment is not supported", "write name = name + value"},
    {"x[a:b:c:d]", "       ^ this ':' belongs to no slice",
     "write start:stop:step, directly between the [ ] of an index"},
    {"x[...] = 1", "~~~~~~~^ cannot assign to an index",
     "build a new array with where(...) or concat(...), or use == to compare"},
    {"(a, b) = c", "~~~~~~~^ cannot assign to a tuple", "write one assignment a statement, name = value"},
    {"[a] = c", "~~~~^ cannot assign to a list", "write one assignment a statement, name = value"},
    {"1.0_0_", "^~~~~~ '1.0_0_' has an underscore that is not between two digits",
     "put single underscores between digits only"},
    {"0o8", "^~~ '0o8' is not an integer of base 8",
     "write digits of base 8 after 0o, with single underscores between them at most"},
    {"5 % ", "  ^ no operand follows '%'", "put a value after the operator"},
    {"a\\b", " ^ '\\' has no meaning here", "remove it"},
    {"\u202ea", "^ the character U+202E has no meaning here", "remove it"},
    {"\a", "^ the character U+0007 has no meaning here", "remove it"},
    {"\"\x1b\"", " ^ the character U+001B has no meaning here", "remove it"},
    {"100000000000000000000.5e400", "^~~~~~~~~~~~~~~~~~~~~~~~~~~ this number does not fit float64",
     "use a magnitude from 5e-324 to 1.8e308, or write 0 or inf"},
    {"lambda", "^~~~~~ 'lambda' is not supported", "write the expression out, in statements name = part"},
    {"x[{1}]", "  ^ dictionaries and sets are not supported", "use ( ) to group, or [ ] for a list"},
    {"f('a\nb')", "  ^ the string that ' opens is never closed", "add ' at its end"},
    {"2**", " ^~ no operand follows '**'", "put a value after the operator"},
    {"a**/b", " ~~^ no operand stands between '**' and '/'",
     "remove one of the operators, or put a value between them"},
    {"x[1:2)", " ~~~~^ ')' does not close '['", "write ']' here"},
    {"**a", "^~ no operand stands before '**'", "put a value before the operator"},
    {"a if b", "  ^~ 'if' does not work on arrays", "use where(condition, a, b)"},
    {"import_x y", "         ^ an operator is missing before 'y'",
     "put an operator before it, or ; between statements"},
    {"√x", "^ '√' has no meaning here", "use sqrt(...)"},
    {"x²", " ^ '²' has no meaning here", "use **2"},
    {"3½", " ^ '½' has no meaning here", "remove it"},
    {"x[(..., 1)]", "   ^~~ '...' stands outside an index", "write it directly between [ and ], for example x[..., 0]"},
    {"f(a, b", " ^ '(' is never closed", "add the missing ')'"},
    {"a\u00a0+ b", " ^ a no-break space is not a blank here", "use an ordinary space"},
    {"(1, 2", "^ '(' is never closed", "add the missing ')'"},
    {"{", "^ dictionaries and sets are not supported", "use ( ) to group, or [ ] for a list"},
    {"a}", " ^ '}' closes nothing", "remove it, or open the bracket before"},
    {"a @ = b", "  ^ no operand follows '@'", "put a value after the operator"},
    {"f(1 = a)", "  ~~^ the left side of '=' is not the name of an argument",
     "write name=value for a keyword argument, or == to compare"},
};

TEST(ExprParse, FaultsShowTheirPlaceAndAFix) {
  for (const Fault& f : kFaults) {
    SCOPED_TRACE(f.text);
    const Error e = error_of(f.text);
    const std::size_t last_line = e.message().rfind('\n');
    ASSERT_NE(last_line, std::string::npos);
    EXPECT_EQ(e.message().substr(last_line + 1), fmt::format("    {}", f.shown));
    EXPECT_EQ(e.fix(), f.fix);
    EXPECT_NE(e.code(), ErrorCode::internal);
  }
}

TEST(ExprParse, NumbersPastTheirTypeAreOutOfRange) {
  for (std::string_view text :
       {"9223372036854775808", "0x8000000000000000", "1e309", "1e-400", "-99999999999999999999"}) {
    EXPECT_EQ(error_of(text).code(), ErrorCode::out_of_range) << text;
  }
}

TEST(ExprParse, NestingHasALimit) {
  for (const auto& [open, close] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"(", ")"}, {"[", "]"}, {"f(", ")"}, {"x[", "]"}, {"-", ""}, {"a**", ""}, {"a|(", ")"}, {"f(k=", ")"}}) {
    SCOPED_TRACE(open);
    EXPECT_NO_THROW(dump(repeat(open, kMaxNesting) + "x" + repeat(close, kMaxNesting)));
    EXPECT_EQ(error_of(repeat(open, kMaxNesting + 1) + "x" + repeat(close, kMaxNesting + 1)).code(),
              ErrorCode::out_of_range);
    EXPECT_EQ(error_of(repeat(open, Source::kMaxBytes / open.size())).code(), ErrorCode::out_of_range);
  }
}

TEST(ExprParse, ChainsHaveALimit) {
  for (std::string_view link : {"+x", ".T", "[0]", "*x"}) {
    SCOPED_TRACE(link);
    EXPECT_NO_THROW(dump("x" + repeat(link, kMaxHeight - 1)));
    EXPECT_EQ(error_of("x" + repeat(link, kMaxHeight)).code(), ErrorCode::out_of_range);
  }
  EXPECT_EQ(parse(Source(repeat("x;", 100'000))).statements.size(), 100'000u);
  const Program wide = parse(Source("f(" + repeat("1,", 100'000) + ")"));
  EXPECT_EQ(wide.node(wide.statements[0].value).as<Call>().arguments.size(), 100'000u);
}

TEST(ExprParse, SourcesHaveALimit) {
  EXPECT_NO_THROW(parse(Source("x" + std::string(Source::kMaxBytes - 1, ' '))));
  try {
    static_cast<void>(Source(std::string(Source::kMaxBytes + 1, ' ')));
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::out_of_range);
    EXPECT_EQ(e.message(), "eval: an expression of 1048577 bytes, over the limit of 1048576");
  }
}

// --- diagnostics

std::string message_at(std::string text, Place place) {
  return make_error(ErrorCode::invalid_argument, Source(std::move(text)), place, "title", "note", "do it").message();
}

TEST(ExprDiagnostic, ShowsTheCaretUnderThePlace) {
  const Source source("x @ w + b");
  const Error e = make_error(ErrorCode::invalid_argument, source, Place(Span{0, 5}, Span{2, 3}), "shapes don't match",
                             "(37, 64) and (65, 10): inner lengths 64 and 65 differ", "transpose w, or check w.npy");
  EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
  EXPECT_EQ(e.message(),
            "eval: shapes don't match\n"
            "    x @ w + b\n"
            "    ~~^~~ (37, 64) and (65, 10): inner lengths 64 and 65 differ");
  EXPECT_EQ(e.fix(), "transpose w, or check w.npy");
  EXPECT_TRUE(std::string_view(e.what()).ends_with("Fix: transpose w, or check w.npy."));
  EXPECT_EQ(message_at("x @ w + b", Span{2, 3}), "eval: title\n    x @ w + b\n      ^ note");
  EXPECT_EQ(message_at("abc", Span{0, 3}), "eval: title\n    abc\n    ^~~ note");
}

TEST(ExprDiagnostic, PointsPastTheEndAndIntoNothing) {
  EXPECT_EQ(message_at("a +", Span{3, 3}), "eval: title\n    a +\n       ^ note");
  EXPECT_EQ(message_at("a", Span{7, 9}), "eval: title\n    a\n     ^ note");
  EXPECT_EQ(message_at("", Span{0, 0}), "eval: title\n    \n    ^ note");
  EXPECT_EQ(message_at("  ", Span{0, 0}), "eval: title\n    \n    ^ note");
}

TEST(ExprDiagnostic, OfSeveralLinesShowsOne) {
  EXPECT_EQ(message_at("a\n  b + c\nd", Span{6, 7}), "eval: line 2: title\n    b + c\n      ^ note");
  EXPECT_EQ(message_at("a\r\nb + c\r\nd", Span{5, 6}), "eval: line 2: title\n    b + c\n      ^ note");
  EXPECT_EQ(message_at("a\rb\rc", Span{4, 5}), "eval: line 3: title\n    c\n    ^ note");
  // A line break belongs to its line, and an underline stays on the caret's.
  EXPECT_EQ(message_at("ab\nc", Span{2, 3}), "eval: line 1: title\n    ab\n      ^ note");
  EXPECT_EQ(message_at("ab\r\nc", Span{3, 4}), "eval: line 1: title\n    ab\n      ^ note");
  EXPECT_EQ(message_at("f(a,\nbc)", Span{0, 8}), "eval: line 1: title\n    f(a,\n    ^~~~ note");
  EXPECT_EQ(message_at("f(a,\nbc) g", Place(Span{0, 8}, Span{6, 7})), "eval: line 2: title\n    bc) g\n    ~^~ note");
}

TEST(ExprDiagnostic, CountsCodePoints) {
  EXPECT_EQ(message_at("größe @ b", Span{8, 9}), "eval: title\n    größe @ b\n          ^ note");
  EXPECT_EQ(message_at("größe @ b", Span{0, 7}), "eval: title\n    größe @ b\n    ^~~~~ note");
  // Two cells of a terminal a character, and none for a mark that combines with the one before.
  EXPECT_EQ(message_at("变量 @ b", Span{7, 8}), "eval: title\n    变量 @ b\n         ^ note");
  EXPECT_EQ(message_at("变量 @ b", Span{0, 6}), "eval: title\n    变量 @ b\n    ^~~~ note");
  EXPECT_EQ(message_at("e\u0301 @ b", Span{4, 5}), "eval: title\n    e\u0301 @ b\n      ^ note");
  EXPECT_EQ(message_at("\ta\t@ b", Span{3, 4}), "eval: title\n    a @ b\n      ^ note");
  EXPECT_EQ(message_at("'\x1b[1m\xff' @ b", Span{8, 9}), "eval: title\n    '\ufffd[1m\ufffd' @ b\n            ^ note");
}

TEST(ExprDiagnostic, CutsALongLineAroundThePlace) {
  const std::string middle = repeat("a", 100) + "@" + repeat("b", 100);
  EXPECT_EQ(message_at(middle, Span{100, 101}),
            "eval: title\n    …" + repeat("a", 37) + "@" + repeat("b", 36) + "…\n    " + repeat(" ", 38) + "^ note");
  EXPECT_EQ(message_at(middle, Place(Span{0, 201}, Span{100, 101})),
            "eval: title\n    …" + repeat("a", 37) + "@" + repeat("b", 36) + "…\n     " + repeat("~", 37) + "^" +
                repeat("~", 36) + " note");
  EXPECT_EQ(message_at(middle, Span{0, 1}), "eval: title\n    " + repeat("a", 75) + "…\n    ^ note");
  EXPECT_EQ(message_at(middle, Span{201, 201}),
            "eval: title\n    …" + repeat("b", 75) + "\n    " + repeat(" ", 76) + "^ note");
  EXPECT_EQ(message_at(repeat("é", 76), Span{0, 2}), "eval: title\n    " + repeat("é", 76) + "\n    ^ note");
}

TEST(ExprDiagnostic, AnEmptyNoteLeavesTheCaretAlone) {
  const Error e = make_error(ErrorCode::internal, Source("a b"), Span{2, 3}, "title", "", "do it");
  EXPECT_EQ(e.message(), "eval: title\n    a b\n      ^");
  EXPECT_STREQ(e.what(), "eval: title\n    a b\n      ^\nFix: do it.");
}

TEST(ExprDiagnostic, ExcerptsAreShortAndHarmless) {
  EXPECT_EQ(excerpt("größe"), "größe");
  EXPECT_EQ(excerpt(repeat("é", 40)), repeat("é", 40));
  EXPECT_EQ(excerpt(repeat("é", 41)), repeat("é", 39) + "…");
  EXPECT_EQ(excerpt("a\tb\n\x1b\xff"), "a b\ufffd\ufffd\ufffd");
  EXPECT_LT(error_of("f(" + repeat("a", 100'000) + " " + repeat("b", 100'000) + ")").message().size(), 500u);
}

TEST(ExprDiagnostic, BeginsWithTheSourcesName) {
  EXPECT_EQ(error_of("a $").message().substr(0, 6), "eval: ");
  try {
    parse(Source("a $", "model.txt"));
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "model.txt: syntax error\n    a $\n      ^ '$' has no meaning here");
  }
}

TEST(ExprUtf8, RefusesMalformedBytes) {
  for (std::string_view bad : {"\x80", "\xc3", "\xc3(", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                               "\xf8\x88\x80\x80\x80", "\xff"}) {
    const CodePoint c = decode_utf8(bad, 0);
    EXPECT_FALSE(c.valid);
    EXPECT_EQ(c.length, 1u);
    EXPECT_EQ(error_of(bad).code(), ErrorCode::invalid_argument);
  }
}

TEST(ExprUtf8, WritesWhatItReads) {
  for (char32_t c : {U'a', U'\u007f', U'\u0080', U'\u07ff', U'\u0800', U'\uffff', U'\U00010000', U'\U0010ffff'}) {
    std::string text;
    append_utf8(text, c);
    const CodePoint back = decode_utf8(text, 0);
    EXPECT_TRUE(back.valid);
    EXPECT_EQ(back.value, c);
    EXPECT_EQ(back.length, text.size());
  }
}

}  // namespace
}  // namespace weft::expr
