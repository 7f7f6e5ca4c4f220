// Writing a file so that nobody ever sees half of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace weft::io {

/// Replaces the content of `path` by the given pieces, one after another: writes a temporary file in the same
/// directory, flushes it to the disk, renames it. A symbolic link is followed, an existing file's permissions stay; a
/// pipe or device (/dev/stdout) has no content to protect and is written directly. Blocks until the data are on disk.
/// Throws Error{io_error} with the system's text, and then `path` is as before and no temporary is left.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces);

/// The same in parts: what was written appears under the path with finish(). One thread at a time.
class AtomicFile {
 public:
  /// Makes the temporary file, or opens the pipe or device. Throws as above.
  explicit AtomicFile(const std::filesystem::path& path);
  /// Removes the temporary file unless finish() returned.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Takes room for so many bytes, so that a full disk is known now; does nothing where the file system can't.
  void reserve(std::uint64_t size);
  /// Writes at a place, and starts to put it on the disk. Into a pipe or device only behind what was written before:
  /// Error{unsupported} else.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void finish();
  /// Empty for a pipe or device.
  const std::filesystem::path& temporary() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::io
