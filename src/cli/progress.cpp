#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "cli/interrupt.h"
#include "cli/stats_report.h"

namespace weft::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kInterval = std::chrono::milliseconds(100);

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

constexpr std::size_t kBar = 20;

/// "3 s", "4:05", "2:30:00".
std::string seconds_text(double seconds) {
  const auto s = std::llround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

Progress::Progress(bool wanted) {
  if (wanted && isatty(STDERR_FILENO) == 1) watcher_ = std::thread([this] { watch(); });
}

Progress::~Progress() {
  finish();
}

void Progress::phase(const std::string& name, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  name_ = name;
  total_ = bytes;
  phase_start_ = Clock::now();
  done_ = 0;
}

void Progress::finish() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

std::string Progress::line() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - phase_start_).count();
  const std::uint64_t done = done_.load(std::memory_order_relaxed);
  if (total_ == 0 || done == 0) {
    return fmt::format("{}{} {:.1f} s", name_, total_ == 0 ? "" : " " + bytes_text(total_), seconds);
  }
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const auto filled = static_cast<std::size_t>(share * kBar);
  return fmt::format("{} [{}{}] {:.0f}% {} of {}, {}/s, {} left", name_, std::string(filled, '#'),
                     std::string(kBar - filled, '.'), share * 100, bytes_text(done), bytes_text(total_),
                     bytes_text(static_cast<std::uint64_t>(static_cast<double>(done) / seconds)),
                     seconds_text(seconds / share - seconds));
}

void Progress::watch() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_until(lock, start_ + kPatience, [&] { return finished_; })) return;
  set_line_visible(true);
  while (!finished_) {
    const std::string text = line().substr(0, terminal_width() - 1);
    std::fprintf(stderr, "\r\x1b[2K%s", text.c_str());
    std::fflush(stderr);
    changed_.wait_for(lock, kInterval, [&] { return finished_; });
  }
  std::fprintf(stderr, "\r\x1b[2K");
  std::fflush(stderr);
  set_line_visible(false);
}

}  // namespace weft::cli
