// Bytes to and from device memory.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>

#include "dispatch/state.h"
#include "memory/memory.h"
#include "memory/upload_staging.h"
#include "unit/core_helpers.h"
#include "unit/test_device.h"
#include "webgpu/encoder.h"

namespace weft::testing {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<unsigned char>;

Bytes pattern(std::size_t n) {
  Bytes out;
  out.reserve(n);
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<unsigned char>(i % 251));
  return out;
}

Bytes read_bytes(Device& device, const Buffer& b, std::size_t offset, std::size_t n) {
  return read_vector<unsigned char>(device, b, n, offset);
}

void write_bytes(Device& device, const Buffer& b, std::size_t offset, const Bytes& bytes) {
  device.write(b, offset, bytes_of(bytes));
}

// A.9 (3), A20; the larger ones take the ring of staging buffers and reads in pieces.
TEST(Transfer, A9_3_RoundTrips) {
  Device& device = test_device();
  for (std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{4}, std::size_t{5}, std::size_t{257},
                        (std::size_t{1} << 20) + 3, (std::size_t{2} << 20) + 1, (std::size_t{33} << 20) + 7}) {
    const Bytes want = pattern(n);
    const Buffer b = upload_vector(device, want);
    EXPECT_EQ(b.size(), n);
    EXPECT_TRUE(read_bytes(device, b, 0, n) == want) << n;
    const Buffer filled = device.upload_with(n, [&](std::span<std::byte> to) {
      ASSERT_EQ(to.size(), n);
      std::memcpy(to.data(), want.data(), n);
    });
    EXPECT_TRUE(read_bytes(device, filled, 0, n) == want) << n;
  }
}

// A large read that starts and ends inside words, over several pieces.
TEST(Transfer, LargeUnalignedRange) {
  Device& device = test_device();
  const std::size_t n = (std::size_t{20} << 20) + 11;
  const Bytes all = pattern(n);
  const Buffer b = upload_vector(device, all);
  const Bytes got = read_bytes(device, b, 3, n - 5);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), all.begin() + 3));
}

// A21.
TEST(Transfer, A21_Nothing) {
  Device& device = test_device();
  const Buffer b = device.upload_bytes({});
  EXPECT_EQ(b.size(), 0u);
  EXPECT_GE(b.allocation_size(), 4u);
  EXPECT_TRUE(read_bytes(device, b, 0, 0).empty());
  device.write(b, 0, {});
  const Buffer filled = device.upload_with(0, [](std::span<std::byte> to) { EXPECT_TRUE(to.empty()); });
  EXPECT_EQ(filled.size(), 0u);
  EXPECT_TRUE(device.read_async(b, 0, 0).view().empty());
}

// A19, A24: past the end of the data, inside its last word, a kernel finds zeros.
TEST(Transfer, A24_TailOfTheLastWordIsZero) {
  Device& device = test_device();
  const Kernel copy = device.kernel({.source = R"(
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1) fn main() { y[0] = arrayLength(&x); y[1] = x[arrayLength(&x) - 1]; })",
                                     .label = "last word"});
  const Buffer y = device.alloc(8);
  for (std::size_t n : {1u, 2u, 3u, 5u, 6u, 7u, 61u}) {
    device.upload_bytes(std::vector<std::byte>(n + 4, std::byte{0xee}));  // dirties what comes back from the pool
    const Buffer x = upload_vector(device, Bytes(n, 0x11));
    copy(device.stream(), {{"x", x}, {"y", y}}, Grid{});
    const auto got = read_vector<std::uint32_t>(device, y, 2);
    EXPECT_EQ(got[0], (n + 3) / 4);
    EXPECT_EQ(got[1], 0x11111111u >> (8 * ((4 - n % 4) % 4))) << n;
  }
}

// A25, A.9 (4): mapped memory is zero at first and exactly as long as asked for.
TEST(Transfer, A9_4_UploadWithGetsZerosOfTheRightLength) {
  Device& device = test_device();
  const Buffer b = device.upload_with(8, [](std::span<std::byte> to) {
    EXPECT_EQ(to.size(), 8u);
    for (std::byte v : to) EXPECT_EQ(v, std::byte{0});
    std::memset(to.data(), 7, 5);
  });
  EXPECT_EQ(read_bytes(device, b, 0, 8), (Bytes{7, 7, 7, 7, 7, 0, 0, 0}));
}

// A49.
TEST(Transfer, A49_ThrowingFill) {
  Device& device = test_device();
  expect_error(error_of([&] { device.upload_with(4, nullptr); }), ErrorCode::invalid_argument, {"empty"});
  const Stats before = device.stats();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(device.upload_with(1000, [](std::span<std::byte>) { throw std::runtime_error("read error"); }),
                 std::runtime_error);
  }
  EXPECT_EQ(device.stats().live_bytes, before.live_bytes);
  EXPECT_EQ(device.stats().uploads, before.uploads);
  // The memory went to the pool unmapped: it can be used at once.
  const Buffer b = upload_vector(device, pattern(1000));
  EXPECT_EQ(read_bytes(device, b, 0, 1000), pattern(1000));
}

// A28, the whole table.
TEST(Transfer, A28_RangesOfFiveBytes) {
  Device& device = test_device();
  const Buffer b = upload_vector(device, Bytes{1, 2, 3, 4, 5});
  EXPECT_EQ(read_bytes(device, b, 0, 5), (Bytes{1, 2, 3, 4, 5}));
  EXPECT_EQ(read_bytes(device, b, 1, 4), (Bytes{2, 3, 4, 5}));
  EXPECT_EQ(read_bytes(device, b, 3, 2), (Bytes{4, 5}));
  EXPECT_EQ(read_bytes(device, b, 4, 1), (Bytes{5}));
  EXPECT_EQ(read_bytes(device, b, 5, 0), (Bytes{}));
  EXPECT_EQ(read_bytes(device, b, 2, 1), (Bytes{3}));
  expect_error(error_of([&] { read_bytes(device, b, 4, 2); }), ErrorCode::out_of_range, {"4", "6", "5"});
  expect_error(error_of([&] { read_bytes(device, b, SIZE_MAX, 2); }), ErrorCode::out_of_range,
               {"18446744073709551615 + 2"});
}

TEST(Transfer, A28_Plan) {
  const Buffer b = test_device().alloc(1000);
  const auto plan = [&](std::uint64_t offset, std::uint64_t size) {
    return memory::plan_read(*b.state(), offset, size);
  };
  EXPECT_EQ(plan(0, 1000).copy_size, 1000u);
  EXPECT_EQ(plan(7, 1).copy_offset, 4u);
  EXPECT_EQ(plan(7, 1).trim, 3u);
  EXPECT_EQ(plan(7, 1).copy_size, 4u);
  EXPECT_EQ(plan(7, 2).copy_size, 8u);
  EXPECT_EQ(plan(8, 5).copy_size, 8u);
}

// A26, A30: one read, through whichever call, is one copy of the aligned range, one submit, one staging buffer.
TEST(Transfer, A30_OneCopyOneSubmitOneStagingBuffer) {
  Device& device = test_device();
  const Buffer b = upload_vector(device, pattern(10'000));
  device.synchronize();
  device.trim();
  Bytes out(100);
  const auto span = std::as_writable_bytes(std::span(out));
  const auto costs = [&](auto&& call, std::uint64_t staging_buffers) {
    const Stats before = device.stats();
    call();
    const Stats after = device.stats();
    EXPECT_EQ(after.submits - before.submits, 1u);
    EXPECT_EQ(after.read_copies - before.read_copies, 1u);
    EXPECT_EQ(after.reads - before.reads, 1u);
    EXPECT_EQ(after.bytes_read - before.bytes_read, 100u);
    EXPECT_EQ(after.staging_allocations - before.staging_allocations, staging_buffers);
    const Bytes all = pattern(10'000);
    EXPECT_EQ(out, Bytes(all.begin() + 4001, all.begin() + 4101));
    out.assign(100, 0);
  };
  costs([&] { device.read(b, 4001, span); }, 1);
  costs([&] { out = device.read_as<unsigned char>(b, 4001, 100); }, 0);  // A36: it was handed back
  costs([&] { std::memcpy(out.data(), device.read_async(b, 4001, 100).view().data(), 100); }, 0);
  const ReadRange range{b, 4001, std::as_writable_bytes(std::span(out))};
  costs([&] { device.read_ranges(std::span(&range, 1)); }, 0);
  // Nothing asked for, nothing done (A27).
  const Stats before = device.stats();
  device.read(b, 5, {});
  EXPECT_EQ(device.stats().submits, before.submits);
}

// A27: usage first, then the sum, then the end; nothing asked for comes after these.
TEST(Transfer, A27_OrderOfChecks) {
  Device& device = test_device();
  const Buffer no_source = device.alloc(8, Usage::storage | Usage::copy_dst);
  const auto usage = [&](std::size_t offset, std::size_t n) {
    expect_error(error_of([&] { device.read_async(no_source, offset, n); }), ErrorCode::invalid_argument, {"copy_src"});
  };
  usage(0, 0);
  usage(SIZE_MAX, 2);
  usage(0, 100);
  const Buffer b = device.alloc(8);
  expect_error(error_of([&] { device.read_async(b, SIZE_MAX, 2); }), ErrorCode::out_of_range, {"64 bits"});
  expect_error(error_of([&] { device.read_async(b, 9, 0); }), ErrorCode::out_of_range);
  EXPECT_TRUE(device.read_async(b, 8, 0).ready());
  // The logical end counts, not that of the allocation (D37).
  EXPECT_GT(b.allocation_size(), 9u);
  expect_error(error_of([&] { device.read_async(b, 0, 9); }), ErrorCode::out_of_range);
}

// A29: each sum and product on the way is checked; the error says which, with the numbers.
TEST(Transfer, A29_SumsThatOverflowAreNamed) {
  Device& device = test_device();
  const Buffer b = upload_vector(device, pattern(64));
  Bytes out(8, 0xaa);
  const auto span = std::as_writable_bytes(std::span(out));
  constexpr std::size_t kFar = SIZE_MAX - 3;
  const auto refused = [&](std::initializer_list<std::string_view> parts, auto&& call) {
    const Error e = error_of(call);
    expect_error(e, ErrorCode::out_of_range, parts);
    expect_error(e, ErrorCode::out_of_range, {"split the work"});
  };
  const std::string_view read_sum = "read: offset + size: 18446744073709551612 + 8";
  refused({read_sum}, [&] { device.read(b, kFar, span); });
  refused({read_sum}, [&] { device.read_async(b, kFar, 8); });
  const ReadRange range{b, kFar, span};
  refused({read_sum}, [&] { device.read_ranges(std::span(&range, 1)); });
  refused({"write: offset + size: 18446744073709551612 + 8"}, [&] { device.write(b, kFar, span); });
  refused({"copy: 18446744073709551612 + 8"}, [&] { device.stream().copy(b, kFar, device.alloc(8), 0, 8); });
  refused({"clear: 18446744073709551612 + 8"}, [&] { device.stream().clear(b, kFar, 8); });
  refused({"read: first element * element size: 2305843009213693952 * 8"},
          [&] { device.read_as<std::uint64_t>(b, std::size_t{1} << 61, 1); });
  refused({"read: elements * element size: 4611686018427387904 * 4"},
          [&] { device.read_as<float>(b, 0, std::size_t{1} << 62); });
  EXPECT_EQ(out, Bytes(8, 0xaa));
}

// A35, A36: a mapping that fails is an error with the implementation's reason, and its staging buffer never comes back.
TEST(Transfer, A35_AMappingThatFails) {
  Device& device = test_device();
  const Buffer b = upload_vector(device, pattern(5000));
  device.synchronize();
  device.trim();
  memory::StagingPool& pool = device.state()->memory->staging();
  auto staging = pool.acquire(5000);
  const WGPUBuffer taken = staging->buffer.get();
  pool.release(std::move(staging));
  const std::uint64_t bytes = pool.stats().bytes;
  {
    Readback read = device.read_async(b, 0, 5000);
    ASSERT_EQ(pool.stats().bytes, bytes);  // that very buffer (A38)
    device.state()->gpu.unmap(taken);      // ends the mapping that is under way
    expect_error(error_of([&] { read.wait({60s}); }), ErrorCode::internal,
                 {"read of 5000 bytes", "mapping the staging buffer failed: ", "copy_src", "map_read", "read again"});
    expect_error(error_of([&] { read.view(); }), ErrorCode::internal);
  }
  device.trim();
  EXPECT_EQ(pool.stats().bytes, 0u);
  EXPECT_EQ(read_bytes(device, b, 0, 5000), pattern(5000));
}

// A23: the implementation's own messages name what is Weft's; each maker of buffers has its label.
TEST(Transfer, A23_Labels) {
  Device& device = test_device();
  webgpu::Gpu& gpu = device.state()->gpu;
  memory::StagingPool staging(gpu, 1 << 20);
  std::atomic<std::uint64_t> counted{0};
  const auto names = [&](std::string_view label, auto&& make) {
    gpu.fail_creations(2);
    expect_error(error_of(make), ErrorCode::out_of_memory, {label});
    gpu.fail_creations(0);
  };
  device.trim();
  names("'weft.buffer'", [&] { device.alloc(64); });
  names("'weft.buffer'", [&] { device.upload_with(64, [](std::span<std::byte>) {}); });
  names("'weft.staging'", [&] { staging.acquire(64); });
  names("'weft.upload'", [&] { memory::UploadStaging(gpu, 64, counted); });
  // A buffer without the usage that is asked of it: what WebGPU has to say names it as it was labelled.
  const webgpu::LayoutEntry entry{0, webgpu::BindingType::storage, 0};
  const webgpu::BindGroupLayout layout = gpu.create_layout(std::span(&entry, 1), "a layout");
  const auto held = staging.acquire(64);
  const Buffer plain = device.alloc(64, Usage::copy_src | Usage::copy_dst);
  const auto bound = [&](WGPUBuffer buffer) {
    const webgpu::GroupEntry group{0, buffer, 0, 64};
    return error_of([&] { gpu.create_bind_group(layout.get(), std::span(&group, 1), "a group"); });
  };
  expect_error(bound(held->buffer.get()), ErrorCode::internal, {"a group", "weft.staging"});
  expect_error(bound(plain.state()->allocation->buffer.get()), ErrorCode::internal, {"a group", "weft.buffer"});
  // A stream's encoder, too; wgpu-native does not tell its name.
  device.stream().clear(plain, 0, 64);
  webgpu::Encoder& encoder = device.state()->default_stream->encoder;
  webgpu::copy(encoder, plain.state()->allocation->buffer.get(), 0, held->buffer.get(), 0, 1 << 20);
  const Error spoiled = error_of([&] { device.stream().submit(); });
  expect_error(spoiled, ErrorCode::internal, {"submitting work of 'weft.stream'"});
  if (implementation_name() == "dawn") expect_error(spoiled, ErrorCode::internal, {"CommandEncoder \"weft.stream\""});
}

// D31: zeros are one clear on the device, whatever their number: nothing goes through the queue.
TEST(Transfer, D31_ZerosAreOneClear) {
  Device& device = test_device();
  constexpr std::size_t kSize = (std::size_t{1} << 20) + 3;
  device.trim();
  {
    const Buffer dirty = upload_vector(device, Bytes(kSize, 0xee));
  }
  device.synchronize();
  const Stats before = device.stats();
  const Buffer zeros = device.zeros_bytes(kSize);
  const Stats after = device.stats();
  EXPECT_EQ(after.pool_hits - before.pool_hits, 1u);  // the dirty one's memory
  EXPECT_EQ(after.copies - before.copies, 1u);
  EXPECT_EQ(after.uploads, before.uploads);
  EXPECT_EQ(after.bytes_uploaded, before.bytes_uploaded);
  EXPECT_EQ(after.submits, before.submits);
  EXPECT_TRUE(read_bytes(device, zeros, 0, kSize) == Bytes(kSize, 0));
}

// A31.
TEST(Transfer, A31_FailureLeavesTheOutputAlone) {
  Device& device = test_device();
  const Buffer b = upload_vector(device, Bytes{1, 2, 3, 4, 5});
  Bytes out(3, 0xaa);
  const auto span = std::as_writable_bytes(std::span(out));
  EXPECT_THROW(device.read(b, 4, span), Error);
  EXPECT_THROW(device.read(Buffer(), 0, span), Error);
  EXPECT_THROW(device.read(device.alloc(8, Usage::storage), 0, span), Error);
  const ReadRange ranges[] = {{b, 0, span}, {b, 3, span}};
  EXPECT_THROW(device.read_ranges(ranges), Error);
  EXPECT_EQ(out, Bytes(3, 0xaa));
}

// D7: every offset and length; guard bytes stay. Also C7: 2 bytes over FFFFFFFF.
TEST(Transfer, D7_ByteExactWrites) {
  Device& device = test_device();
  for (std::size_t size : {17u, 18u, 19u, 20u}) {
    const Buffer b = device.alloc(size);
    for (std::size_t offset = 0; offset <= 8; ++offset) {
      for (std::size_t n = 0; n <= 9 && offset + n <= size; ++n) {
        Bytes want(size, 0xff);
        write_bytes(device, b, 0, want);
        const Bytes data(n, 0x5a);
        write_bytes(device, b, offset, data);
        std::copy(data.begin(), data.end(), want.begin() + static_cast<std::ptrdiff_t>(offset));
        ASSERT_EQ(read_bytes(device, b, 0, size), want) << size << ": " << n << " at " << offset;
      }
    }
  }
}

// D7 at the end of buffers whose last word is not whole.
TEST(Transfer, D7_WritesThatEndAtTheEnd) {
  Device& device = test_device();
  for (std::size_t size = 1; size <= 9; ++size) {
    for (std::size_t offset = 0; offset < size; ++offset) {
      Bytes want = pattern(size);
      const Buffer b = upload_vector(device, want);
      want.resize(offset);
      want.resize(size, 0xc3);
      write_bytes(device, b, offset, Bytes(size - offset, 0xc3));
      ASSERT_EQ(read_bytes(device, b, 0, size), want) << size << " from " << offset;
    }
  }
}

TEST(Transfer, WriteRefusesWhatItMust) {
  Device& device = test_device();
  const Buffer b = device.alloc(8);
  expect_error(error_of([&] { write_bytes(device, b, 5, Bytes(4)); }), ErrorCode::out_of_range, {"5", "9", "8"});
  expect_error(error_of([&] { write_bytes(device, b, SIZE_MAX, Bytes(2)); }), ErrorCode::out_of_range);
  expect_error(error_of([&] { write_bytes(device, device.alloc(8, Usage::storage), 0, Bytes(4)); }),
               ErrorCode::invalid_argument, {"copy_dst"});
  // Single bytes need a kernel, and so storage.
  const Buffer plain = device.alloc(8, Usage::copy_src | Usage::copy_dst);
  expect_error(error_of([&] { write_bytes(device, plain, 1, Bytes(2)); }), ErrorCode::invalid_argument, {"storage"});
  write_bytes(device, plain, 4, Bytes{1, 2, 3, 4});
  EXPECT_EQ(read_bytes(device, plain, 4, 4), (Bytes{1, 2, 3, 4}));
}

// Rule 1: a queue write must not overtake recorded work, nor later work the write.
// B10.
TEST(Transfer, WritesKeepProgramOrder) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer x = upload_vector<std::uint32_t>(device, {100}), seen = device.alloc(12);
  add(device.stream(), {{"y", x}}, AddParams{1, 1}, Grid{});
  device.stream().copy(x, 0, seen, 0, 4);
  const std::uint32_t replaced = 7;
  device.write(x, 0, std::as_bytes(std::span(&replaced, 1)));
  device.stream().copy(x, 0, seen, 4, 4);
  add(device.stream(), {{"y", x}}, AddParams{1, 1}, Grid{});
  write_bytes(device, x, 1, {1});  // bytes in order, too
  add(device.stream(), {{"y", x}}, AddParams{1, 1}, Grid{});
  device.stream().copy(x, 0, seen, 8, 4);
  EXPECT_EQ(read_vector<std::uint32_t>(device, seen, 3), (std::vector<std::uint32_t>{101, 7, 7 + 1 + 256 + 1}));
}

// The same for a write that goes through the staging ring.
TEST(Transfer, LargeWritesKeepProgramOrder) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  constexpr std::uint32_t kCount = 1 << 20;
  const Buffer x = upload_vector(device, std::vector<std::uint32_t>(kCount, 1)), seen = device.alloc(kCount * 4);
  for (std::uint32_t round = 0; round < 3; ++round) {
    add(device.stream(), {{"y", x}}, AddParams{round + 1, kCount}, grid_for(kCount));
    device.stream().copy(x, 0, seen, 0, kCount * 4);
    device.write(x, 0, bytes_of(std::vector<std::uint32_t>(kCount, 10 * (round + 1))));
    EXPECT_TRUE(read_vector<std::uint32_t>(device, seen, kCount) ==
                std::vector<std::uint32_t>(kCount, round == 0 ? 2 : 10 * round + round + 1));
  }
}

/// Bytes of this process that lie in memory.
std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// A program that uploads and computes nothing submits nothing of its own.
TEST(Transfer, UploadsAloneHoldBoundedMemory) {
  Device& device = test_device();
  constexpr std::uint64_t kMost = std::uint64_t{512} << 20;  // the pool keeps 256 MiB of it
  const Bytes bytes = pattern(std::size_t{8} << 20);
  const Buffer b = device.alloc(bytes.size());
  const auto grows_little = [&](const char* what, int times, const std::function<void()>& upload) {
    const std::uint64_t before = resident_bytes();
    ASSERT_GT(before, 0u);
    for (int i = 0; i < times; ++i) {
      upload();
      if (i % 64 != 0) continue;
      ASSERT_LT(resident_bytes(), before + kMost) << what << ", upload " << i;
    }
  };
  grows_little("4 bytes", 200'000, [&] { device.write(b, 0, bytes_of(bytes).first(4)); });
  grows_little("256 KiB", 4'000, [&] { device.write(b, 0, bytes_of(bytes).first(std::size_t{256} << 10)); });
  grows_little("8 MiB", 256, [&] { device.write(b, 0, bytes_of(bytes)); });
  grows_little("8 MiB mapped", 256, [&] {
    device.upload_with(bytes.size(), [&](std::span<std::byte> to) { std::memcpy(to.data(), bytes.data(), to.size()); });
  });
  EXPECT_TRUE(read_bytes(device, b, 0, bytes.size()) == bytes);
}

// Case M08: tiny buffers written in random order keep their own bytes, also when the pool hands memory out again.
TEST(Transfer, M08_ManyTinyBuffers) {
  Device& device = test_device();
  std::mt19937 random(8);
  for (int round = 0; round < 2; ++round) {
    std::vector<Buffer> buffers;
    std::vector<std::size_t> lengths, order(1000);
    for (std::size_t i = 0; i < 1000; ++i) {
      lengths.push_back(1 + random() % 9);
      buffers.push_back(device.alloc(lengths[i] * 4));
    }
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i : order) device.write(buffers[i], 0, bytes_of(std::vector<float>(lengths[i], float(i))));
    for (std::size_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(read_vector<float>(device, buffers[i], lengths[i]), std::vector<float>(lengths[i], float(i))) << i;
    }
  }
}

// Case M09: odd counts of two-byte and one-byte elements.
TEST(Transfer, M09_OddCounts) {
  Device& device = test_device();
  for (std::size_t n : {1u, 2u, 3u, 5u, 7u}) {
    std::vector<std::uint16_t> halves(n);
    std::iota(halves.begin(), halves.end(), std::uint16_t{0x3c00});
    EXPECT_EQ(read_vector<std::uint16_t>(device, upload_vector(device, halves), n), halves);
    EXPECT_EQ(read_bytes(device, upload_vector(device, pattern(n)), 0, n), pattern(n));
  }
}

// Case M11, as reads: every offset of a buffer of 1000 floats.
TEST(Transfer, M11_ReadsAtOffsets) {
  Device& device = test_device();
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 0.0f);
  const Buffer b = upload_vector(device, x);
  for (std::size_t o : {0u, 1u, 3u, 63u, 64u, 65u, 129u, 900u}) {
    const auto got = read_vector<float>(device, b, 100, o);
    EXPECT_EQ(got, std::vector<float>(x.begin() + static_cast<std::ptrdiff_t>(o),
                                      x.begin() + static_cast<std::ptrdiff_t>(o) + 100));
  }
}

// Case M13: two reads of one buffer in flight, ended in the other order; then 100.
TEST(Transfer, M13_ReadsInFlight) {
  Device& device = test_device();
  std::vector<float> x(1024);
  std::iota(x.begin(), x.end(), 0.0f);
  const Buffer buffer = upload_vector(device, x);
  Readback a = device.read_async(buffer, 0, 4096);
  Readback b = device.read_async(buffer, 40, 40);
  const auto holds = [&](Readback& read, std::size_t first, std::size_t count) {
    const std::span<const std::byte> wanted = bytes_of(x).subspan(4 * first, 4 * count);
    return std::ranges::equal(read.view(), wanted);
  };
  EXPECT_TRUE(holds(b, 10, 10));
  EXPECT_TRUE(holds(a, 0, 1024));
  std::vector<Readback> many;
  for (std::size_t i = 0; i < 100; ++i) many.push_back(device.read_async(buffer, i * 4, 4));
  for (std::size_t i = 100; i-- > 0;) EXPECT_TRUE(holds(many[i], i, 1));
}

// Case C05 (a): ready() and wait() alone bring the data; nobody else polls.
TEST(Transfer, C05_ReadyPolls) {
  Device& device = test_device();
  Readback r = device.read_async(upload_vector<int>(device, {42}), 0, 4);
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!r.ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ASSERT_TRUE(r.ready());
  int got = 0;
  std::memcpy(&got, r.view().data(), 4);
  EXPECT_EQ(got, 42);
  r.wait({0ns});  // what is there is there, whatever the deadline (A33)
  EXPECT_EQ(r.view().size(), 4u);
}

TEST(Transfer, ReadbacksAreDroppedMovedAndCancelled) {
  Device& device = test_device();
  const Buffer b = upload_vector<int>(device, {1, 2, 3});
  device.trim();
  for (int i = 0; i < 200; ++i) device.read_async(b, 0, 12);  // given up at once
  Readback a = device.read_async(b, 4, 4);
  Readback moved = std::move(a);
  EXPECT_EQ(moved.view().size(), 4u);
  moved.cancel();
  expect_error(error_of([&] { moved.wait(); }), ErrorCode::invalid_argument, {"empty"});
  expect_error(error_of([] { Readback().ready(); }), ErrorCode::invalid_argument);
  device.synchronize();
  EXPECT_EQ(read_vector<int>(device, b, 3), (std::vector<int>{1, 2, 3}));
  device.trim();
  EXPECT_LE(device.stats().staging_bytes, 64u << 20);
}

// C3, C8: (0,4), (2,4), (6,0) of one buffer, with another buffer's beside them, in one submit.
TEST(Transfer, C8_SeveralRanges) {
  Device& device = test_device();
  const Buffer b = upload_vector(device, Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9}),
               other = upload_vector(device, Bytes{21, 22, 23});
  Bytes first(4), second(4), last(1), others(2);
  const auto out = [](Bytes& to) { return std::as_writable_bytes(std::span(to)); };
  const ReadRange ranges[] = {
      {b, 0, out(first)}, {b, 2, out(second)}, {b, 6, {}}, {other, 1, out(others)}, {b, 8, out(last)}};
  const Stats before = device.stats();
  device.read_ranges(ranges);
  EXPECT_EQ(device.stats().submits - before.submits, 1u);
  EXPECT_EQ(first, (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(second, (Bytes{3, 4, 5, 6}));
  EXPECT_EQ(last, (Bytes{9}));
  EXPECT_EQ(others, (Bytes{22, 23}));
  device.read_ranges({});
}

// C3: ranges of a buffer that touch or overlap are one copy, in any order of asking; words they share count as
// touching.
TEST(Transfer, C3_NeighboursAreOneCopy) {
  Device& device = test_device();
  const Bytes all = pattern(1000);
  const Buffer b = upload_vector(device, all), other = upload_vector(device, pattern(64));
  struct Case {
    std::vector<std::pair<std::size_t, std::size_t>> ranges;  // offset, size
    std::uint64_t copies;
  };
  const Case cases[] = {
      {{{0, 8}, {8, 8}}, 1},                   // touching
      {{{100, 50}, {120, 100}, {0, 100}}, 1},  // overlapping, out of order
      {{{0, 8}, {12, 8}}, 2},                  // a word between them
      {{{0, 5}, {6, 5}}, 1},                   // a byte between them, in a word they share
      {{{0, 1000}, {10, 20}, {500, 0}}, 1},    // one within the other; nothing
      {{{0, 4}, {40, 4}, {80, 4}, {4, 4}}, 3},
      {{{7, 1}, {7, 1}}, 1},  // the same
      {{{3, 0}}, 0},
  };
  for (const Case& c : cases) {
    std::vector<Bytes> out;
    std::vector<ReadRange> ranges;
    for (const auto& [offset, size] : c.ranges) out.emplace_back(size, 0xaa);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ranges.push_back({b, c.ranges[i].first, std::as_writable_bytes(std::span(out[i]))});
    }
    const Stats before = device.stats();
    device.read_ranges(ranges);
    EXPECT_EQ(device.stats().read_copies - before.read_copies, c.copies);
    EXPECT_EQ(device.stats().submits - before.submits, c.copies == 0 ? 0u : 1u);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(c.ranges[i].first);
      EXPECT_TRUE(std::equal(out[i].begin(), out[i].end(), first)) << i;
    }
  }
  // Equal places of two buffers are no neighbours.
  Bytes first(8), second(8);
  const ReadRange two[] = {{b, 0, std::as_writable_bytes(std::span(first))},
                           {other, 8, std::as_writable_bytes(std::span(second))}};
  const Stats before = device.stats();
  device.read_ranges(two);
  EXPECT_EQ(device.stats().read_copies - before.read_copies, 2u);
  EXPECT_EQ(second, (Bytes{8, 9, 10, 11, 12, 13, 14, 15}));
}

// C8: one bad range among good ones reads nothing.
TEST(Transfer, C8_RangesAreCheckedFirst) {
  Device& device = test_device();
  const Buffer b = upload_vector(device, pattern(16)), no_source = device.alloc(16, Usage::storage);
  Bytes good(4, 0xaa), bad(4, 0xaa);
  const auto out = [](Bytes& to) { return std::as_writable_bytes(std::span(to)); };
  const Stats before = device.stats();
  const auto refused = [&](const ReadRange& range, ErrorCode code) {
    const ReadRange ranges[] = {{b, 0, out(good)}, range, {b, 4, out(good)}};
    expect_error(error_of([&] { device.read_ranges(ranges); }), code);
  };
  refused({b, 13, out(bad)}, ErrorCode::out_of_range);
  refused({b, SIZE_MAX, out(bad)}, ErrorCode::out_of_range);
  refused({Buffer(), 0, out(bad)}, ErrorCode::invalid_argument);
  refused({no_source, 0, {}}, ErrorCode::invalid_argument);
  EXPECT_EQ(good, Bytes(4, 0xaa));
  EXPECT_EQ(bad, Bytes(4, 0xaa));
  EXPECT_EQ(device.stats().reads, before.reads);
}

TEST(Transfer, ReadAs) {
  Device& device = test_device();
  const std::vector<float> values{1, 2, 3, 4, 5};
  const Buffer b = upload_vector(device, values);
  EXPECT_EQ(device.read_as<float>(b), values);
  EXPECT_EQ(device.read_as<float>(b, 1, 3), (std::vector<float>{2, 3, 4}));
  EXPECT_TRUE(device.read_as<float>(b, 5, 0).empty());
  EXPECT_EQ(device.read_as<std::uint16_t>(b, 1, 1), (std::vector<std::uint16_t>{0x3f80}));
  EXPECT_EQ(device.read_as<std::uint64_t>(b).size(), 2u);  // whole elements only
  // Refused before the host allocates anything of that size.
  expect_error(error_of([&] { device.read_as<float>(b, 0, SIZE_MAX / 4); }), ErrorCode::out_of_range, {"20"});
  expect_error(error_of([&] { device.read_as<float>(b, 0, SIZE_MAX); }), ErrorCode::out_of_range);
  expect_error(error_of([&] { device.read_as<double>(b, SIZE_MAX / 8 + 1, 0); }), ErrorCode::out_of_range);
  expect_error(error_of([&] { device.read_as<float>(b, 3, 3); }), ErrorCode::out_of_range, {"12", "24", "20"});
  expect_error(error_of([&] { device.read_as<float>(Buffer(), 0, 1); }), ErrorCode::invalid_argument);
}

// D14: a read that is given up: the object is empty, its staging memory comes back, the device works on.
TEST(Transfer, CancelGivesTheStagingBack) {
  Device& device = test_device();
  const Buffer b = upload_vector(device, pattern(100'000));
  device.synchronize();
  device.trim();
  const Stats before = device.stats();
  Readback arrived = device.read_async(b, 0, 100'000);
  arrived.wait();
  arrived.cancel();
  arrived.cancel();  // again: nothing
  expect_error(error_of([&] { arrived.view(); }), ErrorCode::invalid_argument, {"empty"});
  Readback on_its_way = device.read_async(b, 0, 100'000);
  on_its_way.cancel();
  device.synchronize();
  EXPECT_TRUE(read_bytes(device, b, 0, 100'000) == pattern(100'000));
  EXPECT_LE(device.stats().staging_allocations - before.staging_allocations, 2u);
  EXPECT_EQ(device.memory().in_flight_bytes, 0u);
  Readback().cancel();
}

// Issue 4 (5), D13: reads on their way are limited by waiting, not by failing. Ten times what may be on its way at
// once.
TEST(Transfer, BackPressure) {
  Device& device = test_device();
  constexpr std::size_t kSize = 64 << 10;
  const Bytes want = pattern(kSize);
  const Buffer b = upload_vector(device, want);
  memory::ReadsInFlight small(device.state()->gpu, 4 * kSize);
  EXPECT_TRUE(small.wait_for_room(100 * kSize, webgpu::Clock::now()));  // one alone always may
  const auto never = std::make_shared<webgpu::Gpu::MapState>();
  small.add(4 * kSize, never);
  EXPECT_EQ(small.bytes(), 4 * kSize);
  EXPECT_FALSE(small.wait_for_room(1, webgpu::Clock::now() + 2ms));
  never->status = webgpu::Gpu::MapStatus::ready;
  EXPECT_TRUE(small.wait_for_room(4 * kSize, webgpu::Clock::now()));
  EXPECT_EQ(small.bytes(), 0u);

  const std::uint64_t bound = device.memory().staging_cap_bytes;
  std::vector<Readback> many;
  for (std::size_t i = 0; i < 100; ++i) {
    many.push_back(device.read_async(b, 0, kSize));
    EXPECT_LE(device.memory().in_flight_bytes, bound);
  }
  while (!many.empty()) {
    EXPECT_EQ(std::memcmp(many.back().view().data(), want.data(), kSize), 0);
    many.pop_back();
  }
  EXPECT_EQ(device.memory().in_flight_bytes, 0u);
  device.trim();
  // Reads of 32 MiB that are given up at once: never more than the bound and one of them.
  const Buffer large = device.zeros_bytes(32 << 20);
  for (std::size_t i = 0; i < 40; ++i) {
    device.read_async(large, 0, 32 << 20);
    const MemoryReport m = device.memory();
    ASSERT_LE(m.in_flight_bytes, bound);
    ASSERT_LE(m.staging_bytes, 2 * bound);
  }
  device.synchronize();
  device.trim();
  EXPECT_EQ(device.memory().staging_bytes, 0u);
}

// A31 for a read of several pieces that has a deadline: it comes whole or not at all.
TEST(Transfer, A31_LargeReadPastItsDeadline) {
  Device& device = test_device();
  const std::size_t n = (std::size_t{20} << 20) + 8;
  const Buffer b = upload_vector(device, pattern(n));
  Bytes out(n, 0xaa);
  const auto span = std::as_writable_bytes(std::span(out));
  const Kernel spin = spin_kernel(device);
  const Buffer y = device.zeros_bytes(1024 * 4);
  for (int i = 0; i < 4; ++i) spin(device.stream(), {{"y", y}}, Grid{1024, 1, 1});
  try {
    device.read(b, 0, span, {1ns});
    EXPECT_TRUE(out == pattern(n));  // it was there at the first look (A33)
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::timed_out) << e.what();
    EXPECT_TRUE(out == Bytes(n, 0xaa));
  }
  device.read(b, 0, span, {60s});
  EXPECT_TRUE(out == pattern(n));
  device.synchronize({60s});
  device.trim();
}

// D36, M15, rule 8: a deadline that passes is an error that leaves all usable. The read joins the batch that it waits
// for, so it is one submit: on Mesa 22's lavapipe under wgpu-native a second one blocks in the driver until the first
// is done, which no deadline of ours can end; hence both answers are right for reads behind work that is submitted
// already.
TEST(Transfer, D36_M15_DeadlineOnALongKernel) {
  Device& device = test_device();
  const Kernel spin = spin_kernel(device);
  constexpr std::uint32_t kGroups = 1024;
  const Buffer y = device.zeros_bytes(kGroups * 4);
  std::uint32_t repeats = 1;
  std::uint32_t state = 0;  // of the first group
  const auto record = [&] {
    for (std::uint32_t i = 0; i < repeats; ++i) {
      spin(device.stream(), {{"y", y}}, Grid{kGroups, 1, 1});
      state = spin_result(state);
    }
  };
  std::chrono::nanoseconds took{0};
  for (;; repeats *= 2) {  // finds a length of a quarter of a second or more
    record();
    const auto start = std::chrono::steady_clock::now();
    device.synchronize();
    took = std::chrono::steady_clock::now() - start;
    if (took >= 250ms || repeats == 1u << 17) break;
  }
  ASSERT_GE(took, 250ms);

  // On a loaded machine this thread may itself be away for as long as the work takes: then the read succeeds, or its
  // error comes late. What it must not do is so each time.
  constexpr int kTries = 12;
  std::uint32_t out = 0;
  const auto span = std::as_writable_bytes(std::span(&out, 1));
  std::chrono::nanoseconds soonest = 1h;
  for (int i = 0; i < kTries && soonest > 50ms; ++i) {
    record();
    out = 0xdeadbeef;
    const auto start = std::chrono::steady_clock::now();
    try {
      device.read(y, 0, span, {1ms});
      EXPECT_EQ(out, state);
    } catch (const Error& e) {
      soonest = std::min<std::chrono::nanoseconds>(soonest, std::chrono::steady_clock::now() - start);
      expect_error(e, ErrorCode::timed_out);
      EXPECT_EQ(out, 0xdeadbeef);  // A31
    }
    device.read(y, 0, span, {60s});
    EXPECT_EQ(out, state);
  }
  EXPECT_LT(soonest, 50ms + took / 8);

  bool timed_out = false;
  for (int i = 0; i < kTries && !timed_out; ++i) {
    record();
    Readback late = device.read_async(y, 0, 4);
    try {
      late.wait({1ms});
    } catch (const Error& e) {
      expect_error(e, ErrorCode::timed_out);
      timed_out = true;
    }
    late.wait({60s});  // the read went on
    EXPECT_EQ(std::memcmp(late.view().data(), &state, 4), 0);
  }
  EXPECT_TRUE(timed_out);

  // A32: without a deadline of its own a wait lasts as long as the device's wait_timeout, and is no hang.
  {
    DeviceOptions options;
    options.wait_timeout = 1ms;
    Device hasty = Device::open(options);
    const Kernel other = spin_kernel(hasty);
    const Buffer z = hasty.zeros_bytes(kGroups * 4);
    hasty.synchronize({60s});
    std::uint32_t passed = 0, got = 0;
    const auto into = std::as_writable_bytes(std::span(&got, 1));
    timed_out = false;
    for (int i = 0; i < kTries && !timed_out; ++i) {
      for (std::uint32_t j = 0; j < repeats; ++j) {
        other(hasty.stream(), {{"y", z}}, Grid{kGroups, 1, 1});
        passed = spin_result(passed);
      }
      try {
        hasty.read(z, 0, into);
      } catch (const Error& e) {
        expect_error(e, ErrorCode::timed_out, {"deadline"});
        timed_out = true;
      }
      hasty.read(z, 0, into, {60s});
      EXPECT_EQ(got, passed);
    }
    EXPECT_TRUE(timed_out);
  }

  // D14: 50 in a row leak nothing.
  device.synchronize();
  device.trim();
  const std::uint64_t staging = device.stats().staging_bytes;
  record();
  for (int i = 0; i < 50; ++i) {
    try {
      device.read(y, 0, span, {0ns});
      EXPECT_EQ(out, state);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::timed_out) << e.what();
    }
  }
  device.read(y, 0, span, {60s});
  EXPECT_EQ(out, state);
  device.synchronize({60s});
  device.trim();
  EXPECT_LE(device.stats().staging_bytes, staging);
}

}  // namespace
}  // namespace weft::testing
