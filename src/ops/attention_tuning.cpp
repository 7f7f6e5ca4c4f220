#include "ops/attention_tuning.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/launch.h"
#include "weft/nn.h"

namespace weft::ops {
namespace {

using dispatch::TuningKey;
using dispatch::TuningPlan;

// Rows of a kv head, and kv heads of the batch, past these don't change what is best.
constexpr std::uint32_t kMostRowsClass = 13, kMostHeadsClass = 9;

struct Classes {
  std::uint32_t heads, rows, keys, dim, value_dim;
};

Classes classes_of(const AttentionShape& s) {
  const auto of = [](std::int64_t length) { return dispatch::size_class(static_cast<std::uint64_t>(length)); };
  return {std::min(of(s.batch * s.kv_heads), kMostHeadsClass),
          std::min(of(s.heads / s.kv_heads * s.queries), kMostRowsClass), of(s.keys), of(s.dim), of(s.value_dim)};
}

AttentionShape typical(const Classes& c) {
  const auto length = [](std::uint32_t size_class) {
    return static_cast<std::int64_t>(dispatch::class_length(size_class));
  };
  return {1, length(c.heads), length(c.heads), length(c.rows), length(c.keys), length(c.dim), length(c.value_dim)};
}

std::vector<std::string> usual(const Device& device) {
  if (is_cpu(device)) return {"1x8x8x1x1024x64", "1x4x4x256x256x64", "1x8x2x1x4096x64", "1x8x8x64x1024x64"};
  return {"1x32x32x4096x4096x128", "1x32x8x1x8192x128",   "8x16x16x512x512x64", "1x32x32x1x32768x128",
          "1x32x8x16x8192x128",    "16x12x12x197x197x64", "1x8x8x4096x77x40"};
}

TuneSample sample(const Device& device, DType dtype, const std::string& shape) {
  const auto lengths = lengths_of(shape);
  if (!lengths || lengths->size() != 6) throw bad_shape(shape, attention_tunable());
  const std::vector<std::int64_t>& n = *lengths;
  if (n[1] % n[2] != 0) throw bad_shape(shape, attention_tunable());
  const Tensor q = sample_operand(device, {n[0], n[1], n[3], n[5]}, dtype);
  const Tensor k = sample_operand(device, {n[0], n[2], n[4], n[5]}, dtype);
  const Tensor v = unary(UnaryOp::negative, k);
  return {[q, k, v] { return attention(q, k, v); }, dtype == DType::f16 ? 4e-3 : 1e-4};
}

std::string describe(const TuningPlan& stored) {
  const AttentionChoice c = to_attention_choice(stored);
  std::string text(to_string(c.tier));
  if (c.tier == AttentionTier::tile) text = fmt::format("tile of {} rows, {} columns", c.rows * 8, c.columns);
  if (c.tier == AttentionTier::lane) {
    text = fmt::format("{} row{} a lane{}", c.rows, c.rows == 1 ? "" : "s", c.shares ? ", lanes share them" : "");
  }
  return c.splits > 0 ? fmt::format("{}, {} share{} of the keys", text, c.splits, c.splits == 1 ? "" : "s") : text;
}

}  // namespace

TuningPlan to_tuning(const AttentionChoice& c) {
  return {static_cast<std::uint32_t>(c.tier), c.rows, c.columns, c.shares ? 1u : 0u,
          static_cast<std::uint32_t>(c.splits)};
}

AttentionChoice to_attention_choice(const TuningPlan& stored) {
  const auto& v = stored.values;
  return {static_cast<AttentionTier>(v[0]), v[1], v[2], v[3] != 0, v[4]};
}

std::optional<AttentionPlan> stored_attention_plan(const Device& device, const AttentionDevice& kernels,
                                                   const AttentionShape& shape, DType dtype, std::uint32_t unit) {
  dispatch::TuningTable& table = state_of(device).tuning;
  if (!table.in_use() || attention_forced()) return {};
  const Classes c = classes_of(shape);
  TuningKey key;
  key.add("attention").add(to_string(dtype)).add(kernels.cpu ? "cpu" : "gpu");
  key.add("h", c.heads).add("r", c.rows).add("k", c.keys).add("d", c.dim).add("v", c.value_dim).add("u", unit);
  const auto stored = table.find(key, [&] { return to_tunings(attention_choices(kernels, typical(c), dtype, unit)); });
  if (!stored) return {};
  return plan_attention(kernels, shape, dtype, unit, to_attention_choice(*stored));
}

const Tunable& attention_tunable() {
  static const Tunable tunable{"attention",
                               "batch x heads x kv heads x queries x keys x dim: 1x32x8x1x8192x128",
                               {DType::f32, DType::f16},
                               &usual,
                               &sample,
                               &describe};
  return tunable;
}

}  // namespace weft::ops
