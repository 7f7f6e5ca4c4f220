// Where a device's memory is, told in numbers, JSON and text.
#include "weft/memory_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "unit/core_helpers.h"
#include "unit/test_device.h"

namespace weft::testing {
namespace {

const MemoryClass* class_of(const MemoryReport& report, std::uint64_t size) {
  for (const MemoryClass& c : report.classes) {
    if (c.size == size) return &c;
  }
  return nullptr;
}

TEST(MemoryReport, FollowsABuffersLife) {
  Device& device = test_device();
  device.trim();
  const MemoryReport before = device.memory();
  EXPECT_EQ(before.retained_bytes, 0u);
  {
    // Two usages of one size are one class of the report.
    const Buffer a = device.alloc(5000), b = device.alloc(5000, Usage::storage), c = device.alloc(100'000);
    const std::uint64_t small = a.allocation_size(), large = c.allocation_size();
    const MemoryReport m = device.memory();
    EXPECT_EQ(m.live_bytes - before.live_bytes, 2 * small + large);
    EXPECT_EQ(m.allocations - before.allocations, 3u);
    ASSERT_NE(class_of(m, small), nullptr);
    EXPECT_EQ(class_of(m, small)->live, 2u);
    EXPECT_EQ(class_of(m, small)->retained, 0u);
    EXPECT_EQ(class_of(m, large)->live, 1u);
    EXPECT_GE(m.peak_bytes, m.live_bytes + m.retained_bytes);
  }
  const MemoryReport dropped = device.memory();
  EXPECT_EQ(dropped.live_bytes, before.live_bytes);
  EXPECT_EQ(dropped.releases - before.releases, 3u);
  EXPECT_LE(dropped.retained_bytes, dropped.cap_bytes);
  std::uint64_t sum = 0, previous = 0;
  for (const MemoryClass& c : dropped.classes) {
    EXPECT_GT(c.size, previous);  // by size
    EXPECT_GT(c.live + c.retained, 0u);
    previous = c.size;
    sum += c.size * c.retained;
  }
  EXPECT_EQ(sum, dropped.retained_bytes);
  EXPECT_TRUE(device.alloc(5000));
  EXPECT_EQ(device.memory().hits - before.hits, 1u);
  device.trim();
  const MemoryReport trimmed = device.memory();
  EXPECT_EQ(trimmed.retained_bytes, 0u);
  EXPECT_EQ(trimmed.staging_bytes, 0u);
  EXPECT_EQ(trimmed.evictions - before.evictions, 3u);
  EXPECT_EQ(trimmed.classes.size(), before.classes.size());
}

TEST(MemoryReport, CountsStaging) {
  Device& device = test_device();
  const Buffer b = upload_vector<int>(device, {1, 2, 3});
  device.trim();
  const MemoryReport before = device.memory();
  Readback r = device.read_async(b, 0, 12);
  EXPECT_EQ(device.memory().staging_bytes, 4096u);
  r.wait();
  EXPECT_EQ(device.memory().in_flight_bytes, 0u);
  r.cancel();
  device.read_as<int>(b);
  const MemoryReport after = device.memory();
  EXPECT_EQ(after.staging_allocations - before.staging_allocations, 1u);
  EXPECT_EQ(after.staging_hits - before.staging_hits, 1u);
  EXPECT_EQ(after.staging_bytes, 4096u);
  EXPECT_LE(after.staging_bytes, after.staging_cap_bytes);
}

TEST(MemoryReport, Json) {
  MemoryReport m;
  m.live_bytes = 1;
  m.retained_bytes = 2;
  m.cap_bytes = UINT64_MAX;
  m.peak_bytes = 3;
  m.staging_bytes = 4;
  m.staging_cap_bytes = 5;
  m.in_flight_bytes = 6;
  m.allocations = 7;
  m.hits = 8;
  m.releases = 9;
  m.evictions = 10;
  m.staging_allocations = 11;
  m.staging_hits = 12;
  m.classes = {{64, 1, 0}, {4096, 2, 3}};
  const nlohmann::json want = {
      {"live_bytes", 1},
      {"retained_bytes", 2},
      {"cap_bytes", UINT64_MAX},
      {"peak_bytes", 3},
      {"staging_bytes", 4},
      {"staging_cap_bytes", 5},
      {"in_flight_bytes", 6},
      {"allocations", 7},
      {"hits", 8},
      {"releases", 9},
      {"evictions", 10},
      {"staging_allocations", 11},
      {"staging_hits", 12},
      {"classes", {{{"size", 64}, {"live", 1}, {"retained", 0}}, {{"size", 4096}, {"live", 2}, {"retained", 3}}}}};
  EXPECT_EQ(nlohmann::json::parse(m.to_json()), want);
  EXPECT_EQ(nlohmann::json::parse(test_device().memory().to_json()).size(), want.size());
}

TEST(MemoryReport, Text) {
  MemoryReport m;
  m.live_bytes = 1536;
  m.cap_bytes = std::uint64_t{3} << 30;
  m.classes = {{512, 3, 4}};
  const std::string text = m.to_text();
  for (const char* part : {"1.5 KiB live", "at most 3.0 GiB", "512 B: 3 live, 4 retained"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace weft::testing
