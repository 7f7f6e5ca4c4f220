// The disk cache: what is stored comes back, and whatever is wrong with a file is a miss, not an error.
#include "webgpu/blob_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "unit/folder_test.h"
#include "weft/error.h"

namespace weft::webgpu {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string text(const std::optional<std::vector<std::byte>>& blob) {
  return blob ? std::string(reinterpret_cast<const char*>(blob->data()), blob->size()) : "(none)";
}

using BlobCacheTest = testing::FolderTest;

TEST_F(BlobCacheTest, WhatIsStoredComesBack) {
  const std::string zeros("a\0b", 3);
  {
    BlobCache cache(root_, "one", 1 << 20);
    ASSERT_TRUE(cache.usable());
    EXPECT_EQ(text(cache.load(bytes("key"))), "(none)");
    cache.store(bytes("key"), bytes("value"));
    cache.store(bytes("key"), bytes("other value"));
    cache.store(bytes(""), bytes("of the empty key"));
    cache.store(bytes(zeros), bytes(""));
  }
  BlobCache again(root_, "one", 1 << 20);
  EXPECT_EQ(text(again.load(bytes("key"))), "other value");
  EXPECT_EQ(text(again.load(bytes(""))), "of the empty key");
  EXPECT_EQ(text(again.load(bytes(zeros))), "");
  EXPECT_EQ(text(again.load(bytes("a"))), "(none)");
  EXPECT_EQ(text(BlobCache(root_, "two", 1 << 20).load(bytes("key"))), "(none)");  // another adapter's folder
}

// Every cut and every changed byte is a miss, and the file goes, so that the next store heals it.
TEST_F(BlobCacheTest, DamagedFilesAreMissesAndGo) {
  BlobCache cache(root_, "one", 1 << 20);
  cache.store(bytes("key"), bytes("value"));
  const fs::path file = only_file();
  const std::string good = contents(file);
  for (std::size_t n = 0; n < good.size(); ++n) {
    overwrite(file, good.substr(0, n));
    ASSERT_EQ(text(cache.load(bytes("key"))), "(none)") << n;
    ASSERT_FALSE(fs::exists(file)) << n;
    std::string bad = good;
    bad[n] = static_cast<char>(bad[n] ^ 0x10);
    overwrite(file, bad);
    ASSERT_EQ(text(cache.load(bytes("key"))), "(none)") << n;
    ASSERT_FALSE(fs::exists(file)) << n;
  }
  overwrite(file, good + "x");
  EXPECT_EQ(text(cache.load(bytes("key"))), "(none)");
  overwrite(file, good);
  EXPECT_EQ(text(cache.load(bytes("key"))), "value");
}

// The file of another key under this one's name, as a hash collision or a careless copy would put it.
TEST_F(BlobCacheTest, ForeignFilesAreMisses) {
  BlobCache cache(root_, "one", 1 << 20);
  cache.store(bytes("key"), bytes("value"));
  const fs::path file = only_file();
  const std::string foreign = contents(file);
  cache.store(bytes("yek"), bytes("other"));
  for (const fs::path& other : files()) {
    if (other != file) overwrite(other, foreign);
  }
  EXPECT_EQ(text(cache.load(bytes("yek"))), "(none)");
  EXPECT_EQ(text(cache.load(bytes("key"))), "value");
}

// D20: the cap that is documented is kept.
TEST_F(BlobCacheTest, TheOldestGoPastTheCap) {
  const std::string value(1000, 'v');
  BlobCache cache(root_, "one", 10'500);
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 10; ++i) {
    cache.store(bytes("key " + std::to_string(i)), bytes(value));
    for (const fs::path& f : files()) {  // a day between them: file systems round times
      if (fs::last_write_time(f) > now - std::chrono::hours(1)) {
        fs::last_write_time(f, now - std::chrono::hours(24 * (20 - i)));
      }
    }
  }
  EXPECT_EQ(files().size(), 10u);
  EXPECT_EQ(text(cache.load(bytes("key 0"))), value);  // young again
  cache.store(bytes("key 10"), bytes(value));
  cache.store(bytes("key 11"), bytes(value));
  EXPECT_EQ(text(cache.load(bytes("key 0"))), value);
  EXPECT_EQ(text(cache.load(bytes("key 1"))), "(none)");
  EXPECT_EQ(text(cache.load(bytes("key 2"))), "(none)");
  EXPECT_EQ(text(cache.load(bytes("key 3"))), "(none)");  // an eighth below the cap
  EXPECT_EQ(text(cache.load(bytes("key 4"))), value);
  EXPECT_EQ(text(cache.load(bytes("key 11"))), value);

  cache.store(bytes("big"), bytes(std::string(11'000, 'b')));  // more than the cap: not kept, and nothing goes for it
  EXPECT_EQ(text(cache.load(bytes("big"))), "(none)");
  EXPECT_EQ(text(cache.load(bytes("key 4"))), value);
  // The cap is over all folders, and a smaller one takes effect when the cache opens.
  EXPECT_TRUE(BlobCache(root_, "two", 3'200).usable());
  EXPECT_LE(files().size(), 3u);
}

TEST_F(BlobCacheTest, UnfinishedFilesGoWhenOld) {
  fs::create_directories(root_ / "one");
  overwrite(root_ / "one" / "old.1.tmp", "x");
  overwrite(root_ / "one" / "new.2.tmp", "x");
  fs::last_write_time(root_ / "one" / "old.1.tmp", fs::file_time_type::clock::now() - std::chrono::hours(2));
  const BlobCache cache(root_, "one", 1 << 20);
  EXPECT_EQ(only_file().filename(), "new.2.tmp");
}

// No folder to be had: off, without an error. (A file stands in the way: that stops root too.)
TEST_F(BlobCacheTest, NoFolderMeansOff) {
  fs::create_directories(root_);
  overwrite(root_ / "file", "x");
  BlobCache cache(root_ / "file", "one", 1 << 20);
  EXPECT_FALSE(cache.usable());
  cache.store(bytes("key"), bytes("value"));
  EXPECT_EQ(text(cache.load(bytes("key"))), "(none)");
  BlobCache gone(root_, "one", 1 << 20);
  ASSERT_TRUE(gone.usable());
  fs::remove_all(root_ / "one");
  gone.store(bytes("key"), bytes("value"));
  EXPECT_EQ(text(gone.load(bytes("key"))), "(none)");
}

// Threads stand in for processes: nothing but the files is shared between these objects.
TEST_F(BlobCacheTest, ManyWritersAndReaders) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 200;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      BlobCache cache(root_, "one", 20'000);  // small: files go while others read them
      for (int i = 0; i < kRounds; ++i) {
        const std::string key = "key " + std::to_string((i * 7 + t) % 16);
        const std::string value = key + std::string(static_cast<std::size_t>(2000 + i % 3), 'v');
        if (const auto found = cache.load(bytes(key))) {
          wrong += text(found).substr(0, key.size()) != key || found->size() < 2000;
        }
        cache.store(bytes(key), bytes(value));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  for (const fs::path& f : files()) EXPECT_NE(f.extension(), ".tmp") << f;
}

TEST_F(BlobCacheTest, SettingsOfTheEnvironment) {
  const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  set("XDG_CACHE_HOME", root_.string());
  unsetenv("WEFT_CACHE");
  unsetenv("WEFT_CACHE_BYTES");
  EXPECT_EQ(BlobCache::default_root(), root_ / "weft");
  BlobCache* cache = BlobCache::shared("dawn 1 lavapipe");
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(BlobCache::shared("dawn 1 lavapipe"), cache);
  cache->store(bytes("key"), bytes("value"));
  EXPECT_EQ(only_file().parent_path().parent_path(), root_ / "weft" / "pipelines");
  BlobCache* other = BlobCache::shared("dawn 2 lavapipe");
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(text(other->load(bytes("key"))), "(none)");
  set("WEFT_CACHE", "0");
  EXPECT_EQ(BlobCache::shared("dawn 1 lavapipe"), nullptr);
  unsetenv("WEFT_CACHE");
  set("WEFT_CACHE_BYTES", "0");
  EXPECT_EQ(BlobCache::shared("dawn 1 lavapipe"), nullptr);
  set("WEFT_CACHE_BYTES", "lots");
  EXPECT_THROW(BlobCache::shared("dawn 1 lavapipe"), Error);
  unsetenv("WEFT_CACHE_BYTES");
  set("XDG_CACHE_HOME", "relative");
  set("HOME", root_.string());
  EXPECT_EQ(BlobCache::default_root(), root_ / ".cache" / "weft");
  set("HOME", (root_ / "missing").string());
  EXPECT_EQ(BlobCache::default_root(), std::filesystem::path());
  EXPECT_FALSE(std::filesystem::exists(root_ / "missing"));
  unsetenv("HOME");
  EXPECT_EQ(BlobCache::shared("dawn 1 lavapipe"), nullptr);
}

}  // namespace
}  // namespace weft::webgpu
