#include "io/memory.h"

#include <fmt/format.h>

#include <new>

#include "weft/error.h"

namespace weft::io {

std::shared_ptr<std::byte[]> allocate(std::size_t size, std::string_view name) {
  try {
    return std::make_shared_for_overwrite<std::byte[]>(size);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, fmt::format("{}: no room for {} bytes of host memory", name, size),
                "free memory or split the array");
  }
}

}  // namespace weft::io
