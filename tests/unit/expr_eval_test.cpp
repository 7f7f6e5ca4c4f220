// The running half of `weft eval` (issue 3, point 7): right numbers, and how many dispatches they took.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "unit/test_device.h"
#include "weft/error.h"
#include "weft/expr.h"

namespace weft {
namespace {

using testing::test_device;

Tensor floats(const Shape& shape, float first = 0, float step = 1) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<float>(i);
  return test_device().upload<float>(values, shape);
}

Tensor ints(const std::vector<std::int32_t>& values) {
  return test_device().upload<std::int32_t>(values, {static_cast<std::int64_t>(values.size())});
}

struct Outcome {
  Tensor result;
  EvalStats fusion;
  std::uint64_t dispatches = 0;
};

Outcome run(const std::string& text, const Expression::Values& inputs) {
  const Expression expression = Expression::parse(text);
  Outcome out;
  const Stats before = test_device().stats();
  out.result = expression.evaluate(test_device(), inputs, &out.fusion);
  out.dispatches = test_device().stats().dispatches - before.dispatches;
  return out;
}

std::vector<float> values(const std::string& text, const Expression::Values& inputs) {
  return run(text, inputs).result.to_host<float>();
}

TEST(ExprEval, AChainIsOneDispatch) {
  const Tensor a = floats({3, 4}, -5);
  const Tensor b = floats({4}, 1);
  const Outcome r = run("relu(a*b + c)", {{"a", a}, {"b", b}, {"c", Scalar(2.5)}});
  EXPECT_EQ(r.dispatches, 1u);
  EXPECT_EQ(r.fusion.operations, 3u);
  EXPECT_EQ(r.fusion.steps, 1u);
  EXPECT_EQ(r.fusion.fused, 2u);
  const std::vector<float> got = r.result.to_host<float>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float expected = (static_cast<float>(i) - 5) * static_cast<float>(i % 4 + 1) + 2.5f;
    EXPECT_EQ(got[i], std::max(expected, 0.0f)) << i;
  }
}

TEST(ExprEval, ComparisonsChoicesAndCastsFuseToo) {
  const Outcome r = run("where(a > 2, a.astype('int32') * 10, -1)", {{"a", floats({6}, 0.5f)}});
  EXPECT_EQ(r.dispatches, 1u);
  EXPECT_EQ(r.result.to_host<std::int32_t>(), (std::vector<std::int32_t>{-1, -1, 20, 30, 40, 50}));
}

TEST(ExprEval, EqualPartsRunOnce) {
  const Tensor a = floats({8});
  EXPECT_EQ(run("sum(a) + sum(a)", {{"a", a}}).fusion.operations, 2u);
  EXPECT_EQ(run("(a + 1) * (a + 1)", {{"a", a}}).fusion.operations, 2u);
}

TEST(ExprEval, WhatSeveralReadIsMadeOnce) {
  const Tensor a = floats({4, 4}, 1);
  const Outcome r = run("y = a * 2; sum(y, 0) + y", {{"a", a}});
  EXPECT_EQ(r.fusion.operations, 3u);
  EXPECT_EQ(r.fusion.steps, 3u);
  const std::vector<float> got = r.result.to_host<float>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto column = static_cast<float>(i % 4);
    EXPECT_EQ(got[i], 2 * (4 * column + 28) + 2 * static_cast<float>(i + 1));
  }
}

TEST(ExprEval, NearestNeighbour) {
  // issue 3's own example: squared distances, then the nearest.
  const std::vector<float> train{0, 0, 10, 10, -5, 5};
  const std::vector<float> test{1, 1, 9, 8, -4, 4, 6, 6};
  const Tensor a = test_device().upload<float>(test, {4, 2});
  const Tensor b = test_device().upload<float>(train, {3, 2});
  const Outcome r =
      run("d = sum(a*a, 1, keepdims=1) - 2*(a @ b.T) + sum(b*b, 1); argmin(d, axis=1)", {{"a", a}, {"b", b}});
  EXPECT_EQ(r.result.to_host<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 2, 1}));
}

TEST(ExprEval, MatmulTakesItsBias) {
  const Tensor x = floats({2, 3});
  const Tensor w = floats({3, 2});
  const Tensor b = floats({2}, 100, 100);
  const Outcome r = run("x @ w + b", {{"x", x}, {"w", w}, {"b", b}});
  EXPECT_EQ(r.fusion.fused, 1u);
  EXPECT_EQ(r.result.to_host<float>(), (std::vector<float>{110, 213, 128, 240}));
  EXPECT_EQ(values("b + x @ w", {{"x", x}, {"w", w}, {"b", b}}), (std::vector<float>{110, 213, 128, 240}));
}

TEST(ExprEval, ProductsFinishInTheirKernel) {
  const Tensor x = floats({5, 3}, -4);
  const Tensor w = floats({3, 4}, -3);
  const Tensor b = floats({4}, 2, -7);
  const Tensor r = floats({5, 4}, 0.5f, 0.25f);
  for (const auto& [call, op] : {std::pair<std::string, UnaryOp>{"relu(x @ w + b) + r", UnaryOp::relu},
                                 {"gelu(x @ w + b) + r", UnaryOp::gelu},
                                 {"r + gelu(b + x @ w, approximate='tanh')", UnaryOp::gelu_tanh},
                                 {"silu(x @ w + b) + r", UnaryOp::silu}}) {
    const std::uint64_t before = test_device().stats().fused_ops;
    const Outcome got = run(call, {{"x", x}, {"w", w}, {"b", b}, {"r", r}});
    EXPECT_EQ(got.dispatches, 1u) << call;
    EXPECT_EQ(got.fusion.operations, 4u) << call;
    EXPECT_EQ(got.fusion.fused, 3u) << call;
    EXPECT_EQ(test_device().stats().fused_ops - before, 3u) << call;
    const Tensor apart = unary(op, matmul(x, w) + b) + r;
    EXPECT_EQ(got.result.to_host<float>(), apart.to_host<float>()) << call;
  }
  // Two layers are two dispatches.
  const Outcome layers =
      run("relu(relu(x @ w + b) @ w.T + c)", {{"x", x}, {"w", w}, {"b", b}, {"c", floats({3}, -100, 9)}});
  EXPECT_EQ(layers.dispatches, 2u);
  const Tensor hidden = relu(matmul(x, w) + b);
  EXPECT_EQ(layers.result.to_host<float>(), relu(matmul(hidden, transpose(w)) + floats({3}, -100, 9)).to_host<float>());
}

TEST(ExprEval, ViewsCostNoDispatch) {
  const Tensor a = floats({4, 6});
  const Outcome r = run("a.T[::-2, 1:3][None]", {{"a", a}});
  EXPECT_EQ(r.dispatches, 0u);
  EXPECT_EQ(r.result.shape(), Shape({1, 3, 2}));
  EXPECT_EQ(r.result.to_host<float>(), (std::vector<float>{11, 17, 9, 15, 7, 13}));
}

TEST(ExprEval, TakesByComputedIndices) {
  const Tensor a = floats({4, 2});
  const Tensor i = ints({3, 0, -1});
  EXPECT_EQ(values("a[i]", {{"a", a}, {"i", i}}), (std::vector<float>{6, 7, 0, 1, 6, 7}));
  try {
    run("1 + a[i + 1]", {{"a", a}, {"i", i}});
    FAIL() << "index 4 of 4 passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
    EXPECT_NE(std::string(error.what()).find("\n    1 + a[i + 1]\n"), std::string::npos) << error.what();
  }
}

TEST(ExprEval, ManyInputs) {
  Expression::Values inputs;
  std::string text = "0";
  for (int n = 0; n < 20; ++n) {
    const std::string name = "v" + std::to_string(n);
    text += " + " + name;
    inputs.emplace(name, floats({5}, static_cast<float>(n)));
  }
  EXPECT_EQ(values(text, inputs), (std::vector<float>{190, 210, 230, 250, 270}));
}

TEST(ExprEval, ManyNumbers) {
  std::string text = "a";
  float expected = 1;
  for (int n = 1; n <= 40; ++n) {
    text += " + " + std::to_string(n) + ".5";
    expected += static_cast<float>(n) + 0.5f;
  }
  EXPECT_EQ(values(text, {{"a", floats({1}, 1)}}), (std::vector<float>{expected}));
}

TEST(ExprEval, ConstantsAndFills) {
  EXPECT_EQ(values("[[1, 2], [3, 4]] * x", {{"x", floats({2}, 1)}}), (std::vector<float>{1, 4, 3, 8}));
  EXPECT_EQ(run("arange(5) * 2 + 1", {}).result.to_host<std::int32_t>(), (std::vector<std::int32_t>{1, 3, 5, 7, 9}));
  EXPECT_EQ(values("linspace(0, 1, 5)", {}), (std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1}));
  EXPECT_EQ(values("ones((2, 2)) + zeros(2)", {}), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(values("sqrt(x.shape[0]) * x", {{"x", floats({4})}}), (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(run("2 ** 10", {}).result.to_host<std::int32_t>(), (std::vector<std::int32_t>{1024}));
  EXPECT_EQ(run("1 < 2", {}).result.dtype(), DType::bool_);
}

TEST(ExprEval, EmptyAndSingle) {
  const Tensor none = floats({0, 3});
  EXPECT_EQ(run("relu(x * 2)", {{"x", none}}).result.shape(), Shape({0, 3}));
  EXPECT_EQ(values("sum(x, 0)", {{"x", none}}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(values("x + 1", {{"x", floats({}, 4)}}), (std::vector<float>{5}));
  EXPECT_EQ(values("concatenate([x, y])", {{"x", none}, {"y", floats({1, 3})}}), (std::vector<float>{0, 1, 2}));
}

TEST(ExprEval, RowsAndNorms) {
  const std::vector<float> got =
      values("layernorm(x, w, b, eps=0)", {{"x", floats({2, 2})}, {"w", floats({2}, 2, 0)}, {"b", floats({2}, 10, 0)}});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], i % 2 == 0 ? 8 : 12, 1e-4);
  const std::vector<float> rows = values("sum(softmax(x, axis=0), axis=0)", {{"x", floats({3, 5}, -2, 0.25f)}});
  for (float v : rows) EXPECT_NEAR(v, 1, 1e-5);
}

TEST(ExprEval, GivesIntermediatesBack) {
  const Tensor x = floats({256, 1024});
  test_device().synchronize();
  const std::uint64_t before = test_device().stats().live_bytes;
  std::string text = "y = x";
  for (int n = 0; n < 10; ++n) text += "; y = y - mean(y, 1, keepdims=True)";
  const Tensor result = run(text, {{"x", x}}).result;
  EXPECT_LE(test_device().stats().live_bytes, before + result.nbytes() + (64 << 10));
}

TEST(ExprEval, RefusesTensorsOfAnotherDevice) {
  const Device other = Device::open();
  const Tensor x = floats({2});
  try {
    Expression::parse("x + 1").evaluate(other, {{"x", x}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::foreign_buffer);
  }
}

TEST(ExprEval, ChecksBeforeItRuns) {
  const Tensor x = floats({2, 3});
  const Stats before = test_device().stats();
  EXPECT_THROW(run("y = exp(x) * 2; y @ y", {{"x", x}}), Error);
  EXPECT_EQ(test_device().stats().dispatches, before.dispatches);
}

}  // namespace
}  // namespace weft
