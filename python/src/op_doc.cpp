// Docstrings from the library's own list of ops, of which docs/ops.md is made too.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "ops/catalog.h"
#include "weft_python.h"

namespace weft::python {
namespace {

/// "f32, bool" as numpy calls them.
std::string numpy_names(std::string text) {
  for (const auto& [ours, numpy] : std::array<std::pair<std::string_view, std::string_view>, 4>{
           {{"f32", "float32"}, {"f16", "float16"}, {"i32", "int32"}, {"u32", "uint32"}}}) {
    for (std::size_t at = 0; (at = text.find(ours, at)) != std::string::npos; at += numpy.size()) {
      text.replace(at, ours.size(), numpy);
    }
  }
  return text;
}

}  // namespace

std::string op_doc(std::string_view op) {
  for (const ops::OpFamily* family : ops::families()) {
    const auto entry =
        std::find_if(family->ops.begin(), family->ops.end(), [&](const ops::OpEntry& e) { return e.name == op; });
    if (entry == family->ops.end()) continue;
    std::string text = fmt::format("{}.\n\nOf {}. The same as {}.", entry->formula, entry->dtypes, entry->same_as);
    if (entry->limits != "-") text += fmt::format(" Limits: {}.", entry->limits);
    return numpy_names(std::move(text));
  }
  throw Error(ErrorCode::internal, fmt::format("the list of ops lacks '{}'", op), "report this");
}

}  // namespace weft::python
