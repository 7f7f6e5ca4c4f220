// Bytes to and from device memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/checked.h"
#include "dispatch/state.h"
#include "webgpu/instance.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft {
namespace {

using detail::DeviceState;

/// From here a read runs in pieces, so that several threads copy while later pieces are on their way.
constexpr std::size_t kReadPiecesFrom = std::size_t{8} << 20;
constexpr std::uint64_t kReadPiece = std::uint64_t{16} << 20;
constexpr std::size_t kReadPiecesInFlight = 4;
/// A read with a deadline of its own comes in one piece up to here.
constexpr std::size_t kReadWholeUpTo = std::size_t{256} << 20;

/// Writes whole words, after recorded work on the buffer.
void write_words(DeviceState& device, memory::Allocation& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  device.submit_users_of(to, nullptr);
  if (bytes.size() >= webgpu::staged_uploads_from(device.gpu.adapter().type)) {
    device.memory->upload_ring().upload(to.buffer.get(), offset, bytes, device.deadline({}));
  } else if (!bytes.empty()) {
    device.memory->queue_writes().write(to.buffer.get(), offset, bytes, device.deadline({}));
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
/// the others must keep what they hold.
void patch_word(DeviceState& device, const std::shared_ptr<detail::BufferState>& to, std::uint64_t word,
                std::uint32_t mask, std::uint32_t value) {
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
  const dispatch::Operand operand{&to, window, std::min<std::uint64_t>(alignment, to->allocation->size - window)};
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
Readback::Readback() noexcept = default;
Readback::Readback(Readback&&) noexcept = default;
Readback& Readback::operator=(Readback&&) noexcept = default;
Readback::~Readback() = default;

namespace {
Readback::State& state_of(const std::unique_ptr<Readback::State>& state) {
  if (!state) throw Error(ErrorCode::invalid_argument, "the readback is empty", "take one from Device::read_async");
  return *state;
}
}  // namespace

void Readback::cancel() noexcept {
  state_.reset();
}

bool Readback::ready() {
  State& s = state_of(state_);
  if (!s.staging) return true;
  s.device->gpu.poll();
  return s.map->status.load(std::memory_order_acquire) != webgpu::Gpu::MapStatus::pending || s.device->gpu.lost();
}

void detail::refuse_host_elements(std::size_t count, std::size_t element_size) {
  throw Error(ErrorCode::out_of_memory,
              fmt::format("read: the host has no room for {} elements of {} bytes", count, element_size),
              "free memory, or read the array in parts");
}

void Readback::wait(ReadOptions options) {
  State& s = state_of(state_);
  if (!s.staging) return;
  if (s.map->status.load(std::memory_order_acquire) == webgpu::Gpu::MapStatus::ready) return;
  const dispatch::HostSpan span(&s.device->host_spans, "wait", "read");
  const auto settled = [&] {
    return s.map->status.load(std::memory_order_acquire) != webgpu::Gpu::MapStatus::pending || s.device->gpu.lost();
  };
  const bool in_time = webgpu::wait_until([&] { s.device->gpu.poll(); }, settled, s.device->deadline(options));
  const auto status = s.map->status.load(std::memory_order_acquire);
  if (status == webgpu::Gpu::MapStatus::ready) return;
  s.device->gpu.check_alive("read");
  if (status == webgpu::Gpu::MapStatus::failed) {
    throw Error(ErrorCode::internal,
                fmt::format("read of {} bytes: mapping the staging buffer failed: {}", s.size, s.map->message),
                "read again; if it stays, report this: the buffer has copy_src and the staging buffer map_read, as "
                "they must");
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
  dispatch::record_clear(state_->current_stream(), {&buffer.state(), 0, buffer.allocation_size()});
  return buffer;
}

Buffer Device::upload_bytes(std::span<const std::byte> bytes, Usage usage) {
  Buffer buffer = alloc(bytes.size(), usage | Usage::copy_dst);
  write(buffer, 0, bytes);
  return buffer;
}

Buffer Device::upload_with(std::size_t size, const std::function<void(std::span<std::byte>)>& fill, Usage usage) {
  if (!fill) {
    throw Error(ErrorCode::invalid_argument, "upload_with: the function is empty", "give one that writes the bytes");
  }
  const dispatch::HostSpan span(&state_->host_spans, "upload", "upload", size);
  state_->memory->queue_writes().wait_for_room(size, state_->deadline({}));
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
  state_->memory->queue_writes().note(a.size);
  state_->counters.uploads.fetch_add(1, std::memory_order_relaxed);
  state_->counters.bytes_uploaded.fetch_add(size, std::memory_order_relaxed);
  return buffer;
}

void Device::write(const Buffer& buffer, std::size_t offset, std::span<const std::byte> bytes) {
  DeviceState& device = *state_;
  const dispatch::HostSpan span(&device.host_spans, "upload", "write", bytes.size());
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
    patch_word(device, state, word, mask, value);
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
    patch_word(device, state, word + whole / 4, mask, value);
  } else {
    write_words(device, to, word * 4 + whole, std::as_bytes(std::span(&value, 1)));
  }
}

namespace {

/// A read would wait for work that is written down and not run.
void refuse_capture(DeviceState& device) {
  if (!device.current_stream().capturing.load(std::memory_order_relaxed)) return;
  throw Error(ErrorCode::invalid_argument, "read: this thread is capturing a graph, and nothing it records runs yet",
              "read after the capture, from a run of the graph");
}

/// Records the copies into a staging buffer, submits them with the batch they wait for, and asks for the mapping. Waits
/// for room among the reads in flight: up to `until`, else up to wait_timeout. `asked`: bytes without what alignment
/// adds.
void start_read(DeviceState& device, Readback::State& read, std::span<const dispatch::CopyOut> copies,
                std::uint64_t asked, DeviceState::Until until) {
  memory::ReadsInFlight& in_flight = device.memory->reads_in_flight();
  const bool room = in_flight.wait_for_room(read.plan.copy_size, until.value_or(device.deadline({})));
  device.gpu.check_alive("read");
  if (!room) {
    throw Error(
        ErrorCode::timed_out,
        fmt::format("read of {} bytes: the deadline passed with {} bytes of earlier reads on their way (at most "
                    "{} at a time)",
                    read.size, in_flight.bytes(), in_flight.bound()),
        "read again, raise the deadline, or split the work in front of the reads");
  }
  std::unique_ptr<memory::Staging> staging = device.memory->staging().acquire(read.plan.copy_size);
  try {
    dispatch::copy_out_and_submit(*device.default_stream, copies, staging->buffer.get(), until);
    read.map = device.gpu.map_async(staging->buffer.get(), false, read.plan.copy_size);
    in_flight.add(read.plan.copy_size, read.map);
  } catch (...) {
    device.memory->staging().drop(std::move(staging));
    throw;
  }
  read.staging = std::move(staging);
  device.counters.reads.fetch_add(1, std::memory_order_relaxed);
  device.counters.bytes_read.fetch_add(asked, std::memory_order_relaxed);
}

/// read_async; `until` for one that is waited for up to then.
Readback begin_read(const std::shared_ptr<DeviceState>& owner, const Buffer& buffer, std::size_t offset,
                    std::size_t size, DeviceState::Until until) {
  DeviceState& device = *owner;
  refuse_capture(device);
  const auto& source = device.memory->check_owner(buffer, "read");
  device.gpu.check_alive("read");
  auto state = std::make_unique<Readback::State>();
  state->device = owner;
  state->plan = memory::plan_read(*source, offset, size);
  state->size = size;
  if (state->plan.copy_size == 0) return Readback(std::move(state));

  const dispatch::CopyOut copy{source->allocation.get(), state->plan.copy_offset, 0, state->plan.copy_size};
  start_read(device, *state, std::span(&copy, 1), size, until);
  return Readback(std::move(state));
}

}  // namespace

Readback Device::read_async(const Buffer& buffer, std::size_t offset, std::size_t size) {
  const dispatch::HostSpan span(&state_->host_spans, "read", "read_async", size);
  return begin_read(state_, buffer, offset, size, {});
}

void Device::read(const Buffer& buffer, std::size_t offset, std::span<std::byte> out, ReadOptions options) {
  const dispatch::HostSpan span(&state_->host_spans, "read", "read", out.size());
  const auto deadline = state_->deadline(options);
  const auto remaining = [&] {
    return ReadOptions{std::max(deadline - webgpu::Clock::now(), webgpu::Clock::duration::zero())};
  };
  // A deadline may pass between pieces, so with one of its own a read comes whole where staging memory allows.
  const bool whole = out.size() < (options.deadline ? kReadWholeUpTo + 1 : kReadPiecesFrom);
  if (whole) {
    Readback readback = begin_read(state_, buffer, offset, out.size(), deadline);
    readback.wait(remaining());
    const auto bytes = readback.view();
    if (!bytes.empty()) state_->memory->copy_threads().copy(out.data(), bytes.data(), bytes.size());
    return;
  }
  // The range is checked as a whole, so that a bad one leaves `out` alone. The first piece waits for all work in front;
  // each later one, unless the read has a deadline, as long as any wait may.
  memory::plan_read(*state_->memory->check_owner(buffer, "read"), offset, out.size());
  std::deque<Readback> in_flight;
  std::size_t asked = 0;
  for (std::size_t done = 0; done < out.size();) {
    const bool limited = options.deadline || done == 0;
    while (asked < out.size() && in_flight.size() < kReadPiecesInFlight) {
      const std::size_t n = std::min<std::size_t>(kReadPiece, out.size() - asked);
      in_flight.push_back(
          begin_read(state_, buffer, offset + asked, n, limited ? DeviceState::Until(deadline) : std::nullopt));
      asked += n;
    }
    in_flight.front().wait(limited ? remaining() : ReadOptions{});
    const auto bytes = in_flight.front().view();
    state_->memory->copy_threads().copy(out.data() + done, bytes.data(), bytes.size());
    done += bytes.size();
    in_flight.pop_front();
  }
}

void Device::check_elements(const Buffer& buffer, std::size_t first, std::size_t count,
                            std::size_t element_size) const {
  const auto& source = state_->memory->check_owner(buffer, "read");
  memory::plan_read(*source, checked_mul(first, element_size, "read: first element * element size"),
                    checked_mul(count, element_size, "read: elements * element size"));
}

void Device::read_ranges(std::span<const ReadRange> ranges, ReadOptions options) {
  DeviceState& device = *state_;
  std::uint64_t range_bytes = 0;
  for (const ReadRange& r : ranges) range_bytes += r.out.size();
  const dispatch::HostSpan span(&device.host_spans, "read", "read_ranges", range_bytes);
  refuse_capture(device);
  device.gpu.check_alive("read");
  const auto deadline = device.deadline(options);
  struct Wanted {
    std::uint64_t begin, end;
    std::size_t range;
    memory::Allocation* source;
  };
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto& source = device.memory->check_owner(ranges[i].buffer, "read");
    const memory::ReadPlan plan = memory::plan_read(*source, ranges[i].offset, ranges[i].out.size());
    if (plan.copy_size == 0) continue;
    wanted.push_back({plan.copy_offset, plan.copy_offset + plan.copy_size, i, source->allocation.get()});
  }
  if (wanted.empty()) return;
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return a.source != b.source ? a.source->id < b.source->id : a.begin < b.begin;
  });
  // One copy per run of ranges of a buffer that touch or overlap.
  std::vector<dispatch::CopyOut> copies;
  std::vector<std::size_t> copy_of(ranges.size());
  for (const Wanted& w : wanted) {
    if (copies.empty() || copies.back().from != w.source || w.begin > copies.back().from_offset + copies.back().size) {
      copies.push_back({w.source, w.begin, 0, 0});
    }
    dispatch::CopyOut& c = copies.back();
    c.size = std::max(c.size, w.end - c.from_offset);
    copy_of[w.range] = copies.size() - 1;
  }
  std::uint64_t total = 0;
  for (dispatch::CopyOut& c : copies) {
    c.to_offset = total;
    total = checked_add(total, c.size, "read: sum of the ranges");
  }
  if (total > device.gpu.limits().max_buffer_size) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("read: ranges of {} bytes in all are over the limit of {} for one read", total,
                            device.gpu.limits().max_buffer_size),
                "read them in several calls");
  }

  auto state = std::make_unique<Readback::State>();
  state->device = state_;
  state->plan.copy_size = total;
  state->size = total;
  start_read(device, *state, copies, range_bytes, deadline);
  Readback readback(std::move(state));
  readback.wait({std::max(deadline - webgpu::Clock::now(), webgpu::Clock::duration::zero())});
  const auto bytes = readback.view();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const ReadRange& r = ranges[i];
    if (r.out.empty()) continue;
    const dispatch::CopyOut& c = copies[copy_of[i]];
    std::memcpy(r.out.data(), bytes.data() + c.to_offset + (r.offset - c.from_offset), r.out.size());
  }
}

std::optional<Buffer> Device::resident(std::uint64_t id) const {
  return state_->memory->resident(id);
}

std::optional<Buffer> Device::resident(const BufferRef& ref) const {
  if (ref.owner != id()) {
    throw Error(
        ErrorCode::foreign_buffer,
        fmt::format("resident: {} is owned by device {}, and this is device {}", to_string(ref), ref.owner, id()),
        "ask the device that owns it");
  }
  return state_->memory->resident(ref.id);
}

MemoryReport Device::memory() const {
  memory::Memory& m = *state_->memory;
  const memory::PoolStats pool = m.pool().stats();
  const memory::StagingStats staging = m.staging().stats();
  MemoryReport r;
  r.live_bytes = pool.live_bytes;
  r.retained_bytes = pool.retained_bytes;
  r.cap_bytes = m.pool().cap();
  r.peak_bytes = pool.peak_bytes;
  r.staging_bytes = staging.bytes + m.upload_bytes();
  r.staging_cap_bytes = m.staging().cap();
  r.in_flight_bytes = m.reads_in_flight().bytes();
  r.allocations = pool.allocations;
  r.hits = pool.hits;
  r.releases = pool.releases;
  r.evictions = pool.evictions;
  r.staging_allocations = staging.allocations;
  r.staging_hits = staging.hits;
  r.classes = m.pool().classes();
  return r;
}

void Device::trim() {
  {
    std::vector<std::pair<std::string, Buffer>> dropped;  // they go to the pool, after the lock
    {
      const std::lock_guard lock(state_->tables_mutex);
      dropped.swap(state_->tables);
    }
  }
  state_->memory->pool().trim();
  state_->memory->staging().trim();
  state_->memory->upload_ring().trim();
}

}  // namespace weft
