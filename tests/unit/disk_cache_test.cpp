// Compiled pipelines on disk, through a device: a second one finds them, and damage never reaches a result. What holds
// where the implementation has no hook for it (wgpu-native) is that nothing is written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "unit/core_helpers.h"

namespace weft::testing {
namespace {

namespace fs = std::filesystem;

class DiskCache : public ::testing::Test {
 protected:
  void SetUp() override {
    home_ = fs::path(::testing::TempDir()) / ("weft_disk_cache_" + std::to_string(getpid()));
    fs::remove_all(home_);
    setenv("XDG_CACHE_HOME", home_.c_str(), 1);
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);  // it would look for the same folder after it is gone
    unsetenv("WEFT_CACHE");
    unsetenv("WEFT_CACHE_BYTES");
  }
  void TearDown() override { fs::remove_all(home_); }

  /// Weft's files and their sizes.
  std::map<fs::path, std::uint64_t> files() const {
    std::map<fs::path, std::uint64_t> out;
    if (!fs::exists(home_ / "weft")) return out;
    for (const auto& entry : fs::recursive_directory_iterator(home_ / "weft")) {
      if (entry.is_regular_file()) out[entry.path()] = entry.file_size();
    }
    return out;
  }
  /// What a fresh device, as a fresh process would have, computes with kernels `first` to `first` + 3.
  static std::vector<std::uint32_t> results(std::uint32_t first) {
    Device device = Device::open();
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = first; i < first + 4; ++i) {
      const Kernel k = device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
                                                "@compute @workgroup_size(1) fn main() { o[0] = " +
                                                std::to_string(i) + "u; }",
                                      .label = "on disk"});
      const Buffer o = device.alloc(4);
      k(device.stream(), {{"o", o}}, Grid{});
      out.push_back(read_vector<std::uint32_t>(device, o, 1)[0]);
    }
    return out;
  }

  fs::path home_;
};

TEST_F(DiskCache, ASecondDeviceFindsThem) {
  const std::vector<std::uint32_t> expected{10, 11, 12, 13};
  EXPECT_EQ(results(10), expected);
  const auto written = files();
  if (implementation_name() != "dawn") {
    EXPECT_TRUE(written.empty());
    return;
  }
  EXPECT_GE(written.size(), 4u);
  EXPECT_EQ(results(10), expected);
  EXPECT_EQ(files(), written);  // nothing compiled anew
  EXPECT_EQ(results(20), (std::vector<std::uint32_t>{20, 21, 22, 23}));
  EXPECT_GT(files().size(), written.size());
}

TEST_F(DiskCache, DamageIsAMiss) {
  const std::vector<std::uint32_t> expected{30, 31, 32, 33};
  EXPECT_EQ(results(30), expected);
  const auto written = files();
  int n = 0;
  for (const auto& [path, size] : written) {
    if (n++ % 2 == 0) {
      fs::resize_file(path, size / 2);
    } else {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(size) - 1);
      file.put('\x5a');
    }
  }
  EXPECT_EQ(results(30), expected);
  EXPECT_EQ(files(), written);  // healed
}

TEST_F(DiskCache, ItCanBeTurnedOffAndIsWhereThereIsNoFolder) {
  const std::vector<std::uint32_t> expected{40, 41, 42, 43};
  setenv("WEFT_CACHE", "0", 1);
  EXPECT_EQ(results(40), expected);
  EXPECT_TRUE(files().empty());
  unsetenv("WEFT_CACHE");
  fs::create_directories(home_);
  std::ofstream(home_ / "weft") << "in the way";
  EXPECT_EQ(results(40), expected);
}

}  // namespace
}  // namespace weft::testing
