// How reductions share out their work. Pure, needs no device.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::ops {

struct ReduceProblem {
  std::uint64_t outputs = 1;
  std::uint64_t length = 1;  ///< elements of each
  bool rows = true;  ///< those of an output lie beside each other; else neighbours belong to neighbouring outputs
};

/// How the reduced axis is shared out.
struct Split {
  bool by_group = false;
  bool shared = false;       ///< ... of several outputs
  bool splits_fast = true;   ///< neighbouring threads take neighbouring splits, not outputs
  std::uint64_t splits = 1;  ///< partial results of an output
  std::uint64_t chunk = 0;   ///< elements of a group's, or of `lanes` threads' share
  std::uint64_t lanes = 1;
  bool operator==(const Split&) const = default;
};

/// `parts`: as many shares of an output, or about so many, instead of what the rules would take; 0: by the rules.
Split share_out(bool cpu, const ReduceProblem& problem, std::uint64_t parts = 0);

/// Numbers of parts other than the rules' that may be tried.
std::vector<std::uint64_t> reduce_parts(bool cpu, const ReduceProblem& problem);

}  // namespace weft::ops
