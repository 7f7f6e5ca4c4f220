// What a transform multiplies by, computed in double.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/fft.h"

namespace weft::ops {
namespace {

using Complex = std::complex<double>;

std::complex<float> narrow(const Complex& v) {
  return {static_cast<float>(v.real()), static_cast<float>(v.imag())};
}

/// In place, by decimation in time; of a power of two.
void host_fft(std::vector<Complex>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n / 2;
    for (; (j & bit) != 0; bit /= 2) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  std::vector<Complex> roots(n / 2);
  for (std::size_t k = 0; k < n / 2; ++k) roots[k] = root_of_unity(k, n);
  for (std::size_t half = 1; half < n; half *= 2) {
    const std::size_t step = n / (2 * half);
    for (std::size_t block = 0; block < n; block += 2 * half) {
      for (std::size_t k = 0; k < half; ++k) {
        const Complex w = roots[k * step];
        const Complex a = x[block + k];
        const Complex b = x[block + k + half];
        // By parts: std::complex's product asks for NaN first.
        const Complex wb(w.real() * b.real() - w.imag() * b.imag(), w.real() * b.imag() + w.imag() * b.real());
        x[block + k] = a + wb;
        x[block + k + half] = a - wb;
      }
    }
  }
}

Complex chirp(std::uint64_t t, std::uint64_t n) {
  // t^2 modulo 2 n stays a fraction of whole numbers: n is under 2^31.
  return root_of_unity(t * t % (2 * n), 2 * n);
}

}  // namespace

Complex root_of_unity(std::uint64_t k, std::uint64_t n) {
  // Folded into the first eighth, so that equal parts come out equal and zeros as zeros.
  std::uint64_t e = 8 * k;  // in eighths of 1 / n
  const std::uint64_t eighth = e / n;
  e -= eighth * n;
  const bool mirrored = eighth % 2 == 1;
  const double angle = std::numbers::pi / 4 * static_cast<double>(mirrored ? n - e : e) / static_cast<double>(n);
  double c = std::cos(angle);
  double s = std::sin(angle);
  if (mirrored) std::swap(c, s);
  switch (eighth / 2) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

ComplexTable roots_table(std::uint32_t log_n) {
  ComplexTable out;
  const auto add = [&](std::uint64_t count, std::uint64_t n) {
    for (std::uint64_t k = 0; k < count; ++k) out.push_back(narrow(root_of_unity(k, n)));
  };
  const std::uint64_t n = std::uint64_t{1} << log_n;
  add(std::uint64_t{1} << kLogTile, std::uint64_t{1} << kLogTile);
  add(std::uint64_t{1} << std::min(log_n, kLogFine), n);
  if (log_n > kLogFine) add(n >> kLogFine, n >> kLogFine);
  return out;
}

ComplexTable direct_table(std::uint64_t n) {
  ComplexTable out;
  for (std::uint64_t k = 0; k < n; ++k) out.push_back(narrow(root_of_unity(k, n)));
  return out;
}

ComplexTable chirp_table(std::uint64_t n) {
  ComplexTable out;
  for (std::uint64_t t = 0; t < n; ++t) out.push_back(narrow(chirp(t, n)));
  return out;
}

ComplexTable chirp_spectrum(std::uint64_t n, std::uint32_t log_m) {
  const std::size_t m = std::size_t{1} << log_m;
  std::vector<Complex> b(m);
  for (std::uint64_t t = 0; t < n; ++t) {
    const Complex v = std::conj(chirp(t, n)) / static_cast<double>(m);
    b[t] = v;
    if (t > 0) b[m - t] = v;
  }
  host_fft(b);
  ComplexTable out;
  out.reserve(m);
  for (const Complex& v : b) out.push_back(narrow(v));
  return out;
}

}  // namespace weft::ops
