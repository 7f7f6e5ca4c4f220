// weft/fft.h - Fourier transforms. Complex numbers are f32 pairs (real, imaginary) along a last axis of length 2.
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
/// others by Bluestein's chirp (1970). The relative error (of the whole, in the 2-norm) grows as log2 n times 2^-24.
Tensor fft(const Tensor& x, const FftOptions& options = {});
/// The inverse: exp(+...), divided by n unless norm says otherwise.
Tensor ifft(const Tensor& x, const FftOptions& options = {});
/// Of real x [...]: frequencies 0 to n / 2, [..., n / 2 + 1, 2] (in place of the axis).
Tensor rfft(const Tensor& x, const FftOptions& options = {});
/// Real [...] of n / 2 + 1 complex frequencies; n is 2 (frequencies - 1) unless given.
Tensor irfft(const Tensor& x, const FftOptions& options = {});

}  // namespace weft
