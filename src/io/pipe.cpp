#include "io/pipe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "io/host_array.h"
#include "io/malformed.h"
#include "io/npy_header.h"
#include "io/own_descriptor.h"
#include "io/zip.h"
#include "weft/error.h"

namespace weft::io {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kEnoughForMagic = 8;

/// How many bytes are worth having, as far as those that are there tell.
std::size_t wanted(std::span<const std::byte> have, std::string_view name) {
  if (have.size() < kEnoughForMagic || is_zip(have)) return kAll;
  if (!is_npy(have)) return 0;
  const std::optional<std::size_t> header = npy_header_size(have);
  if (!header || *header > have.size()) return kAll;
  return *header + data_size(parse_npy_header(have, name).layout, name);
}

/// Reads behind what `to` holds. False at the end.
bool read_more(const FileDescriptor& pipe, std::vector<std::byte>& to, std::size_t most, std::string_view name) {
  const std::size_t had = to.size();
  try {
    to.resize(had + most);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, fmt::format("{}: no room for more than {} bytes of host memory", name, had),
                "save the array to a file, which is read where it lies");
  }
  ssize_t n = 0;
  while ((n = ::read(pipe.get(), to.data() + had, most)) < 0) {
    if (errno == EAGAIN) {  // whoever made the pipe set it to not block
      pollfd ready{pipe.get(), POLLIN, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      break;
    }
  }
  if (n < 0) system_error(name, "cannot read", errno, "check what writes into it");
  to.resize(had + static_cast<std::size_t>(n));
  return n > 0;
}

}  // namespace

std::optional<FileDescriptor> open_own_pipe(const std::filesystem::path& path) {
  const std::optional<int> own = own_descriptor(path);
  struct stat info{};
  if (!own || ::fstat(*own, &info) != 0 || !(S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode))) return std::nullopt;
  FileDescriptor pipe(::fcntl(*own, F_DUPFD_CLOEXEC, 0));
  if (pipe.get() < 0) system_error(path.string(), "cannot open", errno, "close other files first");
  return pipe;
}

Memory read_pipe(const FileDescriptor& pipe, std::string_view name) {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  auto data = std::make_shared<std::vector<std::byte>>();
  std::size_t want = kAll;
  while (data->size() < want && read_more(pipe, *data, std::min(kStep, want - data->size()), name)) {
    if (want == kAll) want = wanted(*data, name);
  }
  if (data->empty()) {
    malformed(name, "nothing came through it", "check what writes into it; it can be read once only");
  }
  const std::span<const std::byte> bytes(*data);
  return {bytes, std::move(data), false};
}

}  // namespace weft::io
