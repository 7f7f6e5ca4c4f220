#include "ops/matmul_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/launch.h"
#include "ops/matmul_tuning.h"
#include "ops/rows.h"
#include "ops/view_of.h"
#include "ops/wgsl_text.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

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

/// The tensors of a product; bias and residual may be empty.
std::array<Tensor*, 5> tensors_of(Product& p) {
  return {&p.a, &p.b, &p.c, &p.bias, &p.residual};
}
std::array<const Tensor*, 5> tensors_of(const Product& p) {
  return {&p.a, &p.b, &p.c, &p.bias, &p.residual};
}
constexpr std::size_t kC = 2;

/// Joins batch axes that all step through alike, and drops those of length 1.
Product collapse(const Product& p) {
  const auto all = tensors_of(p);
  std::array<Shape, 5> shapes;
  std::array<Strides, 5> strides;
  for (std::size_t axis = p.batch_rank(); axis-- > 0;) {
    const std::int64_t length = p.c.shape()[axis];
    if (length == 1) continue;
    bool joins = !shapes[kC].empty();
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
  Product out = p;
  const auto results = tensors_of(out);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor& x = *all[i];
    if (!x) continue;
    for (std::size_t axis = x.rank() - 2; axis < x.rank(); ++axis) {
      shapes[i].push_back(x.shape()[axis]);
      strides[i].push_back(x.strides()[axis]);
    }
    *results[i] = view_of(x, shapes[i], strides[i], x.offset());
  }
  return out;
}

/// Where the same b serves the whole batch and a's rows go on from matrix to matrix, all is one taller product.
Product batch_to_rows(const Product& p) {
  if (p.batch_rank() != 1 || p.b.strides()[0] != 0) return p;
  for (const Tensor* x : {&p.a, &p.c, &p.bias, &p.residual}) {
    if (*x && p.m() != 1 && x->strides()[0] != x->shape()[1] * x->strides()[1]) return p;
  }
  Product out = p;
  for (Tensor* x : {&out.a, &out.c, &out.bias, &out.residual}) {
    if (!*x) continue;
    const std::int64_t row = p.m() == 1 ? x->strides()[0] : x->strides()[1];
    *x = view_of(*x, {x->shape()[0] * x->shape()[1], x->shape()[2]}, {row, x->strides()[2]}, x->offset());
  }
  out.b = view_of(p.b, {p.b.shape()[1], p.b.shape()[2]}, {p.b.strides()[1], p.b.strides()[2]}, p.b.offset());
  // A layout that no kernel takes is not worth the copy.
  return p.int8 != Int8::none || lie_of_a(out.a) ? out : p;
}

/// (a @ b)^T = b^T @ a^T
Product turned(const Product& p) {
  Product out = p;
  out.a = swap_last_two(p.b);
  out.b = swap_last_two(p.a);
  for (Tensor* x : {&out.c, &out.bias, &out.residual}) {
    if (*x) *x = swap_last_two(*x);
  }
  std::swap(out.a_signed, out.b_signed);
  return out;
}

bool is_vector(MatmulKind kind) {
  return kind == MatmulKind::vector_tile || kind == MatmulKind::vector_block;
}

bool has_epilogue(const Product& p) {
  return p.alpha != 1 || p.beta != 0 || p.bias || p.residual || p.activation != Activation::none;
}

/// The words of `struct Params`, in the order of matmul_source.
class Words {
 public:
  void push(std::int64_t v) { words_[count_++] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(v)); }
  void push(double factor, DType sums) {
    if (sums == DType::i32) {
      push(static_cast<std::int64_t>(factor));
    } else {
      push(std::int64_t{std::bit_cast<std::uint32_t>(static_cast<float>(factor))});
    }
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words_).first(count_)); }

 private:
  std::array<std::uint32_t, 48> words_{};
  std::size_t count_ = 0;
};

class Multiplier {
 public:
  Multiplier(const Device& device, std::string_view op, const MatmulTuning& tuning)
      : device_(device),
        op_(op),
        class_(tuning.device.value_or(cpu_kernels(device) ? DeviceClass::cpu : DeviceClass::gpu)),
        limit_(std::min(tuning.most_bytes, device.limits().max_storage_binding_size)),
        row_groups_(tuning.row_groups),
        subgroup_(fixed_subgroup(device.features())),
        matrix_units_(tuning.matrix_units),
        forced_(tuning.plan) {}

  /// a and b are readable(); their batch axes may be broadcast. `part`: of a product cut along its inner axis, by this
  /// plan where one was measured or forced (else each part has its own).
  void run(const Product& given, bool part = false, const MatmulPlan* by = nullptr) const {
    Product p = collapse(given);
    if (p.batch_rank() > 3) {
      for (Tensor* x : {&p.a, &p.b, &p.bias, &p.residual}) {
        if (*x && x->size() > 0) *x = contiguous(*x);
      }
      p = collapse(p);
    }
    if (p.batch_rank() > 3) {  // c's own axes don't join
      for (std::int64_t i = 0; i < p.c.shape()[0]; ++i) run(slice_of(p, p.c.rank() - 1, i, 1), part, by);
      return;
    }
    p = batch_to_rows(p);
    for (Tensor* x : {&p.a, &p.b, &p.bias, &p.residual}) *x = bindable(*x);
    if (too_large(p)) {
      run_in_slices(p, part, by);
      return;
    }
    if (p.k() == 0) {
      sum_parts(p, {}, 0);
      return;
    }
    // c's columns may be what lies side by side.
    const bool by_columns = p.m() != 1 && p.c.strides().back() != 1 && p.c.strides()[p.c.rank() - 2] == 1;
    if (by_columns ? p.n() != 1 : turns(class_, problem_of(p))) p = turned(p);
    const MatmulProblem problem = problem_of(p);
    const MatmulPlan* fixed = by != nullptr ? by : forced_ ? &*forced_ : nullptr;
    if (fixed != nullptr && applies(*fixed, problem, choose(class_, device_.limits(), problem))) {
      MatmulPlan plan = *fixed;
      if (part) plan.splits = least_splits(class_, problem);
      run_by(p, plan, problem, part, fixed);
      return;
    }
    const auto stored = part ? std::nullopt : stored_matmul_plan(device_, class_, problem);
    const MatmulPlan plan = stored ? *stored : choose(class_, device_.limits(), problem);
    run_by(p, plan, problem, part, stored ? &*stored : nullptr);
  }

 private:
  /// `parts_by`: the plan that parts and slices are to keep to.
  void run_by(const Product& p, MatmulPlan plan, const MatmulProblem& problem, bool part,
              const MatmulPlan* parts_by) const {
    if (is_cpu(device_)) plan.unroll = 1;  // its compiler takes seconds else
    if (plan.splits > 1) {
      run_in_parts(p, plan.splits, parts_by);
    } else if (plan.kind == MatmulKind::panel) {
      run_panels(p, plan, problem, part, parts_by);
    } else {
      launch_one(p, plan, problem);
    }
  }

  static Lie a_of(const Product& p) {
    return p.int8 != Int8::none ? Lie{true, p.a.strides()[p.a.rank() - 2]} : lie_of_a(p.a).value();
  }
  static Lie b_of(const Product& p) {
    return p.int8 != Int8::none ? Lie{true, p.b.strides().back()} : lie_of_b(p.b).value();
  }

  MatmulProblem problem_of(const Product& p) const {
    MatmulProblem problem;
    problem.m = static_cast<std::uint64_t>(p.m());
    problem.n = static_cast<std::uint64_t>(p.n());
    problem.k = static_cast<std::uint64_t>(p.k());
    problem.batch = static_cast<std::uint64_t>(p.batch());
    problem.dtype = p.a.dtype();
    problem.subgroup = subgroup_;
    if (matrix_units_) problem.unit = usable_unit(device_, problem.dtype, p.a_signed, p.b_signed);
    problem.a_transposed = !a_of(p).inner_side_by_side;
    problem.b_transposed = b_of(p).inner_side_by_side;
    return problem;
  }

  static std::uint64_t bytes_of(const Tensor& x) { return x && x.size() > 0 ? window_bytes(x) : 0; }

  bool too_large(const Product& p) const {
    const auto all = tensors_of(p);
    return std::any_of(all.begin(), all.end(), [&](const Tensor* x) { return bytes_of(*x) > limit_; });
  }

  /// A dense copy where the elements are few enough to bind, but lie scattered over too much memory.
  Tensor bindable(const Tensor& x) const {
    return bytes_of(x) > limit_ && x.nbytes() + device_.limits().min_storage_offset_alignment <= limit_ ? contiguous(x)
                                                                                                        : x;
  }

  /// Of a batch axis (`from_end` 2 or more), rows (1) or columns (0).
  static Product slice_of(const Product& p, std::size_t from_end, std::int64_t start, std::int64_t count) {
    Product out = p;
    for (Tensor* x : tensors_of(out)) {
      if (!*x || (from_end == 0 && x == &out.a) || (from_end == 1 && x == &out.b)) continue;
      *x = narrow(*x, from_end, start, count);
    }
    return out;
  }

  /// Some operand is over the binding limit: halves the product along its batch, rows, columns, or inner axis.
  void run_in_slices(const Product& p, bool part, const MatmulPlan* by) const {
    const auto halves = [&](std::size_t from_end, std::int64_t length) {
      run(slice_of(p, from_end, 0, length / 2), part, by);
      run(slice_of(p, from_end, length / 2, length - length / 2), part, by);
    };
    if (p.batch_rank() > 0) {  // collapse() left axes longer than 1 only
      halves(p.c.rank() - 1, p.c.shape()[0]);
      return;
    }
    const auto over = [&](const Tensor& x) { return bytes_of(x) > limit_; };
    const bool only_b = over(p.b) && !over(p.a) && !over(p.c) && !over(p.bias) && !over(p.residual);
    if (p.m() > 1 && !(only_b && p.n() > 1)) {
      halves(1, p.m());
    } else if (p.n() > 1) {
      halves(0, p.n());
    } else {
      run_in_parts(p, 2, by);
    }
  }

  /// Cuts the inner axis into `parts`, multiplies them as a batch and adds up: for few results with a long inner axis.
  void run_in_parts(const Product& p, std::uint32_t parts, const MatmulPlan* by) const {
    const std::int64_t k = p.k();
    const std::int64_t length = ((k + parts - 1) / parts + 7) / 8 * 8;  // as wide reads want it
    const std::int64_t whole = k / length;
    const std::int64_t rest = k % length;
    const std::int64_t results = p.batch() * p.m() * p.n();
    const std::int64_t rows = whole + (rest != 0);
    const Tensor sums = Device(device_).empty({rows, results}, is_float(p.a.dtype()) ? DType::f32 : DType::i32);

    const std::size_t a_inner = p.a.rank() - 1;
    const std::size_t b_inner = p.b.rank() - 2;
    const auto multiply = [&](std::int64_t first, std::int64_t count, std::int64_t of) {
      if (count == 0) return;
      Shape shape = p.c.shape();
      shape.insert(0, count);
      Product piece;
      piece.a = with_axis(narrow(p.a, 0, first * length, of), 0, count, length * p.a.strides()[a_inner]);
      piece.b = with_axis(narrow(p.b, 1, first * length, of), 0, count, length * p.b.strides()[b_inner]);
      piece.c = view_of(sums, shape, contiguous_strides(shape), first * results);
      piece.int8 = p.int8;
      piece.a_signed = p.a_signed;
      piece.b_signed = p.b_signed;
      run(piece, true, by);
    };
    multiply(0, whole, length);
    multiply(whole, rest != 0 ? 1 : 0, rest);
    sum_parts(p, sums, rows);
  }

  /// What the tensors and the kernel share of the parameters, behind the lines and offsets.
  void push_batches(Words& words, const MatmulSpec& spec, const Product& p) const {
    const std::size_t axes = p.batch_rank();
    // Axes that are missing have length 1 and stand in front.
    const auto push_strides = [&](const Tensor& x, std::int64_t unit) {
      for (std::size_t i = axes; i < spec.batch_axes; ++i) words.push(0);
      for (std::size_t i = 0; i < axes; ++i) words.push(x && x.size() > 0 ? x.strides()[i] / unit : 0);
    };
    if (spec.batch_axes == 3) {
      words.push(axes < 2 ? 1 : p.c.shape()[axes - 2]);
      words.push(axes < 1 ? 1 : p.c.shape()[axes - 1]);
    }
    const bool sum = spec.plan.kind == MatmulKind::sum;
    push_strides(sum ? Tensor() : p.a, at_once(spec, spec.a_vec4));
    push_strides(sum ? Tensor() : p.b, at_once(spec, spec.b_vec4));
    push_strides(p.c, spec.c_vec4 ? 4 : 1);
    if (!spec.full) return;
    const DType sums = spec.out == DType::i32 ? DType::i32 : DType::f32;
    words.push(p.c.strides().back());
    words.push(std::int64_t{static_cast<std::uint32_t>(p.activation)} | (p.beta != 0 ? kAddsC : 0u) |
               (p.bias ? kAddsBias : 0u) | (p.residual ? kAddsResidual : 0u));
    words.push(p.alpha, sums);
    words.push(p.beta, sums);
    for (const Tensor* x : {&p.bias, &p.residual}) {
      const std::size_t r = p.c.rank();
      words.push(*x ? window(*x, op_).offset : 0);
      words.push(*x ? x->strides()[r - 2] : 0);
      words.push(*x ? x->strides()[r - 1] : 0);
      push_strides(*x, 1);
    }
  }

  void record(const MatmulSpec& spec, const Product& p, const BindingRange& a, const BindingRange* b,
              const BindingRange& c, const Words& words, std::uint64_t groups) const {
    std::array<BindingRange, 5> bindings;
    std::size_t count = 0;
    bindings[count++] = a;
    if (b != nullptr) bindings[count++] = *b;
    bindings[count++] = c;
    if (spec.full) {
      // What the flags leave out is bound, as anything, and not read.
      for (const Tensor* x : {&p.bias, &p.residual}) bindings[count++] = *x ? window(*x, op_).range : a;
    }
    const Kernel kernel =
        dispatch::library_kernel(state_of(device_), matmul_key(spec), [&] { return matmul_options(spec); });
    launch(device_, kernel, std::span(bindings).first(count), words.bytes(), grid_of(groups));
  }

  Grid grid_of(std::uint64_t groups) const {
    return {static_cast<std::uint32_t>(std::min(groups, row_groups_)),
            static_cast<std::uint32_t>((groups + row_groups_ - 1) / row_groups_), 1};
  }

  /// How many elements of an operand are read at once, which its parameters count in.
  static std::int64_t at_once(const MatmulSpec& spec, bool vec4) { return spec.wide ? 8 : vec4 ? 4 : 1; }

  /// Can x be read `count` elements at a time, with `side_by_side` of them to a line?
  static bool reads_by(std::int64_t count, const Tensor& x, std::size_t batch_axes, const Window& w,
                       std::int64_t side_by_side, std::int64_t line) {
    bool all = side_by_side % count == 0 && w.offset % count == 0 && line % count == 0;
    for (std::size_t i = 0; i < batch_axes; ++i) all = all && x.strides()[i] % count == 0;
    return all;
  }

  void launch_one(const Product& p, const MatmulPlan& plan, const MatmulProblem& problem) const {
    const Lie a = a_of(p);
    const Lie b = b_of(p);
    const bool vector = is_vector(plan.kind);
    const std::size_t axes = p.batch_rank();
    const std::size_t r = p.c.rank();
    const Window wa = window(p.a, op_);
    const Window wb = window(p.b, op_);
    const Window wc = window(p.c, op_);

    const std::int64_t b_line = vector ? (p.k() == 1 ? 1 : p.b.strides()[r - 2]) : b.line;
    const std::int64_t c_line = p.m() == 1 ? 0 : p.c.strides()[r - 2];
    const bool c_dense = p.n() == 1 || p.c.strides()[r - 1] == 1;
    MatmulSpec wish;
    wish.plan = plan;
    wish.in = p.a.dtype();
    wish.out = p.c.dtype();
    wish.a_transposed = problem.a_transposed;
    wish.b_transposed = problem.b_transposed;
    const auto a_by = [&](std::int64_t count) {
      return reads_by(count, p.a, axes, wa, a.inner_side_by_side ? p.k() : p.m(), a.line);
    };
    const auto b_by = [&](std::int64_t count) {
      return reads_by(count, p.b, axes, wb, b.inner_side_by_side ? p.k() : p.n(), b.line);
    };
    wish.a_vec4 = a_by(4);
    wish.b_vec4 = vector ? b_line == 1 && reads_by(4, p.b, axes, wb, p.k(), 0) : b_by(4);
    wish.c_vec4 = c_dense && reads_by(4, p.c, axes, wc, p.n(), c_line);
    wish.wide = a_by(8) && b_by(8);
    wish.full = has_epilogue(p) || !c_dense;
    wish.batch_axes = axes <= 1 ? 1 : 3;
    wish.int8 = p.int8;
    wish.a_signed = p.a_signed;
    wish.b_signed = p.b_signed;
    const MatmulSpec spec = settle(wish);

    const std::int64_t ua = at_once(spec, spec.a_vec4), ub = at_once(spec, spec.b_vec4), uc = spec.c_vec4 ? 4 : 1;
    const std::uint64_t groups = groups_of(plan, problem);
    check_size(p, groups);
    Words words;
    for (std::int64_t v : {p.m(), p.n(), p.k(), static_cast<std::int64_t>(groups)}) words.push(v);
    words.push(wa.offset / ua);
    words.push(a.line / ua);
    words.push(wb.offset / ub);
    words.push(spec.b_vec4 && vector ? 1 : b_line / ub);
    words.push(wc.offset / uc);
    words.push(c_line / uc);
    words.push(plan.lanes_n);
    push_batches(words, spec, p);
    record(spec, p, wa.range, &wb.range, wc.range, words, groups);
  }

  /// The operand (outer axis, inner axis) repacked for the panel kernel; batch axes that repeat it stay so.
  Tensor panels_of(const Tensor& x, std::size_t outer_axis, std::size_t inner_axis) const {
    const std::size_t axes = x.rank() - 2;
    const std::int64_t outer = x.shape()[outer_axis];
    const std::int64_t k = x.shape()[inner_axis];
    const std::int64_t padded_k = (k + 3) / 4 * 4;
    const std::int64_t per_matrix = (outer + kPanel - 1) / kPanel;
    Shape shape;  // batch, then one matrix's panels and a panel
    Strides strides;
    std::array<std::int64_t, 3> lengths{1, 1, 1}, steps{};  // of what is read; missing axes stand in front
    std::int64_t matrices = 1;
    for (std::size_t i = axes; i-- > 0;) {
      const bool repeats = x.strides()[i] == 0;
      shape.insert(0, x.shape()[i]);
      strides.insert(0, repeats ? 0 : matrices * per_matrix * padded_k * kPanel);
      if (repeats) continue;
      lengths[3 - axes + i] = x.shape()[i];
      steps[3 - axes + i] = x.strides()[i];
      matrices *= x.shape()[i];
    }
    shape.push_back(per_matrix);
    shape.push_back(padded_k * kPanel);
    strides.push_back(padded_k * kPanel);
    strides.push_back(1);
    const Tensor panels = Device(device_).empty({matrices * per_matrix, padded_k * kPanel},
                                                is_float(x.dtype()) ? DType::f32 : DType::i32);

    const std::int64_t chunks = (padded_k + kPackSteps - 1) / kPackSteps;
    const std::int64_t groups = matrices * per_matrix * chunks;
    const Window from = window(x, op_);
    Words words;
    for (std::int64_t v : {outer, k, padded_k, groups, per_matrix, chunks, std::int64_t{from.offset},
                           outer == 1 ? 0 : x.strides()[outer_axis], k == 1 ? 0 : x.strides()[inner_axis], lengths[1],
                           lengths[2], steps[0], steps[1], steps[2]}) {
      words.push(v);
    }
    const Kernel kernel = dispatch::library_kernel(state_of(device_), matmul_pack_key(x.dtype()),
                                                   [&] { return matmul_pack_options(x.dtype()); });
    const std::array bindings{from.range, window(panels, op_).range};
    launch(device_, kernel, bindings, words.bytes(), grid_of(static_cast<std::uint64_t>(groups)));
    return view_of(panels, shape, strides, 0);
  }

  /// Halves the product until its repacked operands can be bound.
  void run_panels(const Product& p, MatmulPlan plan, const MatmulProblem& problem, bool part,
                  const MatmulPlan* by) const {
    const auto bytes = [&](const Tensor& x, std::uint64_t outer) {
      std::uint64_t matrices = 1;
      for (std::size_t i = 0; i < p.batch_rank(); ++i) {
        if (x.strides()[i] != 0) matrices *= static_cast<std::uint64_t>(x.shape()[i]);
      }
      return matrices * ((outer + kPanel - 1) / kPanel * kPanel) * ((problem.k + 3) / 4 * 4) * 4;
    };
    const bool a_too_large = bytes(p.a, problem.m) > limit_;
    if (a_too_large || bytes(p.b, problem.n) > limit_) {
      // Along the batch, else rows of a or columns of b; of no more than a panel the block kernel takes what is left.
      const std::size_t from_end = p.batch_rank() > 0 ? p.c.rank() - 1 : a_too_large ? 1 : 0;
      const std::int64_t length = p.c.shape()[p.c.rank() - 1 - from_end];
      if (p.batch_rank() == 0 && length <= std::int64_t{kPanel}) {
        launch_one(p, choose_block(problem), problem);
        return;
      }
      run(slice_of(p, from_end, 0, length / 2), part, by);
      run(slice_of(p, from_end, length / 2, length - length / 2), part, by);
      return;
    }

    Product packed = p;
    const std::size_t r = p.c.rank();
    packed.a = panels_of(p.a, r - 2, r - 1);
    packed.b = panels_of(p.b, r - 1, r - 2);
    const Window wc = window(p.c, op_);
    const std::int64_t c_line = p.c.strides()[r - 2];
    const bool c_dense = p.n() == 1 || p.c.strides()[r - 1] == 1;
    MatmulSpec wish;
    wish.plan = plan;
    wish.in = p.a.dtype();
    wish.out = p.c.dtype();
    wish.c_vec4 = c_dense && reads_by(4, p.c, p.batch_rank(), wc, p.n(), c_line);
    wish.full = has_epilogue(p) || !c_dense;
    wish.batch_axes = p.batch_rank() <= 1 ? 1 : 3;
    const MatmulSpec spec = settle(wish);
    const std::uint64_t groups = groups_of(plan, problem);
    check_size(p, groups);
    const std::int64_t padded_k = packed.a.shape().back() / std::int64_t{kPanel};
    const std::int64_t uc = spec.c_vec4 ? 4 : 1;
    Words words;
    for (std::int64_t v : {p.m(), p.n(), padded_k, static_cast<std::int64_t>(groups)}) words.push(v);
    for (int operand = 0; operand < 2; ++operand) {
      words.push(std::int64_t{0});
      words.push(padded_k * kPanel / 4);
    }
    words.push(wc.offset / uc);
    words.push(c_line / uc);
    words.push(std::int64_t{0});
    push_batches(words, spec, packed);
    const BindingRange b = window(packed.b, op_).range;
    record(spec, p, window(packed.a, op_).range, &b, wc.range, words, groups);
  }

  /// c from `count` parts, each dense with c's lengths; from none, it is finished from zeros.
  void sum_parts(const Product& given, const Tensor& parts, std::int64_t count) const {
    // Four results side by side are a lane's.
    const Product p = given.n() == 1 && given.m() > 1 ? turned(given) : given;
    MatmulSpec wish;
    wish.plan = sum_plan();
    wish.out = p.c.dtype();
    const MatmulSpec spec = settle(wish);
    const Tensor sums = count > 0 ? parts : Device(device_).empty({4}, DType::f32);
    const Window wa = window(sums, op_);
    const Window wc = window(p.c, op_);
    const std::int64_t lines = p.batch() * p.m();
    const std::uint64_t groups =
        (static_cast<std::uint64_t>(lines) * (static_cast<std::uint64_t>(p.n()) / 4 + 1) + spec.plan.threads - 1) /
        spec.plan.threads;
    check_size(p, groups);
    Words words;
    for (std::int64_t v : {p.m(), p.n(), count, static_cast<std::int64_t>(groups)}) words.push(v);
    words.push(wa.offset);
    words.push(lines * p.n());
    words.push(0);
    words.push(lines);
    words.push(wc.offset);
    words.push(p.c.strides()[p.c.rank() - 2]);
    words.push(1);
    push_batches(words, spec, p);
    record(spec, p, wa.range, nullptr, wc.range, words, groups);
  }

  /// The kernels count in u32, and a grid has two axes of at most 65,535 groups.
  void check_size(const Product& p, std::uint64_t groups) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (p.m() < kMost && p.n() < kMost && p.k() < kMost && groups < std::uint64_t{1} << 31) return;
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: a batch of {} products {} x {} x {} is over what kernels can count (2^31)", op_,
                            p.batch(), p.m(), p.k(), p.n()),
                "multiply slices of it");
  }

  const Device& device_;
  std::string_view op_;
  DeviceClass class_;
  std::uint64_t limit_;
  std::uint64_t row_groups_;
  std::uint32_t subgroup_;
  bool matrix_units_;
  std::optional<MatmulPlan> forced_;
};

}  // namespace

std::int64_t Product::batch() const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < batch_rank(); ++i) count *= c.shape()[i];
  return count;
}

void run_product(const Device& device, const Product& product, std::string_view op, const MatmulTuning& tuning) {
  Multiplier(device, op, tuning).run(product);
}

Tensor readable(const Tensor& x) {
  if (x.size() == 0) return x;
  for (std::size_t i = 0; i + 2 < x.rank(); ++i) {
    if (x.strides()[i] < 0) return contiguous(x);
  }
  return lie_of_a(x) && lie_of_b(x) ? x : contiguous(x);
}

Tensor narrow(const Tensor& x, std::size_t from_end, std::int64_t start, std::int64_t count) {
  const std::size_t axis = x.rank() - 1 - from_end;
  Shape shape = x.shape();
  shape[axis] = count;
  return view_of(x, shape, x.strides(), x.offset() + start * x.strides()[axis]);
}

Tensor swap_last_two(const Tensor& x) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape[x.rank() - 1], shape[x.rank() - 2]);
  std::swap(strides[x.rank() - 1], strides[x.rank() - 2]);
  return view_of(x, shape, strides, x.offset());
}

Tensor with_axis(const Tensor& x, std::size_t at, std::int64_t length, std::int64_t stride) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.insert(at, length);
  strides.insert(at, stride);
  return view_of(x, shape, strides, x.offset());
}

Tensor stretch(const Tensor& x, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(x.shape()[x.rank() - 2]);
  shape.push_back(x.shape()[x.rank() - 1]);
  return broadcast_to(x, shape);
}

Tensor as_dtype(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : cast(x, dtype);
}

Tensor reinterpret(const Tensor& x, DType dtype) {
  return Tensor(x.device(), x.buffer(), x.shape(), x.strides(), x.offset(), dtype);
}

std::string matmul_pack_key(DType in) {
  return fmt::format("matmul/pack/{}", wgsl_name(in));
}

KernelOptions matmul_pack_options(DType in) {
  KernelOptions options;
  options.source = matmul_pack_source(in);
  options.label = "matmul.pack";
  return options;
}

KernelOptions matmul_options(const MatmulSpec& spec) {
  KernelOptions options;
  options.source = matmul_source(spec);
  options.label = "matmul";
  return options;
}

}  // namespace weft::ops
