// Buffers as handles: identity, residency, owners, lengths, limits.
#include "weft/buffer.h"

#include <gtest/gtest.h>

#include <unordered_set>

#include "unit/core_helpers.h"
#include "unit/test_device.h"

namespace weft::testing {
namespace {

/// Another owner (D43). One for the whole program.
Device& other_device() {
  static Device device = Device::open();
  return device;
}

TEST(Buffer, A1_CopiesShareOneIdAndNewHandlesGetNewOnes) {
  Device& device = test_device();
  const Buffer a = device.alloc(100);
  const Buffer copy = a;
  const Buffer b = device.alloc(100);
  EXPECT_GE(a.id(), 1u);
  EXPECT_EQ(copy.id(), a.id());
  EXPECT_TRUE(copy == a);
  EXPECT_GT(b.id(), a.id());
  EXPECT_FALSE(a == b);
  EXPECT_NE(a.allocation_id(), b.allocation_id());
}

// A1, A14: recycled memory comes back as another buffer with the same allocation.
TEST(Buffer, A14_AllocationIdSurvivesThePool) {
  Device& device = test_device();
  device.trim();
  Buffer a = device.alloc(5000);
  const std::uint64_t id = a.id(), allocation = a.allocation_id();
  a = {};
  const Buffer again = device.alloc(4900);
  EXPECT_EQ(again.allocation_id(), allocation);
  EXPECT_NE(again.id(), id);
  EXPECT_EQ(again.size(), 4900u);
  EXPECT_FALSE(device.resident(id));
}

// A14, D1: destroyed memory never lends its id to new memory.
TEST(Buffer, A14_AllocationIdEndsWithTheMemory) {
  Device& device = test_device();
  std::unordered_set<std::uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(seen.insert(device.alloc(64).allocation_id()).second);
    device.trim();
  }
}

TEST(Buffer, A3_Resident) {
  Device& device = test_device();
  Buffer a = device.alloc(64);
  const std::uint64_t id = a.id();
  std::optional<Buffer> found = device.resident(id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id(), id);
  a = {};
  EXPECT_TRUE(device.resident(id));  // the found handle keeps it
  found.reset();
  EXPECT_FALSE(device.resident(id));
  EXPECT_FALSE(device.resident(0));
  EXPECT_FALSE(device.resident(UINT64_MAX));
}

TEST(Buffer, A7_RefNamesOwnerAndId) {
  Device& device = test_device();
  const Buffer a = device.alloc(64);
  const BufferRef ref = a.ref();
  EXPECT_EQ(ref.owner, device.id());
  EXPECT_EQ(ref.id, a.id());
  EXPECT_EQ(ref, (BufferRef{device.id(), a.id()}));
  EXPECT_NE(ref, (BufferRef{device.id() + 1, a.id()}));
  EXPECT_EQ(std::hash<BufferRef>()(ref), std::hash<BufferRef>()(a.ref()));
  EXPECT_NE(to_string(ref).find(std::to_string(ref.owner)), std::string::npos);
  EXPECT_NE(to_string(ref).find(std::to_string(ref.id)), std::string::npos);
  EXPECT_TRUE(device.resident(ref));
}

// A8, A9, A.9 (5): a native ref of a dead id is nothing; a foreign one is refused whatever its id.
TEST(Buffer, A9_5_ForeignOwnerRefused) {
  Device& device = test_device();
  EXPECT_FALSE(device.resident(BufferRef{device.id(), UINT64_MAX}));
  const BufferRef foreign{device.id() + 1000, 7};
  expect_error(error_of([&] { device.resident(foreign); }), ErrorCode::foreign_buffer,
               {std::to_string(device.id()), std::to_string(foreign.owner)});
}

// D43, case L09: another device is another owner, in every call that takes a buffer or a kernel.
TEST(Buffer, D43_L09_SecondDeviceIsAnotherOwner) {
  Device& device = test_device();
  Device& other = other_device();
  EXPECT_NE(device.id(), other.id());
  const Buffer a = upload_vector<float>(device, {1, 1, 1, 1});
  const Buffer b = upload_vector<float>(other, {2, 2, 2, 2});
  const Kernel neg = neg_kernel(other);
  const auto refused = [&](auto&& call) {
    const Error e = error_of(call);
    expect_error(e, ErrorCode::foreign_buffer,
                 {"device " + std::to_string(device.id()), "device " + std::to_string(other.id())});
  };
  std::byte out[4];
  refused([&] { neg(other.stream(), {{"x", a}, {"y", b}}, grid_for(4)); });
  refused([&] { neg(device.stream(), {{"x", a}, {"y", a}}, grid_for(4)); });
  refused([&] { other.read(a, 0, out); });
  refused([&] { other.read_async(a, 0, 4); });
  refused([&] { other.write(a, 0, out); });
  refused([&] { other.stream().copy(a, 0, b, 0, 4); });
  refused([&] { other.stream().copy(b, 0, a, 0, 4); });
  refused([&] { other.stream().clear(a, 0, 4); });
  refused([&] { other.resident(a.id()); });
  refused([&] { other.resident(a.ref()); });
  EXPECT_EQ(read_vector<float>(device, a, 4), std::vector<float>(4, 1));
  EXPECT_EQ(read_vector<float>(other, b, 4), std::vector<float>(4, 2));
}

TEST(Buffer, A12_EmptyAndMovedFromHandles) {
  Device& device = test_device();
  Buffer a = device.alloc(64);
  const Buffer moved = std::move(a);
  EXPECT_TRUE(moved);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): what is left is part of the contract
  const Buffer empty;
  EXPECT_EQ(empty.debug_string(), "Buffer(empty)");
  expect_error(error_of([&] { (void)empty.id(); }), ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([&] { (void)empty.size(); }), ErrorCode::invalid_argument);
  expect_error(error_of([&] { (void)empty.usage(); }), ErrorCode::invalid_argument);
  std::byte out[4];
  expect_error(error_of([&] { device.read(empty, 0, out); }), ErrorCode::invalid_argument, {"read", "empty"});
  expect_error(error_of([&] { device.write(empty, 0, out); }), ErrorCode::invalid_argument, {"write", "empty"});
}

TEST(Buffer, A13_DebugText) {
  const Buffer b = test_device().alloc(1000, Usage::storage | Usage::copy_src);
  EXPECT_EQ(b.debug_string(), "Buffer(id=" + std::to_string(b.id()) + ", size=1000, allocation_size=" +
                                  std::to_string(b.allocation_size()) + ", usage=storage|copy_src)");
  EXPECT_EQ(to_string(static_cast<Usage>(0)), "none");
}

// A16, A18, A22: lengths asked for and lengths made; usage is taken as it is.
TEST(Buffer, A22_AllocLengthsAndUsage) {
  Device& device = test_device();
  for (std::size_t n : {0u, 1u, 3u, 4u, 5u, 257u, 4096u, 4097u, 1u << 20}) {
    const Buffer b = device.alloc(n, Usage::storage | Usage::copy_src);
    EXPECT_EQ(b.size(), n);
    EXPECT_GE(b.allocation_size(), std::max<std::size_t>(n, 4));
    EXPECT_EQ(b.allocation_size() % 4, 0u);
    EXPECT_EQ(b.usage(), Usage::storage | Usage::copy_src);
    if (n >= 4096) {
      EXPECT_LE(b.allocation_size(), n + n / 4);
    }
  }
}

// Bits that WebGPU has and Usage lacks, such as those for mapping, and bits that nobody has: wgpu-native ends the
// process on some of them, and calls none at all a lack of memory.
TEST(Buffer, A22_UsagesThatAreNone) {
  Device& device = test_device();
  const auto refuses = [&](auto&& call) {
    expect_error(error_of(call), ErrorCode::invalid_argument, {"usage", "Usage"});
  };
  for (std::uint32_t bits : {0u, 0x1u, 0x2u, 0x10u, 0x20u, 0x200u, 0x400u, 0x80000000u, 0xffffffffu, 0x81u}) {
    refuses([&] { device.alloc(16, Usage(bits)); });
    if (bits == 0) continue;  // these add copy_dst
    refuses([&] { device.zeros_bytes(16, Usage(bits)); });
    refuses([&] { device.upload_bytes({}, Usage(bits)); });
    refuses([&] { device.upload_with(4, [](std::span<std::byte>) { FAIL(); }, Usage(bits)); });
  }
  for (Usage u : {Usage::copy_src, Usage::copy_dst, Usage::uniform, Usage::storage, Usage::indirect}) {
    EXPECT_EQ(device.alloc(16, u).usage(), u);
  }
}

// A19: the handle tells the usage that the buffer really has.
TEST(Buffer, A19_UploadAddsCopyDst) {
  Device& device = test_device();
  const Buffer b = upload_vector<unsigned char>(device, {1, 2, 3}, Usage::storage | Usage::copy_src);
  EXPECT_EQ(b.usage(), kDefaultUsage);
  EXPECT_EQ(b.size(), 3u);
  const Buffer filled = device.upload_with(3, [](std::span<std::byte>) {}, Usage::storage | Usage::copy_src);
  EXPECT_EQ(filled.usage(), kDefaultUsage);
}

// D12, A17: refused by name before any call to the driver; the process and the device go on.
TEST(Buffer, D12_OverLimit) {
  Device& device = test_device();
  const std::uint64_t limit = device.limits().max_buffer_size;
  EXPECT_EQ(limit % 4, 0u);  // D33
  const Stats before = device.stats();
  for (std::size_t n : {static_cast<std::size_t>(limit) + 1, std::size_t{1} << 63, SIZE_MAX}) {
    expect_error(error_of([&] { device.alloc(n); }), ErrorCode::out_of_range,
                 {std::to_string(n), "max_buffer_size", std::to_string(limit)});
    expect_error(error_of([&] { device.zeros_bytes(n); }), ErrorCode::out_of_range, {"max_buffer_size"});
    expect_error(error_of([&] { device.upload_with(n, [](std::span<std::byte>) { FAIL(); }); }),
                 ErrorCode::out_of_range, {"max_buffer_size"});
  }
  EXPECT_EQ(device.stats().pool_allocations, before.pool_allocations);
  EXPECT_EQ(device.stats().live_bytes, before.live_bytes);
  EXPECT_EQ(read_vector<int>(device, upload_vector<int>(device, {7}), 1), std::vector<int>{7});
}

// A15: a handle outlives nothing it needs: dropping it last is safe, and its bytes go back.
TEST(Buffer, A15_LiveBytesFollowTheHandles) {
  Device& device = test_device();
  const std::uint64_t live = device.stats().live_bytes;
  Buffer a = device.alloc(10000);
  EXPECT_EQ(device.stats().live_bytes, live + a.allocation_size());
  Buffer copy = a;
  a = {};
  EXPECT_EQ(device.stats().live_bytes, live + copy.allocation_size());
  copy = {};
  EXPECT_EQ(device.stats().live_bytes, live);
}

}  // namespace
}  // namespace weft::testing
