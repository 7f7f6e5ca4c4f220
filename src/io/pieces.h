// Where a block of a dense array lies among all of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/shape.h"

namespace weft::io {

/// `count` pieces of `size` bytes, the first at `first`, each `step` behind the one before. One after another they are
/// the block, dense in the same order.
struct Pieces {
  std::size_t first = 0, size = 0, step = 0, count = 0;
};

/// The elements [begin, end) along `axis` of a dense array. One without axes is taken for one of one element. Throws
/// Error{out_of_range}.
Pieces pieces_of(const Shape& shape, bool fortran_order, std::size_t axis, std::int64_t begin, std::int64_t end,
                 std::size_t element);

}  // namespace weft::io
