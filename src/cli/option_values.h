// cli/option_values.h - options that take numbers, refused with what was given and what would do.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace weft::cli {

/// Bytes: 4096, 512M, 1.5G, 2GiB; K, M, G and T are powers of 1024. From 1 on.
CLI::Option* add_size_option(CLI::App& command, const std::string& name, std::uint64_t& to, const std::string& text);

/// A whole number from 0 on.
CLI::Option* add_count_option(CLI::App& command, const std::string& name, std::int64_t& to, const std::string& text);

/// Refuses an empty name, as an unset variable of the shell leaves it, which would count as no option at all.
CLI::Validator file_name();

}  // namespace weft::cli
