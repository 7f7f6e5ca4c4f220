#include <fmt/format.h>

#include <array>

#include "io/atomic_file.h"
#include "io/memory.h"
#include "io/pieces.h"
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

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

}  // namespace

struct NpyWriter::State {
  std::string name;
  Shape shape;
  std::size_t element;
  std::size_t header;
  std::size_t left;  ///< bytes not written yet
  AtomicFile file;
};

NpyWriter::NpyWriter(const std::filesystem::path& path, FileDType dtype, const Shape& shape) {
  const std::string header = npy_header(dtype, shape);
  const std::size_t size = static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  state_ =
      std::unique_ptr<State>(new State{path.string(), shape, size_of(dtype), header.size(), size, AtomicFile(path)});
  state_->file.reserve(header.size() + size);
  state_->file.write(0, bytes_of(header));
}

NpyWriter::~NpyWriter() = default;

void NpyWriter::write(std::size_t axis, std::int64_t begin, std::int64_t end, std::span<const std::byte> bytes) {
  State& s = *state_;
  const Pieces pieces = pieces_of(s.shape, false, axis, begin, end, s.element);
  if (pieces.count * pieces.size != bytes.size() || bytes.size() > s.left) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} bytes for elements {} to {} along axis {} of shape {}, with {} to be written",
                            s.name, bytes.size(), begin, end, axis, to_string(s.shape), s.left),
                "write each element once");
  }
  for (std::size_t i = 0; i < pieces.count && pieces.size > 0; ++i) {
    s.file.write(s.header + pieces.first + i * pieces.step, bytes.subspan(i * pieces.size, pieces.size));
  }
  s.left -= bytes.size();
}

void NpyWriter::finish() {
  if (state_->left != 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} bytes of shape {} are not written", state_->name, state_->left, to_string(state_->shape)),
        "write all elements first");
  }
  state_->file.finish();
}

const std::filesystem::path& NpyWriter::temporary() const noexcept {
  return state_->file.temporary();
}

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
  const std::array<std::span<const std::byte>, 2> pieces = {bytes_of(header), bytes};
  write_file_atomically(path, pieces);
}

}  // namespace weft::io
