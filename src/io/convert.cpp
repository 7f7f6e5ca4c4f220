#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/dense_strides.h"
#include "io/host_array.h"
#include "io/memory.h"
#include "weft/error.h"
#include "weft/io.h"

namespace weft::io {
namespace {

/// What values become on their way, and where they stand.
struct Values {
  const HostArray& from;
  std::byte* to;
  std::string_view name;
  const Shape& origin;        ///< of from's first element, in the whole array
  std::size_t overflows = 0;  ///< float64 past float32's range
};

/// The index, as numpy writes it, of the element at a place in memory.
std::string index_text(const Values& v, std::size_t place) {
  // The strides are those of a dense array in some order of its axes, so each index is a quotient and a remainder.
  Shape index = v.origin;
  for (std::size_t i = 0; i < index.rank(); ++i) {
    index[i] += static_cast<std::int64_t>(place) / v.from.strides[i] % v.from.shape[i];
  }
  return to_string(index);
}

/// Every element becomes `convert(element, place)`.
template <class To, class From, class Convert>
void each(const Values& v, Convert convert) {
  const std::size_t count = v.from.bytes.size() / sizeof(From);
  for (std::size_t i = 0; i < count; ++i) {
    const To value = convert(read_as<From>(&v.from.bytes[i * sizeof(From)]), i);
    std::memcpy(v.to + i * sizeof(To), &value, sizeof value);
  }
}

template <std::integral From>
void widen(const Values& v) {
  each<std::int32_t, From>(v, [](From x, std::size_t) { return static_cast<std::int32_t>(x); });
}

/// bfloat16 is the upper half of a float32.
void widen_bf16(const Values& v) {
  each<std::uint32_t, std::uint16_t>(v,
                                     [](std::uint16_t x, std::size_t) { return static_cast<std::uint32_t>(x) << 16; });
}

template <std::integral To, std::integral From>
void narrow(const Values& v, FileDType to) {
  each<To, From>(v, [&](From x, std::size_t place) {
    if (!std::in_range<To>(x)) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("{}: {} at index {} does not fit {} ({} to {})", v.name, x, index_text(v, place),
                              to_string(to), std::numeric_limits<To>::min(), std::numeric_limits<To>::max()),
                  "scale the values or save the array as float32");
    }
    return static_cast<To>(x);
  });
}

void narrow_f64(Values& v) {
  each<float, double>(v, [&](double x, std::size_t) {
    const auto narrow = static_cast<float>(x);
    if (std::isinf(narrow) && std::isfinite(x)) ++v.overflows;
    return narrow;
  });
}

[[noreturn]] void refuse(FileDType dtype, std::string_view name, std::string_view fix) {
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: {} is not a type that devices compute with", name, to_string(dtype)), std::string(fix));
}

void convert(Values& v, FileDType to) {
  switch (v.from.dtype) {
    case FileDType::i8: return widen<std::int8_t>(v);
    case FileDType::u8: return widen<std::uint8_t>(v);
    case FileDType::i16: return widen<std::int16_t>(v);
    case FileDType::u16: return widen<std::uint16_t>(v);
    case FileDType::bf16: return widen_bf16(v);
    case FileDType::i64: return narrow<std::int32_t, std::int64_t>(v, to);
    case FileDType::u64: return narrow<std::uint32_t, std::uint64_t>(v, to);
    case FileDType::f64: return narrow_f64(v);
    default: break;
  }
  throw Error(ErrorCode::internal, fmt::format("{}: no way to {}", to_string(v.from.dtype), to_string(to)),
              "report this");
}

std::string note_of(FileDType from, FileDType to, std::size_t overflows) {
  std::string note = fmt::format("{} read as {}", to_string(from), to_string(to));
  if (overflows != 0) note += fmt::format(" ({} value{} overflowed to inf)", overflows, overflows == 1 ? "" : "s");
  return note;
}

}  // namespace

FileDType device_type_of(FileDType dtype, std::string_view name, bool allow_downcast) {
  const auto with_leave = [&](FileDType to) {
    if (!allow_downcast) {
      refuse(dtype, name, fmt::format("convert it, or pass --allow-downcast to read it as {}", to_string(to)));
    }
    return to;
  };
  switch (dtype) {
    case FileDType::bool_:
    case FileDType::i32:
    case FileDType::u32:
    case FileDType::f16:
    case FileDType::f32: return dtype;
    case FileDType::i8:
    case FileDType::u8:
    case FileDType::i16:
    case FileDType::u16: return FileDType::i32;
    case FileDType::bf16: return FileDType::f32;
    case FileDType::i64: return with_leave(FileDType::i32);
    case FileDType::u64: return with_leave(FileDType::u32);
    case FileDType::f64: return with_leave(FileDType::f32);
    case FileDType::c64:
    case FileDType::c128: refuse(dtype, name, "save the real and imaginary parts as two arrays");
  }
  refuse(dtype, name, "save the array as float32");
}

Conversion as_device_dtype(const HostArray& array, std::string_view name, bool allow_downcast) {
  const FileDType to = device_type_of(array.dtype, name, allow_downcast);
  if (to == array.dtype) return {array, std::nullopt};
  const std::size_t size = array.bytes.size() / size_of(array.dtype) * size_of(to);
  auto data = allocate(size, name);
  Shape origin = array.shape;
  std::fill(origin.begin(), origin.end(), 0);
  Values values{array, data.get(), name, origin};
  convert(values, to);
  HostArray out{to, array.shape, array.strides, {data.get(), size}, nullptr, false};
  out.owner = std::move(data);
  return {std::move(out), note_of(array.dtype, to, values.overflows)};
}

ComputableFile::ComputableFile(ArrayFile file, std::string name, bool allow_downcast)
    : file_(std::move(file)), name_(std::move(name)), type_(device_type_of(file_.dtype(), name_, allow_downcast)) {}

DType ComputableFile::dtype() const {
  return device_dtype(type_).value();
}

void ComputableFile::read(std::size_t axis, std::int64_t begin, std::int64_t end, std::span<std::byte> out) {
  if (type_ == file_.dtype()) return file_.read(axis, begin, end, out);
  if (begin == 0) overflows_ = 0;  // once more from the start: each value counts once
  raw_.resize(out.size() / size_of(type_) * size_of(file_.dtype()));
  file_.read(axis, begin, end, raw_);
  Shape block = file_.shape();
  Shape origin = block;
  std::fill(origin.begin(), origin.end(), 0);
  if (block.rank() > 0) {
    block[axis] = end - begin;
    origin[axis] = begin;
  }
  const HostArray from{file_.dtype(), block, dense_strides(block, file_.fortran_order()), raw_, nullptr, false};
  Values values{from, out.data(), name_, origin};
  convert(values, type_);
  overflows_ += values.overflows;
}

HostArray ComputableFile::load() {
  Conversion made = as_device_dtype(file_.load(), name_, true);
  if (made.note) whole_note_ = std::move(made.note);
  return std::move(made.array);
}

std::optional<std::string> ComputableFile::note() const {
  if (type_ == file_.dtype()) return std::nullopt;
  return whole_note_ ? *whole_note_ : note_of(file_.dtype(), type_, overflows_);
}

}  // namespace weft::io
