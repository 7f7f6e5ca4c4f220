#include "webgpu/fork.h"

#include <atomic>

#ifndef _WIN32
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#endif

namespace weft::webgpu {
namespace {

std::atomic<bool> is_forked{false};

#ifndef _WIN32
/// In the child. Dawn's lavapipe joins its threads when the process ends, and would wait for ever.
void after_fork() {
  is_forked.store(true, std::memory_order_relaxed);
#ifdef __GLIBC__
  on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        _exit(status);
      },
      nullptr);
#endif
}
#endif

}  // namespace

void mark_children_forked() noexcept {
#ifndef _WIN32
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, &after_fork); });
#endif
}

bool forked() noexcept {
  return is_forked.load(std::memory_order_relaxed);
}

}  // namespace weft::webgpu
