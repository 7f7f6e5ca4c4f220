// Picking, placing and shaping elements.
#include <fmt/format.h>

#include "trace.h"
#include "weft_python.h"

namespace weft::python {
namespace {

ScatterOp to_scatter_op(const std::string& name) {
  if (name == "set") return ScatterOp::set;
  if (name == "add") return ScatterOp::add;
  if (name == "multiply") return ScatterOp::multiply;
  if (name == "maximum") return ScatterOp::maximum;
  if (name == "minimum") return ScatterOp::minimum;
  throw Error(ErrorCode::invalid_argument, fmt::format("scatter: op is '{}'", name),
              "use 'set', 'add', 'multiply', 'maximum' or 'minimum'");
}

PadMode to_pad_mode(const std::string& name) {
  if (name == "constant") return PadMode::constant;
  if (name == "edge") return PadMode::edge;
  if (name == "reflect") return PadMode::reflect;
  if (name == "wrap") return PadMode::wrap;
  throw Error(ErrorCode::invalid_argument, fmt::format("pad: mode is '{}'", name),
              "use 'constant', 'edge', 'reflect' or 'wrap'");
}

}  // namespace

void bind_indexing(nb::module_& m) {
  m.def(
      "take_along_axis",
      [](ArrayLike x_given, ArrayLike indices_given, std::int64_t axis) {
        const auto beside = device_beside({x_given.given, indices_given.given});
        const Tensor x = to_tensor(x_given, beside);
        const Tensor indices = to_tensor(indices_given, beside);
        return record([&] { return take_along_axis(x, indices, axis, index_check()); });
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("axis") = -1,
      "numpy.take_along_axis; an index out of range is an IndexError.");
  m.def(
      "gather_nd",
      [](ArrayLike x_given, ArrayLike indices_given, std::int64_t batch_axes) {
        const auto beside = device_beside({x_given.given, indices_given.given});
        const Tensor x = to_tensor(x_given, beside);
        const Tensor indices = to_tensor(indices_given, beside);
        return record([&] { return gather_nd(x, indices, batch_axes, index_check()); });
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("batch_axes") = 0,
      "The last axis of indices holds index tuples into the axes of x behind the first batch_axes.");
  m.def(
      "embedding",
      [](ArrayLike table_given, ArrayLike ids_given) {
        const auto beside = device_beside({table_given.given, ids_given.given});
        const Tensor table = to_tensor(table_given, beside);
        const Tensor ids = to_tensor(ids_given, beside);
        return record([&] { return embedding(table, ids, index_check()); });
      },
      nb::arg("table"), nb::arg("ids"), "The rows of a table that ids name.");
  m.def(
      "scatter_along_axis",
      [](ArrayLike x_given, ArrayLike indices_given, ArrayLike updates_given, std::int64_t axis,
         const std::string& op) {
        const auto beside = device_beside({x_given.given, indices_given.given, updates_given.given});
        const Tensor x = to_tensor(x_given, beside);
        const Tensor indices = to_tensor(indices_given, beside);
        const Tensor updates = to_tensor(updates_given, beside);
        const ScatterOptions options{.op = to_scatter_op(op), .check = index_check()};
        return record([&] { return scatter_along_axis(x, indices, updates, axis, options); });
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("updates"), nb::arg("axis") = -1, nb::arg("op") = "set",
      "A copy of x with updates at the places that numpy.take_along_axis would read.\n\n"
      "op: how an update meets what is there: 'set' (the last of several wins), 'add', 'multiply', 'maximum', "
      "'minimum'.");
  m.def(
      "scatter_nd",
      [](ArrayLike x_given, ArrayLike indices_given, ArrayLike updates_given, const std::string& op) {
        const auto beside = device_beside({x_given.given, indices_given.given, updates_given.given});
        const Tensor x = to_tensor(x_given, beside);
        const Tensor indices = to_tensor(indices_given, beside);
        const Tensor updates = to_tensor(updates_given, beside);
        const ScatterOptions options{.op = to_scatter_op(op), .check = index_check()};
        return record([&] { return scatter_nd(x, indices, updates, options); });
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("updates"), nb::arg("op") = "set",
      "A copy of x with slices updates[i, ...] at x[indices[i]]; the last axis of indices holds index tuples.");
  m.def("_pad", [](ArrayLike x_given, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
                   const std::string& mode_given, NumberLike value_given) {
    const Tensor x = to_tensor(x_given);
    const PadMode mode = to_pad_mode(mode_given);
    const Scalar value = to_scalar(value_given);
    std::vector<PadWidth> pads;
    pads.reserve(widths.size());
    for (const auto& [before, after] : widths) pads.push_back({before, after});
    return record([&] { return pad(x, pads, mode, value); });
  });
  m.def("_repeat", [](ArrayLike x_given, std::int64_t n, std::int64_t axis) {
    const Tensor x = to_tensor(x_given);
    return record([&] { return repeat(x, n, axis); });
  });
  m.def("_tile", [](ArrayLike x_given, const std::vector<std::int64_t>& repeats) {
    const Tensor x = to_tensor(x_given);
    return record([&] { return tile(x, repeats); });
  });
  const auto triangle = [&](const char* name, auto make, const char* doc) {
    m.def(
        name,
        [make](ArrayLike x_given, std::int64_t k) {
          const Tensor x = to_tensor(x_given);
          return record([&] { return make(x, k); });
        },
        nb::arg("x"), nb::kw_only(), nb::arg("k") = 0, doc);
  };
  triangle("triu", [](const Tensor& x, std::int64_t k) { return triu(x, k); }, "Zeros below the k-th diagonal.");
  triangle("tril", [](const Tensor& x, std::int64_t k) { return tril(x, k); }, "Zeros above the k-th diagonal.");
  m.def(
      "one_hot",
      [](ArrayLike indices_given, std::int64_t depth, std::int64_t axis, NumberLike on_given, NumberLike off_given,
         DTypeLike dtype_given) {
        const Tensor indices = to_tensor(indices_given);
        const Scalar on = to_scalar(on_given);
        const Scalar off = to_scalar(off_given);
        const DType dtype = to_optional_dtype(dtype_given).value_or(DType::f32);
        return record([&] { return one_hot(indices, depth, axis, on, off, dtype); });
      },
      nb::arg("indices"), nb::arg("depth"), nb::kw_only(), nb::arg("axis") = -1, nb::arg("on") = 1, nb::arg("off") = 0,
      nb::arg("dtype") = nb::none(),
      "A new axis of this length with `on` at each index, `off` elsewhere; dtype None: float32.");
}

}  // namespace weft::python
