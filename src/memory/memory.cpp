#include "memory/memory.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "memory/ids.h"
#include "memory/registry.h"
#include "weft/error.h"

namespace weft::detail {

BufferState::~BufferState() {
  memory::unregister_buffer(id);
  if (!allocation) return;
  if (const auto memory = home.lock()) memory->pool().release(std::move(allocation));
}

}  // namespace weft::detail

namespace weft::memory {

ReadPlan plan_read(const detail::BufferState& buffer, std::uint64_t offset, std::uint64_t size) {
  if ((buffer.allocation->usage & static_cast<std::uint32_t>(Usage::copy_src)) == 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("read: buffer {} has usage {}, without copy_src", buffer.id,
                            to_string(static_cast<Usage>(buffer.allocation->usage))),
                "allocate it with Usage::copy_src");
  }
  const std::uint64_t end = checked_add(offset, size, "read: offset + size");
  if (end > buffer.size) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("read: bytes {} to {} of buffer {}, which has {}", offset, end, buffer.id, buffer.size),
                fmt::format("end the range at {} or before", buffer.size));
  }
  ReadPlan plan;
  if (size == 0) return plan;
  plan.copy_offset = offset & ~std::uint64_t{3};
  plan.trim = offset - plan.copy_offset;
  plan.copy_size = checked_align(plan.trim + size, 4, "read: copy size");
  return plan;
}

Memory::Memory(std::shared_ptr<webgpu::Gpu> gpu, std::uint64_t pool_cap, std::uint64_t staging_cap,
               std::function<void(std::uint64_t)> on_destroy)
    : gpu_owner_(std::move(gpu)),
      gpu_(*gpu_owner_),
      owner_(mint_device_id()),
      pool_(gpu_, pool_cap, std::move(on_destroy)),
      staging_(gpu_, staging_cap),
      reads_in_flight_(gpu_, staging_cap),
      queue_writes_(gpu_),
      upload_ring_(gpu_, copy_threads_, upload_bytes_) {}

void Memory::check_request(std::uint64_t size, Usage usage) const {
  constexpr auto kAll = static_cast<std::uint32_t>(kDefaultUsage | Usage::uniform | Usage::indirect);
  const auto bits = static_cast<std::uint32_t>(usage);
  if (bits == 0 || (bits & ~kAll) != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a buffer's usage is {:#x}, {}", bits,
                            bits == 0 ? "none at all" : "with bits that Usage does not name"),
                "combine values of Usage with |");
  }
  const std::uint64_t limit = gpu_.limits().max_buffer_size;
  if (size > limit) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("a buffer of {} bytes is over the adapter's limit max_buffer_size of {}", size, limit),
                "split it into several buffers");
  }
}

Buffer Memory::make(std::uint64_t size, Usage usage, bool mapped) {
  // All that the host may refuse comes first, or finds the state complete: then its destructor hands the memory back.
  auto state = std::make_shared<detail::BufferState>();
  state->home = weak_from_this();
  state->size = size;
  state->owner = owner_;
  state->id = mint_buffer_id();
  const auto bits = static_cast<std::uint32_t>(usage);
  state->allocation = mapped ? pool_.acquire_mapped(size, bits) : pool_.acquire(size, bits);
  try {
    register_buffer(state->id, owner_, state);
  } catch (...) {
    if (mapped) gpu_.unmap(state->allocation->buffer.get());  // the pool takes unmapped memory only
    throw;
  }
  return Buffer(std::move(state));
}

Buffer Memory::alloc(std::uint64_t size, Usage usage) {
  check_request(size, usage);
  gpu_.check_alive("alloc");
  return make(size, usage, false);
}

Buffer Memory::alloc_mapped(std::uint64_t size, Usage usage) {
  check_request(size, usage);
  gpu_.check_alive("upload");
  return make(size, usage, true);
}

std::unique_ptr<UploadStaging> Memory::make_upload_staging(std::uint64_t size) {
  check_request(size, Usage::copy_src);  // what staging memory is to the caller
  gpu_.check_alive("upload");
  return std::make_unique<UploadStaging>(gpu_, checked_align(size, 4, "upload: size"), upload_bytes_);
}

const std::shared_ptr<detail::BufferState>& Memory::check_owner(const Buffer& buffer, std::string_view what) const {
  const auto& state = buffer.state();
  if (!state) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: the buffer handle is empty", what),
                "pass a buffer that Device::alloc or Device::upload gave");
  }
  if (state->owner != owner_) {
    throw Error(ErrorCode::foreign_buffer,
                fmt::format("{}: buffer {} is owned by device {}, and this is device {}", what, state->id, state->owner,
                            owner_),
                "use it with its own device, or read it and upload it here");
  }
  return state;
}

std::optional<Buffer> Memory::resident(std::uint64_t id) const {
  std::optional<Found> found = find_buffer(id);
  if (!found) return std::nullopt;
  if (found->owner != owner_) {
    throw Error(
        ErrorCode::foreign_buffer,
        fmt::format("resident: buffer {} is owned by device {}, and this is device {}", id, found->owner, owner_),
        "ask the device that owns it");
  }
  if (!found->state) return std::nullopt;
  return Buffer(std::move(found->state));
}

}  // namespace weft::memory
