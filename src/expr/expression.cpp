#include "weft/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "expr/block_run.h"
#include "expr/diagnostic.h"
#include "expr/evaluate.h"
#include "expr/footprint.h"
#include "expr/functions.h"
#include "expr/fuse.h"
#include "expr/names.h"
#include "expr/parse.h"
#include "expr/translate.h"
#include "weft/error.h"

namespace weft {

struct Expression::State {
  expr::Program program;
  std::vector<std::string> inputs;
};

namespace {

/// Operations ready to run.
struct Checked {
  expr::Graph graph;
  expr::Plan plan;
};

Checked check_program(const expr::Program& program, const Expression::Types& inputs, const Device* device) {
  Checked out;
  const expr::OpId result = expr::Translator(program, inputs, out.graph).run();
  out.plan = make_plan(out.graph, result);
  if (device == nullptr || device->features().f16) return out;
  for (const expr::Step& step : out.plan.steps) {
    for (expr::OpId id : step.members) {
      if (out.graph.dtype(id) != DType::f16) continue;
      throw make_error(ErrorCode::unsupported, program.source, out.graph[id].span, "the device lacks float16",
                       fmt::format("this is float16, and the device is '{}'", device->adapter().name),
                       "cast the arrays to float32 in their files, or open another device");
    }
  }
  return out;
}

EvalStats stats_of(const expr::Graph& graph, const expr::Plan& plan) {
  EvalStats stats;
  stats.operations = plan.operations;
  for (const expr::Step& step : plan.steps) {
    if (graph[step.result].kind != expr::OpKind::input) ++stats.steps;
  }
  stats.fused = stats.operations - stats.steps;
  return stats;
}

expr::Explain explain_in(const expr::Program& program) {
  return [&program](const Error& error, expr::Span span) {
    throw make_error(error.code(), program.source, span, "can't run this", error.message(), error.fix());
  };
}

}  // namespace

Expression Expression::parse(std::string text, std::string name) {
  auto state = std::make_shared<State>(State{expr::parse(expr::Source(std::move(text), std::move(name))), {}});
  for (const expr::FreeName& f : free_names(state->program)) {
    const bool of_language = f.only_called || expr::find_function(f.name) != nullptr ||
                             (expr::is_module(f.name) && f.is_prefix) || expr::is_constant(f.name);
    if (!of_language) state->inputs.push_back(f.name);
  }
  return Expression(std::move(state));
}

const std::string& Expression::text() const noexcept {
  return state_->program.source.text();
}

const std::vector<std::string>& Expression::inputs() const noexcept {
  return state_->inputs;
}

TensorType Expression::check(const Types& inputs, const Device* device) const {
  const Checked checked = check_program(state_->program, inputs, device);
  return {checked.graph.shape(checked.plan.result), checked.graph.dtype(checked.plan.result), {}};
}

Tensor Expression::evaluate(const Device& device, const Values& inputs, EvalStats* stats) const {
  Types types;
  for (const auto& [name, value] : inputs) {
    if (const Scalar* number = std::get_if<Scalar>(&value)) {
      types.emplace(name, *number);
      continue;
    }
    const Tensor& tensor = std::get<Tensor>(value);
    if (tensor.device().id() != device.id()) {
      throw Error(ErrorCode::foreign_buffer,
                  fmt::format("{}: '{}' is owned by device {}, and the expression runs on device {}",
                              state_->program.source.name(), name, tensor.device().id(), device.id()),
                  "upload it to the device that evaluates");
    }
    types.emplace(name, TensorType{tensor.shape(), tensor.dtype(), {}});
  }
  const Checked checked = check_program(state_->program, types, &device);
  if (stats != nullptr) *stats = stats_of(checked.graph, checked.plan);
  const auto input = [&](const std::string& name) { return std::get<Tensor>(inputs.at(name)); };
  return expr::evaluate(device, checked.graph, checked.plan, input, explain_in(state_->program));
}

namespace {

/// Of the largest tensor of a block, where the caller does not say. Large enough that what each block costs the host
/// (some 100 us) is little beside its transfer; a CPU device's block better stays in a core's cache between the stages
/// (docs/decisions/007).
constexpr std::uint64_t kBlockBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kBlockBytesOnCpu = std::uint64_t{4} << 20;

const TensorType& type_of(const BlockSource& source) {
  return source.type;
}
TensorType type_of(const Tensor& tensor) {
  return {tensor.shape(), tensor.dtype(), {}};
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  if (unit == 0) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

/// "the input 'x'", else the text that makes the value.
std::string value_text(const expr::Graph& graph, const expr::Program& program, expr::OpId id) {
  if (graph[id].kind == expr::OpKind::input) return fmt::format("the input '{}'", graph[id].name);
  return fmt::format("'{}'", expr::excerpt(program.source.text(graph[id].span)));
}

struct StreamChecked {
  Checked checked;
  expr::BlockChoice choice;
  StreamPlan plan;
};

Error refusal_of(const expr::Program& program, const StreamChecked& s, std::uint64_t memory, bool has_sources) {
  const expr::Graph& graph = s.checked.graph;
  const std::string needs =
      fmt::format("at once it takes {} of device memory, and {} may be used",
                  size_text(expr::whole_footprint(graph, s.checked.plan).bytes), size_text(memory));
  const std::string fix =
      "give more memory (--memory, WEFT_MEMORY_BYTES) if the device has it, or split the work into expressions that "
      "can be evaluated in blocks (docs/expressions.md)";
  if (s.choice.least_bytes > 0) {
    const expr::OpId largest = s.choice.footprint.largest_whole;
    return make_error(ErrorCode::unsupported, program.source, graph[largest].span, "too large even in blocks",
                      fmt::format("in blocks of one row it takes {}: {} of shape {} stays whole, {}; {}",
                                  size_text(s.choice.least_bytes), value_text(graph, program, largest),
                                  to_string(graph.shape(largest)), size_text(expr::bytes_of(graph, largest)), needs),
                      fix);
  }
  const std::string why = !has_sources                    ? "no input is read from a file"
                          : s.choice.obstacle.why.empty() ? "no input has an axis of 2 or more elements"
                                                          : s.choice.obstacle.why;
  const expr::OpId at = s.choice.obstacle.why.empty() ? s.checked.plan.result : s.choice.obstacle.op;
  return make_error(ErrorCode::unsupported, program.source, graph[at].span, "can't be evaluated in blocks",
                    fmt::format("{}; {}", why, needs), fix);
}

StreamChecked check_stream(const expr::Program& program, const Device& device, const Expression::Sources& inputs,
                           const StreamOptions& options) {
  Expression::Types types;
  for (const auto& [name, value] : inputs) {
    if (const Scalar* number = std::get_if<Scalar>(&value)) types.emplace(name, *number);
    if (const Tensor* tensor = std::get_if<Tensor>(&value)) types.emplace(name, type_of(*tensor));
    if (const BlockSource* source = std::get_if<BlockSource>(&value)) types.emplace(name, type_of(*source));
  }
  StreamChecked out{check_program(program, types, &device), {}, {}};
  const expr::Graph& graph = out.checked.graph;
  std::map<expr::OpId, bool> sources;
  for (const expr::Step& step : out.checked.plan.steps) {
    const expr::Operation& op = graph[step.result];
    if (op.kind != expr::OpKind::input) continue;
    if (const auto* source = std::get_if<BlockSource>(&inputs.at(op.name))) {
      sources[step.result] = source->fortran_order;
    }
  }
  const std::uint64_t memory = options.memory != 0 ? options.memory : memory_budget(device).bytes;
  const std::uint64_t usual = device.adapter().type == AdapterType::cpu ? kBlockBytesOnCpu : kBlockBytes;
  const std::uint64_t block = options.block_bytes != 0 ? options.block_bytes : usual;
  out.choice = expr::choose_blocks(graph, out.checked.plan.result, sources,
                                   {memory, block, device.limits().max_storage_binding_size});
  if (!out.choice.blocks) {
    out.plan.refusal = refusal_of(program, out, memory, !sources.empty());
    return out;
  }
  const expr::Blocks& blocks = *out.choice.blocks;
  out.plan.bytes = out.choice.bytes;
  for (const expr::BlockPass& pass : blocks.passes) {
    for (expr::OpId id : pass.inputs) out.plan.transfer_bytes += expr::bytes_of(graph, id);
  }
  if (blocks.result().axis) out.plan.transfer_bytes += expr::bytes_of(graph, blocks.plan.result);
  out.plan.blocks = out.choice.count;
  out.plan.passes = blocks.passes.size();
  for (const auto& [id, axis] : blocks.inputs) out.plan.inputs[graph[id].name] = axis;
  out.plan.result_axis = blocks.result().axis;
  return out;
}

/// All of an input that stays whole.
Tensor read_whole(const Device& device, const BlockSource& source) {
  const Shape& shape = source.type.shape;
  std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(shape)) * size_of(source.type.dtype));
  if (!bytes.empty()) source.read(0, 0, shape.rank() == 0 ? 1 : shape[0], bytes);
  if (!source.fortran_order || shape.rank() < 2) return Device(device).upload_array(bytes, shape, source.type.dtype);
  Shape reversed = shape;
  std::reverse(reversed.begin(), reversed.end());
  return transpose(Device(device).upload_array(bytes, reversed, source.type.dtype));
}

}  // namespace

MemoryNeed Expression::memory_need(const Types& inputs) const {
  const Checked checked = check_program(state_->program, inputs, nullptr);
  const expr::WholeFootprint whole = expr::whole_footprint(checked.graph, checked.plan);
  return {whole.bytes, expr::bytes_of(checked.graph, whole.largest)};
}

StreamPlan Expression::plan_stream(const Device& device, const Sources& inputs, const StreamOptions& options) const {
  return check_stream(state_->program, device, inputs, options).plan;
}

std::optional<Tensor> Expression::stream(const Device& device, const Sources& inputs, const BlockSink& sink,
                                         const StreamOptions& options, EvalStats* stats) const {
  const StreamChecked checked = check_stream(state_->program, device, inputs, options);
  if (checked.plan.refusal) throw *checked.plan.refusal;
  const expr::Graph& graph = checked.checked.graph;
  if (stats != nullptr) *stats = stats_of(graph, checked.choice.blocks.value().plan);
  const auto source = [&](const expr::Operation& op) -> const BlockSource& {
    return std::get<BlockSource>(inputs.at(op.name));
  };
  const expr::BlockJob job{device,
                           graph,
                           checked.choice.blocks.value(),
                           checked.choice.count,
                           [&](const expr::Operation& op) {
                             const Tensor* tensor = std::get_if<Tensor>(&inputs.at(op.name));
                             return tensor != nullptr ? *tensor : read_whole(device, source(op));
                           },
                           [&](const expr::Operation& op, std::size_t axis, std::int64_t begin, std::int64_t end,
                               std::span<std::byte> out) { source(op).read(axis, begin, end, out); },
                           [&](const expr::Operation& op) { return source(op).fortran_order; },
                           sink,
                           [&](std::uint64_t bytes) {
                             if (options.advance) options.advance(bytes);
                           },
                           explain_in(state_->program)};
  return expr::run_blocks(job);
}

}  // namespace weft
