#include <array>

#include "ops/infer.h"
#include "ops/infer_indexing.h"
#include "ops/launch.h"
#include "ops/sort.h"
#include "weft/indexing.h"

namespace weft {

TopK topk(const Tensor& x, std::int64_t k, const TopKOptions& options) {
  ops::common_device("topk", std::array{&x});
  ops::topk_shape(x.shape(), k, options.axis);
  const std::size_t axis = ops::normalize_axis("topk", options.axis, x.shape());
  ops::Sorted sorted = ops::sort_rows(x, {"topk", axis, k, options.largest, true, true});
  return {std::move(sorted.values), std::move(sorted.indices)};
}

}  // namespace weft
