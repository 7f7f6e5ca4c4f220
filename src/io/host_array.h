// From raw file data to a HostArray: the checks and fixes that every format shares.
#pragma once

#include <span>
#include <string>
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

/// An array as it lies in a file, not read yet.
struct RawArray {
  ArrayLayout layout;
  Memory data;       ///< at least data_size() bytes
  std::string name;  ///< the file, and the array in it, as shown in messages
};
/// Error{io_error} "truncated" when `data` is too short for the layout; surplus bytes are cut off.
RawArray raw_array(const ArrayLayout& layout, const Memory& data, std::string_view name);

/// Whether normalise() has nothing to do.
bool is_normal(const ArrayLayout& layout) noexcept;
/// Foreign byte order, and bools other than 0 and 1, made right in place. Of whole elements.
void normalise(const ArrayLayout& layout, std::span<std::byte> bytes);

/// Views the start of `data` (surplus bytes are ignored) as an array: Error{io_error} "truncated" when it is too short.
/// Copies only where it must: foreign byte order, a misaligned start, or bools other than 0 and 1.
HostArray make_array(const ArrayLayout& layout, const Memory& data, std::string_view name);
HostArray make_array(const RawArray& raw);

}  // namespace weft::io
