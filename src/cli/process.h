// cli/process.h - what the command needs of its process: standard streams that work, and an environment that lets it
// speak alone.
#pragma once

#include <system_error>

namespace weft::cli {

/// Called first, while there is one thread. Opens what is missing of standard input, output and error, so that no file
/// of ours takes its number; lets a write past the limit on file sizes fail instead of ending the process; and keeps
/// Mesa's layer that chooses devices by the desktop quiet where there is no desktop.
void prepare_process();

/// Writes out what is buffered for standard output. Throws Error{io_error} when some of it could not be written, for
/// the reason `why` where there is one.
void finish_standard_output(std::error_code why = {});
/// True when a write to standard output has failed.
bool standard_output_failed() noexcept;

}  // namespace weft::cli
