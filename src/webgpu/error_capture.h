// Attribution of WebGPU errors to the call that caused them.
#pragma once

#include <string>

#include "webgpu/api.h"

namespace weft::webgpu {

/// While one lives, errors that WebGPU reports on this thread land in it instead of in the device's list. Both
/// implementations call the uncaptured-error callback inside the failing call, on its thread (docs/decisions/001), so
/// this needs no error scope: wgpu-native's scopes are shared by all threads and would mix up who failed.
class ErrorCapture {
 public:
  ErrorCapture() noexcept;
  ~ErrorCapture();
  ErrorCapture(const ErrorCapture&) = delete;
  ErrorCapture& operator=(const ErrorCapture&) = delete;

  bool failed() const noexcept { return type_ != WGPUErrorType_NoError; }
  WGPUErrorType type() const noexcept { return type_; }
  /// The first error's message; later ones follow from it.
  const std::string& message() const noexcept { return message_; }

  /// The innermost one of this thread, or null.
  static ErrorCapture* current() noexcept;
  void add(WGPUErrorType type, std::string_view message);

 private:
  ErrorCapture* outer_;
  WGPUErrorType type_ = WGPUErrorType_NoError;
  std::string message_;
};

}  // namespace weft::webgpu
