// Shapes and dtypes of scans, random numbers and Fourier transforms: pure rules, no device. As in ops/infer.h, all
// throw Error{invalid_argument} or Error{out_of_range} that names the op, the numbers and a fix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ops/infer.h"
#include "weft/fft.h"
#include "weft/ops.h"

namespace weft::ops {

/// "cumsum", "cumprod", "cummax", "cummin".
std::string_view scan_name(ScanOp op) noexcept;
/// As reduce_types of the same operation. The result's shape is that of x.
OpTypes scan_types(ScanOp op, DType x);

/// Which of the four transforms.
enum class Transform : std::uint8_t { fft, ifft, rfft, irfft };
std::string_view to_string(Transform transform) noexcept;

/// One transform, checked.
struct TransformRule {
  Shape shape;           ///< of the result
  std::size_t axis = 0;  ///< of the signal, in x and in the result
  std::int64_t n = 0;    ///< points
  double scale = 1;      ///< what the norm multiplies the sums by
};
TransformRule transform_rule(Transform transform, const Shape& x, const FftOptions& options);

/// Refuses what random_uniform and random_normal have no numbers of: all but f32 and f16.
void check_random_dtype(std::string_view op, DType dtype);
/// Refuses bounds that are no numbers, an empty range (after rounding to the dtype), and one wider than a float32.
void check_uniform_range(double low, double high, DType dtype);
/// Refuses a mean or deviation that float32 has not, and a deviation below 0.
void check_normal(double mean, double stddev);
/// Refuses an empty range, one that the dtype can't hold, and other dtypes than i32 and u32.
void check_integer_range(std::int64_t low, std::int64_t high, DType dtype);

}  // namespace weft::ops
