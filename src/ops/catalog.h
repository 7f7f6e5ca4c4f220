// What the library has, as data: docs/ops.md is made from it, and the tests that must see every kernel walk it.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "weft/device.h"
#include "weft/kernel.h"

namespace weft::ops {

/// One line of docs/ops.md. Texts are Markdown.
struct OpEntry {
  std::string_view name;       ///< as in the header: "take_along_axis"
  std::string_view dtypes;     ///< "f32, f16, i32, u32, bool"
  std::string_view formula;    ///< what it computes
  std::string_view same_as;    ///< "numpy.take_along_axis; torch.gather; ONNX GatherElements"
  std::string_view limits;     ///< "-" for none beyond memory
  std::string_view tolerance;  ///< that its tests hold it to: "exact", "4 ulp", "relative 2^-22 log2 n"
};

/// Gets the key of a library kernel (as given to dispatch::library_kernel) and what is compiled for it.
using KernelVisitor = std::function<void(std::string_view key, const KernelOptions& options)>;

/// One op family: a header's section, a heading of docs/ops.md.
struct OpFamily {
  std::string_view title;
  std::span<const OpEntry> ops;
  /// Every specialisation that the family's choosing can come to on this device, with the device's features (f16,
  /// subgroups) and in every class that a test can force. Null for families without kernels of their own.
  void (*visit_kernels)(const Device& device, const KernelVisitor& visit);
};

// Each is defined beside its ops, in <family>_catalog.cpp.
const OpFamily& elementwise_family();
const OpFamily& views_family();
const OpFamily& reduce_family();
const OpFamily& scan_family();
const OpFamily& rows_family();
const OpFamily& matmul_family();
const OpFamily& indexing_family();
const OpFamily& ordering_family();
const OpFamily& conv_family();
const OpFamily& attention_family();
const OpFamily& random_family();
const OpFamily& fft_family();

/// All of them, in the order of docs/ops.md.
std::span<const OpFamily* const> families();

}  // namespace weft::ops
