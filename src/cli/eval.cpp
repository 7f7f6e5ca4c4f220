// weft eval - an expression over array files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/arrays.h"
#include "cli/common_options.h"
#include "cli/error_report.h"
#include "cli/eval_inputs.h"
#include "cli/eval_stream.h"
#include "cli/option_values.h"
#include "cli/progress.h"
#include "cli/stats_report.h"
#include "weft/expr.h"
#include "weft/io.h"

namespace weft::cli {
namespace {

struct EvalOptions {
  std::string expression;
  std::vector<std::string> inputs;
  std::string output;
  EvalStreamOptions stream;
  CommonOptions common;
};

/// What there is of a result on the host.
struct Result {
  TensorType type;
  HostBytes bytes;
};

nlohmann::json result_json(const EvalOptions& options, const Result& result) {
  nlohmann::json out = {{"shape", nlohmann::json::array()}, {"dtype", to_string(result.type.dtype)}};
  for (std::int64_t n : result.type.shape) out["shape"].push_back(n);
  if (!options.output.empty()) out["file"] = options.output;
  const bool is_short = element_count(result.type.shape) <= options.common.threshold;
  if (options.output.empty() && is_short) {
    out["values"] = values_json(result.bytes.data.get(), result.type.shape, result.type.dtype);
  }
  return out;
}

Tensor evaluate_at_once(const Expression& expression, const Device& device, EvalInputs& inputs, Progress& progress,
                        Report& report) {
  Expression::Values values = inputs.upload(device, progress, report.times.load, report.times.upload);
  const Stopwatch watch(report.times.compute);
  progress.phase("compiling");
  Tensor result = expression.evaluate(device, values, &report.fusion);
  values.clear();
  progress.phase("computing");
  Device(device).synchronize();
  return result;
}

/// Reads the result, and writes it to the file when there is one.
void deliver(const EvalOptions& options, const Tensor& tensor, Result& result, Progress& progress, Report& report) {
  {
    const Stopwatch watch(report.times.read);
    progress.phase("reading", tensor.nbytes());
    result.bytes = download(tensor, &progress);
  }
  if (options.output.empty()) return;
  const Stopwatch watch(report.times.save);
  progress.phase("saving", tensor.nbytes());
  save(options.output, tensor, result.bytes);
}

void evaluate(const EvalOptions& options) {
  Report report;
  Progress progress(!options.common.no_progress);
  const Expression expression = Expression::parse(options.expression);
  if (!options.output.empty()) check_output(options.output);
  check_trace_file(options.common.trace, options.output);
  std::optional<EvalInputs> inputs;
  {
    const Stopwatch watch(report.times.load);
    progress.phase("opening the files");
    inputs.emplace(options.inputs, options.common);
  }
  expression.check(inputs->types());

  std::optional<Device> device;
  {
    const Stopwatch watch(report.times.open);
    progress.phase("opening the device");
    device = open_device(options.common.device, KernelsOf::library);
  }
  Result result{expression.check(inputs->types(), &*device), {}};
  const Expression::Sources sources = inputs->sources();
  StreamDecision decision(expression, *device, inputs->types(), sources, options.stream);

  std::optional<Profiler> profiler = start_profile(options.common.trace, *device);
  std::optional<Tensor> tensor;
  for (bool tried = false; !tried;) {
    try {
      tensor = decision.streams()
                   ? evaluate_in_blocks(expression, *device, sources,
                                        {.memory = decision.memory(), .block_bytes = options.stream.block_bytes},
                                        decision.plan(), result.type, options.output, result.bytes, progress, report)
                   : evaluate_at_once(expression, *device, *inputs, progress, report);
      tried = true;
    } catch (const Error& error) {
      const bool final = error.code() != ErrorCode::out_of_memory ||
                         (decision.streams() && is_written_in_place(options.output)) || !decision.falls_back();
      if (final) throw;
      print_note(fmt::format("the device ran out of memory: once more, in {} blocks (--memory says how much there is)",
                             decision.plan().blocks));
      device->trim();
    }
  }
  if (decision.streams()) inputs->print_notes();
  if (tensor) deliver(options, *tensor, result, progress, report);
  const std::optional<Trace> trace = finish_profile(profiler);
  progress.finish();

  report.work = device->stats();
  report.times.compile = report.work.compile_ms;
  if (options.common.stats) print_stats(report);
  report_profile(options.common.trace, trace);
  if (options.common.json) {
    const nlohmann::json out = {
        {"result", result_json(options, result)}, {"device", device_json(*device)}, {"stats", to_json(report)}};
    fmt::print("{}\n", json_text(out));
  } else if (options.output.empty()) {
    fmt::print("{}\n", io::format_array(io::file_dtype(result.type.dtype), result.type.shape, result.bytes.span(),
                                        static_cast<std::size_t>(options.common.threshold)));
  }
}

}  // namespace

void add_eval(CLI::App& app) {
  const auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand("eval", "Evaluate an expression over array files, as numpy would");
  command
      ->add_option("EXPR", options->expression,
                   "The expression; statements are parted by ; and the last one's value "
                   "is the result")
      ->required();
  command->add_option("INPUTS", options->inputs,
                      "name=FILE (.npy, .npz:array, .safetensors:tensor; - is the standard input) or name=NUMBER");
  command
      ->add_option("-o,--output", options->output,
                   "Write the result to this .npy file instead of printing it; - is the standard output")
      ->check(file_name());
  add_stream_options(*command, options->stream);
  add_common_options(*command, options->common);
  command->footer(
      "Examples:\n"
      "  weft eval 'relu(x @ w + b)' x=x.npy w=w.npy b=b.npy -o y.npy\n"
      "  weft eval 'd = sum(a*a, 1, keepdims=1) - 2*(a @ b.T) + sum(b*b, 1); argmin(d, axis=1)' a=a.npy b=b.npy\n"
      "  weft eval 'x * k' x=data.npz:x k=2.5 --stats\n"
      "  weft eval 'softmax(x @ w)' x=x.npy w=w.npy -o y.npy --profile --trace trace.json\n"
      "  weft eval '(x - mean(x, 0)) / std(x, 0)' x=80GB.npy -o y.npy --memory 4G\n"
      "Files larger than the device's memory are read and written in blocks where the expression allows it.\n"
      "A number is a number: for a file named 3 write ./3.");
  command->callback([options] {
    options->output = output_path(options->output, options->common.json);
    evaluate(*options);
  });
}

}  // namespace weft::cli
