// Process-wide identities. Each kind starts at 1, only counts up, and is never reused (A1, A6, A14).
#pragma once

#include <cstdint>

namespace weft::memory {

std::uint64_t mint_buffer_id();
std::uint64_t mint_allocation_id();
std::uint64_t mint_device_id();

}  // namespace weft::memory
