// Which part of an expression can be worked block by block (issue 8, point 4): what is cut along which axis, what is
// joined, in how many passes, and how much memory that takes. Needs no device.
#include "expr/blocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "expr/footprint.h"
#include "expr/parse.h"
#include "expr/translate.h"
#include "weft/error.h"
#include "weft/expr.h"

namespace weft::expr {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// An expression over x (1000, 30), y (1000, 30), c (1000,), v (30,), w (30, 7), s and t (30, 30), b (6, 4, 8, 16), n
/// (6000,).
struct Given {
  Graph graph;
  OpId result;
  std::map<std::string, OpId> inputs;
  std::map<OpId, bool> sources;

  explicit Given(const std::string& text) {
    const Expression::Types all{
        {"x", TensorType{{1000, 30}, DType::f32, ""}}, {"y", TensorType{{1000, 30}, DType::f32, ""}},
        {"c", TensorType{{1000}, DType::f32, ""}},     {"v", TensorType{{30}, DType::f32, ""}},
        {"w", TensorType{{30, 7}, DType::f32, ""}},    {"s", TensorType{{30, 30}, DType::f32, ""}},
        {"t", TensorType{{30, 30}, DType::f32, ""}},   {"b", TensorType{{6, 4, 8, 16}, DType::f32, ""}},
        {"n", TensorType{{6000}, DType::f32, ""}}};
    const Program program = parse(Source(text));
    Expression::Types types;
    const Expression expression = Expression::parse(text);
    for (const std::string& name : expression.inputs()) types.insert(*all.find(name));
    result = Translator(program, types, graph).run();
    for (OpId id = 0; id < graph.size(); ++id) {
      if (graph[id].kind != OpKind::input) continue;
      inputs[graph[id].name] = id;
      sources[id] = false;
    }
  }
};

/// What comes of cutting `input` along `axis`: "cut 1", "joined", "whole", with the passes; or why not.
std::string cutting(const std::string& text, const std::string& input, std::size_t axis, std::int64_t rows = 0) {
  const Given given(text);
  const OpId id = given.inputs.at(input);
  Obstacle obstacle;
  const auto blocks =
      cut(given.graph, given.result, {{id, axis}}, rows == 0 ? given.graph.shape(id)[axis] : rows, obstacle);
  if (!blocks) return obstacle.why;
  const OpCut& result = blocks->result();
  const std::string how = result.axis ? fmt::format("cut {}", *result.axis) : result.combined ? "joined" : "whole";
  return blocks->passes.size() == 1 ? how : fmt::format("{}, {} passes", how, blocks->passes.size());
}

TEST(ExprBlocks, ElementwiseFollowsTheCut) {
  EXPECT_EQ(cutting("x * 2 + v", "x", 0), "cut 0");
  EXPECT_EQ(cutting("x * 2 + v", "x", 1), "cut 1");
  EXPECT_EQ(cutting("where(x > y, x, v)", "x", 0), "cut 0");
  EXPECT_EQ(cutting("x + c[:, None]", "c", 0), "cut 0");
  EXPECT_EQ(cutting("x.T + c", "x", 0), "cut 1");
  EXPECT_EQ(cutting("x + v", "v", 0), "cut 1");
  EXPECT_EQ(cutting("b + 1", "b", 2), "cut 2");
}

TEST(ExprBlocks, ViewsKeepTrackOfTheAxis) {
  EXPECT_EQ(cutting("x.T", "x", 1), "cut 0");
  EXPECT_EQ(cutting("b.transpose((2, 0, 3, 1))", "b", 3), "cut 2");
  EXPECT_EQ(cutting("x[:, None, :]", "x", 1), "cut 2");
  EXPECT_EQ(cutting("x[:, 3]", "x", 0), "cut 0");
  EXPECT_EQ(cutting("x[:, 3:9]", "x", 0), "cut 0");
  EXPECT_EQ(cutting("b[2]", "b", 3), "cut 2");
  EXPECT_EQ(cutting("broadcast_to(x, (5, 1000, 30))", "x", 0), "cut 1");
  EXPECT_EQ(cutting("x[3]", "x", 0), "the index picks from the axis that would be cut into blocks");
  EXPECT_EQ(cutting("x[1:]", "x", 0), "the slice takes a part of the axis that would be cut into blocks");
  EXPECT_EQ(cutting("flip(x, 0)", "x", 0), "the slice takes a part of the axis that would be cut into blocks");
}

TEST(ExprBlocks, ReshapesKeepRowsTogetherOrRefuse) {
  EXPECT_EQ(cutting("reshape(x, (-1,))", "x", 0), "cut 0");
  EXPECT_EQ(cutting("reshape(x, (1000, 5, 6))", "x", 0), "cut 0");
  EXPECT_EQ(cutting("reshape(x, (1, 1000, 30))", "x", 0), "cut 1");
  EXPECT_EQ(cutting("reshape(x, (2000, 15))", "x", 0), "cut 0");
  EXPECT_EQ(cutting("reshape(x, (500, 60))", "x", 0), "the shape (500, 60) does not keep rows of (1000, 30) together");
  EXPECT_EQ(cutting("reshape(x, (500, 60))", "x", 0, 500), "cut 0");
  EXPECT_EQ(cutting("reshape(b, (6, 32, 16))", "b", 1), "cut 1");
  EXPECT_NE(cutting("reshape(b, (6, 32, 16))", "b", 2), "cut 1");
  EXPECT_EQ(cutting("softmax(n.reshape((-1, 100)))", "n", 0, 60), "cut 0");
  EXPECT_NE(cutting("softmax(n.reshape((-1, 100)))", "n", 0), "cut 0");
}

TEST(ExprBlocks, ReductionsAlongTheCutAreJoined) {
  EXPECT_EQ(cutting("sum(x)", "x", 0), "joined");
  EXPECT_EQ(cutting("sum(x)", "x", 1), "joined");
  EXPECT_EQ(cutting("sum(x, 1)", "x", 0), "cut 0");
  EXPECT_EQ(cutting("sum(x, 0)", "x", 1), "cut 0");
  EXPECT_EQ(cutting("sum(x, 0, keepdims=1)", "x", 1), "cut 1");
  EXPECT_EQ(cutting("mean(b, (0, 2))", "b", 3), "cut 1");
  EXPECT_EQ(cutting("sqrt(sum(x * x)) / 2", "x", 0), "whole");
  EXPECT_EQ(cutting("var(x, 0)", "x", 0), "joined");
  EXPECT_EQ(cutting("std(x, 1)", "x", 0), "cut 0");
  EXPECT_EQ(cutting("logsumexp(x, 0)", "x", 0), "joined");
  EXPECT_EQ(cutting("norm(x)", "x", 1), "joined");
  EXPECT_EQ(cutting("argmax(x, 0)", "x", 0), "joined");
  EXPECT_EQ(cutting("argmax(x)", "x", 0), "joined");
  EXPECT_EQ(cutting("argmax(x)", "x", 1),
            "positions in the flattened array do not follow the axis that would be cut into blocks");
}

TEST(ExprBlocks, WhatNeedsAJoinedValueTakesAnotherPass) {
  EXPECT_EQ(cutting("x - mean(x, 0)", "x", 0), "cut 0, 2 passes");
  EXPECT_EQ(cutting("x - mean(x, 0)", "x", 1), "cut 1");
  EXPECT_EQ(cutting("(x - mean(x, 0)) / std(x, 0)", "x", 0), "cut 0, 2 passes");
  EXPECT_EQ(cutting("d = x - mean(x, 0); d / sqrt(mean(d * d, 0))", "x", 0), "cut 0, 3 passes");
  EXPECT_EQ(cutting("sum(x - max(x, 0), 0)", "x", 0), "joined, 2 passes");
  EXPECT_EQ(cutting("sum(x) / sum(y)", "x", 0), "whole");
  std::string chain = "d = x";
  for (int i = 0; i < 100; ++i) chain += "; d = d - mean(d, 0)";
  EXPECT_EQ(cutting(chain + "; d", "x", 0), "this would take more than 64 passes over the inputs");
}

TEST(ExprBlocks, ProductsGoByTheAxis) {
  EXPECT_EQ(cutting("x @ w", "x", 0), "cut 0");
  EXPECT_EQ(cutting("x @ w", "w", 1), "cut 1");
  EXPECT_EQ(cutting("x @ w", "x", 1), "joined");
  EXPECT_EQ(cutting("relu(x @ w + 1)", "x", 0), "cut 0");
  EXPECT_EQ(cutting("relu(x @ w + 1)", "w", 0), "whole");
  EXPECT_EQ(cutting("x.T @ x", "x", 0), "joined");
  EXPECT_EQ(cutting("x.T @ x", "x", 1),
            "both matrices would be cut into blocks, and each block of one needs all of the "
            "other");
  EXPECT_EQ(cutting("c @ x", "x", 0), "joined");
  EXPECT_EQ(cutting("c @ x", "x", 1), "cut 0");
  EXPECT_EQ(cutting("x @ v", "x", 0), "cut 0");
  EXPECT_EQ(cutting("b @ b.transpose((0, 1, 3, 2))", "b", 0), "cut 0");
  EXPECT_EQ(cutting("b @ b.transpose((0, 1, 3, 2))", "b", 1), "cut 1");
  EXPECT_EQ(cutting("b @ ones((4, 16, 3))", "b", 1), "cut 1");
  EXPECT_EQ(cutting("b @ ones((4, 16, 3))", "b", 0), "cut 0");
  // The kernel would read s whole, and add a part of it.
  EXPECT_EQ(cutting("s @ t + s", "t", 1), "cut 1");
}

TEST(ExprBlocks, RowOpsAndTheLibraryGoAlongOtherAxes) {
  for (const char* text :
       {"softmax(x)", "log_softmax(x)", "layer_norm(x, v, v)", "rms_norm(x, v)", "cumsum(x, 1)", "sort(x)",
        "topk(x, 3)", "argsort(x)", "pad(x, ((0, 0), (1, 2)))", "repeat(x, 2, 1)", "tile(x, (1, 2))", "tile(x, 2)",
        "take_along_axis(x, argsort(x), 1)", "x[:, [1, 2]]", "concatenate([x, y], 1)", "rfft(x)"}) {
    EXPECT_EQ(cutting(text, "x", 0), "cut 0") << text;
    const std::string other = cutting(text, "x", 1);
    EXPECT_TRUE(other.find("cut into blocks") != std::string::npos || other.find("differ along") != std::string::npos)
        << text << ": " << other;
  }
  EXPECT_EQ(cutting("one_hot(argmax(x, 1), 30)", "x", 0), "cut 0");
  EXPECT_EQ(cutting("one_hot(argmax(x, 1), 30, axis=0)", "x", 0), "cut 1");
  EXPECT_EQ(cutting("triu(b)", "b", 1), "cut 1");
  EXPECT_EQ(cutting("triu(b)", "b", 2), "it works across the axis that would be cut into blocks");
  EXPECT_EQ(cutting("attention(b, b, b)", "b", 0), "cut 0");
  EXPECT_EQ(cutting("attention(b, b, b, causal=True)", "b", 2),
            "it works across the axis that would be cut into blocks");
  EXPECT_EQ(cutting("conv2d(b, ones((5, 4, 3, 3)))", "b", 0), "cut 0");
  EXPECT_EQ(cutting("conv2d(b, ones((5, 4, 3, 3)))", "b", 1), "it works across the axis that would be cut into blocks");
  EXPECT_EQ(cutting("max_pool2d(b, 2)", "b", 1), "cut 1");
  EXPECT_EQ(cutting("batch_norm(b, ones(4), ones(4))", "b", 0), "cut 0");
  EXPECT_EQ(cutting("w[argmin(x, 1)]", "x", 0), "cut 0");
  EXPECT_EQ(cutting("concatenate([x, y])", "x", 0), "it joins arrays along the axis that would be cut into blocks");
}

TEST(ExprBlocks, PassesHoldWhatTheyNeedAndNoMore) {
  const Given given("m = mean(x, 0); k = exp(v); ((x - m) * k) @ w + sum(y)");
  Obstacle obstacle;
  const auto blocks =
      cut(given.graph, given.result, {{given.inputs.at("x"), 0}, {given.inputs.at("y"), 0}}, 1000, obstacle);
  ASSERT_TRUE(blocks);
  ASSERT_EQ(blocks->passes.size(), 2u);
  EXPECT_EQ(blocks->passes[0].inputs, (std::vector<OpId>{given.inputs.at("x"), given.inputs.at("y")}));
  EXPECT_EQ(blocks->passes[1].inputs, (std::vector<OpId>{given.inputs.at("x")}));
  EXPECT_TRUE(blocks->after.empty());
  // No step stands twice in a pass, and each is in one place: before a pass, in passes, or behind.
  for (const BlockPass& pass : blocks->passes) {
    for (std::size_t step : pass.before) EXPECT_FALSE(blocks->cuts[blocks->plan.steps[step].result].from_blocks());
    for (std::size_t step : pass.steps) EXPECT_TRUE(blocks->cuts[blocks->plan.steps[step].result].from_blocks());
  }
}

BlockChoice choose(const Given& given, std::uint64_t memory, std::uint64_t block = 8000) {
  return choose_blocks(given.graph, given.result, given.sources, {memory, block, 128 << 20});
}

std::string chosen(const std::string& text, std::uint64_t memory = kGiB) {
  const Given given(text);
  const BlockChoice choice = choose(given, memory);
  if (!choice.blocks) return choice.least_bytes > 0 ? "too large" : choice.obstacle.why;
  std::string out;
  for (const auto& [id, axis] : choice.blocks->inputs) out += fmt::format("{}{} ", given.graph[id].name, axis);
  return out;
}

TEST(ExprBlocks, TheWayWithTheLeastTransfersIsChosen) {
  EXPECT_EQ(chosen("x * 2"), "x0 ");
  EXPECT_EQ(chosen("x + y"), "x0 y0 ");
  EXPECT_EQ(chosen("softmax(x, 0)"), "x1 ");
  EXPECT_EQ(chosen("softmax(n.reshape((-1, 100)))"), "n0 ");
  EXPECT_EQ(chosen("cumsum(x, 0) + cumsum(x, 1)"), "it works across the axis that would be cut into blocks");
  EXPECT_EQ(chosen("x + c[:, None]"), "x0 ");
}

TEST(ExprBlocks, MemoryIsCounted) {
  const Given given("x * 2 + v");
  const BlockChoice choice = choose(given, 40000);
  ASSERT_TRUE(choice.blocks);
  EXPECT_LE(choice.bytes, 40000u);
  // A block has x and the result; v stays.
  EXPECT_EQ(choice.footprint.whole, 120u);
  EXPECT_EQ(choice.footprint.per_row, 240u);
  EXPECT_EQ(choice.count, (1000 + 66 - 1) / 66);  // 8000 bytes of 120 a row
  EXPECT_EQ(choose(given, 359).least_bytes, 360u);
  EXPECT_FALSE(choose(given, 359).blocks);
  EXPECT_EQ(choose(given, 360).count, 1000);

  const WholeFootprint whole = whole_footprint(given.graph, make_plan(given.graph, given.result));
  EXPECT_EQ(whole.bytes, 2u * 120000 + 120);
}

TEST(ExprBlocks, WholeFootprintsCountWhatLivesAtATime) {
  const auto bytes = [](const std::string& text) {
    const Given given(text);
    return whole_footprint(given.graph, make_plan(given.graph, given.result)).bytes;
  };
  EXPECT_EQ(bytes("sum(x)"), 120000u + 4);
  EXPECT_EQ(bytes("x.T"), 120000u);
  EXPECT_EQ(bytes("softmax(x)"), 240000u);
  EXPECT_EQ(bytes("softmax(softmax(softmax(x)))"), 240000u);  // x goes with its last use
  EXPECT_EQ(bytes("softmax(x) * softmax(x.T).T"), 360000u + 0);
}

TEST(ExprBlocks, TheLargestWholeTensorIsNamed) {
  const Given given("x @ w");
  const BlockChoice choice = choose(given, 500);
  EXPECT_FALSE(choice.blocks);
  EXPECT_GT(choice.least_bytes, 500u);
}

}  // namespace
}  // namespace weft::expr
