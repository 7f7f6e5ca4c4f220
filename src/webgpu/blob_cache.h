// Compiled pipelines on disk, as an implementation's opaque blobs. A cache only: whatever goes wrong is a miss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::webgpu {

/// Blobs by key, one file each, in a folder that several processes may share. A file carries its key and an xxHash
/// checksum; one that is short, damaged or another's is removed and counts as not there. Files appear whole, by rename.
/// Past the cap an eighth of it goes, the oldest files of all folders beside this one first; a hit makes a file young.
/// Never throws after construction. Any thread.
class BlobCache {
 public:
  static constexpr std::uint64_t kDefaultBytes = std::uint64_t{256} << 20;

  /// `root`/`name` is the folder; made when it is not there. `cap` in bytes, over all folders in `root`.
  BlobCache(std::filesystem::path root, std::string_view name, std::uint64_t cap);

  /// The process's cache for `identity` (implementation, version, adapter, driver); null when it is off. Lives for
  /// ever: implementations call back late. WEFT_CACHE=0 turns it off, WEFT_CACHE_BYTES sets the cap; it is also off
  /// where there is no folder to write to. Throws Error{invalid_argument} when a variable is unusable.
  static BlobCache* shared(const std::string& identity);
  /// The name of the folder for `identity`.
  static std::string folder_name(const std::string& identity);
  /// $XDG_CACHE_HOME/weft, else ~/.cache/weft; empty when neither is known.
  static std::filesystem::path default_root();

  /// False when the folder can't be made or read.
  bool usable() const noexcept { return usable_; }
  std::optional<std::vector<std::byte>> load(std::span<const std::byte> key) noexcept;
  void store(std::span<const std::byte> key, std::span<const std::byte> value) noexcept;
  void remove(std::span<const std::byte> key) noexcept;

 private:
  std::filesystem::path file_of(std::span<const std::byte> key) const;
  void trim();

  const std::filesystem::path root_;
  const std::filesystem::path folder_;
  const std::uint64_t cap_;
  bool usable_ = false;
  std::mutex mutex_;         // of the sum below
  std::uint64_t bytes_ = 0;  // what this process believes is there, over all folders
};

}  // namespace weft::webgpu
