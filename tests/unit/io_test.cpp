// Files made in the test; tests/unit/io_numpy_test.py compares with numpy itself.
#include "weft/io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <type_traits>

#include "io/decimal.h"
#include "weft/error.h"

namespace weft::io {
namespace {

namespace fs = std::filesystem;

#define EXPECT_VALUES(vector, ...) EXPECT_EQ(vector, (std::decay_t<decltype(vector)>{__VA_ARGS__}))
#define EXPECT_CONTAINS(text, part) EXPECT_PRED_FORMAT2(testing::IsSubstring, std::string(part), text)
#define EXPECT_LACKS(text, part) EXPECT_PRED_FORMAT2(testing::IsNotSubstring, std::string(part), text)

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string out(values.size() * sizeof(T), '\0');
  std::memcpy(out.data(), std::data(values), out.size());
  return out;
}

template <class T>
std::vector<T> values_of(const HostArray& array) {
  std::vector<T> out(array.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), array.bytes.data(), array.bytes.size());
  return out;
}

std::string with_header(const std::string& header, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  const auto length = static_cast<std::uint32_t>(header.size());
  out.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return out + header + data;
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                const std::string& order = "False", int version = 1) {
  return with_header("{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }   \n", data,
                     version);
}

HostArray parse(const std::string& file) {
  return parse_npy(as_bytes(file), "x.npy");
}

/// The error of a call that must fail.
template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return {ErrorCode::internal, "none", "none"};
}

void expect_refused(const std::string& file, ErrorCode code, const std::string& text) {
  const Error e = error_of([&] { parse(file); });
  EXPECT_EQ(e.code(), code) << e.what();
  EXPECT_CONTAINS(e.message(), "x.npy") << e.what();
  EXPECT_CONTAINS(e.message(), text) << e.what();
  EXPECT_FALSE(e.fix().empty());
}

class IoFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "weft-io-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string put(const std::string& name, const std::string& content) {
    const fs::path path = directory_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  static std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(directory_)) out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  fs::path directory_;
};

// ---- .npy: what is read

TEST(ParseNpy, ReadsEveryElementType) {
  struct Entry {
    const char* descr;
    FileDType dtype;
  };
  for (const auto& [descr, dtype] : std::initializer_list<Entry>{{"|b1", FileDType::bool_},
                                                                 {"?", FileDType::bool_},
                                                                 {"|i1", FileDType::i8},
                                                                 {"<i1", FileDType::i8},
                                                                 {"|u1", FileDType::u8},
                                                                 {"<u1", FileDType::u8},
                                                                 {"<i2", FileDType::i16},
                                                                 {"<u2", FileDType::u16},
                                                                 {"<i4", FileDType::i32},
                                                                 {"<u4", FileDType::u32},
                                                                 {"<i8", FileDType::i64},
                                                                 {"<u8", FileDType::u64},
                                                                 {"<f2", FileDType::f16},
                                                                 {"<f4", FileDType::f32},
                                                                 {"=f4", FileDType::f32},
                                                                 {"f4", FileDType::f32},
                                                                 {"<f8", FileDType::f64},
                                                                 {"<c8", FileDType::c64},
                                                                 {"<c16", FileDType::c128}}) {
    const std::string data(2 * size_of(dtype), '\1');
    const HostArray a = parse(npy(descr, "(2,)", data));
    EXPECT_EQ(a.dtype, dtype) << descr;
    EXPECT_EQ(a.shape, (Shape{2})) << descr;
    EXPECT_EQ(as_text(a.bytes), data) << descr;
  }
}

TEST(ParseNpy, SwapsBigEndianElementsAndHalvesOfComplex) {
  EXPECT_VALUES((values_of<float>(parse(npy(">f4", "(2,)", std::string("\x3f\x80\0\0\xc0\0\0\0", 8))))), 1, -2);
  EXPECT_VALUES((values_of<std::uint16_t>(parse(npy(">u2", "(2,)", "\x01\x02\x03\x04")))), 0x102, 0x304);
  EXPECT_VALUES((values_of<std::int64_t>(parse(npy(">i8", "()", std::string("\0\0\0\0\0\0\1\2", 8))))), 0x102);
  EXPECT_VALUES((values_of<float>(parse(npy(">c8", "()", std::string("\x3f\x80\0\0\xc0\0\0\0", 8))))), 1, -2);
  EXPECT_VALUES((values_of<std::uint8_t>(parse(npy(">u1", "(2,)", "\x05\x06")))), 5, 6);
}

TEST(ParseNpy, FortranOrderIsATransposedView) {
  const HostArray a = parse(npy("|u1", "(2, 3)", "abcdef", "True"));
  EXPECT_EQ(a.shape, (Shape{2, 3}));
  EXPECT_EQ(a.strides, (Strides{1, 2}));
  EXPECT_EQ(as_text(a.bytes), "abcdef");
  EXPECT_EQ(parse(npy("|u1", "(3,)", "abc", "True")).strides, (Strides{1}));
  EXPECT_EQ(parse(npy("|u1", "()", "a", "True")).strides.rank(), 0u);
}

TEST(ParseNpy, ReadsVersions2And3AndLongHeaders) {  // F04
  EXPECT_EQ(values_of<float>(parse(npy("<f4", "(1,)", raw({7.0f}), "False", 2)))[0], 7.0f);
  EXPECT_EQ(values_of<float>(parse(npy("<f4", "(1,)", raw({7.0f}), "False", 3)))[0], 7.0f);
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  for (std::size_t length : {1024u, 65535u}) {
    const std::string header = dict + std::string(length - dict.size() - 1, ' ') + "\n";
    EXPECT_EQ(values_of<float>(parse(with_header(header, raw({7.0f}))))[0], 7.0f);
  }
  const std::string longer = dict + std::string(100'000, ' ') + "\n";
  EXPECT_EQ(values_of<float>(parse(with_header(longer, raw({7.0f}), 2)))[0], 7.0f);
}

TEST(ParseNpy, TakesAnyKeyOrderSpacesAndQuotes) {
  for (const char* header : {"{'shape':(2,),'fortran_order':False,'descr':'|u1'}\n",
                             "  { \"descr\" : \"|u1\" , \"shape\" : ( 2 , ) , \"fortran_order\" : False , } \n",
                             "{'descr': '|u1',\n 'fortran_order': False,\n 'shape': (2,)}\n\n"}) {
    EXPECT_EQ(as_text(parse(with_header(header, "ab")).bytes), "ab") << header;
  }
}

TEST(ParseNpy, ZeroDimensionalEmptyAndTrailingBytes) {  // F03, F15
  const HostArray scalar = parse(npy("<f4", "()", raw({4.5f})));
  EXPECT_EQ(scalar.shape.rank(), 0u);
  EXPECT_VALUES((values_of<float>(scalar)), 4.5f);
  const HostArray empty = parse(npy("<f4", "(0, 3)", ""));
  EXPECT_EQ(empty.shape, (Shape{0, 3}));
  EXPECT_TRUE(empty.bytes.empty());
  EXPECT_EQ(as_text(parse(npy("|u1", "(2,)", "abSURPLUS")).bytes), "ab");
}

TEST(ParseNpy, BoolsBecome0And1) {
  EXPECT_VALUES((values_of<std::uint8_t>(parse(npy("|b1", "(4,)", std::string("\0\1\2\xff", 4))))), 0, 1, 1, 1);
}

TEST(ParseNpy, OwnsItsData) {
  std::string file = npy("|u1", "(3,)", "abc");
  const HostArray a = parse(file);
  std::fill(file.begin(), file.end(), 'z');
  EXPECT_EQ(as_text(a.bytes), "abc");
}

// ---- .npy: what is refused

TEST(ParseNpy, RefusesCutFiles) {  // F06, F09
  const std::string good = npy("<f4", "(2,)", raw({1.0f, 2.0f}));
  for (std::size_t n = 0; n < good.size(); ++n) {
    expect_refused(good.substr(0, n), ErrorCode::io_error,
                   n == 0  ? "empty file"
                   : n < 6 ? "not a .npy file"
                           : "truncated");
  }
  expect_refused(std::string("\x93NUMPY\x02\0\xf0\xff\xff\xff", 12), ErrorCode::io_error, "4294967280");
  expect_refused(std::string("\x93NUMPY\x01\0\xff\xff{'descr'", 18), ErrorCode::io_error, "65535");
}

TEST(ParseNpy, TellsHowMuchDataIsMissing) {  // F14
  expect_refused(npy("|u1", "(3000000000,)", std::string(16, '\0')), ErrorCode::io_error,
                 "truncated: need 3000000000 bytes, have 16");
}

TEST(ParseNpy, RefusesUnknownVersions) {
  for (int version : {0, 4, 255}) {
    expect_refused(npy("<f4", "()", raw({1.0f}), "False", version), ErrorCode::io_error, "version");
  }
  std::string minor = npy("<f4", "()", raw({1.0f}));
  minor[7] = 1;
  expect_refused(minor, ErrorCode::io_error, "version 1.1");
}

TEST(ParseNpy, RefusesOtherShapes) {  // F13
  for (const char* shape : {"(np.int64(2), np.int64(3))",
                            "10",
                            "(3)",
                            "(2.0, 3)",
                            "(2L, 3L)",
                            "[2, 3]",
                            "(-1,)",
                            "(2, -3)",
                            "(,)",
                            "(2 3)",
                            "(2,,3)",
                            "(02,)",
                            "(1_0,)",
                            "(0x2,)",
                            "(+2,)",
                            "(True,)",
                            "None",
                            "(2,",
                            "'2'",
                            "(99999999999999999999,)",
                            "((2,),)",
                            "(2e0,)",
                            "(--2,)",
                            "(-,)"}) {
    const std::string file = npy("|u1", shape, std::string(64, '\0'));
    expect_refused(file, ErrorCode::io_error, "shape");
    // The header is shown.
    EXPECT_CONTAINS(error_of([&] { parse(file); }).message(), shape);
  }
}

TEST(ParseNpy, RefusesSizesThatOverflow) {
  expect_refused(npy("|u1", "(4294967296, 4294967296)", ""), ErrorCode::io_error, "too big");
  expect_refused(npy("<f4", "(4611686018427387904,)", ""), ErrorCode::io_error, "too big");
  expect_refused(npy("<f8", "(9223372036854775807,)", ""), ErrorCode::io_error, "too big");
  expect_refused(npy("<f4", "(0, 9223372036854775807, 9223372036854775807)", ""), ErrorCode::io_error, "too big");
}

TEST(ParseNpy, RefusesBadDictionaries) {
  const auto refuse = [](const std::string& header, const std::string& text) {
    expect_refused(with_header(header, std::string(64, '\0')), ErrorCode::io_error, text);
  };
  refuse("", "'{' expected");
  refuse("\n", "'{' expected");
  refuse("{}\n", "missing");
  refuse("{'descr': '<f4', 'fortran_order': False}\n", "'shape' is missing");
  refuse("{'descr': '<f4', 'shape': (2,)}\n", "'fortran_order' is missing");
  refuse("{'fortran_order': False, 'shape': (2,)}\n", "'descr' is missing");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'extra': 1}\n", "unknown key 'extra'");
  refuse("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\n", "twice");
  refuse("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}\n", "fortran_order");
  refuse("{'descr': '<f4', 'fortran_order': false, 'shape': (2,)}\n", "fortran_order");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", "expected");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "newline");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x\n", "after the closing");
  refuse(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\0\n", 57), "after the closing");
  refuse("{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}\n", "expected");
  refuse("{,'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\n", "key");
  refuse("{'descr: <f4\n", "quote");
  refuse("{'descr': 4, 'fortran_order': False, 'shape': (2,)}\n", "descr is not a string");
  refuse("{'descr': '', 'fortran_order': False, 'shape': (2,)}\n", "not an element type");
  refuse("{'descr': '<f3', 'fortran_order': False, 'shape': (2,)}\n", "'<f3' is not an element type");
  refuse("{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2,)}\n", "escape");
}

TEST(ParseNpy, RefusesTypesThatWeftLacks) {
  for (const char* descr : {"|O", "O", "<U4", "|S3", "<M8[ns]", "<m8", "|V2", "<f16", "<c32"}) {
    expect_refused(npy(descr, "(1,)", std::string(64, '\0')), ErrorCode::unsupported, std::string("'") + descr + "'");
  }
  const auto structured = [](const char* header, const char* shown) {
    const Error e = error_of([&] { parse(with_header(header, std::string(64, '\0'))); });
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_EQ(e.message(), std::string("x.npy: structured dtype ") + shown);
  };
  structured("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,), }\n",
             "[('a', '<f4'), ('b', '<i4')]");
  structured("{'descr': [('a]', '<f4', (2,))], 'fortran_order': False, 'shape': (1,), }\n", "[('a]', '<f4', (2,))]");
  structured("{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,), }\n", "('<f4', (2,))");
  structured("{'descr': [('a', '<f4'\n", "[('a', '<f4'\\n");
}

TEST(ParseNpy, RefusesNineAxes) {
  EXPECT_EQ(parse(npy("|u1", "(1, 1, 1, 1, 1, 1, 1, 2)", "ab")).shape.rank(), 8u);
  expect_refused(npy("|u1", "(1, 1, 1, 1, 1, 1, 1, 1, 2)", "ab"), ErrorCode::unsupported, "9 axes");
}

TEST(ParseNpy, ShowsControlCharactersEscaped) {
  const Error e = error_of([] { parse(with_header("{'\x1b[31m': 1}\n", "")); });
  EXPECT_CONTAINS(e.message(), "\\x1b[31m");
  EXPECT_LACKS(e.message(), "\x1b");
}

// ---- files and specs

TEST_F(IoFiles, MapsWhereItCan) {
  const auto aligned = [](std::string shape, std::string data) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
    header.append(117 - header.size(), ' ');
    return with_header(header + "\n", data);
  };
  const HostArray mapped = load(put("a.npy", aligned("(2,)", raw({1.0f, 2.0f}))));
  EXPECT_TRUE(mapped.mapped);
  EXPECT_VALUES((values_of<float>(mapped)), 1, 2);
  // The data of this one start at an odd offset: they are copied, so that they can be used as floats.
  std::string odd = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\n";
  if (odd.size() % 2 == 0) odd.insert(odd.size() - 1, " ");
  const HostArray copied = load(put("b.npy", with_header(odd, raw({3.0f, 4.0f}))));
  EXPECT_FALSE(copied.mapped);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(copied.bytes.data()) % alignof(float), 0u);
  EXPECT_VALUES((values_of<float>(copied)), 3, 4);
  EXPECT_FALSE(load(put("c.npy", aligned("(0,)", ""))).mapped);
}

TEST_F(IoFiles, MappingOutlivesFileAndCopies) {
  const std::string path = put("a.npy", npy("|u1", "(3,)", "abc"));
  HostArray kept;
  {
    const HostArray first = load(path);
    kept = first;
  }
  fs::remove(path);
  EXPECT_EQ(as_text(kept.bytes), "abc");
}

TEST_F(IoFiles, FilesThatCannotBeRead) {
  const auto refuse = [](const std::string& spec, const std::string& text) {
    const Error e = error_of([&] { load(spec); });
    EXPECT_EQ(e.code(), ErrorCode::io_error);
    EXPECT_CONTAINS(e.message(), text);
  };
  refuse((directory_ / "none.npy").string(), "No such file");
  refuse((directory_ / "none.npz:a").string(), "none.npz:a: cannot open: No such file");
  refuse(directory_.string(), "Is a directory");
  refuse(put("empty.npy", ""), "empty file");
  refuse("", "not a file name");
  refuse(std::string("a\0b", 3), "not a file name");
  refuse("/dev/zero", "not a regular file");
  ASSERT_EQ(mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  refuse((directory_ / "pipe").string(), "not a regular file");
  refuse(put("a.npy", npy("|u1", "(3,)", "abc")) + ":a", "holds one array");
  refuse(put("text.npy", "hello, world"), "not a .npy file: it starts with \"hello,\"");
}

TEST_F(IoFiles, AnExistingFileWinsOverAColon) {
  put("a", npy("|u1", "(1,)", "x"));
  EXPECT_EQ(as_text(load(put("a:b", npy("|u1", "(1,)", "y"))).bytes), "y");
}

// ---- .npz

struct Member {
  std::string name;
  std::string content;
  int method = 0;
  std::uint16_t flags = 0;
  std::int64_t claimed = -1;  // a size to announce instead of the true one
  std::uint32_t crc_error = 0;
};

template <class T>
void add(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string deflated(const std::string& text) {
  z_stream s{};
  EXPECT_EQ(deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&s, text.size()), '\0');
  s.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  s.avail_in = static_cast<uInt>(text.size());
  s.next_out = reinterpret_cast<Bytef*>(out.data());
  s.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&s, Z_FINISH), Z_STREAM_END);
  out.resize(s.total_out);
  deflateEnd(&s);
  return out;
}

std::string zip(const std::vector<Member>& members, bool zip64 = false, int announced = -1) {
  std::string out;
  std::string directory;
  for (const Member& m : members) {
    const std::string data = m.method == 8 ? deflated(m.content) : m.content;
    const auto crc =
        static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(m.content.data()), m.content.size())) ^
        m.crc_error;
    const std::uint64_t size = m.claimed < 0 ? m.content.size() : static_cast<std::uint64_t>(m.claimed);
    const std::uint64_t offset = out.size();
    const bool streamed = (m.flags & 8) != 0;
    add<std::uint32_t>(out, 0x04034b50);
    add<std::uint16_t>(out, 20);
    add<std::uint16_t>(out, m.flags);
    add<std::uint16_t>(out, static_cast<std::uint16_t>(m.method));
    add<std::uint32_t>(out, 0);
    add<std::uint32_t>(out, streamed ? 0 : crc);
    add<std::uint32_t>(out, streamed ? 0 : static_cast<std::uint32_t>(data.size()));
    add<std::uint32_t>(out, streamed ? 0 : static_cast<std::uint32_t>(size));
    add<std::uint16_t>(out, static_cast<std::uint16_t>(m.name.size()));
    add<std::uint16_t>(out, 0);
    out += m.name + data;
    if (streamed) {
      add<std::uint32_t>(out, 0x08074b50);
      add<std::uint32_t>(out, crc);
      add<std::uint32_t>(out, static_cast<std::uint32_t>(data.size()));
      add<std::uint32_t>(out, static_cast<std::uint32_t>(size));
    }
    add<std::uint32_t>(directory, 0x02014b50);
    add<std::uint32_t>(directory, 0x00140014);
    add<std::uint16_t>(directory, m.flags);
    add<std::uint16_t>(directory, static_cast<std::uint16_t>(m.method));
    add<std::uint32_t>(directory, 0);
    add<std::uint32_t>(directory, crc);
    add<std::uint32_t>(directory, zip64 ? 0xffffffff : static_cast<std::uint32_t>(data.size()));
    add<std::uint32_t>(directory, zip64 ? 0xffffffff : static_cast<std::uint32_t>(size));
    add<std::uint16_t>(directory, static_cast<std::uint16_t>(m.name.size()));
    add<std::uint16_t>(directory, zip64 ? 28 : 0);
    add<std::uint16_t>(directory, 0);
    add<std::uint16_t>(directory, 0);
    add<std::uint16_t>(directory, 0);
    add<std::uint32_t>(directory, 0);
    add<std::uint32_t>(directory, zip64 ? 0xffffffff : static_cast<std::uint32_t>(offset));
    directory += m.name;
    if (zip64) {
      add<std::uint16_t>(directory, 1);
      add<std::uint16_t>(directory, 24);
      add<std::uint64_t>(directory, size);
      add<std::uint64_t>(directory, data.size());
      add<std::uint64_t>(directory, offset);
    }
  }
  const std::uint64_t begin = out.size();
  const std::uint64_t count = announced < 0 ? members.size() : static_cast<std::uint64_t>(announced);
  out += directory;
  if (zip64) {
    const std::uint64_t end64 = out.size();
    add<std::uint32_t>(out, 0x06064b50);
    add<std::uint64_t>(out, 44);
    add<std::uint32_t>(out, 0x002d002d);
    add<std::uint64_t>(out, 0);
    add<std::uint64_t>(out, count);
    add<std::uint64_t>(out, count);
    add<std::uint64_t>(out, directory.size());
    add<std::uint64_t>(out, begin);
    add<std::uint32_t>(out, 0x07064b50);
    add<std::uint32_t>(out, 0);
    add<std::uint64_t>(out, end64);
    add<std::uint32_t>(out, 1);
  }
  add<std::uint32_t>(out, 0x06054b50);
  add<std::uint32_t>(out, 0);
  add<std::uint16_t>(out, zip64 ? 0xffff : static_cast<std::uint16_t>(count));
  add<std::uint16_t>(out, zip64 ? 0xffff : static_cast<std::uint16_t>(count));
  add<std::uint32_t>(out, zip64 ? 0xffffffff : static_cast<std::uint32_t>(directory.size()));
  add<std::uint32_t>(out, zip64 ? 0xffffffff : static_cast<std::uint32_t>(begin));
  add<std::uint16_t>(out, 0);
  return out;
}

TEST_F(IoFiles, NpzMembersStoredDeflatedStreamedAndZip64) {
  const std::string x = npy("<f4", "(2,)", raw({1.0f, 2.0f}));
  const std::string y = npy("|u1", "(1000,)", std::string(1000, 'y'));
  for (bool zip64 : {false, true}) {
    const std::string path =
        put("a.npz", zip({{"x.npy", x}, {"readme.txt", "hi"}, {"y.npy", y, 8}, {"z.npy", x, 8, 8}}, zip64));
    EXPECT_VALUES((list(path)), "x", "y", "z");
    EXPECT_VALUES((values_of<float>(load(path + ":x"))), 1, 2);
    EXPECT_EQ(as_text(load(path + ":y").bytes), std::string(1000, 'y'));
    EXPECT_VALUES((values_of<float>(load_npz(path, "z"))), 1, 2);
  }
  EXPECT_VALUES((values_of<float>(load(put("one.npz", zip({{"x.npy", x}}))))), 1, 2);
}

TEST_F(IoFiles, NpzMembersByTheirWholeNames) {  // numpy/numpy#29412
  const std::string x = npy("<f4", "(2,)", raw({1.0f, 2.0f})), y = npy("<f4", "(1,)", raw({3.0f}));
  const std::string path = put("a.npz", zip({{"x.npy", x}, {"y", y}, {"deep/z.npy", y}, {"readme.txt", "hi"}}));
  EXPECT_VALUES((list(path)), "x", "deep/z");
  EXPECT_VALUES((values_of<float>(load(path + ":x.npy"))), 1, 2);
  EXPECT_VALUES((values_of<float>(load(path + ":y"))), 3);
  EXPECT_VALUES((values_of<float>(load(path + ":deep/z"))), 3);
  EXPECT_VALUES((values_of<float>(load(path + ":deep/z.npy"))), 3);
  EXPECT_CONTAINS(error_of([&] { load(path + ":readme.txt"); }).message(), "not a .npy file: it starts with \"hi\"");
  EXPECT_CONTAINS(error_of([&] { load(path + ":z"); }).message(), "no array 'z'; it has x, deep/z");
  // The array of a name comes before the member of that name.
  EXPECT_VALUES((values_of<float>(load(put("b.npz", zip({{"x", y}, {"x.npy", x}})) + ":x"))), 1, 2);
}

TEST_F(IoFiles, NpzThatCannotBeRead) {
  const std::string x = npy("|u1", "(8,)", "abcdefgh");
  const auto refuse = [&](const std::string& file, const std::string& name, ErrorCode code, const std::string& text) {
    const std::string path = put("bad.npz", file);
    const Error e = error_of([&] { load(path + name); });
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_CONTAINS(e.message(), text);
    EXPECT_CONTAINS(e.message(), "bad.npz");
  };
  refuse(zip({{"x.npy", x}, {"y.npy", x}}), "", ErrorCode::io_error, "2 arrays (x, y)");
  refuse(zip({{"x.npy", x}}), ":q", ErrorCode::io_error, "no array 'q'; it has x");
  refuse(zip({{"x.npy", x}}), ":", ErrorCode::io_error, "no name");
  refuse(zip({{"x.npy", x}, {"x.npy", x}}), ":x", ErrorCode::io_error, "more than one");
  refuse(zip({}), "", ErrorCode::io_error, "no arrays");
  refuse(zip({{"x.npy", x, 0, 1}}), "", ErrorCode::unsupported, "encrypted");
  refuse(zip({{"x.npy", x, 12}}), "", ErrorCode::unsupported, "method 12");
  refuse(zip({{"x.npy", x, 0, 0, -1, 1}}), "", ErrorCode::io_error, "CRC");
  refuse(zip({{"x.npy", x, 8, 0, -1, 1}}), "", ErrorCode::io_error, "CRC");
  refuse(zip({{"x.npy", x, 0, 0, 4000000000}}), "", ErrorCode::io_error, "stored member of 4000000000");
  refuse(zip({{"x.npy", x, 8, 0, 4000000000}}), "", ErrorCode::io_error, "claims 4000000000 bytes");
  refuse(zip({{"x.npy", x, 8, 0, 1LL << 62}}, true), "", ErrorCode::io_error, "claims 4611686018427387904 bytes");
  refuse(zip({{"x.npy", x, 8, 0, 1000}}), "", ErrorCode::io_error, "truncated: need 1000 bytes");
  refuse(zip({{"x.npy", x, 8, 0, 10}}), "", ErrorCode::io_error, "more than the 10 bytes");
  refuse(zip({{"x.npy", x}}, false, 2), "", ErrorCode::io_error, "2 members announced, 1 found");
  refuse(zip({{"x.npy", "PICKLE"}}), "", ErrorCode::io_error, "bad.npz:x: not a .npy file");
  refuse("PK\3\4", "", ErrorCode::io_error, "no end of central directory");
  refuse("hello", "", ErrorCode::io_error, "no end of central directory");
  refuse("", "", ErrorCode::io_error, "no end of central directory");
  const std::string good = zip({{"x.npy", x}});
  for (std::size_t n = 0; n < good.size(); ++n) {
    refuse(good.substr(0, n), "", ErrorCode::io_error, "no end of central directory");
  }
}

// ---- .safetensors

std::string safetensors(const std::string& header, const std::string& data) {
  std::string out;
  add<std::uint64_t>(out, header.size());
  return out + header + data;
}

TEST_F(IoFiles, SafetensorsByName) {
  const std::string path =
      put("m.safetensors", safetensors(R"({"__metadata__":{"format":"pt"},)"
                                       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                                       R"("a":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},)"
                                       R"("s":{"dtype":"I8","shape":[],"data_offsets":[12,13]},)"
                                       R"("f8":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[13,14]},)"
                                       R"("none":{"dtype":"F64","shape":[0,3],"data_offsets":[14,14]}})",
                                       raw<std::uint16_t>({0x3f80, 0x4000}) + raw({3.0f, 4.0f}) + "\5\6"));
  EXPECT_VALUES((list(path)), "a", "b", "s", "f8", "none");
  EXPECT_VALUES((values_of<float>(load(path + ":b"))), 3, 4);
  EXPECT_EQ(load(path + ":a").dtype, FileDType::bf16);
  EXPECT_EQ(load(path + ":a").shape, (Shape{1, 2}));
  EXPECT_EQ(load(path + ":s").shape.rank(), 0u);
  EXPECT_EQ(load(path + ":none").shape, (Shape{0, 3}));
  EXPECT_EQ(error_of([&] { load(path + ":f8"); }).code(), ErrorCode::unsupported);
  EXPECT_CONTAINS(error_of([&] { load(path); }).message(), "5 arrays");
  const Conversion made = as_device_dtype(load(path + ":a"), "a", false);
  EXPECT_VALUES((values_of<float>(made.array)), 1, 2);
  EXPECT_EQ(made.note, "bfloat16 read as float32");
}

TEST_F(IoFiles, SafetensorsThatCannotBeRead) {
  const auto refuse = [&](const std::string& file, const std::string& text) {
    const std::string path = put("bad.safetensors", file);
    const Error e = error_of([&] { load(path + ":a"); });
    EXPECT_EQ(e.code(), ErrorCode::io_error) << e.what();
    EXPECT_CONTAINS(e.message(), text);
    EXPECT_CONTAINS(e.message(), "bad.safetensors");
  };
  const auto one = [](const std::string& entry, const std::string& data = "12345678") {
    return safetensors("{\"a\":" + entry + "}", data);
  };
  refuse("", "too few");
  refuse("1234567", "too few");
  refuse(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8), "truncated: the header is 18446744073709551615");
  refuse(std::string("\x10\0\0\0\0\0\0\0{}", 10), "truncated: the header is 16 bytes, the file has 2");
  refuse(safetensors("", ""), "no JSON object");
  refuse(safetensors("[]", ""), "no JSON object");
  refuse(safetensors("{\"a\":", ""), "no JSON object");
  refuse(safetensors(std::string(1'000'000, '['), ""), "no JSON object");
  refuse(safetensors("{}", ""), "no arrays");
  refuse(one("1"), "no dtype");
  refuse(one("{}"), "no dtype");
  refuse(one(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})"), "no dtype");
  refuse(one(R"({"dtype":"F32","data_offsets":[0,8]})"), "'shape'");
  refuse(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "'shape'");
  refuse(one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), "'shape'");
  refuse(one(R"({"dtype":"F32","shape":[2,[1]],"data_offsets":[0,8]})"), "no JSON object");
  refuse(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8]})"), "data_offsets");
  refuse(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "data_offsets");
  refuse(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", "1234567"), "truncated");
  refuse(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]})"), "truncated");
  refuse(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), "needs 12 bytes, data_offsets give 8");
  refuse(one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})"), "63 bits");
  refuse(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"), "63 bits");
  const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  refuse(safetensors("{\"a\":" + entry + ",\"b\":" + entry + "}", "1234"), "overlap");
  refuse(safetensors("{\"a\":" + entry + ",\"a\":" + entry + "}", "1234"), "twice");
}

// ---- conversion

template <class T>
HostArray host(FileDType dtype, const Shape& shape, std::initializer_list<T> values) {
  auto data = std::make_shared<std::vector<T>>(values);
  return {dtype, shape, contiguous_strides(shape), std::as_bytes(std::span<const T>(*data)), data, false};
}

TEST(AsDeviceDtype, PassesWidensAndNotes) {
  const HostArray f = host<float>(FileDType::f32, {2}, {1, 2});
  const Conversion same = as_device_dtype(f, "f", false);
  EXPECT_EQ(same.array.bytes.data(), f.bytes.data());
  EXPECT_FALSE(same.note);
  const Conversion wide = as_device_dtype(host<std::int8_t>(FileDType::i8, {2}, {-128, 127}), "x", false);
  EXPECT_VALUES((values_of<std::int32_t>(wide.array)), -128, 127);
  EXPECT_EQ(wide.note, "int8 read as int32");
  EXPECT_VALUES(
      (values_of<std::int32_t>(as_device_dtype(host<std::uint16_t>(FileDType::u16, {1}, {65535}), "x", false).array)),
      65535);
}

TEST(AsDeviceDtype, NarrowsOnlyOnRequest) {  // F19, P02
  const HostArray f = host<double>(FileDType::f64, {4}, {1, 0.1, 1e300, 16777217});
  const Error e = error_of([&] { as_device_dtype(f, "x.npy", false); });
  EXPECT_EQ(e.code(), ErrorCode::unsupported);
  EXPECT_CONTAINS(e.message(), "x.npy: float64");
  EXPECT_CONTAINS(e.fix(), "--allow-downcast");
  const Conversion made = as_device_dtype(f, "x.npy", true);
  EXPECT_VALUES((values_of<float>(made.array)), 1, 0.1f, INFINITY, 16777216);
  EXPECT_EQ(made.note, "float64 read as float32 (1 value overflowed to inf)");
  EXPECT_EQ(as_device_dtype(host<double>(FileDType::f64, {2}, {INFINITY, 1}), "x", true).note,
            "float64 read as float32");
}

TEST(AsDeviceDtype, NamesTheFirstIntegerThatDoesNotFit) {
  HostArray i = host<std::int64_t>(FileDType::i64, {2, 2}, {1, -2147483648LL, 3000000000LL, 4});
  Error e = error_of([&] { as_device_dtype(i, "x", true); });
  EXPECT_EQ(e.code(), ErrorCode::out_of_range);
  EXPECT_CONTAINS(e.message(), "3000000000 at index (1, 0) does not fit int32");
  i.strides = Strides{1, 2};
  EXPECT_CONTAINS(error_of([&] { as_device_dtype(i, "x", true); }).message(), "index (0, 1)");
  EXPECT_EQ(error_of([&] { as_device_dtype(i, "x", false); }).code(), ErrorCode::unsupported);
  EXPECT_VALUES((values_of<std::uint32_t>(
                    as_device_dtype(host<std::uint64_t>(FileDType::u64, {1}, {4294967295u}), "x", true).array)),
                4294967295u);
}

TEST(AsDeviceDtype, RefusesComplex) {
  for (bool allow : {false, true}) {
    const Error e = error_of([&] { as_device_dtype(host<float>(FileDType::c64, {1}, {1, 2}), "x", allow); });
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_LACKS(e.fix(), "downcast");
  }
}

// ---- writing

TEST_F(IoFiles, WritesWhatNumpyWrites) {  // F17
  const fs::path path = directory_ / "out.npy";
  save_npy(path, f32, Shape{3}, as_bytes(raw({1.0f, 2.0f, 3.0f})));
  const std::string file = content(path);
  ASSERT_EQ(file.size(), 140u);
  EXPECT_EQ(file.substr(0, 10), std::string("\x93NUMPY\1\0\x76\0", 10));
  EXPECT_EQ(file.substr(10, 57), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
  EXPECT_EQ(file[127], '\n');
  EXPECT_VALUES((values_of<float>(load(path.string()))), 1, 2, 3);
  EXPECT_VALUES((names()), "out.npy");
}

TEST_F(IoFiles, HeaderEndsAtAMultipleOf64ForEveryRankAndType) {
  for (FileDType t :
       {FileDType::bool_, FileDType::i8, FileDType::u16, FileDType::f16, FileDType::i64, FileDType::c128}) {
    Shape shape;
    for (std::size_t rank = 0; rank <= kMaxRank; ++rank) {
      save_npy(directory_ / "a.npy", t, shape, as_bytes(std::string(size_of(t), '\1')));
      EXPECT_EQ((content(directory_ / "a.npy").size() - size_of(t)) % 64, 0u);
      EXPECT_EQ(load((directory_ / "a.npy").string()).shape, shape);
      if (rank < kMaxRank) shape.push_back(1);
    }
  }
  save_npy(directory_ / "e.npy", f32, Shape{0, 3}, {});
  EXPECT_EQ(load((directory_ / "e.npy").string()).shape, (Shape{0, 3}));
}

TEST_F(IoFiles, RefusesToWriteWhatDoesNotFit) {
  const auto refuse = [&](const fs::path& path, ErrorCode code, const std::string& text) {
    const std::vector<std::string> before = names();
    const Error e = error_of([&] { save_npy(path, f32, Shape{1}, as_bytes("abcd")); });
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_CONTAINS(e.message(), text);
    EXPECT_EQ(names(), before);
  };
  EXPECT_EQ(error_of([&] { save_npy(directory_ / "a", f32, Shape{2}, as_bytes("abcd")); }).code(),
            ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([&] { save_npy(directory_ / "a", FileDType::bf16, Shape{2}, as_bytes("abcd")); }).code(),
            ErrorCode::unsupported);
  refuse(directory_ / "none" / "a.npy", ErrorCode::io_error, "No such file or directory");
  refuse(directory_, ErrorCode::io_error, "Is a directory");
  refuse("", ErrorCode::io_error, "not a file name");
  refuse("/dev/full", ErrorCode::io_error, "No space left on device");
  put("file", "x");
  refuse(directory_ / "file" / "a.npy", ErrorCode::io_error, "Not a directory");
  fs::create_symlink("loop", directory_ / "loop");
  refuse(directory_ / "loop", ErrorCode::io_error, "Too many levels");
  refuse(directory_ / std::string(256, 'n'), ErrorCode::io_error, "too long");
}

/// Drops root's rights, for which permissions mean nothing, until the end of the scope.
class Unprivileged {
 public:
  Unprivileged() { EXPECT_TRUE(user_ != 0 || seteuid(65534) == 0); }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  ~Unprivileged() { EXPECT_EQ(seteuid(user_), 0); }

 private:
  uid_t user_ = geteuid();
};

TEST_F(IoFiles, HeedsPermissions) {
  const fs::path path = directory_ / "x.npy";
  save_npy(path, f32, Shape{1}, as_bytes(raw({1.0f})));
  const auto refuse = [](const std::string& action, auto call) {
    const Unprivileged guard;
    const Error e = error_of(call);
    EXPECT_EQ(e.code(), ErrorCode::io_error);
    EXPECT_CONTAINS(e.message(), action + ": Permission denied");
  };
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(path.c_str(), 0444), 0);
  refuse("cannot write", [&] { save_npy(path, f32, Shape{1}, as_bytes(raw({2.0f}))); });
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  refuse("cannot open", [&] { load(path.string()); });
  ASSERT_EQ(chmod(directory_.c_str(), 0555), 0);
  refuse("cannot write", [&] { save_npy(directory_ / "y.npy", f32, Shape{1}, as_bytes(raw({2.0f}))); });
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_VALUES(values_of<float>(load(path.string())), 1);
  EXPECT_VALUES(names(), "x.npy");
}

TEST_F(IoFiles, AFailedWriteLeavesTheOldFileAlone) {
  const fs::path path = directory_ / "out.npy";
  save_npy(path, f32, Shape{1}, as_bytes(raw({1.0f})));
  // A limit on file sizes fails in the middle of the write, as a full disk does.
  struct rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  struct rlimit small = old;
  small.rlim_cur = 4096;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string big(1 << 20, 'x');
  const Error e = error_of([&] { save_npy(path, FileDType::u8, Shape{1 << 20}, as_bytes(big)); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(e.code(), ErrorCode::io_error);
  EXPECT_CONTAINS(e.message(), "File too large");
  EXPECT_VALUES((names()), "out.npy");
  EXPECT_VALUES((values_of<float>(load(path.string()))), 1);
}

TEST_F(IoFiles, ReplacesUnderAMappingAndKeepsPermissions) {
  const fs::path path = directory_ / "x.npy";
  save_npy(path, f32, Shape{2}, as_bytes(raw({1.0f, 2.0f})));
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const HostArray before = load(path.string());
  ASSERT_TRUE(before.mapped);
  save_npy(path, f32, Shape{1}, as_bytes(raw({9.0f})));
  EXPECT_VALUES((values_of<float>(before)), 1, 2);
  EXPECT_VALUES((values_of<float>(load(path.string()))), 9);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
}

TEST_F(IoFiles, WritesIntoWhatIsOpenFromWhereItStands) {  // runtimeverification/k#2404
  const std::string path = put("log", "before");
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(fd, 0);
  const std::string x = "abc";
  const auto link = directory_ / "link";
  std::filesystem::create_symlink("/dev/fd/" + std::to_string(fd), link);
  for (const std::string& name :
       {"/dev/fd/" + std::to_string(fd), "/proc/self/fd/" + std::to_string(fd), link.string()}) {
    save_npy(name, FileDType::u8, {3}, std::as_bytes(std::span(x)));
  }
  ::unlink(path.c_str());  // and still when it has no name
  NpyWriter writer("/dev/fd/" + std::to_string(fd), FileDType::u8, {3});
  EXPECT_EQ(writer.temporary(), "");
  writer.write(0, 0, 2, std::as_bytes(std::span(x).first(2)));
  EXPECT_EQ(error_of([&] { NpyWriter("/dev/fd/999", FileDType::u8, {3}); }).code(), ErrorCode::io_error);
  writer.write(0, 2, 3, std::as_bytes(std::span(x).last(1)));
  writer.finish();
  const int again = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY);
  std::string content(10000, 0);
  content.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(again, content.data(), content.size()))));
  EXPECT_EQ(content.size(), 6 + 4 * (128 + 3));
  EXPECT_TRUE(content.starts_with("before\x93NUMPY"));
  EXPECT_TRUE(content.ends_with("abc"));
  ::close(again);
  ::close(fd);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);  // the link
}

TEST_F(IoFiles, ReadsWhatComesThroughAPipe) {  // numpy/numpy#23479
  const std::string big(300'000, 'y');
  const std::string array = npy("|u1", "(3, 100000)", big), two = zip({{"x.npy", npy("|u1", "(3,)", "abc"), 8}});
  const auto through = [](const std::string& bytes, auto&& use) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe(ends), 0);
    std::thread writer([&] {
      for (std::size_t at = 0; at < bytes.size();) {  // a few at a time
        const ssize_t n = ::write(ends[1], bytes.data() + at, std::min<std::size_t>(bytes.size() - at, 4097));
        if (n <= 0) break;
        at += static_cast<std::size_t>(n);
      }
      ::close(ends[1]);
    });
    use("/dev/fd/" + std::to_string(ends[0]));
    ::close(ends[0]);
    writer.join();
  };
  std::signal(SIGPIPE, SIG_IGN);
  through(array, [&](const std::string& name) { EXPECT_EQ(as_text(load(name).bytes), big); });
  through(array + std::string(1 << 22, 'z'), [&](const std::string& name) {  // as little as that is read
    const ArrayFile file = ArrayFile::open(name);
    std::string rows(200'000, 0);
    file.read(0, 1, 3, std::as_writable_bytes(std::span(rows)));
    EXPECT_EQ(rows, big.substr(0, 200'000));
  });
  through(two, [&](const std::string& name) { EXPECT_EQ(as_text(load(name + ":x").bytes), "abc"); });
  const auto refuse = [&](const std::string& bytes, const std::string& text) {
    through(bytes, [&](const std::string& name) {
      const Error e = error_of([&] { load(name); });
      EXPECT_EQ(e.code(), ErrorCode::io_error);
      EXPECT_CONTAINS(e.message(), text);
    });
  };
  refuse("", "nothing came through it");
  refuse(std::string(1 << 22, 0), "not a .npy file: it starts with \"\\x00");
  for (std::size_t n = 1; n < 128; ++n) refuse(array.substr(0, n), n < 6 ? "not a .npy file" : "truncated");
  refuse(array.substr(0, 1000), "truncated: need 300000 bytes");
  refuse(two.substr(0, two.size() - 1), "no end of central directory");
  std::signal(SIGPIPE, SIG_DFL);
}

TEST_F(IoFiles, FollowsSymbolicLinks) {
  fs::create_symlink("real.npy", directory_ / "link.npy");
  save_npy(directory_ / "link.npy", f32, Shape{1}, as_bytes(raw({9.0f})));
  EXPECT_TRUE(fs::is_symlink(directory_ / "link.npy"));
  EXPECT_VALUES((values_of<float>(load((directory_ / "real.npy").string()))), 9);
}

// ---- printing (expected texts are numpy 2.4's)

template <class T>
std::string print(FileDType t, const Shape& shape, std::initializer_list<T> values, std::size_t threshold = 1000) {
  return format_array(t, shape, as_bytes(raw(values)), threshold);
}

TEST(FormatArray, LikeNumpy) {
  EXPECT_EQ(print<float>(FileDType::f32, {3}, {1, 2.5f, -3}), "[ 1.   2.5 -3. ]");
  EXPECT_EQ(print<float>(FileDType::f32, {2}, {0.1f, 1e6f}), "[1.e-01 1.e+06]");
  EXPECT_EQ(print<float>(FileDType::f32, {2}, {1e-5f, 1.2345678e-5f}), "[9.9999997e-06 1.2345678e-05]");
  EXPECT_EQ(print<float>(FileDType::f32, {3}, {NAN, INFINITY, -1}), "[nan inf -1.]");
  EXPECT_EQ(print<float>(FileDType::f32, {2}, {NAN, -INFINITY}), "[ nan -inf]");
  EXPECT_EQ(print<double>(FileDType::f64, {2}, {1.0 / 3, 1}), "[0.33333333 1.        ]");
  EXPECT_EQ(print<std::int32_t>(FileDType::i32, {2, 2}, {1, -20, 300, 4}), "[[  1 -20]\n [300   4]]");
  EXPECT_EQ(print<std::uint8_t>(FileDType::bool_, {2}, {1, 0}), "[ True False]");
  EXPECT_EQ(print<float>(FileDType::c64, {2}, {1, 2, -0.5f, -1}), "[ 1. +2.j -0.5-1.j]");
  EXPECT_EQ(print<std::uint8_t>(FileDType::u8, {2, 1, 2}, {1, 2, 3, 4}), "[[[1 2]]\n\n [[3 4]]]");
}

TEST(FormatArray, ScalarsAndEmpties) {
  EXPECT_EQ(print<float>(FileDType::f32, {}, {4.5f}), "4.5");
  EXPECT_EQ(print<float>(FileDType::f32, {}, {3}), "3.0");
  EXPECT_EQ(print<double>(FileDType::f64, {}, {1e16}), "1e+16");
  EXPECT_EQ(print<std::uint8_t>(FileDType::bool_, {}, {1}), "True");
  EXPECT_EQ(print<std::int64_t>(FileDType::i64, {}, {std::numeric_limits<std::int64_t>::min()}),
            "-9223372036854775808");
  EXPECT_EQ(format_array(FileDType::f32, Shape{0, 3}, {}), "[]");
  EXPECT_EQ(print<std::uint16_t>(FileDType::bf16, {2}, {0x3f80, 0x3f00}), "[1.  0.5]");
}

TEST(FormatArray, CutsInTheMiddleAndWraps) {
  std::string bytes(2000, '\1');
  EXPECT_EQ(format_array(FileDType::u8, Shape{2000}, as_bytes(bytes)), "[1 1 1 ... 1 1 1]");
  EXPECT_EQ(format_array(FileDType::u8, Shape{1000, 2}, as_bytes(bytes)),
            "[[1 1]\n [1 1]\n [1 1]\n ...\n [1 1]\n [1 1]\n [1 1]]");
  const std::string line = format_array(FileDType::u8, Shape{50}, as_bytes(bytes.substr(0, 50)));
  EXPECT_EQ(line.find('\n'), 74u);
}

TEST(FormatArray, RefusesAWrongLength) {
  EXPECT_EQ(error_of([] { format_array(FileDType::f32, Shape{2}, as_bytes("abcd")); }).code(),
            ErrorCode::invalid_argument);
}

TEST(Decimal, HalvesReadBackTheSame) {
  for (std::uint32_t bits = 1; bits < 0x7c00; ++bits) {
    const auto value = static_cast<float>(std::bit_cast<float16>(static_cast<std::uint16_t>(bits)));
    const DecimalText text = scientific(static_cast<double>(value), FloatFormat::f16);
    const std::string all = text.whole + "." + text.fraction + "e" + std::to_string(text.exponent);
    ASSERT_EQ(float16(std::stof(all)).bits, bits) << all;
    ASSERT_LE(text.fraction.size(), 4u);
  }
}

}  // namespace
}  // namespace weft::io
