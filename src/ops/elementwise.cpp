#include "ops/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/half.h"
#include "ops/element_codegen.h"
#include "ops/launch.h"
#include "ops/result.h"
#include "ops/scalar.h"
#include "ops/view_of.h"
#include "weft/error.h"
#include "weft/stream.h"

namespace weft::ops {
namespace {

using Kind = ElementNode::Kind;

/// The strides that show `x` in `shape`, which it broadcasts to.
Strides stretched(const Tensor& x, const Shape& shape) {
  Strides out;
  const std::size_t lead = shape.rank() - std::min(shape.rank(), x.rank());
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (axis < lead) {
      out.push_back(0);
      continue;
    }
    const std::int64_t length = x.shape()[axis - lead];
    if (length != shape[axis] && length != 1) break;
    out.push_back(length == shape[axis] ? x.strides()[axis - lead] : 0);
  }
  if (x.rank() > shape.rank() || out.rank() != shape.rank()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("elementwise: an input of shape {} does not broadcast to {}", to_string(x.shape()),
                            to_string(shape)),
                "use the shape that all inputs broadcast to");
  }
  return out;
}

/// A tensor's memory, walked by the axes of the output.
struct Operand {
  const Tensor* tensor = nullptr;
  std::int64_t offset = 0;
  Strides strides;
};

/// A part of the output that one dispatch can do.
struct Piece {
  Shape shape;
  Operand out;
  std::vector<Operand> inputs;
  std::int64_t first = 0;  ///< flat index of its first element
  bool last = true;        ///< ends where the output ends
};

/// What to bind to show an operand.
struct Reach {
  std::uint64_t begin = 0;   ///< bytes, a multiple of the offset alignment
  std::uint64_t size = 0;    ///< bytes; up to 15 more than needed where the memory has them, for whole quads
  std::uint64_t offset = 0;  ///< of the first element, in elements from begin
};

Reach reach_of(const Operand& x, const Shape& shape) {
  std::int64_t low = x.offset;
  std::int64_t high = x.offset;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t way = (shape[axis] - 1) * x.strides[axis];
    (way < 0 ? low : high) += way;
  }
  const std::uint64_t item = size_of(x.tensor->dtype());
  const std::uint64_t alignment = x.tensor->device().limits().min_storage_offset_alignment;
  Reach r;
  r.begin = static_cast<std::uint64_t>(low) * item / alignment * alignment;
  const std::uint64_t end = (static_cast<std::uint64_t>(high) + 1) * item;
  r.size = std::min<std::uint64_t>((end - r.begin + 15) / 16 * 16, x.tensor->buffer().allocation_size() - r.begin);
  r.offset = static_cast<std::uint64_t>(x.offset) - r.begin / item;
  return r;
}

bool is_dense(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != step) return false;
    step *= shape[axis];
  }
  return true;
}

bool is_fixed(const Shape& shape, const Strides& strides) {
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != 1 && strides[axis] != 0) return false;
  }
  return true;
}

/// Drops axes of length 1 and merges neighbours that every operand walks in one step.
void merge_axes(Piece& p) {
  const auto each = [&](auto&& f) {
    f(p.out);
    for (Operand& x : p.inputs) f(x);
  };
  for (std::size_t axis = p.shape.rank(); axis-- > 0;) {
    if (p.shape[axis] != 1) continue;
    p.shape.erase(axis);
    each([&](Operand& x) { x.strides.erase(axis); });
  }
  for (std::size_t axis = p.shape.rank(); axis-- > 1;) {
    bool joint = true;
    each([&](Operand& x) { joint = joint && x.strides[axis - 1] == x.strides[axis] * p.shape[axis]; });
    if (!joint) continue;
    p.shape[axis - 1] *= p.shape[axis];
    p.shape.erase(axis);
    each([&](Operand& x) {
      x.strides[axis - 1] = x.strides[axis];
      x.strides.erase(axis);
    });
  }
  if (p.shape.rank() == 0) {
    p.shape.push_back(1);
    each([](Operand& x) { x.strides.push_back(1); });
  }
}

std::uint32_t bits_of(const Scalar& s, DType dtype) {
  const auto real = [&] {
    if (const auto* d = std::get_if<double>(&s.value)) return *d;
    if (const auto* i = std::get_if<std::int64_t>(&s.value)) return static_cast<double>(*i);
    return std::get<bool>(s.value) ? 1.0 : 0.0;
  };
  const auto whole = [&](std::int64_t low, std::int64_t high) {
    if (const auto* i = std::get_if<std::int64_t>(&s.value)) return *i;
    const double d = real();
    if (std::isnan(d)) return std::int64_t{0};
    return static_cast<std::int64_t>(std::clamp(std::trunc(d), static_cast<double>(low), static_cast<double>(high)));
  };
  switch (dtype) {
    case DType::bool_: return real() != 0.0 ? 1u : 0u;
    case DType::i32:
      return static_cast<std::uint32_t>(
          whole(std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
    case DType::u32: return static_cast<std::uint32_t>(whole(0, std::numeric_limits<std::uint32_t>::max()));
    case DType::f16: return std::bit_cast<std::uint32_t>(static_cast<float>(nearest_half(real())));
    case DType::f32: break;
  }
  return std::bit_cast<std::uint32_t>(static_cast<float>(real()));
}

/// What a run fills anew for each dispatch. One a thread, kept, because small ops are many and allocations dear.
struct Scratch {
  ElementValues values;
  ElementForm form;
  std::string key;
  std::vector<dispatch::Operand> operands;
  std::vector<std::uint32_t> words;
};

Scratch& scratch() {
  static thread_local Scratch s;
  s.values.scalars.clear();
  return s;
}

/// Runs one program over one output.
class Run {
 public:
  Run(const ElementSlice& program, const std::vector<Tensor>& inputs, const std::vector<Scalar>& scalars,
      const Tensor& out, bool owns_out)
      : program_(program), device_(out.device()), owns_out_(owns_out), scratch_(scratch()) {
    for (std::size_t i = 0; i < program.scalars.size(); ++i) {
      values_.scalars.push_back(
          bits_of(scalars[static_cast<std::size_t>(program.scalars[i])], program.scalar_dtypes[i]));
    }
    Piece all;
    all.shape = out.shape();
    all.out = {&out, out.offset(), out.strides()};
    all.inputs.reserve(program.inputs.size());
    for (std::int32_t i : program.inputs) {
      const Tensor& x = inputs[static_cast<std::size_t>(i)];
      all.inputs.push_back({&x, x.offset(), stretched(x, out.shape())});
      in_place_[all.inputs.size() - 1] = is_in_place(x, all.inputs.back().strides, out, i);
    }
    split(std::move(all));
  }

 private:
  static bool is_in_place(const Tensor& x, const Strides& strides, const Tensor& out, std::int32_t number) {
    if (x.buffer().allocation_id() != out.buffer().allocation_id()) return false;
    if (x.dtype() == out.dtype() && x.offset() == out.offset() && is_dense(out.shape(), strides)) return true;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("elementwise: input {} ({} {}, strides {}, from element {}) and the output ({} {}, from "
                            "element {}) share buffer {}, and are not the same elements",
                            number, to_string(x.dtype()), to_string(x.shape()), to_string(x.strides()), x.offset(),
                            to_string(out.dtype()), to_string(out.shape()), out.offset(), out.buffer().id()),
                "write to another buffer");
  }

  /// Halves the piece until every operand can be bound and 32 bits count its elements.
  void split(Piece p) {
    merge_axes(p);
    const Operand* worst = nullptr;
    std::uint64_t most = 0;
    const auto look = [&](const Operand& x) {
      const std::uint64_t size = reach_of(x, p.shape).size;
      if (size > device_.limits().max_storage_binding_size && size > most) {
        worst = &x;
        most = size;
      }
    };
    look(p.out);
    for (const Operand& x : p.inputs) look(x);
    const std::uint64_t count = static_cast<std::uint64_t>(element_count(p.shape));
    constexpr std::uint64_t kMost = (std::uint64_t{1} << 32) - 4096;
    if (worst == nullptr && count <= kMost) {
      launch(p, static_cast<std::uint32_t>(count));
      return;
    }
    std::size_t axis = 0;
    // Inside an axis the parts of the output are no longer dense; bools share words, so theirs must be.
    if (worst != nullptr && program_.dtype != DType::bool_) {
      const auto way = [&](std::size_t i) { return std::abs(worst->strides[i]) * (p.shape[i] - 1); };
      for (std::size_t i = 1; i < p.shape.rank(); ++i) {
        if (way(i) > way(axis)) axis = i;
      }
    }
    const std::int64_t length = p.shape[axis];
    if (length < 2) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("elementwise: one element takes a binding of {} bytes, and the device binds {}", most,
                              device_.limits().max_storage_binding_size),
                  "use another device");
    }
    constexpr std::int64_t kUnit = 1024;
    const std::int64_t half = length >= 2 * kUnit ? length / 2 / kUnit * kUnit : length / 2;
    Piece low = p;
    low.shape[axis] = half;
    low.last = false;
    Piece high = std::move(p);
    high.shape[axis] = length - half;
    high.out.offset += half * high.out.strides[axis];
    high.first += half * high.out.strides[axis];
    for (Operand& x : high.inputs) x.offset += half * x.strides[axis];
    split(std::move(low));
    split(std::move(high));
  }

  void launch(const Piece& p, std::uint32_t count) {
    const std::size_t rank = p.shape.rank();
    const std::size_t inner = rank - 1;
    const Reach out = reach_of(p.out, p.shape);
    const auto shift = static_cast<std::uint32_t>(out.offset % 4);
    const bool dense = is_dense(p.shape, p.out.strides);
    const auto quads_in = [](const Reach& r, DType t) { return r.size / (4 * size_of(t)); };

    ElementForm& form = scratch_.form;
    form.inputs.clear();
    form.rank = static_cast<std::uint32_t>(rank);
    values_.count = count;
    values_.shift = 0;
    const std::uint64_t spanned = (std::uint64_t{count} + shift + 3) / 4;
    if (dense && (out.offset - shift) / 4 + spanned <= quads_in(out, program_.dtype)) {
      values_.shift = shift;
      const bool even = shift == 0 && count % 4 == 0;
      form.store = even || (shift == 0 && owns_out_ && p.last) ? Store::whole : Store::edges;
    } else {
      form.store = Store::element;
    }
    values_.quads = static_cast<std::uint32_t>((std::uint64_t{count} + values_.shift + 3) / 4);
    values_.first = static_cast<std::uint32_t>(p.first);
    values_.out_offset =
        static_cast<std::uint32_t>(form.store == Store::element ? out.offset : (out.offset - values_.shift) / 4);
    form.out_at_0 = form.store == Store::whole && values_.out_offset == 0;
    form.strided_out = form.store == Store::element && !dense;
    form.rows = rank > 1 && p.shape[inner] % 4 == 0 && values_.shift == 0;

    values_.offsets.clear();
    if (values_.strides.size() < p.inputs.size()) values_.strides.resize(p.inputs.size());
    std::vector<dispatch::Operand>& operands = scratch_.operands;
    operands.clear();
    for (std::size_t k = 0; k < p.inputs.size(); ++k) {
      const Operand& x = p.inputs[k];
      const Reach in = reach_of(x, p.shape);
      if (in_place_[k]) {
        form.inputs.push_back(Access::in_place);
        values_.offsets.push_back(0);
        continue;
      }
      const DType t = x.tensor->dtype();
      Access access = Access::strided;
      std::uint64_t offset = in.offset;
      if (is_fixed(p.shape, x.strides)) {
        access = Access::single;
      } else if (dense && is_dense(p.shape, x.strides)) {
        const bool aligned = in.offset >= values_.shift && (in.offset - values_.shift) % 4 == 0 &&
                             (in.offset - values_.shift) / 4 + values_.quads <= quads_in(in, t);
        access = aligned ? Access::quad : Access::element;
        if (aligned) offset = (in.offset - values_.shift) / 4;
        if (aligned && offset == 0) access = Access::quad_at_0;
      } else if (form.rows) {
        bool aligned = x.strides[inner] == 1 && in.offset % 4 == 0;
        for (std::size_t axis = 0; axis < inner; ++axis) aligned = aligned && x.strides[axis] % 4 == 0;
        access = x.strides[inner] == 0 ? Access::row_single : aligned ? Access::row_quad : Access::row_any;
      }
      form.inputs.push_back(access);
      values_.offsets.push_back(static_cast<std::uint32_t>(offset));
      values_.strides[k].clear();
      for (std::int64_t s : x.strides) values_.strides[k].push_back(static_cast<std::uint32_t>(s));
      operands.push_back({&x.tensor->buffer().state(), in.begin, in.size});
    }
    operands.push_back({&p.out.tensor->buffer().state(), out.begin, out.size});
    values_.lengths.clear();
    for (std::int64_t n : p.shape) values_.lengths.push_back(static_cast<std::uint32_t>(n));
    values_.out_strides.clear();
    for (std::int64_t s : p.out.strides) values_.out_strides.push_back(static_cast<std::uint32_t>(s));

    element_key(program_, form, scratch_.key);
    const Kernel kernel = dispatch::library_kernel(state_of(device_), scratch_.key, [&] {
      KernelOptions options;
      options.source = element_source(program_, form);
      options.label = element_label(program_);
      return options;
    });
    element_params(kernel.params(), values_, words_);
    dispatch::record_dispatch(*device_.stream().state(), *kernel.state(), operands, std::as_bytes(std::span(words_)),
                              kernel.grid(grid_for(values_.quads)));
  }

  const ElementSlice& program_;
  const Device& device_;
  const bool owns_out_;
  std::array<bool, ElementProgram::kMaxInputs> in_place_{};
  Scratch& scratch_;
  ElementValues& values_ = scratch_.values;
  std::vector<std::uint32_t>& words_ = scratch_.words;
};

void check_storage(const Tensor& x) {
  if (has(x.buffer().usage(), Usage::storage)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("elementwise: buffer {} has usage {}, without storage", x.buffer().id(),
                          to_string(x.buffer().usage())),
              "allocate it with Usage::storage");
}

void execute(const ElementSlice& slice, const std::vector<Tensor>& inputs, const std::vector<Scalar>& scalars,
             std::size_t operations, const Tensor& out, bool owns_out) {
  std::array<const Tensor*, ElementProgram::kMaxInputs + 1> all{&out};
  for (std::size_t i = 0; i < inputs.size(); ++i) all[i + 1] = &inputs[i];
  const Device& device = common_device("elementwise", std::span(all.data(), inputs.size() + 1));
  for (const Tensor& x : inputs) stretched(x, out.shape());
  if (out.size() == 0) return;
  Run(slice, inputs, scalars, out, owns_out);
  if (operations > 1) state_of(device).counters.fused_ops.fetch_add(operations - 1, std::memory_order_relaxed);
}

}  // namespace

std::int32_t ElementProgram::input(const Tensor& x) {
  x.device();  // throws for an empty handle
  check_storage(x);
  std::size_t k = 0;
  while (k < inputs_.size() && !same_view(inputs_[k], x)) ++k;
  if (k < inputs_.size()) {
    const auto it = std::find_if(nodes_.begin(), nodes_.end(), [&](const ElementNode& n) {
      return n.kind == Kind::input && n.a == static_cast<std::int32_t>(k);
    });
    return static_cast<std::int32_t>(it - nodes_.begin());
  }
  if (inputs_.size() == kMaxInputs) {
    throw Error(ErrorCode::unsupported, fmt::format("elementwise: more than {} different inputs", kMaxInputs),
                "compute in two steps");
  }
  inputs_.push_back(x);
  ElementNode n;
  n.kind = Kind::input;
  n.dtype = x.dtype();
  n.a = static_cast<std::int32_t>(k);
  nodes_.push_back(n);
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

std::int32_t ElementProgram::scalar(const Scalar& value, DType dtype) {
  const auto* whole = std::get_if<std::int64_t>(&value.value);
  if (whole != nullptr && is_integer(dtype)) {
    const std::int64_t low = dtype == DType::u32 ? 0 : std::numeric_limits<std::int32_t>::min();
    const std::int64_t high = dtype == DType::u32 ? std::int64_t{std::numeric_limits<std::uint32_t>::max()}
                                                  : std::numeric_limits<std::int32_t>::max();
    if (*whole < low || *whole > high) {
      throw Error(ErrorCode::invalid_argument, fmt::format("the number {} does not fit {}", *whole, to_string(dtype)),
                  fmt::format("use a number from {} to {}", low, high));
    }
  }
  scalars_.push_back(value);
  ElementNode n;
  n.kind = Kind::scalar;
  n.dtype = dtype;
  n.a = static_cast<std::int32_t>(scalars_.size()) - 1;
  nodes_.push_back(n);
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

std::int32_t ElementProgram::iota() {
  ElementNode n;
  n.kind = Kind::iota;
  n.dtype = DType::i32;
  nodes_.push_back(n);
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

std::int32_t ElementProgram::unary(UnaryOp op, std::int32_t x) {
  ElementNode n;
  n.kind = Kind::unary;
  n.dtype = unary_types(op, dtype(x)).result;
  n.unary = op;
  n.a = x;
  nodes_.push_back(n);
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

std::int32_t ElementProgram::compare_signs(BinaryOp op, std::int32_t a, std::int32_t b) {
  if (dtype(a) == DType::u32) return compare_signs(swapped(op), b, a);
  // A number below 0 is below all of b; the others are compared as u32.
  const std::int32_t below = binary(BinaryOp::less, a, binary(BinaryOp::subtract, a, a));
  const std::int32_t compared = binary(op, cast(a, DType::u32), b);
  if (op == BinaryOp::less || op == BinaryOp::less_equal || op == BinaryOp::not_equal) {
    return binary(BinaryOp::bit_or, below, compared);
  }
  return binary(BinaryOp::bit_and, unary(UnaryOp::logical_not, below), compared);
}

std::int32_t ElementProgram::binary(BinaryOp op, std::int32_t a, std::int32_t b) {
  DType meets = promote(dtype(a), dtype(b));
  if (meets == DType::i32 && (dtype(a) == DType::u32 || dtype(b) == DType::u32)) {
    // i32 holds half of u32's numbers: what need not be one of them goes another way.
    if (is_comparison(op)) return compare_signs(op, a, b);
    if (is_float(binary_types(op, meets).result)) meets = DType::f32;
  }
  const DType result = binary_types(op, meets).result;
  ElementNode n;
  n.kind = Kind::binary;
  n.dtype = result;
  n.binary = op;
  n.a = cast(a, meets);
  n.b = cast(b, meets);
  nodes_.push_back(n);
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

std::int32_t ElementProgram::where(std::int32_t condition, std::int32_t a, std::int32_t b) {
  const DType meets = promote(dtype(a), dtype(b));
  ElementNode n;
  n.kind = Kind::where;
  n.dtype = meets;
  n.a = cast(condition, DType::bool_);
  n.b = cast(a, meets);
  n.c = cast(b, meets);
  nodes_.push_back(n);
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

std::int32_t ElementProgram::cast(std::int32_t x, DType to) {
  if (dtype(x) == to) return x;
  ElementNode n;
  n.kind = Kind::cast;
  n.dtype = to;
  n.a = x;
  nodes_.push_back(n);
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

std::size_t ElementProgram::operations() const noexcept {
  return static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const ElementNode& n) {
    return n.kind == Kind::unary || n.kind == Kind::binary || n.kind == Kind::where || n.kind == Kind::cast;
  }));
}

Tensor ElementProgram::run(const Device& device, const Shape& shape, std::int32_t result) const {
  const ElementSlice slice = slice_of(nodes_, result);
  if (Tensor given = take_target(device, shape, slice.dtype)) {
    run_into(given, result);
    return given;
  }
  const Tensor out = Device(device).empty(shape, slice.dtype);
  execute(slice, inputs_, scalars_, operations(), out, true);
  return out;
}

void ElementProgram::run_into(const Tensor& out, std::int32_t result) const {
  const ElementSlice slice = slice_of(nodes_, result);
  out.device();
  check_storage(out);
  if (out.dtype() != slice.dtype || !out.is_contiguous()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("elementwise: the result is {}, and the output given is {} {} with strides {}",
                    to_string(slice.dtype), to_string(out.dtype()), to_string(out.shape()), to_string(out.strides())),
        fmt::format("give a contiguous output of {}", to_string(slice.dtype)));
  }
  execute(slice, inputs_, scalars_, operations(), out, false);
}

}  // namespace weft::ops
