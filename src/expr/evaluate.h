// expr/evaluate.h - runs a plan on a device.
#pragma once

#include <functional>
#include <string>

#include "expr/fuse.h"
#include "expr/graph.h"
#include "weft/device.h"
#include "weft/error.h"
#include "weft/tensor.h"

namespace weft::expr {

/// What a step reads, and the shapes in which it works.
struct StepSources {
  std::function<Tensor(OpId)> tensor;               ///< an operand
  std::function<Tensor(const std::string&)> input;  ///< an input, by name
  std::function<Shape(OpId)> shape;                 ///< of an operation's value
};

/// Records one step and gives its tensor, whose shape and dtype are as foreseen.
Tensor run_step(const Device& device, const Graph& graph, const Step& step, const StepSources& sources);

/// Called with what an operation throws about its data, and its place; it throws in turn.
using Explain = std::function<void(const Error&, Span)>;
/// run(), where errors about the data of `step` go through `explain`.
Tensor explained(const Graph& graph, const Step& step, const Explain& explain, const std::function<Tensor()>& run);

/// Records the plan's steps on the device's default stream; see Expression::evaluate. `input` gives the tensor of a
/// name.
Tensor evaluate(const Device& device, const Graph& graph, const Plan& plan,
                const std::function<Tensor(const std::string&)>& input, const Explain& explain);

}  // namespace weft::expr
