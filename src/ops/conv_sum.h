// The sum that convolutions and their gradients are, and its way to a kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ops/view_of.h"
#include "weft/ops.h"
#include "weft/tensor.h"

namespace weft::ops {

/// What one step along an inner axis moves: elements of x (beside its spatial axes) and of the filter, and places.
struct InnerAxis {
  std::int64_t length = 1;
  std::int64_t x = 0, f = 0, h = 0, w = 0;
};

/// The sum that a convolution and all its gradients are, each by strides and lengths of its own:
///   out[g * rows + m, n, h, w] = sum over the inner axes i of f[g, m, i] * x[g, n, i, place_h(h, i), place_w(w, i)]
/// with place(o, i) = o * step + base + the steps of i, divided by `divide`; outside of x stand zeros. `out` has these
/// four axes; of x and f only buffer and offset matter, the strides are below.
struct WindowSum {
  Tensor x, f, out;
  std::int64_t groups = 1, rows = 0;
  std::array<std::int64_t, 2> in{1, 1}, step{1, 1}, base{0, 0}, divide{1, 1};
  std::int64_t x_n = 0, x_g = 0, x_h = 0, x_w = 0;
  std::int64_t f_start = 0, f_g = 0, f_m = 0;
  /// Channels (which move along no spatial axis, or the batch), and the two of the window.
  InnerAxis channel, tap_h, tap_w;
  bool channels_inner = false;  ///< in memory the channels of x lie side by side
  /// Places of x that are read, from and up to: those of this sum, or of several that share `packed_x`.
  std::optional<std::array<std::int64_t, 2>> low, high;
  Tensor* packed_x = nullptr;  ///< keeps x in its new layout for the next sum

  std::int64_t inner() const { return channel.length * tap_h.length * tap_w.length; }
};

/// What happens to a finished sum.
struct Epilogue {
  Tensor bias{};  ///< dense
  Activation activation = Activation::none;
};

/// Runs it. `op` names the op in errors.
void run_sum(const WindowSum& sum, const Epilogue& epilogue, std::string_view op);
/// Nothing to add up: the bias alone goes through the activation. `out` as in WindowSum.
void run_empty_sum(const Tensor& out, const Epilogue& epilogue, std::string_view op);

}  // namespace weft::ops
