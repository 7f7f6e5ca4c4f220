#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "io/atomic_file.h"
#include "weft/profiler.h"

namespace weft {
namespace {

/// A row of the table.
struct Sum {
  std::size_t count = 0;
  double total_us = 0;
  std::uint64_t bytes = 0;
};

/// Sums of equal names, the longest first; equal times by name.
std::vector<std::pair<std::string, Sum>> sums_by_name(std::span<const TraceEvent> events, bool on_device) {
  std::map<std::string, Sum> by_name;
  for (const TraceEvent& e : events) {
    if (e.on_device != on_device) continue;
    Sum& sum = by_name[e.on_device || e.category == e.name ? e.name : e.category + ": " + e.name];
    ++sum.count;
    sum.total_us += e.duration_us;
    sum.bytes += e.bytes;
  }
  std::vector<std::pair<std::string, Sum>> out(by_name.begin(), by_name.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.second.total_us > b.second.total_us; });
  return out;
}

/// Labels come from users: what moves the cursor stays out of the terminal.
std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f) c = '?';
  }
  return out;
}

using Sums = std::vector<std::pair<std::string, Sum>>;

/// `width` is of the first column; `whole` is what 100 % are, 0: no share is given.
std::string rows(std::string_view title, const Sums& sums, std::size_t width, double whole) {
  std::string out = fmt::format("{:<{}}  {:>8}  {:>12}  {:>10}  {:>7}  {:>8}\n", title, width, "count", "total us",
                                "mean us", whole > 0 ? "share" : "", "GB/s");
  for (const auto& [name, sum] : sums) {
    const std::string share = whole > 0 ? fmt::format("{:.1f} %", 100 * sum.total_us / whole) : std::string();
    const std::string rate = sum.bytes > 0 && sum.total_us > 0
                                 ? fmt::format("{:.2f}", static_cast<double>(sum.bytes) / sum.total_us * 1e-3)
                                 : std::string("-");
    out += fmt::format("{:<{}}  {:>8}  {:>12.1f}  {:>10.1f}  {:>7}  {:>8}\n", printable(name), width, sum.count,
                       sum.total_us, sum.total_us / static_cast<double>(sum.count), share, rate);
  }
  return out;
}

std::size_t width_of(const Sums& sums) {
  std::size_t width = std::string_view("kernel").size();
  for (const auto& [name, sum] : sums) width = std::max(width, name.size());
  return width;
}

using Json = nlohmann::ordered_json;

constexpr int kHostProcess = 1;
constexpr int kDeviceProcess = 2;

/// The name or the place of a track, as trace viewers take it.
Json track_property(const char* property, int process, std::size_t thread, const char* key, const Json& value) {
  Json args = Json::object();
  args[key] = value;
  Json out = Json::object();
  out["name"] = property;
  out["ph"] = "M";
  out["ts"] = 0;
  out["pid"] = process;
  out["tid"] = thread;
  out["args"] = std::move(args);
  return out;
}

/// Nanoseconds, so that spans that nest do so after rounding too.
struct Interval {
  std::int64_t begin, end;
};
Interval interval_of(const TraceEvent& e) {
  return {std::llround(e.start_us * 1e3), std::llround((e.start_us + e.duration_us) * 1e3)};
}

/// The first track, from 1, on which nothing runs any more when `interval` begins. `ends` has each track's last end.
std::size_t free_track(std::vector<std::int64_t>& ends, Interval interval) {
  auto it = std::find_if(ends.begin(), ends.end(), [&](std::int64_t end) { return end <= interval.begin; });
  if (it == ends.end()) it = ends.insert(it, 0);
  *it = interval.end;
  return static_cast<std::size_t>(it - ends.begin()) + 1;
}

Json span_json(const TraceEvent& e, Interval interval, std::size_t track) {
  Json args = Json::object();
  if (e.grid.x > 0) args["grid"] = Json::array({e.grid.x, e.grid.y, e.grid.z});
  if (e.bytes > 0) args["bytes"] = e.bytes;
  Json out = Json::object();
  out["name"] = e.name;
  out["cat"] = e.category;
  out["ph"] = "X";
  out["ts"] = static_cast<double>(interval.begin) / 1e3;
  out["dur"] = static_cast<double>(interval.end - interval.begin) / 1e3;
  out["pid"] = e.on_device ? kDeviceProcess : kHostProcess;
  out["tid"] = track;
  out["args"] = std::move(args);
  return out;
}

}  // namespace

Trace::Trace(std::string device, bool device_times, double duration_us, std::vector<TraceEvent> events)
    : device_(std::move(device)), device_times_(device_times), duration_us_(duration_us), events_(std::move(events)) {
  // Of two that start together the longer one comes first: it may have the other inside.
  std::stable_sort(events_.begin(), events_.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.start_us != b.start_us ? a.start_us < b.start_us : a.duration_us > b.duration_us;
  });
}

std::string Trace::table() const {
  const auto kernels = sums_by_name(events_, true);
  const auto host = sums_by_name(events_, false);
  const std::size_t width = std::max(width_of(kernels), width_of(host));
  std::string out;
  if (device_times_) {
    Sum all;
    for (const auto& [name, sum] : kernels) {
      all.count += sum.count;
      all.total_us += sum.total_us;
    }
    out = fmt::format("{}: {} dispatches, {:.1f} us of {:.1f} us\n", printable(device_), all.count, all.total_us,
                      duration_us_);
    if (!kernels.empty()) out += rows("kernel", kernels, width, all.total_us);
  } else {
    out = fmt::format("{}: no timestamps on this device, so no times of kernels; {:.1f} us in all\n",
                      printable(device_), duration_us_);
  }
  if (!host.empty()) out += rows("host", host, width, 0);
  return out;
}

std::string Trace::to_json() const {
  Json spans = Json::array();
  std::vector<std::int64_t> device_tracks;
  std::size_t threads = 0;
  for (const TraceEvent& e : events_) {
    const Interval interval = interval_of(e);
    const std::size_t track = e.on_device ? free_track(device_tracks, interval) : e.thread;
    if (!e.on_device) threads = std::max(threads, track);
    spans.push_back(span_json(e, interval, track));
  }
  if (device_times_ && device_tracks.empty()) device_tracks.push_back(0);

  Json all = Json::array();
  all.push_back(track_property("process_name", kHostProcess, 0, "name", "host"));
  all.push_back(track_property("process_sort_index", kHostProcess, 0, "sort_index", 0));
  for (std::size_t t = 1; t <= threads; ++t) {
    all.push_back(track_property("thread_name", kHostProcess, t, "name", fmt::format("thread {}", t)));
  }
  if (!device_tracks.empty()) {
    all.push_back(track_property("process_name", kDeviceProcess, 0, "name", "device: " + device_));
    all.push_back(track_property("process_sort_index", kDeviceProcess, 0, "sort_index", 1));
  }
  for (std::size_t t = 1; t <= device_tracks.size(); ++t) {
    const std::string name = t == 1 ? std::string("dispatches") : fmt::format("dispatches beside those ({})", t);
    all.push_back(track_property("thread_name", kDeviceProcess, t, "name", name));
  }
  for (Json& s : spans) all.push_back(std::move(s));

  Json about = Json::object();
  about["weft"] = version();
  about["implementation"] = fmt::format("{} {}", implementation_name(), implementation_version());
  about["device"] = device_;
  about["device_times"] = device_times_;
  about["duration_us"] = duration_us_;
  Json out = Json::object();
  out["traceEvents"] = std::move(all);
  out["displayTimeUnit"] = "ns";
  out["otherData"] = std::move(about);
  // Labels that are not UTF-8 get replacement characters.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Trace::save(const std::filesystem::path& path) const {
  const std::string text = to_json();
  const std::array<std::span<const std::byte>, 1> pieces{std::as_bytes(std::span(text))};
  io::write_file_atomically(path, pieces);
}

}  // namespace weft
