// How the readers complain: one place for the wording and for making a file's text safe to show.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::io {

/// Text from a file as it may be shown: printable ASCII as it is, all else escaped, cut in the middle past `limit`.
std::string printable(std::string_view text, std::size_t limit = 400);

/// Throws Error{io_error}: "<name>: <what>".
[[noreturn]] void malformed(std::string_view name, std::string_view what, std::string_view fix);
/// Throws Error{unsupported}: the file is well formed, but holds what Weft has no use for.
[[noreturn]] void unsupported(std::string_view name, std::string_view what, std::string_view fix);
/// Throws Error{io_error}: "<name>: <action>: <text of the errno value>".
[[noreturn]] void system_error(std::string_view name, std::string_view action, int error, std::string_view fix);

/// Index of `wanted` among the arrays of a file, or of the only one when `wanted` is empty. Error{io_error} that lists
/// what there is when the name is unknown, missing or not unique.
std::size_t choose(std::string_view file, std::span<const std::string> names, std::string_view wanted);

}  // namespace weft::io
