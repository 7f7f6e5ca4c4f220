// weft/stats.h - counters of a device.
#pragma once

#include <cstdint>

namespace weft {

/// Counters of one device since it was opened. Monotonic except where «now» is said.
struct Stats {
  // work
  std::uint64_t dispatches = 0;
  std::uint64_t copies = 0;  ///< buffer to buffer copies and clears recorded
  std::uint64_t submits = 0;
  std::uint64_t passes = 0;
  // transfers
  std::uint64_t bytes_uploaded = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t uploads = 0;
  std::uint64_t reads = 0;
  std::uint64_t read_copies = 0;  ///< copies into staging that reads recorded; neighbours of one call are one
  // memory
  std::uint64_t live_bytes = 0;        ///< now, in handles
  std::uint64_t retained_bytes = 0;    ///< now, kept for reuse
  std::uint64_t staging_bytes = 0;     ///< now, staging memory in use or kept
  std::uint64_t peak_bytes = 0;        ///< highest live + retained
  std::uint64_t pool_allocations = 0;  ///< buffers made
  std::uint64_t pool_hits = 0;         ///< buffers reused
  std::uint64_t pool_releases = 0;
  std::uint64_t pool_evictions = 0;
  std::uint64_t staging_allocations = 0;
  std::uint64_t staging_hits = 0;
  // caches
  std::uint64_t pipeline_hits = 0;
  std::uint64_t pipeline_misses = 0;  ///< compiles
  std::uint64_t pipeline_evictions = 0;
  std::uint64_t pipeline_entries = 0;  ///< now
  double compile_ms = 0;               ///< time spent in the implementation's compiler
  std::uint64_t bind_group_hits = 0;
  std::uint64_t bind_group_misses = 0;
  std::uint64_t bind_group_evictions = 0;
  std::uint64_t bind_group_entries = 0;  ///< now
  // ops
  std::uint64_t fused_ops = 0;     ///< elementwise operations that ran inside another's kernel
  std::uint64_t materialized = 0;  ///< views that had to be copied before a kernel could take them
  std::uint64_t tuned_ops = 0;     ///< products and the like that ran by a stored choice (weft/tune.h)
};

}  // namespace weft
