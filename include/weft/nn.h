// weft/nn.h - layers of neural networks: normalisation, convolution, pooling, attention.
//
// Records into Device::stream(), as weft/ops.h. All take f32 or f16 (one dtype a call) and add up in f32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "weft/ops.h"
#include "weft/tensor.h"

namespace weft {

// -- normalisation (layer_norm is in weft/ops.h)
// ----------------------------------------------------------------------

struct RmsNormOptions {
  std::int64_t axis = -1;  ///< normalises over this axis and all behind it
  Tensor weight{};         ///< broadcasts to the normalised axes; empty for none
  double eps = 1e-5;
};
/// x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019).
Tensor rms_norm(const Tensor& x, const RmsNormOptions& options = {});

struct GroupNormOptions {
  std::int64_t groups = 1;  ///< divides the channels
  Tensor weight{}, bias{};  ///< [channels], or empty
  double eps = 1e-5;
};
/// x [batch, channels, ...], each group of channels of an item with mean 0 and variance 1, then weight and bias by
/// channel (Wu and He 2018). groups = channels is instance normalisation.
Tensor group_norm(const Tensor& x, const GroupNormOptions& options = {});

struct BatchNormOptions {
  Tensor weight{}, bias{};  ///< [channels], or empty
  std::int64_t axis = 1;    ///< of the channels
  double eps = 1e-5;
};
/// Inference: (x - mean) / sqrt(variance + eps) * weight + bias by channel; mean and variance are [channels].
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const BatchNormOptions& options = {});

// -- convolution
// ------------------------------------------------------------------------------------------------------

enum class Layout : std::uint8_t {
  channels_first,  ///< NCW, NCHW
  channels_last,   ///< NWC, NHWC
};

/// Windows over 1 or 2 spatial axes: one number for each, or none for the default. A window's element e of output o
/// reads input o * stride + e * dilation - pad_before; outside the input stand zeros.
struct SlidingWindow {
  std::vector<std::int64_t> stride{};      ///< 1
  std::vector<std::int64_t> pad_before{};  ///< 0
  std::vector<std::int64_t> pad_after{};   ///< 0
  std::vector<std::int64_t> dilation{};    ///< 1
};

struct ConvOptions {
  SlidingWindow window{};
  std::int64_t groups = 1;
  Layout layout = Layout::channels_first;  ///< of input and output; the filter keeps its form
  Tensor bias{};                           ///< [out channels], added in the same kernel; empty for none
  Activation activation = Activation::none;
};
/// Cross-correlation, as all frameworks call it: x [batch, channels, (height,) width] with filter [out channels,
/// channels / groups, (height,) width] gives [batch, out channels, ...], each length (in + before + after -
/// dilation (window - 1) - 1) / stride + 1, rounded down. Lengths that leave no output are Error{invalid_argument}.
/// NaN in x shows in the results that read it; NaN or infinity in the filter meets the zeros outside, as any number, so
/// it may show in the gradients of border elements that it does not reach too.
Tensor conv(const Tensor& x, const Tensor& filter, const ConvOptions& options = {});

struct ConvTransposeOptions {
  SlidingWindow window{};
  std::vector<std::int64_t> output_padding{};  ///< added behind each spatial length; 0
  std::int64_t groups = 1;
  Layout layout = Layout::channels_first;
  Tensor bias{};
};
/// The transposed convolution (ONNX ConvTranspose): filter [channels, out channels / groups, ...]; each length
/// (in - 1) stride + dilation (window - 1) + 1 + output padding - before - after.
Tensor conv_transpose(const Tensor& x, const Tensor& filter, const ConvTransposeOptions& options = {});

/// Gradients of conv: of its input (shape `x_shape`), and of its filter (shape `filter_shape`). Options as in the call;
/// bias and activation must be empty.
Tensor conv_backward_data(const Tensor& grad, const Tensor& filter, const Shape& x_shape,
                          const ConvOptions& options = {});
Tensor conv_backward_filter(const Tensor& grad, const Tensor& x, const Shape& filter_shape,
                            const ConvOptions& options = {});

enum class PoolOp : std::uint8_t { max, average };
struct PoolOptions {
  SlidingWindow window{};
  Layout layout = Layout::channels_first;
  bool ceil_mode = false;     ///< lengths rounded up; windows that would start behind the input go
  bool count_padded = false;  ///< average: divide by the elements inside input and padding, not inside the input
};
/// Maximum (NaN kept; padding never wins) or mean of each window of `size` over 1 or 2 spatial axes. Padding is less
/// than what the window spans, else Error{invalid_argument}; a dilated window that holds nothing of the input all the
/// same gives -infinity or 0.
Tensor pool(PoolOp op, const Tensor& x, const std::vector<std::int64_t>& size, const PoolOptions& options = {});

// -- attention
// --------------------------------------------------------------------------------------------------------

struct AttentionOptions {
  std::optional<double> scale{};  ///< of the scores; none: 1 / sqrt(head dimension)
  bool causal = false;            ///< query i sees keys up to i + (keys - queries), right-aligned; keys of its own item
  Tensor mask{};     ///< broadcasts to [batch, heads, queries, keys]: bool (true: seen), or f32 or f16, which is added
  Tensor lengths{};  ///< [batch] integers: keys of each item, from 0 to what the tensor holds; empty: all
  double softcap = 0;  ///< scores become softcap * tanh(score / softcap) before the mask is added; 0 for none
};
/// softmax(q k^T * scale + mask) v. q [batch, heads, queries, dim], k [batch, kv heads, keys, dim], v [batch, kv heads,
/// keys, value dim]; kv heads divides heads (grouped-query attention). One pass with a running maximum and sum in f32
/// (Milakov and Gimelshein 2018; Dao et al. 2022); the scores are never stored. A key that the mask hides or gives
/// -infinity, or that the causal rule or lengths leave out, is not seen: whatever it and its value hold does not count.
/// NaN in a key that is seen gives NaN. A query that sees no key gives zeros.
/// Views are read as they lie when their last axis has stride 1.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

}  // namespace weft
