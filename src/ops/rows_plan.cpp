#include "ops/rows_plan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>

#include "base/checked.h"
#include "ops/plan_as.h"
#include "ops/subgroups.h"

namespace weft::ops {
namespace {

constexpr std::uint64_t kThreadRow = 32;       ///< on GPUs, rows up to this long get a thread each
constexpr std::uint64_t kLongestWalk = 16384;  ///< turns of one loop over a piece
constexpr std::uint64_t kCpuPiece = 1024;      ///< the shortest piece of a row on CPU adapters
constexpr std::uint64_t kGpuPiece = 64;        ///< the shortest piece of a column on GPUs
constexpr std::uint32_t kMostHeld = 8;         ///< units that a thread holds where a row is long
constexpr std::uint32_t kMostThreads = 1024;   ///< of the longest rows that are held whole, where the device takes them
constexpr std::uint32_t kPieceThreads = 256;   ///< of a piece of longer ones
constexpr std::uint32_t kLeastThreads = 32;    ///< of a row that has a workgroup for itself
constexpr std::uint32_t kFewThreads = 16;      ///< of a row that shares its workgroup with others
constexpr std::uint32_t kSharedGroup = 128;    ///< threads of such a workgroup
constexpr std::uint32_t kFewHeld = 8;          ///< units a thread there

constexpr std::array kHold{
    HoldShape{4, 256, 1, true},  HoldShape{4, 256, 1, false}, HoldShape{2, 512, 1, true}, HoldShape{8, 256, 1, true},
    HoldShape{8, 256, 1, false}, HoldShape{16, 256, 1, true}, HoldShape{4, 256, 4, true}, HoldShape{8, 256, 4, true},
    HoldShape{1, 1024, 1, true}, HoldShape{32, 256, 1, true},
};

// Of these, so many from the second on may be stored choices: each is some dozens of kernels.
constexpr std::size_t kTunedShapes = 3;
// Pieces that are worth trying are no shorter, and no more in all, than these.
constexpr std::uint64_t kLeastPiece = 64, kMostPieces = 1 << 20;

std::atomic<std::size_t> taken{0};

}  // namespace

std::span<const HoldShape> hold_shapes() noexcept {
  return kHold;
}

void force_hold_shape(std::size_t index) noexcept {
  taken.store(std::min(index, kHold.size() - 1), std::memory_order_relaxed);
}

std::span<const HoldShape> tuned_hold_shapes() noexcept {
  return std::span(kHold).subspan(1, kTunedShapes);
}

std::vector<RowChoice> row_choices(const Device& device, KernelClass kernels, const AxisPair& kept, const AxisPair& row,
                                   bool quads) {
  const RowPlan own = plan_rows(device, kernels, kept, row, quads);
  std::vector<RowPlan> seen{own};
  std::vector<RowChoice> out;
  const auto add = [&](const RowChoice& choice) {
    const RowPlan plan = plan_rows(device, kernels, kept, row, quads, choice);
    if (std::find(seen.begin(), seen.end(), plan) != seen.end()) return;
    seen.push_back(plan);
    out.push_back(choice);
  };
  if (own.hold) {
    if (own.threads == own.group) {
      for (const HoldShape& shape : tuned_hold_shapes()) add({.hold = shape});
    }
    return out;
  }
  if (kernels != KernelClass::cpu && !own.by_column) return out;  // a thread a short row
  const std::uint64_t rows = PlanAs::rows(kept.count());
  for (const std::uint64_t pieces :
       {std::uint64_t{1}, own.splits / 4, own.splits / 2, own.splits * 2, own.splits * 4}) {
    if (pieces == 0 || pieces == own.splits) continue;
    if (pieces == 1 || (row.count() / pieces >= kLeastPiece && rows * pieces <= kMostPieces)) add({.pieces = pieces});
  }
  return out;
}

RowPlan plan_rows(const Device& device, KernelClass kernels, const AxisPair& kept, const AxisPair& row, bool quads,
                  const RowChoice& choice) {
  RowPlan plan;
  plan.quads = quads;
  const std::uint64_t rows = PlanAs::rows(kept.count());
  const std::uint64_t length = row.count();
  plan.by_column = row.stride[1] != 1 && rows > 1 && std::abs(kept.stride[1]) <= std::abs(row.stride[1]);
  plan.chunk = length;
  const auto split = [&](std::uint64_t wanted, std::uint64_t shortest) {
    wanted = std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(length / shortest, 1));
    plan.chunk = (ceil_div(length, wanted) + 3) / 4 * 4;
    plan.splits = ceil_div(length, plan.chunk);
    if (plan.splits == 1) plan.chunk = length;
  };
  // A thread walks its piece up to three times, and Mesa 22's lavapipe ends all loops of an invocation, silently, after
  // 65,535 turns in all.
  const std::uint64_t walk = kLongestWalk * (quads ? 4 : 1);
  const auto bound_walk = [&] {
    if (plan.chunk > walk) split(ceil_div(length, walk), 4);
  };
  if (kernels == KernelClass::cpu) {
    if (choice.pieces > 0) {
      split(choice.pieces, 4);
    } else if (rows < kCpuRows) {
      split(ceil_div(2 * kCpuRows, rows), kCpuPiece);
    }
    bound_walk();
    return plan;
  }
  if (length <= kThreadRow) return plan;
  if (plan.by_column) {
    if (choice.pieces > 0) {
      split(choice.pieces, 4);
    } else if (rows < kGpuRowThreads) {
      split(ceil_div(kGpuRowThreads, rows), kGpuPiece);
    }
    bound_walk();
    return plan;
  }
  plan.hold = true;
  const HoldShape shape = choice.hold.value_or(kHold[taken.load(std::memory_order_relaxed)]);
  const std::uint64_t unit = quads ? 4 : 1;
  const auto held_by = [&](std::uint32_t threads) {
    plan.threads = threads;
    // Powers of two, so that few kernels serve all lengths.
    plan.held = std::bit_ceil(static_cast<std::uint32_t>(ceil_div(ceil_div(plan.chunk, unit), threads)));
  };
  if (length <= unit * kFewThreads * kFewHeld) {
    held_by(kFewThreads);
    if (plan.held == 2) plan.held = 4;
    plan.group = kSharedGroup;
    return plan;
  }
  const std::uint32_t limit = std::clamp(longest_workgroup(device), kLeastThreads, kMostThreads);
  if (length > std::uint64_t{limit} * kMostHeld * unit) {
    const std::uint64_t most = std::uint64_t{std::min(limit, kPieceThreads)} * kMostHeld * unit;
    plan.splits = ceil_div(length, most);
    plan.chunk = (ceil_div(length, plan.splits) + 3) / 4 * 4;
    plan.splits = ceil_div(length, plan.chunk);
  }
  const std::uint64_t units = ceil_div(plan.chunk, unit);
  const auto by = [&](std::uint64_t held, std::uint32_t most) {
    const auto wanted = static_cast<std::uint32_t>(std::bit_ceil(ceil_div(units, held)));
    return std::clamp(wanted, kLeastThreads, std::max(std::min(most, limit), kLeastThreads));
  };
  const std::uint32_t threads = by(shape.units, shape.most_threads);
  held_by(std::max(threads, by(std::max(shape.units, kMostHeld), kMostThreads)));
  plan.group = plan.threads;
  if (plan.splits == 1) plan.turns = shape.turns;
  if (shape.subgroups && kernels == KernelClass::gpu_subgroups) plan.subgroups = most_subgroups(device, plan.group);
  return plan;
}

}  // namespace weft::ops
