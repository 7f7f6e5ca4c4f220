#include <array>

#include "ops/catalog.h"
#include "ops/gather.h"
#include "ops/index_check.h"
#include "ops/indexing_kernels.h"

namespace weft::ops {
namespace {

constexpr std::string_view kAll = "f32, f16, i32, u32, bool";
constexpr std::string_view kIndices = "indices (i32, u32): at most 2^32 - 2, and one binding; x: one binding";

constexpr std::array kOps{
    OpEntry{"take_along_axis", kAll, "result[i][j] = x[indices[i][j]][j] (axis 0)",
            "numpy.take_along_axis; torch.gather; ONNX GatherElements", kIndices, "exact"},
    OpEntry{"gather_nd", kAll, "result[b, i, ...] = x[b, indices[b, i], ...]", "ONNX GatherND; tf.gather_nd", kIndices,
            "exact"},
    OpEntry{"embedding", kAll, "result[i] = table[ids[i]]", "torch.nn.functional.embedding; ONNX Gather", kIndices,
            "exact"},
    OpEntry{"scatter_along_axis", kAll, "result[indices[i][j]][j] op= updates[i][j] (axis 0), the rest x",
            "numpy.put_along_axis; torch.scatter, scatter_reduce; ONNX ScatterElements",
            "x, indices and updates: one binding each; set with duplicates also 4 bytes an element of x",
            "exact; add and multiply of floats in f32, in any order"},
    OpEntry{"scatter_nd", kAll, "result[indices[i], ...] op= updates[i, ...], the rest x",
            "ONNX ScatterND; torch.index_put",
            "x, indices and updates: one binding each; set also 4 bytes a slice of x",
            "exact; add and multiply of floats in f32, in any order"},
    OpEntry{"split", kAll, "consecutive parts of an axis; views", "numpy.split; torch.split; ONNX Split", "-", "exact"},
    OpEntry{"pad", kAll, "a constant, the edge, the mirror image or the other end around x; negative widths cut",
            "numpy.pad; torch.nn.functional.pad; ONNX Pad", "x: one binding", "exact"},
    OpEntry{"repeat", kAll, "each element n times along an axis", "numpy.repeat; torch.repeat_interleave", "-",
            "exact"},
    OpEntry{"tile", kAll, "the whole, so many times along each axis", "numpy.tile; torch.tile; ONNX Tile", "-",
            "exact"},
    OpEntry{"triu", kAll, "x where column - row >= k, else 0", "numpy.triu; torch.triu; ONNX Trilu",
            "2^31 - 1 rows and columns", "exact"},
    OpEntry{"tril", kAll, "x where column - row <= k, else 0", "numpy.tril; torch.tril; ONNX Trilu",
            "2^31 - 1 rows and columns", "exact"},
    OpEntry{"one_hot", "f32, f16, i32, u32, bool; of i32, u32", "on where the place along the new axis is the index",
            "torch.nn.functional.one_hot; ONNX OneHot", "a depth of 2^31 - 1", "exact"},
};

void visit_kernels(const Device& device, const KernelVisitor& visit) {
  visit_check_kernels(visit);
  visit_row_gather_kernels(device, kMaxRank, visit);
  visit_take_along_axis_kernels(device, visit);
  visit_scatter_kernels(device, visit);
  visit_pad_kernels(device, visit);
}

}  // namespace

const OpFamily& indexing_family() {
  static const OpFamily family{"Indexing and shaping", kOps, visit_kernels};
  return family;
}

}  // namespace weft::ops
