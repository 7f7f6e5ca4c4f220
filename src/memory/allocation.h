// Device memory behind buffers.
#pragma once

#include <atomic>
#include <cstdint>

#include "webgpu/api.h"

namespace weft::memory {

/// Which recorded, unsubmitted batch names an allocation: the stream's id and the batch's serial. 0 means none.
struct PendingUse {
  std::uint64_t stream = 0;
  std::uint64_t batch = 0;
};

/// One WebGPU buffer. Its id names it in cache keys: it survives return to the pool and reuse, and ends with the memory.
struct Allocation {
  webgpu::BufferHandle buffer;
  std::uint64_t id = 0;
  std::uint64_t size = 0;   ///< bytes, a multiple of 4
  std::uint32_t usage = 0;  ///< WebGPU's bits

  // The last batch that named this memory. Written under that stream's lock, read by other streams before they touch the
  // memory: what they must see happened before by the caller's own synchronisation. Two fields, no torn read matters:
  // a stale pair leads to one needless submit at most, since batches only count up and streams are never renumbered.
  std::atomic<std::uint64_t> pending_stream{0};
  std::atomic<std::uint64_t> pending_batch{0};
};

}  // namespace weft::memory
