// Callbacks for work that is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "webgpu/gpu.h"
#include "weft/error.h"

namespace weft::dispatch {

using CompletionCallback = std::function<void(const Error*)>;

/// Calls each callback once, in the order they were added, on one thread of its own: WebGPU's callbacks run inside its
/// poll, on whatever thread polls, where a call back into it may hang. The thread starts with the first callback and
/// polls only while one waits, so nobody else has to. Any thread may call anything here.
class Completions {
 public:
  explicit Completions(std::shared_ptr<webgpu::Gpu> gpu);
  /// Callbacks that still wait get Error{device_lost}. May run on the thread itself, when a callback held the last
  /// handle of the device.
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  /// `callback` is called with null once `done` is set, with an error when the device is lost before.
  void add(std::shared_ptr<std::atomic<bool>> done, CompletionCallback callback);
  /// What callbacks threw, as texts; empties the list.
  std::vector<std::string> take_errors();
  bool has_errors() const noexcept;

 private:
  struct State;
  const std::shared_ptr<State> state_;
  std::mutex start_mutex_;
  std::thread thread_;
};

}  // namespace weft::dispatch
