// The parts of WGSL that the kernels of matrix products share. Text only: needs no device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/matmul_codegen.h"

namespace weft::ops::matmul_text {

inline constexpr std::string_view kComponents = "xyzw";

/// Aliases, parameters, bindings, and `place`, which finds the workgroup's tile and where its matrices start. An
/// element of a or b is an Elem in registers.
std::string head(const MatmulSpec& s);

/// The entry point as far as `group` (this workgroup's number), `t` (this invocation's) and `p` (its Place); its body
/// and the closing brace follow.
std::string entry(const MatmulSpec& s);

/// What a workgroup of a block kernel makes; how its lanes lie is a parameter.
std::string block_tile_m(const MatmulPlan& plan);
std::string block_tile_n(const MatmulPlan& plan);

/// `store`: four results side by side, those inside the matrix.
std::string store_quad(const MatmulSpec& s);

/// `store_row` and `store_rows`: one result of a vector kernel, and four below each other.
std::string store_row(const MatmulSpec& s);

/// `store` for each of `count` sums, by name: in a loop whose end the compiler can't know, for the epilogue is long,
/// and unrolled it takes ten times as long to compile as the rest.
std::string store_loop(std::string_view names, std::uint32_t count, std::string_view store);

/// `dot`: four products of 8-bit integers, added up, of one word with each of four.
std::string int8_functions(const MatmulSpec& s);

/// sum += x * y for four columns y.
std::string multiply_add(const MatmulSpec& s, std::string_view sum, std::string_view x, std::string_view y);

/// sum += x * y, each in its component.
std::string multiply_each(const MatmulSpec& s, std::string_view sum, std::string_view x, std::string_view y);

/// sum += x * y of single elements.
std::string multiply_one(const MatmulSpec& s, std::string_view sum, std::string_view x, std::string_view y);

}  // namespace weft::ops::matmul_text

namespace weft::ops {

// One for each way of working; matmul_source() calls them.
std::string matmul_matrix_source(const MatmulSpec& s);
std::string matmul_block_source(const MatmulSpec& s);
std::string matmul_panel_source(const MatmulSpec& s);
std::string matmul_vector_block_source(const MatmulSpec& s);
std::string matmul_vector_tile_source(const MatmulSpec& s);

}  // namespace weft::ops
