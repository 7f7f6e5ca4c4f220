#include <fmt/format.h>

#include <array>

#include "io/atomic_file.h"
#include "io/memory.h"
#include "weft/error.h"
#include "weft/io.h"

namespace weft::io {
namespace {

std::string_view descr(FileDType t) {
  switch (t) {
    case FileDType::bool_: return "|b1";
    case FileDType::i8: return "|i1";
    case FileDType::u8: return "|u1";
    case FileDType::i16: return "<i2";
    case FileDType::u16: return "<u2";
    case FileDType::i32: return "<i4";
    case FileDType::u32: return "<u4";
    case FileDType::i64: return "<i8";
    case FileDType::u64: return "<u8";
    case FileDType::f16: return "<f2";
    case FileDType::f32: return "<f4";
    case FileDType::f64: return "<f8";
    case FileDType::c64: return "<c8";
    case FileDType::c128: return "<c16";
    case FileDType::bf16: break;
  }
  throw Error(ErrorCode::unsupported, ".npy files have no bfloat16", "save the array as float32");
}

/// Byte for byte what numpy.save writes, with its room for the first length to grow in place.
std::string npy_header(FileDType dtype, const Shape& shape) {
  constexpr std::size_t kPrefix = 10;
  constexpr std::size_t kAlign = 64;
  constexpr std::size_t kLengthDigits = 21;
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr(dtype), to_string(shape));
  if (shape.rank() > 0) text.append(kLengthDigits - fmt::format("{}", shape[0]).size(), ' ');
  text.append(kAlign - 1 - (kPrefix + text.size()) % kAlign, ' ');
  text += '\n';
  const char length[2] = {static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(length, 2) + text;
}

}  // namespace

void save_npy(const std::filesystem::path& path, FileDType dtype, const Shape& shape,
              std::span<const std::byte> bytes) {
  const auto count = static_cast<std::uint64_t>(element_count(shape));
  if (bytes.size() % size_of(dtype) != 0 || bytes.size() / size_of(dtype) != count) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} bytes for shape {} of {}", path.string(), bytes.size(), to_string(shape), to_string(dtype)),
        "pass the bytes of the whole array");
  }
  const std::string header = npy_header(dtype, shape);
  const std::array<std::span<const std::byte>, 2> pieces = {std::as_bytes(std::span<const char>(header)), bytes};
  write_file_atomically(path, pieces);
}

}  // namespace weft::io
