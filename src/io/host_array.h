// From raw file data to a HostArray: the checks and fixes that every format shares.
#pragma once

#include <string_view>

#include "io/memory.h"
#include "weft/io.h"

namespace weft::io {

/// What a file's header says about its data.
struct ArrayLayout {
  FileDType dtype = FileDType::f32;
  Shape shape;
  bool fortran_order = false;
  bool big_endian = false;
};

/// Bytes of the data. Error{io_error} when a length is negative or the size does not fit 63 bits; as in numpy, the
/// lengths other than 0 of an empty array count too, so strides never overflow.
std::size_t data_size(const ArrayLayout& layout, std::string_view name);

/// Views the start of `data` (surplus bytes are ignored) as an array: Error{io_error} "truncated" when it is too short.
/// Copies only where it must: foreign byte order, a misaligned start, or bools other than 0 and 1.
HostArray make_array(const ArrayLayout& layout, const Memory& data, std::string_view name);

}  // namespace weft::io
