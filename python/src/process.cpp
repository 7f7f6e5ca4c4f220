// What the module must mind about its process: forks and the interpreter's end.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "webgpu/fork.h"
#include "weft_python.h"

namespace weft::python {
namespace {

std::atomic<bool> closed{false};  // to visitors
std::atomic<int> visitors{0};     // threads that have the interpreter's lock as VisitorGil, or ask for it
std::atomic<bool> ending{false};
const std::thread::id main_thread = std::this_thread::get_id();

std::mutex default_mutex;  // never taken with the interpreter's lock held
Held<Device>* default_held = nullptr;

/// Callbacks that run end first. One that does not is left to its fate.
void close_to_visitors() {
  closed = true;
  const ReleaseGil released;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (visitors > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void at_exit() {
  if (!forked()) close_to_visitors();
  ending = true;
  if (forked()) return;
  const ReleaseGil released;
  const std::lock_guard lock(default_mutex);
  if (default_held == nullptr) return;
  // Work in flight ends before the driver's libraries are taken down under it. What doesn't end in time is left.
  try {
    Device device = default_held->peek();
    if (!device.lost()) device.synchronize({.deadline = std::chrono::seconds(5)});
  } catch (const std::exception&) {
    // The device is lost, or the deadline passed.
  }
  delete default_held;
  default_held = nullptr;
}

}  // namespace

bool forked() noexcept {
  return webgpu::forked();
}

void check_process() {
  if (forked()) [[unlikely]] {
    throw Error(ErrorCode::unsupported,
                "this process was forked from one that had a weft device open, and devices do not survive a fork",
                "start it with multiprocessing's method 'spawn', or use weft for the first time after the fork");
  }
}

ReleaseGil::~ReleaseGil() {
  if (ending.load(std::memory_order_relaxed) && std::this_thread::get_id() != main_thread) [[unlikely]] {
    for (;;) pause();
  }
  PyEval_RestoreThread(saved_);
}

VisitorGil::VisitorGil() {
  // Counted before it looks, as close_to_visitors closes before it counts: one of them sees the other.
  ++visitors;
  if (!closed) lock_.emplace();
}

VisitorGil::~VisitorGil() {
  lock_.reset();
  --visitors;
}

Device default_device() {
  check_process();
  const ReleaseGil released;
  const std::lock_guard lock(default_mutex);
  if (default_held == nullptr) {
    default_held = new Held<Device>(Device::open());
  }
  return default_held->peek();
}

void set_default_device(const Device& device) {
  const ReleaseGil released;
  auto* fresh = new Held<Device>(device);
  const std::lock_guard lock(default_mutex);
  delete default_held;
  default_held = fresh;
}

Device device_or_default(nb::handle device) {
  if (device.is_none()) return default_device();
  if (!nb::isinstance<PyDevice>(device)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("device is {:.80}, neither a weft.Device nor None", nb::cast<std::string>(nb::repr(device))),
        "pass weft.Device.open()");
  }
  return nb::inst_ptr<PyDevice>(device)->get();
}

void bind_process(nb::module_& m) {
  m.def("_at_exit", &at_exit);
}

}  // namespace weft::python
