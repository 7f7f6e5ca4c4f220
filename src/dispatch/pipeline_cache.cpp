#include "dispatch/pipeline_cache.h"

#include <array>
#include <chrono>
#include <cstring>

namespace weft::dispatch {
namespace {

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void append(std::string& out, const std::string& value) {
  append(out, value.size());
  out += value;
}

std::string fingerprint(const std::vector<webgpu::LayoutEntry>& entries) {
  std::string out;
  for (const webgpu::LayoutEntry& e : entries) {
    append(out, e.binding);
    append(out, e.type);
    append(out, e.min_size);
  }
  return out;
}

std::uint64_t next_layout_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

std::string PipelineKey::serialized() const {
  std::string out;
  out.reserve(code.size() + 128);
  append(out, code);
  append(out, entry_point);
  append(out, constants.size());
  for (const webgpu::Constant& c : constants) {
    append(out, c.name);
    append(out, c.value);  // the bits: two values that differ at all are two pipelines
  }
  append(out, fingerprint(entries));
  append(out, params);
  append(out, params_size);
  append(out, trusted);
  return out;
}

PipelineCache::PipelineCache(webgpu::Gpu& gpu, std::size_t cap, HostSpans* spans)
    : gpu_(gpu), cap_(cap == 0 ? 1 : cap), spans_(spans) {}

PipelineCache::Entry PipelineCache::get_or_compile(const PipelineKey& key, const std::string& label) {
  std::string text = key.serialized();
  std::promise<Entry> promise;
  std::shared_future<Entry> future;
  bool mine = false;
  {
    Lru evicted;  // released after the lock
    const std::lock_guard lock(mutex_);
    const auto it = by_key_.find(text);
    if (it != by_key_.end()) {
      ++stats_.hits;
      lru_.splice(lru_.begin(), lru_, it->second);
      future = it->second->future;
    } else {
      mine = true;
      ++stats_.misses;
      future = promise.get_future().share();
      Lru node;
      node.push_front(Slot{text, future});
      by_key_.emplace(node.front().key, node.begin());
      lru_.splice(lru_.begin(), node);
      while (lru_.size() > cap_) {
        by_key_.erase(lru_.back().key);
        evicted.splice(evicted.begin(), lru_, std::prev(lru_.end()));
        ++stats_.evictions;
      }
    }
  }
  if (mine) {
    try {
      promise.set_value(compile(key, label));
    } catch (...) {
      forget(text);  // first, so that nobody finds the failure after its waiters had it
      promise.set_exception(std::current_exception());
    }
  }
  return future.get();
}

void PipelineCache::forget(const std::string& key) noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return;  // evicted meanwhile
  const auto slot = it->second;
  by_key_.erase(it);
  lru_.erase(slot);
}

PipelineCache::Entry PipelineCache::compile(const PipelineKey& key, const std::string& label) {
  const HostSpan span(spans_, "compile", label);
  const auto start = std::chrono::steady_clock::now();
  auto entry = std::make_shared<PipelineEntry>();
  static std::atomic<std::uint64_t> last_serial{0};
  entry->serial = last_serial.fetch_add(1, std::memory_order_relaxed) + 1;
  const webgpu::ShaderModule module = gpu_.create_module(key.code, label, key.trusted);
  entry->layout = layout_for(key.entries, label);
  std::array<WGPUBindGroupLayout, 2> groups{entry->layout->handle.get(), nullptr};
  std::size_t group_count = 1;
  if (key.params == ParamsVia::uniform) groups[group_count++] = params_layout().get();
  const std::uint32_t immediates = key.params == ParamsVia::immediates ? (key.params_size + 3) & ~3u : 0;
  const webgpu::PipelineLayout layout =
      gpu_.create_pipeline_layout(std::span(groups.data(), group_count), immediates, label);
  entry->pipeline = gpu_.create_pipeline(module, layout, key.entry_point, key.constants, label);
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const std::lock_guard lock(mutex_);
  stats_.compile_ms += ms;
  return entry;
}

std::shared_ptr<const Layout> PipelineCache::layout_for(const std::vector<webgpu::LayoutEntry>& entries,
                                                        const std::string& label) {
  const std::string print = fingerprint(entries);
  {
    const std::lock_guard lock(layouts_mutex_);
    const auto it = layouts_.find(print);
    if (it != layouts_.end()) {
      if (auto alive = it->second.lock()) return alive;
    }
  }
  auto made = std::make_shared<Layout>();
  made->handle = gpu_.create_layout(entries, label);
  made->id = next_layout_id();
  const std::lock_guard lock(layouts_mutex_);
  std::erase_if(layouts_, [](const auto& l) { return l.second.expired(); });
  std::weak_ptr<const Layout>& slot = layouts_[print];
  if (auto alive = slot.lock()) return alive;  // another thread was faster
  slot = made;
  return made;
}

const webgpu::BindGroupLayout& PipelineCache::params_layout() {
  std::call_once(params_layout_once_, [this] {
    const webgpu::LayoutEntry entry{0, webgpu::BindingType::uniform, 0};
    params_layout_ = gpu_.create_layout(std::span(&entry, 1), "weft.params");
  });
  return params_layout_;
}

PipelineStats PipelineCache::stats() const {
  const std::lock_guard lock(mutex_);
  PipelineStats out = stats_;
  out.entries = lru_.size();
  return out;
}

}  // namespace weft::dispatch
