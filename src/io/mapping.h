// Whole files as memory.
#pragma once

#include <filesystem>

#include "io/memory.h"

namespace weft::io {

/// Maps a regular file read-only (an empty one gives no bytes); reads it into memory where the file system cannot map.
/// The length is taken once, when the file is opened: a file that another process cuts short afterwards raises SIGBUS
/// on access, as with any mapping, so writers must replace files and not truncate them (save_npy replaces). Throws
/// Error{io_error} with the system's text for a missing or unreadable file, a directory, a pipe or a device.
Memory map_file(const std::filesystem::path& path);

}  // namespace weft::io
