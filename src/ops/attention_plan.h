// Which kernel computes which attention, and its text. Pure, needs no device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/attention_matrix.h"
#include "ops/infer_attention.h"
#include "weft/device.h"
#include "weft/dtype.h"

namespace weft::ops {

enum class AttentionTier : std::uint8_t {
  lane,    ///< CPU adapters: lanes work alone
  row,     ///< few rows: 16-byte reads of keys and values, sums over the lanes of a subgroup
  tile,    ///< a workgroup takes a tile of rows and keys through workgroup memory
  matrix,  ///< f16: subgroup matrices do the products
};
std::string_view to_string(AttentionTier tier) noexcept;

struct AttentionSpec;

/// For tests: other text for kernels of the matrix tier, such as one that needs no subgroup matrices.
struct AttentionStandIn {
  std::string name;  ///< part of the kernel's key
  std::function<std::string(const AttentionSpec& spec, std::string text)> make;
};

/// All that chooses a kernel's text; lengths, strides, mask, scale and the like are parameters.
struct AttentionSpec {
  AttentionTier tier = AttentionTier::tile;
  bool shares = false;  ///< lane: lanes take shares of the keys and the same rows, else rows of their own
  bool rolled = false;  ///< on a CPU adapter (forced): loops stay loops, its compiler takes too long else
  DType dtype = DType::f32;
  std::uint32_t unit = 1;  ///< elements of q, k, v that are read together, 1, 4 or 8 (16 bytes); written: 1, else 4
  bool partial = false;    ///< leaves sums and maxima (of shares) of the keys for the merging kernel; lane: always
  std::uint32_t rows = 0;  ///< of one thread; row: of a workgroup
  std::uint32_t value_columns = 0;               ///< tile: of a workgroup
  std::uint32_t key_lanes = 0, key_vectors = 0;  ///< row: lanes that share a key, and 16-byte reads of each
  bool checks_subgroups = false;                 ///< row: subgroups may be narrower than that
  std::optional<AttentionMatrixTile> matrix{};   ///< matrix
  const AttentionStandIn* stand_in = nullptr;    ///< matrix; of force_attention
};

/// Whether the plan takes the matrix tier unasked: its tests pass on lavapipe and on the H200 (decision 011).
inline constexpr bool kAttentionMatricesChosen = true;

inline constexpr std::uint32_t kAttentionLanes = 8;  ///< lane: of a workgroup
/// lane: keys that a lane works on at once. Fewer where each four elements take four loads: text that lavapipe takes
/// seconds to compile.
constexpr std::uint32_t attention_lane_keys(bool quads) noexcept {
  return quads ? 8 : 4;
}

inline constexpr std::uint32_t kAttentionRowThreads = 128;  ///< row: of a workgroup
/// row: keys whose scores, of so many rows, stand in workgroup memory at once.
constexpr std::uint32_t attention_row_keys(std::uint32_t rows) noexcept {
  return rows == 1 ? 2048 : 4096 / rows;
}

struct AttentionPlan {
  AttentionSpec spec;
  std::uint32_t tile_rows = 0;     ///< of a workgroup
  std::uint32_t tiles = 0;         ///< that cover the rows of a kv head
  std::uint32_t value_chunks = 0;  ///< that cover the value dimension; each computes the scores anew
  std::uint32_t splits = 1;        ///< shares of the keys
  std::uint32_t chunk = 0;         ///< keys of a share
  std::uint64_t groups = 0;
  std::uint32_t value_lanes = 1;  ///< row: threads that cover the values of a key, a power of two
};

/// For tests and benchmarks: what to take instead of what the plan would choose, wherever it can do the work.
struct AttentionTuning {
  std::optional<AttentionTier> tier{};
  std::optional<AttentionMatrixTile> matrix{};  ///< see choose_attention_matrix
  /// With a tile: that is taken with its own m, n, k and lanes, whatever the device has. Outlives its use.
  const AttentionStandIn* stand_in = nullptr;
  bool written_out = false;  ///< matrix: also on a CPU adapter
};
/// For the whole process, from the next op on. Not while another thread runs one.
void force_attention(const AttentionTuning& tuning);

/// True while anything is forced: then nothing that is stored counts.
bool attention_forced() noexcept;

/// A way to work that was measured on the device, or is tried there, in the place of the rules.
struct AttentionChoice {
  AttentionTier tier = AttentionTier::tile;
  std::uint32_t rows = 0;     ///< lane: of a lane; tile: of a thread
  std::uint32_t columns = 0;  ///< tile: of values, of a workgroup
  bool shares = false;        ///< lane
  std::uint64_t splits = 0;   ///< shares of the keys, or about so many; 0: by the rules
  bool operator==(const AttentionChoice&) const = default;
};

/// What plans are made for.
struct AttentionDevice {
  bool cpu = false;          ///< kernels of CPU adapters
  bool short_walks = false;  ///< a CPU adapter, which may end long loops (Mesa 22's lavapipe)
  const Limits& limits;
  const Features& features;
  bool units = true;  ///< kernels can use its subgroup matrices of f16 (usable_unit)
};

/// `unit`: as many elements, up to 8, as all strides, offsets and lengths of q, k, v and the result are multiples of.
AttentionPlan plan_attention(const AttentionDevice& device, const AttentionShape& shape, DType dtype,
                             std::uint32_t unit);

/// The plan by a choice; none where it can't do the work.
std::optional<AttentionPlan> plan_attention(const AttentionDevice& device, const AttentionShape& shape, DType dtype,
                                            std::uint32_t unit, const AttentionChoice& choice);
/// All that may be tried for the shape; first what plan_attention comes to by its rules.
std::vector<AttentionChoice> attention_choices(const AttentionDevice& device, const AttentionShape& shape, DType dtype,
                                               std::uint32_t unit);

/// Every spec that plan_attention can come to, by rules or choices.
std::vector<AttentionSpec> attention_specs(const Limits& limits, const Features& features, bool short_walks);

/// Equal keys, equal texts.
std::string attention_key(const AttentionSpec& spec);
std::string attention_source(const AttentionSpec& spec);
std::string attention_row_source(const AttentionSpec& spec);
/// The kernel that joins shares of keys. `cpu`: a thread for each row and four columns, else 128 threads for each row.
std::string attention_merge_key(DType dtype, bool cpu);
std::string attention_merge_source(DType dtype, bool cpu);

}  // namespace weft::ops
