#include <array>

#include "ops/catalog.h"
#include "ops/fft.h"

namespace weft::ops {
namespace {

constexpr std::string_view kComplex = "f32 pairs [..., 2]; other dtypes are cast";
constexpr std::string_view kLimits = "points and, unless a power of two, up to four times as many: one binding";
constexpr std::string_view kTolerance = "2-norm, relative: 2^-24 (1 + log2 n); twice that for no power of two";

constexpr std::array kOps{
    OpEntry{"fft", kComplex, "X[k] = sum of x[t] exp(-2 pi i k t / n); any n and axis, cut or padded; three norms",
            "numpy.fft.fft; torch.fft.fft; ONNX DFT", kLimits, kTolerance},
    OpEntry{"ifft", kComplex, "x[t] = sum of X[k] exp(2 pi i k t / n) / n", "numpy.fft.ifft; torch.fft.ifft; ONNX DFT",
            kLimits, kTolerance},
    OpEntry{"rfft", "f32; other dtypes are cast", "frequencies 0 to n / 2 of real x",
            "numpy.fft.rfft; torch.fft.rfft; ONNX DFT (onesided)", kLimits, kTolerance},
    OpEntry{"irfft", kComplex, "real x of its frequencies 0 to n / 2", "numpy.fft.irfft; torch.fft.irfft", kLimits,
            kTolerance},
};

void visit_kernels(const Device&, const KernelVisitor& visit) {
  for (FftKernel kernel :
       {FftKernel{}, FftKernel{.real_in = true}, FftKernel{.real_out = true}, FftKernel{.plain = true}}) {
    const auto one = [&](std::string_view entry, std::uint32_t log_radix) {
      kernel.entry = entry;
      kernel.log_radix = log_radix;
      visit(fft_key(kernel), fft_options(kernel));
    };
    if (!kernel.plain) one("direct", 0);
    for (std::uint32_t log_radix : {2u, 3u}) one("butterfly", log_radix);
    for (std::uint32_t log_radix = 3; log_radix <= kLogTile; ++log_radix) one("tile", log_radix);
  }
}

}  // namespace

const OpFamily& fft_family() {
  static const OpFamily family{"Fourier transforms", kOps, &visit_kernels};
  return family;
}

}  // namespace weft::ops
