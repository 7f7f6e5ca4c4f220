#include "io/own_descriptor.h"

#include <unistd.h>

#include <charconv>
#include <string>
#include <system_error>

namespace weft::io {
namespace {

/// Whether a folder, without links in its path, is one of those that list this process's open files.
bool lists_own_descriptors(const std::filesystem::path& folder) {
  if (folder == "/dev/fd") return true;  // a folder where it is no link to the ones below
  const std::string process = "/proc/" + std::to_string(::getpid());
  if (folder == process + "/fd") return true;
  const std::string text = folder.string();  // of /proc/thread-self: /proc/7/task/8/fd
  return text.starts_with(process + "/task/") && text.ends_with("/fd");
}

std::optional<int> number_of(const std::string& digits) {
  int number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

}  // namespace

std::optional<int> own_descriptor(const std::filesystem::path& path) {
  constexpr int kMaxLinks = 40;  // as Linux has it
  std::filesystem::path at = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    const std::filesystem::path folder =
        std::filesystem::canonical(at.has_parent_path() ? at.parent_path() : std::filesystem::path("."), error);
    if (error) return std::nullopt;
    if (lists_own_descriptors(folder)) return number_of(at.filename().string());
    const std::filesystem::path target = std::filesystem::read_symlink(at, error);
    if (error) return std::nullopt;
    at = folder / target;
  }
  return std::nullopt;
}

}  // namespace weft::io
