// Text that attention kernels share, beside attention.wgsl.
#pragma once

#include <cstdint>
#include <string>

namespace weft::ops {

struct AttentionSpec;

/// The bindings of the results, and `fn deliver(p: Place, row: u32, column: u32, sums: vec4<f32>, l: f32)`, which
/// brings four columns' sums of a row to where they go: divided by l, or, of a partial spec, as they are. A partial
/// spec also has `stats`, where the kernel itself puts maximum and sum of weights of a row.
std::string attention_deliver(const AttentionSpec& spec);

/// The entry point as far as `p` (this workgroup's Place), `t` (this invocation's number) and `length` (of its keys);
/// its body and the closing brace follow.
std::string attention_entry(std::uint32_t threads);

}  // namespace weft::ops
