#include "weft/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "backend/narrow.h"
#include "base/refuse.h"
#include "memory/registry.h"
#include "ops/matmul_plan.h"
#include "weft/error.h"
#include "weft/indexing.h"
#include "weft/nn.h"

namespace weft {
namespace {

using Handle = ComputeBackend::Handle;

/// Products and sums of lengths as they come from outside: past 2^62 they can't be meant.
std::uint64_t times(std::string_view op, std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out) || out >> 62 != 0) {
    refuse(fmt::format("{}: {} x {} elements are more than 2^62", op, a, b), "give the lengths of a real array");
  }
  return out;
}
std::uint64_t plus(std::string_view op, std::uint64_t a, std::uint64_t b) {
  if (a > (std::uint64_t{1} << 62) || b > (std::uint64_t{1} << 62)) {
    refuse(fmt::format("{}: {} + {} elements are more than 2^62", op, a, b), "give the lengths of a real array");
  }
  return a + b;
}

std::int64_t to_signed(std::uint64_t n) {
  return static_cast<std::int64_t>(n);
}

Shape shape_of(std::span<const std::uint64_t> lengths) {
  Shape out;
  for (std::uint64_t n : lengths) out.push_back(to_signed(n));
  return out;
}

}  // namespace

struct ComputeBackend::State {
  class Call;

  explicit State(DeviceOptions wish) : options(std::move(wish)) {}

  const DeviceOptions options;
  mutable std::mutex mutex;
  std::optional<Device> device;
  std::unordered_map<Handle, Buffer> buffers;  ///< by Buffer::id(); all of `device`

  /// Under the lock. A lost device is none: init() opens another.
  bool ready() const noexcept { return device && !device->lost(); }

  Device open(std::string_view op) const {
    const std::lock_guard lock(mutex);
    if (!device) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{}: the backend is not initialised", op),
                  "call init() first");
    }
    return *device;
  }

  Buffer find(std::string_view op, std::string_view name, Handle handle) const {
    {
      const std::lock_guard lock(mutex);
      const auto it = buffers.find(handle);
      if (it != buffers.end()) return it->second;
    }
    refuse_dead(fmt::format("{}: {} is", op, name), handle);
  }

  /// Of a handle that is not in `buffers`.
  [[noreturn]] void refuse_dead(const std::string& what, Handle handle) const {
    const std::uint64_t own = open(what).id();
    const std::optional<memory::Found> found = memory::find_buffer(handle);
    if (found && found->owner != own) {
      throw Error(ErrorCode::foreign_buffer,
                  fmt::format("{} handle {}, which device {} owns, and this backend is on device {}", what, handle,
                              found->owner, own),
                  "use it with the backend that gave it");
    }
    refuse(fmt::format("{} handle {}, which is not alive", what, handle),
           "use a handle that alloc gave and free did not take");
  }
};

/// The operands of one call: found, measured, and checked against each other.
class ComputeBackend::State::Call {
 public:
  Call(const State& state, std::string_view op) : state_(state), op_(op), device_(state.open(op)) {}

  const Device& device() const { return device_; }
  std::string_view op() const { return op_; }

  /// `elements` of `dtype` from the front of the buffer, as one axis.
  Tensor flat(std::string_view name, Handle handle, std::uint64_t elements, DType dtype = DType::f32) const {
    const Buffer buffer = state_.find(op_, name, handle);
    const std::uint64_t needed = times(op_, elements, size_of(dtype));
    if (needed > buffer.size()) {
      refuse(fmt::format("{}: {} (handle {}) holds {} bytes, and the call needs {}", op_, name, handle, buffer.size(),
                         needed),
             fmt::format("allocate at least {} bytes for {}", needed, name));
    }
    return Tensor(device_, buffer, Shape{to_signed(elements)}, Strides{1}, 0, dtype);
  }

  void differ(std::string_view a, Handle of_a, std::string_view b, Handle of_b) const {
    if (of_a != of_b) return;
    refuse(fmt::format("{}: {} and {} are both handle {}", op_, a, b, of_a),
           fmt::format("give {} a buffer of its own", b));
  }

 private:
  const State& state_;
  std::string_view op_;
  Device device_;
};

namespace {

Tensor strided(const Tensor& flat, const Shape& shape, const Strides& strides) {
  return Tensor(flat.device(), flat.buffer(), shape, strides, 0, flat.dtype());
}

/// A matrix (or `batch` of them) of gemm, as it lies.
struct Matrix {
  std::string_view name;
  Handle handle = 0;
  std::uint64_t rows = 0, columns = 0;  ///< as stored
  std::uint64_t leading = 0;
  std::uint64_t stride = 0;
};

/// Elements from the first to the last that the matrices touch.
std::uint64_t span_of(std::string_view op, const Matrix& m, std::uint64_t batch) {
  if (m.rows == 0 || m.columns == 0 || batch == 0) return 0;
  if (m.leading < m.columns) {
    refuse(fmt::format("{}: the leading dimension of {} is {}, less than the {} elements of a row", op, m.name,
                       m.leading, m.columns),
           fmt::format("give at least {}", m.columns));
  }
  const std::uint64_t one = plus(op, times(op, m.rows - 1, m.leading), m.columns);
  return plus(op, times(op, batch - 1, m.stride), one);
}

struct GemmCall {
  Transpose ta, tb;
  std::uint64_t m, n, k, batch;
  double alpha, beta;
};

Matrix stored(std::string_view name, Handle handle, Transpose t, std::uint64_t rows, std::uint64_t columns,
              std::uint64_t leading, std::uint64_t stride) {
  return t == Transpose::none ? Matrix{name, handle, rows, columns, leading, stride}
                              : Matrix{name, handle, columns, rows, leading, stride};
}

Tensor matrix_view(const Tensor& flat, const Matrix& m, std::uint64_t batch) {
  const auto stride = [](std::uint64_t length, std::uint64_t s) { return length > 1 ? to_signed(s) : 0; };
  return strided(flat, Shape{to_signed(batch), to_signed(m.rows), to_signed(m.columns)},
                 Strides{stride(batch, m.stride), stride(m.rows, m.leading), 1});
}

GemmOptions gemm_options(const GemmCall& g) {
  GemmOptions options;
  options.alpha = g.alpha;
  options.beta = g.beta;
  options.transpose_a = g.ta != Transpose::none;
  options.transpose_b = g.tb != Transpose::none;
  return options;
}

}  // namespace

ComputeBackend::ComputeBackend(DeviceOptions options) : state_(std::make_unique<State>(std::move(options))) {}
ComputeBackend::~ComputeBackend() = default;

void ComputeBackend::init() {
  if (is_initialized()) return;
  std::optional<Device> device = Device::open(state_->options);  // outside the lock: blocks for the driver
  std::unordered_map<Handle, Buffer> buffers;                    // of a lost device; they go after the lock, as it does
  const std::lock_guard lock(state_->mutex);
  if (state_->ready()) return;
  state_->device.swap(device);
  state_->buffers.swap(buffers);
}

bool ComputeBackend::is_initialized() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->ready();
}

Device ComputeBackend::device() const {
  return state_->open("device");
}

BackendCapabilities ComputeBackend::capabilities() const {
  const Device d = state_->open("capabilities");
  BackendCapabilities c;
  c.f16 = d.features().f16;
  c.subgroups = d.features().subgroups;
  c.timestamps = d.features().timestamps;
  c.cpu = d.adapter().type == AdapterType::cpu;
  c.max_workgroup_threads = d.limits().max_workgroup_invocations;
  c.subgroup_size = d.features().subgroup_min_size;
  c.workgroup_memory = d.limits().max_workgroup_storage;
  c.max_buffer_bytes = d.limits().max_buffer_size;
  c.max_binding_bytes = d.limits().max_storage_binding_size;
  return c;
}

BackendTile ComputeBackend::recommended_tile_for(std::uint64_t m, std::uint64_t n, std::uint64_t k) const {
  const Device d = state_->open("recommended_tile_for");
  // Past 2^31 nothing changes any more, and the planner's products of these stay inside 64 bits.
  const auto planned = [](std::uint64_t length) {
    return std::clamp<std::uint64_t>(length, 1, std::uint64_t{1} << 31);
  };
  ops::MatmulProblem problem;
  problem.m = planned(m);
  problem.n = planned(n);
  problem.k = planned(k);
  problem.subgroup = ops::fixed_subgroup(d.features());
  const auto kind = d.adapter().type == AdapterType::cpu ? ops::DeviceClass::cpu : ops::DeviceClass::gpu;
  const ops::MatmulPlan plan = ops::choose(kind, d.limits(), problem);
  return {plan.tile_m, plan.tile_n, 16};
}

bool ComputeBackend::supports_f16() const {
  return state_->open("supports_f16").features().f16;
}

// -- memory ----------------------------------------------------------------------------------------------------------

ComputeBackend::Handle ComputeBackend::alloc(std::size_t bytes) {
  Device device = state_->open("alloc");
  if (bytes == 0) refuse("alloc: 0 bytes asked for", "ask for at least one");
  const std::uint64_t most = std::min(device.limits().max_buffer_size, device.limits().max_storage_binding_size);
  if (bytes > most) {
    throw Error(ErrorCode::out_of_memory,
                fmt::format("alloc: {} bytes asked for; the device holds and binds at most {}", bytes, most),
                "work in parts");
  }
  Buffer buffer = device.zeros_bytes((bytes + 3) / 4 * 4);
  const Handle handle = buffer.id();
  const std::lock_guard lock(state_->mutex);
  if (!state_->device || state_->device->id() != device.id()) {  // another thread's init() replaced it
    throw Error(ErrorCode::device_lost, "alloc: the device was lost meanwhile, and the backend is on another one",
                "ask again");
  }
  state_->buffers.emplace(handle, std::move(buffer));
  return handle;
}

void ComputeBackend::free(Handle handle) {
  state_->open("free");
  Buffer dropped;  // goes after the lock
  {
    const std::lock_guard lock(state_->mutex);
    const auto it = state_->buffers.find(handle);
    if (it != state_->buffers.end()) {
      dropped = std::move(it->second);
      state_->buffers.erase(it);
    }
  }
  if (!dropped) state_->refuse_dead("free: this is", handle);
}

void ComputeBackend::copy_htod(Handle to, std::span<const std::byte> bytes) {
  Device device = state_->open("copy_htod");
  const Buffer buffer = state_->find("copy_htod", "to", to);
  if (bytes.size() > buffer.size()) {
    refuse(fmt::format("copy_htod: {} bytes given, and handle {} holds {}", bytes.size(), to, buffer.size()),
           "give fewer, or allocate more");
  }
  if (!bytes.empty()) device.write(buffer, 0, bytes);
}

void ComputeBackend::copy_dtoh(std::span<std::byte> bytes, Handle from) {
  Device device = state_->open("copy_dtoh");
  const Buffer buffer = state_->find("copy_dtoh", "from", from);
  if (bytes.size() > buffer.size()) {
    refuse(fmt::format("copy_dtoh: {} bytes asked for, and handle {} holds {}", bytes.size(), from, buffer.size()),
           "ask for fewer");
  }
  if (!bytes.empty()) device.read(buffer, 0, bytes);
}

void ComputeBackend::synchronize() {
  state_->open("synchronize").synchronize();
}

// -- products --------------------------------------------------------------------------------------------------------

namespace {

/// Checks all of a product's numbers; false when there is nothing to do. `operand` makes a flat tensor of a matrix.
template <class Call, class Operand>
bool prepare_gemm(const Call& call, const GemmCall& g, const Matrix& a, const Matrix& b, const Matrix& c,
                  Operand&& operand, Tensor& ta, Tensor& tb, Tensor& tc) {
  const std::uint64_t needed_a = span_of(call.op(), a, g.batch);
  const std::uint64_t needed_b = span_of(call.op(), b, g.batch);
  const std::uint64_t needed_c = span_of(call.op(), c, g.batch);
  call.differ("a", a.handle, "c", c.handle);
  call.differ("b", b.handle, "c", c.handle);
  ta = operand(a, needed_a);
  tb = operand(b, needed_b);
  tc = operand(c, needed_c);
  if (g.m == 0 || g.n == 0 || g.batch == 0) return false;
  const std::uint64_t one = needed_c - (g.batch - 1) * c.stride;
  if (g.batch > 1 && c.stride < one) {
    refuse(fmt::format("{}: the matrices of c take {} elements each, and lie {} apart", call.op(), one, c.stride),
           fmt::format("give a stride of at least {}", one));
  }
  return true;
}

}  // namespace

void ComputeBackend::gemm(Transpose ta, Transpose tb, std::uint64_t m, std::uint64_t n, std::uint64_t k, double alpha,
                          Handle a, std::uint64_t lda, Handle b, std::uint64_t ldb, double beta, Handle c,
                          std::uint64_t ldc) {
  batched_gemm(ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}

void ComputeBackend::batched_gemm(Transpose ta, Transpose tb, std::uint64_t m, std::uint64_t n, std::uint64_t k,
                                  double alpha, Handle a, std::uint64_t lda, std::uint64_t stride_a, Handle b,
                                  std::uint64_t ldb, std::uint64_t stride_b, double beta, Handle c, std::uint64_t ldc,
                                  std::uint64_t stride_c, std::uint64_t batch) {
  const State::Call call(*state_, batch == 1 ? "gemm" : "batched_gemm");
  const GemmCall g{ta, tb, m, n, k, batch, alpha, beta};
  const Matrix of_a = stored("a", a, ta, m, k, lda, stride_a);
  const Matrix of_b = stored("b", b, tb, k, n, ldb, stride_b);
  const Matrix of_c{"c", c, m, n, ldc, stride_c};
  const auto operand = [&](const Matrix& x, std::uint64_t needed) { return call.flat(x.name, x.handle, needed); };
  Tensor va, vb, vc;
  if (!prepare_gemm(call, g, of_a, of_b, of_c, operand, va, vb, vc)) return;
  gemm_into(matrix_view(vc, of_c, batch), matrix_view(va, of_a, batch), matrix_view(vb, of_b, batch), gemm_options(g));
}

void ComputeBackend::gemm_f16(Transpose ta, Transpose tb, std::uint64_t m, std::uint64_t n, std::uint64_t k,
                              double alpha, Handle a, std::uint64_t lda, Handle b, std::uint64_t ldb, double beta,
                              Handle c, std::uint64_t ldc) {
  const State::Call call(*state_, "gemm_f16");
  if (!call.device().features().f16) {
    throw Error(ErrorCode::unsupported, fmt::format("gemm_f16: the device {} has no f16", call.device().adapter().name),
                "use gemm_mixed_precision, which takes packed f16 on every device");
  }
  const GemmCall g{ta, tb, m, n, k, 1, alpha, beta};
  const Matrix of_a = stored("a", a, ta, m, k, lda, 0);
  const Matrix of_b = stored("b", b, tb, k, n, ldb, 0);
  const Matrix of_c{"c", c, m, n, ldc, 0};
  const auto operand = [&](const Matrix& x, std::uint64_t needed) {
    return call.flat(x.name, x.handle, needed, DType::f16);
  };
  Tensor va, vb, vc;
  if (!prepare_gemm(call, g, of_a, of_b, of_c, operand, va, vb, vc)) return;
  gemm_into(matrix_view(vc, of_c, 1), matrix_view(va, of_a, 1), matrix_view(vb, of_b, 1), gemm_options(g));
}

void ComputeBackend::gemm_mixed_precision(Precision16 format, Storage16 storage, Transpose ta, Transpose tb,
                                          std::uint64_t m, std::uint64_t n, std::uint64_t k, double alpha, Handle a,
                                          std::uint64_t lda, Handle b, std::uint64_t ldb, double beta, Handle c,
                                          std::uint64_t ldc) {
  const State::Call call(*state_, "gemm_mixed_precision");
  const GemmCall g{ta, tb, m, n, k, 1, alpha, beta};
  const Matrix of_a = stored("a", a, ta, m, k, lda, 0);
  const Matrix of_b = stored("b", b, tb, k, n, ldb, 0);
  const Matrix of_c{"c", c, m, n, ldc, 0};
  const bool packed = storage == Storage16::packed;
  const bool direct = packed && format == Precision16::half && call.device().features().f16;
  const auto operand = [&](const Matrix& x, std::uint64_t needed) {
    if (x.name == "c" || !packed) return call.flat(x.name, x.handle, needed);
    if (direct) return call.flat(x.name, x.handle, needed, DType::f16);
    return call.flat(x.name, x.handle, (needed + 1) / 2, DType::u32);
  };
  Tensor va, vb, vc;
  if (!prepare_gemm(call, g, of_a, of_b, of_c, operand, va, vb, vc)) return;
  if (!direct) {
    const auto as_f32 = [&](const Tensor& x, const Matrix& of) {
      return packed ? backend::unpacked(x, to_signed(span_of(call.op(), of, 1)), format) : backend::rounded(x, format);
    };
    va = as_f32(va, of_a);
    vb = as_f32(vb, of_b);
  }
  gemm_into(matrix_view(vc, of_c, 1), matrix_view(va, of_a, 1), matrix_view(vb, of_b, 1), gemm_options(g));
}

// -- layers ----------------------------------------------------------------------------------------------------------

namespace {

std::uint64_t product(std::string_view op, std::span<const std::uint64_t> lengths) {
  std::uint64_t out = 1;
  for (std::uint64_t n : lengths) out = times(op, out, n);
  return out;
}

/// Runs ops of the library; what they say of an operand they say in the name of `op`, which is what was called.
template <class F>
void in_name_of(std::string_view op, F&& work) {
  try {
    std::forward<F>(work)();
  } catch (const Error& e) {
    const std::string& text = e.message();
    const std::size_t colon = text.find(": ");
    if (colon == std::string::npos || text.find(' ') < colon) throw;
    throw Error(e.code(), std::string(op) + text.substr(colon), e.fix());
  }
}

/// The shapes of a convolution against each other.
void check_conv(std::string_view op, const ComputeBackend::Dims4& in, const ComputeBackend::Dims4& filter,
                const ComputeBackend::Dims4& out, const ComputeBackend::Dims2& stride,
                const ComputeBackend::Dims2& padding) {
  const auto text = [](const ComputeBackend::Dims4& d) { return to_string(shape_of(d)); };
  if (in[1] != filter[1] || in[0] != out[0] || filter[0] != out[1]) {
    refuse(fmt::format("{}: input {}, filter {} and output {} disagree on batch or channels", op, text(in),
                       text(filter), text(out)),
           fmt::format("give an output of [{}, {}, ...] and a filter of [{}, {}, ...]", in[0], filter[0], filter[0],
                       in[1]));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (stride[i] == 0) refuse(fmt::format("{}: a stride of 0", op), "give at least 1");
    const std::uint64_t padded = plus(op, in[2 + i], times(op, 2, padding[i]));
    if (filter[2 + i] == 0 || filter[2 + i] > padded) {
      refuse(
          fmt::format("{}: a filter of {} over an input of {} with padding {}", op, text(filter), text(in), padding[i]),
          "give a filter that fits the padded input");
    }
    const std::uint64_t want = (padded - filter[2 + i]) / stride[i] + 1;
    if (out[2 + i] != want) {
      refuse(fmt::format("{}: the output is {} and its axis {} must be {}", op, text(out), 2 + i, want),
             fmt::format("give {} there", want));
    }
  }
}

ConvOptions conv_options(const ComputeBackend::Dims2& stride, const ComputeBackend::Dims2& padding) {
  const auto both = [](const ComputeBackend::Dims2& d) {
    return std::vector<std::int64_t>{to_signed(d[0]), to_signed(d[1])};
  };
  ConvOptions options;
  options.window.stride = both(stride);
  options.window.pad_before = both(padding);
  options.window.pad_after = both(padding);
  return options;
}

}  // namespace

void ComputeBackend::conv2d_forward(Handle in, Dims4 in_shape, Handle filter, Dims4 filter_shape, Handle out,
                                    Dims4 out_shape, Dims2 stride, Dims2 padding) {
  constexpr std::string_view kOp = "conv2d_forward";
  const State::Call call(*state_, kOp);
  check_conv(kOp, in_shape, filter_shape, out_shape, stride, padding);
  call.differ("in", in, "out", out);
  call.differ("filter", filter, "out", out);
  const Tensor x = call.flat("in", in, product(kOp, in_shape));
  const Tensor f = call.flat("filter", filter, product(kOp, filter_shape));
  const Tensor y = call.flat("out", out, product(kOp, out_shape));
  if (y.size() == 0) return;
  into(reshape(y, shape_of(out_shape)), [&] {
    return conv(reshape(x, shape_of(in_shape)), reshape(f, shape_of(filter_shape)), conv_options(stride, padding));
  });
}

void ComputeBackend::conv2d_backward_data(Handle grad_out, Dims4 out_shape, Handle filter, Dims4 filter_shape,
                                          Handle grad_in, Dims4 in_shape, Dims2 stride, Dims2 padding) {
  constexpr std::string_view kOp = "conv2d_backward_data";
  const State::Call call(*state_, kOp);
  check_conv(kOp, in_shape, filter_shape, out_shape, stride, padding);
  call.differ("grad_out", grad_out, "grad_in", grad_in);
  call.differ("filter", filter, "grad_in", grad_in);
  const Tensor g = call.flat("grad_out", grad_out, product(kOp, out_shape));
  const Tensor f = call.flat("filter", filter, product(kOp, filter_shape));
  const Tensor x = call.flat("grad_in", grad_in, product(kOp, in_shape));
  if (x.size() == 0) return;
  into(reshape(x, shape_of(in_shape)), [&] {
    return conv_backward_data(reshape(g, shape_of(out_shape)), reshape(f, shape_of(filter_shape)), shape_of(in_shape),
                              conv_options(stride, padding));
  });
}

void ComputeBackend::conv2d_backward_filter(Handle in, Dims4 in_shape, Handle grad_out, Dims4 out_shape,
                                            Handle grad_filter, Dims4 filter_shape, Dims2 stride, Dims2 padding) {
  constexpr std::string_view kOp = "conv2d_backward_filter";
  const State::Call call(*state_, kOp);
  check_conv(kOp, in_shape, filter_shape, out_shape, stride, padding);
  call.differ("in", in, "grad_filter", grad_filter);
  call.differ("grad_out", grad_out, "grad_filter", grad_filter);
  const Tensor x = call.flat("in", in, product(kOp, in_shape));
  const Tensor g = call.flat("grad_out", grad_out, product(kOp, out_shape));
  const Tensor f = call.flat("grad_filter", grad_filter, product(kOp, filter_shape));
  if (f.size() == 0) return;
  into(reshape(f, shape_of(filter_shape)), [&] {
    return conv_backward_filter(reshape(g, shape_of(out_shape)), reshape(x, shape_of(in_shape)), shape_of(filter_shape),
                                conv_options(stride, padding));
  });
}

void ComputeBackend::attention(Handle q, Handle k, Handle v, Handle o, std::uint64_t batch, std::uint64_t heads,
                               std::uint64_t seq_q, std::uint64_t seq_kv, std::uint64_t head_dim, double scale,
                               bool causal) {
  constexpr std::string_view kOp = "attention";
  const State::Call call(*state_, kOp);
  if (batch == 0 || heads == 0 || seq_q == 0 || seq_kv == 0 || head_dim == 0) {
    refuse(fmt::format("attention: batch {}, heads {}, seq_q {}, seq_kv {}, head_dim {}: none may be 0", batch, heads,
                       seq_q, seq_kv, head_dim),
           "give lengths of at least 1");
  }
  if (!std::isfinite(scale) || scale <= 0) {
    refuse(fmt::format("attention: the scale is {}", scale),
           "give a finite number above 0, such as 1 / sqrt(head_dim)");
  }
  call.differ("q", q, "o", o);
  call.differ("k", k, "o", o);
  call.differ("v", v, "o", o);
  const std::array<std::uint64_t, 4> of_q{batch, heads, seq_q, head_dim};
  const std::array<std::uint64_t, 4> of_k{batch, heads, seq_kv, head_dim};
  const Tensor tq = call.flat("q", q, product(kOp, of_q));
  const Tensor tk = call.flat("k", k, product(kOp, of_k));
  const Tensor tv = call.flat("v", v, product(kOp, of_k));
  const Tensor to = call.flat("o", o, product(kOp, of_q));
  AttentionOptions options;
  options.scale = scale;
  options.causal = causal;
  into(reshape(to, shape_of(of_q)), [&] {
    return weft::attention(reshape(tq, shape_of(of_q)), reshape(tk, shape_of(of_k)), reshape(tv, shape_of(of_k)),
                           options);
  });
}

void ComputeBackend::softmax(Handle in, Handle out, std::span<const std::uint64_t> shape, std::uint64_t axis) {
  constexpr std::string_view kOp = "softmax";
  const State::Call call(*state_, kOp);
  call.differ("in", in, "out", out);
  const std::uint64_t count = product(kOp, shape);
  const Tensor x = call.flat("in", in, count);
  const Tensor y = call.flat("out", out, count);
  if (axis >= shape.size()) {
    refuse(fmt::format("softmax: axis {} of a tensor of {} axes", axis, shape.size()), "give an axis that it has");
  }
  if (count == 0) return;
  into(reshape(y, shape_of(shape)), [&] { return weft::softmax(reshape(x, shape_of(shape)), {to_signed(axis)}); });
}

void ComputeBackend::reduce(BackendReduce op, Handle in, Handle out, std::span<const std::uint64_t> shape,
                            std::uint64_t axis) {
  constexpr std::string_view kOp = "reduce";
  const State::Call call(*state_, kOp);
  if (axis >= shape.size()) {
    refuse(fmt::format("reduce: axis {} of a tensor of {} axes", axis, shape.size()), "give an axis that it has");
  }
  call.differ("in", in, "out", out);
  std::vector<std::uint64_t> kept(shape.begin(), shape.end());
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(axis));
  const Tensor x = call.flat("in", in, product(kOp, shape));
  const Tensor y = reshape(call.flat("out", out, product(kOp, kept)), shape_of(kept));
  if (y.size() == 0) return;
  if (shape[axis] == 0) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double identity = op == BackendReduce::sum    ? 0.0
                            : op == BackendReduce::mean ? std::numeric_limits<double>::quiet_NaN()
                            : op == BackendReduce::max  ? -kInfinity
                                                        : kInfinity;
    into(y, [&] { return full(call.device(), y.shape(), identity, DType::f32); });
    return;
  }
  constexpr std::array kOps{ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::mean};
  into(y, [&] {
    return weft::reduce(kOps[static_cast<std::size_t>(op)], reshape(x, shape_of(shape)),
                        {.axes = std::vector<std::int64_t>{to_signed(axis)}});
  });
}

void ComputeBackend::unary(BackendUnary op, Handle in, Handle out, std::uint64_t n) {
  constexpr std::string_view kOp = "unary";
  const State::Call call(*state_, kOp);
  call.differ("in", in, "out", out);
  const Tensor x = call.flat("in", in, n);
  const Tensor y = call.flat("out", out, n);
  if (n == 0) return;
  constexpr std::array kOps{UnaryOp::relu, UnaryOp::sigmoid, UnaryOp::tanh, UnaryOp::exp,
                            UnaryOp::log,  UnaryOp::sqrt,    UnaryOp::abs,  UnaryOp::negative};
  into(y, [&] { return weft::unary(kOps[static_cast<std::size_t>(op)], x); });
}

void ComputeBackend::binary(BackendBinary op, Handle a, Handle b, Handle out, std::uint64_t n) {
  constexpr std::string_view kOp = "binary";
  const State::Call call(*state_, kOp);
  call.differ("a", a, "out", out);
  call.differ("b", b, "out", out);
  const Tensor x = call.flat("a", a, n);
  const Tensor y = call.flat("b", b, n);
  const Tensor z = call.flat("out", out, n);
  if (n == 0) return;
  constexpr std::array kOps{BinaryOp::add,    BinaryOp::subtract, BinaryOp::multiply,
                            BinaryOp::divide, BinaryOp::maximum,  BinaryOp::minimum};
  into(z, [&] { return weft::binary(kOps[static_cast<std::size_t>(op)], x, y); });
}

void ComputeBackend::gather(Handle in, std::uint64_t rows, std::uint64_t cols, Handle indices, std::uint64_t count,
                            Handle out) {
  constexpr std::string_view kOp = "gather";
  const State::Call call(*state_, kOp);
  call.differ("in", in, "out", out);
  call.differ("indices", indices, "out", out);
  const Tensor x = call.flat("in", in, times(kOp, rows, cols));
  const Tensor i = call.flat("indices", indices, count, DType::u32);
  const Tensor y = call.flat("out", out, times(kOp, count, cols));
  if (count == 0) return;
  in_name_of(kOp, [&] {
    into(reshape(y, Shape{to_signed(count), to_signed(cols)}),
         [&] { return take(reshape(x, Shape{to_signed(rows), to_signed(cols)}), i, 0); });
  });
}

void ComputeBackend::scatter(Handle in, Handle indices, std::uint64_t count, Handle out, std::uint64_t rows,
                             std::uint64_t cols) {
  constexpr std::string_view kOp = "scatter";
  const State::Call call(*state_, kOp);
  call.differ("in", in, "out", out);
  call.differ("indices", indices, "out", out);
  const Tensor x = call.flat("in", in, times(kOp, count, cols));
  const Tensor i = call.flat("indices", indices, count, DType::u32);
  const Tensor y = call.flat("out", out, times(kOp, rows, cols));
  if (count == 0) return;
  // The op gives a new tensor: what it reads, the rows that stay among it, can't be what it writes.
  const Tensor target = reshape(y, Shape{to_signed(rows), to_signed(cols)});
  Tensor placed;
  in_name_of(kOp, [&] {
    placed = scatter_nd(target, reshape(i, Shape{to_signed(count), 1}),
                        reshape(x, Shape{to_signed(count), to_signed(cols)}));
  });
  if (placed.size() > 0) into(target, [&] { return placed; });
}

}  // namespace weft
