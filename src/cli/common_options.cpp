#include "cli/common_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "cli/error_report.h"
#include "cli/option_values.h"

namespace weft::cli {

void add_common_options(CLI::App& command, CommonOptions& to) {
  command.add_option("--device", to.device, "Part of an adapter's name, or its index (see weft info)");
  command.add_flag("--stats", to.stats, "Say on stderr what ran: dispatches, bytes, caches, times");
  add_trace_options(command, to.trace);
  command.add_flag("--json", to.json, "Print one JSON object on stdout: results, device, stats");
  command.add_flag("--allow-downcast", to.allow_downcast,
                   "Read float64 as float32, and int64 as int32 where the values fit");
  add_count_option(command, "--threshold", to.threshold, "Print arrays of more elements cut in the middle (1000)");
  command.add_flag("--no-progress", to.no_progress, "Show no progress line, on a terminal neither");
}

io::HostArray load_array(const std::string& file, const CommonOptions& options) {
  io::Conversion made = io::as_device_dtype(io::load(file), file, options.allow_downcast);
  if (made.note) print_note(fmt::format("{}: {}", file, *made.note));
  return std::move(made.array);
}

}  // namespace weft::cli
