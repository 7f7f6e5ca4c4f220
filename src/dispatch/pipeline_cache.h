// Compiled pipelines, and the binding layouts they share.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "dispatch/profile.h"
#include "webgpu/gpu.h"

namespace weft::dispatch {

/// How a pipeline takes its parameters.
enum class ParamsVia : std::uint8_t { none, immediates, uniform };

/// A bind-group layout and the id that names it in cache keys.
struct Layout {
  webgpu::BindGroupLayout handle;
  std::uint64_t id = 0;
};

/// All that makes one pipeline different from another (rule 3: full and exact, compared on a hash hit).
struct PipelineKey {
  std::string code;  ///< the whole module text, prelude included
  std::string entry_point;
  std::vector<webgpu::Constant> constants;
  std::vector<webgpu::LayoutEntry> entries;  ///< bindings of group 0
  ParamsVia params = ParamsVia::none;
  std::uint32_t params_size = 0;
  bool trusted = false;  ///< compiled without bounds checks where possible

  /// The same as one string.
  std::string serialized() const;
};

struct PipelineEntry {
  webgpu::Pipeline pipeline;
  std::uint64_t serial = 0;  ///< never given twice
  std::shared_ptr<const Layout> layout;
};

struct PipelineStats {
  std::uint64_t hits = 0, misses = 0, evictions = 0, entries = 0;
  double compile_ms = 0;
};

/// Bounded by count, least recently used goes first; a pipeline that a Kernel still holds lives on with it. Compiles
/// with no lock held; threads that miss on one key compile once and share the result or the error; a failure is not
/// kept.
class PipelineCache {
 public:
  /// `spans`, where given, gets one for each compile.
  PipelineCache(webgpu::Gpu& gpu, std::size_t cap, HostSpans* spans = nullptr);

  using Entry = std::shared_ptr<const PipelineEntry>;
  Entry get_or_compile(const PipelineKey& key, const std::string& label);

  /// The layout of group 1 that holds parameters when they come as a uniform.
  const webgpu::BindGroupLayout& params_layout();
  PipelineStats stats() const;

 private:
  struct Slot {
    std::string key;
    std::shared_future<Entry> future;
  };
  using Lru = std::list<Slot>;

  Entry compile(const PipelineKey& key, const std::string& label);
  std::shared_ptr<const Layout> layout_for(const std::vector<webgpu::LayoutEntry>& entries, const std::string& label);
  void forget(const std::string& key) noexcept;

  webgpu::Gpu& gpu_;
  const std::size_t cap_;
  HostSpans* const spans_;
  mutable std::mutex mutex_;
  Lru lru_;
  std::unordered_map<std::string_view, Lru::iterator> by_key_;  // views into the slots' own keys
  PipelineStats stats_;

  std::mutex layouts_mutex_;
  std::map<std::string, std::weak_ptr<const Layout>> layouts_;  // by fingerprint
  std::once_flag params_layout_once_;
  webgpu::BindGroupLayout params_layout_;
};

}  // namespace weft::dispatch
