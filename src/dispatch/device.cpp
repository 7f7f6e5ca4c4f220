#include "weft/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/env.h"
#include "dispatch/state.h"
#include "dispatch/tuning_file.h"
#include "weft/error.h"

namespace weft {
namespace {

TuningMode tuning_of_environment() {
  const std::string text = env_text("WEFT_TUNE").value_or("read");
  if (text == "off") return TuningMode::off;
  if (text == "read") return TuningMode::read;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the environment variable WEFT_TUNE is '{}', not off or read", text.substr(0, 40)),
              "set it to off or read, or unset it; weft tune measures");
}

/// Fills what the caller left open: the environment first, then the default.
DeviceOptions complete(DeviceOptions o) {
  if (o.adapter.empty()) o.adapter = env_text("WEFT_ADAPTER").value_or("");
  if (o.pool_bytes == 0) o.pool_bytes = env_bytes("WEFT_POOL_BYTES").value_or(0);
  if (o.bind_groups == 0) o.bind_groups = env_count("WEFT_BIND_GROUPS").value_or(256);
  if (o.pipelines == 0) o.pipelines = env_count("WEFT_PIPELINES").value_or(1024);
  if (o.batch_dispatches == 0) o.batch_dispatches = env_count("WEFT_BATCH_DISPATCHES").value_or(0);
  if (o.batch_bytes == 0) o.batch_bytes = env_bytes("WEFT_BATCH_BYTES").value_or(std::uint64_t{1} << 30);
  if (o.wait_timeout.count() == 0) {
    o.wait_timeout = env_duration("WEFT_WAIT_TIMEOUT").value_or(std::chrono::seconds(30));
    if (o.wait_timeout.count() == 0) {  // every call that waits would fail
      throw Error(ErrorCode::invalid_argument, "the environment variable WEFT_WAIT_TIMEOUT is no time at all",
                  "set it to a time above 0, such as 30 (seconds) or 500ms, or unset it");
    }
  }
  if (o.tuning == TuningMode::automatic) o.tuning = tuning_of_environment();
  if (o.wait_timeout.count() < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("DeviceOptions::wait_timeout is {} ns, below 0", o.wait_timeout.count()),
                "set it to a time above 0, or to 0 for the default");
  }
  return o;
}

/// Small batches let a GPU begin while the host records on; a CPU device runs on the very cores that record (1,000
/// small dispatches: H200 4.5 ms in one batch and 2.8 in eight, lavapipe on 2 cores 28 and 48).
DeviceOptions for_adapter(DeviceOptions o, AdapterType type) {
  if (o.batch_dispatches == 0) o.batch_dispatches = type == AdapterType::cpu ? 1024 : 128;
  return o;
}

/// Twice what one binding can show: room for the temporaries of an op on the largest arrays.
std::uint64_t pool_cap(const DeviceOptions& o, const webgpu::Gpu& gpu) {
  return o.pool_bytes != 0 ? o.pool_bytes : 2 * gpu.limits().max_storage_binding_size;
}

constexpr std::uint64_t kStagingCap = std::uint64_t{256} << 20;

/// Keeps the device alive for a stream handle, and sends what is recorded before the stream can no longer be found.
struct OwnedStream {
  std::shared_ptr<detail::DeviceState> device;
  std::shared_ptr<detail::StreamState> stream;
  explicit OwnedStream(const std::shared_ptr<detail::DeviceState>& d) : device(d), stream(d->make_stream()) {}
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream() {
    try {
      dispatch::submit(*stream);
    } catch (const std::exception&) {
      // Whoever reads what this batch was to write finds the device lost; a destructor can't tell more.
    }
    // Under the lock, so that what the stream did last happened before whoever finds it gone.
    const std::lock_guard lock(device->streams_mutex);
    device->streams.erase(stream->slot);
  }
};

}  // namespace

struct StreamScope::Entry {
  Stream stream;
  Entry* outer = nullptr;
  std::thread::id thread = std::this_thread::get_id();
  std::atomic<bool> ended{false};
};

namespace {

thread_local StreamScope::Entry* innermost_scope = nullptr;

/// Takes this thread's scopes that ended out of its list, wherever they ended.
void drop_ended_scopes() noexcept {
  for (StreamScope::Entry** link = &innermost_scope; *link != nullptr;) {
    StreamScope::Entry* const entry = *link;
    if (entry->ended.load(std::memory_order_acquire)) {
      *link = entry->outer;
      delete entry;
    } else {
      link = &entry->outer;
    }
  }
}

}  // namespace

StreamScope::StreamScope(Stream stream) {
  if (!stream.state()) {
    throw Error(ErrorCode::invalid_argument, "the stream is empty", "take one from Device::make_stream");
  }
  drop_ended_scopes();
  entry_ = new Entry{.stream = std::move(stream), .outer = innermost_scope};
  innermost_scope = entry_;
}
StreamScope::~StreamScope() {
  // Another thread can't touch the list; what it ends here, its own thread drops with the next scope.
  const bool own = entry_->thread == std::this_thread::get_id();
  entry_->ended.store(true, std::memory_order_release);
  if (own) drop_ended_scopes();
}

const Stream& StreamScope::stream() const noexcept {
  return entry_->stream;
}

const Stream* StreamScope::of(const detail::DeviceState& device) noexcept {
  for (const Entry* e = innermost_scope; e != nullptr; e = e->outer) {
    if (!e->ended.load(std::memory_order_acquire) && &e->stream.state()->device == &device) return &e->stream;
  }
  return nullptr;
}

namespace detail {

DeviceState::DeviceState(std::shared_ptr<webgpu::Gpu> opened, const DeviceOptions& completed)
    : gpu_owner(std::move(opened)),
      bind_groups_owner(std::make_shared<dispatch::BindGroupCache>(completed.bind_groups)),
      gpu(*gpu_owner),
      options(completed),
      bind_groups(*bind_groups_owner),
      pipelines(gpu, completed.pipelines, &host_spans),
      memory(std::make_shared<memory::Memory>(
          gpu_owner, pool_cap(completed, gpu), kStagingCap,
          [groups = bind_groups_owner](std::uint64_t id) { groups->forget_allocation(id); })),
      library(completed.pipelines),
      completions(gpu_owner) {
  default_stream = make_stream();
}

DeviceState::~DeviceState() = default;

StreamState& DeviceState::current_stream() {
  const Stream* scoped = StreamScope::of(*this);
  return scoped != nullptr ? *scoped->state() : *default_stream;
}

void DeviceState::submit_all() {
  std::vector<std::shared_ptr<StreamState>> all;
  {
    const std::lock_guard lock(streams_mutex);
    for (const auto& [slot, weak] : streams) {
      if (auto stream = weak.lock()) all.push_back(std::move(stream));
    }
  }
  for (const auto& s : all) dispatch::submit(*s);
}

webgpu::Clock::time_point DeviceState::deadline(const ReadOptions& read) const {
  return webgpu::deadline_after(read.deadline.value_or(options.wait_timeout));
}

}  // namespace detail

Device Device::open(const DeviceOptions& options) {
  const DeviceOptions completed = complete(options);
  std::shared_ptr<webgpu::Gpu> gpu = webgpu::Gpu::open(completed);
  auto state = std::make_shared<detail::DeviceState>(gpu, for_adapter(completed, gpu->adapter().type));
  if (completed.tuning == TuningMode::read) {
    if (const auto file = dispatch::TuningFile::of(gpu->kernels_identity())) {
      state->tuning.set(file->load());
    }
  }
  return Device(std::move(state));
}

std::vector<AdapterInfo> Device::adapters() {
  std::vector<AdapterInfo> out;
  for (webgpu::Candidate& c : webgpu::enumerate_adapters()) out.push_back(std::move(c.info));
  return out;
}

std::uint64_t Device::id() const noexcept {
  return state_->memory->owner();
}
const AdapterInfo& Device::adapter() const noexcept {
  return state_->gpu.adapter();
}
const Limits& Device::limits() const noexcept {
  return state_->gpu.limits();
}
const Features& Device::features() const noexcept {
  return state_->gpu.features();
}
std::chrono::nanoseconds Device::wait_timeout() const noexcept {
  return state_->options.wait_timeout;
}
bool Device::lost() const noexcept {
  return state_->gpu.lost();
}
void Device::destroy() {
  state_->gpu.destroy();
}

Kernel Device::kernel(const KernelOptions& options) {
  return dispatch::make_kernel(*state_, options);
}

std::vector<PendingKernel> Device::prepare(std::span<const KernelOptions> options) {
  detail::DeviceState& device = *state_;
  std::vector<PendingKernel> out;
  out.reserve(options.size());
  for (const KernelOptions& o : options) {
    // Not the device's handle: the threads end before it does, and must not be the ones to end it.
    out.push_back(device.compile_threads.start([&device, o] { return dispatch::make_kernel(device, o); }));
  }
  return out;
}

Stream Device::make_stream() {
  auto owned = std::make_shared<OwnedStream>(state_);
  return Stream(std::shared_ptr<detail::StreamState>(owned, owned->stream.get()));
}

Stream Device::stream() const {
  if (const Stream* scoped = StreamScope::of(*state_)) return *scoped;
  return Stream(std::shared_ptr<detail::StreamState>(state_, state_->default_stream.get()));
}

void Device::synchronize(ReadOptions options) {
  state_->submit_all();
  Stream(std::shared_ptr<detail::StreamState>(state_, state_->default_stream.get())).synchronize(options);
}

Stats Device::stats() const {
  const detail::DeviceState& d = *state_;
  Stats s;
  s.dispatches = d.counters.dispatches;
  s.copies = d.counters.copies;
  s.submits = d.counters.submits;
  s.passes = d.counters.passes;
  s.bytes_uploaded = d.counters.bytes_uploaded;
  s.bytes_read = d.counters.bytes_read;
  s.uploads = d.counters.uploads;
  s.reads = d.counters.reads;
  s.read_copies = d.counters.read_copies;
  s.fused_ops = d.counters.fused_ops;
  s.materialized = d.counters.materialized;
  s.tuned_ops = d.tuning.uses();
  const memory::PoolStats pool = d.memory->pool().stats();
  s.live_bytes = pool.live_bytes;
  s.retained_bytes = pool.retained_bytes;
  s.peak_bytes = pool.peak_bytes;
  s.pool_allocations = pool.allocations;
  s.pool_hits = pool.hits;
  s.pool_releases = pool.releases;
  s.pool_evictions = pool.evictions;
  const memory::StagingStats staging = d.memory->staging().stats();
  s.staging_allocations = staging.allocations;
  s.staging_hits = staging.hits;
  s.staging_bytes = staging.bytes + d.memory->upload_bytes();
  const dispatch::PipelineStats p = d.pipelines.stats();
  s.pipeline_hits = p.hits;
  s.pipeline_misses = p.misses;
  s.pipeline_evictions = p.evictions;
  s.pipeline_entries = p.entries;
  s.compile_ms = p.compile_ms;
  const dispatch::BindGroupStats b = d.bind_groups.stats();
  s.bind_group_hits = b.hits;
  s.bind_group_misses = b.misses;
  s.bind_group_evictions = b.evictions;
  s.bind_group_entries = b.entries;
  return s;
}

}  // namespace weft
