// cli/error_report.h - how the command complains.
#pragma once

#include <string_view>

#include "weft/device.h"
#include "weft/error.h"

namespace weft::cli {

/// No device could be opened; told apart because the same code of a file or an expression is the user's to mend.
class NoDevice : public Error {
 public:
  explicit NoDevice(const Error& error) : Error(error) {}
};

/// "weft: <message>. Fix: <fix>." on stderr; in colour on a terminal, unless NO_COLOR is set (no-color.org).
void print_error(const Error& error);
/// A line on stderr for something worth knowing.
void print_note(std::string_view note);
int exit_status(const Error& error) noexcept;

/// Device::open for a command: `adapter` as in DeviceOptions, and waits as long as the work takes, unless
/// WEFT_WAIT_TIMEOUT says otherwise; for kernels of the library alone, or for the user's too. Throws NoDevice when
/// there is none.
enum class KernelsOf { library, user };
Device open_device(const std::string& adapter, KernelsOf kernels = KernelsOf::user);

}  // namespace weft::cli
