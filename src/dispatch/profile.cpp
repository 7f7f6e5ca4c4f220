#include "dispatch/profile.h"

#include <cstddef>
#include <exception>

namespace weft::dispatch {

std::uint32_t this_thread_number() noexcept {
  static std::atomic<std::uint32_t> last{0};
  thread_local const std::uint32_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

webgpu::Clock::time_point HostSpans::begin() {
  const std::lock_guard lock(mutex_);
  events_.clear();
  begun_ = webgpu::Clock::now();
  on_.store(true, std::memory_order_relaxed);
  return begun_;
}

std::vector<HostEvent> HostSpans::end() noexcept {
  const std::lock_guard lock(mutex_);
  on_.store(false, std::memory_order_relaxed);
  return std::exchange(events_, {});
}

void HostSpans::add(std::string_view name, const char* category, webgpu::Clock::time_point start,
                    std::uint64_t bytes) noexcept {
  const auto end = webgpu::Clock::now();
  try {
    HostEvent event{std::string(name), category, this_thread_number(), start, end, bytes};
    const std::lock_guard lock(mutex_);
    if (on() && start >= begun_) events_.push_back(std::move(event));
  } catch (const std::exception&) {
    // Out of memory: the work goes on, its span is lost.
  }
}

webgpu::ComputePass StreamProfile::begin_pass(const webgpu::Encoder& encoder, std::string_view name, Grid grid,
                                              std::uint64_t bytes) {
  dispatches_.push_back({std::string(name), grid, bytes});
  try {
    return timestamps_.begin_pass(encoder);
  } catch (...) {
    dispatches_.pop_back();
    throw;
  }
}

void StreamProfile::submitted(webgpu::Clock::time_point start, bool sent) noexcept {
  try {
    const auto end = webgpu::Clock::now();
    host_events_.push_back({"submit", "submit", this_thread_number(), start, end, 0});
    if (sent && timestamps_.count() > submitted_) {
      submits_.push_back({start, submitted_});
      submitted_ = timestamps_.count();
    }
  } catch (const std::exception&) {
    // Out of memory: as if the batch had not been timed.
  }
  timestamps_.truncate(submitted_);
  dispatches_.erase(dispatches_.begin() + static_cast<std::ptrdiff_t>(submitted_), dispatches_.end());
}

std::vector<std::pair<double, double>> StreamProfile::read_times(webgpu::Clock::time_point deadline) {
  timestamps_.truncate(submitted_);
  dispatches_.erase(dispatches_.begin() + static_cast<std::ptrdiff_t>(submitted_), dispatches_.end());
  return timestamps_.read(deadline);
}

}  // namespace weft::dispatch
