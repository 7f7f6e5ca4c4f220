// Numbers of bytes as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

/// "4096", "512M", "1.5G", "64KiB": powers of 1024, letters in either case, B and iB behind them or not. Nothing for
/// all else, and past 9.2e18 bytes.
std::optional<std::uint64_t> parse_byte_size(std::string_view text);

/// How to write one, for the fix of an error.
inline constexpr std::string_view kByteSizeForm = "4096, 512M or 1.5G";

}  // namespace weft
