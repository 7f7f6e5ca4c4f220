#include "weft/profiler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "dispatch/profile.h"
#include "dispatch/state.h"
#include "weft/error.h"

namespace weft {
namespace {

using detail::DeviceState;
using detail::StreamState;
using Profiles = std::vector<std::shared_ptr<dispatch::StreamProfile>>;

double nanoseconds(webgpu::Clock::time_point t) {
  return std::chrono::duration<double, std::nano>(t.time_since_epoch()).count();
}

void refuse_nested(const DeviceState& device) {  // under streams_mutex
  if (!device.profile) return;
  throw Error(ErrorCode::invalid_argument, "profile: the device is being profiled already",
              "finish the other profile first");
}

/// Gives each stream its part; make_stream does for those to come. Returns when the profile began.
webgpu::Clock::time_point begin(DeviceState& device) {
  std::vector<std::pair<std::shared_ptr<StreamState>, std::shared_ptr<dispatch::StreamProfile>>> streams;
  {
    const std::lock_guard lock(device.streams_mutex);
    refuse_nested(device);
    Profiles profiles;
    for (const auto& [slot, weak] : device.streams) {
      if (auto stream = weak.lock()) {
        profiles.push_back(std::make_shared<dispatch::StreamProfile>(device.gpu));
        streams.emplace_back(std::move(stream), profiles.back());
      }
    }
    device.profile = std::move(profiles);
  }
  const auto begun = device.host_spans.begin();
  for (const auto& [stream, profile] : streams) {
    const std::lock_guard lock(stream->mutex);
    stream->profile = profile;
  }
  return begun;
}

/// Takes the parts back. What a stream records from here on is not profiled.
Profiles end(DeviceState& device) {
  Profiles profiles;
  std::vector<std::shared_ptr<StreamState>> streams;
  {
    const std::lock_guard lock(device.streams_mutex);
    if (device.profile) profiles.swap(*device.profile);
    device.profile.reset();
    for (const auto& [slot, weak] : device.streams) {
      if (auto stream = weak.lock()) streams.push_back(std::move(stream));
    }
  }
  for (const auto& stream : streams) {
    const std::lock_guard lock(stream->mutex);
    stream->profile.reset();
  }
  return profiles;
}

/// The dispatches of all streams, start_us on the host's clock since `begun` (see Trace).
void add_dispatches(const Profiles& profiles, webgpu::Clock::time_point begun, webgpu::Clock::time_point deadline,
                    std::vector<TraceEvent>& out) {
  std::vector<std::vector<std::pair<double, double>>> times;
  double shift = -std::numeric_limits<double>::infinity();
  for (const auto& p : profiles) {
    const auto& stream_times = times.emplace_back(p->read_times(deadline));
    for (const auto& s : p->submits()) shift = std::max(shift, nanoseconds(s.start) - stream_times[s.first].first);
  }
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    for (std::size_t j = 0; j < times[i].size(); ++j) {
      const auto [first, last] = times[i][j];
      const dispatch::StreamProfile::Dispatch& d = profiles[i]->dispatches()[j];
      TraceEvent e;
      e.name = d.name;
      e.category = "dispatch";
      e.on_device = true;
      e.start_us = (first + shift - nanoseconds(begun)) * 1e-3;
      e.duration_us = std::max(last - first, 0.0) * 1e-3;
      e.grid = d.grid;
      e.bytes = d.bytes;
      out.push_back(std::move(e));
    }
  }
}

void add_host_events(std::span<const dispatch::HostEvent> events, webgpu::Clock::time_point begun,
                     std::vector<TraceEvent>& out) {
  const auto microseconds = [](webgpu::Clock::duration d) {
    return std::chrono::duration<double, std::micro>(d).count();
  };
  for (const dispatch::HostEvent& h : events) {
    TraceEvent e;
    e.name = h.name;
    e.category = h.category;
    e.thread = h.thread;
    e.start_us = microseconds(h.start - begun);
    e.duration_us = microseconds(h.end - h.start);
    e.bytes = h.bytes;
    out.push_back(std::move(e));
  }
}

/// Numbers the threads from 1, by their first event.
void renumber_threads(std::vector<TraceEvent>& events) {
  std::map<std::uint32_t, std::uint32_t> numbers;
  for (TraceEvent& e : events) {
    if (e.on_device) continue;
    e.thread = numbers.emplace(e.thread, static_cast<std::uint32_t>(numbers.size() + 1)).first->second;
  }
}

/// Ends the profile of a device when it goes.
class Ending {
 public:
  explicit Ending(DeviceState& device) noexcept : device_(device) {}
  ~Ending() {
    if (ended_) return;
    try {
      end(device_);
    } catch (const std::bad_alloc&) {
      // Streams go on timing, for nobody, until the next profile.
    }
    device_.host_spans.end();
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  Profiles now() {
    Profiles out = end(device_);
    ended_ = true;
    return out;
  }

 private:
  DeviceState& device_;
  bool ended_ = false;
};

}  // namespace

Profiler::Profiler(const Device& device) {
  DeviceState& d = *device.state();
  {
    const std::lock_guard lock(d.streams_mutex);
    refuse_nested(d);
  }
  Device(device).synchronize();
  begun_ = begin(d);
  device_ = device.state();
}

Profiler::~Profiler() {
  if (device_) const Ending ending(*device_);
}

Trace Profiler::finish() {
  if (!device_) {
    throw Error(ErrorCode::invalid_argument, "profile: it is finished already", "make another Profiler");
  }
  const std::shared_ptr<DeviceState> device = std::exchange(device_, nullptr);
  std::vector<TraceEvent> events;
  Profiles profiles;
  std::vector<dispatch::HostEvent> host_events;
  webgpu::Clock::time_point done;
  {
    Ending ending(*device);
    Device(device).synchronize();
    done = webgpu::Clock::now();
    profiles = ending.now();
    host_events = device->host_spans.end();
  }
  add_host_events(host_events, begun_, events);
  for (const auto& p : profiles) add_host_events(p->host_events(), begun_, events);
  add_dispatches(profiles, begun_, device->deadline({}), events);
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.start_us < b.start_us; });
  renumber_threads(events);
  const double duration = std::chrono::duration<double, std::micro>(done - begun_).count();
  return Trace(device->gpu.adapter().name, device->gpu.features().timestamps, duration, std::move(events));
}

Trace Device::profile(const std::function<void()>& work) {
  if (!work) {
    throw Error(ErrorCode::invalid_argument, "profile: the function is empty", "give one that does the work");
  }
  Profiler profiler(*this);
  work();
  return profiler.finish();
}

}  // namespace weft
