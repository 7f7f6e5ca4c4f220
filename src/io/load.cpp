#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "io/host_array.h"
#include "io/malformed.h"
#include "io/mapping.h"
#include "io/pieces.h"
#include "io/pipe.h"
#include "io/readers.h"
#include "io/zip.h"
#include "weft/error.h"

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

struct OpenFile {
  FileDescriptor descriptor;  ///< none of a pipe
  Memory content;
};

OpenFile open_file(const std::string& path) {
  if (const std::optional<FileDescriptor> pipe = open_own_pipe(path)) {
    return {FileDescriptor(-1), read_pipe(*pipe, path)};
  }
  FileDescriptor file = open_regular(path);
  Memory content = map_file(file, path);
  return {std::move(file), std::move(content)};
}

}  // namespace

struct ArrayFile::State {
  FileDescriptor file;  ///< none where the data are in memory
  RawArray raw;
  std::uint64_t offset = 0;  ///< of the data in the file, where they lie in it as they are
};

ArrayFile ArrayFile::open(const std::string& spec) {
  const Spec parts = split(spec);
  auto [descriptor, file] = open_file(parts.path);
  const Kind kind = kind_of(parts.path, file);
  if (parts.named && (parts.array.empty() || kind == Kind::npy)) {
    malformed(printable(spec),
              parts.array.empty() ? "no name after ':'" : "a .npy file holds one array, which has no name",
              fmt::format("write {}", parts.path));
  }
  RawArray raw = kind == Kind::npz           ? find_npz(file, parts.path, parts.array)
                 : kind == Kind::safetensors ? find_safetensors(file, parts.path, parts.array)
                                             : find_npy(file, parts.path);
  const auto offset = raw.data.mapped ? raw.data.bytes.data() - file.bytes.data() : 0;
  return ArrayFile(
      std::make_shared<const State>(State{std::move(descriptor), std::move(raw), static_cast<std::uint64_t>(offset)}));
}

FileDType ArrayFile::dtype() const noexcept {
  return state_->raw.layout.dtype;
}
const Shape& ArrayFile::shape() const noexcept {
  return state_->raw.layout.shape;
}
bool ArrayFile::fortran_order() const noexcept {
  return state_->raw.layout.fortran_order;
}

HostArray ArrayFile::load() const {
  return make_array(state_->raw);
}

void ArrayFile::read(std::size_t axis, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const {
  const RawArray& raw = state_->raw;
  const Pieces pieces = pieces_of(raw.layout.shape, raw.layout.fortran_order, axis, begin, end, size_of(dtype()));
  if (pieces.count * pieces.size != out.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: elements {} to {} along axis {} of shape {} into {} bytes", raw.name, begin, end, axis,
                            to_string(shape()), out.size()),
                "pass room for exactly these elements");
  }
  const auto copy = [&](std::size_t at, std::span<std::byte> to) {
    if (raw.data.mapped) {
      read_at(state_->file, state_->offset + at, to, raw.name);
    } else {
      std::copy_n(raw.data.bytes.begin() + static_cast<std::ptrdiff_t>(at), to.size(), to.begin());
    }
  };
  // `out` may be memory that a device shares, which is slow to read back: what must be changed is changed before.
  constexpr std::size_t kStep = std::size_t{256} << 10;
  std::vector<std::byte> step(is_normal(raw.layout) ? 0 : std::min(pieces.size, kStep));
  for (std::size_t i = 0; i < pieces.count && pieces.size > 0; ++i) {
    const std::span<std::byte> piece = out.subspan(i * pieces.size, pieces.size);
    const std::size_t at = pieces.first + i * pieces.step;
    if (step.empty()) {
      copy(at, piece);
      continue;
    }
    for (std::size_t done = 0; done < piece.size();) {
      const std::span<std::byte> part = std::span(step).first(std::min(piece.size() - done, step.size()));
      copy(at + done, part);
      normalise(raw.layout, part);
      std::copy(part.begin(), part.end(), piece.begin() + static_cast<std::ptrdiff_t>(done));
      done += part.size();
    }
  }
}

HostArray load(const std::string& spec) {
  return ArrayFile::open(spec).load();
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
