// A device's choices on disk, beside its compiled pipelines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "dispatch/tuning.h"

namespace weft::dispatch {

/// One file, in a folder of the device's identity (webgpu::device_identity), with a checksum, replaced by rename. A
/// file that is damaged, of another version of Weft or of this format, or that says what no table would, is removed and
/// counts as not there. Several processes may share it.
class TuningFile {
 public:
  /// Of all devices together; those that were used least lately go first.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20;

  TuningFile(std::filesystem::path root, const std::string& identity);
  /// In $XDG_CACHE_HOME/weft/tuning, else ~/.cache/weft/tuning. Nothing where WEFT_CACHE=0 or WEFT_CACHE_BYTES=0 turns
  /// the disk off, or there is no home. Throws Error{invalid_argument} when a variable is unusable.
  static std::optional<TuningFile> of(const std::string& identity);

  /// What is stored; makes no folder.
  TuningChoices load() const;
  /// Adds to what is stored, or replaces: choices that another process stored meanwhile stay. Throws Error{io_error}
  /// when the file can't be written.
  void merge(const TuningChoices& choices) const;
  /// Removes what is stored.
  void clear() const;

  /// The file's text, and back; nothing from a text that is not exactly that.
  static std::string to_text(const TuningChoices& choices);
  static std::optional<TuningChoices> from_text(std::string_view text);

 private:
  bool exists() const;

  std::filesystem::path root_;
  std::string name_;  // of the folder
};

}  // namespace weft::dispatch
