// Reductions and what was measured on the device: shape classes, candidates, samples (ops/tunable.h).
#pragma once

#include "ops/reduce_plan.h"
#include "ops/tunable.h"

namespace weft::ops {

/// share_out, by what is stored for the class. All reductions share classes; only those of floats have any.
Split tuned_split(const Device& device, bool cpu, const ReduceProblem& problem, DType dtype);

const Tunable& reduce_tunable();

}  // namespace weft::ops
