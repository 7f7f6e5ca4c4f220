#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/malformed.h"
#include "io/mapping.h"
#include "io/readers.h"
#include "io/zip.h"

namespace weft::io {
namespace {

constexpr std::string_view kSuffix = ".npy";

struct Members {
  std::vector<ZipEntry> entries;
  std::vector<std::string> names;  ///< without ".npy"
};

/// The members that are arrays, which numpy names by their suffix. As in numpy, `wanted` may also be the name of any
/// member as it stands in the archive, with the suffix or with none.
Members array_members(const Memory& file, std::string_view name, std::string_view wanted = {}) {
  Members arrays, verbatim;
  for (ZipEntry& entry : read_zip_directory(file, name)) {
    if (!wanted.empty() && entry.name == wanted) {
      verbatim.names.push_back(entry.name);
      verbatim.entries.push_back(entry);
    }
    if (!entry.name.ends_with(kSuffix)) continue;
    arrays.names.push_back(entry.name.substr(0, entry.name.size() - kSuffix.size()));
    arrays.entries.push_back(std::move(entry));
  }
  const bool has_array = std::find(arrays.names.begin(), arrays.names.end(), wanted) != arrays.names.end();
  return verbatim.names.empty() || has_array ? arrays : verbatim;
}

}  // namespace

RawArray find_npz(const Memory& file, std::string_view name, std::string_view member) {
  const Members members = array_members(file, name, member);
  const std::size_t chosen = choose(name, members.names, member);
  const std::string shown = fmt::format("{}:{}", name, printable(members.names[chosen], 100));
  return find_npy(read_zip_entry(file, members.entries[chosen], shown), shown);
}

HostArray read_npz(const Memory& file, std::string_view name, std::string_view member) {
  return make_array(find_npz(file, name, member));
}

std::vector<std::string> list_npz(const Memory& file, std::string_view name) {
  return array_members(file, name).names;
}

HostArray load_npz(const std::filesystem::path& path, std::string_view member) {
  return read_npz(map_file(path), path.string(), member);
}

}  // namespace weft::io
