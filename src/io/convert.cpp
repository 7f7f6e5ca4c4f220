#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

#include "io/memory.h"
#include "weft/error.h"
#include "weft/io.h"

namespace weft::io {
namespace {

/// The index, as numpy writes it, of the element at a place in memory.
std::string index_text(const HostArray& array, std::size_t place) {
  // The strides are those of a dense array in some order of its axes, so each index is a quotient and a remainder.
  Shape index = array.shape;
  for (std::size_t i = 0; i < array.shape.rank(); ++i) {
    index[i] = static_cast<std::int64_t>(place) / array.strides[i] % array.shape[i];
  }
  return to_string(index);
}

/// A new array of the same order whose elements are `convert(element, place)`.
template <class To, class From, class Convert>
HostArray converted(const HostArray& array, FileDType to, std::string_view name, Convert convert) {
  const std::size_t count = array.bytes.size() / sizeof(From);
  HostArray out{to, array.shape, array.strides, {}, nullptr, false};
  auto data = allocate(count * sizeof(To), name);
  for (std::size_t i = 0; i < count; ++i) {
    const To value = convert(read_as<From>(&array.bytes[i * sizeof(From)]), i);
    std::memcpy(data.get() + i * sizeof(To), &value, sizeof value);
  }
  out.bytes = {data.get(), count * sizeof(To)};
  out.owner = std::move(data);
  return out;
}

template <std::integral From>
HostArray widened(const HostArray& array, std::string_view name) {
  return converted<std::int32_t, From>(array, FileDType::i32, name,
                                       [](From v, std::size_t) { return static_cast<std::int32_t>(v); });
}

/// bfloat16 is the upper half of a float32.
HostArray widened_bf16(const HostArray& array, std::string_view name) {
  return converted<std::uint32_t, std::uint16_t>(
      array, FileDType::f32, name, [](std::uint16_t v, std::size_t) { return static_cast<std::uint32_t>(v) << 16; });
}

template <std::integral To, std::integral From>
HostArray narrowed(const HostArray& array, FileDType to, std::string_view name) {
  return converted<To, From>(array, to, name, [&](From v, std::size_t place) {
    if (!std::in_range<To>(v)) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("{}: {} at index {} does not fit {} ({} to {})", name, v, index_text(array, place),
                              to_string(to), std::numeric_limits<To>::min(), std::numeric_limits<To>::max()),
                  "scale the values or save the array as float32");
    }
    return static_cast<To>(v);
  });
}

HostArray narrowed_f64(const HostArray& array, std::string_view name, std::size_t& overflows) {
  return converted<float, double>(array, FileDType::f32, name, [&](double v, std::size_t) {
    const auto narrow = static_cast<float>(v);
    if (std::isinf(narrow) && std::isfinite(v)) ++overflows;
    return narrow;
  });
}

[[noreturn]] void refuse(const HostArray& array, std::string_view name, std::string_view fix) {
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: {} is not a type that devices compute with", name, to_string(array.dtype)),
              std::string(fix));
}

}  // namespace

Conversion as_device_dtype(const HostArray& array, std::string_view name, bool allow_downcast) {
  const auto read_as_note = [&](FileDType to) {
    return fmt::format("{} read as {}", to_string(array.dtype), to_string(to));
  };
  const auto with_note = [&](HostArray out) {
    const FileDType to = out.dtype;
    return Conversion{std::move(out), read_as_note(to)};
  };
  const auto need_leave = [&](FileDType to) {
    if (!allow_downcast) {
      refuse(array, name, fmt::format("convert it, or pass --allow-downcast to read it as {}", to_string(to)));
    }
  };
  switch (array.dtype) {
    case FileDType::bool_:
    case FileDType::i32:
    case FileDType::u32:
    case FileDType::f16:
    case FileDType::f32: return {array, std::nullopt};
    case FileDType::i8: return with_note(widened<std::int8_t>(array, name));
    case FileDType::u8: return with_note(widened<std::uint8_t>(array, name));
    case FileDType::i16: return with_note(widened<std::int16_t>(array, name));
    case FileDType::u16: return with_note(widened<std::uint16_t>(array, name));
    case FileDType::bf16: return with_note(widened_bf16(array, name));
    case FileDType::i64:
      need_leave(FileDType::i32);
      return with_note(narrowed<std::int32_t, std::int64_t>(array, FileDType::i32, name));
    case FileDType::u64:
      need_leave(FileDType::u32);
      return with_note(narrowed<std::uint32_t, std::uint64_t>(array, FileDType::u32, name));
    case FileDType::f64: {
      need_leave(FileDType::f32);
      std::size_t overflows = 0;
      Conversion out = with_note(narrowed_f64(array, name, overflows));
      if (overflows != 0) {
        *out.note += fmt::format(" ({} value{} overflowed to inf)", overflows, overflows == 1 ? "" : "s");
      }
      return out;
    }
    case FileDType::c64:
    case FileDType::c128: refuse(array, name, "save the real and imaginary parts as two arrays");
  }
  refuse(array, name, "save the array as float32");
}

}  // namespace weft::io
