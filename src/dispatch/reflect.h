// What a WGSL source declares, read from its text. Needs no device.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/kernel.h"

namespace weft::dispatch {

/// One `@group(G) @binding(B) var<...> name: type;`.
struct ReflectedBinding {
  BindingInfo info;  ///< as public; info.min_size from the layout rules of WGSL (section "Memory Layout")
  std::uint32_t group = 0;
  bool used = false;  ///< the entry point, or a function it calls, names it
};

/// One `override NAME`. WebGPU knows it by `key`: the name, or the decimal number of its @id.
struct ReflectedOverride {
  std::string name;
  std::string key;
  std::string type;       ///< f32, i32, u32, bool or f16; empty where only the compiler knows
  bool required = false;  ///< has no default, and the entry point, or a function it calls, names it
};

/// What the compiler of Weft needs to know about a module.
struct Reflection {
  std::vector<ReflectedBinding> bindings;  ///< sorted by (group, binding)
  /// `struct Params`: size rounded up to its alignment; empty when there is none. `params_declared_by_user` is true
  /// when the source declares its own variable `params` (then the runtime adds none and binds it like any other).
  std::vector<ParamInfo> params;
  std::uint32_t params_size = 0;
  bool params_scalars_only = false;  ///< every member is a scalar or vector of f32, i32 or u32: fit for immediates
  bool params_declared_by_user = false;
  bool uses_params = false;         ///< the entry point, or a function it calls, names `params`
  bool uses_linear_index = false;   ///< likewise `linear_index`
  bool names_params = false;        ///< any function does: then the module compiles only with it
  bool names_linear_index = false;  ///< likewise
  bool declares_linear_index = false;
  /// The text of the entry point's @workgroup_size arguments, blanks trimmed; "1" where left out.
  std::array<std::string, 3> workgroup_size_text{"1", "1", "1"};
  /// The same as numbers where they can be worked out: literals (8, 8u, 0x8), module `const`s, `override`s with a known
  /// value or default, prelude constants, and + - * / % and parentheses of these.
  std::array<std::optional<std::uint32_t>, 3> workgroup_size;
  std::vector<ReflectedOverride> overrides;  ///< all, in the order of the source
  bool enables_f16 = false;                  ///< `enable f16;`
  bool enables_subgroups = false;
  /// The bytes of the source, from and to, without which `subgroups` is enabled nowhere and all else as before.
  std::vector<std::pair<std::size_t, std::size_t>> subgroups_directive;
  bool enables_subgroup_matrices = false;  ///< `enable chromium_experimental_subgroup_matrix;`
  bool uses_f16 = false;                   ///< names f16, vec2h..., mat...h anywhere
  bool uses_subgroups = false;             ///< names a subgroup* builtin anywhere
  /// What the entry point's var<workgroup>s take as WebGPU counts them: each rounded up to 16 bytes. Those whose length
  /// can't be worked out are left to the compiler.
  std::uint64_t workgroup_storage = 0;
  /// Of these two, the text of what depends on an override and can't be worked out here: the @workgroup_size, or a
  /// var<workgroup>. wgpu-native checks neither against its limits once overrides have their values.
  std::string unknown_size;
  std::vector<std::string> entry_points;  ///< all @compute functions
};

/// Reads `source`. Comments (nested too) and strings of attributes are understood; whatever the real compiler will
/// refuse later may pass here, but what this returns is right for every source that the compiler accepts. `constants`
/// and `overrides` are the prelude and override values, for array lengths and workgroup sizes. Throws
/// Error{compile_error}, with line and column, when: the entry point is missing (the message lists those there are), a
/// binding lacks its group or binding, two that the entry point uses share one, a variable is an immediate (the runtime
/// declares `params`), a workgroup size is below 1, an @id is no known number, a type of a binding or of Params can't
/// be laid out (naming it), or a resource is not a buffer (textures and samplers: unsupported).
Reflection reflect(std::string_view source, std::string_view entry_point, const std::vector<PreludeConstant>& constants,
                   const std::vector<OverrideValue>& overrides, std::string_view label);

}  // namespace weft::dispatch
