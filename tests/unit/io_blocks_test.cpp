// Array files read and written in blocks.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>
#include <vector>

#include "io/atomic_file.h"
#include "weft/error.h"
#include "weft/io.h"

namespace weft::io {
namespace {

namespace fs = std::filesystem;

class IoBlocks : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("weft-blocks-{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path path(const std::string& name) const { return folder_ / name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::vector<float> numbers(std::size_t n) {
    std::vector<float> out(n);
    std::iota(out.begin(), out.end(), 0.0f);
    return out;
  }
  std::string saved(const Shape& shape) const {
    const std::vector<float> values = numbers(static_cast<std::size_t>(element_count(shape)));
    save_npy(path("x.npy"), FileDType::f32, shape, std::as_bytes(std::span(values)));
    return path("x.npy").string();
  }
  static std::string message(const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  fs::path folder_;
};

TEST_F(IoBlocks, EveryAxisReadsItsElements) {
  const Shape shape{5, 4, 3};
  const ArrayFile file = ArrayFile::open(saved(shape));
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (std::int64_t begin = 0; begin <= shape[axis]; ++begin) {
      for (std::int64_t end = begin; end <= shape[axis]; ++end) {
        Shape block = shape;
        block[axis] = end - begin;
        std::vector<float> out(static_cast<std::size_t>(element_count(block)));
        file.read(axis, begin, end, std::as_writable_bytes(std::span(out)));
        std::size_t at = 0;
        for (std::int64_t i = 0; i < block[0]; ++i) {
          for (std::int64_t j = 0; j < block[1]; ++j) {
            for (std::int64_t k = 0; k < block[2]; ++k) {
              std::int64_t index[] = {i, j, k};
              index[axis] += begin;
              ASSERT_EQ(out[at++], static_cast<float>((index[0] * 4 + index[1]) * 3 + index[2]));
            }
          }
        }
      }
    }
  }
  std::vector<std::byte> wrong(7);
  EXPECT_NE(message([&] { file.read(0, 0, 1, wrong); }).find("exactly these elements"), std::string::npos);
  EXPECT_NE(message([&] { file.read(0, 3, 6, wrong); }).find("stay inside"), std::string::npos);
  EXPECT_NE(message([&] { file.read(3, 0, 1, wrong); }).find("stay inside"), std::string::npos);
}

TEST_F(IoBlocks, AnArrayWithoutAxesIsOneElement) {
  const ArrayFile file = ArrayFile::open(saved({}));
  float out = 7;
  file.read(0, 0, 1, std::as_writable_bytes(std::span(&out, 1)));
  EXPECT_EQ(out, 0);
}

TEST_F(IoBlocks, AFileThatIsCutShortIsRefusedNotAccessed) {
  const std::string name = saved({1000, 100});
  const ArrayFile file = ArrayFile::open(name);
  fs::resize_file(name, 200000);
  std::vector<float> out(10 * 100);
  file.read(0, 0, 10, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out[999], 999);
  EXPECT_NE(message([&] { file.read(0, 990, 1000, std::as_writable_bytes(std::span(out))); }).find("became shorter"),
            std::string::npos);
}

TEST_F(IoBlocks, AFileThatIsReplacedIsReadAsItWas) {
  const std::string name = saved({10, 10});
  const ArrayFile file = ArrayFile::open(name);
  const std::vector<float> zeros(5);
  save_npy(name, FileDType::f32, {5}, std::as_bytes(std::span(zeros)));
  std::vector<float> out(10);
  file.read(0, 9, 10, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out[9], 99);
}

TEST_F(IoBlocks, WrittenInBlocksIsAsSavedWhole) {
  const Shape shape{6, 5, 4};
  const std::vector<float> values = numbers(120);
  save_npy(path("whole.npy"), FileDType::f32, shape, std::as_bytes(std::span(values)));
  std::ifstream whole(path("whole.npy"), std::ios::binary);
  const std::string want{std::istreambuf_iterator<char>(whole), {}};
  const ArrayFile file = ArrayFile::open(path("whole.npy").string());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (bool backwards : {false, true}) {
      NpyWriter writer(path("out.npy"), FileDType::f32, shape);
      for (std::int64_t i = 0; i < shape[axis]; ++i) {
        const std::int64_t at = backwards ? shape[axis] - 1 - i : i;
        std::vector<float> block(static_cast<std::size_t>(120 / shape[axis]));
        file.read(axis, at, at + 1, std::as_writable_bytes(std::span(block)));
        writer.write(axis, at, at + 1, std::as_bytes(std::span(block)));
        EXPECT_FALSE(fs::exists(path("out.npy")));
      }
      writer.finish();
      std::ifstream in(path("out.npy"), std::ios::binary);
      const std::string got{std::istreambuf_iterator<char>(in), {}};
      EXPECT_EQ(got, want);
      fs::remove(path("out.npy"));
      EXPECT_EQ(files(), 1u);
    }
  }
}

TEST_F(IoBlocks, NothingIsLeftOfWhatWasNotFinished) {
  const std::vector<float> row(10, 1.0f);
  const auto bytes = std::as_bytes(std::span(row));
  {
    NpyWriter writer(path("out.npy"), FileDType::f32, {3, 10});
    EXPECT_EQ(files(), writer.temporary().empty() ? 0u : 1u);
    writer.write(0, 0, 1, bytes);
    EXPECT_NE(message([&] { writer.finish(); }).find("80 bytes of shape (3, 10) are not written"), std::string::npos);
    EXPECT_NE(message([&] { writer.write(0, 2, 4, bytes); }).find("stay inside"), std::string::npos);
    EXPECT_NE(message([&] { writer.write(0, 1, 3, bytes); }).find("write each element once"), std::string::npos);
  }
  EXPECT_EQ(files(), 0u);
  // What was there stays.
  saved({4});
  {
    NpyWriter writer(path("x.npy"), FileDType::f32, {3, 10});
  }
  EXPECT_EQ(load_npy(path("x.npy")).shape, Shape({4}));
  EXPECT_EQ(files(), 1u);
}

TEST_F(IoBlocks, ForeignBytesAreMadeRightInBlocksAsInTheWhole) {
  // Past the step in which blocks are worked, and not a multiple of it.
  constexpr std::int64_t kCount = 300'001;
  for (const std::string type : {">f4", ">f8", ">u2", "|b1", "<f4"}) {
    const auto size = static_cast<std::size_t>(type[2] - '0');
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", type, kCount);
    header += std::string(63 - (10 + header.size()) % 64, ' ') + "\n";
    std::string data(kCount * size, '\0');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 37 % 251 % (size == 1 ? 3 : 251));
    std::ofstream(path("x.npy"), std::ios::binary)
        << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() & 0xff)
        << static_cast<char>(header.size() >> 8) << header << data;
    const HostArray whole = load_npy(path("x.npy"));
    const ArrayFile file = ArrayFile::open(path("x.npy").string());
    std::vector<std::byte> blocks(whole.bytes.size());
    for (std::int64_t begin : {std::int64_t{0}, kCount / 3}) {
      const std::int64_t end = begin == 0 ? kCount / 3 : kCount;
      file.read(0, begin, end,
                std::span(blocks).subspan(static_cast<std::size_t>(begin) * size,
                                          static_cast<std::size_t>(end - begin) * size));
    }
    EXPECT_EQ(std::memcmp(blocks.data(), whole.bytes.data(), blocks.size()), 0) << type;
    EXPECT_EQ(type != "<f4", std::memcmp(blocks.data(), data.data(), blocks.size()) != 0) << type;
  }
}

TEST_F(IoBlocks, AFileHasNoNameBeforeItIsWhole) {
#ifdef O_TMPFILE
  const int can = ::open(folder_.c_str(), O_WRONLY | O_TMPFILE, 0600);
#else
  const int can = -1;
#endif
  if (can >= 0) ::close(can);
  const std::string text = "what is written";
  const auto bytes = std::as_bytes(std::span<const char>(text));
  for (const auto how : {AtomicFile::Temporary::unnamed_if_possible, AtomicFile::Temporary::named}) {
    const bool named = how == AtomicFile::Temporary::named || can < 0;
    for (const std::string before : {"", "as it was"}) {
      fs::remove(path("out"));
      if (!before.empty()) std::ofstream(path("out")) << before;
      const std::size_t others = before.empty() ? 0 : 1;
      const auto content = [&] {
        std::ifstream in(path("out"), std::ios::binary);
        return std::string{std::istreambuf_iterator<char>(in), {}};
      };
      {
        AtomicFile file(path("out"), how);
        file.write(0, bytes);
        EXPECT_EQ(file.temporary().empty(), !named);
        EXPECT_EQ(files(), others + (named ? 1 : 0));
        EXPECT_EQ(content(), before);
      }
      EXPECT_EQ(files(), others);
      AtomicFile file(path("out"), how);
      file.write(0, bytes);
      file.finish();
      EXPECT_EQ(content(), text);
      EXPECT_EQ(files(), 1u);
    }
  }
}

TEST_F(IoBlocks, ANameThatIsTooLongIsRefusedAtOnce) {
  EXPECT_NE(message([&] { NpyWriter writer(path(std::string(300, 'n')), FileDType::f32, {2}); }).find("too long"),
            std::string::npos);
  EXPECT_EQ(files(), 0u);
}

TEST_F(IoBlocks, ADiskThatIsTooSmallIsKnownBeforeTheFirstBlock) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string why = message([&] { NpyWriter writer(path("out.npy"), FileDType::f32, {1000, 1000}); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(why.find("cannot write 4000128 bytes"), std::string::npos) << why;
  EXPECT_EQ(files(), 0u);
}

TEST_F(IoBlocks, APipeTakesBlocksInOrderOnly) {
  const std::vector<float> half(2, 1.0f);
  const auto bytes = std::as_bytes(std::span(half));
  NpyWriter rows("/dev/null", FileDType::f32, {2, 2});
  EXPECT_TRUE(rows.temporary().empty());
  rows.write(0, 0, 1, bytes);
  rows.write(0, 1, 2, bytes);
  rows.finish();
  NpyWriter columns("/dev/null", FileDType::f32, {2, 2});
  EXPECT_NE(message([&] { columns.write(1, 0, 1, bytes); }).find("no file in which one can go back"),
            std::string::npos);
}

TEST_F(IoBlocks, ConversionsCountOverAllBlocks) {
  std::vector<double> values(100, 1.0);
  values[5] = values[95] = 1e300;
  save_npy(path("d.npy"), FileDType::f64, {10, 10}, std::as_bytes(std::span(values)));
  ComputableFile file(ArrayFile::open(path("d.npy").string()), "d.npy", true);
  EXPECT_EQ(file.dtype(), DType::f32);
  std::vector<float> out(10);
  for (std::int64_t i = 0; i < 10; ++i) file.read(0, i, i + 1, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(file.note(), "float64 read as float32 (2 values overflowed to inf)");
  EXPECT_NE(message([&] {
              ComputableFile(ArrayFile::open(path("d.npy").string()), "d.npy", false);
            }).find("--allow-downcast"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::io
