// Views, concat, take, full and arange. Expected elements are named by where they come from, so that every dtype is
// compared by its bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "ops/copy.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "unit/thrown.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft {
namespace {

using testing::each_index;
using testing::Index;
using testing::test_device;
using testing::Thrown;
using testing::thrown;
using Bound = std::optional<std::int64_t>;
using Bytes = std::vector<std::byte>;

std::vector<DType> dtypes() {
  return testing::dtypes_of(test_device());
}

std::int64_t flat(const Shape& shape, const Index& at) {
  return static_cast<std::int64_t>(testing::flat(shape, at));
}

/// Some bits that the dtype can hold, different for most i; NaN and -0 among the floats.
Bytes sample(DType dtype, std::int64_t count, std::uint32_t seed = 1) {
  Bytes out(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t v = (static_cast<std::uint32_t>(i) + seed) * 2654435761U;
    v ^= v >> 15;
    if (dtype == DType::bool_) v &= 1;
    if (dtype == DType::f32)
      v = v % 97 == 0 ? 0x7fc00000U : v % 89 == 0 ? 0x80000000U : (v & 0x807fffffU) | 0x3f000000U;
    if (dtype == DType::f16) v = v % 97 == 0 ? 0x7e00U : v % 89 == 0 ? 0x8000U : (v & 0x83ffU) | 0x3800U;
    std::memcpy(&out[static_cast<std::size_t>(i) * size_of(dtype)], &v, size_of(dtype));
  }
  return out;
}

/// A tensor and, for each of its elements in row-major order, the bytes that it must have.
struct Known {
  Tensor tensor;
  Bytes bytes;

  Shape shape() const { return tensor.shape(); }
  std::size_t size() const { return size_of(tensor.dtype()); }
};

Known known(DType dtype, const Shape& shape, std::uint32_t seed = 1) {
  Known k;
  k.bytes = sample(dtype, element_count(shape), seed);
  k.tensor = test_device().upload_array(k.bytes, shape, dtype);
  return k;
}

void append(Bytes& out, const Known& from, std::int64_t element) {
  const auto begin = from.bytes.begin() + element * static_cast<std::int64_t>(from.size());
  out.insert(out.end(), begin, begin + static_cast<std::int64_t>(from.size()));
}

/// `view` as a result of `shape` whose element at i is base's element at source(i).
Known mapped(const Known& base, Tensor view, const Shape& shape, const std::function<Index(const Index&)>& source) {
  Known k;
  k.tensor = std::move(view);
  each_index(shape, [&](const Index& at) { append(k.bytes, base, flat(base.shape(), source(at))); });
  EXPECT_EQ(k.tensor.shape(), shape);
  EXPECT_EQ(k.tensor.dtype(), base.tensor.dtype());
  return k;
}

void expect_elements(const Known& k, const std::string& what = {}) {
  EXPECT_EQ(k.tensor.to_host_bytes(), k.bytes) << what << " shape " << to_string(k.shape()) << " strides "
                                               << to_string(k.tensor.strides()) << " " << to_string(k.tensor.dtype());
}

Known transposed(const Known& x) {
  Shape shape;
  for (std::size_t i = x.shape().rank(); i-- > 0;) shape.push_back(x.shape()[i]);
  return mapped(x, transpose(x.tensor), shape, [](const Index& i) { return Index(i.rbegin(), i.rend()); });
}

/// x[::-1] on one axis.
Known flipped(const Known& x, std::size_t axis) {
  const std::int64_t last = x.shape()[axis] - 1;
  return mapped(x, slice(x.tensor, static_cast<std::int64_t>(axis), std::nullopt, std::nullopt, -1), x.shape(),
                [=](Index i) {
                  i[axis] = last - i[axis];
                  return i;
                });
}

Tensor indices_of(std::vector<std::int32_t> values, const Shape& shape) {
  return test_device().upload(std::span<const std::int32_t>(values), shape);
}

// -- views ----------------------------------------------------------------------------------------------------------

TEST(Views, TransposeInEveryOrder) {
  const Known x = known(DType::i32, {2, 3, 5});
  std::array<std::int64_t, 3> order{0, 1, 2};
  do {
    Shape shape;
    for (std::int64_t axis : order) shape.push_back(x.shape()[static_cast<std::size_t>(axis)]);
    std::array<std::int64_t, 3> given = order;
    given[1] -= 3;  // counted from the end
    const Known y = mapped(x, transpose(x.tensor, given), shape, [&](const Index& i) {
      Index from(3);
      for (std::size_t k = 0; k < 3; ++k) from[static_cast<std::size_t>(order[k])] = i[k];
      return from;
    });
    EXPECT_EQ(y.tensor.buffer(), x.tensor.buffer());
    expect_elements(y);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Views, TransposeOfEveryDTypeAndOfNothing) {
  for (DType t : dtypes()) expect_elements(transposed(known(t, {3, 7})));
  expect_elements(transposed(known(DType::f32, {})));
  expect_elements(transposed(known(DType::f32, {0, 3})));
  EXPECT_EQ(thrown([] { transpose(Tensor()); }).code, ErrorCode::invalid_argument);
}

TEST(Views, ReshapeSharesWhereStridesAllow) {
  const Known x = known(DType::i32, {4, 6});
  const auto same_order = [](const Known& from, Tensor view) { return Known{std::move(view), from.bytes}; };
  for (const Shape& shape : {Shape{24}, Shape{2, 2, 6}, Shape{4, 1, 3, 2}, Shape{-1, 8}}) {
    const Known y = same_order(x, reshape(x.tensor, shape));
    EXPECT_EQ(y.tensor.buffer(), x.tensor.buffer());
    expect_elements(y);
  }
  const Known t = transposed(x);
  const Known split = same_order(t, reshape(t.tensor, {2, 3, 4}));
  EXPECT_EQ(split.tensor.buffer(), x.tensor.buffer());
  expect_elements(split);
  const Known copied = same_order(t, reshape(t.tensor, {24}));
  EXPECT_FALSE(copied.tensor.buffer() == x.tensor.buffer());
  expect_elements(copied);
}

TEST(Views, ReshapeOfEveryDTypeThatNeedsACopy) {
  for (DType t : dtypes()) {
    const Known x = flipped(transposed(known(t, {5, 7})), 0);
    expect_elements({reshape(x.tensor, {-1}), x.bytes});
    expect_elements({reshape(x.tensor, {5, 7}), x.bytes});
  }
}

TEST(Views, ReshapeOfScalarsAndNothing) {
  const Known x = known(DType::f32, {});
  expect_elements({reshape(x.tensor, {1, 1}), x.bytes});
  EXPECT_EQ(reshape(reshape(x.tensor, {1, 1}), {}).shape(), Shape{});
  const Known empty = known(DType::f32, {0, 3});
  EXPECT_EQ(reshape(transpose(empty.tensor), {5, 0}).shape(), (Shape{5, 0}));
  EXPECT_EQ(reshape(slice(empty.tensor, 1, 1, 2), {0}).size(), 0);
}

TEST(Views, BroadcastTo) {
  const Known x = known(DType::i32, {3, 1});
  const Known y =
      mapped(x, broadcast_to(x.tensor, {2, 3, 4}), {2, 3, 4}, [](const Index& i) { return Index{i[1], 0}; });
  EXPECT_EQ(y.tensor.buffer(), x.tensor.buffer());
  expect_elements(y);
  const Known scalar = known(DType::bool_, {});
  expect_elements(mapped(scalar, broadcast_to(scalar.tensor, {5}), {5}, [](const Index&) { return Index{}; }));
  EXPECT_EQ(broadcast_to(x.tensor, {3, 0}).size(), 0);
  EXPECT_EQ(broadcast_to(known(DType::f32, {0}).tensor, {4, 0}).shape(), (Shape{4, 0}));
  EXPECT_EQ(thrown([&] { broadcast_to(x.tensor, {4, 1}); }).text,
            "broadcast_to: shape (3, 1) does not stretch to (4, 1): axis 0 would go from 3 to 4. Fix: stretch axes of "
            "length 1, or put new axes in front.");
  EXPECT_EQ(thrown([&] { broadcast_to(x.tensor, {3}); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { broadcast_to(x.tensor, {3, -1}); }).code, ErrorCode::out_of_range);
}

TEST(Views, ExpandDims) {
  const Known x = known(DType::i32, {2, 3});
  for (std::int64_t axis = -3; axis <= 2; ++axis) {
    Shape shape = x.shape();
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + 3 : axis);
    shape.insert(at, 1);
    expect_elements(mapped(x, expand_dims(x.tensor, axis), shape, [at](Index i) {
      i.erase(i.begin() + static_cast<std::ptrdiff_t>(at));
      return i;
    }));
  }
  EXPECT_EQ(expand_dims(known(DType::f32, {}).tensor, 0).shape(), (Shape{1}));
  EXPECT_EQ(
      thrown([&] { expand_dims(x.tensor, 3); }).text,
      "expand_dims: axis 3 is out of range for a result of 3 dimensions, made from shape (2, 3). Fix: use an axis "
      "from -3 to 2.");
  EXPECT_EQ(thrown([&] { expand_dims(x.tensor, -4); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([] { expand_dims(known(DType::i32, {1, 1, 1, 1, 1, 1, 1, 1}).tensor, 0); }).code,
            ErrorCode::invalid_argument);
}

TEST(Views, SliceOfEachAxis) {
  const Known x = known(DType::i32, {3, 5, 4});
  struct Case {
    std::int64_t axis;
    Bound start, stop;
    std::int64_t step;
    std::vector<std::int64_t> picks;
  };
  const Case cases[] = {
      {0, 1, std::nullopt, 1, {1, 2}},
      {1, std::nullopt, std::nullopt, -2, {4, 2, 0}},
      {-2, -2, std::nullopt, 1, {3, 4}},
      {1, 3, 0, -1, {3, 2, 1}},
      {2, std::nullopt, std::nullopt, 3, {0, 3}},
      {2, 2, 2, 1, {}},
      {1, 10, 20, 1, {}},
      {0, std::nullopt, std::nullopt, INT64_MIN, {2}},
      {0, std::nullopt, std::nullopt, INT64_MAX, {0}},
  };
  for (const Case& c : cases) {
    const auto axis = static_cast<std::size_t>(c.axis < 0 ? c.axis + 3 : c.axis);
    Shape shape = x.shape();
    shape[axis] = static_cast<std::int64_t>(c.picks.size());
    const Known y = mapped(x, slice(x.tensor, c.axis, c.start, c.stop, c.step), shape, [&](Index i) {
      i[axis] = c.picks[static_cast<std::size_t>(i[axis])];
      return i;
    });
    EXPECT_EQ(y.tensor.buffer(), x.tensor.buffer());
    expect_elements(y);
  }
  EXPECT_EQ(thrown([&] { slice(x.tensor, 3, 0, 1); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { slice(x.tensor, 0, 0, 1, 0); }).code, ErrorCode::invalid_argument);
}

TEST(Views, SliceOfPackedDTypesFromEveryOffset) {
  for (DType t : dtypes()) {
    const Known x = known(t, {37});
    for (std::int64_t start : {0, 1, 2, 3, 5, 29}) {
      for (std::int64_t step : {1, 2, 3}) {
        const std::int64_t count = (37 - start + step - 1) / step;
        expect_elements(mapped(x, slice(x.tensor, 0, start, std::nullopt, step), {count},
                               [=](const Index& i) { return Index{start + i[0] * step}; }));
      }
      expect_elements(mapped(x, slice(x.tensor, 0, start, std::nullopt, -1), {start + 1},
                             [=](const Index& i) { return Index{start - i[0]}; }));
    }
  }
}

TEST(Views, Select) {
  const Known x = known(DType::i32, {3, 4});
  for (std::int64_t index = -4; index < 4; ++index) {
    const std::int64_t at = index < 0 ? index + 4 : index;
    expect_elements(mapped(x, select(x.tensor, 1, index), {3}, [at](const Index& i) { return Index{i[0], at}; }));
  }
  const Known one = mapped(x, select(select(x.tensor, 0, -1), 0, 2), {}, [](const Index&) { return Index{2, 2}; });
  expect_elements(one);
  EXPECT_EQ(
      thrown([&] { select(x.tensor, -1, 4); }).text,
      "select: index 4 is out of range for axis 1 of length 4, of a tensor of shape (3, 4). Fix: use an index from "
      "-4 to 3.");
  EXPECT_EQ(thrown([&] { select(x.tensor, 0, -4); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([] { select(known(DType::f32, {0}).tensor, 0, 0); }).code, ErrorCode::out_of_range);
}

TEST(Views, ChainsOfViews) {
  for (DType t : dtypes()) {
    const Known x = known(t, {6, 5, 4});
    // x[::-2].T[1:, 3][..., None], by hand
    const Tensor view = expand_dims(
        select(slice(transpose(slice(x.tensor, 0, std::nullopt, std::nullopt, -2)), 0, 1, std::nullopt), 1, 3), -1);
    expect_elements(mapped(x, view, {3, 3, 1}, [](const Index& i) { return Index{5 - 2 * i[1], 3, i[0] + 1}; }));
  }
}

TEST(Views, OfNothingLieAtTheStart) {
  // Where a slice of an empty axis would begin may be past the end of a buffer of no elements.
  Device device = test_device();
  const Tensor nothing = device.empty({0, 8}, DType::f32);
  for (const Tensor& view : {slice(nothing, 1, 4, std::nullopt, -2), select(nothing, 1, 5)}) {
    EXPECT_EQ(view.offset(), 0);
    EXPECT_TRUE(view.to_host<float>().empty());
    EXPECT_NO_THROW(device.read_async(view.buffer(), static_cast<std::size_t>(view.offset()) * 4, 0));
  }
}

TEST(Views, EightAxes) {
  const Known x = known(DType::i32, {2, 1, 3, 1, 2, 2, 1, 3});
  expect_elements(transposed(x));
  expect_elements(flipped(transposed(x), 5));
}

// -- copies between views -------------------------------------------------------------------------------------------

// What lies around the written part stays. bools start false.
TEST(CopyInto, LeavesTheRestAlone) {
  for (DType t : dtypes()) {
    for (std::int64_t start : {0, 1, 2, 4, 8}) {
      for (std::int64_t count : {1, 3, 4, 8, 9, 16}) {
        const Known in = known(t, {5, count}, 7);
        Bytes around(static_cast<std::size_t>(5 * 32) * size_of(t), std::byte{0});
        if (t != DType::bool_) around = sample(t, 5 * 32, 99);
        const Tensor out = test_device().upload_array(around, {5, 32}, t);
        ops::copy_into(slice(out, 1, start, start + count), in.tensor, "test");
        for (std::int64_t row = 0; row < 5; ++row) {
          std::memcpy(&around[static_cast<std::size_t>(row * 32 + start) * size_of(t)],
                      &in.bytes[static_cast<std::size_t>(row * count) * size_of(t)],
                      static_cast<std::size_t>(count) * size_of(t));
        }
        ASSERT_EQ(out.to_host_bytes(), around) << to_string(t) << " " << start << " " << count;
      }
    }
  }
}

TEST(CopyInto, InPiecesAsTheLimitAsks) {
  for (DType t : dtypes()) {
    const Known in = flipped(transposed(known(t, {70, 41})), 1);
    const Tensor out = test_device().zeros(in.shape(), t);
    const std::uint64_t before = test_device().stats().dispatches;
    ops::copy_into(out, in.tensor, "test", 2048);
    EXPECT_GE(test_device().stats().dispatches - before, 2U);
    expect_elements({out, in.bytes});
  }
}

// -- concat ---------------------------------------------------------------------------------------------------------

/// numpy.concatenate of parts of one dtype, element by element.
Bytes concat_bytes(const std::vector<Known>& parts, std::size_t axis, const Shape& shape) {
  Bytes out;
  each_index(shape, [&](Index at) {
    std::size_t p = 0;
    while (at[axis] >= parts[p].shape()[axis]) at[axis] -= parts[p++].shape()[axis];
    append(out, parts[p], flat(parts[p].shape(), at));
  });
  return out;
}

void expect_concat(const std::vector<Known>& parts, std::int64_t axis) {
  std::vector<Tensor> tensors;
  Shape shape = parts.front().shape();
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.rank()) : axis);
  shape[at] = 0;
  for (const Known& p : parts) {
    tensors.push_back(p.tensor);
    shape[at] += p.shape()[at];
  }
  const Tensor out = concat(tensors, axis);
  ASSERT_EQ(out.shape(), shape);
  EXPECT_TRUE(out.is_contiguous());
  expect_elements({out, concat_bytes(parts, at, shape)}, "concat");
}

TEST(Concat, OddLengthsOfEveryDTypeOnEveryAxis) {
  for (DType t : dtypes()) {
    expect_concat({known(t, {5}), known(t, {1}, 2), known(t, {3}, 3), known(t, {16}, 4)}, 0);
    expect_concat({known(t, {3, 5, 3}), known(t, {1, 5, 3}, 2)}, 0);
    expect_concat({known(t, {3, 5, 3}), known(t, {3, 1, 3}, 2), known(t, {3, 2, 3}, 3)}, 1);
    expect_concat({known(t, {3, 5, 3}), known(t, {3, 5, 7}, 2)}, -1);
    expect_concat({known(t, {4, 16}), known(t, {4, 32}, 2)}, 1);  // whole vectors
  }
}

TEST(Concat, StridedBroadcastAndEmptyParts) {
  for (DType t : dtypes()) {
    const Known a = transposed(known(t, {5, 3}));
    const Known b = flipped(known(t, {3, 5}, 2), 1);
    const Known one = known(t, {3, 1}, 3);
    const Known c =
        mapped(one, broadcast_to(one.tensor, {3, 5}), {3, 5}, [](const Index& i) { return Index{i[0], 0}; });
    const Known odd = known(t, {6, 10}, 5);
    const Known d = mapped(odd, slice(slice(odd.tensor, 0, 1, std::nullopt, 2), 1, 1, std::nullopt, 2), {3, 5},
                           [](const Index& i) { return Index{1 + 2 * i[0], 1 + 2 * i[1]}; });
    expect_concat({a, known(t, {3, 0}), b, c, d}, 1);
    expect_concat({known(t, {0, 5}), a, b, known(t, {0, 5}), c, d}, 0);
    expect_concat({known(t, {0, 5}), known(t, {0, 5})}, 0);
    expect_concat({known(t, {0, 2}), known(t, {0, 3})}, 1);
  }
}

TEST(Concat, ManyPartsAndTheSamePartTwice) {
  for (DType t : dtypes()) {
    std::vector<Known> parts;
    for (std::uint32_t i = 0; i < 23; ++i) parts.push_back(known(t, {i % 4 + 1, 3}, i));
    parts.push_back(parts.front());
    expect_concat(parts, 0);
  }
}

TEST(Concat, OnePartIsACopy) {
  const Known x = known(DType::bool_, {7});
  const Tensor out = concat(std::array{x.tensor});
  EXPECT_FALSE(out.buffer() == x.tensor.buffer());
  expect_elements({out, x.bytes});
}

TEST(Concat, RecycledMemoryDoesNotShowInBools) {
  for (int round = 0; round < 4; ++round) {
    {
      const Tensor dirt = test_device().upload_array(Bytes(64, std::byte{1}), {64}, DType::bool_);
    }
    const Known x = known(DType::bool_, {31}, 11);
    const Known y = known(DType::bool_, {33}, 12);
    expect_concat({x, y}, 0);
  }
}

TEST(Concat, DTypesPromote) {
  Device& device = test_device();
  const std::vector<std::int32_t> i{-3, 70000};
  const std::vector<float> f{0.5F, -2.0F};
  const Tensor b = device.upload_array(Bytes{std::byte{1}, std::byte{0}}, {2}, DType::bool_);
  const Tensor ti = device.upload(std::span<const std::int32_t>(i), {2});
  const Tensor tf = device.upload(std::span<const float>(f), {2});
  EXPECT_EQ(concat(std::array{b, ti}).to_host<std::int32_t>(), (std::vector<std::int32_t>{1, 0, -3, 70000}));
  EXPECT_EQ(concat(std::array{ti, b, tf}).to_host<float>(), (std::vector<float>{-3, 70000, 1, 0, 0.5F, -2}));
}

TEST(Concat, Refusals) {
  const Tensor x = known(DType::f32, {2, 3}).tensor;
  const Tensor y = known(DType::f32, {2, 4}).tensor;
  EXPECT_EQ(thrown([] { concat({}); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { concat(std::array{x, y}); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { concat(std::array{x, x}, 2); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { concat(std::array{x, Tensor()}); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([] { concat(std::array{known(DType::f32, {}).tensor}); }).code, ErrorCode::invalid_argument);
}

// -- take -----------------------------------------------------------------------------------------------------------

/// numpy.take, element by element.
void expect_take(const Known& x, const std::vector<std::int32_t>& values, const Shape& indices_shape,
                 std::optional<std::int64_t> axis) {
  const Tensor out = take(x.tensor, indices_of(values, indices_shape), axis);
  Bytes wanted;
  Shape shape = indices_shape;
  const Shape from = axis ? x.shape() : Shape{element_count(x.shape())};
  const auto at = static_cast<std::size_t>(!axis       ? 0
                                           : *axis < 0 ? *axis + static_cast<std::int64_t>(from.rank())
                                                       : *axis);
  shape = Shape(std::span<const std::int64_t>(from.begin(), at));
  for (std::int64_t n : indices_shape) shape.push_back(n);
  for (std::size_t i = at + 1; i < from.rank(); ++i) shape.push_back(from[i]);
  each_index(shape, [&](const Index& i) {
    const auto inner = i.begin() + static_cast<std::ptrdiff_t>(at);
    const auto behind = inner + static_cast<std::ptrdiff_t>(indices_shape.rank());
    const std::int64_t value = values[static_cast<std::size_t>(flat(indices_shape, Index(inner, behind)))];
    Index source(i.begin(), inner);
    source.push_back(value < 0 ? value + from[at] : value);
    source.insert(source.end(), behind, i.end());
    append(wanted, x, flat(from, source));
  });
  ASSERT_EQ(out.shape(), shape);
  EXPECT_EQ(out.dtype(), x.tensor.dtype());
  expect_elements({out, wanted}, "take");
}

TEST(Take, EveryDTypeAxisAndIndexShape) {
  const std::vector<std::int32_t> values{0, 2, -1, -3, 1, 1, -2};
  for (DType t : dtypes()) {
    const Known x = known(t, {3, 4, 3});
    for (std::int64_t axis : {0, 2, -3, -1}) {
      expect_take(x, values, {7}, axis);
      expect_take(x, values, {7, 1}, axis);
    }
    expect_take(x, {3, -4, 0, 1, 2, -1}, {2, 3}, 1);
    expect_take(x, {2}, {}, 1);
    expect_take(x, {35, -36, 0, 17, -1}, {5}, std::nullopt);
    expect_take(x, {35, -36, 0, 17}, {2, 2}, std::nullopt);
    expect_take(x, {}, {0}, 1);
    expect_take(x, {}, {2, 0}, std::nullopt);
    expect_take(known(t, {}), {0, -1}, {2}, std::nullopt);
    expect_take(known(t, {3, 0}), {2, 0}, {2}, 0);
  }
}

TEST(Take, RowsOfWholeWordsAndVectors) {
  for (DType t : dtypes()) {
    for (std::int64_t inner : {4, 8, 16, 20, 32}) {
      const Known x = known(t, {2, 5, inner});
      expect_take(x, {4, 0, -2}, {3}, 1);
      expect_take(flipped(x, 1), {4, 0, -2}, {3}, 1);
      // A row that starts off the word.
      const Known wide = known(t, {5, inner + 3});
      expect_take(mapped(wide, slice(wide.tensor, 1, 1, inner + 1), {5, inner},
                         [](const Index& i) { return Index{i[0], i[1] + 1}; }),
                  {4, 0, -2}, {3}, 0);
      const Known shifted = known(t, {6, inner});
      expect_take(mapped(shifted, slice(shifted.tensor, 0, 1, std::nullopt), {5, inner},
                         [](const Index& i) { return Index{i[0] + 1, i[1]}; }),
                  {4, 0, -2}, {3}, 0);
    }
  }
}

TEST(Take, FromViews) {
  const std::vector<std::int32_t> values{4, 0, -2};
  for (DType t : dtypes()) {
    const Known a = transposed(known(t, {3, 7, 5}));
    expect_take(a, values, {3}, 0);
    expect_take(a, values, {3}, 1);
    expect_take(a, values, {3}, std::nullopt);
    const Known b = flipped(known(t, {7, 3}), 0);
    expect_take(b, values, {3}, 0);
    expect_take(b, {20, -21, 3}, {3}, std::nullopt);
    const Known one = known(t, {1, 3});
    const Known c =
        mapped(one, broadcast_to(one.tensor, {6, 3}), {6, 3}, [](const Index& i) { return Index{0, i[1]}; });
    expect_take(c, values, {3}, 0);
    expect_take(c, {17, -18}, {2}, std::nullopt);
  }
}

TEST(Take, IndicesMayBeViewsAndUnsigned) {
  const Known x = known(DType::i32, {5});
  const Tensor i = indices_of({0, 1, 2, 3, 4, -1}, {2, 3});
  const auto at = [&](std::int64_t k) {
    std::int32_t v = 0;
    std::memcpy(&v, &x.bytes[static_cast<std::size_t>(k) * 4], 4);
    return v;
  };
  EXPECT_EQ(take(x.tensor, transpose(i)).to_host<std::int32_t>(),
            (std::vector<std::int32_t>{at(0), at(3), at(1), at(4), at(2), at(4)}));
  EXPECT_EQ(take(x.tensor, slice(select(i, 0, 0), 0, 1, std::nullopt)).to_host<std::int32_t>(),
            (std::vector<std::int32_t>{at(1), at(2)}));
  EXPECT_EQ(take(x.tensor, broadcast_to(select(select(i, 0, 1), 0, 0), {3})).to_host<std::int32_t>(),
            (std::vector<std::int32_t>{at(3), at(3), at(3)}));
  const std::vector<std::uint32_t> u{4, 0};
  EXPECT_EQ(take(x.tensor, test_device().upload(std::span<const std::uint32_t>(u), {2}), 0).to_host<std::int32_t>(),
            (std::vector<std::int32_t>{at(4), at(0)}));
}

TEST(Take, IndexOutOfRangeIsShown) {
  const Tensor x = known(DType::f32, {5, 3}).tensor;
  const Thrown first = thrown([&] { take(x, indices_of({0, 1, -5, 4, 0, 7, 9, -6}, {2, 4}), 0); });
  EXPECT_EQ(first.code, ErrorCode::out_of_range);
  EXPECT_EQ(first.text,
            "take: index 7 at position (1, 1) is out of range for axis 0 of length 5. Fix: use indices from -5 to 4.");
  EXPECT_EQ(
      thrown([&] { take(x, indices_of({-16}, {1})); }).text,
      "take: index -16 at position (0,) is out of range for the flattened array of length 15. Fix: use indices from "
      "-15 to 14.");
  EXPECT_EQ(thrown([&] { take(x, indices_of({3}, {}), 1); }).text,
            "take: index 3 is out of range for axis 1 of length 3. Fix: use indices from -3 to 2.");
  EXPECT_EQ(thrown([&] { take(x, indices_of({INT32_MIN}, {1}), 1); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { take(x, indices_of({INT32_MAX}, {1}), 1); }).code, ErrorCode::out_of_range);
  const std::vector<std::uint32_t> u{0, 4294967295U};
  EXPECT_EQ(
      thrown([&] { take(x, test_device().upload(std::span<const std::uint32_t>(u), {2}), 0); }).text,
      "take: index 4294967295 at position (1,) is out of range for axis 0 of length 5. Fix: use indices from 0 to 4.");
  // Views of indices count in their own order.
  EXPECT_EQ(thrown([&] { take(x, transpose(indices_of({0, 5, 6, 0}, {2, 2})), 0); }).text,
            "take: index 6 at position (0, 1) is out of range for axis 0 of length 5. Fix: use indices from -5 to 4.");
  EXPECT_EQ(thrown([&] { take(slice(x, 0, 0, 0), indices_of({0}, {1}), 0); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(take(x, indices_of({4}, {1}), 0).shape(), (Shape{1, 3}));  // the device goes on
}

TEST(Take, TheFirstOfManyBadIndices) {
  std::vector<std::int32_t> values(100000, 1);
  for (std::size_t i = 54321; i < values.size(); i += 7) values[i] = 100 + static_cast<std::int32_t>(i);
  EXPECT_EQ(
      thrown([&] { take(known(DType::bool_, {3}).tensor, indices_of(values, {100000})); }).text,
      "take: index 54421 at position (54321,) is out of range for the flattened array of length 3. Fix: use indices "
      "from -3 to 2.");
}

TEST(Take, IndicesMustBeIntegers) {
  const Tensor x = known(DType::f32, {5}).tensor;
  EXPECT_EQ(thrown([&] { take(x, x); }).text, "take: the indices are float32. Fix: cast them to int32.");
  EXPECT_EQ(thrown([&] { take(x, known(DType::bool_, {5}).tensor); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { take(x, Tensor()); }).code, ErrorCode::invalid_argument);
}

// On lavapipe the result is over the limit of one binding (128 MiB).
TEST(Take, ResultOverTheBindingLimit) {
  const Known x = known(DType::bool_, {5, 1024});
  constexpr std::int64_t kRows = 132001;
  std::vector<std::int32_t> values(kRows);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i % 5);
  const Tensor out = take(x.tensor, indices_of(values, {kRows}), 0);
  for (std::int64_t row : {std::int64_t{0}, kRows / 2, std::int64_t{131071}, std::int64_t{131072}, kRows - 1}) {
    const auto begin = x.bytes.begin() + row % 5 * 1024;
    EXPECT_EQ(select(out, 0, row).to_host_bytes(), Bytes(begin, begin + 1024)) << row;
  }
}

// -- full, arange ---------------------------------------------------------------------------------------------------

TEST(Full, EveryDType) {
  Device& device = test_device();
  EXPECT_EQ(full(device, {3}, 2.5, DType::f32).to_host<float>(), (std::vector<float>{2.5F, 2.5F, 2.5F}));
  EXPECT_EQ(full(device, {2, 1}, -7, DType::i32).to_host<std::int32_t>(), (std::vector<std::int32_t>{-7, -7}));
  EXPECT_EQ(full(device, {}, 4294967295U, DType::u32).to_host<std::uint32_t>(),
            std::vector<std::uint32_t>{4294967295U});
  for (std::int64_t n : {1, 2, 3, 4, 5, 1023}) {
    EXPECT_EQ(full(device, {n}, true, DType::bool_).to_host_bytes(), Bytes(static_cast<std::size_t>(n), std::byte{1}));
    EXPECT_EQ(full(device, {n}, 0.0, DType::bool_).to_host_bytes(), Bytes(static_cast<std::size_t>(n), std::byte{0}));
    if (device.features().f16) {
      EXPECT_EQ(full(device, {n}, 0.5, DType::f16).to_host<float16>(),
                std::vector<float16>(static_cast<std::size_t>(n), float16(0.5F)));
    }
  }
}

TEST(Full, NumbersBecomeTheDTypeAsInNumpy) {
  Device& device = test_device();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(full(device, {1}, -2.7, DType::i32).to_host<std::int32_t>()[0], -2);
  EXPECT_EQ(full(device, {1}, 1e30, DType::i32).to_host<std::int32_t>()[0], INT32_MAX);
  EXPECT_EQ(full(device, {1}, 0.5, DType::bool_).to_host_bytes()[0], std::byte{1});
  EXPECT_EQ(full(device, {1}, 300, DType::bool_).to_host_bytes()[0], std::byte{1});
  EXPECT_EQ(full(device, {1}, kInfinity, DType::f32).to_host<float>()[0], kInfinity);
  EXPECT_EQ(full(device, {1}, -kInfinity, DType::f32).to_host<float>()[0], -kInfinity);
  EXPECT_TRUE(std::isnan(full(device, {1}, std::nan(""), DType::f32).to_host<float>()[0]));
  EXPECT_TRUE(std::signbit(full(device, {1}, -0.0, DType::f32).to_host<float>()[0]));
  EXPECT_EQ(thrown([&] { full(device, {1}, -1, DType::u32); }).text,
            "full: -1 does not fit uint32. Fix: use values from 0 to 4294967295, or float32.");
  EXPECT_EQ(thrown([&] { full(device, {-1}, 1, DType::i32); }).code, ErrorCode::out_of_range);
}

TEST(Full, OfNothing) {
  const Tensor x = full(test_device(), {3, 0}, 1, DType::f32);
  EXPECT_EQ(x.shape(), (Shape{3, 0}));
  EXPECT_TRUE(x.to_host<float>().empty());
}

TEST(Arange, Integers) {
  Device& device = test_device();
  using Ints = std::vector<std::int32_t>;
  EXPECT_EQ(arange(device, 0, 5, 1).to_host<std::int32_t>(), (Ints{0, 1, 2, 3, 4}));
  EXPECT_EQ(arange(device, 5, 0, -2).to_host<std::int32_t>(), (Ints{5, 3, 1}));
  EXPECT_EQ(arange(device, 3, 0, 1).size(), 0);
  EXPECT_EQ(arange(device, 0, 7, 3).to_host<std::int32_t>(), (Ints{0, 3, 6}));
  EXPECT_EQ(arange(device, std::int64_t{INT32_MIN}, std::int64_t{INT32_MAX}, std::int64_t{4294967295})
                .to_host<std::int32_t>(),
            (Ints{INT32_MIN}));
  EXPECT_EQ(
      arange(device, std::int64_t{INT32_MIN}, std::int64_t{1} << 31, std::int64_t{4294967295}).to_host<std::int32_t>(),
      (Ints{INT32_MIN, INT32_MAX}));
  EXPECT_EQ(arange(device, 5, 0, -1, DType::u32).to_host<std::uint32_t>(), (std::vector<std::uint32_t>{5, 4, 3, 2, 1}));
  EXPECT_EQ(arange(device, 0.5, 5.5, 1.0, DType::i32).to_host<std::int32_t>(), (Ints{0, 1, 2, 3, 4}));
  EXPECT_EQ(arange(device, 0, 2, 1, DType::bool_).to_host_bytes(), (Bytes{std::byte{0}, std::byte{1}}));
}

TEST(Arange, Floats) {
  Device& device = test_device();
  EXPECT_EQ(arange(device, 0.0, 1.0, 0.25).to_host<float>(), (std::vector<float>{0, 0.25F, 0.5F, 0.75F}));
  EXPECT_EQ(arange(device, 1, 0.5, -0.125).to_host<float>(), (std::vector<float>{1, 0.875F, 0.75F, 0.625F}));
  EXPECT_EQ(arange(device, 0, 10, 3, DType::f32).to_host<float>(), (std::vector<float>{0, 3, 6, 9}));
  // numpy.arange(1000, 1001, 0.1, dtype=float32)
  const std::vector<float> wanted{1000.0F,    1000.1F,     1000.19995F, 1000.2999F, 1000.3999F,
                                  1000.4999F, 1000.59985F, 1000.6998F,  1000.7998F, 1000.8998F};
  const std::vector<float> got = arange(device, 1000, 1001, 0.1, DType::f32).to_host<float>();
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1.3e-4) << i;
  if (device.features().f16) {
    const auto halves = arange(device, 0, 10, 3, DType::f16).to_host<float16>();
    ASSERT_EQ(halves.size(), 4U);
    EXPECT_EQ(static_cast<float>(halves[3]), 9.0F);
  }
}

TEST(Arange, PastOneRowOfGroups) {
  constexpr std::int64_t kCount = 9000001;
  const Tensor x = arange(test_device(), 0, kCount, 1);
  ASSERT_EQ(x.shape(), (Shape{kCount}));
  for (std::int64_t i : {std::int64_t{0}, std::int64_t{8388607}, std::int64_t{8388608}, kCount - 1}) {
    EXPECT_EQ(select(x, 0, i).to_host<std::int32_t>()[0], i);
  }
}

TEST(Arange, Refusals) {
  Device& device = test_device();
  EXPECT_EQ(thrown([&] { arange(device, 0, 5, 0); }).text, "arange: the step is 0. Fix: use a step above or below 0.");
  EXPECT_EQ(thrown([&] { arange(device, 0, std::nan(""), 1.0); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { arange(device, 0, 1.0, 1e-30); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { arange(device, 0, 3, 1, DType::bool_); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { arange(device, -1, 3, 1, DType::u32); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { arange(device, 2147483646, std::int64_t{2147483650}, 1); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { arange(device, 1e30, 2e30, 1e30, DType::i32); }).code, ErrorCode::invalid_argument);
}

// -- Tensor ---------------------------------------------------------------------------------------------------------

TEST(Tensors, ContiguousAndEmptyViews) {
  const Tensor x = known(DType::f32, {4, 6}).tensor;
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_TRUE(slice(x, 0, 1, 3).is_contiguous());
  EXPECT_FALSE(slice(x, 1, 1, 3).is_contiguous());
  EXPECT_FALSE(transpose(x).is_contiguous());
  EXPECT_TRUE(slice(x, 1, 2, 3).shape() == (Shape{4, 1}));
  EXPECT_TRUE(transpose(slice(x, 0, 2, 3)).is_contiguous());
  EXPECT_TRUE(transpose(slice(x, 0, 0, 0)).is_contiguous());  // of no elements
  EXPECT_TRUE(slice(transpose(x), 0, 3, 3).to_host<float>().empty());
}

TEST(Tensors, OutsideTheirBufferAreRefused) {
  const Tensor x = known(DType::f32, {4, 6}).tensor;
  EXPECT_EQ(thrown([&] { Tensor(x.device(), x.buffer(), {25}, {1}, 0, DType::f32); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { Tensor(x.device(), x.buffer(), {2}, {-1}, 0, DType::f32); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { Tensor(x.device(), x.buffer(), {3}, {INT64_MAX}, 0, DType::f32); }).code,
            ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { Tensor(x.device(), x.buffer(), {2, 2}, {1}, 0, DType::f32); }).code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace weft
