#include "io/host_array.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/dense_strides.h"
#include "io/malformed.h"

namespace weft::io {
namespace {

constexpr bool is_complex(FileDType t) noexcept {
  return t == FileDType::c64 || t == FileDType::c128;
}

/// Bytes of what is swapped and aligned as one: half an element for complex types.
std::size_t unit_size(FileDType t) noexcept {
  return is_complex(t) ? size_of(t) / 2 : size_of(t);
}

template <class Unit>
void swap_units(std::span<const std::byte> source, std::byte* out) {
  for (std::size_t i = 0; i < source.size(); i += sizeof(Unit)) {
    auto unit = read_as<Unit>(&source[i]);
    if constexpr (sizeof(Unit) == 2) unit = __builtin_bswap16(unit);
    if constexpr (sizeof(Unit) == 4) unit = __builtin_bswap32(unit);
    if constexpr (sizeof(Unit) == 8) unit = __builtin_bswap64(unit);
    std::memcpy(out + i, &unit, sizeof unit);
  }
}

void swap_copy(std::span<const std::byte> source, std::size_t unit, std::byte* out) {
  switch (unit) {
    case 2: return swap_units<std::uint16_t>(source, out);
    case 4: return swap_units<std::uint32_t>(source, out);
    default: return swap_units<std::uint64_t>(source, out);
  }
}

/// Whether any byte is neither 0 nor 1. Reads all of them: without an early exit the loop runs at memory speed.
bool has_other_than_0_and_1(std::span<const std::byte> bools) {
  std::byte bits{0};
  for (std::byte b : bools) bits |= b;
  return bits > std::byte{1};
}

}  // namespace

std::size_t data_size(const ArrayLayout& layout, std::string_view name) {
  auto size = static_cast<std::int64_t>(size_of(layout.dtype));
  bool empty = false;
  for (std::int64_t v : layout.shape) {
    if (v < 0) {
      malformed(name, fmt::format("shape {} has a negative length", to_string(layout.shape)),
                "save the array again with numpy");
    }
    empty = empty || v == 0;
    if (v != 0 && __builtin_mul_overflow(size, v, &size)) {
      malformed(name,
                fmt::format("shape {} of {} is too big: its size does not fit 63 bits", to_string(layout.shape),
                            to_string(layout.dtype)),
                "save the array again with numpy");
    }
  }
  return empty ? 0 : static_cast<std::size_t>(size);
}

RawArray raw_array(const ArrayLayout& layout, const Memory& data, std::string_view name) {
  const std::size_t size = data_size(layout, name);
  if (data.bytes.size() < size) {
    malformed(name, fmt::format("truncated: need {} bytes, have {}", size, data.bytes.size()),
              "write or download the file again");
  }
  return {layout, data.part(0, size), std::string(name)};
}

bool is_normal(const ArrayLayout& layout) noexcept {
  return layout.dtype != FileDType::bool_ && !(layout.big_endian && unit_size(layout.dtype) > 1);
}

void normalise(const ArrayLayout& layout, std::span<std::byte> bytes) {
  const std::size_t unit = unit_size(layout.dtype);
  if (layout.big_endian && unit > 1) swap_copy(bytes, unit, bytes.data());
  if (layout.dtype == FileDType::bool_) {
    for (std::byte& b : bytes) b = std::byte{b != std::byte{0}};
  }
}

HostArray make_array(const ArrayLayout& layout, const Memory& data, std::string_view name) {
  return make_array(raw_array(layout, data, name));
}

HostArray make_array(const RawArray& raw) {
  const ArrayLayout& layout = raw.layout;
  const std::span<const std::byte> source = raw.data.bytes;
  const std::size_t size = source.size();
  HostArray array{layout.dtype, layout.shape, dense_strides(layout.shape, layout.fortran_order), {}, nullptr, false};
  if (size == 0) return array;

  const std::size_t unit = unit_size(layout.dtype);
  const bool swap = layout.big_endian && unit > 1;
  const bool misaligned = reinterpret_cast<std::uintptr_t>(source.data()) % unit != 0;
  const bool loose_bools = layout.dtype == FileDType::bool_ && has_other_than_0_and_1(source);
  if (!swap && !misaligned && !loose_bools) {
    array.bytes = source;
    array.owner = raw.data.owner;
    array.mapped = raw.data.mapped;
    return array;
  }

  auto copy = allocate(size, raw.name);
  if (swap) {
    swap_copy(source, unit, copy.get());
  } else if (loose_bools) {
    std::transform(source.begin(), source.end(), copy.get(), [](std::byte b) { return std::byte{b != std::byte{0}}; });
  } else {
    std::copy(source.begin(), source.end(), copy.get());
  }
  array.bytes = {copy.get(), size};
  array.owner = std::move(copy);
  return array;
}

}  // namespace weft::io
