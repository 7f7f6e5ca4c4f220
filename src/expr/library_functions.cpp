// The functions of the language that are one op of the library each.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "expr/functions.h"
#include "expr/joining.h"
#include "expr/translate.h"
#include "ops/infer.h"
#include "ops/infer_attention.h"
#include "ops/infer_conv.h"
#include "ops/infer_indexing.h"
#include "ops/infer_moments.h"
#include "ops/infer_norm.h"
#include "ops/infer_signal.h"
#include "ops/scalar.h"
#include "weft/fft.h"
#include "weft/indexing.h"
#include "weft/nn.h"
#include "weft/random.h"

namespace weft::expr {
namespace {

using Operands = std::span<const Tensor>;
using Integers = std::vector<std::int64_t>;

/// One call: its place in messages, and what its arguments hold.
class Call {
 public:
  Call(Translator& t, const Function& f, const Arguments& args)
      : t_(t), f_(f), args_(args), title_(fmt::format("{} does not take this", f.name)) {}

  bool has(std::size_t i) const { return i < args_.values.size() && args_.has(i); }
  OpId tensor(std::size_t i) const { return t_.tensor(args_[i]); }
  std::optional<OpId> tensor_or_none(std::size_t i) const { return has(i) ? std::optional(tensor(i)) : std::nullopt; }
  /// A float tensor: of integers and bools, f32.
  OpId floats(std::size_t i) const {
    const OpId x = tensor(i);
    return is_float(graph().dtype(x)) ? x : graph().cast(x, DType::f32);
  }
  std::int64_t integer(std::size_t i, std::string_view what, std::int64_t otherwise) const {
    return has(i) ? t_.integer(args_[i], what) : otherwise;
  }
  double number(std::size_t i, std::string_view what, double otherwise) const {
    return has(i) ? t_.number(args_[i], what) : otherwise;
  }
  bool boolean(std::size_t i, std::string_view what) const { return has(i) && t_.boolean(args_[i], what); }
  Integers integers(std::size_t i, std::string_view what) const {
    return has(i) ? t_.integers(args_[i], what) : Integers{};
  }
  Shape shape(std::size_t i) const { return t_.shape(args_[i]); }
  DType dtype(std::size_t i, DType otherwise) const { return has(i) ? t_.dtype(args_[i]) : otherwise; }
  std::string text(std::size_t i, std::string_view what) const {
    const std::string* s = args_[i].get_if<std::string>();
    if (s == nullptr)
      t_.fail(args_[i].span, title_, fmt::format("{} is a text", what), fmt::format("write {} in quotes", what));
    return *s;
  }
  Scalar scalar(std::size_t i, std::string_view what) const { return t_.scalar(args_[i], what); }
  const std::vector<Value>& items(std::size_t i, std::string_view what) const { return t_.items(args_[i], what); }
  std::int64_t integer_of(const Value& v, std::string_view what) const { return t_.integer(v, what); }
  Integers integers_of(const Value& v, std::string_view what) const { return t_.integers(v, what); }
  bool is_sequence(std::size_t i) const { return args_[i].is<Sequence>(); }

  Graph& graph() const { return t_.graph(); }
  const Shape& shape_of(OpId x) const { return t_.graph().shape(x); }
  DType dtype_of(OpId x) const { return t_.graph().dtype(x); }
  const std::string& title() const { return title_; }

  [[noreturn]] void refuse(std::size_t i, std::string_view note, std::string fix) const {
    t_.fail(args_[i].span, title_, note, std::move(fix));
  }

  /// The op as a value. `options` tells calls apart that differ in more than their operands; `rule` gives shape and
  /// dtype, or throws; `slices`, called behind it, says how the op may be cut.
  template <class Rule>
  Value op(std::string_view options, std::vector<OpId> operands, Rule&& rule, LibraryCall run) const {
    return op(options, std::move(operands), rule, std::move(run), [] { return Slices{}; });
  }
  template <class Rule, class Cutting>
  Value op(std::string_view options, std::vector<OpId> operands, Rule&& rule, LibraryCall run, Cutting&& slices) const {
    return t_.make_tensor(t_.at(t_.call_span(), title_, [&] {
      const auto [shape, dtype] = rule();
      const std::string key = fmt::format("{} {}", f_.name, options);
      return t_.graph().library(key, shape, dtype, operands, std::move(run), slices());
    }));
  }
  /// A reduction to the float type of x, over the axes of `r`. `joining` gives its way over blocks for axes counted
  /// from 0 and the result's dtype.
  template <class Join>
  Value reduction(std::string_view options, OpId x, const ReduceOptions& r, LibraryCall run, Join&& joining) const {
    return t_.make_tensor(t_.at(t_.call_span(), title_, [&] {
      const Shape shape = ops::reduce_shape(ReduceOp::sum, shape_of(x), r);
      const DType dtype = dtype_of(x) == DType::f16 ? DType::f16 : DType::f32;
      const std::vector<std::size_t> axes = ops::normalize_axes(f_.name, r.axes, shape_of(x));
      const std::string key = fmt::format("{} {}", f_.name, options);
      return t_.graph().library_reduction(key, shape, dtype, x, std::move(run), axes, r.keepdims,
                                          joining(std::vector<std::int64_t>(axes.begin(), axes.end()), dtype));
    }));
  }
  /// All axes of x but one, counted as in the language.
  Slices all_but(std::int64_t axis, OpId x) const {
    const std::size_t at = ops::normalize_axis(f_.name, axis, shape_of(x));
    return {.axes = ~(std::uint32_t{1} << at)};
  }

 private:
  Translator& t_;
  const Function& f_;
  const Arguments& args_;
  std::string title_;
};

using Result = std::pair<Shape, DType>;

/// Bits of the first n axes.
std::uint32_t first_axes(std::size_t n) {
  return (std::uint32_t{1} << n) - 1;
}

std::string list(const Integers& v) {
  return fmt::format("[{}]", fmt::join(v, ","));
}

// -- statistics, scans -----------------------------------------------------------------------------------------------

ReduceOptions reduce_options(const Call& c, std::size_t axis, std::size_t keepdims) {
  ReduceOptions o;
  if (c.has(axis)) o.axes = c.integers(axis, "an axis");
  o.keepdims = c.boolean(keepdims, "keepdims");
  return o;
}

std::string key_of(const ReduceOptions& o) {
  return fmt::format("{} {}", o.axes ? list(*o.axes) : "all", o.keepdims);
}

/// var and std: code 1 is the root.
Value apply_moment(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const ReduceOptions r = reduce_options(c, 1, 2);
  const std::int64_t ddof = c.integer(3, "ddof", 0);
  const OpId x = c.tensor(0);  // integers as they are: as floats, large ones lose what they differ by
  const bool root = f.code == 1;
  return c.reduction(
      fmt::format("{} {}", key_of(r), ddof), x, r,
      [=](const Device&, Operands x_) {
        const VarOptions o{.axes = r.axes, .keepdims = r.keepdims, .ddof = static_cast<double>(ddof)};
        return root ? stddev(x_[0], o) : var(x_[0], o);
      },
      [&](const Integers& axes, DType to) { return variance_joining(axes, r.keepdims, ddof, root, to); });
}

Value apply_norm(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const double ord = c.number(1, "ord", 2);
  const ReduceOptions r = reduce_options(c, 2, 3);
  const OpId x = c.floats(0);
  t.at(t.call_span(), c.title(), [&] {
    ops::check_norm(ord, c.shape_of(x), r.axes);
    return x;
  });
  return c.reduction(
      fmt::format("{} {}", ord, key_of(r)), x, r, [=](const Device&, Operands x_) { return norm(x_[0], ord, r); },
      [&](Integers axes, DType to) { return norm_joining(std::move(axes), r.keepdims, ord, to); });
}

Value apply_logsumexp(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const ReduceOptions r = reduce_options(c, 1, 2);
  const OpId x = c.floats(0);
  return c.reduction(
      key_of(r), x, r, [=](const Device&, Operands x_) { return logsumexp(x_[0], r); },
      [&](Integers axes, DType to) { return logsumexp_joining(std::move(axes), r.keepdims, to); });
}

/// numpy flattens when there is no axis.
Value apply_scan(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const auto op = static_cast<ScanOp>(f.code);
  OpId x = c.tensor(0);
  ScanOptions o;
  if (c.has(1)) {
    o.axis = c.integer(1, "axis", -1);
  } else {
    x = c.graph().reshape(x, Shape{element_count(c.shape_of(x))});
  }
  o.exclusive = c.boolean(2, "exclusive");
  o.reverse = c.boolean(3, "reverse");
  return c.op(
      fmt::format("{} {} {}", o.axis, o.exclusive, o.reverse), {x},
      [&] {
        ops::normalize_axis(ops::scan_name(op), o.axis, c.shape_of(x));
        return Result{c.shape_of(x), ops::scan_types(op, c.dtype_of(x)).result};
      },
      [=](const Device&, Operands x_) { return scan(op, x_[0], o); }, [&] { return c.all_but(o.axis, x); });
}

// -- picking, shaping, ordering
// ----------------------------------------------------------------------------------------

Value apply_take_along_axis(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  OpId x = c.tensor(0), indices = c.tensor(1);
  const std::int64_t axis = c.integer(2, "axis", -1);
  t.at(t.call_span(), c.title(), [&] {
    const auto [whole_x, whole_indices] = ops::take_along_axis_broadcast(c.shape_of(x), c.shape_of(indices), axis);
    if (whole_x != c.shape_of(x)) x = c.graph().broadcast_to(x, whole_x);
    if (whole_indices != c.shape_of(indices)) indices = c.graph().broadcast_to(indices, whole_indices);
    return x;
  });
  return c.op(
      fmt::format("{}", axis), {x, indices},
      [&] {
        ops::check_index_dtype(f.name, c.dtype_of(indices));
        return Result{ops::take_along_axis_shape(c.shape_of(x), c.shape_of(indices), axis), c.dtype_of(x)};
      },
      [=](const Device&, Operands o) { return take_along_axis(o[0], o[1], axis); },
      [&] { return Slices{.axes = c.all_but(axis, x).axes, .operands = 3}; });
}

/// pad(x, 2), pad(x, (1, 2)), pad(x, ((0, 0), (1, 2))), as numpy.pad.
Value apply_pad(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const OpId x = c.tensor(0);
  const std::size_t rank = c.shape_of(x).rank();
  std::vector<PadWidth> widths;
  const auto pair_of = [&](const Integers& v) {
    if (v.size() == 1) return PadWidth{v[0], v[0]};
    if (v.size() == 2) return PadWidth{v[0], v[1]};
    c.refuse(1, fmt::format("{} numbers for one axis", v.size()), "give how many before and after");
  };
  if (!c.is_sequence(1)) {
    widths.assign(rank, pair_of({c.integer(1, "the width", 0)}));
  } else {
    const std::vector<Value>& items = c.items(1, "the widths");
    const bool nested = !items.empty() && items[0].is<Sequence>();
    if (!nested) {
      widths.assign(rank, pair_of(c.integers(1, "a width")));
    } else {
      for (const Value& item : items) widths.push_back(pair_of(c.integers_of(item, "a width")));
      if (widths.size() == 1) widths.assign(rank, widths[0]);
    }
  }
  PadMode mode = PadMode::constant;
  if (c.has(2)) {
    const std::string name = c.text(2, "mode");
    constexpr std::array<std::string_view, 4> kNames{"constant", "edge", "reflect", "wrap"};
    const auto it = std::find(kNames.begin(), kNames.end(), name);
    if (it == kNames.end())
      c.refuse(2, fmt::format("no mode '{}'", name), "use 'constant', 'edge', 'reflect' or 'wrap'");
    mode = static_cast<PadMode>(it - kNames.begin());
  }
  const Scalar value = c.has(3) ? c.scalar(3, "the value") : Scalar(0);
  std::string key = fmt::format("{} {}", static_cast<int>(mode),
                                std::visit([](auto v) { return fmt::format("{}", v); }, value.value));
  for (const PadWidth& w : widths) key += fmt::format(" {},{}", w.before, w.after);
  return c.op(
      key, {x},
      [&] {
        ops::stored_scalar(f.name, value, c.dtype_of(x));  // refuses what does not fit
        return Result{ops::pad_shape(c.shape_of(x), widths, mode), c.dtype_of(x)};
      },
      [=](const Device&, Operands o) { return pad(o[0], widths, mode, value); },
      [&] {
        Slices slices;
        for (std::size_t i = 0; i < widths.size(); ++i) {
          if (widths[i].before == 0 && widths[i].after == 0) slices.axes |= std::uint32_t{1} << i;
        }
        return slices;
      });
}

Value apply_repeat(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  OpId x = c.tensor(0);
  const std::int64_t n = c.integer(1, "repeats", 1);
  std::int64_t axis = 0;
  if (c.has(2)) {
    axis = c.integer(2, "axis", 0);
  } else {
    x = c.graph().reshape(x, Shape{element_count(c.shape_of(x))});
  }
  return c.op(
      fmt::format("{} {}", n, axis), {x},
      [&] { return Result{ops::repeat_shape(c.shape_of(x), n, axis), c.dtype_of(x)}; },
      [=](const Device&, Operands o) { return repeat(o[0], n, axis); }, [&] { return c.all_but(axis, x); });
}

Value apply_tile(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const OpId x = c.tensor(0);
  const Integers repeats = c.integers(1, "a repeat");
  return c.op(
      list(repeats), {x}, [&] { return Result{ops::tile_shape(c.shape_of(x), repeats), c.dtype_of(x)}; },
      [=](const Device&, Operands o) { return tile(o[0], repeats); },
      [&] {
        Slices slices;
        const std::size_t rank = c.shape_of(x).rank();
        for (std::size_t i = 0; repeats.size() <= rank && i < rank; ++i) {
          const std::size_t missing = rank - repeats.size();
          if (i < missing || repeats[i - missing] == 1) slices.axes |= std::uint32_t{1} << i;
        }
        return slices;
      });
}

/// triu and tril: code 1 is the lower.
Value apply_triangle(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const OpId x = c.tensor(0);
  const std::int64_t k = c.integer(1, "k", 0);
  const bool lower = f.code == 1;
  return c.op(
      fmt::format("{}", k), {x},
      [&] {
        ops::check_triangle(f.name, c.shape_of(x));
        return Result{c.shape_of(x), c.dtype_of(x)};
      },
      [=](const Device&, Operands o) { return lower ? tril(o[0], k) : triu(o[0], k); },
      [&] { return Slices{.axes = first_axes(c.shape_of(x).rank() - 2)}; });
}

Value apply_eye(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const std::int64_t rows = c.integer(0, "N", 0);
  const std::int64_t columns = c.integer(1, "M", rows);
  const DType dtype = c.dtype(3, DType::f32);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto check_length = [&](std::size_t i, std::int64_t length) {
    if (length < 0) c.refuse(i, "a length below 0", "give lengths of at least 0");
    if (length > kMost) c.refuse(i, fmt::format("a length over {}", kMost), "give smaller lengths");
  };
  check_length(0, rows);
  check_length(c.has(1) ? 1 : 0, columns);
  // Further out there are zeros alone.
  const std::int64_t k = std::clamp(c.integer(2, "k", 0), -rows, columns);
  return c.op(
      fmt::format("{} {} {} {}", rows, columns, k, static_cast<int>(dtype)), {},
      [&] { return Result{Shape{rows, columns}, dtype}; },
      [=](const Device& d, Operands) {
        const Tensor row = reshape(arange(d, 0, rows, 1, DType::i32), Shape{rows, 1});
        const Tensor column = arange(d, -k, columns - k, 1, DType::i32);
        return cast(binary(weft::BinaryOp::equal, row, column), dtype);
      });
}

Value apply_one_hot(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const OpId x = c.tensor(0);
  const std::int64_t depth = c.integer(1, "depth", 0);
  const std::int64_t axis = c.integer(2, "axis", -1);
  const DType dtype = c.dtype(3, DType::f32);
  return c.op(
      fmt::format("{} {} {}", depth, axis, static_cast<int>(dtype)), {x},
      [&] {
        ops::check_index_dtype(f.name, c.dtype_of(x));
        return Result{ops::one_hot_shape(c.shape_of(x), depth, axis), dtype};
      },
      [=](const Device&, Operands o) { return one_hot(o[0], depth, axis, 1, 0, dtype); },
      [&] {
        const auto rank = static_cast<std::int64_t>(c.shape_of(x).rank());
        return Slices{.axes = first_axes(c.shape_of(x).rank()),
                      .inserted = static_cast<int>(axis < 0 ? axis + rank + 1 : axis)};
      });
}

/// sort and argsort: code 1 gives the positions.
Value apply_sort(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const OpId x = c.tensor(0);
  const SortOptions o{.axis = c.integer(1, "axis", -1), .descending = c.boolean(2, "descending")};
  const bool positions = f.code == 1;
  return c.op(
      fmt::format("{} {}", o.axis, o.descending), {x},
      [&] {
        ops::normalize_axis(f.name, o.axis, c.shape_of(x));
        return Result{c.shape_of(x), positions ? DType::i32 : c.dtype_of(x)};
      },
      [=](const Device&, Operands x_) { return positions ? argsort(x_[0], o) : sort(x_[0], o); },
      [&] { return c.all_but(o.axis, x); });
}

/// topk and argtopk: code 1 gives the positions.
Value apply_topk(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const OpId x = c.tensor(0);
  const std::int64_t k = c.integer(1, "k", 1);
  TopKOptions o;
  o.axis = c.integer(2, "axis", -1);
  if (c.has(3)) o.largest = c.boolean(3, "largest");
  const bool positions = f.code == 1;
  return c.op(
      fmt::format("{} {} {}", k, o.axis, o.largest), {x},
      [&] { return Result{ops::topk_shape(c.shape_of(x), k, o.axis), positions ? DType::i32 : c.dtype_of(x)}; },
      [=](const Device&, Operands x_) {
        const TopK both = topk(x_[0], k, o);
        return positions ? both.indices : both.values;
      },
      [&] { return c.all_but(o.axis, x); });
}

// -- layers
// ------------------------------------------------------------------------------------------------------------

Value apply_rms_norm(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  std::vector<OpId> operands{c.floats(0)};
  if (c.has(1)) operands.push_back(c.floats(1));
  RmsNormOptions o;
  o.eps = c.number(2, "eps", 1e-5);
  o.axis = c.integer(3, "axis", -1);
  return c.op(
      fmt::format("{} {}", o.eps, o.axis), operands,
      [&] {
        const Shape& x = c.shape_of(operands[0]);
        const std::size_t axis = ops::normalize_axis(f.name, o.axis, x);
        ops::check_eps(f.name, o.eps);
        if (operands.size() > 1) {
          const Shape inner(std::span<const std::int64_t>(x.begin() + axis, x.end()));
          ops::check_row_operand(f.name, "weight", c.shape_of(operands[1]), inner);
        }
        return Result{x, c.dtype_of(operands[0])};
      },
      [=](const Device&, Operands x) {
        RmsNormOptions with = o;
        if (x.size() > 1) with.weight = x[1];
        return rms_norm(x[0], with);
      },
      [&] { return Slices{.axes = first_axes(ops::normalize_axis(f.name, o.axis, c.shape_of(operands[0])))}; });
}

Value apply_group_norm(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  std::vector<OpId> operands{c.floats(0)};
  for (std::size_t i : {2, 3}) {
    if (c.has(i)) operands.push_back(c.floats(i));
  }
  GroupNormOptions o;
  o.groups = c.integer(1, "groups", 1);
  o.eps = c.number(4, "eps", 1e-5);
  const bool has_weight = c.has(2), has_bias = c.has(3);
  return c.op(
      fmt::format("{} {} {} {}", o.groups, o.eps, has_weight, has_bias), operands,
      [&] {
        const Shape& x = c.shape_of(operands[0]);
        ops::check_groups(x, o.groups);
        ops::check_eps(f.name, o.eps);
        for (std::size_t i = 1; i < operands.size(); ++i) {
          const std::string_view what = i == 1 && has_weight ? "the weight" : "the bias";
          ops::check_channel_operand(f.name, what, c.shape_of(operands[i]), x[1], x);
        }
        return Result{x, c.dtype_of(operands[0])};
      },
      [=](const Device&, Operands x) {
        GroupNormOptions with = o;
        if (has_weight) with.weight = x[1];
        if (has_bias) with.bias = x[has_weight ? 2 : 1];
        return group_norm(x[0], with);
      },
      [] { return Slices{.axes = 1}; });
}

Value apply_batch_norm(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  std::vector<OpId> operands{c.floats(0), c.floats(1), c.floats(2)};
  for (std::size_t i : {3, 4}) {
    if (c.has(i)) operands.push_back(c.floats(i));
  }
  BatchNormOptions o;
  o.eps = c.number(5, "eps", 1e-5);
  o.axis = c.integer(6, "axis", 1);
  const bool has_weight = c.has(3), has_bias = c.has(4);
  return c.op(
      fmt::format("{} {} {} {}", o.eps, o.axis, has_weight, has_bias), operands,
      [&] {
        const Shape& x = c.shape_of(operands[0]);
        const std::int64_t channels = x[ops::normalize_axis(f.name, o.axis, x)];
        ops::check_eps(f.name, o.eps);
        for (std::size_t i = 1; i < operands.size(); ++i) {
          const std::string_view what = i == 1                 ? "the mean"
                                        : i == 2               ? "the variance"
                                        : i == 3 && has_weight ? "the weight"
                                                               : "the bias";
          ops::check_channel_operand(f.name, what, c.shape_of(operands[i]), channels, x);
        }
        return Result{x, c.dtype_of(operands[0])};
      },
      [=](const Device&, Operands x) {
        BatchNormOptions with = o;
        if (has_weight) with.weight = x[3];
        if (has_bias) with.bias = x[has_weight ? 4 : 3];
        return batch_norm(x[0], x[1], x[2], with);
      },
      [&] { return c.all_but(o.axis, operands[0]); });
}

/// One number for all axes, or one for each.
Integers each_axis(const Call& c, std::size_t i, std::string_view what, std::size_t axes) {
  Integers v = c.integers(i, what);
  if (v.size() == 1) v.assign(axes, v[0]);
  return v;
}

/// padding=1, padding=(1, 2) by axis, or padding=(top, left, bottom, right).
void set_padding(const Call& c, std::size_t i, std::size_t axes, SlidingWindow& w) {
  const Integers v = each_axis(c, i, "padding", axes);
  if (v.size() == 2 * axes) {
    w.pad_before.assign(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(axes));
    w.pad_after.assign(v.begin() + static_cast<std::ptrdiff_t>(axes), v.end());
  } else {
    w.pad_before = w.pad_after = v;
  }
}

std::string key_of(const SlidingWindow& w) {
  return list(w.stride) + list(w.pad_before) + list(w.pad_after) + list(w.dilation);
}

/// conv1d, conv2d: code counts the axes.
Value apply_conv(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const auto axes = static_cast<std::size_t>(f.code);
  std::vector<OpId> operands{c.floats(0), c.floats(1)};
  if (c.has(2)) operands.push_back(c.floats(2));
  ConvOptions o;
  o.window.stride = each_axis(c, 3, "stride", axes);
  set_padding(c, 4, axes, o.window);
  o.window.dilation = each_axis(c, 5, "dilation", axes);
  o.groups = c.integer(6, "groups", 1);
  const DType dtype = ops::promote(c.dtype_of(operands[0]), c.dtype_of(operands[1]));
  for (OpId& x : operands) x = c.graph().cast(x, dtype);
  return c.op(
      fmt::format("{} {}", key_of(o.window), o.groups), operands,
      [&] {
        if (c.shape_of(operands[0]).rank() != axes + 2) {
          throw Error(ErrorCode::invalid_argument,
                      fmt::format("{}: an input of shape {}", f.name, to_string(c.shape_of(operands[0]))),
                      fmt::format("give it {} axes: batch, channels, and {} of space", axes + 2, axes));
        }
        const Shape to = ops::conv_shape(c.shape_of(operands[0]), c.shape_of(operands[1]), o);
        if (operands.size() > 2) ops::check_conv_bias(f.name, c.shape_of(operands[2]), to[1]);
        return Result{to, dtype};
      },
      [=](const Device&, Operands x) {
        ConvOptions with = o;
        if (x.size() > 2) with.bias = x[2];
        return conv(x[0], x[1], with);
      },
      [] { return Slices{.axes = 1}; });
}

Value apply_conv_transpose(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const auto axes = static_cast<std::size_t>(f.code);
  std::vector<OpId> operands{c.floats(0), c.floats(1)};
  if (c.has(2)) operands.push_back(c.floats(2));
  ConvTransposeOptions o;
  o.window.stride = each_axis(c, 3, "stride", axes);
  set_padding(c, 4, axes, o.window);
  o.output_padding = each_axis(c, 5, "output_padding", axes);
  o.groups = c.integer(6, "groups", 1);
  o.window.dilation = each_axis(c, 7, "dilation", axes);
  const DType dtype = ops::promote(c.dtype_of(operands[0]), c.dtype_of(operands[1]));
  for (OpId& x : operands) x = c.graph().cast(x, dtype);
  return c.op(
      fmt::format("{} {} {}", key_of(o.window), list(o.output_padding), o.groups), operands,
      [&] {
        const Shape to = ops::conv_transpose_shape(c.shape_of(operands[0]), c.shape_of(operands[1]), o);
        if (operands.size() > 2) ops::check_conv_bias(f.name, c.shape_of(operands[2]), to[1]);
        return Result{to, dtype};
      },
      [=](const Device&, Operands x) {
        ConvTransposeOptions with = o;
        if (x.size() > 2) with.bias = x[2];
        return conv_transpose(x[0], x[1], with);
      },
      [] { return Slices{.axes = 1}; });
}

/// max_pool1d, avg_pool2d, ...: code is the axes, and 16 more for the average. Strides are the size unless given.
Value apply_pool(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const auto axes = static_cast<std::size_t>(f.code % 16);
  const PoolOp op = f.code >= 16 ? PoolOp::average : PoolOp::max;
  const OpId x = c.floats(0);
  const Integers size = each_axis(c, 1, "the window's size", axes);
  PoolOptions o;
  o.window.stride = c.has(2) ? each_axis(c, 2, "stride", axes) : size;
  set_padding(c, 3, axes, o.window);
  o.ceil_mode = c.boolean(4, "ceil_mode");
  o.count_padded = c.boolean(5, "count_padded");
  return c.op(
      fmt::format("{} {} {} {}", list(size), key_of(o.window), o.ceil_mode, o.count_padded), {x},
      [&] { return Result{ops::pool_shape(c.shape_of(x), size, o), c.dtype_of(x)}; },
      [=](const Device&, Operands x_) { return pool(op, x_[0], size, o); }, [] { return Slices{.axes = 3}; });
}

Value apply_attention(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  std::vector<OpId> operands{c.floats(0), c.floats(1), c.floats(2)};
  const DType dtype =
      ops::promote(ops::promote(c.dtype_of(operands[0]), c.dtype_of(operands[1])), c.dtype_of(operands[2]));
  for (OpId& x : operands) x = c.graph().cast(x, dtype);
  const bool has_mask = c.has(3);
  if (has_mask) operands.push_back(c.tensor(3));
  AttentionOptions o;
  if (c.has(4)) o.scale = c.number(4, "scale", 1);
  o.causal = c.boolean(5, "causal");
  o.softcap = c.number(6, "softcap", 0);
  return c.op(
      fmt::format("{} {} {}", o.scale ? fmt::format("{}", *o.scale) : "-", o.causal, o.softcap), operands,
      [&] {
        ops::check_attention_numbers(o.scale.value_or(1), o.softcap);
        const ops::AttentionShape s =
            ops::attention_shape(c.shape_of(operands[0]), c.shape_of(operands[1]), c.shape_of(operands[2]));
        if (has_mask) ops::check_attention_mask(s, c.shape_of(operands[3]), c.dtype_of(operands[3]));
        return Result{s.result(), dtype};
      },
      [=](const Device&, Operands x) {
        AttentionOptions with = o;
        if (has_mask) with.mask = x[3];
        return attention(x[0], x[1], x[2], with);
      },
      [&] {
        // Items of the batch; the mask has them too, or is the same for all.
        const Shape& q = c.shape_of(operands[0]);
        const bool masks = has_mask && c.shape_of(operands[3]).rank() == 4 && c.shape_of(operands[3])[0] == q[0];
        return Slices{.axes = 1, .operands = masks ? 15u : 7u};
      });
}

// -- signals, random numbers
// -------------------------------------------------------------------------------------------

/// Complex numbers are pairs along a last axis of 2.
Value apply_fft(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const auto transform = static_cast<ops::Transform>(f.code);
  OpId x = c.floats(0);
  x = c.graph().cast(x, DType::f32);
  FftOptions o;
  if (c.has(1)) o.n = c.integer(1, "n", 0);
  o.axis = c.integer(2, "axis", -1);
  return c.op(
      fmt::format("{} {}", o.n.value_or(-1), o.axis), {x},
      [&] { return Result{ops::transform_rule(transform, c.shape_of(x), o).shape, DType::f32}; },
      [=](const Device&, Operands x_) {
        switch (transform) {
          case ops::Transform::fft: return fft(x_[0], o);
          case ops::Transform::ifft: return ifft(x_[0], o);
          case ops::Transform::rfft: return rfft(x_[0], o);
          default: return irfft(x_[0], o);
        }
      },
      [&] {
        const ops::TransformRule rule = ops::transform_rule(transform, c.shape_of(x), o);
        const std::size_t signal = c.shape_of(x).rank() - (transform == ops::Transform::rfft ? 0 : 1);
        return Slices{.axes = first_axes(signal) & ~(std::uint32_t{1} << rule.axis)};
      });
}

/// random_uniform and random_normal (code 1): always of a seed, so that an expression means one value.
Value apply_random(Translator& t, const Function& f, const Arguments& args) {
  const Call c(t, f, args);
  const Shape shape = c.shape(0);
  const std::int64_t seed = c.integer(1, "seed", 0);
  const bool normal = f.code == 1;
  const double a = c.number(2, normal ? "mean" : "low", 0);
  const double b = c.number(3, normal ? "stddev" : "high", 1);
  return c.op(
      fmt::format("{} {} {}", seed, a, b), {},
      [&] {
        if (normal)
          ops::check_normal(a, b);
        else
          ops::check_uniform_range(a, b, DType::f32);
        return Result{shape, DType::f32};
      },
      [=](const Device& d, Operands) {
        Random generator{static_cast<std::uint64_t>(seed), 0};
        return normal ? random_normal(d, shape, generator, a, b) : random_uniform(d, shape, generator, a, b);
      });
}

constexpr auto kFunctions = std::to_array<Function>({
    {"argsort", "x, axis=, descending=", apply_sort, 1, true},
    {"argtopk", "x, k, axis=, largest=", apply_topk, 1},
    {"attention", "q, k, v, mask=, scale=, causal=, softcap=", apply_attention},
    {"avg_pool1d", "x, size, stride=, padding=, ceil_mode=, count_padded=", apply_pool, 17},
    {"avg_pool2d", "x, size, stride=, padding=, ceil_mode=, count_padded=", apply_pool, 18},
    {"batch_norm", "x, mean, var, weight=, bias=, eps=, axis=", apply_batch_norm},
    {"conv1d", "x, weight, bias=, stride=, padding=, dilation=, groups=", apply_conv, 1},
    {"conv2d", "x, weight, bias=, stride=, padding=, dilation=, groups=", apply_conv, 2},
    {"conv_transpose1d",
     "x, weight, bias=, stride=, padding=, output_padding=, groups=, dilation=", apply_conv_transpose, 1},
    {"conv_transpose2d",
     "x, weight, bias=, stride=, padding=, output_padding=, groups=, dilation=", apply_conv_transpose, 2},
    {"cummax", "x, axis=, exclusive=, reverse=", apply_scan, static_cast<int>(ScanOp::max)},
    {"cummin", "x, axis=, exclusive=, reverse=", apply_scan, static_cast<int>(ScanOp::min)},
    {"cumprod", "x, axis=, exclusive=, reverse=", apply_scan, static_cast<int>(ScanOp::prod), true},
    {"cumsum", "x, axis=, exclusive=, reverse=", apply_scan, static_cast<int>(ScanOp::sum), true},
    {"eye", "N, M=, k=, dtype=", apply_eye},
    {"fft", "x, n=, axis=", apply_fft, static_cast<int>(ops::Transform::fft)},
    {"group_norm", "x, groups, weight=, bias=, eps=", apply_group_norm},
    {"ifft", "x, n=, axis=", apply_fft, static_cast<int>(ops::Transform::ifft)},
    {"irfft", "x, n=, axis=", apply_fft, static_cast<int>(ops::Transform::irfft)},
    {"logsumexp", "x, axis=, keepdims=", apply_logsumexp},
    {"max_pool1d", "x, size, stride=, padding=, ceil_mode=", apply_pool, 1},
    {"max_pool2d", "x, size, stride=, padding=, ceil_mode=", apply_pool, 2},
    {"norm", "x, ord=, axis=, keepdims=", apply_norm},
    {"one_hot", "indices, depth, axis=, dtype=", apply_one_hot},
    {"pad", "x, widths, mode=, value=", apply_pad},
    {"random_normal", "shape, seed=, mean=, stddev=", apply_random, 1},
    {"random_uniform", "shape, seed=, low=, high=", apply_random, 0},
    {"repeat", "x, repeats, axis=", apply_repeat, 0, true},
    {"rfft", "x, n=, axis=", apply_fft, static_cast<int>(ops::Transform::rfft)},
    {"rms_norm", "x, weight=, eps=, axis=", apply_rms_norm},
    {"sort", "x, axis=, descending=", apply_sort, 0, true},
    {"std", "x, axis=, keepdims=, ddof=", apply_moment, 1, true},
    {"take_along_axis", "x, indices, axis=", apply_take_along_axis},
    {"tile", "x, repeats", apply_tile},
    {"topk", "x, k, axis=, largest=", apply_topk, 0},
    {"tril", "x, k=", apply_triangle, 1},
    {"triu", "x, k=", apply_triangle, 0},
    {"var", "x, axis=, keepdims=, ddof=", apply_moment, 0, true},
});

}  // namespace

std::span<const Function> library_functions() noexcept {
  return kFunctions;
}

}  // namespace weft::expr
