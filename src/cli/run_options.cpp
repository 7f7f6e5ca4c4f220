#include "cli/run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "base/refuse.h"
#include "cli/arrays.h"
#include "dispatch/wgsl_module.h"
#include "expr/names.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> out;
  for (;;) {
    const std::size_t end = text.find(at);
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t n = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), n);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size()) return std::nullopt;
  return n;
}

template <typename T>
void append(std::vector<std::byte>& bytes, T v) {
  const auto* p = reinterpret_cast<const std::byte*>(&v);
  bytes.insert(bytes.end(), p, p + sizeof v);
}

/// The scalar and the count of a type such as "f32", "vec3<u32>", "vec2f".
struct ScalarType {
  std::string_view scalar;
  std::size_t count = 1;
};
std::optional<ScalarType> scalar_type(std::string_view type) {
  static constexpr std::string_view kScalars[] = {"f32", "i32", "u32", "f16"};
  static constexpr std::string_view kLetters = "fiuh";
  for (std::string_view s : kScalars) {
    if (type == s) return ScalarType{s, 1};
  }
  if (!type.starts_with("vec") || type.size() < 5 || type[3] < '2' || type[3] > '4') return std::nullopt;
  const auto count = static_cast<std::size_t>(type[3] - '0');
  const std::string_view rest = type.substr(4);
  for (std::size_t i = 0; i < std::size(kScalars); ++i) {
    if (rest == kLetters.substr(i, 1) || (rest.size() == 5 && rest.substr(1, 3) == kScalars[i])) {
      return ScalarType{kScalars[i], count};
    }
  }
  return std::nullopt;
}

void append_number(std::vector<std::byte>& bytes, std::string_view scalar, std::string_view text,
                   const ParamInfo& param) {
  const auto number = parse_number(text);
  const auto misfit = [&](std::string fix) {
    return Error(ErrorCode::invalid_argument, fmt::format("--param {}: '{}' is no {}", param.name, text, scalar),
                 std::move(fix));
  };
  if (!number) throw misfit("give a number");
  const std::int64_t* integer = std::get_if<std::int64_t>(&number->value);
  const double real = std::visit([](auto v) { return static_cast<double>(v); }, number->value);
  if (scalar == "f32") {
    if (std::isinf(static_cast<float>(real))) throw misfit("give a number up to 3.4e38");
    return append(bytes, static_cast<float>(real));
  }
  if (scalar == "f16") {
    const float16 half(static_cast<float>(real));
    if (std::isinf(static_cast<float>(half))) throw misfit("give a number up to 65504");
    return append(bytes, half);
  }
  if (integer == nullptr) throw misfit("give a whole number");
  if (scalar == "u32") {
    if (!std::in_range<std::uint32_t>(*integer)) throw misfit("give a number from 0 to 4294967295");
    return append(bytes, static_cast<std::uint32_t>(*integer));
  }
  if (!std::in_range<std::int32_t>(*integer)) throw misfit("give a number from -2147483648 to 2147483647");
  append(bytes, static_cast<std::int32_t>(*integer));
}

bool declares_override(const dispatch::WgslModule& module, std::string_view name) {
  return std::any_of(module.declarations.begin(), module.declarations.end(), [&](const auto& d) {
    return d.kind == dispatch::WgslDeclarationKind::override_ && d.name == name;
  });
}

/// Beyond ASCII, what the compiler takes for a letter.
bool is_identifier(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) > 0x7f;
  };
  const auto is_inside = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), is_inside);
}

}  // namespace

std::string list_of(std::span<const std::string> names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " and " : ", ";
    out += names[i];
  }
  return out.empty() ? "none" : out;
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  const auto near = expr::nearest(name, views);
  return near ? fmt::format(" (did you mean '{}'?)", *near) : std::string();
}

OutputArray parse_output_array(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3 || parts[0].empty()) {
    refuse(fmt::format("--out {}: not of the form NAME:DTYPE:SHAPE", text), "write, for example, z:float32:1024,1024");
  }
  const auto dtype = parse_dtype(parts[1]);
  if (!dtype) {
    refuse(fmt::format("--out {}: '{}' is no type that devices compute with", text, parts[1]),
           "use float32, float16, int32, uint32 or bool");
  }
  OutputArray out{parts[0], *dtype, {}};
  if (parts[2].empty()) return out;
  for (const std::string& length : split(parts[2], ',')) {
    const auto n = parse_integer(length);
    if (!n || *n < 0) {
      refuse(fmt::format("--out {}: '{}' is no length", text, length), "write the lengths with commas: 1024,1024");
    }
    out.shape.push_back(*n);
  }
  element_count(out.shape);
  return out;
}

std::optional<Grid> parse_groups(const std::string& text) {
  if (text == "auto") return std::nullopt;
  const std::vector<std::string> parts = split(text, ',');
  Grid grid;
  std::uint32_t* axes[] = {&grid.x, &grid.y, &grid.z};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto n = parse_integer(parts[i]);
    if (i >= 3 || !n || *n < 1 || !std::in_range<std::uint32_t>(*n)) {
      refuse(fmt::format("--groups {}: not auto, nor one to three numbers from 1", text), "write, for example, 64,64");
    }
    *axes[i] = static_cast<std::uint32_t>(*n);
  }
  return grid;
}

void add_constants(const std::vector<std::string>& settings, std::string_view source, KernelOptions& to) {
  if (settings.empty()) return;
  const dispatch::WgslModule module = dispatch::parse_wgsl(source, {}, to.label);
  std::vector<std::string> seen;
  for (const std::string& setting : settings) {
    const auto [name, value] = split_assignment(setting, "NAME=VALUE");
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      refuse(fmt::format("--set {}: given twice", name), "give each name once");
    }
    seen.push_back(name);
    if (!is_identifier(name)) {
      refuse(fmt::format("--set {}: not a name that WGSL has", name), "use letters, digits and underscores");
    }
    const bool is_bool = value == "true" || value == "false";
    const auto number = parse_number(value);
    if (!number && !is_bool) {
      refuse(fmt::format("--set {}: '{}' is neither a number nor true or false", name, value), "give a number");
    }
    if (declares_override(module, name)) {
      const double real = is_bool ? (value == "true" ? 1.0 : 0.0)
                                  : std::visit([](auto v) { return static_cast<double>(v); }, number->value);
      if (std::fabs(real) > std::numeric_limits<float>::max()) {
        refuse(fmt::format("--set {}: {} does not fit f32", name, value), "give a smaller number");
      }
      to.overrides.push_back({name, real});
      continue;
    }
    if (module.find(name) != nullptr) {
      refuse(fmt::format("--set {}: the source declares {} itself", name, name),
             fmt::format("take its declaration out, or make it 'override {}'", name));
    }
    if (is_bool) {
      to.constants.push_back({name, "bool", value});
      continue;
    }
    const std::int64_t* integer = std::get_if<std::int64_t>(&number->value);
    if (integer == nullptr) {
      const double real = std::get<double>(number->value);
      if (std::fabs(real) > std::numeric_limits<float>::max()) {
        refuse(fmt::format("--set {}: {} does not fit f32", name, value), "give a smaller number");
      }
      to.constants.push_back({name, "f32", fmt::format("{:.9e}f", static_cast<float>(real))});
    } else if (*integer >= 0) {
      if (!std::in_range<std::uint32_t>(*integer)) {
        refuse(fmt::format("--set {}: {} does not fit u32", name, value), "give a number up to 4294967295");
      }
      to.constants.push_back({name, "u32", fmt::format("{}u", *integer)});
    } else {
      if (!std::in_range<std::int32_t>(*integer)) {
        refuse(fmt::format("--set {}: {} does not fit i32", name, value), "give a number from -2147483648");
      }
      to.constants.push_back({name, "i32", fmt::format("i32({})", *integer)});
    }
  }
}

std::vector<std::byte> pack_params(const std::vector<std::string>& settings, std::span<const ParamInfo> params,
                                   std::uint32_t size) {
  std::vector<std::string> names;
  for (const ParamInfo& p : params) names.push_back(p.name);
  std::map<std::string, std::string> values;
  for (const std::string& setting : settings) {
    const auto [name, value] = split_assignment(setting, "name=value");
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      refuse(params.empty() ? fmt::format("--param {}: the source has no 'struct Params'", name)
                            : fmt::format("--param {}: 'struct Params' has no such member{}; it has {}", name,
                                          suggestion(name, names), list_of(names)),
             params.empty() ? "declare 'struct Params' in the source and read params." + name
                            : std::string("use the names of the source"));
    }
    if (!values.emplace(name, value).second) refuse(fmt::format("--param {}: given twice", name), "give it once");
  }
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (!values.contains(name)) missing.push_back(name);
  }
  if (!missing.empty()) {
    refuse(fmt::format("no value for {} of 'struct Params'", list_of(missing)),
           fmt::format("add --param {}=VALUE", missing.front()));
  }
  std::vector<std::byte> out(size);
  for (const ParamInfo& param : params) {
    const auto type = scalar_type(param.type);
    if (!type) {
      throw Error(ErrorCode::unsupported, fmt::format("--param {}: a '{}' can't be given here", param.name, param.type),
                  "use scalars and vectors in 'struct Params', or pass an array");
    }
    const std::vector<std::string> parts = split(values.at(param.name), ',');
    if (parts.size() != type->count) {
      refuse(fmt::format("--param {}: {} number{} given for a '{}'", param.name, parts.size(),
                         parts.size() == 1 ? "" : "s", param.type),
             fmt::format("give {}, with commas", type->count));
    }
    std::vector<std::byte> bytes;
    for (const std::string& part : parts) append_number(bytes, type->scalar, part, param);
    std::memcpy(&out[param.offset], bytes.data(), bytes.size());
  }
  return out;
}

}  // namespace weft::cli
