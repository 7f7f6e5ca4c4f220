#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>

#include "io/malformed.h"

namespace weft::io {
namespace {

constexpr std::string_view kCheckSpace = "check the free space and the permissions of the directory";

/// An open file that is removed again unless it is kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& directory, std::string_view shown) {
    std::random_device random;
    // The name is short and independent of the target's, which may already be as long as the system allows.
    do {
      path_ = directory / fmt::format(".weft-{}-{:08x}.tmp", ::getpid(), random());
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (fd_ < 0 && errno == EEXIST);
    if (fd_ < 0) {
      const int error = errno;
      system_error(shown, "cannot write", error,
                   error == ENOENT ? "create the directory first" : "choose a directory that you may write to");
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!renamed_) ::unlink(path_.c_str());
  }

  int fd() const noexcept { return fd_; }

  void rename_to(const std::filesystem::path& target, std::string_view shown) {
    // Some file systems report a failed write only here.
    const int closed = ::close(fd_);
    fd_ = -1;
    if (closed != 0) system_error(shown, "cannot write", errno, kCheckSpace);
    if (::rename(path_.c_str(), target.c_str()) != 0) system_error(shown, "cannot write", errno, kCheckSpace);
    renamed_ = true;
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  bool renamed_ = false;
};

void write_all(int fd, std::span<const std::span<const std::byte>> pieces, std::string_view shown) {
  for (std::span<const std::byte> left : pieces) {
    while (!left.empty()) {
      const ssize_t n = ::write(fd, left.data(), std::min<std::size_t>(left.size(), 1u << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) system_error(shown, "cannot write", errno, kCheckSpace);
      left = left.subspan(static_cast<std::size_t>(n));
    }
  }
}

void write_directly(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) system_error(path, "cannot write", errno, "choose a place that you may write to");
  try {
    write_all(fd, pieces, path);
  } catch (...) {
    ::close(fd);
    throw;
  }
  if (::close(fd) != 0) system_error(path, "cannot write", errno, kCheckSpace);
}

/// Where a chain of symbolic links ends, whether or not a file is there yet.
std::filesystem::path followed(std::filesystem::path path, std::string_view shown) {
  constexpr int kMaxLinks = 40;  // as Linux has it
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) return path;
    path = path.parent_path() / target;
  }
  system_error(shown, "cannot write", ELOOP, "write to another path");
}

}  // namespace

void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces) {
  const std::string shown = path.string();
  if (shown.empty() || shown.find('\0') != std::string::npos) {
    malformed(printable(shown), "not a file name", "give the path of the file to write");
  }
  struct stat info{};
  const bool exists = ::stat(shown.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) system_error(shown, "cannot write", EISDIR, "name a file in it");
  if (exists && !S_ISREG(info.st_mode)) {
    write_directly(shown, pieces);
    return;
  }
  // Renaming over a file needs no right to write it; who made it read-only wants it kept all the same.
  if (exists && ::faccessat(AT_FDCWD, shown.c_str(), W_OK, AT_EACCESS) != 0) {
    system_error(shown, "cannot write", errno, "make the file writable or choose another name");
  }

  const std::filesystem::path target = followed(path, shown);
  const std::filesystem::path directory = target.has_parent_path() ? target.parent_path() : ".";
  TemporaryFile file(directory, shown);
  if (exists) ::fchmod(file.fd(), info.st_mode & 0777);  // best effort: the owner may differ
  write_all(file.fd(), pieces, shown);
  if (::fsync(file.fd()) != 0) system_error(shown, "cannot write", errno, kCheckSpace);
  file.rename_to(target, shown);

  // Makes the rename itself last through a power cut. The file is whole either way, and not every file system can.
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

}  // namespace weft::io
