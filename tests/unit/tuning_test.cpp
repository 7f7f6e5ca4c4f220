// Choices of kernels in memory and on disk, without a device: what is stored comes back, what is wrong never does.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "dispatch/tuning.h"
#include "dispatch/tuning_file.h"
#include "unit/folder_test.h"
#include "webgpu/blob_cache.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft::dispatch {
namespace {

namespace fs = std::filesystem;

TuningKey key_of(std::string_view words) {
  TuningKey key;
  key.add(words);
  return key;
}

/// As an op asks; counts how often the candidates are wanted.
std::optional<TuningPlan> find(TuningTable& table, std::string_view key, const std::vector<TuningPlan>& candidates,
                               int* asked = nullptr) {
  return table.find(key_of(key), [&] {
    if (asked != nullptr) ++*asked;
    return candidates;
  });
}

TEST(SizeClass, IsTheNearestPowerOfTwoByRatio) {
  EXPECT_EQ(size_class(0), 0u);
  EXPECT_EQ(size_class(1), 0u);
  for (std::uint64_t n = 1; n < 5000; ++n) {
    EXPECT_EQ(size_class(n), static_cast<std::uint32_t>(std::lround(std::log2(static_cast<double>(n))))) << n;
  }
  for (std::uint32_t c = 0; c < 63; ++c) EXPECT_EQ(size_class(class_length(c)), c);
  EXPECT_EQ(size_class(UINT64_MAX), 63u);
}

TEST(TuningKey, IsWordsUpToABound) {
  TuningKey key;
  key.add("matmul").add("f32").add("m", 12).add("n", 4294967295u);
  EXPECT_EQ(key.text(), "matmul f32 m12 n4294967295");
  EXPECT_THROW(key.add(std::string(TuningKey::kMostBytes, 'x')), Error);
}

TEST(TuningPlan, HoldsABoundedNumberOfNumbers) {
  EXPECT_EQ((TuningPlan{1, 2}), (TuningPlan{1, 2}));
  EXPECT_NE((TuningPlan{1, 2}), (TuningPlan{1, 2, 0}));
  EXPECT_THROW((TuningPlan{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21}), Error);
}

TEST(TuningTable, GivesStoredPlansThatTheDeviceCanRun) {
  TuningTable table;
  EXPECT_FALSE(table.in_use());
  int asked = 0;
  EXPECT_EQ(find(table, "op a", {{1}}, &asked), std::nullopt);
  table.set("op a", {2, 3});
  table.set("op b", {7});
  table.set("op c", {});
  EXPECT_TRUE(table.in_use());
  EXPECT_EQ(table.size(), 3u);
  const std::vector<TuningPlan> candidates{{1}, {2, 3}, {4}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(find(table, "op a", candidates, &asked), (TuningPlan{2, 3}));
    EXPECT_EQ(find(table, "op b", candidates, &asked), std::nullopt);  // not a candidate: ignored
    EXPECT_EQ(find(table, "op c", candidates, &asked), std::nullopt);  // the op's own
    EXPECT_EQ(find(table, "op", candidates, &asked), std::nullopt);
  }
  EXPECT_EQ(asked, 3);  // once a stored plan
  EXPECT_EQ(table.uses(), 3u);
  table.set("op b", {4});  // judged anew
  EXPECT_EQ(find(table, "op b", candidates), (TuningPlan{4}));
  table.clear();
  EXPECT_FALSE(table.in_use());
  EXPECT_EQ(find(table, "op a", candidates), std::nullopt);
}

TEST(TuningTable, IsBounded) {
  TuningTable table;
  for (std::size_t i = 0; i < TuningTable::kMostChoices; ++i) EXPECT_TRUE(table.set("op " + std::to_string(i), {1}));
  EXPECT_FALSE(table.set("one more", {1}));
  EXPECT_TRUE(table.set("op 0", {2}));
  EXPECT_EQ(table.size(), TuningTable::kMostChoices);
}

TEST(TuningTrial, StandsBeforeTheTableOnItsThread) {
  TuningTable table, other;
  table.set("op a", {1});
  table.set("op b", {1});
  const std::vector<TuningPlan> candidates{{1}, {2}};
  {
    const TuningTrial trial(table, "op a", {2});
    EXPECT_TRUE(other.in_use());  // a thread that tries something
    EXPECT_EQ(find(other, "op a", candidates), std::nullopt);
    EXPECT_EQ(find(table, "op a", candidates), (TuningPlan{2}));
    EXPECT_EQ(find(table, "op b", candidates), (TuningPlan{1}));
    EXPECT_EQ(trial.uses(), 1u);
    std::thread([&] { EXPECT_EQ(find(table, "op a", candidates), (TuningPlan{1})); }).join();
    const TuningTrial own(table, "op a", {});
    EXPECT_EQ(find(table, "op a", candidates), std::nullopt);
    EXPECT_EQ(own.uses(), 1u);
  }
  EXPECT_FALSE(other.in_use());
  const TuningTrial notes(table);
  EXPECT_EQ(find(table, "op b", candidates), std::nullopt);
  EXPECT_EQ(find(table, "op a", {{5}}), std::nullopt);
  EXPECT_EQ(find(table, "op b", candidates), std::nullopt);
  ASSERT_EQ(notes.asked().size(), 2u);
  EXPECT_EQ(notes.asked()[0].key, "op b");
  EXPECT_EQ(notes.asked()[0].candidates, candidates);
  EXPECT_EQ(notes.asked()[1].key, "op a");
}

TEST(TuningTable, ThreadsReadWhileOthersWrite) {
  TuningTable table;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 2000; ++i) {
        const std::string key = "op " + std::to_string(i % 32);
        if (t < 2) {
          table.set(key, {i % 32, 1});
        } else if (const auto plan = find(table, key, {{i % 32, 1}})) {
          wrong += *plan != TuningPlan{i % 32, 1};
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(table.size(), 32u);
}

// -- on disk --------------------------------------------------------------------------------------------------------

class TuningFileTest : public testing::FolderTest {
 protected:
  const TuningChoices choices_{{"conv f32 cpu r5", {1, 2, 3}}, {"matmul f32 gpu m1", {}}, {"x", {0, 4294967295u}}};
};

TEST_F(TuningFileTest, WhatIsStoredComesBack) {
  const TuningFile file(root_, "device one");
  EXPECT_TRUE(file.load().empty());
  EXPECT_FALSE(fs::exists(root_));  // reading makes nothing
  file.merge(choices_);
  EXPECT_EQ(TuningFile(root_, "device one").load(), choices_);
  EXPECT_TRUE(TuningFile(root_, "device two").load().empty());
  file.merge({{"x", {9}}, {"y", {8}}});
  TuningChoices all = choices_;
  all["x"] = {9};
  all["y"] = {8};
  EXPECT_EQ(file.load(), all);
  file.clear();
  EXPECT_TRUE(file.load().empty());
  TuningFile(root_, "device three").clear();
}

TEST_F(TuningFileTest, DamageDropsTheTable) {
  const TuningFile file(root_, "device");
  file.merge(choices_);
  const fs::path path = only_file();
  const std::string good = contents(path);
  for (std::size_t n = 0; n < good.size(); ++n) {
    overwrite(path, good.substr(0, n));
    ASSERT_TRUE(file.load().empty()) << n;
    std::string bad = good;
    bad[n] = static_cast<char>(bad[n] ^ 1);
    overwrite(path, bad);
    ASSERT_TRUE(file.load().empty()) << n;
    ASSERT_FALSE(fs::exists(path)) << n;
  }
  overwrite(path, good);
  EXPECT_EQ(file.load(), choices_);
}

// A good checksum does not help a text of another version, or one that no table wrote.
TEST_F(TuningFileTest, OtherVersionsAndOtherTextsAreDropped) {
  const std::string good = TuningFile::to_text(choices_);
  ASSERT_EQ(TuningFile::from_text(good), choices_);
  EXPECT_EQ(TuningFile::from_text(TuningFile::to_text({})), TuningChoices());
  const std::string head = good.substr(0, good.find('\n') + 1);
  EXPECT_NE(head.find(std::string(version())), std::string::npos);
  for (const std::string& bad :
       {std::string(), head.substr(0, head.size() - 1), "weft tuning 0 " + std::string(version()) + "\n",
        std::string("weft tuning 1 0.0.0\n"), good.substr(0, good.size() - 1), head + "a = 1\na = 1\n", head + "a\n",
        head + " = 1\n", head + "a  b = 1\n", head + "a = x\n", head + "a =1\n", head + "a = 1 \n", head + "a = -1\n",
        head + "a = 4294967296\n", head + "a = 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21\n",
        head + "a=b = 1\n", head + "a\tb = 1\n", head + std::string(200, 'a') + " = 1\n", head + "\n"}) {
    EXPECT_EQ(TuningFile::from_text(bad), std::nullopt) << bad;
  }
  // The same through the file: it goes, and is written anew.
  const TuningFile file(root_, "device");
  file.merge(choices_);
  const std::string foreign = "weft tuning 0 other\nx = 1\n";
  webgpu::BlobCache blobs(root_, webgpu::BlobCache::folder_name("device"), 1 << 20);
  const std::string_view key = "choices";
  blobs.store(std::as_bytes(std::span(key)), std::as_bytes(std::span(foreign)));
  ASSERT_TRUE(blobs.load(std::as_bytes(std::span(key))));
  EXPECT_TRUE(file.load().empty());
  EXPECT_FALSE(blobs.load(std::as_bytes(std::span(key))));
  file.merge({{"x", {1}}});
  EXPECT_EQ(file.load(), (TuningChoices{{"x", {1}}}));
}

TEST_F(TuningFileTest, IsBoundedAndTheNewOnesStay) {
  const TuningFile file(root_, "device");
  TuningChoices many;
  for (std::size_t i = 0; i < TuningTable::kMostChoices; ++i) many["op " + std::to_string(i)] = {1};
  file.merge(many);
  file.merge({{"op z", {1}}, {"a", {2}}});
  const TuningChoices all = file.load();
  EXPECT_EQ(all.size(), TuningTable::kMostChoices);
  EXPECT_EQ(all.count("op z"), 1u);
  EXPECT_EQ(all.count("a"), 1u);
  EXPECT_LT(fs::file_size(only_file()), TuningFile::kMostBytes);
}

// Several processes tune at once: what each found is there afterwards, and no reader sees half a table.
TEST_F(TuningFileTest, ProcessesShareIt) {
  constexpr int kProcesses = 4, kChoices = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool good = true;
      try {
        const TuningFile file(root_, "device");
        std::size_t before = 0;
        for (int i = 0; i < kChoices; ++i) {
          file.merge({{"op " + std::to_string(p) + " " + std::to_string(i), {static_cast<std::uint32_t>(i)}}});
          const std::size_t now = file.load().size();
          good = good && now > before;
          before = now;
        }
      } catch (const std::exception&) {
        good = false;
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(TuningFile(root_, "device").load().size(), static_cast<std::size_t>(kProcesses * kChoices));
}

TEST_F(TuningFileTest, SaysWhenItCanNotBeWritten) {
  fs::create_directories(root_);
  overwrite(root_ / "file", "in the way");
  const TuningFile file(root_ / "file", "device");
  EXPECT_TRUE(file.load().empty());
  try {
    file.merge(choices_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io_error);
    EXPECT_NE(std::string(error.what()).find("Fix: "), std::string::npos);
  }
}

TEST_F(TuningFileTest, SettingsOfTheEnvironment) {
  setenv("XDG_CACHE_HOME", root_.c_str(), 1);
  unsetenv("WEFT_CACHE");
  unsetenv("WEFT_CACHE_BYTES");
  const auto file = TuningFile::of("device");
  ASSERT_TRUE(file);
  file->merge(choices_);
  EXPECT_EQ(only_file().parent_path().parent_path(), root_ / "weft" / "tuning");
  setenv("WEFT_CACHE", "0", 1);
  EXPECT_FALSE(TuningFile::of("device"));
  unsetenv("WEFT_CACHE");
  setenv("WEFT_CACHE_BYTES", "0", 1);
  EXPECT_FALSE(TuningFile::of("device"));
  unsetenv("WEFT_CACHE_BYTES");
  setenv("XDG_CACHE_HOME", "relative", 1);
  unsetenv("HOME");
  EXPECT_FALSE(TuningFile::of("device"));
}

}  // namespace
}  // namespace weft::dispatch
