// Device memory behind buffers.
#pragma once

#include <atomic>
#include <cstdint>

#include "memory/age_list.h"
#include "webgpu/handles.h"

namespace weft::memory {

/// One WebGPU buffer. Its id names it in cache keys: it survives return to the pool and reuse, and ends with the
/// memory.
struct Allocation {
  webgpu::BufferHandle buffer;
  std::uint64_t id = 0;
  std::uint64_t size = 0;   ///< bytes, a multiple of 4
  std::uint32_t usage = 0;  ///< WebGPU's bits

  /// The ticket (StreamState::ticket) of the last batch that named this memory; 0 before the first. A batch claims
  /// memory before it records work on it, and only once the work of the claim before is submitted: so unsubmitted work
  /// on this memory is in one stream at most, and this names it.
  std::atomic<std::uint64_t> pending{0};

  // Places in the pool while it is retained there.
  AgeLinks<Allocation> among_all;
  AgeLinks<Allocation> among_class;
};

}  // namespace weft::memory
