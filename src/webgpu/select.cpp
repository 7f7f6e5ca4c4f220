// Which adapter a device is opened on.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/env.h"
#include "webgpu/gpu.h"
#include "weft/error.h"

namespace weft {

std::string_view to_string(AdapterType type) noexcept {
  switch (type) {
    case AdapterType::discrete: return "discrete GPU";
    case AdapterType::integrated: return "integrated GPU";
    case AdapterType::virtual_gpu: return "virtual GPU";
    case AdapterType::cpu: return "CPU";
    case AdapterType::unknown: return "unknown";
  }
  return "unknown";
}

namespace webgpu {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string listing(const std::vector<Candidate>& candidates) {
  std::string out;
  for (const Candidate& c : candidates) {
    out += fmt::format("{}{}: '{}' ({}, {})", out.empty() ? "" : "; ", c.info.index, c.info.name, c.info.backend,
                       to_string(c.info.type));
  }
  return out;
}

int class_score(AdapterType type, PowerPreference power) {
  const bool low = power == PowerPreference::low_power;
  switch (type) {
    case AdapterType::discrete: return low ? 40 : 50;
    case AdapterType::integrated: return low ? 50 : 40;
    case AdapterType::virtual_gpu: return 30;
    case AdapterType::unknown: return 20;
    case AdapterType::cpu: return 10;
  }
  return 0;
}

}  // namespace

std::size_t select_adapter(const std::vector<Candidate>& candidates, const DeviceOptions& options) {
  if (candidates.empty()) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("no adapter: {} was asked for Vulkan, Metal and D3D12 and showed none", implementation_name()),
        "install a GPU driver with Vulkan, or a CPU device (Debian: apt install mesa-vulkan-drivers), and check "
        "that VK_DRIVER_FILES, if set, names an existing file");
  }
  const std::string wish = options.adapter;
  if (!wish.empty()) {
    std::size_t index = 0;
    const auto [rest, ec] = std::from_chars(wish.data(), wish.data() + wish.size(), index);
    const bool is_index = ec == std::errc() && rest == wish.data() + wish.size();
    if (is_index && index < candidates.size()) return index;
    if (!is_index) {
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (lower(candidates[i].info.name).find(lower(wish)) != std::string::npos) return i;
      }
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no adapter matches '{}'; there {} {}", wish.substr(0, 80),
                            candidates.size() == 1 ? "is" : "are", listing(candidates)),
                fmt::format("use an index below {} or part of a name, in WEFT_ADAPTER or --device", candidates.size()));
  }
  const auto better = [&](const Candidate& a, const Candidate& b) {
    const int x = class_score(a.info.type, options.power);
    const int y = class_score(b.info.type, options.power);
    return x != y ? x < y : a.info.limits.max_storage_binding_size < b.info.limits.max_storage_binding_size;
  };
  return static_cast<std::size_t>(std::max_element(candidates.begin(), candidates.end(), better) - candidates.begin());
}

}  // namespace webgpu
}  // namespace weft
