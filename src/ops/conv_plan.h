// Which kernel runs which convolution: the one place that knows speeds. Pure, needs no device.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/ops.h"

namespace weft::ops {

/// A sum of products over windows as the kernels see it: of each group, `rows` of the filter meet `columns` (places of
/// the batch) over `inner` products. Convolutions and their gradients all come to this; see WindowSum in conv.cpp.
struct ConvProblem {
  std::uint64_t rows = 0, columns = 0, inner = 0, groups = 1;
  std::uint64_t channels = 1;  ///< of `inner`: those that move along no spatial axis
  bool can_pack = false;       ///< both operands may be laid out anew
  /// Neighbours in memory are: along the columns (NCHW), or the channels (NHWC).
  bool channels_inner = false;
  bool divided = false;  ///< places are divided by a stride
};

enum class ConvKind : std::uint8_t {
  tile,    ///< gpu: a workgroup makes tile_m rows x tile_n columns through workgroup memory
  block,   ///< a lane makes `rows` x `columns`, alone: where a group has few rows
  packed,  ///< cpu: likewise, of x and the filter laid out anew in f32, four channels side by side, with its padding
};

struct ConvPlan {
  ConvKind kind = ConvKind::block;
  std::uint32_t threads = 8;
  std::uint32_t rows = 1, columns = 4;  ///< that one invocation makes
  std::uint32_t tile_m = 1;             ///< what a workgroup makes
  std::uint32_t tile_n = 32;
  std::uint32_t depth = 1;      ///< tile: of the inner axis
  bool lanes_channels = false;  ///< block: lanes lie along the channels of all groups, not along the columns
  std::uint64_t splits = 1;     ///< parts of the inner axis that are summed apart and added afterwards
};

ConvPlan choose_conv(bool cpu, const Limits& limits, const ConvProblem& problem);
/// Workgroups of one dispatch of the plan, without its parts.
std::uint64_t groups_of(const ConvPlan& plan, const ConvProblem& problem);
/// The fewest parts that the sum must be cut into.
std::uint64_t least_conv_splits(const ConvPlan& plan, const ConvProblem& problem);
/// All that choose_conv can return but for `splits`.
std::vector<ConvPlan> conv_plans(bool cpu, const Limits& limits);

/// Everything that makes one kernel's text different from another's; lengths, strides and offsets are parameters.
struct ConvSpec {
  ConvPlan plan;
  DType in = DType::f32;   ///< of x, the filter and the bias: f32 or f16 (packed: of the bias alone)
  DType out = DType::f32;  ///< f32 for partial sums of f16
  bool moves = false;      ///< block: the innermost of the inner axes moves along a spatial axis
  bool divided = false;    ///< block: places are divided by a stride; those that don't divide hold nothing
  bool x_inner = false;    ///< tile: neighbours of x lie along the inner axis
  Activation activation = Activation::none;
};
/// Every spec that convolutions can come to with the plans of one kernel class.
std::vector<ConvSpec> conv_specs(bool cpu, const Limits& limits, bool f16);

}  // namespace weft::ops
