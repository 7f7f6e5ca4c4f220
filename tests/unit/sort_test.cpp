// sort, argsort and topk in both kernel classes against std::stable_sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/state.h"
#include "ops/catalog.h"
#include "ops/rows.h"
#include "unit/kernel_class_test.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "weft/error.h"
#include "weft/indexing.h"
#include "weft/kernel.h"

namespace weft {
namespace {

using testing::random_strided;
using testing::Strided;
using testing::test_device;
using testing::to_doubles;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class Sorting : public testing::KernelClassTest {};

INSTANTIATE_TEST_SUITE_P(Classes, Sorting, testing::both_kernel_classes(), testing::kernel_class_name);

std::vector<DType> dtypes() {
  return testing::dtypes_of(test_device());
}

/// NaN is the largest, -0 is 0.
bool before(double a, double b) {
  if (std::isnan(a)) return false;
  return std::isnan(b) || a < b;
}

/// The order of each row along the axis, and where each element of a result of `keep` along it comes from.
struct Reference {
  std::vector<std::int32_t> places;
  std::vector<double> values;
};
Reference reference(const Strided& x, std::size_t axis, std::int64_t keep, bool descending) {
  const Shape& shape = x.tensor.shape();
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t length = shape[axis];
  Reference out;
  out.places.resize(static_cast<std::size_t>(outer * keep * inner));
  out.values.resize(out.places.size());
  std::vector<std::int32_t> order(static_cast<std::size_t>(length));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto value = [&](std::int32_t p) {
        return x.values[static_cast<std::size_t>((o * length + p) * inner + i)];
      };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return descending ? before(value(b), value(a)) : before(value(a), value(b));
      });
      for (std::int64_t k = 0; k < keep; ++k) {
        const auto d = static_cast<std::size_t>((o * keep + k) * inner + i);
        out.places[d] = order[static_cast<std::size_t>(k)];
        out.values[d] = value(out.places[d]);
      }
    }
  }
  return out;
}

void expect_same(const std::vector<double>& got, const std::vector<double>& wanted, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(got[i], wanted[i]) << what << " element " << i;
    ASSERT_EQ(std::signbit(got[i]), std::signbit(wanted[i])) << what << " element " << i;
  }
}

std::string named(const Strided& x, std::size_t axis) {
  return std::string(to_string(x.tensor.dtype())) + " " + to_string(x.tensor.shape()) + " strides " +
         to_string(x.tensor.strides()) + " axis " + std::to_string(axis);
}

void expect_sorted(const Strided& x, std::size_t axis, bool descending) {
  const SortOptions options{static_cast<std::int64_t>(axis), descending};
  const Reference wanted = reference(x, axis, x.tensor.shape()[axis], descending);
  const Tensor places = argsort(x.tensor, options);
  ASSERT_EQ(places.shape(), x.tensor.shape());
  ASSERT_EQ(places.to_host<std::int32_t>(), wanted.places) << "argsort " << named(x, axis);
  const Tensor values = sort(x.tensor, options);
  ASSERT_EQ(values.shape(), x.tensor.shape());
  ASSERT_EQ(values.dtype(), x.tensor.dtype());
  expect_same(to_doubles(values), wanted.values, "sort " + named(x, axis));
}

void expect_topk(const Strided& x, std::size_t axis, std::int64_t k, bool largest) {
  Shape shape = x.tensor.shape();
  shape[axis] = k;
  const Reference wanted = reference(x, axis, k, largest);
  const TopK got = topk(x.tensor, k, {static_cast<std::int64_t>(axis), largest});
  ASSERT_EQ(got.values.shape(), shape);
  ASSERT_EQ(got.indices.shape(), shape);
  ASSERT_EQ(got.values.dtype(), x.tensor.dtype());
  ASSERT_EQ(got.indices.to_host<std::int32_t>(), wanted.places) << "topk " << k << " of " << named(x, axis);
  expect_same(to_doubles(got.values), wanted.values, "topk " + std::to_string(k) + " of " + named(x, axis));
}

/// Numbers of all kinds: few and many different ones, both zeros, infinities, NaN, denormals.
double any_value(std::mt19937& random, DType t, std::uint32_t kinds) {
  const std::uint32_t r = static_cast<std::uint32_t>(random());
  switch (t) {
    case DType::bool_: return r % 2;
    case DType::u32: return kinds == 0 ? r : r % kinds;
    case DType::i32: return kinds == 0 ? static_cast<std::int32_t>(r) : static_cast<double>(r % kinds) - kinds / 2;
    default: break;
  }
  static constexpr double kSpecial[] = {0.0, -0.0, kNan, kInf, -kInf, 0x1p-24, -0x1p-24, 65504, -65504, 1, -1};
  if (r % 16 == 0) return kSpecial[random() % std::size(kSpecial)];
  return (static_cast<double>(kinds == 0 ? r : r % kinds) / 4096 - (kinds == 0 ? 500000 : 0)) * (r % 3 == 0 ? -1 : 1);
}

Strided any_row(std::mt19937& random, const Shape& shape, DType t, std::uint32_t kinds) {
  Strided x;
  x.values.resize(static_cast<std::size_t>(element_count(shape)));
  for (double& v : x.values) v = testing::stored(any_value(random, t, kinds), t);
  x.tensor = test_device().upload_array(testing::to_bytes(x.values, t), shape, t);
  return x;
}

TEST_P(Sorting, RowsOfEveryLength) {
  std::mt19937 random(1);
  for (std::int64_t n : {1,   2,   3,   4,   7,    15,   16,   31,   32,   33,   63,   64,   65,
                         100, 127, 129, 511, 1000, 2047, 2048, 2049, 4095, 4096, 4097, 6144, 10007}) {
    for (DType t : dtypes()) {
      const Strided x = any_row(random, {n < 200 ? 7 : 2, n}, t, n % 3 == 0 ? 0 : n % 3 == 1 ? 5 : 300);
      expect_sorted(x, 1, n % 2 == 0);
    }
  }
}

TEST_P(Sorting, AnyAxisAndLayout) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const DType t = dtypes()[random() % dtypes().size()];
    Shape shape = testing::random_shape(random, 4);
    if (shape.rank() == 0) shape.push_back(9);
    const Strided x = random_strided(test_device(), random, shape, t);
    const std::size_t axis = random() % shape.rank();
    expect_sorted(x, axis, random() % 2 == 0);
    const std::int64_t k = static_cast<std::int64_t>(random()) % (shape[axis] + 1);
    expect_topk(x, axis, k, random() % 2 == 0);
  }
}

TEST_P(Sorting, ManyShortRows) {
  std::mt19937 random(3);
  const Strided x = any_row(random, {40000, 3}, DType::f32, 0);
  expect_sorted(x, 1, false);
  const Strided y = any_row(random, {5, 20000}, DType::i32, 4);
  expect_sorted(y, 0, true);
}

TEST_P(Sorting, OneLongRow) {
  std::mt19937 random(4);
  for (DType t : {DType::f32, DType::u32}) {
    expect_sorted(any_row(random, {100001}, t, 0), 0, false);
    expect_sorted(any_row(random, {65536}, t, 17), 0, true);
  }
}

TEST_P(Sorting, NanInfinitiesAndZeros) {
  const auto row = [](const std::vector<double>& v, DType t = DType::f32) {
    return test_device().upload_array(testing::to_bytes(v, t), {static_cast<std::int64_t>(v.size())}, t);
  };
  std::vector<DType> floats{DType::f32};
  if (test_device().features().f16) floats.push_back(DType::f16);
  for (DType t : floats) {
    const Tensor x = row({0.0, kNan, -0.0, 1, -kInf, kNan, kInf, -1, 65504, -65504, 0x1p-24, -0x1p-24}, t);
    expect_same(to_doubles(sort(x)), {-kInf, -65504, -1, -0x1p-24, 0.0, -0.0, 0x1p-24, 1, 65504, kInf, kNan, kNan},
                "ascending");
    EXPECT_EQ(argsort(x).to_host<std::int32_t>(), (std::vector<std::int32_t>{4, 9, 7, 11, 0, 2, 10, 3, 8, 6, 1, 5}));
    expect_same(to_doubles(sort(x, {.descending = true})),
                {kNan, kNan, kInf, 65504, 1, 0x1p-24, 0.0, -0.0, -0x1p-24, -1, -65504, -kInf}, "descending");
    const TopK top = topk(x, 3);
    expect_same(to_doubles(top.values), {kNan, kNan, kInf}, "largest");
    EXPECT_EQ(top.indices.to_host<std::int32_t>(), (std::vector<std::int32_t>{1, 5, 6}));
    expect_same(to_doubles(topk(x, 2, {.largest = false}).values), {-kInf, -65504}, "smallest");
  }
  // NaN of either sign and any payload; f32 denormals are told apart.
  const std::vector<std::uint32_t> bits{0xffc00001U, 3, 0x7f800001U, 0x80000002U, 2, 0xff800000U, 0x80000000U, 0};
  const Tensor odd = test_device().upload_array(std::as_bytes(std::span(bits)), {8}, DType::f32);
  EXPECT_EQ(argsort(odd).to_host<std::int32_t>(), (std::vector<std::int32_t>{5, 3, 6, 7, 4, 1, 0, 2}));
  const std::vector<std::byte> sorted_bytes = sort(odd).to_host_bytes();
  std::vector<std::uint32_t> sorted(8);
  std::memcpy(sorted.data(), sorted_bytes.data(), 32);
  EXPECT_EQ(sorted,
            (std::vector<std::uint32_t>{0xff800000U, 0x80000002U, 0x80000000U, 0, 2, 3, 0xffc00001U, 0x7f800001U}));
  const Tensor ends = row({INT32_MAX, INT32_MIN, 0, -1, INT32_MAX, INT32_MIN}, DType::i32);
  EXPECT_EQ(argsort(ends, {.descending = true}).to_host<std::int32_t>(), (std::vector<std::int32_t>{0, 4, 2, 3, 1, 5}));
}

TEST_P(Sorting, TopkOfLongRows) {
  std::mt19937 random(5);
  for (DType t : dtypes()) {
    const Strided x = any_row(random, {2, 20011}, t, 0);
    for (std::int64_t k : {1, 2, 10, 31, 33, 100, 1025, 2048, 2049, 5000, 20010, 20011}) {
      if (t != DType::f32 && k != 1 && k != 33 && k != 2049) continue;
      expect_topk(x, 1, k, k % 2 == 0);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  // All equal: the first ones, from every run.
  const Strided same = any_row(random, {50000}, DType::u32, 1);
  expect_topk(same, 0, 7, true);
  expect_topk(same, 0, 7, false);
}

TEST_P(Sorting, OfNothing) {
  Device& device = test_device();
  EXPECT_EQ(sort(device.zeros({0}, DType::f32)).shape(), (Shape{0}));
  EXPECT_EQ(argsort(device.zeros({3, 0}, DType::bool_)).shape(), (Shape{3, 0}));
  EXPECT_EQ(argsort(device.zeros({0, 3}, DType::f32)).dtype(), DType::i32);
  const TopK none = topk(device.zeros({2, 3}, DType::bool_), 0);
  EXPECT_EQ(none.values.shape(), (Shape{2, 0}));
  EXPECT_EQ(none.values.dtype(), DType::bool_);
  EXPECT_EQ(none.indices.shape(), (Shape{2, 0}));
}

TEST_P(Sorting, Refusals) {
  const auto text = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  const Tensor x = test_device().zeros({2, 3}, DType::f32);
  EXPECT_EQ(text([&] { topk(x, 4); }),
            "topk: 4 of axis 1 of length 3, of a tensor of shape (2, 3). Fix: use a k from 0 to 3.");
  EXPECT_EQ(text([&] { sort(x, {.axis = 2}); }),
            "sort: axis 2 is out of range for a tensor of 2 dimensions (2, 3). Fix: use an axis from -2 to 1.");
  EXPECT_EQ(text([&] { argsort(test_device().zeros({}, DType::f32)); }),
            "argsort: axis -1 is out of range for a tensor of 0 dimensions (). Fix: give it an axis first (reshape or "
            "expand_dims).");
  EXPECT_NE(text([] { sort(Tensor()); }).find("sort: an operand is an empty tensor handle"), std::string::npos);
}

// D33: rows are worked in parts where one binding can't show all; a row that none can show is refused, the limit named.
TEST(SortSizes, PastTheBindingLimit) {
  Device& device = test_device();
  const std::uint64_t limit = device.limits().max_storage_binding_size;
  if (limit > (std::uint64_t{256} << 20)) GTEST_SKIP() << "a binding of " << limit << " bytes takes too much memory";
  const auto most = static_cast<std::int64_t>(limit / 4);
  {
    // Rows 0 and 1 in two parts: i, then that reversed.
    const std::int64_t n = 3;
    const std::int64_t rows = most / n + 1000;
    const Tensor x = reshape(arange(device, 0, rows * n, 1, DType::i32), {rows, n});
    const Tensor down = sort(x, {.descending = true});
    const auto last = static_cast<std::int32_t>(rows * n - 1);
    EXPECT_EQ(slice(down, 0, rows - 1, rows).to_host<std::int32_t>(),
              (std::vector<std::int32_t>{last, last - 1, last - 2}));
    EXPECT_EQ(slice(down, 0, 0, 1).to_host<std::int32_t>(), (std::vector<std::int32_t>{2, 1, 0}));
    EXPECT_EQ(max(binary(BinaryOp::not_equal, slice(down, 1, std::nullopt, std::nullopt, -1), x)).to_host<bool>(),
              std::vector<bool>{false});
  }
  device.trim();
  const Tensor row = device.empty({most + 1}, DType::i32);
  const std::uint64_t dispatches = device.stats().dispatches;
  for (const bool flags : {false, true}) {
    try {
      sort(flags ? Tensor(device, row.buffer(), {most + 1}, {1}, 0, DType::bool_) : row);
      ADD_FAILURE() << "sorted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_range);
      EXPECT_NE(std::string(error.what()).find("over the device's limit of " + std::to_string(limit)),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(device.stats().dispatches, dispatches);
}

// D11: every kernel that the family can choose compiles, and the tests above met no other.
TEST(OrderingFamily, EveryKernelCompiles) {
  std::map<std::string, KernelOptions> kernels;
  EXPECT_EQ(ops::ordering_family().ops.size(), 3U);
  ops::ordering_family().visit_kernels(test_device(), [&](std::string_view key, const KernelOptions& options) {
    EXPECT_TRUE(kernels.emplace(key, options).second) << key;
  });
  std::vector<KernelOptions> all;
  for (const auto& [key, options] : kernels) all.push_back(options);
  EXPECT_GT(all.size(), 25U);
  for (const PendingKernel& pending : test_device().prepare(all)) EXPECT_NO_THROW(pending.get());
  for (const std::string& key : test_device().state()->library.keys()) {
    EXPECT_TRUE(!key.starts_with("sort.") || kernels.contains(key)) << key;
  }
}

}  // namespace
}  // namespace weft
