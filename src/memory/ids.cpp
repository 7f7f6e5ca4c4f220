#include "memory/ids.h"

#include "weft/error.h"

namespace weft::memory {
namespace {

std::atomic<std::uint64_t> buffers{0}, allocations{0}, devices{0};

}  // namespace

std::uint64_t mint(std::atomic<std::uint64_t>& last) {
  std::uint64_t given = last.load(std::memory_order_relaxed);
  do {
    if (given == UINT64_MAX) {
      throw Error(ErrorCode::internal, "all 2^64 - 1 ids of this process are used up", "restart the process");
    }
  } while (!last.compare_exchange_weak(given, given + 1, std::memory_order_relaxed));
  return given + 1;
}

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
