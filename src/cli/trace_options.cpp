#include "cli/trace_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/arrays.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "weft/error.h"

namespace weft::cli {

void add_trace_options(CLI::App& command, TraceOptions& to) {
  command
      .add_option("--trace", to.file,
                  "Write what device and host did, and when, to this JSON file, for ui.perfetto.dev")
      ->check(file_name());
  command.add_flag("--profile", to.table, "Say on stderr how long each kernel took on the device, and the host's part");
}

void check_trace_file(const TraceOptions& options, const std::string& output) {
  if (options.file.empty()) return;
  check_output(options.file);
  if (!output.empty() && is_same_file(options.file, output)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: given for the result and for --trace", output),
                "use two files");
  }
}

std::optional<Profiler> start_profile(const TraceOptions& options, const Device& device) {
  std::optional<Profiler> out;
  if (options.wanted()) out.emplace(device);
  return out;
}

std::optional<Trace> finish_profile(std::optional<Profiler>& profiler) {
  if (!profiler) return std::nullopt;
  return profiler->finish();
}

void report_profile(const TraceOptions& options, const std::optional<Trace>& trace) {
  if (!trace) return;
  if (options.table) fmt::print(stderr, "{}", trace->table());
  if (options.file.empty()) return;
  std::optional<HoldInterrupts> hold;
  if (!is_written_in_place(options.file)) hold.emplace();  // a pipe may block
  trace->save(options.file);
}

}  // namespace weft::cli
