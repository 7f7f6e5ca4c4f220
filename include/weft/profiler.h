// weft/profiler.h - what ran, when, and for how long.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "weft/device.h"
#include "weft/kernel.h"

namespace weft {

/// One span of a profile.
struct TraceEvent {
  std::string name;          ///< the kernel's label, or what the host did
  std::string category;      ///< "dispatch", "upload", "read", "compile", "submit" or "wait"
  bool on_device = false;    ///< a dispatch, timed by the device
  std::uint32_t thread = 0;  ///< host: counts the threads from 1 as they come; device: 0
  double start_us = 0;       ///< since the profile began
  double duration_us = 0;    ///< of host spans, with the spans inside them (a read has its submit and wait)
  Grid grid{0, 0, 0};        ///< workgroups of a dispatch; zeros for an indirect one
  std::uint64_t bytes = 0;   ///< dispatch: sum of the ranges bound; upload, read: moved; 0 where none are known
};

/// A finished profile. A value; needs no device.
///
/// Device and host have clocks of their own. One shift for the whole profile lays the device's over the host's: the
/// smallest with which no dispatch starts before the call that submitted it. So the first dispatch of the submit that
/// had an idle device begins with that call, durations and distances between dispatches are exact, and all of the
/// device's track may lie early by what the fastest submit took to reach the device (tens of microseconds).
class Trace {
 public:
  Trace() = default;
  /// For Weft's own layers and for tests. `device` names the adapter; `device_times`: dispatches were timed.
  Trace(std::string device, bool device_times, double duration_us, std::vector<TraceEvent> events);

  /// By start.
  const std::vector<TraceEvent>& events() const noexcept { return events_; }
  /// False when the device has no timestamps: then there are host spans only.
  bool has_device_times() const noexcept { return device_times_; }
  const std::string& device() const noexcept { return device_; }
  /// From the profile's begin until its work was done.
  double duration_us() const noexcept { return duration_us_; }

  /// For a terminal: kernels by the time that all their dispatches took, with count, total, mean, share of the device's
  /// total, and GB/s (1e9 bytes) of the ranges bound where there are any; then what the host did, likewise. A range
  /// counts once whatever the kernel does with it, so kernels that read some bytes often, or not at all, show less, or
  /// more, than the memory did.
  std::string table() const;
  /// Chrome's trace event format (JSON object form), which Perfetto and chrome://tracing open: process 1 is the host
  /// with a track a thread, process 2 the device. Complete events, in microseconds with three decimals; `args` has
  /// `grid` and `bytes` where there are any. Events of the device that overlap in part go to further tracks, since
  /// those of one track must nest.
  std::string to_json() const;
  /// Writes to_json() to `path`: the file is replaced whole or not at all. Throws Error{io_error}.
  void save(const std::filesystem::path& path) const;

 private:
  std::string device_;
  bool device_times_ = false;
  double duration_us_ = 0;
  std::vector<TraceEvent> events_;
};

/// Profiles a device from construction until finish(): everything that any thread does on it meanwhile is recorded.
/// Each dispatch then has a compute pass of its own with two timestamps, so that kernels that would run side by side
/// run one after another; results are the same. Copies and clears are not timed (WebGPU times passes). Memory grows by
/// about 150 bytes a dispatch until finish(). When nothing is profiled, a dispatch pays for one
/// comparison and a transfer for a relaxed load.
class Profiler {
 public:
  /// Submits and waits for what was recorded before. Throws Error{invalid_argument} when the device is being profiled
  /// already, on whatever thread.
  explicit Profiler(const Device& device);
  /// Without finish(): ends the profile and throws it away; does not wait.
  ~Profiler();
  Profiler(Profiler&& other) noexcept = default;
  Profiler& operator=(Profiler&& other) = delete;

  /// Submits all that was recorded, waits for it, and ends the profile, also when it throws: as Device::synchronize
  /// does, or Error{invalid_argument} the second time.
  Trace finish();

 private:
  std::shared_ptr<detail::DeviceState> device_;
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace weft
