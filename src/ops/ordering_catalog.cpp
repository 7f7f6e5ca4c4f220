#include <array>

#include "ops/catalog.h"
#include "ops/indexing_kernels.h"

namespace weft::ops {
namespace {

constexpr std::string_view kAll = "f32, f16, i32, u32, bool";
constexpr std::string_view kRow = "a row: one binding, with 4 bytes an element";

constexpr std::array kOps{
    OpEntry{"sort", kAll, "each row in order, stable; NaN is the largest",
            "numpy.sort (stable); torch.sort(stable=True)", kRow, "exact"},
    OpEntry{"argsort", kAll, "the places that sort takes its elements from",
            "numpy.argsort (stable); torch.argsort(stable=True)", kRow, "exact"},
    OpEntry{"topk", kAll, "the k largest (smallest) of each row in order, of equal ones the first; NaN is the largest",
            "torch.topk; ONNX TopK", kRow, "exact"},
};

}  // namespace

const OpFamily& ordering_family() {
  static const OpFamily family{"Ordering", kOps, visit_sort_kernels};
  return family;
}

}  // namespace weft::ops
