// Results in memory of the caller's (weft::into).
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>

#include "unit/core_helpers.h"
#include "unit/test_device.h"
#include "weft/weft.h"

namespace weft::testing {
namespace {

Tensor range(std::int64_t n) {
  return arange(test_device(), 0, n, 1, DType::f32);
}

TEST(Into, WritesTheBufferThatIsGiven) {
  Device& device = test_device();
  const Tensor x = reshape(range(12), Shape{3, 4});
  const Tensor out = device.empty({3, 4}, DType::f32);
  const std::uint64_t before = device.stats().dispatches;
  into(out, [&] { return x + 1.0; });
  EXPECT_EQ(device.stats().dispatches - before, 1u) << "no copy";
  std::vector<float> want(12);
  std::iota(want.begin(), want.end(), 1.0f);
  EXPECT_EQ(out.to_host<float>(), want);
  into(out, [&] { return softmax(out * 0.0); });
  EXPECT_EQ(out.to_host<float>(), std::vector<float>(12, 0.25f));
}

TEST(Into, InPlaceForElementwise) {
  const Tensor x = range(5);
  into(x, [&] { return x * 2.0; });
  EXPECT_EQ(x.to_host<float>(), (std::vector<float>{0, 2, 4, 6, 8}));
}

// Neighbours in the buffer stay, also where elements share a word.
template <class T>
void check_neighbours(DType dtype, T guard, T value) {
  Device& device = test_device();
  const Tensor all = full(device, {11}, Scalar(static_cast<double>(static_cast<float>(guard))), dtype);
  const Tensor middle = slice(all, 0, 3, 8);
  const Tensor x = full(device, {5}, Scalar(static_cast<double>(static_cast<float>(value))), dtype);
  into(middle, [&] { return concat(std::array{slice(x, 0, 0, 2), slice(x, 0, 0, 3)}); });
  std::vector<T> want(11, guard);
  std::fill(want.begin() + 3, want.begin() + 8, value);
  EXPECT_EQ(all.to_host<T>(), want);
}
TEST(Into, LeavesNeighboursAlone) {
  check_neighbours<float>(DType::f32, 7, 1);
  check_neighbours<std::int32_t>(DType::i32, 7, 1);
  if (test_device().features().f16) check_neighbours<float16>(DType::f16, float16(7), float16(1));
  Device& device = test_device();
  const Tensor all = full(device, {11}, true, DType::bool_);
  into(slice(all, 0, 3, 8), [&] { return binary(BinaryOp::greater, range(5), range(5)); });
  std::vector<bool> want(11, true);
  std::fill(want.begin() + 3, want.begin() + 8, false);
  EXPECT_EQ(all.to_host<bool>(), want);
}

// Each family writes there itself: the count of dispatches is that of the op alone.
TEST(Into, EveryFamilyWritesThere) {
  Device& device = test_device();
  const Tensor x = reshape(range(48), Shape{4, 12});
  const Tensor image = reshape(range(48), Shape{1, 3, 4, 4});
  const Tensor filter = full(device, {2, 3, 1, 1}, 1.0, DType::f32);
  const Tensor heads = reshape(range(48), Shape{1, 2, 4, 6});
  const Tensor indices = full(device, {4, 5}, 1, DType::i32);
  const std::vector<std::function<Tensor()>> ops{
      [&] { return softmax(x); },
      [&] { return layer_norm(x); },
      [&] { return rms_norm(x); },
      [&] { return sum(x, {.axes = std::vector<std::int64_t>{1}}); },
      [&] { return var(x, {.axes = std::vector<std::int64_t>{1}}); },
      [&] { return matmul(x, transpose(x)); },
      [&] { return conv(image, filter); },
      [&] { return pool(PoolOp::max, image, {2, 2}); },
      [&] { return attention(heads, heads, heads); },
      [&] { return cumsum(x); },
      [&] { return sort(x); },
      [&] { return take_along_axis(x, indices, 1, IndexCheck::trusted); },
      [&] { return pad(x, std::array<PadWidth, 2>{PadWidth{1, 1}, PadWidth{0, 2}}); },
      [&] { return tile(x, std::array<std::int64_t, 2>{2, 1}); },
      [&] { return concat(std::array{x, x}); },
  };
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Tensor want = ops[i]();
    device.synchronize();
    std::uint64_t before = device.stats().dispatches;
    ops[i]();
    const std::uint64_t alone = device.stats().dispatches - before;
    const Tensor out = full(device, want.shape(), -7.0, want.dtype());
    device.synchronize();
    before = device.stats().dispatches;
    into(out, ops[i]);
    EXPECT_EQ(device.stats().dispatches - before, alone) << "op " << i << " was copied";
    EXPECT_EQ(out.to_host<float>(), want.to_host<float>()) << "op " << i;
  }
}

TEST(Into, RefusesWhatDoesNotFit) {
  Device& device = test_device();
  const Tensor x = range(6);
  const Tensor out = full(device, {6}, 9.0, DType::f32);
  expect_error(error_of([&] { into(out, [&] { return reshape(x, Shape{2, 3}) + 1.0; }); }), ErrorCode::invalid_argument,
               {"into", "(6,)", "(2, 3)"});
  expect_error(error_of([&] { into(slice(out, 0, 0, 6, 2), [&] { return range(3); }); }), ErrorCode::invalid_argument,
               {"strides"});
  expect_error(error_of([&] { into(Tensor(), [&] { return x; }); }), ErrorCode::invalid_argument);
  EXPECT_EQ(out.to_host<float>(), std::vector<float>(6, 9.0f));
  // After an error the thread has no target left over.
  EXPECT_EQ((x + 1.0).to_host<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(out.to_host<float>(), std::vector<float>(6, 9.0f));
}

}  // namespace
}  // namespace weft::testing
