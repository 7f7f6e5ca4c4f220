#include "expr/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/error.h"

namespace weft::expr {

Source::Source(std::string text, std::string name) : text_(std::move(text)), name_(std::move(name)) {
  if (text_.size() > kMaxBytes) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: an expression of {} bytes, over the limit of {}", name_, text_.size(), kMaxBytes),
                "pass long data as an input file, not as literals");
  }
}

Source::Line Source::line_at(std::uint32_t offset) const noexcept {
  const auto is_break = [](char c) { return c == '\n' || c == '\r'; };
  const std::size_t size = text_.size();
  std::size_t at = std::min<std::size_t>(offset, size);
  if (at > 0 && at < size && text_[at] == '\n' && text_[at - 1] == '\r') --at;
  std::size_t begin = at;
  while (begin > 0 && !is_break(text_[begin - 1])) --begin;
  std::size_t end = at;
  while (end < size && !is_break(text_[end])) ++end;
  std::uint32_t number = 1;
  for (std::size_t i = 0; i < begin; ++i) {
    const bool first_half = text_[i] == '\r' && i + 1 < begin && text_[i + 1] == '\n';
    if (is_break(text_[i]) && !first_half) ++number;
  }
  return {number, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)}};
}

}  // namespace weft::expr
