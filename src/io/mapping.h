// Whole files as memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "io/memory.h"

namespace weft::io {

/// Maps a regular file read-only (an empty one gives no bytes); reads it into memory where the file system cannot map.
/// The length is taken once, when the file is opened: a file that another process cuts short afterwards raises SIGBUS
/// on access, as with any mapping, so writers must replace files and not truncate them (save_npy replaces). Throws
/// Error{io_error} with the system's text for a missing or unreadable file, a directory, a pipe or a device.
Memory map_file(const std::filesystem::path& path);

/// Whether `at` lies in a file that map_file has mapped now (of the first 64). For handlers of SIGBUS: takes no lock,
/// allocates nothing.
bool in_mapped_file(const void* at) noexcept;

/// An open file; closed with the object.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor();
  int get() const noexcept { return fd_; }
  /// As close(2).
  int close() noexcept;

 private:
  int fd_;
};
/// The two halves of map_file, for who reads parts of the file too.
FileDescriptor open_regular(const std::filesystem::path& path);
Memory map_file(const FileDescriptor& file, const std::filesystem::path& path);
/// Bytes [offset, offset + out.size()) of the file, past the mapping: Error{io_error} when it has become shorter.
void read_at(const FileDescriptor& file, std::uint64_t offset, std::span<std::byte> out, std::string_view name);

}  // namespace weft::io
