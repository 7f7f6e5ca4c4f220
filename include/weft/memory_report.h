// weft/memory_report.h - where a device's memory is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Allocations of one size.
struct MemoryClass {
  std::uint64_t size = 0;      ///< bytes of each allocation
  std::uint64_t live = 0;      ///< allocations in handles
  std::uint64_t retained = 0;  ///< allocations kept for reuse
};

/// One moment's picture of a device's memory; all sizes in bytes. Counters run since the device was opened.
struct MemoryReport {
  std::uint64_t live_bytes = 0;      ///< in handles; 0 when all handles are gone
  std::uint64_t retained_bytes = 0;  ///< kept for reuse; at most cap_bytes
  std::uint64_t cap_bytes = 0;       ///< of what is retained; see DeviceOptions::pool_bytes
  std::uint64_t peak_bytes = 0;      ///< highest live + retained
  std::uint64_t staging_bytes = 0;   ///< host-visible memory of transfers, in use or kept
  /// Most staging memory that is kept for reads; also how much of it may be on its way at a time (Device::read_async).
  std::uint64_t staging_cap_bytes = 0;
  std::uint64_t in_flight_bytes = 0;  ///< of reads that the device has not answered yet
  std::uint64_t allocations = 0;      ///< WebGPU buffers made
  std::uint64_t hits = 0;             ///< requests served from the pool
  std::uint64_t releases = 0;         ///< allocations handed back
  std::uint64_t evictions = 0;        ///< allocations released to stay under the cap, or by trim()
  std::uint64_t staging_allocations = 0;
  std::uint64_t staging_hits = 0;
  std::vector<MemoryClass> classes;  ///< by size, those with anything in them

  /// One JSON object with these names.
  std::string to_json() const;
  /// A few lines for a terminal.
  std::string to_text() const;
};

}  // namespace weft
