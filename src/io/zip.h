// Members of a zip archive, read through its central directory (APPNOTE.TXT 6.3: stored and deflate, zip64).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/memory.h"

namespace weft::io {

struct ZipEntry {
  std::string name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t compressed_size = 0;
  std::uint64_t size = 0;
  std::uint64_t header_offset = 0;  ///< of the local header, from the start of the file
};

/// True when bytes start as a zip archive does, an empty one too.
bool is_zip(std::span<const std::byte> file) noexcept;

/// The central directory. Throws Error{io_error} that names `name` when it is missing or contradicts itself.
std::vector<ZipEntry> read_zip_directory(const Memory& file, std::string_view name);

/// The content of a member, its CRC checked: a view of the file when it is stored, inflated memory otherwise. Sizes are
/// those of the central directory, so entries with data descriptors are fine. Throws Error{io_error} when the data are
/// damaged, Error{unsupported} for encryption and for other methods.
Memory read_zip_entry(const Memory& file, const ZipEntry& entry, std::string_view name);

}  // namespace weft::io
