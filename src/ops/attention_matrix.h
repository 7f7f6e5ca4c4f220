// Attention by subgroup matrices (matrix units): how a workgroup's tile is cut, and the kernel's text. Pure, needs no
// device.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/device.h"

namespace weft::ops {

struct AttentionSpec;

/// What a workgroup works on: `subgroups` x m queries by `keys` keys at a time. Made of products of m x k by k x n that
/// a subgroup of `lanes` threads does. m divides lanes and keys; n and k divide keys; k divides depth; n divides
/// columns, and so do keys. One matrix of rows a subgroup: with two, a case of the tests was wrong on an H200 (decision
/// 011).
struct AttentionMatrixTile {
  std::uint32_t m = 0, n = 0, k = 0, lanes = 0;
  std::uint32_t subgroups = 0, keys = 0;
  std::uint32_t depth = 0;    ///< the head dimension, filled up with zeros
  std::uint32_t columns = 0;  ///< of values, of a workgroup
  bool shared = false;        ///< keys and values in turn in the same workgroup memory, else beside each other
  bool ahead = true;          ///< the next keys and values are read while the matrix units work
  bool operator==(const AttentionMatrixTile&) const = default;
};

/// Bytes of workgroup memory.
std::uint32_t attention_matrix_bytes(const AttentionMatrixTile& tile);
/// True when the tile keeps the rules above and fits the device's limits.
bool attention_matrix_fits(const AttentionMatrixTile& tile, const Limits& limits);

/// The tile for heads of `dim` with values of `value_dim`; none where the device's matrices can't do it, or the head is
/// too large for registers. `like`: its subgroups, keys, shared and ahead are taken where given.
std::optional<AttentionMatrixTile> choose_attention_matrix(const Features& features, const Limits& limits,
                                                           std::int64_t dim, std::int64_t value_dim,
                                                           const std::optional<AttentionMatrixTile>& like = {});

/// `tile` with depth and columns for such heads; none where it doesn't fit or the head is too large.
std::optional<AttentionMatrixTile> fit_attention_matrix(AttentionMatrixTile tile, const Limits& limits,
                                                        std::int64_t dim, std::int64_t value_dim);

/// Every tile that choose_attention_matrix can come to of itself.
std::vector<AttentionMatrixTile> attention_matrix_tiles(const Features& features, const Limits& limits);

std::string attention_matrix_key(const AttentionMatrixTile& tile);
std::string attention_matrix_source(const AttentionSpec& spec);

}  // namespace weft::ops
