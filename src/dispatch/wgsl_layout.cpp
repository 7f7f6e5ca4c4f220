#include "dispatch/wgsl_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "weft/error.h"

namespace weft::dispatch {
namespace {

// WGSL lets composite types nest 15 deep; aliases come on top.
constexpr std::size_t kDeepest = 200;
constexpr std::uint64_t kLargest = std::numeric_limits<std::uint32_t>::max();

constexpr std::string_view kShareable = "use i32, u32, f32, f16, and vectors, matrices, arrays and structures of these";

std::uint64_t round_up(std::uint64_t n, std::uint64_t multiple) noexcept {
  return (n + multiple - 1) / multiple * multiple;
}

bool is_dimension(char c) noexcept {
  return c >= '2' && c <= '4';
}

WgslLayout scalar_layout(std::uint32_t bytes) noexcept {
  return {bytes, bytes, 0, bytes == 4};
}

WgslLayout vector_layout(std::uint32_t components, WgslLayout component) noexcept {
  const auto bytes = static_cast<std::uint32_t>(component.size);
  return {std::uint64_t{components} * bytes, (components == 3 ? 4 : components) * bytes, 0, component.is_plain};
}

WgslLayout matrix_layout(std::uint32_t columns, std::uint32_t rows, WgslLayout component) noexcept {
  const WgslLayout column = vector_layout(rows, component);
  return {columns * round_up(column.size, column.align), column.align, 0, false};
}

// Keeps a counter up while in scope, also past a throw.
class Level {
 public:
  explicit Level(std::size_t& depth) noexcept : depth_(depth) { ++depth_; }
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  std::size_t& depth_;
};

}  // namespace

WgslLayout WgslLayouts::layout(WgslRange type) {
  if (depth_ >= kDeepest) fail(type, "nests too deep or contains itself", "declare it without the cycle");
  const Level level(depth_);
  const WgslToken& name = module_.tokens[type.begin];
  const WgslDeclaration* declaration = module_.find(name.text);
  if (declaration == nullptr) return checked(builtin(type, template_arguments(type)), type);
  if (declaration->kind == WgslDeclarationKind::alias) return layout(declaration->type);
  if (declaration->kind == WgslDeclarationKind::structure) return structure(*declaration).whole;
  fail(type, "is declared, but is no type", "name a structure, an alias or a type of WGSL");
}

const WgslStructureLayout& WgslLayouts::structure(const WgslDeclaration& declaration) {
  const WgslRange name{declaration.token, declaration.token + 1};
  const auto [slot, is_new] = structures_.try_emplace(&declaration);
  if (!is_new) {
    const std::optional<WgslStructureLayout>& known = slot->second;
    if (!known) fail(name, "contains itself", "declare it without the cycle");
    return *known;
  }
  WgslStructureLayout result;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < declaration.members.size(); ++i) {
    const WgslMember& member = declaration.members[i];
    const WgslLayout type = layout(member.type);
    if (type.runtime_stride != 0 && i + 1 != declaration.members.size()) {
      fail(member.type, "has no fixed size, but is not the last member", "make it the last member of the structure");
    }
    const std::uint32_t align = member_attribute(member, "align").value_or(type.align);
    if (align == 0 || (align & (align - 1)) != 0 || align % type.align != 0) {
      fail(member.type, fmt::format("can't be aligned to {} bytes", align),
           fmt::format("give @align a power of two from {} up", type.align));
    }
    const std::uint64_t size = member_attribute(member, "size").value_or(static_cast<std::uint32_t>(type.size));
    if (size < type.size) {
      fail(member.type, fmt::format("needs {} bytes, @size gives it {}", type.size, size), "raise @size");
    }
    const std::uint64_t offset = round_up(end, align);
    end = offset + size;
    result.whole.align = std::max(result.whole.align, align);
    result.whole.runtime_stride = type.runtime_stride;
    result.whole.size = end;
    result.whole = checked(result.whole, name);
    result.members.push_back({offset, type});
  }
  result.whole.size = round_up(end, result.whole.align);
  result.whole = checked(result.whole, name);
  // Members may have added to the map: its references stay, its iterators need not.
  auto& kept = structures_.at(&declaration);
  kept = std::move(result);
  return *kept;
}

std::optional<std::uint64_t> WgslLayouts::size_in_workgroup(WgslRange type) {
  in_workgroup_ = true;
  std::optional<std::uint64_t> size;
  try {
    size = layout(type).size;
  } catch (const Error&) {
    // The compiler says what it thinks of the type.
  }
  in_workgroup_ = false;
  return size;
}

std::string WgslLayouts::resolved(WgslRange type) const {
  while (type.end - type.begin == 1) {
    const WgslDeclaration* declaration = module_.find(module_.tokens[type.begin].text);
    if (declaration == nullptr || declaration->kind != WgslDeclarationKind::alias) break;
    type = declaration->type;
  }
  const std::vector<WgslRange> arguments = template_arguments(type);
  if (arguments.empty()) return module_.tokens.packed(type);
  std::string text = fmt::format("{}<{}", module_.tokens[type.begin].text, resolved(arguments[0]));
  for (std::size_t i = 1; i < arguments.size(); ++i) text.append(1, ',').append(module_.tokens.packed(arguments[i]));
  return text + ">";
}

WgslLayout WgslLayouts::builtin(WgslRange type, const std::vector<WgslRange>& arguments) {
  const std::string_view name = module_.tokens[type.begin].text;
  if (name == "array") return array(type, arguments);
  if (name == "atomic") {
    const auto inner = arguments.size() == 1 ? scalar(arguments[0]) : std::nullopt;
    if (!inner || !inner->is_plain) fail(type, "can't be laid out", "write atomic<u32> or atomic<i32>");
    return {4, 4, 0, false};
  }
  if (const auto found = scalar(type)) return *found;
  if (const auto found = vector_or_matrix(type, arguments)) return *found;
  if (name == "bool") fail(type, "is not host-shareable", "use u32 in its place");
  fail(type, "can't be laid out", std::string(kShareable));
}

std::optional<WgslLayout> WgslLayouts::scalar(WgslRange type) const {
  for (std::size_t hops = 0; hops < kDeepest && type.end - type.begin == 1; ++hops) {
    const std::string_view name = module_.tokens[type.begin].text;
    const WgslDeclaration* declaration = module_.find(name);
    if (declaration == nullptr) {
      if (name == "f32" || name == "i32" || name == "u32") return scalar_layout(4);
      if (name == "f16") return scalar_layout(2);
      if (name == "bool" && in_workgroup_) return {{4, 4, 0, false}};
      return {};
    }
    if (declaration->kind != WgslDeclarationKind::alias) return {};
    type = declaration->type;
  }
  return {};
}

std::optional<WgslLayout> WgslLayouts::vector_or_matrix(WgslRange type, const std::vector<WgslRange>& arguments) {
  std::string_view name = module_.tokens[type.begin].text;
  const bool is_matrix = name.starts_with("mat");
  if (!is_matrix && !name.starts_with("vec")) return {};
  name.remove_prefix(3);
  const std::size_t digits = is_matrix ? 3 : 1;
  if (name.size() < digits || name.size() > digits + 1) return {};
  if (!is_dimension(name[0]) || (is_matrix && (name[1] != 'x' || !is_dimension(name[2])))) return {};
  std::optional<WgslLayout> component;
  if (name.size() == digits) {
    if (arguments.size() == 1) component = scalar(arguments[0]);
  } else if (arguments.empty()) {
    const char suffix = name.back();
    if (suffix == 'f' || (!is_matrix && (suffix == 'i' || suffix == 'u'))) component = scalar_layout(4);
    if (suffix == 'h') component = scalar_layout(2);
  }
  if (!component) return {};
  const auto first = static_cast<std::uint32_t>(name[0] - '0');
  if (!is_matrix) return vector_layout(first, *component);
  return matrix_layout(first, static_cast<std::uint32_t>(name[2] - '0'), *component);
}

WgslLayout WgslLayouts::array(WgslRange type, const std::vector<WgslRange>& arguments) {
  if (arguments.empty() || arguments.size() > 2) fail(type, "can't be laid out", "write array<T> or array<T, N>");
  const WgslLayout element = layout(arguments[0]);
  if (element.runtime_stride != 0) {
    fail(type, "has elements without a fixed size", "give the inner array a length");
  }
  const std::uint64_t stride = round_up(element.size, element.align);
  if (stride > kLargest) return {stride, element.align, 0, false};
  if (arguments.size() == 1) return {stride, element.align, static_cast<std::uint32_t>(stride), false};
  const auto length = constants_.evaluate(arguments[1]);
  if (!length) {
    fail(type,
         fmt::format("has a length that can't be worked out, {}", wgsl_quoted(module_.tokens.packed(arguments[1]))),
         "make it a number, or integer constants with + - * / % and parentheses");
  }
  if (length->value < 1 || length->value > static_cast<std::int64_t>(kLargest)) {
    fail(type, fmt::format("has the length {}", length->value), "give it a length from 1 up");
  }
  return {static_cast<std::uint64_t>(length->value) * stride, element.align, 0, false};
}

WgslLayout WgslLayouts::checked(WgslLayout layout, WgslRange type) const {
  if (layout.size > kLargest) {
    fail(type, fmt::format("takes {} bytes, more than {}", layout.size, kLargest), "make it smaller");
  }
  return layout;
}

std::optional<std::uint32_t> WgslLayouts::member_attribute(const WgslMember& member, std::string_view name) {
  const WgslAttribute* attribute = find_attribute(member.attributes, name);
  if (attribute == nullptr) return {};
  const std::vector<WgslRange> arguments = module_.tokens.split(attribute->arguments);
  const auto value = arguments.size() == 1 ? constants_.evaluate(arguments[0]) : std::nullopt;
  if (!value || value->value < 1 || value->value > std::numeric_limits<std::int32_t>::max()) {
    module_.tokens.fail(module_.tokens[attribute->token],
                        fmt::format("@{} of member {} is no known number from 1 up", name, wgsl_quoted(member.name)),
                        "give it one integer constant");
  }
  return static_cast<std::uint32_t>(value->value);
}

std::vector<WgslRange> WgslLayouts::template_arguments(WgslRange type) const {
  if (type.end - type.begin < 3) return {};
  return module_.tokens.split({type.begin + 2, type.end - 1});
}

void WgslLayouts::fail(WgslRange type, std::string_view why, std::string fix) const {
  module_.tokens.fail(module_.tokens[type.begin],
                      fmt::format("type {} {}", wgsl_quoted(module_.tokens.packed(type)), why), std::move(fix));
}

}  // namespace weft::dispatch
