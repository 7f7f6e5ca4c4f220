#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/checked.h"
#include "ops/attention_plan.h"
#include "ops/attention_tuning.h"
#include "ops/infer_attention.h"
#include "ops/launch.h"
#include "ops/matmul.h"
#include "ops/result.h"
#include "ops/rows.h"
#include "weft/error.h"
#include "weft/nn.h"

namespace weft {
namespace ops {
namespace {

constexpr std::string_view kName = "attention";

struct Params {
  std::uint32_t queries, keys, dim, value_dim;
  std::uint32_t rows, kv_heads;
  std::uint32_t q_offset, q_batch, q_head, q_row;
  std::uint32_t k_offset, k_batch, k_head, k_row;
  std::uint32_t v_offset, v_batch, v_head, v_row;
  std::uint32_t mask_offset, mask_batch, mask_head, mask_row, mask_key, mask_kind, mask_shift;
  std::uint32_t lengths_offset, lengths_stride, lengths_kind;
  std::uint32_t causal, tiles, value_chunks, splits, chunk, groups, shares, out_offset, all_rows, minus_zero, depth;
  std::uint32_t value_lanes;
  float scale, softcap, minus_infinity, not_a_number;
};

struct MergeParams {
  std::uint32_t all_rows, value_dim, splits, out_offset;
  float not_a_number;
};

/// What one call works on. q, k, v have an innermost stride of 1; the mask is broadcast to the scores.
struct Operands {
  Tensor q, k, v, mask, lengths, out;
  AttentionShape shape;
};

/// Strides of the outer axes, the offset and the last length are multiples of n.
bool in_units_of(std::uint32_t n, const Tensor& x, std::uint32_t offset) {
  bool all = offset % n == 0 && x.shape()[3] % n == 0;
  for (std::size_t i = 0; i < 3; ++i) all = all && (x.shape()[i] == 1 || x.strides()[i] % n == 0);
  return all;
}

std::uint64_t all_rows(const AttentionShape& s) {
  return static_cast<std::uint64_t>(s.batch * s.heads * s.queries);
}

AttentionDevice kernels_of(const Device& device, DType dtype) {
  return {cpu_kernels(device), is_cpu(device), device.limits(), device.features(),
          dtype == DType::f16 && usable_unit(device, dtype)};
}

/// By the rules.
AttentionPlan plan_of(const Operands& a, std::uint32_t unit) {
  return plan_attention(kernels_of(a.q.device(), a.q.dtype()), a.shape, a.q.dtype(), unit);
}

/// Of the sums that a plan leaves for the merging kernel, each row filled up to whole fours.
std::uint64_t partial_bytes(const Operands& a, const AttentionPlan& plan) {
  if (!plan.spec.partial) return 0;
  const std::uint64_t filled = ceil_div(static_cast<std::uint64_t>(a.shape.value_dim), std::uint64_t{4}) * 16;
  return checked_mul(checked_mul(all_rows(a.shape), filled, kName), plan.splits, kName);
}

Kernel kernel_of(const Device& device, const std::string& key, const std::string& label, auto&& source) {
  return dispatch::library_kernel(state_of(device), key, [&] {
    KernelOptions options;
    options.source = source();
    options.label = label;
    return options;
  });
}

void run_block(const AttentionOptions& options, const Operands& a) {
  const Device& device = a.q.device();
  const AttentionShape& s = a.shape;
  const Window q = window(a.q, kName);
  const Window k = window(a.k, kName);
  const Window v = window(a.v, kName);
  const Window out = window(a.out, kName);
  const Window mask = a.mask ? window(a.mask, kName) : k;
  const Window lengths = a.lengths ? window(a.lengths, kName) : k;
  std::uint32_t common = 8;
  while (common > 1 && !(in_units_of(common, a.q, q.offset) && in_units_of(common, a.k, k.offset) &&
                         in_units_of(common, a.v, v.offset) && out.offset % 4 == 0)) {
    common = common == 8 ? 4 : 1;
  }
  AttentionPlan plan = plan_of(a, common);
  // More shares than the rules' may need more memory than there is; how a call was cut goes by the rules.
  if (const auto stored = stored_attention_plan(device, kernels_of(device, a.q.dtype()), s, a.q.dtype(), common);
      stored &&
      partial_bytes(a, *stored) <= std::max(device.limits().max_storage_binding_size / 4, partial_bytes(a, plan))) {
    plan = *stored;
  }

  Params params{};
  params.queries = word(s.queries);
  params.keys = word(s.keys);
  params.dim = word(s.dim);
  params.value_dim = word(s.value_dim);
  params.rows = word(s.heads / s.kv_heads * s.queries);
  params.kv_heads = word(s.kv_heads);
  const std::uint32_t unit = plan.spec.unit;
  const auto stride = [&](const Tensor& x, std::size_t axis) {
    return x.shape()[axis] == 1 ? 0U : word(x.strides()[axis] / static_cast<std::int64_t>(unit));
  };
  params.q_offset = q.offset / unit;
  params.q_batch = stride(a.q, 0);
  params.q_head = stride(a.q, 1);
  params.q_row = stride(a.q, 2);
  params.k_offset = k.offset / unit;
  params.k_batch = stride(a.k, 0);
  params.k_head = stride(a.k, 1);
  params.k_row = stride(a.k, 2);
  params.v_offset = v.offset / unit;
  params.v_batch = stride(a.v, 0);
  params.v_head = stride(a.v, 1);
  params.v_row = stride(a.v, 2);
  if (a.mask) {
    params.mask_offset = mask.offset;
    params.mask_batch = word(a.mask.strides()[0]);
    params.mask_head = word(a.mask.strides()[1]);
    params.mask_row = word(a.mask.strides()[2]);
    params.mask_key = word(a.mask.strides()[3]);
    params.mask_kind = a.mask.dtype() == DType::bool_ ? 1 : a.mask.dtype() == DType::f32 ? 2 : 3;
    params.mask_shift = a.mask.dtype() == DType::bool_ ? 2 : a.mask.dtype() == DType::f32 ? 0 : 1;
  }
  if (a.lengths) {
    params.lengths_offset = lengths.offset;
    params.lengths_stride = word(a.lengths.strides()[0]);
    params.lengths_kind = a.lengths.dtype() == DType::i32 ? 1 : 2;
  }
  params.causal = options.causal ? 1 : 0;
  params.tiles = plan.tiles;
  params.value_chunks = plan.value_chunks;
  params.splits = plan.splits;
  params.chunk = plan.chunk;
  params.groups = static_cast<std::uint32_t>(plan.groups);
  params.shares = plan.spec.shares ? kAttentionLanes : 1;
  params.out_offset = plan.spec.partial ? 0 : out.offset / (unit == 1 ? 1 : 4);
  params.all_rows = static_cast<std::uint32_t>(all_rows(s));
  params.minus_zero = 0x80000000U;
  params.depth = 16;
  params.value_lanes = plan.value_lanes;
  params.scale = static_cast<float>(options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(s.dim)));
  params.softcap = static_cast<float>(options.softcap);
  params.minus_infinity = -std::numeric_limits<float>::infinity();
  params.not_a_number = std::numeric_limits<float>::quiet_NaN();

  const Grid grid = fold_groups(plan.groups, kName);
  const Kernel kernel =
      kernel_of(device, attention_key(plan.spec), fmt::format("attention.{}", to_string(plan.spec.tier)),
                [&] { return attention_source(plan.spec); });
  if (!plan.spec.partial) {
    launch(device, kernel, {q.range, k.range, v.range, mask.range, lengths.range, out.range}, params, grid);
    return;
  }
  const std::uint64_t bytes = partial_bytes(a, plan);
  if (bytes > device.limits().max_storage_binding_size) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("attention: sums of {} queries and {} shares of the keys take {} bytes, over the device's "
                            "limit of {} for one binding",
                            s.queries, plan.splits, bytes, device.limits().max_storage_binding_size),
                "work on slices of the queries");
  }
  Device owner = device;
  const auto made = [&](std::uint64_t n) { return BindingRange(owner.alloc(n), 0, n); };
  const BindingRange sums = made(bytes);
  const BindingRange stats = made(std::uint64_t{params.all_rows} * plan.splits * 8);
  launch(device, kernel, {q.range, k.range, v.range, mask.range, lengths.range, sums, stats}, params, grid);

  const bool cpu = plan.spec.tier == AttentionTier::lane;
  const Kernel merge = kernel_of(device, attention_merge_key(a.out.dtype(), cpu), "attention.merge",
                                 [&] { return attention_merge_source(a.out.dtype(), cpu); });
  const MergeParams joined{params.all_rows, params.value_dim, plan.splits, out.offset, params.not_a_number};
  const std::uint64_t merge_groups =
      cpu ? ceil_div(bytes / 16 / plan.splits, std::uint64_t{64})
          : params.all_rows * ceil_div(static_cast<std::uint64_t>(s.value_dim), std::uint64_t{32});
  launch(device, merge, {sums, stats, out.range}, joined, fold_groups(merge_groups, kName));
}

/// Cuts the batch, then the heads, until all fits its bindings.
void run_parts(const AttentionOptions& options, const Operands& a) {
  const std::uint64_t limit = a.q.device().limits().max_storage_binding_size;
  std::uint64_t most = 0;
  for (const std::uint32_t unit : {1U, 4U, 8U}) most = std::max(most, partial_bytes(a, plan_of(a, unit)));
  const bool fits = fits_binding(a.q) && fits_binding(a.k) && fits_binding(a.v) && fits_binding(a.out) &&
                    (!a.mask || window_bytes(a.mask) <= limit) && most <= limit;
  const std::size_t axis = a.shape.batch > 1 ? 0 : 1;
  const std::int64_t length = axis == 0 ? a.shape.batch : a.shape.kv_heads;
  if (fits || length < 2) {
    run_block(options, a);
    return;
  }
  const std::int64_t group = a.shape.heads / a.shape.kv_heads;
  const auto run = [&](std::int64_t start, std::int64_t count) {
    Operands part = a;
    (axis == 0 ? part.shape.batch : part.shape.kv_heads) = count;
    const std::int64_t q_step = axis == 0 ? 1 : group;
    if (axis == 1) part.shape.heads = count * group;
    part.q = part_of(a.q, axis, start * q_step, count * q_step);
    part.k = part_of(a.k, axis, start, count);
    part.v = part_of(a.v, axis, start, count);
    part.out = part_of(a.out, axis, start * q_step, count * q_step);
    if (a.mask) part.mask = part_of(a.mask, axis, start * q_step, count * q_step);
    if (a.lengths && axis == 0) part.lengths = part_of(a.lengths, 0, start, count);
    run_parts(options, part);
  };
  run(0, length / 2);
  run(length / 2, length - length / 2);
}

}  // namespace
}  // namespace ops

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  std::vector<const Tensor*> given{&q, &k, &v};
  if (options.mask) given.push_back(&options.mask);
  if (options.lengths) given.push_back(&options.lengths);
  Device device = ops::common_device(ops::kName, given);
  ops::check_attention_types(q.dtype(), k.dtype(), v.dtype());
  ops::Operands a;
  a.shape = ops::attention_shape(q.shape(), k.shape(), v.shape());
  if (options.mask) ops::check_attention_mask(a.shape, options.mask.shape(), options.mask.dtype());
  if (options.lengths) ops::check_attention_lengths(a.shape, options.lengths.shape(), options.lengths.dtype());
  const double scale = options.scale.value_or(1);
  ops::check_attention_numbers(scale, options.softcap);
  const std::uint64_t rows =
      checked_mul(static_cast<std::uint64_t>(a.shape.heads), static_cast<std::uint64_t>(a.shape.queries), ops::kName);
  if (rows > (1 << 30) || a.shape.keys > (1 << 30)) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("attention: {} queries of all heads and {} keys, the limit of each is {}", rows,
                            a.shape.keys, 1 << 30),
                "work on slices");
  }
  if (a.shape.keys == 0) return device.zeros(a.shape.result(), q.dtype());
  a.out = ops::new_result(device, a.shape.result(), q.dtype());
  if (a.out.size() == 0) return a.out;

  // As they lie when the elements of a head lie side by side.
  const auto readable = [](const Tensor& x) { return x.shape()[3] == 1 || x.strides()[3] == 1 ? x : contiguous(x); };
  a.q = readable(q);
  a.k = readable(k);
  a.v = readable(v);
  if (options.mask) a.mask = broadcast_to(options.mask, a.shape.scores());
  a.lengths = options.lengths;
  ops::run_parts(options, a);
  return a.out;
}

}  // namespace weft
