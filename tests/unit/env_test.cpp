// Settings from the environment: a value that is there and can't be used is an error that names the variable.
#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "unit/core_helpers.h"

namespace weft::testing {
namespace {

using namespace std::chrono_literals;

/// Sets a variable for as long as it lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

constexpr const char* kName = "WEFT_TEST_SETTING";

TEST(Env, UnsetAndEmptyAreNothing) {
  EXPECT_EQ(env_text(kName), std::nullopt);
  const Setting s(kName, "");
  EXPECT_EQ(env_text(kName), std::nullopt);
  EXPECT_EQ(env_count(kName), std::nullopt);
  EXPECT_EQ(env_bytes(kName), std::nullopt);
  EXPECT_EQ(env_duration(kName), std::nullopt);
}

TEST(Env, Counts) {
  const std::pair<const char*, std::uint64_t> good[] = {{"0", 0}, {"1", 1}, {"18446744073709551615", UINT64_MAX}};
  for (const auto& [text, value] : good) {
    const Setting s(kName, text);
    EXPECT_EQ(env_count(kName), value) << text;
  }
  for (const char* text : {"-1", "+1", " 1", "1 ", "1.5", "K", "64K", "0x10", "x", "18446744073709551616"}) {
    const Setting s(kName, text);
    expect_error(error_of([] { env_count(kName); }), ErrorCode::invalid_argument, {kName, text});
  }
}

// As the command's --memory takes them.
TEST(Env, Bytes) {
  const std::pair<const char*, std::uint64_t> good[] = {
      {"0", 0},           {"1", 1},          {"64K", 65536},         {"3m", 3u << 20}, {"2G", std::uint64_t{2} << 30},
      {"1.5G", 3u << 29}, {"1KB", 1u << 10}, {"512MiB", 512u << 20}, {".5k", 1u << 9}, {"1e3", 1000}};
  for (const auto& [text, value] : good) {
    const Setting s(kName, text);
    EXPECT_EQ(env_bytes(kName), value) << text;
  }
  for (const char* text :
       {"-1", "+1", " 1", "1 ", "K", "1KX", "0x10", "nan", "inf", "x", "9223372036854775808", "99999999T"}) {
    const Setting s(kName, text);
    expect_error(error_of([] { env_bytes(kName); }), ErrorCode::invalid_argument, {kName, text, "1.5G"});
  }
}

TEST(Env, Flags) {
  EXPECT_EQ(env_flag(kName), std::nullopt);
  for (const auto& [text, value] : {std::pair{"0", false}, std::pair{"1", true}}) {
    const Setting s(kName, text);
    EXPECT_EQ(env_flag(kName), value);
  }
  for (const char* text : {"off", "no", "false", "2", " 0", "00"}) {
    const Setting s(kName, text);
    expect_error(error_of([] { env_flag(kName); }), ErrorCode::invalid_argument, {kName, text});
  }
}

TEST(Env, Durations) {
  const std::pair<const char*, std::chrono::nanoseconds> good[] = {
      {"0", 0ns}, {"30", 30s}, {"2.5", 2500ms}, {"500ms", 500ms}, {"30s", 30s}};
  for (const auto& [text, value] : good) {
    const Setting s(kName, text);
    EXPECT_EQ(env_duration(kName), value) << text;
  }
  for (const char* text : {"-1", "nan", "inf", "1e300", "5m", "s", "ms", "1 s", "30sec"}) {
    const Setting s(kName, text);
    expect_error(error_of([] { env_duration(kName); }), ErrorCode::invalid_argument, {kName, text});
  }
}

// The knobs of Device::open: refused before any adapter is looked for.
TEST(Env, BadDeviceSettingsAreRefused) {
  for (const char* name : {"WEFT_POOL_BYTES", "WEFT_BIND_GROUPS", "WEFT_PIPELINES", "WEFT_BATCH_DISPATCHES",
                           "WEFT_BATCH_BYTES", "WEFT_WAIT_TIMEOUT"}) {
    const Setting s(name, "many");
    expect_error(error_of([] { Device::open(); }), ErrorCode::invalid_argument, {name, "'many'"});
  }
  const Setting s("WEFT_WAIT_TIMEOUT", "-3");
  expect_error(error_of([] { Device::open(); }), ErrorCode::invalid_argument, {"WEFT_WAIT_TIMEOUT", "-3"});
}

// No time at all would fail every call that waits.
TEST(Env, NoWaitTimeIsRefused) {
  for (const char* text : {"0", "0ms", "0.0000000001"}) {
    const Setting s("WEFT_WAIT_TIMEOUT", text);
    expect_error(error_of([] { Device::open(); }), ErrorCode::invalid_argument, {"WEFT_WAIT_TIMEOUT"});
  }
  DeviceOptions options;
  options.wait_timeout = -1ns;
  expect_error(error_of([&] { Device::open(options); }), ErrorCode::invalid_argument, {"wait_timeout", "-1 ns"});
}

}  // namespace
}  // namespace weft::testing
