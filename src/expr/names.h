// expr/names.h - which names a program reads, and which known name an unknown one resembles.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "expr/ast.h"

namespace weft::expr {

/// A name that a statement reads before any statement assigns it.
struct FreeName {
  std::string name;
  NodeId first = 0;         ///< where it is read first
  bool only_called = true;  ///< every use is a call, name(...)
  bool is_prefix = true;    ///< every use is name.something
};

/// In the order of first use.
std::vector<FreeName> free_names(const Program& program);

/// True for the name of numpy itself, as in np.exp.
bool is_module(std::string_view name) noexcept;

/// The candidate nearest to `name`, if one is near enough to be what was meant.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace weft::expr
