// The readers over memory: what the public functions call on a mapped file, and fuzzers call on their bytes. `name` is
// the file as shown in messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/host_array.h"
#include "io/memory.h"
#include "weft/io.h"

namespace weft::io {

RawArray find_npy(const Memory& file, std::string_view name);
RawArray find_npz(const Memory& file, std::string_view name, std::string_view member);
RawArray find_safetensors(const Memory& file, std::string_view name, std::string_view tensor);

HostArray read_npy(const Memory& file, std::string_view name);
HostArray read_npz(const Memory& file, std::string_view name, std::string_view member);
std::vector<std::string> list_npz(const Memory& file, std::string_view name);
HostArray read_safetensors(const Memory& file, std::string_view name, std::string_view tensor);
std::vector<std::string> list_safetensors(const Memory& file, std::string_view name);

}  // namespace weft::io
