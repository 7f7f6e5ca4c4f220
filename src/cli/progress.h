// cli/progress.h - one line on the terminal that says what is being done.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace weft::cli {

/// Shows the current phase on stderr once the whole has lasted about a second: a bar, bytes, rate and the time left
/// where the bytes are known. Clears the line at the end. Where stderr is no terminal it shows nothing. One thread
/// calls it, but for advance().
class Progress {
 public:
  explicit Progress(bool wanted = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `bytes` is how many it will move, 0 where that says nothing.
  void phase(const std::string& name, std::uint64_t bytes = 0);
  /// Bytes of the current phase that are done.
  void advance(std::uint64_t bytes) noexcept { done_.fetch_add(bytes, std::memory_order_relaxed); }
  /// Clears the line for good.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  std::string line() const;

  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::string name_;
  std::uint64_t total_ = 0;
  Clock::time_point phase_start_ = start_;
  std::atomic<std::uint64_t> done_{0};
  std::thread watcher_;
};

}  // namespace weft::cli
