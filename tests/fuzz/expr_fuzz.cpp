// Any bytes either parse into a well-formed program or give one presentable weft::Error. Needs src/base/error.cpp and
// src/expr's parse files only.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "expr/diagnostic.h"
#include "expr/parse.h"
#include "expr/utf8.h"
#include "weft/error.h"

namespace {

using namespace weft::expr;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_program(const Program& program) {
  require(!program.statements.empty());
  std::vector<int> uses(program.nodes.size());
  std::vector<std::size_t> heights(program.nodes.size(), 1);
  for (NodeId id = 0; id < program.nodes.size(); ++id) {
    const Node& node = program.node(id);
    require(node.span.begin < node.span.end && node.span.end <= program.source.text().size());
    for_each_child(node, [&](NodeId child) {
      require(child < id);
      ++uses[child];
      heights[id] = std::max(heights[id], heights[child] + 1);
      const Span inner = program.node(child).span;
      require(node.span.begin <= inner.begin && inner.end <= node.span.end);
    });
    require(heights[id] <= kMaxHeight);
  }
  std::uint32_t at = 0;
  for (const Statement& s : program.statements) {
    ++uses[s.value];
    require(at <= s.span.begin && s.span.end <= program.source.text().size());
    require(program.source.text(s.target_span) == s.target);
    at = s.span.end;
  }
  for (int n : uses) require(n == 1);
}

void check_error(const weft::Error& error, std::size_t longest_line) {
  const std::string_view what = error.what();
  require(error.code() == weft::ErrorCode::invalid_argument || error.code() == weft::ErrorCode::out_of_range);
  require(!error.message().empty() && !error.fix().empty());
  require(error.fix().find('\n') == std::string::npos);
  // It goes to a terminal: no control characters, no broken UTF-8, no flood.
  require(what.size() < longest_line);
  for (std::size_t i = 0; i < what.size();) {
    const CodePoint c = decode_utf8(what, i);
    require(c.valid && (is_printable(c.value) || c.value == '\n'));
    i += c.length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    check_program(parse(Source(text)));
  } catch (const weft::Error& e) {
    check_error(e, 2000);
  }
  // Later stages point anywhere: the first bytes choose where.
  if (size >= 4) {
    const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(data[i]); };
    const Span whole{at(0), at(0) + at(1)};
    const Span point{at(2), at(2) + at(3)};
    check_error(make_error(weft::ErrorCode::out_of_range, Source(text), Place(whole, point), "title", "note", "fix"),
                2000);
  }
  return 0;
}
