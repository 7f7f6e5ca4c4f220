#include "weft/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dispatch/capture.h"
#include "memory/ids.h"
#include "webgpu/encoder.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft {
namespace detail {

/// Parameters of a captured dispatch that does not take immediates: a place in the graph's own uniform buffer.
struct ParamsSlot {
  std::uint32_t offset = 0;
  webgpu::BindGroup group;
};

struct GraphBuffer {
  std::weak_ptr<BufferState> caller;  ///< made before the capture
  std::shared_ptr<BufferState> own;   ///< made during it, or the op library's own
  std::uint64_t id = 0;
  std::uint64_t size = 0;
  std::shared_ptr<BufferState> current;  ///< during a run only
};

struct GraphState {
  std::shared_ptr<DeviceState> device;
  std::vector<dispatch::CapturedCommand> commands;
  std::vector<GraphBuffer> buffers;
  std::vector<dispatch::BindGroupCache::Group> groups;      // one per command; of the captured buffers
  std::vector<dispatch::BindGroupCache::Group> run_groups;  // scratch: of the buffers of this run
  std::vector<ParamsSlot> params;                           // one per command
  webgpu::BufferHandle params_buffer;
  std::vector<memory::Allocation*> named;  // scratch of a run, one per buffer
  std::vector<std::uint64_t> seen;         // likewise
  std::uint64_t bytes = 0;
  std::uint32_t dispatches = 0;
  std::atomic<bool> busy{false};
};

}  // namespace detail

namespace {

using detail::DeviceState;
using detail::GraphState;
using detail::StreamState;
using dispatch::CapturedCommand;

GraphState& state_of(const std::shared_ptr<GraphState>& state) {
  if (!state) throw Error(ErrorCode::invalid_argument, "the graph is empty", "make it with Device::capture");
  return *state;
}

/// Takes the graph for one run; the buffers held for it are let go at the end.
class Turn {
 public:
  explicit Turn(GraphState& graph) : graph_(graph) {
    if (graph.busy.exchange(true, std::memory_order_acquire)) {
      throw Error(ErrorCode::invalid_argument, "the graph is running on another thread",
                  "run it from one thread at a time, or capture one graph per thread");
    }
  }
  ~Turn() {
    for (detail::GraphBuffer& b : graph_.buffers) b.current.reset();
    for (auto& g : graph_.run_groups) g.reset();
    graph_.busy.store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  GraphState& graph_;
};

dispatch::BindGroupCache::Group group_of(GraphState& graph, const CapturedCommand& c) {
  std::array<dispatch::Operand, dispatch::kMostOperands> operands;
  for (std::size_t i = 0; i < c.ranges.size(); ++i) {
    operands[i] = {&graph.buffers[c.ranges[i].buffer].current, c.ranges[i].offset, c.ranges[i].size};
  }
  return dispatch::bind_group_for(*graph.device, *c.kernel, std::span(operands.data(), c.ranges.size()));
}

std::string label_of(const CapturedCommand& c) {
  if (c.kernel) return c.kernel->label;
  return c.kind == CapturedCommand::Kind::copy ? "copy" : "clear";
}

/// Where a buffer is used first, for errors: "binding 'x' of kernel 'relu'".
std::string place_in(const GraphState& graph, std::size_t buffer) {
  for (const CapturedCommand& c : graph.commands) {
    for (std::size_t i = 0; i < c.ranges.size(); ++i) {
      if (c.ranges[i].buffer != buffer) continue;
      if (!c.kernel) return "a " + label_of(c);
      return fmt::format("binding '{}' of kernel '{}'", c.kernel->bindings[i].name, c.kernel->label);
    }
  }
  return "no command";
}

/// Fills `current` of every buffer, swaps applied. Returns true when any was swapped.
bool resolve_buffers(GraphState& graph, std::span<const GraphBinding> swaps) {
  for (std::size_t i = 0; i < graph.buffers.size(); ++i) {
    detail::GraphBuffer& b = graph.buffers[i];
    b.current = b.own ? b.own : b.caller.lock();
  }
  for (const GraphBinding& s : swaps) {
    const auto& captured = graph.device->memory->check_owner(s.captured, "graph");
    const auto& replacement = graph.device->memory->check_owner(s.replacement, "graph");
    const auto it = std::find_if(graph.buffers.begin(), graph.buffers.end(),
                                 [&](const detail::GraphBuffer& b) { return b.id == captured->id; });
    if (it == graph.buffers.end()) {
      throw Error(ErrorCode::invalid_argument, fmt::format("graph: buffer {} was not captured", captured->id),
                  "swap a buffer that the captured work uses");
    }
    if (replacement->size != it->size) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("graph: buffer {} of {} bytes can't stand in for buffer {} of {}", replacement->id,
                              replacement->size, captured->id, it->size),
                  "swap buffers of equal size");
    }
    const auto needed = static_cast<Usage>(captured->allocation->usage);
    if (!has(static_cast<Usage>(replacement->allocation->usage), needed)) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("graph: buffer {} has usage {}, and buffer {} that it stands in for {}", replacement->id,
                      to_string(static_cast<Usage>(replacement->allocation->usage)), captured->id, to_string(needed)),
          "allocate it with the same usage");
    }
    if (it->current->id != it->id) {
      throw Error(ErrorCode::invalid_argument, fmt::format("graph: buffer {} is swapped twice", captured->id),
                  "swap each buffer once");
    }
    it->current = replacement;
  }
  for (std::size_t i = 0; i < graph.buffers.size(); ++i) {
    if (graph.buffers[i].current) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("graph: buffer {} ({}) is gone", graph.buffers[i].id, place_in(graph, i)),
                "keep a handle of it while the graph is in use");
  }
  return !swaps.empty();
}

/// With buffers swapped, one may now be both written and read by a dispatch (rule 5), or be copied to itself.
void check_swapped_aliasing(const GraphState& graph) {
  for (const CapturedCommand& c : graph.commands) {
    for (std::size_t i = 0; i < c.ranges.size(); ++i) {
      for (std::size_t j = i + 1; j < c.ranges.size(); ++j) {
        const CapturedCommand::Range& a = c.ranges[i];
        const CapturedCommand::Range& b = c.ranges[j];
        if (a.buffer == b.buffer) continue;  // as captured, and checked then
        if (graph.buffers[a.buffer].current != graph.buffers[b.buffer].current) continue;
        if (!c.kernel) {
          throw Error(ErrorCode::invalid_argument, "graph: the swaps make a copy from a buffer to itself",
                      "swap different buffers in");
        }
        const BindingInfo& first = c.kernel->bindings[i];
        const BindingInfo& second = c.kernel->bindings[j];
        if (!first.writable && !second.writable) continue;
        const bool overlap = a.offset < b.offset + b.size && b.offset < a.offset + a.size;
        if (first.writable && second.writable && !overlap) continue;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("graph: the swaps bind one buffer as '{}' and as '{}' of kernel '{}', which writes it",
                                first.name, second.name, c.kernel->label),
                    "swap different buffers in");
      }
    }
  }
}

}  // namespace

namespace dispatch {

std::uint32_t Capture::place_of(const std::shared_ptr<detail::BufferState>& buffer) {
  // From the end: work mostly uses what was made or used just before.
  const auto it = std::find(buffers.rbegin(), buffers.rend(), buffer);
  if (it != buffers.rend()) return static_cast<std::uint32_t>(buffers.rend() - it - 1);
  buffers.push_back(buffer);
  return static_cast<std::uint32_t>(buffers.size() - 1);
}

}  // namespace dispatch

Graph Device::capture(const std::function<void(const Stream&)>& record) {
  if (!record) {
    throw Error(ErrorCode::invalid_argument, "capture: the function is empty", "give one that records the work");
  }
  DeviceState& device = *state_;
  const std::uint64_t before = memory::mint_buffer_id();  // buffers made from here on have higher ids
  Stream stream = make_stream();
  StreamState& s = *stream.state();
  auto capture = std::make_shared<dispatch::Capture>();
  {
    const std::lock_guard lock(s.mutex);
    s.capture = capture;
    s.capturing.store(true, std::memory_order_relaxed);
  }
  struct End {
    StreamState& s;
    ~End() {
      const std::lock_guard lock(s.mutex);
      s.capturing.store(false, std::memory_order_relaxed);
      s.capture = nullptr;
    }
  };
  {
    const End end{s};
    const StreamScope scope(stream);
    record(stream);
  }

  auto graph = std::make_shared<GraphState>();
  graph->device = state_;
  graph->commands = std::move(capture->commands);
  for (auto& b : capture->buffers) {
    detail::GraphBuffer entry;
    entry.id = b->id;
    entry.size = b->size;
    entry.current = b;
    if (b->id > before || b->of_library) {
      entry.own = b;
    } else {
      entry.caller = b;
    }
    graph->buffers.push_back(std::move(entry));
  }
  capture->buffers.clear();

  const std::uint32_t step = std::max(device.gpu.limits().min_uniform_offset_alignment, 256u);
  std::uint32_t params_bytes = 0;
  graph->params.resize(graph->commands.size());
  graph->groups.resize(graph->commands.size());
  graph->run_groups.resize(graph->commands.size());
  for (std::size_t i = 0; i < graph->commands.size(); ++i) {
    const CapturedCommand& c = graph->commands[i];
    for (const CapturedCommand::Range& r : c.ranges) graph->bytes += r.size;
    if (c.kind != CapturedCommand::Kind::dispatch) continue;
    ++graph->dispatches;
    graph->groups[i] = group_of(*graph, c);
    if (c.kernel->params_via == dispatch::ParamsVia::uniform) {
      graph->params[i].offset = params_bytes;
      params_bytes += (c.kernel->params_size + step - 1) / step * step;
    }
  }
  if (params_bytes > 0) {
    graph->params_buffer = device.gpu.create_buffer(
        params_bytes, webgpu::buffer_usage::kUniform | webgpu::buffer_usage::kCopyDst, false, "weft.graph.params");
    std::vector<std::byte> bytes(params_bytes);
    for (std::size_t i = 0; i < graph->commands.size(); ++i) {
      const CapturedCommand& c = graph->commands[i];
      if (!c.kernel || c.kernel->params_via != dispatch::ParamsVia::uniform) continue;
      std::memcpy(bytes.data() + graph->params[i].offset, c.params.data(), c.params.size());
      const webgpu::GroupEntry entry{0, graph->params_buffer.get(), graph->params[i].offset,
                                     (std::uint64_t{c.kernel->params_size} + step - 1) / step * step};
      graph->params[i].group = device.gpu.create_bind_group(device.pipelines.params_layout().get(),
                                                            std::span(&entry, 1), "weft.graph.params");
    }
    device.gpu.write_buffer(graph->params_buffer.get(), 0, bytes);
  }
  graph->named.resize(graph->buffers.size());
  graph->seen.resize(graph->buffers.size());
  for (detail::GraphBuffer& b : graph->buffers) b.current.reset();
  return Graph(std::move(graph));
}

void Graph::run(std::span<const GraphBinding> swaps) const {
  run(Device(state_of(state_).device).stream(), swaps);
}

void Graph::run(const Stream& stream, std::span<const GraphBinding> swaps) const {
  GraphState& graph = state_of(state_);
  if (!stream.state() || &stream.state()->device != graph.device.get()) {
    throw Error(ErrorCode::foreign_buffer, "graph: the stream is empty or of another device",
                "run it on a stream of the device that captured it");
  }
  StreamState& s = *stream.state();
  if (s.capturing.load(std::memory_order_relaxed)) {
    throw Error(ErrorCode::invalid_argument, "graph: the stream is capturing", "capture the kernels themselves");
  }
  const Turn turn(graph);
  const bool swapped = resolve_buffers(graph, swaps);
  if (swapped) {
    check_swapped_aliasing(graph);
    for (std::size_t i = 0; i < graph.commands.size(); ++i) {
      const CapturedCommand& c = graph.commands[i];
      if (c.kind != CapturedCommand::Kind::dispatch) continue;
      const bool touched = std::any_of(c.ranges.begin(), c.ranges.end(), [&](const CapturedCommand::Range& r) {
        return graph.buffers[r.buffer].current->id != graph.buffers[r.buffer].id;
      });
      if (touched) graph.run_groups[i] = group_of(graph, c);
    }
  }
  for (std::size_t i = 0; i < graph.buffers.size(); ++i) graph.named[i] = graph.buffers[i].current->allocation.get();

  const dispatch::BatchWork work{graph.dispatches, static_cast<std::uint32_t>(graph.commands.size()) - graph.dispatches,
                                 graph.bytes};
  dispatch::record_batch(
      s, graph.named, graph.seen, work, [](dispatch::BatchRecorder&) {},
      [&](dispatch::BatchRecorder& recorder) {
        const std::size_t piece = graph.device->options.batch_dispatches;
        for (std::size_t i = 0; i < graph.commands.size(); ++i) {
          if (i > 0 && i % piece == 0) recorder.send_early();
          const CapturedCommand& c = graph.commands[i];
          const auto allocation = [&](std::size_t r) -> memory::Allocation& {
            return *graph.named[c.ranges[r].buffer];
          };
          switch (c.kind) {
            case CapturedCommand::Kind::dispatch: {
              const auto& group = graph.run_groups[i] ? graph.run_groups[i] : graph.groups[i];
              recorder.dispatch(*c.kernel, *group, graph.params[i].group.get(), c.params, c.grid, c.bytes);
              break;
            }
            case CapturedCommand::Kind::copy:
              recorder.copy(allocation(0), c.ranges[0].offset, allocation(1), c.ranges[1].offset, c.ranges[0].size);
              break;
            case CapturedCommand::Kind::clear:
              recorder.clear(allocation(0), c.ranges[0].offset, c.ranges[0].size);
              break;
          }
        }
        recorder.forget_params();
      });
}

void Graph::set_params(std::size_t index, std::span<const std::byte> params) const {
  GraphState& graph = state_of(state_);
  const Turn turn(graph);
  if (index >= graph.commands.size()) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("graph: node {} of a graph that has {}", index, graph.commands.size()),
                "take an index that nodes() lists");
  }
  CapturedCommand& c = graph.commands[index];
  if (c.params.empty() || params.size() != c.params.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("graph: {} bytes of parameters given for node {} ('{}'), which has {}", params.size(),
                            index, label_of(c), c.params.size()),
                "give all of its parameters");
  }
  if (std::equal(params.begin(), params.end(), c.params.begin())) return;
  if (c.kernel->params_via == dispatch::ParamsVia::uniform) {
    // Runs that are recorded and not submitted must still see the old ones.
    graph.device->submit_all();
    std::vector<std::byte> words((params.size() + 3) / 4 * 4);
    std::copy(params.begin(), params.end(), words.begin());
    graph.device->memory->queue_writes().write(graph.params_buffer.get(), graph.params[index].offset, words,
                                               graph.device->deadline({}));
  }
  std::copy(params.begin(), params.end(), c.params.begin());
}

std::vector<GraphNode> Graph::nodes() const {
  std::vector<GraphNode> out;
  for (const CapturedCommand& c : state_of(state_).commands) {
    out.push_back({label_of(c), c.grid, static_cast<std::uint32_t>(c.params.size())});
  }
  return out;
}

bool Graph::uses(const Buffer& buffer) const {
  const std::uint64_t id = buffer.id();
  const auto& buffers = state_of(state_).buffers;
  return std::any_of(buffers.begin(), buffers.end(), [id](const detail::GraphBuffer& b) { return b.id == id; });
}

}  // namespace weft
