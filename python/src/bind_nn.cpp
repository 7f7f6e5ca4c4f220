// Layers of neural networks (weft.nn).
#include <fmt/format.h>

#include "weft_python.h"

namespace weft::python {
namespace {

Layout to_layout(const std::string& name) {
  if (name == "channels_first") return Layout::channels_first;
  if (name == "channels_last") return Layout::channels_last;
  throw Error(ErrorCode::invalid_argument, fmt::format("layout is '{}'", name),
              "use 'channels_first' or 'channels_last'");
}

/// One number for all spatial axes, or one for each.
std::vector<std::int64_t> for_axes(nb::handle given, std::size_t axes, const char* what) {
  if (given.is_none()) return {};
  std::vector<std::int64_t> out = to_integers(given, what);
  if (out.size() == 1 && axes > 1 && PySequence_Check(given.ptr()) == 0) out.resize(axes, out[0]);
  return out;
}

/// padding: a number, one for each axis, or a pair (before, after) for each.
SlidingWindow to_window(nb::handle stride, nb::handle padding, nb::handle dilation, std::size_t axes) {
  SlidingWindow w;
  w.stride = for_axes(stride, axes, "stride");
  w.dilation = for_axes(dilation, axes, "dilation");
  if (nb::isinstance<nb::str>(padding)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("padding is '{}'", nb::cast<std::string>(padding)),
                "give a number, one for each spatial axis, or a pair (before, after) for each");
  }
  bool pairs = false;
  if (PySequence_Check(padding.ptr()) != 0) {
    for (const nb::handle item : nb::borrow<nb::sequence>(padding)) pairs = pairs || PySequence_Check(item.ptr()) != 0;
  }
  if (!pairs) {
    w.pad_before = for_axes(padding, axes, "padding");
    w.pad_after = w.pad_before;
    return w;
  }
  for (const nb::handle item : nb::borrow<nb::sequence>(padding)) {
    const auto pair = to_integers(item, "padding");
    if (pair.size() != 2) {
      throw Error(ErrorCode::invalid_argument, "padding: an axis has not a pair of numbers",
                  "give (before, after) for each spatial axis");
    }
    w.pad_before.push_back(pair[0]);
    w.pad_after.push_back(pair[1]);
  }
  return w;
}

std::size_t spatial_axes(const Tensor& x) {
  return x.rank() < 3 ? 1 : x.rank() - 2;
}

void bind_normalisation(nb::module_& m) {
  m.def(
      "softmax",
      [](ArrayLike x, std::int64_t axis) {
        const Tensor t = to_tensor(x);
        return record([&] { return softmax(t, {.axis = axis}); });
      },
      nb::arg("x"), nb::arg("axis") = -1, op_doc("softmax").c_str());
  m.def(
      "log_softmax",
      [](ArrayLike x, std::int64_t axis) {
        const Tensor t = to_tensor(x);
        return record([&] { return log_softmax(t, {.axis = axis}); });
      },
      nb::arg("x"), nb::arg("axis") = -1, op_doc("log_softmax").c_str());
  m.def(
      "layer_norm",
      [](ArrayLike x, OptionalArray weight, OptionalArray bias, std::int64_t axis, double eps) {
        const auto beside = device_beside({x.given, weight.given, bias.given});
        const Tensor t = to_tensor(x, beside);
        const LayerNormOptions options{
            .axis = axis, .weight = to_tensor(weight, beside), .bias = to_tensor(bias, beside), .eps = eps};
        return record([&] { return layer_norm(t, options); });
      },
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::kw_only(), nb::arg("axis") = -1,
      nb::arg("eps") = 1e-5, "Over this axis and all behind it.");
  m.def(
      "rms_norm",
      [](ArrayLike x, OptionalArray weight, std::int64_t axis, double eps) {
        const auto beside = device_beside({x.given, weight.given});
        const Tensor t = to_tensor(x, beside);
        const RmsNormOptions options{.axis = axis, .weight = to_tensor(weight, beside), .eps = eps};
        return record([&] { return rms_norm(t, options); });
      },
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::kw_only(), nb::arg("axis") = -1, nb::arg("eps") = 1e-5,
      "Over this axis and all behind it.");
  m.def(
      "group_norm",
      [](ArrayLike x, std::int64_t groups, OptionalArray weight, OptionalArray bias, double eps) {
        const auto beside = device_beside({x.given, weight.given, bias.given});
        const Tensor t = to_tensor(x, beside);
        const GroupNormOptions options{
            .groups = groups, .weight = to_tensor(weight, beside), .bias = to_tensor(bias, beside), .eps = eps};
        return record([&] { return group_norm(t, options); });
      },
      nb::arg("x"), nb::arg("groups"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::kw_only(),
      nb::arg("eps") = 1e-5,
      "Of x [batch, channels, ...], by group of channels; as many groups as channels: instance normalisation.");
  m.def(
      "batch_norm",
      [](ArrayLike x, ArrayLike mean, ArrayLike variance, OptionalArray weight, OptionalArray bias, std::int64_t axis,
         double eps) {
        const auto beside = device_beside({x.given, mean.given, variance.given, weight.given, bias.given});
        const Tensor t = to_tensor(x, beside);
        const Tensor m1 = to_tensor(mean, beside);
        const Tensor m2 = to_tensor(variance, beside);
        const BatchNormOptions options{
            .weight = to_tensor(weight, beside), .bias = to_tensor(bias, beside), .axis = axis, .eps = eps};
        return record([&] { return batch_norm(t, m1, m2, options); });
      },
      nb::arg("x"), nb::arg("mean"), nb::arg("variance"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(),
      nb::kw_only(), nb::arg("axis") = 1, nb::arg("eps") = 1e-5,
      "Inference: with the mean and variance of each channel.");
}

void bind_convolution(nb::module_& m) {
  m.def(
      "conv",
      [](ArrayLike x_given, ArrayLike filter_given, OptionalArray bias, AxesLike stride, nb::handle padding,
         AxesLike dilation, std::int64_t groups, const std::string& layout, nb::handle activation) {
        const auto beside = device_beside({x_given.given, filter_given.given, bias.given});
        const Tensor x = to_tensor(x_given, beside);
        const Tensor filter = to_tensor(filter_given, beside);
        const ConvOptions options{.window = to_window(stride.given, padding, dilation.given, spatial_axes(x)),
                                  .groups = groups,
                                  .layout = to_layout(layout),
                                  .bias = to_tensor(bias, beside),
                                  .activation = to_activation(activation)};
        return record([&] { return conv(x, filter, options); });
      },
      nb::arg("x"), nb::arg("filter"), nb::arg("bias") = nb::none(), nb::kw_only(), nb::arg("stride") = 1,
      nb::arg("padding") = 0, nb::arg("dilation") = 1, nb::arg("groups") = 1, nb::arg("layout") = "channels_first",
      nb::arg("activation") = nb::none(),
      "Cross-correlation of x [batch, channels, (height,) width] with filter [out channels, channels / groups, "
      "(height,) width].\n\n"
      "stride, dilation: a number, or one for each spatial axis. padding: likewise, or pairs (before, after).\n"
      "activation: None, 'relu', 'gelu', 'gelu_tanh' or 'silu', in the same kernel.");
  m.def(
      "conv_transpose",
      [](ArrayLike x_given, ArrayLike filter_given, OptionalArray bias, AxesLike stride, nb::handle padding,
         AxesLike output_padding, AxesLike dilation, std::int64_t groups, const std::string& layout) {
        const auto beside = device_beside({x_given.given, filter_given.given, bias.given});
        const Tensor x = to_tensor(x_given, beside);
        const Tensor filter = to_tensor(filter_given, beside);
        const ConvTransposeOptions options{
            .window = to_window(stride.given, padding, dilation.given, spatial_axes(x)),
            .output_padding = for_axes(output_padding.given, spatial_axes(x), "output_padding"),
            .groups = groups,
            .layout = to_layout(layout),
            .bias = to_tensor(bias, beside)};
        return record([&] { return conv_transpose(x, filter, options); });
      },
      nb::arg("x"), nb::arg("filter"), nb::arg("bias") = nb::none(), nb::kw_only(), nb::arg("stride") = 1,
      nb::arg("padding") = 0, nb::arg("output_padding") = 0, nb::arg("dilation") = 1, nb::arg("groups") = 1,
      nb::arg("layout") = "channels_first", "filter [channels, out channels / groups, (height,) width].");
}

void bind_pools(nb::module_& m) {
  const auto bind = [&](const char* name, PoolOp op, const char* doc) {
    m.def(
        name,
        [op](ArrayLike x_given, ShapeLike size_given, AxesLike stride, nb::handle padding, AxesLike dilation,
             bool ceil_mode, bool count_padded, const std::string& layout) {
          const Tensor x = to_tensor(x_given);
          const std::size_t axes = spatial_axes(x);
          const auto size = for_axes(size_given.given, axes, "size");
          PoolOptions options{.window = to_window(stride.given, padding, dilation.given, axes),
                              .layout = to_layout(layout),
                              .ceil_mode = ceil_mode,
                              .count_padded = count_padded};
          if (stride.given.is_none()) options.window.stride = size;
          return record([&] { return pool(op, x, size, options); });
        },
        nb::arg("x"), nb::arg("size"), nb::kw_only(), nb::arg("stride") = nb::none(), nb::arg("padding") = 0,
        nb::arg("dilation") = 1, nb::arg("ceil_mode") = false, nb::arg("count_padded") = false,
        nb::arg("layout") = "channels_first", doc);
  };
  bind("max_pool", PoolOp::max, "The maximum of each window over 1 or 2 spatial axes; stride None: the size.");
  bind("avg_pool", PoolOp::average,
       "The mean of each window over 1 or 2 spatial axes; stride None: the size. count_padded: divide by the window's "
       "size, not by the elements inside.");
}

void bind_attention(nb::module_& m) {
  m.def(
      "attention",
      [](ArrayLike q_given, ArrayLike k_given, ArrayLike v_given, OptionalArray mask, OptionalArray lengths,
         std::optional<double> scale, bool causal, double softcap) {
        const auto beside = device_beside({q_given.given, k_given.given, v_given.given, mask.given, lengths.given});
        const Tensor q = to_tensor(q_given, beside);
        const Tensor k = to_tensor(k_given, beside);
        const Tensor v = to_tensor(v_given, beside);
        const AttentionOptions options{.scale = scale,
                                       .causal = causal,
                                       .mask = to_tensor(mask, beside),
                                       .lengths = to_tensor(lengths, beside),
                                       .softcap = softcap};
        return record([&] { return attention(q, k, v, options); });
      },
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("mask") = nb::none(), nb::kw_only(),
      nb::arg("lengths") = nb::none(), nb::arg("scale") = nb::none(), nb::arg("causal") = false,
      nb::arg("softcap") = 0.0,
      "softmax(q k^T * scale + mask) v, of q [batch, heads, queries, dim], k [batch, kv heads, keys, dim], v [batch, "
      "kv heads, keys, value dim]; the scores are never stored.\n\n"
      "mask: bool (true: seen) or a float that is added; lengths: keys of each item; scale None: 1 / sqrt(dim).");
}

}  // namespace

void bind_nn(nb::module_& m) {
  bind_normalisation(m);
  bind_convolution(m);
  bind_pools(m);
  bind_attention(m);
}

}  // namespace weft::python
