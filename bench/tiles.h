// bench/tiles.h - what programs share that run kernels of one op beside each other.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstring>

#include "weft/weft.h"

namespace weft::bench {

struct TileOptions {
  bool checked = false;  ///< --checked: bounds checks stay on
  bool small = false;    ///< --short: one round of a small shape (for a CPU adapter)
};

inline TileOptions tile_options(int argc, char** argv) {
  TileOptions options;
  for (int i = 1; i < argc; ++i) {
    options.checked = options.checked || std::strcmp(argv[i], "--checked") == 0;
    options.small = options.small || std::strcmp(argv[i], "--short") == 0;
  }
  return options;
}

/// The default device, for the library's kernels alone unless they are to be checked; says which it is.
inline Device open_device(bool checked) {
  DeviceOptions options;
  options.library_kernels_only = !checked;
  options.wait_timeout = std::chrono::minutes(10);  // CPU adapters compile long texts at their first dispatch
  Device device = Device::open(options);
  fmt::print("{} ({}), {} {}, {}\n", device.adapter().name, device.adapter().driver, implementation_name(),
             implementation_version(), checked ? "bounds checks on" : "library kernels only");
  return device;
}

}  // namespace weft::bench
