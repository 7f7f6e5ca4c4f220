// cli/trace_options.h - --trace FILE and --profile.
#pragma once

#include <optional>
#include <string>

#include "weft/profiler.h"

namespace CLI {
class App;
}

namespace weft::cli {

/// What a command was told of profiling.
struct TraceOptions {
  std::string file;    ///< --trace; empty: none
  bool table = false;  ///< --profile

  bool wanted() const noexcept { return table || !file.empty(); }
};
void add_trace_options(CLI::App& command, TraceOptions& to);

/// Refuses a file that can't be written, or that is to hold a result too (`output`, where it is not empty), before any
/// work. Throws Error{io_error}, Error{invalid_argument}.
void check_trace_file(const TraceOptions& options, const std::string& output);
/// Profiles the device from here on, where that is wanted.
std::optional<Profiler> start_profile(const TraceOptions& options, const Device& device);
/// Ends the profile where there is one.
std::optional<Trace> finish_profile(std::optional<Profiler>& profiler);
/// Writes the file, and the table on stderr.
void report_profile(const TraceOptions& options, const std::optional<Trace>& trace);

}  // namespace weft::cli
