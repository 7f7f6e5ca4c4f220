#include "weft/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "dispatch/capture.h"
#include "dispatch/state.h"
#include "webgpu/encoder.h"
#include "weft/error.h"

namespace weft::detail {

namespace {

/// Tickets: 20 bits of slot above 44 bits of serial, which last for half a million years of a submit a microsecond.
constexpr unsigned kSerialBits = 44;

void next_ticket(StreamState& s) {
  const std::uint64_t serial = s.device.batches.fetch_add(1, std::memory_order_relaxed) + 1;
  s.ticket.store(s.slot << kSerialBits | serial, std::memory_order_release);
}

}  // namespace

StreamState::StreamState(DeviceState& owner, std::uint64_t stream_slot)
    : device(owner), slot(stream_slot), params(owner.gpu, owner.pipelines.params_layout()) {
  next_ticket(*this);
}

std::shared_ptr<StreamState> DeviceState::make_stream() {
  pipelines.params_layout();  // made before the lock: the stream's constructor asks for it
  const std::lock_guard lock(streams_mutex);
  std::erase_if(streams, [](const auto& s) { return s.second.expired(); });
  std::uint64_t slot = 1;
  while (streams.contains(slot)) ++slot;
  if (slot >> (64 - kSerialBits) != 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} streams are alive", streams.size()), "drop unused ones");
  }
  auto stream = std::make_shared<StreamState>(*this, slot);
  if (profile) stream->profile = profile->emplace_back(std::make_shared<dispatch::StreamProfile>(gpu));
  streams.emplace(slot, stream);
  return stream;
}

std::uint64_t DeviceState::submit_users_of(const memory::Allocation& allocation, const StreamState* except) {
  const std::uint64_t ticket = allocation.pending.load(std::memory_order_acquire);
  const std::uint64_t slot = ticket >> kSerialBits;
  if (slot == 0 || (except != nullptr && slot == except->slot)) return ticket;
  std::shared_ptr<StreamState> stream;
  {
    const std::lock_guard lock(streams_mutex);
    const auto it = streams.find(slot);
    if (it != streams.end()) stream = it->second.lock();
  }
  // A stream that is gone has submitted its work.
  if (stream && stream->ticket.load(std::memory_order_acquire) == ticket) dispatch::retire(*stream, ticket);
  return ticket;
}

namespace {
constexpr std::uint32_t kSubmitsPerSignal = 16;
constexpr std::size_t kSignals = 8;

void forget_answered(std::vector<std::shared_ptr<std::atomic<bool>>>& signals) {
  std::erase_if(signals, [](const auto& s) { return s->load(std::memory_order_acquire); });
}
}  // namespace

void DeviceState::note_submit() {
  {
    const std::lock_guard lock(in_flight_mutex);
    if (++submits_since_signal < kSubmitsPerSignal) return;
    submits_since_signal = 0;
    in_flight.push_back(gpu.signal_done());
    forget_answered(in_flight);
    crowded.store(in_flight.size() > kSignals, std::memory_order_relaxed);
  }
  gpu.poll();
}

void DeviceState::wait_for_room(Until until) {
  if (!crowded.load(std::memory_order_relaxed)) return;
  const auto oldest = [this]() -> std::shared_ptr<std::atomic<bool>> {
    const std::lock_guard lock(in_flight_mutex);
    forget_answered(in_flight);
    crowded.store(in_flight.size() > kSignals, std::memory_order_relaxed);
    return in_flight.size() > kSignals ? in_flight.front() : nullptr;
  };
  const auto wait_for = oldest();
  if (!wait_for) return;
  const dispatch::HostSpan span(&host_spans, "wait", "work in flight");
  const bool done = webgpu::wait_until([this] { gpu.poll(); },
                                       [&] { return wait_for->load(std::memory_order_acquire) || gpu.lost(); },
                                       until.value_or(webgpu::deadline_after(options.wait_timeout)));
  gpu.check_alive("recording work");
  if (!done && !until) {
    throw Error(ErrorCode::timed_out,
                fmt::format("recording work: what was sent to the device was not done within {} ms",
                            std::chrono::duration<double, std::milli>(options.wait_timeout).count()),
                "raise WEFT_WAIT_TIMEOUT, or split the kernel that runs so long");
  }
  oldest();
}

}  // namespace weft::detail

namespace weft::dispatch {
namespace {

using detail::StreamState;

void open_encoder(StreamState& s) {
  if (s.encoder) return;
  s.device.gpu.check_alive("recording work");
  s.encoder = s.device.gpu.create_encoder("weft.stream");
}

void open_pass(StreamState& s) {
  if (s.pass) return;
  open_encoder(s);
  s.pass = webgpu::begin_pass(s.encoder);
  s.device.counters.passes.fetch_add(1, std::memory_order_relaxed);
}

void close_pass(StreamState& s) {
  if (!s.pass) return;
  webgpu::end_pass(s.pass);
  s.current_pipeline = 0;
  s.current_group = 0;
  s.current_params = nullptr;
  s.current_immediates.clear();
}

/// A pass for one dispatch, timed; to be closed right behind it.
void open_timed_pass(StreamState& s, const detail::KernelState& kernel, Grid grid, std::uint64_t bytes) {
  close_pass(s);
  open_encoder(s);
  s.pass = s.profile->begin_pass(s.encoder, kernel.label, grid, bytes);
  s.device.counters.passes.fetch_add(1, std::memory_order_relaxed);
}

/// Tells a stream's profile, if there is one, of a submit: when it began, and whether it came to be.
class SubmitSpan {
 public:
  explicit SubmitSpan(StreamState& s) noexcept
      : profile_(s.profile.get()), start_(profile_ != nullptr ? webgpu::Clock::now() : webgpu::Clock::time_point{}) {}
  ~SubmitSpan() {
    if (profile_ != nullptr) profile_->submitted(start_, sent_);
  }
  SubmitSpan(const SubmitSpan&) = delete;
  SubmitSpan& operator=(const SubmitSpan&) = delete;

  void sent() noexcept { sent_ = true; }

 private:
  StreamProfile* const profile_;
  const webgpu::Clock::time_point start_;
  bool sent_ = false;
};

/// Sends what is recorded. The stream is empty afterwards, also when this throws. The batch keeps its ticket: whoever
/// calls this goes on recording under it, and takes it out of use in the end.
void send_locked(StreamState& s) {
  SubmitSpan span(s);
  close_pass(s);
  webgpu::Encoder encoder = std::move(s.encoder);
  s.pending_dispatches = 0;
  s.pending_commands = 0;
  s.pending_bytes = 0;
  s.params.flush();
  s.params.reset();
  s.device.gpu.submit(std::move(encoder), "weft.stream");
  ++s.submitted;
  span.sent();
  s.device.counters.submits.fetch_add(1, std::memory_order_relaxed);
}

/// Sends the batch and begins another.
void submit_locked(StreamState& s) {
  if (!s.encoder) {
    s.params.reset();
    return;
  }
  // Counted up even if the submission fails: what the batch named is not pending any more.
  struct NextBatch {
    StreamState& s;
    ~NextBatch() { detail::next_ticket(s); }
  } next{s};
  send_locked(s);
}

bool batch_full(const StreamState& s) {
  return s.pending_dispatches >= s.device.options.batch_dispatches || s.pending_bytes >= s.device.options.batch_bytes ||
         s.pending_commands >= 4 * s.device.options.batch_dispatches;
}

}  // namespace

bool BatchRecorder::claim(memory::Allocation& a, std::uint64_t seen) noexcept {
  const std::uint64_t mine = stream_.ticket.load(std::memory_order_relaxed);
  return a.pending.load(std::memory_order_acquire) == mine ||
         a.pending.compare_exchange_strong(seen, mine, std::memory_order_acq_rel) || seen == mine;
}

WGPUBindGroup BatchRecorder::bind_params(std::span<const std::byte> params) {
  WGPUBindGroup group = stream_.params.bind(params);
  if (group == nullptr) {  // the ring is full: send what there is and go on (rule 1)
    submit_locked(stream_);
    group = stream_.params.bind(params);
  }
  return group;
}

void BatchRecorder::dispatch(const detail::KernelState& kernel, const BindGroupCache::Cached& group,
                             WGPUBindGroup params_group, std::span<const std::byte> params, Grid grid,
                             std::uint64_t bytes, const Operand* indirect) {
  StreamState& s = stream_;
  const bool timed = s.profile && s.profile->timed();
  if (timed) [[unlikely]] {
    open_timed_pass(s, kernel, grid, bytes);
  } else {
    open_pass(s);
  }
  const PipelineEntry& pipeline = *kernel.pipeline;
  const bool other_pipeline = s.current_pipeline != pipeline.serial;
  if (other_pipeline) {
    webgpu::set_pipeline(s.pass, pipeline.pipeline.get());
    s.current_pipeline = pipeline.serial;
  }
  if (s.current_group != group.serial) {
    webgpu::set_bind_group(s.pass, 0, group.handle.get());
    s.current_group = group.serial;
  }
  if (params_group != nullptr && s.current_params != params_group) {
    webgpu::set_bind_group(s.pass, 1, params_group);
    s.current_params = params_group;
  }
  if (kernel.params_via == ParamsVia::immediates) {
    const bool same = !other_pipeline && s.current_immediates.size() == params.size() &&
                      std::memcmp(s.current_immediates.data(), params.data(), params.size()) == 0;
    if (!same) {
      webgpu::set_immediates(s.pass, params);
      s.current_immediates.assign(params.begin(), params.end());
    }
  }
  if (indirect != nullptr) {
    webgpu::dispatch_indirect(s.pass, indirect->allocation().buffer.get(), indirect->offset);
  } else {
    webgpu::dispatch(s.pass, grid.x, grid.y, grid.z);
  }
  if (timed) [[unlikely]]
    close_pass(s);
}

void BatchRecorder::forget_params() noexcept {
  stream_.current_params = nullptr;
}

void BatchRecorder::send_early() {
  if (stream_.encoder) send_locked(stream_);
}

void BatchRecorder::copy(memory::Allocation& from, std::uint64_t from_offset, memory::Allocation& to,
                         std::uint64_t to_offset, std::uint64_t size) {
  open_encoder(stream_);
  close_pass(stream_);
  webgpu::copy(stream_.encoder, from.buffer.get(), from_offset, to.buffer.get(), to_offset, size);
}

void BatchRecorder::clear(memory::Allocation& target, std::uint64_t offset, std::uint64_t size) {
  open_encoder(stream_);
  close_pass(stream_);
  webgpu::clear(stream_.encoder, target.buffer.get(), offset, size);
}

bool BatchRecorder::finish(const BatchWork& work) {
  StreamState& s = stream_;
  s.pending_dispatches += work.dispatches;
  s.pending_commands += work.dispatches + work.copies;
  s.pending_bytes += work.bytes;
  s.device.counters.dispatches.fetch_add(work.dispatches, std::memory_order_relaxed);
  if (work.copies > 0) s.device.counters.copies.fetch_add(work.copies, std::memory_order_relaxed);
  const bool full = batch_full(s);
  if (full) submit_locked(s);
  return full;
}

BindGroupCache::Group bind_group_for(detail::DeviceState& device, const detail::KernelState& kernel,
                                     std::span<const Operand> operands) {
  std::array<BoundRange, kMostOperands> ranges;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    ranges[i] = {operands[i].allocation().id, operands[i].offset, operands[i].size};
  }
  const Layout& layout = *kernel.pipeline->layout;
  return device.bind_groups.get_or_create(layout.id, std::span(ranges.data(), operands.size()), [&] {
    std::array<webgpu::GroupEntry, kMostOperands> entries;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      entries[i] = {kernel.bindings[i].binding, operands[i].allocation().buffer.get(), operands[i].offset,
                    operands[i].size};
    }
    return device.gpu.create_bind_group(layout.handle.get(), std::span(entries.data(), operands.size()), kernel.label);
  });
}

namespace {

/// Writes the command down when the stream is capturing.
bool captured(StreamState& s, CapturedCommand::Kind kind, const detail::KernelState* kernel,
              std::span<const Operand> operands, std::span<const std::byte> params, Grid grid) {
  if (!s.capturing.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(s.mutex);
  if (!s.capture) return false;
  CapturedCommand command;
  command.kind = kind;
  if (kernel != nullptr) command.kernel = kernel->shared_from_this();
  for (const Operand& o : operands) command.ranges.push_back({s.capture->place_of(*o.buffer), o.offset, o.size});
  command.params.assign(params.begin(), params.end());
  command.grid = grid;
  for (const Operand& o : operands) command.bytes += o.size;
  s.capture->commands.push_back(std::move(command));
  return true;
}

/// record_batch over operands, without a heap allocation.
template <class Prepare, class Record>
void record_operands(StreamState& s, std::span<const Operand> operands, const BatchWork& work, Prepare&& prepare,
                     Record&& record) {
  std::array<memory::Allocation*, kMostOperands + 1> named;  // one more for an indirect grid
  std::array<std::uint64_t, kMostOperands + 1> seen;
  for (std::size_t i = 0; i < operands.size(); ++i) named[i] = &operands[i].allocation();
  record_batch(s, std::span(named.data(), operands.size()), std::span(seen.data(), operands.size()), work, prepare,
               record);
}

}  // namespace

void record_dispatch(StreamState& s, const detail::KernelState& kernel, std::span<const Operand> operands,
                     std::span<const std::byte> params, Grid grid) {
  if (captured(s, CapturedCommand::Kind::dispatch, &kernel, operands, params, grid)) return;
  std::uint64_t bytes = 0;
  for (const Operand& o : operands) bytes += o.size;
  const BindGroupCache::Group group = bind_group_for(s.device, kernel, operands);
  WGPUBindGroup params_group = nullptr;
  record_operands(
      s, operands, {1, 0, bytes},
      [&](BatchRecorder& recorder) {
        if (kernel.params_via == ParamsVia::uniform) params_group = recorder.bind_params(params);
      },
      [&](BatchRecorder& recorder) { recorder.dispatch(kernel, *group, params_group, params, grid, bytes); });
}

void refuse_indirect_capture(const detail::KernelState& kernel) {
  throw Error(ErrorCode::unsupported, fmt::format("kernel '{}': a graph can't hold an indirect dispatch", kernel.label),
              "dispatch it on a stream between two graphs");
}

void record_indirect(StreamState& s, const detail::KernelState& kernel, std::span<const Operand> operands,
                     std::span<const std::byte> params, const Operand& args) {
  if (s.capturing.load(std::memory_order_relaxed)) refuse_indirect_capture(kernel);
  std::uint64_t bytes = 0;
  std::array<Operand, kMostOperands + 1> all;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    bytes += operands[i].size;
    all[i] = operands[i];
  }
  all[operands.size()] = args;
  const BindGroupCache::Group group = bind_group_for(s.device, kernel, operands);
  WGPUBindGroup params_group = nullptr;
  record_operands(
      s, std::span(all.data(), operands.size() + 1), {1, 0, bytes},
      [&](BatchRecorder& recorder) {
        if (kernel.params_via == ParamsVia::uniform) params_group = recorder.bind_params(params);
      },
      [&](BatchRecorder& recorder) {
        recorder.dispatch(kernel, *group, params_group, params, {0, 0, 0}, bytes, &args);
      });
}

void record_copy(StreamState& s, const Operand& from, const Operand& to) {
  const std::array<Operand, 2> operands{from, to};
  if (captured(s, CapturedCommand::Kind::copy, nullptr, operands, {}, {0, 0, 0})) return;
  record_operands(
      s, operands, {0, 1, from.size}, [](BatchRecorder&) {},
      [&](BatchRecorder& recorder) {
        recorder.copy(from.allocation(), from.offset, to.allocation(), to.offset, from.size);
      });
}

void record_clear(StreamState& s, const Operand& target) {
  const std::span<const Operand> operands(&target, 1);
  if (captured(s, CapturedCommand::Kind::clear, nullptr, operands, {}, {0, 0, 0})) return;
  record_operands(
      s, operands, {0, 1, target.size}, [](BatchRecorder&) {},
      [&](BatchRecorder& recorder) { recorder.clear(target.allocation(), target.offset, target.size); });
}

void copy_out_and_submit(StreamState& s, std::span<const CopyOut> copies, WGPUBuffer to,
                         detail::DeviceState::Until until) {
  s.device.wait_for_room(until);
  for (const CopyOut& c : copies) s.device.submit_users_of(*c.from, &s);
  {
    const std::lock_guard lock(s.mutex);
    open_encoder(s);
    close_pass(s);
    for (const CopyOut& c : copies) {
      webgpu::copy(s.encoder, c.from->buffer.get(), c.from_offset, to, c.to_offset, c.size);
    }
    submit_locked(s);
  }
  s.device.counters.read_copies.fetch_add(copies.size(), std::memory_order_relaxed);
  s.device.note_submit();
}

void submit(StreamState& s) {
  {
    const std::lock_guard lock(s.mutex);
    if (!s.encoder) return;
    submit_locked(s);
  }
  s.device.note_submit();
}

void retire(StreamState& s, std::uint64_t ticket) {
  {
    const std::lock_guard lock(s.mutex);
    if (s.ticket.load(std::memory_order_relaxed) != ticket) return;
    if (!s.encoder) {
      detail::next_ticket(s);
      return;
    }
    submit_locked(s);
  }
  s.device.note_submit();
}

}  // namespace weft::dispatch

namespace weft {
namespace {

detail::StreamState& state_of(const std::shared_ptr<detail::StreamState>& state) {
  if (!state) throw Error(ErrorCode::invalid_argument, "the stream is empty", "take one from Device::stream");
  return *state;
}

void check_range(const char* what, const detail::BufferState& b, std::size_t offset, std::size_t size, Usage usage) {
  if (!has(static_cast<Usage>(b.allocation->usage), usage)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: buffer {} has usage {}, without {}", what, b.id,
                            to_string(static_cast<Usage>(b.allocation->usage)), to_string(usage)),
                fmt::format("allocate it with Usage::{}", to_string(usage)));
  }
  if (checked_add(offset, size, what) > b.size && checked_add(offset, size, what) > checked_align(b.size, 4, what)) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: bytes {} to {} of buffer {}, which has {}", what, offset, offset + size, b.id, b.size),
                fmt::format("end the range at {} or before", b.size));
  }
  if (offset % 4 != 0 || size % 4 != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: offset {} and size {} are not both multiples of 4", what, offset, size),
                "align both, or use Device::write for single bytes");
  }
}

}  // namespace

void Stream::copy(const Buffer& from, std::size_t from_offset, const Buffer& to, std::size_t to_offset,
                  std::size_t size) const {
  detail::StreamState& s = state_of(state_);
  const auto& source = s.device.memory->check_owner(from, "copy");
  const auto& target = s.device.memory->check_owner(to, "copy");
  check_range("copy", *source, from_offset, size, Usage::copy_src);
  check_range("copy", *target, to_offset, size, Usage::copy_dst);
  if (size == 0) return;
  if (source == target) {  // WebGPU has no copy within one buffer
    const Buffer between = s.device.memory->alloc(size, Usage::copy_src | Usage::copy_dst);
    dispatch::record_copy(s, {&source, from_offset, size}, {&between.state(), 0, size});
    dispatch::record_copy(s, {&between.state(), 0, size}, {&target, to_offset, size});
    return;
  }
  dispatch::record_copy(s, {&source, from_offset, size}, {&target, to_offset, size});
}

void Stream::clear(const Buffer& buffer, std::size_t offset, std::size_t size) const {
  detail::StreamState& s = state_of(state_);
  const auto& target = s.device.memory->check_owner(buffer, "clear");
  check_range("clear", *target, offset, size, Usage::copy_dst);
  if (size > 0) dispatch::record_clear(s, {&target, offset, size});
}

void Stream::submit() const {
  dispatch::submit(state_of(state_));
}

void Stream::synchronize(ReadOptions options) const {
  detail::StreamState& s = state_of(state_);
  dispatch::submit(s);
  detail::DeviceState& device = s.device;
  device.gpu.check_alive("synchronize");
  device.memory->queue_writes().send();
  const std::uint64_t sent = submitted();
  const dispatch::HostSpan span(&device.host_spans, "wait", "synchronize");
  const auto done = device.gpu.signal_done();
  const bool in_time = webgpu::wait_until([&] { device.gpu.poll(); },
                                          [&] { return done->load(std::memory_order_acquire) || device.gpu.lost(); },
                                          device.deadline(options));
  device.gpu.check_alive("synchronize");
  if (!in_time) {
    throw Error(ErrorCode::timed_out, "synchronize: the deadline passed before the work was done",
                "wait again, raise the deadline, or split the work");
  }
  {
    const std::lock_guard lock(s.mutex);
    s.completed = std::max(s.completed, sent);
  }
  if (device.completions.has_errors()) {
    const auto errors = device.completions.take_errors();
    if (!errors.empty()) {
      throw Error(ErrorCode::internal, fmt::format("a completion callback threw: {}", fmt::join(errors, "; ")),
                  "catch it in the callback");
    }
  }
  if (device.gpu.has_stray_errors()) {
    const auto errors = device.gpu.take_stray_errors();
    if (!errors.empty()) {
      throw Error(ErrorCode::internal, fmt::format("the device reported: {}", fmt::join(errors, "; ")),
                  "report this: Weft let a bad call through");
    }
  }
}

std::uint64_t Stream::submitted() const {
  detail::StreamState& s = state_of(state_);
  const std::lock_guard lock(s.mutex);
  return s.submitted;
}

std::uint64_t Stream::completed() const {
  detail::StreamState& s = state_of(state_);
  s.device.gpu.check_alive("completed");
  {
    const std::lock_guard lock(s.mutex);
    const std::uint64_t asked = s.signals.empty() ? s.completed : s.signals.back().first;
    // One signal covers all that was sent before it, so streams that are never asked pay nothing.
    if (asked < s.submitted) s.signals.emplace_back(s.submitted, s.device.gpu.signal_done());
  }
  s.device.gpu.poll();
  const std::lock_guard lock(s.mutex);
  std::erase_if(s.signals, [&](const auto& signal) {
    if (!signal.second->load(std::memory_order_acquire)) return false;
    s.completed = std::max(s.completed, signal.first);
    return true;
  });
  return s.completed;
}

void Stream::on_complete(std::function<void(const Error*)> done) const {
  detail::StreamState& s = state_of(state_);
  if (!done) {
    throw Error(ErrorCode::invalid_argument, "on_complete: the callback is empty", "give it something to call");
  }
  dispatch::submit(s);
  s.device.gpu.check_alive("on_complete");
  s.device.completions.add(s.device.gpu.signal_done(), std::move(done));
}

std::size_t Stream::pending() const {
  detail::StreamState& s = state_of(state_);
  const std::lock_guard lock(s.mutex);
  return s.pending_dispatches;
}

}  // namespace weft
