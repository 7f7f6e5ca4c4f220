// The memory of one device: its buffers' owner identity, pools and range checks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "memory/buffer_pool.h"
#include "memory/copy_threads.h"
#include "memory/queue_writes.h"
#include "memory/reads_in_flight.h"
#include "memory/staging_pool.h"
#include "memory/upload_ring.h"
#include "memory/upload_staging.h"
#include "webgpu/gpu.h"
#include "weft/buffer.h"

namespace weft::memory {
class Memory;
}

namespace weft::detail {

/// Behind a Buffer. The destructor takes it out of the registry, then hands the allocation back to the pool if the
/// device's memory still lives, and else releases it.
struct BufferState {
  BufferState() = default;
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;
  ~BufferState();

  std::uint64_t id = 0;
  std::uint64_t owner = 0;
  std::uint64_t size = 0;   ///< bytes that were asked for
  bool of_library = false;  ///< a table of the op library's own, which no caller has a handle of
  std::unique_ptr<memory::Allocation> allocation;
  std::weak_ptr<memory::Memory> home;
};

}  // namespace weft::detail

namespace weft::memory {

/// Where a read of [offset, offset + size) of a buffer goes: copies start and end at multiples of 4.
struct ReadPlan {
  std::uint64_t copy_offset = 0;
  std::uint64_t copy_size = 0;
  std::uint64_t trim = 0;  ///< bytes of the copy in front of the first wanted one
};

/// Checks usage, then range, and plans a read. `size` 0 gives a plan with copy_size 0.
ReadPlan plan_read(const detail::BufferState& buffer, std::uint64_t offset, std::uint64_t size);

class Memory : public std::enable_shared_from_this<Memory> {
 public:
  Memory(std::shared_ptr<webgpu::Gpu> gpu, std::uint64_t pool_cap, std::uint64_t staging_cap,
         std::function<void(std::uint64_t)> on_destroy);

  std::uint64_t owner() const noexcept { return owner_; }
  BufferPool& pool() noexcept { return pool_; }
  StagingPool& staging() noexcept { return staging_; }
  ReadsInFlight& reads_in_flight() noexcept { return reads_in_flight_; }
  QueueWrites& queue_writes() noexcept { return queue_writes_; }
  UploadRing& upload_ring() noexcept { return upload_ring_; }
  /// Host memory for uploads of up to `size` bytes each. It must not outlive this object. Throws as alloc does.
  std::unique_ptr<UploadStaging> make_upload_staging(std::uint64_t size);
  /// Bytes of host memory that uploads hold.
  std::uint64_t upload_bytes() const noexcept { return upload_bytes_.load(std::memory_order_relaxed); }
  CopyThreads& copy_threads() noexcept { return copy_threads_; }

  /// `size` 0 allowed. Throws as Device::alloc says.
  Buffer alloc(std::uint64_t size, Usage usage);
  /// A buffer whose allocation is mapped for writing; the caller unmaps it.
  Buffer alloc_mapped(std::uint64_t size, Usage usage);

  /// Throws Error{foreign_buffer} or {invalid_argument} unless `buffer` is a handle of this device; `what` names the
  /// call.
  const std::shared_ptr<detail::BufferState>& check_owner(const Buffer& buffer, std::string_view what) const;
  std::optional<Buffer> resident(std::uint64_t id) const;

 private:
  Buffer make(std::uint64_t size, Usage usage, bool mapped);
  /// What the implementation would not survive, or call a lack of memory.
  void check_request(std::uint64_t size, Usage usage) const;

  const std::shared_ptr<webgpu::Gpu> gpu_owner_;
  webgpu::Gpu& gpu_;
  const std::uint64_t owner_;
  BufferPool pool_;
  StagingPool staging_;
  ReadsInFlight reads_in_flight_;
  CopyThreads copy_threads_;
  QueueWrites queue_writes_;
  std::atomic<std::uint64_t> upload_bytes_{0};
  UploadRing upload_ring_;
};

}  // namespace weft::memory
