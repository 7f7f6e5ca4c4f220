#include "lazy.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ops/infer.h"
#include "ops/view_of.h"
#include "trace.h"

namespace weft::python {
namespace {

/// A program has at most so many operations and numbers: kernels take their numbers as parameters, of which there is
/// little room beside the inputs' strides.
constexpr std::size_t kMostOperations = 64;
constexpr std::size_t kMostNumbers = 8;
/// A pending operand that is stretched to more than this many times its elements is computed first.
constexpr std::int64_t kMostRepeats = 4;

thread_local bool lazy = false;

LazyNode* newest = nullptr;

LazyNode* pending_in(const LazyInput& input) {
  const auto* node = std::get_if<std::shared_ptr<LazyNode>>(&input);
  return node != nullptr && !(*node)->value ? node->get() : nullptr;
}

const Tensor* tensor_in(const LazyInput& input) {
  if (const auto* tensor = std::get_if<Tensor>(&input)) return tensor;
  const auto* node = std::get_if<std::shared_ptr<LazyNode>>(&input);
  return node != nullptr && (*node)->value ? &*(*node)->value : nullptr;
}

class Measure {
 public:
  void write_to(LazyNode& root) {
    walk(root);
    root.operations = operations_;
    root.tensors = tensors_.size();
    root.numbers = numbers_;
  }

 private:
  void walk(const LazyNode& node) {
    if (!seen_.insert(&node).second) return;
    ++operations_;
    for (const LazyInput& input : node.inputs) {
      if (std::holds_alternative<LazyNumber>(input)) ++numbers_;
      if (const LazyNode* inner = pending_in(input)) walk(*inner);
      const Tensor* tensor = tensor_in(input);
      if (tensor == nullptr) continue;
      const bool known =
          std::any_of(tensors_.begin(), tensors_.end(), [&](const Tensor* t) { return ops::same_view(*t, *tensor); });
      if (!known) tensors_.push_back(tensor);
    }
  }

  std::unordered_set<const LazyNode*> seen_;
  std::vector<const Tensor*> tensors_;
  std::size_t operations_ = 0;
  std::size_t numbers_ = 0;
};

/// Counts the node's program exactly.
void measure(LazyNode& node) {
  Measure().write_to(node);
}

bool fits(const LazyNode& node) {
  return node.operations <= kMostOperations && node.tensors <= ops::ElementProgram::kMaxInputs &&
         node.numbers <= kMostNumbers;
}

void count(LazyNode& node) {
  node.operations = 1;
  node.tensors = 0;
  node.numbers = 0;
  for (const LazyInput& input : node.inputs) {
    if (const LazyNode* inner = pending_in(input)) {
      node.operations += inner->operations;
      node.tensors += inner->tensors;
      node.numbers += inner->numbers;
    } else if (tensor_in(input) != nullptr) {
      ++node.tensors;
    } else if (std::holds_alternative<LazyNumber>(input)) {
      ++node.numbers;
    }
  }
  if (!fits(node)) measure(node);
}

/// Has operands recorded, the largest first, until the rest is one program.
void settle(LazyNode& node) {
  for (const LazyInput& input : node.inputs) {
    LazyNode* inner = pending_in(input);
    if (inner != nullptr && element_count(node.shape) / kMostRepeats > element_count(inner->shape)) force(*inner);
  }
  count(node);
  while (!fits(node)) {
    LazyNode* largest = nullptr;
    for (const LazyInput& input : node.inputs) {
      LazyNode* inner = pending_in(input);
      if (inner != nullptr && (largest == nullptr || inner->operations > largest->operations)) largest = inner;
    }
    if (largest == nullptr) break;  // one operation alone always fits
    force(*largest);
    count(node);
  }
}

class Builder {
 public:
  Tensor run(const LazyNode& root) {
    const std::int32_t result = add(root);
    const Device device = root.device;
    const Shape shape = root.shape;
    const ReleaseGil released;
    return program_.run(device, shape, result);
  }

 private:
  std::int32_t add(const LazyNode& node) {
    const auto it = done_.find(&node);
    if (it != done_.end()) return it->second;
    std::array<std::int32_t, 3> in{-1, -1, -1};
    for (std::size_t i = 0; i < in.size(); ++i) {
      const LazyInput& input = node.inputs[i];
      if (const LazyNode* inner = pending_in(input)) {
        in[i] = add(*inner);
      } else if (const Tensor* tensor = tensor_in(input)) {
        in[i] = program_.input(*tensor);
      } else if (const auto* number = std::get_if<LazyNumber>(&input)) {
        in[i] = program_.scalar(number->value, number->dtype);
      }
    }
    const std::int32_t made = [&] {
      switch (node.kind) {
        case LazyNode::Kind::unary: return program_.unary(node.unary, in[0]);
        case LazyNode::Kind::binary: return program_.binary(node.binary, in[0], in[1]);
        case LazyNode::Kind::where: return program_.where(in[0], in[1], in[2]);
        default: return program_.cast(in[0], node.dtype);
      }
    }();
    done_.emplace(&node, made);
    return made;
  }

  ops::ElementProgram program_;
  std::unordered_map<const LazyNode*, std::int32_t> done_;
};

/// `seen`: nodes that do not read it. Operands are shared, so that there may be 2^64 ways down a program of 64
/// operations.
bool reads(const LazyNode& node, std::uint64_t allocation, std::unordered_set<const LazyNode*>& seen) {
  if (!seen.insert(&node).second) return false;
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const LazyInput& input) {
    if (const Tensor* tensor = tensor_in(input)) return tensor->buffer().allocation_id() == allocation;
    const LazyNode* inner = pending_in(input);
    return inner != nullptr && reads(*inner, allocation, seen);
  });
}

// -- making nodes
// ---------------------------------------------------------------------------------------------------------

/// Whether the result can be made later: what only its making would refuse is done at once, so that the error comes
/// out of the call that is wrong.
bool can_wait(const Device& device, const Shape& shape, DType dtype) {
  const auto bytes = static_cast<std::uint64_t>(element_count(shape)) * size_of(dtype);
  return bytes <= device.limits().max_storage_binding_size && (dtype != DType::f16 || device.features().f16);
}

/// Arrays of two devices go to the library, which refuses them.
bool share_device(const ElementOperand& a, const ElementOperand& b) {
  return a.is_number() || b.is_number() || a.device().id() == b.device().id();
}

/// The number as an operand of a program; throws when it does not fit.
LazyNumber number_beside(const Scalar& value, DType other) {
  const DType dtype = ops::promote(other, value);
  if (std::holds_alternative<std::int64_t>(value.value)) ops::ElementProgram().scalar(value, dtype);
  return {value, dtype};
}

bool is_two(const Scalar& s) {
  const auto* whole = std::get_if<std::int64_t>(&s.value);
  const auto* real = std::get_if<double>(&s.value);
  return (whole != nullptr && *whole == 2) || (real != nullptr && *real == 2.0);
}

std::shared_ptr<LazyNode> make_node(LazyNode::Kind kind, const Device& device, const Shape& shape, DType dtype) {
  auto node = std::make_shared<LazyNode>(device, shape, dtype);
  node->kind = kind;
  return node;
}

Array finish(std::shared_ptr<LazyNode> node) {
  settle(*node);
  return Array(std::move(node));
}

}  // namespace

// -- nodes
// ----------------------------------------------------------------------------------------------------------------

LazyNode::LazyNode(const Device& on, Shape result_shape, DType result_dtype)
    : device(on), shape(result_shape), dtype(result_dtype), before(newest) {
  if (before != nullptr) before->after = this;
  newest = this;
}

LazyNode::~LazyNode() {
  if (before != nullptr) before->after = after;
  if (after != nullptr) after->before = before;
  if (newest == this) newest = before;
}

namespace {

/// Operands that were recorded since the node was made are tensors of their own now, and may be too many together.
void cut(LazyNode& node) {
  for (measure(node); !fits(node); measure(node)) {
    // Held: while it is recorded another thread may record the node, which drops its operands then.
    std::shared_ptr<LazyNode> largest;
    for (const LazyInput& input : node.inputs) {
      LazyNode* inner = pending_in(input);
      if (inner == nullptr) continue;
      measure(*inner);
      if (largest == nullptr || inner->tensors > largest->tensors) largest = std::get<std::shared_ptr<LazyNode>>(input);
    }
    if (largest == nullptr) return;  // one operation alone always fits
    force(*largest);
    if (node.value) return;
  }
}

}  // namespace

const Tensor& force(LazyNode& node) {
  if (node.value) return *node.value;
  cut(node);
  if (node.value) return *node.value;
  // The expression is read under the interpreter's lock; another thread may record it too, and the first one counts.
  Tensor made = Builder().run(node);
  if (!node.value) {
    node.value.emplace(std::move(made));
    node.inputs = {};
  }
  return *node.value;
}

void flush_readers(const Buffer& buffer) {
  const std::uint64_t allocation = buffer.allocation_id();
  std::vector<std::shared_ptr<LazyNode>> found;  // held: another thread may drop them while one is recorded
  for (LazyNode* node = newest; node != nullptr; node = node->before) {
    if (!node->held || node->value) continue;
    std::unordered_set<const LazyNode*> seen;
    if (reads(*node, allocation, seen)) found.push_back(node->shared_from_this());
  }
  // Oldest first: later ones then read what the earlier ones made.
  for (auto node = found.rbegin(); node != found.rend(); ++node) force(**node);
}

LazyScope::LazyScope(bool on) noexcept : outer_(std::exchange(lazy, on)) {}
LazyScope::~LazyScope() {
  lazy = outer_;
}

// -- Array
// ----------------------------------------------------------------------------------------------------------------

Array::Array(Tensor tensor) : tensor_(std::move(tensor)), trace_(current_trace_id()) {}
Array::Array(std::shared_ptr<LazyNode> node) : node_(std::move(node)), trace_(current_trace_id()) {}

Array::~Array() {
  if (node_) node_->held = false;
  if (forked()) [[unlikely]] {  // on purpose
    new (std::nothrow) Tensor(std::move(tensor_));
    new (std::nothrow) std::shared_ptr<LazyNode>(std::move(node_));
  }
}

void Array::check() const {
  check_process();
  check_trace(trace_);
}

void Array::settle() const {
  const std::shared_ptr<LazyNode> node = node_;
  if (trace_ != current_trace_id()) {
    // Used in a trace, and not made there: its work is no part of the graph.
    const OutsideTrace outside;
    force(*node);
  } else {
    force(*node);
  }
  if (!node_) return;  // another thread was faster
  tensor_ = node->value.value();
  node_->held = false;
  node_.reset();
}

const Tensor& Array::get() const {
  check();
  if (node_) settle();
  if (trace_ != current_trace_id()) [[unlikely]]
    note_constant(tensor_);
  return tensor_;
}

const std::shared_ptr<LazyNode>& Array::pending() const {
  check();
  if (node_ && (node_->value || trace_ != current_trace_id())) settle();
  return node_;
}

const Shape& Array::shape() const noexcept {
  return node_ ? node_->shape : tensor_.shape();
}
DType Array::dtype() const noexcept {
  return node_ ? node_->dtype : tensor_.dtype();
}
const Device& Array::device() const {
  return node_ ? node_->device : tensor_.device();
}

// -- operands
// -------------------------------------------------------------------------------------------------------------

LazyInput ElementOperand::input() const {
  if (own_) return *own_;
  if (const auto& node = array_->pending()) return node;
  return array_->get();
}

std::optional<ElementOperand> try_element(nb::handle h, const Device* beside) {
  if (is_array(h)) return ElementOperand(*nb::inst_ptr<Array>(h));
  auto operand = try_operand(h, beside);
  if (!operand) return std::nullopt;
  if (auto* tensor = std::get_if<Tensor>(&*operand)) return ElementOperand(std::move(*tensor));
  const Scalar& number = std::get<Scalar>(*operand);
  if (!std::holds_alternative<double>(number.value)) return ElementOperand(number);
  // A whole number that came out as a float is one of more than 64 bits.
  if (PyFloat_Check(h.ptr()) == 0 && PyIndex_Check(h.ptr()) != 0) return ElementOperand(number, true);
  if (PyFloat_CheckExact(h.ptr()) != 0 || !nb::hasattr(h, "itemsize")) return ElementOperand(number);
  const bool half = nb::cast<std::string>(h.attr("dtype").attr("name")) == "float16";
  return ElementOperand(number, false, half ? DType::f16 : DType::f32);
}

ElementOperand to_element(OperandLike a, const std::optional<Device>& beside) {
  if (auto found = try_element(a.given, beside ? &*beside : nullptr)) return *found;
  return ElementOperand(to_tensor(ArrayLike{a.given}, beside));  // says what it is
}

ElementOperand to_element(ArrayLike a, const std::optional<Device>& beside) {
  if (is_array(a.given)) return ElementOperand(*nb::inst_ptr<Array>(a.given));
  return ElementOperand(to_tensor(a, beside));
}

DType meeting(DType array, const ElementOperand& number) {
  // Integers meet every float in float32 anyway, and are compared exactly as they are.
  const bool counts = number.own_dtype() && array != DType::i32 && array != DType::u32;
  return counts ? ops::promote(array, *number.own_dtype()) : array;
}

ElementOperand number_array(const ElementOperand& number, const Device& device, std::optional<DType> beside) {
  if (number.is_huge() && !(beside && is_float(*beside))) {
    throw Error(ErrorCode::out_of_range, "a number of more than 64 bits that no array of floats stands beside",
                "use a smaller number, or a float");
  }
  if (number.own_dtype()) beside = meeting(beside.value_or(*number.own_dtype()), number);
  return ElementOperand(to_tensor(Operand(number.number()), device, beside));
}

// -- operations
// -----------------------------------------------------------------------------------------------------------

Array element_unary(UnaryOp op, const ElementOperand& x) {
  if (lazy) {
    const DType dtype = ops::unary_types(op, x.dtype()).result;
    if (can_wait(x.device(), x.shape(), dtype)) {
      auto node = make_node(LazyNode::Kind::unary, x.device(), x.shape(), dtype);
      node->unary = op;
      node->inputs[0] = x.input();
      return finish(std::move(node));
    }
  }
  const Tensor& t = x.tensor();
  return record([&] { return unary(op, t); });
}

Array element_binary(BinaryOp op, const ElementOperand& a, const ElementOperand& b) {
  if (a.is_number() || b.is_number()) {
    const ElementOperand& number = a.is_number() ? a : b;
    const ElementOperand& other = a.is_number() ? b : a;
    if (const DType meets = meeting(other.dtype(), number); meets != other.dtype()) {
      const Array met = element_cast(other, meets);
      const ElementOperand weak(number.number());
      return a.is_number() ? element_binary(op, weak, element(met)) : element_binary(op, element(met), weak);
    }
    if (ops::is_comparison(op)) {
      const BinaryOp code = a.is_number() ? ops::swapped(op) : op;
      const auto fitting = ops::comparison_beside(other.dtype(), code, number.number());
      if (fitting) return element_binary(fitting->op, other, ElementOperand(fitting->number));
      if (a.is_number()) return element_binary(code, other, number);
    } else if (number.is_huge() && !is_float(other.dtype()) && op != BinaryOp::divide && op != BinaryOp::atan2) {
      throw Error(ErrorCode::out_of_range, "a number of more than 64 bits beside an array of integers",
                  "use a smaller number, or a float");
    }
  }
  if (lazy && share_device(a, b)) {
    const bool numbers = a.is_number() || b.is_number();
    const ElementOperand& first = a.is_number() ? b : a;
    if (op == BinaryOp::power && b.is_number() && is_float(a.dtype()) && is_two(b.number())) {
      return element_unary(UnaryOp::square, a);  // as the library does
    }
    const auto beside = [op](const ElementOperand& n, const ElementOperand& x) {
      return LazyInput(number_beside(ops::number_for(op, x.dtype(), n.number()), x.dtype()));
    };
    LazyInput left = a.is_number() ? beside(a, b) : LazyInput();
    LazyInput right = b.is_number() ? beside(b, a) : LazyInput();
    const DType meets = ops::promote(first.dtype(), a.is_number()   ? std::get<LazyNumber>(left).dtype
                                                    : b.is_number() ? std::get<LazyNumber>(right).dtype
                                                                    : b.dtype());
    const DType dtype = ops::binary_types(op, meets).result;
    const Shape shape = numbers ? first.shape() : broadcast_shapes(a.shape(), b.shape());
    if (can_wait(first.device(), shape, dtype)) {
      if (!a.is_number()) left = a.input();
      if (!b.is_number()) right = b.input();
      auto node = make_node(LazyNode::Kind::binary, first.device(), shape, dtype);
      node->binary = op;
      node->inputs = {std::move(left), std::move(right), {}};
      return finish(std::move(node));
    }
  }
  if (a.is_number()) {
    const Tensor& y = b.tensor();
    return record([&] { return binary(op, a.number(), y); });
  }
  const Tensor& x = a.tensor();
  if (b.is_number()) return record([&] { return binary(op, x, b.number()); });
  const Tensor& y = b.tensor();
  return record([&] { return binary(op, x, y); });
}

Array element_where(const ElementOperand& condition, const ElementOperand& a, const ElementOperand& b) {
  if (lazy && share_device(condition, a) && share_device(condition, b)) {
    const DType dtype = ops::promote(a.dtype(), b.dtype());
    const Shape shape = broadcast_shapes(broadcast_shapes(condition.shape(), a.shape()), b.shape());
    if (can_wait(condition.device(), shape, dtype)) {
      std::array<LazyInput, 3> inputs{condition.input(), a.input(), b.input()};
      auto node = make_node(LazyNode::Kind::where, condition.device(), shape, dtype);
      node->inputs = std::move(inputs);
      return finish(std::move(node));
    }
  }
  const Tensor& c = condition.tensor();
  const Tensor& x = a.tensor();
  const Tensor& y = b.tensor();
  return record([&] { return where(c, x, y); });
}

Array element_cast(const ElementOperand& x, DType dtype) {
  if (lazy && can_wait(x.device(), x.shape(), dtype)) {
    auto node = make_node(LazyNode::Kind::cast, x.device(), x.shape(), dtype);
    node->inputs[0] = x.input();
    return finish(std::move(node));
  }
  const Tensor& t = x.tensor();
  return record([&] { return cast(t, dtype); });
}

Array element_clamp(const ElementOperand& x, const Scalar& low, const Scalar& high) {
  if (lazy) {
    // min(max(x, low), high), both in the dtype that all three meet in.
    const DType meets = ops::promote(ops::promote(x.dtype(), low), high);
    if (can_wait(x.device(), x.shape(), meets)) {
      const auto step = [&](BinaryOp op, LazyInput input, const Scalar& bound) {
        ops::ElementProgram().scalar(bound, meets);  // throws when it does not fit
        auto node = make_node(LazyNode::Kind::binary, x.device(), x.shape(), meets);
        node->binary = op;
        node->inputs = {std::move(input), LazyNumber{bound, meets}, {}};
        return finish(std::move(node));
      };
      ops::ElementProgram().scalar(high, meets);
      const Array raised = step(
          BinaryOp::maximum, x.dtype() == meets ? x.input() : LazyInput(element(element_cast(x, meets)).input()), low);
      return step(BinaryOp::minimum, element(raised).input(), high);
    }
  }
  const Tensor& t = x.tensor();
  return record([&] { return clamp(t, low, high); });
}

void bind_lazy(nb::module_& m) {
  struct PyLazy {
    bool on;
    std::vector<bool> outer;
  };
  nb::class_<PyLazy>(
      m, "lazy",
      "In a with-block, on its thread: elementwise operations wait until their elements are needed, and "
      "run as one kernel.\n\n"
      "Results and errors are the same: shapes and dtypes are checked at each call. lazy(False) turns it "
      "off inside another block.")
      .def(
          "__init__", [](PyLazy* self, bool on) { new (self) PyLazy{on, {}}; }, nb::arg("on") = true)
      .def("__enter__", [](PyLazy& self) { self.outer.push_back(std::exchange(lazy, self.on)); })
      .def(
          "__exit__",
          [](PyLazy& self, nb::handle, nb::handle, nb::handle) {
            if (self.outer.empty()) return;
            lazy = self.outer.back();
            self.outer.pop_back();
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
  m.def(
      "_is_readable", [](const Array& a) { return a.trace() == 0 && current_trace_id() == 0; },
      "False in a trace, and for what one made.");
  m.def("_is_pending", [](const Array& a) { return a.pending() != nullptr; });
}

}  // namespace weft::python
