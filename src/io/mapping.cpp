#include "io/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>

#include "io/malformed.h"

namespace weft::io {
namespace {

constexpr std::string_view kLetFinish = "let the writer of the file finish first";

Memory read_all(const FileDescriptor& file, std::size_t size, std::string_view name) {
  auto data = allocate(size, name);
  read_at(file, 0, {data.get(), size}, name);
  const std::span<const std::byte> bytes(data.get(), size);
  return {bytes, std::move(data), false};
}

/// What is mapped; begin 0: free.
struct MappedRange {
  std::atomic<std::uintptr_t> begin{0}, end{0};
};
constinit std::array<MappedRange, 64> mapped;

void note_mapped(std::uintptr_t begin, std::size_t size) noexcept {
  for (MappedRange& range : mapped) {
    std::uintptr_t none = 0;
    if (!range.begin.compare_exchange_strong(none, begin)) continue;
    range.end = begin + size;
    return;
  }
}

void forget_mapped(std::uintptr_t begin) noexcept {
  for (MappedRange& range : mapped) {
    if (range.begin != begin) continue;
    range.end = 0;
    range.begin = 0;
    return;
  }
}

}  // namespace

bool in_mapped_file(const void* at) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return std::any_of(mapped.begin(), mapped.end(),
                     [&](const MappedRange& r) { return r.begin != 0 && address >= r.begin && address < r.end; });
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int FileDescriptor::close() noexcept {
  return ::close(std::exchange(fd_, -1));
}

void read_at(const FileDescriptor& file, std::uint64_t offset, std::span<std::byte> out, std::string_view name) {
  while (!out.empty()) {
    const ssize_t n =
        ::pread(file.get(), out.data(), std::min<std::size_t>(out.size(), 1u << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) system_error(name, "cannot read", errno, "check the file and its file system");
    if (n == 0) malformed(name, "became shorter while it was read", kLetFinish);
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

FileDescriptor open_regular(const std::filesystem::path& path) {
  const std::string name = path.string();
  if (name.empty() || name.find('\0') != std::string::npos) {
    malformed(printable(name), "not a file name", "give the path of an array file");
  }
  // O_NONBLOCK: a pipe without a writer must not hang the open; it changes nothing for regular files.
  FileDescriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    system_error(name, "cannot open", errno,
                 errno == EACCES ? "check the permissions of the file and its folders" : "check the path");
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) system_error(name, "cannot open", errno, "check the file");
  if (S_ISDIR(info.st_mode)) system_error(name, "cannot read", EISDIR, "name a file in it");
  if (!S_ISREG(info.st_mode)) {
    malformed(name, "not a regular file", "save the array to a file first, or pipe it into the standard input");
  }
  return file;
}

Memory map_file(const std::filesystem::path& path) {
  return map_file(open_regular(path), path);
}

Memory map_file(const FileDescriptor& file, const std::filesystem::path& path) {
  const std::string name = path.string();
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) system_error(name, "cannot open", errno, "check the file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return {};
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (at == MAP_FAILED) return read_all(file, size, name);
  note_mapped(reinterpret_cast<std::uintptr_t>(at), size);
  std::shared_ptr<const void> owner(at, [size](const void* p) {
    forget_mapped(reinterpret_cast<std::uintptr_t>(p));
    ::munmap(const_cast<void*>(p), size);
  });
  return {{static_cast<const std::byte*>(at), size}, std::move(owner), true};
}

}  // namespace weft::io
