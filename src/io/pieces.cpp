#include "io/pieces.h"

#include <fmt/format.h>

#include "weft/error.h"

namespace weft::io {

Pieces pieces_of(const Shape& shape, bool fortran_order, std::size_t axis, std::int64_t begin, std::int64_t end,
                 std::size_t element) {
  const std::size_t rank = shape.rank();
  const std::int64_t length = rank == 0 ? 1 : axis < rank ? shape[axis] : -1;
  if (length < 0 || begin < 0 || end < begin || end > length) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("elements {} to {} along axis {} of shape {}", begin, end, axis, to_string(shape)),
                "stay inside the array");
  }
  std::size_t before = 1, behind = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i < axis) before *= static_cast<std::size_t>(shape[i]);
    if (i > axis) behind *= static_cast<std::size_t>(shape[i]);
  }
  const std::size_t inner = (fortran_order ? before : behind) * element;
  Pieces out;
  out.first = static_cast<std::size_t>(begin) * inner;
  out.size = static_cast<std::size_t>(end - begin) * inner;
  out.step = static_cast<std::size_t>(length) * inner;
  out.count = fortran_order ? behind : before;
  if (out.size == out.step) {
    out.size *= out.count;
    out.count = 1;
  }
  return out;
}

}  // namespace weft::io
