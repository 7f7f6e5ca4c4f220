// The implementation's own header. Only src/webgpu calls wgpu functions, and encoder.h for those that record; other
// layers hold the objects (handles.h) and call the methods of gpu.h. A source outside src/webgpu that includes this
// stands in src/webgpu/CMakeLists.txt.
#pragma once

#ifdef WEFT_DAWN
#include <webgpu/webgpu.h>
#else
#include <webgpu.h>
#include <wgpu.h>
#endif

#include <string_view>

#include "webgpu/handles.h"

namespace weft::webgpu {

inline WGPUStringView view(std::string_view text) noexcept {
  return {text.data(), text.size()};
}
inline std::string_view text(WGPUStringView v) noexcept {
  if (v.data == nullptr) return {};
  return v.length == WGPU_STRLEN ? std::string_view(v.data) : std::string_view(v.data, v.length);
}

}  // namespace weft::webgpu
