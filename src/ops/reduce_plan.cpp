#include "ops/reduce_plan.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"

namespace weft::ops {
namespace {

constexpr std::uint64_t kThreads = 64;  ///< of a workgroup of by_thread
// Rows up to kFewRow share a workgroup of by_group, where there are many.
constexpr std::uint64_t kFewRow = 1024;
constexpr std::uint64_t kManyRows = 256;
// GPUs: rows up to kShortRow get a thread each; work is split until about kGpuThreads threads have some.
constexpr std::uint64_t kShortRow = 32;
constexpr std::uint64_t kGpuThreads = 131072;
constexpr std::uint64_t kGpuGroups = 1024;
constexpr std::uint64_t kGpuGroupPiece = 8192;  ///< the shortest piece that a workgroup is given
constexpr std::uint64_t kGpuThreadPiece = 64;   ///< ... that a thread is given
// CPU adapters: enough threads for the lanes of many cores, each with a run worth starting.
constexpr std::uint64_t kCpuThreads = 1024;
constexpr std::uint64_t kCpuPiece = 1024;
constexpr std::uint64_t kCpuBlock = 128;       ///< rows that all columns walk together, while they are in the cache
constexpr std::uint64_t kCpuLanes = 8;         ///< of a vector: more would walk the same memory again and again
constexpr std::uint64_t kMaxSplits = 4096;     ///< so that a second pass is the last one
constexpr std::uint64_t kLongestWalk = 12288;  ///< elements that one thread walks

// Parts that are worth trying: no shorter, no longer for a workgroup, no more in all than these.
constexpr std::uint64_t kLeastGroupPart = 1024, kLeastPart = 32, kMostGroupPart = 1 << 22, kMostParts = 1 << 20;

}  // namespace

Split share_out(bool cpu, const ReduceProblem& problem, std::uint64_t parts) {
  const std::uint64_t outputs = problem.outputs, length = problem.length;
  Split split;
  split.chunk = length;
  split.splits_fast = problem.rows;
  if (parts > 0) parts = std::clamp<std::uint64_t>(parts, 1, std::max<std::uint64_t>(length / 4, 1));
  if (!cpu && problem.rows && length > kShortRow) {
    split.by_group = true;
    split.shared = length <= kFewRow && outputs >= kManyRows;
    const std::uint64_t most = std::max<std::uint64_t>(length / kGpuGroupPiece, 1);
    std::uint64_t wanted = std::clamp<std::uint64_t>(ceil_div(kGpuGroups, outputs), 1, most);
    if (parts > 0) wanted = std::max(std::min(parts, kMaxSplits), ceil_div(length, kMostGroupPart));
    split.chunk = (ceil_div(length, wanted) + 3) / 4 * 4;
    split.splits = ceil_div(length, split.chunk);
    return split;
  }
  const std::uint64_t threads = cpu ? kCpuThreads : kGpuThreads;
  const std::uint64_t piece = cpu ? kCpuPiece : kGpuThreadPiece;
  std::uint64_t wanted = parts;
  if (wanted == 0) {
    if (cpu && !problem.rows && outputs >= kThreads) {
      wanted = length / kCpuBlock;
    } else if (outputs * 4 <= threads && length >= 4 * piece) {
      wanted = std::min(ceil_div(threads, outputs), length / piece);
    }
  }
  wanted = std::min(wanted, kMaxSplits);
  // Mesa 22's lavapipe ends all loops of an invocation, silently, after 65,535 turns in all; by_word walks four
  // outputs.
  if (length > kLongestWalk) wanted = std::max({wanted, ceil_div(length, kLongestWalk), std::uint64_t{2}});
  if (wanted < 2) return split;
  // Lanes take turns where that makes neighbouring threads read neighbouring elements.
  const std::uint64_t lanes = cpu ? kCpuLanes : kThreads;
  if (problem.rows || outputs < kThreads) split.lanes = std::min<std::uint64_t>(std::bit_floor(wanted), lanes);
  const std::uint64_t shares = std::max<std::uint64_t>(wanted / split.lanes, 1);
  const std::uint64_t multiple = 4 * split.lanes;
  split.chunk = ceil_div(ceil_div(length, shares), multiple) * multiple;
  split.splits = ceil_div(length, split.chunk) * split.lanes;
  return split;
}

std::vector<std::uint64_t> reduce_parts(bool cpu, const ReduceProblem& problem) {
  const Split own = share_out(cpu, problem);
  std::vector<Split> seen{own};
  std::vector<std::uint64_t> out;
  for (const std::uint64_t parts : {std::uint64_t{1}, own.splits / 16, own.splits / 4, own.splits / 2, own.splits * 2,
                                    own.splits * 4, own.splits * 16}) {
    const std::uint64_t least = own.by_group ? kLeastGroupPart : kLeastPart;
    if (parts == 0 || (parts > 1 && (problem.length / parts < least || problem.outputs * parts > kMostParts))) continue;
    const Split split = share_out(cpu, problem, parts);
    if (std::find(seen.begin(), seen.end(), split) != seen.end()) continue;
    seen.push_back(split);
    out.push_back(parts);
  }
  return out;
}

}  // namespace weft::ops
