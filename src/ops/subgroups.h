// The tier of kernels that join values within a workgroup by subgroup operations, on devices that have them. Which
// threads make up a subgroup is taken from the builtins alone, never from local_invocation_index, and subgroups may
// have any size from the device's smallest on, another one each time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/device.h"

namespace weft::ops {

/// No more subgroups than this make up a workgroup of `threads`, a power of two; at least 1. Kernels hold one value for
/// each.
std::uint32_t most_subgroups(const Device& device, std::uint32_t threads);

/// fn order_of(v: f32) -> u32, which orders floats with NaN above all of them, and its inverse
/// fn in_order(k: u32) -> f32; low_order_of and in_low_order, which order them the other way round, NaN above all
/// still. No float has the order 0. (What subgroupMax and subgroupMin do with a NaN is left open.)
extern const std::string_view kOrderText;

/// WGSL: `join(a, b)` over `value(0)` .. `value(count - 1)`, pairwise: a short chain, and rounding errors of a short
/// sum. `value` is a format of one number.
std::string joined_text(std::string_view join, std::string_view value, std::uint32_t count);

/// fn tops_of_`name`(n: u32) -> `type`: `join` over the first n of the workgroup array `name`, of `most`; `none` is its
/// value of nothing. n is num_subgroups.
std::string tops_text(std::string_view name, std::string_view type, std::string_view join, std::string_view none,
                      std::uint32_t most);

}  // namespace weft::ops
