// The WGSL of matrix products. Text only: needs no device.
#pragma once

#include <cstdint>
#include <string>

#include "ops/matmul_plan.h"
#include "weft/dtype.h"

namespace weft::ops {

/// Everything that makes one kernel's text different from another's; lengths, strides and offsets are parameters.
struct MatmulSpec {
  MatmulPlan plan;         ///< without `splits`, which is the host's affair
  DType in = DType::f32;   ///< of a and b; not bool
  DType out = DType::f32;  ///< of c and the bias; not bool
  bool a_transposed = false;
  bool b_transposed = false;
  bool a_vec4 = false;  ///< lengths, strides and offsets allow loads of four; those parameters count in fours then
  bool b_vec4 = false;
  bool c_vec4 = false;
  bool bias = false;
  std::uint32_t batch_axes = 0;  ///< 0, 1 or 3
};

/// Names the spec: equal keys, equal text.
std::string matmul_key(const MatmulSpec& spec);

/// Bindings a, b, c, and bias when there is one. `struct Params` has u32 members only, in this order:
///   m, n, k, groups,
///   a_offset, a_line, b_offset, b_line, c_offset, c_line   (elements, or fours of them; a line is what lies side by
///   side), with batch axes: [two lengths batch_1, batch_2 for three axes,] a stride per axis for a, for b, then one
///   for c, with a bias: bias_offset, bias_row, bias_column, and a stride per batch axis   (elements).
/// For vector kernels b is the vector, b_line its step, and c_line the step between results.
std::string matmul_source(const MatmulSpec& spec);

}  // namespace weft::ops
