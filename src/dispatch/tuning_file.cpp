#include "dispatch/tuning_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <span>
#include <system_error>
#include <thread>

#include "base/env.h"
#include "webgpu/blob_cache.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft::dispatch {
namespace {

namespace fs = std::filesystem;
using webgpu::BlobCache;

// Goes up when a key or a plan means something else than before. Choices of another version of Weft don't count either:
// its kernels may differ.
constexpr int kFormat = 2;

std::span<const std::byte> file_key() {
  static constexpr std::string_view kKey = "choices";
  return std::as_bytes(std::span(kKey));
}

std::string first_line() {
  return fmt::format("weft tuning {} {}", kFormat, version());
}

/// Held while a process reads, adds and writes. Where it can't be had in a second (no such file system, a process that
/// was stopped) work goes on without: at worst a choice that was stored meanwhile is lost.
class Lock {
 public:
  explicit Lock(const fs::path& path) : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    for (int i = 0; file_ >= 0 && i < 100 && flock(file_, LOCK_EX | LOCK_NB) != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~Lock() {
    if (file_ >= 0) close(file_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  const int file_;
};

/// A key as TuningKey makes them: words of printable ASCII, one blank between them, no '='.
bool is_key(std::string_view text) {
  if (text.empty() || text.size() > TuningKey::kMostBytes || text.front() == ' ' || text.back() == ' ') return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c < ' ' || c > '~' || c == '=' || (c == ' ' && text[i - 1] == ' ')) return false;
  }
  return true;
}

std::optional<TuningPlan> plan_of(std::string_view numbers) {
  TuningPlan plan;
  while (!numbers.empty()) {
    if (numbers.front() != ' ' || plan.count == TuningPlan::kMost) return std::nullopt;
    numbers.remove_prefix(1);
    std::uint32_t& value = plan.values[plan.count++];
    const auto [end, failure] = std::from_chars(numbers.data(), numbers.data() + numbers.size(), value);
    if (failure != std::errc()) return std::nullopt;
    numbers.remove_prefix(static_cast<std::size_t>(end - numbers.data()));
  }
  return plan;
}

}  // namespace

TuningFile::TuningFile(fs::path root, const std::string& identity)
    : root_(std::move(root)), name_(BlobCache::folder_name(identity)) {}

std::optional<TuningFile> TuningFile::of(const std::string& identity) {
  if (!env_flag("WEFT_CACHE").value_or(true) || env_bytes("WEFT_CACHE_BYTES") == std::uint64_t{0}) return std::nullopt;
  const fs::path root = BlobCache::default_root();
  if (root.empty()) return std::nullopt;
  return TuningFile(root / "tuning", identity);
}

bool TuningFile::exists() const {
  std::error_code failure;
  return fs::is_directory(root_ / name_, failure);
}

TuningChoices TuningFile::load() const {
  if (!exists()) return {};
  BlobCache files(root_, name_, kMostBytes);
  const auto bytes = files.load(file_key());
  if (!bytes) return {};
  auto choices = from_text({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (choices) return std::move(*choices);
  files.remove(file_key());
  return {};
}

void TuningFile::merge(const TuningChoices& choices) const {
  BlobCache files(root_, name_, kMostBytes);  // makes the folder
  const Lock lock(root_ / (name_ + ".lock"));
  TuningChoices all = load();
  for (const auto& [key, plan] : choices) all.insert_or_assign(key, plan);
  for (auto it = all.begin(); it != all.end() && all.size() > TuningTable::kMostChoices;) {
    it = choices.count(it->first) != 0 ? std::next(it) : all.erase(it);  // the new ones stay
  }
  const std::string text = to_text(all);
  files.store(file_key(), std::as_bytes(std::span(text)));
  if (load() == all) return;
  throw Error(ErrorCode::io_error, fmt::format("the choices can't be written to {}", (root_ / name_).string()),
              "make the folder writable, or name another by XDG_CACHE_HOME");
}

void TuningFile::clear() const {
  if (!exists()) return;
  const Lock lock(root_ / (name_ + ".lock"));
  BlobCache(root_, name_, kMostBytes).remove(file_key());
}

std::string TuningFile::to_text(const TuningChoices& choices) {
  std::string text = first_line() + "\n";
  for (const auto& [key, plan] : choices) {
    text += key + " =";
    for (std::uint32_t i = 0; i < plan.count; ++i) text += fmt::format(" {}", plan.values[i]);
    text += '\n';
  }
  return text;
}

std::optional<TuningChoices> TuningFile::from_text(std::string_view text) {
  const auto next_line = [&]() -> std::optional<std::string_view> {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
  };
  if (next_line() != std::string_view(first_line())) return std::nullopt;
  TuningChoices choices;
  while (!text.empty()) {
    const auto line = next_line();
    if (!line || choices.size() == TuningTable::kMostChoices) return std::nullopt;
    const std::size_t equals = line->find(" =");
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = line->substr(0, equals);
    const auto plan = plan_of(line->substr(equals + 2));
    if (!is_key(key) || !plan || !choices.emplace(key, *plan).second) return std::nullopt;
  }
  return choices;
}

}  // namespace weft::dispatch
