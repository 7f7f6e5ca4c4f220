// Dense results that no single binding shows, written slice by slice.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/kernel.h"
#include "weft/tensor.h"

namespace weft::ops {

/// Calls `run(first, count, range)` for parts of `out` (dense, from the start of its buffer) that a binding can show,
/// in order. `first` and `count` are in units of `unit` bytes, a power of two up to 16 that divides the whole; each
/// `first` is a multiple of 4.
template <class Run>
void each_slice(const Tensor& out, std::int64_t unit, Run&& run) {
  const Limits& limits = out.device().limits();
  const std::int64_t alignment = std::max<std::int64_t>(limits.min_storage_offset_alignment, 64);
  const std::int64_t most = static_cast<std::int64_t>(limits.max_storage_binding_size) / alignment * alignment / unit;
  const std::int64_t all = static_cast<std::int64_t>(out.nbytes()) / unit;
  for (std::int64_t first = 0; first < all; first += most) {
    const std::int64_t count = std::min(most, all - first);
    run(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count),
        BindingRange(out.buffer(), static_cast<std::uint64_t>(first * unit), static_cast<std::uint64_t>(count * unit)));
  }
}

}  // namespace weft::ops
