// The kernels of row ops that keep a row in registers; see rows.wgsl and RowOp.
#pragma once

#include <string>

#include "ops/rows.h"
#include "ops/rows_plan.h"

namespace weft::ops {

/// Entry point `hold`, which does all; or, for `pieces`, `hold_stats`, which gives both statistics of pieces of rows.
/// For a plan that holds.
std::string holding_text(const RowOp& op, const RowPlan& plan, bool pieces);

}  // namespace weft::ops
