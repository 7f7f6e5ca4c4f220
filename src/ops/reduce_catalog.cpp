#include <array>

#include "ops/catalog.h"
#include "ops/reduce.h"

namespace weft::ops {
namespace {

constexpr std::string_view kAll = "f32, f16, i32, u32, bool";

constexpr std::array kOps{
    OpEntry{"sum", kAll, "Σ x over axes; f16 adds up in f32, bool counts", "numpy.sum; torch.sum; ONNX ReduceSum",
            "integers stay of 32 bits", "relative 1e-5; f16 1e-3; integers exact (wrapping)"},
    OpEntry{"mean", kAll, "Σ x / n", "numpy.mean; torch.mean; ONNX ReduceMean", "-", "relative 1e-5; f16 1e-3"},
    OpEntry{"prod", kAll, "Π x", "numpy.prod; torch.prod; ONNX ReduceProd", "integers stay of 32 bits",
            "relative 1e-5; f16 1e-3; integers exact (wrapping)"},
    OpEntry{"max", kAll, "largest; NaN stays", "numpy.max; torch.amax; ONNX ReduceMax", "some elements", "exact"},
    OpEntry{"min", kAll, "smallest; NaN stays", "numpy.min; torch.amin; ONNX ReduceMin", "some elements", "exact"},
    OpEntry{"any", kAll, "some x ≠ 0", "numpy.any; torch.any", "-", "exact"},
    OpEntry{"all", kAll, "no x = 0", "numpy.all; torch.all", "-", "exact"},
    OpEntry{"argmax", kAll, "index of the first largest, or NaN", "numpy.argmax; torch.argmax; ONNX ArgMax",
            "one axis or all; indices in i32", "exact"},
    OpEntry{"argmin", kAll, "index of the first smallest, or NaN", "numpy.argmin; torch.argmin; ONNX ArgMin",
            "one axis or all; indices in i32", "exact"},
    OpEntry{"var", kAll, "Σ (x - mean)² / (n - ddof)", "numpy.var; torch.var (correction = ddof)", "-",
            "relative 2e-5; f16 1e-3"},
    OpEntry{"stddev", kAll, "√var", "numpy.std; torch.std (correction = ddof)", "-", "relative 2e-5; f16 1e-3"},
    OpEntry{"norm", kAll, "(Σ |x|^ord)^(1/ord); ord 0, 1, 2, ±∞ or any",
            "numpy.linalg.vector_norm; torch.linalg.vector_norm; ONNX ReduceL1, ReduceL2",
            "ord 2 at any scale; other powers in f32's range", "relative 1e-5; f16 1e-3"},
    OpEntry{"logsumexp", kAll, "log Σ exp(x), the maximum taken out",
            "scipy.special.logsumexp; torch.logsumexp; ONNX ReduceLogSumExp", "-",
            "absolute and relative 2e-6; f16 1e-3"},
};

}  // namespace

const OpFamily& reduce_family() {
  static const OpFamily family{"Reductions", kOps, &visit_reduce_kernels};
  return family;
}

}  // namespace weft::ops
