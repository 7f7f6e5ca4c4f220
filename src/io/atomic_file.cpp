#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "io/malformed.h"
#include "io/mapping.h"
#include "io/own_descriptor.h"
#include "weft/error.h"

namespace weft::io {
namespace {

constexpr std::string_view kCheckSpace = "check the free space and the permissions of the directory";

/// " (4096 bytes are free there)", where the system tells.
std::string free_space(int fd) {
  struct statvfs info{};
  if (::fstatvfs(fd, &info) != 0) return {};
  return fmt::format(" ({} bytes are free there)", static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize);
}

/// Throws about a write of `size` bytes that failed with `error`.
[[noreturn]] void write_error(std::string_view shown, int fd, std::uint64_t size, std::uint64_t offset, int error) {
  if (error == EFBIG) {
    system_error(shown, fmt::format("cannot write {} bytes behind byte {}", size, offset), error,
                 "raise the limit of file sizes (ulimit -f), or write to a file system that has larger files");
  }
  const bool full = error == ENOSPC || error == EDQUOT;
  system_error(
      shown, fmt::format("cannot write {} bytes behind byte {}{}", size, offset, full ? free_space(fd) : std::string()),
      error, kCheckSpace);
}

/// An open file that is gone again unless it is kept. It has no name before, where the file system can do that: then
/// even a process that is killed leaves nothing.
class TemporaryFile {
 public:
  TemporaryFile(const std::filesystem::path& directory, std::string_view shown, AtomicFile::Temporary how)
      : directory_(directory) {
    if (how == AtomicFile::Temporary::unnamed_if_possible && open_unnamed()) return;
    do {
      path_ = new_name();
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (fd_ < 0 && errno == EEXIST);
    if (fd_ < 0) {
      const int error = errno;
      path_.clear();
      system_error(shown, "cannot write", error,
                   error == ENOENT ? "create the directory first" : "choose a directory that you may write to");
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  int fd() const noexcept { return fd_; }
  /// Empty while it has no name.
  const std::filesystem::path& path() const noexcept { return path_; }

  void rename_to(const std::filesystem::path& target, std::string_view shown) {
    if (path_.empty()) give_name(shown);
    // Some file systems report a failed write only here.
    const int closed = ::close(fd_);
    fd_ = -1;
    if (closed != 0) system_error(shown, "cannot write", errno, kCheckSpace);
    if (::rename(path_.c_str(), target.c_str()) != 0) system_error(shown, "cannot write", errno, kCheckSpace);
    path_.clear();
  }

 private:
  /// Short and independent of the target's, which may already be as long as the system allows.
  std::filesystem::path new_name() { return directory_ / fmt::format(".weft-{}-{:08x}.tmp", ::getpid(), random_()); }

  std::string link_to_itself() const { return fmt::format("/proc/self/fd/{}", fd_); }

  bool open_unnamed() {
#ifdef O_TMPFILE
    fd_ = ::open(directory_.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (fd_ < 0) return false;
    if (::access(link_to_itself().c_str(), F_OK) == 0) return true;  // by which it gets its name
    ::close(std::exchange(fd_, -1));
#endif
    return false;
  }

  /// A name beside the target, since a link can't replace a file; the rename that follows at once can.
  void give_name(std::string_view shown) {
    std::filesystem::path name;
    int failed = 0;
    do {
      name = new_name();
      failed = ::linkat(AT_FDCWD, link_to_itself().c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
    } while (failed != 0 && errno == EEXIST);
    if (failed != 0) system_error(shown, "cannot write", errno, kCheckSpace);
    path_ = std::move(name);
  }

  std::random_device random_;
  const std::filesystem::path directory_;
  std::filesystem::path path_;
  int fd_ = -1;
};

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

struct AtomicFile::State {
  std::string shown;
  std::filesystem::path target, directory, nothing;
  std::optional<TemporaryFile> file;  ///< none: a pipe, a device, or what is open already
  std::optional<FileDescriptor> direct;
  std::uint64_t written = 0;  ///< into it

  int fd() const { return file ? file->fd() : direct.value().get(); }
};

AtomicFile::AtomicFile(const std::filesystem::path& path, Temporary how) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.shown = path.string();
  if (s.shown.empty() || s.shown.find('\0') != std::string::npos) {
    malformed(printable(s.shown), "not a file name", "give the path of the file to write");
  }
  struct stat info{};
  const bool exists = ::stat(s.shown.c_str(), &info) == 0;
  // Said now, and not when all is written.
  if (!exists && errno == ENAMETOOLONG) system_error(s.shown, "cannot write", errno, "choose a shorter name");
  if (exists && S_ISDIR(info.st_mode)) system_error(s.shown, "cannot write", EISDIR, "name a file in it");
  // What the shell has opened for us may be a file that others write to as well, from where they are.
  const std::optional<int> own = own_descriptor(path);
  if (own || (exists && !S_ISREG(info.st_mode))) {
    s.direct.emplace(own ? ::fcntl(*own, F_DUPFD_CLOEXEC, 0) : ::open(s.shown.c_str(), O_WRONLY | O_CLOEXEC));
    if (s.direct->get() < 0) system_error(s.shown, "cannot write", errno, "choose a place that you may write to");
    return;
  }
  // Renaming over a file needs no right to write it; who made it read-only wants it kept all the same.
  if (exists && ::faccessat(AT_FDCWD, s.shown.c_str(), W_OK, AT_EACCESS) != 0) {
    system_error(s.shown, "cannot write", errno, "make the file writable or choose another name");
  }
  s.target = followed(path, s.shown);
  s.directory = s.target.has_parent_path() ? s.target.parent_path() : ".";
  s.file.emplace(s.directory, s.shown, how);
  if (exists) ::fchmod(s.file->fd(), info.st_mode & 0777);  // best effort: the owner may differ
}

AtomicFile::~AtomicFile() = default;

void AtomicFile::reserve(std::uint64_t size) {
  if (!state_->file || size == 0) return;
#ifdef __linux__
  // Not posix_fallocate, which writes where the file system can't take room ahead.
  if (::fallocate(state_->file->fd(), 0, 0, static_cast<off_t>(size)) == 0) return;
  if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) {
    write_error(state_->shown, state_->file->fd(), size, 0, errno);
  }
#endif
}

void AtomicFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  State& s = *state_;
  if (s.direct && offset != s.written) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: what comes behind byte {} is there before what comes behind byte {}, and this is no "
                            "file in which one can go back",
                            s.shown, offset, s.written),
                "write to a file, and copy it there");
  }
  const std::uint64_t begin = offset;
  for (std::span<const std::byte> left = bytes; !left.empty();) {
    const std::size_t most = std::min<std::size_t>(left.size(), 1u << 30);
    const ssize_t n =
        s.direct ? ::write(s.fd(), left.data(), most) : ::pwrite(s.fd(), left.data(), most, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && s.direct) {  // whoever made the pipe set it to not block
      pollfd ready{s.fd(), POLLOUT, 0};
      ::poll(&ready, 1, -1);
      continue;
    }
    if (n < 0) write_error(s.shown, s.file ? s.fd() : -1, left.size(), offset, errno);
    left = left.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  if (s.direct) {
    s.written = offset;
    return;
  }
#ifdef __linux__
  // So that little is left to flush in the end. Only a hint.
  constexpr std::size_t kWorthIt = std::size_t{1} << 20;
  if (bytes.size() >= kWorthIt) {
    ::sync_file_range(s.fd(), static_cast<off_t>(begin), static_cast<off_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
  }
#endif
}

void AtomicFile::finish() {
  State& s = *state_;
  if (s.direct) {
    // Some file systems report a failed write only here.
    if (s.direct->close() != 0) system_error(s.shown, "cannot write", errno, kCheckSpace);
    return;
  }
  if (::fsync(s.fd()) != 0) system_error(s.shown, "cannot write", errno, kCheckSpace);
  s.file.value().rename_to(s.target, s.shown);

  // Makes the rename itself last through a power cut. The file is whole either way, and not every file system can.
  const FileDescriptor directory(::open(s.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

const std::filesystem::path& AtomicFile::temporary() const noexcept {
  return state_->file ? state_->file->path() : state_->nothing;
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces) {
  AtomicFile file(path);
  std::uint64_t at = 0;
  for (std::span<const std::byte> piece : pieces) {
    file.write(at, piece);
    at += piece.size();
  }
  file.finish();
}

}  // namespace weft::io
