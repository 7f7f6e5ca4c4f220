// cli/eval_stream.h - evaluations in blocks: files larger than the device's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/arrays.h"
#include "cli/eval_inputs.h"
#include "cli/stats_report.h"
#include "weft/device.h"
#include "weft/expr.h"

namespace CLI {
class App;
}

namespace weft::cli {

struct EvalStreamOptions {
  bool always = false;
  bool never = false;
  std::uint64_t memory = 0;
  std::uint64_t block_bytes = 0;
};
/// --stream, --no-stream, --memory, --block-bytes.
void add_stream_options(CLI::App& command, EvalStreamOptions& to);

/// Whether an evaluation runs in blocks: as the options say; else when all at once would go past the memory budget, or
/// past what a buffer or a binding can hold, and blocks are possible.
class StreamDecision {
 public:
  /// Throws why it can't be done, when neither way can. Borrows all but the options.
  StreamDecision(const Expression& expression, const Device& device, const Expression::Types& types,
                 const Expression::Sources& sources, const EvalStreamOptions& options);
  bool streams() const noexcept { return streams_; }
  /// After the device ran out of memory: whether blocks are left to try, with half of what the device gave to all at
  /// once, or half of what the blocks so far took. streams() follows.
  bool falls_back();
  /// For evaluate_in_blocks.
  std::uint64_t memory() const noexcept { return memory_; }
  /// Where streams() or falls_back() is true.
  const StreamPlan& plan() const { return plan_.value(); }

 private:
  void make_plan();

  const Expression& expression_;
  const Device& device_;
  const Expression::Sources& sources_;
  const EvalStreamOptions options_;
  const MemoryBudget budget_;
  std::uint64_t memory_;
  std::optional<StreamPlan> plan_;  ///< made when it is needed: all axes of all inputs are tried
  bool streams_ = false;
};

/// Evaluates in blocks, by `plan`, which is for these options. A result that is cut goes to the file `output` as its
/// blocks come (it appears when it is whole, and nothing is left when this throws or the process is interrupted), or
/// without one into `bytes`. Another result is returned.
std::optional<Tensor> evaluate_in_blocks(const Expression& expression, const Device& device,
                                         const Expression::Sources& sources, const StreamOptions& options,
                                         const StreamPlan& plan, const TensorType& result, const std::string& output,
                                         HostBytes& bytes, Progress& progress, Report& report);

}  // namespace weft::cli
