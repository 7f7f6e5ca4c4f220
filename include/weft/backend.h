// weft/backend.h - a compute backend over opaque 64-bit handles: what frameworks ask of a device, and nothing more.
//
// One rule each, where backends of this kind differ:
// - Matrices and tensors are dense and row-major; leading dimensions and strides count elements. f32 unless a name says
//   otherwise. A handle means the whole buffer from its first byte.
// - gemm follows BLAS: beta = 0 never reads C, k = 0 scales C by beta, m or n = 0 does nothing.
// - attention multiplies the scores by `scale`; causal masks are right-aligned: query i sees keys up to
//   i + seq_kv - seq_q.
// - Maximum and minimum keep NaN. A reduction over no elements writes its identity: 0, NaN for mean, -inf for max, +inf
//   for min.
// - Every call checks the size of every buffer, warm or not: Error{invalid_argument} names operand, held and needed
//   bytes. An output that is also an input is Error{invalid_argument} with both names; of unary and binary too.
// - free() of a handle that is not alive is an error. Handles are never 0 and never given twice in a process, so one of
//   another backend is refused (Error{foreign_buffer}) and never taken for one's own.
// - Work is recorded and runs in the order of the calls, whatever thread makes them; synchronize() and copy_dtoh()
//   wait. An error in the numbers a call is given comes from that call; one of the device from the next that waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/device.h"
#include "weft/ops.h"

namespace weft {

enum class Transpose : std::uint8_t {
  none,
  transpose,
  conjugate,  ///< as transpose: numbers are real
};
enum class Precision16 : std::uint8_t { half, bfloat16 };
/// How the 16-bit operands of gemm_mixed_precision lie.
enum class Storage16 : std::uint8_t {
  rounded,  ///< f32 values that the product rounds to the format, nearest even
  packed,   ///< 16-bit values; a matrix of odd size ends in half a word
};
enum class BackendReduce : std::uint8_t { sum, max, min, mean };
enum class BackendUnary : std::uint8_t { relu, sigmoid, tanh, exp, log, sqrt, abs, neg };
enum class BackendBinary : std::uint8_t { add, sub, mul, div, max, min };

struct BackendCapabilities {
  bool f16 = false;          ///< f16 arithmetic in kernels; packed f16 operands are taken without, too
  bool bf16_storage = true;  ///< through gemm_mixed_precision
  bool subgroups = false;
  bool timestamps = false;
  bool cpu = false;  ///< the device is a CPU
  std::uint32_t max_workgroup_threads = 0;
  std::uint32_t subgroup_size = 0;      ///< smallest; 0 when not known
  std::uint64_t workgroup_memory = 0;   ///< bytes
  std::uint64_t max_buffer_bytes = 0;   ///< of one allocation
  std::uint64_t max_binding_bytes = 0;  ///< that one kernel sees of a buffer
};

struct BackendTile {
  std::uint32_t m = 0, n = 0, k = 0;
};

/// Any thread may call anything; calls before init() throw Error{invalid_argument}, but for name, init, is_initialized
/// and available_devices.
class ComputeBackend {
 public:
  using Handle = std::uint64_t;

  explicit ComputeBackend(DeviceOptions options = {});
  ~ComputeBackend();
  ComputeBackend(const ComputeBackend&) = delete;
  ComputeBackend& operator=(const ComputeBackend&) = delete;

  static std::string_view name() noexcept { return "webgpu"; }
  /// Opens the device that the options name; again: nothing, unless that one is lost. Then it opens another, and the
  /// handles of the lost one are not alive any more. Throws as Device::open.
  void init();
  /// False before init(), and when the device is lost.
  bool is_initialized() const noexcept;
  BackendCapabilities capabilities() const;
  static std::vector<AdapterInfo> available_devices() { return Device::adapters(); }
  /// What one workgroup of the kernel chosen for an m x n x k product makes, and the step along k.
  BackendTile recommended_tile_for(std::uint64_t m, std::uint64_t n, std::uint64_t k) const;
  bool supports_f16() const;
  /// The device below, for what this interface lacks. Shares everything.
  Device device() const;

  // -- memory
  /// `bytes` > 0, rounded up to a multiple of 4, zeroed. Error{out_of_memory} when the device can't hold them or bind
  /// them as one.
  Handle alloc(std::size_t bytes);
  void free(Handle handle);
  /// Writes the bytes to the front of the buffer, which holds at least as many; nothing else changes.
  void copy_htod(Handle to, std::span<const std::byte> bytes);
  /// Waits, and reads the front of the buffer.
  void copy_dtoh(std::span<std::byte> bytes, Handle from);
  /// Submits all and waits; throws what the device reported since the last wait.
  void synchronize();

  // -- products
  /// C = alpha op(A) op(B) + beta C: op(A) m x k, op(B) k x n, C m x n.
  void gemm(Transpose ta, Transpose tb, std::uint64_t m, std::uint64_t n, std::uint64_t k, double alpha, Handle a,
            std::uint64_t lda, Handle b, std::uint64_t ldb, double beta, Handle c, std::uint64_t ldc);
  /// `batch` of them, matrix i from element i * stride; stride 0 of A or B uses one for all. C's matrices don't
  /// overlap.
  void batched_gemm(Transpose ta, Transpose tb, std::uint64_t m, std::uint64_t n, std::uint64_t k, double alpha,
                    Handle a, std::uint64_t lda, std::uint64_t stride_a, Handle b, std::uint64_t ldb,
                    std::uint64_t stride_b, double beta, Handle c, std::uint64_t ldc, std::uint64_t stride_c,
                    std::uint64_t batch);
  /// A and B in a 16-bit format, sums and C in f32.
  void gemm_mixed_precision(Precision16 format, Storage16 storage, Transpose ta, Transpose tb, std::uint64_t m,
                            std::uint64_t n, std::uint64_t k, double alpha, Handle a, std::uint64_t lda, Handle b,
                            std::uint64_t ldb, double beta, Handle c, std::uint64_t ldc);
  /// A, B and C in f16, sums in f32. Error{unsupported} unless supports_f16().
  void gemm_f16(Transpose ta, Transpose tb, std::uint64_t m, std::uint64_t n, std::uint64_t k, double alpha, Handle a,
                std::uint64_t lda, Handle b, std::uint64_t ldb, double beta, Handle c, std::uint64_t ldc);

  // -- layers
  using Dims4 = std::array<std::uint64_t, 4>;
  using Dims2 = std::array<std::uint64_t, 2>;
  /// in [N, C, H, W], filter [K, C, Fh, Fw], out [N, K, Oh, Ow]: cross-correlation with zero padding; Oh =
  /// (H + 2 ph - Fh) / sh + 1, rounded down, and so for Ow: shapes that differ are refused.
  void conv2d_forward(Handle in, Dims4 in_shape, Handle filter, Dims4 filter_shape, Handle out, Dims4 out_shape,
                      Dims2 stride, Dims2 padding);
  /// The gradient of the input (of in_shape) from that of the output.
  void conv2d_backward_data(Handle grad_out, Dims4 out_shape, Handle filter, Dims4 filter_shape, Handle grad_in,
                            Dims4 in_shape, Dims2 stride, Dims2 padding);
  /// The gradient of the filter.
  void conv2d_backward_filter(Handle in, Dims4 in_shape, Handle grad_out, Dims4 out_shape, Handle grad_filter,
                              Dims4 filter_shape, Dims2 stride, Dims2 padding);
  /// q and o [batch, heads, seq_q, head_dim], k and v [batch, heads, seq_kv, head_dim]; none 0; scale finite and > 0.
  void attention(Handle q, Handle k, Handle v, Handle o, std::uint64_t batch, std::uint64_t heads, std::uint64_t seq_q,
                 std::uint64_t seq_kv, std::uint64_t head_dim, double scale, bool causal);
  void softmax(Handle in, Handle out, std::span<const std::uint64_t> shape, std::uint64_t axis);
  /// `out` has the shape without the axis.
  void reduce(BackendReduce op, Handle in, Handle out, std::span<const std::uint64_t> shape, std::uint64_t axis);
  /// Exactly n elements; what lies behind them stays.
  void unary(BackendUnary op, Handle in, Handle out, std::uint64_t n);
  void binary(BackendBinary op, Handle a, Handle b, Handle out, std::uint64_t n);
  /// out[i] = in[indices[i]]: rows of `cols` elements; in has `rows`, indices `count` u32. An index outside is
  /// Error{out_of_range}, and out is as it was.
  void gather(Handle in, std::uint64_t rows, std::uint64_t cols, Handle indices, std::uint64_t count, Handle out);
  /// out[indices[i]] = in[i]: `out` has `rows`, in `count`. Other rows stay; of equal indices the last wins.
  void scatter(Handle in, Handle indices, std::uint64_t count, Handle out, std::uint64_t rows, std::uint64_t cols);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
