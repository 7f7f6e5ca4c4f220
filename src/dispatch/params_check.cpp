#include "dispatch/params_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "dispatch/state.h"
#include "weft/error.h"

namespace weft::dispatch {
namespace {

/// One scalar of a member, by the member's place in its struct.
struct Scalar {
  std::uint32_t offset = 0;
  ParamScalar kind = ParamScalar::unknown;
  std::size_t member = 0;
};

std::uint32_t bytes_of(ParamScalar kind) noexcept {
  return kind == ParamScalar::half ? 2 : 4;
}

std::string_view name_of(const ParamMember& m) noexcept {
  switch (m.scalar) {
    case ParamScalar::single: return "float";
    case ParamScalar::sint: return "int32";
    case ParamScalar::uint: return "uint32";
    case ParamScalar::half: return "float16";
    case ParamScalar::boolean: return "bool";
    case ParamScalar::other: return "a number without a counterpart in WGSL";
    case ParamScalar::unknown: break;
  }
  return "a class";
}

std::string described(const ParamMember& m) {
  if (m.count > 1) return fmt::format("{} x {}", m.count, name_of(m));
  if (m.scalar == ParamScalar::other || m.scalar == ParamScalar::unknown) {
    return fmt::format("{} of {} bytes", name_of(m), m.size);
  }
  return std::string(name_of(m));
}

ParamScalar scalar_named(std::string_view name) noexcept {
  if (name == "f32" || name == "f") return ParamScalar::single;
  if (name == "i32" || name == "i") return ParamScalar::sint;
  if (name == "u32" || name == "u") return ParamScalar::uint;
  if (name == "f16" || name == "h") return ParamScalar::half;
  return ParamScalar::unknown;
}

/// The scalars of one member of `struct Params`; of an array or a structure only the first place, of unknown kind.
void append_scalars(std::vector<Scalar>& out, const ParamInfo& info, std::size_t member) {
  const std::string_view type = info.type;
  std::uint32_t columns = 1;
  std::uint32_t rows = 1;
  ParamScalar kind = scalar_named(type);
  const bool matrix = type.starts_with("mat");
  if (matrix || type.starts_with("vec")) {
    const std::size_t digits = matrix ? 3 : 1;
    std::string_view rest = type.substr(std::min(type.size(), 3 + digits));
    if (rest.starts_with('<') && rest.ends_with('>')) rest = rest.substr(1, rest.size() - 2);
    kind = scalar_named(rest);
    if (matrix) columns = static_cast<std::uint32_t>(type[3] - '0');
    rows = static_cast<std::uint32_t>(type[matrix ? 5 : 3] - '0');
  }
  if (kind == ParamScalar::unknown) {
    out.push_back({info.offset, kind, member});
    return;
  }
  const std::uint32_t stride = info.size / columns;
  for (std::uint32_t c = 0; c < columns; ++c) {
    for (std::uint32_t r = 0; r < rows; ++r)
      out.push_back({info.offset + c * stride + r * bytes_of(kind), kind, member});
  }
}

[[noreturn]] void refuse(const detail::KernelState& kernel, const ParamStruct& given, const Scalar& wanted) {
  const ParamInfo& info = kernel.params[wanted.member];
  const std::string field = fmt::format("'{}' of struct Params is {} at byte {}", info.name, info.type, info.offset);
  // The member that lies there, or the first one behind.
  std::size_t i = 0;
  while (i < given.count && given.members[i].offset + given.members[i].size <= wanted.offset) ++i;
  std::string fix =
      fmt::format("declare the C++ members at the bytes and with the types of {{ {} }}", params_text(kernel));
  if (info.type.starts_with("vec3") || info.type.starts_with("vec4")) fix += ", vec3 and vec4 with alignas(16)";
  if (i == given.count) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("kernel '{}': the C++ struct of {} bytes has no member at byte {}, and {}", kernel.label,
                            given.size, wanted.offset, field),
                fix);
  }
  const ParamMember& m = given.members[i];
  if (m.scalar == ParamScalar::boolean) fix = fmt::format("declare member {} as std::uint32_t", i);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("kernel '{}': member {} of the C++ struct is {} at byte {}, and {}", kernel.label, i,
                          described(m), m.offset, field),
              fix);
}

}  // namespace

std::string params_text(const detail::KernelState& kernel) {
  std::string out;
  for (const ParamInfo& p : kernel.params) {
    out += fmt::format("{}{}: {} at byte {}", out.empty() ? "" : ", ", p.name, p.type, p.offset);
  }
  return out;
}

void check_params(const detail::KernelState& kernel, const ParamStruct& given) {
  if (!given.known || kernel.params_size == 0) return;
  std::vector<Scalar> wanted;
  for (std::size_t i = 0; i < kernel.params.size(); ++i) append_scalars(wanted, kernel.params[i], i);
  for (const Scalar& w : wanted) {
    const auto* end = given.members.data() + given.count;
    const auto* m = std::find_if(given.members.data(), end, [&](const ParamMember& member) {
      return w.offset >= member.offset && w.offset < member.offset + member.size;
    });
    if (m == end) refuse(kernel, given, w);
    const std::uint32_t inside = w.offset - m->offset;
    if (m->scalar == ParamScalar::unknown || w.kind == ParamScalar::unknown) {
      // One side can't be looked into: a member that begins where the other does is all there is to see.
      if (inside != 0 && w.kind == ParamScalar::unknown) refuse(kernel, given, w);
      continue;
    }
    const bool on_scalar = inside % bytes_of(m->scalar) == 0 && inside / bytes_of(m->scalar) < m->count;
    if (m->scalar != w.kind || !on_scalar) refuse(kernel, given, w);
  }
}

}  // namespace weft::dispatch
