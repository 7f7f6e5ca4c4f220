// Gathers, scatters, pad and shaping against plain loops; errors by their text; every kernel compiles.
#include "weft/indexing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/state.h"
#include "ops/catalog.h"
#include "ops/infer_indexing.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "unit/thrown.h"
#include "weft/error.h"
#include "weft/graph.h"
#include "weft/kernel.h"
#include "weft/stream.h"

namespace weft {
namespace {

using testing::dense;
using testing::each_index;
using testing::flat;
using testing::Index;
using testing::random_strided;
using testing::stored;
using testing::Strided;
using testing::test_device;
using testing::Thrown;
using testing::thrown;
using testing::to_doubles;

std::vector<DType> dtypes() {
  return testing::dtypes_of(test_device());
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Equal as numbers, NaN as NaN and zeros by sign.
void expect_same(const std::vector<double>& got, const std::vector<double>& wanted, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(got[i], wanted[i]) << what << " element " << i;
    ASSERT_EQ(std::signbit(got[i]), std::signbit(wanted[i])) << what << " element " << i;
  }
}

Tensor of(const std::vector<double>& values, const Shape& shape, DType dtype = DType::f32) {
  return test_device().upload_array(testing::to_bytes(values, dtype), shape, dtype);
}
Tensor ints(const std::vector<std::int32_t>& values, const Shape& shape) {
  return test_device().upload(std::span<const std::int32_t>(values), shape);
}

/// Indices into an axis of `length`, some negative (of i32), as a tensor of any layout.
struct Chosen {
  Tensor tensor;
  std::vector<std::int64_t> places;  ///< from the front
};
Chosen random_indices(std::mt19937& random, const Shape& shape, const std::vector<std::int64_t>& lengths) {
  Chosen out;
  const DType dtype = random() % 3 == 0 ? DType::u32 : DType::i32;
  std::vector<double> values;
  const auto count = static_cast<std::size_t>(element_count(shape));
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t length = lengths[i % lengths.size()];
    const std::int64_t place = static_cast<std::int64_t>(random()) % length;
    const bool negative = dtype == DType::i32 && random() % 2 == 0;
    out.places.push_back(place);
    values.push_back(static_cast<double>(negative ? place - length : place));
  }
  if (shape.rank() == 2 && random() % 2 == 0) {
    // The same from transposed memory.
    std::vector<double> turned(count);
    for (std::int64_t r = 0; r < shape[0]; ++r) {
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        turned[static_cast<std::size_t>(c * shape[0] + r)] = values[static_cast<std::size_t>(r * shape[1] + c)];
      }
    }
    out.tensor = transpose(of(turned, {shape[1], shape[0]}, dtype));
  } else {
    out.tensor = of(values, shape, dtype);
  }
  return out;
}

Shape small_shape(std::mt19937& random, std::size_t rank) {
  Shape shape;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t lengths[] = {1, 2, 3, 4, 5, 7, 8, rank < 3 ? 70 : 6};
    shape.push_back(lengths[random() % std::size(lengths)]);
  }
  return shape;
}

std::string named(const char* op, const Strided& x) {
  return std::string(op) + " of " + std::string(to_string(x.tensor.dtype())) + " " + to_string(x.tensor.shape()) +
         " strides " + to_string(x.tensor.strides());
}

// -- picking --------------------------------------------------------------------------------------------------------

TEST(TakeAlongAxis, AgainstALoop) {
  std::mt19937 random(1);
  for (int round = 0; round < 120; ++round) {
    const DType t = dtypes()[random() % dtypes().size()];
    const std::size_t rank = round % 20 == 19 ? 8 : 1 + random() % 4;
    Shape shape = small_shape(random, rank);
    if (rank == 8) {
      for (std::int64_t& n : shape) n = std::min<std::int64_t>(n, 3);
    }
    const Strided x = random_strided(test_device(), random, shape, t);
    const std::size_t axis = random() % rank;
    Shape picked = shape;
    for (std::size_t i = 0; i < rank; ++i) {
      if (random() % 3 == 0) picked[i] = 1 + static_cast<std::int64_t>(random()) % shape[i];
    }
    picked[axis] = 1 + static_cast<std::int64_t>(random() % 9);
    const Chosen chosen = random_indices(random, picked, {shape[axis]});
    std::vector<double> wanted;
    std::size_t e = 0;
    each_index(picked, [&](Index at) {
      at[axis] = chosen.places[e++];
      wanted.push_back(x.values[flat(shape, at)]);
    });
    const std::int64_t given = random() % 2 == 0 ? static_cast<std::int64_t>(axis)
                                                 : static_cast<std::int64_t>(axis) - static_cast<std::int64_t>(rank);
    const auto check = random() % 2 == 0 ? IndexCheck::checked : IndexCheck::trusted;
    const Tensor got = take_along_axis(x.tensor, chosen.tensor, given, check);
    ASSERT_EQ(got.shape(), picked);
    ASSERT_EQ(got.dtype(), t);
    expect_same(to_doubles(got), wanted, named("take_along_axis", x) + " axis " + std::to_string(axis));
  }
}

TEST(GatherNd, AgainstALoop) {
  std::mt19937 random(2);
  for (int round = 0; round < 150; ++round) {
    const DType t = dtypes()[random() % dtypes().size()];
    const std::size_t rank = round % 25 == 24 ? 8 : 1 + random() % 4;
    Shape shape = small_shape(random, rank);
    if (rank == 8) {
      for (std::int64_t& n : shape) n = std::min<std::int64_t>(n, 3);
    }
    const Strided x = random_strided(test_device(), random, shape, t);
    const std::size_t batch = random() % rank;
    const std::size_t tuple = 1 + random() % (rank - batch);
    Shape names(std::span<const std::int64_t>(shape.begin(), batch));
    const std::size_t more = random() % 2;
    for (std::size_t i = 0; i < more && names.rank() + rank - batch - tuple < 7; ++i) names.push_back(1 + random() % 5);
    Shape wanted_shape = names;
    for (std::size_t i = batch + tuple; i < rank; ++i) wanted_shape.push_back(shape[i]);
    names.push_back(static_cast<std::int64_t>(tuple));
    const std::vector<std::int64_t> lengths(shape.begin() + batch, shape.begin() + batch + tuple);
    const Chosen chosen = random_indices(random, names, lengths);
    std::vector<double> wanted;
    each_index(wanted_shape, [&](const Index& at) {
      Index name(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(names.rank() - 1));
      name.push_back(0);
      Index from(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(batch));
      for (std::size_t j = 0; j < tuple; ++j) from.push_back(chosen.places[flat(names, name) + j]);
      from.insert(from.end(), at.begin() + static_cast<std::ptrdiff_t>(names.rank() - 1), at.end());
      wanted.push_back(x.values[flat(shape, from)]);
    });
    const auto check = random() % 2 == 0 ? IndexCheck::checked : IndexCheck::trusted;
    const Tensor got = gather_nd(x.tensor, chosen.tensor, static_cast<std::int64_t>(batch), check);
    ASSERT_EQ(got.shape(), wanted_shape);
    expect_same(to_doubles(got), wanted, named("gather_nd", x) + " batch " + std::to_string(batch));
  }
}

TEST(Embedding, RowsOfEveryWidth) {
  std::mt19937 random(3);
  for (DType t : dtypes()) {
    for (std::int64_t width : {1, 2, 3, 4, 8, 16, 17, 64}) {
      const Strided table = dense(test_device(), random, {11, width}, t);
      const Chosen ids = random_indices(random, {2, 3}, {11});
      std::vector<double> wanted;
      for (std::int64_t id : ids.places) {
        const auto row = table.values.begin() + id * width;
        wanted.insert(wanted.end(), row, row + width);
      }
      for (auto check : {IndexCheck::checked, IndexCheck::trusted}) {
        const Tensor got = embedding(table.tensor, ids.tensor, check);
        EXPECT_EQ(got.shape(), (Shape{2, 3, width}));
        expect_same(to_doubles(got), wanted, named("embedding", table));
      }
    }
  }
  EXPECT_EQ(embedding(of({1, 2}, {2, 1}), ints({}, {0})).shape(), (Shape{0, 1}));
  EXPECT_EQ(thrown([] { embedding(of({1, 2}, {2}), ints({0}, {1})); }).text,
            "embedding: a table of shape (2,) has 1 axes. Fix: give a table of 2 axes, [rows, width].");
}

TEST(Picking, IndicesOutOfRangeAreShownWithTheirPlace) {
  const Tensor x = of({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(
      thrown([&] { take_along_axis(x, ints({0, 1, 2, 0, -4, 9}, {2, 3}), 1); }).text,
      "take_along_axis: index -4 at position (1, 1) is out of range for axis 1 of length 3. Fix: use indices from "
      "-3 to 2.");
  EXPECT_EQ(
      thrown([&] { gather_nd(x, ints({0, 1, 1, 3, 2, 0}, {3, 2})); }).text,
      "gather_nd: index 3 at position (1, 1) is out of range for axis 1 of length 3. Fix: use indices from -3 to 2.");
  EXPECT_EQ(
      thrown([&] { gather_nd(x, ints({0, 1, 2, 3}, {2, 2})); }).text,
      "gather_nd: index 2 at position (1, 0) is out of range for axis 0 of length 2. Fix: use indices from -2 to 1.");
  EXPECT_EQ(
      thrown([&] { embedding(x, of({1, 4294967295.0}, {2}, DType::u32)); }).text,
      "embedding: index 4294967295 at position (1,) is out of range for axis 0 of length 2. Fix: use indices from "
      "0 to 1.");
  EXPECT_EQ(thrown([&] { take_along_axis(of({}, {0, 3}), ints({0, 0, 0}, {1, 3}), 0); }).text,
            "take_along_axis: index 0 at position (0, 0) is out of range for axis 0 of length 0. Fix: choose from an "
            "axis that has elements.");
  EXPECT_EQ(thrown([&] { take_along_axis(x, ints({INT32_MIN, 0, 0}, {1, 3}), 0); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { take_along_axis(x, ints({INT32_MAX, 0, 0}, {1, 3}), 0); }).code, ErrorCode::out_of_range);
}

// A37: the one number that an op waits for, a checked call's verdict, is read alone, however much lies behind it; a
// trusted call waits for nothing.
TEST(Picking, A37_ChecksReadTheVerdictAlone) {
  Device device = test_device();
  const Tensor x = device.zeros({64, 1000}, DType::f32);
  const Tensor rows = device.zeros({5000}, DType::i32), places = device.zeros({64, 1000}, DType::i32);
  const Tensor tuples = device.zeros({3000, 2}, DType::i32);
  const auto read_by = [&](auto&& call) {
    const Stats before = device.stats();
    call();
    const Stats after = device.stats();
    EXPECT_EQ(after.bytes_read - before.bytes_read, 4 * (after.reads - before.reads));
    return after.reads - before.reads;
  };
  for (const auto check : {IndexCheck::checked, IndexCheck::trusted}) {
    const std::uint64_t reads = check == IndexCheck::checked ? 1 : 0;
    EXPECT_EQ(read_by([&] { take(x, rows, 0, check); }), reads);
    EXPECT_EQ(read_by([&] { take_along_axis(x, places, 0, check); }), reads);
    EXPECT_EQ(read_by([&] { gather_nd(x, tuples, 0, check); }), reads);
    EXPECT_EQ(read_by([&] { scatter_along_axis(x, places, x, 0, {.check = check}); }), reads);
  }
}

TEST(Picking, TrustedIndicesOutOfRangeGiveZero) {
  const Tensor x = of({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto trusted = IndexCheck::trusted;
  using Floats = std::vector<float>;
  EXPECT_EQ(take_along_axis(x, ints({INT32_MAX, 1, -3, INT32_MIN, -1, 2}, {2, 3}), 0, trusted).to_host<float>(),
            (Floats{0, 5, 0, 0, 5, 0}));
  EXPECT_EQ(gather_nd(x, ints({0, 1, 1, 3, 2, 0, -3, -1, -2, -3}, {5, 2}), 0, trusted).to_host<float>(),
            (Floats{2, 0, 0, 0, 1}));
  EXPECT_EQ(embedding(x, of({1, 2, 4294967295.0}, {3}, DType::u32), trusted).to_host<float>(),
            (Floats{4, 5, 6, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(embedding(of({}, {0, 2}), ints({0}, {1}), trusted).to_host<float>(), (Floats{0, 0}));
  const Tensor flags = of({1, 1, 1, 1, 1}, {5}, DType::bool_);
  EXPECT_EQ(take_along_axis(flags, ints({4, 5, -5, -6, 0}, {5}), 0, trusted).to_host<bool>(),
            (std::vector<bool>{true, false, true, false, true}));
  EXPECT_EQ(take_along_axis(of({}, {0, 2}), ints({0, 0}, {1, 2}), 0, trusted).to_host<float>(), (Floats{0, 0}));
}

TEST(Picking, OfNothing) {
  const Tensor x = of({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(take_along_axis(x, ints({}, {0, 3}), 0).shape(), (Shape{0, 3}));
  EXPECT_EQ(gather_nd(x, ints({}, {0, 2})).shape(), (Shape{0}));
  EXPECT_EQ(gather_nd(of({}, {2, 0}), ints({1}, {1, 1})).shape(), (Shape{1, 0}));
  EXPECT_EQ(thrown([&] { gather_nd(of({}, {2, 0}), ints({2}, {1, 1})); }).code, ErrorCode::out_of_range);
}

TEST(Picking, ShapesAndDTypesAreRefused) {
  const Tensor x = of({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(thrown([&] { take_along_axis(x, x, 0); }).text,
            "take_along_axis: the indices are float32. Fix: cast them to int32.");
  EXPECT_EQ(thrown([&] { take_along_axis(x, ints({0}, {1}), 0); }).text,
            "take_along_axis: indices of shape (1,) have 1 axes, and x of shape (2, 3) has 2. Fix: give the indices as "
            "many axes as x (expand_dims).");
  EXPECT_EQ(thrown([&] { take_along_axis(x, ints({0, 0, 0, 0}, {1, 4}), 0); }).text,
            "take_along_axis: indices of shape (1, 4) are longer than x of shape (2, 3) on axis 1, and index axis 0. "
            "Fix: use lengths up to x's on all axes but 0.");
  EXPECT_EQ(thrown([&] { take_along_axis(x, ints({0}, {1, 1}), 2); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { gather_nd(x, ints({0, 0, 0}, {1, 3})); }).text,
            "gather_nd: indices of shape (1, 3) are tuples of 3 for x of shape (2, 3). Fix: make the last axis of the "
            "indices 1 to 2.");
  EXPECT_EQ(thrown([&] { gather_nd(x, ints({0}, {})); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(
      thrown([&] { gather_nd(x, ints({0}, {1, 1}), 1); }).text,
      "gather_nd: batch axis 0 has length 2 in x of shape (2, 3), and 1 in indices of shape (1, 1). Fix: make the "
      "batch axes of both equal.");
  EXPECT_EQ(thrown([&] { gather_nd(x, ints({0}, {1, 1}), 2); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { gather_nd(x, ints({0}, {1, 1}), -1); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { take_along_axis(x, Tensor(), 0); }).code, ErrorCode::invalid_argument);
}

// -- placing --------------------------------------------------------------------------------------------------------

constexpr ScatterOp kScatterOps[] = {ScatterOp::set, ScatterOp::add, ScatterOp::multiply, ScatterOp::maximum,
                                     ScatterOp::minimum};

/// As the header has it, in double; integers wrap.
double combined(ScatterOp op, double a, double b, DType t) {
  const auto wrap = [&](auto f) {
    const auto bits = [](double v) { return static_cast<std::uint32_t>(static_cast<std::int64_t>(v)); };
    const std::uint32_t r = f(bits(a), bits(b));
    return t == DType::u32 ? static_cast<double>(r) : static_cast<double>(static_cast<std::int32_t>(r));
  };
  const bool whole = is_integer(t);
  switch (op) {
    case ScatterOp::set: return b;
    case ScatterOp::add:
      if (t == DType::bool_) return a != 0 || b != 0;
      return whole ? wrap([](std::uint32_t x, std::uint32_t y) { return x + y; }) : a + b;
    case ScatterOp::multiply: return whole ? wrap([](std::uint32_t x, std::uint32_t y) { return x * y; }) : a * b;
    case ScatterOp::maximum: return std::isnan(a) ? a : std::isnan(b) || b > a ? b : a;
    case ScatterOp::minimum: return std::isnan(a) ? a : std::isnan(b) || b < a ? b : a;
  }
  return 0;
}

/// Sums and products of floats come in any order.
void expect_scattered(const Tensor& got, const std::vector<double>& wanted, ScatterOp op, const std::string& what) {
  const std::vector<double> values = to_doubles(got);
  ASSERT_EQ(values.size(), wanted.size()) << what;
  const bool any_order = is_float(got.dtype()) && (op == ScatterOp::add || op == ScatterOp::multiply);
  const double ulp = got.dtype() == DType::f16 ? 0x1p-10 : 0x1p-19;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double slack = any_order ? std::abs(wanted[i]) * ulp : 0;
    ASSERT_NEAR(values[i], wanted[i], slack) << what << " op " << static_cast<int>(op) << " element " << i;
  }
}

TEST(ScatterAlongAxis, AgainstALoop) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const DType t = dtypes()[random() % dtypes().size()];
    const ScatterOp op = kScatterOps[random() % 5];
    const std::size_t rank = round % 40 == 39 ? 8 : 1 + random() % 3;
    Shape shape = small_shape(random, rank);
    if (rank == 8) {
      for (std::int64_t& n : shape) n = std::min<std::int64_t>(n, 3);
    }
    const std::size_t axis = random() % rank;
    Shape named_shape = shape;
    for (std::size_t i = 0; i < rank; ++i) {
      if (random() % 3 == 0) named_shape[i] = 1 + static_cast<std::int64_t>(random()) % shape[i];
    }
    named_shape[axis] = 1 + static_cast<std::int64_t>(random() % 9);
    const Strided x = random_strided(test_device(), random, shape, t);
    const Strided updates = random_strided(test_device(), random, named_shape, t);
    const Chosen chosen = random_indices(random, named_shape, {shape[axis]});
    std::vector<double> wanted = x.values;
    std::size_t e = 0;
    each_index(named_shape, [&](Index at) {
      at[axis] = chosen.places[e];
      double& v = wanted[flat(shape, at)];
      v = combined(op, v, updates.values[e++], t);
    });
    ScatterOptions options{op, random() % 2 == 0 ? IndexCheck::checked : IndexCheck::trusted};
    const Tensor got =
        scatter_along_axis(x.tensor, chosen.tensor, updates.tensor, static_cast<std::int64_t>(axis), options);
    ASSERT_EQ(got.shape(), shape);
    ASSERT_EQ(got.dtype(), t);
    for (double& v : wanted) v = stored(v, t);
    expect_scattered(got, wanted, op, named("scatter_along_axis", x));
    expect_same(to_doubles(x.tensor), x.values, "x stays");
  }
}

TEST(ScatterNd, AgainstALoop) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const DType t = dtypes()[random() % dtypes().size()];
    const ScatterOp op = kScatterOps[random() % 5];
    const std::size_t rank = round % 40 == 39 ? 8 : 1 + random() % 3;
    Shape shape = small_shape(random, rank);
    if (rank == 8) {
      for (std::int64_t& n : shape) n = std::min<std::int64_t>(n, 3);
    }
    const std::size_t tuple = 1 + random() % rank;
    const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 12);
    Shape updates_shape{count};
    for (std::size_t i = tuple; i < rank; ++i) updates_shape.push_back(shape[i]);
    const Strided x = random_strided(test_device(), random, shape, t);
    const Strided updates = random_strided(test_device(), random, updates_shape, t);
    const std::vector<std::int64_t> lengths(shape.begin(), shape.begin() + tuple);
    const Chosen chosen = random_indices(random, {count, static_cast<std::int64_t>(tuple)}, lengths);
    std::vector<double> wanted = x.values;
    std::size_t e = 0;
    each_index(updates_shape, [&](const Index& at) {
      Index to(chosen.places.begin() + at[0] * static_cast<std::int64_t>(tuple),
               chosen.places.begin() + (at[0] + 1) * static_cast<std::int64_t>(tuple));
      to.insert(to.end(), at.begin() + 1, at.end());
      double& v = wanted[flat(shape, to)];
      v = combined(op, v, updates.values[e++], t);
    });
    const ScatterOptions options{op, random() % 2 == 0 ? IndexCheck::checked : IndexCheck::trusted};
    const Tensor got = scatter_nd(x.tensor, chosen.tensor, updates.tensor, options);
    ASSERT_EQ(got.shape(), shape);
    for (double& v : wanted) v = stored(v, t);
    expect_scattered(got, wanted, op, named("scatter_nd", x) + " tuple " + std::to_string(tuple));
  }
}

TEST(Scatter, TheLastOfManyUpdatesWins) {
  constexpr std::int64_t kCount = 100000;
  std::mt19937 random(6);
  std::vector<std::int32_t> places(kCount);
  std::vector<double> values(kCount);
  std::vector<double> wanted(7, -1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = static_cast<std::int32_t>(random() % 7);
    values[i] = static_cast<double>(i);
    wanted[static_cast<std::size_t>(places[i])] = values[i];
  }
  const Tensor x = full(test_device(), {7}, -1, DType::i32);
  for (int round = 0; round < 3; ++round) {
    expect_same(to_doubles(scatter_along_axis(x, ints(places, {kCount}), of(values, {kCount}, DType::i32), 0)), wanted,
                "last");
    expect_same(to_doubles(scatter_nd(x, ints(places, {kCount, 1}), of(values, {kCount}, DType::i32))), wanted, "last");
  }
}

TEST(Scatter, ManyUpdatesOfOneElementAllCount) {
  constexpr std::int64_t kCount = 20000;
  const Tensor zeros = ints(std::vector<std::int32_t>(kCount, 1), {kCount, 1});
  for (DType t : dtypes()) {
    if (t == DType::bool_) continue;
    const Tensor ones = full(test_device(), {kCount}, 1, t);
    const std::vector<double> got =
        to_doubles(scatter_nd(full(test_device(), {3}, 2, t), zeros, ones, {.op = ScatterOp::add}));
    // f16: summed in f32, where 1 + 2048 is not 2048, and rounded once.
    EXPECT_EQ(got, (std::vector<double>{2, stored(2 + kCount, t), 2})) << to_string(t);
    EXPECT_EQ(
        to_doubles(scatter_nd(full(test_device(), {3}, 2, t), zeros,
                              broadcast_to(full(test_device(), {1}, 5, t), {kCount}), {.op = ScatterOp::maximum})),
        (std::vector<double>{2, 5, 2}));
  }
}

TEST(Scatter, NanZerosAndInfinities) {
  const Tensor x = of({kNan, 1, -0.0, -kInf, 5, 5, 2}, {7});
  const Tensor at = ints({0, 1, 2, 3, 4, 5, -1}, {7});
  const Tensor updates = of({1, kNan, 3, 2, kInf, -kInf, kNan}, {7});
  expect_same(to_doubles(scatter_along_axis(x, at, updates, 0, {.op = ScatterOp::maximum})),
              {kNan, kNan, 3, 2, kInf, 5, kNan}, "maximum");
  expect_same(to_doubles(scatter_along_axis(x, at, updates, 0, {.op = ScatterOp::minimum})),
              {kNan, kNan, -0.0, -kInf, 5, -kInf, kNan}, "minimum");
  expect_same(to_doubles(scatter_along_axis(x, at, updates, 0, {.op = ScatterOp::add})),
              {kNan, kNan, 3, -kInf, kInf, -kInf, kNan}, "add");
  expect_same(to_doubles(scatter_along_axis(x, at, of({7, 7, 7, -0.0, kNan, 7, 7}, {7}), 0)),
              {7, 7, 7, -0.0, kNan, 7, 7}, "set");
  if (!test_device().features().f16) return;
  const Tensor halves = of({65504, -65504, 1, 0x1p-24}, {4}, DType::f16);
  const Tensor four = ints({0, 1, 2, 3}, {4});
  expect_same(to_doubles(scatter_along_axis(halves, four, halves, 0, {.op = ScatterOp::add})),
              {kInf, -kInf, 2, 0x1p-23}, "add of halves");
  expect_same(to_doubles(scatter_along_axis(halves, four, of({kNan, 0, 65504, 0}, {4}, DType::f16), 0,
                                            {.op = ScatterOp::maximum})),
              {kNan, 0, 65504, 0x1p-24}, "maximum of halves");
}

TEST(Scatter, IndicesOutOfRange) {
  const Tensor x = of({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor updates = of({10, 20, 30}, {3});
  EXPECT_EQ(
      thrown([&] { scatter_nd(x, ints({0, 0, 1, 3, 7, 0}, {3, 2}), updates); }).text,
      "scatter_nd: index 3 at position (1, 1) is out of range for axis 1 of length 3. Fix: use indices from -3 to "
      "2.");
  EXPECT_EQ(
      thrown([&] { scatter_nd(x, ints({0, 0, 2, 3, 1, 0}, {3, 2}), updates); }).text,
      "scatter_nd: index 2 at position (1, 0) is out of range for axis 0 of length 2. Fix: use indices from -2 to "
      "1.");
  EXPECT_EQ(thrown([&] { scatter_along_axis(x, ints({0, 1, -3}, {1, 3}), reshape(updates, {1, 3}), 0); }).text,
            "scatter_along_axis: index -3 at position (0, 2) is out of range for axis 0 of length 2. Fix: use indices "
            "from -2 to 1.");
  expect_same(to_doubles(x), {1, 2, 3, 4, 5, 6}, "x after errors");
  for (ScatterOp op : kScatterOps) {
    const double v = combined(op, 4, 20, DType::f32);
    const Tensor got = scatter_nd(x, ints({0, 3, 1, 0, INT32_MAX, INT32_MIN}, {3, 2}), updates,
                                  {.op = op, .check = IndexCheck::trusted});
    expect_same(to_doubles(got), {1, 2, 3, v, 5, 6}, "trusted");
  }
  const Tensor flags = full(test_device(), {5}, false, DType::bool_);
  EXPECT_EQ(scatter_along_axis(flags, ints({5, 1, -6, -1}, {4}), full(test_device(), {4}, true, DType::bool_), 0,
                               {.check = IndexCheck::trusted})
                .to_host<bool>(),
            (std::vector<bool>{false, true, false, false, true}));
  EXPECT_EQ(thrown([&] { scatter_nd(of({}, {0, 3}), ints({0}, {1, 1}), of({1, 2, 3}, {1, 3})); }).code,
            ErrorCode::out_of_range);
}

TEST(Scatter, OfNothingAndRefusals) {
  const Tensor x = of({1, 2, 3, 4, 5, 6}, {2, 3});
  expect_same(to_doubles(scatter_nd(x, ints({}, {0, 2}), of({}, {0}))), {1, 2, 3, 4, 5, 6}, "no updates");
  EXPECT_EQ(scatter_nd(of({}, {2, 0}), ints({1}, {1, 1}), of({}, {1, 0})).shape(), (Shape{2, 0}));
  EXPECT_EQ(thrown([&] { scatter_nd(of({}, {2, 0}), ints({2}, {1, 1}), of({}, {1, 0})); }).code,
            ErrorCode::out_of_range);
  EXPECT_EQ(
      scatter_nd(of({}, {0, 3}), ints({0}, {1, 1}), of({1, 2, 3}, {1, 3}), {.check = IndexCheck::trusted}).shape(),
      (Shape{0, 3}));
  EXPECT_EQ(thrown([&] { scatter_nd(x, ints({0}, {1, 1}), of({1}, {1})); }).text,
            "scatter_nd: updates of shape (1,), and indices of shape (1, 1) into x of shape (2, 3) take (1, 3). Fix: "
            "give updates of shape (1, 3) (broadcast_to).");
  EXPECT_EQ(thrown([&] { scatter_along_axis(x, ints({0}, {1, 1}), of({1, 2}, {1, 2}), 0); }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { scatter_along_axis(x, ints({0}, {1, 1}), ints({1}, {1, 1}), 0); }).text,
            "scatter_along_axis: the updates are int32, and x is float32. Fix: cast one of them.");
}

// -- shaping --------------------------------------------------------------------------------------------------------

TEST(Split, PartsAreViews) {
  const Tensor x = of({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  const std::vector<Tensor> parts = split(x, std::array<std::int64_t, 4>{1, 0, 2, 1}, -1);
  ASSERT_EQ(parts.size(), 4U);
  expect_same(to_doubles(parts[0]), {1, 5}, "first");
  EXPECT_EQ(parts[1].shape(), (Shape{2, 0}));
  expect_same(to_doubles(parts[2]), {2, 3, 6, 7}, "third");
  expect_same(to_doubles(parts[3]), {4, 8}, "fourth");
  EXPECT_EQ(parts[3].buffer().id(), x.buffer().id());
  EXPECT_EQ(thrown([&] { split(x, std::array<std::int64_t, 2>{1, 2}, 1); }).text,
            "split: lengths 1, 2 sum up to 3, and axis 1 of shape (2, 4) has 4. Fix: make the lengths sum up to 4.");
  EXPECT_EQ(thrown([&] { split(x, std::array<std::int64_t, 2>{-1, 5}, 1); }).code, ErrorCode::invalid_argument);
  EXPECT_TRUE(split(of({}, {0}), {}, 0).empty());
}

/// numpy.pad of one axis after the cuts of negative widths; -1 is the constant.
std::vector<std::int64_t> padded_axis(std::int64_t length, PadWidth w, PadMode mode) {
  std::vector<std::int64_t> row;
  for (std::int64_t i = 0; i < length; ++i) row.push_back(i);
  const auto cut = [&](std::int64_t n) {
    return std::min(-std::min<std::int64_t>(n, 0), static_cast<std::int64_t>(row.size()));
  };
  row.erase(row.begin(), row.begin() + cut(w.before));
  row.erase(row.end() - cut(w.after), row.end());
  // One element at a time, as the mode goes on from what is there.
  const std::vector<std::int64_t> kept = row;
  const auto n = static_cast<std::int64_t>(kept.size());
  const auto at = [&](std::int64_t i) -> std::int64_t {
    if (i >= 0 && i < n) return kept[static_cast<std::size_t>(i)];
    switch (mode) {
      case PadMode::constant: return -1;
      case PadMode::edge: return i < 0 ? kept.front() : kept.back();
      case PadMode::wrap:
        while (i < 0) i += n;
        return kept[static_cast<std::size_t>(i % n)];
      case PadMode::reflect:
        if (n == 1) return kept[0];
        while (i < 0 || i >= n) i = i < 0 ? -i : 2 * (n - 1) - i;
        return kept[static_cast<std::size_t>(i)];
    }
    return -1;
  };
  std::vector<std::int64_t> out;
  for (std::int64_t i = -std::max<std::int64_t>(w.before, 0); i < n + std::max<std::int64_t>(w.after, 0); ++i) {
    out.push_back(at(i));
  }
  return out;
}

TEST(Pad, EveryModeAgainstALoop) {
  std::mt19937 random(7);
  for (int round = 0; round < 160; ++round) {
    const DType t = dtypes()[random() % dtypes().size()];
    const auto mode = static_cast<PadMode>(random() % 4);
    const std::size_t rank = round % 40 == 39 ? 8 : random() % 5;
    Shape shape = small_shape(random, rank);
    if (rank == 8) {
      for (std::int64_t& n : shape) n = std::min<std::int64_t>(n, 2);
    }
    const Strided x = random_strided(test_device(), random, shape, t);
    std::vector<PadWidth> widths(rank);
    std::vector<std::vector<std::int64_t>> sources(rank);
    Shape wanted_shape;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t most = rank == 8 ? 1 : random() % 6 == 0 && rank < 3 ? 3 * shape[i] : 4;
      if (random() % 3 != 0) {
        widths[i].before = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
        widths[i].after = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
        // Cut off, but keep one.
        if (random() % 4 == 0) widths[i].before = -(static_cast<std::int64_t>(random()) % shape[i]);
        if (random() % 4 == 0) {
          widths[i].after =
              -(static_cast<std::int64_t>(random()) % (shape[i] + std::min<std::int64_t>(widths[i].before, 0)));
        }
      }
      sources[i] = padded_axis(shape[i], widths[i], mode);
      wanted_shape.push_back(static_cast<std::int64_t>(sources[i].size()));
    }
    const double value = t == DType::bool_ ? 1 : t == DType::u32 ? 7 : -3;
    std::vector<double> wanted;
    each_index(wanted_shape, [&](const Index& at) {
      Index from;
      for (std::size_t i = 0; i < rank; ++i) from.push_back(sources[i][static_cast<std::size_t>(at[i])]);
      wanted.push_back(std::ranges::count(from, -1) > 0 ? value : x.values[flat(shape, from)]);
    });
    const Tensor got = pad(x.tensor, widths, mode, value);
    ASSERT_EQ(got.shape(), wanted_shape);
    ASSERT_EQ(got.dtype(), t);
    expect_same(to_doubles(got), wanted, named("pad", x) + " mode " + std::to_string(static_cast<int>(mode)));
  }
}

TEST(Pad, EdgesOfItsRules) {
  using Widths = std::vector<PadWidth>;
  const Tensor x = of({1, 2, 3}, {3});
  expect_same(to_doubles(pad(x, Widths{{-4, 5}})), {0, 0, 0, 0}, "cut past the end");
  expect_same(to_doubles(pad(x, Widths{{5, -4}}, PadMode::constant, 9)), {9, 9, 9, 9}, "cut past the start");
  EXPECT_EQ(pad(x, Widths{{-1, -2}}).shape(), (Shape{0}));
  expect_same(to_doubles(pad(of({}, {0}), Widths{{1, 1}}, PadMode::constant, kNan)), {kNan, kNan}, "of nothing");
  expect_same(to_doubles(pad(of({5}, {1}), Widths{{2, 2}}, PadMode::reflect)), {5, 5, 5, 5, 5}, "reflect of one");
  expect_same(to_doubles(pad(x, Widths{{2, 0}}, PadMode::constant, -0.0)), {-0.0, -0.0, 1, 2, 3}, "negative zero");
  expect_same(to_doubles(pad(x, Widths{{1, 1}}, PadMode::constant, kInf)), {kInf, 1, 2, 3, kInf}, "infinity");
  EXPECT_EQ(thrown([&] { pad(x, Widths{{-2, -2}}); }).text,
            "pad: widths -2 and -2 cut more off axis 0 of shape (3,) than its length of 3. Fix: cut off less.");
  EXPECT_EQ(thrown([&] { pad(x, Widths{}); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(
      thrown([&] { pad(of({}, {0}), Widths{{1, 0}}, PadMode::edge); }).text,
      "pad: axis 0 of shape (0,) with widths 1 and 0 has no element to repeat. Fix: use mode constant, or keep an "
      "element.");
  EXPECT_EQ(thrown([&] { pad(x, Widths{{INT64_MAX, 0}}); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { pad(x, Widths{{INT64_MIN, INT64_MAX}}, PadMode::wrap); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { pad(x, Widths{{std::int64_t{1} << 32, 0}}, PadMode::edge); }).code, ErrorCode::unsupported);
  EXPECT_EQ(thrown([&] { pad(of({1}, {1}, DType::u32), Widths{{1, 0}}, PadMode::constant, -1); }).text,
            "pad: -1 does not fit uint32. Fix: use values from 0 to 4294967295, or float32.");
  if (!test_device().features().f16) return;
  expect_same(to_doubles(pad(of({1, 2}, {2}, DType::f16), Widths{{1, 1}}, PadMode::constant, 65504)),
              {65504, 1, 2, 65504}, "largest half");
  expect_same(to_doubles(pad(of({1, 2}, {2}, DType::f16), Widths{{1, 0}}, PadMode::constant, -kInf)), {-kInf, 1, 2},
              "infinite half");
}

TEST(RepeatAndTile, AgainstALoop) {
  std::mt19937 random(8);
  for (int round = 0; round < 80; ++round) {
    const DType t = dtypes()[random() % dtypes().size()];
    const std::size_t rank = round % 16 == 15 ? 8 : 1 + random() % 4;
    Shape shape = small_shape(random, rank);
    if (rank == 8) {
      for (std::int64_t& n : shape) n = std::min<std::int64_t>(n, 2);
    }
    const Strided x = random_strided(test_device(), random, shape, t);
    const std::size_t axis = random() % rank;
    const auto n = static_cast<std::int64_t>(random() % 5);
    Shape wanted_shape = shape;
    wanted_shape[axis] *= n;
    std::vector<double> wanted;
    each_index(wanted_shape, [&](Index at) {
      at[axis] /= n;
      wanted.push_back(x.values[flat(shape, at)]);
    });
    const Tensor repeated = repeat(x.tensor, n, static_cast<std::int64_t>(axis));
    ASSERT_EQ(repeated.shape(), wanted_shape);
    expect_same(to_doubles(repeated), wanted, named("repeat", x) + " axis " + std::to_string(axis));

    const std::size_t given = 1 + random() % std::min<std::size_t>(rank + 1, 8);
    std::vector<std::int64_t> counts(given);
    for (std::int64_t& c : counts) c = static_cast<std::int64_t>(random() % (rank == 8 ? 3 : 4));
    wanted_shape = ops::tile_shape(shape, counts);
    wanted.clear();
    each_index(wanted_shape, [&](const Index& at) {
      Index from;
      for (std::size_t i = 0; i < rank; ++i) from.push_back(at[at.size() - rank + i] % shape[i]);
      wanted.push_back(x.values[flat(shape, from)]);
    });
    const Tensor tiled = tile(x.tensor, counts);
    ASSERT_EQ(tiled.shape(), wanted_shape);
    expect_same(to_doubles(tiled), wanted, named("tile", x));
  }
  const Tensor x = of({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(tile(x, std::array<std::int64_t, 3>{2, 1, 1}).shape(), (Shape{2, 2, 2}));
  EXPECT_NE(tile(x, std::array<std::int64_t, 1>{1}).buffer().id(), x.buffer().id());
  EXPECT_EQ(thrown([&] { repeat(x, -1, 0); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { repeat(x, 1, 2); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { tile(x, std::array<std::int64_t, 1>{-1}); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { tile(x, std::array<std::int64_t, 1>{INT64_MAX}); }).code, ErrorCode::out_of_range);
  // Eight axes and all of them repeated: no room for the repeats.
  std::mt19937 again(9);
  const Strided eight = dense(test_device(), again, {2, 1, 2, 1, 2, 1, 2, 1}, DType::i32);
  const std::array<std::int64_t, 8> twice{2, 2, 2, 2, 2, 2, 2, 2};
  std::vector<double> wanted;
  each_index({4, 2, 4, 2, 4, 2, 4, 2}, [&](Index at) {
    for (std::size_t i = 0; i < 8; ++i) at[i] %= eight.tensor.shape()[i];
    wanted.push_back(eight.values[flat(eight.tensor.shape(), at)]);
  });
  expect_same(to_doubles(tile(eight.tensor, twice)), wanted, "tile of eight axes");
}

TEST(Triangles, EveryDiagonal) {
  std::mt19937 random(10);
  for (DType t : dtypes()) {
    for (const Shape& shape : {Shape{4, 4}, Shape{3, 7}, Shape{2, 5, 3}, Shape{1, 1}, Shape{2, 2, 1, 6}}) {
      const Strided x = random_strided(test_device(), random, shape, t);
      if (t != DType::f32 && shape.rank() > 2) continue;
      for (std::int64_t k : std::vector<std::int64_t>{0, 1, -1, 2, -2, 6, -6, 100, -100, INT64_MAX, INT64_MIN}) {
        std::vector<double> upper;
        std::vector<double> lower;
        std::size_t e = 0;
        each_index(shape, [&](const Index& at) {
          const std::int64_t diagonal = at[at.size() - 1] - at[at.size() - 2];
          upper.push_back(diagonal >= k ? x.values[e] : 0);
          lower.push_back(diagonal <= k ? x.values[e] : 0);
          ++e;
        });
        expect_same(to_doubles(triu(x.tensor, k)), upper, named("triu", x) + " k " + std::to_string(k));
        expect_same(to_doubles(tril(x.tensor, k)), lower, named("tril", x) + " k " + std::to_string(k));
      }
    }
  }
  const Tensor wild = of({kNan, kInf, -0.0, kNan}, {2, 2});
  expect_same(to_doubles(triu(wild)), {kNan, kInf, 0, kNan}, "triu of NaN");
  expect_same(to_doubles(tril(wild, -1)), {0, 0, -0.0, 0}, "tril of NaN");
  EXPECT_EQ(triu(of({}, {0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(thrown([&] { triu(of({1}, {1})); }).text,
            "triu: a tensor of shape (1,) has 1 axes. Fix: give it at least 2 (expand_dims).");
}

TEST(OneHot, EveryAxisAndDType) {
  std::mt19937 random(11);
  const Shape shape{3, 4};
  const std::vector<std::int32_t> places{0, 4, -1, -5, 5, -6, 2, 3, 1, INT32_MIN, INT32_MAX, -3};
  for (DType t : dtypes()) {
    for (std::int64_t axis = t == DType::f32 ? -3 : 1; axis < 3; ++axis) {
      const auto at_axis = static_cast<std::size_t>(axis < 0 ? axis + 3 : axis);
      Shape wanted_shape = shape;
      wanted_shape.insert(at_axis, 5);
      std::vector<double> wanted;
      const double on = t == DType::bool_ ? 1 : 3;
      const double off = t == DType::bool_ ? 0 : 2;
      each_index(wanted_shape, [&](Index at) {
        const std::int64_t here = at[at_axis];
        at.erase(at.begin() + static_cast<std::ptrdiff_t>(at_axis));
        std::int64_t index = places[flat(shape, at)];
        if (index < 0) index += 5;
        wanted.push_back(index == here ? on : off);
      });
      const Tensor got = one_hot(ints(places, shape), 5, axis, on, off, t);
      ASSERT_EQ(got.shape(), wanted_shape);
      ASSERT_EQ(got.dtype(), t);
      expect_same(to_doubles(got), wanted, "one_hot axis " + std::to_string(axis));
    }
  }
  EXPECT_EQ(one_hot(of({1, 4294967295.0}, {2}, DType::u32), 3).to_host<float>(),
            (std::vector<float>{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(one_hot(ints({2}, {}), 3).to_host<float>(), (std::vector<float>{0, 0, 1}));
  EXPECT_EQ(one_hot(ints({2}, {1}), 0).shape(), (Shape{1, 0}));
  EXPECT_EQ(thrown([&] { one_hot(ints({2}, {1}), -1); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown([&] { one_hot(ints({2}, {1}), 3, 2); }).code, ErrorCode::out_of_range);
  EXPECT_EQ(thrown([&] { one_hot(of({2}, {1}), 3); }).text,
            "one_hot: the indices are float32. Fix: cast them to int32.");
}

// -- sizes ----------------------------------------------------------------------------------------------------------

// D33: past the binding limit, work comes in slices or is refused before any of it, with the limit named.
TEST(Sizes, PastTheBindingLimit) {
  const std::uint64_t limit = test_device().limits().max_storage_binding_size;
  if (limit > (std::uint64_t{256} << 20)) GTEST_SKIP() << "a binding of " << limit << " bytes takes too much memory";
  const auto most = static_cast<std::int64_t>(limit / 4);
  {
    const Tensor row = of({1, 2, 3}, {3});
    const Tensor wide = pad(row, std::vector<PadWidth>{{most, 5}}, PadMode::constant, 7);
    EXPECT_EQ(slice(wide, 0, most - 2, most + 5).to_host<float>(), (std::vector<float>{7, 7, 1, 2, 3, 7, 7}));
    EXPECT_EQ(max(wide).to_host<float>(), (std::vector<float>{7}));
    EXPECT_EQ(sum(slice(wide, 0, most, std::nullopt)).to_host<float>(), (std::vector<float>{41}));
    const std::uint64_t dispatches = test_device().stats().dispatches;
    const Thrown got = thrown([&] { scatter_nd(wide, ints({0}, {1, 1}), of({1}, {1})); });
    EXPECT_EQ(got.code, ErrorCode::out_of_range);
    EXPECT_NE(got.text.find("over the device's limit of " + std::to_string(limit)), std::string::npos) << got.text;
    EXPECT_EQ(thrown([&] { take_along_axis(wide, ints({0}, {1}), 0); }).code, ErrorCode::out_of_range);
    EXPECT_EQ(thrown([&] { gather_nd(wide, ints({0}, {1, 1})); }).code, ErrorCode::out_of_range);
    EXPECT_EQ(thrown([&] { pad(wide, std::vector<PadWidth>{{1, 0}}); }).code, ErrorCode::out_of_range);
    EXPECT_EQ(test_device().stats().dispatches, dispatches) << "work was recorded for what is refused";
  }
  {
    const Tensor ids = broadcast_to(ints({1}, {1}), {most / 2 + 3});
    const Tensor rows = embedding(of({1, 2, 3, 4}, {2, 2}), ids, IndexCheck::trusted);  // two slices
    EXPECT_EQ(slice(rows, 0, most / 2 + 1, std::nullopt).to_host<float>(), (std::vector<float>{3, 4, 3, 4}));
    EXPECT_EQ(sum(select(rows, 1, 1)).to_host<float>(), (std::vector<float>{4.0F * static_cast<float>(most / 2 + 3)}));
  }
  test_device().trim();
}

// -- graphs ---------------------------------------------------------------------------------------------------------

TEST(Graphs, TrustedOpsReplayWithWhatIsThereThen) {
  Device& device = test_device();
  const Tensor x = of({1, 2, 3, 4}, {4});
  const Tensor at = ints({3, 3, 0}, {3});
  const Tensor updates = of({10, 20, 30}, {3});
  Tensor set;
  Tensor taken;
  const Graph graph = device.capture([&](const Stream&) {
    set = scatter_along_axis(x, at, updates, 0, {.check = IndexCheck::trusted});
    taken = take_along_axis(set, at, 0, IndexCheck::trusted);
  });
  graph.run();
  expect_same(to_doubles(set), {30, 2, 3, 20}, "first run");
  expect_same(to_doubles(taken), {20, 20, 30}, "first run");
  // The last update of an element is found anew: what an earlier run noted is gone.
  const std::vector<std::int32_t> other{1, 3, 2};
  device.write(at.buffer(), 0, std::as_bytes(std::span(other)));
  graph.run();
  expect_same(to_doubles(set), {1, 10, 30, 20}, "second run");
  expect_same(to_doubles(taken), {10, 20, 30}, "second run");
  // A verdict can't be read while nothing runs.
  EXPECT_TRUE(thrown([&] { device.capture([&](const Stream&) { take_along_axis(x, at, 0); }); }).code);
}

// -- kernels --------------------------------------------------------------------------------------------------------

// D11: every kernel that the family can choose compiles.
TEST(IndexingFamily, EveryKernelCompiles) {
  std::map<std::string, KernelOptions> kernels;
  for (const ops::OpFamily* family : {&ops::indexing_family(), &ops::views_family()}) {
    EXPECT_FALSE(family->ops.empty());
    family->visit_kernels(test_device(), [&](std::string_view key, const KernelOptions& options) {
      const auto [it, fresh] = kernels.emplace(key, options);
      EXPECT_TRUE(fresh || it->second.source == options.source) << "two kernels of key " << key;
    });
  }
  std::vector<KernelOptions> all;
  for (const auto& [key, options] : kernels) all.push_back(options);
  EXPECT_GT(all.size(), 100U);
  // And the tests above met no other.
  for (const std::string& key : test_device().state()->library.keys()) {
    for (const char* of_ours : {"gather", "take_along_axis", "scatter", "pad", "index_check", "copy"}) {
      EXPECT_TRUE(!key.starts_with(of_ours) || kernels.contains(key)) << key;
    }
  }
  for (const PendingKernel& pending : test_device().prepare(all)) EXPECT_NO_THROW(pending.get());
}

}  // namespace
}  // namespace weft
