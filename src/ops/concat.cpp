#include <vector>

#include "ops/copy.h"
#include "ops/infer.h"
#include "ops/launch.h"
#include "ops/result.h"
#include "weft/ops.h"

namespace weft {

Tensor concat(std::span<const Tensor> parts, std::int64_t axis) {
  if (parts.empty()) ops::concat_shape({}, axis);
  std::vector<const Tensor*> operands;
  for (const Tensor& part : parts) operands.push_back(&part);
  Device device = ops::common_device("concat", operands);
  std::vector<Shape> shapes;
  DType dtype = parts.front().dtype();
  for (const Tensor& part : parts) {
    shapes.push_back(part.shape());
    dtype = ops::promote(dtype, part.dtype());
  }
  const Shape shape = ops::concat_shape(shapes, axis);
  const std::size_t at = ops::normalize_axis("concat", axis, shape);

  // Bools are or-ed into place.
  const Tensor out = dtype == DType::bool_ ? device.zeros(shape, dtype) : ops::new_result(device, shape, dtype);
  std::int64_t start = 0;
  for (const Tensor& part : parts) {
    const std::int64_t stop = start + part.shape()[at];
    if (part.size() > 0) {
      ops::copy_into(slice(out, static_cast<std::int64_t>(at), start, stop),
                     part.dtype() == dtype ? part : cast(part, dtype), "concat");
    }
    start = stop;
  }
  return out;
}

}  // namespace weft
