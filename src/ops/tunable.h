// What an op family gives so that weft::tune can measure its choices. The op itself asks dispatch::TuningTable::find
// where it chooses, with a key whose first word is the family's name; the tuner runs samples by the op's public
// function and learns from the look-ups which classes they fall into and which plans there are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/tuning.h"
#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/error.h"
#include "weft/tensor.h"
#include "weft/tune.h"

namespace weft::ops {

/// A shape to measure at: the operands that it takes, made once, and the op over them.
struct TuneSample {
  std::function<Tensor()> run;
  /// Largest difference between the results of two plans that is rounding, as a share of the largest result; 0: none.
  double tolerance = 0;
};

struct Tunable {
  std::string_view name;    ///< "matmul": the first word of its keys
  std::string_view syntax;  ///< of its shapes, for help and errors: "MxNxK or BxMxNxK, ..."
  std::vector<DType> dtypes;
  /// Shapes that programs have, those that matter most first, of a size that suits the device.
  std::vector<std::string> (*usual)(const Device& device);
  /// Throws Error{invalid_argument} when `shape` is not of the syntax.
  TuneSample (*sample)(const Device& device, DType dtype, const std::string& shape);
  std::string (*describe)(const dispatch::TuningPlan& plan);
};

/// All of them.
std::span<const Tunable* const> tunables();

/// As weft::tune, which gives tunables().
TuneReport run_tuning(const Device& device, const TuneOptions& options, std::span<const Tunable* const> all);

/// "4x1024x64" as numbers from 1; nothing when the text is none such.
std::optional<std::vector<std::int64_t>> lengths_of(std::string_view text);
/// Of shapes «ROWSxLENGTH», with a t behind it when rows lie beside each other.
struct RowsSample {
  Shape shape;            ///< of the operand
  std::int64_t axis = 0;  ///< along which a row lies
};
/// Throws bad_shape.
RowsSample rows_sample(const std::string& shape, const Tunable& tunable);
/// That `shape` is not of the tunable's syntax.
Error bad_shape(std::string_view shape, const Tunable& tunable);

/// Candidates as the table stores them.
template <class Candidates>
std::vector<dispatch::TuningPlan> to_tunings(const Candidates& candidates) {
  std::vector<dispatch::TuningPlan> out;
  out.reserve(candidates.size());
  for (const auto& candidate : candidates) out.push_back(to_tuning(candidate));
  return out;
}

/// Values of about unit size that differ from element to element, the same in each call.
Tensor sample_operand(const Device& device, const Shape& shape, DType dtype);

}  // namespace weft::ops
