// Expressions evaluated in blocks (issue 8, point 4): the values of all at once, whichever kernels a device's class
// takes; errors of reading, computing and writing come out, and end all threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "dispatch/state.h"
#include "unit/kernel_class_test.h"
#include "weft/error.h"
#include "weft/expr.h"

namespace weft {
namespace {

using testing::test_device;

std::vector<float> normal(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw;
  std::vector<float> out(n);
  for (float& v : out) v = draw(engine);
  return out;
}

/// Rows of an array in memory.
BlockSource source(const std::vector<float>& values, const Shape& shape) {
  return {TensorType{shape, DType::f32, {}}, false,
          [&values, shape](std::size_t axis, std::int64_t begin, std::int64_t end, std::span<std::byte> out) {
            std::size_t before = 1, behind = sizeof(float);
            for (std::size_t i = 0; i < shape.rank(); ++i) {
              (i < axis ? before : behind) *= i == axis ? 1 : static_cast<std::size_t>(shape[i]);
            }
            const std::size_t piece = static_cast<std::size_t>(end - begin) * behind;
            const std::size_t step = static_cast<std::size_t>(shape[axis]) * behind;
            ASSERT_EQ(out.size(), before * piece);
            const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
            for (std::size_t i = 0; i < before; ++i) {
              std::memcpy(&out[i * piece], bytes + i * step + static_cast<std::size_t>(begin) * behind, piece);
            }
          }};
}

class StreamTest : public testing::KernelClassTest {
 protected:
  static constexpr std::int64_t kRows = 300, kColumns = 1100;
  std::vector<float> x_ = normal(kRows * kColumns, 1);
  std::vector<float> v_ = normal(kColumns, 2);

  Expression::Sources sources() const {
    return {{"x", source(x_, {kRows, kColumns})}, {"v", test_device().upload<float>(v_, {kColumns})}};
  }
  std::vector<float> at_once(const std::string& text) const {
    const Tensor x = test_device().upload<float>(x_, {kRows, kColumns});
    const Tensor v = test_device().upload<float>(v_, {kColumns});
    return Expression::parse(text).evaluate(test_device(), {{"x", x}, {"v", v}}).to_host<float>();
  }
  std::vector<float> in_blocks(const std::string& text, std::uint64_t block_bytes) const {
    std::vector<float> out;
    std::int64_t next = 0;
    const auto sink = [&](std::size_t axis, std::int64_t begin, std::int64_t end, std::span<const std::byte> bytes) {
      EXPECT_EQ(axis, 0u);
      EXPECT_EQ(begin, next);
      next = end;
      const std::size_t at = out.size();
      out.resize(at + bytes.size() / sizeof(float));
      std::memcpy(&out[at], bytes.data(), bytes.size());
    };
    const auto whole =
        Expression::parse(text).stream(test_device(), sources(), sink, {.memory = 1 << 30, .block_bytes = block_bytes});
    return whole ? whole->to_host<float>() : out;
  }
};

TEST_P(StreamTest, RowsHaveTheBitsOfAllAtOnce) {
  for (const char* text : {"x * 2 + v", "softmax(x + v)", "layer_norm(x, v, v)", "sum(x + v, 1)", "var(x + v, 1)",
                           "logsumexp(x * v, 1)", "cumsum(x + v, 1)", "log_softmax(x * v)"}) {
    const std::vector<float> whole = at_once(text);
    // One row a block, a few, many; each of them as uneven as it comes.
    for (std::uint64_t rows : {1, 7, 130}) {
      const std::vector<float> blocks = in_blocks(text, rows * kColumns * 4);
      ASSERT_EQ(blocks.size(), whole.size()) << text;
      EXPECT_EQ(std::memcmp(blocks.data(), whole.data(), whole.size() * 4), 0)
          << text << ", " << rows << " rows a block";
    }
  }
}

TEST_P(StreamTest, ReductionsOverBlocksHaveTheValue) {
  for (const char* text : {"sum(x + v, 0)", "mean(x * v)", "var(x + v)", "norm(x - v, 2, 0)", "logsumexp(x + v, 0)",
                           "x.T @ (x * v)", "x - v - mean(x, 0)", "std(x + 1000 * v, 0)"}) {
    const std::vector<float> whole = at_once(text);
    const std::vector<float> blocks = in_blocks(text, 11 * kColumns * 4);
    ASSERT_EQ(blocks.size(), whole.size()) << text;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      ASSERT_NEAR(blocks[i], whole[i], 2e-5 * (1 + std::fabs(whole[i])) + 2e-4 * (text[0] == 'x' ? 1 : 0))
          << text << " at " << i;
    }
    EXPECT_EQ(in_blocks(text, 11 * kColumns * 4), blocks) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Classes, StreamTest, testing::both_kernel_classes(), testing::kernel_class_name);

class StreamErrors : public ::testing::Test {
 protected:
  std::vector<float> x_ = normal(64 * 100, 3);
  std::atomic<int> reads_{0};
  StreamOptions options_{.memory = 1 << 20, .block_bytes = 400};

  Expression::Sources counting(int fail_at) {
    BlockSource x = source(x_, {64, 100});
    x.read = [this, fail_at, read = x.read](std::size_t axis, std::int64_t begin, std::int64_t end,
                                            std::span<std::byte> out) {
      if (++reads_ == fail_at) throw Error(ErrorCode::io_error, "the file went away", "look for it");
      read(axis, begin, end, out);
    };
    return {{"x", std::move(x)}};
  }
  static void ignore(std::size_t, std::int64_t, std::int64_t, std::span<const std::byte>) {}

  ErrorCode code_of(const std::string& text, const Expression::Sources& sources, const Expression::BlockSink& sink) {
    try {
      Expression::parse(text).stream(test_device(), sources, sink, options_);
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << text << " passed";
    return ErrorCode::internal;
  }
};

TEST_F(StreamErrors, OfReadingComeOutWhereverTheyHappen) {
  for (const char* text : {"x + 1", "sum(x)", "x - mean(x, 0)"}) {
    for (int at : {1, 2, 10, 22}) {
      reads_ = 0;
      EXPECT_EQ(code_of(text, counting(at), ignore), ErrorCode::io_error) << text;
    }
  }
}

TEST_F(StreamErrors, OfWritingComeOutAndEndTheReading) {
  for (int at : {1, 5, 22}) {
    int writes = 0;
    reads_ = 0;
    const auto sink = [&](std::size_t, std::int64_t, std::int64_t, std::span<const std::byte>) {
      if (++writes == at) throw Error(ErrorCode::io_error, "the disk is full", "make room");
    };
    EXPECT_EQ(code_of("x + 1", counting(-1), sink), ErrorCode::io_error);
    EXPECT_LE(reads_, at + 10);
    EXPECT_EQ(writes, at);
  }
}

TEST_F(StreamErrors, OfComputingHaveTheirPlace) {
  try {
    Expression::parse("x[:, idx]", "eval")
        .stream(
            test_device(),
            [&] {
              Expression::Sources sources = counting(-1);
              const std::vector<std::int32_t> idx{1, 100};
              sources.emplace("idx", test_device().upload<std::int32_t>(idx, {2}));
              return sources;
            }(),
            ignore, options_);
    FAIL() << "an index past the end passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
    EXPECT_NE(std::string(error.what()).find("x[:, idx]"), std::string::npos) << error.what();
  }
}

TEST_F(StreamErrors, RefusalsComeBeforeAnythingIsRead) {
  EXPECT_EQ(code_of("cumsum(x, 0) + cumsum(x, 1)", counting(1), ignore), ErrorCode::unsupported);
  options_.memory = 100;
  EXPECT_EQ(code_of("x + 1", counting(1), ignore), ErrorCode::unsupported);
  EXPECT_EQ(reads_, 0);
}

TEST_F(StreamErrors, AfterThemAllIsAsBefore) {
  EXPECT_EQ(code_of("x + 1", counting(15), ignore), ErrorCode::io_error);
  reads_ = 0;
  std::size_t bytes = 0;
  std::atomic<std::uint64_t> advanced{0};
  options_.advance = [&](std::uint64_t n) { advanced += n; };
  Expression::parse("x + 1").stream(
      test_device(), counting(-1),
      [&](std::size_t, std::int64_t, std::int64_t, std::span<const std::byte> block) { bytes += block.size(); },
      options_);
  EXPECT_EQ(bytes, x_.size() * 4);
  EXPECT_EQ(advanced, 2 * bytes);
}

/// The device runs out of memory while blocks are under way: an error, and afterwards all is as before.
TEST_F(StreamErrors, OutOfMemoryInTheMiddleComesOut) {
  webgpu::Gpu& gpu = test_device().state()->gpu;
  for (const char* text : {"x + 1", "sum(x, 0)", "softmax(x)"}) {
    for (int at : {1, 2, 20}) {
      Expression::Sources sources = counting(-1);
      BlockSource& x = std::get<BlockSource>(sources.at("x"));
      Device(test_device()).trim();  // so that there is something to make
      x.read = [&, at, read = x.read](std::size_t axis, std::int64_t begin, std::int64_t end,
                                      std::span<std::byte> out) {
        read(axis, begin, end, out);
        if (reads_ == at) {
          Device(test_device()).trim();
          gpu.fail_creations(1'000'000);
        }
      };
      reads_ = 0;
      const ErrorCode code = code_of(text, sources, ignore);
      gpu.fail_creations(0);
      EXPECT_EQ(code, ErrorCode::out_of_memory) << text << " at " << at;
    }
    std::vector<float> got;
    const auto keep = [&](std::size_t, std::int64_t, std::int64_t, std::span<const std::byte> block) {
      const std::size_t before = got.size();
      got.resize(before + block.size() / sizeof(float));
      std::memcpy(&got[before], block.data(), block.size());
    };
    const auto whole = Expression::parse(text).stream(test_device(), counting(-1), keep, options_);
    const Tensor x = test_device().upload<float>(x_, {64, 100});
    const Tensor expected = Expression::parse(text).evaluate(test_device(), {{"x", x}});
    if (whole) got = whole->to_host<float>();
    const std::vector<float> want = expected.to_host<float>();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << text << " at " << i;
  }
}

/// Waits until `done`, and says whether that came.
bool comes(const std::function<bool()>& done) {
  for (int i = 0; i < 20'000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return done();
}

TEST_F(StreamErrors, NoStageWaitsForOneThatItNeedNot) {
  // While the first block is being written, others are read, sent, computed; their number is bounded.
  std::atomic<int> writes{0};
  std::atomic<int> read_meanwhile{0};
  Expression::parse("x + 1").stream(
      test_device(), counting(-1),
      [&](std::size_t, std::int64_t, std::int64_t, std::span<const std::byte>) {
        if (writes++ != 0) return;
        EXPECT_TRUE(comes([&] { return reads_ >= 6; })) << reads_ << " blocks were read";
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        read_meanwhile = reads_.load();
      },
      options_);
  EXPECT_EQ(writes, 22);
  EXPECT_LE(read_meanwhile, 9);

  // While the fourth block is being read, all before it get as far as the file.
  writes = 0;
  reads_ = 0;
  Expression::Sources sources = counting(-1);
  BlockSource& x = std::get<BlockSource>(sources.at("x"));
  x.read = [&, read = x.read](std::size_t axis, std::int64_t begin, std::int64_t end, std::span<std::byte> out) {
    read(axis, begin, end, out);
    if (reads_ != 4) return;
    EXPECT_TRUE(comes([&] { return writes == 3; })) << writes << " blocks were written";
  };
  Expression::parse("x + 1").stream(
      test_device(), sources, [&](std::size_t, std::int64_t, std::int64_t, std::span<const std::byte>) { ++writes; },
      options_);
  EXPECT_EQ(writes, 22);
}

TEST(Stream, TakesNoMoreMemoryThanPlanned) {
  Device device = test_device();
  const std::vector<float> x = normal(4096 * 256, 4);
  const StreamOptions options{.memory = 1 << 20, .block_bytes = 1 << 18};
  for (const char* text : {"x * 2", "softmax(x)", "(x - mean(x, 0)) / std(x, 0)", "logsumexp(x)"}) {
    const Expression expression = Expression::parse(text);
    const Expression::Sources sources{{"x", source(x, {4096, 256})}};
    const StreamPlan plan = expression.plan_stream(device, sources, options);
    ASSERT_FALSE(plan.refusal);
    EXPECT_LE(plan.bytes, options.memory);
    const Expression::Types types{{"x", TensorType{{4096, 256}, DType::f32, ""}}};
    EXPECT_GT(expression.memory_need(types).bytes, std::uint64_t{4096} * 256 * 4);
    device.synchronize();
    device.trim();
    std::uint64_t most = 0;
    const std::uint64_t before = device.memory().live_bytes + device.memory().retained_bytes;
    const auto measure = [&](std::uint64_t) {
      const MemoryReport now = device.memory();
      most = std::max(most, now.live_bytes + now.retained_bytes - before);
    };
    StreamOptions measured = options;
    std::mutex mutex;
    measured.advance = [&](std::uint64_t n) {
      const std::lock_guard lock(mutex);
      measure(n);
    };
    expression.stream(device, sources, [](auto...) {}, measured);
    // Size classes are up to a quarter over, and blocks of two sizes may meet.
    EXPECT_LE(most, options.memory + options.memory / 2) << text;
  }
}

TEST(Stream, BudgetsFollowTheWish) {
  EXPECT_EQ(memory_budget(test_device(), 12345).bytes, 12345u);
  EXPECT_EQ(memory_budget(test_device(), 12345).limit, 12345u);
  EXPECT_GT(memory_budget(test_device()).bytes, 0u);
}

}  // namespace
}  // namespace weft
