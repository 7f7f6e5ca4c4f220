// {fmt} prints Weft's types.
#include "weft/fmt.h"

#include <gtest/gtest.h>

#include "unit/test_device.h"

namespace weft::testing {
namespace {

// A13.
TEST(Fmt, Buffer) {
  const Buffer b = test_device().alloc(1000);
  EXPECT_EQ(fmt::format("{}", b), b.debug_string());
  EXPECT_EQ(fmt::format("{}", Buffer()), "Buffer(empty)");
  EXPECT_EQ(fmt::format("{:>14}", Buffer()), " Buffer(empty)");
}

// A7: always both numbers.
TEST(Fmt, BufferRef) {
  EXPECT_EQ(fmt::format("{}", BufferRef{3, 7}), "buffer 7 of device 3");
}

TEST(Fmt, Values) {
  EXPECT_EQ(fmt::format("{}", Usage::storage | Usage::copy_src), "storage|copy_src");
  EXPECT_EQ(fmt::format("{} {}", DType::f32, DType::bool_), "float32 bool");
  EXPECT_EQ(fmt::format("{:<7}|", DType::i32), "int32  |");
  EXPECT_EQ(fmt::format("{}", Shape{2, 3}), to_string(Shape{2, 3}));
  EXPECT_EQ(fmt::format("{}", Shape{}), to_string(Shape{}));
}

}  // namespace
}  // namespace weft::testing
