/* weft/c_api.h - ComputeBackend (weft/backend.h, which has the contracts) for C and whatever binds C.
 *
 * Every call returns a status: 0, or one of the codes below; weft_last_error() then has the text of this thread's last
 * failure. Nothing throws across this boundary. Pointers are only read or written during the call. Any thread may call
 * anything at any time; a call with a backend that was destroyed is WEFT_INVALID_ARGUMENT. A weft_backend* is a name,
 * not an address.
 *
 * Compatibility: functions and codes are only ever added; WEFT_ABI_VERSION counts up when one is, and
 * weft_abi_version() tells what the library has. */
#ifndef WEFT_C_API_H
#define WEFT_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_ABI_VERSION 1u

typedef struct weft_backend weft_backend;
typedef uint64_t weft_handle;
typedef int32_t weft_status;

enum {
  WEFT_OK = 0,
  WEFT_OUT_OF_MEMORY = 1001,
  WEFT_UNSUPPORTED = 1002,
  WEFT_COMPILE_ERROR = 1004,
  WEFT_INTERNAL = 1005,
  WEFT_INVALID_ARGUMENT = 1006,
  WEFT_DEVICE_LOST = 1008,
  WEFT_TIMED_OUT = 1009,
  WEFT_OUT_OF_RANGE = 1010,
  WEFT_FOREIGN_BUFFER = 1011,
  WEFT_IO_ERROR = 1012
};

enum { WEFT_NO_TRANSPOSE = 0, WEFT_TRANSPOSE = 1, WEFT_CONJUGATE_TRANSPOSE = 2 };
enum { WEFT_F16 = 0, WEFT_BF16 = 1 };       /* 16-bit formats */
enum { WEFT_ROUNDED = 0, WEFT_PACKED = 1 }; /* how 16-bit operands lie */
enum { WEFT_SUM = 0, WEFT_REDUCE_MAX = 1, WEFT_REDUCE_MIN = 2, WEFT_MEAN = 3 };
enum {
  WEFT_RELU = 0,
  WEFT_SIGMOID = 1,
  WEFT_TANH = 2,
  WEFT_EXP = 3,
  WEFT_LOG = 4,
  WEFT_SQRT = 5,
  WEFT_ABS = 6,
  WEFT_NEG = 7
};
enum { WEFT_ADD = 0, WEFT_SUB = 1, WEFT_MUL = 2, WEFT_DIV = 3, WEFT_MAX = 4, WEFT_MIN = 5 };

typedef struct weft_capabilities {
  uint32_t f16, bf16_storage, subgroups, timestamps, cpu; /* 0 or 1 */
  uint32_t max_workgroup_threads;
  uint32_t subgroup_size;
  uint64_t workgroup_memory;
  uint64_t max_buffer_bytes;
  uint64_t max_binding_bytes;
} weft_capabilities;

uint32_t weft_abi_version(void);
/* "0.1.0"; static. */
const char* weft_version(void);
/* Text of this thread's last failure, "" before one; valid until its next call here. */
const char* weft_last_error(void);
/* "out_of_memory" and so on; "ok" for 0, "unknown" for no code of ours. Static. */
const char* weft_status_name(weft_status status);

/* How many adapters there are. */
weft_status weft_device_count(size_t* count);
/* Copies the name of adapter `index`, cut to `size` bytes with the final 0, into `name`. */
weft_status weft_device_name(size_t index, char* name, size_t size);

/* `adapter` is part of an adapter's name, or its index; NULL or "": the best. Nothing opens before weft_backend_init.
 */
weft_status weft_backend_create(const char* adapter, weft_backend** backend);
/* NULL, or one that was destroyed before: nothing happens. Waits for nothing: other threads' calls that are under way
 * end as they would, and the device with the last of them. Handles of the backend end with it. A handle is good for the
 * backend that gave it; another one answers WEFT_FOREIGN_BUFFER. No handle is 0. */
void weft_backend_destroy(weft_backend* backend);
/* Opens the device; again: nothing, unless it is lost. Then another one, and the handles so far are not alive. */
weft_status weft_backend_init(weft_backend* backend);
weft_status weft_backend_is_initialized(const weft_backend* backend, int32_t* initialized);
weft_status weft_backend_capabilities(const weft_backend* backend, weft_capabilities* capabilities);
weft_status weft_backend_recommended_tile(const weft_backend* backend, uint64_t m, uint64_t n, uint64_t k,
                                          uint32_t tile[3]);

weft_status weft_alloc(weft_backend* backend, size_t bytes, weft_handle* handle);
weft_status weft_free(weft_backend* backend, weft_handle handle);
weft_status weft_copy_htod(weft_backend* backend, weft_handle to, const void* bytes, size_t size);
weft_status weft_copy_dtoh(weft_backend* backend, void* bytes, size_t size, weft_handle from);
weft_status weft_synchronize(weft_backend* backend);

weft_status weft_gemm(weft_backend* backend, int32_t transpose_a, int32_t transpose_b, uint64_t m, uint64_t n,
                      uint64_t k, double alpha, weft_handle a, uint64_t lda, weft_handle b, uint64_t ldb, double beta,
                      weft_handle c, uint64_t ldc);
weft_status weft_batched_gemm(weft_backend* backend, int32_t transpose_a, int32_t transpose_b, uint64_t m, uint64_t n,
                              uint64_t k, double alpha, weft_handle a, uint64_t lda, uint64_t stride_a, weft_handle b,
                              uint64_t ldb, uint64_t stride_b, double beta, weft_handle c, uint64_t ldc,
                              uint64_t stride_c, uint64_t batch);
weft_status weft_gemm_mixed_precision(weft_backend* backend, int32_t format, int32_t storage, int32_t transpose_a,
                                      int32_t transpose_b, uint64_t m, uint64_t n, uint64_t k, double alpha,
                                      weft_handle a, uint64_t lda, weft_handle b, uint64_t ldb, double beta,
                                      weft_handle c, uint64_t ldc);
weft_status weft_gemm_f16(weft_backend* backend, int32_t transpose_a, int32_t transpose_b, uint64_t m, uint64_t n,
                          uint64_t k, double alpha, weft_handle a, uint64_t lda, weft_handle b, uint64_t ldb,
                          double beta, weft_handle c, uint64_t ldc);

weft_status weft_conv2d_forward(weft_backend* backend, weft_handle in, const uint64_t in_shape[4], weft_handle filter,
                                const uint64_t filter_shape[4], weft_handle out, const uint64_t out_shape[4],
                                const uint64_t stride[2], const uint64_t padding[2]);
weft_status weft_conv2d_backward_data(weft_backend* backend, weft_handle grad_out, const uint64_t out_shape[4],
                                      weft_handle filter, const uint64_t filter_shape[4], weft_handle grad_in,
                                      const uint64_t in_shape[4], const uint64_t stride[2], const uint64_t padding[2]);
weft_status weft_conv2d_backward_filter(weft_backend* backend, weft_handle in, const uint64_t in_shape[4],
                                        weft_handle grad_out, const uint64_t out_shape[4], weft_handle grad_filter,
                                        const uint64_t filter_shape[4], const uint64_t stride[2],
                                        const uint64_t padding[2]);
weft_status weft_attention(weft_backend* backend, weft_handle q, weft_handle k, weft_handle v, weft_handle o,
                           uint64_t batch, uint64_t heads, uint64_t seq_q, uint64_t seq_kv, uint64_t head_dim,
                           double scale, int32_t causal);
weft_status weft_softmax(weft_backend* backend, weft_handle in, weft_handle out, const uint64_t* shape, size_t rank,
                         uint64_t axis);
weft_status weft_reduce(weft_backend* backend, int32_t op, weft_handle in, weft_handle out, const uint64_t* shape,
                        size_t rank, uint64_t axis);
weft_status weft_unary(weft_backend* backend, int32_t op, weft_handle in, weft_handle out, uint64_t n);
weft_status weft_binary(weft_backend* backend, int32_t op, weft_handle a, weft_handle b, weft_handle out, uint64_t n);
weft_status weft_gather(weft_backend* backend, weft_handle in, uint64_t rows, uint64_t cols, weft_handle indices,
                        uint64_t count, weft_handle out);
weft_status weft_scatter(weft_backend* backend, weft_handle in, weft_handle indices, uint64_t count, weft_handle out,
                         uint64_t rows, uint64_t cols);

#ifdef __cplusplus
}
#endif

#endif
