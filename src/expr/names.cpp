#include "expr/names.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace weft::expr {
namespace {

enum class Role : char { value, called, prefix };

/// Edits (insert, delete, replace, swap of neighbours) from a to b: optimal string alignment.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

bool is_module(std::string_view name) noexcept {
  return name == "np" || name == "numpy";
}

std::vector<FreeName> free_names(const Program& program) {
  std::vector<Role> roles(program.nodes.size(), Role::value);
  for (const Node& node : program.nodes) {
    if (const Call* call = node.get_if<Call>()) roles[call->callee] = Role::called;
    if (const Attribute* attribute = node.get_if<Attribute>()) roles[attribute->object] = Role::prefix;
  }
  std::vector<FreeName> out;
  std::unordered_map<std::string_view, std::size_t> known;
  std::unordered_set<std::string_view> assigned;
  NodeId at = 0;
  for (const Statement& statement : program.statements) {
    for (; at <= statement.value; ++at) {
      const Name* name = program.node(at).get_if<Name>();
      if (name == nullptr || assigned.contains(name->value)) continue;
      const auto [it, is_new] = known.emplace(name->value, out.size());
      if (is_new) out.push_back({name->value, at});
      FreeName& entry = out[it->second];
      entry.only_called &= roles[at] == Role::called;
      entry.is_prefix &= roles[at] == Role::prefix;
    }
    if (!statement.target.empty()) assigned.insert(statement.target);
  }
  return out;
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongest = 40;
  if (name.empty() || name.size() > kLongest) return std::nullopt;
  std::size_t least = std::max<std::size_t>(1, name.size() / 3) + 1;
  std::optional<std::string> best;
  for (std::string_view candidate : candidates) {
    // A single letter is near to every other one.
    if (std::min(name.size(), candidate.size()) < 2 || candidate.size() > kLongest) continue;
    const std::size_t d = distance(name, candidate);
    if (d < least) {
      least = d;
      best = std::string(candidate);
    }
  }
  return best;
}

}  // namespace weft::expr
