#include "memory/ids.h"

#include <atomic>

#include "weft/error.h"

namespace weft::memory {
namespace {

std::uint64_t mint(std::atomic<std::uint64_t>& last) {
  const std::uint64_t id = last.fetch_add(1, std::memory_order_relaxed) + 1;
  if (id == 0) {
    last.fetch_sub(1, std::memory_order_relaxed);  // stay exhausted
    throw Error(ErrorCode::internal, "all 2^64 - 1 ids of this process are used up", "restart the process");
  }
  return id;
}

std::atomic<std::uint64_t> buffers{0}, allocations{0}, devices{0};

}  // namespace

std::uint64_t mint_buffer_id() {
  return mint(buffers);
}
std::uint64_t mint_allocation_id() {
  return mint(allocations);
}
std::uint64_t mint_device_id() {
  return mint(devices);
}

}  // namespace weft::memory
