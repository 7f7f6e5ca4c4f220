// The kernels and host tables of Fourier transforms, and how a transform is shared out in passes.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/kernel.h"

namespace weft::ops {

/// One kernel of fft.wgsl. `entry`:
///   direct     a thread a result, of few points
///   butterfly  a thread a butterfly of radix 4 or 8: one pass over all memory, no barriers
///   tile       a workgroup for 2^log_radix points of several columns, in its memory
struct FftKernel {
  std::string_view entry = "direct";
  std::uint32_t log_radix = 0;
  bool real_in = false;
  bool real_out = false;
  bool plain = false;  ///< complex numbers only: all points are read and written, and nothing else is done
};
std::string fft_key(const FftKernel& kernel);
KernelOptions fft_options(const FftKernel& kernel);

/// Threads of a workgroup, and columns that it transforms at once (a binary logarithm).
inline constexpr std::uint32_t kFftThreads = 64;
std::uint32_t fft_tile_threads(std::uint32_t log_radix);
std::uint32_t fft_tile_log_columns(std::uint32_t log_radix);

/// Binary logarithms of the radices whose product is 2^log_n, log_n >= 3.
std::vector<std::uint32_t> fft_passes(bool cpu, std::uint32_t log_n);

/// The largest radix of a tile: 2^11 points of 8 bytes are the 16 KiB that every device has.
inline constexpr std::uint32_t kLogTile = 11;
/// Roots of more than 2^12 points are products of a fine and a coarse one.
inline constexpr std::uint32_t kLogFine = 12;

/// exp(-2 pi i k / n), each part to half an ulp of a double but for rounding of the angle; exact at multiples of an
/// eighth that can be.
std::complex<double> root_of_unity(std::uint64_t k, std::uint64_t n);
using ComplexTable = std::vector<std::complex<float>>;
/// The roots of 2^log_n points as fft.wgsl looks them up: 2^kLogTile of their own, then the fine ones, then the coarse.
ComplexTable roots_table(std::uint32_t log_n);
/// The n roots of n points.
ComplexTable direct_table(std::uint64_t n);
/// exp(-pi i t^2 / n) for t < n.
ComplexTable chirp_table(std::uint64_t n);
/// The transform over 2^log_m points of the chirp's conjugate, wrapped round, divided by 2^log_m.
ComplexTable chirp_spectrum(std::uint64_t n, std::uint32_t log_m);

}  // namespace weft::ops
