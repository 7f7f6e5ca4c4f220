// The declarations of a WGSL text, as far as a host needs them: expressions and bodies stay tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dispatch/wgsl_lexer.h"
#include "weft/kernel.h"

namespace weft::dispatch {

struct WgslAttribute {
  std::string_view name;
  std::size_t token = 0;  ///< of the name
  WgslRange arguments;    ///< between the parentheses
};

struct WgslMember {
  std::string_view name;
  std::size_t token = 0;
  std::vector<WgslAttribute> attributes;
  WgslRange type;
};

enum class WgslDeclarationKind : std::uint8_t { constant, override_, alias, structure, variable, function };

/// What does not belong to the kind is empty.
struct WgslDeclaration {
  WgslDeclarationKind kind;
  std::string_view name;
  std::size_t token = 0;  ///< of the name
  std::vector<WgslAttribute> attributes;
  WgslRange type;                            ///< as declared, or what an alias stands for
  WgslRange value;                           ///< of a constant or an override
  std::string_view address_space;            ///< of a variable; empty for textures and samplers
  std::string_view access;                   ///< of a variable
  std::vector<WgslMember> members;           ///< of a structure
  std::vector<std::string_view> parameters;  ///< names of a function's
  WgslRange body;                            ///< of a function, between its braces
};

/// Borrows the texts that it was read from.
struct WgslModule {
  WgslTokens tokens;
  std::vector<WgslDeclaration> declarations;  ///< the prelude's, then the source's in their order
  std::unordered_map<std::string_view, std::size_t> by_name;
  std::vector<std::string_view> enables;
  WgslRange source;                   ///< the source's tokens
  std::vector<WgslRange> directives;  ///< `enable`, `requires`, `diagnostic`

  /// The module-scope declaration of `name`, or null.
  const WgslDeclaration* find(std::string_view name) const noexcept;
};

/// The attribute of that name, or null.
const WgslAttribute* find_attribute(const std::vector<WgslAttribute>& attributes, std::string_view name) noexcept;

/// Reads the prelude's constants and the source. `origin` names the source in errors. Never recurses. Throws
/// Error{compile_error}.
WgslModule parse_wgsl(std::string_view source, const std::vector<PreludeConstant>& constants,
                      const std::string& origin);

}  // namespace weft::dispatch
