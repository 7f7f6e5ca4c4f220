// Compile errors as a person wants them: file, line, column, the line itself and a caret.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "dispatch/state.h"
#include "weft/error.h"

namespace weft::dispatch {
namespace {

std::string line_of(const std::string& source, std::size_t line) {
  std::size_t begin = 0;
  for (std::size_t i = 1; i < line; ++i) {
    begin = source.find('\n', begin);
    if (begin == std::string::npos) return {};
    ++begin;
  }
  const std::size_t end = source.find('\n', begin);
  return source.substr(begin, end == std::string::npos ? std::string::npos : end - begin);
}

bool continues(char c) noexcept {  // a code point that began before
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

std::size_t code_points(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

/// The line and, below it, a caret under `column` (in code points); of a long line the part around it.
std::string excerpt(const std::string& line, std::size_t column) {
  constexpr std::size_t kBefore = 100, kBehind = 60;
  std::string shown, margin;
  std::size_t at = 0;  // in code points, from 1
  const std::size_t first = column > kBefore + 1 ? column - kBefore : 1;
  if (first > 1) {
    shown = "... ";
    margin = "    ";
  }
  for (const char c : line) {
    at += continues(c) ? 0 : 1;
    if (at < first) continue;
    if (at > column + kBehind) {
      shown += " ...";
      break;
    }
    shown += c;
    if (at < column && !continues(c)) margin += c == '\t' ? '\t' : ' ';  // tabs stay, so the caret stands right below
  }
  if (!shown.empty() && shown.back() == '\r') shown.pop_back();
  return fmt::format("    {}\n    {}^\n", shown, margin);
}

}  // namespace

Error explain_compile_error(const Error& error, const CompiledText& text, const std::string& name) {
  const std::string& message = error.message();
  std::size_t line = 0;
  std::size_t column = 0;
  std::string what;
  std::smatch m;
  // Tint: ":3:9 error: cannot assign 'u32' to 'f32'". naga: "Shader '...' parsing error: what\n  ┌─ wgsl:3:3", or
  // "Shader validation error: what\n  ┌─ label:3:3 ... \n  = why".
  static const std::regex kTint(R"((^|\s):(\d+):(\d+) error: ([^\n]*))");
  static const std::regex kNagaPlace(R"(┌─ [^\n]*:(\d+):(\d+))");
  static const std::regex kNagaWhat(R"((?:parsing error|validation error|error): ([^\n]*))");
  // Both quote numbers from a string they parsed themselves; more than nine digits can't be a line of ours.
  if (std::regex_search(message, m, kTint) && m[2].length() < 9 && m[3].length() < 9) {
    line = std::stoul(m[2]);
    // Tint counts bytes; editors, naga and Weft's own errors count characters.
    const std::string in_line = line_of(text.code, line);
    column = code_points(std::string_view(in_line).substr(0, std::max(std::stoul(m[3]), 1ul) - 1)) + 1;
    what = m[4];
  } else if (std::regex_search(message, m, kNagaPlace) && m[1].length() < 9 && m[2].length() < 9) {
    line = std::stoul(m[1]);
    column = std::stoul(m[2]);
    if (std::regex_search(message, m, kNagaWhat)) what = m[1];
    // naga's best explanation often stands under the carets: "^^^^ this expression has type u32".
    // What it has found wrong after parsing, it says in a note.
    static const std::regex kNagaDetail(R"(\^ (?!naga::)([a-z][^\n]*))");
    static const std::regex kNagaNote(R"(\n *= ([^\n]+))");
    const bool detailed = std::regex_search(message, m, kNagaDetail) || std::regex_search(message, m, kNagaNote);
    if (detailed && m[1].str() != what) what += fmt::format(" ({})", m[1].str());
  }
  if (line <= text.injected_lines) return error;
  const std::string shown = line_of(text.code, line);
  if (shown.empty()) return error;
  if (what.empty()) what = "invalid WGSL";
  const auto lines = static_cast<std::size_t>(std::count(text.source.begin(), text.source.end(), '\n')) + 1;
  if (line > text.injected_lines + lines) {
    const bool constant = shown.starts_with("const ") || shown.starts_with("alias ");
    return Error(ErrorCode::compile_error,
                 fmt::format("{}: in what Weft puts behind the source: {}\n{}", name, what, excerpt(shown, column)),
                 constant ? "correct the name, type or value in KernelOptions::constants"
                          : "declare nothing of that name in the source");
  }
  return Error(ErrorCode::compile_error,
               fmt::format("{}:{}:{}: {}\n{}", name, line - text.injected_lines, column, what, excerpt(shown, column)),
               "correct the WGSL at the caret");
}

}  // namespace weft::dispatch
