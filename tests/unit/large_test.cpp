// Tensors of 200 MiB, past the 128 MiB that lavapipe binds at once (D33): right, or refused before any work.
#include <gtest/gtest.h>

#include <cmath>

#include "unit/core_helpers.h"
#include "unit/test_device.h"
#include "weft/weft.h"

namespace weft::testing {
namespace {

constexpr std::int64_t kRows = 5120;
constexpr std::int64_t kColumns = 10240;
constexpr std::int64_t kCount = kRows * kColumns;  // 200 MiB of f32

/// i mod 1000 in a matrix: sums of it are known.
const Tensor& matrix() {
  static const Tensor x = [] {
    const Tensor i = arange(test_device(), 0, kCount, 1, DType::i32);
    return reshape(cast(binary(BinaryOp::remainder, i, 1000), DType::f32), Shape{kRows, kColumns});
  }();
  return x;
}

double value(std::int64_t i) {
  return static_cast<double>(i % 1000);
}

float at(const Tensor& x, std::int64_t row, std::int64_t column) {
  return select(select(x, 0, row), 0, column).to_host<float>()[0];
}

TEST(Large, TheTensorIsPastOneBinding) {
  if (test_device().adapter().type == AdapterType::cpu) {
    EXPECT_GT(matrix().nbytes(), test_device().limits().max_storage_binding_size);
  }
  EXPECT_EQ(matrix().nbytes(), std::size_t{200} << 20);
}

TEST(Large, Elementwise) {
  const Tensor y = matrix() * 2.0 + matrix();
  for (std::int64_t row : {std::int64_t{0}, kRows / 2, kRows - 1}) {
    for (std::int64_t column : {std::int64_t{0}, std::int64_t{777}, kColumns - 1}) {
      EXPECT_EQ(at(y, row, column), static_cast<float>(3 * value(row * kColumns + column)));
    }
  }
}

TEST(Large, Reductions) {
  double want = 0;
  for (std::int64_t i = 0; i < 1000; ++i) want += static_cast<double>(i);
  want *= static_cast<double>(kCount / 1000);
  for (std::int64_t i = kCount / 1000 * 1000; i < kCount; ++i) want += value(i);
  EXPECT_NEAR(sum(matrix()).to_host<float>()[0], want, want * 1e-6);
  EXPECT_EQ(max(matrix()).to_host<float>()[0], 999.0f);
  const std::vector<float> rows = sum(matrix(), {.axes = std::vector<std::int64_t>{1}}).to_host<float>();
  const std::vector<float> columns = sum(matrix(), {.axes = std::vector<std::int64_t>{0}}).to_host<float>();
  for (std::int64_t row : {std::int64_t{0}, kRows - 1}) {
    double exact = 0;
    for (std::int64_t c = 0; c < kColumns; ++c) exact += value(row * kColumns + c);
    EXPECT_NEAR(rows[static_cast<std::size_t>(row)], exact, exact * 1e-6);
  }
  double exact = 0;
  for (std::int64_t row = 0; row < kRows; ++row) exact += value(row * kColumns + 5);
  EXPECT_NEAR(columns[5], exact, exact * 1e-6);
}

TEST(Large, Copies) {
  const Tensor turned = contiguous(transpose(matrix()));
  EXPECT_EQ(turned.shape(), (Shape{kColumns, kRows}));
  EXPECT_EQ(at(turned, 7, kRows - 1), static_cast<float>(value((kRows - 1) * kColumns + 7)));
  EXPECT_EQ(at(turned, kColumns - 1, 0), static_cast<float>(value(kColumns - 1)));
  const Tensor cut = contiguous(slice(matrix(), 1, 3, kColumns, 2));
  EXPECT_EQ(at(cut, kRows - 1, 100), static_cast<float>(value((kRows - 1) * kColumns + 203)));
}

TEST(Large, Products) {
  // A matrix past the limit times a thin one, and a product past it.
  const Tensor ones = full(test_device(), Shape{kColumns, 2}, 1.0, DType::f32);
  const std::vector<float> sums = matmul(matrix(), ones).to_host<float>();
  double exact = 0;
  for (std::int64_t c = 0; c < kColumns; ++c) exact += value((kRows - 1) * kColumns + c);
  EXPECT_NEAR(sums[static_cast<std::size_t>(2 * kRows - 1)], exact, exact * 1e-5);
  const Tensor tall = reshape(arange(test_device(), 0, kRows, 1, DType::f32), Shape{kRows, 1});
  const Tensor wide = reshape(arange(test_device(), 0, kColumns, 1, DType::f32), Shape{1, kColumns});
  EXPECT_EQ(at(matmul(tall, wide), kRows - 1, 3), static_cast<float>((kRows - 1) * 3));
}

TEST(Large, Rows) {
  const Tensor y = softmax(matrix());
  double total = 0;
  for (float v : select(y, 0, kRows - 1).to_host<float>()) total += v;
  EXPECT_NEAR(total, 1, 1e-4);
}

// What can't be sliced is refused before anything is recorded, with the limit named.
TEST(Large, RefusalsRecordNothing) {
  Device& device = test_device();
  if (matrix().nbytes() <= device.limits().max_storage_binding_size) return;  // a GPU binds it whole
  const Tensor indices = full(device, Shape{kRows, 1}, 0, DType::i32);
  const std::uint64_t before = device.stats().dispatches;
  expect_error(error_of([&] { take_along_axis(matrix(), indices, 1, IndexCheck::trusted); }), ErrorCode::out_of_range,
               {"take_along_axis", std::to_string(device.limits().max_storage_binding_size)});
  EXPECT_EQ(device.stats().dispatches, before);
}

}  // namespace
}  // namespace weft::testing
