#include "weft/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/half.h"
#include "ops/element_math.h"
#include "ops/infer_signal.h"
#include "ops/launch.h"
#include "ops/random.h"
#include "ops/result.h"
#include "ops/wgsl.h"
#include "weft/error.h"

namespace weft {
namespace ops {
namespace {

struct Params {
  std::uint32_t quads = 0, zero = 0, counter_low = 0, counter_high = 0, key_low = 0, key_high = 0;
  std::uint32_t range = 0, threshold = 0, low = 0;
  float origin = 0, scale = 1, below = 0;
};

/// Draws a tensor and moves the generator on.
Tensor draw(std::string_view name, const Device& device, const Shape& shape, Random& generator,
            const RandomKernel& kernel, DType dtype, Params params) {
  Device owner = device;
  const auto count = static_cast<std::uint64_t>(element_count(shape));
  if (count == 0) return owner.empty(shape, dtype);
  // Each thread writes four elements: where they don't fill up, the memory is a little longer than the tensor.
  const std::uint64_t quads = ceil_div(count, 4);
  const std::uint64_t quad_bytes = 4 * size_of(dtype);
  const bool whole = count % 4 == 0;
  const Tensor room = whole ? new_result(device, shape, dtype)
                            : owner.empty({static_cast<std::int64_t>(checked_mul(quads, 4, name))}, dtype);
  const Tensor out = whole ? room : Tensor(device, room.buffer(), shape, contiguous_strides(shape), 0, dtype);
  const Kernel compiled =
      dispatch::library_kernel(state_of(device), random_key(kernel), [&] { return random_options(kernel); });
  params.key_low = static_cast<std::uint32_t>(generator.seed);
  params.key_high = static_cast<std::uint32_t>(generator.seed >> 32);
  // In slices that a binding can show, each from an offset that one can start at, and 32 bits can count.
  const std::uint64_t alignment = device.limits().min_storage_offset_alignment;
  const std::uint64_t limit = std::min<std::uint64_t>(device.limits().max_storage_binding_size, std::uint64_t{1} << 31);
  const std::uint64_t most = limit / alignment * alignment / quad_bytes;
  for (std::uint64_t first = 0; first < quads; first += most) {
    const std::uint64_t here = std::min(most, quads - first);
    const std::uint64_t counter = generator.offset + first;
    params.quads = static_cast<std::uint32_t>(here);
    params.counter_low = static_cast<std::uint32_t>(counter);
    params.counter_high = static_cast<std::uint32_t>(counter >> 32);
    launch(device, compiled, {BindingRange(room.buffer(), first * quad_bytes, here * quad_bytes)}, params,
           compiled.grid(grid_for(here)));
  }
  generator.offset += quads;
  return out;
}

float stored(double value, DType dtype) {
  return dtype == DType::f16 ? static_cast<float>(nearest_half(value)) : static_cast<float>(value);
}

/// The last number of the dtype under `high`.
float under(float high, DType dtype) {
  if (dtype == DType::f32) return std::nextafter(high, -INFINITY);
  float16 h(high);
  const bool negative = (h.bits & 0x8000u) != 0;
  if ((h.bits & 0x7fffu) == 0) {
    h.bits = 0x8001u;
  } else {
    h.bits = static_cast<std::uint16_t>(negative ? h.bits + 1 : h.bits - 1);
  }
  return static_cast<float>(h);
}

}  // namespace

std::string random_key(const RandomKernel& k) {
  return fmt::format("random:{}:{}", k.entry, to_string(k.dtype));
}

KernelOptions random_options(const RandomKernel& k) {
  MathSet math;
  math.need("rounded");
  math.need("to_f16");
  math.need("f_log");
  math.need("Angle");
  const bool half = k.dtype == DType::f16;
  const bool real = is_float(k.dtype);
  KernelOptions options;
  options.source = fmt::format("alias OUT = {};\nconst BITS = {}u;\nfn narrowed(v: vec4f) -> vec4f {{ return {}; }}\n",
                               half   ? "vec4<f16>"
                               : real ? "vec4f"
                                      : "vec4u",
                               half ? 11 : 24, half ? "to_f16(v)" : "v") +
                   math.source() + std::string(wgsl::random);
  options.entry_point = k.entry;
  options.label = fmt::format("random.{}", k.entry);
  return options;
}

}  // namespace ops

Tensor random_bits(const Device& device, const Shape& shape, Random& generator) {
  return ops::draw("random_bits", device, shape, generator, {"bits", DType::u32}, DType::u32, {});
}

Tensor random_uniform(const Device& device, const Shape& shape, Random& generator, double low, double high,
                      DType dtype) {
  ops::check_uniform_range(low, high, dtype);
  ops::Params params;
  params.origin = ops::stored(low, dtype);
  const float end = ops::stored(high, dtype);
  params.scale = static_cast<float>(double{end} - double{params.origin});
  params.below = ops::under(end, dtype);
  return ops::draw("random_uniform", device, shape, generator, {"uniform", dtype}, dtype, params);
}

Tensor random_normal(const Device& device, const Shape& shape, Random& generator, double mean, double stddev,
                     DType dtype) {
  ops::check_random_dtype("random_normal", dtype);
  ops::check_normal(mean, stddev);
  ops::Params params;
  params.origin = static_cast<float>(mean);
  params.scale = static_cast<float>(stddev);
  return ops::draw("random_normal", device, shape, generator, {"normal", dtype}, dtype, params);
}

Tensor random_integers(const Device& device, const Shape& shape, Random& generator, std::int64_t low, std::int64_t high,
                       DType dtype) {
  ops::check_integer_range(low, high, dtype);
  const auto range = static_cast<std::uint64_t>(high - low);
  ops::Params params;
  params.range = static_cast<std::uint32_t>(range);  // 0 for all 2^32
  if (params.range != 0) params.threshold = (0u - params.range) % params.range;
  params.low = static_cast<std::uint32_t>(low);
  return ops::draw("random_integers", device, shape, generator, {"integers", DType::u32}, dtype, params);
}

}  // namespace weft
