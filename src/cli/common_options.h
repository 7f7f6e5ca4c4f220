// cli/common_options.h - what `weft eval` and `weft run` share.
#pragma once

#include <cstdint>
#include <string>

#include "cli/trace_options.h"
#include "weft/io.h"

namespace weft::cli {

struct CommonOptions {
  std::string device;
  bool stats = false;
  bool json = false;
  bool allow_downcast = false;
  bool no_progress = false;
  std::int64_t threshold = 1000;
  TraceOptions trace;
};
/// --device, --stats, --json, --allow-downcast, --threshold, --trace, --profile, --no-progress.
void add_common_options(CLI::App& command, CommonOptions& to);

/// The array of a file, in a dtype that devices have; a conversion is told on stderr.
io::HostArray load_array(const std::string& file, const CommonOptions& options);

}  // namespace weft::cli
