// weft/error.h - the one exception type that Weft throws.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace weft {

/// What kind of failure an Error reports. The numeric values are stable: they only ever get appended to, so that
/// the C ABI and log scrapers can rely on them.
enum class ErrorCode : int {
  out_of_memory = 1001,     ///< the device, or the host, had no room
  unsupported = 1002,       ///< the adapter or this build lacks a feature or a limit is too low
  compile_error = 1004,     ///< WGSL did not compile, or the pipeline did not validate
  internal = 1005,          ///< a fault of Weft or of the driver below it
  invalid_argument = 1006,  ///< the caller's arguments contradict each other or the contract
  device_lost = 1008,       ///< the device is gone; open another
  timed_out = 1009,         ///< a deadline passed; everything stays usable
  out_of_range = 1010,      ///< an offset, length, axis or index past the end
  foreign_buffer = 1011,    ///< a handle that another device owns
  io_error = 1012,          ///< a file could not be read or written, or its content is malformed
};

/// The stable lower-case name of a code, for example "out_of_memory". Never fails.
std::string_view to_string(ErrorCode code) noexcept;

/// The exception that every Weft call throws on failure.
///
/// `what()` is "<message>. Fix: <fix>.", on several lines where it shows source. The message names the operation, the
/// numbers involved and the limit; the fix is one imperative sentence. Thread-safe to copy; owns its texts.
class Error : public std::exception {
 public:
  /// `message` says what happened (no final full stop needed); `fix` what to do about it (likewise).
  Error(ErrorCode code, const std::string& message, std::string fix);

  const char* what() const noexcept override { return what_.c_str(); }
  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& fix() const noexcept { return fix_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::string fix_;
  std::string what_;
};

}  // namespace weft
