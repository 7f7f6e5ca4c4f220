// Paths that name what this process has open already: /dev/stdout, /dev/fd/3, /proc/self/fd/3.
#pragma once

#include <filesystem>
#include <optional>

namespace weft::io {

/// The number of the open file that `path` names, itself or by symbolic links; nothing for other paths. Such a path is
/// to be used through its descriptor: opening it anew starts at the beginning again, and what a link shows may be a
/// file under another name, or under none any more.
std::optional<int> own_descriptor(const std::filesystem::path& path);

}  // namespace weft::io
