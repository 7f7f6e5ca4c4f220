// Views, and functions that move elements.
#include <fmt/format.h>

#include <algorithm>

#include "trace.h"
#include "weft_python.h"

namespace weft::python {
namespace {

std::vector<Tensor> tensors(nb::handle parts) {
  std::vector<Tensor> out;
  // Kept in a list: what is iterated over may be gone afterwards.
  const nb::list kept = nb::steal<nb::list>(PySequence_List(parts.ptr()));
  if (!kept.is_valid()) throw nb::python_error();
  std::optional<Device> beside;
  for (const nb::handle part : kept) {
    if (is_array(part) && !beside) beside = nb::inst_ptr<Array>(part)->device();
  }
  for (const nb::handle part : kept) out.push_back(to_tensor(ArrayLike{part}, beside));
  return out;
}

/// What stack() joins has one shape.
void check_stacked(const std::vector<Tensor>& parts) {
  if (parts.empty()) throw Error(ErrorCode::invalid_argument, "stack: no arrays given", "give at least one");
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].shape() == parts[0].shape()) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("stack: array 0 has shape {}, and array {} {}", to_string(parts[0].shape()), i,
                            to_string(parts[i].shape())),
                "give arrays of one shape, or use concat");
  }
}

}  // namespace

void bind_views(nb::module_& m) {
  m.def(
      "reshape",
      [](ArrayLike x, ShapeLike shape_given) {
        const Tensor t = to_tensor(x);
        const Shape shape = to_shape(shape_given);
        return record([&] { return reshape(t, shape); });
      },
      nb::arg("x"), nb::arg("shape"), "One length may be -1. A view where the strides allow it.");
  m.def(
      "permute_dims",
      [](ArrayLike x, AxesLike axes_given) {
        const Tensor t = to_tensor(x);
        const auto axes = to_axes(axes_given);
        if (axes && axes->empty() && t.rank() != 0) {
          throw Error(ErrorCode::invalid_argument, "permute_dims: no axes given", "name each axis once");
        }
        return record([&] { return transpose(t, axes.value_or(std::vector<std::int64_t>{})); });
      },
      nb::arg("x"), nb::arg("axes") = nb::none(), "Axes in the order given; None: reversed. A view.");
  m.def(
      "broadcast_to",
      [](ArrayLike x, ShapeLike shape_given) {
        const Tensor t = to_tensor(x);
        const Shape shape = to_shape(shape_given);
        return record([&] { return broadcast_to(t, shape); });
      },
      nb::arg("x"), nb::arg("shape"), "A view.");
  m.def(
      "expand_dims",
      [](ArrayLike x, ShapeLike axis_given) {
        const Tensor t = to_tensor(x);
        std::vector<std::int64_t> axes = to_integers(axis_given.given, "axis");
        return record([&] {
          if (axes.size() == 1) return expand_dims(t, axes[0]);
          // Each names a place of the result: from the front they go in by turns.
          const auto rank = static_cast<std::int64_t>(t.rank() + axes.size());
          for (std::int64_t& axis : axes) {
            if (axis < -rank || axis >= rank) {
              throw Error(ErrorCode::out_of_range,
                          fmt::format("expand_dims: axis {} is out of range for a result of {} dimensions", axis, rank),
                          fmt::format("use axes from {} to {}", -rank, rank - 1));
            }
            if (axis < 0) axis += rank;
          }
          std::sort(axes.begin(), axes.end());
          if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
            throw Error(ErrorCode::invalid_argument, "expand_dims: an axis is given twice", "name each new axis once");
          }
          Tensor out = t;
          for (const std::int64_t axis : axes) out = expand_dims(out, axis);
          return out;
        });
      },
      nb::arg("x"), nb::arg("axis") = 0, "New axes of length 1 at these places of the result. A view.");
  m.def("_slice", [](ArrayLike x, std::int64_t axis, std::optional<std::int64_t> start,
                     std::optional<std::int64_t> stop, std::int64_t step) {
    const Tensor t = to_tensor(x);
    return record([&] { return slice(t, axis, start, stop, step); });
  });
  m.def(
      "concat",
      [](nb::handle arrays, AxesLike axis) {
        std::vector<Tensor> parts = tensors(arrays);
        const auto at = to_axes(axis);
        if (at && at->size() != 1) {
          throw Error(ErrorCode::invalid_argument, fmt::format("concat: {} axes given", at->size()),
                      "give one, or None for the flattened arrays");
        }
        return record([&] {
          if (!at) {
            for (Tensor& p : parts) p = reshape(p, {-1});
          }
          return concat(parts, at ? at->front() : 0);
        });
      },
      nb::arg("arrays"), nb::arg("axis") = 0,
      nb::sig("def concat(arrays: collections.abc.Iterable[weft._types.ArrayLike], axis: int | None = 0) -> Array"),
      "Joined along an axis that is there; None: all flattened first.");
  m.def(
      "stack",
      [](nb::handle arrays, std::int64_t axis) {
        std::vector<Tensor> parts = tensors(arrays);
        check_stacked(parts);
        return record([&] {
          for (Tensor& p : parts) p = expand_dims(p, axis);
          return concat(parts, axis);
        });
      },
      nb::arg("arrays"), nb::arg("axis") = 0,
      nb::sig("def stack(arrays: collections.abc.Iterable[weft._types.ArrayLike], axis: int = 0) -> Array"),
      "Joined along a new axis.");
  m.def(
      "take",
      [](ArrayLike x, ArrayLike indices_given, std::optional<std::int64_t> axis) {
        const auto beside = device_beside({x.given, indices_given.given});
        const Tensor t = to_tensor(x, beside);
        const Tensor indices = to_tensor(indices_given, beside);
        return record([&] { return take(t, indices, axis, index_check()); });
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("axis") = nb::none(),
      "numpy.take; an index out of range is an IndexError. In a function of weft.jit it is not found, and gives 0.");
  m.def("_contiguous", [](ArrayLike x) {
    const Tensor t = to_tensor(x);
    return record([&] { return contiguous(t); });
  });
}

}  // namespace weft::python
