// cli/run_options.h - what `weft run` is told, taken apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/dtype.h"
#include "weft/kernel.h"
#include "weft/shape.h"

namespace weft::cli {

/// --out NAME:DTYPE:SHAPE
struct OutputArray {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};
/// Throws Error{invalid_argument}. "z:float32:1024,1024"; "n:u32:" is a single number.
OutputArray parse_output_array(const std::string& text);

/// --groups X[,Y[,Z]]; nothing for auto.
std::optional<Grid> parse_groups(const std::string& text);

/// --set NAME=VALUE, as an override where the source declares one of that name, else as a constant of the prelude.
void add_constants(const std::vector<std::string>& settings, std::string_view source, KernelOptions& to);

/// --param name=value, as the bytes of `struct Params`. Throws Error{invalid_argument} for names that are missing or
/// not there, and values that do not fit their types.
std::vector<std::byte> pack_params(const std::vector<std::string>& settings, std::span<const ParamInfo> params,
                                   std::uint32_t size);

/// " (did you mean 'x'?)" when a name is near, else nothing.
std::string suggestion(std::string_view name, std::span<const std::string> candidates);
/// "x, y and z"; "none" for none.
std::string list_of(std::span<const std::string> names);

}  // namespace weft::cli
