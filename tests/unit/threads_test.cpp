// Many threads on one device: parameters, streams, caches, registry and pools keep every thread's work apart and none
// of it is lost. ThreadSanitizer runs this program too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <mutex>
#include <numeric>
#include <random>

#include "memory/ids.h"
#include "memory/registry.h"
#include "unit/core_helpers.h"
#include "unit/sanitized.h"
#include "unit/test_device.h"

namespace weft::testing {
namespace {

constexpr unsigned kThreads = 8;
constexpr std::uint32_t kRounds = 1000;
#if WEFT_SANITIZED
constexpr std::uint32_t kAllocationRounds = 300;
#else
constexpr std::uint32_t kAllocationRounds = 1500;
#endif

std::uint32_t sum_to(std::uint32_t n) {
  return n * (n + 1) / 2;
}

TEST(Threads, D2_OwnBuffersDefaultStream) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  std::vector<Buffer> own(kThreads);
  for (Buffer& b : own) b = device.zeros_bytes(64);
  run_threads(kThreads, [&](unsigned t) {
    for (std::uint32_t i = 1; i <= kRounds; ++i) {
      add(device.stream(), {{"y", own[t]}}, AddParams{i + t, 16}, Grid{});
    }
  });
  for (unsigned t = 0; t < kThreads; ++t) {
    EXPECT_EQ(read_vector<std::uint32_t>(device, own[t], 16),
              std::vector<std::uint32_t>(16, sum_to(kRounds) + kRounds * t));
  }
}

TEST(Threads, D2_SharedBufferDefaultStream) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer shared = device.zeros_bytes(64);
  run_threads(kThreads, [&](unsigned) {
    for (std::uint32_t i = 1; i <= kRounds; ++i) {
      add(device.stream(), {{"y", shared}}, AddParams{i, 16}, Grid{});
    }
  });
  EXPECT_EQ(read_vector<std::uint32_t>(device, shared, 16), std::vector<std::uint32_t>(16, kThreads * sum_to(kRounds)));
}

TEST(Threads, D2_OwnBuffersOwnStreams) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  std::vector<Buffer> own(kThreads);
  std::vector<Stream> streams(kThreads);
  for (unsigned t = 0; t < kThreads; ++t) {
    own[t] = device.zeros_bytes(64);
    streams[t] = device.make_stream();
  }
  run_threads(kThreads, [&](unsigned t) {
    for (std::uint32_t i = 1; i <= kRounds; ++i) add(streams[t], {{"y", own[t]}}, AddParams{i + t, 16}, Grid{});
  });
  for (unsigned t = 0; t < kThreads; ++t) {
    EXPECT_EQ(read_vector<std::uint32_t>(device, own[t], 16),
              std::vector<std::uint32_t>(16, sum_to(kRounds) + kRounds * t));
  }
}

// The streams live on and nobody submits: the read alone must find the work of all eight.
TEST(Threads, D2_SharedBufferOwnStreams) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer shared = device.zeros_bytes(64);
  std::vector<Stream> streams(kThreads);
  for (Stream& s : streams) s = device.make_stream();
  run_threads(kThreads, [&](unsigned t) {
    for (std::uint32_t i = 1; i <= kRounds; ++i) add(streams[t], {{"y", shared}}, AddParams{i, 16}, Grid{});
  });
  EXPECT_EQ(read_vector<std::uint32_t>(device, shared, 16), std::vector<std::uint32_t>(16, kThreads * sum_to(kRounds)));
}

// Two threads at a time meet on a buffer once, then a read: the window in which a use could go unnoticed is widest
// here.
TEST(Threads, D2_UsesThatMeetAreAllSeenByTheNextRead) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  std::vector<Stream> streams(4);
  for (Stream& s : streams) s = device.make_stream();
  const Buffer a = device.zeros_bytes(64), b = device.zeros_bytes(64);
  std::atomic<unsigned> arrived{0};
  std::atomic<std::uint32_t> go{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (std::size_t t = 0; t < streams.size(); ++t) {
    threads.emplace_back([&, t] {
      std::uint32_t round = 0;
      while (!stop.load()) {
        if (go.load(std::memory_order_acquire) == round) {
          std::this_thread::yield();
          continue;
        }
        ++round;
        try {
          add(streams[t], {{"y", a}}, AddParams{1, 16}, Grid{});
          streams[t].clear(b, 0, 64);
          add(streams[t], {{"y", b}}, AddParams{7, 16}, Grid{});
        } catch (const std::exception&) {
          ++failures;
        }
        arrived.fetch_add(1, std::memory_order_acq_rel);
      }
    });
  }
  std::uint32_t wrong = 0;
  constexpr std::uint32_t kMeetings = 300;
  for (std::uint32_t round = 1; round <= kMeetings; ++round) {
    arrived = 0;
    go.store(round, std::memory_order_release);
    while (arrived.load(std::memory_order_acquire) < streams.size()) std::this_thread::yield();
    wrong += read_vector<std::uint32_t>(device, a, 1)[0] != round * streams.size();
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(failures, 0);
}

// As D2, with streams that come and go: what a stream recorded is submitted before it can no longer be found.
TEST(Threads, StreamsDroppedWithWorkRecorded) {
  Device& device = test_device();
  const Kernel add = add_kernel(device);
  const Buffer shared = device.zeros_bytes(64);
  run_threads(kThreads, [&](unsigned) {
    for (std::uint32_t i = 1; i <= 100; ++i) {
      const Stream stream = device.make_stream();
      add(stream, {{"y", shared}}, AddParams{i, 16}, Grid{});
    }
  });
  EXPECT_EQ(read_vector<std::uint32_t>(device, shared, 1)[0], kThreads * sum_to(100));
}

// A2 to A4, A.9 (6).
TEST(Threads, A9_6_RegistryLookupsWhileAlive) {
  Device& device = test_device();
  Buffer buffer = device.alloc(64);
  const std::uint64_t id = buffer.id();
  std::atomic<std::uint32_t> right{0};
  run_threads(kThreads, [&](unsigned) {
    for (int i = 0; i < 1000; ++i) {
      const std::optional<Buffer> found = device.resident(id);
      if (found && found->id() == id && *found == buffer) ++right;
    }
  });
  EXPECT_EQ(right, 8000u);
  buffer = {};
  EXPECT_FALSE(device.resident(id));
}

// A4: the last handle goes while others look it up: a whole handle or none.
TEST(Threads, A4_LookupRacesWithTheLastDrop) {
  Device& device = test_device();
  for (int round = 0; round < 200; ++round) {
    Buffer buffer = device.alloc(64);
    const std::uint64_t id = buffer.id();
    std::atomic<bool> half_dead{false};
    run_threads(4, [&](unsigned t) {
      if (t == 0) {
        buffer = {};
        return;
      }
      for (int i = 0; i < 50; ++i) {
        const std::optional<Buffer> found = device.resident(id);
        if (found && (found->id() != id || found->size() != 64)) half_dead = true;
      }
    });
    EXPECT_FALSE(half_dead);
    EXPECT_FALSE(device.resident(id));
  }
}

// A1, A14: ids of all threads are distinct, and so are the ids of memory that is alive at one time.
// A1, A6: past the last id there is none, whoever asks at the same time.
TEST(Threads, A1_A6_IdsNeverWrap) {
  std::atomic<std::uint64_t> last{UINT64_MAX - 1000};
  std::mutex mutex;
  std::vector<std::uint64_t> given;
  std::atomic<int> refused{0};
  run_threads(kThreads, [&](unsigned) {
    std::vector<std::uint64_t> own;
    for (int i = 0; i < 500; ++i) {
      try {
        own.push_back(memory::mint(last));
      } catch (const Error& e) {
        expect_error(e, ErrorCode::internal, {"used up", "restart the process"});
        ++refused;
      }
    }
    const std::lock_guard lock(mutex);
    given.insert(given.end(), own.begin(), own.end());
  });
  std::sort(given.begin(), given.end());
  ASSERT_EQ(given.size(), 1000u);
  for (std::size_t i = 0; i < given.size(); ++i) EXPECT_EQ(given[i], UINT64_MAX - 999 + i);
  EXPECT_EQ(refused, static_cast<int>(kThreads) * 500 - 1000);
}

TEST(Threads, A1_IdsAreDistinct) {
  Device& device = test_device();
  std::vector<std::vector<Buffer>> made(kThreads);
  run_threads(kThreads, [&](unsigned t) {
    for (int i = 0; i < 100; ++i) made[t].push_back(device.alloc(64));
  });
  std::vector<std::uint64_t> ids, allocations;
  for (const auto& list : made) {
    for (const Buffer& b : list) {
      ids.push_back(b.id());
      allocations.push_back(b.allocation_id());
    }
  }
  for (auto* list : {&ids, &allocations}) {
    std::sort(list->begin(), list->end());
    EXPECT_EQ(std::adjacent_find(list->begin(), list->end()), list->end());
  }
}

// Issue 4: allocate, upload, work, read, drop, from 8 threads; right data, and nothing live at the end.
TEST(Threads, AllocateUploadReadDrop) {
  Device& device = test_device();
  const Kernel neg = neg_kernel(device);
  device.synchronize();
  const std::uint64_t live = device.stats().live_bytes;
  std::atomic<std::uint32_t> wrong{0};
  run_threads(kThreads, [&](unsigned t) {
    std::mt19937 random(t);
    const Stream own = device.make_stream();
    for (std::uint32_t i = 0; i < kAllocationRounds / kThreads; ++i) {
      const std::size_t n = 1 + random() % 3000;
      std::vector<float> values(n);
      std::iota(values.begin(), values.end(), static_cast<float>(t * 1000 + i));
      const Buffer x = upload_vector(device, values);
      const Buffer y = device.alloc(n * 4);
      neg(i % 2 == 0 ? own : device.stream(), {{"x", x}, {"y", y}}, grid_for(n));
      const std::vector<float> got = read_vector<float>(device, y, n);
      for (std::size_t k = 0; k < n; ++k) wrong += got[k] != -values[k];
      if (i % 16 == 0) device.trim();
    }
  });
  EXPECT_EQ(wrong, 0u);
  device.synchronize();
  EXPECT_EQ(device.stats().live_bytes, live);
}

// C1: 4 threads x 32 rounds lose no event.
TEST(Threads, C1_PoolCountsEveryEvent) {
  Device& device = test_device();
  const Stats before = device.stats();
  run_threads(4, [&](unsigned t) {
    for (std::size_t i = 0; i < 32; ++i) device.alloc(1 + i * 37 + t);
  });
  const Stats after = device.stats();
  EXPECT_EQ(after.pool_allocations + after.pool_hits - before.pool_allocations - before.pool_hits, 128u);
  EXPECT_EQ(after.pool_releases - before.pool_releases, 128u);
  EXPECT_EQ(after.live_bytes, before.live_bytes);
}

// D30: threads that miss on one key compile once and share the pipeline.
TEST(Threads, OneCompileForThreadsThatMissTogether) {
  Device& device = test_device();
  const Stats before = device.stats();
  const Buffer out = device.zeros_bytes(256);
  run_threads(kThreads, [&](unsigned) {
    const Kernel k = device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                                              "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) "
                                              "id: vec3u) { y[id.x] = id.x * 31337u; }",
                                    .label = "missed together"});
    k(device.stream(), {{"y", out}}, Grid{});
  });
  const Stats after = device.stats();
  EXPECT_EQ(after.pipeline_misses - before.pipeline_misses, 1u);
  EXPECT_EQ(after.pipeline_hits - before.pipeline_hits, kThreads - 1);
  EXPECT_EQ(read_vector<std::uint32_t>(device, out, 64)[63], 63u * 31337u);
}

// D38, D39: each thread gets the error of its own kernel, and good kernels of other threads go on.
TEST(Threads, D38_EachThreadGetsItsOwnError) {
  Device& device = test_device();
  std::atomic<int> right{0};
  run_threads(kThreads, [&](unsigned t) {
    for (int i = 0; i < 10; ++i) {
      const std::string name = "unknown_" + std::to_string(t) + "_" + std::to_string(i);
      if (t % 2 == 0) {
        try {
          device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                                   "@compute @workgroup_size(1) fn main() { y[0] = " +
                                   name + "; }",
                         .label = name});
        } catch (const Error& e) {
          right += e.code() == ErrorCode::compile_error && std::string(e.what()).find(name) != std::string::npos;
        }
      } else {
        const Kernel k = device.kernel({.source = "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                                                  "@compute @workgroup_size(1) fn main() { y[0] = " +
                                                  std::to_string(t * 100 + static_cast<unsigned>(i)) + "u; }",
                                        .label = "good"});
        const Buffer y = device.alloc(4);
        k(device.stream(), {{"y", y}}, Grid{});
        right += read_vector<std::uint32_t>(device, y, 1)[0] == t * 100 + static_cast<unsigned>(i);
      }
    }
  });
  EXPECT_EQ(right, 80);
  EXPECT_NO_THROW(device.synchronize());
}

// A failure that several threads wait for reaches each of them, and is not kept (D39).
TEST(Threads, D39_WaitersShareTheFailure) {
  Device& device = test_device();
  const std::uint64_t entries = device.stats().pipeline_entries;
  std::atomic<int> errors{0};
  run_threads(kThreads, [&](unsigned) {
    try {
      device.kernel({.source = "@compute @workgroup_size(1) fn main() { let a: u32 = 1.5f; }", .label = "broken"});
    } catch (const Error& e) {
      errors += e.code() == ErrorCode::compile_error;
    }
  });
  EXPECT_EQ(errors, 8);
  EXPECT_EQ(device.stats().pipeline_entries, entries);
}

// A49: one thread's factory, filler or kernel throws again and again; the others never notice.
TEST(Threads, A49_ThrowingUploadsBesideGoodOnes) {
  Device& device = test_device();
  const std::uint64_t live = device.stats().live_bytes;
  std::atomic<int> thrown{0};
  run_threads(4, [&](unsigned t) {
    for (int i = 0; i < 50; ++i) {
      const auto value = static_cast<unsigned char>(t * 50 + static_cast<unsigned>(i));
      try {
        const Buffer b = device.upload_with(100, [&](std::span<std::byte> bytes) {
          std::memset(bytes.data(), value, bytes.size());
          if (t == 0) throw std::runtime_error("half way");
        });
        EXPECT_EQ(read_vector<unsigned char>(device, b, 100), std::vector<unsigned char>(100, value));
      } catch (const std::runtime_error&) {
        ++thrown;
      }
    }
  });
  EXPECT_EQ(thrown, 50);
  EXPECT_EQ(device.stats().live_bytes, live);
}

// One Readback is waited for on another thread than the one that began it.
TEST(Threads, ReadbackHandedToAnotherThread) {
  Device& device = test_device();
  const Buffer b = upload_vector<std::uint32_t>(device, {1, 2, 3});
  auto result = std::async(std::launch::async, [r = device.read_async(b, 4, 8)]() mutable {
    std::vector<std::uint32_t> got(2);
    std::memcpy(got.data(), r.view().data(), 8);
    return got;
  });
  EXPECT_EQ(result.get(), (std::vector<std::uint32_t>{2, 3}));
}

}  // namespace
}  // namespace weft::testing
