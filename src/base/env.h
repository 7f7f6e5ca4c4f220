// Settings from the environment. A present but unusable value is an error that names the variable, never ignored.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace weft {

/// The variable's text; nothing when unset or empty.
std::optional<std::string> env_text(const char* name);
/// A whole number.
std::optional<std::uint64_t> env_count(const char* name);
/// A number of bytes, as parse_byte_size takes it (base/byte_size.h).
std::optional<std::uint64_t> env_bytes(const char* name);
/// "1" or "0".
std::optional<bool> env_flag(const char* name);
/// A length of time: "30" or "2.5" (seconds), "500ms", "30s".
std::optional<std::chrono::nanoseconds> env_duration(const char* name);

}  // namespace weft
