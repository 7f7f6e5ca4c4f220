// What stands behind Device, Stream and Kernel.
#pragma once

#include <any>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dispatch/bind_group_cache.h"
#include "dispatch/compile_threads.h"
#include "dispatch/completions.h"
#include "dispatch/params.h"
#include "dispatch/params_check.h"
#include "dispatch/pipeline_cache.h"
#include "dispatch/profile.h"
#include "dispatch/reflect.h"
#include "dispatch/tuning.h"
#include "memory/memory.h"
#include "webgpu/gpu.h"
#include "weft/kernel.h"
#include "weft/stream.h"

namespace weft::dispatch {
struct Capture;
}

namespace weft::detail {

struct KernelState : std::enable_shared_from_this<KernelState> {
  std::uint64_t owner = 0;  ///< device id
  std::string label;
  std::vector<BindingInfo> bindings;         ///< those that the entry point uses, by binding number
  std::vector<std::string> unused_bindings;  ///< declared, but not used by the entry point
  std::vector<ParamInfo> params;
  std::uint32_t params_size = 0;
  dispatch::ParamsVia params_via = dispatch::ParamsVia::none;
  std::array<std::uint32_t, 3> workgroup_size{1, 1, 1};
  dispatch::PipelineCache::Entry pipeline;
  mutable dispatch::CheckedParams checked_params;
};

/// Counters that streams and transfers bump.
struct WorkCounters {
  std::atomic<std::uint64_t> dispatches{0}, copies{0}, submits{0}, passes{0};
  std::atomic<std::uint64_t> bytes_uploaded{0}, bytes_read{0}, uploads{0}, reads{0}, read_copies{0};
  std::atomic<std::uint64_t> fused_ops{0}, materialized{0};
};

/// Work recorded and not yet submitted. All of it under `mutex`; a stream never holds another's.
struct StreamState {
  StreamState(DeviceState& owner, std::uint64_t stream_slot);

  DeviceState& device;
  const std::uint64_t slot;  ///< from 1; no other living stream of the device has it
  std::mutex mutex;
  webgpu::Encoder encoder;
  webgpu::ComputePass pass;
  dispatch::ParamsRing params;
  /// Names the batch that is being recorded: the slot above a serial that the device never gives twice. Changes, under
  /// `mutex`, when the batch is submitted; an allocation whose `pending` equals it is named by that batch.
  std::atomic<std::uint64_t> ticket{0};
  std::uint32_t pending_dispatches = 0;
  std::uint32_t pending_commands = 0;
  std::uint64_t pending_bytes = 0;
  std::uint64_t submitted = 0;  ///< batches sent
  /// Signals that were asked for, by the count of batches that each covers; and the highest count known to be done.
  std::vector<std::pair<std::uint64_t, std::shared_ptr<std::atomic<bool>>>> signals;
  std::uint64_t completed = 0;
  // What the open pass has set, so that equal state is not set again.
  std::uint64_t current_pipeline = 0;  // serials: what was freed may come back at the same address (rule 3)
  std::uint64_t current_group = 0;
  WGPUBindGroup current_params = nullptr;  // of this stream's own ring, which lives as long as it
  std::vector<std::byte> current_immediates;
  /// Where commands go instead, while a graph is captured; `capturing` spares the lock when there is none.
  std::shared_ptr<dispatch::Capture> capture;
  std::atomic<bool> capturing{false};
  std::shared_ptr<dispatch::StreamProfile> profile;  ///< while the device is profiled
};

/// Kernels of the op library by specialisation: the `cap` used last. Elementwise programs have no end of keys.
class LibraryKernels {
 public:
  explicit LibraryKernels(std::size_t cap) : cap_(cap == 0 ? 1 : cap) {}

  /// An empty kernel when it is not there.
  Kernel find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) return {};
    lru_.splice(lru_.begin(), lru_, it->second);
    return it->second->second;
  }
  /// The one that is there already, when another thread was faster.
  Kernel add(const std::string& key, Kernel made) {
    Lru node;  // made outside the lock
    node.emplace_front(key, std::move(made));
    Lru dropped;  // after the lock
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = by_key_.try_emplace(node.front().first, node.begin());
    if (!is_new) return at->second->second;
    lru_.splice(lru_.begin(), node);
    while (lru_.size() > cap_) {
      by_key_.erase(lru_.back().first);
      dropped.splice(dropped.begin(), lru_, std::prev(lru_.end()));
    }
    return lru_.front().second;
  }
  std::vector<std::string> keys() {
    std::vector<std::string> out;
    const std::lock_guard lock(mutex_);
    for (const auto& entry : lru_) out.push_back(entry.first);
    return out;
  }

 private:
  using Lru = std::list<std::pair<std::string, Kernel>>;  // the one used last in front

  const std::size_t cap_;
  std::mutex mutex_;
  Lru lru_;
  std::unordered_map<std::string_view, Lru::iterator> by_key_;  // borrows the list's keys
};

struct DeviceState {
  explicit DeviceState(std::shared_ptr<webgpu::Gpu> opened, const DeviceOptions& completed);
  ~DeviceState();

  // Shared with `memory`: a buffer that is dropped on one thread while the device goes on another still finds both.
  const std::shared_ptr<webgpu::Gpu> gpu_owner;
  const std::shared_ptr<dispatch::BindGroupCache> bind_groups_owner;
  webgpu::Gpu& gpu;
  const DeviceOptions options;  ///< every default filled in
  dispatch::BindGroupCache& bind_groups;
  dispatch::HostSpans host_spans;
  dispatch::PipelineCache pipelines;
  const std::shared_ptr<memory::Memory> memory;
  WorkCounters counters;
  dispatch::TuningTable tuning;

  std::mutex streams_mutex;
  std::unordered_map<std::uint64_t, std::weak_ptr<StreamState>> streams;  ///< by slot
  /// While the device is profiled, the parts of its streams, also of those that are gone; under streams_mutex.
  std::optional<std::vector<std::shared_ptr<dispatch::StreamProfile>>> profile;
  std::atomic<std::uint64_t> batches{0};  ///< serials given
  std::shared_ptr<StreamState> default_stream;

  // Bounded work in flight: a signal per kSubmitsPerSignal submits; at most kSignals of them unanswered.
  std::mutex in_flight_mutex;
  std::uint32_t submits_since_signal = 0;
  std::vector<std::shared_ptr<std::atomic<bool>>> in_flight;
  std::atomic<bool> crowded{false};  ///< more than kSignals were unanswered; spares the lock when not

  LibraryKernels library;

  // Constant tables of the op library (twiddle factors), oldest first; up to kMostTables and kMostTableBytes.
  std::mutex tables_mutex;
  std::vector<std::pair<std::string, Buffer>> tables;

  dispatch::CompileThreads compile_threads;  ///< these two last, so that they end first: their threads use the rest
  dispatch::Completions completions;

  using Until = std::optional<webgpu::Clock::time_point>;

  std::shared_ptr<StreamState> make_stream();
  /// The stream that this thread records into: the innermost StreamScope's, else the default stream.
  StreamState& current_stream();
  /// Submits what every stream of the device has recorded.
  void submit_all();
  /// Submits the stream whose unsubmitted batch names the allocation, unless it is `except`. Returns the allocation's
  /// `pending` as it was: work under that ticket is submitted now, or is `except`'s own.
  std::uint64_t submit_users_of(const memory::Allocation& allocation, const StreamState* except);
  /// After each submit: lets finished work be freed, and signals every so often.
  void note_submit();
  /// Before anything is recorded, so that what throws here has left nothing behind: waits when too much is in flight,
  /// up to wait_timeout, past which it throws. With `until`, for the sake of a read with a deadline: up to that, and
  /// then the read goes on to find out itself.
  void wait_for_room(Until until = {});
  webgpu::Clock::time_point deadline(const ReadOptions& read) const;
};

}  // namespace weft::detail

namespace weft::dispatch {

inline constexpr std::size_t kMostOperands = 64;

/// One bound or copied range. `buffer` points at the caller's handle, which outlives the call. No initialisers: each
/// dispatch has an array of kMostOperands of them and fills a few.
struct Operand {
  const std::shared_ptr<detail::BufferState>* buffer;
  std::uint64_t offset;
  std::uint64_t size;

  memory::Allocation& allocation() const noexcept { return *(*buffer)->allocation; }
};

/// How much is recorded in one go.
struct BatchWork {
  std::uint32_t dispatches = 0;
  std::uint32_t copies = 0;  ///< and clears
  std::uint64_t bytes = 0;   ///< bound or copied
};

/// Records into a stream's open batch, under its lock.
class BatchRecorder {
 public:
  explicit BatchRecorder(detail::StreamState& stream) noexcept : stream_(stream) {}

  /// A group that holds these parameters in the stream's ring; may submit what was recorded before.
  WGPUBindGroup bind_params(std::span<const std::byte> params);
  /// Notes that the batch is about to name `a`. False when another stream has claimed `a` since submit_users_of
  /// returned `seen`: then that one must be submitted first, which can't be done under this lock.
  bool claim(memory::Allocation& a, std::uint64_t seen) noexcept;
  /// Sets what the open pass has not set already, then dispatches: `grid` groups, or as many as `indirect`, if given,
  /// names. `bytes` are those bound; in a profile only.
  void dispatch(const detail::KernelState& kernel, const BindGroupCache::Cached& group, WGPUBindGroup params_group,
                std::span<const std::byte> params, Grid grid, std::uint64_t bytes, const Operand* indirect = nullptr);
  /// After parameter groups that are not of the stream's own ring: they may go, and their addresses come back.
  void forget_params() noexcept;
  void copy(memory::Allocation& from, std::uint64_t from_offset, memory::Allocation& to, std::uint64_t to_offset,
            std::uint64_t size);
  void clear(memory::Allocation& target, std::uint64_t offset, std::uint64_t size);
  /// Sends what is recorded so far, so that the device begins while the rest of a long record is made. Claims hold on.
  void send_early();
  /// Counts what was recorded and submits a full batch; true when it did.
  bool finish(const BatchWork& work);

 private:
  detail::StreamState& stream_;
};

/// Records work on `named` in order with what other streams recorded on it: their batches are submitted first, and this
/// one claims the memory under its lock, again from the start when another stream got there in between. `prepare` runs
/// before the claims and may submit the batch (a claim is for one batch); `record` after them. `seen` is scratch of the
/// same length.
template <class Prepare, class Record>
void record_batch(detail::StreamState& stream, std::span<memory::Allocation* const> named,
                  std::span<std::uint64_t> seen, const BatchWork& work, Prepare&& prepare, Record&& record) {
  stream.device.gpu.check_alive("recording work");
  stream.device.wait_for_room();
  for (;;) {
    for (std::size_t i = 0; i < named.size(); ++i) seen[i] = stream.device.submit_users_of(*named[i], &stream);
    bool submitted = false;
    {
      const std::lock_guard lock(stream.mutex);
      BatchRecorder recorder(stream);
      prepare(recorder);
      bool claimed = true;
      for (std::size_t i = 0; claimed && i < named.size(); ++i) claimed = recorder.claim(*named[i], seen[i]);
      if (!claimed) continue;
      record(recorder);
      submitted = recorder.finish(work);
    }
    if (submitted) stream.device.note_submit();
    return;
  }
}

/// The bind group of a kernel over these operands, from the device's cache.
BindGroupCache::Group bind_group_for(detail::DeviceState& device, const detail::KernelState& kernel,
                                     std::span<const Operand> operands);

/// Records `grid` groups of `kernel`; operands are checked already.
void record_dispatch(detail::StreamState& stream, const detail::KernelState& kernel, std::span<const Operand> operands,
                     std::span<const std::byte> params, Grid grid);
/// The same with the grid in memory; `args` are three u32.
void record_indirect(detail::StreamState& stream, const detail::KernelState& kernel, std::span<const Operand> operands,
                     std::span<const std::byte> params, const Operand& args);
[[noreturn]] void refuse_indirect_capture(const detail::KernelState& kernel);
/// Copies from.size bytes between different buffers.
void record_copy(detail::StreamState& stream, const Operand& from, const Operand& to);
void record_clear(detail::StreamState& stream, const Operand& target);
/// A copy to memory outside the pool (staging).
struct CopyOut {
  memory::Allocation* from = nullptr;
  std::uint64_t from_offset = 0;
  std::uint64_t to_offset = 0;
  std::uint64_t size = 0;
};
/// Records copies to `to` and submits the batch with them: one submit for the work and the read that waits for it.
/// `until` as in DeviceState::wait_for_room.
void copy_out_and_submit(detail::StreamState& stream, std::span<const CopyOut> copies, WGPUBuffer to,
                         detail::DeviceState::Until until);
void submit(detail::StreamState& stream);
/// Submits the batch that `ticket` names and takes the ticket out of use, also when nothing is recorded under it yet.
void retire(detail::StreamState& stream, std::uint64_t ticket);

/// Who wrote a kernel: the library's own guard their edges and run without bounds checks where that can be had for one
/// module; a user's keep them (rule 7).
enum class Trust : std::uint8_t { user, library };

/// Compiles or finds the kernel; see Device::kernel.
Kernel make_kernel(detail::DeviceState& device, const KernelOptions& options, Trust trust = Trust::user);
/// A kernel of the library, found by `key` or made from what `make_options` returns.
template <class MakeOptions>
Kernel library_kernel(detail::DeviceState& device, const std::string& key, MakeOptions&& make_options) {
  if (Kernel found = device.library.find(key)) return found;
  return device.library.add(key, make_kernel(device, make_options(), Trust::library));
}

inline constexpr std::size_t kMostTables = 32;
inline constexpr std::size_t kMostTableBytes = std::size_t{64} << 20;

/// A constant table of the library, found by `key` or made by `make`. The device keeps the latest ones that are not too
/// large; whoever has the handle keeps his.
template <class Make>
Buffer library_table(detail::DeviceState& device, const std::string& key, Make&& make) {
  const auto find = [&]() -> const Buffer* {
    for (const auto& entry : device.tables) {
      if (entry.first == key) return &entry.second;
    }
    return nullptr;
  };
  {
    const std::lock_guard lock(device.tables_mutex);
    if (const Buffer* found = find()) return *found;
  }
  const Buffer made = make();
  made.state()->of_library = true;  // a graph keeps it: nobody else can
  if (made.size() > kMostTableBytes / 2) return made;
  std::vector<std::pair<std::string, Buffer>> dropped;  // after the lock
  const std::lock_guard lock(device.tables_mutex);
  if (const Buffer* found = find()) return *found;
  device.tables.emplace_back(key, made);
  std::size_t bytes = 0;
  for (const auto& entry : device.tables) bytes += entry.second.size();
  while (device.tables.size() > kMostTables || bytes > kMostTableBytes) {
    bytes -= device.tables.front().second.size();
    dropped.push_back(std::move(device.tables.front()));
    device.tables.erase(device.tables.begin());
  }
  return made;
}

/// A module as it was compiled: the user's `source` behind `injected_lines` lines and in front of a prelude.
struct CompiledText {
  const std::string& code;
  std::size_t injected_lines = 0;
  const std::string& source;
};
/// Turns a WebGPU compile error into one that shows the user's own line, or that of the prelude, and a caret.
Error explain_compile_error(const Error& error, const CompiledText& text, const std::string& name);

}  // namespace weft::dispatch
