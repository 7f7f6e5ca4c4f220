#include "dispatch/completions.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <utility>

namespace weft::dispatch {
namespace {

/// Texts that are kept until the next synchronize: nobody may ever call it.
constexpr std::size_t kMostErrors = 16;

}  // namespace

/// Shared with the thread, which may outlive the Completions.
struct Completions::State {
  struct Waiting {
    std::shared_ptr<std::atomic<bool>> done;
    CompletionCallback callback;
  };

  explicit State(std::shared_ptr<webgpu::Gpu> opened) : gpu(std::move(opened)) {}

  const std::shared_ptr<webgpu::Gpu> gpu;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Waiting> waiting;
  std::vector<std::string> errors;  // at most kMostErrors
  std::uint64_t more_errors = 0;
  std::atomic<bool> has_errors{false};
  std::atomic<bool> stop{false};

  void call(Waiting& w) noexcept;
  static void run(const std::shared_ptr<State>& self);
};

Completions::Completions(std::shared_ptr<webgpu::Gpu> gpu) : state_(std::make_shared<State>(std::move(gpu))) {}

Completions::~Completions() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // it ends by itself, and holds what it uses
  } else {
    thread_.join();
  }
}

void Completions::add(std::shared_ptr<std::atomic<bool>> done, CompletionCallback callback) {
  {
    const std::lock_guard lock(start_mutex_);
    if (!thread_.joinable()) thread_ = std::thread([state = state_] { State::run(state); });
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->waiting.push_back({std::move(done), std::move(callback)});
  }
  state_->wake.notify_one();
}

std::vector<std::string> Completions::take_errors() {
  const std::lock_guard lock(state_->mutex);
  state_->has_errors = false;
  std::vector<std::string> out = std::exchange(state_->errors, {});
  if (const std::uint64_t more = std::exchange(state_->more_errors, 0); more > 0) {
    out.push_back(fmt::format("and {} more callbacks", more));
  }
  return out;
}

bool Completions::has_errors() const noexcept {
  return state_->has_errors.load(std::memory_order_acquire);
}

void Completions::State::call(Waiting& w) noexcept {
  std::string thrown;
  try {
    if (w.done->load(std::memory_order_acquire) && !gpu->lost()) {
      w.callback(nullptr);
    } else {
      const Error error(ErrorCode::device_lost, "on_complete: the device went before the work was done",
                        "keep the device until the callback came, or open another and do the work again");
      w.callback(&error);
    }
  } catch (const std::exception& e) {
    thrown = e.what();
    if (thrown.empty()) thrown = "an exception without a text";
  } catch (...) {
    thrown = "an exception that is no std::exception";
  }
  if (!thrown.empty()) {
    const std::lock_guard lock(mutex);
    if (errors.size() < kMostErrors) {
      errors.push_back(std::move(thrown));
    } else {
      ++more_errors;
    }
    has_errors = true;
  }
}

void Completions::State::run(const std::shared_ptr<State>& self) {
  State& s = *self;
  for (;;) {
    Waiting next;
    {
      std::unique_lock lock(s.mutex);
      s.wake.wait(lock, [&] { return s.stop || !s.waiting.empty(); });
      if (s.waiting.empty()) return;
      next = std::move(s.waiting.front());
      s.waiting.pop_front();
    }
    webgpu::wait_until([&] { s.gpu->poll(); },
                       [&] { return next.done->load(std::memory_order_acquire) || s.gpu->lost() || s.stop; },
                       webgpu::Clock::time_point::max());
    s.call(next);
    // `next` goes here, with what the callback held: perhaps the last handle of the device.
  }
}

}  // namespace weft::dispatch
