#include <unistd.h>

#include <fstream>
#include <string>

#include "base/env.h"
#include "weft/expr.h"

namespace weft {
namespace {

/// Of a device with memory of its own: few have less, and past it blocks run as fast as the whole.
constexpr std::uint64_t kUnknown = std::uint64_t{2} << 30;

/// Memory of the host that programs can still get.
std::uint64_t free_host_memory() {
  std::ifstream info("/proc/meminfo");
  std::string word;
  while (info >> word) {
    std::uint64_t kib = 0;
    if (word == "MemAvailable:" && info >> kib) return kib * 1024;
  }
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long size = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && size > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size) : kUnknown;
}

}  // namespace

MemoryBudget memory_budget(const Device& device, std::uint64_t wanted) {
  if (wanted == 0) wanted = env_bytes("WEFT_MEMORY_BYTES").value_or(0);
  if (wanted != 0) return {wanted, wanted};
  const AdapterType type = device.adapter().type;
  if (type != AdapterType::cpu && type != AdapterType::integrated) return {kUnknown, 0};
  const std::uint64_t free = free_host_memory();
  return {free / 2, free};
}

}  // namespace weft
