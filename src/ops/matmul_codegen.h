// The WGSL of matrix products. Text only: needs no device.
#pragma once

#include <cstdint>
#include <string>

#include "ops/matmul_plan.h"
#include "weft/dtype.h"

namespace weft::ops {

/// How a kernel multiplies 8-bit integers, four to a word.
enum class Int8 : std::uint8_t {
  none,
  dot,      ///< WGSL's dot4I8Packed and dot4U8Packed
  unpacked  ///< shifts and products, for implementations without these
};

/// Everything that makes one kernel's text different from another's; lengths, strides and offsets are parameters, and
/// so is all that a full epilogue does.
struct MatmulSpec {
  MatmulPlan plan;         ///< without `splits` and `lanes_n`, which are the host's affair
  DType in = DType::f32;   ///< of a and b: f32, f16 or i32 (u32 is the same bits); u32 for packed 8-bit integers
  DType out = DType::f32;  ///< of c, the bias and the residual: f32 or f16 for these, else i32
  bool a_transposed = false;
  bool b_transposed = false;
  bool a_vec4 = false;  ///< lengths, strides and offsets allow loads of four; those parameters count in fours then
  bool b_vec4 = false;
  bool c_vec4 = false;
  /// matrix kernels of f16 with MatmulPlan::vec 8: a and b both can be read in eights, 16 bytes; theirs count in these.
  bool wide = false;
  /// alpha, beta * c, bias, activation and residual, each as the parameters ask for; any step between c's columns.
  bool full = false;
  std::uint32_t batch_axes = 1;  ///< 1 or 3
  Int8 int8 = Int8::none;
  bool a_signed = true, b_signed = true;  ///< of 8-bit integers
};

/// The nearest spec that there is a kernel of, for one whose every flag may be set: keeps the number of kernels small
/// where little is lost. Equal up to loads that are narrower, a full epilogue and more batch axes.
MatmulSpec settle(MatmulSpec spec);

/// Names the spec: equal keys, equal text.
std::string matmul_key(const MatmulSpec& spec);

/// Bits of the parameter `flags`, beside an Activation in the lowest three.
inline constexpr std::uint32_t kAddsC = 8, kAddsBias = 16, kAddsResidual = 32;

/// Bindings a, b, c, and with a full epilogue bias and residual (anything where its flag is not set); the summing
/// kernel has no b. `struct Params` has 32-bit members only, in this order:
///   m, n, k, groups,
///   a_offset, a_line, b_offset, b_line, c_offset, c_line   (elements, or fours of them; a line is what lies side by
///   side), lanes (block: of a workgroup along n), with three batch axes: two lengths batch_1, batch_2; then a stride
///   per batch axis for a, for b, for c; and with a full epilogue:
///   c_column, flags, alpha, beta   (these two of the sums' type),
///   then for the bias and the residual each: offset, row, column, and a stride per batch axis   (elements).
/// A panel kernel's a and b are what matmul_pack_source makes, a_line and b_line are from panel to panel, and k is a
/// multiple of 4. For vector kernels b is the vector, b_line its step, and c_line the step between results. For the
/// summing kernel k counts the parts, a has them one after the other, each dense and a_line elements long, and b_line
/// is m * batch.
std::string matmul_source(const MatmulSpec& spec);

/// The kernel that repacks an operand of dtype `in` for the panel kernel: for each matrix of the batch and each kPanel
/// rows of its outer axis (a's rows, b's columns) a panel, which has for each step of the inner axis the kPanel
/// elements side by side. Zeros fill the last panel, and the inner axis to a multiple of four. Bindings x and panels
/// (of f32, or i32); parameters, all u32:
///   outer, k, padded_k, groups, per_matrix (panels), chunks (of kPackSteps, of a panel), offset, outer_step,
///   inner_step (elements), two lengths batch_1, batch_2, three strides batch axis.
std::string matmul_pack_source(DType in);
inline constexpr std::uint32_t kPackSteps = 256;  ///< of the inner axis, that one workgroup repacks

}  // namespace weft::ops
