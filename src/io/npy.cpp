#include <algorithm>
#include <utility>

#include "io/host_array.h"
#include "io/mapping.h"
#include "io/npy_header.h"
#include "io/readers.h"

namespace weft::io {

RawArray find_npy(const Memory& file, std::string_view name) {
  const NpyHeader header = parse_npy_header(file.bytes, name);
  return raw_array(header.layout, file.part(header.data_offset, file.bytes.size() - header.data_offset), name);
}

HostArray read_npy(const Memory& file, std::string_view name) {
  return make_array(find_npy(file, name));
}

HostArray load_npy(const std::filesystem::path& path) {
  return read_npy(map_file(path), path.string());
}

HostArray parse_npy(std::span<const std::byte> bytes, std::string_view name) {
  HostArray array = read_npy({bytes, nullptr, false}, name);
  if (array.owner || array.bytes.empty()) return array;
  auto copy = allocate(array.bytes.size(), name);
  std::copy(array.bytes.begin(), array.bytes.end(), copy.get());
  array.bytes = {copy.get(), array.bytes.size()};
  array.owner = std::move(copy);
  return array;
}

}  // namespace weft::io
