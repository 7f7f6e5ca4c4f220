#include "io/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

#include "io/malformed.h"

namespace weft::io {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

Memory read_all(int fd, std::size_t size, std::string_view name) {
  auto data = allocate(size, name);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, data.get() + done, std::min<std::size_t>(size - done, 1u << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) system_error(name, "cannot read", errno, "check the file and its file system");
    if (n == 0) malformed(name, "became shorter while it was read", "let the writer of the file finish first");
    done += static_cast<std::size_t>(n);
  }
  const std::span<const std::byte> bytes(data.get(), size);
  return {bytes, std::move(data), false};
}

}  // namespace

Memory map_file(const std::filesystem::path& path) {
  const std::string name = path.string();
  if (name.empty() || name.find('\0') != std::string::npos) {
    malformed(printable(name), "not a file name", "give the path of an array file");
  }
  // O_NONBLOCK: a pipe without a writer must not hang the open; it changes nothing for regular files.
  const FileDescriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    system_error(name, "cannot open", errno, errno == ENOENT ? "check the path" : "check the file's permissions");
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) system_error(name, "cannot open", errno, "check the file");
  if (S_ISDIR(info.st_mode)) system_error(name, "cannot read", EISDIR, "name a file in it");
  if (!S_ISREG(info.st_mode)) malformed(name, "not a regular file", "save the array to a file first");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return {};
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (at == MAP_FAILED) return read_all(file.get(), size, name);
  std::shared_ptr<const void> owner(at, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  return {{static_cast<const std::byte*>(at), size}, std::move(owner), true};
}

}  // namespace weft::io
