// The bind-group cache alone: groups are empty handles here, so no device is needed.
#include "dispatch/bind_group_cache.h"

#include <gtest/gtest.h>

#include <barrier>
#include <random>
#include <thread>

#include "unit/core_helpers.h"

namespace weft::testing {
namespace {

using dispatch::BindGroupCache;
using dispatch::BoundRange;
using Ranges = std::vector<BoundRange>;

webgpu::BindGroup empty_group() {
  return {};
}

BindGroupCache::Group get(BindGroupCache& cache, std::uint64_t layout, const Ranges& ranges, int* made = nullptr) {
  return cache.get_or_create(layout, ranges, [&] {
    if (made != nullptr) ++*made;
    return empty_group();
  });
}

// A.9 (10), A45, A48.
TEST(BindGroupCache, A9_10_SixLookupsOverTwoBuffers) {
  BindGroupCache cache(256);
  int made = 0;
  const Ranges a{{1, 0, 64}}, b{{2, 0, 64}};
  const auto first_a = get(cache, 7, a, &made);
  EXPECT_EQ(get(cache, 7, a, &made), first_a);
  EXPECT_EQ(get(cache, 7, a, &made), first_a);
  const auto first_b = get(cache, 7, b, &made);
  EXPECT_EQ(get(cache, 7, b, &made), first_b);
  EXPECT_EQ(get(cache, 7, b, &made), first_b);
  EXPECT_NE(first_a, first_b);
  EXPECT_EQ(made, 2);
  const auto s = cache.stats();
  EXPECT_EQ(s.misses, 2u);
  EXPECT_EQ(s.hits, 4u);
  EXPECT_EQ(s.entries, 2u);
  EXPECT_EQ(s.evictions, 0u);
  EXPECT_EQ(cache.get_or_create(7, a, []() -> webgpu::BindGroup { throw std::logic_error("never called"); }), first_a);
}

// A41: every part of the key counts, and the order.
TEST(BindGroupCache, A41_Keys) {
  BindGroupCache cache(256);
  int made = 0;
  const std::pair<std::uint64_t, Ranges> keys[] = {{1, {{1, 0, 64}}},
                                                   {2, {{1, 0, 64}}},
                                                   {1, {{2, 0, 64}}},
                                                   {1, {{1, 0, 128}}},
                                                   {1, {{1, 256, 64}}},
                                                   {1, {{1, 0, 64}, {2, 0, 64}}},
                                                   {1, {{2, 0, 64}, {1, 0, 64}}},
                                                   {1, {}},
                                                   {1, {{1, 0, 64}, {1, 0, 64}}}};
  for (const auto& [layout, ranges] : keys) get(cache, layout, ranges, &made);
  EXPECT_EQ(made, 9);
  for (const auto& [layout, ranges] : keys) get(cache, layout, ranges, &made);
  EXPECT_EQ(made, 9);
  EXPECT_EQ(cache.stats().entries, 9u);
}

// A47: there is nothing that a key could not be formed of: numbers go in whole.
TEST(BindGroupCache, A47_KeysOfAnyNumbers) {
  BindGroupCache cache(256);
  constexpr std::uint64_t kFar = std::uint64_t{1} << 32;
  int made = 0;
  const std::pair<std::uint64_t, Ranges> keys[] = {{1, {{1, 0, 64}}},
                                                   {1, {{1, 0, 64 + kFar}}},
                                                   {1, {{1, kFar, 64}}},
                                                   {1, {{1 + kFar, 0, 64}}},
                                                   {1 + kFar, {{1, 0, 64}}},
                                                   {1, {{1, 0, UINT64_MAX}}},
                                                   {1, {{1, UINT64_MAX, UINT64_MAX}}},
                                                   {UINT64_MAX, Ranges(64, {UINT64_MAX, UINT64_MAX, UINT64_MAX})}};
  for (const auto& [layout, ranges] : keys) get(cache, layout, ranges, &made);
  EXPECT_EQ(made, 8);
  EXPECT_EQ(cache.stats().misses, 8u);
  for (const auto& [layout, ranges] : keys) get(cache, layout, ranges, &made);
  EXPECT_EQ(made, 8);
  EXPECT_EQ(cache.stats().hits, 8u);
}

// A42: at least one entry is kept.
TEST(BindGroupCache, A42_CapOfZeroIsOne) {
  BindGroupCache cache(0);
  int made = 0;
  get(cache, 1, {{1, 0, 4}}, &made);
  get(cache, 1, {{1, 0, 4}}, &made);
  EXPECT_EQ(made, 1);
  get(cache, 1, {{2, 0, 4}}, &made);
  EXPECT_EQ(cache.stats().entries, 1u);
  EXPECT_EQ(cache.stats().evictions, 1u);
}

// A43: least recently used goes first, and a hit counts as use.
TEST(BindGroupCache, A43_ExactLru) {
  BindGroupCache cache(3);
  for (std::uint64_t i = 1; i <= 3; ++i) get(cache, 1, {{i, 0, 4}});
  get(cache, 1, {{1, 0, 4}});  // 2 is the oldest now
  get(cache, 1, {{4, 0, 4}});
  int made = 0;
  get(cache, 1, {{1, 0, 4}}, &made);
  get(cache, 1, {{3, 0, 4}}, &made);
  get(cache, 1, {{4, 0, 4}}, &made);
  EXPECT_EQ(made, 0);
  get(cache, 1, {{2, 0, 4}}, &made);
  EXPECT_EQ(made, 1);
  get(cache, 1, {{1, 0, 4}}, &made);  // was the oldest when 2 came back
  EXPECT_EQ(made, 2);
}

// A43, against a plain list as the model.
TEST(BindGroupCache, A43_AgainstAModel) {
  constexpr std::size_t kCap = 7;
  BindGroupCache cache(kCap);
  std::vector<std::uint64_t> model;  // back: used last
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t id = 1 + random() % 12;
    const auto at = std::find(model.begin(), model.end(), id);
    if (random() % 10 == 0) {
      cache.forget_allocation(id);
      if (at != model.end()) model.erase(at);
    } else {
      int made = 0;
      get(cache, 1, {{id, 0, 4}}, &made);
      ASSERT_EQ(made == 1, at == model.end()) << i;
      if (at != model.end()) model.erase(at);
      model.push_back(id);
      if (model.size() > kCap) model.erase(model.begin());
    }
    ASSERT_EQ(cache.stats().entries, model.size());
  }
}

// A44, A.9 (9), B16: whatever comes and goes, what is kept is bounded by the cap.
TEST(BindGroupCache, A44_BoundedAfterManyInserts) {
  BindGroupCache cache(4);
  for (std::uint64_t i = 1; i <= 64; ++i) get(cache, 1, {{i, 0, 4}});
  EXPECT_EQ(cache.stats().entries, 4u);
  EXPECT_EQ(cache.stats().evictions, 60u);
  for (std::uint64_t i = 1; i <= 64; ++i) cache.forget_allocation(i);
  EXPECT_EQ(cache.stats().entries, 0u);
}

TEST(BindGroupCache, A48_EvictedGroupsAreReleased) {
  BindGroupCache cache(1);
  std::weak_ptr<const dispatch::BindGroupCache::Cached> first = get(cache, 1, {{1, 0, 4}});
  EXPECT_FALSE(first.expired());
  get(cache, 1, {{2, 0, 4}});
  EXPECT_TRUE(first.expired());
  std::weak_ptr<const dispatch::BindGroupCache::Cached> second = get(cache, 1, {{2, 0, 4}});
  cache.forget_allocation(2);
  EXPECT_TRUE(second.expired());
}

// B.5 (1), B17: nothing there, then only what mentions it.
TEST(BindGroupCache, B17_ForgetRemovesOnlyWhatMentionsIt) {
  BindGroupCache cache(8);
  cache.forget_allocation(1);
  EXPECT_EQ(cache.stats().entries, 0u);
  get(cache, 1, {{1, 0, 4}, {2, 0, 4}});
  get(cache, 1, {{2, 0, 4}, {2, 256, 4}});  // twice the same
  get(cache, 1, {{3, 0, 4}});
  cache.forget_allocation(1);
  EXPECT_EQ(cache.stats().entries, 2u);
  cache.forget_allocation(2);
  EXPECT_EQ(cache.stats().entries, 1u);
  int made = 0;
  get(cache, 1, {{3, 0, 4}}, &made);
  EXPECT_EQ(made, 0);
  cache.forget_allocation(2);
  EXPECT_EQ(cache.stats().evictions, 0u);  // not for want of room
}

// A45: no lock is held while the factory runs.
TEST(BindGroupCache, A45_FactoryMayUseTheCache) {
  BindGroupCache cache(8);
  const auto outer = cache.get_or_create(1, Ranges{{1, 0, 4}}, [&] {
    get(cache, 1, {{2, 0, 4}});
    cache.forget_allocation(2);
    EXPECT_EQ(cache.stats().entries, 0u);
    return empty_group();
  });
  EXPECT_EQ(get(cache, 1, {{1, 0, 4}}), outer);
}

// A46: two that miss together share the first insert; the later counts as a hit.
TEST(BindGroupCache, A46_InsertRechecks) {
  BindGroupCache cache(8);
  BindGroupCache::Group inner;
  const auto outer = cache.get_or_create(1, Ranges{{1, 0, 4}}, [&] {
    inner = get(cache, 1, {{1, 0, 4}});
    return empty_group();
  });
  EXPECT_EQ(outer, inner);
  EXPECT_EQ(cache.stats().entries, 1u);
  EXPECT_EQ(cache.stats().misses, 1u);
  EXPECT_EQ(cache.stats().hits, 1u);
}

// B13: threads that miss on one key at the same time all build; one group stays, for all of them, and the others go.
TEST(BindGroupCache, B13_ThreadsThatMissTogether) {
  constexpr unsigned kThreads = 4;
  BindGroupCache cache(8);
  std::barrier all_build(kThreads);
  std::vector<BindGroupCache::Group> got(kThreads);
  run_threads(kThreads, [&](unsigned t) {
    got[t] = cache.get_or_create(1, Ranges{{1, 0, 4}, {2, 0, 4}}, [&] {
      all_build.arrive_and_wait();
      return empty_group();
    });
  });
  for (const auto& group : got) EXPECT_EQ(group, got[0]);
  EXPECT_EQ(cache.stats().entries, 1u);
  EXPECT_EQ(cache.stats().misses, 1u);
  EXPECT_EQ(cache.stats().hits, kThreads - 1);
  std::weak_ptr<const BindGroupCache::Cached> last = got[0];
  got.clear();
  EXPECT_FALSE(last.expired());
  cache.forget_allocation(2);  // the key was there once
  EXPECT_EQ(cache.stats().entries, 0u);
  EXPECT_TRUE(last.expired());
}

// B14: a full cache gives one entry for one that comes; room that forgetting made is used first.
TEST(BindGroupCache, B14_OneGoesForOneThatComes) {
  constexpr std::uint64_t kCap = 64;
  BindGroupCache cache(kCap);
  for (std::uint64_t i = 1; i <= kCap; ++i) get(cache, 1, {{i, 0, 4}});
  for (std::uint64_t i = 1; i <= 10; ++i) cache.forget_allocation(i);
  for (std::uint64_t i = 101; i <= 110; ++i) get(cache, 1, {{i, 0, 4}});
  EXPECT_EQ(cache.stats().evictions, 0u);
  for (std::uint64_t i = 201; i <= 220; ++i) {
    get(cache, 1, {{i, 0, 4}});
    ASSERT_EQ(cache.stats().evictions, i - 200);
    ASSERT_EQ(cache.stats().entries, kCap);
  }
  int made = 0;
  for (std::uint64_t i = 31; i <= kCap; ++i) get(cache, 1, {{i, 0, 4}}, &made);  // the oldest 20, from 11 on, went
  EXPECT_EQ(made, 0);
  get(cache, 1, {{30, 0, 4}}, &made);
  EXPECT_EQ(made, 1);
}

// A49, A.9 (8): a factory that throws leaves all as it was; other threads go on.
TEST(BindGroupCache, A49_ThrowingFactory) {
  BindGroupCache cache(8);
  const auto kept = get(cache, 1, {{9, 0, 4}});
  const auto fail = [&] {
    cache.get_or_create(1, Ranges{{1, 0, 4}}, []() -> webgpu::BindGroup { throw std::runtime_error("no group"); });
  };
  EXPECT_THROW(fail(), std::runtime_error);
  run_threads(4, [&](unsigned) {
    for (int i = 0; i < 100; ++i) {
      EXPECT_THROW(fail(), std::runtime_error);
      EXPECT_EQ(get(cache, 1, {{9, 0, 4}}), kept);
    }
  });
  EXPECT_EQ(cache.stats().entries, 1u);
  EXPECT_EQ(cache.stats().misses, 1u);
  int made = 0;
  get(cache, 1, {{1, 0, 4}}, &made);
  EXPECT_EQ(made, 1);
}

// Entries stay those of their keys when threads insert, hit and forget at once.
TEST(BindGroupCache, ManyThreads) {
  BindGroupCache cache(16);
  run_threads(8, [&](unsigned t) {
    std::mt19937 random(t);
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t a = 1 + random() % 20, b = 1 + random() % 20;
      if (random() % 8 == 0) {
        cache.forget_allocation(a);
      } else {
        EXPECT_NE(get(cache, 1, {{a, 0, 4}, {b, 0, 4}}), nullptr);
      }
    }
  });
  const auto s = cache.stats();
  EXPECT_LE(s.entries, 16u);
  for (std::uint64_t i = 1; i <= 20; ++i) cache.forget_allocation(i);
  EXPECT_EQ(cache.stats().entries, 0u);
}

}  // namespace
}  // namespace weft::testing
