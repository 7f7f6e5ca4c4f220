// Opening devices: choice of adapter, limits, features, and what there is to say when there is none.
#include "weft/device.h"
#include "weft/ops.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "dispatch/state.h"
#include "unit/core_helpers.h"
#include "unit/test_device.h"
#include "webgpu/gpu.h"
#include "webgpu/implementation.h"

namespace weft::testing {
namespace {

TEST(Device, SaysWhatItIs) {
  const Device& device = test_device();
  EXPECT_GE(device.id(), 1u);
  EXPECT_FALSE(device.adapter().name.empty());
  EXPECT_FALSE(device.adapter().backend.empty());
  EXPECT_FALSE(device.lost());
  EXPECT_EQ(version(), "0.1.0");
  EXPECT_FALSE(implementation_name().empty());
  EXPECT_FALSE(implementation_version().empty());
  for (AdapterType t : {AdapterType::discrete, AdapterType::integrated, AdapterType::virtual_gpu, AdapterType::cpu}) {
    EXPECT_NE(to_string(t), "unknown");
  }
}

// C2: the device has what the adapter has; D33: sizes are multiples of 4.
TEST(Device, LimitsAreTheAdapters) {
  const Device& device = test_device();
  const Limits &l = device.limits(), &a = device.adapter().limits;
  EXPECT_EQ(l.max_buffer_size, a.max_buffer_size);
  EXPECT_EQ(l.max_storage_binding_size, a.max_storage_binding_size);
  EXPECT_EQ(l.max_workgroup_invocations, a.max_workgroup_invocations);
  EXPECT_EQ(l.max_buffer_size % 4, 0u);
  EXPECT_EQ(l.max_storage_binding_size % 4, 0u);
  EXPECT_GE(l.max_storage_buffers, 8u);
  EXPECT_GE(l.max_workgroups_per_dimension, 65535u);
  EXPECT_EQ(device.features().f16, device.adapter().features.f16);
  EXPECT_EQ(device.features().immediates, l.max_immediate_size > 0);
}

// D34: kernels index by u32, elements of one byte too, so no binding reaches past 2^32 bytes, whatever the adapter says
// (Metal's take whole gigabytes more); D33: sizes go down to a multiple of 4.
TEST(Device, D34_NoBindingPastAU32) {
  WGPULimits l = WGPU_LIMITS_INIT;
  l.maxBufferSize = (std::uint64_t{64} << 30) + 3;
  l.maxStorageBufferBindingSize = std::uint64_t{64} << 30;
  EXPECT_EQ(webgpu::to_limits(l).max_buffer_size, std::uint64_t{64} << 30);
  EXPECT_EQ(webgpu::to_limits(l).max_storage_binding_size, 4294967292u);
  l.maxStorageBufferBindingSize = std::uint64_t{1} << 32;
  EXPECT_EQ(webgpu::to_limits(l).max_storage_binding_size, 4294967292u);
  l.maxStorageBufferBindingSize = (std::uint64_t{1} << 31) - 1;
  EXPECT_EQ(webgpu::to_limits(l).max_storage_binding_size, 2147483644u);
}

// C9: every counter that a user sees counts what its name says.
TEST(Device, C9_CountersCount) {
  DeviceOptions o;
  o.pipelines = 3;
  o.bind_groups = 2;
  o.pool_bytes = 8192;
  o.tuning = TuningMode::off;
  Device device = Device::open(o);
  const Stats none = device.stats();
  EXPECT_EQ(none.dispatches + none.copies + none.submits + none.passes + none.uploads + none.reads + none.read_copies +
                none.bytes_uploaded + none.bytes_read + none.live_bytes + none.pool_allocations + none.pipeline_misses +
                none.bind_group_misses + none.staging_allocations + none.fused_ops + none.materialized + none.tuned_ops,
            0u);
  const Kernel neg = neg_kernel(device), again = neg_kernel(device);
  std::vector<Buffer> y(3);
  for (Buffer& b : y) b = device.alloc(64);
  const Buffer x = upload_vector(device, std::vector<float>(16, 2));
  for (const Buffer& b : y) neg(device.stream(), {{"x", x}, {"y", b}}, Grid{});
  neg(device.stream(), {{"x", x}, {"y", y[2]}}, Grid{});
  device.stream().copy(y[0], 0, y[1], 0, 64);
  EXPECT_EQ(read_vector<float>(device, y[1], 16), std::vector<float>(16, -2));
  EXPECT_EQ(read_vector<float>(device, y[2], 8), std::vector<float>(8, -2));
  Stats s = device.stats();
  EXPECT_EQ(s.dispatches, 4u);
  EXPECT_EQ(s.copies, 1u);
  EXPECT_EQ(s.passes, 1u);
  EXPECT_EQ(s.submits, 2u);
  EXPECT_EQ(s.uploads, 1u);
  EXPECT_EQ(s.bytes_uploaded, 64u);
  EXPECT_EQ(s.reads, 2u);
  EXPECT_EQ(s.read_copies, 2u);
  EXPECT_EQ(s.bytes_read, 96u);
  EXPECT_EQ(s.live_bytes, 256u);
  EXPECT_EQ(s.pool_allocations, 4u);
  EXPECT_EQ(s.staging_allocations, 1u);
  EXPECT_EQ(s.staging_hits, 1u);
  EXPECT_EQ(s.staging_bytes, 4096u);
  EXPECT_EQ(s.pipeline_misses, 1u);
  EXPECT_EQ(s.pipeline_hits, 1u);
  EXPECT_EQ(s.pipeline_entries, 1u);
  EXPECT_GT(s.compile_ms, 0);
  EXPECT_EQ(s.bind_group_misses, 3u);
  EXPECT_EQ(s.bind_group_hits, 1u);
  EXPECT_EQ(s.bind_group_evictions, 1u);
  EXPECT_EQ(s.bind_group_entries, 2u);
  y.clear();
  EXPECT_EQ(device.stats().pool_releases, 3u);
  EXPECT_EQ(device.stats().retained_bytes, 192u);
  EXPECT_EQ(device.stats().live_bytes, 64u);
  EXPECT_EQ(device.stats().peak_bytes, 256u);
  const Buffer hit = device.alloc(64);
  EXPECT_EQ(device.stats().pool_hits, 1u);
  device.trim();
  EXPECT_EQ(device.stats().pool_evictions, 2u);
  EXPECT_EQ(device.stats().retained_bytes, 0u);
  const Tensor t = arange(device, 0.0, 6.0, 1.0);
  const Tensor fused = (t + 1.0) * 2.0 - t;
  EXPECT_EQ(fused.to_host<float>()[5], 7.0f);
  softmax(t).to_host<float>();
  s = device.stats();
  EXPECT_GE(s.pipeline_evictions, 1u);
  EXPECT_EQ(s.pipeline_entries, 3u);
}

TEST(Device, AdapterByIndexAndName) {
  const auto adapters = Device::adapters();
  ASSERT_FALSE(adapters.empty());
  for (std::size_t i = 0; i < adapters.size(); ++i) EXPECT_EQ(adapters[i].index, i);
  for (const std::string& wish : {std::string("no such adapter"), std::to_string(adapters.size()), std::string("-1"),
                                  std::string("99999999999999999999999")}) {
    DeviceOptions o;
    o.adapter = wish;
    expect_error(error_of([&] { Device::open(o); }), ErrorCode::invalid_argument,
                 {"'" + wish + "'", adapters[0].name, "WEFT_ADAPTER"});
  }
}

// Decision 001 rests on this: what WebGPU finds wrong with a creation is there when the call returns, on its thread,
// and nowhere else.
TEST(Device, ErrorsComeOutOfTheFailingCall) {
  webgpu::Gpu& gpu = test_device().state()->gpu;
  run_threads(4, [&](unsigned t) {
    const std::string label = "thread " + std::to_string(t);
    for (int i = 0; i < 20; ++i) {
      expect_error(error_of([&] { gpu.create_module("fn broken( {", label, false); }), ErrorCode::compile_error,
                   {label});
      EXPECT_THROW(gpu.create_buffer(16, 0, false, label), Error);  // of no usage
      EXPECT_NO_THROW(gpu.create_buffer(16, static_cast<std::uint32_t>(Usage::storage), false, label));
      EXPECT_NO_THROW(gpu.create_module("@compute @workgroup_size(1) fn main() {}", label, false));
    }
  });
  EXPECT_FALSE(gpu.has_stray_errors());
}

// B5 (6), D38: an error that no call of Weft's was there for comes out of the next synchronize, once, whoever asks;
// what other threads compile meanwhile is not blamed.
TEST(Device, B5_6_StrayErrorsComeOutOfSynchronizeOnce) {
  Device device = Device::open();
  const Buffer b = device.zeros_bytes(64);
  device.synchronize();
  const std::array<std::byte, 4> bytes{};
  run_threads(2, [&](unsigned t) {
    for (int i = 0; i < 5; ++i) {
      if (t == 0) {
        device.state()->gpu.write_buffer(b.state()->allocation->buffer.get(), 1 << 20, bytes);  // far behind its end
      } else {
        neg_kernel(device);
        device.kernel({.source = "@compute @workgroup_size(1) fn main() { let x = " + std::to_string(i) + "; }"});
      }
    }
  });
  expect_error(error_of([&] { device.synchronize(); }), ErrorCode::internal, {"the device reported"});
  EXPECT_NO_THROW(device.synchronize());
  EXPECT_EQ(read_vector<float>(device, b, 16), std::vector<float>(16));
}

// D41, C2: the wish for power counts; among equals the larger binding; index and name choose whatever the class.
TEST(Device, D41_WhichAdapterIsChosen) {
  const auto candidate = [](std::size_t index, const char* name, AdapterType type, std::uint64_t binding) {
    webgpu::Candidate c;
    c.info.index = index;
    c.info.name = name;
    c.info.type = type;
    c.info.limits.max_storage_binding_size = binding;
    return c;
  };
  std::vector<webgpu::Candidate> all;
  all.push_back(candidate(0, "llvmpipe", AdapterType::cpu, 1 << 30));
  all.push_back(candidate(1, "Built In 7", AdapterType::integrated, 1 << 20));
  all.push_back(candidate(2, "Card small", AdapterType::discrete, 1 << 20));
  all.push_back(candidate(3, "Card large", AdapterType::discrete, 1 << 21));
  all.push_back(candidate(4, "Virtual", AdapterType::virtual_gpu, 1 << 21));
  const auto chosen = [&](const std::string& wish, PowerPreference power = PowerPreference::high_performance) {
    DeviceOptions o;
    o.adapter = wish;
    o.power = power;
    return webgpu::select_adapter(all, o);
  };
  EXPECT_EQ(chosen(""), 3u);
  EXPECT_EQ(chosen("", PowerPreference::low_power), 1u);
  EXPECT_EQ(chosen("2"), 2u);
  EXPECT_EQ(chosen("0", PowerPreference::low_power), 0u);
  EXPECT_EQ(chosen("built in"), 1u);
  EXPECT_EQ(chosen("CARD"), 2u);  // the first that matches
  expect_error(error_of([&] { chosen("5"); }), ErrorCode::invalid_argument, {"'5'", "Card large", "below 5"});
  EXPECT_LT(error_of([&] { chosen(std::string(100'000, 'x')); }).message().size(), 1000u);
  all.resize(2);
  EXPECT_EQ(chosen(""), 1u);
  all.resize(1);
  EXPECT_EQ(chosen(""), 0u);  // D42: a CPU device is one
}

// The variable counts where the options are silent.
TEST(Device, AdapterByEnvironment) {
  setenv("WEFT_ADAPTER", "no such adapter", 1);
  expect_error(error_of([] { Device::open(); }), ErrorCode::invalid_argument, {"'no such adapter'"});
  unsetenv("WEFT_ADAPTER");
}

// Case LM02: WebGPU's default limits, as a modest adapter has them, and no optional features; the core works.
TEST(Device, LM02_DefaultLimits) {
  DeviceOptions o;
  o.default_limits_only = true;
  o.allow_f16 = o.allow_subgroups = o.allow_immediates = o.allow_timestamps = false;
  o.adapter = "0";
  Device device = Device::open(o);
  const Limits& l = device.limits();
  EXPECT_EQ(l.max_storage_binding_size, std::uint64_t{128} << 20);
  EXPECT_EQ(l.max_buffer_size, std::uint64_t{256} << 20);
  EXPECT_EQ(l.max_workgroup_invocations, 256u);
  EXPECT_EQ(l.max_workgroup_size_x, 256u);
  EXPECT_EQ(l.max_workgroup_storage, 16384u);
  EXPECT_EQ(l.max_storage_buffers, 8u);
  EXPECT_EQ(l.max_immediate_size, 0u);
  EXPECT_FALSE(device.features().f16);
  EXPECT_FALSE(device.features().subgroups);
  EXPECT_FALSE(device.features().immediates);

  const Kernel matmul = matmul_kernel(device);
  const Buffer a = upload_vector<float>(device, {1, 2, 3, 4}), c = device.alloc(16);
  matmul(device.stream(), {{"a", a}, {"b", a}, {"c", c}}, MatmulParams{2, 2, 2, 2}, Grid{});
  EXPECT_EQ(read_vector<float>(device, c, 4), (std::vector<float>{14, 20, 30, 44}));
  // Features that are off are refused by name, and limits are those asked for.
  expect_error(error_of([&] {
                 device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> h: array<f16>;\n"
                                          "@compute @workgroup_size(1) fn main() { h[0] = 1h; }",
                                .label = "half"});
               }),
               ErrorCode::unsupported, {"half", "f16"});
  expect_error(error_of([&] {
                 device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                                          "@compute @workgroup_size(32) fn main() { y[0] = subgroupAdd(1u); }",
                                .label = "group sum"});
               }),
               ErrorCode::unsupported, {"group sum", "subgroups"});
  expect_error(
      error_of([&] { device.kernel({.source = "@compute @workgroup_size(512) fn main() {}", .label = "wide"}); }),
      ErrorCode::compile_error, {"wide", "512", "256"});
  expect_error(error_of([&] { device.alloc(l.max_buffer_size + 1); }), ErrorCode::out_of_range, {"268435456"});
  // A buffer over the binding limit exists, and is bound in windows only (D33).
  const Buffer big = device.alloc((std::size_t{128} << 20) + 256);
  const Kernel add = add_kernel(device);
  expect_error(error_of([&] { add(device.stream(), {{"y", big}}, AddParams{1, 1}, Grid{}); }), ErrorCode::out_of_range,
               {"'y'", "134217728"});
  device.stream().clear(big, std::size_t{128} << 20, 256);
  add(device.stream(), {{"y", BindingRange(big, std::size_t{128} << 20, 256)}}, AddParams{7, 64}, Grid{});
  EXPECT_EQ(read_vector<std::uint32_t>(device, big, 1, std::size_t{32} << 20)[0], 7u);
}

TEST(Device, LibraryKernelsOnly) {
  DeviceOptions o;
  o.library_kernels_only = true;
  o.adapter = "0";
  Device device = Device::open(o);
  expect_error(error_of([&] { add_kernel(device); }), ErrorCode::unsupported,
               {"library's kernels only", "library_kernels_only"});
  const Tensor x = arange(device, 0.0, 5.0, 1.0);
  EXPECT_EQ(read_vector<float>(device, (x * x + x).buffer(), 5), (std::vector<float>{0, 2, 6, 12, 20}));
}

TEST(Device, SubgroupMatrices) {
  const std::string source =
      "enable f16;\nenable chromium_experimental_subgroup_matrix;\n"
      "@group(0) @binding(0) var<storage, read_write> y: array<f16>;\n@compute @workgroup_size(32) fn main() {"
      " y[0] = 1h; }";
  for (const bool allowed : {true, false}) {
    DeviceOptions o;
    o.adapter = "0";
    o.allow_subgroup_matrices = allowed;
    Device device = Device::open(o);
    const bool there = allowed && !Device::adapters()[0].features.subgroup_matrices.empty();
    EXPECT_EQ(!device.features().subgroup_matrices.empty(), there);
    if (there) {
      EXPECT_EQ(device.kernel({.source = source, .label = "units"}).label(), "units");
    } else {
      expect_error(error_of([&] { device.kernel({.source = source, .label = "units"}); }), ErrorCode::unsupported,
                   {"units", "subgroup matrices"});
    }
  }
}

/// Runs in a process of its own, with no Vulkan driver: see LM09_NoAdapter.
TEST(Device, DISABLED_WithoutADriver) {
  EXPECT_TRUE(Device::adapters().empty());
  expect_error(error_of([] { Device::open(); }), ErrorCode::unsupported, {"no adapter", "Vulkan", "VK_DRIVER_FILES"});
}

/// This program again, as it was started (through Dawn's loader, too), with one test only and no driver to find.
int run_without_a_driver() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (std::size_t at = 0; at < all.size(); at += words.back().size() + 1) words.emplace_back(all.c_str() + at);
  std::erase_if(words, [](const std::string& w) { return w.starts_with("--gtest"); });
  words.insert(words.end(), {"--gtest_also_run_disabled_tests", "--gtest_filter=Device.DISABLED_WithoutADriver"});
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  // After fork only execve and what is safe in a signal handler: threads of the driver's may hold locks.
  std::vector<std::string> settings;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view s(*e);
    if (!s.starts_with("VK_") && !s.starts_with("GTEST_") && !s.starts_with("WEFT_ADAPTER=")) settings.emplace_back(s);
  }
  settings.insert(settings.end(), {"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"});
  std::vector<char*> environment;
  for (std::string& s : settings) environment.push_back(s.data());
  environment.push_back(nullptr);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const pid_t child = fork();
  if (child == 0) {
    execve(program.c_str(), argv.data(), environment.data());
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Case LM09.
TEST(Device, LM09_NoAdapter) {
  EXPECT_EQ(run_without_a_driver(), 0);
}

}  // namespace
}  // namespace weft::testing
