// Row ops and what was measured on the device: shape classes, candidates, samples (ops/tunable.h).
#pragma once

#include "ops/rows.h"
#include "ops/rows_plan.h"
#include "ops/tunable.h"

namespace weft::ops {

/// plan_rows, by what is stored for the class. All row ops share classes; only rows of floats have any.
RowPlan tuned_row_plan(const Device& device, const AxisPair& kept, const AxisPair& row, bool quads, DType dtype);

dispatch::TuningPlan to_tuning(const RowChoice& choice);
RowChoice to_row_choice(const dispatch::TuningPlan& stored);

const Tunable& rows_tunable();

}  // namespace weft::ops
