#include <array>

#include "ops/catalog.h"
#include "ops/copy.h"
#include "ops/gather.h"
#include "ops/index_check.h"

namespace weft::ops {
namespace {

constexpr std::string_view kAll = "f32, f16, i32, u32, bool";

constexpr std::array kOps{
    OpEntry{"full", kAll, "value everywhere", "numpy.full; torch.full; ONNX ConstantOfShape", "-", "exact"},
    OpEntry{"arange", kAll, "start + i * step", "numpy.arange; torch.arange; ONNX Range", "2^32 - 1 elements",
            "exact; floats as numpy rounds start + i * step"},
    OpEntry{"transpose", kAll, "axes in another order; a view", "numpy.transpose; torch.permute; ONNX Transpose", "-",
            "exact"},
    OpEntry{"reshape", kAll, "another shape of as many elements; a view where strides allow it",
            "numpy.reshape; ONNX Reshape, Flatten, Squeeze", "-", "exact"},
    OpEntry{"broadcast_to", kAll, "axes of length 1 stretched; a view", "numpy.broadcast_to; torch.expand; ONNX Expand",
            "-", "exact"},
    OpEntry{"expand_dims", kAll, "a new axis of length 1; a view", "numpy.expand_dims; torch.unsqueeze; ONNX Unsqueeze",
            "-", "exact"},
    OpEntry{"slice", kAll, "x[start:stop:step] on one axis; a view", "Python's slices; ONNX Slice", "-", "exact"},
    OpEntry{"select", kAll, "x[index] on one axis; a view", "numpy x[:, index]; torch.select", "-", "exact"},
    OpEntry{"concat", kAll, "arrays one behind the other along an axis", "numpy.concatenate; torch.cat; ONNX Concat",
            "-", "exact"},
    OpEntry{"contiguous", kAll, "a dense copy", "numpy.ascontiguousarray; torch.contiguous; ONNX Identity", "-",
            "exact"},
    OpEntry{"take", kAll, "result[..., i, ...] = x[..., indices[i], ...]",
            "numpy.take; torch.index_select; ONNX Gather", "x and indices (i32, u32): one binding each", "exact"},
};

void visit_kernels(const Device& device, const KernelVisitor& visit) {
  visit_copy_kernels(device, visit);
  visit_check_kernels(visit);
  visit_row_gather_kernels(device, 1, visit);
}

}  // namespace

const OpFamily& views_family() {
  static const OpFamily family{"Making, views and moving", kOps, visit_kernels};
  return family;
}

}  // namespace weft::ops
