// weft/expr.h - array expressions as text: what the command `weft eval` runs.
//
// The language is numpy's, as far as it is about arrays: names, numbers, Python's operators with Python's precedence,
// calls with keyword arguments, methods, indexing and slicing; statements parted by `;`, the last one's value is the
// result. docs/expressions.md lists the functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/error.h"
#include "weft/ops.h"
#include "weft/shape.h"
#include "weft/tensor.h"

namespace weft {

/// A tensor without its data.
struct TensorType {
  Shape shape;
  DType dtype = DType::f32;
  std::string origin;  ///< of an input: where it comes from, named in fixes ("w.npy"); may be empty
};

/// What one evaluation did.
struct EvalStats {
  std::uint64_t operations = 0;  ///< on tensors, after equal ones were shared and scalars folded; views count
  std::uint64_t steps = 0;       ///< of them, what ran by itself: a kernel or a view
  std::uint64_t fused = 0;       ///< of them, what ran inside another's kernel; operations = steps + fused
};

/// An array that is read in blocks: for what is larger than the device's memory, or the host's.
struct BlockSource {
  TensorType type;
  /// Elements come with the first axis fastest (.npy files in Fortran order), not the last.
  bool fortran_order = false;
  /// Fills `out` with the elements [begin, end) along `axis`, dense in the order above. Called by one thread at a time,
  /// not the caller's. An array without axes has one element along axis 0. `out` is memory that the device takes the
  /// block from: reading it back may be very slow.
  std::function<void(std::size_t axis, std::int64_t begin, std::int64_t end, std::span<std::byte> out)> read;
};

/// How much of a device's memory evaluations may take. WebGPU does not tell what there is.
struct MemoryBudget {
  std::uint64_t bytes = 0;  ///< past it, evaluate in blocks where that can be done
  std::uint64_t limit = 0;  ///< past it nothing can be evaluated at once; 0: not known
};
/// `wanted` bytes, else WEFT_MEMORY_BYTES, as both. Without them: where the device's memory is the host's (CPU and
/// integrated adapters) half of what the host has free, with all of it as limit; else 2 GiB, and no limit known.
MemoryBudget memory_budget(const Device& device, std::uint64_t wanted = 0);

struct StreamOptions {
  std::uint64_t memory = 0;       ///< for buffers on the device; 0: memory_budget(device).bytes
  std::uint64_t block_bytes = 0;  ///< of the largest tensor of a block, about; 0: 16 MiB, on CPU adapters 4
  /// Bytes read or written since the last call; called by threads of the evaluation's own.
  std::function<void(std::uint64_t)> advance{};
};

/// Device memory that evaluate() takes.
struct MemoryNeed {
  std::uint64_t bytes = 0;           ///< inputs, intermediate values and result at their worst moment, about
  std::uint64_t largest_tensor = 0;  ///< bytes of the largest of them
};

/// How an expression would be evaluated in blocks.
struct StreamPlan {
  /// Why it can't be done within the memory, as stream() throws it; nothing when it can.
  std::optional<Error> refusal;
  // -- where there is no refusal
  std::uint64_t bytes = 0;           ///< that stream() takes on the device, about
  std::uint64_t transfer_bytes = 0;  ///< that all passes read, and write
  std::int64_t blocks = 0;
  std::size_t passes = 0;                     ///< over the inputs: x - mean(x, 0) takes two
  std::map<std::string, std::size_t> inputs;  ///< those that are cut, and along which axis
  std::optional<std::size_t> result_axis;     ///< along which the result is cut; none: it comes whole
};

/// A parsed expression. Immutable; copies share it; any thread may use it.
class Expression {
 public:
  using Types = std::map<std::string, std::variant<TensorType, Scalar>>;
  using Values = std::map<std::string, std::variant<Tensor, Scalar>>;

  /// Needs no device. `name` begins the messages of errors. Throws Error{invalid_argument} or Error{out_of_range} whose
  /// message shows the expression with a caret under the place.
  static Expression parse(std::string text, std::string name = "eval");

  const std::string& text() const noexcept;
  /// The names that must be given, in the order of their first use. A name of the language (sum, pi) that is given too
  /// means what is given.
  const std::vector<std::string>& inputs() const noexcept;

  /// Shape and dtype of the result for inputs of these types. Checks all that can be known before data: names, calls,
  /// shapes, dtypes, constant indices; with a device also what that device lacks. Numbers among the inputs are weak, as
  /// literals are. Throws as parse does, or Error{unsupported}.
  TensorType check(const Types& inputs, const Device* device = nullptr) const;

  /// Checks as above, then records the work on the device's default stream and returns without waiting (but take() with
  /// computed indices reads those back to check them). Chains of elementwise operations run as one kernel, equal
  /// subexpressions once, and intermediates are given back as soon as their last use is recorded. Inputs must be
  /// tensors of `device`. When it throws, the inputs are as they were.
  Tensor evaluate(const Device& device, const Values& inputs, EvalStats* stats = nullptr) const;

  /// What evaluate() would take. Checks as check() does; needs no device.
  MemoryNeed memory_need(const Types& inputs) const;

  // -- in blocks, for arrays larger than the device's memory --------------------------------------------------------
  using Sources = std::map<std::string, std::variant<Tensor, Scalar, BlockSource>>;
  /// Takes the elements [begin, end) along `axis` of the result, row-major; called in order, by one thread that is not
  /// the caller's.
  using BlockSink =
      std::function<void(std::size_t axis, std::int64_t begin, std::int64_t end, std::span<const std::byte>)>;

  /// Checks as check() does, and finds the best way to cut large inputs into blocks along an axis: elementwise
  /// operations follow it, others along their other axes, reductions and products over it by joining the blocks'
  /// results. Reads and runs nothing; `options.advance` is not called.
  StreamPlan plan_stream(const Device& device, const Sources& inputs, const StreamOptions& options = {}) const;

  /// Evaluates as plan_stream() tells, with reading, upload, computing, readback and writing of different blocks going
  /// on at once. A result that is cut goes to `sink`; another is returned, as work recorded. Equal bit by bit to
  /// evaluate() where every value depends on one block; reductions along the axis that is cut are joined in pairs,
  /// always the same ones, so that errors grow with the logarithm of the count of blocks. Blocks. Throws the plan's
  /// refusal before anything is read, what `read` and `sink` throw, and what evaluate() throws.
  std::optional<Tensor> stream(const Device& device, const Sources& inputs, const BlockSink& sink,
                               const StreamOptions& options = {}, EvalStats* stats = nullptr) const;

 private:
  struct State;
  explicit Expression(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace weft
