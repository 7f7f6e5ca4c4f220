#include "cli/arrays.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "io/atomic_file.h"
#include "io/own_descriptor.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

/// Large transfers go in pieces, so that the progress line moves.
constexpr std::size_t kPiece = std::size_t{64} << 20;

}  // namespace

std::pair<std::string, std::string> split_assignment(const std::string& text, std::string_view what) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is not of the form {}", text, what),
                at == std::string::npos ? fmt::format("write name={}", text) : fmt::format("write {}", what));
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

std::optional<Scalar> parse_number(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('+') || digits.starts_with('-')) digits.remove_prefix(1);
  const bool plausible = !digits.empty() && digits.find_first_not_of("0123456789.eE+-") == std::string_view::npos &&
                         (digits[0] == '.' || (digits[0] >= '0' && digits[0] <= '9'));
  if (!plausible) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* begin = text.data();
  const char* end = begin + text.size();
  std::int64_t integer = 0;
  if (const auto r = std::from_chars(begin, end, integer); r.ptr == end) {
    if (r.ec == std::errc()) return integer;
    return std::nullopt;  // past int64: not to become a float unsaid
  }
  double real = 0;
  if (const auto r = std::from_chars(begin, end, real); r.ec == std::errc() && r.ptr == end) return real;
  return std::nullopt;
}

std::string input_path(const std::string& value) {
  const bool is_standard_input = value == "-" || value.starts_with("-:");
  return is_standard_input ? "/dev/stdin" + value.substr(1) : value;
}

std::string output_path(const std::string& value, bool json) {
  std::string path = value == "-" ? "/dev/stdout" : value;
  if (json && io::own_descriptor(path) == STDOUT_FILENO) {
    throw Error(ErrorCode::invalid_argument, fmt::format("-o {} and --json both go to the standard output", value),
                "name a file for one of them");
  }
  return path;
}

Tensor upload(const Device& device, const io::HostArray& array, Progress* progress, Usage usage) {
  Device target = device;
  Buffer buffer;
  if (array.bytes.size() <= kPiece) {
    buffer = target.upload_bytes(array.bytes, usage);
    if (progress != nullptr) progress->advance(array.bytes.size());
  } else {
    buffer = target.alloc(array.bytes.size(), usage);
    for (std::size_t at = 0; at < array.bytes.size(); at += kPiece) {
      const auto piece = array.bytes.subspan(at, std::min(kPiece, array.bytes.size() - at));
      target.write(buffer, at, piece);
      if (progress != nullptr) progress->advance(piece.size());
    }
  }
  const auto dtype = io::device_dtype(array.dtype);
  if (!dtype) throw Error(ErrorCode::internal, "upload of a type that devices lack", "report this");
  return Tensor(target, std::move(buffer), array.shape, array.strides, 0, *dtype);
}

HostBytes download(const Tensor& tensor, Progress* progress) {
  HostBytes out{std::make_unique_for_overwrite<std::byte[]>(tensor.nbytes()), tensor.nbytes()};
  if (out.size == 0) return out;
  const Tensor dense = contiguous(tensor);
  Device device = dense.device();
  const std::size_t begin = static_cast<std::size_t>(dense.offset()) * size_of(dense.dtype());
  for (std::size_t at = 0; at < out.size; at += kPiece) {
    const std::span<std::byte> piece(out.data.get() + at, std::min(kPiece, out.size - at));
    device.read(dense.buffer(), begin + at, piece);
    if (progress != nullptr) progress->advance(piece.size());
  }
  return out;
}

bool is_written_in_place(const std::filesystem::path& path) {
  std::error_code error;
  if (io::own_descriptor(path)) return true;
  return std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
}

void check_output(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const auto fail = [&](std::string_view why, std::string fix) {
    throw Error(ErrorCode::io_error, fmt::format("{}: {}", path.string(), why), std::move(fix));
  };
  if (path.empty() || std::filesystem::is_directory(path, error)) fail("not a file to write", "give a file's name");
  if (path.extension() == ".npz" || path.extension() == ".safetensors") {
    fail(fmt::format("results are written as .npy, not as {}", path.extension().string()),
         fmt::format("write {}", std::filesystem::path(path).replace_extension(".npy").string()));
  }
  if (!std::filesystem::is_directory(folder, error)) {
    fail(fmt::format("there is no folder '{}'", folder.string()), "make the folder first, or correct the path");
  }
  const bool exists = std::filesystem::exists(path, error);
  const bool writable = is_written_in_place(path)
                            ? access(path.c_str(), W_OK) == 0
                            : access(folder.c_str(), W_OK | X_OK) == 0 && (!exists || access(path.c_str(), W_OK) == 0);
  if (!writable) fail("no permission to write there", "choose another path, or change its permissions");
  if (const auto own = io::own_descriptor(path)) {
    if ((fcntl(*own, F_GETFL) & O_ACCMODE) == O_RDONLY) fail("not open for writing", "choose another path");
  } else if (!is_written_in_place(path)) {
    const HoldInterrupts hold;
    const io::AtomicFile trial(path);  // what else is in the way: links to nowhere, file systems that take no files
  }
}

bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto whole = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return a == b || whole(a) == whole(b);
}

void save(const std::filesystem::path& path, const Tensor& like, const HostBytes& bytes) {
  std::optional<HoldInterrupts> hold;
  if (!is_written_in_place(path)) hold.emplace();
  io::save_npy(path, like.dtype(), like.shape(), bytes.span());
}

}  // namespace weft::cli
