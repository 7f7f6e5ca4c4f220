// The numeric functions that elementwise kernels call, in WGSL, on four elements at a time.
//
// WGSL lets an implementation assume that no NaN and no infinity occurs, flush denormals, and reorder sums; its own
// exp, tanh, pow and friends are loose. So classes of numbers are told by their bits, infinities come from a parameter
// (Tint refuses them as constants), and what must not be reordered passes through integers.
//
// Polynomials: own minimax fits in 40-digit arithmetic (script/fit_element_math.py), each with the error that the fit
// reached. Argument reductions: Cody and Waite, "Software Manual for the Elementary Functions" (1980); Payne and Hanek,
// "Radian reduction for trigonometric functions" (SIGNUM Newsletter 18, 1983).
#pragma once

#include <bitset>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace weft::ops {

/// One function and the ones it calls, which stand before it in the table.
struct MathFunction {
  std::string_view name;
  std::string_view calls;  ///< names, separated by blanks
  std::string_view source;
  bool reads_params = false;  ///< names params.zero, a u32 that is always 0
};

/// All functions, each behind those it calls.
std::span<const MathFunction> math_functions() noexcept;

/// Collects functions by name, with all that they call.
class MathSet {
 public:
  static constexpr std::size_t kMost = 96;

  void need(std::string_view name);
  bool reads_params() const noexcept;
  /// The text of what was asked for, in order.
  std::string source() const;

 private:
  std::bitset<kMost> needed_;  // a bit per row of the table
};

}  // namespace weft::ops
