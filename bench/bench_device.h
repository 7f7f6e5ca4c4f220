// The device that all benchmarks of a program share, and a line that names it.
#pragma once

#include <benchmark/benchmark.h>

#include "weft/device.h"

namespace weft::bench {

inline Device& device() {
  static Device d = Device::open();
  return d;
}

/// Puts adapter, implementation and version into the results.
inline void add_context() {
  benchmark::AddCustomContext("adapter", device().adapter().name);
  benchmark::AddCustomContext("driver", device().adapter().driver);
  benchmark::AddCustomContext("webgpu", std::string(implementation_name()) + " " + implementation_version());
  benchmark::AddCustomContext("weft", std::string(version()));
}

}  // namespace weft::bench
