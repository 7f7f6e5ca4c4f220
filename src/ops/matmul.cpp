#include "ops/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "ops/copy.h"
#include "ops/infer.h"
#include "ops/launch.h"
#include "ops/matmul_codegen.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

constexpr std::string_view kOp = "matmul";

/// c = a @ b (+ bias), all with the same batch axes in front of their last two. a, b and the bias may repeat elements
/// (stride 0); the bias has c's shape, or is empty. c's batch axes follow each other without gaps.
struct Product {
  Tensor a, b, c, bias;

  std::size_t batch_rank() const { return c.rank() - 2; }
  std::int64_t m() const { return c.shape()[c.rank() - 2]; }
  std::int64_t n() const { return c.shape().back(); }
  std::int64_t k() const { return a.shape().back(); }
  std::int64_t batch() const {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < batch_rank(); ++i) count *= c.shape()[i];
    return count;
  }
};

Tensor view(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset) {
  return Tensor(x.device(), x.buffer(), shape, strides, offset, x.dtype());
}

/// x[start : start + count] on one axis counted from the end (0 is the last).
Tensor narrow(const Tensor& x, std::size_t from_end, std::int64_t start, std::int64_t count) {
  const std::size_t axis = x.rank() - 1 - from_end;
  Shape shape = x.shape();
  shape[axis] = count;
  return view(x, shape, x.strides(), x.offset() + start * x.strides()[axis]);
}

Tensor swap_last_two(const Tensor& x) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape[x.rank() - 1], shape[x.rank() - 2]);
  std::swap(strides[x.rank() - 1], strides[x.rank() - 2]);
  return view(x, shape, strides, x.offset());
}

Tensor with_axis(const Tensor& x, std::size_t at, std::int64_t length, std::int64_t stride) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.insert(at, length);
  strides.insert(at, stride);
  return view(x, shape, strides, x.offset());
}

Tensor as_dtype(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : cast(x, dtype);
}

/// How a matrix operand lies: one axis side by side, the other in lines.
struct Lie {
  bool inner_side_by_side = false;  ///< the axis that is summed over
  std::int64_t line = 0;            ///< from one line to the next
};
std::optional<Lie> lie_of(std::int64_t outer_length, std::int64_t outer_stride, std::int64_t inner_length,
                          std::int64_t inner_stride) {
  const auto lines = [](std::int64_t length, std::int64_t stride) { return length == 1 ? 0 : stride; };
  const std::int64_t outer_line = lines(outer_length, outer_stride);
  const std::int64_t inner_line = lines(inner_length, inner_stride);
  const bool inner_first = inner_stride == 1 && !(inner_length == 1 && outer_stride == 1);
  if (inner_first && outer_line >= 0) return Lie{true, outer_line};
  if (outer_stride == 1 && inner_line >= 0) return Lie{false, inner_line};
  if (inner_length == 1 && outer_line >= 0) return Lie{true, outer_line};
  if (outer_length == 1 && inner_line >= 0) return Lie{false, inner_line};
  return std::nullopt;
}
std::optional<Lie> lie_of_a(const Tensor& a) {
  const std::size_t r = a.rank();
  return lie_of(a.shape()[r - 2], a.strides()[r - 2], a.shape()[r - 1], a.strides()[r - 1]);
}
std::optional<Lie> lie_of_b(const Tensor& b) {
  return lie_of_a(swap_last_two(b));
}

/// The operand itself when kernels can take it as it lies, else a dense copy.
Tensor readable(const Tensor& x) {
  for (std::size_t i = 0; i + 2 < x.rank(); ++i) {
    if (x.strides()[i] < 0) return contiguous(x);
  }
  return lie_of_a(x) && lie_of_b(x) ? x : contiguous(x);
}

/// Joins batch axes that all four step through alike, and drops those of length 1.
Product collapse(const Product& p) {
  const std::array<const Tensor*, 4> all{&p.a, &p.b, &p.c, &p.bias};
  std::array<Shape, 4> shapes;
  std::array<Strides, 4> strides;
  for (std::size_t axis = p.batch_rank(); axis-- > 0;) {
    const std::int64_t length = p.c.shape()[axis];
    if (length == 1) continue;
    bool joins = !shapes[2].empty();
    for (std::size_t i = 0; joins && i < all.size(); ++i) {
      joins = !*all[i] || all[i]->strides()[axis] == shapes[i][0] * strides[i][0];
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!*all[i]) continue;
      if (joins) {
        shapes[i][0] *= length;
      } else {
        shapes[i].insert(0, length);
        strides[i].insert(0, all[i]->strides()[axis]);
      }
    }
  }
  Product out;
  const std::array<Tensor*, 4> results{&out.a, &out.b, &out.c, &out.bias};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor& x = *all[i];
    if (!x) continue;
    for (std::size_t axis = x.rank() - 2; axis < x.rank(); ++axis) {
      shapes[i].push_back(x.shape()[axis]);
      strides[i].push_back(x.strides()[axis]);
    }
    *results[i] = view(x, shapes[i], strides[i], x.offset());
  }
  return out;
}

/// Where the same b serves the whole batch and a's rows go on from matrix to matrix, all is one taller product.
Product batch_to_rows(const Product& p) {
  if (p.batch_rank() != 1 || p.b.strides()[0] != 0) return p;
  for (const Tensor* x : {&p.a, &p.c, &p.bias}) {
    if (*x && p.m() != 1 && x->strides()[0] != x->shape()[1] * x->strides()[1]) return p;
  }
  const auto join = [&](const Tensor& x) {
    if (!x) return x;
    const std::int64_t row = p.m() == 1 ? x.strides()[0] : x.strides()[1];
    return view(x, {x.shape()[0] * x.shape()[1], x.shape()[2]}, {row, x.strides()[2]}, x.offset());
  };
  Product out;
  out.a = join(p.a);
  out.b = view(p.b, {p.b.shape()[1], p.b.shape()[2]}, {p.b.strides()[1], p.b.strides()[2]}, p.b.offset());
  out.c = join(p.c);
  out.bias = join(p.bias);
  // A layout that no kernel takes is not worth the copy.
  return lie_of_a(out.a) ? out : p;
}

class Multiplier {
 public:
  Multiplier(const Device& device, const MatmulTuning& tuning)
      : device_(device),
        class_(tuning.device.value_or(is_cpu(device) ? DeviceClass::cpu : DeviceClass::gpu)),
        limit_(std::min(tuning.most_bytes, device.limits().max_storage_binding_size)),
        row_groups_(tuning.row_groups) {}

  /// a and b are readable(); their batch axes may be broadcast.
  void run(const Product& given) const {
    Product p = collapse(given);
    if (p.batch_rank() > 3) {
      p.a = contiguous(p.a);
      p.b = contiguous(p.b);
      if (p.bias) p.bias = contiguous(p.bias);
      p = collapse(p);
    }
    p = batch_to_rows(p);
    p.a = bindable(p.a);
    p.b = bindable(p.b);
    p.bias = bindable(p.bias);
    if (too_large(p)) {
      run_in_slices(p);
      return;
    }
    // A row times a matrix is the turned matrix times a column.
    if (p.m() == 1 && p.n() != 1) p = turned(p);

    const Lie a = *lie_of_a(p.a);
    const Lie b = *lie_of_b(p.b);
    MatmulProblem problem;
    problem.m = static_cast<std::uint64_t>(p.m());
    problem.n = static_cast<std::uint64_t>(p.n());
    problem.k = static_cast<std::uint64_t>(p.k());
    problem.batch = static_cast<std::uint64_t>(p.batch());
    problem.dtype = p.a.dtype();
    problem.a_transposed = !a.inner_side_by_side;
    problem.b_transposed = b.inner_side_by_side;
    const MatmulPlan plan = choose(class_, device_.limits(), problem);
    if (plan.splits > 1) {
      run_in_parts(p, plan.splits);
    } else {
      launch_one(p, plan, problem, a, b);
    }
  }

 private:
  static Product turned(const Product& p) {
    Product out;
    out.a = swap_last_two(p.b);
    out.b = swap_last_two(p.a);
    out.c = swap_last_two(p.c);
    if (p.bias) out.bias = swap_last_two(p.bias);
    return out;
  }

  bool too_large(const Product& p) const {
    for (const Tensor* x : {&p.a, &p.b, &p.c, &p.bias}) {
      if (*x && window_bytes(*x) > limit_) return true;
    }
    return false;
  }

  /// A dense copy where the elements are few enough to bind, but lie scattered over too much memory.
  Tensor bindable(const Tensor& x) const {
    return x && window_bytes(x) > limit_ && x.nbytes() + device_.limits().min_storage_offset_alignment <= limit_
               ? contiguous(x)
               : x;
  }

  /// Some operand is over the binding limit: halves the product along its batch, rows, columns, or inner axis.
  void run_in_slices(const Product& p) const {
    const auto halves = [&](std::int64_t length, auto&& slice) {
      for (std::int64_t start : {std::int64_t{0}, length / 2}) {
        const std::int64_t count = start == 0 ? length / 2 : length - length / 2;
        run(slice(start, count));
      }
    };
    const auto cut = [](const Tensor& x, std::size_t from_end, std::int64_t start, std::int64_t count) {
      return x ? narrow(x, from_end, start, count) : x;
    };
    if (p.batch_rank() > 0) {  // collapse() left axes longer than 1 only
      const std::size_t from_end = p.c.rank() - 1;
      halves(p.c.shape()[0], [&](std::int64_t start, std::int64_t count) {
        return Product{cut(p.a, from_end, start, count), cut(p.b, from_end, start, count),
                       cut(p.c, from_end, start, count), cut(p.bias, from_end, start, count)};
      });
      return;
    }
    const bool only_b = window_bytes(p.a) <= limit_ && window_bytes(p.c) <= limit_ && window_bytes(p.b) > limit_;
    if (p.m() > 1 && !only_b) {
      halves(p.m(), [&](std::int64_t start, std::int64_t count) {
        return Product{cut(p.a, 1, start, count), p.b, cut(p.c, 1, start, count), cut(p.bias, 1, start, count)};
      });
    } else if (p.n() > 1) {
      halves(p.n(), [&](std::int64_t start, std::int64_t count) {
        return Product{p.a, cut(p.b, 0, start, count), cut(p.c, 0, start, count), cut(p.bias, 0, start, count)};
      });
    } else if (p.m() > 1) {
      halves(p.m(), [&](std::int64_t start, std::int64_t count) {
        return Product{cut(p.a, 1, start, count), p.b, cut(p.c, 1, start, count), cut(p.bias, 1, start, count)};
      });
    } else {
      run_in_parts(p, 2);
    }
  }

  /// Cuts the inner axis into `parts`, multiplies them as a batch and adds up: for few results with a long inner axis.
  void run_in_parts(const Product& p, std::uint32_t parts) const {
    const std::int64_t k = p.k();
    const std::int64_t part = ((k + parts - 1) / parts + 3) / 4 * 4;
    const std::int64_t whole = k / part;
    const std::int64_t rest = k % part;
    const std::int64_t results = p.batch() * p.m() * p.n();
    const DType sum_dtype = is_float(p.a.dtype()) ? DType::f32 : p.a.dtype();
    const std::int64_t rows = whole + (rest != 0);
    const Tensor sums = Device(device_).empty({rows, results}, sum_dtype);

    const std::size_t a_inner = p.a.rank() - 1;
    const std::size_t b_inner = p.b.rank() - 2;
    const auto multiply = [&](std::int64_t first, std::int64_t count, std::int64_t length) {
      if (count == 0) return;
      const std::int64_t start = first * part;
      const std::int64_t a_step = part * p.a.strides()[a_inner];
      const std::int64_t b_step = part * p.b.strides()[b_inner];
      Shape shape = p.c.shape();
      shape.insert(0, count);
      Product piece;
      piece.a = with_axis(narrow(p.a, 0, start, length), 0, count, a_step);
      piece.b = with_axis(narrow(p.b, 1, start, length), 0, count, b_step);
      piece.c = view(sums, shape, contiguous_strides(shape), first * results);
      run(piece);
    };
    multiply(0, whole, part);
    multiply(whole, rest != 0 ? 1 : 0, rest);

    Tensor total = reduce(ReduceOp::sum, sums, {.axes = std::vector<std::int64_t>{0}, .keepdims = false});
    total = view(total, p.c.shape(), contiguous_strides(p.c.shape()), total.offset());
    if (p.bias) total = binary(BinaryOp::add, total, p.bias);
    copy_into(p.c, as_dtype(total, p.c.dtype()), kOp);
  }

  void launch_one(const Product& p, const MatmulPlan& plan, const MatmulProblem& problem, const Lie& a,
                  const Lie& b) const {
    const bool vector = plan.kind == MatmulKind::vector_tile || plan.kind == MatmulKind::vector_block;
    const std::size_t axes = p.batch_rank();
    const std::size_t r = p.c.rank();
    const Window wa = window(p.a, kOp);
    const Window wb = window(p.b, kOp);
    const Window wc = window(p.c, kOp);

    const auto in_fours = [&](const Tensor& x, const Window& w, std::int64_t side_by_side, std::int64_t line) {
      bool all = side_by_side % 4 == 0 && w.offset % 4 == 0 && line % 4 == 0;
      for (std::size_t i = 0; i < axes; ++i) all = all && x.strides()[i] % 4 == 0;
      return all;
    };
    const std::int64_t b_line = vector ? (p.k() == 1 ? 1 : p.b.strides()[r - 2]) : b.line;
    const std::int64_t c_line = p.c.strides()[r - 2];
    MatmulSpec spec;
    spec.plan = plan;
    spec.in = p.a.dtype();
    spec.out = p.c.dtype();
    spec.a_transposed = problem.a_transposed;
    spec.b_transposed = !vector && problem.b_transposed;
    spec.a_vec4 = in_fours(p.a, wa, a.inner_side_by_side ? p.k() : p.m(), a.line);
    if (vector) {
      spec.b_vec4 = spec.a_vec4 && !spec.a_transposed && b_line == 1 && in_fours(p.b, wb, p.k(), 0);
    } else {
      spec.b_vec4 = in_fours(p.b, wb, b.inner_side_by_side ? p.k() : p.n(), b.line);
      spec.c_vec4 = in_fours(p.c, wc, p.n(), p.m() == 1 ? 0 : c_line);
    }
    spec.bias = static_cast<bool>(p.bias);
    spec.batch_axes = axes == 0 ? 0 : axes == 1 ? 1 : 3;

    std::array<std::uint32_t, 32> params{};
    std::size_t count = 0;
    const auto push = [&](std::int64_t v) { params[count++] = static_cast<std::uint32_t>(v); };
    const std::int64_t ua = spec.a_vec4 ? 4 : 1, ub = spec.b_vec4 ? 4 : 1, uc = spec.c_vec4 ? 4 : 1;
    const std::uint64_t groups = groups_of(plan, problem);
    check_size(p, groups);
    for (std::int64_t v : {p.m(), p.n(), p.k(), static_cast<std::int64_t>(groups)}) push(v);
    push(wa.offset / ua);
    push(a.line / ua);
    push(wb.offset / ub);
    push(spec.b_vec4 && vector ? 1 : b_line / ub);
    push(wc.offset / uc);
    push(c_line / uc);
    // Three axes in the kernel: those that are missing have length 1 and stand in front.
    const std::size_t missing = spec.batch_axes - axes;
    const auto push_strides = [&](const Tensor& x, std::int64_t unit) {
      for (std::size_t i = 0; i < missing; ++i) push(0);
      for (std::size_t i = 0; i < axes; ++i) push(x.strides()[i] / unit);
    };
    if (spec.batch_axes == 3) {
      push(p.c.shape()[axes - 2]);
      push(p.c.shape()[axes - 1]);
    }
    push_strides(p.a, ua);
    push_strides(p.b, ub);
    if (axes > 0) push(p.c.strides()[axes - 1] / uc);

    std::array<BindingRange, 4> bindings{wa.range, wb.range, wc.range, {}};
    if (spec.bias) {
      const Window w = window(p.bias, kOp);
      bindings[3] = w.range;
      push(w.offset);
      push(p.bias.strides()[r - 2]);
      push(p.bias.strides()[r - 1]);
      push_strides(p.bias, 1);
    }

    const Kernel kernel = dispatch::library_kernel(state_of(device_), matmul_key(spec), [&] {
      KernelOptions options;
      options.source = matmul_source(spec);
      options.label = std::string(kOp);
      return options;
    });
    const auto x = static_cast<std::uint32_t>(std::min(groups, row_groups_));
    const auto y = static_cast<std::uint32_t>((groups + row_groups_ - 1) / row_groups_);
    launch(device_, kernel, std::span(bindings).first(spec.bias ? 4 : 3), std::as_bytes(std::span(params).first(count)),
           {x, y, 1});
  }

  /// The kernels count in u32, and a grid has two axes of at most 65,535 groups.
  static void check_size(const Product& p, std::uint64_t groups) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (p.m() < kMost && p.n() < kMost && p.k() < kMost && groups < std::uint64_t{1} << 31) return;
    throw Error(ErrorCode::out_of_range,
                fmt::format("matmul: a batch of {} products {} x {} x {} is over what kernels can count (2^31)",
                            p.batch(), p.m(), p.k(), p.n()),
                "multiply slices of it");
  }

  const Device& device_;
  DeviceClass class_;
  std::uint64_t limit_;
  std::uint64_t row_groups_;
};

/// The matrices' batch axes stretched to `batch`.
Tensor stretch(const Tensor& x, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(x.shape()[x.rank() - 2]);
  shape.push_back(x.shape()[x.rank() - 1]);
  return broadcast_to(x, shape);
}

/// `x` with an axis of length 1 put where a 1-D operand of the product has none.
Tensor with_matrix_axes(const Tensor& x, bool no_row, bool no_column) {
  Tensor out = x;
  if (no_column) out = with_axis(out, out.rank(), 1, 0);
  if (no_row) out = with_axis(out, out.rank() - 1, 1, 0);
  return out;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options, const MatmulTuning& tuning) {
  const std::array<const Tensor*, 3> operands{&a, &b, &options.bias};
  const Device& device = common_device(kOp, std::span(operands).first(options.bias ? 3 : 2));
  const Shape shape = matmul_shape(a.shape(), b.shape());
  const DType in = promote(a.dtype(), b.dtype());
  const DType out = options.bias ? promote(in, options.bias.dtype()) : in;
  Tensor bias;
  if (options.bias) {
    bool fits = options.bias.rank() <= shape.rank();
    for (std::size_t i = 0; fits && i < options.bias.rank(); ++i) {
      const std::int64_t have = options.bias.shape()[options.bias.rank() - 1 - i];
      fits = have == 1 || have == shape[shape.rank() - 1 - i];
    }
    if (!fits) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("matmul: a bias of shape {} does not broadcast over the result's shape {}",
                              to_string(options.bias.shape()), to_string(shape)),
                  "give it the result's last lengths, or 1");
    }
    bias = broadcast_to(as_dtype(options.bias, out), shape);
  }
  if (in == DType::bool_) {
    const Tensor counts = matmul(cast(a, DType::i32), cast(b, DType::i32), {}, tuning);
    const Tensor any = cast(counts, DType::bool_);
    return bias ? binary(BinaryOp::add, any, bias) : any;
  }

  const std::int64_t inner = a.shape().back();
  if (inner == 0 || element_count(shape) == 0) {
    const Tensor zeros = Device(device).zeros(shape, out);
    return bias && zeros.size() > 0 ? binary(BinaryOp::add, zeros, bias) : zeros;
  }

  const bool no_row = a.rank() == 1;
  const bool no_column = b.rank() == 1;
  const Tensor c = Device(device).empty(shape, out);
  Product p;
  p.c = with_matrix_axes(c, no_row, no_column);
  const Shape batch(std::span<const std::int64_t>(p.c.shape().begin(), p.c.rank() - 2));
  p.a = stretch(readable(no_row ? with_axis(as_dtype(a, in), 0, 1, 0) : as_dtype(a, in)), batch);
  p.b = stretch(readable(no_column ? with_axis(as_dtype(b, in), 1, 1, 0) : as_dtype(b, in)), batch);
  if (bias) p.bias = with_matrix_axes(bias, no_row, no_column);
  Multiplier(device, tuning).run(p);
  return c;
}

}  // namespace weft::ops

namespace weft {

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  return ops::matmul(a, b, options, {});
}

}  // namespace weft
