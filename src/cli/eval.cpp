// weft eval - an expression over array files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/arrays.h"
#include "cli/common_options.h"
#include "cli/error_report.h"
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
  CommonOptions common;
};

struct Inputs {
  std::map<std::string, io::HostArray> arrays;
  Expression::Types types;
  std::uint64_t bytes = 0;
};

Inputs load_inputs(const EvalOptions& options) {
  Inputs out;
  for (const std::string& word : options.inputs) {
    const auto [name, value] = split_assignment(word, "name=FILE or name=NUMBER");
    if (out.types.contains(name)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is given twice", name), "give each name once");
    }
    if (const auto number = parse_number(value)) {
      out.types.emplace(name, *number);
      continue;
    }
    io::HostArray array = load_array(value, options.common);
    out.types.emplace(name, TensorType{array.shape, *io::device_dtype(array.dtype), value});
    out.bytes += array.bytes.size();
    out.arrays.emplace(name, std::move(array));
  }
  return out;
}

nlohmann::json result_json(const EvalOptions& options, const Tensor& result, const HostBytes& bytes) {
  nlohmann::json out = {{"shape", nlohmann::json::array()}, {"dtype", to_string(result.dtype())}};
  for (std::int64_t n : result.shape()) out["shape"].push_back(n);
  if (!options.output.empty()) out["file"] = options.output;
  const bool is_short = result.size() <= options.common.threshold;
  if (options.output.empty() && is_short) {
    out["values"] = values_json(bytes.data.get(), result.shape(), result.dtype());
  }
  return out;
}

void evaluate(const EvalOptions& options) {
  Report report;
  Progress progress;
  const Expression expression = Expression::parse(options.expression);
  if (!options.output.empty()) check_output(options.output);
  check_trace_file(options.common.trace);
  std::optional<Inputs> inputs;
  {
    const Stopwatch watch(report.times.load);
    progress.phase("loading");
    inputs = load_inputs(options);
  }
  expression.check(inputs->types);

  std::optional<Device> device;
  {
    const Stopwatch watch(report.times.open);
    progress.phase("opening the device");
    device = open_device(options.common.device, KernelsOf::library);
  }
  expression.check(inputs->types, &*device);

  std::optional<Profiler> profiler = start_profile(options.common.trace, *device);
  Expression::Values values;
  {
    const Stopwatch watch(report.times.upload);
    progress.phase("uploading", inputs->bytes);
    for (const auto& [name, type] : inputs->types) {
      if (const Scalar* number = std::get_if<Scalar>(&type))
        values.emplace(name, *number);
      else
        values.emplace(name, upload(*device, inputs->arrays.at(name), &progress));
    }
    inputs->arrays.clear();
  }

  Tensor result;
  {
    const Stopwatch watch(report.times.compute);
    progress.phase("compiling");
    result = expression.evaluate(*device, values, &report.fusion);
    values.clear();
    progress.phase("computing");
    device->synchronize();
  }
  HostBytes bytes;
  {
    const Stopwatch watch(report.times.read);
    progress.phase("reading", result.nbytes());
    bytes = download(result, &progress);
  }
  const std::optional<Trace> trace = finish_profile(profiler);
  if (!options.output.empty()) {
    const Stopwatch watch(report.times.save);
    progress.phase("saving", result.nbytes());
    save(options.output, result, bytes);
  }
  progress.finish();

  report.work = device->stats();
  report.times.compile = report.work.compile_ms;
  if (options.common.stats) print_stats(report);
  report_profile(options.common.trace, trace);
  if (options.common.json) {
    const nlohmann::json out = {
        {"result", result_json(options, result, bytes)}, {"device", device_json(*device)}, {"stats", to_json(report)}};
    fmt::print("{}\n", out.dump());
  } else if (options.output.empty()) {
    fmt::print("{}\n", io::format_array(io::file_dtype(result.dtype()), result.shape(), bytes.span(),
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
  command->add_option("INPUTS", options->inputs, "name=FILE (.npy, .npz:array, .safetensors:tensor) or name=NUMBER");
  command->add_option("-o,--output", options->output, "Write the result to this .npy file instead of printing it");
  add_common_options(*command, options->common);
  command->footer(
      "Examples:\n"
      "  weft eval 'relu(x @ w + b)' x=x.npy w=w.npy b=b.npy -o y.npy\n"
      "  weft eval 'd = sum(a*a, 1, keepdims=1) - 2*(a @ b.T) + sum(b*b, 1); argmin(d, axis=1)' a=a.npy b=b.npy\n"
      "  weft eval 'x * k' x=data.npz:x k=2.5 --stats\n"
      "  weft eval 'softmax(x @ w)' x=x.npy w=w.npy -o y.npy --profile --trace trace.json\n"
      "A number is a number: for a file named 3 write ./3.");
  command->callback([options] { evaluate(*options); });
}

}  // namespace weft::cli
