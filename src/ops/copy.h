// Copies between views: what elementwise programs, which write dense results, don't do.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/catalog.h"
#include "weft/tensor.h"

namespace weft::ops {

/// Writes `in` into the elements that `out` shows: same shape and dtype, other buffers, `out` with no element twice.
/// What lies between them in out's buffer stays. Of bools, `out` must show false everywhere before: four share a word,
/// so they are or-ed in. Recorded in as many pieces as the binding limit, or a smaller `most_bytes` (for tests), asks
/// for.
void copy_into(const Tensor& out, const Tensor& in, std::string_view op, std::uint64_t most_bytes = UINT64_MAX);

void visit_copy_kernels(const Device& device, const KernelVisitor& visit);

}  // namespace weft::ops
