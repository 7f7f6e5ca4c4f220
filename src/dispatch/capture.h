// A stream that writes down what it is told instead of recording it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dispatch/state.h"

namespace weft::dispatch {

/// One command as captured. Buffers are named by their place in Capture::buffers.
struct CapturedCommand {
  enum class Kind : std::uint8_t { dispatch, copy, clear };
  struct Range {
    std::uint32_t buffer = 0;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  Kind kind = Kind::dispatch;
  std::shared_ptr<const detail::KernelState> kernel;
  std::vector<Range> ranges;  ///< bindings in order; from and to of a copy; the target of a clear
  std::vector<std::byte> params;
  Grid grid{0, 0, 0};
  std::uint64_t bytes = 0;  ///< sum of the ranges
};

struct Capture {
  std::vector<CapturedCommand> commands;
  std::vector<std::shared_ptr<detail::BufferState>> buffers;  ///< each once

  std::uint32_t place_of(const std::shared_ptr<detail::BufferState>& buffer);
};

}  // namespace weft::dispatch
