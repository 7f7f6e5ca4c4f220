// weft/ops.h - operations on tensors.
//
// Every op records into Device::stream() and returns at once; reading a result submits and waits. Operands
// may be strided or broadcast views. Shapes broadcast as in numpy. Results are new contiguous tensors, unless a line
// says «view». Errors come before anything is recorded: invalid_argument (shapes, dtypes), out_of_range (axes,
// indices), unsupported (a limit of the device, named), foreign_buffer (operands of two devices).
//
// Types: operands of two dtypes promote as numpy does, within what Weft has: bool < i32, u32 < f16 < f32; an integer
// with f16 gives f32; i32 with u32 gives i32 (numpy: int64), but comparisons of the two are exact, and divide and
// arctan2 take each to f32. A Scalar is weak: it takes the tensor's dtype unless it is of a higher kind (float with an
// integer tensor gives f32); a whole number that the dtype does not hold is refused, except in comparisons, divide and
// arctan2. Integers wrap. NaN, infinities and signed zeros follow numpy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "weft/tensor.h"

namespace weft {

/// A number beside a tensor, weakly typed.
struct Scalar {
  std::variant<bool, std::int64_t, double> value;
  Scalar(bool v) : value(v) {}
  Scalar(int v) : value(std::int64_t{v}) {}
  Scalar(unsigned v) : value(std::int64_t{v}) {}
  Scalar(std::int64_t v) : value(v) {}
  Scalar(float v) : value(double{v}) {}
  Scalar(double v) : value(v) {}
};

// -- elementwise
// --------------------------------------------------------------------------------------------------------

enum class UnaryOp : std::uint8_t {
  negative,
  positive,
  abs,
  sign,
  invert,
  logical_not,
  exp,
  expm1,
  exp2,
  log,
  log1p,
  log2,
  sqrt,
  rsqrt,
  square,
  reciprocal,
  sin,
  cos,
  tan,
  tanh,
  sigmoid,
  relu,
  gelu,
  gelu_tanh,
  silu,
  erf,
  floor,
  ceil,
  round,
  trunc,
  isnan,
  isinf,
  isfinite,
};
enum class BinaryOp : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  remainder,
  power,
  minimum,
  maximum,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  atan2,
  fmod,
};
/// numpy's name of the op: "negative", "floor_divide".
std::string_view to_string(UnaryOp op) noexcept;
std::string_view to_string(BinaryOp op) noexcept;

/// abs, negative, sign, square, relu keep the dtype; floor, ceil, round (half to even), trunc keep it (integers
/// unchanged); exp .. rsqrt, sin .. sigmoid and gelu .. erf of an integer or bool give f32; isnan.. and logical_not
/// give bool; relu keeps NaN.
Tensor unary(UnaryOp op, const Tensor& x);
/// divide of integers gives f32; floor_divide and remainder take the floor rule of Python (-7 // 2 == -4), and an
/// integer divided by 0 gives 0 as in numpy; power of integers wraps and gives 0 for a negative exponent (1 and -1 as
/// bases stay right); fmod truncates; comparisons give bool; minimum and maximum return NaN when either operand is.
Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b);
Tensor binary(BinaryOp op, const Tensor& a, Scalar b);
Tensor binary(BinaryOp op, Scalar a, const Tensor& b);

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return binary(BinaryOp::add, a, b);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return binary(BinaryOp::subtract, a, b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return binary(BinaryOp::multiply, a, b);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return binary(BinaryOp::divide, a, b);
}
inline Tensor operator+(const Tensor& a, Scalar b) {
  return binary(BinaryOp::add, a, b);
}
inline Tensor operator-(const Tensor& a, Scalar b) {
  return binary(BinaryOp::subtract, a, b);
}
inline Tensor operator*(const Tensor& a, Scalar b) {
  return binary(BinaryOp::multiply, a, b);
}
inline Tensor operator/(const Tensor& a, Scalar b) {
  return binary(BinaryOp::divide, a, b);
}
inline Tensor operator+(Scalar a, const Tensor& b) {
  return binary(BinaryOp::add, a, b);
}
inline Tensor operator-(Scalar a, const Tensor& b) {
  return binary(BinaryOp::subtract, a, b);
}
inline Tensor operator*(Scalar a, const Tensor& b) {
  return binary(BinaryOp::multiply, a, b);
}
inline Tensor operator/(Scalar a, const Tensor& b) {
  return binary(BinaryOp::divide, a, b);
}
inline Tensor operator-(const Tensor& x) {
  return unary(UnaryOp::negative, x);
}
inline Tensor exp(const Tensor& x) {
  return unary(UnaryOp::exp, x);
}
inline Tensor relu(const Tensor& x) {
  return unary(UnaryOp::relu, x);
}
inline Tensor tanh(const Tensor& x) {
  return unary(UnaryOp::tanh, x);
}

/// Elements of `a` where `condition` (bool, or a number that is not 0) holds, else of `b`.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// min(max(x, low), high), so high where low is above it; NaN stays NaN.
Tensor clamp(const Tensor& x, Scalar low, Scalar high);
/// numpy's astype: float to integer truncates, saturates at the ends, NaN gives 0; to bool: not equal to 0.
Tensor cast(const Tensor& x, DType dtype);
/// A dense row-major copy; the tensor itself when it is that already.
Tensor contiguous(const Tensor& x);

// -- making
// -------------------------------------------------------------------------------------------------------------

/// A float is cut to an integer as cast does; a whole number that the dtype does not hold is refused.
Tensor full(const Device& device, const Shape& shape, Scalar value, DType dtype);
/// start, start + step, ...: ceil((stop - start) / step) elements. step is not 0. i32 by default, f32 with any float.
Tensor arange(const Device& device, Scalar start, Scalar stop, Scalar step, std::optional<DType> dtype = std::nullopt);

// -- views and moving
// ------------------------------------------------------------------------------------------------------

/// Axes in the order given; all reversed when empty. View.
Tensor transpose(const Tensor& x, std::span<const std::int64_t> axes = {});
/// One length may be -1. View where the strides allow it, else a copy.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Stretches axes of length 1. View.
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// A new axis of length 1 at `axis`. View.
Tensor expand_dims(const Tensor& x, std::int64_t axis);
/// Python's x[start:stop:step] on one axis, ends as in Python (nothing: the end the step's sign gives). View.
Tensor slice(const Tensor& x, std::int64_t axis, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
             std::int64_t step = 1);
/// x[index] on one axis, which goes. Negative counts from the end. View.
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index);
Tensor concat(std::span<const Tensor> parts, std::int64_t axis = 0);
/// numpy.take with integer indices of any shape; negative counts from the end. With no axis, of the flattened array.
/// An index out of range is an error: Error{out_of_range} that shows it (the indices are read back for that check).
Tensor take(const Tensor& x, const Tensor& indices, std::optional<std::int64_t> axis = std::nullopt);

// -- reductions
// -----------------------------------------------------------------------------------------------------------

enum class ReduceOp : std::uint8_t { sum, mean, prod, max, min, any, all, argmax, argmin };
std::string_view to_string(ReduceOp op) noexcept;

struct ReduceOptions {
  std::optional<std::vector<std::int64_t>> axes{};  ///< none: all axes; negative counts from the end
  bool keepdims = false;
};
/// sum and prod of bool count in i32; of i32/u32 stay (numpy: 64 bits); of f16 add in f32 and give f16; mean of
/// integers adds in 64 bits and gives f32. max, min, argmax, argmin keep NaN (the first one) and refuse to reduce no
/// elements; argmax and argmin take one axis or none, and give i32. any, all give bool. Sums of f32 are blocked, so
/// 17,000,000 ones give 17,000,000.
Tensor reduce(ReduceOp op, const Tensor& x, const ReduceOptions& options = {});
inline Tensor sum(const Tensor& x, const ReduceOptions& o = {}) {
  return reduce(ReduceOp::sum, x, o);
}
inline Tensor mean(const Tensor& x, const ReduceOptions& o = {}) {
  return reduce(ReduceOp::mean, x, o);
}
inline Tensor max(const Tensor& x, const ReduceOptions& o = {}) {
  return reduce(ReduceOp::max, x, o);
}
inline Tensor min(const Tensor& x, const ReduceOptions& o = {}) {
  return reduce(ReduceOp::min, x, o);
}

struct VarOptions {
  std::optional<std::vector<std::int64_t>> axes{};
  bool keepdims = false;
  double ddof = 0;  ///< the divisor is count - ddof; below 0 it is 0, as in numpy: NaN, or inf where elements differ
};
/// Mean squared distance to the mean, and its root; in f32, each block's squares around its own mean (no difference of
/// large squares). Integers are told apart before they become f32. f16 stays, else f32. No elements give NaN.
Tensor var(const Tensor& x, const VarOptions& options = {});
Tensor stddev(const Tensor& x, const VarOptions& options = {});
/// (sum of |x|^ord)^(1/ord); ord 1, 2, infinity (the largest), -infinity (the smallest) or 0 (how many are not 0).
/// numpy.linalg.vector_norm. The order 2 holds squares at any scale (3e38 and 1e-38 too), other powers in f32. f16
/// stays, else f32. Of no elements: 0; -infinity refuses them.
Tensor norm(const Tensor& x, double ord = 2, const ReduceOptions& options = {});
/// log(sum(exp(x))), the maximum taken out first; of no elements or -inf only: -inf. f16 stays, else f32.
Tensor logsumexp(const Tensor& x, const ReduceOptions& options = {});

enum class ScanOp : std::uint8_t { sum, prod, max, min };
struct ScanOptions {
  std::int64_t axis = -1;
  bool exclusive = false;  ///< element i takes in those before it only; the first is the op's identity
  bool reverse = false;    ///< from the end
};
/// Running sum (product, ...) along an axis of any length: numpy.cumulative_sum. dtypes as in reduce; f32 by blocks, so
/// the error grows with the logarithm of the length; max and min keep NaN.
Tensor scan(ScanOp op, const Tensor& x, const ScanOptions& options = {});
inline Tensor cumsum(const Tensor& x, const ScanOptions& o = {}) {
  return scan(ScanOp::sum, x, o);
}

// -- rows
// -------------------------------------------------------------------------------------------------------------------

struct SoftmaxOptions {
  std::int64_t axis = -1;
};
/// exp(x - max) / sum(exp(x - max)) along an axis, max and sum in f32. A row with NaN or +inf gives NaN throughout; a
/// row of -inf only gives NaN, as in numpy.
Tensor softmax(const Tensor& x, SoftmaxOptions options = {});
Tensor log_softmax(const Tensor& x, SoftmaxOptions options = {});

struct LayerNormOptions {
  std::int64_t axis = -1;  ///< normalises over this axis and all behind it
  Tensor weight{};         ///< shape of the normalised axes; empty for none
  Tensor bias{};
  double eps = 1e-5;
};
/// (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias; two passes over the row, in f32.
Tensor layer_norm(const Tensor& x, const LayerNormOptions& options = {});

// -- products
// -----------------------------------------------------------------------------------------------------------------

/// What a product's kernel applies to each finished sum before it is stored; as the unary ops of these names.
enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh, silu };

struct MatmulOptions {
  Tensor bias{};  ///< broadcasts over the result; added in the same kernel; empty for none
  Activation activation = Activation::none;
  Tensor residual{};  ///< broadcasts over the result; added after the activation; empty for none
  /// Of the result: f32 for f16 operands keeps the f32 sums. None: what operands, bias and residual promote to (f32 for
  /// gelu and silu of integers).
  std::optional<DType> dtype{};
};
/// activation(a @ b + bias) + residual, in one kernel (where integers or bools become floats on the way, in several).
/// numpy.matmul: 1-D operands act as a row or column, leading axes broadcast. f16 adds up in f32, and all up to the
/// stored result is in f32. Integers are exact (wrapping). An inner length of 0 gives zeros (before bias and the rest).
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

struct GemmOptions {
  double alpha = 1, beta = 0;
  bool transpose_a = false, transpose_b = false;  ///< of the last two axes
  Tensor bias{};                                  ///< as in MatmulOptions
  Activation activation = Activation::none;
  Tensor residual{};
};
/// BLAS's gemm into c, over the last two axes: c = activation(alpha op(a) @ op(b) + beta c + bias) + residual. All have
/// at least 2 axes; leading axes (batch) of a and b broadcast to those of c, of any count (past 65,535 too). Leading
/// dimensions and batch strides are the strides of the views given: only elements that c shows change, and c shows none
/// twice. c's dtype is that of the operands, or f32 for f16 operands; bias and residual are of one that promotes to
/// it. Of integers alpha and beta are whole numbers, and gelu and silu are refused.
/// beta = 0 never reads c (NaN there is gone); alpha = 0 reads neither a nor b; an inner length of 0 scales c. c's
/// buffer is none of the operands', else Error{invalid_argument} that names both.
void gemm_into(const Tensor& c, const Tensor& a, const Tensor& b, const GemmOptions& options = {});

/// a @ b of 8-bit integers with exact 32-bit sums (wrapping). a is [..., m, k / 4] and b is [..., n, k / 4] (b's rows
/// are the columns of the product), u32 words of four packed values, the first in the low byte; each side is signed or
/// not. Gives [..., m, n] in i32. k is a multiple of 4: pad with zeros. Subgroup matrices multiply where the device has
/// them for 8-bit integers, m and n are 16 or more and k 64 or more; else WGSL's packed dot products.
struct Int8MatmulOptions {
  bool a_signed = true, b_signed = true;
};
Tensor matmul_int8(const Tensor& a, const Tensor& b, const Int8MatmulOptions& options = {});

// -- into memory of the caller's
// -----------------------------------------------------------------------------------------------

namespace detail {
/// What `into` sets while its op runs, on this thread.
class ResultScope {
 public:
  explicit ResultScope(const Tensor& out);
  ~ResultScope();
  ResultScope(const ResultScope&) = delete;
  ResultScope& operator=(const ResultScope&) = delete;
  void finish(const Tensor& result);

  /// For Weft's own layers: this thread's innermost target, given out once.
  static bool take(const Device& device, const Shape& shape, DType dtype, bool whole_buffer, Tensor& taken);

 private:
  Tensor out_;
  ResultScope* outer_;
  bool given_ = false;
};
}  // namespace detail

/// Writes the result of any op of this library into `out` instead of a new tensor:
/// `into(y, [&] { return softmax(x); })`. out is contiguous, of the result's very shape and dtype, else
/// Error{invalid_argument} (out's contents are undefined then); its buffer is that of no operand (an elementwise op may
/// take the very elements that it writes: in place). Where the op's kernel can't write there, for instance into the
/// middle of a buffer whose words two tensors share, the result is made and copied. Neighbours of out in its buffer are
/// not touched.
template <class Op>
void into(const Tensor& out, Op&& op) {
  detail::ResultScope scope(out);
  scope.finish(std::forward<Op>(op)());
}

}  // namespace weft
