// Elementwise operations on arrays, at once or later.
//
// While laziness is on (weft.lazy(), weft.jit), an elementwise operation makes a LazyNode: it is checked as ever
// (shapes, dtypes, devices), and its kernel is recorded when something needs its elements, together with the operations
// that led to it, as one ElementProgram. Arrays never change, so when it runs makes no difference; the one exception, a
// user's kernel that writes into an array, first has all that still waits for that array recorded (flush_readers).
//
// Nodes are made, walked and dropped under the interpreter's lock.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "ops/elementwise.h"
#include "weft_python.h"

namespace weft::python {

/// A number with the dtype it has in the program.
struct LazyNumber {
  Scalar value;
  DType dtype;
};
using LazyInput = std::variant<std::monostate, std::shared_ptr<LazyNode>, Tensor, LazyNumber>;

/// One operation whose result has not been asked for, or, once `value` is set, has.
struct LazyNode : std::enable_shared_from_this<LazyNode> {
  using Kind = ops::ElementNode::Kind;

  LazyNode(const Device& on, Shape result_shape, DType result_dtype);
  ~LazyNode();
  LazyNode(const LazyNode&) = delete;
  LazyNode& operator=(const LazyNode&) = delete;

  Kind kind = Kind::unary;
  UnaryOp unary{};
  BinaryOp binary{};
  std::array<LazyInput, 3> inputs;
  Device device;
  Shape shape;
  DType dtype;
  std::optional<Tensor> value;
  bool held = true;  ///< an Array shows it
  // What its program comes to at most: shared parts may be counted more than once.
  std::size_t operations = 1;
  std::size_t tensors = 0;
  std::size_t numbers = 0;

  LazyNode* before = nullptr;  ///< all pending nodes, in the order of their making
  LazyNode* after = nullptr;
};

/// What an elementwise operation takes. Borrows from the Python object that it was made of.
class ElementOperand {
 public:
  explicit ElementOperand(const Array& array) : array_(&array) {}
  explicit ElementOperand(Scalar number, bool huge = false, std::optional<DType> own_dtype = std::nullopt)
      : number_(number), huge_(huge), own_dtype_(own_dtype) {}
  explicit ElementOperand(Tensor tensor) : own_(std::move(tensor)) {}

  bool is_number() const noexcept { return number_.has_value(); }
  const Scalar& number() const { return number_.value(); }
  /// A whole number of more than 64 bits, held as a float: not for arithmetic with integers.
  bool is_huge() const noexcept { return huge_; }
  /// A number's dtype, where it is a float of numpy's: those count beside arrays as arrays of no axes do (NEP 50).
  /// Other numbers are weak.
  std::optional<DType> own_dtype() const noexcept { return own_dtype_; }
  DType dtype() const noexcept { return array_ != nullptr ? array_->dtype() : own_.value().dtype(); }
  const Shape& shape() const noexcept { return array_ != nullptr ? array_->shape() : own_.value().shape(); }
  const Device& device() const { return array_ != nullptr ? array_->device() : own_.value().device(); }
  /// Recorded first when it is pending.
  const Tensor& tensor() const { return array_ != nullptr ? array_->get() : own_.value(); }
  /// For a program: pending or not.
  LazyInput input() const;

 private:
  const Array* array_ = nullptr;
  std::optional<Scalar> number_;
  bool huge_ = false;
  std::optional<DType> own_dtype_;
  std::optional<Tensor> own_;
};

inline ElementOperand element(const Array& array) {
  return ElementOperand(array);
}
/// Nothing for what is neither array nor number. What is converted goes to the device `beside`.
std::optional<ElementOperand> try_element(nb::handle h, const Device* beside = nullptr);
ElementOperand to_element(OperandLike a, const std::optional<Device>& beside = std::nullopt);
/// Never a number: those become arrays of no axes.
ElementOperand to_element(ArrayLike a, const std::optional<Device>& beside = std::nullopt);
/// The dtype that an array must have for a number to be weak beside it.
DType meeting(DType array, const ElementOperand& number);
/// A number as an array of no axes, of the dtype that it takes beside an array of `beside`.
ElementOperand number_array(const ElementOperand& number, const Device& device, std::optional<DType> beside);

Array element_unary(UnaryOp op, const ElementOperand& x);
/// One of them at least is no number.
Array element_binary(BinaryOp op, const ElementOperand& a, const ElementOperand& b);
/// No numbers.
Array element_where(const ElementOperand& condition, const ElementOperand& a, const ElementOperand& b);
Array element_cast(const ElementOperand& x, DType dtype);
Array element_clamp(const ElementOperand& x, const Scalar& low, const Scalar& high);

/// Records the node's program, once. The reference lasts as the node does.
const Tensor& force(LazyNode& node);
/// Records what reads this memory and still waits: before something writes it.
void flush_readers(const Buffer& buffer);

/// On this thread: while one lives, elementwise operations wait, or (false) don't.
class LazyScope {
 public:
  explicit LazyScope(bool on) noexcept;
  ~LazyScope();
  LazyScope(const LazyScope&) = delete;
  LazyScope& operator=(const LazyScope&) = delete;

 private:
  bool outer_;
};

}  // namespace weft::python
