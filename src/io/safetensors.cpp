// Format: https://github.com/huggingface/safetensors#format - 8 bytes of header length, JSON, data.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "io/host_array.h"
#include "io/malformed.h"
#include "io/mapping.h"
#include "io/readers.h"

namespace weft::io {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSaveAgain = "save the file again with the safetensors library";
constexpr std::size_t kLengthSize = 8;
constexpr std::size_t kMaxHeader = 100'000'000;  // the format's own limit

struct TensorEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct TensorFile {
  std::vector<TensorEntry> tensors;  ///< in the order of their data
  Memory data;
};

[[noreturn]] void fail(std::string_view name, std::string_view what) {
  malformed(name, fmt::format("bad safetensors file: {}", what), kSaveAgain);
}

/// JSON keeps the last of two equal keys; a file that has such hides a tensor, and is refused. So is deeper nesting
/// than the format has, before it takes memory.
Json parse_header(std::string_view text, std::string_view name) {
  constexpr int kMaxDepth = 3;
  std::set<std::string> seen;
  std::string twice;
  bool deep = false;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kMaxDepth) {
      deep = true;
      return false;
    }
    if (depth == 1 && event == Json::parse_event_t::key && !seen.insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  const Json header = Json::parse(text, check, /*allow_exceptions=*/false);
  if (deep || header.is_discarded() || !header.is_object()) {
    fail(name, fmt::format("its header is no JSON object of tensors: \"{}\"", printable(text, 200)));
  }
  if (!twice.empty()) fail(name, fmt::format("tensor '{}' comes twice", printable(twice, 100)));
  return header;
}

std::vector<std::uint64_t> whole_numbers(const Json& entry, const char* key, std::string_view name,
                                         std::string_view tensor) {
  const auto found = entry.find(key);
  const bool good = found != entry.end() && found->is_array() &&
                    std::all_of(found->begin(), found->end(), [](const Json& v) { return v.is_number_unsigned(); });
  if (!good) fail(name, fmt::format("tensor '{}' has no list of whole numbers '{}'", printable(tensor, 100), key));
  return found->get<std::vector<std::uint64_t>>();
}

TensorEntry parse_entry(const std::string& tensor, const Json& entry, std::uint64_t data_size, std::string_view name) {
  const auto dtype = entry.find("dtype");
  if (!entry.is_object() || dtype == entry.end() || !dtype->is_string()) {
    fail(name, fmt::format("tensor '{}' has no dtype", printable(tensor, 100)));
  }
  TensorEntry out{tensor, dtype->get<std::string>(), whole_numbers(entry, "shape", name, tensor), 0, 0};
  const auto offsets = whole_numbers(entry, "data_offsets", name, tensor);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    fail(name, fmt::format("data_offsets of tensor '{}' are no range", printable(tensor, 100)));
  }
  out.begin = offsets[0];
  out.end = offsets[1];
  if (out.end > data_size) {
    fail(name, fmt::format("truncated: tensor '{}' lies at {} to {}, the file has {} bytes of data",
                           printable(tensor, 100), out.begin, out.end, data_size));
  }
  return out;
}

TensorFile parse_file(const Memory& file, std::string_view name) {
  const std::size_t size = file.bytes.size();
  if (size < kLengthSize) fail(name, fmt::format("{} bytes are too few for a header length", size));
  const auto length = read_as<std::uint64_t>(file.bytes.data());
  if (length > size - kLengthSize) {
    fail(name, fmt::format("truncated: the header is {} bytes, the file has {} left", length, size - kLengthSize));
  }
  if (length > kMaxHeader) fail(name, fmt::format("a header of {} bytes; at most {} are allowed", length, kMaxHeader));
  const auto header_size = static_cast<std::size_t>(length);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()) + kLengthSize, header_size);
  const Json header = parse_header(text, name);

  TensorFile out;
  out.data = file.part(kLengthSize + header_size, size - kLengthSize - header_size);
  for (const auto& [tensor, entry] : header.items()) {
    if (tensor != "__metadata__") out.tensors.push_back(parse_entry(tensor, entry, out.data.bytes.size(), name));
  }
  std::sort(out.tensors.begin(), out.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  for (std::size_t i = 1; i < out.tensors.size(); ++i) {
    if (out.tensors[i].begin < out.tensors[i - 1].end) {
      fail(name, fmt::format("tensors '{}' and '{}' overlap", printable(out.tensors[i - 1].name, 100),
                             printable(out.tensors[i].name, 100)));
    }
  }
  return out;
}

std::optional<FileDType> element_type(std::string_view code) {
  struct Entry {
    std::string_view code;
    FileDType dtype;
  };
  static constexpr Entry kEntries[] = {
      {"BOOL", FileDType::bool_}, {"I8", FileDType::i8},   {"U8", FileDType::u8},     {"I16", FileDType::i16},
      {"U16", FileDType::u16},    {"I32", FileDType::i32}, {"U32", FileDType::u32},   {"I64", FileDType::i64},
      {"U64", FileDType::u64},    {"F16", FileDType::f16}, {"BF16", FileDType::bf16}, {"F32", FileDType::f32},
      {"F64", FileDType::f64},
  };
  for (const Entry& e : kEntries) {
    if (e.code == code) return e.dtype;
  }
  return std::nullopt;
}

ArrayLayout layout_of(const TensorEntry& tensor, std::string_view shown) {
  ArrayLayout layout;
  const std::optional<FileDType> dtype = element_type(tensor.dtype);
  if (!dtype) {
    unsupported(shown, fmt::format("dtype '{}' is none that Weft reads", printable(tensor.dtype, 60)),
                "save the tensor as F32 or F16");
  }
  layout.dtype = *dtype;
  if (tensor.shape.size() > kMaxRank) {
    unsupported(shown, fmt::format("an array of {} axes; Weft has at most {}", tensor.shape.size(), kMaxRank),
                fmt::format("reshape it to at most {} axes", kMaxRank));
  }
  for (std::uint64_t length : tensor.shape) {
    if (!std::in_range<std::int64_t>(length)) fail(shown, fmt::format("length {} does not fit 63 bits", length));
    layout.shape.push_back(static_cast<std::int64_t>(length));
  }
  return layout;
}

std::vector<std::string> names_of(const TensorFile& file) {
  std::vector<std::string> names;
  names.reserve(file.tensors.size());
  for (const TensorEntry& tensor : file.tensors) names.push_back(tensor.name);
  return names;
}

}  // namespace

RawArray find_safetensors(const Memory& file, std::string_view name, std::string_view tensor) {
  const TensorFile parsed = parse_file(file, name);
  const TensorEntry& chosen = parsed.tensors[choose(name, names_of(parsed), tensor)];
  const std::string shown = fmt::format("{}:{}", name, printable(chosen.name, 100));
  const ArrayLayout layout = layout_of(chosen, shown);
  const std::size_t need = data_size(layout, shown);
  if (need != chosen.end - chosen.begin) {
    fail(shown, fmt::format("shape {} of {} needs {} bytes, data_offsets give {}", to_string(layout.shape),
                            to_string(layout.dtype), need, chosen.end - chosen.begin));
  }
  return raw_array(layout, parsed.data.part(static_cast<std::size_t>(chosen.begin), need), shown);
}

HostArray read_safetensors(const Memory& file, std::string_view name, std::string_view tensor) {
  return make_array(find_safetensors(file, name, tensor));
}

std::vector<std::string> list_safetensors(const Memory& file, std::string_view name) {
  return names_of(parse_file(file, name));
}

HostArray load_safetensors(const std::filesystem::path& path, std::string_view tensor) {
  return read_safetensors(map_file(path), path.string(), tensor);
}

}  // namespace weft::io
