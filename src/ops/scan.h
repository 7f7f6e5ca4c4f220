// The kernels of scans, by what chooses their text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/kernel.h"
#include "weft/ops.h"

namespace weft::ops {

/// Elements that a thread of a workgroup scans, where a workgroup scans a chunk.
inline constexpr std::uint32_t kScanHeld = 8;
inline constexpr std::uint32_t kScanThreads = 64;     ///< of a workgroup of ..._by_thread, and of short rows
inline constexpr std::uint32_t kScanWideGroup = 256;  ///< of a workgroup of ..._by_group, for longer rows

/// One kernel of scan.wgsl. `entry` is one of
///   sums_by_thread, sums_by_group    the sum (product, ...) of each chunk, for the scan of chunks
///   scan_by_thread, scan_by_group    each element, from what stands before its chunk
struct ScanKernel {
  ScanOp op = ScanOp::sum;
  DType x = DType::f32;    ///< bool for sum and prod only
  DType out = DType::f32;  ///< of scan_...
  std::string_view entry = "scan_by_thread";
  bool quads = false;                  ///< four elements at a time
  bool prefixed = false;               ///< the row has several chunks
  std::uint32_t group = kScanThreads;  ///< threads of a workgroup
};

/// What an op adds up in: f32, i32 or u32.
DType scan_accumulator(ScanOp op, DType x);
std::string scan_key(const ScanKernel& kernel);
KernelOptions scan_options(const ScanKernel& kernel);

}  // namespace weft::ops
