// The process's map from buffer ids to live buffers. Weak: it keeps nothing alive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace weft::detail {
struct BufferState;
}

namespace weft::memory {

void register_buffer(std::uint64_t id, std::uint64_t owner, const std::shared_ptr<detail::BufferState>& state);
void unregister_buffer(std::uint64_t id) noexcept;

struct Found {
  std::uint64_t owner = 0;
  std::shared_ptr<detail::BufferState> state;  ///< null when the last handle is just going
};
/// No lock is held when this returns, so dropping the result may run any destructor.
std::optional<Found> find_buffer(std::uint64_t id);

}  // namespace weft::memory
