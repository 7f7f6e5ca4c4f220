// libFuzzer: the readers of .npy, .npz and .safetensors, then conversion and printing, on any bytes. A bad file must
// end in weft::Error; anything else (a crash, a hang, another exception) is a finding.
#include <cstdint>
#include <string>

#include "io/readers.h"
#include "weft/error.h"
#include "weft/io.h"

namespace {

using weft::io::HostArray;
using weft::io::Memory;

void use(const HostArray& array) {
  if (array.bytes.size() != static_cast<std::size_t>(element_count(array.shape)) * size_of(array.dtype))
    __builtin_trap();
  weft::io::format_array(array.dtype, array.shape, array.bytes, 100);
  const weft::io::Conversion made = weft::io::as_device_dtype(array, "fuzz", true);
  if (!device_dtype(made.array.dtype)) __builtin_trap();
  weft::io::format_array(made.array.dtype, made.array.shape, made.array.bytes, 0);
}

template <class Read>
void attempt(Read read) {
  try {
    read();
  } catch (const weft::Error&) {
    // What most inputs deserve.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const Memory file{bytes, nullptr, false};
  attempt([&] { use(weft::io::parse_npy(bytes, "fuzz.npy")); });
  attempt([&] {
    for (const std::string& name : weft::io::list_npz(file, "fuzz.npz")) {
      attempt([&] { use(weft::io::read_npz(file, "fuzz.npz", name)); });
    }
  });
  attempt([&] {
    for (const std::string& name : weft::io::list_safetensors(file, "fuzz.safetensors")) {
      attempt([&] { use(weft::io::read_safetensors(file, "fuzz.safetensors", name)); });
    }
  });
  return 0;
}
