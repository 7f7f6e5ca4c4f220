// Bytes to and from device memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "dispatch/state.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft {
namespace {

using detail::DeviceState;

/// The implementation copies what a queue write gets into memory of its own until the next submit: pieces bound that.
constexpr std::size_t kWritePiece = std::size_t{32} << 20;

/// Writes whole words through the queue, after recorded work on the buffer.
void write_words(DeviceState& device, memory::Allocation& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  device.submit_users_of(to, nullptr);
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kWritePiece);
    device.gpu.write_buffer(to.buffer.get(), offset, bytes.first(n));
    bytes = bytes.subspan(n);
    offset += n;
    if (!bytes.empty()) device.gpu.submit(device.gpu.create_encoder("weft.write"), "weft.write");
  }
}

constexpr const char* kPatchSource = R"(
struct Params { word: u32, mask: u32, value: u32 }
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
@compute @workgroup_size(1) fn main() {
  data[params.word] = (data[params.word] & ~params.mask) | (params.value & params.mask);
}
)";

/// Changes some bytes of one word on the device, in order with recorded work: the queue can write whole words only, and
/// the others must keep what they hold (D7).
void patch_word(DeviceState& device, memory::Allocation& to, std::uint64_t word, std::uint32_t mask,
                std::uint32_t value) {
  const Kernel kernel = dispatch::library_kernel(device, "patch_word", [] {
    KernelOptions o;
    o.source = kPatchSource;
    o.label = "weft.patch_word";
    return o;
  });
  const std::uint64_t alignment = device.gpu.limits().min_storage_offset_alignment;
  const std::uint64_t window = word * 4 / alignment * alignment;
  const struct {
    std::uint32_t word, mask, value;
  } params{static_cast<std::uint32_t>(word - window / 4), mask, value};
  const dispatch::Operand operand{&to, window, std::min<std::uint64_t>(alignment, to.size - window)};
  dispatch::record_dispatch(*device.default_stream, *kernel.state(), std::span(&operand, 1),
                            std::as_bytes(std::span(&params, 1)), Grid{});
}

}  // namespace

struct Readback::State {
  std::shared_ptr<DeviceState> device;
  std::unique_ptr<memory::Staging> staging;  ///< null for a read of nothing
  std::shared_ptr<webgpu::Gpu::MapState> map;
  memory::ReadPlan plan;
  std::uint64_t size = 0;

  ~State() {
    if (!staging) return;
    if (map->status.load(std::memory_order_acquire) == webgpu::Gpu::MapStatus::ready) {
      device->gpu.unmap(staging->buffer.get());
      device->memory->staging().release(std::move(staging));
    } else {
      device->memory->staging().park(std::move(staging), std::move(map));
    }
  }
};

Readback::Readback(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Readback::Readback(Readback&&) noexcept = default;
Readback& Readback::operator=(Readback&&) noexcept = default;
Readback::~Readback() = default;

namespace {
Readback::State& state_of(const std::unique_ptr<Readback::State>& state) {
  if (!state) throw Error(ErrorCode::invalid_argument, "the readback is empty", "take one from Device::read_async");
  return *state;
}
}  // namespace

bool Readback::ready() {
  State& s = state_of(state_);
  if (!s.staging) return true;
  s.device->gpu.poll();
  return s.map->status.load(std::memory_order_acquire) != webgpu::Gpu::MapStatus::pending || s.device->gpu.lost();
}

void Readback::wait(ReadOptions options) {
  State& s = state_of(state_);
  if (!s.staging) return;
  const auto settled = [&] {
    return s.map->status.load(std::memory_order_acquire) != webgpu::Gpu::MapStatus::pending || s.device->gpu.lost();
  };
  const bool in_time = webgpu::wait_until([&] { s.device->gpu.poll(); }, settled, s.device->deadline(options));
  const auto status = s.map->status.load(std::memory_order_acquire);
  if (status == webgpu::Gpu::MapStatus::ready) return;
  s.device->gpu.check_alive("read");
  if (status == webgpu::Gpu::MapStatus::failed) {
    throw Error(ErrorCode::internal, fmt::format("read: mapping the staging buffer failed: {}", s.map->message),
                "read again; if it stays, report this");
  }
  if (!in_time) {
    throw Error(ErrorCode::timed_out,
                fmt::format("read of {} bytes: the deadline passed before they were there", s.size),
                "wait again, raise the deadline, or split the work in front of the read");
  }
}

std::span<const std::byte> Readback::view() {
  wait();
  State& s = state_of(state_);
  if (!s.staging) return {};
  const auto mapped = s.device->gpu.mapped_range(s.staging->buffer.get(), s.plan.copy_size, false);
  return std::span<const std::byte>(mapped).subspan(s.plan.trim, s.size);
}

Buffer Device::alloc(std::size_t size, Usage usage) {
  return state_->memory->alloc(size, usage);
}

Buffer Device::zeros_bytes(std::size_t size, Usage usage) {
  Buffer buffer = alloc(size, usage | Usage::copy_dst);
  memory::Allocation& a = *buffer.state()->allocation;
  dispatch::record_clear(*state_->default_stream, a, 0, a.size);
  return buffer;
}

Buffer Device::upload_bytes(std::span<const std::byte> bytes, Usage usage) {
  Buffer buffer = alloc(bytes.size(), usage | Usage::copy_dst);
  write(buffer, 0, bytes);
  return buffer;
}

Buffer Device::upload_with(std::size_t size, const std::function<void(std::span<std::byte>)>& fill, Usage usage) {
  Buffer buffer = state_->memory->alloc_mapped(size, usage | Usage::copy_dst);
  webgpu::Gpu& gpu = state_->gpu;
  memory::Allocation& a = *buffer.state()->allocation;
  try {
    fill(gpu.mapped_range(a.buffer.get(), a.size, true).first(size));
  } catch (...) {
    gpu.unmap(a.buffer.get());  // the pool takes unmapped memory only
    throw;
  }
  gpu.unmap(a.buffer.get());
  state_->counters.uploads.fetch_add(1, std::memory_order_relaxed);
  state_->counters.bytes_uploaded.fetch_add(size, std::memory_order_relaxed);
  return buffer;
}

void Device::write(const Buffer& buffer, std::size_t offset, std::span<const std::byte> bytes) {
  DeviceState& device = *state_;
  const auto& state = device.memory->check_owner(buffer, "write");
  device.gpu.check_alive("write");
  memory::Allocation& to = *state->allocation;
  if (!has(static_cast<Usage>(to.usage), Usage::copy_dst)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("write: buffer {} has usage {}, without copy_dst", state->id,
                            to_string(static_cast<Usage>(to.usage))),
                "allocate it with Usage::copy_dst");
  }
  const std::uint64_t end = checked_add(offset, bytes.size(), "write: offset + size");
  if (end > state->size) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("write: bytes {} to {} of buffer {}, which has {}", offset, end, state->id, state->size),
                fmt::format("end the range at {} or before", state->size));
  }
  if (bytes.empty()) return;
  device.counters.uploads.fetch_add(1, std::memory_order_relaxed);
  device.counters.bytes_uploaded.fetch_add(bytes.size(), std::memory_order_relaxed);

  // Words at the edges that the range covers in part. Past the buffer's logical end nobody's bytes lie, so a word that
  // the buffer ends in may be written whole.
  const bool head_partial = offset % 4 != 0;
  const bool tail_partial = end % 4 != 0 && end != state->size;
  const auto partial_word = [](std::span<const std::byte> part, std::size_t shift, std::uint32_t& mask) {
    std::uint32_t value = 0;
    mask = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      value |= static_cast<std::uint32_t>(part[i]) << (8 * (shift + i));
      mask |= 0xffu << (8 * (shift + i));
    }
    return value;
  };
  if ((head_partial || tail_partial) && !has(static_cast<Usage>(to.usage), Usage::storage)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("write: bytes {} to {} of buffer {} cut words, and its usage {} lacks storage", offset, end,
                            state->id, to_string(static_cast<Usage>(to.usage))),
                "align both ends to 4, or allocate it with Usage::storage");
  }

  std::uint64_t word = offset / 4;
  std::uint32_t mask = 0;
  if (head_partial) {
    const std::size_t shift = offset % 4;
    const std::size_t n = std::min(bytes.size(), 4 - shift);
    const std::uint32_t value = partial_word(bytes.first(n), shift, mask);
    patch_word(device, to, word, mask, value);
    bytes = bytes.subspan(n);
    ++word;
    if (bytes.empty()) return;
  }
  const std::size_t whole = bytes.size() / 4 * 4;
  if (whole > 0) write_words(device, to, word * 4, bytes.first(whole));
  bytes = bytes.subspan(whole);
  if (bytes.empty()) return;
  const std::uint32_t value = partial_word(bytes, 0, mask);
  if (tail_partial) {
    patch_word(device, to, word + whole / 4, mask, value);
  } else {
    write_words(device, to, word * 4 + whole, std::as_bytes(std::span(&value, 1)));
  }
}

Readback Device::read_async(const Buffer& buffer, std::size_t offset, std::size_t size) {
  DeviceState& device = *state_;
  const auto& source = device.memory->check_owner(buffer, "read");
  device.gpu.check_alive("read");
  auto state = std::make_unique<Readback::State>();
  state->device = state_;
  state->plan = memory::plan_read(*source, offset, size);
  state->size = size;
  if (state->plan.copy_size == 0) return Readback(std::move(state));

  // The copy joins the batch it waits for: one submit for both.
  std::unique_ptr<memory::Staging> staging = device.memory->staging().acquire(state->plan.copy_size);
  try {
    dispatch::copy_out_and_submit(*device.default_stream, *source->allocation, state->plan.copy_offset,
                                  staging->buffer.get(), 0, state->plan.copy_size);
    state->map = device.gpu.map_async(staging->buffer.get(), false, state->plan.copy_size);
  } catch (...) {
    device.memory->staging().drop(std::move(staging));
    throw;
  }
  state->staging = std::move(staging);
  device.counters.reads.fetch_add(1, std::memory_order_relaxed);
  device.counters.bytes_read.fetch_add(size, std::memory_order_relaxed);
  return Readback(std::move(state));
}

void Device::read(const Buffer& buffer, std::size_t offset, std::span<std::byte> out, ReadOptions options) {
  Readback readback = read_async(buffer, offset, out.size());
  readback.wait(options);
  const auto bytes = readback.view();
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
}

std::optional<Buffer> Device::resident(std::uint64_t id) const {
  return state_->memory->resident(id);
}

void Device::trim() {
  state_->memory->pool().trim();
  state_->memory->staging().trim();
}

}  // namespace weft
