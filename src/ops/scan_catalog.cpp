#include <array>

#include "ops/catalog.h"
#include "ops/infer_signal.h"
#include "ops/scan.h"

namespace weft::ops {
namespace {

constexpr std::string_view kDtypes = "f32, f16, i32, u32, bool (counts in i32)";
constexpr std::string_view kSame = "f32, f16, i32, u32, bool";

constexpr std::array kOps{
    OpEntry{
        "scan sum (cumsum)", kDtypes, "sum of the elements up to i along an axis; exclusive, reverse",
        "numpy.cumsum, cumulative_sum; torch.cumsum; ONNX CumSum", "-",
        "integers exact (wrap); f32: relative 2^-18 of 2^22 positive numbers, 17,000,000 ones exact; f16 adds in f32"},
    OpEntry{"scan prod", kDtypes, "product of the elements up to i", "numpy.cumprod; torch.cumprod", "-", "as cumsum"},
    OpEntry{"scan max", kSame, "largest element up to i; NaN stays", "numpy.maximum.accumulate; torch.cummax", "-",
            "exact"},
    OpEntry{"scan min", kSame, "smallest element up to i; NaN stays", "numpy.minimum.accumulate; torch.cummin", "-",
            "exact"},
};

void visit_kernels(const Device& device, const KernelVisitor& visit) {
  for (ScanOp op : {ScanOp::sum, ScanOp::prod, ScanOp::max, ScanOp::min}) {
    for (DType x : {DType::f32, DType::f16, DType::i32, DType::u32, DType::bool_}) {
      if (x == DType::f16 && !device.features().f16) continue;
      const DType out = scan_types(op, x).result;
      if (out == DType::bool_) continue;  // goes through u32
      const auto one = [&](std::string_view entry, bool quads, bool prefixed, std::uint32_t group) {
        const ScanKernel kernel{op, x, out, entry, quads, prefixed, group};
        visit(scan_key(kernel), scan_options(kernel));
      };
      for (bool quads : {false, true}) {
        one("sums_by_thread", quads, true, kScanThreads);
        for (bool prefixed : {false, true}) one("scan_by_thread", quads, prefixed, kScanThreads);
        for (std::uint32_t group : {kScanThreads, kScanWideGroup}) {
          one("sums_by_group", quads, true, group);
          for (bool prefixed : {false, true}) one("scan_by_group", quads, prefixed, group);
        }
      }
    }
  }
}

}  // namespace

const OpFamily& scan_family() {
  static const OpFamily family{"Scans", kOps, &visit_kernels};
  return family;
}

}  // namespace weft::ops
