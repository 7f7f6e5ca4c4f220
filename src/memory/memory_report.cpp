#include "weft/memory_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace weft {
namespace {

std::string human(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

}  // namespace

std::string MemoryReport::to_json() const {
  nlohmann::ordered_json j = {{"live_bytes", live_bytes},
                              {"retained_bytes", retained_bytes},
                              {"cap_bytes", cap_bytes},
                              {"peak_bytes", peak_bytes},
                              {"staging_bytes", staging_bytes},
                              {"staging_cap_bytes", staging_cap_bytes},
                              {"in_flight_bytes", in_flight_bytes},
                              {"allocations", allocations},
                              {"hits", hits},
                              {"releases", releases},
                              {"evictions", evictions},
                              {"staging_allocations", staging_allocations},
                              {"staging_hits", staging_hits},
                              {"classes", nlohmann::ordered_json::array()}};
  for (const MemoryClass& c : classes) {
    j["classes"].push_back({{"size", c.size}, {"live", c.live}, {"retained", c.retained}});
  }
  return j.dump();
}

std::string MemoryReport::to_text() const {
  std::string out = fmt::format(
      "memory: {} live, {} retained of at most {}, peak {}\n"
      "        staging {} of at most {} kept for reads, {} on its way\n"
      "        {} allocations, {} reused, {} handed back, {} evicted; staging {} allocations, {} reused\n",
      human(live_bytes), human(retained_bytes), human(cap_bytes), human(peak_bytes), human(staging_bytes),
      human(staging_cap_bytes), human(in_flight_bytes), allocations, hits, releases, evictions, staging_allocations,
      staging_hits);
  for (const MemoryClass& c : classes) {
    out += fmt::format("        {:>10}: {} live, {} retained\n", human(c.size), c.live, c.retained);
  }
  return out;
}

}  // namespace weft
