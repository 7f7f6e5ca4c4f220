// The row ops of the library, as the catalogue lists their kernels.
#pragma once

#include "ops/rows.h"

namespace weft::ops {

// Texts live as long as the program.
RowOp softmax_row_op();
RowOp log_softmax_row_op();
/// `text` by whether there is a weight and a bias; the tensors and eps are the caller's to set.
RowOp layer_norm_row_op(bool weight, bool bias);
RowOp rms_norm_row_op(bool weight);

}  // namespace weft::ops
