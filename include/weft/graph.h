// weft/graph.h - recorded once, run many times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/buffer.h"
#include "weft/kernel.h"

namespace weft {

class Stream;

namespace detail {
struct GraphState;
}

/// For one run: everywhere that `captured` was used, `replacement` is used instead. Equal sizes, usages at least those
/// of the captured buffer, same device; each captured buffer once, and no dispatch may get one buffer to write and to
/// read by it.
struct GraphBinding {
  Buffer captured;
  Buffer replacement;
};

/// One recorded command, as nodes() lists them.
struct GraphNode {
  std::string label;  ///< the kernel's, or "copy", "clear"
  Grid grid;          ///< 0 x 0 x 0 for a copy or clear
  std::uint32_t params_size = 0;
};

/// What Device::capture recorded: pipelines, bind groups, parameters and grids, all resolved. A run looks nothing up
/// and allocates nothing, but for the bind groups of swapped buffers, which the device's cache gives.
///
/// Memory: buffers that were made during the capture live as long as the graph (its intermediates); buffers from before
/// are the caller's, and a run after one of them is gone throws Error{invalid_argument} that names the kernel and
/// binding; the device memory that a graph uses stays allocated until the graph goes. Copies share the graph. One run
/// or set_params at a time per graph (a second thread gets an error); different graphs run on any threads. Keeps the
/// device alive.
class Graph {
 public:
  Graph() = default;
  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// Records all commands into the device's current stream, in order with what was recorded there before. Returns
  /// before they are done. Nothing is recorded when it throws.
  void run(std::initializer_list<GraphBinding> swaps = {}) const {
    run(std::span<const GraphBinding>(swaps.begin(), swaps.size()));
  }
  void run(std::span<const GraphBinding> swaps) const;
  void run(const Stream& stream, std::span<const GraphBinding> swaps = {}) const;

  /// New parameters for node `index`, of exactly its params_size, for all runs from now on.
  void set_params(std::size_t index, std::span<const std::byte> params) const;

  std::vector<GraphNode> nodes() const;
  /// Whether a recorded command uses the buffer: only those can be swapped.
  bool uses(const Buffer& buffer) const;

  explicit Graph(std::shared_ptr<detail::GraphState> state) noexcept : state_(std::move(state)) {}

 private:
  std::shared_ptr<detail::GraphState> state_;
};

}  // namespace weft
