// Issue 4: many mixed operations on one thread, and resident memory stays flat once all is warm.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "stress/stress_env.h"
#include "unit/core_helpers.h"

namespace weft::testing {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::size_t kSlots = 32;
constexpr std::size_t kMostWords = 8192;
constexpr std::uint64_t kPoolBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kSlack = std::uint64_t{16} << 20;

TEST(MemorySoak, ResidentMemoryIsFlat) {
  // On a CPU adapter retained memory is resident: a cap that is reached within the warm-up.
  DeviceOptions options;
  options.pool_bytes = kPoolBytes;
  Device device = Device::open(options);
  const Kernel add = add_kernel(device);
  std::mt19937 random(4);
  std::vector<Buffer> buffers(kSlots);
  std::vector<std::uint32_t> values(kSlots);  // each buffer holds one value all over
  const Words zeros(kMostWords);

  const std::uint64_t operations = soak_operations();
  const std::uint64_t warm = std::max<std::uint64_t>(operations / 10, 5'000);
  ASSERT_GT(operations, warm) << "WEFT_SOAK_OPERATIONS leaves nothing behind the warm-up";
  std::uint64_t wrong = 0, at_warm = 0, highest = 0;
  for (std::uint64_t i = 0; i < operations; ++i) {
    const std::size_t slot = random() % kSlots;
    Buffer& b = buffers[slot];
    const unsigned kind = random() % 8;
    if (!b || kind == 0) {
      const std::size_t words = 1 + random() % kMostWords;
      values[slot] = static_cast<std::uint32_t>(random());
      if (random() % 2 == 0) {
        b = upload_vector(device, Words(words, values[slot]));
      } else {
        b = device.upload_with(words * 4, [&](std::span<std::byte> to) {
          const Words all(words, values[slot]);
          std::memcpy(to.data(), all.data(), to.size());
        });
      }
    } else if (kind == 1) {
      b = {};
    } else if (kind == 2) {
      values[slot] = 0;
      device.write(b, 0, bytes_of(zeros).first(b.size()));
    } else if (kind < 6) {
      const auto n = static_cast<std::uint32_t>(b.size() / 4);
      add(device.stream(), {{"y", b}}, AddParams{static_cast<std::uint32_t>(i), n}, grid_for(n));
      values[slot] += static_cast<std::uint32_t>(i);
    } else if (kind == 6) {
      const std::size_t word = random() % (b.size() / 4);
      wrong += device.read_as<std::uint32_t>(b, word, 1)[0] != values[slot];
    } else {
      device.read_async(b, 0, b.size());  // given up
    }
    if (i + 1 == warm) at_warm = resident_bytes();
    if (i + 1 > warm && i % 256 == 0) highest = std::max(highest, resident_bytes());
  }
  EXPECT_EQ(wrong, 0u);
  const std::uint64_t at_end = resident_bytes();
  EXPECT_LE(highest, at_warm + kSlack);
  EXPECT_GE(at_end + kSlack, at_warm);
  std::printf("%llu operations; resident MiB: %.1f warm, %.1f at most, %.1f at the end\n",
              static_cast<unsigned long long>(operations), static_cast<double>(at_warm) / (1 << 20),
              static_cast<double>(highest) / (1 << 20), static_cast<double>(at_end) / (1 << 20));
  buffers.clear();
  device.synchronize();
  EXPECT_EQ(device.memory().live_bytes, 0u);
  EXPECT_LE(device.memory().retained_bytes, device.memory().cap_bytes);
}

}  // namespace
}  // namespace weft::testing
