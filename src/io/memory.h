// A stretch of host memory and what keeps it alive; and reads of numbers at any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace weft::io {

// .npy data is swapped by its own mark, but the little-endian fields of zip and safetensors are read as they lie.
static_assert(std::endian::native == std::endian::little, "weft::io reads little-endian fields without swapping");

struct Memory {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  ///< keeps `bytes` alive; copies share it
  bool mapped = false;                ///< `bytes` lie in a file mapping

  /// A part of the same memory, under the same owner. The caller has checked the bounds.
  Memory part(std::size_t offset, std::size_t length) const { return {bytes.subspan(offset, length), owner, mapped}; }
};

/// Uninitialised memory of `size` bytes, or Error{out_of_memory} that names `name`.
std::shared_ptr<std::byte[]> allocate(std::size_t size, std::string_view name);

/// The value at `at`, which needs no alignment.
template <class T>
T read_as(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace weft::io
