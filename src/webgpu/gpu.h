// One open WebGPU device: creation of objects with errors attributed, submission, polling, loss.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "webgpu/handles.h"
#include "webgpu/instance.h"
#include "webgpu/wait.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft::webgpu {

enum class BindingType : std::uint32_t { uniform, storage, read_only_storage };

/// One declared binding of a bind-group layout.
struct LayoutEntry {
  std::uint32_t binding = 0;
  BindingType type = BindingType::storage;
  std::uint64_t min_size = 0;  ///< 0: checked by the implementation at each dispatch
};

/// One bound buffer range.
struct GroupEntry {
  std::uint32_t binding = 0;
  WGPUBuffer buffer = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// A value for an `override`.
struct Constant {
  std::string name;
  double value;
};

/// The device and its queue. All methods may be called from any thread.
class Gpu {
 public:
  /// See Device::open. `options` has been completed from the environment.
  static std::unique_ptr<Gpu> open(const DeviceOptions& options);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// The raw objects, for the bench's bare loops and for interop; owned by this object.
  WGPUDevice raw_device() const noexcept { return device_; }
  WGPUQueue raw_queue() const noexcept { return queue_; }

  const AdapterInfo& adapter() const noexcept { return info_; }
  const Limits& limits() const noexcept { return limits_; }
  const Features& features() const noexcept { return features_; }
  bool library_kernels_only() const noexcept { return library_kernels_only_; }
  /// Names what decides how fast the library's kernels are: device_identity, and whether they have bounds checks.
  std::string kernels_identity() const;

  // -- creation: throws out_of_memory, compile_error, device_lost or internal, naming `label` -----------------------
  BufferHandle create_buffer(std::uint64_t size, std::uint32_t usage, bool mapped, std::string_view label);
  ShaderModule create_module(const std::string& code, const std::string& label, bool trusted);
  BindGroupLayout create_layout(std::span<const LayoutEntry> entries, std::string_view label);
  PipelineLayout create_pipeline_layout(std::span<const WGPUBindGroupLayout> groups, std::uint32_t immediate_size,
                                        std::string_view label);
  Pipeline create_pipeline(const ShaderModule& module, const PipelineLayout& layout, const std::string& entry_point,
                           std::span<const Constant> constants, const std::string& label);
  BindGroup create_bind_group(WGPUBindGroupLayout layout, std::span<const GroupEntry> entries, std::string_view label);
  Encoder create_encoder(std::string_view label);
  /// `count` timestamp queries, at most 4,096; needs Features::timestamps.
  QuerySet create_query_set(std::uint32_t count, std::string_view label);

  // -- queue --------------------------------------------------------------------------------------------------------
  void write_buffer(WGPUBuffer buffer, std::uint64_t offset, std::span<const std::byte> bytes);
  /// Submits what write_buffer wrote and nothing else; buffers made mapped and unmapped since, likewise.
  void submit_writes();
  /// Finishes `encoder` and submits it. An error in recording or submission comes out here, with `label`.
  void submit(Encoder encoder, std::string_view label);
  /// Sets `done` once all work submitted so far is finished (or the device is lost). The shared state keeps the
  /// callback safe when nobody waits any more.
  std::shared_ptr<std::atomic<bool>> signal_done();

  // -- mapping ------------------------------------------------------------------------------------------------------
  enum class MapStatus : int { pending, ready, failed };
  struct MapState {
    std::atomic<MapStatus> status{MapStatus::pending};
    std::string message;
  };
  /// Asks to map [0, size) for reading or writing. Poll until status leaves pending.
  std::shared_ptr<MapState> map_async(WGPUBuffer buffer, bool for_write, std::uint64_t size);
  std::span<std::byte> mapped_range(WGPUBuffer buffer, std::uint64_t size, bool for_write);
  void unmap(WGPUBuffer buffer);

  // -- waiting and loss ---------------------------------------------------------------------------------------------
  void poll();
  /// In a process that was forked from the one that opened the device, too.
  bool lost() const noexcept { return status_->lost.load(std::memory_order_acquire) || forked(); }
  /// Throws Error{device_lost} with the reason when the device is gone; `what` names the call.
  void check_alive(std::string_view what) const;
  /// From now on the device counts as lost. Its objects live on until this object goes.
  void destroy();
  /// Errors that no capture took (they came on a driver's thread); empties the list.
  std::vector<std::string> take_stray_errors();
  bool has_stray_errors() const noexcept { return status_->stray.load(std::memory_order_acquire); }
  /// For tests: the next `n` calls of create_buffer find the device out of memory.
  void fail_creations(int n) noexcept { failures_due_.store(n, std::memory_order_relaxed); }
  int failures_due() const noexcept { return failures_due_.load(std::memory_order_relaxed); }
  /// For tests: the implementation itself loses the device and tells by its callback, as when the driver fails. Nothing
  /// of it may be mapped: wgpu-native takes mapped memory away.
  void lose() { webgpu::lose(device_); }

 private:
  /// Outlives the Gpu: callbacks may come late.
  struct Status {
    std::atomic<bool> lost{false};
    std::atomic<bool> stray{false};
    std::mutex mutex;
    std::string reason;
    std::vector<std::string> errors;
  };

  Gpu() = default;
  static Status* new_status();
  struct Callbacks;  // what WebGPU calls
  /// Throws what `capture` caught, if anything.
  void raise(const class ErrorCapture& capture, ErrorCode fallback, std::string_view what,
             std::string_view label) const;

  AdapterInfo info_;
  Limits limits_;
  Features features_;
  bool library_kernels_only_ = false;
  Adapter adapter_;
  WGPUDevice device_ = nullptr;
  WGPUQueue queue_ = nullptr;
  Status* status_ = nullptr;
  std::atomic<int> failures_due_{0};
};

/// Chooses among `candidates` by what `options` wish; the best first. Throws as Device::open says.
std::size_t select_adapter(const std::vector<Candidate>& candidates, const DeviceOptions& options);

}  // namespace weft::webgpu
