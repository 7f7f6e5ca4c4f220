#include "memory/copy_threads.h"

#include <algorithm>
#include <cstring>

namespace weft::memory {

CopyThreads::CopyThreads(unsigned count)
    : count_(count != 0 ? count : std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u)) {}

CopyThreads::~CopyThreads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void CopyThreads::copy_part(unsigned index) const {
  // Whole pages each, so that no two threads fault in the same one.
  constexpr std::size_t kPage = 4096;
  const std::size_t part = (size_ / count_ + kPage - 1) / kPage * kPage;
  const std::size_t begin = std::min(size_, part * index);
  const std::size_t end = index + 1 == count_ ? size_ : std::min(size_, begin + part);
  if (begin < end) std::memcpy(to_ + begin, from_ + begin, end - begin);
}

void CopyThreads::run(unsigned index) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    lock.unlock();
    copy_part(index);
    lock.lock();
    if (--working_ == 0) done_.notify_one();
  }
}

void CopyThreads::copy(std::byte* to, const std::byte* from, std::size_t n) {
  if (n < kAlone || count_ == 1) {
    if (n > 0) std::memcpy(to, from, n);
    return;
  }
  const std::lock_guard turn(turn_);
  {
    const std::lock_guard lock(mutex_);
    while (threads_.size() + 1 < count_) {
      const auto index = static_cast<unsigned>(threads_.size()) + 1;
      threads_.emplace_back([this, index] { run(index); });
    }
    to_ = to;
    from_ = from;
    size_ = n;
    working_ = count_ - 1;
    ++generation_;
  }
  start_.notify_all();
  copy_part(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return working_ == 0; });
}

}  // namespace weft::memory
