#include "dispatch/bind_group_cache.h"

#include <algorithm>
#include <atomic>

namespace weft::dispatch {
namespace {

/// Ids are small consecutive numbers and must spread: a multiplication by an odd number (2^64 over the golden ratio,
/// Knuth's multiplicative hashing), the high half folded down. One-to-one in `v`.
std::uint64_t mix(std::uint64_t h, std::uint64_t v) noexcept {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 32);
}

}  // namespace

std::uint64_t BindGroupCache::hash(std::uint64_t layout, std::span<const BoundRange> ranges) noexcept {
  std::uint64_t h = mix(0, layout);
  for (const BoundRange& r : ranges) h = mix(mix(mix(h, r.allocation), r.offset), r.size);
  return h;
}

std::uint64_t BindGroupCache::next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

BindGroupCache::Lru::iterator* BindGroupCache::lookup(std::uint64_t key, std::uint64_t layout,
                                                      std::span<const BoundRange> ranges) {
  const auto [first, last] = by_key_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    const Entry& e = *it->second;
    if (e.layout == layout && std::ranges::equal(e.ranges, ranges)) return &it->second;
  }
  return nullptr;
}

BindGroupCache::Group BindGroupCache::find(std::uint64_t layout, std::span<const BoundRange> ranges) {
  const std::uint64_t key = hash(layout, ranges);
  const std::lock_guard lock(mutex_);
  Lru::iterator* found = lookup(key, layout, ranges);
  if (found == nullptr) return nullptr;
  lru_.splice(lru_.begin(), lru_, *found);
  ++stats_.hits;
  return (*found)->group;
}

BindGroupCache::Group BindGroupCache::insert(std::uint64_t layout, std::span<const BoundRange> ranges, Group made) {
  const std::uint64_t key = hash(layout, ranges);
  Lru node;  // made outside the lock
  node.push_front(Entry{layout, {ranges.begin(), ranges.end()}, made});
  Lru evicted;  // destroyed after the lock is gone
  const std::lock_guard lock(mutex_);
  if (Lru::iterator* found = lookup(key, layout, ranges)) {  // another thread was faster: its group serves both
    lru_.splice(lru_.begin(), lru_, *found);
    ++stats_.hits;
    return (*found)->group;
  }
  // Indexes first: if one of these throws for want of memory, what was added is taken back and nothing changed.
  const auto entry = node.begin();
  const auto keyed = by_key_.emplace(key, entry);
  std::size_t indexed = 0;
  try {
    for (const BoundRange& r : entry->ranges) {
      by_allocation_.emplace(r.allocation, entry);
      ++indexed;
    }
  } catch (...) {
    by_key_.erase(keyed);
    for (std::size_t i = 0; i < indexed; ++i) {
      const auto [first, last] = by_allocation_.equal_range(entry->ranges[i].allocation);
      for (auto it = first; it != last;) it = it->second == entry ? by_allocation_.erase(it) : std::next(it);
    }
    throw;
  }
  lru_.splice(lru_.begin(), node, entry);
  ++stats_.misses;
  while (lru_.size() > cap_) {
    remove(std::prev(lru_.end()), evicted);
    ++stats_.evictions;
  }
  return made;
}

void BindGroupCache::remove(Lru::iterator entry, Lru& removed) {
  const auto [first, last] = by_key_.equal_range(hash(entry->layout, entry->ranges));
  for (auto it = first; it != last; ++it) {
    if (it->second == entry) {
      by_key_.erase(it);
      break;
    }
  }
  for (const BoundRange& r : entry->ranges) {
    const auto [begin, end] = by_allocation_.equal_range(r.allocation);
    for (auto it = begin; it != end;) it = it->second == entry ? by_allocation_.erase(it) : std::next(it);
  }
  removed.splice(removed.begin(), lru_, entry);
}

void BindGroupCache::forget_allocation(std::uint64_t allocation) noexcept {
  Lru removed;
  const std::lock_guard lock(mutex_);
  for (auto it = by_allocation_.find(allocation); it != by_allocation_.end(); it = by_allocation_.find(allocation)) {
    remove(it->second, removed);
  }
}

BindGroupStats BindGroupCache::stats() const {
  const std::lock_guard lock(mutex_);
  BindGroupStats out = stats_;
  out.entries = lru_.size();
  return out;
}

}  // namespace weft::dispatch
