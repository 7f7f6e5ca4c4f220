// Convolutions and their stored choices, as matmul_tuning.h has those of products.
#pragma once

#include <vector>

#include "dispatch/tuning.h"
#include "ops/conv_plan.h"
#include "ops/tunable.h"
#include "weft/device.h"

namespace weft::ops {

/// The plan for a sum over windows: the stored choice of its class, else choose_conv().
ConvPlan conv_plan(const Device& device, const ConvProblem& problem, DType dtype);

/// The problem that stands for its class: lengths that are powers of two.
ConvProblem typical(const ConvProblem& problem);
/// Every plan that can be stored for the class of a typical problem; what choose_conv() says first.
std::vector<ConvPlan> conv_candidates(bool cpu, const Limits& limits, const ConvProblem& typical);

dispatch::TuningPlan to_tuning(const ConvPlan& plan);
ConvPlan to_conv(const dispatch::TuningPlan& plan);

const Tunable& conv_tunable();

}  // namespace weft::ops
