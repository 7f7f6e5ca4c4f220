// The kernels of this family's files, for its catalogue.
#pragma once

#include "ops/catalog.h"

namespace weft::ops {

void visit_pad_kernels(const Device& device, const KernelVisitor& visit);
void visit_scatter_kernels(const Device& device, const KernelVisitor& visit);
void visit_sort_kernels(const Device& device, const KernelVisitor& visit);

}  // namespace weft::ops
