// Small uploads, as queue writes whose memory is bounded.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>

#include "webgpu/gpu.h"

namespace weft::memory {

/// An implementation copies the bytes of a queue write into memory of its own and frees that some time after the next
/// submit; wgpu-native submits nothing by itself, so that a program which only uploads would fill the host's memory.
/// Here a submit follows every kSend bytes, and kMost bytes may be on their way. Any thread.
class QueueWrites {
 public:
  static constexpr std::uint64_t kSend = std::uint64_t{16} << 20;
  static constexpr std::uint64_t kMost = std::uint64_t{64} << 20;
  /// What one write counts at least: its memory is a buffer of its own.
  static constexpr std::uint64_t kLeast = std::uint64_t{4} << 10;

  explicit QueueWrites(webgpu::Gpu& gpu) : gpu_(gpu) {}

  /// Writes whole words in order with what was submitted before. Waits as wait_for_room does.
  void write(WGPUBuffer to, std::uint64_t offset, std::span<const std::byte> bytes, webgpu::Clock::time_point deadline);

  // For bytes that go the same way without a call of write: those of a buffer that is made mapped.
  /// Waits while `bytes` more would be too many, unless none are on their way. Throws Error{timed_out} past `deadline`,
  /// {device_lost}.
  void wait_for_room(std::uint64_t bytes, webgpu::Clock::time_point deadline);
  /// Counts them, once they wait for a submit.
  void note(std::uint64_t bytes);

  /// Submits what waits for it.
  void send();

 private:
  struct Sent {
    std::uint64_t bytes;
    std::shared_ptr<std::atomic<bool>> done;
  };
  bool has_room(std::uint64_t bytes);
  void note_locked(std::uint64_t bytes);
  void send_locked();

  webgpu::Gpu& gpu_;
  std::mutex mutex_;
  std::uint64_t unsent_ = 0;
  std::uint64_t on_the_way_ = 0;  ///< the sum of sent_
  std::deque<Sent> sent_;
};

}  // namespace weft::memory
