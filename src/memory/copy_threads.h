// memcpy by several threads: one core moves 8 to 10 GB/s into fresh or mapped pages, a PCIe link three times that.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace weft::memory {

/// A few threads that only copy. They start at the first large copy and end with this object. Any thread may call
/// copy(); callers take turns.
class CopyThreads {
 public:
  /// `count` 0: half of the hardware threads, 1 to 8.
  explicit CopyThreads(unsigned count = 0);
  ~CopyThreads();
  CopyThreads(const CopyThreads&) = delete;
  CopyThreads& operator=(const CopyThreads&) = delete;

  /// memcpy(to, from, n); returns when done. Small copies run on the caller's thread alone.
  void copy(std::byte* to, const std::byte* from, std::size_t n);

 private:
  static constexpr std::size_t kAlone = std::size_t{1} << 20;

  void run(unsigned index);
  void copy_part(unsigned index) const;

  const unsigned count_;  // parts of a copy; the caller does one of them
  std::mutex turn_;       // one copy at a time
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  std::vector<std::thread> threads_;
  std::byte* to_ = nullptr;
  const std::byte* from_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t generation_ = 0;
  unsigned working_ = 0;
  bool stop_ = false;
};

}  // namespace weft::memory
