#include "weft/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/checked.h"
#include "dispatch/params_check.h"
#include "dispatch/state.h"
#include "weft/error.h"

namespace weft {
namespace {

/// Groups on x before a one-dimensional grid is folded into rows: every WebGPU device takes 65,535, and a power of two
/// keeps `linear_index` one multiply-add.
constexpr std::uint32_t kGroupsPerRow = 32768;

const detail::KernelState& state_of(const std::shared_ptr<detail::KernelState>& state) {
  if (!state) throw Error(ErrorCode::invalid_argument, "the kernel is empty", "make it with Device::kernel");
  return *state;
}

std::string read_text(const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::io_error, fmt::format("can't read the kernel source '{}': {}", path.string(), why),
                "check the path and its permissions");
  };
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) refuse("it is a directory");
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(std::generic_category().message(errno));
  std::string text;
  try {  // a stream's buffer throws what a read of the file fails with
    text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  } catch (const std::ios_base::failure& error) {
    refuse(error.what());
  }
  if (text.empty()) refuse("it is empty");
  return text;
}

/// The line breaks that WGSL has beside line feeds (vertical tab, form feed, a lone carriage return, U+0085, U+2028,
/// U+2029) as line feeds: compilers don't agree on how they count in line numbers, and mean the same by all of them.
std::string with_line_feeds(const std::string& source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto at = [&](std::size_t k) { return k < source.size() ? static_cast<unsigned char>(source[k]) : 0u; };
    const bool lone_return = source[i] == '\r' && at(i + 1) != '\n';
    if (source[i] == '\v' || source[i] == '\f' || lone_return) {
      out += '\n';
    } else if (at(i) == 0xc2 && at(i + 1) == 0x85) {
      out += '\n';
      ++i;
    } else if (at(i) == 0xe2 && at(i + 1) == 0x80 && (at(i + 2) == 0xa8 || at(i + 2) == 0xa9)) {
      out += '\n';
      i += 2;
    } else {
      out += source[i];
    }
  }
  return out;
}

std::string names_of(const std::vector<BindingInfo>& bindings) {
  std::string out;
  for (const BindingInfo& b : bindings) out += (out.empty() ? "" : ", ") + b.name;
  return out.empty() ? "none" : out;
}

/// The scalar that a binding's elements are made of: "array<vec4<f32>>" gives "f32"; empty when it is a struct.
std::string_view scalar_of(std::string_view type) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::string_view name : {"f32", "i32", "u32", "f16"}) {  // as words: a struct may be called Pair_f32
    for (std::size_t at = 0; (at = type.find(name, at)) != std::string_view::npos; at += name.size()) {
      const std::size_t end = at + name.size();
      if ((at == 0 || !is_word(type[at - 1])) && (end == type.size() || !is_word(type[end]))) return name;
    }
  }
  if (type.starts_with("array<vec") || type.starts_with("vec")) {
    const std::size_t v = type.find("vec");
    switch (v + 4 < type.size() ? type[v + 4] : ' ') {
      case 'f': return "f32";
      case 'i': return "i32";
      case 'u': return "u32";
      case 'h': return "f16";
      default: break;
    }
  }
  return {};
}

bool fits(DType given, std::string_view scalar) {
  switch (given) {
    case DType::f32: return scalar == "f32";
    case DType::i32: return scalar == "i32";
    case DType::u32: return scalar == "u32";
    case DType::f16: return scalar == "f16" || scalar == "u32";  // two to a word
    case DType::bool_: return scalar == "u32";                   // four to a word
  }
  return false;
}

}  // namespace

namespace dispatch {
namespace {

/// Checks one operand against its binding and returns what to bind.
Operand resolve(const detail::DeviceState& device, const detail::KernelState& kernel, const BindingInfo& info,
                const BindingRange& range) {
  const auto where = [&] { return fmt::format("kernel '{}', binding '{}'", kernel.label, info.name); };
  const auto& state = range.buffer.state();
  if (!state || state->owner != device.memory->owner()) device.memory->check_owner(range.buffer, where());
  const memory::Allocation& allocation = *state->allocation;
  const Usage needed = info.uniform ? Usage::uniform : Usage::storage;
  if (!has(static_cast<Usage>(allocation.usage), needed)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: buffer {} has usage {}, without {}", where(), state->id,
                            to_string(static_cast<Usage>(allocation.usage)), to_string(needed)),
                fmt::format("allocate it with Usage::{}", to_string(needed)));
  }
  const std::uint32_t alignment = info.uniform ? device.gpu.limits().min_uniform_offset_alignment
                                               : device.gpu.limits().min_storage_offset_alignment;
  if ((range.offset & (alignment - 1)) != 0) {  // a power of two, says WebGPU
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: offset {} is not a multiple of {}", where(), range.offset, alignment),
                "bind from an aligned offset below and pass the rest as a parameter");
  }
  if (range.offset > state->size || (range.size != 0 && range.size > state->size - range.offset)) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: {} bytes from {} on of buffer {}, which has {}", where(), range.size, range.offset,
                            state->id, state->size),
                "bind a range inside the buffer");
  }
  const std::uint64_t given = range.size != 0 ? range.size : state->size - range.offset;
  // The last word is the buffer's own to its end: 3 bytes of bools are one u32 to a kernel.
  const std::uint64_t size = (given + 3) & ~std::uint64_t{3};
  if (size < info.min_size) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} bytes given, '{}' needs {}", where(), given, info.type, info.min_size),
                fmt::format("bind a buffer of at least {} bytes", info.min_size));
  }
  if (range.dtype) {
    const std::string_view scalar = scalar_of(info.type);
    if (!scalar.empty() && !fits(*range.dtype, scalar)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} given, '{}' declared", where(), to_string(*range.dtype), info.type),
                  "cast the array, or change the type in the kernel");
    }
  }
  const std::uint64_t limit =
      info.uniform ? device.gpu.limits().max_uniform_binding_size : device.gpu.limits().max_storage_binding_size;
  if (size > limit) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: {} bytes are over the device's limit of {} for one binding", where(), size, limit),
                "bind a window of the buffer, and run once per window");
  }
  return {&state, range.offset, size};
}

void check_aliasing(const detail::KernelState& kernel, std::span<const Operand> operands) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!kernel.bindings[i].writable) continue;
    for (std::size_t j = 0; j < operands.size(); ++j) {
      if (i == j || *operands[i].buffer != *operands[j].buffer) continue;
      const bool overlap = operands[i].offset < operands[j].offset + operands[j].size &&
                           operands[j].offset < operands[i].offset + operands[i].size;
      // WebGPU: one buffer is either written or only read within a dispatch; written ranges may not overlap.
      if (!kernel.bindings[j].writable || overlap) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("kernel '{}': one buffer is bound as '{}', which is written, and as '{}'", kernel.label,
                                kernel.bindings[i].name, kernel.bindings[j].name),
                    "write to another buffer, or declare one read_write binding for both");
      }
    }
  }
}

void check_grid(const detail::DeviceState& device, const detail::KernelState& kernel, Grid grid) {
  const std::uint32_t limit = device.gpu.limits().max_workgroups_per_dimension;
  if (grid.x > limit || grid.y > limit || grid.z > limit) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("kernel '{}': a grid of {} x {} x {} groups is over the limit of {} on an axis",
                            kernel.label, grid.x, grid.y, grid.z, limit),
                "use grid_for(n) with linear_index(id), or spread the groups over more axes");
  }
}

/// What an indirect dispatch reads its grid from.
Operand check_indirect(const detail::DeviceState& device, const detail::KernelState& kernel,
                       std::span<const Operand> operands, const Buffer& args, std::size_t offset) {
  constexpr std::size_t kBytes = 3 * sizeof(std::uint32_t);
  const auto where = [&] { return fmt::format("kernel '{}', indirect grid", kernel.label); };
  const auto& state = args.state();
  if (!state || state->owner != device.memory->owner()) device.memory->check_owner(args, where());
  const auto usage = static_cast<Usage>(state->allocation->usage);
  for (const Usage needed : {Usage::indirect, Usage::storage}) {
    if (has(usage, needed)) continue;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: buffer {} has usage {}, without {}", where(), state->id, to_string(usage), to_string(needed)),
        "allocate it with kDefaultUsage | Usage::indirect");
  }
  if (offset % 4 != 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: offset {} is not a multiple of 4", where(), offset),
                "put the three numbers at a multiple of 4 bytes");
  }
  if (offset > state->size || state->size - offset < kBytes) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: the {} bytes from {} on are not inside buffer {}, which has {}", where(), kBytes,
                            offset, state->id, state->size),
                "give an offset that leaves room for three u32");
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!kernel.bindings[i].writable || *operands[i].buffer != state) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: buffer {} is also bound as '{}', which is written", where(), state->id,
                            kernel.bindings[i].name),
                "keep the grid in a buffer of its own");
  }
  return {&state, offset, kBytes};
}

constexpr const char* kCheckGridSource = R"(
struct Params { at: u32, most: u32 }
@group(0) @binding(0) var<storage, read> given: array<u32>;
@group(0) @binding(1) var<storage, read_write> checked: array<u32>;
@compute @workgroup_size(1) fn main() {
  let x = given[params.at];
  let y = given[params.at + 1u];
  let z = given[params.at + 2u];
  let runs = max(x, max(y, z)) <= params.most;
  checked[0] = select(0u, x, runs);
  checked[1] = select(0u, y, runs);
  checked[2] = select(0u, z, runs);
}
)";

/// Records the copying of a grid, made 0 x 0 x 0 where it is over the device's limit. The implementation would hand it
/// to the driver, which need not end with it.
Buffer checked_grid(detail::StreamState& stream, const Operand& args) {
  detail::DeviceState& device = stream.device;
  const Kernel kernel = library_kernel(device, "check_grid", [] {
    KernelOptions o;
    o.source = kCheckGridSource;
    o.label = "weft.check_grid";
    return o;
  });
  const Buffer checked = device.memory->alloc(args.size, kDefaultUsage | Usage::indirect);
  const std::uint64_t alignment = device.gpu.limits().min_storage_offset_alignment;
  const std::uint64_t window = args.offset / alignment * alignment;
  const struct {
    std::uint32_t at, most;
  } params{static_cast<std::uint32_t>((args.offset - window) / 4), device.gpu.limits().max_workgroups_per_dimension};
  const std::array<Operand, 2> operands{Operand{args.buffer, window, args.offset + args.size - window},
                                        Operand{&checked.state(), 0, args.size}};
  record_dispatch(stream, *kernel.state(), operands, std::as_bytes(std::span(&params, 1)), Grid{});
  return checked;
}

/// Whether a value can be one of the override's type, rounded or cut to it as WebGPU does.
bool holds(std::string_view type, double value) {
  if (type == "i32") return std::trunc(value) >= -0x1p31 && std::trunc(value) < 0x1p31;
  if (type == "u32") return std::trunc(value) >= 0 && std::trunc(value) < 0x1p32;
  if (type == "f16") return std::fabs(value) < 65520;
  if (type == "f32") return std::isfinite(static_cast<float>(value));
  return true;
}

/// The values for overrides under the keys that WebGPU knows them by.
std::vector<webgpu::Constant> override_values(const Reflection& reflected, const std::vector<OverrideValue>& given,
                                              const std::string& kernel) {
  std::vector<webgpu::Constant> out;
  for (const OverrideValue& value : given) {
    if (!std::isfinite(value.value)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("kernel '{}': the override '{}' is {}", kernel, value.name, value.value),
                  "give a finite number");
    }
    const auto it =
        std::find_if(reflected.overrides.begin(), reflected.overrides.end(),
                     [&](const ReflectedOverride& o) { return o.name == value.name || o.key == value.name; });
    if (it == reflected.overrides.end()) {
      std::string names;
      for (const ReflectedOverride& o : reflected.overrides) names += (names.empty() ? "" : ", ") + o.name;
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("kernel '{}' has no override '{}'; it has {}", kernel, value.name,
                              names.empty() ? "none" : names),
                  "use the names of the WGSL source, or the numbers of their @id");
    }
    if (!holds(it->type, value.value)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("kernel '{}': the override '{}' is {}, which is not in the range of its type {}", kernel,
                              value.name, value.value, it->type),
                  "give a value that the type can hold, or declare the override with another type");
    }
    if (std::any_of(out.begin(), out.end(), [&](const webgpu::Constant& c) { return c.name == it->key; })) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("kernel '{}': the override '{}' is given twice", kernel, it->name), "give it once");
    }
    out.push_back({it->key, value.value});
  }
  for (const ReflectedOverride& o : reflected.overrides) {
    if (!o.required ||
        std::any_of(out.begin(), out.end(), [&](const webgpu::Constant& c) { return c.name == o.key; })) {
      continue;
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("kernel '{}': the override '{}' has no default, and no value is given", kernel, o.name),
                fmt::format("give '{}' in KernelOptions::overrides", o.name));
  }
  return out;
}

}  // namespace

Kernel make_kernel(detail::DeviceState& device, const KernelOptions& options, Trust trust) {
  device.gpu.check_alive("kernel");
  std::string source = options.source.empty() && !options.file.empty() ? read_text(options.file) : options.source;
  if (source.starts_with("\xef\xbb\xbf")) source.erase(0, 3);  // a byte order mark, which editors add and WGSL has not
  source = with_line_feeds(source);
  const std::string name = !options.label.empty()  ? options.label
                           : !options.file.empty() ? options.file.filename().string()
                                                   : std::string("kernel");
  const std::string shown = options.file.empty() ? name : options.file.string();
  const Reflection reflected = reflect(source, options.entry_point, options.constants, options.overrides, name);
  const Features& features = device.gpu.features();
  const Limits& limits = device.gpu.limits();

  auto state = std::make_shared<detail::KernelState>();
  state->owner = device.memory->owner();
  state->label = name;
  state->params = reflected.params;
  state->params_size = reflected.params_declared_by_user ? 0 : reflected.params_size;

  if ((reflected.uses_f16 || reflected.enables_f16) && !features.f16) {
    throw Error(ErrorCode::unsupported,
                fmt::format("kernel '{}' uses f16, which the device '{}' lacks", name, device.gpu.adapter().name),
                "use f32, or open another device");
  }
  if ((reflected.uses_subgroups || reflected.enables_subgroups) && !features.subgroups) {
    throw Error(ErrorCode::unsupported,
                fmt::format("kernel '{}' uses subgroups, which the device '{}' lacks", name, device.gpu.adapter().name),
                "write it with workgroup memory, or open another device");
  }
  if (reflected.enables_subgroup_matrices && features.subgroup_matrices.empty()) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("kernel '{}' uses subgroup matrices, which the device '{}' lacks", name, device.gpu.adapter().name),
        "multiply without them, or open another device (Dawn has them where the GPU does)");
  }
  if (trust == Trust::user && device.gpu.library_kernels_only()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("kernel '{}': this device runs the library's kernels only, without bounds checks", name),
                "open the device without library_kernels_only");
  }

  PipelineKey key;
  key.entry_point = options.entry_point;
  key.trusted = trust == Trust::library;
  std::size_t storage_count = 0;
  for (const ReflectedBinding& b : reflected.bindings) {
    if (!b.used) {
      state->unused_bindings.push_back(b.info.name);
      continue;
    }
    if (b.group != 0) {
      throw Error(
          ErrorCode::unsupported,
          fmt::format("kernel '{}': '{}' is in @group({}), and Weft binds group 0 only", name, b.info.name, b.group),
          "put all bindings into @group(0)");
    }
    storage_count += b.info.uniform ? 0 : 1;
    state->bindings.push_back(b.info);
    key.entries.push_back({b.info.binding,
                           b.info.uniform    ? webgpu::BindingType::uniform
                           : b.info.writable ? webgpu::BindingType::storage
                                             : webgpu::BindingType::read_only_storage,
                           b.info.min_size});
  }
  if (storage_count > limits.max_storage_buffers) {
    throw Error(ErrorCode::unsupported,
                fmt::format("kernel '{}' binds {} storage buffers, and the device takes {}", name, storage_count,
                            limits.max_storage_buffers),
                "put several arrays into one buffer");
  }
  std::uint64_t invocations = 1;
  const std::array<std::uint32_t, 3> most{limits.max_workgroup_size_x, limits.max_workgroup_size_y,
                                          limits.max_workgroup_size_z};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::uint32_t n = reflected.workgroup_size[axis].value_or(0);
    state->workgroup_size[axis] = n;
    if (n > 0) invocations *= n;
    if (n > most[axis] || invocations > limits.max_workgroup_invocations) {
      throw Error(
          ErrorCode::compile_error,
          fmt::format("kernel '{}': @workgroup_size({}, {}, {}) is over the device's limits of {} x {} x {} and {} "
                      "in all",
                      name, reflected.workgroup_size_text[0], reflected.workgroup_size_text[1],
                      reflected.workgroup_size_text[2], most[0], most[1], most[2], limits.max_workgroup_invocations),
          "use a smaller workgroup");
    }
  }

  if (reflected.workgroup_storage > limits.max_workgroup_storage) {
    throw Error(ErrorCode::compile_error,
                fmt::format("kernel '{}': its workgroup variables take {} bytes, over the device's limit of {}", name,
                            reflected.workgroup_storage, limits.max_workgroup_storage),
                "use smaller arrays, or work in more steps");
  }

  key.constants = override_values(reflected, options.overrides, name);
  if (!reflected.unknown_size.empty()) {
    throw Error(
        ErrorCode::compile_error,
        fmt::format("kernel '{}': '{}' depends on an override, and has no size from 1 up that Weft can work out "
                    "to hold against the device's limits",
                    name, reflected.unknown_size),
        "make the override an i32 or u32, and the size of it by + - * / %, min and max");
  }

  ParamsVia declared = ParamsVia::none;  // also where another entry point alone needs them
  if (reflected.params_size > 0 && reflected.names_params && !reflected.params_declared_by_user) {
    const bool immediates =
        features.immediates && reflected.params_scalars_only && reflected.params_size <= limits.max_immediate_size;
    declared = immediates ? ParamsVia::immediates : ParamsVia::uniform;
    if (reflected.uses_params) state->params_via = declared;
  }

  // Directives must stand first; everything else goes behind the user's text, so that his line numbers stay his.
  std::string directives;
  if (reflected.uses_f16 && !reflected.enables_f16) directives += "enable f16;";
  if (reflected.uses_subgroups && !reflected.enables_subgroups) directives += webgpu::subgroups_directive();
  if (declared == ParamsVia::immediates) directives += webgpu::immediates_directive();
  const std::size_t injected_lines = directives.empty() ? 0 : 1;
  if (injected_lines > 0) directives += '\n';

  std::string prelude = "\n";
  for (const PreludeConstant& c : options.constants) {
    // The semicolon on a line of its own: the value may end in a comment.
    prelude += c.type == "alias" ? fmt::format("alias {} = {}\n;\n", c.name, c.value)
                                 : fmt::format("const {}: {} = {}\n;\n", c.name, c.type, c.value);
  }
  if (declared == ParamsVia::immediates) prelude += "var<immediate> params: Params;\n";
  if (declared == ParamsVia::uniform) prelude += "@group(1) @binding(0) var<uniform> params: Params;\n";
  if (reflected.names_linear_index && !reflected.declares_linear_index) {
    prelude += fmt::format("fn linear_index(id: vec3u) -> u32 {{ return id.x + id.y * ({}u * u32({})); }}\n",
                           kGroupsPerRow, reflected.workgroup_size_text[0]);
  }
  std::string text = source;
  if (webgpu::subgroups_directive().empty()) {  // the compiler knows the builtins, but not the directive
    for (const auto& [begin, end] : reflected.subgroups_directive) text.replace(begin, end - begin, end - begin, ' ');
  }
  key.code = directives + text + prelude;
  key.params = state->params_via;
  key.params_size = state->params_via == ParamsVia::none ? 0 : state->params_size;

  try {
    state->pipeline = device.pipelines.get_or_compile(key, name);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::compile_error) throw;
    throw explain_compile_error(error, {key.code, injected_lines, source}, shown);
  }
  return Kernel(std::move(state));
}

}  // namespace dispatch

const std::string& Kernel::label() const {
  return state_of(state_).label;
}
const std::vector<BindingInfo>& Kernel::bindings() const {
  return state_of(state_).bindings;
}
const std::vector<ParamInfo>& Kernel::params() const {
  return state_of(state_).params;
}
std::uint32_t Kernel::params_size() const {
  return state_of(state_).params_size;
}
std::array<std::uint32_t, 3> Kernel::workgroup_size() const {
  return state_of(state_).workgroup_size;
}

Grid Kernel::grid(GridFor n) const {
  const detail::KernelState& k = state_of(state_);
  if (k.workgroup_size[0] == 0 || k.workgroup_size[1] != 1 || k.workgroup_size[2] != 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("kernel '{}': grid_for needs a workgroup of known size on one axis", k.label),
                "give the grid in groups");
  }
  const std::uint64_t groups = ceil_div(n.elements, k.workgroup_size[0]);
  if (groups <= kGroupsPerRow) return {static_cast<std::uint32_t>(groups), 1, 1};
  const std::uint64_t rows = ceil_div(groups, kGroupsPerRow);
  // Whole rows, so that no thread behind the last element wraps round to an index in front.
  const std::uint64_t row = std::uint64_t{kGroupsPerRow} * k.workgroup_size[0];
  const std::uint64_t most = std::min<std::uint64_t>((std::uint64_t{1} << 32) / row, 65535) * row;
  if (n.elements > std::min<std::uint64_t>(most, UINT32_MAX)) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("kernel '{}': {} elements are over {}, the most that one dispatch of it can index", k.label,
                            n.elements, std::min<std::uint64_t>(most, UINT32_MAX)),
                "run it once per slice of the array");
  }
  return {kGroupsPerRow, static_cast<std::uint32_t>(rows), 1};
}

namespace {

/// What one call comes to once all of it is checked.
struct Call {
  detail::StreamState* stream = nullptr;
  std::array<dispatch::Operand, dispatch::kMostOperands> operands;
  std::array<std::byte, 256> padded;  // filled when used
  std::span<const std::byte> params;
};

/// Fills `call`; returns its operands.
std::span<const dispatch::Operand> check_call(Call& call, const detail::KernelState& k, const Stream& stream,
                                              std::span<const BindingRange> bindings,
                                              std::span<const std::byte> params) {
  if (!stream.state()) throw Error(ErrorCode::invalid_argument, "the stream is empty", "take one from Device::stream");
  detail::StreamState& s = *stream.state();
  call.stream = &s;
  if (k.owner != s.device.memory->owner()) {
    throw Error(ErrorCode::foreign_buffer,
                fmt::format("kernel '{}' is owned by device {}, and the stream by device {}", k.label, k.owner,
                            s.device.memory->owner()),
                "make the kernel with the device that runs it");
  }
  if (bindings.size() != k.bindings.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("kernel '{}': {} buffers given for {} bindings ({})", k.label, bindings.size(),
                            k.bindings.size(), names_of(k.bindings)),
                "bind each of them once");
  }
  if (bindings.size() > call.operands.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("kernel '{}': more than {} bindings", k.label, call.operands.size()),
                "put several arrays into one buffer");
  }
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    call.operands[i] = dispatch::resolve(s.device, k, k.bindings[i], bindings[i]);
  }
  const std::span<const dispatch::Operand> used(call.operands.data(), bindings.size());
  dispatch::check_aliasing(k, used);

  const bool unused = params.empty() && k.params_via == dispatch::ParamsVia::none;
  if (params.size() != k.params_size && !unused) {
    // What may be left out is padding behind the last member.
    const std::size_t values = k.params.empty() ? 0 : k.params.back().offset + k.params.back().size;
    if (params.size() > k.params_size || params.size() < values || k.params_size > call.padded.size()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("kernel '{}': {} bytes of parameters given, 'struct Params {{ {} }}' has {}", k.label,
                              params.size(), dispatch::params_text(k), k.params_size),
                  "pass a struct with the same members, or values for all of them");
    }
    call.padded.fill(std::byte{0});
    std::memcpy(call.padded.data(), params.data(), params.size());
    params = std::span(call.padded).first(k.params_size);
  }
  call.params = params;
  return used;
}

/// The ranges in the order of the kernel's bindings.
std::vector<BindingRange> in_order(const detail::KernelState& k, std::span<const NamedBinding> bindings) {
  std::vector<BindingRange> ordered(k.bindings.size());
  std::bitset<dispatch::kMostOperands> given;
  for (const NamedBinding& b : bindings) {
    const auto it =
        std::find_if(k.bindings.begin(), k.bindings.end(), [&](const BindingInfo& i) { return i.name == b.name; });
    if (it == k.bindings.end()) {
      const auto& unused = k.unused_bindings;
      if (std::find(unused.begin(), unused.end(), b.name) != unused.end()) continue;  // declared, and not used
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("kernel '{}' has no binding '{}'; it has {}", k.label, b.name, names_of(k.bindings)),
                  "use the names of the WGSL source");
    }
    const auto i = static_cast<std::size_t>(it - k.bindings.begin());
    if (given[i]) {
      throw Error(ErrorCode::invalid_argument, fmt::format("kernel '{}': binding '{}' is given twice", k.label, b.name),
                  "give it once");
    }
    given[i] = true;
    ordered[i] = b.range;
  }
  for (std::size_t i = 0; i < k.bindings.size(); ++i) {
    if (given[i]) continue;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("kernel '{}': nothing is bound to '{}' ({})", k.label, k.bindings[i].name, k.bindings[i].type),
        fmt::format("bind a buffer by the name '{}'", k.bindings[i].name));
  }
  return ordered;
}

/// Elements of the first written runtime array.
GridFor output_elements(const detail::KernelState& k, std::span<const BindingRange> ordered) {
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (!k.bindings[i].writable || k.bindings[i].element_size == 0) continue;
    const BindingRange& range = ordered[i];
    const std::uint64_t size = range.buffer ? range.buffer.size() : 0;
    const std::uint64_t bytes = range.size != 0 ? range.size : size - std::min<std::uint64_t>(range.offset, size);
    return grid_for((bytes + 3) / 4 * 4 / k.bindings[i].element_size);  // what arrayLength sees
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("kernel '{}': it writes no runtime-sized array to count threads by; it binds {}", k.label,
                          names_of(k.bindings)),
              "give the grid, or grid_for(n)");
}

}  // namespace

void Kernel::check_params(const ParamStruct& given) const {
  const detail::KernelState& k = state_of(state_);
  if (k.checked_params.contains(&given)) return;
  dispatch::check_params(k, given);
  k.checked_params.add(&given);
}

void Kernel::dispatch(const Stream& stream, std::span<const BindingRange> bindings, std::span<const std::byte> params,
                      Grid grid) const {
  const detail::KernelState& k = state_of(state_);
  Call call;
  const auto operands = check_call(call, k, stream, bindings, params);
  dispatch::check_grid(call.stream->device, k, grid);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  dispatch::record_dispatch(*call.stream, k, operands, call.params, grid);
}

void Kernel::dispatch_indirect(const Stream& stream, std::span<const BindingRange> bindings,
                               std::span<const std::byte> params, const Buffer& args, std::size_t offset) const {
  const detail::KernelState& k = state_of(state_);
  Call call;
  const auto operands = check_call(call, k, stream, bindings, params);
  dispatch::Operand grid = dispatch::check_indirect(call.stream->device, k, operands, args, offset);
  Buffer checked;
  if (!webgpu::checks_indirect_grids()) {
    if (call.stream->capturing.load(std::memory_order_relaxed)) dispatch::refuse_indirect_capture(k);
    checked = dispatch::checked_grid(*call.stream, grid);
    grid = {&checked.state(), 0, grid.size};
  }
  dispatch::record_indirect(*call.stream, k, operands, call.params, grid);
}

void Kernel::dispatch_indirect(const Stream& stream, std::span<const NamedBinding> bindings,
                               std::span<const std::byte> params, const Buffer& args, std::size_t offset) const {
  dispatch_indirect(stream, in_order(state_of(state_), bindings), params, args, offset);
}

void Kernel::operator()(const Stream& stream, std::span<const NamedBinding> bindings, std::span<const std::byte> params,
                        Grid grid) const {
  dispatch(stream, in_order(state_of(state_), bindings), params, grid);
}

void Kernel::operator()(const Stream& stream, std::span<const NamedBinding> bindings, std::span<const std::byte> params,
                        GridFor n) const {
  (*this)(stream, bindings, params, grid(n));
}

void Kernel::operator()(const Stream& stream, std::span<const NamedBinding> bindings, std::span<const std::byte> params,
                        GridAuto) const {
  const detail::KernelState& k = state_of(state_);
  const std::vector<BindingRange> ordered = in_order(k, bindings);
  dispatch(stream, ordered, params, grid(output_elements(k, ordered)));
}

}  // namespace weft
