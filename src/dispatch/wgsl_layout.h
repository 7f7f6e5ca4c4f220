// Sizes, alignments and offsets of WGSL's host-shareable types.
// Source of the rules: WGSL, section "Memory Layout" (Alignment and Size, Structure Member Layout).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dispatch/wgsl_constant.h"
#include "dispatch/wgsl_module.h"

namespace weft::dispatch {

struct WgslLayout {
  std::uint64_t size = 0;  ///< bytes, at most 2^32 - 1; a runtime-sized array counts as one element
  std::uint32_t align = 1;
  std::uint32_t runtime_stride = 0;  ///< of the runtime-sized array that the type is or ends with; else 0
  bool is_plain = false;             ///< a scalar or vector of f32, i32 or u32
};

struct WgslMemberLayout {
  std::uint64_t offset = 0;
  WgslLayout type;  ///< of the type alone, without what @size adds
};

struct WgslStructureLayout {
  WgslLayout whole;
  std::vector<WgslMemberLayout> members;
};

/// Lays types out; each structure once. Borrows the module and its constants.
class WgslLayouts {
 public:
  WgslLayouts(const WgslModule& module, WgslConstants& constants) : module_(module), constants_(constants) {}

  /// Throws Error{compile_error}, naming the type: not host-shareable, unknown, recursive, an array length that is no
  /// known number over 0, a size past 2^32 - 1.
  WgslLayout layout(WgslRange type);
  const WgslStructureLayout& structure(const WgslDeclaration& declaration);

  /// Bytes of the type as a var<workgroup>, where bool (4 bytes) is a type too; nothing where layout() would throw. To
  /// be asked last: what it lays out is kept for layout() as well.
  std::optional<std::uint64_t> size_in_workgroup(WgslRange type);

  /// The type's text without blanks, aliases replaced by what they stand for. The type must have a layout.
  std::string resolved(WgslRange type) const;

 private:
  WgslLayout builtin(WgslRange type, const std::vector<WgslRange>& arguments);
  std::optional<WgslLayout> vector_or_matrix(WgslRange type, const std::vector<WgslRange>& arguments);
  std::optional<WgslLayout> scalar(WgslRange type) const;
  WgslLayout array(WgslRange type, const std::vector<WgslRange>& arguments);
  WgslLayout checked(WgslLayout layout, WgslRange type) const;
  std::optional<std::uint32_t> member_attribute(const WgslMember& member, std::string_view name);
  std::vector<WgslRange> template_arguments(WgslRange type) const;
  [[noreturn]] void fail(WgslRange type, std::string_view why, std::string fix) const;

  const WgslModule& module_;
  WgslConstants& constants_;
  std::unordered_map<const WgslDeclaration*, std::optional<WgslStructureLayout>> structures_;  // empty: under way
  std::size_t depth_ = 0;
  bool in_workgroup_ = false;
};

}  // namespace weft::dispatch
