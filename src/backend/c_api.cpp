#include "weft/c_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <unordered_map>

#include "base/refuse.h"
#include "weft/backend.h"
#include "weft/error.h"
#include "weft/shape.h"

namespace {

using weft::ComputeBackend;
using weft::Error;
using weft::ErrorCode;
using weft::refuse;

thread_local std::string last_error;

weft_status fail(ErrorCode code, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return static_cast<weft_status>(code);
}

/// Runs a call and turns what it throws into a status.
template <class Work>
weft_status guarded(Work&& work) noexcept {
  try {
    work();
    return WEFT_OK;
  } catch (const Error& e) {
    return fail(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "the host has no memory left. Fix: free some.");
  } catch (const std::exception& e) {
    return fail(ErrorCode::internal, e.what());
  } catch (...) {
    return fail(ErrorCode::internal, "an exception that is no std::exception. Fix: report this.");
  }
}

template <class T>
T& given(T* pointer, const char* name) {
  if (pointer == nullptr) refuse(fmt::format("{} is NULL", name), fmt::format("give a pointer for {}", name));
  return *pointer;
}

/// What C sees as a pointer is a number of this table, never given twice: one of a destroyed backend is an error, and a
/// backend that is destroyed while other threads are inside it ends with the last of them.
class Backends {
 public:
  weft_backend* add(std::shared_ptr<ComputeBackend> backend) {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t token = ++last_;
    alive_.emplace(token, std::move(backend));
    return reinterpret_cast<weft_backend*>(token);  // NOLINT(performance-no-int-to-ptr): never followed
  }
  std::shared_ptr<ComputeBackend> find(const weft_backend* b) {
    if (b == nullptr) refuse("backend is NULL", "give a pointer for backend");
    const std::lock_guard lock(mutex_);
    const auto it = alive_.find(reinterpret_cast<std::uintptr_t>(b));
    if (it == alive_.end()) {
      refuse("backend is none that weft_backend_create made and weft_backend_destroy did not end",
             "create another, and use it before it is destroyed only");
    }
    return it->second;
  }
  void remove(weft_backend* b) noexcept {
    std::shared_ptr<ComputeBackend> dropped;  // after the lock
    const std::lock_guard lock(mutex_);
    const auto it = alive_.find(reinterpret_cast<std::uintptr_t>(b));
    if (it == alive_.end()) return;
    dropped = std::move(it->second);
    alive_.erase(it);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<ComputeBackend>> alive_;
  std::uintptr_t last_ = 0;
};

Backends& backends() {
  static auto* all = new Backends();  // never destroyed: calls may come from static destructors
  return *all;
}

std::shared_ptr<ComputeBackend> backend_of(const weft_backend* b) {
  return backends().find(b);
}

template <class E>
E code(std::int32_t value, std::int32_t count, const char* name) {
  if (value < 0 || value >= count) {
    refuse(fmt::format("{} is {}, not one of the {} that weft/c_api.h lists", name, value, count),
           "use a constant of the header");
  }
  return static_cast<E>(value);
}
weft::Transpose transpose(std::int32_t value) {
  return code<weft::Transpose>(value, 3, "transpose");
}

template <std::size_t N>
std::array<std::uint64_t, N> lengths(const std::uint64_t* values, const char* name) {
  std::array<std::uint64_t, N> out;
  std::copy_n(&given(values, name), N, out.begin());
  return out;
}

std::span<const std::uint64_t> shape_of(const std::uint64_t* shape, std::size_t rank) {
  if (rank > 0) given(shape, "shape");
  if (rank > weft::kMaxRank) {  // before as much is read
    refuse(fmt::format("a rank of {}, over the {} that arrays may have", rank, weft::kMaxRank),
           fmt::format("give a rank of at most {}", weft::kMaxRank));
  }
  return {shape, rank};
}

}  // namespace

uint32_t weft_abi_version(void) {
  return WEFT_ABI_VERSION;
}

const char* weft_version(void) {
  return weft::version().data();
}

const char* weft_last_error(void) {
  return last_error.c_str();
}

const char* weft_status_name(weft_status status) {
  switch (status) {
    case WEFT_OK: return "ok";
    case WEFT_OUT_OF_MEMORY:
    case WEFT_UNSUPPORTED:
    case WEFT_COMPILE_ERROR:
    case WEFT_INTERNAL:
    case WEFT_INVALID_ARGUMENT:
    case WEFT_DEVICE_LOST:
    case WEFT_TIMED_OUT:
    case WEFT_OUT_OF_RANGE:
    case WEFT_FOREIGN_BUFFER:
    case WEFT_IO_ERROR: return weft::to_string(static_cast<ErrorCode>(status)).data();
    default: return "unknown";
  }
}

weft_status weft_device_count(size_t* count) {
  return guarded([&] {
    size_t& out = given(count, "count");
    out = ComputeBackend::available_devices().size();
  });
}

weft_status weft_device_name(size_t index, char* name, size_t size) {
  return guarded([&] {
    given(name, "name");
    if (size == 0) refuse("size is 0", "give room for the name");
    const auto devices = ComputeBackend::available_devices();
    if (index >= devices.size()) {
      throw Error(ErrorCode::out_of_range, fmt::format("adapter {} of {}", index, devices.size()),
                  "use an index below weft_device_count");
    }
    const std::string& text = devices[index].name;
    const std::size_t n = std::min(size - 1, text.size());
    std::copy_n(text.data(), n, name);
    name[n] = '\0';
  });
}

weft_status weft_backend_create(const char* adapter, weft_backend** backend) {
  return guarded([&] {
    weft_backend*& out = given(backend, "backend");  // before anything is made
    weft::DeviceOptions options;
    options.library_kernels_only = true;  // there is no way in for other kernels
    if (adapter != nullptr) options.adapter = adapter;
    out = backends().add(std::make_shared<ComputeBackend>(options));
  });
}

void weft_backend_destroy(weft_backend* backend) {
  backends().remove(backend);
}

weft_status weft_backend_init(weft_backend* backend) {
  return guarded([&] { backend_of(backend)->init(); });
}

weft_status weft_backend_is_initialized(const weft_backend* backend, int32_t* initialized) {
  return guarded([&] { given(initialized, "initialized") = backend_of(backend)->is_initialized() ? 1 : 0; });
}

weft_status weft_backend_capabilities(const weft_backend* backend, weft_capabilities* capabilities) {
  return guarded([&] {
    weft_capabilities& out = given(capabilities, "capabilities");
    const weft::BackendCapabilities c = backend_of(backend)->capabilities();
    out = {c.f16,           c.bf16_storage,     c.subgroups,        c.timestamps,       c.cpu, c.max_workgroup_threads,
           c.subgroup_size, c.workgroup_memory, c.max_buffer_bytes, c.max_binding_bytes};
  });
}

weft_status weft_backend_recommended_tile(const weft_backend* backend, uint64_t m, uint64_t n, uint64_t k,
                                          uint32_t tile[3]) {
  return guarded([&] {
    given(tile, "tile");
    const weft::BackendTile t = backend_of(backend)->recommended_tile_for(m, n, k);
    tile[0] = t.m;
    tile[1] = t.n;
    tile[2] = t.k;
  });
}

weft_status weft_alloc(weft_backend* backend, size_t bytes, weft_handle* handle) {
  return guarded([&] {
    weft_handle& out = given(handle, "handle");  // before anything is made: C++ takes the right side of `=` first
    out = backend_of(backend)->alloc(bytes);
  });
}

weft_status weft_free(weft_backend* backend, weft_handle handle) {
  return guarded([&] { backend_of(backend)->free(handle); });
}

weft_status weft_copy_htod(weft_backend* backend, weft_handle to, const void* bytes, size_t size) {
  return guarded([&] {
    if (size > 0) given(static_cast<const std::byte*>(bytes), "bytes");
    backend_of(backend)->copy_htod(to, {static_cast<const std::byte*>(bytes), size});
  });
}

weft_status weft_copy_dtoh(weft_backend* backend, void* bytes, size_t size, weft_handle from) {
  return guarded([&] {
    if (size > 0) given(static_cast<std::byte*>(bytes), "bytes");
    backend_of(backend)->copy_dtoh({static_cast<std::byte*>(bytes), size}, from);
  });
}

weft_status weft_synchronize(weft_backend* backend) {
  return guarded([&] { backend_of(backend)->synchronize(); });
}

weft_status weft_gemm(weft_backend* backend, int32_t transpose_a, int32_t transpose_b, uint64_t m, uint64_t n,
                      uint64_t k, double alpha, weft_handle a, uint64_t lda, weft_handle b, uint64_t ldb, double beta,
                      weft_handle c, uint64_t ldc) {
  return guarded([&] {
    backend_of(backend)->gemm(transpose(transpose_a), transpose(transpose_b), m, n, k, alpha, a, lda, b, ldb, beta, c,
                              ldc);
  });
}

weft_status weft_batched_gemm(weft_backend* backend, int32_t transpose_a, int32_t transpose_b, uint64_t m, uint64_t n,
                              uint64_t k, double alpha, weft_handle a, uint64_t lda, uint64_t stride_a, weft_handle b,
                              uint64_t ldb, uint64_t stride_b, double beta, weft_handle c, uint64_t ldc,
                              uint64_t stride_c, uint64_t batch) {
  return guarded([&] {
    backend_of(backend)->batched_gemm(transpose(transpose_a), transpose(transpose_b), m, n, k, alpha, a, lda, stride_a,
                                      b, ldb, stride_b, beta, c, ldc, stride_c, batch);
  });
}

weft_status weft_gemm_mixed_precision(weft_backend* backend, int32_t format, int32_t storage, int32_t transpose_a,
                                      int32_t transpose_b, uint64_t m, uint64_t n, uint64_t k, double alpha,
                                      weft_handle a, uint64_t lda, weft_handle b, uint64_t ldb, double beta,
                                      weft_handle c, uint64_t ldc) {
  return guarded([&] {
    backend_of(backend)->gemm_mixed_precision(code<weft::Precision16>(format, 2, "format"),
                                              code<weft::Storage16>(storage, 2, "storage"), transpose(transpose_a),
                                              transpose(transpose_b), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  });
}

weft_status weft_gemm_f16(weft_backend* backend, int32_t transpose_a, int32_t transpose_b, uint64_t m, uint64_t n,
                          uint64_t k, double alpha, weft_handle a, uint64_t lda, weft_handle b, uint64_t ldb,
                          double beta, weft_handle c, uint64_t ldc) {
  return guarded([&] {
    backend_of(backend)->gemm_f16(transpose(transpose_a), transpose(transpose_b), m, n, k, alpha, a, lda, b, ldb, beta,
                                  c, ldc);
  });
}

weft_status weft_conv2d_forward(weft_backend* backend, weft_handle in, const uint64_t in_shape[4], weft_handle filter,
                                const uint64_t filter_shape[4], weft_handle out, const uint64_t out_shape[4],
                                const uint64_t stride[2], const uint64_t padding[2]) {
  return guarded([&] {
    backend_of(backend)->conv2d_forward(
        in, lengths<4>(in_shape, "in_shape"), filter, lengths<4>(filter_shape, "filter_shape"), out,
        lengths<4>(out_shape, "out_shape"), lengths<2>(stride, "stride"), lengths<2>(padding, "padding"));
  });
}

weft_status weft_conv2d_backward_data(weft_backend* backend, weft_handle grad_out, const uint64_t out_shape[4],
                                      weft_handle filter, const uint64_t filter_shape[4], weft_handle grad_in,
                                      const uint64_t in_shape[4], const uint64_t stride[2], const uint64_t padding[2]) {
  return guarded([&] {
    backend_of(backend)->conv2d_backward_data(
        grad_out, lengths<4>(out_shape, "out_shape"), filter, lengths<4>(filter_shape, "filter_shape"), grad_in,
        lengths<4>(in_shape, "in_shape"), lengths<2>(stride, "stride"), lengths<2>(padding, "padding"));
  });
}

weft_status weft_conv2d_backward_filter(weft_backend* backend, weft_handle in, const uint64_t in_shape[4],
                                        weft_handle grad_out, const uint64_t out_shape[4], weft_handle grad_filter,
                                        const uint64_t filter_shape[4], const uint64_t stride[2],
                                        const uint64_t padding[2]) {
  return guarded([&] {
    backend_of(backend)->conv2d_backward_filter(
        in, lengths<4>(in_shape, "in_shape"), grad_out, lengths<4>(out_shape, "out_shape"), grad_filter,
        lengths<4>(filter_shape, "filter_shape"), lengths<2>(stride, "stride"), lengths<2>(padding, "padding"));
  });
}

weft_status weft_attention(weft_backend* backend, weft_handle q, weft_handle k, weft_handle v, weft_handle o,
                           uint64_t batch, uint64_t heads, uint64_t seq_q, uint64_t seq_kv, uint64_t head_dim,
                           double scale, int32_t causal) {
  return guarded(
      [&] { backend_of(backend)->attention(q, k, v, o, batch, heads, seq_q, seq_kv, head_dim, scale, causal != 0); });
}

weft_status weft_softmax(weft_backend* backend, weft_handle in, weft_handle out, const uint64_t* shape, size_t rank,
                         uint64_t axis) {
  return guarded([&] { backend_of(backend)->softmax(in, out, shape_of(shape, rank), axis); });
}

weft_status weft_reduce(weft_backend* backend, int32_t op, weft_handle in, weft_handle out, const uint64_t* shape,
                        size_t rank, uint64_t axis) {
  return guarded([&] {
    backend_of(backend)->reduce(code<weft::BackendReduce>(op, 4, "op"), in, out, shape_of(shape, rank), axis);
  });
}

weft_status weft_unary(weft_backend* backend, int32_t op, weft_handle in, weft_handle out, uint64_t n) {
  return guarded([&] { backend_of(backend)->unary(code<weft::BackendUnary>(op, 8, "op"), in, out, n); });
}

weft_status weft_binary(weft_backend* backend, int32_t op, weft_handle a, weft_handle b, weft_handle out, uint64_t n) {
  return guarded([&] { backend_of(backend)->binary(code<weft::BackendBinary>(op, 6, "op"), a, b, out, n); });
}

weft_status weft_gather(weft_backend* backend, weft_handle in, uint64_t rows, uint64_t cols, weft_handle indices,
                        uint64_t count, weft_handle out) {
  return guarded([&] { backend_of(backend)->gather(in, rows, cols, indices, count, out); });
}

weft_status weft_scatter(weft_backend* backend, weft_handle in, weft_handle indices, uint64_t count, weft_handle out,
                         uint64_t rows, uint64_t cols) {
  return guarded([&] { backend_of(backend)->scatter(in, indices, count, out, rows, cols); });
}
