// Attention and what was measured on the device: shape classes, candidates, samples (ops/tunable.h).
#pragma once

#include <optional>

#include "ops/attention_plan.h"
#include "ops/tunable.h"

namespace weft::ops {

/// The plan that is stored for the shape's class, where it can do the work.
std::optional<AttentionPlan> stored_attention_plan(const Device& device, const AttentionDevice& kernels,
                                                   const AttentionShape& shape, DType dtype, std::uint32_t unit);

dispatch::TuningPlan to_tuning(const AttentionChoice& choice);
AttentionChoice to_attention_choice(const dispatch::TuningPlan& stored);

const Tunable& attention_tunable();

}  // namespace weft::ops
