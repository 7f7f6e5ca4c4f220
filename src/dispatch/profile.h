// What is gathered while a device is profiled.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "webgpu/timestamps.h"
#include "webgpu/wait.h"
#include "weft/kernel.h"

namespace weft::dispatch {

/// Something that a host thread did.
struct HostEvent {
  std::string name;
  const char* category;  ///< a literal
  std::uint32_t thread;
  webgpu::Clock::time_point start, end;
  std::uint64_t bytes;
};

/// Counts the threads of the process from 1, as they first ask.
std::uint32_t this_thread_number() noexcept;

/// Host events of a device. Any thread.
class HostSpans {
 public:
  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  /// Returns when that was.
  webgpu::Clock::time_point begin();
  /// Nothing is kept from here on.
  std::vector<HostEvent> end() noexcept;
  /// Drops what was begun before this profile was, and what memory lacks for.
  void add(std::string_view name, const char* category, webgpu::Clock::time_point start, std::uint64_t bytes) noexcept;

 private:
  std::atomic<bool> on_{false};
  std::mutex mutex_;
  webgpu::Clock::time_point begun_;
  std::vector<HostEvent> events_;
};

/// The time until it goes, when `spans` is on: else one relaxed load and nothing more. `name` and `category` outlive
/// it.
class HostSpan {
 public:
  HostSpan(HostSpans* spans, const char* category, std::string_view name, std::uint64_t bytes = 0) noexcept
      : spans_(spans != nullptr && spans->on() ? spans : nullptr) {
    if (spans_ == nullptr) [[likely]]
      return;
    category_ = category;
    name_ = name;
    bytes_ = bytes;
    start_ = webgpu::Clock::now();
  }
  ~HostSpan() {
    if (spans_ != nullptr) [[unlikely]]
      spans_->add(name_, category_, start_, bytes_);
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

 private:
  HostSpans* const spans_;
  const char* category_;
  std::string_view name_;
  std::uint64_t bytes_;
  webgpu::Clock::time_point start_;
};

/// One stream's part of a profile. Under that stream's lock until it is taken from the stream.
class StreamProfile {
 public:
  struct Dispatch {
    std::string name;
    Grid grid;
    std::uint64_t bytes;
  };
  /// The batch that was sent then; its first timed dispatch.
  struct Submit {
    webgpu::Clock::time_point start;
    std::size_t first;
  };

  explicit StreamProfile(webgpu::Gpu& gpu) : timed_(gpu.features().timestamps), timestamps_(gpu) {}

  /// Whether dispatches get passes of their own, by begin_pass.
  bool timed() const noexcept { return timed_; }
  webgpu::ComputePass begin_pass(const webgpu::Encoder& encoder, std::string_view name, Grid grid, std::uint64_t bytes);
  /// Everything recorded so far went off in a submit that was begun at `start`; or, failing, was thrown away.
  void submitted(webgpu::Clock::time_point start, bool sent) noexcept;

  /// Once no stream has this object any more. Forgets what was recorded and not submitted.
  std::vector<std::pair<double, double>> read_times(webgpu::Clock::time_point deadline);
  const std::vector<Dispatch>& dispatches() const noexcept { return dispatches_; }
  const std::vector<Submit>& submits() const noexcept { return submits_; }
  const std::vector<HostEvent>& host_events() const noexcept { return host_events_; }

 private:
  const bool timed_;
  webgpu::Timestamps timestamps_;
  std::vector<Dispatch> dispatches_;
  std::size_t submitted_ = 0;
  std::vector<Submit> submits_;
  std::vector<HostEvent> host_events_;
};

}  // namespace weft::dispatch
