#include "webgpu/error_capture.h"

namespace weft::webgpu {
namespace {
thread_local ErrorCapture* innermost = nullptr;
}

ErrorCapture::ErrorCapture() noexcept : outer_(std::exchange(innermost, this)) {}
ErrorCapture::~ErrorCapture() {
  innermost = outer_;
}

ErrorCapture* ErrorCapture::current() noexcept {
  return innermost;
}

void ErrorCapture::add(WGPUErrorType type, std::string_view message) {
  if (failed()) return;
  type_ = type;
  message_ = message;
}

}  // namespace weft::webgpu
