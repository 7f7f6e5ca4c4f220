// expr/evaluate.h - runs a plan on a device.
#pragma once

#include <functional>
#include <string>

#include "expr/fuse.h"
#include "expr/graph.h"
#include "weft/device.h"
#include "weft/tensor.h"

namespace weft::expr {

/// Records the plan's steps on the device's default stream; see Expression::evaluate. `input` gives the tensor of a
/// name. `explain` is called with what an operation throws about its data, and its place; it throws in turn.
Tensor evaluate(const Device& device, const Graph& graph, const Plan& plan,
                const std::function<Tensor(const std::string&)>& input,
                const std::function<void(const Error&, Span)>& explain);

}  // namespace weft::expr
