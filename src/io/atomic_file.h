// Writing a file so that nobody ever sees half of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace weft::io {

/// Replaces the content of `path` by the given pieces, one after another: writes a file without a name in the same
/// directory, flushes it to the disk, names it; nothing is left of it if the process is killed before. Where the file
/// system has no such files, a temporary one is renamed. A symbolic link is followed, an existing file's permissions
/// stay; a pipe, a device, or what this process has open already (/dev/stdout, /dev/fd/3, also where that is a file) is
/// written directly, from where it stands. Blocks until the data are on disk. Throws Error{io_error} with the system's
/// text, and then `path` is as before and no temporary is left.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces);

/// The same in parts: what was written appears under the path with finish(). One thread at a time.
class AtomicFile {
 public:
  enum class Temporary {
    unnamed_if_possible,
    named,  ///< for tests: as where the file system can't do without
  };
  /// Makes the file that takes the content, or opens what is written directly. Throws as above.
  explicit AtomicFile(const std::filesystem::path& path, Temporary how = Temporary::unnamed_if_possible);
  /// Removes what was written unless finish() returned.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Takes room for so many bytes, so that a full disk is known now; does nothing where the file system can't.
  void reserve(std::uint64_t size);
  /// Writes at a place, and starts to put it on the disk. What is written directly only behind what was written
  /// before: Error{unsupported} else.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void finish();
  /// The file to remove if the process is to end before finish(); empty where there is none: the file has no name yet,
  /// or is written directly.
  const std::filesystem::path& temporary() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::io
