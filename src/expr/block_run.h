// expr/block_run.h - evaluates an expression block by block: reading, upload, computing, readback and writing all at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "expr/blocks.h"
#include "expr/evaluate.h"
#include "weft/device.h"
#include "weft/tensor.h"

namespace weft::expr {

struct BlockJob {
  const Device& device;
  const Graph& graph;
  const Blocks& blocks;
  std::int64_t count;  ///< of blocks; their rows differ by one at most
  /// A whole input, on the device.
  std::function<Tensor(const Operation&)> whole;
  /// The elements [begin, end) along `axis` of an input that is cut, dense in its file's order. Called by one thread of
  /// the run's own.
  std::function<void(const Operation&, std::size_t axis, std::int64_t begin, std::int64_t end, std::span<std::byte>)>
      read;
  /// Whether read() gives the first axis fastest.
  std::function<bool(const Operation&)> is_fortran;
  /// The elements [begin, end) along `axis` of the result, row-major, in order. Called by one thread of the run's own.
  std::function<void(std::size_t axis, std::int64_t begin, std::int64_t end, std::span<const std::byte>)> write;
  /// Bytes read or written since the last call; from both threads.
  std::function<void(std::uint64_t)> advance;
  Explain explain;
};

/// Runs all passes. The result's blocks go to `write` when it is cut; else it is returned whole. Threads are joined and
/// nothing is called any more when this returns or throws; what `read` or `write` throws comes out of it.
std::optional<Tensor> run_blocks(const BlockJob& job);

}  // namespace weft::expr
