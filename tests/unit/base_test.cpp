// Checked arithmetic, errors, dtypes and shapes: what needs no device.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/half.h"
#include "unit/core_helpers.h"
#include "weft/dtype.h"
#include "weft/shape.h"

namespace weft::testing {
namespace {

// A16. An allocation is at least one word: buffer_test checks that; here is the rounding itself.
TEST(CheckedAlign, A16_Table) {
  EXPECT_EQ(checked_align(0, 4, "n"), 0u);
  EXPECT_EQ(checked_align(1, 4, "n"), 4u);
  EXPECT_EQ(checked_align(3, 4, "n"), 4u);
  EXPECT_EQ(checked_align(4, 4, "n"), 4u);
  EXPECT_EQ(checked_align(5, 4, "n"), 8u);
  EXPECT_EQ(checked_align(257, 4, "n"), 260u);
  EXPECT_EQ(checked_align(UINT64_MAX - 3, 4, "n"), UINT64_MAX - 3);
}

TEST(CheckedAlign, A17_OverflowNamesTheQuantityAndTheRemedy) {
  expect_error(error_of([] { checked_align(UINT64_MAX, 4, "upload size"); }), ErrorCode::out_of_range,
               {"upload size", "18446744073709551615", "64 bits", "split the work"});
  expect_error(error_of([] { checked_align(8, 0, "upload size"); }), ErrorCode::invalid_argument, {"alignment 0"});
}

TEST(Checked, SumsAndProducts) {
  EXPECT_EQ(checked_add(UINT64_MAX - 1, 1, "n"), UINT64_MAX);
  expect_error(error_of([] { checked_add(UINT64_MAX, 1, "offset + size"); }), ErrorCode::out_of_range,
               {"offset + size", "18446744073709551615 + 1"});
  EXPECT_EQ(checked_mul(UINT64_MAX, 1, "n"), UINT64_MAX);
  EXPECT_EQ(checked_mul(UINT64_MAX, 0, "n"), 0u);
  expect_error(error_of([] { checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32, "rows * columns"); }),
               ErrorCode::out_of_range, {"rows * columns"});
  EXPECT_EQ(ceil_div(0, 64), 0u);
  EXPECT_EQ(ceil_div(1, 64), 1u);
  EXPECT_EQ(ceil_div(UINT64_MAX, 2), std::uint64_t{1} << 63);
}

// A50, A51: the text ends in the remedy; the numbers never change.
TEST(Error, A50_Text) {
  const Error e(ErrorCode::invalid_argument, "the grid has 0 groups.", "use 1 or more.");
  EXPECT_STREQ(e.what(), "the grid has 0 groups. Fix: use 1 or more.");
  EXPECT_EQ(e.message(), "the grid has 0 groups");
  EXPECT_EQ(e.fix(), "use 1 or more");
  const Error listing(ErrorCode::compile_error, "k:1:2: bad\n    x\n    ^\n", "correct it");
  EXPECT_NE(std::string(listing.what()).find("^\nFix: correct it."), std::string::npos);
}

// What callers name things ends no text early.
TEST(Error, A50_ZeroBytesAreShown) {
  const Error e(ErrorCode::invalid_argument, std::string("no adapter '\0a\0'", 16), std::string("remove \0", 8));
  EXPECT_STREQ(e.what(), "no adapter '\\0a\\0'. Fix: remove \\0.");
  EXPECT_EQ(e.message(), "no adapter '\\0a\\0'");
}

TEST(Error, A51_StableNumbers) {
  const std::pair<ErrorCode, int> codes[] = {
      {ErrorCode::out_of_memory, 1001}, {ErrorCode::unsupported, 1002},      {ErrorCode::compile_error, 1004},
      {ErrorCode::internal, 1005},      {ErrorCode::invalid_argument, 1006}, {ErrorCode::device_lost, 1008},
      {ErrorCode::timed_out, 1009},     {ErrorCode::out_of_range, 1010},     {ErrorCode::foreign_buffer, 1011},
      {ErrorCode::io_error, 1012},
  };
  std::vector<std::string_view> names;
  for (const auto& [code, number] : codes) {
    EXPECT_EQ(static_cast<int>(code), number);
    names.push_back(to_string(code));
    EXPECT_NE(names.back(), "unknown");
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(to_string(static_cast<ErrorCode>(7)), "unknown");
}

TEST(Error, CopyKeepsTheText) {
  const Error copy = [] {
    const Error original(ErrorCode::io_error, "a", "b");
    return Error(original);
  }();
  EXPECT_STREQ(copy.what(), "a. Fix: b.");
}

// Every f16 goes to f32 and back unchanged; halves between two go to the even one (IEEE 754, round to nearest even).
TEST(Float16, RoundTripOfAll) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    float16 h;
    h.bits = static_cast<std::uint16_t>(bits);
    const auto f = static_cast<float>(h);
    if (std::isnan(f)) {
      EXPECT_TRUE((float16(f).bits & 0x7fff) > 0x7c00) << bits;
    } else {
      ASSERT_EQ(float16(f).bits, bits);
    }
  }
}

TEST(Float16, Rounding) {
  EXPECT_EQ(float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(float16(1.0f + 0x1p-11f).bits, 0x3c00);  // half way: to even
  EXPECT_EQ(float16(1.0f + 0x1p-10f + 0x1p-11f).bits, 0x3c02);
  EXPECT_EQ(float16(1.0f + 0x1.004p-11f).bits, 0x3c01);
  EXPECT_EQ(float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65519.99f).bits, 0x7bff);
  EXPECT_EQ(float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(float16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_EQ(float16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(float16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(float16(0x1.8p-25f).bits, 0x0001);
  EXPECT_EQ(float16(-0.0f).bits, 0x8000);
}

// numpy.float16 of a double rounds once. Each midpoint of two neighbours,
// and what lies a hair to both sides of it, which a float can't hold.
TEST(Float16, OfADoubleIsRoundedOnce) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    float16 low, high;
    low.bits = static_cast<std::uint16_t>(bits);
    high.bits = static_cast<std::uint16_t>(bits + 1);
    const double middle = (static_cast<double>(static_cast<float>(low)) + static_cast<float>(high)) / 2;
    const float16 even = bits % 2 == 0 ? low : high;
    for (const double sign : {1.0, -1.0}) {
      const unsigned minus = sign < 0 ? 0x8000u : 0;
      ASSERT_EQ(nearest_half(sign * middle).bits, even.bits | minus) << bits;
      ASSERT_EQ(nearest_half(sign * middle * (1 + 0x1p-45)).bits, high.bits | minus) << bits;
      ASSERT_EQ(nearest_half(sign * middle * (1 - 0x1p-45)).bits, low.bits | minus) << bits;
    }
  }
  EXPECT_EQ(nearest_half(65520.0 * (1 - 0x1p-45)).bits, 0x7bff);
  EXPECT_EQ(nearest_half(1e300).bits, 0x7c00);
  EXPECT_EQ(nearest_half(-1e-300).bits, 0x8000);
  EXPECT_EQ(nearest_half(0x1p-25 * (1 + 0x1p-45)).bits, 1);
}

TEST(DType, NamesRoundTrip) {
  for (DType t : {DType::bool_, DType::i32, DType::u32, DType::f16, DType::f32})
    EXPECT_EQ(parse_dtype(to_string(t)), t);
  EXPECT_EQ(parse_dtype("f4"), DType::f32);
  EXPECT_EQ(parse_dtype("float64"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(Shape, CountAndStrides) {
  EXPECT_EQ(element_count(Shape{}), 1);
  EXPECT_EQ(element_count(Shape{2, 3, 4}), 24);
  EXPECT_EQ(element_count(Shape{2, 0, INT64_MAX}), 0);
  expect_error(error_of([] { element_count(Shape{INT64_MAX, 2}); }), ErrorCode::out_of_range);
  expect_error(error_of([] { element_count(Shape{2, -1}); }), ErrorCode::out_of_range, {"negative"});
  EXPECT_EQ(contiguous_strides(Shape{2, 3, 4}), (Strides{12, 4, 1}));
}

TEST(Shape, Broadcast) {
  EXPECT_EQ(broadcast_shapes(Shape{2, 1, 3}, Shape{4, 1}), (Shape{2, 4, 3}));
  EXPECT_EQ(broadcast_shapes(Shape{1}, Shape{0}), (Shape{0}));
  expect_error(error_of([] { broadcast_shapes(Shape{2, 3}, Shape{4, 3}); }), ErrorCode::invalid_argument,
               {"(2, 3)", "(4, 3)"});
}

}  // namespace
}  // namespace weft::testing
