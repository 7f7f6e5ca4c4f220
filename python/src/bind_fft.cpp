// Fourier transforms (weft.fft), and running sums.
#include <fmt/format.h>

#include "weft_python.h"

namespace weft::python {
namespace {

FftOptions options_of(std::optional<std::int64_t> n, std::int64_t axis, const std::string& norm) {
  FftOptions o{.axis = axis, .n = n};
  if (norm == "ortho") {
    o.norm = FftNorm::ortho;
  } else if (norm == "forward") {
    o.norm = FftNorm::forward;
  } else if (norm != "backward") {
    throw Error(ErrorCode::invalid_argument, fmt::format("fft: norm is '{}'", norm),
                "use 'backward', 'ortho' or 'forward'");
  }
  return o;
}

ScanOp to_scan_op(const std::string& name) {
  if (name == "sum") return ScanOp::sum;
  if (name == "prod") return ScanOp::prod;
  if (name == "max") return ScanOp::max;
  return ScanOp::min;
}

}  // namespace

void bind_fft(nb::module_& m) {
  const auto transform = [&](const char* name, auto make, const char* doc) {
    m.def(
        name,
        [make](ArrayLike x_given, std::optional<std::int64_t> n, std::int64_t axis, const std::string& norm) {
          const Tensor x = to_tensor(x_given);
          const FftOptions options = options_of(n, axis, norm);
          return record([&] { return make(x, options); });
        },
        nb::arg("x"), nb::arg("n") = nb::none(), nb::arg("axis") = -1, nb::arg("norm") = "backward", doc);
  };
  transform(
      "fft", [](const Tensor& x, const FftOptions& o) { return fft(x, o); },
      "Of complex x [..., 2]; axis does not count the pairs.");
  transform("ifft", [](const Tensor& x, const FftOptions& o) { return ifft(x, o); }, "The inverse of fft.");
  transform(
      "rfft", [](const Tensor& x, const FftOptions& o) { return rfft(x, o); },
      "Of real x: frequencies 0 to n / 2, as pairs on a last axis of 2.");
  transform("irfft", [](const Tensor& x, const FftOptions& o) { return irfft(x, o); }, "The inverse of rfft.");
  m.def("_scan", [](ArrayLike x_given, const std::string& op, std::int64_t axis, bool exclusive, bool reverse) {
    const Tensor x = to_tensor(x_given);
    return record([&] { return scan(to_scan_op(op), x, {.axis = axis, .exclusive = exclusive, .reverse = reverse}); });
  });
}

}  // namespace weft::python
