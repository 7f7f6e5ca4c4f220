// weft/fft.h - Fourier transforms. Complex numbers are f32 pairs (real, imaginary) along a last axis of length 2; other
// dtypes are cast to f32 first. Results are new contiguous tensors.
//
// A signal's n points are held whole: 8 n bytes fit one storage binding, and 8 times the power of two from 2 n - 1 on
// when n is none itself (and over 32); else Error{out_of_range} before any work. Batches of any size run in parts.
// Error{invalid_argument}: a last axis that is not 2, no points. Error{out_of_range}: the axis.
//
// Tables of roots come from the host, in double; the device keeps those of the last lengths, 64 MiB at most, until
// Device::trim().
#pragma once

#include <cstdint>
#include <optional>

#include "weft/tensor.h"

namespace weft {

enum class FftNorm : std::uint8_t { backward, ortho, forward };  ///< numpy's: which direction is divided by n, or both

struct FftOptions {
  std::int64_t axis = -1;           ///< of the signal, the pair axis not counted
  std::optional<std::int64_t> n{};  ///< length: the axis is cut or padded with zeros; none: as it is
  FftNorm norm = FftNorm::backward;
};
/// sum over t of x[t] exp(-2 pi i k t / n), of complex x [..., 2]; any n >= 1: powers of two by Stockham's radix steps,
/// others by Bluestein's chirp (1970), few points by the sums as they stand. The relative error (of the whole, in the
/// 2-norm) stays under (1 + log2 n) 2^-24, twice that for no power of two.
Tensor fft(const Tensor& x, const FftOptions& options = {});
/// The inverse: exp(+...), divided by n unless norm says otherwise.
Tensor ifft(const Tensor& x, const FftOptions& options = {});
/// Of real x [...]: frequencies 0 to n / 2, [..., n / 2 + 1, 2] (in place of the axis).
Tensor rfft(const Tensor& x, const FftOptions& options = {});
/// Real [...] of n / 2 + 1 complex frequencies; n is 2 (frequencies - 1) unless given. The imaginary parts of frequency
/// 0 and, of an even n, of n / 2 count as 0; missing frequencies are zeros.
Tensor irfft(const Tensor& x, const FftOptions& options = {});

}  // namespace weft
