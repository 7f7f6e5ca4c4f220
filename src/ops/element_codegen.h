// WGSL text of elementwise programs. Pure text: needs no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/elementwise.h"
#include "weft/kernel.h"

namespace weft::ops {

/// How a kernel reads an input. A quad is four consecutive elements that start at a multiple of four: one load.
enum class Access : std::uint8_t {
  quad,        ///< lies as the output does, in quads
  element,     ///< lies as the output does, at any offset
  single,      ///< one element for all
  strided,     ///< by coordinates, each element on its own
  row_quad,    ///< by the coordinates of a quad's first element; inner stride 1, in quads
  row_single,  ///< likewise; inner stride 0
  row_any,     ///< likewise; any inner stride
  in_place,    ///< the very elements that are written
  quad_at_0,   ///< as quad, from the start of what is bound: the commonest, one addition less
};

/// How a kernel writes the output.
enum class Store : std::uint8_t {
  whole,    ///< contiguous quads; the last one may spill into memory that is no one's
  edges,    ///< contiguous quads; elements outside [0, count) keep what they hold
  element,  ///< one by one, contiguous or strided; not for bool
};

/// All that chooses the text, next to the program.
struct ElementForm {
  Store store = Store::whole;
  bool out_at_0 = false;       ///< the first quad is the first of what is bound; goes with Store::whole
  bool strided_out = false;    ///< the output is found by coordinates; goes with Store::element
  std::uint32_t rank = 1;      ///< axes after merging
  bool rows = false;           ///< the innermost length is a multiple of 4: a quad never leaves its row
  std::vector<Access> inputs;  ///< one per input of the program that is used
};

/// The part of a program that a result needs, renumbered; inputs and scalars by first use.
struct ElementSlice {
  std::vector<ElementNode> nodes;    ///< the result stands last
  std::vector<std::int32_t> inputs;  ///< of the program, by number in `nodes`
  std::vector<std::int32_t> scalars;
  std::vector<DType> input_dtypes;
  std::vector<DType> scalar_dtypes;
  DType dtype = DType::f32;  ///< of the result
  bool uses_iota = false;
};
ElementSlice slice_of(const std::vector<ElementNode>& nodes, std::int32_t result);

/// What is not in the text: the values of `struct Params`.
struct ElementValues {
  std::uint32_t quads = 0;
  std::uint32_t count = 0;
  std::uint32_t shift = 0;             ///< elements of the first quad in front of the output's first
  std::uint32_t first = 0;             ///< flat index of element 0
  std::uint32_t out_offset = 0;        ///< in quads, or elements for Store::element
  std::vector<std::uint32_t> lengths;  ///< of the merged axes; the outermost is not passed
  std::vector<std::uint32_t> out_strides;
  std::vector<std::uint32_t> offsets;  ///< per input, in quads (quad, row_quad: in elements / 4) or elements
  std::vector<std::vector<std::uint32_t>> strides;  ///< per input and axis, modulo 2^32
  std::vector<std::uint32_t> scalars;               ///< bits
};

/// Threads of a workgroup.
inline constexpr std::uint32_t kElementGroup = 128;

/// Writes a short name of the kernel: equal keys, equal texts.
void element_key(const ElementSlice& program, const ElementForm& form, std::string& key);
/// What traces and tables call it: the operations in order, "multiply+add+relu"; "copy" when there are none.
std::string element_label(const ElementSlice& program);
std::string element_source(const ElementSlice& program, const ElementForm& form);
/// The words of `struct Params` of that text, as its reflection lists them.
void element_params(std::span<const ParamInfo> fields, const ElementValues& values, std::vector<std::uint32_t>& words);

}  // namespace weft::ops
