// Process-wide identities. Each kind starts at 1, only counts up, and is never reused.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::memory {

/// The next id after `last`, which it becomes. Throws when there is none left, and stays so: no id comes twice.
std::uint64_t mint(std::atomic<std::uint64_t>& last);

std::uint64_t mint_buffer_id();
std::uint64_t mint_allocation_id();
std::uint64_t mint_device_id();

}  // namespace weft::memory
