// Writing a file so that nobody ever sees half of it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace weft::io {

/// Replaces the content of `path` by the given pieces, one after another: writes a temporary file in the same
/// directory, flushes it to the disk, renames it. A symbolic link is followed, an existing file's permissions stay; a
/// pipe or device (/dev/stdout) has no content to protect and is written directly. Blocks until the data are on disk.
/// Throws Error{io_error} with the system's text, and then `path` is as before and no temporary is left.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces);

}  // namespace weft::io
