#include "cli/error_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/env.h"
#include "cli/app.h"
#include "expr/utf8.h"

namespace weft::cli {
namespace {

bool use_colour() {
  const char* plain = std::getenv("NO_COLOR");
  return isatty(STDERR_FILENO) == 1 && (plain == nullptr || *plain == '\0');
}

/// Names of files and words of the command line come as they are; what in them would steer a terminal is spelled out.
std::string for_terminal(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const expr::CodePoint c = expr::decode_utf8(text, i);
    const std::string_view bytes = text.substr(i, c.length);
    i += c.length;
    if (c.valid && (expr::is_printable(c.value) || c.value == '\n' || c.value == '\t')) {
      out += bytes;
      continue;
    }
    for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return out;
}

}  // namespace

void print_error(const Error& error) {
  std::fflush(stdout);
  std::string text = for_terminal(error.what());
  if (!use_colour()) {
    std::fprintf(stderr, "weft: %s\n", text.c_str());
    return;
  }
  const std::size_t fix = text.rfind("Fix: ");
  if (fix != std::string::npos) text.replace(fix, 4, "\x1b[1;32mFix:\x1b[0m");
  std::fprintf(stderr, "\x1b[1;31mweft:\x1b[0m %s\n", text.c_str());
}

void print_note(std::string_view note) {
  // A progress line may stand there.
  const char* clear = isatty(STDERR_FILENO) == 1 ? "\r\x1b[2K" : "";
  std::fprintf(stderr, "%sweft: note: %s\n", clear, for_terminal(note).c_str());
}

int exit_status(const Error& error) noexcept {
  if (dynamic_cast<const NoDevice*>(&error) != nullptr) return kDeviceFailure;
  switch (error.code()) {
    case ErrorCode::device_lost:
    case ErrorCode::timed_out:
    case ErrorCode::out_of_memory:
    case ErrorCode::internal: return kDeviceFailure;
    default: return kUserError;
  }
}

Device open_device(const std::string& adapter, KernelsOf kernels) {
  DeviceOptions options;
  options.adapter = adapter;
  options.library_kernels_only = kernels == KernelsOf::library;
  if (!env_text("WEFT_WAIT_TIMEOUT")) options.wait_timeout = std::chrono::hours(24 * 365);
  try {
    return Device::open(options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) throw;  // a wish that matches no adapter
    throw NoDevice(error);
  }
}

}  // namespace weft::cli
