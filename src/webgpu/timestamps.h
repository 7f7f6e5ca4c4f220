// GPU timestamps around compute passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "webgpu/gpu.h"

namespace weft::webgpu {

/// Nanoseconds of passes in the order of their submission. A device may begin its clock anew now and then (36 bits of
/// ticks last an hour): what comes after goes on where the pass before ended, and a pass that was under way takes no
/// time.
void go_on_after_resets(std::vector<std::pair<double, double>>& times) noexcept;

/// Pairs of timestamps, one pair a pass. Grows by query sets of 4,096 (WebGPU's most). Not thread-safe: under its
/// stream's lock. Needs Features::timestamps.
class Timestamps {
 public:
  explicit Timestamps(Gpu& gpu) : gpu_(gpu) {}

  /// Begins a pass whose begin and end are timed as pair `count() - 1`.
  ComputePass begin_pass(const Encoder& encoder);
  std::size_t count() const noexcept { return count_; }
  /// Forgets the pairs from `count` on, whose passes were never submitted: a resolve would wait for them for ever.
  void truncate(std::size_t count) noexcept { count_ = count; }
  /// Nanoseconds on the device's clock: begin and end of each pair, all of which must have been submitted. Submits,
  /// waits until `deadline`, and forgets all pairs. Throws Error{timed_out}, {device_lost} or {out_of_memory}.
  std::vector<std::pair<double, double>> read(Clock::time_point deadline);

 private:
  static constexpr std::uint32_t kPairsPerSet = 2048;

  Gpu& gpu_;
  std::vector<QuerySet> sets_;
  std::size_t count_ = 0;
};

}  // namespace weft::webgpu
