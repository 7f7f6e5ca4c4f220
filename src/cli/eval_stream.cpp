#include "cli/eval_stream.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/progress.h"
#include "io/pieces.h"
#include "weft/io.h"

namespace weft::cli {

void add_stream_options(CLI::App& command, EvalStreamOptions& to) {
  CLI::Option* always = command.add_flag("--stream", to.always,
                                         "Read large inputs in blocks, and write the result so, whatever their size");
  command.add_flag("--no-stream", to.never, "Never do that")->excludes(always);
  add_size_option(command, "--memory", to.memory,
                  "Device memory to use, as 512M or 8G; what takes more runs in blocks (WEFT_MEMORY_BYTES; half of the "
                  "free memory where the device uses the host's, else 2G)");
  add_size_option(command, "--block-bytes", to.block_bytes,
                  "Bytes of the largest array of a block (16M; 4M on CPU devices)");
}

StreamDecision::StreamDecision(const Expression& expression, const Device& device, const Expression::Types& types,
                               const Expression::Sources& sources, const EvalStreamOptions& options)
    : expression_(expression),
      device_(device),
      sources_(sources),
      options_(options),
      budget_(memory_budget(device, options.memory)),
      memory_(budget_.bytes) {
  if (options.never) return;
  const MemoryNeed need = expression.memory_need(types);
  const bool too_large =
      need.largest_tensor > device.limits().max_buffer_size || (budget_.limit != 0 && need.bytes > budget_.limit);
  const bool better = too_large || options.always || need.bytes > budget_.bytes ||
                      need.largest_tensor > device.limits().max_storage_binding_size;
  if (!better) return;
  make_plan();
  const std::optional<Error>& refusal = plan().refusal;
  if (refusal && (options.always || too_large)) throw *refusal;
  streams_ = !refusal;
}

bool StreamDecision::falls_back() {
  if (options_.never) return false;
  // Less each time, so that there is an end; a device that had no room for the first array tells nothing.
  const std::uint64_t had = streams_ ? plan().bytes : device_.stats().peak_bytes;
  memory_ = std::min(memory_ / 2, had != 0 ? had / 2 : memory_);
  if (memory_ == 0) return false;
  plan_.reset();
  make_plan();
  streams_ = !plan().refusal;
  return streams_;
}

void StreamDecision::make_plan() {
  if (plan_) return;
  plan_ = expression_.plan_stream(device_, sources_, {.memory = memory_, .block_bytes = options_.block_bytes});
}

std::optional<Tensor> evaluate_in_blocks(const Expression& expression, const Device& device,
                                         const Expression::Sources& sources, const StreamOptions& options,
                                         const StreamPlan& plan, const TensorType& result, const std::string& output,
                                         HostBytes& bytes, Progress& progress, Report& report) {
  const Stopwatch watch(report.times.stream);
  report.blocks = plan.blocks;
  report.passes = plan.passes;
  report.streamed_bytes = plan.transfer_bytes;
  progress.phase("streaming", plan.transfer_bytes);
  std::optional<UnfinishedFile> unfinished;
  std::unique_ptr<io::NpyWriter> file;
  if (plan.result_axis && !output.empty()) {
    const bool special = is_written_in_place(output);
    std::optional<HoldInterrupts> hold;  // until the handler knows of the file
    if (!special) hold.emplace();
    file = std::make_unique<io::NpyWriter>(output, io::file_dtype(result.dtype), result.shape);
    if (!special) unfinished.emplace(file->temporary());
  } else if (plan.result_axis) {
    bytes.size = static_cast<std::size_t>(element_count(result.shape)) * size_of(result.dtype);
    bytes.data = std::make_unique_for_overwrite<std::byte[]>(bytes.size);
  }
  const auto sink = [&](std::size_t axis, std::int64_t begin, std::int64_t end, std::span<const std::byte> block) {
    if (file) return file->write(axis, begin, end, block);
    const io::Pieces p = io::pieces_of(result.shape, false, axis, begin, end, size_of(result.dtype));
    for (std::size_t i = 0; i < p.count; ++i) {
      std::copy_n(block.data() + i * p.size, p.size, bytes.data.get() + p.first + i * p.step);
    }
  };
  StreamOptions stream = options;
  stream.advance = [&](std::uint64_t n) { progress.advance(n); };
  std::optional<Tensor> whole = expression.stream(device, sources, sink, stream, &report.fusion);
  if (file) {
    std::optional<HoldInterrupts> hold;
    if (unfinished) hold.emplace();
    progress.phase("flushing");
    file->finish();
  }
  return whole;
}

}  // namespace weft::cli
