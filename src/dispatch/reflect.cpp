#include "dispatch/reflect.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "dispatch/wgsl_constant.h"
#include "dispatch/wgsl_layout.h"
#include "dispatch/wgsl_module.h"

namespace weft::dispatch {
namespace {

using Names = std::unordered_set<std::string_view>;

constexpr std::string_view kParams = "params";
constexpr std::string_view kLinearIndex = "linear_index";

// `f16` itself and the shorthands vec2h to vec4h, mat2x2h to mat4x4h.
bool is_f16_type(std::string_view name) noexcept {
  const auto dimension = [](char c) { return c >= '2' && c <= '4'; };
  if (name == "f16") return true;
  if (!name.ends_with('h')) return false;
  if (name.starts_with("vec")) return name.size() == 5 && dimension(name[3]);
  return name.starts_with("mat") && name.size() == 7 && dimension(name[3]) && name[4] == 'x' && dimension(name[5]);
}

// What `enable subgroups;` brings. Subgroup matrices are another extension.
bool is_subgroup_builtin(std::string_view name) noexcept {
  constexpr std::string_view kPrefix = "subgroup";
  if (name.starts_with(kPrefix) && name.size() > kPrefix.size()) {
    const char next = name[kPrefix.size()];
    return next >= 'A' && next <= 'Z' && !name.starts_with("subgroupMatrix");
  }
  return name == "quadBroadcast" || name == "quadSwapX" || name == "quadSwapY" || name == "quadSwapDiagonal";
}

bool is_subgroup_value(std::string_view name) noexcept {
  return name == "subgroup_size" || name == "subgroup_invocation_id" || name == "subgroup_id" ||
         name == "num_subgroups";
}

class Reflector {
 public:
  Reflector(const WgslModule& module, std::string_view source, const std::vector<OverrideValue>& overrides)
      : module_(module),
        tokens_(module.tokens),
        source_(source),
        constants_(module, overrides),
        layouts_(module, constants_) {}

  Reflection reflect(std::string_view entry_point) {
    read_features();
    const WgslDeclaration& entry = find_entry_point(entry_point);
    read_workgroup_size(entry);
    const Names used = reachable_names(entry);
    out_.uses_params = used.contains(kParams);
    out_.uses_linear_index = used.contains(kLinearIndex);
    out_.names_params = named_anywhere(kParams);
    out_.names_linear_index = named_anywhere(kLinearIndex);
    out_.declares_linear_index = module_.find(kLinearIndex) != nullptr;
    for (const WgslDeclaration& declaration : module_.declarations) {
      if (declaration.kind == WgslDeclarationKind::variable) read_variable(declaration, used);
      if (declaration.kind == WgslDeclarationKind::override_) read_override(declaration, entry, used);
    }
    sort_bindings();
    if (!out_.params_declared_by_user) read_params();
    read_workgroup_storage(used);
    return std::move(out_);
  }

 private:
  void read_features() {
    const auto enabled = [&](std::string_view name) {
      return std::find(module_.enables.begin(), module_.enables.end(), name) != module_.enables.end();
    };
    out_.enables_f16 = enabled("f16");
    out_.enables_subgroups = enabled("subgroups");
    out_.enables_subgroup_matrices = enabled("chromium_experimental_subgroup_matrix");
    if (out_.enables_subgroups) find_subgroups_directive();
    std::size_t directive = 0;
    // From 0, not from the source: the prelude may say `alias T = f16`.
    for (std::size_t i = 0; i < module_.source.end; ++i) {
      if (directive < module_.directives.size() && i == module_.directives[directive].begin) {
        i = module_.directives[directive++].end;
        continue;
      }
      read_feature(i);
    }
  }

  // `enable subgroups;` whole, but of `enable f16, subgroups, other;` only the name and the comma behind it.
  void find_subgroups_directive() {
    const auto take = [&](std::size_t token) {
      const std::string_view text = tokens_[token].text;
      const auto begin = static_cast<std::size_t>(text.data() - source_.data());
      out_.subgroups_directive.emplace_back(begin, begin + text.size());
    };
    for (const WgslRange& directive : module_.directives) {
      if (!tokens_[directive.begin].is_word("enable")) continue;
      bool others = false;
      for (std::size_t i = directive.begin + 1; i < directive.end; ++i) {
        others = others || (tokens_[i].kind == WgslKind::identifier && tokens_[i].text != "subgroups");
      }
      if (!others) {
        for (std::size_t i = directive.begin; i <= directive.end; ++i) take(i);
        continue;
      }
      for (std::size_t i = directive.begin + 1; i < directive.end; ++i) {
        if (!tokens_[i].is_word("subgroups")) continue;
        take(i);
        if (tokens_[i + 1].is(',')) take(i + 1);
      }
    }
  }

  void read_feature(std::size_t i) {
    const WgslToken& token = tokens_[i];
    if (token.kind == WgslKind::number) {
      if (token.text.ends_with('h')) out_.uses_f16 = true;
      return;
    }
    if (token.kind != WgslKind::identifier || is_member_access(i)) return;
    if (i >= 2 && is_subgroup_value(token.text) && tokens_[i - 1].is('(') && tokens_[i - 2].is_word("builtin")) {
      out_.uses_subgroups = true;
    }
    if (is_f16_type(token.text) && module_.find(token.text) == nullptr) out_.uses_f16 = true;
    if (is_subgroup_builtin(token.text) && module_.find(token.text) == nullptr) out_.uses_subgroups = true;
  }

  bool is_member_access(std::size_t i) const noexcept { return i > 0 && tokens_[i - 1].is('.'); }

  const WgslDeclaration& find_entry_point(std::string_view name) {
    const WgslDeclaration* found = nullptr;
    for (const WgslDeclaration& declaration : module_.declarations) {
      if (declaration.kind != WgslDeclarationKind::function) continue;
      if (find_attribute(declaration.attributes, "compute") == nullptr) continue;
      out_.entry_points.emplace_back(declaration.name);
      if (declaration.name == name) found = &declaration;
    }
    if (found != nullptr) return *found;
    const std::string what = fmt::format("no @compute function {}", wgsl_quoted(name));
    const WgslDeclaration* other = module_.find(name);
    const bool lacks_attribute = other != nullptr && other->kind == WgslDeclarationKind::function;
    const WgslToken& at = tokens_[lacks_attribute ? other->token : module_.source.begin];
    if (lacks_attribute) {
      tokens_.fail(at, fmt::format("{}; the function of that name is no entry point", what),
                   "put @compute @workgroup_size(...) in front of it");
    }
    if (out_.entry_points.empty()) {
      tokens_.fail(at, fmt::format("{}; the source has none", what),
                   "declare one, with @compute @workgroup_size(...) in front");
    }
    std::string list;
    for (const std::string& there : out_.entry_points) list += (list.empty() ? "" : ", ") + wgsl_quoted(there);
    tokens_.fail(at, fmt::format("{}; the source has {}", what, list), "name one of them as the entry point");
  }

  void read_workgroup_size(const WgslDeclaration& entry) {
    std::vector<WgslRange> arguments;
    if (const WgslAttribute* attribute = find_attribute(entry.attributes, "workgroup_size")) {
      arguments = tokens_.split(attribute->arguments);
      if (arguments.size() > 3) {
        tokens_.fail(tokens_[attribute->token],
                     fmt::format("@workgroup_size has {} arguments, at most 3 are allowed", arguments.size()),
                     "leave out those past the third");
      }
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (axis >= arguments.size()) {
        out_.workgroup_size[axis] = 1;
        continue;
      }
      out_.workgroup_size_text[axis] = tokens_.spaced(arguments[axis]);
      const auto value = constants_.evaluate(arguments[axis]);
      if (value && value->value < 1) {
        tokens_.fail(tokens_[arguments[axis].begin],
                     fmt::format("@workgroup_size has a length of {}; each must be at least 1", value->value),
                     "give at least 1, or leave the argument out");
      }
      if (!value && depends_on_override(arguments[axis])) out_.unknown_size = tokens_.spaced(attribute_of(entry));
      if (value && value->value >= 0 && value->value <= std::numeric_limits<std::uint32_t>::max()) {
        out_.workgroup_size[axis] = static_cast<std::uint32_t>(value->value);
      }
    }
  }

  // The attribute @workgroup_size from its name on.
  WgslRange attribute_of(const WgslDeclaration& entry) const {
    const WgslAttribute* attribute = find_attribute(entry.attributes, "workgroup_size");
    return {attribute->token, attribute->arguments.end + 1};
  }

  // Whether an expression or a type names an override, itself or by constants, aliases and structures.
  bool depends_on_override(WgslRange range) const {
    std::vector<WgslRange> todo{range};
    Names seen;
    while (!todo.empty()) {
      const WgslRange now = todo.back();
      todo.pop_back();
      for (std::size_t i = now.begin; i < now.end; ++i) {
        if (tokens_[i].kind != WgslKind::identifier || is_member_access(i)) continue;
        const WgslDeclaration* named = module_.find(tokens_[i].text);
        if (named == nullptr || !seen.insert(named->name).second) continue;
        if (named->kind == WgslDeclarationKind::override_) return true;
        if (named->kind == WgslDeclarationKind::constant) todo.push_back(named->value);
        if (named->kind == WgslDeclarationKind::alias) todo.push_back(named->type);
        for (const WgslMember& member : named->members) todo.push_back(member.type);
      }
    }
    return false;
  }

  // What the entry point and the functions that it reaches name. A local of the same name counts too: harmless.
  Names reachable_names(const WgslDeclaration& entry) const {
    Names names;
    std::vector<const WgslDeclaration*> todo{&entry};
    Names reached{entry.name};
    while (!todo.empty()) {
      const WgslDeclaration& function = *todo.back();
      todo.pop_back();
      const Names parameters(function.parameters.begin(), function.parameters.end());
      for (std::size_t i = function.body.begin; i < function.body.end; ++i) {
        const WgslToken& token = tokens_[i];
        if (token.kind != WgslKind::identifier || is_member_access(i) || parameters.contains(token.text)) continue;
        names.insert(token.text);
        const WgslDeclaration* called = module_.find(token.text);
        if (called == nullptr || called->kind != WgslDeclarationKind::function) continue;
        if (reached.insert(called->name).second) todo.push_back(called);
      }
    }
    return names;
  }

  // A module has to compile as a whole, also where the chosen entry point does not get to.
  bool named_anywhere(std::string_view name) const {
    for (const WgslDeclaration& function : module_.declarations) {
      for (std::size_t i = function.body.begin; i < function.body.end; ++i) {
        if (tokens_[i].is_word(name) && !is_member_access(i)) return true;
      }
    }
    return false;
  }

  void read_workgroup_storage(const Names& used) {
    for (const WgslDeclaration& variable : module_.declarations) {
      if (variable.kind != WgslDeclarationKind::variable || variable.address_space != "workgroup") continue;
      if (!used.contains(variable.name) || variable.type.empty()) continue;
      if (const auto size = layouts_.size_in_workgroup(variable.type)) {
        out_.workgroup_storage += (*size + 15) / 16 * 16;
      } else if (depends_on_override(variable.type)) {
        out_.unknown_size = fmt::format("var<workgroup> {}: {}", variable.name, tokens_.spaced(variable.type));
      }
    }
  }

  void read_override(const WgslDeclaration& declaration, const WgslDeclaration& entry, const Names& used) {
    std::string key(declaration.name);
    if (const WgslAttribute* id = find_attribute(declaration.attributes, "id")) {
      key = std::to_string(number(*id, declaration));
    }
    const WgslAttribute* size = find_attribute(entry.attributes, "workgroup_size");
    bool named = used.contains(declaration.name);
    for (std::size_t i = size != nullptr ? size->arguments.begin : 0; size != nullptr && i < size->arguments.end; ++i) {
      named = named || tokens_[i].is_word(declaration.name);
    }
    out_.overrides.push_back({std::string(declaration.name), std::move(key), override_type(declaration),
                              named && declaration.value.empty()});
  }

  std::string override_type(const WgslDeclaration& declaration) {
    if (!declaration.type.empty()) return layouts_.resolved(declaration.type);
    const auto value = constants_.evaluate(declaration.value);  // its default
    if (!value) return {};
    return value->type == WgslIntegerType::u32 ? "u32" : "i32";
  }

  void read_variable(const WgslDeclaration& variable, const Names& used) {
    if (variable.address_space == "immediate" || variable.address_space == "push_constant") {
      tokens_.fail(tokens_[variable.token],
                   fmt::format("variable {} is in {}: Weft declares the one immediate there is",
                               wgsl_quoted(variable.name), wgsl_quoted(variable.address_space)),
                   "declare struct Params { ... } instead, and read params.name");
    }
    if (variable.name == kParams) out_.params_declared_by_user = true;
    const bool uniform = variable.address_space == "uniform";
    const bool storage = variable.address_space == "storage";
    const WgslAttribute* group = find_attribute(variable.attributes, "group");
    const WgslAttribute* binding = find_attribute(variable.attributes, "binding");
    const WgslToken& name = tokens_[variable.token];
    if (!uniform && !storage) {
      if (!variable.address_space.empty() && group == nullptr && binding == nullptr) return;
      const std::string what =
          variable.address_space.empty()
              ? fmt::format("{} is a {}", wgsl_quoted(variable.name), wgsl_quoted(tokens_.packed(variable.type)))
              : fmt::format("{} is in {}", wgsl_quoted(variable.name), wgsl_quoted(variable.address_space));
      tokens_.fail(name, fmt::format("variable {}: only buffers are supported as resources", what),
                   "declare it as var<storage> or var<uniform>");
    }
    if (group == nullptr || binding == nullptr) {
      tokens_.fail(name,
                   fmt::format("variable {} lacks {}", wgsl_quoted(variable.name),
                               group == nullptr ? "its @group" : "its @binding"),
                   "put @group(0) @binding(N) in front of it");
    }
    if (variable.type.empty()) tokens_.fail_expected(tokens_[variable.token + 1], "':' and a type");
    const WgslLayout layout = layouts_.layout(variable.type);
    ReflectedBinding reflected;
    reflected.info.name = variable.name;
    reflected.info.binding = number(*binding, variable);
    reflected.info.writable = storage && (variable.access == "read_write" || variable.access == "write");
    reflected.info.uniform = uniform;
    reflected.info.type = tokens_.packed(variable.type);
    reflected.info.min_size = layout.size;
    reflected.info.element_size = layout.runtime_stride;
    reflected.group = number(*group, variable);
    reflected.used = used.contains(variable.name);
    out_.bindings.push_back(std::move(reflected));
    variables_.push_back(&variable);
  }

  // Of @group, @binding or @id.
  std::uint32_t number(const WgslAttribute& attribute, const WgslDeclaration& variable) {
    const std::vector<WgslRange> arguments = tokens_.split(attribute.arguments);
    const auto value = arguments.size() == 1 ? constants_.evaluate(arguments[0]) : std::nullopt;
    if (!value || value->value < 0 || value->value > std::numeric_limits<std::int32_t>::max()) {
      tokens_.fail(tokens_[attribute.token],
                   fmt::format("@{} of {} {} is no known number from 0 up", attribute.name,
                               variable.kind == WgslDeclarationKind::override_ ? "override" : "variable",
                               wgsl_quoted(variable.name)),
                   "give it one integer constant");
    }
    return static_cast<std::uint32_t>(value->value);
  }

  void sort_bindings() {
    const auto place = [](const ReflectedBinding& b) { return std::pair(b.group, b.info.binding); };
    const auto rank = [&](const ReflectedBinding& b) {
      return std::pair(place(b), !b.used);
    };  // used ones side by side
    std::vector<std::size_t> order(out_.bindings.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return rank(out_.bindings[a]) < rank(out_.bindings[b]); });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const ReflectedBinding& one = out_.bindings[order[i - 1]];
      const ReflectedBinding& two = out_.bindings[order[i]];
      // Those of different entry points may share a place.
      if (place(one) != place(two) || !one.used || !two.used) continue;
      tokens_.fail(tokens_[variables_[order[i]]->token],
                   fmt::format("variable {} repeats @group({}) @binding({}) of {}", wgsl_quoted(two.info.name),
                               two.group, two.info.binding, wgsl_quoted(one.info.name)),
                   "give each variable its own @binding");
    }
    std::vector<ReflectedBinding> sorted;
    sorted.reserve(order.size());
    for (const std::size_t i : order) sorted.push_back(std::move(out_.bindings[i]));
    out_.bindings = std::move(sorted);
  }

  void read_params() {
    const WgslDeclaration* structure = module_.find("Params");
    // An alias of a structure will do; layout() first, as it refuses cycles.
    while (structure != nullptr && structure->kind == WgslDeclarationKind::alias) {
      layouts_.layout(structure->type);
      structure = module_.find(tokens_[structure->type.begin].text);
    }
    if (structure == nullptr || structure->kind != WgslDeclarationKind::structure) return;
    const WgslStructureLayout& layout = layouts_.structure(*structure);
    if (layout.whole.runtime_stride != 0) {
      tokens_.fail(tokens_[structure->token], "struct 'Params' ends in an array without a length",
                   "give the array a length, or bind it as a buffer");
    }
    out_.params_scalars_only = true;
    out_.params_size = static_cast<std::uint32_t>(layout.whole.size);
    for (std::size_t i = 0; i < structure->members.size(); ++i) {
      const WgslMemberLayout& place = layout.members[i];
      out_.params.push_back({std::string(structure->members[i].name), layouts_.resolved(structure->members[i].type),
                             static_cast<std::uint32_t>(place.offset), static_cast<std::uint32_t>(place.type.size)});
      out_.params_scalars_only = out_.params_scalars_only && place.type.is_plain;
    }
  }

  const WgslModule& module_;
  const WgslTokens& tokens_;
  const std::string_view source_;
  WgslConstants constants_;
  WgslLayouts layouts_;
  Reflection out_;
  std::vector<const WgslDeclaration*> variables_;  // one a binding, in the order of the source
};

}  // namespace

Reflection reflect(std::string_view source, std::string_view entry_point, const std::vector<PreludeConstant>& constants,
                   const std::vector<OverrideValue>& overrides, std::string_view label) {
  const std::string origin = label.empty() ? "kernel" : fmt::format("kernel '{}'", label);
  const WgslModule module = parse_wgsl(source, constants, origin);
  return Reflector(module, source, overrides).reflect(entry_point);
}

}  // namespace weft::dispatch
