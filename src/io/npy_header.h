// The header of a .npy file: magic, version, length, and a Python dictionary literal.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "io/host_array.h"

namespace weft::io {

struct NpyHeader {
  ArrayLayout layout;
  std::size_t data_offset = 0;
};

/// Whether a file that begins so is a .npy file.
bool is_npy(std::span<const std::byte> file) noexcept;

/// Bytes in front of the data, as far as the first bytes of a .npy file tell; what they say is not checked.
std::optional<std::size_t> npy_header_size(std::span<const std::byte> file) noexcept;

/// Parses versions 1.0 to 3.0 in place; allocates nothing that depends on lengths in the file. Takes what numpy writes,
/// with any key order, spaces and trailing commas, and nothing else. Throws Error{io_error} that shows the header when
/// it is malformed, Error{unsupported} for element types and ranks that Weft does not have.
NpyHeader parse_npy_header(std::span<const std::byte> file, std::string_view name);

}  // namespace weft::io
