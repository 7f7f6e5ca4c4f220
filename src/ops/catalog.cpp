#include "ops/catalog.h"

#include <array>

namespace weft::ops {

std::span<const OpFamily* const> families() {
  static const std::array all{
      &elementwise_family(), &views_family(),     &indexing_family(), &ordering_family(),
      &reduce_family(),      &scan_family(),      &rows_family(),     &matmul_family(),
      &conv_family(),        &attention_family(), &random_family(),   &fft_family(),
  };
  return all;
}

}  // namespace weft::ops
