// Parameters of dispatches where they can't be immediates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "webgpu/gpu.h"

namespace weft::dispatch {

/// A uniform buffer of slots, one taken per distinct block of parameters of a batch. The bytes gather on the host and
/// go in one queue write just before the batch is submitted, so they can't overtake or be overtaken (rule 1). Each slot
/// has its own bind group, made once: on lavapipe that is five times faster than dynamic offsets and nowhere slower
/// (docs/decisions/002). Used under its stream's lock.
class ParamsRing {
 public:
  static constexpr std::uint32_t kBytes = 64 << 10;

  ParamsRing(webgpu::Gpu& gpu, const webgpu::BindGroupLayout& layout) : gpu_(gpu), layout_(layout) {}

  /// The bind group whose slot holds `bytes`; the previous one when they are the same bytes again. Null when no slot is
  /// left: submit, then ask again. Throws Error{invalid_argument} past kBytes.
  WGPUBindGroup bind(std::span<const std::byte> bytes);
  /// Sends the gathered bytes to the queue; call just before the submit that uses them.
  void flush();
  /// All slots are free again.
  void reset() noexcept {
    used_ = 0;
    last_size_ = 0;
  }

 private:
  webgpu::Gpu& gpu_;
  const webgpu::BindGroupLayout& layout_;
  webgpu::BufferHandle buffer_;
  std::vector<std::byte> host_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, webgpu::BindGroup> groups_;  // (offset, slot bytes)
  std::uint32_t used_ = 0;
  std::uint32_t last_offset_ = 0;
  std::uint32_t last_size_ = 0;
};

}  // namespace weft::dispatch
