// Arrays that come through a pipe: the standard input, or what the shell's <(command) stands for.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "io/mapping.h"

namespace weft::io {

/// The reading end of a pipe or socket that this process has open and `path` names; nothing for other paths.
std::optional<FileDescriptor> open_own_pipe(const std::filesystem::path& path);

/// What comes through it, in host memory: a .npy file up to the end of its data, an archive to the end. Blocks until
/// the writer has written that or is gone. Takes as much memory as comes, however much a header announces; bytes that
/// begin neither format are read no further than that shows.
Memory read_pipe(const FileDescriptor& pipe, std::string_view name);

}  // namespace weft::io
