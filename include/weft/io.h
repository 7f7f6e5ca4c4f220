// weft/io.h - .npy, .npz and .safetensors files. Stands alone: needs no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/dtype.h"
#include "weft/shape.h"

namespace weft::io {

/// Element types that files may hold; more than Weft computes with.
enum class FileDType : std::uint8_t { bool_, i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64, c64, c128 };

std::size_t size_of(FileDType t) noexcept;
/// numpy's name: "int8", "float64", ...; "bfloat16" for bf16.
std::string_view to_string(FileDType t) noexcept;
/// The file type that equals a device type.
FileDType file_dtype(DType t) noexcept;
/// The device type that equals a file type, if there is one.
std::optional<DType> device_dtype(FileDType t) noexcept;

/// An array as read from a file, in host memory that it owns or maps. Native byte order always; element order is given
/// by the strides (a Fortran-order file is a transposed view, not a copy). Cheap to copy: copies share the memory.
struct HostArray {
  FileDType dtype = FileDType::f32;
  Shape shape;
  Strides strides;                    ///< in elements
  std::span<const std::byte> bytes;   ///< element_count(shape) * size_of(dtype) bytes
  std::shared_ptr<const void> owner;  ///< keeps `bytes` alive (a mapping or a vector)
  bool mapped = false;                ///< `bytes` lie in a file mapping
};

/// Reads "x.npy", "archive.npz:name" or "model.safetensors:tensor". An .npz or .safetensors with one array needs no
/// name. `spec` that names an existing file wins over a ':' inside the name. A pipe that the process
/// has open (/dev/stdin, the shell's <(command)) is read to the end of the array, into memory. Throws Error{io_error}
/// that names the file and, for a malformed header, shows it; Error{unsupported} for well-formed files that hold what
/// Weft has no use for (objects, structures, text, dates, more than 8 axes, encrypted members). Nothing larger than the
/// file announces and holds is ever allocated.
HostArray load(const std::string& spec);

/// An array in a file, opened and not read: for what is larger than memory. Copies share the open file; any thread may
/// read. What is read later is what the file then holds; a writer that replaces the file (save_npy does) changes
/// nothing.
class ArrayFile {
 public:
  /// `spec` as in load(), and the same errors. A member of an .npz archive is checked against its CRC, and a compressed
  /// one unpacked into memory, here.
  static ArrayFile open(const std::string& spec);

  FileDType dtype() const noexcept;
  const Shape& shape() const noexcept;
  /// The first axis is the fastest, in the file and in what read() gives.
  bool fortran_order() const noexcept;
  /// All of it, as load() gives it.
  HostArray load() const;
  /// The elements [begin, end) along `axis`, dense in the file's order of axes, in native byte order. `out` has room
  /// for just these. An array without axes has one element along axis 0. Throws Error{io_error} when the file has
  /// become shorter, or can't be read.
  void read(std::size_t axis, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const;

 private:
  struct State;
  explicit ArrayFile(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// One .npy file, versions 1.0 to 3.0, either byte order, C or Fortran order, memory-mapped where no conversion is due.
HostArray load_npy(const std::filesystem::path& path);
/// The same from memory; `bytes` must outlive nothing: the result owns a copy. For fuzzing and for .npz members.
HostArray parse_npy(std::span<const std::byte> bytes, std::string_view name);
/// One member of an .npz archive (stored or deflate, zip64 too), by its name with ".npy" or without; an empty name
/// takes the only one.
HostArray load_npz(const std::filesystem::path& path, std::string_view member);
/// One tensor of a .safetensors file, memory-mapped; an empty name takes the only one.
HostArray load_safetensors(const std::filesystem::path& path, std::string_view tensor);
/// Names of the arrays in an .npz or .safetensors file, in file order.
std::vector<std::string> list(const std::filesystem::path& path);

/// What as_device_dtype did.
struct Conversion {
  HostArray array;                  ///< of a dtype that device_dtype() knows
  std::optional<std::string> note;  ///< one line to show: "float64 read as float32 (2 values overflowed to inf)"
};

/// Makes an array computable: f32, f16, i32, u32, bool pass through untouched; i8, u8, i16, u16 widen to i32 and bf16
/// to f32 (exact, with a note); f64, i64, u64 are refused with Error{unsupported} whose fix names `--allow-downcast`,
/// or with `allow_downcast` become f32 (a count of overflows to inf in the note) and i32/u32 (Error{out_of_range} with
/// the first value that does not fit). Complex is refused. `name` is used in messages.
Conversion as_device_dtype(const HostArray& array, std::string_view name, bool allow_downcast);

/// The type in which as_device_dtype gives arrays of `dtype`; refuses what it refuses.
FileDType device_type_of(FileDType dtype, std::string_view name, bool allow_downcast);

/// An ArrayFile whose elements come as as_device_dtype makes them. One thread at a time.
class ComputableFile {
 public:
  /// Throws as as_device_dtype does for types that it refuses.
  ComputableFile(ArrayFile file, std::string name, bool allow_downcast);

  DType dtype() const;
  const ArrayFile& file() const noexcept { return file_; }
  /// As ArrayFile::read, in dtype(). Throws also Error{out_of_range} for a value that does not fit.
  void read(std::size_t axis, std::int64_t begin, std::int64_t end, std::span<std::byte> out);
  /// All of it.
  HostArray load();
  /// The conversion's note, about what was read since the last read from the first element on; nothing where there is
  /// no conversion.
  std::optional<std::string> note() const;

 private:
  ArrayFile file_;
  std::string name_;
  FileDType type_;
  std::vector<std::byte> raw_;
  std::size_t overflows_ = 0;
  std::optional<std::string> whole_note_;
};

/// Writes a version 1.0 .npy (C order, little endian, data at a multiple of 64), atomically: a file without a name
/// beside `path` (a temporary one where the file system has no such files), flushed, then put in place. On failure
/// throws Error{io_error} and leaves nothing behind, nor does a process that is killed (but for the temporary one); a
/// file that was there stays as it was. Symbolic links are followed; a pipe, a device, and
/// what this process has open (/dev/stdout, even where that is a file) are written directly. Error{unsupported} for
/// bf16, which .npy lacks; Error{invalid_argument} when `bytes` and `shape` disagree.
void save_npy(const std::filesystem::path& path, FileDType dtype, const Shape& shape, std::span<const std::byte> bytes);
inline void save_npy(const std::filesystem::path& path, DType dtype, const Shape& shape,
                     std::span<const std::byte> bytes) {
  save_npy(path, file_dtype(dtype), shape, bytes);
}

/// A .npy file as save_npy writes it, in blocks. The file appears, whole, with finish(); until then what there was
/// stays. One thread at a time.
class NpyWriter {
 public:
  /// Makes the file and takes the room it needs, where the file system can tell. Throws as save_npy does.
  NpyWriter(const std::filesystem::path& path, FileDType dtype, const Shape& shape);
  /// Removes what was written unless finish() returned.
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  /// The elements [begin, end) along `axis`, row-major. Each element is to be written once, in any order; into a pipe
  /// or device from the first to the last only: Error{unsupported} when blocks do not come so.
  void write(std::size_t axis, std::int64_t begin, std::int64_t end, std::span<const std::byte> bytes);
  /// Flushes, and renames. Throws Error{invalid_argument} when fewer bytes were written than the array has.
  void finish();
  /// The file to remove if the process is to end before finish(); empty where there is none: while the file has no
  /// name, and for a pipe or device.
  const std::filesystem::path& temporary() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// numpy's print of an array (`print(a)`): brackets, columns aligned, precision 8, cut in the middle past `threshold`
/// elements with 3 at each edge. `bytes` are row-major. As numpy 2.3 and later, whose switch to exponents depends on
/// the element type; 0-d as a numpy scalar; bfloat16 as the float32 that it widens to.
std::string format_array(FileDType dtype, const Shape& shape, std::span<const std::byte> bytes,
                         std::size_t threshold = 1000);

}  // namespace weft::io
