// Kernels that compile in the background.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/kernel.h"

namespace weft::detail {

/// What a PendingKernel waits for.
struct PendingKernelState {
  std::mutex mutex;
  std::condition_variable settled;
  bool done = false;
  Kernel kernel;
  std::exception_ptr error;

  void settle(Kernel made, std::exception_ptr failure);
};

}  // namespace weft::detail

namespace weft::dispatch {

/// A few threads that compile, started as work comes. The destructor waits for the compiles under way and fails those
/// that have not begun. Any thread may call start().
class CompileThreads {
 public:
  CompileThreads() = default;
  ~CompileThreads();
  CompileThreads(const CompileThreads&) = delete;
  CompileThreads& operator=(const CompileThreads&) = delete;

  /// Runs `compile` on one of the threads.
  PendingKernel start(std::function<Kernel()> compile);

 private:
  static constexpr std::size_t kMost = 4;

  struct Task {
    std::function<Kernel()> compile;
    std::shared_ptr<detail::PendingKernelState> result;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stop_ = false;
};

}  // namespace weft::dispatch
