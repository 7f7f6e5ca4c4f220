/* The C ABI: a product of two matrices on the GPU, from plain C. */
#include <stdio.h>
#include <weft/c_api.h>

#define CHECK(call)                                                             \
  do {                                                                          \
    const weft_status status = (call);                                          \
    if (status != WEFT_OK) {                                                    \
      fprintf(stderr, "%s: %s\n", weft_status_name(status), weft_last_error()); \
      return 1;                                                                 \
    }                                                                           \
  } while (0)

int main(void) {
  weft_backend* backend = NULL;
  CHECK(weft_backend_create(NULL, &backend)); /* the best adapter */
  CHECK(weft_backend_init(backend));

  const float a[6] = {1, 2, 3, 4, 5, 6}; /* 2 x 3 */
  const float b[6] = {1, 0, 0, 1, 1, 1}; /* 3 x 2 */
  float c[4];
  weft_handle ha, hb, hc;
  CHECK(weft_alloc(backend, sizeof a, &ha));
  CHECK(weft_alloc(backend, sizeof b, &hb));
  CHECK(weft_alloc(backend, sizeof c, &hc));
  CHECK(weft_copy_htod(backend, ha, a, sizeof a));
  CHECK(weft_copy_htod(backend, hb, b, sizeof b));
  CHECK(weft_gemm(backend, WEFT_NO_TRANSPOSE, WEFT_NO_TRANSPOSE, 2, 2, 3, 1.0, ha, 3, hb, 2, 0.0, hc, 2));
  CHECK(weft_copy_dtoh(backend, c, sizeof c, hc)); /* waits */
  printf("%g %g\n%g %g\n", c[0], c[1], c[2], c[3]);
  weft_backend_destroy(backend);
  return c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11 ? 0 : 1;
}
