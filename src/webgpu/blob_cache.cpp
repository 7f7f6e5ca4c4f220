#include "webgpu/blob_cache.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <system_error>

#include "base/env.h"

namespace weft::webgpu {
namespace {

namespace fs = std::filesystem;

/// In front of each file, in this machine's byte order: a cache does not travel. Then the key, then the value.
struct Header {
  std::array<char, 8> magic;
  std::uint64_t key_size;
  std::uint64_t value_size;
  std::uint64_t checksum;  ///< XXH3 of all that follows
};
constexpr std::array<char, 8> kMagic{'w', 'e', 'f', 't', 'b', 'l', 'b', '1'};
constexpr std::string_view kUnfinished = ".tmp";

std::string hex128(const void* data, std::size_t size) {
  const XXH128_hash_t h = XXH3_128bits(data, size);
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

/// No other process, and no other thread of this one, uses it.
std::string unfinished_name(const std::string& name) {
  static const std::uint64_t process = (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  static std::atomic<std::uint64_t> count{0};
  return fmt::format("{}.{:016x}.{}{}", name, process, count.fetch_add(1), kUnfinished);
}

struct Found {
  fs::path path;
  std::uint64_t size;
  fs::file_time_type time;
};

/// Files two levels down; what vanishes while we look is left out.
std::vector<Found> files_under(const fs::path& root) {
  std::vector<Found> out;
  std::error_code failure;
  for (fs::directory_iterator folder(root, failure), end; !failure && folder != end; folder.increment(failure)) {
    std::error_code inner;
    if (!folder->is_directory(inner) || folder->is_symlink(inner)) continue;
    for (fs::directory_iterator file(folder->path(), inner); !inner && file != end; file.increment(inner)) {
      std::error_code gone;
      if (!file->is_regular_file(gone) || file->is_symlink(gone)) continue;
      const std::uint64_t size = file->file_size(gone);
      if (gone) continue;
      const fs::file_time_type time = file->last_write_time(gone);
      if (!gone) out.push_back({file->path(), size, time});
    }
  }
  return out;
}

}  // namespace

BlobCache::BlobCache(fs::path root, std::string_view name, std::uint64_t cap)
    : root_(std::move(root)), folder_(root_ / name), cap_(cap) {
  std::error_code failure;
  fs::create_directories(folder_, failure);
  usable_ = fs::is_directory(folder_, failure) && cap_ > 0;
  if (usable_) trim();
}

fs::path BlobCache::default_root() {
  // XDG Base Directory Specification: a relative path is to be ignored.
  const fs::path xdg = env_text("XDG_CACHE_HOME").value_or("");
  if (xdg.is_absolute()) return xdg / "weft";
  const fs::path home = env_text("HOME").value_or("");
  // Accounts without a home name a folder that is not there (Debian: /nonexistent): not ours to make.
  std::error_code failure;
  if (home.is_absolute() && fs::is_directory(home, failure)) return home / ".cache" / "weft";
  return {};
}

std::string BlobCache::folder_name(const std::string& identity) {
  return hex128(identity.data(), identity.size());
}

BlobCache* BlobCache::shared(const std::string& identity) {
  if (!env_flag("WEFT_CACHE").value_or(true)) return nullptr;
  const std::uint64_t cap = env_bytes("WEFT_CACHE_BYTES").value_or(kDefaultBytes);
  const fs::path root = default_root();
  if (root.empty() || cap == 0) return nullptr;
  static std::mutex mutex;
  static auto* all = new std::map<std::string, std::unique_ptr<BlobCache>>();
  const std::string name = folder_name(identity);
  const std::lock_guard lock(mutex);
  std::unique_ptr<BlobCache>& cache = (*all)[fmt::format("{}/{}/{}", root.string(), name, cap)];
  if (!cache) cache = std::make_unique<BlobCache>(root / "pipelines", name, cap);
  return cache->usable() ? cache.get() : nullptr;
}

fs::path BlobCache::file_of(std::span<const std::byte> key) const {
  return folder_ / hex128(key.data(), key.size());
}

std::optional<std::vector<std::byte>> BlobCache::load(std::span<const std::byte> key) noexcept try {
  if (!usable_) return std::nullopt;
  const fs::path path = file_of(key);
  std::error_code failure;
  const std::uint64_t size = fs::file_size(path, failure);
  if (failure) return std::nullopt;
  Header header{};
  std::vector<std::byte> rest;
  bool good = size >= sizeof header && size <= cap_;
  if (good) {
    std::ifstream in(path, std::ios::binary);
    in.read(reinterpret_cast<char*>(&header), sizeof header);
    rest.resize(size - sizeof header);
    in.read(reinterpret_cast<char*>(rest.data()), static_cast<std::streamsize>(rest.size()));
    good = in.good() && in.peek() == std::ifstream::traits_type::eof();
  }
  good = good && header.magic == kMagic && header.key_size == key.size() && header.key_size <= rest.size() &&
         header.value_size == rest.size() - header.key_size &&
         header.checksum == XXH3_64bits(rest.data(), rest.size()) && std::equal(key.begin(), key.end(), rest.begin());
  if (!good) {
    fs::remove(path, failure);
    return std::nullopt;
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), failure);
  rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(key.size()));
  return rest;
} catch (const std::exception&) {
  return std::nullopt;
}

void BlobCache::store(std::span<const std::byte> key, std::span<const std::byte> value) noexcept try {
  const std::uint64_t size = sizeof(Header) + key.size() + value.size();
  if (!usable_ || size > cap_) return;
  std::vector<std::byte> bytes(size);
  std::byte* const body = bytes.data() + sizeof(Header);
  std::copy(key.begin(), key.end(), body);
  std::copy(value.begin(), value.end(), body + key.size());
  const Header header{kMagic, key.size(), value.size(), XXH3_64bits(body, size - sizeof(Header))};
  std::memcpy(bytes.data(), &header, sizeof header);

  const fs::path path = file_of(key);
  const fs::path unfinished = folder_ / unfinished_name(path.filename().string());
  std::error_code failure;
  {
    std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(size));
    out.close();
    if (out) fs::rename(unfinished, path, failure);
    if (!out || failure) {
      fs::remove(unfinished, failure);
      return;
    }
  }
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    bytes_ += size;
    over = bytes_ > cap_;
  }
  if (over) trim();
} catch (const std::exception&) {
  // It is compiled anew next time.
}

void BlobCache::remove(std::span<const std::byte> key) noexcept try {
  std::error_code failure;
  fs::remove(file_of(key), failure);
} catch (const std::exception&) {
  // Out of memory: it stays.
}

void BlobCache::trim() {
  std::vector<Found> files = files_under(root_);
  std::uint64_t total = 0;
  for (const Found& f : files) total += f.size;
  std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) { return a.time < b.time; });
  // What a process that died left unfinished goes after an hour; a living one's is seconds old.
  const auto stale = fs::file_time_type::clock::now() - std::chrono::hours(1);
  // An eighth below the cap: at the cap itself each new file would list all others anew.
  const std::uint64_t goal = total > cap_ ? cap_ - cap_ / 8 : cap_;
  std::error_code failure;
  for (const Found& f : files) {
    const bool unfinished = f.path.extension() == kUnfinished;
    if (unfinished ? f.time >= stale : total <= goal) continue;
    fs::remove(f.path, failure);
    total -= f.size;
  }
  const std::lock_guard lock(mutex_);
  bytes_ = total;
}

}  // namespace weft::webgpu
