// The WGSL of convolutions. Text only: needs no device.
#pragma once

#include <cstdint>
#include <string>

#include "ops/conv_plan.h"
#include "weft/kernel.h"

namespace weft::ops {

/// `struct Params` of every kernel here, all u32. Signed ones wrap modulo 2^32. Lengths and strides in elements.
struct ConvParams {
  std::uint32_t groups = 0;  ///< workgroups
  std::uint32_t tiles_m = 0, tiles_n = 0;
  std::uint32_t rows = 0, columns = 0;  ///< rows of a group; columns are batch * out_h * out_w
  std::uint32_t parts = 1;              ///< groups of the convolution
  std::uint32_t out_h = 0, out_w = 0;
  std::uint32_t in_h = 0, in_w = 0;
  // Column (n, h, w) with inner element (i0, i1, i2) reads x at the place
  //   h * step_h + base_h + i0 * h_0 + i1 * h_1 + i2 * h_2, likewise w,
  // which is element offset + n * x_n + group * x_g + place_h * x_h + place_w * x_w + i0 * c_0 + i1 * c_1 + i2 * c_2.
  std::uint32_t step_h = 0, step_w = 0, base_h = 0, base_w = 0;
  std::uint32_t h_0 = 0, h_1 = 0, h_2 = 0, w_0 = 0, w_1 = 0, w_2 = 0;
  std::uint32_t divide_h = 1, divide_w = 1;  ///< of a place, in kernels that divide
  std::uint32_t x_offset = 0, x_n = 0, x_g = 0, x_h = 0, x_w = 0;
  std::uint32_t x_0 = 0, x_1 = 0, x_2 = 0;  ///< all of the above that an inner step moves in x; c_i where divided
  std::uint32_t f_offset = 0, f_g = 0, f_m = 0, f_0 = 0, f_1 = 0, f_2 = 0;
  std::uint32_t o_offset = 0, o_n = 0, o_g = 0, o_m = 0, o_h = 0, o_w = 0, o_part = 0;
  std::uint32_t inner = 0, chunk = 0;                      ///< products of a column; of one part of the sum
  std::uint32_t length_0 = 1, length_1 = 1, length_2 = 1;  ///< inner = their product
  std::uint32_t depth_0 = 0, depth_1 = 0, depth_2 = 0;     ///< a tile's depth as such indices
  std::uint32_t has_bias = 0, bias_offset = 0;
  std::uint32_t zero = 0;  ///< as element_math asks for
};

/// Lays an operand out anew for packed kernels: vec4 [a, z, b, c, d, q], where lane e of quad q has index
/// (z * quads + q) * 4 + e on the last axis. Zeros where b, c or d, moved by `low`, or that index are outside.
struct PackParams {
  std::uint32_t count = 0;  ///< vec4s to write
  std::uint32_t z = 1, b = 1, c = 1, d = 1, quads = 1;
  std::uint32_t low_b = 0, low_c = 0;
  std::uint32_t length_b = 1, length_c = 1, length_d = 1, length_e = 1;  ///< of the source
  std::uint32_t offset = 0, stride_a = 0, stride_b = 0, stride_c = 0, stride_d = 0, stride_e = 0;
};
/// Bindings x and out.
KernelOptions pack_options(DType in);
std::string pack_key(DType in);

/// Names the spec: equal keys, equal text.
std::string conv_key(const ConvSpec& spec);
/// Bindings x, f, out and bias, for which any array of x's dtype may stand where there is none.
KernelOptions conv_options(const ConvSpec& spec);

}  // namespace weft::ops
