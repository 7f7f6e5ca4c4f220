// Which kernel computes which attention, and its text. Pure, needs no device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/infer_attention.h"
#include "weft/device.h"
#include "weft/dtype.h"

namespace weft::ops {

/// All that chooses a kernel's text; lengths, strides, mask, scale and the like are parameters.
struct AttentionSpec {
  bool cpu = false;     ///< lanes work alone; else a workgroup takes a tile of rows and keys
  bool shares = false;  ///< cpu: lanes take shares of the keys and the same rows, else rows of their own
  bool rolled = false;  ///< gpu, on a CPU adapter (forced): loops stay loops, its compiler takes too long else
  DType dtype = DType::f32;
  bool quads = false;      ///< q, k, v can be read and results written four at a time
  bool partial = false;    ///< leaves sums and maxima (of shares) of the keys for the merging kernel; cpu: always
  std::uint32_t rows = 0;  ///< of one thread
  std::uint32_t value_columns = 0;  ///< gpu: of a workgroup
};

inline constexpr std::uint32_t kAttentionLanes = 8;  ///< cpu: of a workgroup
/// cpu: keys that a lane works on at once. Fewer where each four elements take four loads: text that lavapipe takes
/// seconds to compile.
constexpr std::uint32_t attention_lane_keys(bool quads) noexcept {
  return quads ? 8 : 4;
}

struct AttentionPlan {
  AttentionSpec spec;
  std::uint32_t tile_rows = 0;     ///< of a workgroup
  std::uint32_t tiles = 0;         ///< that cover the rows of a kv head
  std::uint32_t value_chunks = 0;  ///< that cover the value dimension; each computes the scores anew
  std::uint32_t splits = 1;        ///< shares of the keys
  std::uint32_t chunk = 0;         ///< keys of a share
  std::uint64_t groups = 0;
};

/// `short_walks`: a CPU adapter, which may end long loops (Mesa 22's lavapipe).
AttentionPlan plan_attention(bool cpu, bool short_walks, const Limits& limits, const AttentionShape& shape, DType dtype,
                             bool quads);

/// Every spec that plan_attention can come to.
std::vector<AttentionSpec> attention_specs(const Limits& limits, bool f16, bool short_walks);

/// Equal keys, equal texts.
std::string attention_key(const AttentionSpec& spec);
std::string attention_source(const AttentionSpec& spec);
/// The kernel that joins shares of keys: a thread for each row and four columns.
std::string attention_merge_source(DType dtype);

}  // namespace weft::ops
