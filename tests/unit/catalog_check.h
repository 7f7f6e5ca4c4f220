// Every kernel that a family can choose compiles, at least so many as `more_than` says; keys name one text each.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/catalog.h"
#include "weft/device.h"
#include "weft/error.h"
#include "weft/kernel.h"

namespace weft::testing {

inline void expect_kernels_compile(Device& device, const ops::OpFamily& family, std::size_t more_than = 0) {
  EXPECT_FALSE(family.ops.empty());
  std::map<std::string, KernelOptions> by_key;
  family.visit_kernels(device, [&](std::string_view key, const KernelOptions& options) {
    const auto [it, added] = by_key.emplace(key, options);
    EXPECT_TRUE(it->second.source == options.source && it->second.entry_point == options.entry_point)
        << "two texts for " << key;
  });
  std::vector<std::string> keys;
  std::vector<KernelOptions> all;
  for (const auto& [key, options] : by_key) {
    keys.push_back(key);
    all.push_back(options);
  }
  EXPECT_GT(all.size(), more_than);
  const std::vector<PendingKernel> pending = device.prepare(all);
  for (std::size_t i = 0; i < pending.size(); ++i) {
    try {
      pending[i].get();
    } catch (const Error& e) {
      ADD_FAILURE() << keys[i] << ": " << e.what();
    }
  }
  ::testing::Test::RecordProperty("kernels", static_cast<int>(all.size()));
}

}  // namespace weft::testing
