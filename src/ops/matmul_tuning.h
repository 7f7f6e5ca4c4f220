// Products and their stored choices. What a choice is measured among, and how it is kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dispatch/tuning.h"
#include "ops/matmul_plan.h"
#include "ops/tunable.h"
#include "weft/device.h"

namespace weft::ops {

/// The stored choice for the problem's class, cut to the problem; nothing where choose() is to be asked.
std::optional<MatmulPlan> stored_matmul_plan(const Device& device, DeviceClass of, const MatmulProblem& problem);

/// True where the plan's kernel can multiply such matrices; `own` is what choose() says.
bool applies(const MatmulPlan& plan, const MatmulProblem& problem, const MatmulPlan& own);

/// The problem that stands for its class: lengths that are powers of two.
MatmulProblem typical(const MatmulProblem& problem);
/// Every plan that can be stored for the class of a typical problem; what choose() says first.
std::vector<MatmulPlan> matmul_candidates(DeviceClass of, const Limits& limits, const MatmulProblem& typical);

dispatch::TuningPlan to_tuning(const MatmulPlan& plan);
MatmulPlan to_matmul(const dispatch::TuningPlan& plan);

const Tunable& matmul_tunable();
const Tunable& matmul_int8_tunable();

}  // namespace weft::ops
