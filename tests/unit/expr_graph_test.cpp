// The checking half of `weft eval` (issue 3, point 7: shapes and dtypes are checked before anything runs; errors with a
// caret and both shapes): names, calls, inference, folding, sharing, fusion plans. Needs no device.
#include "expr/graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "expr/fuse.h"
#include "expr/names.h"
#include "expr/parse.h"
#include "expr/scalar.h"
#include "expr/translate.h"
#include "weft/error.h"
#include "weft/expr.h"

namespace weft::expr {
namespace {

Expression::Types inputs() {
  return {
      {"x", TensorType{{37, 64}, f32, "x.npy"}},
      {"w", TensorType{{65, 10}, f32, "w.npy"}},
      {"v", TensorType{{64, 10}, f32, "v.npy"}},
      {"b", TensorType{{10}, f32, "b.npy"}},
      {"i", TensorType{{5}, i32, ""}},
      {"m", TensorType{{37, 64}, DType::bool_, ""}},
      {"h", TensorType{{37, 64}, f16, ""}},
      {"t", TensorType{{2, 3, 4}, f32, ""}},
      {"s", TensorType{{}, f32, ""}},
      {"z", TensorType{{0, 10}, f32, ""}},
      {"u", TensorType{{5}, u32, ""}},
      {"k", Scalar(3)},
  };
}

/// The inputs that `text` reads.
Expression::Types inputs_of(const std::string& text) {
  const Program program = parse(Source(text));
  Expression::Types out;
  for (const FreeName& f : free_names(program)) {
    const auto all = inputs();
    if (const auto it = all.find(f.name); it != all.end()) out.insert(*it);
  }
  return out;
}

/// "float32 (37, 10)".
std::string type_of(const std::string& text) {
  const TensorType type = Expression::parse(text).check(inputs_of(text));
  return fmt::format("{} {}", to_string(type.dtype), to_string(type.shape));
}

std::string error_of(const std::string& text) {
  try {
    const std::string type = type_of(text);
    ADD_FAILURE() << text << " passed as " << type;
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// The number that `text` folds to.
std::string folded(const std::string& text) {
  const Program program = parse(Source(text));
  Graph graph;
  const Expression::Types none;
  const OpId id = Translator(program, none, graph).run();
  EXPECT_EQ(graph[id].kind, OpKind::full) << text;
  return to_string(graph[id].value);
}

Plan plan_of(const std::string& text) {
  const Program program = parse(Source(text));
  Graph graph;
  const Expression::Types types = inputs_of(text);
  const OpId id = Translator(program, types, graph).run();
  return make_plan(graph, id);
}

/// Steps that are kernels or views, without the inputs.
std::size_t steps_of(const std::string& text) {
  std::size_t count = 0;
  for (const Step& step : plan_of(text).steps)
    count += step.kind != Step::Kind::single || !step.operands.empty() ? 1 : 0;
  return count;
}

TEST(ExprGraph, InfersShapesAndTypes) {
  EXPECT_EQ(type_of("x @ v + b"), "float32 (37, 10)");
  EXPECT_EQ(type_of("x > 0"), "bool (37, 64)");
  EXPECT_EQ(type_of("i + 1"), "int32 (5,)");
  EXPECT_EQ(type_of("i + 1.5"), "float32 (5,)");
  EXPECT_EQ(type_of("i / 2"), "float32 (5,)");
  EXPECT_EQ(type_of("h * 2.5"), "float16 (37, 64)");
  EXPECT_EQ(type_of("h + x"), "float32 (37, 64)");
  EXPECT_EQ(type_of("m * 2"), "int32 (37, 64)");
  EXPECT_EQ(type_of("u + k"), "uint32 (5,)");
  EXPECT_EQ(type_of("sum(m)"), "int32 ()");
  EXPECT_EQ(type_of("sum(x, axis=(0, 1), keepdims=True)"), "float32 (1, 1)");
  EXPECT_EQ(type_of("argmax(x, 1)"), "int32 (37,)");
  EXPECT_EQ(type_of("x.mean(0)"), "float32 (64,)");
  EXPECT_EQ(type_of("where(m, x, 0)"), "float32 (37, 64)");
  EXPECT_EQ(type_of("where(m, 1, 0)"), "int32 (37, 64)");
  EXPECT_EQ(type_of("softmax(i)"), "float32 (5,)");
  EXPECT_EQ(type_of("layernorm(x, weight=v[:, 0], eps=1e-6)"), "float32 (37, 64)");
  EXPECT_EQ(type_of("t.T"), "float32 (4, 3, 2)");
  EXPECT_EQ(type_of("transpose(t, (1, 0, 2)).reshape(3, -1)"), "float32 (3, 8)");
  EXPECT_EQ(type_of("x.reshape(x.shape + (1,))"), "float32 (37, 64, 1)");
  EXPECT_EQ(type_of("concatenate([x, h], axis=0)"), "float32 (74, 64)");
  EXPECT_EQ(type_of("stack([b, b, b], 1)"), "float32 (10, 3)");
  EXPECT_EQ(type_of("x.astype('f2')"), "float16 (37, 64)");
  EXPECT_EQ(type_of("x.astype(np.int32)"), "int32 (37, 64)");
  EXPECT_EQ(type_of("x.astype(bool)"), "bool (37, 64)");
  EXPECT_EQ(type_of("arange(2, 11, 3)"), "int32 (3,)");
  EXPECT_EQ(type_of("arange(0, 1, 0.25)"), "float32 (4,)");
  EXPECT_EQ(type_of("zeros_like(i) + ones((3, 1))"), "float32 (3, 5)");
  EXPECT_EQ(type_of("full((2, 2), 7)"), "int32 (2, 2)");
  EXPECT_EQ(type_of("m @ m.T"), "bool (37, 37)");
  EXPECT_EQ(type_of("t @ t.transpose(0, 2, 1)"), "float32 (2, 3, 3)");
  EXPECT_EQ(type_of("clip(i, 0, 2)"), "int32 (5,)");
  EXPECT_EQ(type_of("sum(z, 0)"), "float32 (10,)");
  EXPECT_EQ(type_of("[[1, 2], [3, 4.5]]"), "float32 (2, 2)");
  EXPECT_EQ(type_of("logical_and(x, i[0])"), "bool (37, 64)");
}

TEST(ExprGraph, Indexes) {
  EXPECT_EQ(type_of("t[0]"), "float32 (3, 4)");
  EXPECT_EQ(type_of("t[..., -1]"), "float32 (2, 3)");
  EXPECT_EQ(type_of("t[:, None, ::2]"), "float32 (2, 1, 2, 4)");
  EXPECT_EQ(type_of("t[1, 1:, ::-1]"), "float32 (2, 4)");
  EXPECT_EQ(type_of("t[:, i]"), "float32 (2, 5, 4)");
  EXPECT_EQ(type_of("t[:, [0, 2]]"), "float32 (2, 2, 4)");
  EXPECT_EQ(type_of("t[0, i]"), "float32 (5, 4)");
  EXPECT_EQ(type_of("t[i[0]]"), "float32 (3, 4)");
  EXPECT_EQ(type_of("t[()]"), "float32 (2, 3, 4)");
  EXPECT_EQ(type_of("t[np.newaxis]"), "float32 (1, 2, 3, 4)");
  EXPECT_EQ(type_of("take(t, i, axis=2)"), "float32 (2, 3, 5)");
  EXPECT_EQ(type_of("take(t, [[23]])"), "float32 (1, 1)");
  EXPECT_NE(error_of("t[2]").find("index 2 is out of range for axis 0 of length 2"), std::string::npos);
  EXPECT_NE(error_of("t[0, 0, 0, 0]").find("4 for an array of shape (2, 3, 4)"), std::string::npos);
  EXPECT_NE(error_of("t[t > 0]").find("use where"), std::string::npos);
  EXPECT_NE(error_of("t[:, [0, 3]]").find("3 is past axis 1 of length 3"), std::string::npos);
  EXPECT_NE(error_of("t[0.5]").find("must be an integer"), std::string::npos);
  EXPECT_NE(error_of("t[b]").find("indices must be integers"), std::string::npos);
  EXPECT_NE(error_of("t[0, :, i]").find("index in two steps"), std::string::npos);
  EXPECT_NE(error_of("t[..., ...]").find("more than one ..."), std::string::npos);
  EXPECT_NE(error_of("t[::0]").find("the step is 0"), std::string::npos);
  EXPECT_NE(error_of("x.shape[2]").find("2 is past the 2 items"), std::string::npos);
}

TEST(ExprGraph, FoldsAsPython) {
  EXPECT_EQ(folded("2 + 3 * 4"), "14");
  EXPECT_EQ(folded("-7 // 2"), "-4");
  EXPECT_EQ(folded("-7 % 3"), "2");
  EXPECT_EQ(folded("7 % -3"), "-2");
  EXPECT_EQ(folded("-7.5 // 2"), "-4.0");
  EXPECT_EQ(folded("-7.5 % 2"), "0.5");
  EXPECT_EQ(folded("7 / 2"), "3.5");
  EXPECT_EQ(folded("4 / 2"), "2.0");
  EXPECT_EQ(folded("2 ** 10"), "1024");
  EXPECT_EQ(folded("2 ** -1"), "0.5");
  EXPECT_EQ(folded("-2 ** 2"), "-4");
  EXPECT_EQ(folded("True + True"), "2");
  EXPECT_EQ(folded("True & False"), "False");
  EXPECT_EQ(folded("6 & 3 | 8"), "10");
  EXPECT_EQ(folded("1 << 10 >> 3"), "128");
  EXPECT_EQ(folded("-1 >> 70"), "-1");
  EXPECT_EQ(folded("~5"), "-6");
  EXPECT_EQ(folded("3 < 4"), "True");
  EXPECT_EQ(folded("sqrt(16) + abs(-3)"), "7.0");
  EXPECT_EQ(folded("maximum(2, 5) * len([1, 2])"), "10");
  EXPECT_EQ(folded("int(7 / 2)"), "3");
  EXPECT_EQ(folded("9223372036854775807 - 9223372036854775806"), "1");
  EXPECT_EQ(folded("round(2.5)"), "2.0");
  EXPECT_EQ(folded("where(1 > 2, 10, 20)"), "20");
  EXPECT_NE(error_of("9223372036854775807 + 1").find("the sum does not fit a 64-bit integer"), std::string::npos);
  EXPECT_NE(error_of("(-9223372036854775807 - 1) // -1").find("the quotient does not fit a 64-bit integer"),
            std::string::npos);
  EXPECT_NE(error_of("abs(-9223372036854775807 - 1)").find("the absolute value does not fit"), std::string::npos);
  EXPECT_NE(error_of("-(-9223372036854775807 - 1)").find("the negative does not fit"), std::string::npos);
  EXPECT_EQ(folded("(-9223372036854775807 - 1) % -1"), "0");
  EXPECT_NE(error_of("2 ** 63").find("the power does not fit"), std::string::npos);
  EXPECT_NE(error_of("1 << 63").find("does not fit"), std::string::npos);
  EXPECT_NE(error_of("1 << -1").find("shift by 0 or more"), std::string::npos);
  EXPECT_NE(error_of("10.0 ** 400").find("does not fit float64"), std::string::npos);
  EXPECT_NE(error_of("1 / 0").find("division by zero"), std::string::npos);
  EXPECT_NE(error_of("1 % 0.0").find("division by zero"), std::string::npos);
  EXPECT_NE(error_of("1.5 & 1").find("takes integers only"), std::string::npos);
  EXPECT_NE(error_of("3000000000").find("does not fit int32"), std::string::npos);
  EXPECT_NE(error_of("i + 3000000000").find("does not fit int32"), std::string::npos);
}

TEST(ExprGraph, ShowsShapesThatDoNotFit) {
  EXPECT_EQ(error_of("x @ w + b"),
            "eval: shapes don't match\n"
            "    x @ w + b\n"
            "    ~~^~~ (37, 64) and (65, 10): inner lengths 64 and 65 differ. Fix: transpose w, or check w.npy.");
  EXPECT_EQ(error_of("x + b"),
            "eval: shapes don't match\n"
            "    x + b\n"
            "    ~~^~~ (37, 64) and (10,): lengths 64 and 10 of the last axis differ. "
            "Fix: make the lengths equal, or one of them 1, or check b.npy.");
  EXPECT_NE(error_of("t + t.T").find("(2, 3, 4) and (4, 3, 2): lengths 4 and 2 of the last axis differ"),
            std::string::npos);
  EXPECT_NE(error_of("v + ones((64,))").find("(64, 10) and (64,)"), std::string::npos);
  EXPECT_NE(error_of("c = x[:, 0]; x + c").find("Fix: write c[:, None]"), std::string::npos);
}

TEST(ExprGraph, ShowsWhatACallTakes) {
  EXPECT_EQ(error_of("softmax(t, axis=3)"),
            "eval: softmax does not take this\n"
            "    softmax(t, axis=3)\n"
            "    ^~~~~~~~~~~~~~~~~~ axis 3 is out of range for a tensor of 3 dimensions (2, 3, 4). "
            "Fix: use an axis from -3 to 2.");
  EXPECT_NE(error_of("sum(x, axs=1)").find("did you mean 'axis'"), std::string::npos);
  EXPECT_NE(error_of("sum(x, 1, True, 3)").find("too many arguments"), std::string::npos);
  EXPECT_NE(error_of("sum(x, 1, axis=1)").find("given twice"), std::string::npos);
  EXPECT_NE(error_of("where(m, x)").find("where needs 'b'"), std::string::npos);
  EXPECT_NE(error_of("sum(x, axis=(0, 0))").find("axis 0 is given twice"), std::string::npos);
  EXPECT_NE(error_of("max(z, 0)").find("no elements to reduce"), std::string::npos);
  EXPECT_NE(error_of("x.reshape(5, 5)").find("2368 elements"), std::string::npos);
  EXPECT_NE(error_of("x.astype('float64')").find("use 'float32'"), std::string::npos);
  EXPECT_NE(error_of("np.float64(x)").find("use float32"), std::string::npos);
  EXPECT_NE(error_of("gelu(x, approximate='fast')").find("'tanh'"), std::string::npos);
  EXPECT_NE(error_of("x & 1").find("bitwise_and is not defined for float32"), std::string::npos);
  EXPECT_NE(error_of("dot(t, t)").find("use matmul or @"), std::string::npos);
  EXPECT_NE(error_of("sum(x, axis=b)").find("must be a number"), std::string::npos);
}

TEST(ExprGraph, SuggestsNames) {
  EXPECT_EQ(error_of("sofmax(x)"),
            "eval: unknown function\n"
            "    sofmax(x)\n"
            "    ^~~~~~ did you mean 'softmax'. Fix: write softmax.");
  EXPECT_NE(error_of("np.sofmax(x)").find("write softmax"), std::string::npos);
  EXPECT_NE(error_of("x.summ()").find("write sum"), std::string::npos);
  EXPECT_NE(error_of("x.shap").find("did you mean 'shape'"), std::string::npos);
  EXPECT_NE(error_of("x.foo").find("a float32 array of shape (37, 64) has no attribute 'foo'. Fix: use shape"),
            std::string::npos);
  EXPECT_NE(error_of("x.T()").find("write T without parentheses"), std::string::npos);
  EXPECT_NE(error_of("i()").find("i is an int32 array"), std::string::npos);
  EXPECT_NE(error_of("x.exp()").find("write exp(x)"), std::string::npos);
  EXPECT_NE(error_of("x.sum").find("write sum()"), std::string::npos);
  EXPECT_NE(error_of("x + exp").find("the function exp"), std::string::npos);
  EXPECT_NE(error_of("x(3)").find("use * to multiply"), std::string::npos);
  const std::string missing = error_of("x @ weights + bias");
  EXPECT_NE(missing.find("weights and bias are not given; given: x. Fix: add weights=FILE"), std::string::npos)
      << missing;
}

TEST(ExprGraph, RefusesWhatIsNotRead) {
  try {
    Expression::parse("x + 1").check({{"x", TensorType{{2}, f32, ""}}, {"y", TensorType{{2}, f32, ""}}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "eval: 'y' is given, and the expression does not use it; it uses x. Fix: leave it out, or correct the "
                 "name.");
  }
}

TEST(ExprGraph, TellsItsInputs) {
  const auto names = [](const std::string& text) {
    const Expression expression = Expression::parse(text);
    std::string out;
    for (const std::string& name : expression.inputs()) out += name + " ";
    return out;
  };
  EXPECT_EQ(names("d = a * 2; sum(d + b) + pi + np.exp(a)"), "a b ");
  EXPECT_EQ(names("a = a + 1; a"), "a ");
  EXPECT_EQ(names("relu(x).T"), "x ");
}

TEST(ExprGraph, InputsShadowTheLanguage) {
  const TensorType type = Expression::parse("e + pi").check({{"e", TensorType{{4}, f32, ""}}});
  EXPECT_EQ(type.shape, Shape({4}));
}

TEST(ExprGraph, FusesElementwiseChains) {
  EXPECT_EQ(steps_of("relu(x * x + 2)"), 1u);
  EXPECT_EQ(steps_of("where(x > 0, x.astype('f2'), h) * 2"), 1u);
  EXPECT_EQ(steps_of("sum(x * x)"), 2u);
  EXPECT_EQ(steps_of("y = x + 1; y * y + y"), 1u);
  EXPECT_EQ(steps_of("y = exp(x); y / sum(y)"), 3u);
  EXPECT_EQ(steps_of("(x + 1) * (x + 1)"), 1u) << "shared, and in one kernel";
  EXPECT_EQ(steps_of("x @ v + b"), 1u);
  EXPECT_EQ(steps_of("zeros_like(x) + x"), 1u) << "a fill is a number inside the kernel";
  EXPECT_EQ(steps_of("exp(b) + x @ v"), 2u);
  EXPECT_EQ(steps_of("x * exp(s)"), 2u) << "a dear function is not computed again for each element";
  EXPECT_EQ(steps_of("x"), 0u);
  EXPECT_EQ(steps_of("a = x + 1; x * 2"), 1u) << "what nobody reads is not computed";
}

TEST(ExprGraph, ProductsFinishInTheirKernel) {
  const Expression::Types types{{"x", TensorType{{37, 64}, f32, ""}},  {"w", TensorType{{64, 10}, f32, ""}},
                                {"b", TensorType{{10}, f32, ""}},      {"r", TensorType{{37, 10}, f32, ""}},
                                {"h", TensorType{{10}, f16, ""}},      {"c", TensorType{{37, 1}, f32, ""}},
                                {"t", TensorType{{3, 1, 10}, f32, ""}}};
  const auto plan = [&](const std::string& text) {
    const Program program = parse(Source(text));
    Expression::Types used;
    for (const FreeName& f : free_names(program)) {
      if (const auto it = types.find(f.name); it != types.end()) used.insert(*it);
    }
    auto graph = std::make_unique<Graph>();
    const OpId id = Translator(program, used, *graph).run();
    Plan made = make_plan(*graph, id);
    std::erase_if(made.steps, [](const Step& s) { return s.kind == Step::Kind::single && s.operands.empty(); });
    return std::pair(std::move(graph), std::move(made));
  };
  for (const char* text :
       {"relu(x @ w + b)", "gelu(b + x @ w)", "silu(x @ w)", "gelu(x @ w + b, approximate='tanh')", "relu(x @ w) + r",
        "r + gelu(x @ w + b)", "x @ w + b + r", "r + (b + x @ w)", "silu(x @ w + c) + b", "x @ w + r"}) {
    const auto [graph, made] = plan(text);
    ASSERT_EQ(made.steps.size(), 1u) << text;
    EXPECT_EQ(made.steps[0].kind, Step::Kind::matmul) << text;
    EXPECT_EQ(made.operations, made.steps[0].members.size()) << text;
  }
  {
    const auto [graph, made] = plan("r + gelu(x @ w + b)");
    const MatmulFinish finish = finish_of(*graph, made.steps[0]);
    EXPECT_EQ(finish.activation, Activation::gelu);
    ASSERT_TRUE(finish.bias && finish.residual);
    EXPECT_EQ((*graph)[*finish.bias].name, "b");
    EXPECT_EQ((*graph)[*finish.residual].name, "r");
    EXPECT_EQ(made.steps[0].operands.size(), 4u);
  }
  {
    const auto [graph, made] = plan("relu(x @ w) + r");
    const MatmulFinish finish = finish_of(*graph, made.steps[0]);
    EXPECT_FALSE(finish.bias);
    ASSERT_TRUE(finish.residual);
    EXPECT_EQ((*graph)[*finish.residual].name, "r");
  }
  const auto count = [&](const std::string& text) { return plan(text).second.steps.size(); };
  EXPECT_EQ(count("relu(x @ w + b + r)"), 2u) << "two additions before an activation";
  EXPECT_EQ(count("relu(relu(x @ w))"), 2u);
  EXPECT_EQ(count("y = x @ w; relu(y) + y"), 2u) << "the bare product is needed too";
  EXPECT_EQ(count("y = relu(x @ w + b); sum(y) + sum(y * y)"), 5u) << "fused, two sums, their product and addition";
  EXPECT_EQ(count("relu(x @ w + t)"), 2u) << "the addition makes it larger";
  EXPECT_EQ(count("relu(x @ w + 1)"), 2u) << "numbers are for elementwise kernels";
  EXPECT_EQ(count("relu(x @ w + b) * 2"), 2u);
  EXPECT_EQ(count("relu(relu(x @ w + b) @ w.T)"), 3u) << "two layers, and the view";
}

TEST(ExprGraph, KeepsWithinTheInputsOfAKernel) {
  std::string text;
  Expression::Types types;
  for (int n = 0; n < 20; ++n) {
    text += fmt::format("{}v{}", n == 0 ? "" : " + ", n);
    types.emplace(fmt::format("v{}", n), TensorType{{8}, f32, ""});
  }
  const Program program = parse(Source(text));
  Graph graph;
  const OpId id = Translator(program, types, graph).run();
  std::size_t kernels = 0;
  for (const Step& step : make_plan(graph, id).steps) {
    if (step.kind != Step::Kind::program) continue;
    ++kernels;
    EXPECT_LE(step.operands.size(), 7u);
  }
  EXPECT_EQ(kernels, 4u) << "19 additions: 6 a kernel, and one for the rest";
}

TEST(ExprGraph, ReleasesAtTheLastUse) {
  const Plan plan = plan_of("y = x @ v; z1 = y.T @ y; sum(z1)");
  std::size_t released = 0;
  for (const Step& step : plan.steps) {
    for (OpId id : step.release) {
      ++released;
      EXPECT_NE(id, plan.result);
    }
  }
  EXPECT_EQ(released, plan.steps.size() - 1) << "all but the result";
}

TEST(ExprGraph, DeepExpressionsAreNoTrouble) {
  std::string text = "x";
  for (std::size_t n = 0; n + 2 < kMaxHeight; ++n) text += " + x";
  EXPECT_EQ(type_of(text), "float32 (37, 64)");
  std::string nested = "x";
  for (std::size_t n = 0; n + 1 < kMaxNesting; ++n) nested = "abs(" + nested + ")";
  EXPECT_EQ(type_of(nested), "float32 (37, 64)");
}

TEST(ExprGraph, LongChainsAreNoTrouble) {
  std::string text = "y = x";
  for (int n = 0; n < 3000; ++n) text += "; y = y + x";
  EXPECT_EQ(type_of(text), "float32 (37, 64)");
  EXPECT_GE(steps_of(text), 3000u / 64);
}

TEST(ExprNames, Nearest) {
  const std::string_view names[] = {"softmax", "sum", "sin", "axis"};
  EXPECT_EQ(nearest("softmx", names), "softmax");
  EXPECT_EQ(nearest("usm", names), "sum");
  EXPECT_EQ(nearest("axsi", names), "axis");
  EXPECT_EQ(nearest("quaternion", names), std::nullopt);
  EXPECT_EQ(nearest("", names), std::nullopt);
}

TEST(ExprScalar, FollowsNumpy) {
  EXPECT_TRUE(std::isnan(to_double(fold(weft::UnaryOp::sqrt, Scalar(-1)))));
  EXPECT_TRUE(std::isinf(to_double(fold(weft::UnaryOp::log, Scalar(0)))));
  EXPECT_TRUE(std::isnan(to_double(fold(weft::BinaryOp::maximum, Scalar(NAN), Scalar(1)))));
  EXPECT_TRUE(std::isnan(to_double(fold(weft::BinaryOp::minimum, Scalar(1), Scalar(NAN)))));
  EXPECT_EQ(to_double(fold(weft::UnaryOp::sign, Scalar(-2.5))), -1);
  EXPECT_NEAR(to_double(fold(weft::UnaryOp::gelu, Scalar(1.0))), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(to_double(fold(weft::UnaryOp::sigmoid, Scalar(2))), 0.8807970779778823, 1e-15);
}

}  // namespace
}  // namespace weft::expr
