#include "weft/error.h"

#include <utility>

namespace weft {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::compile_error: return "compile_error";
    case ErrorCode::internal: return "internal";
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::device_lost: return "device_lost";
    case ErrorCode::timed_out: return "timed_out";
    case ErrorCode::out_of_range: return "out_of_range";
    case ErrorCode::foreign_buffer: return "foreign_buffer";
    case ErrorCode::io_error: return "io_error";
  }
  return "unknown";
}

namespace {
/// Names that callers give may hold zero bytes, at which what() would end, without its fix.
std::string shown(std::string text) {
  for (std::size_t at = 0; (at = text.find('\0', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\0");
  while (!text.empty() && (text.back() == '.' || text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}
}  // namespace

Error::Error(ErrorCode code, const std::string& message, std::string fix)
    : code_(code),
      message_(shown(message)),
      fix_(shown(std::move(fix))),
      // A message that ends a line (a compiler's listing, a caret) keeps its shape: the fix goes below it.
      what_(message_ + (message.ends_with('\n') ? "\nFix: " : ". Fix: ") + fix_ + ".") {}

}  // namespace weft
