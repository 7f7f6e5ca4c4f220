#include <fmt/format.h>

#include <system_error>

#include "io/malformed.h"
#include "io/mapping.h"
#include "io/readers.h"
#include "io/zip.h"

namespace weft::io {
namespace {

enum class Kind { npy, npz, safetensors };

/// A .safetensors file has no magic, so its name decides; the others tell by their first bytes, whatever their name.
Kind kind_of(const std::filesystem::path& path, const Memory& file) {
  if (path.extension() == ".safetensors") return Kind::safetensors;
  return is_zip(file.bytes) || path.extension() == ".npz" ? Kind::npz : Kind::npy;
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

struct Spec {
  std::string path;
  std::string array;
  bool named = false;
};

/// Splits at the last ':' that leaves the path of something that exists.
Spec split(const std::string& spec) {
  if (exists(spec)) return {spec, "", false};
  for (std::size_t at = spec.rfind(':'); at != std::string::npos && at != 0; at = spec.rfind(':', at - 1)) {
    if (exists(spec.substr(0, at))) return {spec.substr(0, at), spec.substr(at + 1), true};
  }
  return {spec, "", false};  // opening it will say what is wrong
}

}  // namespace

HostArray load(const std::string& spec) {
  const Spec parts = split(spec);
  const Memory file = map_file(parts.path);
  const Kind kind = kind_of(parts.path, file);
  if (parts.named && (parts.array.empty() || kind == Kind::npy)) {
    malformed(printable(spec),
              parts.array.empty() ? "no name after ':'" : "a .npy file holds one array, which has no name",
              fmt::format("write {}", parts.path));
  }
  switch (kind) {
    case Kind::npz: return read_npz(file, parts.path, parts.array);
    case Kind::safetensors: return read_safetensors(file, parts.path, parts.array);
    case Kind::npy: break;
  }
  return read_npy(file, parts.path);
}

std::vector<std::string> list(const std::filesystem::path& path) {
  const Memory file = map_file(path);
  const std::string name = path.string();
  switch (kind_of(path, file)) {
    case Kind::npz: return list_npz(file, name);
    case Kind::safetensors: return list_safetensors(file, name);
    case Kind::npy: break;
  }
  malformed(name, "not a .npz or .safetensors file", "give a file that holds named arrays");
}

}  // namespace weft::io
