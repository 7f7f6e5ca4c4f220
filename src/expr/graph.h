// expr/graph.h - an expression as typed operations on tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "expr/source.h"
#include "weft/dtype.h"
#include "weft/ops.h"
#include "weft/shape.h"

namespace weft::expr {

/// The index of an operation in its graph; operands come before what uses them.
using OpId = std::uint32_t;

enum class OpKind : std::uint8_t {
  input,     ///< name
  scalar,    ///< value, rank 0; only as operand of an elementwise operation
  constant,  ///< bytes
  full,      ///< value
  arange,    ///< value, stop, step
  unary,
  binary,
  where,
  cast,
  transpose,    ///< numbers: the axes' order
  reshape,      ///< the shape says all
  broadcast,    ///< the shape says all
  slice,        ///< axis, from, to, numbers: the step
  select,       ///< axis, numbers: the index
  take,         ///< axis
  concat,       ///< axis
  reduce,       ///< numbers: the axes; keepdims
  softmax,      ///< axis
  log_softmax,  ///< axis
  layer_norm,   ///< axis, value: eps; operands: x, and weight and bias as has_weight and has_bias tell
  matmul,
  library,  ///< name: what it computes, options and all; run, slices; of a reduction numbers, keepdims, joining
};

/// Calls an op of the library on a step's operands.
using LibraryCall = std::function<Tensor(const Device&, std::span<const Tensor>)>;

struct Joining;

/// Along which axes an op of the library works on slices that know nothing of each other, so that a block of its result
/// needs the same block of its operands and no more (blocks.h).
struct Slices {
  std::uint32_t axes = 0;      ///< bit a: along axis a of the first operand
  std::uint32_t operands = 1;  ///< bit i: operand i is cut along the same axis; the others stay whole
  int inserted = -1;           ///< an axis that only the result has, at this place
};

/// Which of the fields below the types mean something is said at OpKind.
struct Operation {
  OpKind kind = OpKind::input;
  DType dtype = DType::f32;
  Shape shape{};
  std::vector<OpId> operands{};
  Span span{};  ///< in the source, for errors that only data can show

  weft::UnaryOp unary{};
  weft::BinaryOp binary{};
  ReduceOp reduce{};
  std::size_t axis = 0;
  std::vector<std::int64_t> numbers{};
  std::optional<std::int64_t> from{}, to{};
  bool keepdims = false;
  bool has_weight = false;
  bool has_bias = false;
  Scalar value = 0;
  Scalar stop = 0;
  Scalar step = 1;
  std::string name{};
  std::vector<std::byte> bytes{};
  std::shared_ptr<const LibraryCall> run{};
  Slices slices{};
  std::shared_ptr<const Joining> joining{};  ///< of a reduction in the library, over the axes `numbers`
};

/// True for what an ElementProgram can hold: unary, binary, where and cast.
bool is_elementwise(OpKind kind) noexcept;

/// Builds operations, each with the shape and dtype that ops/infer.h gives it. An operation equal to an earlier one is
/// that one. All methods throw Error as infer.h does, without a place in the source; none needs a device.
class Graph {
 public:
  const Operation& operator[](OpId id) const { return operations_[id]; }
  std::size_t size() const noexcept { return operations_.size(); }
  const Shape& shape(OpId id) const { return operations_[id].shape; }
  DType dtype(OpId id) const { return operations_[id].dtype; }

  /// What is made from now on comes from this place.
  void set_span(Span span) noexcept { span_ = span; }

  OpId input(const std::string& name, const Shape& shape, DType dtype);
  OpId scalar(const Scalar& value, DType dtype);
  OpId constant(std::vector<std::byte> bytes, const Shape& shape, DType dtype);
  OpId full(const Shape& shape, const Scalar& value, DType dtype);
  OpId arange(const Scalar& start, const Scalar& stop, const Scalar& step, DType dtype);

  OpId unary(weft::UnaryOp op, OpId x);
  OpId binary(weft::BinaryOp op, OpId a, OpId b);
  OpId where(OpId condition, OpId a, OpId b);
  OpId cast(OpId x, DType dtype);

  OpId transpose(OpId x, std::span<const std::int64_t> axes);
  OpId reshape(OpId x, const Shape& wanted);
  OpId broadcast_to(OpId x, const Shape& wanted);
  /// `axis` counted in the result, 0 to rank.
  OpId expand_dims(OpId x, std::size_t axis);
  OpId slice(OpId x, std::size_t axis, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
             std::int64_t step);
  OpId select(OpId x, std::size_t axis, std::int64_t index);
  OpId take(OpId x, OpId indices, std::size_t axis);
  OpId concat(std::span<const OpId> parts, std::int64_t axis);

  OpId reduce(ReduceOp op, OpId x, const ReduceOptions& options);
  /// kind: softmax or log_softmax.
  OpId softmax(OpKind kind, OpId x, std::int64_t axis);
  OpId layer_norm(OpId x, std::optional<OpId> weight, std::optional<OpId> bias, double eps, std::int64_t axis);
  OpId matmul(OpId a, OpId b);
  /// Any other op, whose shape and dtype the caller has from its rules. Equal keys and operands mean equal results.
  OpId library(std::string key, const Shape& shape, DType dtype, std::span<const OpId> operands, LibraryCall run,
               const Slices& slices = {});
  /// One that reduces `axes` of its operand.
  OpId library_reduction(std::string key, const Shape& shape, DType dtype, OpId x, LibraryCall run,
                         std::span<const std::size_t> axes, bool keepdims, Joining joining);

 private:
  OpId add(Operation op);

  std::vector<Operation> operations_;
  std::unordered_map<std::string, OpId> known_;  // by key_of
  Span span_;
};

}  // namespace weft::expr
