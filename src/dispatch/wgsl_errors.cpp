// Compile errors as a person wants them: file, line, column, the line itself and a caret.
#include <fmt/format.h>

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

}  // namespace

Error explain_compile_error(const Error& error, const std::string& source, const std::string& name,
                            std::size_t injected_lines) {
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
    column = std::stoul(m[3]);
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
  if (line <= injected_lines) return error;
  line -= injected_lines;
  const std::string text = line_of(source, line);
  if (text.empty()) return error;
  std::string margin;  // tabs stay tabs, so the caret stands right below
  for (std::size_t i = 0; i + 1 < column && i < text.size(); ++i) margin += text[i] == '\t' ? '\t' : ' ';
  return Error(ErrorCode::compile_error,
               fmt::format("{}:{}:{}: {}\n    {}\n    {}^\n", name, line, column, what.empty() ? "invalid WGSL" : what,
                           text, margin),
               "correct the WGSL at the caret");
}

}  // namespace weft::dispatch
