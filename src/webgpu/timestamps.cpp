#include "webgpu/timestamps.h"

#include <algorithm>
#include <cstring>

#include "webgpu/encoder.h"
#include "webgpu/instance.h"
#include "weft/error.h"

namespace weft::webgpu {

ComputePass Timestamps::begin_pass(const Encoder& encoder) {
  const std::size_t set = count_ / kPairsPerSet;
  const auto pair = static_cast<std::uint32_t>(count_ % kPairsPerSet);
  if (set == sets_.size()) sets_.push_back(gpu_.create_query_set(2 * kPairsPerSet, "weft.timestamps"));
  WGPUPassTimestampWrites writes = WGPU_PASS_TIMESTAMP_WRITES_INIT;
  writes.querySet = sets_[set].get();
  writes.beginningOfPassWriteIndex = 2 * pair;
  writes.endOfPassWriteIndex = 2 * pair + 1;
  WGPUComputePassDescriptor descriptor = WGPU_COMPUTE_PASS_DESCRIPTOR_INIT;
  descriptor.timestampWrites = &writes;
  ++count_;
  return ComputePass(wgpuCommandEncoderBeginComputePass(encoder.get(), &descriptor));
}

void go_on_after_resets(std::vector<std::pair<double, double>>& times) noexcept {
  constexpr double kBackwards = 1e9;  // passes that overlap begin a little out of order
  double offset = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    auto& [first, last] = times[i];
    first += offset;
    last = std::max(last + offset, first);
    if (i == 0 || first > times[i - 1].first - kBackwards) continue;
    const double back = times[i - 1].second - first;
    offset += back;
    first += back;
    last += back;
  }
}

std::vector<std::pair<double, double>> Timestamps::read(Clock::time_point deadline) {
  std::vector<std::pair<double, double>> out;
  out.reserve(count_);
  const double period = timestamp_period(gpu_.raw_queue());
  for (std::size_t set = 0; set * kPairsPerSet < count_; ++set) {
    const auto pairs = static_cast<std::uint32_t>(std::min<std::size_t>(kPairsPerSet, count_ - set * kPairsPerSet));
    const std::uint64_t bytes = std::uint64_t{16} * pairs;
    const BufferHandle resolved =
        gpu_.create_buffer(bytes, static_cast<std::uint32_t>(WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc),
                           false, "weft.timestamps");
    const BufferHandle staging = gpu_.create_buffer(
        bytes, static_cast<std::uint32_t>(WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst), false, "weft.timestamps");
    Encoder encoder = gpu_.create_encoder("weft.timestamps");
    wgpuCommandEncoderResolveQuerySet(encoder.get(), sets_[set].get(), 0, 2 * pairs, resolved.get(), 0);
    copy(encoder, resolved.get(), 0, staging.get(), 0, bytes);
    gpu_.submit(std::move(encoder), "weft.timestamps");
    const auto map = gpu_.map_async(staging.get(), false, bytes);
    const auto settled = [&] {
      return map->status.load(std::memory_order_acquire) != Gpu::MapStatus::pending || gpu_.lost();
    };
    const bool in_time = wait_until([this] { gpu_.poll(); }, settled, deadline);
    gpu_.check_alive("profile");
    if (in_time && map->status.load(std::memory_order_acquire) == Gpu::MapStatus::failed) {
      throw Error(ErrorCode::internal, "profile: mapping the timestamps failed: " + map->message,
                  "profile again; if it stays, report this");
    }
    if (!in_time) {
      throw Error(ErrorCode::timed_out, "profile: the timestamps were not there before the deadline",
                  "raise WEFT_WAIT_TIMEOUT, or profile less at once");
    }
    const auto mapped = gpu_.mapped_range(staging.get(), bytes, false);
    for (std::uint32_t i = 0; i < pairs; ++i) {
      std::uint64_t ticks[2];
      std::memcpy(ticks, mapped.data() + std::size_t{16} * i, sizeof ticks);
      out.emplace_back(static_cast<double>(ticks[0]) * period, static_cast<double>(ticks[1]) * period);
    }
    gpu_.unmap(staging.get());
  }
  sets_.clear();
  count_ = 0;
  go_on_after_resets(out);
  return out;
}

}  // namespace weft::webgpu
