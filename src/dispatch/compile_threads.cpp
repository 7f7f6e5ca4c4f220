#include "dispatch/compile_threads.h"

#include <algorithm>
#include <utility>

#include "weft/error.h"

namespace weft {
namespace detail {

void PendingKernelState::settle(Kernel made, std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex);
    kernel = std::move(made);
    error = std::move(failure);
    done = true;
  }
  settled.notify_all();
}

}  // namespace detail

namespace dispatch {

CompileThreads::~CompileThreads() {
  std::deque<Task> dropped;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    dropped.swap(tasks_);
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
  for (const Task& task : dropped) {
    task.result->settle({}, std::make_exception_ptr(Error(ErrorCode::invalid_argument,
                                                          "prepare: the device was closed before the kernel compiled",
                                                          "keep the device until the kernels are ready")));
  }
}

PendingKernel CompileThreads::start(std::function<Kernel()> compile) {
  auto result = std::make_shared<detail::PendingKernelState>();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(compile), result});
    const std::size_t most = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMost);
    if (tasks_.size() > idle_ && threads_.size() < most) threads_.emplace_back([this] { run(); });
  }
  wake_.notify_one();
  return PendingKernel(std::move(result));
}

void CompileThreads::run() {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      ++idle_;
      wake_.wait(lock, [&] { return stop_ || !tasks_.empty(); });
      --idle_;
      if (stop_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    Kernel kernel;
    std::exception_ptr error;
    try {
      kernel = task.compile();
    } catch (...) {
      error = std::current_exception();
    }
    task.result->settle(std::move(kernel), std::move(error));
  }
}

}  // namespace dispatch

namespace {
detail::PendingKernelState& state_of(const std::shared_ptr<detail::PendingKernelState>& state) {
  if (!state) throw Error(ErrorCode::invalid_argument, "the pending kernel is empty", "take it from Device::prepare");
  return *state;
}
}  // namespace

bool PendingKernel::ready() const {
  detail::PendingKernelState& s = state_of(state_);
  const std::lock_guard lock(s.mutex);
  return s.done;
}

Kernel PendingKernel::get() const {
  detail::PendingKernelState& s = state_of(state_);
  std::unique_lock lock(s.mutex);
  s.settled.wait(lock, [&] { return s.done; });
  if (s.error) std::rethrow_exception(s.error);
  return s.kernel;
}

}  // namespace weft
